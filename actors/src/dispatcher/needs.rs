//! The jobs whose checkpoints must stay, which the Dispatcher is asked for before a snapshot is deleted or given to a job.

use super::leader::Dispatcher;
use actix::{Addr, Context, Handler, MessageResult};
use model::JobId;
use std::collections::BTreeSet;
use storage::jobs::OpenJobLog;
use storage::state_reader::StateReader;

/// The jobs of a Dispatcher that may still read their snapshots, as they were when the Dispatcher answered.
#[derive(Debug)]
pub(super) struct Needs {
    /// Jobs whose end is not recorded: another leader may run them again.
    running: BTreeSet<JobId>,
    /// Jobs that were started from a snapshot and its path or URI; the log tells whether the job has a checkpoint of its own. No
    /// log: the graph is being stored.
    restored: Vec<(JobId, String, Option<OpenJobLog>)>,
    /// False while the jobs of an earlier leader are read: there may be more jobs than in `running`.
    complete: bool,
}

impl Needs {
    /// Returns true if the job runs here, or will run, or may be run again by another leader.
    pub(super) fn runs(&self, job: JobId) -> bool {
        self.running.contains(&job)
    }

    /// Returns a job that runs here, was started from the snapshot at `uri`, and has no complete checkpoint of its own: it reads
    /// the snapshot, also after a failure. `None` if there is none but perhaps `asking`, the job for which this is asked.
    pub(super) async fn restores_from(
        &self,
        reader: &StateReader,
        uri: &str,
        asking: Option<JobId>,
    ) -> Option<JobId> {
        let place = reader.place(uri).await;
        for (job, from, log) in self.restored.iter().filter(|(job, ..)| Some(*job) != asking) {
            if reader.place(from).await != place {
                continue;
            }
            let has_own = match log {
                Some(log) => !log.checkpoints().await.is_empty(),
                None => false,
            };
            if !has_own {
                return Some(*job);
            }
        }
        None
    }

    /// Returns true if no job of an earlier leader is still unknown.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Asks a Dispatcher which jobs it runs; `None` if it has stopped.
pub(super) async fn needs(dispatcher: &Addr<Dispatcher>) -> Option<Needs> {
    dispatcher.send(AskNeeds).await.ok()
}

#[derive(actix::Message)]
#[rtype(result = "Needs")]
struct AskNeeds;

impl Handler<AskNeeds> for Dispatcher {
    type Result = MessageResult<AskNeeds>;

    fn handle(&mut self, _: AskNeeds, _: &mut Context<Self>) -> Self::Result {
        let has_ended =
            |job: &JobId| self.jobs.get(job).is_some_and(|known| known.end.borrow().is_some());
        let running_here =
            self.jobs.iter().filter(|(job, _)| !has_ended(job)).filter_map(|(job, known)| {
                Some((*job, known.restored_from.clone()?, Some(known.log.clone())))
            });
        let persisting = self.persisting.iter().filter_map(|(job, (graph, _))| {
            let options = self.merged(&graph.options).ok()?;
            Some((*job, options.get(&conf::state_recovery::PATH)?, None))
        });
        let restored = running_here.chain(persisting).collect();
        let running = self.table.jobs().map(|(job, _)| job).filter(|job| !has_ended(job));
        MessageResult(Needs {
            running: running.collect(),
            restored,
            complete: self.table.recovery_progress().is_none(),
        })
    }
}
