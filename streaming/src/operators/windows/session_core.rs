//! The part of session windows that is the same for both clocks: it merges the sessions of each key, fires them when time has
//! passed their end, and keeps them for the allowed lateness.
//!
//! Each key has one moment at which it is looked at next, kept in a queue ordered by time. A record that only makes a session
//! longer does not change the queue: the key is then looked at too early, and queued again for the session's new end.

use super::{
    SessionGap, TimeWindow, WindowFolding,
    late::Lateness,
    restored::{Restored, other_version},
    sessions::Sessions,
    store::WindowStore,
};
use crate::{
    batch::Batch,
    operators::{Collector, Flow, KeySelector, Keyed, OperatorContext, keyed::failed},
    seam::TaskError,
    state::{
        Free, KeyAddress, KeyGroups, Place, Slice, StateBackend, StateDeclaration, Table, Taken,
        read_next, write_head,
    },
    types::{Key, Reader, Record},
};
use std::collections::BTreeMap;

/// Version byte of the state. The state of tumbling and sliding windows has another one, so that neither is read as the other.
const VERSION: u8 = 2;

/// Sessions of all keys of one subtask, and how far they have been fired.
pub struct SessionCore<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>, G> {
    folding: F,
    gap: G,
    lateness: Lateness<T>,
    fields: Vec<StateDeclaration>,
    groups: KeyGroups,
    table: Table<S::Key, Sessions<F::Kept>>,
    queue: Queue<S::Key>,
    /// Time in milliseconds up to which sessions were fired: the watermark, or the clock's time minus 1.
    watermark: i64,
    restored: Restored,
}

/// Keys ordered by the moment at which they are looked at next, in milliseconds.
struct Queue<K> {
    moments: BTreeMap<i64, Vec<(KeyAddress, K)>>,
    /// Places of all moments together.
    len: usize,
}

impl<K: Key> Queue<K> {
    /// Queues a key to be looked at when time reaches `moment`. Older entries of the key stay in the queue and are ignored when
    /// they come up, because they differ from `looked_at`.
    fn look_at<A>(&mut self, moment: i64, at: KeyAddress, key: &K, sessions: &mut Sessions<A>) {
        sessions.looked_at = Some(moment);
        self.moments.entry(moment).or_default().push((at, key.clone()));
        self.len += 1;
    }

    /// Returns about how many bytes the queue takes.
    fn memory_bytes(&self) -> u64 {
        let moment = size_of::<(i64, Vec<(KeyAddress, K)>)>();
        (self.moments.len() * moment + self.len * size_of::<(KeyAddress, K)>()) as u64
    }

    /// Removes and returns a key with the earliest moment that is at most `until`; `None` if there is none.
    fn pop(&mut self, until: i64) -> Option<(i64, KeyAddress, K)> {
        let mut slot = self.moments.first_entry().filter(|slot| *slot.key() <= until)?;
        let moment = *slot.key();
        let popped = slot.get_mut().pop();
        if slot.get().is_empty() {
            slot.remove();
        }
        self.len -= usize::from(popped.is_some());
        popped.map(|(at, key)| (moment, at, key))
    }
}

