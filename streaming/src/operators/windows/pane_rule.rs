//! The rule of tumbling and sliding windows that have one state per key, a map of panes, for a backend that fetches. In memory the
//! windows have one table per pane instead ([`WindowCore`](super::core::WindowCore)), which is faster. Both write the same state.

use super::{
    TimeWindow, WindowFolding,
    core::{VERSION, check_parts},
    key_core::{KeyCore, Taking},
    key_panes::{KeyPanes, given_up},
    key_rule::KeyRule,
    slices::{Pane, Slices},
};
use crate::{
    operators::{KeySelector, Keyed, OperatorContext, keyed::failed},
    seam::TaskError,
    state::{Free, KeyAddress, Place, StateBackend, Taken},
    types::{Key, Reader, Record, write_zigzag},
};

/// The [`KeyRule`] of tumbling and sliding windows, whose size, slide and offset are in the [`Slices`]. State of windows with another
/// size, slide or offset is refused at a restore.
pub struct PaneRule(pub(super) Slices);

/// Tumbling or sliding windows of all keys of one subtask, in the backend `B`.
pub(super) type PaneCore<T, S, F, B> = KeyCore<T, S, F, PaneRule, B>;

impl<T, S, F> KeyRule<T, S, F> for PaneRule
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
{
    type Windows = KeyPanes<F::Kept>;
    const VERSION: u8 = VERSION;

    fn write_parts(&self, out: &mut Vec<u8>) {
        self.0.parts().iter().for_each(|ms| write_zigzag(*ms, out));
    }

    fn read_parts(
        &self,
        input: &mut Reader<'_>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        check_parts(&self.0, input, context)
    }

    fn next(&self, panes: &KeyPanes<F::Kept>, passed: i64, lateness: i64) -> Option<i64> {
        panes.next(&self.0, passed, lateness)
    }

    fn give_up(&self, panes: &mut KeyPanes<F::Kept>, moment: i64, lateness: i64) {
        panes.give_up(&self.0, self.0.first_open(moment, lateness));
    }

    fn record<B: StateBackend<S::Key, KeyPanes<F::Kept>>>(
        taking: &mut Taking<'_, T, S::Key, F, Self, F::Out>,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError> {
        let time = taking.time;
        let passed = taking.passed(at);
        let slices = taking.timing.rule.0;
        let pane = slices.pane_at(time);
        let open = slices.first_open(passed, taking.timing.lateness.ms);
        if pane.windows.end <= open || pane.windows.is_empty() {
            taking.timing.lateness.take_late(record.into_record(), time, passed, taking.out);
            return Ok(taking.out.should_continue());
        }
        let place = backend.place(at, |key| key == record.key());
        match place.map_err(|error| failed(taking.context, error))? {
            Place::Taken(mut place) => {
                let (key, panes) = place.entry();
                taking.recall::<S>((at, key), panes, passed);
                panes.add(pane.number, record.into_record(), &mut taking.timing.folding);
                added(taking, (at, key), panes, &pane, passed)?;
            }
            Place::Free(place) => {
                let both = record.into_new(at).map_err(|error| failed(taking.context, error));
                let (key, record) = both?;
                let mut panes = KeyPanes::default();
                panes.add(pane.number, record, &mut taking.timing.folding);
                added(taking, (at, &key), &mut panes, &pane, passed)?;
                place.insert(key, panes);
            }
        }
        Ok(taking.out.should_continue())
    }

    fn pass(
        taking: &mut Taking<'_, T, S::Key, F, Self, F::Out>,
        key: &S::Key,
        panes: &mut KeyPanes<F::Kept>,
        moment: i64,
        passed: i64,
    ) -> Result<Option<(TimeWindow, F::Kept)>, TaskError> {
        let (slices, lateness) = (taking.timing.rule.0, taking.timing.lateness.ms);
        // Windows that ended by `passed` were fired before. Several windows end at once at the end of time only.
        let mut from = slices.first_open(passed.max(moment.saturating_sub(1)), 0);
        let until = slices.first_open(moment, 0);
        let mut last = None;
        while let Some((number, kept)) =
            panes.ended(&slices, (from, until), lateness == 0, &mut taking.timing.folding)
        {
            if let Some((window, kept)) = last.replace((slices.window(number), kept)) {
                taking.emit(key.clone(), window, kept)?;
            }
            from = number + 1;
        }
        panes.give_up(&slices, slices.first_open(moment, lateness));
        Ok(last)
    }
}

/// Emits the windows of a pane that were fired already and take the record that was added, and queues the key if it has to be looked
/// at earlier than before.
fn added<T: Record, K: Key, F: WindowFolding<K, T>>(
    taking: &mut Taking<'_, T, K, F, PaneRule, F::Out>,
    (at, key): (KeyAddress, &K),
    panes: &mut KeyPanes<F::Kept>,
    pane: &Pane,
    passed: i64,
) -> Result<(), TaskError> {
    let (slices, lateness) = (taking.timing.rule.0, taking.timing.lateness.ms);
    let (due, open) = (slices.first_open(passed, 0), slices.first_open(passed, lateness));
    for number in pane.windows.start.max(open)..pane.windows.end.min(due) {
        if let Some(kept) = panes.window((&slices, number), &mut taking.timing.folding) {
            taking.emit(key.clone(), slices.window(number), kept)?;
        }
    }
    let mut moment = given_up(&slices, pane, lateness);
    if pane.windows.end > due {
        moment = moment.min(slices.window(pane.windows.start.max(due)).last());
    }
    taking.look_at((at, key), panes, moment);
    Ok(())
}
