//! Jobs that are bound to their attached client: takes in the beats and cancels deserted jobs. The
//! decision when a job counts as deserted is made in `control::dispatcher`.

use super::leader::Dispatcher;
use actix::{AsyncContext, Context, Handler};
use conf::execution;
use gateways::dispatcher::ClientHeartbeat;
use gateways::job_master::Cancel;
use gateways::{Answer, Ask, Deadline};
use model::{JobGraph, JobId};
use std::time::Duration;

/// Maximum time for a deserted job's JobMaster to accept the cancellation.
const CANCEL_WITHIN: Duration = Duration::from_secs(30);

impl Dispatcher {
    /// Binds a job that begins to run to its client, if it was submitted so. `options` are the job's over the
    /// cluster's.
    pub(super) fn bind_client(
        &mut self,
        graph: &JobGraph,
        options: &conf::Options,
        ctx: &mut Context<Self>,
    ) {
        // Whether a client is attached is said by the job alone, not by its cluster's configuration.
        if graph.options.contains_key(execution::SHUTDOWN_ON_ATTACHED_EXIT.key())
            && options.get(&execution::SHUTDOWN_ON_ATTACHED_EXIT)
        {
            let timeout = options.get(&execution::CLIENT_HEARTBEAT_TIMEOUT);
            self.client_beats(graph.job_id, timeout, ctx);
        }
    }

    fn client_beats(&mut self, job: JobId, timeout: Duration, ctx: &mut Context<Self>) {
        let now = self.deps.services.platform.now();
        self.clients.beat(job, now, timeout);
        self.client_gone = false;
        self.await_clients(now, ctx);
    }

    /// Looks again when the next job's time is over.
    fn await_clients(&mut self, now: Duration, ctx: &mut Context<Self>) {
        if let Some(timer) = self.client_timer.take() {
            ctx.cancel_future(timer);
        }
        let next = self.clients.next();
        self.client_timer = next.map(|next| {
            ctx.run_later(next.saturating_sub(now), |actor, ctx| {
                let now = actor.deps.services.platform.now();
                for job in actor.clients.deserted(now) {
                    actor.client_gone = true;
                    actor.cancel_deserted(job);
                }
                actor.await_clients(now, ctx);
            })
        });
    }

    fn cancel_deserted(&self, job: JobId) {
        // It may have ended since.
        let Some(asked) = self.asked(job) else { return };
        tracing::warn!(%job, "the client that the job is bound to is gone: the job is cancelled");
        actix::spawn(async move {
            if let Err(error) = asked.ask(Cancel {}, Deadline::after(CANCEL_WITHIN)).await {
                tracing::warn!(%job, %error, "a job without its client could not be cancelled");
            }
        });
    }
}

impl Handler<Ask<ClientHeartbeat>> for Dispatcher {
    type Result = Answer<ClientHeartbeat>;

    fn handle(&mut self, ask: Ask<ClientHeartbeat>, ctx: &mut Context<Self>) -> Self::Result {
        let ClientHeartbeat { job_id, timeout_ms } = ask.body;
        if self.table.phase(job_id).is_none() {
            let status = self.ended_result(job_id)?.status;
            return Err(gateways::dispatcher::JobError::Terminated { job: job_id, status });
        }
        self.client_beats(job_id, Duration::from_millis(timeout_ms), ctx);
        Ok(())
    }
}
