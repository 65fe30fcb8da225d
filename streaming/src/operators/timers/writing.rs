//! A snapshot of timers that is written while timers are set, deleted and fired.
//!
//! The writer goes through the moments of a queue in their order. A timer that it has not reached is written before it is deleted or
//! fired; a timer that is set comes behind the places that its moment had at the barrier, which are noted when the moment changes for
//! the first time. Nothing is copied at the barrier, and while no snapshot is being written a change costs one test.

use super::{Queue, Slot, Timers};
use crate::{
    seam::StateChunk,
    state::{CHUNK_BYTES, ENTRY_WORK, Pool, Slice},
    types::{CodecError, FlottType, Key, check_written, write_len, write_zigzag},
};
use std::collections::BTreeMap;

/// How far the timers of one clock are written, and those that were not handed over.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// The place of the writer: all moments before this one are written, and of this one the places before `place`. `None`: all are.
    moment: Option<i64>,
    place: usize,
    /// The number of places that a moment had at the barrier, for moments that have changed since.
    ends: BTreeMap<i64, usize>,
    written: Written,
}

/// Encoded timers, without their number.
#[derive(Debug, Default)]
struct Written {
    count: usize,
    bytes: Vec<u8>,
}

impl Written {
    /// Writes a timer, and returns how much work that was.
    fn timer(&mut self, moment: i64, key: &impl FlottType) -> usize {
        let before = self.bytes.len();
        write_zigzag(moment, &mut self.bytes);
        key.encode(&mut self.bytes);
        self.count += 1;
        self.bytes.len() - before + ENTRY_WORK
    }

    fn take(&mut self, out: &mut Vec<u8>) {
        write_len(std::mem::take(&mut self.count), out);
        out.append(&mut self.bytes);
    }
}

impl Writing {
    fn begin() -> Self {
        Self { moment: Some(i64::MIN), ..Self::default() }
    }

    /// Returns true if the timers of a moment may not be written yet.
    fn is_ahead(&self, moment: i64) -> bool {
        self.moment.is_some_and(|at| moment >= at)
    }

    /// Returns the place from which on the timers of a moment are not written.
    fn first_of(&self, moment: i64) -> usize {
        if self.moment == Some(moment) { self.place } else { 0 }
    }

    /// Notes that a moment is about to get a timer. `slot` are its timers, if it has any. Their places stay the same, or they are
    /// written here.
    pub(super) fn before_insert<K: Key>(&mut self, moment: i64, slot: Option<&Slot<K>>) {
        if !self.is_ahead(moment) {
            return;
        }
        let end = *self.ends.entry(moment).or_insert(slot.map_or(0, |slot| slot.keys.len()));
        let Some(slot) = slot.filter(|slot| slot.moves_at_insert()) else { return };
        for key in slot.in_places(self.first_of(moment)..end) {
            self.written.timer(moment, key);
        }
        self.ends.insert(moment, 0);
    }

    /// Writes the timer that was in a place and is gone now, unless it is written or came after the barrier. `is_last`: its moment has
    /// no timer any more.
    pub(super) fn gone<K: Key>(&mut self, (moment, place): (i64, usize), key: &K, is_last: bool) {
        if !self.is_ahead(moment) {
            return;
        }
        let was_there = self.ends.get(&moment).is_none_or(|end| place < *end);
        if was_there && place >= self.first_of(moment) {
            self.written.timer(moment, key);
        }
        if is_last {
            self.ends.insert(moment, 0);
        }
    }

    /// Writes timers until the slice ends or a chunk is full. Returns true if the slice goes on.
    fn advance<K: Key>(&mut self, queue: &BTreeMap<i64, Slot<K>>, slice: &mut Slice<'_>) -> bool {
        let Some(first) = self.moment else { return true };
        for (moment, slot) in queue.range(first..) {
            self.place = self.first_of(*moment);
            self.moment = Some(*moment);
            let now = slot.keys.len();
            let end = self.ends.get(moment).map_or(now, |end| (*end).min(now));
            while self.place < end {
                let place = self.place.max(slot.fired);
                self.place = place + 1;
                let mut key = slot.in_places(place..end.min(place + 1));
                let work = key.next().map_or(1, |key| self.written.timer(*moment, key));
                if !slice.goes_on(work) || self.written.bytes.len() >= CHUNK_BYTES {
                    return false;
                }
            }
        }
        self.moment = None;
        true
    }
}

