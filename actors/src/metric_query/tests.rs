//! The MetricQueryService through its gateway.

use super::*;
use crate::testing::session;
use crate::testkit::World;
use gateways::{CallError, FabricError, Remote};

#[tokio::test(flavor = "local", start_paused = true)]
async fn values_are_given_out_by_prefix() {
    let world = World::new(&[]).await;
    world.services.metrics.scope("taskmanager").counter("tasks").add(3);
    world.services.metrics.scope("jobmanager").gauge("slots").set(1.5);
    let handle = start(&world.services);
    let remote: Remote<MetricQueryGateway> =
        world.services.rpc.gateway(&handle.address, handle.session);
    let values = remote.ask(QueryMetrics { prefix: "taskmanager.".into() }).await.unwrap();
    assert_eq!(values, [MetricValue { name: "taskmanager.tasks".into(), value: 3.0 }]);
    let all = remote.ask(QueryMetrics { prefix: String::new() }).await.unwrap();
    assert_eq!(all.len(), 2);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn meters_are_given_their_time() {
    let world = World::new(&[]).await;
    let meter = world.services.metrics.scope("taskmanager").meter("records");
    let handle = start(&world.services);
    let remote: Remote<MetricQueryGateway> =
        world.services.rpc.gateway(&handle.address, handle.session);
    meter.mark(100);
    tokio::time::sleep(2 * TICK).await;
    let values = remote.ask(QueryMetrics { prefix: "taskmanager.records".into() }).await.unwrap();
    let rate = values.iter().find(|value| value.name == "taskmanager.records").unwrap();
    assert!(rate.value > 0.0, "{values:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_sessions_are_fenced() {
    let world = World::new(&[]).await;
    let handle = start(&world.services);
    for wrong in [session(0), session(2)] {
        let remote: Remote<MetricQueryGateway> =
            world.services.rpc.gateway(&handle.address, ProcessSession(wrong));
        let refused = remote.ask(QueryMetrics { prefix: String::new() }).await.unwrap_err();
        assert!(matches!(refused, CallError::Fabric(FabricError::Fenced { .. })), "{refused:?}");
    }
}
