//! One coordinator on a thread of its own, so that a slow coordinator delays only its own callers. Dropping the
//! [`Runner`] ends the thread and waits for the requests that are queued.

use super::{Answered, Reply, STACK_BYTES, WAITING_MAX};
use gateways::job_master::CoordinationError;
use model::ExecutionAttemptId;
use serde_bytes::ByteBuf;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};
use streaming::{
    Coordinator, CoordinatorWaker, EventReply, OnFailure,
    task::{panics, threads},
};

/// A request to a coordinator.
pub(super) enum Work {
    Event(ExecutionAttemptId, Vec<u8>, Reply<Answered>),
    Client(Vec<u8>, Reply<Answered>),
    Snapshot(u64, Reply<Answered>),
    /// The ends of attempts, and the checkpoint that their subtasks begin anew with.
    Reset(Vec<ExecutionAttemptId>, Option<u64>, Reply<Answered>),
    CheckpointEnded(u64, bool),
    /// Only makes the thread look whether the coordinator was woken, as it does after every request.
    Wake,
    Call(Call, mpsc::Sender<Result<(), CoordinationError>>),
}

type Call = Box<dyn FnOnce(&mut dyn Coordinator) -> Result<(), String> + Send>;

impl Work {
    /// Answers the request with an error. The callers of the other kinds of request notice that it was dropped.
    pub(super) fn refuse(self, why: CoordinationError) {
        if let Self::Event(_, _, reply)
        | Self::Client(_, reply)
        | Self::Snapshot(_, reply)
        | Self::Reset(_, _, reply) = self
        {
            let _ = reply.send(Err(why));
        }
    }
}

/// Counts what is in the queue: requests, of which there are at most [`WAITING_MAX`], and at most one [`Work::Wake`], however often a
/// coordinator is woken.
#[derive(Default)]
struct Queued {
    requests: AtomicUsize,
    has_wake: AtomicBool,
}

impl Queued {
    /// Takes a place for a request. Returns false, with no effect, if there is none.
    fn try_add(&self) -> bool {
        let more = |requests| (requests < WAITING_MAX).then_some(requests + 1);
        self.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Gives the place of this element back. The thread calls it before it looks for wakes, so that a wake from then on is queued or seen.
    fn removed(&self, work: &Work) {
        match work {
            Work::Wake => self.has_wake.store(false, Ordering::Release),
            _ => _ = self.requests.fetch_sub(1, Ordering::AcqRel),
        }
    }
}

/// The queue of a coordinator's thread that is still to be started, and the coordinator's waker.
pub(super) struct Inbox {
    queue: Arc<mpsc::SyncSender<Work>>,
    queued: Arc<Queued>,
    work: mpsc::Receiver<Work>,
    waker: CoordinatorWaker,
}

impl Inbox {
    pub(super) fn new() -> Self {
        // One place more than requests may take, for the wake.
        let (queue, work) = mpsc::sync_channel(WAITING_MAX + 1);
        let queue = Arc::new(queue);
        let queued = Arc::new(Queued::default());
        let waits = Arc::clone(&queued);
        // A thread of the coordinator's own that keeps the waker must not keep the coordinator's thread from ending.
        let waking = Arc::downgrade(&queue);
        let waker = CoordinatorWaker::new(move || {
            if let Some(queue) = waking.upgrade()
                && !waits.has_wake.swap(true, Ordering::AcqRel)
            {
                // It fails only if the thread takes no more requests.
                let _ = queue.try_send(Work::Wake);
            }
        });
        Self { queue, queued, work, waker }
    }

