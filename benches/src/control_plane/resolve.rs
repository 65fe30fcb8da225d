//! Resolves the tables of a deployment as a task does before it opens: finds every producer of
//! every input.
//!
//! This module must never trust a table: one that is incomplete, or that names no address, fails
//! the benchmark.

use anyhow::{Context, Result, bail};
use gateways::task_executor::{DeployTasks, EdgeProducers};
use model::JobGraph;

/// Looks up the producers of every task of a deployment, one by one; how many there were.
pub(super) fn producers(deployment: &DeployTasks, graph: &JobGraph) -> Result<u64> {
    let mut found = 0;
    for task in &deployment.tasks {
        for edge in graph.inputs_of(task.attempt.vertex) {
            let table = deployment.producers.iter().find(|table| table.edge == edge.id);
            let table = table.with_context(|| format!("no table for edge {}", edge.id.0))?;
            let expected = graph.vertex(edge.from).context("an edge from nowhere")?.parallelism;
            let reachable = walk(table);
            if table.vertex != edge.from || reachable != u64::from(expected) {
                bail!("edge {}: {reachable} of {expected} producers have a place", edge.id.0);
            }
            found += reachable;
        }
    }
    Ok(found)
}

/// Every producing subtask that has an address in the table.
fn walk(table: &EdgeProducers) -> u64 {
    let addresses = u32::try_from(table.addresses.len()).unwrap_or(u32::MAX);
    let with_place = table.subtasks.iter().filter(|(_, address)| *address < addresses);
    with_place.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateways::NodeAddress;
    use gateways::task_executor::TaskDeployment;
    use model::{AllocationId, EdgeId, ExecutionAttemptId, JobId, JobMasterId, JobVertexId};
    use std::sync::Arc;

    fn deployment(subtasks: Vec<(u32, u32)>) -> DeployTasks {
        let task = |vertex| TaskDeployment {
            attempt: ExecutionAttemptId {
                graph: 1,
                vertex: JobVertexId(vertex),
                subtask: 0,
                attempt: 0,
            },
            allocation_id: AllocationId(1),
            restore: Vec::new(),
            ended: false,
        };
        DeployTasks {
            job_id: JobId(1),
            job_master_id: JobMasterId::default(),
            graph: None,
            producers: vec![Arc::new(EdgeProducers {
                edge: EdgeId(0),
                vertex: JobVertexId(1),
                addresses: vec![NodeAddress::of("a", 1)],
                subtasks,
            })],
            tasks: vec![task(1), task(2)],
            checkpoint_dir: None,
            ends_with_checkpoint: false,
        }
    }

    #[test]
    fn every_producer_has_to_be_found() {
        let graph = super::super::graph(JobId(1), 2);
        assert_eq!(producers(&deployment(vec![(0, 0), (0, 0)]), &graph).unwrap(), 2);
        assert!(producers(&deployment(vec![(0, 0)]), &graph).is_err());
        assert!(producers(&deployment(vec![(0, 0), (0, 1)]), &graph).is_err());
    }
}
