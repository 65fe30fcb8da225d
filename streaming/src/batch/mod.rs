//! Records on their way from one operator to the next, with the event times that they may have.
//!
//! A stream without event times must never write to the column of times, and the loops of functions must test once per batch
//! whether there are times. An output therefore emits by `Batch::push_record`, without a time, and `Batch::give` gives the time to all
//! records that were emitted with it. [`Batch::push`] compares the time of each record. Nothing in this module may reorder records.
//! A record may lose the hash of its key, but must never get that of another record or key.

mod in_place;
mod loops;
mod parts;

pub(crate) use loops::{Columns, record_by_record};
pub use parts::{OwnedParts, Parts};

use in_place::{map_into, retain_front};

/// The event time that stands for "no event time": `i64::MIN`, as `Long.MIN_VALUE` in Flink. No record can have it as its event time.
pub const NO_TIME: i64 = i64::MIN;

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
#[derive(Debug, Clone, Eq)]
pub struct Batch<T> {
    records: Vec<T>,
    times: Vec<i64>,
    /// The hashes of the keys of the first records, as the sender of a keyed edge has computed them; the records behind them have none.
    hashes: Vec<u64>,
}

impl<T: PartialEq> PartialEq for Batch<T> {
    /// Compares records and event times: the hashes follow from the records.
    fn eq(&self, other: &Self) -> bool {
        self.records == other.records && self.times == other.times
    }
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { records: Vec::new(), times: Vec::new(), hashes: Vec::new() }
    }
}

impl<T> From<Vec<T>> for Batch<T> {
    /// Records without times.
    fn from(records: Vec<T>) -> Self {
        Self { records, times: Vec::new(), hashes: Vec::new() }
    }
}

impl<T> Batch<T> {
    /// Returns an empty batch with memory for `records` records and for no event times; it grows beyond that as a `Vec` does.
    pub fn with_capacity(records: usize) -> Self {
        Self { records: Vec::with_capacity(records), times: Vec::new(), hashes: Vec::new() }
    }

    /// Joins records with their event times, in milliseconds since 1970. Times beyond the last record are dropped; records beyond the
    /// last time have none.
    pub fn with_times(records: Vec<T>, mut times: Vec<i64>) -> Self {
        times.truncate(records.len());
        Self { records, times, hashes: Vec::new() }
    }

    /// Returns the number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the bytes of memory for records and what belongs to them that are not there.
    pub(crate) fn spare_bytes(&self) -> usize {
        let records = (self.records.capacity() - self.records.len()) * size_of::<T>();
        let times = self.times.capacity() - self.times.len();
        records + (times + self.hashes.capacity() - self.hashes.len()) * size_of::<i64>()
    }

    /// Returns the hashes of the keys of the first records.
    #[cfg(test)]
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Returns the bytes of the columns beside the records: event times and hashes.
    pub(crate) fn bytes_beside(&self) -> usize {
        size_of_val(self.times()) + size_of_val(self.hashes.as_slice())
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
        Batch { hashes: Vec::new(), ..self.wrap(map) }
    }

    /// Does what [`Batch::map`] does, for a `map` that changes no record's key.
    pub(crate) fn wrap<U>(self, map: impl FnMut(T) -> U) -> Batch<U> {
        let records = self.records.into_iter().map(map).collect();
        Batch { records, times: self.times, hashes: self.hashes }
    }

