//! The side of a host that serves the JobManager: it builds the job graph and runs the coordinators. Both are user
//! code, so they run on threads of their own, where they may block: one thread for the build, one for each coordinator.
//! The actor only queues requests and waits for replies.

mod runner;

use crate::program;
use futures::channel::oneshot;
use gateways::{
    job_master::CoordinationError,
    program_host::{
        BuildError, BuildGraph, ResetSubtasks, SnapshotCoordinators, StartCoordinators,
    },
};
use model::{ExecutionAttemptId, JobGraph, JobMasterId, OperatorId};
use runner::{Begun, Inbox, Runner, Work};
use serde_bytes::ByteBuf;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};
use streaming::{
    BuiltJob, CoordinatorContext, OnFailure, ProgramEntry,
    task::{panics, threads},
};

/// The maximum number of requests that wait for the build thread, and for each coordinator.
const WAITING_MAX: usize = 4096;
/// The stack size of these threads; user code may need much.
const STACK_BYTES: usize = 4 << 20;

/// The sender of a reply; the receiver may be gone.
type Reply<T> = oneshot::Sender<T>;

enum Request {
    Build(BuildGraph, Reply<Result<JobGraph, BuildError>>),
    Start(Box<StartCoordinators>, OnFailure, Reply<Result<(), BuildError>>),
    Event(ExecutionAttemptId, OperatorId, Vec<u8>, Reply<Answered>),
    Client(OperatorId, Vec<u8>, Reply<Answered>),
    JobEnded(bool, Reply<Result<(), CoordinationError>>),
    Snapshot(SnapshotCoordinators, Reply<Result<Answers, CoordinationError>>),
    Reset(ResetSubtasks, Reply<Result<Answers, CoordinationError>>),
    CheckpointEnded(u64, bool, Reply<Result<(), CoordinationError>>),
}

/// The calls that coordinators carry out, such as their snapshots: each with the receiver of its answer.
type Answers = Vec<(OperatorId, oneshot::Receiver<Answered>)>;

type Answered = Result<ByteBuf, CoordinationError>;

/// A handle to the thread that builds the graph and starts the coordinators. The thread ends when the handle is
/// dropped.
pub(crate) struct Coordination {
    requests: mpsc::SyncSender<Request>,
}

/// Reasons why a request was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// Refused: [`WAITING_MAX`] requests are waiting already.
    Busy,
    /// The thread that would process the request has ended.
    Ended,
}

impl NotTaken {
    fn text(self) -> &'static str {
        match self {
            Self::Busy => "too many requests wait for the coordinators",
            Self::Ended => "the coordinators' thread has ended",
        }
    }
}

impl Coordination {
    /// Starts the thread.
    pub(crate) fn start(program: ProgramEntry, tmp_dir: PathBuf) -> std::io::Result<Self> {
        let (requests, queue) = mpsc::sync_channel(WAITING_MAX);
        threads::spawn("flott-coord", STACK_BYTES, move || {
            let mut side = Side {
                program,
                tmp_dir,
                built: None,
                coordinators: BTreeMap::new(),
                ending: BTreeMap::new(),
                job_master: None,
            };
            while let Ok(request) = queue.recv() {
                side.handle(request);
            }
            side.end(|_| true);
            side.ending.into_values().for_each(|thread| drop(thread.join()));
        })?;
        Ok(Self { requests })
    }

    fn queue(&self, request: Request) -> Result<(), NotTaken> {
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::TrySendError::Full(_) => NotTaken::Busy,
            mpsc::TrySendError::Disconnected(_) => NotTaken::Ended,
        })
    }

    pub(crate) fn build(
        &self,
        ask: BuildGraph,
    ) -> impl Future<Output = Result<JobGraph, BuildError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::Build(ask, reply));
        async move { built(queued, answer).await }
    }

    pub(crate) fn start_coordinators(
        &self,
        start: StartCoordinators,
        on_failure: OnFailure,
    ) -> impl Future<Output = Result<(), BuildError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::Start(Box::new(start), on_failure, reply));
        async move { built(queued, answer).await }
    }

    pub(crate) fn event(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
    ) -> impl Future<Output = Answered> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::Event(from, operator, event, reply));
        async move { answered(queued, answer).await }
    }

    pub(crate) fn client(
        &self,
        operator: OperatorId,
        request: Vec<u8>,
    ) -> impl Future<Output = Answered> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::Client(operator, request, reply));
        async move { answered(queued, answer).await }
    }

    /// Makes coordinators take their snapshots; completes when all of these have, or with the first failure.
    pub(crate) fn snapshot(
        &self,
        ask: SnapshotCoordinators,
    ) -> impl Future<Output = Result<Vec<(OperatorId, ByteBuf)>, CoordinationError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::Snapshot(ask, reply));
        async move { all_of(answered(queued, answer).await?, "it has no snapshot").await }
    }

    /// Tells coordinators that attempts of subtasks have ended; completes when all have taken back what they had given these.
    pub(crate) fn reset_subtasks(
        &self,
        reset: ResetSubtasks,
    ) -> impl Future<Output = Result<(), CoordinationError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::Reset(reset, reply));
        async move {
            let answers = answered(queued, answer).await?;
            all_of(answers, "it has ended").await.map(drop)
        }
    }

    /// Tells every coordinator how a checkpoint has ended.
    pub(crate) fn checkpoint_ended(
        &self,
        checkpoint: u64,
        complete: bool,
    ) -> impl Future<Output = Result<(), CoordinationError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::CheckpointEnded(checkpoint, complete, reply));
        async move { answered(queued, answer).await }
    }

    pub(crate) fn job_ended(
        &self,
        finished: bool,
    ) -> impl Future<Output = Result<(), CoordinationError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Request::JobEnded(finished, reply));
        async move { answered(queued, answer).await }
    }
}