/// The chunks of the timers' snapshots.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pool: Pool,
    stored: bool,
}

impl Chunks {
    /// Returns about how many bytes the chunks take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.pool.memory_bytes()
    }
}

impl<K: Key> Timers<K> {
    /// Begins a snapshot of the present timers.
    pub(in crate::operators) fn begin_snapshot(&mut self) {
        self.chunks.pool.reserve_for(usize::try_from(self.memory_bytes()).unwrap_or(0));
        for queue in [&mut self.event, &mut self.processing] {
            queue.writing = Some(Box::new(Writing::begin()));
        }
    }

    /// Writes a slice of the snapshot. Each chunk is what `frame` makes of encoded timers. Returns true if the snapshot is complete, or
    /// none was begun.
    ///
    /// # Errors
    /// Returns an error if a key cannot be encoded.
    pub(in crate::operators) fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        frame: impl Fn(&[u8], &mut Vec<u8>),
    ) -> Result<bool, CodecError> {
        self.chunks.stored = slice.stored;
        loop {
            let Self { event, processing, chunks, .. } = self;
            let (Some(of_event), Some(of_clock)) = (&mut event.writing, &mut processing.writing)
            else {
                return Ok(true);
            };
            if chunks.stored && chunks.pool.is_used_up() {
                slice.wait();
                return Ok(false);
            }
            let done = of_event.advance(&event.moments, slice)
                && of_clock.advance(&processing.moments, slice);
            let bytes = of_event.written.bytes.len() + of_clock.written.bytes.len();
            if bytes >= CHUNK_BYTES || (done && bytes > 0) {
                let (mut timers, mut chunk) = (Vec::new(), chunks.pool.take());
                of_event.written.take(&mut timers);
                of_clock.written.take(&mut timers);
                frame(&timers, &mut chunk);
                let bytes = chunks.pool.full(chunk);
                slice.chunks.push(StateChunk { groups: None, bytes });
            }
            check_written()?;
            if done {
                self.event.writing = None;
                self.processing.writing = None;
                return Ok(true);
            }
            if !slice.goes_on(0) {
                return Ok(false);
            }
        }
    }

    /// Drops the snapshot that was begun and is not complete.
    pub(in crate::operators) fn abort_snapshot(&mut self) {
        (self.event.writing, self.processing.writing) = (None, None);
    }

    /// Returns true while so many chunks of timers wait for their storage that no more records should come.
    pub(in crate::operators) fn waits_for_storage(&self) -> bool {
        self.event.writing.is_some() && self.chunks.stored && self.chunks.pool.is_overdrawn()
    }
}

