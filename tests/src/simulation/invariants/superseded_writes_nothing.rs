//! No write of a superseded leader becomes visible: once a leader has written to a job's log, no record of an
//! older one appears there, and a job ends once.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use model::{JobId, LeaderSession};
use std::collections::{BTreeMap, BTreeSet};
use storage::jobs::LogId;

/// The invariant that no record of an older leader appears in a job's log after one of a newer leader, and that a job has one result.
/// Holds the newest writer of each log and the jobs that have ended.
#[derive(Default)]
pub struct SupersededWritesNothing {
    /// The newest leader that has written to each job's log.
    newest: BTreeMap<(JobId, LogId), LeaderSession>,
    ended: BTreeSet<JobId>,
}

impl Invariant for SupersededWritesNothing {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Client(recorded) = &seen.what else { return Ok(()) };
        let Noticed::Recorded { job_id, log, number, session, result, .. } = recorded else {
            return Ok(());
        };
        let newest = self.newest.entry((*job_id, *log)).or_insert(*session);
        if session < newest {
            return Err(format!(
                "job {job_id}: record {number} of {session} appears after one of {newest}"
            ));
        }
        *newest = *session;
        if *result && !self.ended.insert(*job_id) {
            return Err(format!("job {job_id} ends a second time, in record {number}"));
        }
        Ok(())
    }
}
