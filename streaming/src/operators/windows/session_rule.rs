//! The part of session windows that is the same for both clocks: it merges the sessions of each key, fires them when time has
//! passed their end, and keeps them for the allowed lateness.
//!
//! Each key has one moment at which it is looked at next, kept in a queue ordered by time. A record that only makes a session
//! longer does not change the queue: the key is then looked at too early, and queued again for the session's new end.
//!
//! The sessions may be in any [`StateBackend`]: records, and keys that are looked at, wait until the key is resident.

use super::{
    SessionGap, TimeWindow, WindowFolding,
    late::Lateness,
    queue::Queue,
    restored::{Restored, each_part},
    sessions::Sessions,
    store::WindowStore,
};
use crate::{
    batch::Batch,
    operators::{
        Collector, Flow, KeySelector, Keyed, OperatorContext, OperatorMail, TimeDomain, Timer,
        keyed::{Resident, Work, failed},
    },
    seam::TaskError,
    state::{Free, KeyAddress, Place, Slice, StateBackend, StateDeclaration, Table, Taken},
    types::{Key, Record},
};

/// Version byte of the state. The state of tumbling and sliding windows has another one, so that neither is read as the other.
const VERSION: u8 = 2;

/// The sessions of one key, with the values that the folding `F` keeps.
type SessionsOf<T, S, F> = Sessions<<F as WindowFolding<<S as KeySelector<T>>::Key, T>>::Kept>;

/// The access to the sessions of all keys in the backend `B`.
type States<T, S, F, B> = Resident<<S as KeySelector<T>>::Key, SessionsOf<T, S, F>, T, B>;

/// Sessions of all keys of one subtask, and how far they have been fired.
pub struct SessionCore<T, S, F, G, B = Table<<S as KeySelector<T>>::Key, SessionsOf<T, S, F>>>
where
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
{
    resident: States<T, S, F, B>,
    merging: Merging<T, S::Key, F, G>,
}

/// The parts of a store that do not depend on its backend.
struct Merging<T, K, F, G> {
    folding: F,
    gap: G,
    lateness: Lateness<T>,
    queue: Queue<K>,
    /// Time in milliseconds up to which sessions were fired: the watermark, or the clock's time minus 1.
    watermark: i64,
    restored: Restored,
    /// The first key group that the subtask owns.
    first_group: u32,
}

impl<T: Record, S: KeySelector<T>, F: WindowFolding<S::Key, T>, G: SessionGap<T>>
    SessionCore<T, S, F, G>
{
    /// Returns the declaration of the keyed state.
    pub(super) fn declare() -> Vec<StateDeclaration> {
        Sessions::<F::Kept>::declare()
    }

    /// Makes a store in memory without sessions, which takes no records before it is opened. `lateness` says what happens to late
    /// records.
    pub(super) fn new(folding: F, gap: G, lateness: impl Into<Lateness<T>>) -> Self {
        Self::with_backend(folding, gap, lateness, Table::default())
    }
}

impl<T, S, F, G, B> SessionCore<T, S, F, G, B>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    G: SessionGap<T>,
    B: StateBackend<S::Key, SessionsOf<T, S, F>>,
{
    /// Makes a store without sessions that keeps them in `backend`; see [`SessionCore::new`].
    pub(super) fn with_backend(
        folding: F,
        gap: G,
        lateness: impl Into<Lateness<T>>,
        backend: B,
    ) -> Self {
        let merging = Merging {
            folding,
            gap,
            lateness: lateness.into(),
            queue: Queue::new(),
            watermark: i64::MIN,
            restored: Restored::default(),
            first_group: 0,
        };
        Self { resident: Resident::new(backend, Sessions::<F::Kept>::declare()), merging }
    }

    /// Returns the number of entries in the queue.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.merging.queue.len()
    }

    /// Queues all restored keys. A key whose sessions are all over is queued too, so that it is removed.
    fn queue_restored(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let Self { resident, merging } = self;
        let Merging { queue, restored, lateness, .. } = merging;
        let groups = resident.groups().clone();
        for (index, group) in groups.owned.clone().enumerate() {
            let passed = restored.of(index).unwrap_or(i64::MIN);
            let read = resident.backend.for_each(group, &mut |key, sessions| {
                let next = sessions.next(passed, lateness.ms);
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
            let first = self.merging.queue.first().filter(|first| *first <= until);
            // A key that waits may be queued for a moment before the next one.
            let is_next = first.is_none() || first != at_work;
            if self.resident.waits() && (is_next || self.resident.full()) {
                return Ok(Flow::Waiting);
            }
            let Some((timestamp, at, key)) = self.merging.queue.pop(until) else {
                return Ok(Flow::Done);
            };
            at_work = Some(timestamp);
            let timer = Timer { timestamp, domain: TimeDomain::EventTime };
            let Self { resident, merging } = self;
            let mut taking = Taking { merging, out, context };
            resident.timer::<S>(at, key, timer, context, &mut taking)?;
            if !out.should_continue() {
                return Ok(Flow::More);
            }
        }
    }

    /// Returns what precedes the keyed state in a snapshot: a version byte, and the watermarks of the key groups.
    fn before_state(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let Self { resident, merging } = self;
        merging.restored.write(resident.groups(), merging.watermark, &mut bytes);
        bytes
    }
}

/// Lets sessions take records, and looks at keys.
struct Taking<'a, T, K, F, G, Out> {
    merging: &'a mut Merging<T, K, F, G>,
    out: &'a mut Collector<Out>,
    context: &'a OperatorContext,
}