async fn built<T>(
    queued: Result<(), NotTaken>,
    answer: oneshot::Receiver<Result<T, BuildError>>,
) -> Result<T, BuildError> {
    let gone = |why: NotTaken| BuildError::Process(why.text().to_owned());
    queued.map_err(gone)?;
    answer.await.map_err(|_| gone(NotTaken::Ended))?
}

async fn answered<T>(
    queued: Result<(), NotTaken>,
    answer: oneshot::Receiver<Result<T, CoordinationError>>,
) -> Result<T, CoordinationError> {
    let gone = |why: NotTaken| CoordinationError::Unavailable(why.text().to_owned());
    queued.map_err(gone)?;
    answer.await.map_err(|_| gone(NotTaken::Ended))?
}

/// Waits for the answers of all coordinators; one that is dropped is a failure for the reason `gone`.
async fn all_of(
    answers: Answers,
    gone: &str,
) -> Result<Vec<(OperatorId, ByteBuf)>, CoordinationError> {
    let mut all = Vec::new();
    for (operator, answer) in answers {
        let gone = |_| CoordinationError::Failed(gone.to_owned());
        all.push((operator, answer.await.map_err(gone)??));
    }
    Ok(all)
}

/// Answers when all coordinators have started, or with the first failure. Waits on a thread of its own: one that lists a bucket before
/// it has started must not hold up what others are asked meanwhile.
fn answer_when_started(starting: Vec<(String, Begun)>, reply: Reply<Result<(), BuildError>>) {
    let wait = move || {
        let started = starting.into_iter().try_for_each(|(name, begun)| {
            // The coordinator's own text, without the words that the error adds for a call.
            begun.wait().map_err(|error| match error {
                CoordinationError::Failed(why) => wrong(&name, &why),
                other => wrong(&name, &other.to_string()),
            })
        });
        let _ = reply.send(started);
    };
    if let Err(error) = threads::spawn("flott-coord", STACK_BYTES, wait) {
        // The reply is dropped with the closure, so the caller learns that nothing will answer.
        tracing::error!(%error, "no thread to wait for the coordinators");
    }
}

fn wrong(operator: &str, why: &str) -> BuildError {
    BuildError::Program(format!("the coordinator of operator '{operator}': {why}"))
}

/// The state of the thread.
struct Side {
    program: ProgramEntry,
    tmp_dir: PathBuf,
    built: Option<BuiltJob>,
    coordinators: BTreeMap<OperatorId, Runner>,
    /// The threads of former coordinators, which end by themselves.
    ending: BTreeMap<OperatorId, JoinHandle<()>>,
    /// The JobMaster that started the coordinators.
    job_master: Option<JobMasterId>,
}

