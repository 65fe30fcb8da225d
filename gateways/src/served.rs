//! Calls of the peer that are under way at one connection: batches that wait for their lane, and calls that are
//! with their actors. Each is here from when it was read until it is answered, so that it has a bound and a deadline
//! all the time. It must never hold its lock while a call is expired, abandoned or handed to an actor.

use crate::{call::CallContext, endpoint::Registered};
use hashbrown::HashMap;
use model::LeaderSession;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::time::Instant;

/// A table that was larger than this gives its memory back when it is empty.
const KEEP: usize = 1024;

/// A served call, as the connection that it came over sees it.
pub(crate) trait Serving: Send + Sync {
    /// Hands the message to its actor.
    fn start(self: Arc<Self>);
    /// Answers that the deadline has passed, unless the call is answered already.
    fn expire(&self);
    /// Records that the caller has stopped waiting: a call that is still in the mailbox is not run.
    fn abandon(&self);
}

/// The table of calls that are under way.
#[derive(Default)]
pub(crate) struct Served(Mutex<Table>);

#[derive(Default)]
struct Table {
    queued: VecDeque<Arc<Batch>>,
    /// Number of calls in `queued` whose deadlines have not passed, and the bytes that all of them
    /// hold.
    queued_calls: usize,
    queued_bytes: usize,
    /// Calls by the peer's ids. Iterate over them only in the order of the ids, so that runs can be
    /// repeated.
    asked: HashMap<u64, Asked>,
    closed: bool,
}

/// A call on its way to its actor, or there.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) deadline: Instant,
    pub(crate) call: Arc<dyn Serving>,
}

/// Calls of one read that wait to be decoded on their lane.
pub(crate) struct Batch(Mutex<Calls>);

/// The calls of a batch.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) calls: Vec<Queued>,
    /// Bodies of the calls, one after another; each call has the length of its own.
    pub(crate) bodies: Vec<u8>,
}

/// A call that waits to be decoded.
pub(crate) struct Queued {
    pub(crate) to: To,
    /// Endpoint that the call is for; `None`: the same as the call before.
    pub(crate) endpoint: Option<Arc<Registered>>,
    pub(crate) length: usize,
    /// True if the deadline has passed and the call is answered.
    pub(crate) over: bool,
}

impl Queued {
    /// Returns the bytes that a waiting call with a body of that length holds; a call without a
    /// body holds some, too.
    pub(crate) fn bytes(body: usize) -> usize {
        body.saturating_add(size_of::<Self>())
    }
}

/// The fields that identify a call.
#[derive(Clone, Copy)]
pub(crate) struct To {
    pub(crate) id: u64,
    pub(crate) call: u32,
    pub(crate) fence: LeaderSession,
    pub(crate) context: CallContext,
    /// Time at which the call was read.
    pub(crate) came: Instant,
}

/// The number of further calls and bytes of calls that a connection may have under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) calls: usize,
    pub(crate) bytes: usize,
}

/// Calls whose deadlines have passed.
pub(crate) struct Expired {
    /// Calls that waited: id, time of arrival and endpoint of each.
    pub(crate) queued: Vec<(u64, Instant, Arc<Registered>)>,
    pub(crate) asked: BTreeMap<u64, Arc<dyn Serving>>,
    /// The earliest deadline among the others.
    pub(crate) next: Option<Instant>,
}

impl Batch {
    pub(crate) fn new(calls: Calls) -> Self {
        Self(Mutex::new(calls))
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the calls out, to let them in.
    pub(crate) fn take(&self) -> Calls {
        std::mem::take(&mut *self.calls())
    }

    /// Marks the calls whose deadlines have passed.
    fn expire(&self, now: Instant, expired: &mut Expired) {
        let mut endpoint = None;
        for call in &mut self.calls().calls {
            if let Some(other) = &call.endpoint {
                endpoint = Some(Arc::clone(other));
            }
            let deadline = call.to.context.deadline.at();
            if call.over {
                continue;
            }
            if deadline > now {
                expired.next = Some(expired.next.map_or(deadline, |next| next.min(deadline)));
            } else if let Some(endpoint) = &endpoint {
                call.over = true;
                expired.queued.push((call.to.id, call.to.came, Arc::clone(endpoint)));
            }
        }
    }
}

impl Calls {
    /// Reserves room for the calls of a read of `read` bytes, the first of which has a body of
    /// `body` bytes; `whole`: that body becomes their buffer.
    pub(crate) fn expecting(read: usize, body: usize, whole: bool) -> Self {
        // A call's header and its endpoint's name.
        const HEADER_BYTES: usize = 100;
        let calls = (read / (body + HEADER_BYTES)).clamp(1, 1024);
        // A buffer of the whole read would be so long that freeing it makes the allocator tidy up each time.
        let bodies = if whole { 0 } else { calls * body };
        Self { calls: Vec::with_capacity(calls), bodies: Vec::with_capacity(bodies) }
    }

