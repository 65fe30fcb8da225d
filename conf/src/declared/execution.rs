//! Options of jobs and their programs.

use super::{checkpointing, network, resourcemanager, rest, restart, s3, state_recovery};
use crate::{Declaration, List, declare::options, value::choices};
use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

choices! {
    /// The place where the client runs a job (`execution.target`, or `-t`): in its own process (`Local`), on a running cluster (`Remote`,
    /// `YarnSession`), or on a cluster that it starts for the job and that ends with it (`Standalone`, `YarnPerJob`, `YarnApplication`).
    pub enum Target {
        /// The job runs in the client's own process.
        Local = "local" | "embedded",
        /// The job runs on a running session cluster, whose REST endpoint is at `rest.address`.
        Remote = "remote",
        /// A cluster of plain processes that is started for this application and ends with it.
        Standalone = "standalone" | "standalone-application",
        /// A cluster of YARN containers for this job alone; the client builds the job graph.
        YarnPerJob = "yarn-per-job",
        /// A cluster of YARN containers for this application, each of which runs the program; the
        /// JobManager builds the job graph.
        YarnApplication = "yarn-application",
        /// A running session cluster on YARN: `yarn.application.id`, or the one in the session file.
        YarnSession = "yarn-session",
    }
}

options! {
    /// The place where the client runs a job: `-t` on the command line. If it is not set: `local`
    /// for a program that is started by hand, `standalone` for `flott run-application`, `remote`
    /// (the session at `rest.address`) for the other commands.
    TARGET: Option<Target> = "execution.target" => None;
    /// Whether the client waits for the job and shows its results.
    ATTACHED: bool = "execution.attached" => true;
    /// Interval at which an attached client asks for the job's state.
    CLIENT_POLL_INTERVAL: Duration = "client.poll-interval" => Duration::from_millis(100), must be_longer_than_zero;
    /// Maximum time a client waits for one answer of the cluster; then its command fails.
    CLIENT_TIMEOUT: Duration = "client.timeout" => Duration::from_secs(60), must be_longer_than_zero;
    /// Whether the job is cancelled when the client that is attached to it goes away: `-sae` of `flott run`. Nothing for a
    /// client that does not wait (`execution.attached`).
    SHUTDOWN_ON_ATTACHED_EXIT: bool = "execution.shutdown-on-attached-exit" => false;
    /// Interval at which the client of such a job sends a sign of life.
    CLIENT_HEARTBEAT_INTERVAL: Duration = "client.heartbeat.interval" => Duration::from_secs(30), must be_longer_than_zero;
    /// Time such a job runs on without a sign of life from its client; then it is cancelled.
    CLIENT_HEARTBEAT_TIMEOUT: Duration = "client.heartbeat.timeout" => Duration::from_secs(180), must be_longer_than_zero;
    /// The parallelism of operators that set none.
    PARALLELISM: NonZeroU32 = "parallelism.default" => NonZeroU32::MIN;
    /// The number of key groups: the most that keyed operators can ever be scaled to. Where neither this option nor the program sets it,
    /// it is that of the savepoint that the job starts from, else 1.5 times the parallelism, rounded up to a power of two, at least
    /// 128. More subtasks than a savepoint has key groups are refused.
    MAX_PARALLELISM: Option<NonZeroU32> = "pipeline.max-parallelism" => None;
    /// Name of the job, shown to users.
    NAME: Option<String> = "pipeline.name" => None;
    /// The id that the job is given, 32 hexadecimal digits; drawn where it is not set.
    JOB_ID: Option<String> = "pipeline.job-id" => None, other ["$internal.pipeline.job-id"],
        must be_a_job_id;
    /// The program: a path or a URI.
    PROGRAM: Option<String> = "pipeline.program" => None;
    /// Arguments of the program.
    PROGRAM_ARGS: List = "pipeline.program-args" => List::default(), other ["$internal.application.program-args"];
    /// Number of times a sink repeats a commit that may succeed later, before its task fails. The
    /// pause doubles from 100 ms to 10 s.
    COMMITTER_RETRIES: u32 = "sink.committer.retries" => 10;
    /// Whether operators with state may do without a `uid` in a job with checkpoints. Their state is then found by their place in
    /// the program, so that a savepoint can't be restored into a program whose operators have changed.
    AUTO_GENERATE_UIDS: bool = "pipeline.auto-generate-uids" => false;
    /// Name of the registered job to run, if the program has several.
    ENTRY: Option<String> = "pipeline.entry" => None;
}

/// Options that a job is submitted with and that shape it, beside the restart strategies.
static OF_JOBS: &[&dyn Declaration] = &[
    &SHUTDOWN_ON_ATTACHED_EXIT,
    &CLIENT_HEARTBEAT_TIMEOUT,
    &PARALLELISM,
    &MAX_PARALLELISM,
    &AUTO_GENERATE_UIDS,
    &NAME,
    &JOB_ID,
    &PROGRAM_ARGS,
    &ENTRY,
    &COMMITTER_RETRIES,
    &network::BUFFER_TIMEOUT,
    &network::AUTO_WATERMARK_INTERVAL,
    &network::FORCE_SERIALIZATION,
    &resourcemanager::SLOT_REQUEST_TIMEOUT,
    &rest::EXCEPTION_HISTORY_SIZE,
    &rest::CHECKPOINT_HISTORY_SIZE,
];

/// Returns true if `key`, one of an option's names, is an option that makes a difference to a job submitted to a running cluster, or an
/// option of the user (`program.…`). False for options that only the cluster's processes or clients read, and for a key that is no option.
/// The client sends only such options with a job.
pub fn acts_on_a_job(key: &str) -> bool {
    let of_snapshots = checkpointing::ALL.iter().chain(state_recovery::ALL);
    let of_jobs = OF_JOBS.iter().chain(restart::ALL).chain(of_snapshots).chain(s3::ALL);
    let named =
        |option: &&dyn Declaration| option.key() == key || option.other_names().contains(&key);
    key.starts_with(crate::layer::USER_PREFIX) || of_jobs.copied().any(|option| named(&option))
}

/// Returns true if `key` is an option, by any of its names, that makes no difference to a submitted job: see
/// [`acts_on_a_job`]. REST refuses such an option of a job. False for a key that is no option.
pub fn is_of_the_cluster(key: &str) -> bool {
    super::find(key).is_some() && !acts_on_a_job(key)
}

/// Returns the key of the first option, in the order of the keys, that a program has set for its job although it makes no difference to a
/// job ([`is_of_the_cluster`]): one of `built`, the options of the built job, whose key is not in `given`, the options with which it was
/// built. `None` if there is none.
pub fn misplaced<'a>(
    built: &'a BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
) -> Option<&'a str> {
    let mut keys = built.keys().filter(|key| !given.contains_key(*key));
    keys.find(|key| is_of_the_cluster(key)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_cluster_are_told_from_those_of_a_job() {
        for key in [
            "pipeline.name",
            "$internal.pipeline.job-id",
            "restart-strategy",
            "restart-strategy.fixed-delay.attempts",
            "parallelism.default",
            "execution.buffer-timeout",
            "exchange.force-serialization",
            "s3.endpoint",
            "program.anything",
        ] {
            assert!(acts_on_a_job(key) && !is_of_the_cluster(key), "{key}");
        }
        assert!(!is_of_the_cluster("no.such.option"));
        for key in ["taskmanager.numberOfTaskSlots", "heartbeat.timeout", "pipeline.program"] {
            assert!(!acts_on_a_job(key) && is_of_the_cluster(key), "{key}");
        }
    }
}
