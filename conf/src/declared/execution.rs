//! Options of jobs and their programs.

use crate::{List, declare::options, value::choices};
use std::{num::NonZeroU32, time::Duration};

choices! {
    /// Where a job runs.
    pub enum Target {
        /// In the client's own process.
        Local = "local" | "embedded",
        /// On a running session.
        Remote = "remote",
        /// Its own cluster of plain processes.
        Standalone = "standalone" | "standalone-application",
    }
}

options! {
    /// Where the client runs a job; `local` for a program that is started by hand, `remote` for `flott run`, where it
    /// is not set.
    TARGET: Option<Target> = "execution.target" => None;
    /// Whether the client waits for the job and shows its results.
    ATTACHED: bool = "execution.attached" => true;
    /// How often an attached client asks for the job's state.
    CLIENT_POLL_INTERVAL: Duration = "client.poll-interval" => Duration::from_millis(100), must be_longer_than_zero;
    /// How long a client waits for one answer of the cluster.
    CLIENT_TIMEOUT: Duration = "client.timeout" => Duration::from_secs(60), must be_longer_than_zero;
    /// The parallelism of operators that set none.
    PARALLELISM: NonZeroU32 = "parallelism.default" => NonZeroU32::MIN;
    /// The number of key groups: the most that keyed operators can ever be scaled to; from the parallelism where it is
    /// not set.
    MAX_PARALLELISM: Option<NonZeroU32> = "pipeline.max-parallelism" => None;
    /// The job's name.
    NAME: Option<String> = "pipeline.name" => None;
    /// The id that the job is given, 32 hexadecimal digits; drawn where it is not set.
    JOB_ID: Option<String> = "pipeline.job-id" => None, other ["$internal.pipeline.job-id"];
    /// The program: a path or a URI.
    PROGRAM: Option<String> = "pipeline.program" => None;
    /// The program's arguments.
    PROGRAM_ARGS: List = "pipeline.program-args" => List::default(), other ["$internal.application.program-args"];
    /// Which of the program's registered jobs is run, where it has several.
    ENTRY: Option<String> = "pipeline.entry" => None;
}
