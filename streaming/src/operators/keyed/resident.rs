//! The access of keyed operators to their state. It makes the keys of a batch resident, parks the records whose keys are not,
//! and processes those records once their keys are. In memory nothing is ever parked, and the compiler removes that path.

use super::{KeySelector, Keyed};
use crate::{
    batch::{Batch, Columns, NO_TIME},
    operators::{OperatorContext, OperatorMail, Pace, Timer},
    seam::{Interrupt, TaskError},
    state::{
        END, Incremental, Kept, KeyAddress, KeyGroups, Slice, SnapshotKind, StateBackend,
        StateError, Table, read_entries, read_next, write_changes_head, write_head, write_snapshot,
    },
    types::{Key, Reader},
};
use hashbrown::hash_table::Entry;
use model::graph::StateDeclaration;
use std::{collections::VecDeque, marker::PhantomData};

/// Processes the records and timers of a keyed operator once their keys are resident.
pub(in crate::operators) trait Work<T, S: KeySelector<T>, B> {
    /// Turns to the event time of the records that come next, in milliseconds since 1970 or [`NO_TIME`](crate::batch::NO_TIME).
    fn turn_to(&mut self, time: i64);
    /// Processes a record. Returns true if the operator goes on with the next record of the batch.
    fn record(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError>;
    /// Fires a timer of a key.
    fn timer(
        &mut self,
        _backend: &mut B,
        _at: KeyAddress,
        _key: S::Key,
        _timer: Timer,
    ) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Returns the columns that a keyed operator looks at.
#[inline(always)]
pub(in crate::operators) const fn columns<T, S: KeySelector<T>>() -> Columns {
    Columns { times: true, hashes: S::HASH_TRAVELS }
}

/// A record or timer that waits for its key to become resident.
enum Parked<T> {
    Record(T, i64),
    Timer(Timer),
}

/// Ticket of the mail with which an operator continues after an interruption; no backend uses it for a read.
const CONTINUE: u32 = u32::MAX;

/// Number of parked records and timers at which an operator takes no more records.
const MOST_PARKED: usize = 16 * crate::operators::BATCH_RECORDS;

/// The state of a keyed operator, and the records and timers that wait for keys to become resident.
pub(in crate::operators) struct Resident<K, V, T, B> {
    pub(in crate::operators) backend: B,
    groups: KeyGroups,
    fields: Vec<StateDeclaration>,
    /// Waiting records and timers of each key that is being fetched, in their order.
    parked: Table<K, Vec<Parked<T>>>,
    parked_count: usize,
    /// Keys whose state has arrived and whose parked records and timers wait because the step was interrupted.
    arrived: VecDeque<(KeyAddress, K)>,
    /// True while the backend writes a snapshot.
    writing: bool,
    /// Records of a batch whose keys are resident; empty between batches.
    ready: Vec<(KeyAddress, T, i64)>,
    /// Whether keys may be computed ahead.
    pace: Pace,
    state: PhantomData<fn() -> V>,
}

impl<K: Key, V: Kept, T, B: StateBackend<K, V>> Resident<K, V, T, B> {
    /// Makes the access to `backend`, which keeps the declared `fields`.
    pub(in crate::operators) fn new(backend: B, fields: Vec<StateDeclaration>) -> Self {
        Self {
            backend,
            groups: KeyGroups { owned: 0..0, max_parallelism: 1 },
            fields,
            parked: Table::default(),
            parked_count: 0,
            arrived: VecDeque::new(),
            writing: false,
            ready: Vec::new(),
            pace: Pace::default(),
            state: PhantomData,
        }
    }

    /// Opens the backend for the subtask's key groups.
    pub(in crate::operators) fn open(&mut self, context: &OperatorContext) {
        self.groups = context.key_groups();
        self.backend.open(self.groups.clone());
        if !B::ALWAYS_RESIDENT {
            self.parked = Table::new(self.groups.clone());
        }
    }

    /// Restores all snapshots in these bytes.
    pub(in crate::operators) fn restore_all(
        &mut self,
        bytes: &[u8],
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let mut input = Reader::new(bytes);
        self.restore(&mut input, context)?;
        while input.remaining() > 0 {
            self.restore(&mut input, context)?;
        }
        Ok(())
    }

    /// Restores the next snapshot of the input.
    pub(in crate::operators) fn restore(
        &mut self,
        input: &mut Reader<'_>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let dropped = read_next(input, &mut self.backend, &self.groups, &self.fields);
        context.note_dropped(dropped.map_err(|error| failed(context, error))?);
        Ok(())
    }

    /// Restores the next snapshot of the input. If a key has state already, `join` adds to it what the snapshot has.
    pub(in crate::operators) fn restore_joined(
        &mut self,
        input: &mut Reader<'_>,
        context: &OperatorContext,
        join: fn(&mut V, V),
    ) -> Result<(), TaskError> {
        let Self { backend, groups, fields, .. } = self;
        let read = read_entries(input, groups, fields, |at, key, rows| {
            let state = V::read(rows)?;
            match V::holds_nothing(&state) {
                true => Ok(()),
                false => backend.restore_joined(at, key, state, join),
            }
        });
        context.note_dropped(read.map_err(|error| failed(context, error))?);
        Ok(())
    }

    /// Returns the bytes of memory that the state takes, with the tables of what waits for its key.
    pub(in crate::operators) fn memory_bytes(&self) -> u64 {
        self.backend.memory_bytes() + self.parked.memory_bytes()
    }

    /// Returns the subtask's key groups.
    pub(in crate::operators) fn groups(&self) -> &KeyGroups {
        &self.groups
    }

    /// Processes every record whose key is resident, and parks the others. `work` can stop after any record; the other records
    /// then stay in the batch.
    #[inline(always)]
    pub(in crate::operators) fn batch<S: KeySelector<T, Key = K>>(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        context: &OperatorContext,
        work: &mut impl Work<T, S, B>,
    ) -> Result<(), TaskError> {
        if B::ALWAYS_RESIDENT {
            let (before, interrupt) = (batch.len(), &context.shared().interrupt);
            let worked = self.resident_batch(selector, batch, interrupt, work);
            self.pace.count(before - batch.len(), interrupt);
            return worked;
        }
        batch.try_each(columns::<T, S>(), |record, time, hash| {
            let record = Keyed::new(selector, record);
            let at = self.groups.address_by(record.key(), hash);
            if self.is_ready(at, record.key()) {
                self.ready.push((at, record.into_record(), time));
                return Ok(true);
            }
            self.parked_count += 1;
            let waiting = self.parked.entry(at, |key| key == record.key());
            match waiting.map_err(|error| failed(context, error))? {
                Entry::Occupied(mut waiting) => {
                    waiting.get_mut().1.push(Parked::Record(record.into_record(), time));
                }
                Entry::Vacant(free) => {
                    let (key, record) = record.into_both();
                    free.insert((key, vec![Parked::Record(record, time)]));
                }
            }
            Ok(true)
        })?;
        self.begin_fetches(context);
        let Self { backend, ready, .. } = self;
        let mut ready = ready.drain(..);
        for (at, record, time) in ready.by_ref() {
            work.turn_to(time);
            if !work.record(backend, at, Keyed::new(selector, record))? {
                break;
            }
        }
        // The records of a key are all ready or all parked, so that those that are left keep their order.
        ready.for_each(|(_, record, time)| batch.push(record, time));
        backend.release();
        Ok(())
    }

    /// Processes records whose keys are all resident, until `work` stops. Where the state is large and keys are known to be quick to
    /// compute, each key is computed, and its place loaded into the cache, while the records before it are processed.
    #[inline(always)]
    fn resident_batch<S: KeySelector<T, Key = K>>(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        interrupt: &Interrupt,
        work: &mut impl Work<T, S, B>,
    ) -> Result<(), TaskError> {
        let Self { backend, groups, pace, .. } = self;
        if backend.reads_ahead() && pace.is_quick() {
            return batch.try_each_ahead(
                columns::<T, S>(),
                &mut (backend, work),
                || interrupt.is_raised(),
                |(backend, _), record, hash| {
                    let held = selector.hold(record);
                    let at = groups.address_by(selector.key(record, &held), hash);
                    backend.fetch_ahead(at);
                    (at, held)
                },
                |(_, work), time| work.turn_to(time),
                |(backend, work), (at, held), record| {
                    work.record(backend, at, Keyed::with_held(selector, record, held))
                },
            );
        }
        if batch.times().is_empty() {
            work.turn_to(NO_TIME);
            return batch.try_each_record(columns::<T, S>(), |record, hash| {
                let record = Keyed::new(selector, record);
                let at = groups.address_by(record.key(), hash);
                work.record(backend, at, record)
            });
        }
        batch.try_each(columns::<T, S>(), |record, time, hash| {
            work.turn_to(time);
            let record = Keyed::new(selector, record);
            let at = groups.address_by(record.key(), hash);
            work.record(backend, at, record)
        })
    }

    /// Returns true and pins the key if it is resident and nothing of it is parked. A key that is neither is fetched, unless its state
    /// has arrived already.
    fn is_ready(&mut self, at: KeyAddress, key: &K) -> bool {
        let behind = !self.arrived.is_empty() && self.parked.get(at, key).is_some();
        !behind && self.backend.admit(at, key)
    }

    /// Begins the reads of the keys that are missing: of a batch, or of the timers that have fired.
    pub(in crate::operators) fn begin_fetches(&mut self, context: &OperatorContext) {
        for fetch in self.backend.fetch() {
            context.spawn_io(fetch.read, fetch.ticket);
        }
    }

    /// Fires a timer if its key is resident; otherwise parks it after what waits for the key already. After the last timer of a
    /// firing the caller begins the reads of all missing keys, see [`Resident::begin_fetches`].
    #[inline]
    pub(in crate::operators) fn timer<S: KeySelector<T, Key = K>>(
        &mut self,
        at: KeyAddress,
        key: K,
        timer: Timer,
        context: &OperatorContext,
        work: &mut impl Work<T, S, B>,
    ) -> Result<(), TaskError> {
        if B::ALWAYS_RESIDENT {
            return work.timer(&mut self.backend, at, key, timer);
        }
        if self.is_ready(at, &key) {
            work.timer(&mut self.backend, at, key, timer)?;
            self.backend.release();
            return Ok(());
        }
        self.parked_count += 1;
        let waiting = self.parked.entry(at, |parked| *parked == key);
        match waiting.map_err(|error| failed(context, error))? {
            Entry::Occupied(mut waiting) => waiting.get_mut().1.push(Parked::Timer(timer)),
            Entry::Vacant(free) => {
                free.insert((key, vec![Parked::Timer(timer)]));
            }
        }
        Ok(())
    }

    /// Processes the records and timers of the keys that a fetch has made resident, until the step is interrupted. The others wait for
    /// a mail that the operator then asks for.
    pub(in crate::operators) fn mail<S: KeySelector<T, Key = K>>(
        &mut self,
        selector: &S,
        mail: OperatorMail,
        context: &OperatorContext,
        work: &mut impl Work<T, S, B>,
    ) -> Result<(), TaskError> {
        let OperatorMail::Reply { ticket, result } = mail else { return Ok(()) };
        if ticket == CONTINUE {
            return self.work_off(selector, context, work);
        }
        let mut keys = Vec::new();
        let arrived = self.backend.arrived(ticket, result, &mut keys);
        arrived.map_err(|error| failed(context, error))?;
        let waits = !self.arrived.is_empty();
        self.arrived.extend(keys);
        if waits {
            // The mail to continue with is on its way.
            self.backend.release();
            return Ok(());
        }
        self.work_off(selector, context, work)
    }

    /// Processes what is parked of the keys that have arrived, until the step is interrupted.
    fn work_off<S: KeySelector<T, Key = K>>(
        &mut self,
        selector: &S,
        context: &OperatorContext,
        work: &mut impl Work<T, S, B>,
    ) -> Result<(), TaskError> {
        while let Some((at, key)) = self.arrived.pop_front() {
            // A key that is not resident any more is fetched once more.
            if !self.backend.admit(at, &key) {
                continue;
            }
            let mut parked = self.parked.remove(at, &key).unwrap_or_default().into_iter();
            for parked in parked.by_ref() {
                self.parked_count -= 1;
                match parked {
                    Parked::Record(record, time) => {
                        let record = Keyed::new(selector, record);
                        work.turn_to(time);
                        work.record(&mut self.backend, at, record)?;
                    }
                    Parked::Timer(timer) => {
                        work.timer(&mut self.backend, at, key.clone(), timer)?;
                    }
                }
                if context.shared().interrupt.is_raised() {
                    break;
                }
            }
            if parked.len() > 0 {
                let place = self.parked.entry(at, |stored| *stored == key);
                if let Entry::Vacant(free) = place.map_err(|error| failed(context, error))? {
                    free.insert((key.clone(), parked.collect()));
                }
                self.arrived.push_front((at, key));
            }
            if context.shared().interrupt.is_raised() {
                break;
            }
        }
        self.begin_fetches(context);
        self.backend.release();
        if !self.arrived.is_empty() {
            context.spawn_io(Box::pin(async { Ok(Vec::new()) }), CONTINUE);
        }
        Ok(())
    }

    /// Returns true while records or timers are parked: control elements must wait, because the parked ones came before them.
    pub(in crate::operators) fn waits(&self) -> bool {
        self.parked_count > 0
    }

    /// Returns true while [`MOST_PARKED`] or more records and timers are parked, or the storage is too slow for the snapshot that is
    /// being written, so that no more records should come.
    pub(in crate::operators) fn full(&self) -> bool {
        self.parked_count >= MOST_PARKED || self.backend.waits_for_storage()
    }

    /// Returns true while a snapshot is being written.
    pub(in crate::operators) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Begins a snapshot that is written while records come, if the backend can; returns false and does nothing otherwise. `first`
    /// is what the operator writes before the state in the first chunk, `before` in the others.
    pub(in crate::operators) fn begin_snapshot(
        &mut self,
        mut first: Vec<u8>,
        mut before: Vec<u8>,
    ) -> bool {
        write_head::<K>(&self.fields, &mut first);
        write_head::<K>(&self.fields, &mut before);
        self.writing = self.backend.begin_snapshot(&first, &before);
        self.writing
    }

    /// Begins a snapshot as [`Resident::begin_snapshot`] does, which may contain only what has changed since a complete checkpoint. If
    /// `first` has more than `before`, the snapshot is a full one: nothing tells what of it belongs to which snapshot.
    pub(in crate::operators) fn begin_incremental(
        &mut self,
        checkpoint: u64,
        first: Vec<u8>,
        before: Vec<u8>,
        context: &OperatorContext,
    ) -> Option<SnapshotKind> {
        if first != before {
            return self.begin_snapshot(first, before).then_some(SnapshotKind::Full);
        }
        let (mut head, mut changes_head) = (first, before);
        write_head::<K>(&self.fields, &mut head);
        write_changes_head::<K>(&self.fields, &mut changes_head);
        let is_aborted = |checkpoint| context.shared().is_newest_aborted(checkpoint);
        let begun = self.backend.begin_incremental(&Incremental {
            checkpoint,
            inline: context.shared().upcalls.stores_changes().unwrap_or(0),
            is_aborted: &is_aborted,
            head: &head,
            changes_head: &changes_head,
        });
        self.writing = begun.is_some();
        begun
    }

    /// Appends a snapshot without entries.
    pub(in crate::operators) fn write_empty(&self, out: &mut Vec<u8>) {
        write_head::<K>(&self.fields, out);
        out.push(END);
    }

    /// Writes a slice of the snapshot that was begun. Returns true if it is complete.
    pub(in crate::operators) fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        let complete = self.backend.write_snapshot(slice);
        let complete = complete.map_err(|error| failed(context, error))?;
        self.writing = !complete;
        Ok(complete)
    }

    /// Drops the snapshot that was begun, if the backend can.
    pub(in crate::operators) fn abort_snapshot(&mut self) -> bool {
        let aborted = self.backend.abort_snapshot();
        self.writing &= !aborted;
        aborted
    }

    /// Returns the state for a snapshot at a barrier.
    pub(in crate::operators) fn snapshot(
        &mut self,
        context: &OperatorContext,
    ) -> Result<Vec<u8>, TaskError> {
        let bytes = write_snapshot(&mut self.backend, &self.groups, &self.fields);
        bytes.map_err(|error| failed(context, error))
    }
}

/// Returns the failure of the task for state that cannot be accessed.
#[cold]
pub(crate) fn failed(context: &OperatorContext, error: StateError) -> TaskError {
    match error {
        StateError::Codec(error) => context.codec_error(error),
        StateError::Fetch { .. } => context.io_error("keyed state", error),
        StateError::MovedList => context.user_error(error.into()),
        error => TaskError::Deployment(format!("operator '{}': {error}", context.name())),
    }
}