    /// Gives back room that was not needed after all: it may wait for long.
    pub(crate) fn give_back(&mut self) {
        if self.bodies.capacity() > 2 * self.bodies.len() {
            self.bodies.shrink_to_fit();
        }
        if self.calls.capacity() > 2 * self.calls.len() {
            self.calls.shrink_to_fit();
        }
    }

    /// Returns the bytes that the calls hold.
    fn bytes(&self) -> usize {
        self.calls.iter().map(|call| Queued::bytes(call.length)).sum()
    }

    /// Returns the number of calls whose deadlines have not passed.
    fn live(&self) -> usize {
        self.calls.iter().filter(|call| !call.over).count()
    }
}

impl Served {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of calls that are not answered yet.
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }

    /// Returns how many more calls and bytes of calls there may be.
    pub(crate) fn room(&self, calls_max: usize, bytes_max: usize) -> Room {
        let table = self.table();
        Room {
            calls: calls_max.saturating_sub(table.len()),
            bytes: bytes_max.saturating_sub(table.queued_bytes),
        }
    }

    /// Queues a batch that waits for its lane.
    pub(crate) fn queue(&self, calls: Calls) -> Arc<Batch> {
        let (live, bytes) = (calls.live(), calls.bytes());
        let batch = Arc::new(Batch::new(calls));
        let mut table = self.table();
        if table.closed {
            drop(table);
            drop(batch.take());
            return batch;
        }
        table.queued_calls += live;
        table.queued_bytes += bytes;
        table.queued.push_back(Arc::clone(&batch));
        batch
    }

    /// Moves calls that were decoded to their actors: those of a batch, or one that did not have to
    /// wait. Returns false if their answers are not needed any more.
    pub(crate) fn ask(
        &self,
        of: Option<(&Arc<Batch>, &Calls)>,
        asked: impl Iterator<Item = Asked>,
    ) -> bool {
        let mut replaced = Vec::new();
        let mut table = self.table();
        if table.closed {
            return false;
        }
        if let Some((batch, calls)) = of {
            // Mostly it is the first.
            if let Some(at) = table.queued.iter().position(|other| Arc::ptr_eq(other, batch)) {
                drop(table.queued.remove(at));
            }
            table.queued_calls -= calls.live().min(table.queued_calls);
            table.queued_bytes -= calls.bytes().min(table.queued_bytes);
        }
        for call in asked {
            replaced.extend(table.asked.insert(call.id, call));
        }
        drop(table);
        for Asked { call, .. } in replaced {
            call.abandon(); // the peer used an id twice; it waits for the newer one
        }
        true
    }

    /// Records that a call has its answer. Returns true if it was the last one under way.
    pub(crate) fn answered(&self, id: u64) -> bool {
        let mut table = self.table();
        let answered = table.asked.remove(&id);
        if table.asked.is_empty() && table.asked.capacity() > KEEP {
            table.asked = HashMap::new();
        }
        let last = table.len() == 0;
        drop(table);
        drop(answered);
        last
    }

    /// Takes out the calls whose deadlines have passed.
    pub(crate) fn expire(&self, now: Instant) -> Expired {
        let mut expired = Expired { queued: Vec::new(), asked: BTreeMap::new(), next: None };
        let mut table = self.table();
        for batch in &table.queued {
            batch.expire(now, &mut expired);
        }
        table.queued_calls -= expired.queued.len().min(table.queued_calls);
        let next = &mut expired.next;
        let passed = table.asked.extract_if(|_, call| {
            if call.deadline > now {
                *next = Some(next.map_or(call.deadline, |next| next.min(call.deadline)));
            }
            call.deadline <= now
        });
        expired.asked = passed.map(|(id, call)| (id, call.call)).collect();
        expired
    }

