//! Tables of the panes that have records, ordered by time, and their snapshot.
//!
//! The table of a pane is looked up once for consecutive records of that pane. A window is assembled from its panes one part (a
//! share of the key groups) at a time, so that a large window does not hold up the task.
//!
//! A snapshot is written while records come, as that of any [`Table`]. A barrier only counts it: a pane begins to record what is
//! written when it is touched or when the writer comes to it. What a window takes from a pane that is not written is cloned, and a
//! pane that is dropped is written first. The writer goes from part to part and not from pane to pane, so that the chunks have few
//! key groups, however many panes there are.

use super::{
    WindowFolding,
    slices::{Pane, Slices, clamp},
};
use crate::{
    state::{
        ENTRY_WORK, KeyAddress, KeyGroups, Output, PlaceInTable, RowWriter, Single, Slice,
        StateBackend, StateError, Table, part_bits,
    },
    types::{FlottType, Key, Record, key_hash},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::{collections::BTreeMap, ops::Bound};

struct Slot<K, A> {
    pane: Pane,
    table: Table<K, Single<A>>,
    /// The number of the last snapshot that this pane has begun, or that it came after.
    snapshot: u64,
}

/// The panes of one operator's subtask.
pub(super) struct Panes<K, A> {
    /// Panes that have records, by number.
    slots: BTreeMap<i64, Slot<K, A>>,
    /// The emptied table of a dropped pane, whose memory the next new pane uses.
    spare: Option<Table<K, Single<A>>>,
    /// The merged values of a part of a window that is being collected; empty between two parts.
    merged: HashTable<(K, A)>,
    /// The values of the pane at work that are not merged yet; empty between two parts.
    unmerged: Vec<(K, A)>,
    /// Number of the last pane whose values the part at work has taken; `None` between two parts.
    taken: Option<i64>,
    groups: KeyGroups,
    /// The number of snapshots that were begun.
    snapshots: u64,
    writing: Option<Writer>,
    /// Panes that were dropped before they were written.
    leaving: Vec<Slot<K, A>>,
    output: Output,
}

/// The place of the writer of a snapshot: all parts before `part` are written, and of that part the panes before `pane`.
struct Writer {
    part: usize,
    pane: Bound<i64>,
}

/// One pane, whose entries can be changed while a snapshot is being written.
pub(super) struct OpenPane<'a, K, A> {
    number: i64,
    table: &'a mut Table<K, Single<A>>,
    output: &'a mut Output,
}

impl<K: Key, A: Record> OpenPane<'_, K, A> {
    /// Prepares for [`OpenPane::fetch_ahead`]. Returns true if the table is larger than the processor's caches.
    pub(super) fn reads_ahead(&mut self) -> bool {
        self.table.reads_ahead_with(Some(self.output))
    }

    /// Asks the processor to load the place of a key into its cache; valid after [`OpenPane::reads_ahead`] returned true.
    #[inline]
    pub(super) fn fetch_ahead(&self, at: KeyAddress) {
        StateBackend::fetch_ahead(&*self.table, at);
    }

    /// Returns the place of a key; see [`StateBackend::place`].
    #[inline]
    pub(super) fn place(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
    ) -> Result<PlaceInTable<'_, K, Single<A>>, StateError> {
        let number = self.number;
        let rows = |kept: &Single<A>, rows: &mut RowWriter| write_row(number, kept, rows);
        self.table.place_with(at, same, Some(self.output), rows)
    }

    /// Returns the value of a key if a look-up is all that it takes; see [`StateBackend::at_hand`].
    #[inline(always)]
    pub(super) fn at_hand(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
    ) -> Option<&mut Single<A>> {
        self.table.at_hand(at, same)
    }

    /// Stores a restored value of a key.
    pub(super) fn restore(&mut self, at: KeyAddress, key: K, kept: A) -> Result<(), StateError>
    where
        A: FlottType,
    {
        StateBackend::restore(self.table, at, key, Single(kept))
    }
}

/// Writes the value that a pane keeps of a key: a row whose entry is the pane's number.
fn write_row<A: FlottType>(pane: i64, Single(kept): &Single<A>, rows: &mut RowWriter) {
    rows.fields(0).row(|entry| pane.encode(entry), |value| kept.encode(value));
}

impl<K: Key, A: Record> Slot<K, A> {
    /// Makes the pane record what is written of it, if it does not yet.
    #[inline]
    fn begin(&mut self, snapshots: u64, output: &mut Output) {
        if self.snapshot != snapshots {
            self.snapshot = snapshots;
            self.table.begin_writing(output);
        }
    }

    /// Returns true if the snapshot that is being written may need entries of the pane.
    fn is_needed(&self, snapshots: u64) -> bool {
        self.snapshot != snapshots || self.table.is_writing()
    }

    /// Writes entries of one part until the slice ends. Returns true if the part is written.
    fn write(&mut self, part: usize, output: &mut Output, slice: &mut Slice<'_>) -> bool {
        let number = self.pane.number;
        self.table.write_part(part, output, slice, |kept, rows| write_row(number, kept, rows))
    }
}