    /// Returns the waker, which does nothing once the thread takes no more requests.
    pub(super) fn waker(&self) -> CoordinatorWaker {
        self.waker.clone()
    }
}

/// A handle to a coordinator's thread.
pub(super) struct Runner {
    /// `None` while the thread is ending.
    queue: Option<Arc<mpsc::SyncSender<Work>>>,
    queued: Arc<Queued>,
    thread: Option<JoinHandle<()>>,
}

/// A call whose answer is outstanding.
pub(super) struct Begun(mpsc::Receiver<Result<(), CoordinationError>>);

impl Begun {
    /// Blocks until the answer comes. [`CoordinationError::Unavailable`] if the thread did not take the call.
    pub(super) fn wait(self) -> Result<(), CoordinationError> {
        let gone =
            || CoordinationError::Unavailable("its thread takes no more requests".to_owned());
        self.0.recv().map_err(|_| gone())?
    }
}

impl Runner {
    /// Starts the thread of a coordinator that has the inbox's waker. The thread takes its first request when the operator's former
    /// coordinator, whose thread is `former`, has ended. Failures that have no caller to be returned to are reported to `on_failure`.
    pub(super) fn start(
        inbox: Inbox,
        coordinator: Box<dyn Coordinator>,
        former: Option<JoinHandle<()>>,
        on_failure: OnFailure,
    ) -> std::io::Result<Self> {
        let Inbox { queue, queued, work, waker } = inbox;
        let taken = Arc::clone(&queued);
        let thread = threads::spawn("flott-coord", STACK_BYTES, move || {
            former.map(JoinHandle::join);
            let mut slot = Slot { coordinator: Some(coordinator), on_failure, is_started: false };
            while let Ok(work) = work.recv() {
                taken.removed(&work);
                slot.work(work);
                if slot.is_started && waker.take() {
                    slot.wake();
                }
            }
            slot.drop_coordinator();
        })?;
        Ok(Self { queue: Some(queue), queued, thread: Some(thread) })
    }

    /// Takes no more requests, and returns the thread, which ends after those that wait.
    pub(super) fn end(mut self) -> Option<JoinHandle<()>> {
        self.queue = None;
        self.thread.take()
    }

    /// Queues a request, or answers it with [`CoordinationError::Unavailable`] if the queue is full.
    pub(super) fn post(&self, work: Work) {
        let Some(queue) = &self.queue else { return };
        let refused = match self.queued.try_add() {
            true => match queue.try_send(work) {
                Ok(()) => return,
                Err(mpsc::TrySendError::Full(work) | mpsc::TrySendError::Disconnected(work)) => {
                    work
                }
            },
            false => work,
        };
        let why = "too many requests wait for the coordinator".to_owned();
        refused.refuse(CoordinationError::Unavailable(why));
    }

    /// Queues a call after the requests that wait already, and returns at once.
    pub(super) fn begin(
        &self,
        call: impl FnOnce(&mut dyn Coordinator) -> Result<(), String> + Send + 'static,
    ) -> Begun {
        let (answer, answered) = mpsc::channel();
        self.post(Work::Call(Box::new(call), answer));
        Begun(answered)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // Panics of the coordinator were caught on the thread, so the result carries no information.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Slot {
    /// `None` after a panic, because the coordinator's state may be inconsistent.
    coordinator: Option<Box<dyn Coordinator>>,
    on_failure: OnFailure,
    /// True after the first call, which is the start: earlier wakes wait for it.
    is_started: bool,
}

impl Slot {
    fn work(&mut self, work: Work) {
        // Sending fails only if the caller no longer waits.
        match work {
            Work::Event(from, event, reply) => {
                self.answer(reply, |c, later| c.answer_event(from, &event, later));
            }
            Work::Snapshot(checkpoint, reply) => {
                self.answer(reply, |c, later| c.snapshot(checkpoint, later));
            }
            Work::Reset(attempts, checkpoint, reply) => {
                let mut attempts = attempts.into_iter();
                let told = self
                    .call(|c| attempts.try_for_each(|ended| c.subtask_reset(ended, checkpoint)));
                let _ = reply.send(told.map(|()| ByteBuf::new()));
            }
            Work::CheckpointEnded(checkpoint, complete) => {
                let told = self.call(|c| c.checkpoint_ended(checkpoint, complete));
                self.report(told);
            }
            Work::Wake => {}
            Work::Client(request, reply) => {
                let answer = self.call(|c| c.handle_request(&request));
                let _ = reply.send(answer.map(ByteBuf::from));
            }
            Work::Call(call, answer) => {
                let _ = answer.send(self.call(call));
                self.is_started = true;
            }
        }
    }

