//! Leader retrieval: the table of this process's own leaders, the endpoint that serves it to other
//! processes, and the client that asks another process.
//!
//! This module passes on what an election has published; it must never decide who leads.

mod obstacle;
mod remote;
mod table;
#[cfg(test)]
mod tests;

pub use remote::{LeaderNode, RemoteRetrieval, RetrievalSettings};
pub use table::LeaderTable;

use crate::services::{LeaderRetrieval, Running, stops_at_once};
use actix::{Actor, Context, Handler, ResponseFuture};
use gateways::leader_election::{LeaderRetrievalGateway, RequestLeader};
use gateways::{Answer, Ask, RpcService};
use model::ProcessSession;
use platform::{Lane, LaneEnded, Platform};
use std::time::Duration;

/// The endpoint name under which a JobManager process tells others its components' leaders.
pub const ENDPOINT: &str = "leader_retrieval";

/// Maximum time for which a request waits for a change.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Time before the asker's deadline at which an answer is sent.
const TRAVEL: Duration = Duration::from_millis(500);

/// Serves the leaders in the table `leaders` to other processes as [`ENDPOINT`], on the election lane (thread of
/// actors), until the returned handle is stopped or dropped. A request names the leader that its sender knows; if that is still the one, it
/// waits for another for as long as it asks, at most 30 s and until 0.5 s before its deadline. It is answered with the leader of that
/// moment. The endpoint's session is `ProcessSession::default()`, because callers can't know another one yet. If the actor dies of a panic,
/// nobody is told: calls then fail.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start(
    platform: &Platform,
    rpc: &RpcService,
    leaders: LeaderTable,
) -> Result<Running<LeaderRetrievalActor>, LaneEnded> {
    let actor = LeaderRetrievalActor { leaders };
    let addr = platform.lane(Lane::Election).run(|| async move { actor.start() }).await?;
    let endpoint = LeaderRetrievalGateway::endpoint(addr.clone());
    let registration = rpc.serve(ENDPOINT, ProcessSession::default(), endpoint);
    Ok(Running::new(rpc.address_of(ENDPOINT), addr, registration))
}

/// The actor that answers other processes who leads the components of this JobManager process.
#[derive(Debug)]
pub struct LeaderRetrievalActor {
    leaders: LeaderTable,
}

impl Actor for LeaderRetrievalActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
    }
}

impl Handler<Ask<RequestLeader>> for LeaderRetrievalActor {
    type Result = ResponseFuture<Answer<RequestLeader>>;

    fn handle(&mut self, ask: Ask<RequestLeader>, _: &mut Context<Self>) -> Self::Result {
        let RequestLeader { component, known, wait_ms } = ask.body;
        let mut leader = self.leaders.watch(component);
        let patience = ask.caller.deadline.remaining().saturating_sub(TRAVEL);
        let wait = Duration::from_millis(wait_ms).min(WAIT_MAX).min(patience);
        Box::pin(async move {
            // At the end of the wait, or of the table, what is known is the answer.
            let _ = tokio::time::timeout(wait, leader.wait_for(|now| *now != known)).await;
            let now = leader.borrow().clone();
            Ok(now)
        })
    }
}

stops_at_once!(LeaderRetrievalActor);
