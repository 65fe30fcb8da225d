//! One embedded run: build, start, submit, print, end.

use super::{EmbeddedCluster, OWN};
use crate::cli::{self, Failure, Outcome, complain};
use crate::exit::Exit;
use crate::results::{
    LocalCoordinators, ResultReader, ResultsError, collecting_operators, print_line,
};
use crate::{environment, logging, settings, stop};
use conf::{Options, execution};
use gateways::dispatcher::{CancelJob, DispatcherGateway, JobResult, RequestJobResult, SubmitJob};
use gateways::{CallError, Remote};
use model::{JobGraph, JobId, JobStatus};
use platform::Platform;
use std::collections::BTreeMap;
use std::time::Duration;
use streaming::{BuildInputs, BuildProgramError, ProgramEntry};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Milliseconds for which one request for the job's end stays open.
const WAIT_MS: u64 = 5_000;
/// Interval at which the results of an unbounded job are fetched.
const POLL: Duration = Duration::from_millis(20);
/// Longest wait for the answer to the submission: the check of a checkpoint directory alone may take 40 s.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time for the cluster to stop.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Builds the job of the program `entry` with `args`, runs it in a cluster inside this process, prints the results that
/// it collects to standard output, and blocks until its end. Options come from `flott.yaml` in `FLOTT_CONF_DIR` and
/// from the environment; the cluster gets the slots that the job needs. While the job runs, SIGINT or SIGTERM cancels it; a second signal,
/// or one while the cluster stops, ends the process at once with code 2. Prints an error to standard error; the returned exit code tells
/// the job's outcome: success if it has finished or was cancelled, or if the program only printed its help. A job whose results cannot be
/// written to standard output is not waited for. The cluster is stopped before the return, for which at most 10 s are waited. Raises the
/// process's soft limit of open files to the hard one; logs to standard error only if `RUST_LOG` or `log.level` is set.
pub fn run(entry: ProgramEntry, args: Vec<String>) -> Exit {
    match start(entry, args) {
        Ok(exit) => exit,
        Err(failure) => {
            complain(&failure.message);
            failure.exit
        }
    }
}

fn start(entry: ProgramEntry, args: Vec<String>) -> Outcome {
    let options = settings::load(None, Vec::new())?;
    logging::start_quiet(&options).map_err(Failure::usage)?;
    environment::raise_open_files();
    environment::log_client(&options);
    let graph = match build(&entry, args, &options) {
        Ok(graph) => graph,
        Err(error) => return build_failure(error),
    };
    cli::block_on(run_graph(entry, options, graph))
}

fn build(
    entry: &ProgramEntry,
    args: Vec<String>,
    options: &Options,
) -> Result<JobGraph, BuildProgramError> {
    let parallelism = options.get(&execution::PARALLELISM).get();
    let mut of_job: BTreeMap<String, String> = options.to_map();
    of_job.insert(execution::PARALLELISM.key().to_owned(), parallelism.to_string());
    let name = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let built = streaming::build(
        entry,
        BuildInputs {
            args,
            env: None,
            once: None,
            job: options.get(&execution::ENTRY),
            job_id: JobId(Platform::production().random_u128()),
            parallelism,
            options: of_job,
            defaults: BTreeMap::new(),
            embedded: true,
            program_hash: OWN,
            program_name: name.unwrap_or_else(|| "program".to_owned()),
            program_size: 0,
        },
    )?;
    Ok(built.graph().clone())
}

fn build_failure(error: BuildProgramError) -> Outcome {
    match error {
        BuildProgramError::Usage { text, help: true } => {
            cli::show(text.trim_end())?;
            Ok(Exit::Success)
        }
        BuildProgramError::Usage { text, help: false } => {
            cli::note(text.trim_end());
            Ok(Exit::Usage)
        }
        other => Err(Failure::start(other)),
    }
}