    /// Lets the coordinator react to a wake, unless it has panicked.
    fn wake(&mut self) {
        if self.coordinator.is_some() {
            let told = self.call(|c| c.woken());
            self.report(told);
        }
    }

    /// Reports the failure of a call that nobody waits for.
    fn report(&self, told: Result<(), CoordinationError>) {
        if let Err(error) = told {
            self.on_failure.report(error.to_string());
        }
    }

    /// Makes a call to the coordinator, which may keep the reply and answer at any later time. If the coordinator panics, the
    /// panic is the answer.
    fn answer(
        &mut self,
        reply: Reply<Answered>,
        call: impl FnOnce(&mut dyn Coordinator, EventReply),
    ) {
        let reply = Arc::new(Mutex::new(Some(reply)));
        let kept = Arc::clone(&reply);
        let answer = move |answer: Answered| {
            let reply = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
            let _ = reply.map(|reply| reply.send(answer));
        };
        let later = answer.clone();
        let later = EventReply::new(move |result| {
            later(result.map(ByteBuf::from).map_err(CoordinationError::Failed));
        });
        let handled = self.call(|c| {
            call(c, later);
            Ok(())
        });
        if let Err(error) = handled {
            answer(Err(error));
        }
    }

    /// Calls the coordinator and catches a panic. After a panic every call returns [`CoordinationError::Failed`] until
    /// the JobMaster starts the coordinators again.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Coordinator) -> Result<T, String>,
    ) -> Result<T, CoordinationError> {
        let Some(coordinator) = &mut self.coordinator else {
            return Err(CoordinationError::Failed("it has panicked before".to_owned()));
        };
        match panics::catch(|| call(coordinator.as_mut())) {
            Ok(answer) => answer.map_err(CoordinationError::Failed),
            Err(panic) => {
                self.drop_coordinator();
                Err(CoordinationError::Failed(format!("it panicked: {panic}")))
            }
        }
    }

    fn drop_coordinator(&mut self) {
        let coordinator = self.coordinator.take();
        let _ = panics::catch(move || drop(coordinator));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Notes its calls, and blocks in a snapshot until the test lets it go on.
    struct Noting {
        notes: mpsc::Sender<&'static str>,
        go_on: mpsc::Receiver<()>,
        panics: bool,
    }

    impl Coordinator for Noting {
        fn start(&mut self, _: Option<Vec<u8>>) -> Result<(), String> {
            self.notes.send("start").unwrap();
            Ok(())
        }
        fn snapshot(&mut self, _: u64, reply: EventReply) {
            self.notes.send("snapshot begins").unwrap();
            self.go_on.recv().unwrap();
            self.notes.send("snapshot ends").unwrap();
            reply.send(Ok(Vec::new()));
        }
        fn woken(&mut self) -> Result<(), String> {
            self.notes.send("woken").unwrap();
            assert!(!self.panics, "no wakes today");
            Err("nothing was found".to_owned())
        }
        fn handle_request(&mut self, _: &[u8]) -> Result<Vec<u8>, String> {
            self.notes.send("request").unwrap();
            Ok(Vec::new())
        }
        fn job_ended(&mut self, _: bool) -> Result<(), String> {
            Ok(())
        }
    }

    /// A coordinator's thread, its waker, its notes, and the number of its failures.
    struct Test {
        runner: Runner,
        waker: CoordinatorWaker,
        notes: mpsc::Receiver<&'static str>,
        go_on: mpsc::Sender<()>,
        failures: Arc<AtomicUsize>,
    }

    fn test(panics: bool) -> Test {
        let ((notes, noted), (go_on, waits)) = (mpsc::channel(), mpsc::channel());
        let inbox = Inbox::new();
        let waker = inbox.waker();
        waker.wake();
        let coordinator = Box::new(Noting { notes, go_on: waits, panics });
        let failures = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&failures);
        let on_failure = OnFailure::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let runner = Runner::start(inbox, coordinator, None, on_failure).unwrap();
        Test { runner, waker, notes: noted, go_on, failures }
    }