impl<T, S, F, G, B> Work<T, S, B> for Taking<'_, T, S::Key, F, G, F::Out>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    G: SessionGap<T>,
    B: StateBackend<S::Key, SessionsOf<T, S, F>>,
{
    /// Adds a record to its session, joining the sessions that it connects. A late record that touches no kept session goes to
    /// the side output of late records or is dropped. A session that was fired already and takes a record is fired once more.
    #[inline(always)]
    fn record(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
        time: i64,
    ) -> Result<bool, TaskError> {
        let gap = self.merging.gap.gap_ms(record.record());
        if gap < 1 {
            return Err(no_gap(gap, time, self.context));
        }
        let window = TimeWindow::new(time, time.saturating_add(gap - 1));
        let passed = self.passed(at);
        let is_late = self.merging.lateness.end(window.last()) <= passed;
        let place = backend.place(at, |key| key == record.key());
        match place.map_err(|error| failed(self.context, error))? {
            Place::Taken(mut place) => {
                let (key, sessions) = place.entry();
                self.recall((at, key), sessions, passed);
                let touching = sessions.touching(window);
                if is_late && touching.is_empty() {
                    self.merging.lateness.take_late(record.into_record(), time, passed, self.out);
                    return Ok(self.out.should_continue());
                }
                let number = touching.start;
                let session =
                    sessions.add(touching, window, record.into_record(), &mut self.merging.folding);
                self.grown((at, key), sessions, (number, session), passed)?;
            }
            Place::Free(_) if is_late => {
                self.merging.lateness.take_late(record.into_record(), time, passed, self.out);
            }
            Place::Free(place) => {
                let (key, record) = record.into_both();
                let mut sessions = Sessions::default();
                let session = sessions.add(0..0, window, record, &mut self.merging.folding);
                self.grown((at, &key), &mut sessions, (0, session), passed)?;
                place.insert(key, sessions);
            }
        }
        Ok(self.out.should_continue())
    }

    /// Handles a queue entry: emits the key's session that ends at the moment, discards its sessions that were kept long enough,
    /// and queues the key again if it has others. Does nothing for an outdated entry.
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
        let (_, sessions) = place.entry();
        self.recall((at, &key), sessions, passed);
        if !sessions.is_empty() && sessions.looked_at != Some(moment) {
            return Ok(());
        }
        let ended = sessions.pass(moment, self.merging.lateness.ms);
        match sessions.next(moment, self.merging.lateness.ms) {
            Some(next) => {
                sessions.looked_at = Some(next);
                self.merging.queue.push(next, at, &key);
            }
            None => {
                place.remove();
                self.merging.queue.forget(at, &key);
            }
        }
        let Some((window, kept)) = ended else { return Ok(()) };
        self.out.set_time(window.last());
        let emitted = self.merging.folding.emit(key, window, kept, self.out);
        emitted.map_err(|error| self.context.user_error(error))
    }
}

