//! Timers of keyed functions: moments of event time or processing time, each for one key.
//!
//! Nothing here may read a clock or fire a timer: the operator takes out the timers that are due.

mod writing;

use crate::{
    state::{KeyAddress, KeyGroups},
    types::{CodecError, Key, Reader, write_len, write_zigzag},
};
use hashbrown::HashTable;
use std::{collections::BTreeMap, ops::Range};
use writing::{Chunks, Writing};

/// The clock that a timer goes by: event time or processing time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeDomain {
    /// Event time: the timer fires when the operator's watermark reaches it, at the latest at the end of bounded input.
    EventTime,
    /// Processing time: the timer fires when the machine's clock (Unix time) reaches it, or later if the task is busy. One that is not
    /// due at the end of bounded input never fires.
    ProcessingTime,
}

/// A timer that is due, for [`KeyedProcessFunction::on_timer`](super::KeyedProcessFunction::on_timer), or in a test one that is set. Its
/// key is not in it: [`Context::key`](super::Context::key) has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// The moment that the timer was set to, in milliseconds since 1970.
    pub timestamp: i64,
    /// The clock that the timer goes by.
    pub domain: TimeDomain,
}

/// The service that sets and deletes timers of the current key, from [`Context::timers`](super::Context::timers). All moments are in
/// milliseconds since 1970. Timers are part of checkpoints. Timers of one clock fire in the order of their moments. Those of several keys
/// at one moment mostly fire in the order in which they were set, on which nothing should rely: a restore, for example, may change it.
///
/// A key has at most one timer per moment and clock: setting it again changes nothing.
///
/// ```
/// use streaming::operators::{
///     BoxError, Collector, Context, KeyedProcessFunction, TimeDomain, Timer, TimerService,
/// };
///
/// /// Emits for each key when it has had no record for a second, and when an hour of event time is over.
/// #[derive(Clone)]
/// struct Silence;
///
/// impl KeyedProcessFunction<u64, u64> for Silence {
///     type State = Option<i64>;
///     type Out = (u64, String);
///     fn process(
///         &mut self,
///         _: u64,
///         silent_at: &mut Option<i64>,
///         ctx: &mut Context<'_, u64>,
///         _: &mut Collector<Self::Out>,
///     ) -> Result<(), BoxError> {
///         let now = i64::try_from(ctx.operator().now_unix_ms())?;
///         let passed = ctx.watermark().unwrap_or(i64::MIN);
///         let end_of_hour = ctx.timestamp().map(|at| (at / 3_600_000 + 1) * 3_600_000);
///         // A late record, whose hour is over, sets no timer for the hour's end.
///         let end_of_hour = end_of_hour.filter(|end| *end > passed);
///         let mut timers: TimerService<'_, u64> = ctx.timers();
///         if let Some(before) = silent_at.replace(now + 1_000) {
///             timers.delete_processing_time(before);
///         }
///         timers.processing_time(now + 1_000);
///         if let Some(end) = end_of_hour {
///             timers.delete_event_time(end - 3_600_000);
///             timers.event_time(end);
///         }
///         Ok(())
///     }
///     fn on_timer(
///         &mut self,
///         timer: Timer,
///         _: &mut Option<i64>,
///         ctx: &mut Context<'_, u64>,
///         out: &mut Collector<Self::Out>,
///     ) -> Result<(), BoxError> {
///         let what = match timer.domain {
///             TimeDomain::ProcessingTime => "silent",
///             TimeDomain::EventTime => "end of the hour",
///         };
///         out.collect((*ctx.key(), what.to_owned()));
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug)]
pub struct TimerService<'a, K> {
    pub(super) timers: &'a mut Timers<K>,
    pub(super) key: &'a K,
    pub(super) at: KeyAddress,
}

impl<K: Key> TimerService<'_, K> {
    /// Sets a timer of the current key that fires when the operator's watermark reaches `timestamp`, in milliseconds since 1970. If the
    /// watermark has passed it already, the next watermark fires it, or none if it was the final one; set in `on_timer` of event time, it
    /// fires with the same watermark. Does nothing if the key has a timer of event time at this moment.
    pub fn event_time(&mut self, timestamp: i64) {
        self.timers.event.set(timestamp, self.at, self.key);
    }
    /// Deletes the current key's timer of event time at `timestamp`, in milliseconds since 1970. Does nothing if there is none.
    pub fn delete_event_time(&mut self, timestamp: i64) {
        self.timers.event.delete(timestamp, self.at, self.key);
    }
    /// Sets a timer of the current key that fires when the machine's clock reaches `timestamp`, in milliseconds since 1970, or as soon as
    /// possible if it has already. Timers fire between two records, as in Flink: one that is due while a record is processed waits for that
    /// record, and behind records that take long up to 50 ms more if it was set less than 50 ms before. A timer that is not due at the end
    /// of bounded input is dropped there. Does nothing if the key has a timer of processing time at this moment.
    pub fn processing_time(&mut self, timestamp: i64) {
        self.timers.processing.set(timestamp, self.at, self.key);
    }
    /// Deletes the current key's timer of processing time at `timestamp`, in milliseconds since 1970. Does nothing if there is none.
    pub fn delete_processing_time(&mut self, timestamp: i64) {
        self.timers.processing.delete(timestamp, self.at, self.key);
    }
}

