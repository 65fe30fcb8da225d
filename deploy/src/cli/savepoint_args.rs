//! The command line of `flott savepoint` and `flott stop`, declared.

use super::args::ClusterArgs;
use clap::{Args, Subcommand};

pub(super) const SAVEPOINT_EXAMPLES: &str = "\
Examples:
  flott savepoint 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b /data/savepoints   the job goes on
  flott savepoint 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b                    into execution.checkpointing.savepoint-dir
  flott savepoint dispose /data/savepoints/savepoint-5f3c1c-0a1b2c3d4e5f
  flott savepoint --output json JOBID DIR | jq -r .savepoint";

pub(super) const STOP_EXAMPLES: &str = "\
Examples:
  flott stop -p /data/savepoints 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b     to go on later
  flott stop --drain 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b                 for good: windows emit what they hold
  flott cancel 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b                       without a savepoint";

/// `flott savepoint`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Savepoint {
    /// Something else than to take a savepoint
    #[command(subcommand)]
    pub action: Option<SavepointAction>,
    /// The job's id
    #[arg(value_name = "JOBID", required = true)]
    pub job: Option<String>,
    /// Directory, as the JobManager sees it, in which the savepoint's folder is made: an absolute path, or a URI [default:
    /// execution.checkpointing.savepoint-dir]
    #[arg(value_name = "DIR")]
    pub directory: Option<String>,
    /// Where the cluster is
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The other operations on savepoints.
#[derive(Debug, Subcommand)]
pub enum SavepointAction {
    /// Delete a savepoint and its state
    Dispose {
        /// The savepoint's folder, as it was printed
        #[arg(value_name = "PATH")]
        path: String,
        /// Where the cluster is
        #[command(flatten)]
        cluster: ClusterArgs,
    },
}

/// `flott stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// The job's id
    #[arg(value_name = "JOBID")]
    pub job: String,
    /// Directory, as the JobManager sees it, in which the savepoint's folder is made: an absolute path, or a URI [default:
    /// execution.checkpointing.savepoint-dir]
    #[arg(
        short = 'p',
        long = "savepointPath",
        visible_alias = "savepoint-path",
        value_name = "DIR"
    )]
    pub directory: Option<String>,
    /// End the data of all sources first, as if they had been read to their ends: windows and timers emit what they hold. The
    /// savepoint is not meant to be resumed from then
    #[arg(short = 'd', long)]
    pub drain: bool,
    /// Where the cluster is
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