impl<T: Record, S: KeySelector<T>, F: WindowFolding<S::Key, T>, G: SessionGap<T>>
    SessionCore<T, S, F, G>
{
    /// Returns the declaration of the keyed state.
    pub(super) fn declare() -> Vec<StateDeclaration> {
        Sessions::<F::Kept>::declare()
    }

    /// Makes a store without sessions, which takes no records before it is opened. `lateness` says what happens to late
    /// records.
    pub(super) fn new(folding: F, gap: G, lateness: impl Into<Lateness<T>>) -> Self {
        Self {
            folding,
            gap,
            lateness: lateness.into(),
            fields: Self::declare(),
            groups: KeyGroups { owned: 0..0, max_parallelism: 1 },
            table: Table::default(),
            queue: Queue { moments: BTreeMap::new(), len: 0 },
            watermark: i64::MIN,
            restored: Restored::default(),
        }
    }

    /// Returns the number of entries in the queue.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.len
    }

    /// Adds a record to its session, joining the sessions that it connects. A late record that touches no kept session goes to
    /// the side output of late records or is dropped. A session that was fired already and takes a record is fired once more.
    #[inline]
    fn add_one(
        &mut self,
        record: Keyed<'_, T, S>,
        time: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let gap = self.gap.gap_ms(record.record());
        if gap < 1 {
            let why = format!(
                "the session gap of a record with the time {time} is {gap} ms; the function given to 'with_dynamic_gap' must return at least 1 ms"
            );
            return Err(context.user_error(why.into()));
        }
        let window = TimeWindow::new(time, time.saturating_add(gap - 1));
        let at = self.groups.address(record.key());
        let watermark = passed(&self.restored, &self.groups, at.group, self.watermark);
        let Self { folding, lateness, table, queue, .. } = self;
        let is_late = lateness.end(window.last()) <= watermark;
        let place = table.place(at, |key| key == record.key());
        match place.map_err(|error| failed(context, error))? {
            Place::Taken(mut place) => {
                let (key, sessions) = place.entry();
                let touching = sessions.touching(window);
                if is_late && touching.is_empty() {
                    lateness.take_late(record.into_record(), time, watermark, out);
                    return Ok(());
                }
                let number = touching.start;
                let session = sessions.add(touching, window, record.into_record(), folding);
                let mut taken = Taking { folding, lateness, queue, watermark, out, context };
                taken.grown((at, key), sessions, (number, session))
            }
            Place::Free(_) if is_late => {
                lateness.take_late(record.into_record(), time, watermark, out);
                Ok(())
            }
            Place::Free(place) => {
                let (key, record) = record.into_both();
                let mut sessions = Sessions::default();
                let session = sessions.add(0..0, window, record, folding);
                let mut taken = Taking { folding, lateness, queue, watermark, out, context };
                taken.grown((at, &key), &mut sessions, (0, session))?;
                place.insert(key, sessions);
                Ok(())
            }
        }
    }

    /// Handles a queue entry: emits the key's session that ends at `moment`, discards its sessions that were kept long enough,
    /// and queues the key again if it has others. Does nothing for an outdated entry.
    fn look(
        &mut self,
        moment: i64,
        (at, key): (KeyAddress, S::Key),
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let place = self.table.place(at, |stored| *stored == key);
        let Place::Taken(mut place) = place.map_err(|error| failed(context, error))? else {
            return Ok(());
        };
        let (_, sessions) = Taken::<S::Key, _>::entry(&mut place);
        if sessions.looked_at != Some(moment) {
            return Ok(());
        }
        let ended = sessions.pass(moment, self.lateness.ms);
        match sessions.next(moment, self.lateness.ms) {
            Some(next) => self.queue.look_at(next, at, &key, sessions),
            None => Taken::<S::Key, _>::remove(place),
        }
        let Some((window, kept)) = ended else { return Ok(()) };
        out.set_time(window.last());
        let emitted = self.folding.emit(key, window, kept, out);
        emitted.map_err(|error| context.user_error(error))
    }

    /// Restores the next part of a state, as far as this subtask owns its key groups. Parts follow each other in any order.
    fn restore(
        &mut self,
        input: &mut Reader<'_>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let codec = |error| context.codec_error(error);
        let version = input.byte().map_err(codec)?;
        if version != VERSION {
            return Err(other_version(version, VERSION, context));
        }
        self.restored.read(&self.groups, input).map_err(codec)?;
        read_next(input, &mut self.table, &self.groups, &self.fields)
            .map_err(|error| failed(context, error))
    }

    /// Queues all restored keys, and discards the sessions that have ended and that the allowed lateness, if it is shorter now,
    /// does not keep any more.
    fn queue_restored(&mut self) {
        let Self { table, queue, groups, restored, lateness, watermark, .. } = self;
        for part in table.parts_mut() {
            part.retain(|(key, sessions)| {
                let at = groups.address(key);
                let passed = passed(restored, groups, at.group, *watermark);
                sessions.give_up(passed, lateness.ms);
                if let Some(next) = sessions.next(passed, lateness.ms) {
                    queue.look_at(next, at, key, sessions);
                }
                !sessions.is_empty()
            });
        }
    }
}

