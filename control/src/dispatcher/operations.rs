//! Operations that clients trigger and then ask about.

use model::{FailureCause, JobId, TriggerId};
use std::collections::{BTreeMap, VecDeque};

/// The number of ended operations that are remembered.
const ENDED_MAX: usize = 256;

/// The name of an operation that a client triggers: a savepoint, a stop or a checkpoint of a job, or the disposal of a savepoint. A
/// checkpoint and a savepoint of one job may share an id: each is found as what it is, as in Flink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationKey {
    /// The job that the operation concerns; `None` for the disposal of a savepoint.
    pub job: Option<JobId>,
    /// True for a checkpoint, false for any other operation.
    pub is_checkpoint: bool,
    /// The id that the client chose for the operation, or REST drew.
    pub trigger: TriggerId,
}

/// The operations that clients have triggered and may ask about, of one leadership: those that run (without a bound), and the 256 that
/// ended last. Kept in memory only: the next leader knows none of them.
#[derive(Debug, Default)]
pub struct Operations {
    /// The outcome of each operation; `None` while it runs.
    known: BTreeMap<OperationKey, Option<Result<String, FailureCause>>>,
    /// The operations that have ended, oldest first.
    ended: VecDeque<OperationKey>,
}

impl Operations {
    /// Adds an operation as running and returns true. Returns false, without a change, if its key is known already, running or ended; the
    /// caller must not begin the operation a second time then.
    pub fn begin(&mut self, key: OperationKey) -> bool {
        if self.known.contains_key(&key) {
            return false;
        }
        self.known.insert(key, None);
        true
    }

    /// Records the outcome of an operation that was begun: a text for the client (a savepoint's URI, say), or the failure. Must be called
    /// once for each. Beyond 256 ended operations the one that ended first is forgotten.
    pub fn end(&mut self, key: OperationKey, outcome: Result<String, FailureCause>) {
        self.known.insert(key, Some(outcome));
        self.ended.push_back(key);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns the outcome of an operation: `Some(Some(…))` once it has ended, `Some(None)` while it runs, `None` if it is not
    /// known or was forgotten.
    pub fn get(&self, key: &OperationKey) -> Option<Option<&Result<String, FailureCause>>> {
        self.known.get(key).map(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_begun_once_and_the_oldest_ended_ones_are_forgotten() {
        let key =
            |n| OperationKey { job: Some(JobId(1)), is_checkpoint: false, trigger: TriggerId(n) };
        let mut operations = Operations::default();
        assert!(operations.begin(key(0)));
        assert!(!operations.begin(key(0)));
        let of_no_job = OperationKey { job: None, ..key(0) };
        assert!(operations.begin(of_no_job), "that of another job is another one");
        let checkpoint = OperationKey { is_checkpoint: true, ..key(0) };
        assert_eq!(operations.get(&checkpoint), None, "a savepoint is not found as a checkpoint");
        assert!(operations.begin(checkpoint), "a checkpoint is another one");
        assert_eq!(operations.get(&key(0)), Some(None));
        for n in 1..=ENDED_MAX as u128 {
            operations.begin(key(n));
            operations.end(key(n), Ok(n.to_string()));
        }
        assert_eq!(operations.get(&key(1)), Some(Some(&Ok("1".to_owned()))));
        operations.end(key(0), Ok("0".to_owned()));
        assert_eq!(operations.get(&key(1)), None);
        assert_eq!(operations.get(&key(0)), Some(Some(&Ok("0".to_owned()))));
    }
}
