//! Records on their way from one operator to the next, with the event times that they may have.
//!
//! A stream without event times must never write to the column of times, and the loops of functions without keys must test once per batch
//! whether there are times. An output therefore emits by `Batch::push_record`, without a time, and `Batch::give` gives the time to all
//! records that were emitted with it. [`Batch::push`] compares the time of each record, and the loop of folds and keyed functions
//! (`Batch::try_each`) asks the empty column for each one. Nothing in this module may reorder records.

mod in_place;
mod parts;

pub use parts::{OwnedParts, Parts};

use in_place::{map_into, retain_front};
use std::array;

/// The event time that stands for "no event time": `i64::MIN`, as `Long.MIN_VALUE` in Flink. No record can have it as its event time.
pub const NO_TIME: i64 = i64::MIN;

/// Records that [`Batch::try_each_ahead`] looks ahead: enough for a miss of all caches, and few enough to be still there when their
/// turn comes.
pub(crate) const AHEAD: usize = 16;

/// Records in their order, each with an event time or without.
///
/// Times are a column of their own (milliseconds since 1970). The column may end early: the records behind its end have no time. A batch of
/// a stream without times so has an empty column that nothing is ever written to. A batch has no bound of its own; outputs hand batches on
/// at 1,024 records or 256 KiB at the latest. Batches are equal if their columns are: a missing time differs from [`NO_TIME`].
///
/// ```
/// use streaming::batch::{Batch, NO_TIME, OwnedParts, Parts};
///
/// let mut batch = Batch::with_times(vec!["a", "b"], vec![1_000, 2_000]);
/// batch.push("c", NO_TIME);
/// batch.append(&mut Batch::from(vec!["d"]));
/// assert_eq!((batch.len(), batch.times().len()), (4, 2), "the last two records have no time");
///
/// let mut copies = Batch::with_capacity(4);
/// copies.append_copies(&batch);
/// copies.stamp(|_, time| if time == NO_TIME { 3_000 } else { time });
/// let mut seen = Vec::new();
/// copies.look_each(|record, time| seen.push((*record, time)));
/// assert_eq!(seen, [("a", 1_000), ("b", 2_000), ("c", 3_000), ("d", 3_000)]);
///
/// let rest = copies.split_off(3);
/// assert_eq!((copies.len(), rest.into_parts()), (3, (vec!["d"], vec![3_000])));
/// let mut parts = OwnedParts::from(copies);
/// let mut two = Batch::default();
/// parts.take_into(2, &mut two);
/// assert_eq!((two.records(), parts.is_empty()), (&["a", "b"][..], false));
///
/// let mut borrowed: Parts<_, _> = two.drain_parts();
/// let mut one = Batch::default();
/// borrowed.take_into(1, &mut one);
/// drop(borrowed);
/// assert_eq!((one.records(), two.is_empty()), (&["a"][..], true));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<T> {
    records: Vec<T>,
    times: Vec<i64>,
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

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { records: Vec::new(), times: Vec::new() }
    }
}

impl<T> From<Vec<T>> for Batch<T> {
    /// Records without times.
    fn from(records: Vec<T>) -> Self {
        Self { records, times: Vec::new() }
    }
}

impl<T> Batch<T> {
    /// Returns an empty batch with memory for `records` records and for no event times; it grows beyond that as a `Vec` does.
    pub fn with_capacity(records: usize) -> Self {
        Self { records: Vec::with_capacity(records), times: Vec::new() }
    }

    /// Joins records with their event times, in milliseconds since 1970. Times beyond the last record are dropped; records beyond the
    /// last time have none.
    pub fn with_times(records: Vec<T>, mut times: Vec<i64>) -> Self {
        times.truncate(records.len());
        Self { records, times }
    }

    /// Returns the number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the bytes of memory for records and times that are not there.
    pub(crate) fn spare_bytes(&self) -> usize {
        let records = (self.records.capacity() - self.records.len()) * size_of::<T>();
        records + (self.times.capacity() - self.times.len()) * size_of::<i64>()
    }

