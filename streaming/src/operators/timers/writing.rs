//! A snapshot of timers that is written while timers are set, deleted and fired.
//!
//! The writer goes through the moments of a queue in their order. A timer that it has not reached is written before it is deleted or
//! fired; a timer that is set comes behind the places that its moment had at the barrier, which are noted when the moment changes for
//! the first time. Nothing is copied at the barrier, and while no snapshot is being written a change costs one test.
//!
//! Moments come in the order of time and chunks should have few key groups, so that encoded timers are sorted into buckets by key
//! group first. When the buckets have an eighth of the timers' memory (encoded timers seldom take more) or all timers are written,
//! the buckets become chunks one after the other.

use super::{Queue, Slot, Timers};
use crate::{
    seam::StateChunk,
    state::{CHUNK_BYTES, ENTRY_WORK, KeyAddress, KeyGroups, Pool, Slice},
    types::{CodecError, Key, check_written, write_len, write_zigzag},
};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

/// The part of the timers' memory that encoded ones may take: an eighth.
const BUFFER_PART: usize = 8;
/// The most bytes of encoded timers of one clock in the buckets.
const BUFFER_MAX: usize = 64 << 20;
/// The most buckets; one of them should fill a chunk.
const BUCKETS_MAX: usize = 64;

/// The progress of writing the timers of one clock, and the encoded timers that were not handed over.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// The place of the writer: all moments before this one are written, and of this one the places before `place`. `None`: all are.
    moment: Option<i64>,
    place: usize,
    /// The number of places that a moment had at the barrier, for moments that have changed since.
    ends: BTreeMap<i64, usize>,
    written: Written,
}

/// Encoded timers of one clock that were not handed over, in buckets by key group.
#[derive(Debug, Default)]
struct Written {
    /// The key groups of the subtask, which the buckets divide evenly.
    owned: Range<u32>,
    /// The pieces of each bucket; all but the last one fill a chunk.
    buckets: Vec<VecDeque<Piece>>,
    /// The bytes of all pieces.
    bytes: usize,
}

/// Encoded timers, without their number.
#[derive(Debug, Default)]
struct Piece {
    count: usize,
    bytes: Vec<u8>,
}

impl Written {
    fn new(groups: &KeyGroups, buckets: usize) -> Self {
        let buckets = buckets.clamp(1, groups.owned.len().max(1));
        let buckets = std::iter::repeat_with(VecDeque::new).take(buckets).collect();
        Self { owned: groups.owned.clone(), buckets, bytes: 0 }
    }

    /// Returns the key groups of a bucket.
    fn groups_of(&self, bucket: usize) -> Vec<u32> {
        let all = self.owned.len();
        let end = |buckets: usize| (buckets * all).div_ceil(self.buckets.len().max(1));
        self.owned.clone().take(end(bucket + 1)).skip(end(bucket)).collect()
    }

    /// Writes a timer, and returns how much work that was.
    fn timer(&mut self, moment: i64, at: KeyAddress, key: &impl Key) -> usize {
        let Some(piece) = self.piece_of(at.group) else { return ENTRY_WORK };
        let before = piece.bytes.len();
        write_zigzag(moment, &mut piece.bytes);
        key.encode(&mut piece.bytes);
        piece.count += 1;
        let more = piece.bytes.len() - before;
        self.bytes += more;
        more + ENTRY_WORK
    }

    /// Returns the piece that takes the next timer of a key group.
    fn piece_of(&mut self, group: u32) -> Option<&mut Piece> {
        let group = group.saturating_sub(self.owned.start) as usize;
        let bucket = group * self.buckets.len() / self.owned.len().max(1);
        let pieces = self.buckets.get_mut(bucket)?;
        if pieces.back().is_none_or(|piece| piece.bytes.len() >= CHUNK_BYTES) {
            pieces.push_back(Piece::default());
        }
        pieces.back_mut()
    }

    /// Takes out the first piece of the first bucket that has one, with the key groups of the bucket.
    fn take(&mut self) -> Option<(Vec<u32>, Piece)> {
        let bucket = self.buckets.iter().position(|pieces| !pieces.is_empty())?;
        let piece = self.buckets.get_mut(bucket)?.pop_front()?;
        self.bytes -= piece.bytes.len();
        Some((self.groups_of(bucket), piece))
    }
}

