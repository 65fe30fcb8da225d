//! The options of a job that say how the double's tasks behave.

use crate::simulation::plan::{PlannedJob, Trouble};
use model::{FailureCause, JobVertexId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Option of a job: milliseconds that each task runs; absent: until it is cancelled.
const TASK_MS: &str = "program.task-ms";

/// Options of a job whose first subtask fails: the number of attempts that fail, the milliseconds that each runs
/// before, and whether the failure is fatal (`true` or `false`).
const FAIL_ATTEMPTS: &str = "program.fail-attempts";
const FAIL_AFTER_MS: &str = "program.fail-after-ms";
const FAIL_FATALLY: &str = "program.fail-fatally";

/// The vertex whose first subtask fails.
pub(super) const FIRST_VERTEX: JobVertexId = JobVertexId(1);

/// Returns the options of a job's graph by which a program host double learns the tasks' run time and failure (`program.task-ms`,
/// `program.fail-…`).
pub fn options_of(job: &PlannedJob) -> BTreeMap<String, String> {
    let task_ms = job.task_time.map(|time| (TASK_MS, time.as_millis().to_string()));
    let trouble = job.trouble.map(|trouble| {
        [
            (FAIL_ATTEMPTS, trouble.attempts.to_string()),
            (FAIL_AFTER_MS, trouble.after.as_millis().to_string()),
            (FAIL_FATALLY, trouble.fatal.to_string()),
        ]
    });
    let all = task_ms.into_iter().chain(trouble.into_iter().flatten());
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns how long each task of a job runs; `None`: until it is cancelled.
pub(super) fn task_time_of(options: &BTreeMap<String, String>) -> Option<Duration> {
    number(options, TASK_MS).map(Duration::from_millis)
}

fn number(options: &BTreeMap<String, String>, key: &str) -> Option<u64> {
    options.get(key).and_then(|value| value.parse().ok())
}

/// Returns the failure of a job's program, if it fails.
pub(super) fn trouble_of(options: &BTreeMap<String, String>) -> Option<Trouble> {
    Some(Trouble {
        attempts: u32::try_from(number(options, FAIL_ATTEMPTS)?).ok()?,
        after: Duration::from_millis(number(options, FAIL_AFTER_MS)?),
        fatal: options.get(FAIL_FATALLY).is_some_and(|fatal| fatal == "true"),
    })
}

/// Returns the cause that a program's failure is reported with.
pub(super) fn cause_of(trouble: Trouble) -> FailureCause {
    let (kind, message) = ("UserError", "the program fails on purpose");
    match trouble.fatal {
        true => FailureCause::fatal(kind, message),
        false => FailureCause::recoverable(kind, message),
    }
}
