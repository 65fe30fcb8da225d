//! The jobs whose checkpoints must stay, which the Dispatcher is asked for before a snapshot is deleted or given to a job.

use super::leader::Dispatcher;
use actix::{Addr, Context, Handler, MessageResult};
use model::JobId;
use std::collections::BTreeSet;

/// The jobs of a Dispatcher that may still read their snapshots, as they were when the Dispatcher answered.
#[derive(Debug)]
pub(super) struct Needs {
    /// Jobs whose end is not recorded: another leader may run them again.
    running: BTreeSet<JobId>,
    /// False while the jobs of an earlier leader are read: there may be more jobs than in `running`.
    complete: bool,
}

impl Needs {
    /// Returns true if the job runs here, or will run, or may be run again by another leader.
    pub(super) fn runs(&self, job: JobId) -> bool {
        self.running.contains(&job)
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
        let running = self.table.jobs().map(|(job, _)| job).filter(|job| !has_ended(job));
        MessageResult(Needs {
            running: running.collect(),
            complete: self.table.recovery_progress().is_none(),
        })
    }
}
