//! The command line of `flott savepoint` and `flott stop`, declared.

use super::Failure;
use super::args::ClusterArgs;
use clap::{Args, Subcommand};
use conf::{Declaration, state_recovery};

pub(super) const SAVEPOINT_EXAMPLES: &str = "\
Examples:
  flott savepoint 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b /data/savepoints   the job continues
  flott savepoint 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b                    into execution.checkpointing.savepoint-dir
  flott savepoint dispose /data/savepoints/savepoint-5f3c1c-0a1b2c3d4e5f
  flott savepoint --output json JOBID DIR | jq -r .savepoint";

pub(super) const STOP_EXAMPLES: &str = "\
Examples:
  flott stop -p /data/savepoints 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b     to continue later
  flott stop --drain 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b                 for good: windows emit what they hold
  flott cancel 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b                       without a savepoint";

/// Arguments of `flott savepoint`, which takes a savepoint of a job or deletes one, waits until that is done, and prints its folder. If the
/// cluster does not answer for 60 s, or no longer knows the operation, the outcome is unknown (exit code 4).
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Savepoint {
    /// Another operation on savepoints than to take one
    #[command(subcommand)]
    pub action: Option<SavepointAction>,
    /// Id of the job to take a savepoint of, as flott list shows it
    #[arg(value_name = "JOBID", required = true)]
    pub job: Option<String>,
    /// Directory, as the JobManager sees it, in which the savepoint's folder is made: an absolute path, or a URI [default:
    /// execution.checkpointing.savepoint-dir by -D here, else that of the job or the JobManager]
    #[arg(value_name = "DIR")]
    pub directory: Option<String>,
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The operations of `flott savepoint` besides taking a savepoint.
#[derive(Debug, Subcommand)]
pub enum SavepointAction {
    /// Delete a savepoint, or a retained checkpoint that no other one builds on: its metadata and all state that belongs to it
    Dispose {
        /// The savepoint's folder, as it was printed
        #[arg(value_name = "PATH")]
        path: String,
        /// The cluster, by its REST endpoint
        #[command(flatten)]
        cluster: ClusterArgs,
    },
}

/// Arguments of `flott stop`, which takes a savepoint of a job and then ends it, waits until the job has ended, and prints the savepoint's
/// folder. If the savepoint fails, the job is not stopped; if its sources had been told to take it, its tasks fail then, and the restart
/// strategy decides. If the cluster does not answer for 60 s, or no longer knows the operation, the outcome is unknown (exit code 4).
#[derive(Debug, Args)]
pub struct Stop {
    /// Id of the job to stop, as flott list shows it
    #[arg(value_name = "JOBID")]
    pub job: String,
    /// Directory, as the JobManager sees it, in which the savepoint's folder is made: an absolute path, or a URI [default:
    /// execution.checkpointing.savepoint-dir by -D here, else that of the job or the JobManager]
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
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The snapshot that a job starts from, in `flott run` and `flott run-application`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Recovery {
    /// Start from this savepoint or retained checkpoint: its folder, as it was printed, or the file _metadata in it; a path or URI that all
    /// machines reach [default: execution.state-recovery.path, else without state]
    #[arg(
        short = 's',
        long = "fromSavepoint",
        visible_alias = "from-savepoint",
        value_name = "PATH"
    )]
    pub savepoint: Option<String>,
    /// Start even if the savepoint has state that the program does not declare; that state is dropped
    #[arg(
        short = 'n',
        long = "allowNonRestoredState",
        visible_alias = "allow-non-restored-state",
        requires = "savepoint"
    )]
    pub allow_non_restored: bool,
    /// Owner of the savepoint afterwards: no_claim (you) or claim (the job, which deletes it when its own first checkpoint is
    /// complete); also -cm [default: no_claim]
    #[arg(
        long = "claimMode",
        visible_alias = "claim-mode",
        aliases = ["restoreMode", "restore-mode"],
        value_name = "MODE",
        requires = "savepoint"
    )]
    pub claim_mode: Option<String>,
}

impl Recovery {
    /// Returns the job's options that the arguments stand for.
    ///
    /// # Errors
    /// [`Failure`] for a path that is relative to a directory which does not exist any more.
    pub(super) fn overrides(&self) -> Result<Vec<(String, String)>, Failure> {
        let Some(path) = self.savepoint.as_deref() else {
            return Ok(Vec::new());
        };
        let option = |option: &dyn Declaration, value: String| (option.key().to_owned(), value);
        let mut options = vec![option(&state_recovery::PATH, absolute(path)?)];
        if self.allow_non_restored {
            options.push(option(&state_recovery::IGNORE_UNCLAIMED_STATE, true.to_string()));
        }
        if let Some(mode) = &self.claim_mode {
            options.push(option(&state_recovery::CLAIM_MODE, mode.clone()));
        }
        Ok(options)
    }
}

/// Returns a URI as it is, and a path as seen from the directory of this process: the cluster's processes have others.
fn absolute(path: &str) -> Result<String, Failure> {
    let is_uri = path.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    });
    if is_uri {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::usage(format!("-s '{path}' is not a path: {error}")))?;
    Ok(absolute.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        recovery: Recovery,
    }

    fn options(words: &[&str]) -> Vec<(String, String)> {
        let line = CommandLine::try_parse_from(["run"].iter().chain(words)).unwrap();
        line.recovery.overrides().unwrap()
    }

    #[test]
    fn the_arguments_are_options_of_the_job() {
        let pairs = options(&["-s", "hdfs://ns/s/savepoint-1", "-n", "--claim-mode", "claim"]);
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("execution.state-recovery.path", "hdfs://ns/s/savepoint-1"),
                ("execution.state-recovery.ignore-unclaimed-state", "true"),
                ("execution.state-recovery.claim-mode", "claim"),
            ]
        );
        let here = std::env::current_dir().unwrap().join("savepoint-1");
        assert_eq!(options(&["-s", "savepoint-1"])[0].1, here.display().to_string());
        assert!(options(&[]).is_empty());
        assert!(CommandLine::try_parse_from(["run", "-n"]).is_err(), "-n needs -s");
    }
}
