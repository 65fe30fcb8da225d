//! Windows with one state per key, and what is the same for all of them: the queue of the moments at which keys are looked at, the
//! watermarks, and the written state. A [`KeyRule`] says which windows a key has: sessions, or tumbling and sliding windows.
//!
//! Each key has one moment at which it is looked at next, kept in a queue ordered by time. A record that only delays the end of a
//! window does not change the queue: the key is then looked at too early, and queued again for the later end.
//!
//! The states may be in any [`StateBackend`]: records, and keys that are looked at, wait until the key is resident.

use super::{
    TimeWindow, WindowFolding,
    key_rule::{KeyRule, KeyWindows},
    late::Lateness,
    queue::Queue,
    restored::{Restored, each_part},
    store::WindowStore,
};
use crate::{
    batch::{Batch, NO_TIME},
    operators::{
        Collector, Flow, KeySelector, Keyed, OperatorContext, OperatorMail, TimeDomain, Timer,
        keyed::{Resident, Work, failed},
    },
    seam::TaskError,
    state::{Kept, KeyAddress, Place, Slice, StateBackend, StateDeclaration, Table, Taken},
    types::{Key, Reader, Record},
};

/// The access to the windows of all keys in the backend `B`.
type States<T, S, F, R, B> =
    Resident<<S as KeySelector<T>>::Key, <R as KeyRule<T, S, F>>::Windows, T, B>;

/// The [`WindowStore`] of one subtask that keeps the windows of each key as one state in the backend `B`, by the [`KeyRule`] `R`,
/// with a queue of the moments at which keys are looked at. The queue is not in snapshots: a restore makes it anew.
pub struct KeyCore<
    T,
    S,
    F,
    R,
    B = Table<<S as KeySelector<T>>::Key, <R as KeyRule<T, S, F>>::Windows>,
> where
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    R: KeyRule<T, S, F>,
{
    resident: States<T, S, F, R, B>,
    timing: Timing<T, S::Key, F, R>,
}

/// The parts of a store that do not depend on its backend.
pub(super) struct Timing<T, K, F, R> {
    pub(super) folding: F,
    pub(super) rule: R,
    pub(super) lateness: Lateness<T>,
    pub(super) queue: Queue<K>,
    /// Time in milliseconds up to which windows were fired: the watermark, or the clock's time minus 1.
    watermark: i64,
    restored: Restored,
    /// The first key group that the subtask owns.
    first_group: u32,
}

impl<T: Record, S: KeySelector<T>, F: WindowFolding<S::Key, T>, R: KeyRule<T, S, F>>
    KeyCore<T, S, F, R>
{
    /// Returns the declaration of the keyed state.
    pub(super) fn declare() -> Vec<StateDeclaration> {
        R::Windows::declare()
    }

    /// Makes a store in memory without windows, which takes no records before it is opened. `lateness` says what happens to late
    /// records.
    pub(super) fn new(folding: F, rule: R, lateness: impl Into<Lateness<T>>) -> Self {
        Self::with_backend(folding, rule, lateness, Table::default())
    }
}