impl<K: Key, A: Record> Panes<K, A> {
    /// Makes a store without panes.
    pub(super) fn new(groups: KeyGroups) -> Self {
        Self {
            slots: BTreeMap::new(),
            spare: None,
            merged: HashTable::new(),
            unmerged: Vec::new(),
            taken: None,
            groups,
            snapshots: 0,
            writing: None,
            leaving: Vec::new(),
            output: Output::default(),
        }
    }

    /// Returns the number of parts that a pane has.
    pub(super) fn parts(&self) -> usize {
        self.groups.owned.len() << part_bits(&self.groups)
    }

    /// Returns the bytes that the tables of all panes take, with the memory for snapshots.
    pub(super) fn memory_bytes(&self) -> u64 {
        let slots = self.slots.values().chain(&self.leaving).map(|slot| &slot.table);
        let tables: u64 = slots.chain(&self.spare).map(Table::memory_bytes).sum();
        tables + self.output.memory_bytes()
    }

    /// Returns the number of the first window at or after `from` that has records; `None` if there is none.
    pub(super) fn next_window(&self, slices: &Slices, from: i128) -> Option<i128> {
        let mut slots = self.slots.range(clamp(slices.panes_of(from).start)..);
        // The start of the range is clamped: after the last window, the range can still hold the pane with the greatest number.
        let windows = slots.next().map(|(_, slot)| &slot.pane.windows);
        windows.filter(|windows| windows.end > from).map(|windows| windows.start.max(from))
    }

