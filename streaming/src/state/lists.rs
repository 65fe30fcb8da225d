//! A snapshot of the lists of operator state that is written while records change them.
//!
//! A barrier only notes how many values each list has; the slices that follow write the values up to that number. A list changes in few
//! ways, and none of them costs the snapshot a value:
//!
//! - A value that is appended comes behind the number that was noted.
//! - A list whose values the function takes away encodes those that are not written first, because the function owns them afterwards.
//! - A list that is cleared, or dropped because the function has put another one into its place, leaves its values to the snapshot.
//!
//! Values are written in runs, each a snapshot of its own with the number of the subtask and the index of its first value, so that a
//! restore may read them in any order.

use super::{
    ListState, OperatorState, RowWriter, StateError,
    chunks::{CHUNK_BYTES, Pool, Slice},
    operator::IN_RUNS,
    snapshot::write_fields,
};
use crate::{
    lock,
    seam::StateChunk,
    types::{CodecError, FlottType, check_written, nested, write_len, write_varint},
};
use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{Arc, Mutex},
    vec,
};

/// The values of one list that the running snapshot still has to write. The list and the snapshot share it.
pub(super) struct Unwritten<V> {
    /// The number of the list's field.
    field: u32,
    rest: Mutex<Rest<V>>,
}

struct Rest<V> {
    /// The runs that were encoded because the function took the values away.
    encoded: VecDeque<Run>,
    /// The values from `next` on of a list that was cleared or dropped.
    kept: vec::IntoIter<V>,
    /// The index of the first value that is neither written nor encoded.
    next: usize,
    /// The number of values that the list had at the barrier.
    end: usize,
    /// The error of a value that could not be encoded when the function took the values away. The snapshot fails with it.
    refused: Option<CodecError>,
}

/// Encoded values that follow each other in a list.
struct Run {
    /// The index of the first value.
    first: usize,
    count: usize,
    bytes: Vec<u8>,
}

impl<V> Unwritten<V> {
    /// Takes over the values of a list that does not need them any more.
    pub(super) fn keep(&self, mut values: Vec<V>) {
        let mut rest = lock(&self.rest);
        if rest.next < rest.end {
            values.truncate(rest.end);
            rest.kept = values.into_iter();
            let written = rest.next;
            rest.kept.by_ref().take(written).for_each(drop);
        }
    }
}

impl<V: FlottType> Unwritten<V> {
    /// Encodes what is not written of the list's `values`, which the function takes away.
    pub(super) fn encode(&self, values: &[V]) {
        let mut rest = lock(&self.rest);
        while let Some(left) = rest.left_of(values) {
            let mut bytes = Vec::new();
            let count = encode_run(left, CHUNK_BYTES, &mut bytes, |_| true);
            let first = rest.next;
            rest.next += count;
            rest.encoded.push_back(Run { first, count, bytes });
        }
        rest.refused = check_written().err();
    }

    /// Writes the list's `values` until the slice ends.
    fn write(&self, values: &[V], chunks: &mut Chunks, slice: &mut Slice<'_>) {
        let mut rest = lock(&self.rest);
        while let Some(left) = rest.left_of(values) {
            if chunks.are_stopped(slice) {
                return;
            }
            rest.next += chunks.write_run(self.field, rest.next, left, slice);
        }
    }
}

impl<V> Rest<V> {
    /// Returns the values of the list that are still to be written; `None` if there are none.
    fn left_of<'v>(&self, values: &'v [V]) -> Option<&'v [V]> {
        values.get(self.next..self.end).filter(|left| !left.is_empty())
    }
}

