//! The progress that all virtual TaskExecutors of the process have made together, reported to the
//! parent process in lines: `registered N`, `running JOB TASKS PRODUCERS`, `failed WHY`.
//!
//! This module must never report a job as running before the JobMaster has confirmed the RUNNING of
//! each task.

use model::JobId;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Progress of all virtual TaskExecutors of the process.
#[derive(Debug)]
pub(super) struct Tally {
    workers: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    registered: usize,
    jobs: BTreeMap<JobId, JobCounts>,
    failed: bool,
}

#[derive(Debug, Default)]
struct JobCounts {
    running: u64,
    producers: u64,
}

impl Tally {
    /// Starts the tally of that number of TaskExecutors.
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more is registered and its slots are reported.
    pub(super) fn registered(&self) {
        let mut counts = self.counts();
        counts.registered += 1;
        if counts.registered == self.workers {
            tell(&format!("registered {}", self.workers));
        }
    }

    /// Tasks found so many producers.
    pub(super) fn resolved(&self, job: JobId, producers: u64) {
        self.counts().jobs.entry(job).or_default().producers += producers;
    }

    /// The JobMaster has confirmed that so many more tasks of a job with `total` run.
    pub(super) fn running(&self, job: JobId, tasks: u64, total: u64) {
        let mut counts = self.counts();
        let of_job = counts.jobs.entry(job).or_default();
        of_job.running += tasks;
        if tasks > 0 && of_job.running == total {
            tell(&format!("running {job} {} {}", of_job.running, of_job.producers));
        }
    }

    /// Records a failure; only the first is reported.
    pub(super) fn failed(&self, why: &str) {
        if !std::mem::replace(&mut self.counts().failed, true) {
            tell(&format!("failed {}", why.replace('\n', " ")));
        }
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent has gone: so does this process, when its input ends.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
