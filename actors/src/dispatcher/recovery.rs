//! What a new Dispatcher does with what an earlier one left: jobs that have not ended run again, traces of the
//! others are put in order. A stored job that can't run again has failed, and that is its result: it must
//! never just be gone.

use super::ending::Ending;
use super::leader::Dispatcher;
use actix::Context;
use control::dispatcher::EndStep;
use control::job_graph;
use gateways::job_master::{FailureRecord, JobDetails};
use model::{ContentHash, FailureCause, JobGraph, JobId, JobStatus, ProgramRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::jobs::{Damaged, JobStoreError};

/// Its graph says what it is called: nobody knows any more.
const UNKNOWN_NAME: &str = "(unknown: its stored graph is damaged)";

impl Dispatcher {
    /// Takes over.
    ///
    /// # Errors
    /// The stores can't be read; nothing is known then about the jobs of this cluster.
    pub(super) fn recover(&mut self, ctx: &mut Context<Self>) -> Result<(), JobStoreError> {
        let stored = self.deps.graphs.recover()?;
        let dirty = self.deps.results.dirty()?;
        let dirty: Vec<(JobId, JobStatus)> = dirty.iter().map(|r| (r.job_id, r.status)).collect();
        let ids: Vec<JobId> = stored.graphs.iter().map(|graph| graph.job_id).collect();
        let unreadable: BTreeSet<JobId> = stored.damaged.iter().filter_map(|d| d.job).collect();
        let mut ended = BTreeMap::new();
        for job in ids.iter().chain(&unreadable) {
            if let Some(result) = self.deps.results.get(*job)? {
                ended.insert(*job, result.status);
            }
        }
        let recovery = self.table.recover(&ids, &dirty, |job| ended.get(&job).copied());
        for (job, status) in recovery.clean {
            tracing::info!(%job, %status, "putting the traces of an ended job in order");
            let mut steps = self.table.clean_steps(status);
            // Where it can't be read it stays for people to look at.
            steps.retain(|step| *step != EndStep::RemoveGraph || !unreadable.contains(&job));
            self.clean_up(job, steps, ctx);
        }
        for graph in stored.graphs {
            let job = graph.job_id;
            if !recovery.run.contains(&job) {
                continue;
            }
            if let Err(error) = job_graph::check(&graph) {
                let cause = format!("its stored graph is invalid, it can't run again: {error}");
                let steps = self.table.ended(job, JobStatus::Failed);
                self.can_not_run(Arc::new(graph), cause, steps, ctx);
                continue;
            }
            tracing::info!(%job, name = %graph.name, "job recovered");
            self.run(Arc::new(graph), ctx);
        }
        for damaged in stored.damaged {
            self.recover_damaged(damaged, &ended, ctx);
        }
        Ok(())
    }

    fn recover_damaged(
        &mut self,
        damaged: Damaged,
        ended: &BTreeMap<JobId, JobStatus>,
        ctx: &mut Context<Self>,
    ) {
        let Damaged { name, job, error } = damaged;
        match job {
            Some(job) if ended.contains_key(&job) => {
                tracing::warn!(%job, name, %error, "the damaged graph of an ended job is still stored");
            }
            Some(job) => {
                let cause = format!("its stored graph is damaged, it can't run again: {error}");
                let steps = self.table.unreadable(job);
                self.can_not_run(Arc::new(nameless(job)), cause, steps, ctx);
            }
            None => tracing::error!(name, %error, "what is stored as a graph names no job"),
        }
    }

    /// A stored job has failed before it ran again.
    fn can_not_run(
        &mut self,
        graph: Arc<JobGraph>,
        cause: String,
        steps: Vec<EndStep>,
        ctx: &mut Context<Self>,
    ) {
        let (job, now_ms) = (graph.job_id, self.deps.services.platform.unix_millis());
        tracing::error!(%job, cause, "a stored job has failed");
        let cause = FailureCause::fatal("JobGraphDamaged", cause);
        let failure = FailureRecord {
            at_ms: now_ms,
            task: None,
            resource_id: None,
            cause: cause.clone(),
            concurrent: Vec::new(),
        };
        let details = Box::new(JobDetails {
            graph,
            status: JobStatus::Failed,
            timestamps: BTreeMap::from([(JobStatus::Failed, now_ms)]),
            start_ms: now_ms,
            end_ms: Some(now_ms),
            now_ms,
            vertices: Vec::new(),
            cause: Some(cause),
            failures: vec![failure],
            restarts: 0,
        });
        self.finish(Ending::new(job, details, steps), ctx);
    }
}

/// What stands in for a graph that can't be read.
fn nameless(job_id: JobId) -> JobGraph {
    JobGraph {
        job_id,
        name: UNKNOWN_NAME.to_owned(),
        program: ProgramRef {
            hash: ContentHash([0; 32]),
            name: String::new(),
            size: 0,
            args: Vec::new(),
            env: BTreeMap::new(),
            once: BTreeMap::new(),
            job: None,
        },
        nodes: Vec::new(),
        vertices: Vec::new(),
        edges: Vec::new(),
        bounded: true,
        options: BTreeMap::new(),
        fingerprint: ContentHash([0; 32]),
    }
}