/// An [`Unwritten`] of any type of values, as the snapshot has it.
trait Pending: Send + Sync {
    /// Writes what the list has left to the snapshot, until the slice ends. Fails if a value of it could not be encoded.
    fn write_left(&self, chunks: &mut Chunks, slice: &mut Slice<'_>) -> Result<(), CodecError>;
    /// Returns true if all values are written.
    fn is_written(&self) -> bool;
    /// Frees what is left: the snapshot does not become complete.
    fn abandon(&self);
}

impl<V: FlottType> Pending for Unwritten<V> {
    fn write_left(&self, chunks: &mut Chunks, slice: &mut Slice<'_>) -> Result<(), CodecError> {
        let mut rest = lock(&self.rest);
        if let Some(error) = rest.refused {
            return Err(error);
        }
        while !rest.encoded.is_empty() && !chunks.are_stopped(slice) {
            if let Some(Run { first, count, bytes }) = rest.encoded.pop_front() {
                chunks.write_row(self.field, first, count, &bytes);
                slice.goes_on(bytes.len());
            }
        }
        while !rest.kept.as_slice().is_empty() && !chunks.are_stopped(slice) {
            let count = chunks.write_run(self.field, rest.next, rest.kept.as_slice(), slice);
            // Each is freed as soon as it is written.
            rest.kept.by_ref().take(count).for_each(drop);
            rest.next += count;
        }
        Ok(())
    }

    fn is_written(&self) -> bool {
        let rest = lock(&self.rest);
        rest.encoded.is_empty() && rest.next >= rest.end
    }

    fn abandon(&self) {
        let mut rest = lock(&self.rest);
        rest.next = rest.end;
        rest.encoded = VecDeque::new();
        rest.kept = Vec::new().into_iter();
    }
}

/// Appends encoded values to `out` until it has `room` bytes or more, or until `goes_on`, which gets the bytes of each value, returns
/// false. Returns the number of values, at least 1 if there are any.
fn encode_run<V: FlottType>(
    values: &[V],
    room: usize,
    out: &mut Vec<u8>,
    mut goes_on: impl FnMut(usize) -> bool,
) -> usize {
    let mut count = 0;
    // As deep as in the list that a restore reads.
    nested::<V>(|| {
        for value in values {
            let before = out.len();
            value.encode(out);
            count += 1;
            if !goes_on(out.len().saturating_sub(before)) || out.len() >= room {
                break;
            }
        }
    });
    count
}

/// The chunks that runs are written to.
#[derive(Debug, Default)]
struct Chunks {
    /// The beginning of every run.
    head: Vec<u8>,
    open: Vec<u8>,
    full: Vec<StateChunk>,
    /// True if the snapshot has a run or more.
    has_runs: bool,
    rows: RowWriter,
    /// The encoded values of a run.
    values: Vec<u8>,
    pool: Pool,
    /// True if the host stores chunks while the snapshot is written.
    are_stored: bool,
    /// True if the slice has ended before the work.
    stopped: bool,
}

impl Chunks {
    /// Returns true if no more can be written in this slice.
    fn are_stopped(&mut self, slice: &mut Slice<'_>) -> bool {
        let waits = self.are_stored && self.pool.is_used_up();
        if waits {
            slice.wait();
        }
        self.stopped |= waits || !slice.goes_on(0);
        self.stopped
    }

    /// Writes the first of the values as a run, until a chunk is full or the slice ends. Returns the number of values that were written.
    fn write_run<V: FlottType>(
        &mut self,
        field: u32,
        first: usize,
        values: &[V],
        slice: &mut Slice<'_>,
    ) -> usize {
        let mut encoded = mem::take(&mut self.values);
        encoded.clear();
        let room = CHUNK_BYTES.saturating_sub(self.open.len());
        let goes_on = |bytes| slice.goes_on(bytes + size_of::<V>());
        let count = encode_run(values, room, &mut encoded, goes_on);
        self.write_row(field, first, count, &encoded);
        self.values = encoded;
        count
    }

    fn write_row(&mut self, field: u32, first: usize, count: usize, values: &[u8]) {
        self.write_rows(|rows| {
            let write = |out: &mut Vec<u8>| {
                write_len(count, out);
                out.extend_from_slice(values);
            };
            rows.fields(field).row(|entry| (first as u64).encode(entry), write);
        });
        if self.open.len() >= CHUNK_BYTES {
            self.end_chunk();
        }
    }

    fn write_rows(&mut self, rows: impl FnOnce(&mut RowWriter)) {
        // The first chunk grows, because most operator state is small.
        if self.open.is_empty() && mem::replace(&mut self.has_runs, true) {
            self.open = self.pool.take();
        }
        self.open.extend_from_slice(&self.head);
        self.rows.write(&mut self.open, rows);
    }