/// The parts of an operator by which a session takes a record.
struct Taking<'a, T, F, K, Out> {
    folding: &'a mut F,
    lateness: &'a Lateness<T>,
    queue: &'a mut Queue<K>,
    watermark: i64,
    out: &'a mut Collector<Out>,
    context: &'a OperatorContext,
}

impl<T, F: WindowFolding<K, T>, K: Key> Taking<'_, T, F, K, F::Out> {
    /// Emits the key's session of that number if it was fired already, and queues the key if it has to be looked at earlier than
    /// before.
    #[inline]
    fn grown(
        &mut self,
        (at, key): (KeyAddress, &K),
        sessions: &mut Sessions<F::Kept>,
        (number, session): (usize, TimeWindow),
    ) -> Result<(), TaskError> {
        let mut moment = session.last();
        if moment <= self.watermark {
            moment = self.lateness.end(moment);
            if let Some(kept) = sessions.kept(number).cloned() {
                self.out.set_time(session.last());
                let emitted = self.folding.emit(key.clone(), session, kept, self.out);
                emitted.map_err(|error| self.context.user_error(error))?;
            }
        }
        if sessions.looked_at.is_none_or(|earlier| moment < earlier) {
            self.queue.look_at(moment, at, key, sessions);
        }
        Ok(())
    }
}

/// Returns the watermark that holds for a key group: the operator's, or the restored one of the group if that is greater.
#[inline]
fn passed(restored: &Restored, groups: &KeyGroups, group: u32, watermark: i64) -> i64 {
    let group = group.wrapping_sub(groups.owned.start) as usize;
    restored.of(group).map_or(watermark, |ms| ms.max(watermark))
}

impl<T, S, F, G> WindowStore<T, S> for SessionCore<T, S, F, G>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    G: SessionGap<T>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.lateness.open(context)?;
        self.groups = KeyGroups::of_subtask(
            context.subtask(),
            context.parallelism(),
            context.max_parallelism(),
        );
        self.table = Table::new(self.groups.clone());
        while let Some(bytes) = context.next_snapshot()? {
            let mut input = Reader::new(&bytes);
            self.restore(&mut input, context)?;
            while input.remaining() > 0 {
                self.restore(&mut input, context)?;
            }
        }
        self.queue_restored();
        Ok(())
    }

    fn add(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        _extent: (i64, i64),
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        // Allocates the memory for snapshots when the table has grown.
        StateBackend::reads_ahead(&mut self.table);
        batch.try_each_while(|record, time| {
            self.add_one(Keyed::new(selector, record), time, out, context)?;
            Ok(out.should_continue())
        })
    }

    fn fire(
        &mut self,
        until: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        while let Some((moment, at, key)) = self.queue.pop(until) {
            self.look(moment, (at, key), out, context)?;
            if !out.should_continue() {
                return Ok(Flow::More);
            }
        }
        self.watermark = self.watermark.max(until);
        self.restored.passed(self.watermark);
        Ok(Flow::Done)
    }

    fn next_end(&self) -> Option<i64> {
        self.queue.moments.first_key_value().map(|(moment, _)| *moment)
    }

    fn fired_until(&self) -> i64 {
        self.restored.greatest().max(self.watermark)
    }

    fn memory_bytes(&self) -> u64 {
        self.table.memory_bytes() + self.queue.memory_bytes()
    }

    /// Begins the state: a version byte, the watermarks of the key groups, in the first chunk only, and a snapshot of keyed state.
    fn begin_snapshot(&mut self) {
        let (mut first, mut head) = (vec![VERSION], vec![VERSION]);
        self.restored.write(&self.groups, self.watermark, &mut first);
        Restored::write_none(&mut head);
        for bytes in [&mut first, &mut head] {
            write_head::<S::Key>(&self.fields, bytes);
        }
        self.table.begin_snapshot(&first, &head);
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.table.write_snapshot(slice).map_err(|error| failed(context, error))
    }

    fn abort_snapshot(&mut self) -> bool {
        self.table.abort_snapshot()
    }

    fn waits_for_storage(&self) -> bool {
        self.table.waits_for_storage()
    }

    fn late_records(&self) -> u64 {
        self.lateness.dropped()
    }
}
