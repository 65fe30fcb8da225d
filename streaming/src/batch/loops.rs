//! Loops over the records of a batch that can be left early: what was not looked at stays in the batch.
//!
//! Loops over records without event times must not ask for each record whether it has one. Functions are therefore compiled into a loop of
//! their own for such batches. The loop that looks ahead is too long for that: it goes by runs of records with the same time, and a batch
//! without times is one run.

use super::{Batch, NO_TIME};
use std::array;

/// Records that [`Batch::try_each_ahead`] looks ahead: enough for a miss of all caches, and few enough to be still there when their
/// turn comes.
pub(super) const AHEAD: usize = 16;

/// The columns that a loop looks at. A constant where the loop is called, so that the compiler leaves out the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    /// True if the loop looks at event times; otherwise all records count as having none.
    pub(crate) times: bool,
    /// True if the loop hands the hashes of keys on, where records have them.
    pub(crate) hashes: bool,
}

impl Columns {
    /// The records alone.
    pub(crate) const NONE: Self = Self { times: false, hashes: false };
    /// The records and their event times.
    pub(crate) const TIMES: Self = Self { times: true, hashes: false };

    /// Returns the event time of the record at `begin` of `count`, and the end of the run: the index of a later record that may have
    /// another one, or `count`.
    #[inline(always)]
    fn run(self, times: &[i64], begin: usize, count: usize) -> (i64, usize) {
        if self.times
            && let Some(behind) = times.get(begin..)
            && let Some((time, behind)) = behind.split_first()
        {
            let same = behind.iter().take_while(|other| *other == time).count();
            return (*time, begin + 1 + same);
        }
        (NO_TIME, count)
    }
}

/// Turns the lengths of parts into an answer per record: returns a function that says, after each record, whether to go on with the
/// next one.
#[inline]
pub(crate) fn record_by_record(mut next: impl FnMut() -> usize) -> impl FnMut() -> bool {
    let mut left = next();
    move || {
        left = left.saturating_sub(1);
        if left == 0 {
            left = next();
        }
        left > 0
    }
}

impl<T> Batch<T> {
    /// Calls `each` with one record after the other, in their order, and with its event time or [`NO_TIME`], until `each` returns
    /// `Ok(false)` or an error. The records that `each` was called with are gone; the others stay in the batch.
    ///
    /// # Errors
    /// Returns the first error of `each`. The record of that call is gone, those behind it stay.
    #[inline(always)]
    pub fn try_each_while<E>(
        &mut self,
        mut each: impl FnMut(T, i64) -> Result<bool, E>,
    ) -> Result<(), E> {
        if self.times.is_empty() {
            return self.try_each_record(Columns::NONE, |record, _| each(record, NO_TIME));
        }
        self.try_each(Columns::TIMES, |record, time, _| each(record, time))
    }