    /// Returns true if the batch has no record.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the records in their order.
    #[inline]
    pub fn records(&self) -> &[T] {
        &self.records
    }

    /// Returns the event times of the first records, in milliseconds since 1970 or [`NO_TIME`]; the records behind them have none.
    #[inline]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Takes the batch apart into its records and their event times (milliseconds since 1970 or [`NO_TIME`]). There may be fewer times than
    /// records: those beyond the last time have none.
    pub fn into_parts(self) -> (Vec<T>, Vec<i64>) {
        (self.records, self.times)
    }

    /// Turns every record into another one with the same event time, in their order; calls `map` once per record before the return.
    pub fn map<U>(self, map: impl FnMut(T) -> U) -> Batch<U> {
        Batch { records: self.records.into_iter().map(map).collect(), times: self.times }
    }

    /// Drops all records and their times; the memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.records.clear();
        self.times.clear();
    }

    /// Appends a record with its event time in milliseconds since 1970, or with [`NO_TIME`]. A time gives those records before it that have
    /// no place in [`Batch::times`] the time [`NO_TIME`].
    // Always: a record of more than two words would be written to the stack and read back at once, which stops the processor.
    #[inline(always)]
    pub fn push(&mut self, record: T, time: i64) {
        if time != NO_TIME {
            self.fill_times();
            self.times.push(time);
        }
        self.records.push(record);
    }

    /// Appends a record whose time [`Batch::give`] sets later; until then it has none.
    // Always: see above.
    #[inline(always)]
    pub(crate) fn push_record(&mut self, record: T) {
        self.records.push(record);
    }

    /// Gives the records without a place in the column of times this time, in milliseconds since 1970 or [`NO_TIME`].
    #[inline]
    pub(crate) fn give(&mut self, time: i64) {
        match self.records.len() - self.times.len() {
            0 => {}
            1 => self.times.push(time),
            _ => self.extend_times(time),
        }
    }

    /// Gives every record a place in the column of times.
    #[inline]
    fn fill_times(&mut self) {
        if self.times.len() < self.records.len() {
            self.extend_times(NO_TIME);
        }
    }

    /// Extends the column of times. A function of its own, because its caller is inlined into user functions.
    #[cold]
    #[inline(never)]
    fn extend_times(&mut self, time: i64) {
        self.times.resize(self.records.len(), time);
    }

    /// Moves all records of another batch, with their times, to the end of this one; `other` is empty then. If this batch is empty, the
    /// two only swap their memory.
    #[inline]
    pub fn append(&mut self, other: &mut Self) {
        if self.records.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        self.append_times(&mut other.times);
        self.records.append(&mut other.records);
    }

    /// Appends copies of all records of another batch, with their times.
    pub fn append_copies(&mut self, other: &Self)
    where
        T: Clone,
    {
        if !other.times.is_empty() {
            self.fill_times();
            self.times.extend_from_slice(&other.times);
        }
        self.records.extend_from_slice(&other.records);
    }

    /// Appends the times of records that are appended next.
    #[inline]
    fn append_times(&mut self, times: &mut Vec<i64>) {
        if !times.is_empty() {
            self.fill_times();
            self.times.append(times);
        }
    }

    /// Moves records from the front of `from` through `map` to the end of this batch, in their order; each keeps its event time.
    ///
    /// `next` is called before each part and returns the maximum number of records in the part. At its 0 the loop ends, and the records
    /// that `map` was not called for stay in `from`: answers of 16 and then 0 move at most 16 records. If `map` panics, the other records
    /// of the part at work are leaked, none is dropped twice, the records of earlier parts are in this batch without their event times, and
    /// the event times in `from` no longer fit its records.
    #[inline]
    #[doc(hidden)]
    pub fn extend_mapped<In>(
        &mut self,
        from: &mut Batch<In>,
        map: impl FnMut(In) -> T,
        next: impl FnMut() -> usize,
    ) {
        let timed = !from.times.is_empty();
        if timed {
            self.fill_times();
            from.fill_times();
        }
        let moved = map_into(&mut from.records, &mut self.records, map, next);
        if timed {
            self.times.extend(from.times.drain(..moved));
        }
    }

    /// Moves the records of `from` for which `keep` returns true to the end of this batch, with their event times, and drops those for
    /// which it returns false. `next` limits the parts as in [`Batch::extend_mapped`]; its first answer must not be 0, because one record
    /// may be processed even then. Records that `keep` was not asked about stay in `from`, in their order.
    ///
    /// If this batch is empty and `from` has no times, the two exchange their memory instead of copying the records.
    #[inline]
    #[doc(hidden)]
    pub fn extend_filtered(
        &mut self,
        from: &mut Self,
        mut keep: impl FnMut(&T) -> bool,
        next: impl FnMut() -> usize,
    ) {
        if !self.is_empty() || !from.times.is_empty() {
            let mut should_continue = record_by_record(next);
            // Never fails: the error type has no values.
            let _: Result<(), std::convert::Infallible> = from.try_each_while(|record, time| {
                if keep(&record) {
                    self.push(record, time);
                }
                Ok(should_continue())
            });
            return;
        }
        // In place: the records that are kept move by some places, and the memory changes its owner.
        let kept = retain_front(&mut from.records, keep, next);
        let rest = match kept < from.records.len() {
            true => from.records.split_off(kept),
            false => Vec::new(),
        };
        std::mem::swap(&mut self.records, &mut from.records);
        if !rest.is_empty() {
            from.records = rest;
        }
    }

    /// Appends records without event times.
    #[inline]
    pub fn extend(&mut self, records: impl Iterator<Item = T>) {
        self.records.extend(records);
    }

    /// Calls `each` with one record after the other, in their order, and with its event time or [`NO_TIME`], until `each` returns
    /// `Ok(false)` or an error. The records that `each` was called with are gone; the others stay in the batch.
    ///
    /// # Errors
    /// Returns the first error of `each`. The record of that call is gone, those behind it stay.
    #[inline(always)]
    pub fn try_each_while<E>(
        &mut self,
        each: impl FnMut(T, i64) -> Result<bool, E>,
    ) -> Result<(), E> {
        if self.times.is_empty() {
            return self.try_each_with(|_| NO_TIME, each);
        }
        self.try_each(each)
    }

    /// Does the same as [`Batch::try_each_while`] without looking at the event times, if there are any.
    ///
    /// # Errors
    /// Returns the first error of `each`; the records behind it stay, with their times.
    #[inline(always)]
    pub(crate) fn try_each_record<E>(
        &mut self,
        mut each: impl FnMut(T) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (before, mut times) = (self.len(), std::mem::take(&mut self.times));
        let done = self.try_each_with(|_| NO_TIME, |record, _| each(record));
        times.drain(..times.len().min(before - self.len()));
        self.times = times;
        done
    }

    /// Does the same as [`Batch::try_each_while`] with one loop for records with and without times, so that also an `each` of many
    /// instructions is compiled into it and not called for every record. A short `each` is quicker with two loops.
    ///
    /// # Errors
    /// Returns the first error of `each`; the records behind it stay.
    #[inline(always)]
    pub(crate) fn try_each<E>(
        &mut self,
        each: impl FnMut(T, i64) -> Result<bool, E>,
    ) -> Result<(), E> {
        if !self.times.is_empty() {
            self.fill_times();
        }
        self.try_each_with(|times| times.next().unwrap_or(NO_TIME), each)
    }

    /// Calls `each` with one record after the other and the time that `time` takes out of the column.
    #[inline(always)]
    fn try_each_with<E>(
        &mut self,
        mut time: impl FnMut(&mut std::vec::Drain<'_, i64>) -> i64,
        mut each: impl FnMut(T, i64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (mut records, mut times) = (self.records.drain(..), self.times.drain(..));
        let mut failure = None;
        for record in records.by_ref() {
            // The answer of each call is looked at and dropped: kept in a variable, an error type of many bytes would be copied
            // for every record.
            match each(record, time(&mut times)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if records.len() > 0 {
            let rest: (Vec<T>, Vec<i64>) = (records.collect(), times.collect());
            self.records.extend(rest.0);
            self.times.extend(rest.1);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Does the same as [`Batch::try_each_while`], but shows every record to `ahead` first, [`AHEAD`] records earlier, and hands the
    /// result to `each` together with the record. Both get `state`. Before the first record `ahead` is called for [`AHEAD`] of them,
    /// unless `is_interrupted` returns true in between: then only the records that were shown are handed on, at least one.
    ///
    /// # Errors
    /// Returns the first error of `each`; the records behind it stay too.
    #[inline(always)]
    pub(crate) fn try_each_ahead<S, A, E>(
        &mut self,
        state: &mut S,
        is_interrupted: impl Fn() -> bool,
        ahead: impl Fn(&S, &T) -> A,
        mut each: impl FnMut(&mut S, A, T, i64) -> Result<bool, E>,
    ) -> Result<(), E> {
        if !self.times.is_empty() {
            self.fill_times();
        }
        let (mut records, mut times) = (self.records.drain(..), self.times.drain(..));
        let mut distance = AHEAD - 1;
        let mut seen: [Option<A>; AHEAD] = array::from_fn(|i| {
            if i > 0 && is_interrupted() {
                distance = usize::MAX;
                return None;
            }
            records.as_slice().get(i).map(|record| ahead(state, record))
        });
        let (mut turn, mut failure) = (0, None);
        while let Some(seen) = seen.get_mut(turn)
            && let Some(first) = seen.take()
            && let Some(record) = records.next()
        {
            *seen = records.as_slice().get(distance).map(|record| ahead(state, record));
            turn = (turn + 1) % AHEAD;
            match each(state, first, record, times.next().unwrap_or(NO_TIME)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if records.len() > 0 {
            let rest: (Vec<T>, Vec<i64>) = (records.collect(), times.collect());
            self.records.extend(rest.0);
            self.times.extend(rest.1);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Calls `each` with every record and its event time or [`NO_TIME`], in their order. The batch is empty then and keeps its memory.
    #[inline]
    pub fn each(&mut self, mut each: impl FnMut(T, i64)) {
        if self.times.is_empty() {
            return self.records.drain(..).for_each(|record| each(record, NO_TIME));
        }
        self.fill_times();
        let timed = self.records.drain(..).zip(self.times.drain(..));
        timed.for_each(|(record, time)| each(record, time));
    }

    /// Takes all records out of the batch: the returned view hands them on in parts by [`Parts::take_into`]. The batch is empty when the
    /// view is dropped, which also drops the records that were not taken; the batch's memory stays.
    pub fn drain_parts(&mut self) -> Parts<std::vec::Drain<'_, T>, std::vec::Drain<'_, i64>> {
        Parts { records: self.records.drain(..), times: self.times.drain(..) }
    }

    /// Calls `look` with every record and its event time or [`NO_TIME`], in their order. Changes nothing.
    #[inline]
    pub fn look_each(&self, mut look: impl FnMut(&T, i64)) {
        let mut times = self.times.iter();
        for record in &self.records {
            look(record, times.next().copied().unwrap_or(NO_TIME));
        }
    }

    /// Sets the event times of records from the front on, part by part: `time` gets a record and its time or [`NO_TIME`], and returns the
    /// new time. `next` returns the maximum number of records in the next part; at 0 the loop ends, and the others keep their times.
    /// Returns how many records got a new time. From then on every record has a place in [`Batch::times`].
    #[doc(hidden)]
    pub fn stamp_while(
        &mut self,
        mut time: impl FnMut(&T, i64) -> i64,
        mut next: impl FnMut() -> usize,
    ) -> usize {
        let Self { records, times } = self;
        times.reserve(records.len().saturating_sub(times.len()));
        let mut stamped = 0;
        while let Some(rest) = records.get(stamped..).filter(|rest| !rest.is_empty()) {
            let part = next().min(rest.len());
            if part == 0 {
                break;
            }
            let mut part = rest.iter().take(part);
            let given = times.iter_mut().skip(stamped);
            stamped += part.len();
            for (stamp, record) in given.zip(part.by_ref()) {
                *stamp = time(record, *stamp);
            }
            // The column ends here: these times are written once, not first as missing ones.
            times.extend(part.map(|record| time(record, NO_TIME)));
        }
        self.fill_times();
        stamped
    }

    /// Removes and returns the records behind the first `kept` ones, with their times; the first ones stay in this batch. The result is
    /// empty if there are at most `kept` records.
    #[must_use]
    pub fn split_off(&mut self, kept: usize) -> Self {
        if kept >= self.records.len() {
            return Self::default();
        }
        let times = self.times.split_off(kept.min(self.times.len()));
        Self { records: self.records.split_off(kept), times }
    }

    /// Sets the event time of every record to what `time` returns for the record and its time or [`NO_TIME`].
    #[inline]
    pub fn stamp(&mut self, time: impl FnMut(&T, i64) -> i64) {
        self.stamp_while(time, || usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pairs of a record and its time, as a batch holds them.
    fn pairs(batch: &Batch<u8>) -> Vec<(u8, i64)> {
        let mut seen = Vec::new();
        batch.look_each(|record, time| seen.push((*record, time)));
        seen
    }

    fn batch(of: &[(u8, i64)]) -> Batch<u8> {
        let mut batch = Batch::default();
        of.iter().for_each(|(record, time)| batch.push(*record, *time));
        batch
    }

    /// Records, about half of them without a time.
    fn any_pairs() -> impl Strategy<Value = Vec<(u8, i64)>> {
        prop::collection::vec((any::<u8>(), prop_oneof![Just(NO_TIME), -5_i64..5]), 0..20)
    }

    proptest! {
        /// A batch is a list of pairs, whatever is done to it and however few of its records have a time.
        #[test]
        fn a_record_keeps_its_time(a in any_pairs(), b in any_pairs(), most in 0_usize..8) {
            prop_assert_eq!(pairs(&batch(&a)), a.clone());

            let mut both = batch(&a);
            let mut other = batch(&b);
            both.append(&mut other);
            prop_assert!(other.is_empty() && other.times().is_empty());
            let joined = [a.clone(), b.clone()].concat();
            prop_assert_eq!(pairs(&both), joined.clone());

            // Parts of `most` records, at most three of them.
            let parts = || {
                let mut parts = 3;
                move || { parts -= i32::from(parts > 0); if parts > 0 { most.max(1) } else { 0 } }
            };
            let taken = b.len().min(2 * most.max(1));
            let rest = b[taken..].to_vec();
            for (old, a) in [(batch(&a), a.clone()), (Batch::default(), Vec::new())] {
                let (mut mapped, mut from) = (old.clone(), batch(&b));
                mapped.extend_mapped(&mut from, |record| record, parts());
                prop_assert_eq!(pairs(&mapped), [a.clone(), b[..taken].to_vec()].concat());
                prop_assert_eq!(pairs(&from), rest.clone());

                let (mut kept, mut from) = (old, batch(&b));
                kept.extend_filtered(&mut from, |record| record % 3 != 0, parts());
                let stays = b[..taken].iter().copied().filter(|(r, _)| r % 3 != 0).collect::<Vec<_>>();
                prop_assert_eq!(pairs(&kept), [a, stays].concat());
                prop_assert_eq!(pairs(&from), rest.clone());
            }

            let mut begun = both.clone();
            let reached = begun.stamp_while(|_, _| 9, parts());
            prop_assert_eq!(reached, joined.len().min(2 * most.max(1)));
            prop_assert_eq!(begun.times().len(), begun.len());
            let front = joined[..reached].iter().map(|(r, _)| (*r, 9)).chain(joined[reached..].to_vec());
            prop_assert_eq!(pairs(&begun), front.clone().collect::<Vec<_>>());
            let rest = begun.split_off(reached);
            prop_assert_eq!([pairs(&begun), pairs(&rest)].concat(), front.collect::<Vec<_>>());

            let mut handed = Vec::new();
            both.clone().each(|record, time| handed.push((record, time)));
            prop_assert_eq!(&handed, &joined);
            let mut tried = Vec::new();
            let mut rest = both.clone();
            let stopped = rest.try_each_while(|record, time| {
                tried.push((record, time));
                if tried.len() > most { Err(()) } else { Ok(time != 4) }
            });
            prop_assert_eq!(stopped.is_err(), tried.len() > most);
            let (mut untimed, mut behind) = (0, both.clone());
            let stopped_there = behind.try_each_record(|record| {
                assert_eq!(record, tried[untimed].0);
                untimed += 1;
                if untimed > most { Err(()) } else { Ok(tried[untimed - 1].1 != 4) }
            });
            prop_assert_eq!((untimed, pairs(&behind), stopped_there), (tried.len(), pairs(&rest), stopped));
            prop_assert_eq!([tried.clone(), pairs(&rest)].concat(), joined.clone());
            let (mut ahead, mut again, mut same) = (std::cell::Cell::new(0), Vec::new(), both.clone());
            let stopped_too = same.try_each_ahead(
                &mut ahead,
                || false,
                |ahead, record| {
                    ahead.set(ahead.get() + 1);
                    *record
                },
                |ahead, seen, record, time| {
                    assert_eq!(seen, record);
                    assert_eq!(ahead.get(), (again.len() + 1 + AHEAD).min(joined.len()));
                    again.push((record, time));
                    if again.len() > most { Err(()) } else { Ok(time != 4) }
                },
            );
            prop_assert_eq!((&again, pairs(&same), stopped_too), (&tried, pairs(&rest), stopped));
            prop_assert!(rest.is_empty() || stopped.is_err() || tried.last().is_some_and(|(_, t)| *t == 4));

            let mut parts = OwnedParts::from(both.clone());
            let mut again = Vec::new();
            while !parts.is_empty() {
                let mut part = Batch::default();
                parts.take_into(most + 1, &mut part);
                again.extend(pairs(&part));
            }
            prop_assert_eq!(again, joined.clone());

            both.stamp(|record, time| if time == NO_TIME { i64::from(*record) } else { time });
            let stamped = joined.iter().map(|(r, t)| (*r, if *t == NO_TIME { i64::from(*r) } else { *t }));
            prop_assert_eq!(pairs(&both), stamped.collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_more_is_shown_ahead_once_the_step_is_interrupted() {
        for calls in 1..AHEAD {
            let (mut shown, mut handed) = (std::cell::Cell::new(0), Vec::new());
            let looks = std::cell::Cell::new(1);
            let mut records = Batch::from((0..40).collect::<Vec<u32>>());
            let done: Result<(), ()> = records.try_each_ahead(
                &mut shown,
                || looks.replace(looks.get() + 1) >= calls,
                |shown, record| {
                    shown.set(shown.get() + 1);
                    *record
                },
                |shown, seen, record, _| {
                    assert_eq!((seen, shown.get()), (record, calls));
                    handed.push(record);
                    Ok(true)
                },
            );
            assert_eq!(done, Ok(()));
            let shown = calls as u32;
            assert!(handed.iter().copied().eq(0..shown), "{calls}: {handed:?}");
            assert!(records.records().iter().copied().eq(shown..40), "{calls}: {records:?}");
        }
    }

    #[test]
    fn records_without_times_have_no_column() {
        let mut untimed = batch(&[(1, NO_TIME), (2, NO_TIME)]);
        untimed.append(&mut Batch::from(vec![3]));
        assert_eq!((untimed.len(), untimed.times()), (3, &[] as &[i64]));
    }
}
