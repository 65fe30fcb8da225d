//! Windows with a number of a key's records, regardless of time.
//!
//! Records are grouped by panes, as in sliding windows of time: a pane has as many records as the greatest common divisor of
//! size and slide, so that a window consists of whole panes.

use super::{TimeWindow, WindowFolding};
use crate::operators::{BoxError, Collector, Context, KeyedProcessFunction};

/// State of a key: how many records it had since its last window ended, and the kept value of each pane of the next window.
type Panes<A> = Option<(u64, Vec<A>)>;

/// Number of records of a window, and number of records from the end of one window to the end of the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowCounts {
    size: u64,
    slide: u64,
    pane: u64,
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl RowCounts {
    /// Makes windows of `size` records, one every `slide` records. Numbers below 1 count as 1.
    pub(super) fn new(size: u64, slide: u64) -> Self {
        let (size, slide) = (size.max(1), slide.max(1));
        Self { size, slide, pane: greatest_common_divisor(size, slide) }
    }

    /// Adds a record to the state of its key. Returns the kept value of the window that the record completes, `None` if it
    /// completes none.
    fn add<K, T, F: WindowFolding<K, T>>(
        self,
        state: &mut Panes<F::Kept>,
        record: T,
        folding: &mut F,
    ) -> Option<F::Kept> {
        let (since, panes) = state.get_or_insert_with(|| (0, Vec::new()));
        // With a slide greater than the size, the first records after a window belong to no window.
        if *since >= self.slide.saturating_sub(self.size) {
            match panes.last_mut() {
                Some(kept) if !since.is_multiple_of(self.pane) => folding.add(kept, record),
                _ => {
                    // Reserves a single place for the first pane, because windows that do not overlap never have a second one.
                    panes.reserve_exact(usize::from(panes.is_empty()));
                    panes.push(folding.first(record));
                }
            }
        }
        *since = since.saturating_add(1);
        if *since < self.slide {
            return None;
        }
        let shared = self.size.saturating_sub(self.slide) / self.pane;
        let shared = usize::try_from(shared).unwrap_or(usize::MAX);
        let rest = panes.split_off(panes.len().saturating_sub(shared));
        let mut window = std::mem::take(panes).into_iter().chain(rest.iter().cloned());
        let mut first = window.next();
        if let Some(kept) = &mut first {
            window.for_each(|later| folding.merge(kept, later));
        }
        *state = (!rest.is_empty()).then_some((0, rest));
        first
    }
}

/// The [`KeyedProcessFunction`] of windows by count: keeps the records of each key's open windows folded in keyed state, and emits
/// a window's results with its last record. Sets no timers and ignores time: a key whose window is never full keeps its state.
#[derive(Debug, Clone)]
pub struct CountWindow<F> {
    counts: RowCounts,
    folding: F,
}

impl<F> CountWindow<F> {
    /// Makes the function that emits the results of `folding` for each window.
    pub(super) fn new(counts: RowCounts, folding: F) -> Self {
        Self { counts, folding }
    }
}

impl<K: crate::types::Key, T: 'static, F: WindowFolding<K, T>> KeyedProcessFunction<K, T>
    for CountWindow<F>
{
    type State = Panes<F::Kept>;
    type Out = F::Out;

    fn process(
        &mut self,
        record: T,
        panes: &mut Self::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        match self.counts.add(panes, record, &mut self.folding) {
            Some(kept) => self.folding.emit(ctx.key().clone(), TimeWindow::ALL, kept, out),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::Reduce;
    use proptest::prelude::*;

    proptest! {
        /// The windows of numbers are rows of them, the first ones shorter where windows overlap.
        #[test]
        fn a_window_has_the_last_records(size in 1_u64..12, slide in 1_u64..12, records in 0_u64..60) {
            let counts = RowCounts::new(size, slide);
            let mut append = Reduce::new(|all: &mut Vec<u64>, mut next: Vec<u64>| all.append(&mut next));
            let mut state = None;
            for n in 1..=records {
                let window = counts.add::<u8, _, _>(&mut state, vec![n], &mut append);
                let expected: Vec<u64> = (n.saturating_sub(size) + 1..=n).collect();
                prop_assert_eq!(window, n.is_multiple_of(slide).then_some(expected));
                let kept = state.as_ref().map_or(0, |(_, panes)| panes.concat().len());
                prop_assert!(kept as u64 <= size, "{} are kept", kept);
                prop_assert!(n % slide != 0 || size > slide || state.is_none());
            }
        }
    }
}
