//! Restart strategies: whether and when a failed part of a job is started again. Pure: time and
//! randomness come in. It must never look at what failed beyond the failure's own words.

use model::FailureCause;
use std::collections::VecDeque;
use std::time::Duration;

mod repeats;
#[cfg(test)]
mod tests;

pub use repeats::Repeats;

/// Minimum delay of a restart whose failure follows another one within [`ROW_WITHIN`], whatever the strategy says. Without it,
/// a program that fails at once would restart some 500 times a second.
pub const ROW_DELAY: Duration = Duration::from_millis(200);
/// Maximum time between two failures that count as failures in a row.
pub const ROW_WITHIN: Duration = Duration::from_secs(10);

/// A restart strategy and its settings (Flink's `restart-strategy.*`): whether a failed part of a job is restarted, and after
/// which delay. After failures in a row ([`ROW_WITHIN`]) every delay is at least [`ROW_DELAY`].
#[derive(Debug, Clone, PartialEq)]
pub enum RestartSpec {
    /// No restarts: the first failure fails the job.
    None,
    /// A limited number of restarts in the life of one JobMaster (the job's next one counts from 0 again), each after the same delay (at
    /// least [`ROW_DELAY`] after failures in a row).
    FixedDelay {
        /// Number of restarts in the life of the JobMaster; the next failure fails the job. 0: the first one does.
        attempts: u32,
        /// Pause before each restart.
        delay: Duration,
    },
    /// Restarts after delays that grow with each failure and start over after a time without one.
    Exponential {
        /// Delay before the first restart, and before the first one after a reset, without jitter.
        initial: Duration,
        /// Upper bound of the delay, jitter included.
        max: Duration,
        /// Factor by which the delay grows with each failure; at least 1.
        multiplier: f64,
        /// Time without a failure after which the delay is `initial` again.
        reset_after: Duration,
        /// Part of the delay (0 to 1) by which it is lengthened or shortened at random.
        jitter: f64,
        /// Number of restarts since the last reset, after which a failure fails the job; 0: the first one does; `None`: no limit.
        attempts: Option<u32>,
    },
    /// Restarts after the same delay (at least [`ROW_DELAY`] after failures in a row), until more than `max` failures fall into one
    /// interval; that fails the job.
    FailureRate {
        /// Maximum number of failures within the interval that are restarted. 0: the first failure fails the job.
        max: u32,
        /// Period in which failures are counted.
        interval: Duration,
        /// Delay before each restart.
        delay: Duration,
    },
}

/// A restart strategy, and the kinds of failures that it is asked about; others, and those that are not recoverable, fail the
/// job at once.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartPolicy {
    /// The restart strategy of the job.
    pub spec: RestartSpec,
    /// True if the strategy decides about errors of the program itself ([`PROGRAM_ERRORS`]); false if they fail the job at
    /// once.
    pub program_errors: bool,
    /// True if the strategy decides about shortages ([`NO_RESOURCE`]) of a part of the job that was never deployed, because it never had
    /// all its slots; false if such a shortage fails the job at once.
    pub never_scheduled: bool,
}

impl RestartPolicy {
    /// Returns the policy for a strategy that the user chose: the strategy is asked about every recoverable failure.
    pub fn chosen(spec: RestartSpec) -> Self {
        Self { spec, program_errors: true, never_scheduled: true }
    }
    /// Returns the policy for jobs without a restart strategy: exponential back-off from 200 ms to
    /// 60 s, factor 2, 10 % jitter, at most 10 attempts, reset after 600 s. Failures that the
    /// cluster caused (a lost TaskManager, a killed process) are restarted, so that a bounded job
    /// survives them with exact results. An error of the program, or a cluster that never had
    /// enough slots, fails the job at once.
    pub fn unset() -> Self {
        Self {
            spec: RestartSpec::Exponential {
                initial: Duration::from_millis(200),
                max: Duration::from_secs(60),
                multiplier: 2.0,
                reset_after: Duration::from_secs(600),
                jitter: 0.1,
                attempts: Some(10),
            },
            program_errors: false,
            never_scheduled: false,
        }
    }
}

/// Kinds of failures that the program itself caused: an error or panic of user code, in a task or in a
/// coordinator, or records that its own codec can't read back. Where no restart strategy is configured, they fail
/// the job at once ([`RestartPolicy::unset`]).
pub const PROGRAM_ERRORS: [&str; 4] = ["UserError", "UserPanic", "CoordinatorFailed", "CodecError"];
/// The kind of a failure that is a shortage: slots did not come in time, or no place was free for a program host.
pub const NO_RESOURCE: &str = "NoResourceAvailable";