impl Side {
    fn handle(&mut self, request: Request) {
        // Sending fails only if the caller no longer waits.
        match request {
            Request::Build(ask, reply) => {
                let _ = reply.send(self.build(ask));
            }
            Request::Start(start, on_failure, reply) => match self.start(*start, &on_failure) {
                Ok(starting) => answer_when_started(starting, reply),
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            },
            Request::Event(from, operator, event, reply) => {
                self.hand_on(operator, Work::Event(from, event, reply));
            }
            Request::Client(operator, ask, reply) => {
                self.hand_on(operator, Work::Client(ask, reply));
            }
            Request::JobEnded(finished, reply) => {
                let _ = reply.send(self.job_ended(finished));
            }
            Request::Snapshot(SnapshotCoordinators { checkpoint, operators }, reply) => {
                let taken = operators.into_iter().map(|operator| {
                    let (taken, snapshot) = oneshot::channel();
                    self.hand_on(operator, Work::Snapshot(checkpoint, taken));
                    (operator, snapshot)
                });
                let _ = reply.send(Ok(taken.collect()));
            }
            Request::Reset(ResetSubtasks { attempts, checkpoint }, reply) => {
                let told = attempts.into_iter().map(|(operator, attempts)| {
                    let (told, answer) = oneshot::channel();
                    self.hand_on(operator, Work::Reset(attempts, checkpoint, told));
                    (operator, answer)
                });
                let _ = reply.send(Ok(told.collect()));
            }
            Request::CheckpointEnded(checkpoint, complete, reply) => {
                for runner in self.coordinators.values() {
                    runner.post(Work::CheckpointEnded(checkpoint, complete));
                }
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn build(&mut self, ask: BuildGraph) -> Result<JobGraph, BuildError> {
        self.end(|_| true);
        let built = program::build(&self.program, program::first_inputs(ask))?;
        let graph = built.graph().clone();
        self.built = Some(built);
        Ok(graph)
    }

    /// Ends coordinators without waiting for them: they may be in a long call.
    fn end(&mut self, whose: impl Fn(&OperatorId) -> bool) {
        let ended: Vec<_> = self.coordinators.extract_if(.., |id, _| whose(id)).collect();
        self.ending.extend(ended.into_iter().filter_map(|(id, runner)| Some((id, runner.end()?))));
    }

    /// Creates the coordinators of some operators and has each of them started on its own thread, so that no coordinator waits for
    /// another one's start. Returns what to wait for, with the operators' names.
    fn start(
        &mut self,
        start: StartCoordinators,
        failed: &OnFailure,
    ) -> Result<Vec<(String, Begun)>, BuildError> {
        let graph = &start.graph;
        if self.job_master.replace(start.job_master_id) != Some(start.job_master_id) {
            self.end(|_| true);
        }
        self.end(|operator| start.operators.contains(operator));
        let same = self.built.as_ref().is_some_and(|built| {
            built.graph().job_id == graph.job_id && built.graph().fingerprint == graph.fingerprint
        });
        if !same {
            self.end(|_| true);
            self.built = Some(program::rebuild(&self.program, graph, start.embedded)?);
        }
        let Some(built) = &self.built else { return Ok(Vec::new()) };
        let mut restore: BTreeMap<_, _> = start.restore.into_iter().collect();
        let mut options = start.options;
        options.extend(graph.options.iter().map(|(key, value)| (key.clone(), value.clone())));
        let options = Arc::new(options);
        let mut starting = Vec::new();
        let coordinated = graph.nodes.iter().filter(|node| node.coordinated);
        for node in coordinated.filter(|node| start.operators.contains(&node.operator_id)) {
            let vertex = graph.vertices.iter().find(|v| v.nodes.contains(&node.id));
            let (failed, name) = (failed.clone(), node.name.clone());
            let on_failure = OnFailure::new(move |why| {
                failed.report(format!("the coordinator of operator '{name}': {why}"));
            });
            let inbox = Inbox::new();
            let context = CoordinatorContext {
                job_id: graph.job_id,
                operator: node.operator_id,
                parallelism: vertex.map_or(1, |v| v.parallelism),
                tmp_dir: self.tmp_dir.clone(),
                options: Arc::clone(&options),
                on_failure: on_failure.clone(),
                waker: inbox.waker(),
            };
            let restore = restore.remove(&node.operator_id).map(ByteBuf::into_vec);
            let coordinator = panics::catch(|| built.coordinator(node.operator_id, context))
                .map_err(|panic| wrong(&node.name, &format!("it panicked: {panic}")))?
                .map_err(|error| wrong(&node.name, &error.to_string()))?;
            let former = self.ending.remove(&node.operator_id);
            let runner = Runner::start(inbox, coordinator, former, on_failure)
                .map_err(|error| BuildError::Process(format!("no thread for it: {error}")))?;
            let begun = runner.begin(|coordinator| coordinator.start(restore));
            starting.push((node.name.clone(), begun));
            self.coordinators.insert(node.operator_id, runner);
        }
        Ok(starting)
    }

    fn hand_on(&self, operator: OperatorId, work: Work) {
        let coordinated = |graph: &JobGraph| {
            graph.nodes.iter().any(|node| node.coordinated && node.operator_id == operator)
        };
        match self.coordinators.get(&operator) {
            Some(runner) => runner.post(work),
            None if self.built.as_ref().is_none_or(|built| coordinated(built.graph())) => {
                let why = "its coordinator is not started".to_owned();
                work.refuse(CoordinationError::Unavailable(why));
            }
            None => work.refuse(CoordinationError::NoSuchOperator { operator }),
        }
    }

    /// Tells every coordinator that the job has ended, even after one has failed, and returns the first failure.
    fn job_ended(&mut self, finished: bool) -> Result<(), CoordinationError> {
        let mut first = Ok(());
        // All of them end at the same time.
        let told = self
            .coordinators
            .iter()
            .map(|(operator, runner)| (operator, runner.begin(move |c| c.job_ended(finished))));
        for (operator, begun) in told.collect::<Vec<_>>() {
            let told = begun.wait();
            if let (Err(error), Ok(())) = (&told, &first) {
                let name = self.name_of(*operator);
                first = Err(CoordinationError::Failed(format!("{name}: {error}")));
            }
        }
        first
    }

    fn name_of(&self, operator: OperatorId) -> String {
        let graph = self.built.as_ref().map(BuiltJob::graph);
        let mut nodes = graph.into_iter().flat_map(|graph| &graph.nodes);
        let node = nodes.find(|node| node.operator_id == operator);
        node.map_or_else(
            || format!("operator {operator}"),
            |node| format!("operator '{}'", node.name),
        )
    }
}