    /// Does the same as [`Batch::try_each_while`] without looking at the event times, if there are any. `each` gets the hash of the
    /// record's key too, if the record has one and `columns` has hashes.
    ///
    /// # Errors
    /// Returns the first error of `each`; the records behind it stay, with their times.
    #[inline(always)]
    pub(crate) fn try_each_record<E>(
        &mut self,
        columns: Columns,
        mut each: impl FnMut(T, Option<u64>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let columns = Columns { times: false, ..columns };
        self.try_each(columns, |record, _, hash| each(record, hash))
    }

    /// Does the same as [`Batch::try_each_while`] with one loop, which asks for each record whether it has a time if `columns` has times.
    /// `each` gets the hash of the record's key too, if the record has one and `columns` has hashes.
    ///
    /// # Errors
    /// Returns the first error of `each`; the records behind it stay, with their times.
    #[inline(always)]
    pub(crate) fn try_each<E>(
        &mut self,
        columns: Columns,
        mut each: impl FnMut(T, i64, Option<u64>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (times, hashes) = (std::mem::take(&mut self.times), std::mem::take(&mut self.hashes));
        let count = self.records.len();
        let (mut now, mut known, mut failure) =
            (times.iter().copied(), hashes.iter().copied(), None);
        let mut records = self.records.drain(..);
        for record in records.by_ref() {
            let time = if columns.times { now.next().unwrap_or(NO_TIME) } else { NO_TIME };
            let hash = if columns.hashes { known.next() } else { None };
            // The answer of each call is looked at and dropped: kept in a variable, an error type of many bytes would be copied
            // for every record.
            match each(record, time, hash) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let rest = records.collect();
        self.put_back(columns, rest, (times, hashes), count);
        failure.map_or(Ok(()), Err)
    }

    /// Puts back the records that a loop over `count` records has not handed on, and what belongs to them.
    #[inline]
    fn put_back(
        &mut self,
        columns: Columns,
        records: Vec<T>,
        (mut times, mut hashes): (Vec<i64>, Vec<u64>),
        count: usize,
    ) {
        let done = count - records.len();
        times.drain(..done.min(times.len()));
        // A loop that does not look at them is not in front of the operator that they are for.
        hashes.drain(..if columns.hashes { done.min(hashes.len()) } else { hashes.len() });
        (self.times, self.hashes) = (times, hashes);
        if !records.is_empty() {
            self.records.extend(records);
        }
    }

    /// Does the same as [`Batch::try_each`], but shows every record and its hash to `ahead` first, [`AHEAD`] records earlier, and hands the
    /// result to `each` together with the record. `turn` gets the event time, or [`NO_TIME`], before the first record of each run of records
    /// with the same one. All three get `state`. Before the first record `ahead` is called for [`AHEAD`] of them, unless `is_interrupted`
    /// returns true in between: then only the records that were shown are handed on, at least one.
    ///
    /// # Errors
    /// Returns the first error of `each`; the records behind it stay too.
    #[inline(always)]
    pub(crate) fn try_each_ahead<S, A, E>(
        &mut self,
        columns: Columns,
        state: &mut S,
        is_interrupted: impl Fn() -> bool,
        ahead: impl Fn(&S, &T, Option<u64>) -> A,
        mut turn: impl FnMut(&mut S, i64),
        mut each: impl FnMut(&mut S, A, T) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (times, hashes) = (std::mem::take(&mut self.times), std::mem::take(&mut self.hashes));
        let count = self.records.len();
        let mut records = self.records.drain(..);
        let look = |state: &S, record: Option<&T>, at: usize| {
            let hash = if columns.hashes { hashes.get(at).copied() } else { None };
            record.map(|record| ahead(state, record, hash))
        };
        let mut distance = AHEAD - 1;
        let mut seen: [Option<A>; AHEAD] = array::from_fn(|at| {
            if at > 0 && is_interrupted() {
                distance = usize::MAX;
                return None;
            }
            look(state, records.as_slice().get(at), at)
        });
        let (mut place, mut begin, mut failure) = (0, 0, None);
        'runs: while begin < count {
            let (time, end) = columns.run(&times, begin, count);
            turn(state, time);
            for at in begin..end {
                let Some(seen) = seen.get_mut(place) else { break 'runs };
                let Some(first) = seen.take() else { break 'runs };
                let Some(record) = records.next() else { break 'runs };
                *seen = look(state, records.as_slice().get(distance), at + AHEAD);
                place = (place + 1) % AHEAD;
                match each(state, first, record) {
                    Ok(true) => {}
                    Ok(false) => break 'runs,
                    Err(error) => {
                        failure = Some(error);
                        break 'runs;
                    }
                }
            }
            begin = end;
        }
        let rest = records.collect();
        self.put_back(columns, rest, (times, hashes), count);
        failure.map_or(Ok(()), Err)
    }

    /// Calls `each` with every record and its event time or [`NO_TIME`], in their order. The batch is empty then and keeps its memory.
    #[inline]
    pub fn each(&mut self, mut each: impl FnMut(T, i64)) {
        self.hashes.clear();
        if self.times.is_empty() {
            return self.records.drain(..).for_each(|record| each(record, NO_TIME));
        }
        self.fill_times();
        let timed = self.records.drain(..).zip(self.times.drain(..));
        timed.for_each(|(record, time)| each(record, time));
    }
}
