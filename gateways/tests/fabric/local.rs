//! Calls inside one process.

use crate::fixture::*;
use gateways::{CallError, FabricError, Principal, RpcOptions};
use std::time::Duration;

/// Runs a test with values passed as they are, and again with forced bytes.
macro_rules! both_ways {
    ($name:ident, |$pair:ident| $test:expr) => {
        #[test]
        fn $name() {
            for force_serialization in [false, true] {
                simulated(|world| async move {
                    let options = RpcOptions { force_serialization, ..options("a") };
                    let service = world.service_with("a", options).await;
                    let $pair = Pair::of(service.clone(), service);
                    $test
                });
            }
        }
    };
}

both_ways!(a_call_is_answered_with_its_reply_or_its_error, |pair| {
    let bytes = pair.remote.ask(Echo { bytes: vec![1, 2] }).await.unwrap();
    assert_eq!(bytes.as_ref(), [1, 2]);
    let refused = pair.remote.ask(Refuse { why: "no".into() }).await;
    assert_eq!(refused, Err(CallError::Refused(Refusal { why: "no".into() })));
    assert_eq!(pair.remote.ask(WhoAmI {}).await, Ok(Principal::Local));
});

both_ways!(stale_and_future_callers_are_fenced, |pair| check_fences(&pair).await);

both_ways!(a_panicking_handler_is_answered_and_its_endpoint_is_gone, |pair| {
    let panicked = pair.remote.ask(Panic {}).await;
    assert!(fabric_error!(panicked, FabricError::HandlerPanicked { .. }).may_have_run());
    pair.registration.died().await;
    fabric_error!(pair.remote.ask(Count {}).await, FabricError::NoSuchEndpoint { .. });
});

both_ways!(a_panic_in_a_handlers_future_is_answered_and_its_endpoint_lives, |pair| {
    fabric_error!(pair.remote.ask(PanicLater {}).await, FabricError::HandlerPanicked { .. });
    assert_eq!(pair.remote.ask(Count {}).await, Ok(0));
});

both_ways!(a_slow_handler_and_a_wedged_actor_tell_queue_and_handler_apart, |pair| {
    check_slow_handler(&pair, Duration::from_secs(1)).await;
    check_wedged_actor(&pair, Duration::from_secs(1)).await;
});

#[test]
fn a_full_mailbox_refuses_at_once() {
    simulated(|world| async move {
        let options = RpcOptions { mailbox_max: 4, ..options("a") };
        let service = world.service_with("a", options).await;
        let pair = Pair::of(service.clone(), service);
        pair.remote.tell(Block { ms: 1_000 });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let began = tokio::time::Instant::now();
        let calls = (0..10).map(|_| pair.remote.ask(Count {}));
        let answers = futures::future::join_all(calls).await;
        let overloaded = |a: &&Result<u64, _>| {
            matches!(a, Err(CallError::Fabric(FabricError::Overloaded { .. })))
        };
        assert_eq!(answers.iter().filter(overloaded).count(), 6);
        assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 4);
        let refused = pair.remote.ask(Count {}).await;
        assert_eq!(refused, Ok(4));
        assert!(began.elapsed() >= Duration::from_millis(900));
    });
}

#[test]
fn more_calls_than_an_actix_mailbox_holds_are_answered_in_order() {
    simulated(|world| async move {
        let service = world.service("a").await;
        let pair = Pair::of(service.clone(), service);
        let answers = futures::future::join_all((0..1000).map(|_| pair.remote.ask(Count {}))).await;
        let counts: Vec<u64> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(counts, (0..1000).collect::<Vec<_>>());
    });
}

#[test]
fn a_registration_serves_until_dropped_or_replaced() {
    simulated(|world| async move {
        let service = world.service("a").await;
        let pair = Pair::of(service.clone(), service.clone());
        pair.remote.ask(Count {}).await.unwrap();
        let newer = serve(&service);
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "the newer actor answers");
        drop(pair.registration);
        assert_eq!(
            pair.remote.ask(Count {}).await,
            Ok(1),
            "the older one's end takes nothing away"
        );
        drop(newer);
        fabric_error!(pair.remote.ask(Count {}).await, FabricError::NoSuchEndpoint { .. });
    });
}

#[test]
fn the_death_of_an_actor_is_seen_by_its_owner() {
    simulated(|world| async move {
        let service = world.service("a").await;
        let pair = Pair::of(service.clone(), service);
        assert!(pair.registration.is_alive());
        pair.remote.ask(Stop {}).await.unwrap();
        pair.registration.died().await;
        assert!(!pair.registration.is_alive());
    });
}