impl<K: Key> Queue<K> {
    /// Notes that a moment is about to get a timer, if a snapshot is being written.
    #[inline]
    pub(super) fn before_insert(&mut self, moment: i64) {
        if let Some(writing) = &mut self.writing {
            writing.before_insert(moment, self.moments.get(&moment));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{state::KeyGroups, types::Reader};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Debug, Clone)]
    enum Act {
        Set(bool, i64, u16),
        Delete(bool, i64, u16),
        Fire(bool, i64, usize),
        Slice(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let moment = || prop_oneof![6 => 0_i64..5, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
        let timer = move || (any::<bool>(), moment(), 0_u16..30);
        let act = prop_oneof![
            8 => timer().prop_map(|(clock, moment, key)| Act::Set(clock, moment, key)),
            4 => timer().prop_map(|(clock, moment, key)| Act::Delete(clock, moment, key)),
            1 => (any::<bool>(), moment(), 0_usize..20)
                .prop_map(|(clock, now, most)| Act::Fire(clock, now, most)),
            3 => (1_usize..1_000).prop_map(Act::Slice),
        ];
        prop::collection::vec(act, 0..150)
    }

    type Model = BTreeSet<(bool, i64, u16)>;

    struct Test {
        groups: KeyGroups,
        timers: Timers<u16>,
        now: Model,
        chunks: Vec<StateChunk>,
        complete: bool,
    }

    impl Test {
        fn slice(&mut self, work: usize) {
            if !self.complete {
                let mut slice = Slice::new(work, work, &|| true);
                let frame = |timers: &[u8], chunk: &mut Vec<u8>| chunk.extend_from_slice(timers);
                self.complete = self.timers.write_snapshot(&mut slice, frame).unwrap();
                self.chunks.append(&mut slice.chunks);
            }
        }

        fn play(&mut self, acts: &[Act]) {
            for act in acts {
                let Timers { event, processing, .. } = &mut self.timers;
                match *act {
                    Act::Set(clock, moment, key) => {
                        let queue = if clock { processing } else { event };
                        queue.set(moment, self.groups.address(&key), &key);
                        self.now.insert((clock, moment, key));
                    }
                    Act::Delete(clock, moment, key) => {
                        let queue = if clock { processing } else { event };
                        queue.delete(moment, self.groups.address(&key), &key);
                        self.now.remove(&(clock, moment, key));
                    }
                    Act::Fire(clock, now, most) => {
                        let queue = if clock { processing } else { event };
                        for _ in 0..most {
                            let Some((moment, _, key)) = queue.pop_due(now) else { break };
                            assert!(self.now.remove(&(clock, moment, key)));
                        }
                    }
                    Act::Slice(work) => self.slice(work),
                }
            }
        }

        fn written(&mut self) -> Model {
            self.slice(usize::MAX);
            let mut found = Model::new();
            for chunk in std::mem::take(&mut self.chunks) {
                let mut input = Reader::new(&chunk.bytes);
                for clock in [false, true] {
                    for _ in 0..input.count().unwrap() {
                        let moment = input.zigzag().unwrap();
                        let key = u16::decode(&mut input).unwrap();
                        assert!(found.insert((clock, moment, key)), "a timer is written twice");
                    }
                }
                input.finish().unwrap();
            }
            found
        }
    }

    fn test() -> Test {
        let (timers, now, chunks) = (Timers::default(), Model::new(), Vec::new());
        let groups = KeyGroups::of_subtask(0, 1, 128);
        Test { groups, timers, now, chunks, complete: true }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Whatever is set, deleted and fired between two slices: the snapshot has the timers at its barrier.
        #[test]
        fn a_snapshot_has_the_timers_at_its_barrier(
            rounds in prop::collection::vec((acts(), acts()), 1..4),
        ) {
            let mut test = test();
            for (before, after) in rounds {
                test.play(&before);
                test.timers.begin_snapshot();
                test.complete = false;
                let at_barrier = test.now.clone();
                test.play(&after);
                prop_assert_eq!(test.written(), at_barrier);
            }
        }
    }

    #[test]
    fn a_storage_that_is_too_slow_stops_the_writer_and_then_the_records() {
        let mut test = test();
        let moments = 0..1_000_000_i64;
        let at = test.groups.address(&7_u16);
        moments.clone().for_each(|moment| test.timers.event.set(moment, at, &7));
        test.timers.begin_snapshot();
        let mut slice = Slice::whole();
        slice.stored = true;
        let frame = |timers: &[u8], chunk: &mut Vec<u8>| chunk.extend_from_slice(timers);
        assert!(!test.timers.write_snapshot(&mut slice, frame).unwrap());
        assert!(slice.waits());
        assert_eq!(slice.chunks.len(), 8);
        assert!(slice.chunks.iter().all(|chunk| chunk.bytes.len() < 300 << 10));
        test.chunks.append(&mut slice.chunks);
        test.complete = false;
        while test.timers.event.pop_due(i64::MAX).is_some() {}
        assert_eq!(test.written().len(), moments.count());
    }
}
