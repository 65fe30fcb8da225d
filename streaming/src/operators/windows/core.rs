//! The part of tumbling and sliding windows that is the same for both clocks: it adds records to panes, fires whole windows
//! when time has passed their end, and writes and restores the state.

use super::{
    WindowFolding,
    late::Lateness,
    panes::{OpenPane, Panes},
    restored::{Restored, each_part},
    slices::{Pane, Slices},
    store::WindowStore,
};
use crate::{
    batch::{Batch, Columns},
    operators::{
        Collector, Flow, KeySelector, Keyed, OperatorContext, Pace,
        keyed::{columns, failed},
    },
    seam::TaskError,
    state::{
        Free, KeyAddress, KeyGroups, MapState, Place, Single, Slice, StateDeclaration, StateError,
        StateField, Taken, part_bits, read_entries, write_head,
    },
    types::{Reader, Record, write_zigzag},
};
use std::collections::BTreeMap;

/// Version byte of the state. The state of sessions has another one, so that neither is read as the other.
pub(super) const VERSION: u8 = 3;

/// Reads size, slide and offset of the windows that wrote a state.
///
/// # Errors
/// Returns an error if they are not those of `slices`.
pub(super) fn check_parts(
    slices: &Slices,
    input: &mut Reader<'_>,
    context: &OperatorContext,
) -> Result<(), TaskError> {
    let mut written = [0; 3];
    for part in &mut written {
        *part = input.zigzag().map_err(|error| context.codec_error(error))?;
    }
    if written == slices.parts() {
        return Ok(());
    }
    Err(TaskError::Deployment(format!(
        "operator '{}': cannot restore its state, which is of windows with {}; those of the program have {}; give the operator another uid, or restore with the program that wrote the state",
        context.name(),
        Slices::text(written),
        Slices::text(slices.parts()),
    )))
}

/// A window that is being fired, and how far the firing got when the output was full.
#[derive(Debug, Clone, Copy)]
struct Firing {
    window: i128,
    /// Index of the part (a share of the key groups) to collect next.
    part: usize,
}

/// The [`WindowStore`] of tumbling or sliding windows of one subtask, in memory: their panes (the parts of time that windows are
/// put together from), and how far their windows have been fired.
pub struct WindowCore<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>> {
    folding: F,
    slices: Slices,
    lateness: Lateness<T>,
    fields: Vec<StateDeclaration>,
    groups: KeyGroups,
    panes: Panes<S::Key, F::Kept>,
    /// Time in milliseconds up to which windows were fired: the watermark, or the clock's time minus 1.
    watermark: i64,
    /// Number of the first window that has not been fired as a whole.
    due: i128,
    /// Number of the first window that still takes records.
    open: i128,
    restored: Restored,
    firing: Option<Firing>,
    /// Collected entries of the window that is being fired, still to be emitted.
    rest: Vec<(S::Key, F::Kept)>,
    /// Whether keys may be computed ahead.
    pace: Pace,
}

impl<T: Record, S: KeySelector<T>, F: WindowFolding<S::Key, T>> WindowCore<T, S, F> {
    /// Returns the declaration of the keyed state: a map from the number of a pane to the kept value.
    pub(super) fn declare() -> Vec<StateDeclaration> {
        vec![MapState::<i64, F::Kept>::declare("window-contents")]
    }

    /// Makes empty windows, which take no records before they are opened. `lateness` says what happens to late records.
    pub(super) fn new(folding: F, slices: Slices, lateness: impl Into<Lateness<T>>) -> Self {
        let groups = KeyGroups { owned: 0..0, max_parallelism: 1 };
        Self {
            folding,
            slices,
            lateness: lateness.into(),
            fields: Self::declare(),
            panes: Panes::new(groups.clone()),
            groups,
            watermark: i64::MIN,
            due: i128::MIN,
            open: i128::MIN,
            restored: Restored::default(),
            firing: None,
            rest: Vec::new(),
            pace: Pace::default(),
        }
    }

    /// Returns true if no record of the pane is late, and no window of the pane has been fired.
    fn is_ahead(&self, pane: &Pane) -> bool {
        self.restored.is_empty() && pane.windows.start >= self.due && !pane.windows.is_empty()
    }

