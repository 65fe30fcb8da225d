//! Coordinators: the parts of operators that run once per job, beside the JobMaster. Traits and values only.

use model::{ExecutionAttemptId, JobId, OperatorId};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The values that a host passes to [`CoordinatorFactory::coordinator`](super::CoordinatorFactory::coordinator): a coordinator is the part
/// of an operator that runs once per job.
#[derive(Debug, Clone)]
pub struct CoordinatorContext {
    /// Id of the coordinator's job.
    pub job_id: JobId,
    /// Id of the operator that the coordinator belongs to.
    pub operator: OperatorId,
    /// Parallelism of the operator's vertex, from the submitted graph.
    pub parallelism: u32,
    /// An existing folder for temporary files, which all coordinators of the job share; it is deleted when their host process has ended.
    pub tmp_dir: PathBuf,
    /// Options by key: those of the cluster that begin with `s3.`, and those of the job, which take precedence.
    pub options: Arc<BTreeMap<String, String>>,
    /// The callback that reports a failure of the coordinator that occurs outside a call.
    pub on_failure: OnFailure,
    /// The request for a call of [`Coordinator::woken`], for threads of the coordinator's own.
    pub waker: CoordinatorWaker,
}

/// A callback that takes the cause of a coordinator's failure outside a call. The tasks that are connected with its operator then restart,
/// the coordinator with them, or the job fails, as the restart strategy says; where none is configured, the job fails. A report from a
/// coordinator that a new one has replaced meanwhile is ignored. The default callback ignores all failures.
#[derive(Clone, derive_more::Debug)]
#[debug("OnFailure")]
pub struct OnFailure(Arc<dyn Fn(String) + Send + Sync>);

impl OnFailure {
    /// Creates a callback that calls `report` with each cause, on the reporting thread.
    pub fn new(report: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }
    /// Reports a failure with its cause, as text, on the calling thread. The host's callback only queues the report and returns at once.
    pub fn report(&self, why: String) {
        (self.0)(why);
    }
}

impl Default for OnFailure {
    /// Returns a callback that ignores failures.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

/// The request for a call of [`Coordinator::woken`], which threads of the coordinator's own may make. Clones make the same request. The
/// default waker's host learns of a request only by [`CoordinatorWaker::take`].
#[derive(Clone, derive_more::Debug)]
#[debug("CoordinatorWaker")]
pub struct CoordinatorWaker(Arc<Wake>);

struct Wake {
    asked: AtomicBool,
    notify: Box<dyn Fn() + Send + Sync>,
}

impl CoordinatorWaker {
    /// Creates a waker that calls `notify`, on the waking thread, when a request is made and none is open. `notify` must not block.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Wake { asked: AtomicBool::new(false), notify: Box::new(notify) }))
    }
    /// Asks for a call of [`Coordinator::woken`] and returns at once; does nothing while an earlier request is open.
    pub fn wake(&self) {
        if !self.0.asked.swap(true, Ordering::AcqRel) {
            (self.0.notify)();
        }
    }
    /// Returns true if a request is open, and closes it. The coordinator's host calls this before [`Coordinator::woken`], so that a wake
    /// during that call is a new request.
    pub fn take(&self) -> bool {
        self.0.asked.swap(false, Ordering::AcqRel)
    }
}

impl Default for CoordinatorWaker {
    /// Returns a waker that notifies nobody.
    fn default() -> Self {
        Self::new(|| ())
    }
}

/// The reply slot of one event or snapshot, from [`Coordinator::answer_event`] or [`Coordinator::snapshot`]. It can be kept and used later
/// from any thread, once: [`EventReply::send`] takes it. If it is dropped without an answer, the checkpoint of a snapshot is aborted; an
/// event is sent to the coordinator again and again for about a minute, and then fails.
#[derive(derive_more::Debug)]
#[debug("EventReply")]
pub struct EventReply(Box<dyn FnOnce(Result<Vec<u8>, String>) + Send>);

impl EventReply {
    /// Creates a reply slot that calls `send` with the answer, on the answering thread.
    pub fn new(send: impl FnOnce(Result<Vec<u8>, String>) + Send + 'static) -> Self {
        Self(Box::new(send))
    }
    /// Sends the answer to the event, or the bytes of the coordinator's snapshot, whichever was asked for. An error with its reason fails
    /// the subtask that sent the event; for a snapshot it aborts the checkpoint. Does nothing if the caller no longer waits.
    pub fn send(self, answer: Result<Vec<u8>, String>) {
        (self.0)(answer);
    }
}

