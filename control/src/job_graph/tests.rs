use super::*;
use model::ResourceProfile;
use model::testing::{edge, graph, pair, vertex};
use proptest::prelude::*;

#[test]
fn a_sound_graph_passes() {
    assert_eq!(check(&pair(3, 5, ShipStrategy::Hash)), Ok(()));
    assert_eq!(check(&pair(3, 3, ShipStrategy::Forward)), Ok(()));
}

#[test]
fn each_fault_is_named() {
    assert_eq!(check(&graph(vec![], vec![])), Err(GraphError::Empty));
    let mut long = pair(1, 1, ShipStrategy::Hash);
    long.name = "x".repeat(1_025);
    let error = check(&long).unwrap_err();
    assert_eq!(error.to_string(), "it has 1025 bytes in its name, at most 1024 are allowed");
    let mut long = pair(1, 1, ShipStrategy::Hash);
    long.nodes[0].name = "x".repeat(1_025);
    let error = check(&long).unwrap_err().to_string();
    assert_eq!(error, "it has 1025 bytes in the name of an operator, at most 1024 are allowed");
    assert!(matches!(
        check(&pair(0, 1, ShipStrategy::Hash)),
        Err(GraphError::Parallelism { parallelism: 0, .. })
    ));
    assert_eq!(
        check(&pair(3, 5, ShipStrategy::Forward)),
        Err(GraphError::Forward { edge: 0, from: 3, to: 5 })
    );
    let mut backwards = pair(1, 1, ShipStrategy::Hash);
    backwards.vertices.reverse();
    assert_eq!(check(&backwards), Err(GraphError::EdgeOrder(0)));
    let mut dangling = pair(1, 1, ShipStrategy::Hash);
    dangling.edges[0].to = JobVertexId(9);
    assert_eq!(check(&dangling), Err(GraphError::EdgeOrder(0)));
    let mut twice = pair(1, 1, ShipStrategy::Hash);
    twice.vertices[1].id = twice.vertices[0].id;
    assert!(matches!(check(&twice), Err(GraphError::Duplicate(_))));
    let mut shared = pair(1, 1, ShipStrategy::Hash);
    shared.vertices[1].nodes = shared.vertices[0].nodes.clone();
    assert_eq!(check(&shared), Err(GraphError::Operators("v2".into())));
    let mut groups = pair(1, 1, ShipStrategy::Hash);
    groups.vertices[0].max_parallelism = 32_768;
    assert_eq!(check(&groups), Ok(()));
    groups.vertices[0].max_parallelism = 32_769;
    let error = check(&groups).unwrap_err();
    assert_eq!(error.to_string(), "it has 32769 key groups in a vertex, at most 32768 are allowed");
    let huge: Vec<JobVertex> = (0..40).map(|i| vertex(i, 32_000)).collect();
    let error = check(&graph(huge, vec![])).unwrap_err();
    assert_eq!(error.to_string(), "it has 1280000 subtasks, at most 1000000 are allowed");
}

#[test]
fn vertices_without_resources_are_named_where_others_have_some() {
    let mut partial = pair(1, 1, ShipStrategy::Hash);
    assert_eq!(partial_resources(&partial), Vec::<String>::new());
    partial.vertices[0].resources =
        Some(ResourceProfile { cpu_millis: 1, ..ResourceProfile::default() });
    assert_eq!(partial_resources(&partial), ["v2"]);
    partial.vertices[1].resources = Some(ResourceProfile::default());
    assert_eq!(partial_resources(&partial), Vec::<String>::new());
}

proptest! {
    /// Whatever a client sends, the check ends without a panic, and what passes can be built upon.
    #[test]
    fn what_passes_can_be_built_upon(
        vertices in prop::collection::vec((0u32..6, 0u32..5), 0..6),
        edges in prop::collection::vec((0u32..6, 0u32..6, 0u32..6, 0usize..4), 0..6),
    ) {
        let ships = [ShipStrategy::Forward, ShipStrategy::Hash, ShipStrategy::Rebalance, ShipStrategy::Broadcast];
        let graph = graph(
            vertices.iter().map(|(id, p)| vertex(*id, *p)).collect(),
            edges.iter().map(|(id, from, to, ship)| edge(*id, *from, *to, ships[*ship])).collect(),
        );
        if check(&graph).is_ok() {
            let total = graph.total_subtasks();
            let exec = crate::execution_graph::ExecutionGraph::new(std::sync::Arc::new(graph), 1, 1);
            let regions = crate::scheduler::Regions::of(&exec);
            let counted: usize = regions.iter().map(|(_, r)| r.tasks.len()).sum();
            prop_assert_eq!(counted as u64, total);
        }
    }
}