impl Piece {
    fn append(&self, out: &mut Vec<u8>) {
        write_len(self.count, out);
        out.extend_from_slice(&self.bytes);
    }
}

impl Writing {
    fn begin(groups: &KeyGroups, buckets: usize) -> Self {
        let written = Written::new(groups, buckets);
        Self { moment: Some(i64::MIN), written, ..Self::default() }
    }

    /// Returns the bytes of encoded timers that were not handed over.
    pub(super) fn bytes(&self) -> usize {
        self.written.bytes
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
        let end = self.note_end(moment, slot.map_or(0, |slot| slot.keys.len()));
        let Some(slot) = slot.filter(|slot| slot.moves_at_insert()) else { return };
        for (at, key) in slot.in_places(self.first_of(moment)..end) {
            self.written.timer(moment, *at, key);
        }
        self.end_at_once(moment);
    }

    /// Notes that a moment had `places` at the barrier, unless its places are noted already. Returns the noted number.
    fn note_end(&mut self, moment: i64, places: usize) -> usize {
        *self.ends.entry(moment).or_insert(places)
    }

    /// Notes that no place of a moment is still to be written.
    fn end_at_once(&mut self, moment: i64) {
        self.ends.insert(moment, 0);
    }

    /// Returns the number of places that a moment had at the barrier; `None` if it has not changed since.
    fn end_of(&self, moment: i64) -> Option<usize> {
        self.ends.get(&moment).copied()
    }

    /// Writes the timer that was in a place and is gone now, unless it is written or came after the barrier. `is_last`: its moment has
    /// no timer any more.
    pub(super) fn gone<K: Key>(
        &mut self,
        (moment, place): (i64, usize),
        (at, key): (KeyAddress, &K),
        is_last: bool,
    ) {
        if !self.is_ahead(moment) {
            return;
        }
        let was_there = self.end_of(moment).is_none_or(|end| place < end);
        if was_there && place >= self.first_of(moment) {
            self.written.timer(moment, at, key);
        }
        if is_last {
            self.end_at_once(moment);
        }
    }

