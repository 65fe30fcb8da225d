//! Options of restart strategies: what happens to a job when a task fails.

use crate::{declare::options, value::choices};
use std::time::Duration;

choices! {
    /// The strategy that decides whether the failed part of a job is restarted after a failure, how often and after which pause
    /// (`restart-strategy.type`): never, a fixed number of times in all, with growing pauses, or while failures are rare enough. It is not
    /// asked about failures that are not recoverable, which fail the job. Each JobMaster counts anew: a takeover begins at 0. Where the
    /// option is not set, failures that the cluster caused are restarted, up to 10 times in a row, and errors of the program fail the job.
    pub enum Strategy {
        /// Never restarts the job after a failure of a task: the first one is final. A new leading JobManager runs the job again all the
        /// same, from its newest checkpoint.
        None = "none" | "off" | "disable",
        /// A limited number of restarts in all (`restart-strategy.fixed-delay.attempts`), however far apart, each after the same pause; the
        /// next failure fails the job.
        FixedDelay = "fixed-delay" | "fixeddelay",
        /// Restarts after pauses that grow with each failure and begin anew after a time without one; without end unless
        /// `restart-strategy.exponential-delay.attempts-before-reset-backoff` limits the restarts in a row.
        ExponentialDelay = "exponential-delay" | "exponentialdelay",
        /// Restarts, each after the same pause, while at most `restart-strategy.failure-rate.max-failures-per-interval` failures fall
        /// into one interval; one more fails the job.
        FailureRate = "failure-rate" | "failurerate",
    }
}

options! {
    /// Decides whether and when a failed job is restarted: `none`, `fixed-delay`, `exponential-delay` or `failure-rate`. If
    /// it is not set, failures that the cluster caused (a lost TaskManager, a killed process) are restarted up to 10 times
    /// in a row with pauses from 0.2 s on; an error of the program, or too few slots from the start, fails the job at once.
    /// Whatever the strategy, a restart less than 10 s after another failure waits at least 200 ms.
    /// Parts of a job that exchange no records fail and count one by one: an incident that hits five of them takes five restarts.
    STRATEGY: Option<Strategy> = "restart-strategy.type" => None, other ["restart-strategy"];
    /// Number of restarts before the job fails.
    FIXED_DELAY_ATTEMPTS: u32 = "restart-strategy.fixed-delay.attempts" => 1;
    /// The pause before each restart.
    FIXED_DELAY_DELAY: Duration = "restart-strategy.fixed-delay.delay" => Duration::from_secs(1);
    /// The pause before the first restart.
    EXPONENTIAL_INITIAL_BACKOFF: Duration = "restart-strategy.exponential-delay.initial-backoff" =>
        Duration::from_secs(1), must be_longer_than_zero;
    /// Upper bound of the pause between two restarts.
    EXPONENTIAL_MAX_BACKOFF: Duration = "restart-strategy.exponential-delay.max-backoff" =>
        Duration::from_secs(60), must be_longer_than_zero;
    /// Factor by which the pause grows after each failure.
    EXPONENTIAL_MULTIPLIER: f64 = "restart-strategy.exponential-delay.backoff-multiplier" => 1.5,
        must be_at_least_one;
    /// Time without a failure after which the pause is the first one again.
    EXPONENTIAL_RESET_THRESHOLD: Duration = "restart-strategy.exponential-delay.reset-backoff-threshold" =>
        Duration::from_secs(3600);
    /// The part of the pause that is random, so that jobs do not restart all at once.
    EXPONENTIAL_JITTER: f64 = "restart-strategy.exponential-delay.jitter-factor" => 0.1, must be_a_share;
    /// Number of restarts in a row before the job fails; unlimited if it is not set.
    EXPONENTIAL_ATTEMPTS: Option<u32> =
        "restart-strategy.exponential-delay.attempts-before-reset-backoff" => None;
    /// Largest number of failures within the interval; one more fails the job.
    FAILURE_RATE_MAX: u32 = "restart-strategy.failure-rate.max-failures-per-interval" => 1;
    /// The interval in which failures are counted.
    FAILURE_RATE_INTERVAL: Duration = "restart-strategy.failure-rate.failure-rate-interval" =>
        Duration::from_secs(60), must be_longer_than_zero;
    /// The pause before each restart.
    FAILURE_RATE_DELAY: Duration = "restart-strategy.failure-rate.delay" => Duration::from_secs(1);
}