    /// Adds a batch of records that all belong to `pane`, for which [`WindowCore::is_ahead`] is true.
    #[inline]
    fn add_all(
        &mut self,
        selector: &S,
        pane: &Pane,
        batch: &mut Batch<T>,
        out: &Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { panes, folding, groups, pace, .. } = self;
        let mut pane = panes.open(pane);
        let interrupt = &context.shared().interrupt;
        let columns = Columns { times: false, ..columns::<T, S>() };
        if pane.reads_ahead() && pace.is_quick() {
            return batch.try_each_ahead(
                columns,
                &mut pane,
                || interrupt.is_raised(),
                |pane, record, hash| {
                    let held = selector.hold(record);
                    let at = groups.address_by(selector.key(record, &held), hash);
                    pane.fetch_ahead(at);
                    (at, held)
                },
                |_, _| {},
                |pane, (at, held), record| {
                    add(pane, folding, at, Keyed::with_held(selector, record, held), context)?;
                    Ok(out.should_continue())
                },
            );
        }
        batch.try_each_record(columns, |record, hash| {
            let record = Keyed::new(selector, record);
            let at = groups.address_by(record.key(), hash);
            add(&mut pane, folding, at, record, context)?;
            Ok(out.should_continue())
        })
    }

    /// Adds a record to its pane. A record that no open window takes goes to the side output of late records or is dropped.
    /// Each window that was fired already and is still open is fired once more, for the record's key only.
    fn add_one(
        &mut self,
        (at, record): (KeyAddress, Keyed<'_, T, S>),
        pane: &Pane,
        time: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let (mut due, mut open, mut watermark) = (self.due, self.open, self.watermark);
        let group = at.group.wrapping_sub(self.groups.owned.start) as usize;
        if let Some(restored) = self.restored.of(group).filter(|ms| *ms > watermark) {
            watermark = restored;
            due = due.max(self.slices.first_open(restored, 0));
            open = open.max(self.slices.first_open(restored, self.lateness.ms));
        }
        if pane.windows.end <= open || pane.windows.is_empty() {
            self.lateness.take_late(record.into_record(), time, watermark, out);
            return Ok(());
        }
        let fired = pane.windows.start.max(open)..pane.windows.end.min(due);
        if fired.is_empty() {
            return add(&mut self.panes.open(pane), &mut self.folding, at, record, context);
        }
        let key = record.key().clone();
        add(&mut self.panes.open(pane), &mut self.folding, at, record, context)?;
        for number in fired {
            let Self { panes, folding, slices, .. } = self;
            let kept = panes.collect_key((slices, number), (at, &key), folding);
            let Some(kept) = kept else { continue };
            let window = slices.window(number);
            out.set_time(window.last());
            let emitted = folding.emit(key.clone(), window, kept, out);
            emitted.map_err(|error| context.user_error(error))?;
        }
        Ok(())
    }

    /// Records that all windows that end by `until` have been fired, and drops the panes that no open window needs.
    fn passed(&mut self, until: i64) {
        if until <= self.watermark {
            return;
        }
        self.watermark = until;
        self.due = self.due.max(self.slices.first_open(until, 0));
        self.open = self.slices.first_open(until, self.lateness.ms);
        self.restored.passed(until);
        self.panes.drop_before(self.open);
    }

    fn fire_window(
        &mut self,
        Firing { window: number, mut part }: Firing,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let Self { folding, slices, panes, restored, rest, groups, .. } = self;
        let window = slices.window(number);
        let (bits, parts) = (part_bits(groups), panes.parts());
        loop {
            while let Some((key, kept)) = rest.pop() {
                // The call before may have set another one.
                out.set_time(window.last());
                let emitted = folding.emit(key, window, kept, out);
                emitted.map_err(|error| context.user_error(error))?;
                if !out.should_continue() {
                    self.firing = Some(Firing { window: number, part });
                    return Ok(Flow::More);
                }
            }
            if part == parts {
                return Ok(Flow::Done);
            }
            // What was fired before the state was written is not fired again.
            let restored = restored.of(part >> bits);
            if restored.is_none_or(|ms| slices.first_open(ms, 0) <= number) {
                let last_use = self.lateness.ms == 0;
                if !panes.collect_part((slices, number, part), last_use, folding, rest, || {
                    out.should_continue()
                }) {
                    self.firing = Some(Firing { window: number, part });
                    return Ok(Flow::More);
                }
            }
            part += 1;
        }
    }

    /// Restores the next part of a state, behind its version byte.
    fn restore(
        &mut self,
        input: &mut Reader<'_>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        check_parts(&self.slices, input, context)?;
        let read = self.restored.read(&self.groups, input);
        read.map_err(|error| context.codec_error(error))?;
        let dropped = self.restore_panes(input).map_err(|error| failed(context, error))?;
        context.note_dropped(dropped);
        Ok(())
    }

    /// Restores the panes. Returns the kinds of the fields that were dropped, by name.
    fn restore_panes(
        &mut self,
        input: &mut Reader<'_>,
    ) -> Result<BTreeMap<String, String>, StateError> {
        let Self { panes, slices, groups, fields, .. } = self;
        read_entries(input, groups, fields, |at, key: S::Key, rows| {
            while let Some((_, row)) = rows.next()? {
                let pane = slices.pane(row.entry()?);
                panes.open(&pane).restore(at, key.clone(), row.value()?)?;
            }
            Ok(())
        })
    }

    /// Returns what precedes the entries in the state: a version byte, size, slide and offset, the watermarks of the key groups, and
    /// the head of a snapshot of keyed state. All chunks but the first have the watermarks of no key group.
    fn head(&self, has_watermarks: bool) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        self.slices.parts().iter().for_each(|ms| write_zigzag(*ms, &mut bytes));
        match has_watermarks {
            true => self.restored.write(&self.groups, self.watermark, &mut bytes),
            false => Restored::write_none(&mut bytes),
        }
        write_head::<S::Key>(&self.fields, &mut bytes);
        bytes
    }
}