    fn end_chunk(&mut self) {
        let bytes = mem::take(&mut self.open);
        if !bytes.is_empty() {
            let bytes = self.pool.full(bytes);
            self.full.push(StateChunk { groups: None, is_early: false, bytes });
        }
    }
}

/// The snapshot of an operator's state that is being written, and the memory for the next one.
#[derive(Default)]
pub(crate) struct ListSnapshot {
    /// The lists that are not written to their ends.
    lists: Vec<Arc<dyn Pending>>,
    chunks: Chunks,
    is_writing: bool,
}

impl fmt::Debug for ListSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListSnapshot").field("lists", &self.lists.len()).finish_non_exhaustive()
    }
}

impl ListSnapshot {
    /// Begins the snapshot of the present values of subtask number `subtask`. One that is not complete is dropped.
    pub(crate) fn begin<S: OperatorState>(&mut self, state: &mut S, subtask: u32) {
        self.abort();
        let head = &mut self.chunks.head;
        head.clear();
        head.push(IN_RUNS);
        write_varint(u64::from(subtask), head);
        write_fields(&S::declare(), head);
        self.chunks.has_runs = false;
        self.is_writing = true;
        state.lists(&mut ListPass(Pass::Begin(&mut self.lists)));
    }

    /// Writes values until the slice ends, and moves chunks that became full to the slice. Returns true if the snapshot is complete.
    ///
    /// # Errors
    /// Fails with [`StateError::Codec`] if a value cannot be encoded, [`StateError::MovedList`] if a list that is not written is not in
    /// the state.
    pub(crate) fn write<S: OperatorState>(
        &mut self,
        state: &mut S,
        slice: &mut Slice<'_>,
    ) -> Result<bool, StateError> {
        if !self.is_writing {
            return Ok(true);
        }
        let Self { lists, chunks, .. } = self;
        (chunks.are_stored, chunks.stopped) = (slice.stored, false);
        for list in lists.iter() {
            list.write_left(chunks, slice)?;
        }
        state.lists(&mut ListPass(Pass::Write(chunks, slice)));
        lists.retain(|list| !list.is_written());
        let done = lists.is_empty();
        if done {
            if !chunks.has_runs {
                // A restore counts the subtasks that had a state.
                chunks.write_rows(|_| {});
            }
            chunks.end_chunk();
            chunks.values = Vec::new();
            self.is_writing = false;
        }
        slice.chunks.append(&mut chunks.full);
        check_written()?;
        // A list that was found was written as long as the slice went on.
        if done || chunks.stopped { Ok(done) } else { Err(StateError::MovedList) }
    }

    /// Drops the snapshot, if one is being written.
    pub(crate) fn abort(&mut self) {
        self.is_writing = false;
        for list in self.lists.drain(..) {
            list.abandon();
        }
        self.chunks.open = Vec::new();
        self.chunks.full.clear();
    }
}

/// A walk of a [`ListSnapshot`] over the fields of an operator's state, each of which calls [`ListPass::list`].
#[doc(hidden)]
#[derive(Debug)]
pub struct ListPass<'a, 's>(Pass<'a, 's>);

enum Pass<'a, 's> {
    Begin(&'a mut Vec<Arc<dyn Pending>>),
    Write(&'a mut Chunks, &'a mut Slice<'s>),
}

impl fmt::Debug for Pass<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Begin(_)) { "Begin" } else { "Write" })
    }
}

impl ListPass<'_, '_> {
    /// Begins the list's part of a snapshot, or writes values of it; `field` is the number of the list's field.
    pub(super) fn list<V: FlottType>(&mut self, field: u32, list: &mut ListState<V>) {
        let (values, unwritten) = list.parts();
        match (&mut self.0, unwritten) {
            (Pass::Begin(lists), unwritten) => {
                let (encoded, kept) = (VecDeque::new(), Vec::new().into_iter());
                let rest =
                    Mutex::new(Rest { encoded, kept, next: 0, end: values.len(), refused: None });
                let begun = Arc::new(Unwritten { field, rest });
                *unwritten = Some(begun.clone());
                lists.push(begun);
            }
            (Pass::Write(chunks, slice), Some(begun)) => begun.write(values, chunks, slice),
            (Pass::Write(..), None) => {}
        }
    }
}

#[cfg(test)]
mod tests;