    /// Drops all records and their times; the memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.records.clear();
        self.times.clear();
        self.hashes.clear();
    }

    /// Forgets the hashes of the keys that the records had on the edge on which they came.
    #[inline]
    pub(crate) fn forget_hashes(&mut self) {
        self.hashes.clear();
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

    /// Appends a record with its event time, as [`Batch::push`] does, and with the hash of its key.
    #[inline]
    pub(crate) fn push_hashed(&mut self, record: T, time: i64, hash: u64) {
        self.push_hash(hash);
        self.push(record, time);
    }

    /// Appends the hash of the key of the record that the caller appends next. A record behind one without a hash gets none.
    #[inline]
    pub(crate) fn push_hash(&mut self, hash: u64) {
        if self.hashes.len() == self.records.len() {
            if self.hashes.capacity() == 0 {
                self.hashes.reserve(self.records.capacity());
            }
            self.hashes.push(hash);
        }
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
        if self.hashes.len() == self.records.len() {
            self.hashes.append(&mut other.hashes);
        }
        other.hashes.clear();
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
        from.hashes.clear();
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
        from.hashes.clear();
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

    /// Takes all records out of the batch: the returned view hands them on in parts by [`Parts::take_into`]. The batch is empty when the
    /// view is dropped, which also drops the records that were not taken; the memory of records and times stays.
    pub fn drain_parts(&mut self) -> Parts<std::vec::Drain<'_, T>, std::vec::Drain<'_, i64>> {
        let hashes = std::mem::take(&mut self.hashes).into_iter();
        Parts { records: self.records.drain(..), times: self.times.drain(..), hashes }
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
        let Self { records, times, .. } = self;
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
        let hashes = self.hashes.split_off(kept.min(self.hashes.len()));
        Self { records: self.records.split_off(kept), times, hashes }
    }

    /// Sets the event time of every record to what `time` returns for the record and its time or [`NO_TIME`].
    #[inline]
    pub fn stamp(&mut self, time: impl FnMut(&T, i64) -> i64) {
        self.stamp_while(time, || usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::{loops::AHEAD, *};
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
            let stopped_there = behind.try_each_record(Columns::NONE, |record, _| {
                assert_eq!(record, tried[untimed].0);
                untimed += 1;
                if untimed > most { Err(()) } else { Ok(tried[untimed - 1].1 != 4) }
            });
            prop_assert_eq!((untimed, pairs(&behind), stopped_there), (tried.len(), pairs(&rest), stopped));
            prop_assert_eq!([tried.clone(), pairs(&rest)].concat(), joined.clone());
            let (mut again, mut same) = (Vec::new(), both.clone());
            let stopped_too = same.try_each_ahead(
                Columns::TIMES,
                &mut (std::cell::Cell::new(0), NO_TIME),
                || false,
                |(ahead, _), record, _| {
                    ahead.set(ahead.get() + 1);
                    *record
                },
                |(_, now), time| *now = time,
                |(ahead, now), seen, record| {
                    assert_eq!(seen, record);
                    assert_eq!(ahead.get(), (again.len() + 1 + AHEAD).min(joined.len()));
                    again.push((record, *now));
                    if again.len() > most { Err(()) } else { Ok(*now != 4) }
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

    /// A record, with the hash of its key if it is known.
    type Hashed = (u8, Option<u64>);

    fn hash_of(record: u8) -> u64 {
        u64::from(record) << 8
    }

    /// Records of which about half are appended with their hash, and some with a time.
    fn any_hashed() -> impl Strategy<Value = Batch<u8>> {
        let records = prop::collection::vec(
            (any::<u8>(), any::<bool>(), prop_oneof![Just(NO_TIME), 0_i64..3]),
            0..20,
        );
        (records, any::<bool>()).prop_map(|(records, all)| {
            let mut batch = Batch::default();
            records.into_iter().for_each(|(record, has_hash, time)| match has_hash || all {
                true => batch.push_hashed(record, time, hash_of(record)),
                false => batch.push(record, time),
            });
            batch
        })
    }

    /// Takes the records out by each of the loops, which must agree.
    fn hashed(batch: &Batch<u8>) -> Vec<Hashed> {
        let columns = Columns { times: true, hashes: true };
        let (mut one, mut two, mut three) = (Vec::new(), Vec::new(), Vec::new());
        let done: Result<(), ()> = batch.clone().try_each(columns, |record, _, hash| {
            one.push((record, hash));
            Ok(true)
        });
        let done_too: Result<(), ()> = batch.clone().try_each_record(columns, |record, hash| {
            two.push((record, hash));
            Ok(true)
        });
        let done_ahead: Result<(), ()> = batch.clone().try_each_ahead(
            columns,
            &mut (),
            || false,
            |(), _, hash| hash,
            |(), _| {},
            |(), hash, record| {
                three.push((record, hash));
                Ok(true)
            },
        );
        assert_eq!((done, done_too, done_ahead), (Ok(()), Ok(()), Ok(())));
        assert_eq!((&one, &one), (&two, &three));
        one
    }

    /// Asserts that each hash is that of its record, and that the records behind one without a hash have none.
    fn assert_right(batch: &Batch<u8>) {
        let seen = hashed(batch);
        let known = seen.iter().take_while(|(_, hash)| hash.is_some()).count();
        assert!(
            seen.iter().take(known).all(|(record, hash)| *hash == Some(hash_of(*record))),
            "{seen:?}"
        );
        assert!(seen.iter().skip(known).all(|(_, hash)| hash.is_none()), "{seen:?}");
        assert_eq!(batch.bytes_beside(), 8 * (known + batch.times().len()));
    }

    proptest! {
        /// A record may lose the hash of its key, but never gets that of another one.
        #[test]
        fn a_hash_stays_with_its_record(a in any_hashed(), b in any_hashed(), most in 0_usize..8) {
            assert_right(&a);
            let mut both = a.clone();
            both.append(&mut b.clone());
            assert_right(&both);
            let all = [&a, &b].map(|batch| hashed(batch).iter().all(|(_, hash)| hash.is_some()));
            if all == [true, true] {
                prop_assert!(hashed(&both).iter().all(|(_, hash)| hash.is_some()));
            }

            let mut front = both.clone();
            let behind = front.split_off(most);
            assert_right(&front);
            assert_right(&behind);
            prop_assert_eq!([hashed(&front), hashed(&behind)].concat(), hashed(&both));

            let mut parts = OwnedParts::from(both.clone());
            let mut again = Vec::new();
            while !parts.is_empty() {
                let mut part = Batch::default();
                parts.take_into(most + 1, &mut part);
                assert_right(&part);
                again.extend(hashed(&part));
            }
            prop_assert_eq!(again, hashed(&both));
            let mut parts = OwnedParts::from(b.clone());
            let mut gathered = a.clone();
            while !parts.is_empty() {
                parts.take_into(most + 1, &mut gathered);
            }
            assert_right(&gathered);
            prop_assert_eq!(hashed(&gathered), hashed(&both));

            for columns in [Columns { times: true, hashes: true }, Columns::TIMES, Columns::NONE] {
                let (mut left, mut ahead, mut seen) = (both.clone(), both.clone(), 0);
                let mut next = || { seen += 1; seen % (most + 1) != 0 };
                let done: Result<(), ()> = left.try_each(columns, |_, _, _| Ok(next()));
                let done_ahead: Result<(), ()> = ahead.try_each_ahead(
                    columns, &mut (), || false, |(), _, _| (), |(), _| {}, |(), (), _| Ok(next()),
                );
                prop_assert_eq!((done, done_ahead), (Ok(()), Ok(())));
                for rest in [left, ahead] {
                    assert_right(&rest);
                    if columns.hashes {
                        let taken = both.len() - rest.len();
                        prop_assert_eq!(hashed(&rest), hashed(&both)[taken..].to_vec());
                    }
                }
            }

            let mut mapped = a.clone();
            mapped.extend_mapped(&mut b.clone(), |record| record, || most);
            assert_right(&mapped);
            let (mut kept, mut from) = (Batch::default(), both.clone());
            kept.extend_filtered(&mut from, |record| record % 3 != 0, || most);
            assert_right(&kept);
            assert_right(&from);
            let changed = both.clone().map(|record| record.wrapping_add(1));
            prop_assert!(hashed(&changed).iter().all(|(_, hash)| hash.is_none()));
            let wrapped = both.clone().wrap(|record| record);
            prop_assert_eq!(hashed(&wrapped), hashed(&both));
            let mut forgotten = both;
            forgotten.forget_hashes();
            prop_assert!(hashed(&forgotten).iter().all(|(_, hash)| hash.is_none()));
        }
    }

    #[test]
    fn nothing_more_is_shown_ahead_once_the_step_is_interrupted() {
        for calls in 1..AHEAD {
            let (mut shown, mut handed) = (std::cell::Cell::new(0), Vec::new());
            let looks = std::cell::Cell::new(1);
            let mut records = Batch::from((0..40).collect::<Vec<u32>>());
            let done: Result<(), ()> = records.try_each_ahead(
                Columns::NONE,
                &mut shown,
                || looks.replace(looks.get() + 1) >= calls,
                |shown, record, _| {
                    shown.set(shown.get() + 1);
                    *record
                },
                |_, _| {},
                |shown, seen, record| {
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
