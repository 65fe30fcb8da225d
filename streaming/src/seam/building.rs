//! What building a program takes and what can go wrong with it. Values and traits only.

use super::{Coordinator, CoordinatorContext, Subtask, SubtaskContext, TaskError};
use model::{ContentHash, JobId};
use std::collections::BTreeMap;
use thiserror::Error;

/// The inputs of a build. The same inputs give the same graph in every process.
#[derive(Debug, Clone)]
pub struct BuildInputs {
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Declared environment variables with their values; where `None`, this process's environment is asked and
    /// the values travel in the graph.
    pub env: Option<BTreeMap<String, String>>,
    /// Values of `env.once`; where `None`, the expressions are evaluated and the values travel in the graph.
    pub once: Option<BTreeMap<String, Vec<u8>>>,
    /// Which of the program's jobs; `None` where it has one.
    pub job: Option<String>,
    /// The id that the graph gets.
    pub job_id: JobId,
    /// `parallelism.default`.
    pub parallelism: u32,
    /// The job's options.
    pub options: BTreeMap<String, String>,
    /// Whether relative paths are allowed: they resolve against the working directory.
    pub embedded: bool,
    /// SHA-256 of the executable.
    pub program_hash: ContentHash,
    /// File name of the executable.
    pub program_name: String,
    /// Bytes of the executable.
    pub program_size: u64,
}

/// Why a program could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildProgramError {
    /// The arguments are wrong, or help was asked for.
    #[error("{text}")]
    Usage {
        /// What to print.
        text: String,
        /// Whether help or the version was asked for: printed to stdout, exit code 0.
        help: bool,
    },
    /// `build` returned an error.
    #[error("{0}")]
    Program(String),
    /// `build` panicked.
    #[error("the program's build panicked: {0}")]
    Panicked(String),
    /// A path that is neither absolute nor a URI, outside embedded mode.
    #[error(
        "operator '{operator}': the path '{path}' is relative; on a cluster give an absolute path or a URI"
    )]
    RelativePath {
        /// Name of the operator.
        operator: String,
        /// The path.
        path: String,
    },
    /// The program has several jobs and none, or an unknown one, was named.
    #[error("{}", no_such_job(asked.as_deref(), known))]
    NoSuchJob {
        /// What was asked for.
        asked: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// The graph can't be run: duplicate uid, no sink, parallelism out of range…
    #[error("{0}")]
    Invalid(String),
}

fn no_such_job(asked: Option<&str>, known: &[String]) -> String {
    let known = known.join(", ");
    match asked {
        Some(asked) => format!("the program has no job '{asked}'; it has: {known}"),
        None => format!("the program has several jobs: {known}\n{HOW_TO_CHOOSE}"),
    }
}

/// The two ways to name one of a program's jobs: its arguments are its own.
const HOW_TO_CHOOSE: &str = "\
name one: 'flott run --job NAME PROGRAM' on a cluster,
or 'FLOTT_PIPELINE_ENTRY=NAME PROGRAM' where the program is started by itself";

/// The help of a program with several jobs, before one is chosen.
pub(crate) fn help_of_several(program: &str, known: &[String]) -> String {
    let jobs: Vec<String> = known.iter().map(|job| format!("  {job}")).collect();
    let jobs = jobs.join("\n");
    format!(
        "Usage: {program} [ARGS], with a job chosen\n\nJobs of this program:\n{jobs}\n\n{HOW_TO_CHOOSE}\n\n\
         A job's own options: the same with --help behind the program"
    )
}

/// Whether the arguments ask for nothing but help.
pub(crate) fn asks_for_help(args: &[String]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help" || arg == "-h")
}

/// Makes the subtasks of one vertex.
pub trait SubtaskFactory: Send {
    /// A new subtask.
    ///
    /// # Errors
    /// When the context does not fit.
    fn subtask(&mut self, context: SubtaskContext) -> Result<Box<dyn Subtask>, TaskError>;
}

/// Makes the coordinator of one operator.
pub trait CoordinatorFactory: Send {
    /// A new coordinator.
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator>;
}
