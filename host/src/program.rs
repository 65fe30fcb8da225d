//! Building the job graph of the program that a host runs, and ending a host whose user code does not return. Building
//! runs user code and must never happen on an actor's thread.

use gateways::program_host::{BuildError, BuildGraph};
use model::{JobGraph, ProgramRef};
use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};
use streaming::{BuildInputs, BuildProgramError, BuiltJob, ProgramEntry};

/// A function that must end this process, or have it ended, and may return before. A program host in this process calls it, on any
/// thread, with the reason as text for the log, when a task does not stop within `task.cancellation.timeout` or does not give memory back
/// at its limit; it may be called more than once.
pub type Fatal = Arc<dyn Fn(String) + Send + Sync>;

/// The kind of process that a program host runs in. It decides how the process is ended when a task does not stop in time or takes too
/// much memory, because the code of a task cannot be stopped alone. Whoever creates the host chooses it; it never changes.
#[derive(Clone)]
pub enum Place {
    /// A child process. It writes the reason to this file (its parent reads it by [`last_words`](crate::launch::last_words)) and kills
    /// itself and its process group at once.
    Child(PathBuf),
    /// A TaskManager, JobManager or embedded cluster. The host calls the function with the reason; the function must end that process.
    InProcess(Fatal),
}

impl Place {
    /// Ends the process, or has it ended, because user code does not return or takes too much memory.
    pub(crate) fn give_up(&self, why: &str) {
        match self {
            Self::Child(last_words) => {
                tracing::error!(why, "this program host ends");
                // The parent names the signal alone if there is no such file.
                let _ = std::fs::write(last_words, why);
                crate::child::end_at_once();
            }
            Self::InProcess(fatal) => fatal(why.to_owned()),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Child(_) => "Child",
            Self::InProcess(_) => "InProcess",
        })
    }
}

/// The job option with the parallelism that was the default (`-p` or `parallelism.default`) when the graph was built.
const DEFAULT_PARALLELISM: &str = "parallelism.default";

/// Returns the inputs of a job's first build. If the request contains no environment or no `env.once` values, the build
/// reads them in this process.
pub(crate) fn first_inputs(ask: BuildGraph) -> BuildInputs {
    let ProgramRef { hash, name, size, args, env, once, job } = ask.program;
    BuildInputs {
        args,
        env: (!env.is_empty()).then_some(env),
        once: (!once.is_empty()).then_some(once),
        job,
        job_id: ask.job_id,
        parallelism: ask.parallelism,
        options: ask.options,
        defaults: ask.defaults,
        embedded: ask.embedded,
        program_hash: hash,
        program_name: name,
        program_size: size,
    }
}

/// Returns the inputs of a rebuild of a submitted graph: all values are those of the first build.
pub(crate) fn rebuild_inputs(graph: &JobGraph, embedded: bool) -> BuildInputs {
    let program = graph.program.clone();
    let parallelism = graph.options.get(DEFAULT_PARALLELISM);
    BuildInputs {
        args: program.args,
        env: Some(program.env),
        once: Some(program.once),
        job: program.job,
        job_id: graph.job_id,
        parallelism: parallelism.and_then(|p| p.trim().parse().ok()).unwrap_or(1),
        options: graph.options.clone(),
        defaults: BTreeMap::new(),
        embedded,
        program_hash: program.hash,
        program_name: program.name,
        program_size: program.size,
    }
}

/// Builds the job graph. An error or a panic of the user's code is returned as a [`BuildError`].
pub(crate) fn build(program: &ProgramEntry, inputs: BuildInputs) -> Result<BuiltJob, BuildError> {
    match streaming::task::panics::catch(|| streaming::build(program, inputs)) {
        Ok(Ok(built)) => Ok(built),
        Ok(Err(error)) => Err(match error {
            BuildProgramError::Program(_) | BuildProgramError::Panicked(_) => {
                BuildError::Program(error.to_string())
            }
            BuildProgramError::Usage { text, help } => BuildError::Usage { text, help },
            other => BuildError::Invalid(other.to_string()),
        }),
        Err(panic) => Err(BuildError::Program(format!("it panicked: {panic}"))),
    }
}

/// Builds a submitted graph again and compares the two; a difference is [`BuildError::Differs`].
pub(crate) fn rebuild(
    program: &ProgramEntry,
    graph: &JobGraph,
    embedded: bool,
) -> Result<BuiltJob, BuildError> {
    let built = build(program, rebuild_inputs(graph, embedded))?;
    match built.difference_from(graph) {
        None => Ok(built),
        Some(what) => Err(BuildError::Differs(what)),
    }
}