/// The timers of all keys of one operator's subtask.
#[derive(Debug)]
pub(super) struct Timers<K> {
    pub(super) event: Queue<K>,
    pub(super) processing: Queue<K>,
    chunks: Chunks,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { event: Queue::default(), processing: Queue::default(), chunks: Chunks::default() }
    }
}

impl<K> Timers<K> {
    /// Returns the bytes that the timers take; the heap of their keys does not count.
    pub(super) fn memory_bytes(&self) -> u64 {
        let queues = self.event.memory_bytes() + self.processing.memory_bytes();
        queues + self.chunks.memory_bytes()
    }
}

impl<K: Key> Timers<K> {
    /// Returns the number of timers.
    pub(super) fn len(&self) -> usize {
        self.event.len() + self.processing.len()
    }

    /// Appends all timers: for each clock a varint count, then the moment (zigzag) and the key of each timer.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for queue in [&self.event, &self.processing] {
            write_len(queue.len(), out);
            for (moment, key) in queue.iter() {
                write_zigzag(moment, out);
                key.encode(out);
            }
        }
    }

    /// Adds the timers that [`Timers::write`] of some subtask wrote, as far as the keys belong to the owned `groups`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not timers.
    pub(super) fn read(
        &mut self,
        input: &mut Reader<'_>,
        groups: &KeyGroups,
    ) -> Result<(), CodecError> {
        for queue in [&mut self.event, &mut self.processing] {
            let count = input.count()?;
            for _ in 0..count {
                let moment = input.zigzag()?;
                let key = K::decode(input)?;
                let at = groups.address(&key);
                if groups.owned.contains(&at.group) {
                    queue.set(moment, at, &key);
                }
            }
        }
        Ok(())
    }
}

/// Timers of one clock, ordered by their moments.
#[derive(Debug)]
pub(super) struct Queue<K> {
    moments: BTreeMap<i64, Slot<K>>,
    len: usize,
    /// The snapshot that is being written.
    writing: Option<Box<Writing>>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { moments: BTreeMap::new(), len: 0, writing: None }
    }
}

impl<K> Queue<K> {
    /// Returns the number of timers.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns about how many bytes the timers take: most moments have one key or two, others an index.
    fn memory_bytes(&self) -> u64 {
        let moment = size_of::<(i64, Slot<K>)>();
        let timer = size_of::<Option<(KeyAddress, K)>>() + size_of::<usize>();
        let written = self.writing.as_ref().map_or(0, |writing| writing.bytes());
        (self.moments.len() * moment + self.len * timer + written) as u64
    }

    /// Returns the moment and the key of every timer, in the order of firing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &K)> {
        self.moments.iter().flat_map(|(moment, slot)| {
            slot.keys.iter().flatten().map(move |(_, key)| (*moment, key))
        })
    }

    /// Returns the moment of the earliest timer, `None` if there is none.
    pub(super) fn first(&self) -> Option<i64> {
        self.moments.first_key_value().map(|(moment, _)| *moment)
    }
}

impl<K: Key> Queue<K> {
    /// Removes and returns the next timer that is due at `now`: earlier moments first, then in the order of setting. Returns
    /// `None` if none is due.
    pub(super) fn pop_due(&mut self, now: i64) -> Option<(i64, KeyAddress, K)> {
        let mut slot = self.moments.first_entry().filter(|slot| *slot.key() <= now)?;
        let moment = *slot.key();
        let popped = slot.get_mut().pop();
        let is_last = slot.get().live == 0;
        if is_last {
            slot.remove();
        }
        let (place, at, key) = popped?;
        self.len -= 1;
        if let Some(writing) = &mut self.writing {
            writing.gone((moment, place), (at, &key), is_last);
        }
        Some((moment, at, key))
    }

    fn set(&mut self, moment: i64, at: KeyAddress, key: &K) {
        self.before_insert(moment);
        self.len += usize::from(self.moments.entry(moment).or_default().insert(at, key));
    }

