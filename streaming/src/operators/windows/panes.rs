//! Tables of the panes that have records, ordered by time.
//!
//! The table of a pane is looked up once for consecutive records of that pane. A window is assembled from its panes one part (a
//! share of the key groups) at a time, so that a large window does not hold up the task.

use super::{
    WindowFolding,
    slices::{Pane, Slices, clamp},
};
use crate::{
    state::{KeyAddress, KeyGroups, Single, Table},
    types::{Key, Record, key_hash},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::{collections::BTreeMap, ops::Bound};

/// The kept values of all keys in one pane.
pub(super) type PaneTable<K, A> = Table<K, Single<A>>;

struct Slot<K, A> {
    pane: Pane,
    table: PaneTable<K, A>,
}

/// The panes of one operator's subtask.
pub(super) struct Panes<K, A> {
    /// Panes that have records, by number.
    slots: BTreeMap<i64, Slot<K, A>>,
    /// The emptied table of a dropped pane, whose memory the next new pane uses.
    spare: Option<PaneTable<K, A>>,
    /// The merged values of a part of a window that is being collected; empty between two parts.
    merged: HashTable<(K, A)>,
    /// The values of the pane at work that are not merged yet; empty between two parts.
    unmerged: Vec<(K, A)>,
    /// Number of the last pane whose values the part at work has taken; `None` between two parts.
    taken: Option<i64>,
    groups: KeyGroups,
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
        }
    }

    /// Returns the bytes that the tables of all panes take.
    pub(super) fn memory_bytes(&self) -> u64 {
        let tables = self.slots.values().map(|slot| &slot.table).chain(&self.spare);
        tables.map(PaneTable::memory_bytes).sum()
    }

    /// Returns the number of the first window at or after `from` that has records; `None` if there is none.
    pub(super) fn next_window(&self, slices: &Slices, from: i128) -> Option<i128> {
        let mut slots = self.slots.range(clamp(slices.panes_of(from).start)..);
        // The start of the range is clamped: after the last window, the range can still hold the pane with the greatest number.
        let windows = slots.next().map(|(_, slot)| &slot.pane.windows);
        windows.filter(|windows| windows.end > from).map(|windows| windows.start.max(from))
    }

    /// Returns the table of a pane; makes the table if the pane has none.
    #[inline]
    pub(super) fn table(&mut self, pane: &Pane) -> &mut PaneTable<K, A> {
        let Self { slots, spare, groups, .. } = self;
        let slot = slots.entry(pane.number).or_insert_with(|| {
            let table = spare.take().unwrap_or_else(|| Table::new(groups.clone()));
            Slot { pane: pane.clone(), table }
        });
        &mut slot.table
    }

    /// Calls `each` with every pane and its table, in the order of time, until it returns an error.
    pub(super) fn each<E>(
        &mut self,
        mut each: impl FnMut(&Pane, &mut PaneTable<K, A>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.slots.values_mut().try_for_each(|slot| each(&slot.pane, &mut slot.table))
    }

    /// Returns the number of panes that have a table.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Drops the panes all of whose windows have numbers below `open`. Keeps one emptied table for the next new pane.
    pub(super) fn drop_before(&mut self, open: i128) {
        while let Some(first) =
            self.slots.first_entry().filter(|first| first.get().pane.windows.end <= open)
        {
            let Slot { mut table, .. } = first.remove();
            if self.spare.is_none() {
                table.parts_mut().iter_mut().for_each(|part| hand_out(part, true, |_, _| {}));
                self.spare = Some(table);
            }
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
        let Self { slots, merged, unmerged, taken, .. } = self;
        let begin = taken.map_or(Bound::Included(first), Bound::Excluded);
        let mut panes = slots.range_mut((begin, Bound::Included(last))).filter_map(|(_, slot)| {
            let gives = last_use && slot.pane.windows.end <= window + 1;
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
