//! The part of tumbling and sliding windows that is the same for both clocks: it adds records to panes, fires whole windows
//! when time has passed their end, and writes and restores the state.

use super::{
    WindowFolding,
    late::Lateness,
    panes::Panes,
    restored::Restored,
    slices::{Pane, Slices},
    store::WindowStore,
};
use crate::{
    batch::Batch,
    operators::{Collector, Flow, KeySelector, Keyed, OperatorContext, keyed::failed},
    seam::TaskError,
    state::{
        KeyAddress, KeyGroups, Single, StateDeclaration, StateField, Table, part_bits,
        read_snapshot, write_snapshot,
    },
    types::{CodecError, Reader, Record, write_len, write_zigzag},
};
use hashbrown::hash_table::Entry;

const VERSION: u8 = 1;

/// A window that is being fired, and how far the firing got when the output was full.
#[derive(Debug, Clone, Copy)]
struct Firing {
    window: i128,
    /// Index of the part (a share of the key groups) to collect next.
    part: usize,
}

/// Tumbling or sliding windows of one subtask: their panes, and how far their windows have been fired.
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
}

impl<T: Record, S: KeySelector<T>, F: WindowFolding<S::Key, T>> WindowCore<T, S, F> {
    /// Returns the declaration of the keyed state.
    pub(super) fn declare() -> Vec<StateDeclaration> {
        vec![<Option<F::Kept> as StateField>::declare("window-contents")]
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
        let Self { panes, folding, groups, .. } = self;
        let table = panes.table(pane);
        if table.reads_ahead() {
            return batch.try_each_ahead(
                table,
                |table, record| {
                    let held = selector.hold(record);
                    let at = groups.address(selector.key(record, &held));
                    table.fetch_ahead(at);
                    (at, held)
                },
                |table, (at, held), record, _| {
                    add(table, folding, at, Keyed::with_held(selector, record, held), context)?;
                    Ok(out.should_continue())
                },
            );
        }
        batch.try_each_while(|record, _| {
            let record = Keyed::new(selector, record);
            let at = groups.address(record.key());
            add(table, folding, at, record, context)?;
            Ok(out.should_continue())
        })
    }

    /// Adds a record to its pane. A record that no open window takes goes to the side output of late records or is dropped.
    /// Each window that was fired already and is still open is fired once more, for the record's key only.
    fn add_one(
        &mut self,
        record: Keyed<'_, T, S>,
        pane: &Pane,
        time: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let at = self.groups.address(record.key());
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
            return add(self.panes.table(pane), &mut self.folding, at, record, context);
        }
        let key = record.key().clone();
        add(self.panes.table(pane), &mut self.folding, at, record, context)?;
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
        out.set_time(window.last());
        let bits = part_bits(groups);
        let parts = groups.owned.len() << bits;
        loop {
            while let Some((key, kept)) = rest.pop() {
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

    fn restore(&mut self, bytes: &[u8], context: &OperatorContext) -> Result<(), TaskError> {
        let codec = |error| context.codec_error(error);
        let mut input = Reader::new(bytes);
        if input.byte().map_err(codec)? != VERSION {
            return Err(codec(CodecError::Invalid { what: "version of a window's state" }));
        }
        let mut written = [0; 3];
        for part in &mut written {
            *part = input.zigzag().map_err(codec)?;
        }
        if written != self.slices.parts() {
            let text = |[size, slide, offset]: [i64; 3]| {
                format!("size {size} ms, slide {slide} ms and offset {offset} ms")
            };
            return Err(TaskError::Deployment(format!(
                "operator '{}': cannot restore its state, which is of windows with {}; those of the program have {}; give the operator another uid, or restore with the program that wrote the state",
                context.name(),
                text(written),
                text(self.slices.parts()),
            )));
        }
        self.restored.read(&self.groups, &mut input).map_err(codec)?;
        let panes = input.count().map_err(codec)?;
        for _ in 0..panes {
            let number = input.zigzag().map_err(codec)?;
            let length = input.count().map_err(codec)?;
            let table = input.take(length).map_err(codec)?;
            let pane = self.slices.pane(number);
            read_snapshot(table, self.panes.table(&pane), &self.groups, &self.fields)
                .map_err(|error| failed(context, error))?;
        }
        input.finish().map_err(codec)
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
        self.groups = KeyGroups::of_subtask(
            context.subtask(),
            context.parallelism(),
            context.max_parallelism(),
        );
        self.panes = Panes::new(self.groups.clone());
        while let Some(bytes) = context.next_snapshot()? {
            self.restore(&bytes, context)?;
        }
        Ok(())
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
            return self.add_all(selector, &pane, batch, out, context);
        }
        batch.try_each_while(|record, time| {
            if time < pane.first || time > pane.last {
                pane = self.slices.pane_at(time);
            }
            self.add_one(Keyed::new(selector, record), &pane, time, out, context)?;
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

    /// Returns the state: a version byte; size, slide and offset; the watermarks of the key groups; then a varint count of
    /// panes, and for each pane its number and the length and bytes of its table.
    fn snapshot(&mut self, context: &OperatorContext) -> Result<Vec<u8>, TaskError> {
        let mut bytes = vec![VERSION];
        self.slices.parts().iter().for_each(|ms| write_zigzag(*ms, &mut bytes));
        self.restored.write(&self.groups, self.watermark, &mut bytes);
        write_len(self.panes.len(), &mut bytes);
        let Self { panes, groups, fields, .. } = self;
        let written = panes.each(|pane, table| {
            let table = write_snapshot(table, groups, fields)?;
            write_zigzag(pane.number, &mut bytes);
            write_len(table.len(), &mut bytes);
            bytes.extend_from_slice(&table);
            Ok(())
        });
        written.map_err(|error| failed(context, error))?;
        Ok(bytes)
    }

    fn late_records(&self) -> u64 {
        self.lateness.dropped()
    }
}

/// Adds a record to the kept value of its key.
#[inline(always)]
fn add<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
    table: &mut Table<S::Key, Single<F::Kept>>,
    folding: &mut F,
    at: KeyAddress,
    record: Keyed<'_, T, S>,
    context: &OperatorContext,
) -> Result<(), TaskError> {
    let place = table.entry(at, |key| key == record.key());
    match place.map_err(|error| failed(context, error))? {
        Entry::Occupied(mut taken) => folding.add(&mut taken.get_mut().1.0, record.into_record()),
        Entry::Vacant(free) => {
            let (key, record) = record.into_both();
            free.insert((key, Single(folding.first(record))));
        }
    }
    Ok(())
}