/// The part of an operator that runs once per job, beside the JobMaster: a split enumerator, a collector of results. Each coordinator has
/// a thread of its own, so its methods may block; one call runs at a time. A panic fails this call and all later ones, until the
/// coordinator is created anew.
///
/// The host creates it with a [`CoordinatorFactory`](super::CoordinatorFactory) and calls `start` once, before all else. Events of
/// subtasks, snapshots, ends of checkpoints, wakes and client requests follow in any order. `job_ended` comes when the job has ended;
/// client requests may still follow it. The coordinator may also be dropped without `job_ended`, at a restart above all.
///
/// When a subtask of a source fails, or a subtask that is connected to it by records, these restart from the newest complete checkpoint.
/// The coordinator goes on: it hears of their ends by [`Coordinator::subtask_reset`]. The coordinator of another operator is created and
/// started anew from the same checkpoint, with all subtasks that it serves and all that are connected to these, and so is that of a source
/// if it fails itself, if it can't be reset, or if the job has to continue from an older checkpoint.
pub trait Coordinator: Send {
    /// Starts the coordinator. Called before every other method; `restore` is the answer to [`Coordinator::snapshot`] of the checkpoint
    /// that the job continues from, `None` if there is none.
    ///
    /// # Errors
    /// Returns the reason why it cannot start, for instance an absent file; the job then fails with it, without a restart. A start that
    /// takes longer than 120 s counts as a lost coordinator: the restart strategy decides what follows.
    fn start(&mut self, restore: Option<Vec<u8>>) -> Result<(), String>;
    /// Handles an event of a subtask and returns the answer. Called by the default [`Coordinator::answer_event`]; refuses every event by
    /// default.
    ///
    /// # Errors
    /// Returns the reason; the task that sent the event fails with it.
    fn handle_event(
        &mut self,
        _from: ExecutionAttemptId,
        _event: &[u8],
    ) -> Result<Vec<u8>, String> {
        Err("this coordinator does not accept events".to_owned())
    }
    /// Handles an event of a subtask; the answer goes to `reply`, now or within 60 s. After that the caller no longer waits: the task fails
    /// with `TaskError::Coordinator`, or the event comes again if it is a poll (`TaskUpcalls::operator_poll`). By default
    /// [`Coordinator::handle_event`] answers at once. The JobMaster refuses events of attempts that were replaced, but one that was on its
    /// way when the coordinator was started anew may still come.
    fn answer_event(&mut self, from: ExecutionAttemptId, event: &[u8], reply: EventReply) {
        reply.send(self.handle_event(from, event));
    }
    /// Takes the coordinator's snapshot for a checkpoint or savepoint, before any subtask takes its own, and sends its bytes to `reply`; by
    /// default no bytes. Called when the JobMaster begins the checkpoint. The reply may be sent later: it must wait until the subtasks have
    /// received everything that they were sent before the snapshot. An error, or no reply within 60 s, aborts the checkpoint.
    fn snapshot(&mut self, _checkpoint: u64, reply: EventReply) {
        reply.send(Ok(Vec::new()));
    }
    /// Takes the report that a checkpoint has ended: `_complete` is true if it is complete in the whole job, false if it was aborted or is
    /// a savepoint after which the job goes on: no restart of this job begins from it. May be called twice for one checkpoint. Does nothing
    /// by default.
    ///
    /// # Errors
    /// Returns the reason why the coordinator cannot go on, which is treated as that of [`OnFailure::report`].
    fn checkpoint_ended(&mut self, _checkpoint: u64, _complete: bool) -> Result<(), String> {
        Ok(())
    }
    /// Takes the report that the attempt `_ended` of a subtask has ended, and that the subtask begins anew with its part of the complete
    /// checkpoint `_checkpoint` (`None`: without state): what it was given since is void. Called before a later attempt is deployed and
    /// before the next snapshot; events of this and of earlier attempts may still come. Refuses by default. Only the coordinators of
    /// sources are called.
    ///
    /// # Errors
    /// Returns the reason why the coordinator can't go on: it is created and started anew then, with all subtasks that it serves.
    fn subtask_reset(
        &mut self,
        _ended: ExecutionAttemptId,
        _checkpoint: Option<u64>,
    ) -> Result<(), String> {
        Err("this coordinator starts anew with its subtasks".to_owned())
    }
    /// Reacts to the requests of [`CoordinatorWaker::wake`] since the last call, all at once. Called between other calls, never before
    /// `start` has returned. Does nothing by default.
    ///
    /// # Errors
    /// Returns the reason why the coordinator cannot go on, which is treated as that of [`OnFailure::report`].
    fn woken(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Handles a client's request, such as a fetch of results, and returns the answer. Called at any time after the start, also after
    /// [`Coordinator::job_ended`].
    ///
    /// # Errors
    /// Returns the reason, as text, which the client gets; the job goes on.
    fn handle_request(&mut self, request: &[u8]) -> Result<Vec<u8>, String>;
    /// Ends the coordinator's work. `finished` is true if all tasks of the job have finished: its results must become final, within 600 s.
    /// False if the job ends without results; then the coordinator may also be dropped without this call. May be called again.
    ///
    /// # Errors
    /// Returns the reason why the work could not be completed. If `finished` is true, the job is not FINISHED then: it is restarted or
    /// fails with the reason, as its restart strategy says; where none is configured, it fails. If the user has asked meanwhile to cancel
    /// the job, it is cancelled.
    fn job_ended(&mut self, finished: bool) -> Result<(), String>;
}
