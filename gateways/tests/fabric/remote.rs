//! Calls between processes, over pipes and on a paused clock.

use crate::fixture::*;
use actix::Actor;
use futures::future::join_all;
use gateways::{CallError, Executed, FabricError, Principal, Remote, RpcOptions, TraceContext};
use model::Fence as _;
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn a_remote_call_looks_like_a_local_one() {
    with_pair(async |pair| {
        let bytes = pair.remote.ask(Echo { bytes: vec![7; 1000] }).await.unwrap();
        assert_eq!(bytes.as_ref(), [7; 1000]);
        let refused = pair.remote.ask(Refuse { why: "no".into() }).await;
        assert_eq!(refused, Err(CallError::Refused(Refusal { why: "no".into() })));
        assert_eq!(pair.remote.ask(WhoAmI {}).await, Ok(Principal::Cluster));
    });
}

#[test]
fn calls_carry_the_trace_of_their_gateway_or_else_the_current_one() {
    const ONE: TraceContext = TraceContext { trace: 1, span: 10 };
    const TWO: TraceContext = TraceContext { trace: 2, span: 20 };
    with_pair(async |pair| {
        let own = pair.server.gateway(&pair.server.address_of("test"), session(1));
        for remote in [pair.remote, own] {
            let asked = |remote: &Remote<TestGateway>| {
                let remote = remote.clone();
                async move { remote.ask(WhichTrace {}).await.unwrap() }
            };
            assert_eq!(remote.ask(WhichTrace {}).await, Ok(TraceContext::NONE));
            assert_eq!(ONE.carry(remote.ask(WhichTrace {})).await, Ok(ONE));
            // A future that is made in a turn and polled after it.
            let turn = ONE.enter();
            let later = asked(&remote);
            drop(turn);
            assert_eq!(later.await, ONE);
            // A gateway with a trace of its own keeps it, and so do its clones.
            let of_two = remote.with_trace(TWO).with_session(session(3).session());
            assert_eq!(ONE.carry(of_two.ask(WhichTrace {})).await, Ok(TWO));
            assert_eq!(ONE.carry(asked(&of_two)).await, TWO);
            // One that was made in a turn and is kept belongs to none.
            let turn = ONE.enter();
            let kept = remote.with_session(session(3).session());
            drop(turn);
            assert_eq!(TWO.carry(kept.ask(WhichTrace {})).await, Ok(TWO));
        }
    });
}

