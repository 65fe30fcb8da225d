//! Jobs that live only as long as the client that is attached to them: `flott run -sae`.
//!
//! The client beats; each beat says how long the job may go on without the next one. A job whose time is over is to
//! be cancelled. The table must never name a job that no client has bound to itself.

use model::JobId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time that one beat holds for. A client that wants more beats again.
const HOLDS_MAX: Duration = Duration::from_secs(24 * 3600);

/// The jobs that are bound to an attached client (`flott run -sae`), each with the monotonic time until which it may run without another
/// beat (sign of life) of the client. Cancels nothing itself. A job that ends stays bound until its time is over; its Dispatcher then
/// ignores it. In the memory of one Dispatcher: the next leader binds recovered jobs anew when they begin to run, or at the client's next
/// beat.
#[derive(Debug, Clone, Default)]
pub struct AttachedClients {
    until: BTreeMap<JobId, Duration>,
}

impl AttachedClients {
    /// Binds the job to its client, or records that the client lives: without another beat the job's time is over when
    /// `timeout` (a day, if it is longer) has passed since `now` (monotonic). A later beat replaces the time and may also
    /// shorten it.
    pub fn beat(&mut self, job: JobId, now: Duration, timeout: Duration) {
        self.until.insert(job, now.saturating_add(timeout.min(HOLDS_MAX)));
    }

    /// Returns the earliest monotonic time at which a job's time is over, that of a job that has ended included; `None` if no job is bound.
    pub fn next(&self) -> Option<Duration> {
        self.until.values().min().copied()
    }

    /// Removes and returns the jobs whose time is over at `now` (monotonic), by id. Each is returned once and is not bound
    /// any more: the caller cancels those that still run.
    pub fn deserted(&mut self, now: Duration) -> Vec<JobId> {
        let over: Vec<JobId> =
            self.until.iter().filter(|(_, until)| **until <= now).map(|(job, _)| *job).collect();
        for job in &over {
            self.until.remove(job);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_job_is_deserted_once_when_its_client_has_been_silent_for_the_time_it_named() {
        let mut clients = AttachedClients::default();
        assert_eq!((clients.next(), clients.deserted(seconds(9))), (None, vec![]));
        clients.beat(JobId(1), seconds(10), seconds(5));
        clients.beat(JobId(2), seconds(10), seconds(9));
        assert_eq!(clients.next(), Some(seconds(15)));
        clients.beat(JobId(1), seconds(14), seconds(5));
        assert_eq!(clients.deserted(seconds(18)), []);
        assert_eq!(clients.deserted(seconds(19)), [JobId(1), JobId(2)]);
        assert_eq!((clients.next(), clients.deserted(seconds(99))), (None, vec![]));
    }

    #[test]
    fn no_beat_holds_for_longer_than_a_day() {
        let mut clients = AttachedClients::default();
        clients.beat(JobId(1), seconds(1), Duration::MAX);
        assert_eq!(clients.next(), Some(seconds(1) + HOLDS_MAX));
    }
}