async fn run_graph(entry: ProgramEntry, options: Options, graph: JobGraph) -> Outcome {
    let cluster =
        EmbeddedCluster::start(entry, &options, slots(&graph)).await.map_err(Failure::start)?;
    let mut signals = Signals::watch().map_err(Failure::start)?;
    let outcome = run_job(&cluster, graph, &mut signals).await;
    tokio::select! {
        biased;
        _ = signals.next() => stop::end_at_once(),
        ended = tokio::time::timeout(END_WITHIN, cluster.stop()) => if ended.is_err() {
            tracing::warn!("the embedded cluster did not end in time");
        },
    }
    outcome
}

/// The signals that end a run.
struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        let (interrupts, terminations) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupts: signal(interrupts)?, terminations: signal(terminations)? })
    }

    /// Waits for the next one and returns its name. Loses none if dropped before.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => "SIGINT",
            _ = self.terminations.recv() => "SIGTERM",
        }
    }
}

/// Returns the number of slots that a job needs: one subtask of each vertex of a group shares one.
fn slots(graph: &JobGraph) -> u32 {
    let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
    for vertex in &graph.vertices {
        let most = groups.entry(&vertex.slot_sharing_group).or_default();
        *most = (*most).max(vertex.parallelism);
    }
    groups.values().fold(0, |sum: u32, n| sum.saturating_add(*n))
}

async fn run_job(cluster: &EmbeddedCluster, graph: JobGraph, signals: &mut Signals) -> Outcome {
    let dispatcher = cluster.dispatcher().await.map_err(Failure::start)?;
    let operators = collecting_operators(&graph);
    let job_id = dispatcher.ask_within(SubmitJob { graph }, SUBMITTED_WITHIN).await.map_err(
        |e| match e {
            CallError::Refused(refused) => Failure::start(refused),
            CallError::Fabric(error) => Failure::start(error),
        },
    )?;
    let coordinators = LocalCoordinators { dispatcher: dispatcher.clone(), job_id, operators };
    let mut reader = ResultReader::new(coordinators, print_line);
    let reading = reader.read_all(POLL);
    let ending = job_end(&dispatcher, job_id);
    tokio::pin!(reading, ending);
    let (mut read, mut told) = (None, false);
    let result = loop {
        let signal = tokio::select! {
            biased;
            result = &mut ending => break result?,
            outcome = &mut reading, if read.is_none() => match outcome {
                // Nobody would see what the job still finds out.
                Err(error @ ResultsError::Unwritten(_)) => {
                    return Err(Failure::new(error.exit(), error));
                }
                outcome => { read = Some(outcome); continue }
            },
            why = cluster.failed() => return Err(Failure::new(Exit::Fatal, why)),
            signal = signals.next() => signal,
        };
        tracing::info!(signal, "cancelling the job");
        if std::mem::replace(&mut told, true) {
            stop::end_at_once();
        }
        dispatcher.tell(CancelJob { job_id });
    };
    if result.status == JobStatus::Finished {
        let outcome = match read {
            Some(outcome) => outcome,
            None => reading.await,
        };
        outcome.map_err(|e| Failure::new(e.exit(), e))?;
    }
    conclude(&result)
}

async fn job_end(
    dispatcher: &Remote<DispatcherGateway>,
    job_id: JobId,
) -> Result<JobResult, Failure> {
    let within = Duration::from_millis(WAIT_MS) + Duration::from_secs(10);
    loop {
        let ask = RequestJobResult { job_id, wait_ms: WAIT_MS };
        match dispatcher.ask_within(ask, within).await {
            Ok(result) if result.status.is_globally_terminal() => return Ok(result),
            Ok(_) => {}
            Err(CallError::Fabric(error)) if error.is_retriable() => {
                tokio::time::sleep(POLL).await;
            }
            Err(error) => return Err(Failure::new(Exit::Unknown, error)),
        }
    }
}

fn conclude(result: &JobResult) -> Outcome {
    match result.status {
        JobStatus::Finished | JobStatus::Canceled => Ok(Exit::Success),
        JobStatus::Failed => {
            let why = result
                .cause
                .as_ref()
                .map_or_else(|| "no cause is known".to_owned(), ToString::to_string);
            Err(Failure::new(Exit::JobFailed, format!("job {} failed: {why}", result.job_id)))
        }
        other => Err(Failure::new(Exit::Unknown, format!("the job ended as {other}"))),
    }
}