/// The decision about a failure, from [`RestartStrategy::failed`]: restart the failed part of the job, or fail the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Restart the failed part of the job after this delay.
    RestartAfter(Duration),
    /// Restart nothing: the whole job fails, because the failure is not recoverable, the policy excludes its kind, or the strategy
    /// allows no more restarts.
    GiveUp,
}

/// A restart policy with its count of the failures of one job, which decides about each further one. In the memory of one JobMaster: the
/// job's next one counts from 0 again. Restarts nothing itself: [`RestartStrategy::failed`] returns the decision.
#[derive(Debug, Clone)]
pub struct RestartStrategy {
    policy: RestartPolicy,
    /// Restarts granted since the start, or since the last reset (exponential).
    granted: u32,
    /// Times of recent failures (failure rate); at most `max + 1` of them.
    recent: VecDeque<Duration>,
    last_failure: Option<Duration>,
}

impl RestartStrategy {
    /// Makes a strategy for one job with no failure counted.
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, granted: 0, recent: VecDeque::new(), last_failure: None }
    }

    /// Decides what becomes of a failure at `now` (monotonic), and counts it. `ever_scheduled`: the failed part was deployed
    /// before, which matters only for shortages ([`NO_RESOURCE`]). `draw` is a random number for the jitter, from the whole range of
    /// `u64`. A failure that is not recoverable, or that the policy excludes, is [`Verdict::GiveUp`] and not counted. A restart whose
    /// failure follows another within [`ROW_WITHIN`] waits [`ROW_DELAY`] at least.
    pub fn failed(
        &mut self,
        now: Duration,
        cause: &FailureCause,
        ever_scheduled: bool,
        draw: u64,
    ) -> Verdict {
        let refused = !cause.recoverable
            || (PROGRAM_ERRORS.contains(&cause.kind.as_str()) && !self.policy.program_errors)
            || (cause.kind == NO_RESOURCE && !ever_scheduled && !self.policy.never_scheduled);
        if refused {
            return Verdict::GiveUp;
        }
        let mut verdict = self.decide(now, draw);
        let last = self.last_failure.replace(now);
        if let Verdict::RestartAfter(delay) = &mut verdict
            && last.is_some_and(|last| now.saturating_sub(last) < ROW_WITHIN)
        {
            *delay = ROW_DELAY.max(*delay);
        }
        if verdict != Verdict::GiveUp {
            self.granted = self.granted.saturating_add(1);
        }
        verdict
    }

    fn decide(&mut self, now: Duration, draw: u64) -> Verdict {
        match self.policy.spec {
            RestartSpec::None => Verdict::GiveUp,
            RestartSpec::FixedDelay { attempts, delay } => {
                if self.granted < attempts {
                    Verdict::RestartAfter(delay)
                } else {
                    Verdict::GiveUp
                }
            }
            RestartSpec::Exponential {
                initial,
                max,
                multiplier,
                reset_after,
                jitter,
                attempts,
            } => {
                let quiet = self.last_failure.map(|last| now.saturating_sub(last));
                if quiet.is_some_and(|quiet| quiet >= reset_after) {
                    self.granted = 0;
                }
                if attempts.is_some_and(|attempts| self.granted >= attempts) {
                    return Verdict::GiveUp;
                }
                Verdict::RestartAfter(grown(initial, max, multiplier, jitter, self.granted, draw))
            }
            RestartSpec::FailureRate { max, interval, delay } => {
                while self.recent.front().is_some_and(|t| now.saturating_sub(*t) > interval) {
                    self.recent.pop_front();
                }
                self.recent.push_back(now);
                if self.recent.len() > max as usize {
                    return Verdict::GiveUp;
                }
                Verdict::RestartAfter(delay)
            }
        }
    }
}

/// Returns `initial × multiplier^n`, at most `max`, moved by up to ± jitter; never above `max`.
fn grown(
    initial: Duration,
    max: Duration,
    multiplier: f64,
    jitter: f64,
    n: u32,
    draw: u64,
) -> Duration {
    let exponent = i32::try_from(n).unwrap_or(i32::MAX);
    let factor = multiplier.max(1.0).powi(exponent);
    let plain = (initial.as_secs_f64() * factor).min(max.as_secs_f64());
    // 53 bits of the draw make an exact fraction in 0..1.
    let fraction = (draw >> 11) as f64 / (1u64 << 53) as f64;
    let moved = plain * (1.0 + jitter.clamp(0.0, 1.0) * (2.0 * fraction - 1.0));
    Duration::try_from_secs_f64(moved).unwrap_or(max).min(max)
}
