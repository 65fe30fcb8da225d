//! The panes of one key, as a function of its records and of time: which windows have ended, and what they contain.
//!
//! Nothing here may know operators, queues or clocks.

use super::{
    WindowFolding,
    key_rule::KeyWindows,
    slices::{Pane, Slices},
};
use crate::{
    state::{Kept, MapState, RowReader, RowWriter, StateDeclaration, StateField},
    types::{CodecError, FlottType, Record},
};
use std::collections::VecDeque;

/// The kept values of the panes of one key, ordered by time, and the moment for which the key is queued, which is not written. A pane is
/// a part of time that no window's begin or end divides. The state of one key of tumbling or sliding windows in a backend that fetches;
/// in memory windows have one table per pane instead.
#[derive(Debug)]
pub struct KeyPanes<A> {
    /// Numbers of the panes that have records, and their kept values.
    panes: VecDeque<(i64, A)>,
    looked_at: Option<i64>,
}

impl<A> Default for KeyPanes<A> {
    fn default() -> Self {
        Self { panes: VecDeque::new(), looked_at: None }
    }
}

impl<A> KeyPanes<A> {
    /// Adds a record to the pane with that number.
    pub(super) fn add<K, T, F: WindowFolding<K, T, Kept = A>>(
        &mut self,
        pane: i64,
        record: T,
        folding: &mut F,
    ) {
        match self.place(pane) {
            Ok(kept) => folding.add(kept, record),
            Err(place) => self.insert(place, pane, folding.first(record)),
        }
    }

    /// Returns the kept value of a pane, or the index at which it has to be inserted.
    fn place(&mut self, pane: i64) -> Result<&mut A, usize> {
        let place = self.panes.partition_point(|(number, _)| *number < pane);
        match self.panes.get_mut(place) {
            Some((number, kept)) if *number == pane => Ok(kept),
            _ => Err(place),
        }
    }

    fn insert(&mut self, place: usize, pane: i64, kept: A) {
        if self.panes.capacity() == 0 {
            // Reserves a single place, because a key often has one pane only.
            self.panes.reserve_exact(1);
        }
        self.panes.insert(place, (pane, kept));
    }

    /// Returns the value of a window, merged over its panes; `None` if the window has no records.
    pub(super) fn window<K, T, F: WindowFolding<K, T, Kept = A>>(
        &self,
        (slices, window): (&Slices, i128),
        folding: &mut F,
    ) -> Option<A>
    where
        A: Clone,
    {
        let panes = slices.panes_of(window);
        let first = self.panes.partition_point(|(number, _)| i128::from(*number) < panes.start);
        let mut kept = None;
        for (number, value) in self.panes.range(first..) {
            if i128::from(*number) >= panes.end {
                break;
            }
            merge(&mut kept, value.clone(), folding);
        }
        kept
    }

    /// Returns the value of the next window that ends, and its number: of those from `from` on and before `until`. With `last_use`, the
    /// panes that no later window needs are removed instead of cloned.
    pub(super) fn ended<K, T, F: WindowFolding<K, T, Kept = A>>(
        &mut self,
        slices: &Slices,
        (from, until): (i128, i128),
        last_use: bool,
        folding: &mut F,
    ) -> Option<(i128, A)>
    where
        A: Clone,
    {
        let window = self.next_window(slices, from).filter(|window| *window < until)?;
        let mut kept = None;
        if last_use {
            let is_over = |number: i64| slices.pane(number).windows.end <= window + 1;
            let panes = slices.panes_of(window);
            while let Some((number, value)) =
                self.panes.pop_front_if(|(number, _)| is_over(*number))
            {
                // A pane outside of the window is dropped: all of its windows are over.
                if panes.contains(&i128::from(number)) {
                    merge(&mut kept, value, folding);
                }
            }
        }
        if let Some(rest) = self.window((slices, window), folding) {
            merge(&mut kept, rest, folding);
        }
        Some((window, kept?))
    }

    /// Returns the number of the first window from `from` on that has records.
    fn next_window(&self, slices: &Slices, from: i128) -> Option<i128> {
        let mut panes = self.panes.iter().map(|(number, _)| slices.pane(*number).windows);
        let windows = panes.find(|windows| windows.end > from && !windows.is_empty())?;
        Some(windows.start.max(from))
    }

    /// Discards the panes all of whose windows have numbers below `open`.
    pub(super) fn give_up(&mut self, slices: &Slices, open: i128) {
        while self
            .panes
            .pop_front_if(|(number, _)| slices.pane(*number).windows.end <= open)
            .is_some()
        {}
    }

    /// Returns the first moment after `passed` at which a window ends, or a pane is to be discarded because its last window has ended
    /// `lateness` milliseconds before; `None` if there is no pane that is kept then.
    pub(super) fn next(&self, slices: &Slices, passed: i64, lateness: i64) -> Option<i64> {
        let (due, open) = (slices.first_open(passed, 0), slices.first_open(passed, lateness));
        let over = self.next_window(slices, due).map(|window| slices.window(window).last());
        let mut panes = self.panes.iter().map(|(number, _)| slices.pane(*number));
        let kept = panes.find(|pane| pane.windows.end > open);
        over.into_iter().chain(kept.map(|pane| given_up(slices, &pane, lateness))).min()
    }
}

/// Returns the moment at which a pane is discarded.
pub(super) fn given_up(slices: &Slices, pane: &Pane, lateness: i64) -> i64 {
    slices.window(pane.windows.end - 1).last().saturating_add(lateness)
}

/// Adds the value of a later part of a window.
fn merge<K, T, F: WindowFolding<K, T>>(
    kept: &mut Option<F::Kept>,
    later: F::Kept,
    folding: &mut F,
) {
    match kept {
        None => *kept = Some(later),
        Some(kept) => folding.merge(kept, later),
    }
}

impl<A: Record> KeyWindows for KeyPanes<A> {
    /// Returns the declaration of the state: a map from the number of a pane to the kept value.
    fn declare() -> Vec<StateDeclaration> {
        vec![MapState::<i64, A>::declare("window-contents")]
    }
    fn looked_at(&mut self) -> &mut Option<i64> {
        &mut self.looked_at
    }
    /// Adds the panes of `more`; windows in memory write an entry for each pane.
    fn join(&mut self, more: Self) {
        for (pane, value) in more.panes {
            match self.place(pane) {
                Ok(kept) => *kept = value,
                Err(place) => self.insert(place, pane, value),
            }
        }
    }
}

impl<A: Record> Kept for KeyPanes<A> {
    fn holds_nothing(&self) -> bool {
        self.panes.is_empty()
    }
    fn write(&self, rows: &mut RowWriter) {
        for (pane, kept) in &self.panes {
            rows.fields(0).row(|entry| pane.encode(entry), |value| kept.encode(value));
        }
    }
    fn read(rows: &mut RowReader<'_, '_>) -> Result<Self, CodecError> {
        let mut read = Self::default();
        while let Some((_, row)) = rows.next()? {
            let one = VecDeque::from([(row.entry()?, row.value()?)]);
            read.join(Self { panes: one, looked_at: None });
        }
        Ok(read)
    }
}