impl<T, S, F> WindowStore<T, S> for WindowCore<T, S, F>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.lateness.open(context)?;
        self.groups = context.key_groups();
        self.panes = Panes::new(self.groups.clone());
        each_part(VERSION, context, |input| self.restore(input, context))
    }

    fn add(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        (least, greatest): (i64, i64),
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let mut pane = self.slices.pane_at(least);
        if greatest <= pane.last && self.is_ahead(&pane) {
            let before = batch.len();
            let added = self.add_all(selector, &pane, batch, out, context);
            self.pace.count(before - batch.len(), &context.shared().interrupt);
            return added;
        }
        batch.try_each(columns::<T, S>(), |record, time, hash| {
            if time < pane.first || time > pane.last {
                pane = self.slices.pane_at(time);
            }
            let record = Keyed::new(selector, record);
            let at = self.groups.address_by(record.key(), hash);
            self.add_one((at, record), &pane, time, out, context)?;
            Ok(out.should_continue())
        })
    }

    fn fire(
        &mut self,
        until: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let due = self.slices.first_open(until, 0);
        loop {
            if let Some(firing) = self.firing {
                if self.fire_window(firing, out, context)? == Flow::More {
                    return Ok(Flow::More);
                }
                self.firing = None;
            }
            match self.panes.next_window(&self.slices, self.due).filter(|window| *window < due) {
                Some(window) => {
                    self.due = window + 1;
                    self.firing = Some(Firing { window, part: 0 });
                }
                None => {
                    self.passed(until);
                    return Ok(Flow::Done);
                }
            }
        }
    }

    fn next_end(&self) -> Option<i64> {
        let window = self.panes.next_window(&self.slices, self.due)?;
        Some(self.slices.window(window).last())
    }

    fn fired_until(&self) -> i64 {
        self.restored.greatest().max(self.watermark)
    }

    fn memory_bytes(&self) -> u64 {
        self.panes.memory_bytes()
    }

    fn begin_snapshot(&mut self) -> bool {
        let (first, head) = (self.head(true), self.head(false));
        self.panes.begin_snapshot(&first, &head);
        true
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.panes.write_snapshot(slice).map_err(|error| failed(context, error))
    }

    fn abort_snapshot(&mut self) -> bool {
        self.panes.abort_snapshot();
        true
    }

    fn full(&self) -> bool {
        self.panes.waits_for_storage()
    }

    fn late_records(&self) -> u64 {
        self.lateness.dropped()
    }
}

/// Adds a record to the kept value of its key.
#[inline(always)]
fn add<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
    pane: &mut OpenPane<'_, S::Key, F::Kept>,
    folding: &mut F,
    at: KeyAddress,
    record: Keyed<'_, T, S>,
    context: &OperatorContext,
) -> Result<(), TaskError> {
    match pane.at_hand(at, |key| key == record.key()) {
        Some(Single(kept)) => folding.add(kept, record.into_record()),
        None => add_at_place(pane, folding, at, record, context)?,
    }
    Ok(())
}

/// Adds a record of a key that has no value in the pane, or whose value takes more than a look-up.
#[inline(never)]
fn add_at_place<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
    pane: &mut OpenPane<'_, S::Key, F::Kept>,
    folding: &mut F,
    at: KeyAddress,
    record: Keyed<'_, T, S>,
    context: &OperatorContext,
) -> Result<(), TaskError> {
    let place = pane.place(at, |key| key == record.key());
    match place.map_err(|error| failed(context, error))? {
        Place::Taken(mut place) => folding.add(&mut place.entry().1.0, record.into_record()),
        Place::Free(place) => {
            let (key, record) = record.into_new(at).map_err(|error| failed(context, error))?;
            place.insert(key, Single(folding.first(record)));
        }
    }
    Ok(())
}