#[test]
fn calls_told_or_asked_at_once_arrive_in_order_over_one_connection() {
    with_pair(async |pair| {
        let answers = join_all((0..2_000).map(|_| pair.remote.ask(Count {}))).await;
        let counts: Vec<u64> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(counts, (0..2_000).collect::<Vec<_>>());
        for _ in 0..100 {
            pair.remote.tell(Count {});
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(pair.remote.ask(Count {}).await, Ok(2_100));
    });
}

#[test]
fn both_ends_call_over_the_connection_that_one_made() {
    with_pair(async |pair| {
        pair.remote.ask(Count {}).await.unwrap();
        let _served = serve(&pair.client);
        let back = pair.server.gateway::<TestGateway>(&pair.client.address_of("test"), session(1));
        assert_eq!(back.ask(Count {}).await, Ok(0));
        assert_eq!((pair.server.connections(), pair.client.connections()), (1, 1));
    });
}

#[test]
fn stale_and_future_callers_are_fenced_remotely() {
    with_pair(async |pair| check_fences(&pair).await);
}

#[test]
fn a_panicking_handler_is_answered_remotely_and_its_endpoint_is_gone() {
    with_pair(async |pair| {
        // Queued behind the one that panics: answered too, never swallowed.
        let panics = pair.remote.ask(Panic {});
        let behind = pair.remote.ask(Count {});
        let (panicked, behind) = futures::join!(panics, behind);
        fabric_error!(panicked, FabricError::HandlerPanicked { .. });
        assert!(behind.is_err());
        fabric_error!(pair.remote.ask(Count {}).await, FabricError::NoSuchEndpoint { .. });
        pair.registration.died().await;
        let panicked = {
            let _again = serve(&pair.server);
            pair.remote.ask(PanicLater {}).await
        };
        fabric_error!(panicked, FabricError::HandlerPanicked { .. });
    });
}

#[test]
fn a_full_mailbox_is_overloaded_remotely_at_once() {
    simulated(|world| async move {
        let options = RpcOptions { mailbox_max: 4, ..options("a") };
        let server = world.service_with("a", options).await;
        let pair = Pair::of(server, world.service("b").await);
        pair.remote.tell(Block { ms: 1_000 });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let answers = join_all((0..10).map(|_| pair.remote.ask(Count {}))).await;
        let refused: Vec<_> = answers.iter().filter_map(|a| a.as_ref().err()).collect();
        assert_eq!(refused.len(), 6);
        for error in refused {
            let error = error.fabric().unwrap();
            assert!(matches!(error, FabricError::Overloaded { .. }), "{error}");
            assert!(error.is_retriable() && !error.may_have_run());
        }
    });
}

/// A test gateway whose messages look otherwise.
mod otherwise {
    use gateways::{Never, gateway};
    use serde::{Deserialize, Serialize};

    gateway! {
        /// A gateway with a call that the test gateway has, too.
        pub struct OtherGateway = "test", fenced by model::ProcessSession;
        Sleep => (), Never;
    }

    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct Sleep {
        pub ms: String,
    }
}

#[test]
fn calls_that_cannot_be_decoded_do_not_fill_the_mailbox() {
    simulated(|world| async move {
        let options = RpcOptions { mailbox_max: 4, ..options("a") };
        let pair = Pair::of(world.service_with("a", options).await, world.service("b").await);
        let address = pair.server.address_of("test");
        let other: Remote<otherwise::OtherGateway> = pair.client.gateway(&address, session(1));
        for _ in 0..10 {
            let answer = other.ask(otherwise::Sleep { ms: "long".into() }).await;
            fabric_error!(answer, FabricError::Malformed { .. });
        }
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0));
    });
}

#[test]
fn a_slow_handler_is_measured_by_the_callee() {
    with_pair(async |pair| check_slow_handler(&pair, Duration::from_millis(990)).await);
}

#[test]
fn a_wedged_actor_is_measured_by_the_callee_and_does_not_run_what_expired() {
    with_pair(async |pair| check_wedged_actor(&pair, Duration::from_millis(990)).await);
}

#[test]
fn an_ask_that_was_dropped_frees_its_slot() {
    simulated(|world| async move {
        let options = RpcOptions { pending_max: 1, ..options("b") };
        let client = world.service_with("b", options).await;
        let pair = Pair::of(world.service("a").await, client);
        for _ in 0..10 {
            let ask = pair.remote.ask(Sleep { ms: 5_000 });
            assert!(tokio::time::timeout(Duration::from_millis(10), ask).await.is_err());
        }
        let two = futures::join!(pair.remote.ask(Sleep { ms: 1 }), pair.remote.ask(Count {}));
        assert!(two.0.is_ok());
        fabric_error!(two.1, FabricError::Overloaded { .. });
    });
}

#[test]
fn a_call_to_nobody_names_what_is_missing() {
    with_pair(async |pair| {
        let nobody = pair.client.gateway::<TestGateway>(&address("flott://a:6123/x"), session(1));
        let error = nobody.ask(Count {}).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no endpoint x at a:6123");
        let nowhere = pair.client.gateway::<TestGateway>(&address("flott://z:1/x"), session(1));
        let error = nowhere.ask(Count {}).await.unwrap_err();
        let Some(FabricError::Unreachable { executed: Executed::No, peer, .. }) = error.fabric()
        else {
            panic!("{error}");
        };
        assert_eq!(peer.as_str(), "z:1");
    });
}

