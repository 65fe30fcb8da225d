//! What an operator emits for the records of a whole batch. None of the loops here may ask for each record whether it has an event time.

use super::Collector;
use crate::{
    batch::{Batch, Columns, NO_TIME},
    operators::load::{is_light, records_of},
    types::Record,
};

impl<T: Record> Collector<T> {
    /// Calls `each` with one record of a batch after the other and this output, which gives what is emitted the event time of the record,
    /// as long as nothing interrupts; the others stay in the batch. Whether there are times is asked once per batch. Ends with the first
    /// error of `each`; the records behind it stay.
    #[inline(always)]
    pub(crate) fn emit_each<In, E>(
        &mut self,
        from: &mut Batch<In>,
        mut each: impl FnMut(In, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.begin_run(NO_TIME);
        if from.times().is_empty() {
            return from.try_each_record(Columns::NONE, |record, _| {
                each(record, self)?;
                Ok(self.goes_on(NO_TIME))
            });
        }
        self.buffer.give(NO_TIME);
        from.try_each(Columns::TIMES, |record, time, _| {
            self.time = time;
            each(record, self)?;
            self.buffer.give(self.time);
            Ok(self.should_continue())
        })
    }

    /// Begins a run of records with this event time. After each of them the operator calls [`Collector::goes_on`].
    #[inline]
    pub(in crate::operators) fn begin_run(&mut self, time: i64) {
        self.turn_to(time);
        self.halts = self.stopped;
    }

    /// Returns what [`Collector::should_continue`] returns, and forgets the event time that a function has set for a record; `time` is that
    /// of the run.
    #[inline(always)]
    pub(in crate::operators) fn goes_on(&mut self, time: i64) -> bool {
        if self.halts || self.interrupt.is_raised() {
            self.begin_run(time);
            return self.should_continue();
        }
        true
    }

    /// Emits as many records as a batch may have, in one go and without times.
    #[inline]
    pub(crate) fn extend(&mut self, records: impl Iterator<Item = T>) {
        self.turn_to(NO_TIME);
        if const { is_light::<T>() } {
            self.buffer.extend(records);
            return self.send_if_full();
        }
        records.for_each(|record| self.collect(record));
    }

    /// Emits one record for each of a batch, at the same time, as long as nothing interrupts; the others stay in the batch.
    #[inline]
    pub(crate) fn extend_mapped<In>(&mut self, from: &mut Batch<In>, mut map: impl FnMut(In) -> T) {
        self.turn_to(NO_TIME);
        if const { is_light::<T>() } {
            let Self { buffer, pace, interrupt, .. } = self;
            buffer.extend_mapped(from, map, pace.parts::<In, T>(interrupt));
            return self.send_if_full();
        }
        // Batch by batch: small records may become large ones.
        while !from.is_empty() {
            let Self { buffer, load, pace, interrupt, .. } = self;
            let mut room = records_of::<T>().saturating_sub(buffer.len());
            let mut next = pace.parts::<In, T>(interrupt);
            let weighed = |record| {
                let made = map(record);
                load.add(&made);
                made
            };
            let part = || {
                if room == 0 || load.makes_batch::<T>(0) {
                    return 0;
                }
                let part = next().min(room);
                room -= part;
                part
            };
            buffer.extend_mapped(from, weighed, part);
            drop(next);
            self.send_if_full();
            if !self.should_continue() {
                break;
            }
        }
    }

    /// Emits the records of a batch for which `keep` returns true, as long as nothing interrupts; those that it was not asked about
    /// stay in the batch.
    #[inline]
    pub(crate) fn extend_filtered(&mut self, from: &mut Batch<T>, keep: impl FnMut(&T) -> bool) {
        self.turn_to(NO_TIME);
        let Self { buffer, pace, interrupt, .. } = self;
        buffer.extend_filtered(from, keep, pace.parts::<T, ()>(interrupt));
        self.send_if_full();
    }

    /// Emits the records from the front of a batch that `stamp` gives event times, and leaves the others in the batch. `stamp` gets a
    /// function that says how many records to stamp next, and 0 once the step is interrupted; it returns how many it has stamped.
    pub(crate) fn extend_stamped(
        &mut self,
        from: &mut Batch<T>,
        stamp: impl FnOnce(&mut Batch<T>, &mut dyn FnMut() -> usize) -> usize,
    ) {
        self.turn_to(NO_TIME);
        let Self { buffer, load, pace, interrupt, .. } = self;
        let stamped = stamp(from, &mut pace.parts::<T, ()>(interrupt));
        let rest = from.split_off(stamped);
        from.records().iter().for_each(|record| load.add(record));
        // Where nothing is left, the batch gets the buffer's memory in exchange.
        buffer.append(from);
        if !rest.is_empty() {
            *from = rest;
        }
        self.send_if_full();
    }
}
