//! Messages of an attached client about its job's progress: that the job waits for slots, and each
//! restart with its cause. This module never decides how the wait for the job ends: a request that
//! fails is repeated later.

use super::output::{Printer, plain};
use rest::client::RestClient;
use rest::messages::{ExceptionEntry, JobOverview};
use std::time::Duration;

/// Pause between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of questions in a row that must find a job waiting for slots before that is noted.
const PATIENCE: u32 = 3;

/// Says what happens to the job, until it is dropped.
pub(super) async fn follow(
    print: Printer,
    client: &RestClient,
    job: &str,
) -> std::convert::Infallible {
    let mut printed = Printed::default();
    loop {
        tokio::time::sleep(PAUSE).await;
        let line = client.jobs_overview().await.ok();
        let line = line.and_then(|overview| overview.jobs.into_iter().find(|j| j.jid == job));
        let Some(line) = line else { continue };
        if let Some(note) = printed.tasks(&line) {
            print.note(&note);
        }
        // A failure changes the job's state, and with it this moment.
        if line.last_modification == printed.changed_at {
            continue;
        }
        if let Ok(exceptions) = client.job_exceptions(job).await {
            printed.changed_at = line.last_modification;
            for note in printed.failures(&line.state, &exceptions.exception_history.entries) {
                print.note(&note);
            }
        }
    }
}

/// The messages that were printed already.
#[derive(Debug, Default)]
struct Printed {
    waiting: u32,
    failure_at: i64,
    /// The job's last modification whose failures have been looked at.
    changed_at: i64,
}

impl Printed {
    /// Returns a note about tasks that wait for slots, once for each wait.
    fn tasks(&mut self, line: &JobOverview) -> Option<String> {
        let count = |state: &str| line.tasks.get(state).copied().unwrap_or(0);
        let (waiting, total) = (count("scheduled"), count("total"));
        if waiting == 0 {
            self.waiting = 0;
            return None;
        }
        self.waiting = self.waiting.saturating_add(1);
        (self.waiting == PATIENCE).then(|| {
            format!("{waiting} of {total} tasks wait for slots (more TaskManagers give more), or for a place for their program host (jobmanager.program-hosts.max)")
        })
    }

    /// Returns notes about the failures since the last call, oldest first. The failure that ends
    /// the job is reported as its end.
    fn failures(&mut self, state: &str, newest_first: &[ExceptionEntry]) -> Vec<String> {
        if matches!(state, "FAILING" | "FAILED") {
            return Vec::new();
        }
        let since = self.failure_at;
        let new = newest_first.iter().rev().filter(|entry| entry.timestamp > since);
        let notes = new.map(|entry| {
            let (kind, text) = (plain(&entry.exception_name), plain(&entry.stacktrace));
            format!("the job restarts: {kind}: {text}")
        });
        let notes = notes.collect();
        self.failure_at = newest_first.iter().map(|entry| entry.timestamp).fold(since, i64::max);
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(scheduled: u32) -> JobOverview {
        let tasks = [("scheduled".to_owned(), scheduled), ("total".to_owned(), 4)];
        JobOverview { tasks: tasks.into_iter().collect(), ..JobOverview::default() }
    }

    fn failure(timestamp: i64) -> ExceptionEntry {
        let (exception_name, stacktrace) = ("TaskManagerLost".into(), format!("at {timestamp}"));
        ExceptionEntry { timestamp, exception_name, stacktrace, ..ExceptionEntry::default() }
    }

    #[test]
    fn a_wait_for_slots_is_told_once() {
        let mut printed = Printed::default();
        let said: Vec<bool> = (0..6).map(|_| printed.tasks(&line(2)).is_some()).collect();
        assert_eq!(said, [false, false, true, false, false, false]);
        assert_eq!(printed.tasks(&line(0)), None);
        printed.tasks(&line(2));
        printed.tasks(&line(2));
        assert!(printed.tasks(&line(2)).is_some_and(|note| note.starts_with("2 of 4 tasks")));
    }

    #[test]
    fn each_restart_is_told_once_and_the_end_is_left_to_its_report() {
        let mut printed = Printed::default();
        let notes = printed.failures("RUNNING", &[failure(7), failure(5)]);
        assert_eq!(notes[0], "the job restarts: TaskManagerLost: at 5");
        assert_eq!(notes.len(), 2);
        assert_eq!(printed.failures("RUNNING", &[failure(7), failure(5)]).len(), 0);
        assert_eq!(printed.failures("FAILED", &[failure(9)]).len(), 0);
    }
}