    /// Writes timers until the slice ends or the buckets have `most` bytes. Returns true if all timers are written.
    fn advance<K: Key>(
        &mut self,
        queue: &BTreeMap<i64, Slot<K>>,
        most: usize,
        slice: &mut Slice<'_>,
    ) -> bool {
        let Some(first) = self.moment else { return true };
        for (moment, slot) in queue.range(first..) {
            self.place = self.first_of(*moment);
            self.moment = Some(*moment);
            let now = slot.keys.len();
            let end = self.end_of(*moment).map_or(now, |end| end.min(now));
            while self.place < end {
                let place = self.place.max(slot.fired);
                self.place = place + 1;
                let mut timer = slot.in_places(place..end.min(place + 1));
                let timer = timer.next();
                let work = timer.map_or(1, |(at, key)| self.written.timer(*moment, *at, key));
                if !slice.goes_on(work) || self.written.bytes >= most {
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
    /// The bytes that the buckets of one clock may have.
    most: usize,
    /// True while the buckets become chunks.
    is_emptying: bool,
}

impl Chunks {
    /// Returns about how many bytes the chunks take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.pool.memory_bytes()
    }

    /// Returns a chunk of timers that go by event time or by processing time.
    fn chunk(
        &mut self,
        groups: Vec<u32>,
        piece: &Piece,
        is_event: bool,
        frame: impl Fn(&[u8], &mut Vec<u8>),
    ) -> StateChunk {
        let (mut timers, mut chunk, none) = (Vec::new(), self.pool.take(), Piece::default());
        for piece in if is_event { [piece, &none] } else { [&none, piece] } {
            piece.append(&mut timers);
        }
        frame(&timers, &mut chunk);
        StateChunk { groups: Some(groups), is_early: false, bytes: self.pool.full(chunk) }
    }
}

impl<K: Key> Timers<K> {
    /// Begins a snapshot of the present timers, whose keys have the owned `groups`.
    pub(in crate::operators) fn begin_snapshot(&mut self, groups: &KeyGroups) {
        let memory = usize::try_from(self.memory_bytes()).unwrap_or(0);
        self.chunks.pool.reserve_for(memory);
        self.chunks.is_emptying = false;
        self.chunks.most = (memory / BUFFER_PART).clamp(CHUNK_BYTES, BUFFER_MAX);
        let buckets = (self.chunks.most / CHUNK_BYTES).min(BUCKETS_MAX);
        for queue in [&mut self.event, &mut self.processing] {
            queue.writing = Some(Box::new(Writing::begin(groups, buckets)));
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
            let most = chunks.most;
            let all_written = if chunks.is_emptying {
                of_event.moment.is_none() && of_clock.moment.is_none()
            } else {
                of_event.advance(&event.moments, most, slice)
                    && of_clock.advance(&processing.moments, most, slice)
            };
            chunks.is_emptying |= all_written || of_event.bytes().max(of_clock.bytes()) >= most;
            check_written()?;
            if chunks.is_emptying {
                let of_event = of_event.written.take().map(|taken| (taken, true));
                let taken = of_event.or_else(|| Some((of_clock.written.take()?, false)));
                match taken {
                    Some(((groups, piece), is_event)) => {
                        slice.chunks.push(chunks.chunk(groups, &piece, is_event, &frame));
                        // Copying is faster than encoding.
                        slice.goes_on(piece.bytes.len() / 2);
                    }
                    None if all_written => {
                        self.event.writing = None;
                        self.processing.writing = None;
                        return Ok(true);
                    }
                    None => chunks.is_emptying = false,
                }
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
        self.event.writing.is_some() && self.chunks.stored && self.chunks.pool.is_overdrawn(0)
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
    use crate::types::{FlottType, Reader};
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
                let listed = chunk.groups.as_deref().unwrap();
                let mut input = Reader::new(&chunk.bytes);
                for clock in [false, true] {
                    for _ in 0..input.count().unwrap() {
                        let moment = input.zigzag().unwrap();
                        let key = u16::decode(&mut input).unwrap();
                        assert!(listed.contains(&self.groups.address(&key).group));
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
                test.timers.begin_snapshot(&test.groups);
                test.complete = false;
                let at_barrier = test.now.clone();
                test.play(&after);
                prop_assert_eq!(test.written(), at_barrier);
            }
        }
    }

    #[test]
    fn chunks_of_many_timers_have_few_key_groups_whatever_the_order_of_their_moments() {
        let mut test = test();
        for number in 0..400_000 {
            let (moment, key) = (number, (number % 50_000) as u16);
            test.timers.event.set(moment, test.groups.address(&key), &key);
            test.now.insert((false, moment, key));
        }
        test.timers.begin_snapshot(&test.groups);
        test.complete = false;
        // Timers that are written before their turn are sorted as well.
        test.play(&[Act::Slice(200_000), Act::Fire(false, i64::MAX, 300_000)]);
        let at_barrier: Model = (0..400_000).map(|n| (false, n, (n % 50_000) as u16)).collect();
        while !test.complete {
            test.slice(1_000_000);
        }
        let listed = test.chunks.iter().map(|chunk| chunk.groups.as_ref().unwrap().len());
        let most = listed.max().unwrap();
        assert!(test.chunks.len() >= 10 && most <= 12, "{} of {most}", test.chunks.len());
        assert!(test.written() == at_barrier);
    }

    #[test]
    fn encoded_timers_take_an_eighth_of_the_memory_of_the_timers_at_most() {
        let mut test = test();
        // Many keys at moments that take ten bytes.
        for moment in i64::MAX - 3..=i64::MAX {
            for key in 0..=u16::MAX {
                test.timers.event.set(moment, test.groups.address(&key), &key);
                test.now.insert((false, moment, key));
            }
        }
        let memory = test.timers.event.memory_bytes();
        test.timers.begin_snapshot(&test.groups);
        test.complete = false;
        while !test.complete {
            test.slice(50_000);
            let encoded = test.timers.event.writing.as_ref().map_or(0, |writing| writing.bytes());
            assert!(encoded as u64 <= memory / 8 + 100, "{encoded} of {memory}");
        }
        let now = test.now.clone();
        assert!(test.written() == now);
    }

    #[test]
    fn a_storage_that_is_too_slow_stops_the_writer_and_then_the_records() {
        let mut test = test();
        let moments = 0..1_000_000_i64;
        let at = test.groups.address(&7_u16);
        moments.clone().for_each(|moment| test.timers.event.set(moment, at, &7));
        test.timers.begin_snapshot(&test.groups);
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