impl<T, S, F, R, B> KeyCore<T, S, F, R, B>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    R: KeyRule<T, S, F>,
    B: StateBackend<S::Key, R::Windows>,
{
    /// Makes a store without windows that keeps them in `backend`; see [`KeyCore::new`].
    pub(super) fn with_backend(
        folding: F,
        rule: R,
        lateness: impl Into<Lateness<T>>,
        backend: B,
    ) -> Self {
        let timing = Timing {
            folding,
            rule,
            lateness: lateness.into(),
            queue: Queue::new(),
            watermark: i64::MIN,
            restored: Restored::default(),
            first_group: 0,
        };
        Self { resident: Resident::new(backend, R::Windows::declare()), timing }
    }

    /// Returns the number of entries in the queue.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.timing.queue.len()
    }

    /// Restores the next part of a state, behind its version byte.
    fn restore(
        &mut self,
        input: &mut Reader<'_>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { resident, timing } = self;
        timing.rule.read_parts(input, context)?;
        let read = timing.restored.read(resident.groups(), input);
        read.map_err(|error| context.codec_error(error))?;
        resident.restore_joined(input, context, R::Windows::join)
    }

    /// Queues all restored keys. A key whose windows are all over is queued too, so that it is removed.
    fn queue_restored(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let Self { resident, timing } = self;
        let Timing { queue, restored, lateness, rule, .. } = timing;
        let groups = resident.groups().clone();
        for (index, group) in groups.owned.clone().enumerate() {
            let passed = restored.of(index).unwrap_or(i64::MIN);
            let read = resident.backend.for_each(group, &mut |key, windows| {
                let next = rule.next(windows, passed, lateness.ms);
                queue.push(next.unwrap_or(passed), groups.address(key), key);
            });
            read.map_err(|error| failed(context, error))?;
        }
        Ok(())
    }

    /// Looks at the keys whose moments are at most `until`, in their order; see [`WindowStore::fire`].
    fn look(
        &mut self,
        until: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let mut at_work = None;
        loop {
            let first = self.timing.queue.first().filter(|first| *first <= until);
            // A key that waits may be queued for a moment before the next one.
            let is_next = first.is_none() || first != at_work;
            if self.resident.waits() && (is_next || self.resident.full()) {
                return Ok(Flow::Waiting);
            }
            let Some((timestamp, at, key)) = self.timing.queue.pop(until) else {
                return Ok(Flow::Done);
            };
            at_work = Some(timestamp);
            let timer = Timer { timestamp, domain: TimeDomain::EventTime };
            let Self { resident, timing } = self;
            let mut taking = Taking { timing, out, context, time: NO_TIME };
            resident.timer::<S>(at, key, timer, context, &mut taking)?;
            if !out.should_continue() {
                return Ok(Flow::More);
            }
        }
    }

    /// Returns what precedes the keyed state in a snapshot: a version byte, what tells the windows from others, and the watermarks of
    /// the key groups; without `has_watermarks` those of no key group.
    fn before_state(&self, has_watermarks: bool) -> Vec<u8> {
        let mut bytes = vec![R::VERSION];
        let Self { resident, timing } = self;
        timing.rule.write_parts(&mut bytes);
        match has_watermarks {
            true => timing.restored.write(resident.groups(), timing.watermark, &mut bytes),
            false => Restored::write_none(&mut bytes),
        }
        bytes
    }
}

/// The argument of [`KeyRule::record`] and [`KeyRule::pass`]: the folding, the rule, the queue of keys, the watermarks, the lateness, the
/// output and the context of the operator; made by [`KeyCore`] for each call.
pub struct Taking<'a, T, K, F, R, Out> {
    pub(super) timing: &'a mut Timing<T, K, F, R>,
    pub(super) out: &'a mut Collector<Out>,
    pub(super) context: &'a OperatorContext,
    /// The event time of the record at hand, in milliseconds since 1970.
    pub(super) time: i64,
}

impl<T, S, F, R, B> Work<T, S, B> for Taking<'_, T, S::Key, F, R, F::Out>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    R: KeyRule<T, S, F>,
    B: StateBackend<S::Key, R::Windows>,
{
    #[inline]
    fn turn_to(&mut self, time: i64) {
        self.time = time;
    }

    #[inline(always)]
    fn record(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError> {
        R::record(self, backend, at, record)
    }

    /// Looks at a key whose moment has come: emits its windows that end then, and queues the key again if it has others. Does nothing
    /// if the key was queued for another moment meanwhile.
    fn timer(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        key: S::Key,
        Timer { timestamp: moment, .. }: Timer,
    ) -> Result<(), TaskError> {
        let passed = self.passed(at);
        let place = backend.place(at, |stored| *stored == key);
        let Place::Taken(mut place) = place.map_err(|error| failed(self.context, error))? else {
            return Ok(());
        };
        let (_, windows) = place.entry();
        self.recall::<S>((at, &key), windows, passed);
        if !windows.holds_nothing() && *windows.looked_at() != Some(moment) {
            return Ok(());
        }
        let ended = R::pass(self, &key, windows, moment, passed)?;
        let Timing { rule, lateness, queue, .. } = &mut *self.timing;
        match rule.next(windows, moment, lateness.ms) {
            Some(next) => {
                *windows.looked_at() = Some(next);
                queue.push(next, at, &key);
            }
            None => {
                place.remove();
                queue.forget(at, &key);
            }
        }
        ended.map_or(Ok(()), |(window, kept)| self.emit(key, window, kept))
    }
}

impl<T, K: Key, F: WindowFolding<K, T>, R> Taking<'_, T, K, F, R, F::Out> {
    /// Returns the watermark that holds for a key: the operator's, or the restored one of its key group if that is greater.
    #[inline]
    pub(super) fn passed(&self, at: KeyAddress) -> i64 {
        let Timing { restored, watermark, first_group, .. } = &*self.timing;
        let group = at.group.wrapping_sub(*first_group) as usize;
        restored.of(group).map_or(*watermark, |ms| ms.max(*watermark))
    }

    /// Finds the moment of the queue's entry for windows that were read from bytes, which do not have it. Restored windows that the
    /// allowed lateness, if it is shorter now, does not keep any more are discarded first.
    #[inline]
    pub(super) fn recall<S>(
        &self,
        of: (KeyAddress, &K),
        windows: &mut <R as KeyRule<T, S, F>>::Windows,
        passed: i64,
    ) where
        S: KeySelector<T, Key = K>,
        R: KeyRule<T, S, F>,
    {
        if windows.looked_at().is_none() {
            self.recall_read::<S>(of, windows, passed);
        }
    }

    #[cold]
    fn recall_read<S>(
        &self,
        (at, key): (KeyAddress, &K),
        windows: &mut <R as KeyRule<T, S, F>>::Windows,
        passed: i64,
    ) where
        S: KeySelector<T, Key = K>,
        R: KeyRule<T, S, F>,
    {
        let Timing { rule, lateness, queue, .. } = &*self.timing;
        rule.give_up(windows, passed, lateness.ms);
        // Nothing has changed the key since it was restored and queued, if the queue remembers no other moment.
        let queued = queue.remembered(at, key);
        *windows.looked_at() = queued.or_else(|| rule.next(windows, passed, lateness.ms));
    }

    /// Queues the key if it has to be looked at earlier than before.
    #[inline]
    pub(super) fn look_at(
        &mut self,
        (at, key): (KeyAddress, &K),
        windows: &mut impl KeyWindows,
        moment: i64,
    ) {
        if windows.looked_at().is_none_or(|earlier| moment < earlier) {
            *windows.looked_at() = Some(moment);
            self.timing.queue.push(moment, at, key);
        }
    }

    /// Emits the results of a window.
    #[inline]
    pub(super) fn emit(
        &mut self,
        key: K,
        window: TimeWindow,
        kept: F::Kept,
    ) -> Result<(), TaskError> {
        self.out.set_time(window.last());
        let emitted = self.timing.folding.emit(key, window, kept, self.out);
        emitted.map_err(|error| self.context.user_error(error))
    }
}

