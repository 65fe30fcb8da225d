//! Calls between processes whose lanes are threads, as in production.

use crate::fixture::*;
use crate::transports::tcp_service;
use actix::Actor;
use futures::future::{join, join_all, poll_immediate};
use gateways::{FabricError, Registration, Remote, RpcService};
use platform::Lane;
use std::{sync::mpsc, time::Duration};

/// Serves a new [`TestActor`] on a lane, under its name.
async fn serve_on(service: &RpcService, lane: Lane) -> Registration {
    let on = service.clone();
    let serve = move || async move {
        on.serve(lane.name(), session(1), TestGateway::endpoint(TestActor::default().start()))
    };
    service.platform().lane(lane).run(serve).await.unwrap()
}

fn remote(client: &RpcService, server: &RpcService, lane: Lane) -> Remote<TestGateway> {
    client.gateway(&server.address_of(lane.name()), session(1))
}

#[test]
fn bursts_and_single_calls_of_a_lane_arrive_in_order() {
    real(|| async {
        let (server, client) = (tcp_service(None).await, tcp_service(None).await);
        let _served = serve_on(&server, Lane::Work).await;
        let remote = remote(&client, &server, Lane::Work);
        let bursts = move || async move {
            let mut counts = Vec::new();
            for burst in [1, 2, 1, 700, 1, 64, 3, 1_500, 1, 1, 400] {
                let asks = join_all((0..burst).map(|_| remote.ask(Count {})));
                counts.extend(asks.await.into_iter().map(Result::unwrap));
            }
            // Long bodies go in parts, between the others.
            let long = remote.ask(Echo { bytes: vec![7; 3 << 20] });
            let (long, behind) = join(long, join_all((0..500).map(|_| remote.ask(Count {})))).await;
            counts.extend(behind.into_iter().map(Result::unwrap));
            (counts, long.unwrap().len())
        };
        let (counts, long) = client.platform().lane(Lane::Work).run(bursts).await.unwrap();
        assert_eq!(counts, (0..counts.len() as u64).collect::<Vec<_>>());
        assert_eq!((counts.len(), long), (3_174, 3 << 20));
    });
}

#[test]
fn a_beat_passes_work_lanes_that_do_not_get_on() {
    real(|| async {
        let (server, client) = (tcp_service(None).await, tcp_service(None).await);
        let _beats = serve_on(&server, Lane::Heartbeat).await;
        let _work = serve_on(&server, Lane::Work).await;
        let (work, beat) =
            (remote(&client, &server, Lane::Work), remote(&client, &server, Lane::Heartbeat));
        assert_eq!(beat.ask(Count {}).await, Ok(0), "connected");
        let mut held = Vec::new();
        for (service, asks) in [(&server, false), (&client, true)] {
            let (go_on, wait) = mpsc::channel::<()>();
            let (started, begun) = tokio::sync::oneshot::channel();
            let work = work.clone();
            service.platform().lane(Lane::Work).spawn_with(move || async move {
                // Frames that this lane is about to write, when its thread stops.
                let calls = join_all((0..9).map(|_| work.ask(Count {})));
                let calls = if asks { Some(calls) } else { None };
                if let Some(calls) = calls {
                    assert_eq!(poll_immediate(calls).await, None);
                }
                started.send(()).unwrap();
                let _ = wait.recv();
            });
            begun.await.unwrap();
            held.push(go_on);
        }
        let asker = beat.clone();
        let beats = move || async move { asker.ask(Count {}).await };
        let answer = client.platform().lane(Lane::Heartbeat).run(beats).await;
        assert_eq!(answer, Ok(Ok(1)));
        drop(held);
        assert!(work.ask(Count {}).await.is_ok(), "the lanes go on");
    });
}

#[test]
fn calls_that_wait_for_a_stalled_lane_end_at_their_deadline_and_are_not_run() {
    real(|| async {
        let (server, client) = (tcp_service(None).await, tcp_service(None).await);
        let _served = serve_on(&server, Lane::Work).await;
        let remote = remote(&client, &server, Lane::Work);
        assert_eq!(remote.ask(Count {}).await, Ok(0), "connected");
        let (go_on, wait) = mpsc::channel::<()>();
        let (started, begun) = tokio::sync::oneshot::channel();
        server.platform().lane(Lane::Work).spawn_with(move || async move {
            started.send(()).unwrap();
            let _ = wait.recv();
        });
        begun.await.unwrap();
        let asks = (0..50).map(|_| remote.ask_within(Count {}, Duration::from_millis(200)));
        for answer in join_all(asks).await {
            fabric_error!(answer, FabricError::DeadlineExceeded { .. });
        }
        drop(go_on);
        assert_eq!(remote.ask(Count {}).await, Ok(1), "none of them was run");
    });
}
