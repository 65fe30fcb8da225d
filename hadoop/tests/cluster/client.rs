//! Tests of the calls of a client to a ResourceManager that read or change one attempt, container or label.

use super::master::{Running, command};
use super::{Unmanaged, until, yarn};
use hadoop::yarn::messages::{
    ApplicationTimeoutType, SignalContainerCommand, YarnApplicationAttemptState,
    YarnApplicationState,
};
use hadoop::yarn::{Ask, ContainerExit};
use std::time::{Duration, SystemTime};

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn one_attempt_is_reported_and_failed() {
    let application = Unmanaged::submit().await;
    let (yarn, id) = (&application.yarn, application.id);
    let attempt = yarn.attempts(id).await.unwrap()[0].application_attempt_id.unwrap();
    let report = yarn.attempt(attempt).await.unwrap();
    assert_eq!(report.application_attempt_id, Some(attempt));
    assert_eq!(report.yarn_application_attempt_state(), YarnApplicationAttemptState::Launched);
    yarn.fail_attempt(attempt).await.unwrap();
    let mut reports = yarn.watch(id);
    let mut last = None;
    while let Some(report) = reports.next().await.unwrap() {
        last = Some(report.state());
    }
    // It was allowed one attempt.
    assert_eq!(last, Some(YarnApplicationState::Failed));
    let none = hadoop::yarn::messages::ApplicationAttemptId { attempt_id: Some(99), ..attempt };
    let error = yarn.attempt(none).await.unwrap_err();
    assert!(error.is_remote("ApplicationAttemptNotFoundException"), "{error:?}");
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn one_container_is_reported_and_signalled() {
    let mut master = Running::register().await;
    let container = master.allocated(Ask::new(1, super::size(64))).await;
    let id = container.id.unwrap();
    master.start(&container, command("exec sleep 600")).await;
    let yarn = master.application.yarn.clone();
    // The ResourceManager hears of the start with the node's next heartbeat.
    let report = until("the container runs", async || {
        let report = yarn.container(id).await.unwrap();
        (report.node_http_address.is_some() && report.creation_time() > 0).then_some(report)
    });
    let report = report.await;
    assert_eq!((report.container_id, &report.node_id), (Some(id), &container.node_id));
    let running = async |id| {
        let node = container.node_id.clone().unwrap();
        let token = master.yarn.nm_token(&node).unwrap();
        let status = master.nodes.status(&node, &token, id).await.unwrap();
        let state = status.container_sub_state();
        (state == hadoop::yarn::messages::ContainerSubState::Running).then_some(())
    };
    until("the program runs", async || running(id).await).await;
    yarn.signal(id, SignalContainerCommand::ForcefulShutdown).await.unwrap();
    let (exit, diagnostics) = master.end_of(id).await;
    assert_eq!(exit, ContainerExit::Code(137), "{diagnostics}");
    let error = yarn.container(id).await.unwrap_err();
    assert!(error.is_remote("ContainerNotFoundException"), "{error:?}");
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn an_application_ends_when_its_time_is_over() {
    let application = Unmanaged::submit().await;
    let (yarn, id) = (&application.yarn, application.id);
    #[expect(clippy::disallowed_methods, reason = "servers compare it with their own clocks")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let at = |after: u64| u64::try_from((now + Duration::from_secs(after)).as_millis()).unwrap();
    let lifetime = ApplicationTimeoutType::Lifetime;
    yarn.set_timeout(id, lifetime, at(3600)).await.unwrap();
    let report = yarn.report(id).await.unwrap();
    let left = report.app_timeouts[0].application_timeout.clone().unwrap();
    assert_eq!(left.application_timeout_type(), lifetime);
    assert!((3500..=3600).contains(&left.remaining_time()), "{left:?}");
    let past = yarn.set_timeout(id, lifetime, at(0) - 60_000).await;
    assert!(past.is_err());
    yarn.set_timeout(id, lifetime, at(3)).await.unwrap();
    let mut reports = yarn.watch(id);
    let mut last = None;
    while let Some(report) = reports.next().await.unwrap() {
        last = Some(report);
    }
    let last = last.unwrap();
    assert_eq!(last.state(), YarnApplicationState::Killed);
    assert!(last.diagnostics().contains("lifetime"), "{}", last.diagnostics());
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn labels_are_asked_for_by_node_and_by_name() {
    let yarn = yarn().await;
    let known = yarn.node_labels().await.unwrap();
    let names: Vec<_> = known.iter().map(|label| label.name().to_owned()).collect();
    for (node, labels) in yarn.nodes_to_labels().await.unwrap() {
        assert!(labels.iter().all(|label| names.contains(label)), "{node}: {labels:?}");
    }
    assert!(yarn.labels_to_nodes(&["nobody-has-this"]).await.unwrap().is_empty());
}