    /// Returns a pane; makes its table if it has none.
    #[inline]
    pub(super) fn open(&mut self, pane: &Pane) -> OpenPane<'_, K, A> {
        let Self { slots, spare, groups, snapshots, output, .. } = self;
        let slot = slots.entry(pane.number).or_insert_with(|| {
            let table = spare.take().unwrap_or_else(|| Table::new(groups.clone()));
            Slot { pane: pane.clone(), table, snapshot: *snapshots }
        });
        slot.begin(*snapshots, output);
        OpenPane { number: pane.number, table: &mut slot.table, output }
    }

    /// Begins the snapshot of the present panes; see [`Output::begin`].
    pub(super) fn begin_snapshot(&mut self, first: &[u8], head: &[u8]) {
        self.output.begin(&self.groups.owned, first, head);
        self.snapshots += 1;
        self.writing = Some(Writer { part: 0, pane: Bound::Unbounded });
    }

    /// Writes a slice of the snapshot. Returns true if the snapshot is complete.
    pub(super) fn write_snapshot(&mut self, slice: &mut Slice<'_>) -> Result<bool, StateError> {
        let mut output = std::mem::take(&mut self.output);
        let done = output.advance(slice, |output, slice| self.write(output, slice));
        self.output = output;
        if done == Ok(true) {
            self.writing = None;
            self.slots.values_mut().for_each(|slot| slot.table.end_writing());
        }
        done
    }

    fn write(&mut self, output: &mut Output, slice: &mut Slice<'_>) -> bool {
        let parts = self.parts();
        while let Some(mut slot) = self.leaving.pop() {
            slot.begin(self.snapshots, output);
            // What is written already is passed over.
            if !(0..parts).all(|part| slot.write(part, output, slice)) {
                self.leaving.push(slot);
                return false;
            }
            self.recycle(slot.table);
        }
        let Self { writing: Some(writer), slots, snapshots, .. } = self else { return true };
        while writer.part < parts {
            let mut rest = slots.range_mut((writer.pane, Bound::Unbounded));
            let Some((number, slot)) = rest.next() else {
                *writer = Writer { part: writer.part + 1, pane: Bound::Unbounded };
                continue;
            };
            slot.begin(*snapshots, output);
            if !slot.write(writer.part, output, slice) {
                return false;
            }
            writer.pane = Bound::Excluded(*number);
            if !slice.goes_on(ENTRY_WORK) {
                return false;
            }
        }
        true
    }

    /// Drops the snapshot that was begun, and the panes that were kept for it alone.
    pub(super) fn abort_snapshot(&mut self) {
        self.writing = None;
        self.output.abort();
        for slot in self.slots.values_mut() {
            // A pane that has not begun the snapshot does not begin it later.
            slot.snapshot = self.snapshots;
            slot.table.end_writing();
        }
        for slot in std::mem::take(&mut self.leaving) {
            self.recycle(slot.table);
        }
    }

    /// Returns true while so many chunks of a snapshot wait for their storage that no more records should come.
    pub(super) fn waits_for_storage(&self) -> bool {
        self.writing.is_some() && self.output.is_overdrawn()
    }

    /// Drops the panes all of whose windows have numbers below `open`. Keeps one emptied table for the next new pane.
    pub(super) fn drop_before(&mut self, open: i128) {
        while let Some(first) =
            self.slots.first_entry().filter(|first| first.get().pane.windows.end <= open)
        {
            let slot = first.remove();
            if slot.is_needed(self.snapshots) {
                self.leaving.push(slot);
            } else {
                self.recycle(slot.table);
            }
        }
    }

    /// Keeps the emptied table of a dropped pane, unless there is one already.
    fn recycle(&mut self, mut table: Table<K, Single<A>>) {
        if self.spare.is_none() {
            table.end_writing();
            table.parts_mut().iter_mut().for_each(|part| hand_out(part, true, |_, _| {}));
            self.spare = Some(table);
        }
    }

    /// Appends the keys of one part of a window to `to`, each with its value merged over all panes of the window. With
    /// `last_use`, panes that no later window needs are drained instead of cloned.
    ///
    /// `should_continue` is asked after each call of the folding. If it returns false, this function returns false before it is done: it
    /// must then be called again for the same part, and continues.
    pub(super) fn collect_part<T, F: WindowFolding<K, T, Kept = A>>(
        &mut self,
        (slices, window, part): (&Slices, i128, usize),
        last_use: bool,
        folding: &mut F,
        to: &mut Vec<(K, A)>,
        should_continue: impl Fn() -> bool,
    ) -> bool {
        let (first, last) = range_of(slices, window);
        let snapshots = self.snapshots;
        let Self { slots, merged, unmerged, taken, .. } = self;
        let begin = taken.map_or(Bound::Included(first), Bound::Excluded);
        let mut panes = slots.range_mut((begin, Bound::Included(last))).filter_map(|(_, slot)| {
            let is_last = last_use && slot.pane.windows.end <= window + 1;
            let gives = is_last && !slot.is_needed(snapshots);
            let table = slot.table.parts_mut().get_mut(part).filter(|table| !table.is_empty())?;
            Some((slot.pane.number, table, gives))
        });
        let mut pane = None;
        if taken.is_none() {
            let Some((number, table, gives)) = panes.next() else { return true };
            pane = panes.next();
            if pane.is_none() {
                hand_out(table, gives, |key, kept| to.push((key, kept)));
                return true;
            }
            // A pane has a key once, so that nothing is merged yet.
            hand_out(table, gives, |key, kept| {
                merge(merged, key, kept, folding);
            });
            *taken = Some(number);
        }
        loop {
            while let Some((key, kept)) = unmerged.pop() {
                if merge(merged, key, kept, folding) && !should_continue() {
                    return false;
                }
            }
            let Some((number, table, gives)) = pane.take().or_else(|| panes.next()) else { break };
            hand_out(table, gives, |key, kept| unmerged.push((key, kept)));
            *taken = Some(number);
        }
        *taken = None;
        to.extend(merged.drain());
        true
    }

    /// Returns the value of one key merged over all panes of a window; `None` if the key has no record in the window.
    pub(super) fn collect_key<T, F: WindowFolding<K, T, Kept = A>>(
        &mut self,
        (slices, window): (&Slices, i128),
        (at, key): (KeyAddress, &K),
        folding: &mut F,
    ) -> Option<A> {
        let mut kept = None;
        let (first, last) = range_of(slices, window);
        for (_, slot) in self.slots.range_mut(first..=last) {
            let Some(Single(next)) = slot.table.get(at, key) else { continue };
            match &mut kept {
                None => kept = Some(next.clone()),
                Some(kept) => folding.merge(kept, next.clone()),
            }
        }
        kept
    }
}

/// Returns the numbers of a window's first and last pane.
fn range_of(slices: &Slices, window: i128) -> (i64, i64) {
    let panes = slices.panes_of(window);
    (clamp(panes.start), clamp(panes.end - 1))
}

/// Merges the value that a later pane has for a key. Returns true if the folding was called, false if the key had no value.
fn merge<K: Key, T, F: WindowFolding<K, T>>(
    merged: &mut HashTable<(K, F::Kept)>,
    key: K,
    kept: F::Kept,
    folding: &mut F,
) -> bool {
    let hash = key_hash(&key);
    match merged.entry(hash, |(stored, _)| *stored == key, |(key, _)| key_hash(key)) {
        Entry::Occupied(mut taken) => {
            folding.merge(&mut taken.get_mut().1, kept);
            true
        }
        Entry::Vacant(free) => {
            free.insert((key, kept));
            false
        }
    }
}

/// Calls `each` with the entries of one part of a pane: clones of them, or with `gives` the entries themselves, which leave the
/// pane.
fn hand_out<K: Key, A: Record>(
    part: &mut HashTable<(K, Single<A>)>,
    gives: bool,
    mut each: impl FnMut(K, A),
) {
    if !gives {
        return part.iter().for_each(|(key, Single(kept))| each(key.clone(), kept.clone()));
    }
    // Frees the memory of a table that was once much fuller.
    let sparse = part.len() < part.capacity() / 8;
    part.drain().for_each(|(key, Single(kept))| each(key, kept));
    if sparse {
        *part = HashTable::new();
    }
}
