//! The part of an operator that runs once per job, beside the JobMaster. Traits and values only.

use model::{ExecutionAttemptId, JobId, OperatorId};
use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

/// What a coordinator is made with.
#[derive(Debug, Clone)]
pub struct CoordinatorContext {
    /// The job.
    pub job_id: JobId,
    /// The operator.
    pub operator: OperatorId,
    /// Parallelism of its vertex, from the submitted graph.
    pub parallelism: u32,
    /// For temporary files; exists.
    pub tmp_dir: PathBuf,
    /// The job's options.
    pub options: Arc<BTreeMap<String, String>>,
    /// Where the coordinator reports a failure outside of a call.
    pub on_failure: OnFailure,
}

/// Takes the cause when a coordinator fails outside of a call: the job is restarted then, or fails.
#[derive(Clone)]
pub struct OnFailure(Arc<dyn Fn(String) + Send + Sync>);

impl OnFailure {
    /// Reports to a function.
    pub fn new(report: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }
    /// Reports a failure.
    pub fn report(&self, why: String) {
        (self.0)(why);
    }
}

impl Default for OnFailure {
    /// Nobody is told.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnFailure")
    }
}

/// Where a coordinator's answer goes. It can be kept, and used later from any thread; whoever drops it without an answer has
/// failed the question.
pub struct EventReply(Box<dyn FnOnce(Result<Vec<u8>, String>) + Send>);

impl EventReply {
    /// Hands the answer to a function.
    pub fn new(send: impl FnOnce(Result<Vec<u8>, String>) + Send + 'static) -> Self {
        Self(Box::new(send))
    }
    /// Answers.
    pub fn send(self, answer: Result<Vec<u8>, String>) {
        (self.0)(answer);
    }
}

impl fmt::Debug for EventReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventReply")
    }
}

/// The part of an operator that runs once per job, beside the JobMaster: a split enumerator, a collector.
pub trait Coordinator: Send {
    /// Before anything else.
    ///
    /// # Errors
    /// What is wrong, e.g. an absent file; the job fails with it.
    fn start(&mut self, restore: Option<Vec<u8>>) -> Result<(), String>;
    /// An event of a subtask, and its answer.
    ///
    /// # Errors
    /// What is wrong; the asking task fails with it.
    fn handle_event(
        &mut self,
        _from: ExecutionAttemptId,
        _event: &[u8],
    ) -> Result<Vec<u8>, String> {
        Err("this coordinator takes no events".to_owned())
    }
    /// An event of a subtask, whose answer may come later; by default [`Coordinator::handle_event`] answers at once.
    fn answer_event(&mut self, from: ExecutionAttemptId, event: &[u8], reply: EventReply) {
        reply.send(self.handle_event(from, event));
    }
    /// Takes the coordinator's part of a checkpoint, before any subtask takes its own; by default there is none. The answer comes
    /// when the subtasks have everything that belongs to it.
    fn snapshot(&mut self, _checkpoint: u64, reply: EventReply) {
        reply.send(Ok(Vec::new()));
    }
    /// A checkpoint is complete everywhere, or was given up.
    ///
    /// # Errors
    /// What is wrong; the job is restarted with it.
    fn checkpoint_ended(&mut self, _checkpoint: u64, _complete: bool) -> Result<(), String> {
        Ok(())
    }
    /// A request of a client, and its answer.
    ///
    /// # Errors
    /// What is wrong; the client is told.
    fn handle_request(&mut self, request: &[u8]) -> Result<Vec<u8>, String>;
    /// These attempts are over without success: what they had been given is given again.
    fn attempts_ended(&mut self, attempts: &[ExecutionAttemptId]);
    /// Every task has finished: show the result, so that it can still be taken back. All coordinators of a job do
    /// this before the first is told that the job has ended; where one can't, the others are told that it did not
    /// finish.
    ///
    /// # Errors
    /// What could not be published.
    fn publish(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// The job is over. `finished`: for good, and with the result that was published; else what was published is
    /// taken back.
    ///
    /// # Errors
    /// What could not be completed or taken back.
    fn job_ended(&mut self, finished: bool) -> Result<(), String>;
}
