//! The control plane under load: virtual TaskExecutors in a process of their own, and the job they are
//! given.
//!
//! A virtual TaskExecutor is everything that the JobManager can see of a real one: a process identity with
//! a port and a connection of its own, the real messages in both directions, and the decisions of
//! `control::task_executor`. What it must never do is run a program: its host takes tasks, looks up
//! where their producers are, and reports them as a real one does.

mod calls;
mod link;
mod resolve;
mod tally;
mod waiting;
mod worker;
mod workers;

pub use waiting::{Queue, Submissions};
pub use workers::{Workers, WorkersRole};

use anyhow::{Context, Result};
use gateways::leader_election::{
    Component, LeaderInformation, LeaderRetrievalGateway, RequestLeader,
};
use gateways::{EndpointAddress, NodeAddress, RpcOptions, RpcService};
use model::{ClusterId, JobGraph, JobId, ProcessSession, ShipStrategy, testing::pair};
use platform::handshake::{Credentials, Identity, Secret};
use std::path::Path;
use std::time::Duration;

/// The id of the cluster in all benchmarks of the control plane; the JobManager must have the same.
pub const CLUSTER_ID: &str = "control-plane-benchmark";
/// Maximum time that one question for a leader waits.
const LEADER_WAIT: Duration = Duration::from_secs(10);

/// Returns the RPC settings of a process that belongs to the cluster [`CLUSTER_ID`] with the secret in this file, and does not listen.
///
/// # Errors
/// The file cannot be read. A wrong secret shows only when a call is refused.
pub fn rpc_options(secret_file: &Path) -> Result<RpcOptions> {
    let secret = std::fs::read_to_string(secret_file)
        .with_context(|| format!("reading {}", secret_file.display()))?;
    Ok(RpcOptions {
        credentials: Credentials {
            cluster: ClusterId::new(CLUSTER_ID),
            identity: Identity::Cluster,
            secret: Secret::new(secret.trim().as_bytes()),
        },
        ..RpcOptions::in_process()
    })
}

/// Asks the JobManager at `node` for the leader of a component, waiting up to 10 s for one.
///
/// # Errors
/// The JobManager does not answer within 20 s, or answers after 10 s that nobody leads the component.
pub async fn leader_of(
    rpc: &RpcService,
    node: &NodeAddress,
    component: Component,
) -> Result<LeaderInformation> {
    let address = EndpointAddress::new(node.clone(), "leader_retrieval");
    let retrieval = rpc.gateway::<LeaderRetrievalGateway>(&address, ProcessSession::default());
    let wait_ms = u64::try_from(LEADER_WAIT.as_millis())?;
    let question = RequestLeader { component, known: None, wait_ms };
    let leader = retrieval.ask_within(question, LEADER_WAIT * 2).await?;
    leader.with_context(|| format!("nobody leads the {component}"))
}

/// Makes a graph of a source and a sink over a hash edge, `parallelism` subtasks each, in one slot
/// sharing group. It has no coordinators, so that no program has to be run on the JobManager's
/// side.
pub fn graph(job_id: JobId, parallelism: u32) -> JobGraph {
    let mut graph = pair(parallelism, parallelism, ShipStrategy::Hash);
    for vertex in &mut graph.vertices {
        vertex.max_parallelism = 1 << 15;
    }
    let name = format!("all to all, {parallelism} x 2");
    JobGraph { job_id, name, bounded: false, ..graph }
}