    fn delete(&mut self, moment: i64, at: KeyAddress, key: &K) {
        let Some(slot) = self.moments.get_mut(&moment) else { return };
        let Some(place) = slot.remove(at, key) else { return };
        self.len -= 1;
        let is_last = slot.live == 0;
        if is_last {
            self.moments.remove(&moment);
        }
        if let Some(writing) = &mut self.writing {
            writing.gone((moment, place), (at, key), is_last);
        }
    }
}

/// Number of keys above which a slot has an index. Most moments have one key or two.
const UNINDEXED: usize = 8;

/// The keys that have a timer at one moment, in the order of setting.
#[derive(Debug)]
struct Slot<K> {
    /// `None` in the place of a timer that was deleted or has fired; [`Slot::insert`] removes such places in time.
    keys: Vec<Option<(KeyAddress, K)>>,
    /// Index in `keys` below which every timer has fired.
    fired: usize,
    live: usize,
    /// Indices in `keys` of all timers by the key's hash; empty while `keys` has at most [`UNINDEXED`] places.
    index: HashTable<usize>,
}

impl<K> Default for Slot<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), fired: 0, live: 0, index: HashTable::new() }
    }
}

impl<K> Slot<K> {
    /// Removes and returns the first timer, with its place.
    fn pop(&mut self) -> Option<(usize, KeyAddress, K)> {
        while let Some(place) = self.keys.get_mut(self.fired) {
            let number = self.fired;
            self.fired += 1;
            let Some((at, key)) = place.take() else { continue };
            self.live -= 1;
            if let Ok(indexed) = self.index.find_entry(at.hash, |place| *place == number) {
                indexed.remove();
            }
            return Some((number, at, key));
        }
        None
    }

    /// Returns the keys of the timers in these places.
    fn in_places(&self, places: Range<usize>) -> impl Iterator<Item = &(KeyAddress, K)> {
        self.keys.get(places).unwrap_or_default().iter().flatten()
    }

    /// Returns true if the next timer that is added moves the others to other places.
    fn moves_at_insert(&self) -> bool {
        self.keys.len() > 2 * self.live
    }
}

impl<K: Key> Slot<K> {
    fn find(&self, at: KeyAddress, key: &K) -> Option<usize> {
        let is_it = |place: &usize| {
            self.keys.get(*place).is_some_and(|it| it.as_ref().is_some_and(|(_, k)| k == key))
        };
        if self.index.is_empty() {
            return (self.fired..self.keys.len()).find(is_it);
        }
        self.index.find(at.hash, is_it).copied()
    }

    /// Adds a timer for the key. Returns false if the key has one already.
    fn insert(&mut self, at: KeyAddress, key: &K) -> bool {
        if self.find(at, key).is_some() {
            return false;
        }
        if self.moves_at_insert() {
            self.compact();
        }
        self.keys.push(Some((at, key.clone())));
        self.live += 1;
        self.index_from(if self.index.is_empty() { self.fired } else { self.keys.len() - 1 });
        true
    }

    /// Removes the empty places and keeps the order of setting. Called when empty places outnumber the timers, so that each
    /// deleted or fired timer pays for at most two places that are moved.
    fn compact(&mut self) {
        self.keys.retain(Option::is_some);
        self.fired = 0;
        // Not cleared: clearing takes time for the greatest number of timers that the index ever had.
        self.index = HashTable::new();
        self.index_from(0);
    }

    /// Adds the timers in the places from `first` on to the index, if there are enough keys for an index.
    fn index_from(&mut self, first: usize) {
        if self.keys.len() <= UNINDEXED {
            return;
        }
        let keys = &self.keys;
        let hash = |place: &usize| match keys.get(*place) {
            Some(Some((at, _))) => at.hash,
            _ => 0,
        };
        for place in (first..keys.len()).filter(|p| matches!(keys.get(*p), Some(Some(_)))) {
            self.index.insert_unique(hash(&place), place, hash);
        }
    }