impl<T, S, F, R, B> WindowStore<T, S> for KeyCore<T, S, F, R, B>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    R: KeyRule<T, S, F>,
    B: StateBackend<S::Key, R::Windows>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.timing.lateness.open(context)?;
        self.resident.open(context);
        self.timing.first_group = self.resident.groups().owned.start;
        each_part(R::VERSION, context, |input| self.restore(input, context))?;
        if !B::ALWAYS_RESIDENT {
            self.timing.queue.remember_for(self.resident.groups());
        }
        self.queue_restored(context)
    }

    fn add(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        _extent: (i64, i64),
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { resident, timing } = self;
        let mut taking = Taking { timing, out, context, time: NO_TIME };
        resident.batch(selector, batch, context, &mut taking)
    }

    fn mail(
        &mut self,
        selector: &S,
        mail: OperatorMail,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { resident, timing } = self;
        let mut taking = Taking { timing, out, context, time: NO_TIME };
        resident.mail(selector, mail, context, &mut taking)
    }

    fn fire(
        &mut self,
        until: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let flow = self.look(until, out, context)?;
        self.resident.begin_fetches(context);
        if flow == Flow::Done {
            let Timing { watermark, restored, .. } = &mut self.timing;
            *watermark = until.max(*watermark);
            restored.passed(*watermark);
        }
        Ok(flow)
    }

    fn waits(&self) -> bool {
        self.resident.waits()
    }

    fn next_end(&self) -> Option<i64> {
        self.timing.queue.first()
    }

    fn fired_until(&self) -> i64 {
        self.timing.restored.greatest().max(self.timing.watermark)
    }

    fn memory_bytes(&self) -> u64 {
        self.resident.memory_bytes() + self.timing.queue.memory_bytes()
    }

    /// Begins the state: what [`KeyCore::before_state`] returns, with the watermarks in the first chunk only, and a snapshot of keyed
    /// state.
    fn begin_snapshot(&mut self) -> bool {
        let (first, head) = (self.before_state(true), self.before_state(false));
        self.resident.begin_snapshot(first, head)
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.resident.write_snapshot(slice, context)
    }

    fn snapshot(&mut self, context: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        let mut bytes = self.before_state(true);
        bytes.append(&mut self.resident.snapshot(context)?);
        Ok(Some(bytes))
    }

    fn abort_snapshot(&mut self) -> bool {
        self.resident.abort_snapshot()
    }

    fn full(&self) -> bool {
        self.resident.full()
    }

    fn late_records(&self) -> u64 {
        self.timing.lateness.dropped()
    }
}
