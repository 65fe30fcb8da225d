//! A session on a cluster of four nodes, as jobs of different width come and go.

use super::application::{Application, WITHIN, run_in};
use super::common::{eventually, expected_counts, output_lines, repository_text};
use hadoop::yarn::messages::NodeState;
use std::collections::BTreeSet;

#[test]
#[ignore = "needs a YARN of `cargo xtask yarn up --nodes 4`"]
fn a_session_grows_and_shrinks_with_its_jobs() {
    let quick = ("resourcemanager.taskmanager-timeout", "3 s");
    let session = Application::session(&[quick, ("yarn.containers.vcores", "1")]);
    let client = session.client();
    let workers = || session.block_on(client.task_managers()).unwrap().taskmanagers;
    let busy_nodes = || {
        let nodes = session.block_on(session.yarn.nodes(&[NodeState::Running])).unwrap();
        nodes.iter().filter(|node| node.num_containers() > 0).count()
    };
    let (text, folder) = (repository_text(), tempfile::tempdir().unwrap());
    let mut earlier = BTreeSet::new();
    for (round, (parallelism, most)) in [(16, 8), (4, 2), (16, 8)].into_iter().enumerate() {
        let out = folder.path().join(round.to_string());
        let args = ["--input", text.to_str().unwrap(), "--output", out.to_str().unwrap()];
        run_in(&client, parallelism, "word_count", &args);
        assert_eq!(output_lines(&out), expected_counts(&text), "parallelism {parallelism}");
        let now = workers();
        assert_eq!(now.len(), most, "two slots each");
        if parallelism == 16 {
            assert_eq!(busy_nodes(), 4);
        }
        let ids: BTreeSet<String> = now.into_iter().map(|worker| worker.id).collect();
        assert!(ids.is_disjoint(&earlier), "containers are asked for again");
        earlier.extend(ids);
        eventually(WITHIN, "idle containers are let go", || {
            let left = session.processes().iter().any(|(_, c)| c.contains("taskmanager"));
            (workers().is_empty() && !left).then_some(())
        });
    }
    // The ResourceManager hears of the ends with the nodes' next beats.
    eventually(WITHIN, "the JobManager's node alone has a container", || {
        (busy_nodes() == 1).then_some(())
    });
    session.block_on(client.shut_down_cluster()).unwrap();
    session.has_succeeded();
    session.is_gone();
}