    /// Removes the key's timer and returns the place that it had; `None` if the key has none.
    fn remove(&mut self, at: KeyAddress, key: &K) -> Option<usize> {
        let found = self.find(at, key)?;
        if let Ok(indexed) = self.index.find_entry(at.hash, |place| *place == found) {
            indexed.remove();
        }
        if let Some(place) = self.keys.get_mut(found) {
            *place = None;
        }
        self.live -= 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn groups() -> KeyGroups {
        KeyGroups::of_subtask(0, 1, 128)
    }

    #[derive(Debug, Clone)]
    enum Act {
        Set(i64, u16),
        Delete(i64, u16),
        Fire(i64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            6 => (0_i64..6, 0_u16..40).prop_map(|(moment, key)| Act::Set(moment, key)),
            2 => (0_i64..6, 0_u16..40).prop_map(|(moment, key)| Act::Delete(moment, key)),
            1 => (0_i64..6).prop_map(Act::Fire),
        ];
        prop::collection::vec(act, 0..200)
    }

    proptest! {
        /// A queue is a set of moments and keys from which the earliest are taken.
        #[test]
        fn timers_fire_once_in_the_order_of_their_moments(acts in acts(), stop in 0_usize..20) {
            let mut timers = Timers::default();
            let mut model = BTreeSet::new();
            for act in acts {
                match act {
                    Act::Set(moment, key) => {
                        timers.event.set(moment, groups().address(&key), &key);
                        model.insert((moment, key));
                    }
                    Act::Delete(moment, key) => {
                        timers.event.delete(moment, groups().address(&key), &key);
                        model.remove(&(moment, key));
                    }
                    // Not always all of them, as where an output is full.
                    Act::Fire(now) => for _ in 0..stop {
                        let Some((moment, at, key)) = timers.event.pop_due(now) else {
                            prop_assert!(model.first().is_none_or(|(moment, _)| *moment > now));
                            break;
                        };
                        prop_assert_eq!(at, groups().address(&key));
                        prop_assert_eq!(model.first().map(|(first, _)| *first), Some(moment));
                        prop_assert!(model.remove(&(moment, key)));
                    },
                }
                prop_assert_eq!(timers.event.len(), model.len());
                prop_assert_eq!(timers.event.first(), model.first().map(|(moment, _)| *moment));
            }
            // Written by one subtask, read by two.
            let mut bytes = Vec::new();
            timers.write(&mut bytes);
            let mut found = BTreeSet::new();
            for subtask in 0..2 {
                let mut half = Timers::default();
                let mut input = Reader::new(&bytes);
                half.read(&mut input, &KeyGroups::of_subtask(subtask, 2, 128)).unwrap();
                input.finish().unwrap();
                while let Some((moment, _, key)) = half.event.pop_due(i64::MAX) {
                    prop_assert!(found.insert((moment, key)));
                }
            }
            prop_assert_eq!(found, model);
        }

        /// The timers of one moment are taken in the order of setting, whatever was deleted or taken before.
        #[test]
        fn a_moment_keeps_the_order_of_setting(
            acts in prop::collection::vec((0_u8..8, 0_u16..24), 0..600),
        ) {
            let mut queue = Queue::default();
            let mut model = Vec::new();
            for (act, key) in acts {
                let at = groups().address(&key);
                match act {
                    0..=3 => {
                        queue.set(0, at, &key);
                        if !model.contains(&key) {
                            model.push(key);
                        }
                    }
                    4..=6 => {
                        queue.delete(0, at, &key);
                        model.retain(|other| *other != key);
                    }
                    _ => {
                        let first = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(queue.pop_due(0).map(|(_, _, key)| key), first);
                    }
                }
                let keys: Vec<u16> = queue.iter().map(|(_, key)| *key).collect();
                prop_assert_eq!(&keys, &model);
                prop_assert!(queue.moments.get(&0).is_none_or(|s| s.keys.len() <= 2 * 24 + 1));
            }
        }

        #[test]
        fn any_bytes_are_timers_or_an_error(bytes: Vec<u8>) {
            let _ = Timers::<String>::default().read(&mut Reader::new(&bytes), &groups());
        }
    }

    #[test]
    fn a_timer_that_is_deleted_and_set_again_and_again_takes_no_more_memory() {
        for others in [1_u64, 20] {
            let mut queue = Queue::default();
            for key in 0..=others {
                queue.set(9, groups().address(&key), &key);
            }
            for _ in 0..10_000 {
                queue.delete(9, groups().address(&0), &0);
                queue.set(9, groups().address(&0), &0);
            }
            assert!(queue.moments[&9].keys.len() <= 2 * (others as usize + 1));
            let fired: Vec<u64> =
                std::iter::from_fn(|| queue.pop_due(9)).map(|(_, _, key)| key).collect();
            assert_eq!(fired, (1..=others).chain([0]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn timers_of_one_moment_fire_in_the_order_of_setting() {
        let mut timers = Timers::default();
        for key in (0_u64..100).rev() {
            timers.processing.set(5, groups().address(&key), &key);
        }
        timers.processing.set(4, groups().address(&7), &7);
        let fired: Vec<_> =
            std::iter::from_fn(|| timers.processing.pop_due(5)).map(|t| t.2).collect();
        assert_eq!(fired, [7].into_iter().chain((0..100).rev()).collect::<Vec<u64>>());
    }
}
