//! The inputs and errors of building a program, and the factories of what it built. Values and traits only.

use super::{Coordinator, CoordinatorContext, Subtask, SubtaskContext, TaskError};
use model::{ContentHash, JobId};
use std::collections::BTreeMap;
use thiserror::Error;

/// The inputs of a program's build, which makes the graph and the code of one job. Equal inputs must give equal graphs in every process,
/// because every process rebuilds the graph: the first build records in it what the program has read from outside (`env`, `once`), and
/// later builds get that.
#[derive(Debug, Clone)]
pub struct BuildInputs {
    /// Command-line arguments, without the program's name.
    pub args: Vec<String>,
    /// Values of the environment variables that the program reads by `Environment::var`. `None` in the first build: the values come from
    /// this process's environment and are recorded in the graph. `Some` in later builds: other variables count as not set.
    pub env: Option<BTreeMap<String, String>>,
    /// Encoded values, by name, of the expressions that the program evaluates only once by `Environment::once`. `None` in the first build:
    /// the expressions are evaluated and their values recorded in the graph.
    pub once: Option<BTreeMap<String, Vec<u8>>>,
    /// Name of the job to build. `None` builds the program's only job; if there are several, the build fails with
    /// [`BuildProgramError::NoSuchJob`], or with [`BuildProgramError::Usage`] if the arguments ask for help.
    pub job: Option<String>,
    /// Id of the job, which the graph gets.
    pub job_id: JobId,
    /// Value of `parallelism.default`, at least 1; the program may override it.
    pub parallelism: u32,
    /// Options of the job that its client gave, by key; they override the program's own.
    pub options: BTreeMap<String, String>,
    /// Settings of the cluster that shape a graph (`pipeline.…`, `execution.checkpointing.…`). The program's own override them, and
    /// `options` overrides both.
    pub defaults: BTreeMap<String, String>,
    /// True if the program runs in embedded mode, where relative paths resolve against the working directory. Elsewhere a relative path
    /// of a source of files or of `write_text` fails the build with [`BuildProgramError::RelativePath`].
    pub embedded: bool,
    /// SHA-256 of the executable, recorded in the graph.
    pub program_hash: ContentHash,
    /// File name of the executable, recorded in the graph and shown in help texts.
    pub program_name: String,
    /// Size of the executable in bytes, recorded in the graph.
    pub program_size: u64,
}

/// The reason for which [`build`](crate::build) returns no job: a mistake of the program or of its arguments, or a request for help, which
/// is no failure ([`BuildProgramError::Usage`] with `help`).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildProgramError {
    /// The program rejected its arguments, or help or the version was requested; help also of a program with several jobs of which none
    /// was named.
    #[error("{text}")]
    Usage {
        /// The text to print.
        text: String,
        /// True if help or the version was requested: the text goes to stdout and the exit code is 0. False if the arguments were
        /// rejected: the text goes to stderr and the exit code is not 0.
        help: bool,
    },
    /// The program's `build` returned an error that is not about its arguments; the text is the error's and its causes', joined by `: ` and
    /// cut if it is long. A mistake in the declared job ([`BuildProgramError::Invalid`]) is not reported then.
    #[error("{0}")]
    Program(String),
    /// The program's `build` panicked; the text is the panic's message and place.
    #[error("the program's build panicked: {0}")]
    Panicked(String),
    /// A source of files, or `write_text`, has a path that is neither absolute nor a URI, outside embedded mode. The path of a `FileSink`
    /// is checked only when the job starts.
    #[error(
        "operator '{operator}': the path '{path}' is relative; on a cluster give an absolute path or a URI"
    )]
    RelativePath {
        /// Name of the operator that uses the path.
        operator: String,
        /// The path as the program gave it.
        path: String,
    },
    /// The program has no job at all or none of the given name, or it has several and none was named.
    #[error("{}", no_such_job(asked.as_deref(), known))]
    NoSuchJob {
        /// The job name that was given, if any.
        asked: Option<String>,
        /// The names of the program's jobs, in the order of their registration; empty if it has none.
        known: Vec<String>,
    },
    /// The program registers two jobs of one name, an option, path, window or rate is invalid, or the graph cannot be run: no source, a
    /// uid twice, periodic checkpoints and an operator with state but without uid, a parallelism out of range, `write_text` in an unbounded
    /// job and the like. Also if the working directory of an embedded run cannot be found. The text names the first mistake found.
    #[error("{0}")]
    Invalid(String),
}

fn no_such_job(asked: Option<&str>, known: &[String]) -> String {
    if known.is_empty() {
        return "the program declares no job: it needs `#[flott::main]` or `ProgramEntry::job`"
            .to_owned();
    }
    let known = known.join(", ");
    match asked {
        Some(asked) => format!("the program has no job '{asked}'; it has: {known}"),
        None => format!("the program has several jobs: {known}\n{HOW_TO_CHOOSE}"),
    }
}

/// The two ways to name one of a program's jobs. No argument does, because the arguments belong to the program.
const HOW_TO_CHOOSE: &str = "\
name one: 'flott run --job NAME PROGRAM' on a cluster,
or 'FLOTT_PIPELINE_ENTRY=NAME PROGRAM' where the program is started by itself";

/// Returns the help text of a program with several jobs, for a call that names none.
pub(crate) fn help_of_several(program: &str, known: &[String]) -> String {
    let jobs: Vec<String> = known.iter().map(|job| format!("  {job}")).collect();
    let jobs = jobs.join("\n");
    format!(
        "Usage: {program} [ARGS], with a job chosen\n\nJobs of this program:\n{jobs}\n\n{HOW_TO_CHOOSE}\n\n\
         For a job's own options, choose it and add --help after the program"
    )
}

/// Returns whether the arguments before a `--` contain `--help` or `-h`.
pub(crate) fn asks_for_help(args: &[String]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help" || arg == "-h")
}

/// Creates the subtasks of one vertex, which is a chain of operators. A built job has one factory for each of its vertices; each process
/// that runs subtasks builds the job for itself, and its subtasks of a vertex come from that one factory, one call at a time.
pub trait SubtaskFactory: Send {
    /// Creates the subtask that `context` describes, with clones of the user's functions; it is not opened yet. Called once per execution
    /// attempt, on the task's thread; runs user code.
    ///
    /// # Errors
    /// Fails with [`TaskError::Deployment`] if the context does not match the vertex, and with the error of user code.
    fn subtask(&mut self, context: SubtaskContext) -> Result<Box<dyn Subtask>, TaskError>;
}

/// Creates the coordinator of one operator. A built job has one factory for each operator that needs a coordinator.
pub trait CoordinatorFactory: Send {
    /// Creates a coordinator, which has no effect until [`Coordinator::start`] is called. The host calls this each time that the
    /// coordinators are started, also after a failure. A panic fails the job, without a restart.
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator>;
}