    /// Starts the coordinator, which was woken before, and returns the first notes.
    fn started(test: &Test) -> [&'static str; 2] {
        test.runner.begin(|coordinator| coordinator.start(None)).wait().unwrap();
        [test.notes.recv().unwrap(), test.notes.recv().unwrap()]
    }

    fn snapshot(test: &Test) {
        let (reply, _) = futures::channel::oneshot::channel();
        test.runner.post(Work::Snapshot(1, reply));
        assert_eq!(test.notes.recv(), Ok("snapshot begins"));
    }

    /// Ends the thread, and returns the notes that were left.
    fn rest(test: Test) -> Vec<&'static str> {
        test.runner.end().unwrap().join().unwrap();
        test.notes.iter().collect()
    }

    #[test]
    fn a_wake_before_the_start_waits_for_it_and_a_failure_is_reported() {
        let test = test(false);
        assert_eq!(started(&test), ["start", "woken"]);
        let failures = Arc::clone(&test.failures);
        assert_eq!(rest(test), [] as [&str; 0]);
        assert_eq!(failures.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn wakes_during_a_snapshot_are_one_call_after_it() {
        let test = test(false);
        started(&test);
        snapshot(&test);
        let wakers = std::array::from_fn::<_, 4, _>(|_| {
            let waker = test.waker.clone();
            threads::spawn("waking", STACK_BYTES, move || (0..10_000).for_each(|_| waker.wake()))
        });
        wakers.into_iter().for_each(|thread| thread.unwrap().join().unwrap());
        test.go_on.send(()).unwrap();
        assert_eq!(rest(test), ["snapshot ends", "woken"]);
    }

    #[test]
    fn a_wake_is_not_lost_though_the_queue_is_full() {
        let test = test(false);
        started(&test);
        snapshot(&test);
        for _ in 0..WAITING_MAX + 1 {
            let (reply, _) = futures::channel::oneshot::channel();
            test.runner.post(Work::Client(Vec::new(), reply));
        }
        test.waker.wake();
        test.go_on.send(()).unwrap();
        let notes = rest(test);
        assert_eq!(notes[..3], ["snapshot ends", "woken", "request"]);
        assert_eq!(notes.len(), 2 + WAITING_MAX);
    }

    #[test]
    fn wakes_between_requests_take_the_place_of_none() {
        let test = test(false);
        started(&test);
        snapshot(&test);
        let (reached, at_last) = mpsc::channel();
        let (go_on, may_end) = mpsc::channel::<()>();
        for _ in 1..WAITING_MAX {
            let waker = test.waker.clone();
            test.runner.begin(move |_| {
                waker.wake();
                Ok(())
            });
        }
        test.runner.begin(move |_| {
            reached.send(()).unwrap();
            may_end.recv().map_err(|error| error.to_string())
        });
        test.go_on.send(()).unwrap();
        at_last.recv().unwrap();
        for _ in 0..WAITING_MAX {
            let (reply, _) = futures::channel::oneshot::channel();
            test.runner.post(Work::Client(Vec::new(), reply));
        }
        go_on.send(()).unwrap();
        let requests = rest(test).into_iter().filter(|note| *note == "request").count();
        assert_eq!(requests, WAITING_MAX);
    }

    #[test]
    fn a_wake_after_the_end_does_nothing_and_a_kept_waker_keeps_no_thread() {
        let test = test(false);
        started(&test);
        let waker = test.waker.clone();
        assert_eq!(rest(test), [] as [&str; 0]);
        waker.wake();
        waker.wake();
    }

    #[test]
    fn a_coordinator_that_panics_when_it_is_woken_fails_once_and_is_woken_no_more() {
        let test = test(true);
        assert_eq!(started(&test), ["start", "woken"]);
        test.waker.wake();
        let (failures, waker) = (Arc::clone(&test.failures), test.waker.clone());
        assert_eq!(rest(test), [] as [&str; 0]);
        waker.wake();
        assert_eq!(failures.load(Ordering::SeqCst), 1);
    }
}