impl<T, K: Key, F: WindowFolding<K, T>, G> Taking<'_, T, K, F, G, F::Out> {
    /// Returns the watermark that holds for a key: the operator's, or the restored one of its key group if that is greater.
    #[inline]
    fn passed(&self, at: KeyAddress) -> i64 {
        let group = at.group.wrapping_sub(self.merging.first_group) as usize;
        self.merging
            .restored
            .of(group)
            .map_or(self.merging.watermark, |ms| ms.max(self.merging.watermark))
    }

    /// Finds the moment of the queue's entry for sessions that were read from bytes, which do not have it. Restored sessions that the
    /// allowed lateness, if it is shorter now, does not keep any more are discarded first.
    #[inline]
    fn recall(&self, of: (KeyAddress, &K), sessions: &mut Sessions<F::Kept>, passed: i64) {
        if sessions.looked_at.is_none() {
            self.recall_read(of, sessions, passed);
        }
    }

    #[cold]
    fn recall_read(
        &self,
        (at, key): (KeyAddress, &K),
        sessions: &mut Sessions<F::Kept>,
        passed: i64,
    ) {
        sessions.give_up(passed, self.merging.lateness.ms);
        // Nothing has changed the key since it was restored and queued, if the queue remembers no other moment.
        let queued = self.merging.queue.remembered(at, key);
        sessions.looked_at = queued.or_else(|| sessions.next(passed, self.merging.lateness.ms));
    }

    /// Emits the key's session of that number if it was fired already, and queues the key if it has to be looked at earlier than
    /// before.
    #[inline]
    fn grown(
        &mut self,
        (at, key): (KeyAddress, &K),
        sessions: &mut Sessions<F::Kept>,
        (number, session): (usize, TimeWindow),
        passed: i64,
    ) -> Result<(), TaskError> {
        let mut moment = session.last();
        if moment <= passed {
            moment = self.merging.lateness.end(moment);
            if let Some(kept) = sessions.kept(number).cloned() {
                self.out.set_time(session.last());
                let emitted = self.merging.folding.emit(key.clone(), session, kept, self.out);
                emitted.map_err(|error| self.context.user_error(error))?;
            }
        }
        if sessions.looked_at.is_none_or(|earlier| moment < earlier) {
            sessions.looked_at = Some(moment);
            self.merging.queue.push(moment, at, key);
        }
        Ok(())
    }
}

/// Returns the failure of the task for a gap below 1 ms after a record with this event time.
#[cold]
fn no_gap(gap: i64, time: i64, context: &OperatorContext) -> TaskError {
    let why = format!(
        "the session gap of a record with the time {time} is {gap} ms; the function given to 'with_dynamic_gap' must return at least 1 ms"
    );
    context.user_error(why.into())
}

impl<T, S, F, G, B> WindowStore<T, S> for SessionCore<T, S, F, G, B>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    G: SessionGap<T>,
    B: StateBackend<S::Key, SessionsOf<T, S, F>>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let Self { resident, merging } = self;
        let Merging { restored, queue, lateness, first_group, .. } = merging;
        lateness.open(context)?;
        resident.open(context);
        *first_group = resident.groups().owned.start;
        each_part(VERSION, context, |input| {
            let read = restored.read(resident.groups(), input);
            read.map_err(|error| context.codec_error(error))?;
            resident.restore(input, context)
        })?;
        if !B::ALWAYS_RESIDENT {
            queue.remember_for(resident.groups());
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
        let Self { resident, merging } = self;
        let mut taking = Taking { merging, out, context };
        resident.batch(selector, batch, context, &mut taking)
    }

    fn mail(
        &mut self,
        selector: &S,
        mail: OperatorMail,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { resident, merging } = self;
        let mut taking = Taking { merging, out, context };
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
            let Merging { watermark, restored, .. } = &mut self.merging;
            *watermark = until.max(*watermark);
            restored.passed(*watermark);
        }
        Ok(flow)
    }

    fn waits(&self) -> bool {
        self.resident.waits()
    }

    fn next_end(&self) -> Option<i64> {
        self.merging.queue.first()
    }

    fn fired_until(&self) -> i64 {
        self.merging.restored.greatest().max(self.merging.watermark)
    }

    fn memory_bytes(&self) -> u64 {
        self.resident.memory_bytes() + self.merging.queue.memory_bytes()
    }

    /// Begins the state: a version byte, the watermarks of the key groups, in the first chunk only, and a snapshot of keyed state.
    fn begin_snapshot(&mut self) -> bool {
        let (first, mut head) = (self.before_state(), vec![VERSION]);
        Restored::write_none(&mut head);
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
        let mut bytes = self.before_state();
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
        self.merging.lateness.dropped()
    }
}