    /// Refuses further calls, and gives up those that are under way, in order.
    pub(crate) fn close(&self) {
        let mut table = self.table();
        table.closed = true;
        let Table { queued, asked, .. } =
            std::mem::replace(&mut *table, Table { closed: true, ..Table::default() });
        drop(table);
        for batch in queued {
            drop(batch.take());
        }
        let asked: BTreeMap<u64, Asked> = asked.into_iter().collect();
        for Asked { call, .. } in asked.into_values() {
            call.abandon();
        }
    }
}

impl Table {
    fn len(&self) -> usize {
        self.asked.len() + self.queued_calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicU32, sync::atomic::Ordering, time::Duration};

    #[derive(Default)]
    struct Counted {
        started: AtomicU32,
        abandoned: AtomicU32,
    }

    impl Serving for Counted {
        fn start(self: Arc<Self>) {
            self.started.fetch_add(1, Ordering::Relaxed);
        }
        fn expire(&self) {}
        fn abandon(&self) {
            self.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn asked(id: u64, deadline: Instant) -> (Arc<Counted>, Asked) {
        let call = Arc::new(Counted::default());
        (Arc::clone(&call), Asked { id, deadline, call })
    }

    fn abandoned(call: &Counted) -> u32 {
        call.abandoned.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn the_last_answer_is_known_as_such_and_a_full_connection_has_no_room() {
        let (served, now) = (Served::default(), Instant::now());
        let ((_, first), (_, second)) = (asked(1, now), asked(2, now));
        assert!(served.ask(None, [first, second].into_iter()));
        assert_eq!((served.len(), served.room(2, 9).calls, served.room(3, 9).calls), (2, 0, 1));
        assert!(!served.answered(1));
        assert!(!served.answered(7), "no call of this id is under way");
        assert!(served.answered(2));
    }

    #[tokio::test]
    async fn a_deadline_that_has_passed_takes_its_call_out_and_tells_the_next() {
        let (served, now) = (Served::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        let ((_, due), (_, other)) = (asked(4, now), asked(3, later));
        assert!(served.ask(None, [due, other].into_iter()));
        let expired = served.expire(now);
        assert_eq!(expired.asked.keys().copied().collect::<Vec<_>>(), [4]);
        assert_eq!((expired.next, served.len()), (Some(later), 1));
    }

    #[tokio::test]
    async fn an_id_that_is_used_twice_leaves_the_newer_call() {
        let (served, now) = (Served::default(), Instant::now());
        let ((older, first), (newer, second)) = (asked(1, now), asked(1, now));
        assert!(served.ask(None, std::iter::once(first)));
        assert!(served.ask(None, std::iter::once(second)));
        assert_eq!((abandoned(&older), abandoned(&newer), served.len()), (1, 0, 1));
    }

    #[tokio::test]
    async fn a_closed_table_gives_its_calls_up_and_takes_none() {
        let (served, now) = (Served::default(), Instant::now());
        let ((before, first), (_, after)) = (asked(1, now), asked(2, now));
        assert!(served.ask(None, std::iter::once(first)));
        served.close();
        assert_eq!((abandoned(&before), served.len()), (1, 0));
        assert!(!served.ask(None, std::iter::once(after)));
        served.queue(one_call());
        assert_eq!(served.room(1, 999).bytes, 999, "what comes after the end is not kept");
    }

    /// One with a body of five bytes.
    fn one_call() -> Calls {
        let context = CallContext {
            session: None,
            deadline: crate::Deadline::after(Duration::from_secs(9)),
            trace: crate::TraceContext::default(),
        };
        let fence = LeaderSession::default();
        let to = To { id: 1, call: 1, fence, context, came: Instant::now() };
        let call = Queued { to, endpoint: None, length: 5, over: false };
        Calls { calls: vec![call], bodies: vec![0; 5] }
    }

    #[tokio::test]
    async fn a_batch_counts_until_it_is_let_in() {
        let (served, held) = (Served::default(), Queued::bytes(5));
        let batch = served.queue(one_call());
        let room = served.room(9, 999);
        assert_eq!((room.calls, room.bytes, served.len()), (8, 999 - held, 1));
        let calls = batch.take();
        assert_eq!(served.room(9, 999).bytes, 999 - held, "it is not let in yet");
        assert!(served.ask(Some((&batch, &calls)), std::iter::empty()));
        assert_eq!((served.room(9, 999).bytes, served.len()), (999, 0));
    }
}
