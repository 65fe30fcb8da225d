//! The state of a job according to all records of its log. Pure: it must never read or write anything.

use super::record::{JobFact, JobRecord, JobResultEntry, Writer};
use model::{CheckpointPointer, JobGraph, JobId};
use std::sync::Arc;

/// A job's state according to the records of its log, which decides what a new leader does with the job: it runs it, shows its result,
/// deletes what is left, or fails it because the log is damaged. Derived from the records each time that a log is read, by
/// [`JobLogs::take_over`](super::JobLogs::take_over); it is not stored.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// There is no job: the log has no record 0, or it is a running job's log whose records an old leader wrote
    /// before a later leader had taken over all jobs. Nobody runs the job from it, and its records may be deleted.
    Ghost,
    /// The job has not ended; this is its graph.
    Running(Arc<JobGraph>),
    /// The job has ended with this result.
    Ended(Box<JobResultEntry>),
    /// The job is forgotten ([`JobFact::Removed`]): it must not be run or shown, and its objects are still to be deleted.
    Removed,
    /// A record of the log cannot be read, or record 0 is not this job's graph, and no record says that the job has ended or is removed:
    /// the leader must not run the job, and fails it.
    Damaged {
        /// The job's graph, if its record can be read.
        graph: Option<Arc<JobGraph>>,
        /// The names of the damaged objects and what is wrong with each of them.
        why: String,
    },
}

/// The records about checkpoints that are in a job's log, each with the number of the record. Read with the log, by
/// [`JobLogs::take_over`](super::JobLogs::take_over), and given to [`OpenJobLog::new`](super::OpenJobLog::new).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckpointRecords {
    /// The complete checkpoints, the newest last.
    pub complete: Vec<(u64, CheckpointPointer)>,
    /// The numbers of checkpoints and savepoints that were recorded by themselves ([`JobFact::CheckpointNumber`]).
    pub numbers: Vec<(u64, u64)>,
}

impl CheckpointRecords {
    /// Adds the record with this number if its fact is about a checkpoint; its number must be the highest.
    pub(super) fn add(&mut self, record: u64, fact: &JobFact) {
        match fact {
            JobFact::Checkpoint(pointer) => self.complete.push((record, pointer.clone())),
            JobFact::CheckpointNumber(number) => self.numbers.push((record, *number)),
            JobFact::Graph(_) | JobFact::Owner | JobFact::Result(_) | JobFact::Removed => {}
        }
    }

    /// Returns the highest number that was recorded by itself; 0 if there is none.
    pub fn newest_number(&self) -> u64 {
        self.numbers.iter().map(|(_, number)| *number).max().unwrap_or_default()
    }
}

/// The result of replaying a log's records.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Replayed {
    pub(super) state: JobState,
    /// The number of the next record.
    pub(super) next: u64,
    /// The writer with the highest session; `None` if no record can be read.
    pub(super) newest: Option<Writer>,
    pub(super) checkpoints: CheckpointRecords,
}

/// One object of a log: its number, and its record or the reason why it cannot be read.
pub(super) type Numbered = (u64, Result<JobRecord, String>);

/// Derives a job's state from its log's records, which must be in ascending order of their numbers.
pub(super) fn replay(job: JobId, records: &[Numbered]) -> Replayed {
    let next = records.last().map_or(0, |(number, _)| number.saturating_add(1));
    let ghost =
        Replayed { state: JobState::Ghost, next, newest: None, checkpoints: <_>::default() };
    let Some((0, first)) = records.first() else {
        return ghost;
    };
    let graph = match first {
        Ok(record) => match &record.fact {
            JobFact::Graph(graph) if graph.job_id == job => Ok(graph),
            _ => Err(format!("record 0 is not the graph of job {job}")),
        },
        Err(why) => Err(why.clone()),
    };
    let readable = records.iter().filter_map(|(_, record)| record.as_ref().ok());
    let own: Vec<&JobRecord> = readable.filter(|record| record.job == job).collect();
    let damaged: Vec<String> = records
        .iter()
        .skip(1)
        .filter_map(|(_, record)| record.as_ref().err().cloned())
        .chain(graph.as_ref().err().cloned())
        .collect();
    let graph = graph.ok().cloned();
    let removed = own.iter().any(|r| r.fact == JobFact::Removed);
    let result = own.iter().find_map(|r| match &r.fact {
        JobFact::Result(entry) => Some(entry.clone()),
        _ => None,
    });
    let state = match (removed, result, graph) {
        (true, ..) => JobState::Removed,
        (_, Some(entry), _) => JobState::Ended(entry),
        (_, None, Some(graph)) if damaged.is_empty() => JobState::Running(graph),
        (_, None, graph) => JobState::Damaged { graph, why: damaged.join("; ") },
    };
    let newest = own.iter().map(|r| &r.writer).max_by_key(|w| w.session).cloned();
    let mut checkpoints = CheckpointRecords::default();
    for (number, record) in records {
        if let Ok(record) = record
            && record.job == job
        {
            checkpoints.add(*number, &record.fact);
        }
    }
    Replayed { state, next, newest, checkpoints }
}
