//! Node labels: what clients are told of them, and containers on nodes that have one. Labels are given by Hadoop's
//! own command, because this library has no administrator's protocol.

use super::master::{Running, command};
use super::{hadoops_own, size, until, yarn};
use hadoop::yarn::messages::{
    GetLabelsToNodesRequest, GetLabelsToNodesResponse, GetNodesToLabelsRequest,
    GetNodesToLabelsResponse, NodeId, NodeState,
};
use hadoop::yarn::{Ask, ContainerExit, MasterEvent};

/// The label that the cluster's queues know: all of it is for `default`.
const LABEL: &str = "gpu";

fn administrate(args: &[&str]) {
    let told = hadoops_own("yarn").arg("rmadmin").args(args).output().unwrap();
    let done = told.status.success();
    // A test that fails says why by itself.
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(done || std::thread::panicking(), "{args:?}: {said}");
}

/// A node with the label, which nobody else has. Node and cluster are without it again when this is dropped.
struct Labelled(NodeId);

impl Labelled {
    fn new(node: NodeId, exclusive: bool) -> Self {
        administrate(&["-addToClusterNodeLabels", &format!("{LABEL}(exclusive={exclusive})")]);
        let labelled = Self(node);
        administrate(&["-replaceLabelsOnNode", &format!("{}={LABEL}", labelled.0)]);
        labelled
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        administrate(&["-replaceLabelsOnNode", &format!("{}=", self.0)]);
        administrate(&["-removeFromClusterNodeLabels", LABEL]);
    }
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_label_is_told_of_while_it_is_there() {
    let yarn = yarn().await;
    assert!(yarn.node_labels().await.unwrap().is_empty());
    let nodes = yarn.nodes(&[NodeState::Running]).await.unwrap();
    let node = nodes[0].node_id.clone().unwrap();
    let labelled = Labelled::new(node.clone(), false);

    let labels = yarn.node_labels().await.unwrap();
    let known: Vec<_> = labels.iter().map(|label| (label.name(), label.is_exclusive())).collect();
    assert_eq!(known, [(LABEL, false)]);
    let of_nodes: GetNodesToLabelsResponse =
        yarn.call("getNodeToLabels", &GetNodesToLabelsRequest {}).await.unwrap();
    let [of_node] = &of_nodes.node_to_labels[..] else { panic!("{of_nodes:?}") };
    assert_eq!(of_node.node_id.as_ref(), Some(&node));
    assert_eq!(of_node.node_labels, [LABEL]);
    let request = GetLabelsToNodesRequest { node_labels: vec![LABEL.to_owned()] };
    let of_labels: GetLabelsToNodesResponse =
        yarn.call("getLabelsToNodes", &request).await.unwrap();
    let [of_label] = &of_labels.labels_to_nodes[..] else { panic!("{of_labels:?}") };
    assert_eq!(of_label.node_id, std::slice::from_ref(&node));
    // Reports of nodes have it too.
    for report in yarn.nodes(&[NodeState::Running]).await.unwrap() {
        let expected = if report.node_id.as_ref() == Some(&node) { &[LABEL][..] } else { &[] };
        assert_eq!(report.node_labels, expected);
    }

    drop(labelled);
    assert!(yarn.node_labels().await.unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn containers_with_a_label_are_where_it_is_and_others_are_not() {
    let mut master = Running::register().await;
    let nodes = master.application.yarn.nodes(&[NodeState::Running]).await.unwrap();
    // Not the one that the scheduler would take by itself: with a label each is tried.
    for node in nodes {
        let node = node.node_id.unwrap();
        let labelled = Labelled::new(node.clone(), true);
        for label in [Some(LABEL.to_owned()), None] {
            for _ in 0..3 {
                let ask = Ask { label: label.clone(), ..Ask::new(1, size(64)) };
                let container = master.allocated(ask).await;
                assert_eq!(container.node_id.as_ref() == Some(&node), label.is_some(), "{label:?}");
                master.start(&container, command("true")).await;
                let (exit, diagnostics) = master.end_of(container.id.unwrap()).await;
                assert_eq!(exit, ContainerExit::Success, "{diagnostics}");
            }
        }
        drop(labelled);
    }
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_label_that_is_unknown_or_not_for_the_queue_is_refused() {
    let mut master = Running::register_in("small").await;
    let node = master.application.yarn.nodes(&[NodeState::Running]).await.unwrap();
    let labelled = Labelled::new(node[0].node_id.clone().unwrap(), true);
    for label in ["none", LABEL] {
        let ask = Ask { label: Some(label.to_owned()), ..Ask::new(1, size(64)) };
        let wanted = master.yarn.request(ask).unwrap();
        let (requests, reason) = loop {
            if let MasterEvent::Refused { requests, reason } = master.event().await {
                break (requests, reason);
            }
        };
        assert_eq!(requests, [wanted], "{reason}");
        assert!(reason.contains(label), "{reason}");
    }
    drop(labelled);
    // What has no label is not harmed.
    let container = master.allocated(Ask::new(1, size(64))).await;
    master.yarn.release(container.id.unwrap());
    until("the end of the container", async || {
        let attempt = container.id.unwrap().app_attempt_id.unwrap();
        let living = master.application.yarn.containers(attempt).await.unwrap();
        living.is_empty().then_some(())
    })
    .await;
    master.finish().await;
}
