//! The MetricQueryService: gives out the values of its process's registry, and gives its meters their
//! time.
//!
//! Diagnostics only: it must never change anything that a decision depends on.

#[cfg(test)]
mod tests;

use crate::services::{ProcessServices, Running, stops_at_once};
use actix::{Actor, AsyncContext, Context, Handler};
use gateways::RpcService;
use gateways::metric_query::{MetricQueryGateway, MetricValue, QueryMetrics};
use gateways::{Answer, Ask, EndpointAddress};
use metrics::Registry;
use model::ProcessSession;
use std::sync::Arc;
use std::time::Duration;

/// The endpoint name that a process's MetricQueryService is served under.
pub const ENDPOINT: &str = "metric_query";

/// Interval at which meters are updated.
const TICK: Duration = Duration::from_secs(5);

/// The owner's handle of a running MetricQueryService, which tells other processes the values of this process's
/// metrics. Dropping it ends the service.
#[derive(Debug)]
pub struct MetricQueryHandle {
    /// Address of the MetricQueryService's endpoint.
    pub address: EndpointAddress,
    /// Session of the process, which calls to its MetricQueryService have to name: it refuses others.
    pub session: ProcessSession,
    _running: Running<MetricQuery>,
}

/// Starts the MetricQueryService of this process on the calling lane, and serves it as [`ENDPOINT`]: it answers calls
/// with the values of the process's metrics. It updates the rates of meters every 5 s; once it has ended they stay as they are. If it dies
/// of a panic, nobody is told: calls then fail.
pub fn start(services: &ProcessServices) -> MetricQueryHandle {
    start_with(&services.rpc, services.session, Arc::clone(&services.metrics))
}

fn start_with(
    rpc: &RpcService,
    session: ProcessSession,
    registry: Arc<Registry>,
) -> MetricQueryHandle {
    let actor = MetricQuery { registry }.start();
    let endpoint = MetricQueryGateway::endpoint(actor.clone());
    let address = rpc.address_of(ENDPOINT);
    let registration = rpc.serve(ENDPOINT, session, endpoint);
    let running = Running::new(address.clone(), actor, registration);
    MetricQueryHandle { address, session, _running: running }
}

/// The actor that answers questions about metrics.
#[derive(Debug)]
struct MetricQuery {
    registry: Arc<Registry>,
}

impl Actor for MetricQuery {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        ctx.run_interval(TICK, |service, _| service.registry.tick(TICK));
    }
}

impl Handler<Ask<QueryMetrics>> for MetricQuery {
    type Result = Answer<QueryMetrics>;

    fn handle(&mut self, ask: Ask<QueryMetrics>, _: &mut Self::Context) -> Answer<QueryMetrics> {
        let values = self.registry.snapshot(&ask.body.prefix);
        Ok(values.into_iter().map(|(name, value)| MetricValue { name, value }).collect())
    }
}

stops_at_once!(MetricQuery);