#[test]
fn a_200_mib_payload_crosses_both_ways_and_a_beat_overtakes_it() {
    with_pair(async |pair| {
        let bytes: Vec<u8> = (0..200_u32 << 20).map(|i| (i >> 3) as u8).collect();
        let within = Duration::from_secs(600);
        let large = pair.remote.ask_within(Echo { bytes: bytes.clone() }, within);
        let mut large = std::pin::pin!(large);
        let small = tokio::select! {
            biased;
            _ = &mut large => panic!("the small call waited behind the large one"),
            small = pair.remote.ask(Count {}) => small,
        };
        assert_eq!(small, Ok(0));
        let large = large.await;
        assert!(large.unwrap().as_ref() == bytes, "the payload came back changed");
    });
}

#[test]
fn a_shutdown_answers_what_is_in_flight_and_takes_no_more() {
    with_pair(async |pair| {
        let in_flight = pair.remote.ask(Sleep { ms: 500 });
        let server = pair.server.clone();
        let shutdown = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.shutdown(Duration::from_secs(5)).await;
        };
        let late = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            pair.remote.ask(Count {}).await
        };
        let began = Instant::now();
        let (in_flight, (), late) = futures::join!(in_flight, shutdown, late);
        assert_eq!(in_flight, Ok(()));
        assert!(began.elapsed() < Duration::from_secs(2), "it waited no longer than needed");
        assert_eq!(late, Err(CallError::Fabric(FabricError::ShuttingDown)));
        let after = pair.remote.ask(Count {}).await;
        fabric_error!(after, FabricError::Unreachable { executed: Executed::No, .. });
    });
}

#[test]
fn a_shutdown_does_not_wait_longer_than_told() {
    with_pair(async |pair| {
        let stuck = pair.remote.ask(Sleep { ms: 9_000 });
        let server = pair.server.clone();
        let shutdown = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let began = Instant::now();
            server.shutdown(Duration::from_secs(1)).await;
            began.elapsed()
        };
        let (stuck, took) = futures::join!(stuck, shutdown);
        assert!(took <= Duration::from_millis(1_500), "{took:?}");
        fabric_error!(stuck, FabricError::Unreachable { executed: Executed::Maybe, .. });
    });
}

#[test]
fn two_services_without_ports_reach_each_other_on_one_platform() {
    simulated(|world| async move {
        let platform = world.platform("here");
        let start = || gateways::RpcService::start(platform.clone(), RpcOptions::in_process());
        let (server, client) = (start().await.unwrap(), start().await.unwrap());
        assert_eq!(server.node().as_str(), "local:1");
        assert_eq!(client.node().as_str(), "local:2");
        let pair = Pair::of(server, client);
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0));
    });
}

#[test]
fn one_actor_may_be_served_under_two_names() {
    with_pair(async |pair| {
        let endpoint = TestGateway::endpoint(TestActor::default().start());
        let _one = pair.server.serve("one", session(1), endpoint.clone());
        let _two = pair.server.serve("two", session(2), endpoint);
        for (name, fence, count) in [("one", 1, 0), ("two", 2, 1)] {
            let address = pair.server.address_of(name);
            let remote = pair.client.gateway::<TestGateway>(&address, session(fence));
            assert_eq!(remote.ask(Count {}).await, Ok(count));
        }
    });
}

/// Holds every call back for 50 ms.
#[derive(Debug)]
struct Late;

impl gateways::disorder::Disorder for Late {
    fn hold(&self) -> Duration {
        Duration::from_millis(50)
    }
    fn overtaken(&self, _: &str) {}
}

/// A JobManager that loses its leadership withdraws its endpoints while calls are on their way between two lanes.
#[test]
fn a_call_that_found_its_endpoint_before_it_was_withdrawn_is_not_let_in() {
    simulated(|world| async move {
        let server = RpcOptions { disorder: Some(std::sync::Arc::new(Late)), ..options("server") };
        let server = world.service_with("server", server).await;
        let Pair { server: _server, client: _client, remote, registration } =
            Pair::of(server, world.service("client").await);
        assert_eq!(remote.ask(Count {}).await, Ok(0));
        let withdraw = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(registration);
        };
        let (late, ()) = tokio::join!(remote.ask(Count {}), withdraw);
        fabric_error!(late, FabricError::NoSuchEndpoint { .. });
    });
}
