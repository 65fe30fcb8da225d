//! One coordinator on a thread of its own, so that a slow coordinator delays only its own callers. Dropping the
//! [`Runner`] ends the thread and waits for the requests that are queued.

use super::{Answered, Reply, STACK_BYTES, WAITING_MAX};
use gateways::job_master::CoordinationError;
use model::ExecutionAttemptId;
use serde_bytes::ByteBuf;
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
};
use streaming::{
    Coordinator, EventReply, OnFailure,
    task::{panics, threads},
};

/// A request to a coordinator.
pub(super) enum Work {
    Event(ExecutionAttemptId, Vec<u8>, Reply<Answered>),
    Client(Vec<u8>, Reply<Answered>),
    Snapshot(u64, Reply<Answered>),
    CheckpointEnded(u64, bool),
    Call(Call, mpsc::Sender<Result<(), CoordinationError>>),
}

type Call = Box<dyn FnOnce(&mut dyn Coordinator) -> Result<(), String> + Send>;

impl Work {
    /// Answers the request with an error. The callers of the other kinds of request notice that it was dropped.
    pub(super) fn refuse(self, why: CoordinationError) {
        if let Self::Event(_, _, reply) | Self::Client(_, reply) | Self::Snapshot(_, reply) = self {
            let _ = reply.send(Err(why));
        }
    }
}

/// A handle to a coordinator's thread.
pub(super) struct Runner {
    /// `None` while the thread is ending.
    queue: Option<mpsc::SyncSender<Work>>,
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
    /// Starts the thread. It takes its first request when the operator's former coordinator, whose thread is `former`, has ended.
    /// Failures that have no caller to be returned to are reported to `on_failure`.
    pub(super) fn start(
        coordinator: Box<dyn Coordinator>,
        former: Option<JoinHandle<()>>,
        on_failure: OnFailure,
    ) -> std::io::Result<Self> {
        let (queue, work) = mpsc::sync_channel(WAITING_MAX);
        let thread = threads::spawn("flott-coord", STACK_BYTES, move || {
            former.map(JoinHandle::join);
            let mut slot = Slot { coordinator: Some(coordinator), on_failure };
            while let Ok(work) = work.recv() {
                slot.work(work);
            }
            slot.drop_coordinator();
        })?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Takes no more requests, and returns the thread, which ends after those that wait.
    pub(super) fn end(mut self) -> Option<JoinHandle<()>> {
        self.queue = None;
        self.thread.take()
    }

    /// Queues a request, or answers it with [`CoordinationError::Unavailable`] if the queue is full.
    pub(super) fn post(&self, work: Work) {
        let Some(queue) = &self.queue else { return };
        if let Err(mpsc::TrySendError::Full(work) | mpsc::TrySendError::Disconnected(work)) =
            queue.try_send(work)
        {
            let why = "too many requests wait for the coordinator".to_owned();
            work.refuse(CoordinationError::Unavailable(why));
        }
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
            Work::CheckpointEnded(checkpoint, complete) => {
                let told = self.call(|c| c.checkpoint_ended(checkpoint, complete));
                if let Err(error) = told {
                    self.on_failure.report(error.to_string());
                }
            }
            Work::Client(request, reply) => {
                let answer = self.call(|c| c.handle_request(&request));
                let _ = reply.send(answer.map(ByteBuf::from));
            }
            Work::Call(call, answer) => {
                let _ = answer.send(self.call(call));
            }
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
