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

both_ways!(stale_and_future_callers_are_fenced, |pair| {
    for theirs in [0, 2] {
        let address = pair.server.address_of("test");
        let remote = pair.client.gateway::<TestGateway>(&address, session(theirs));
        let fenced = remote.ask(Count {}).await.unwrap_err();
        let expected = FabricError::Fenced { yours: session(theirs).0, current: session(1).0 };
        assert_eq!(fenced, CallError::Fabric(expected));
    }
    assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "a fenced call changed nothing");
});

both_ways!(a_panicking_handler_is_answered_and_its_endpoint_is_gone, |pair| {
    let panicked = pair.remote.ask(Panic {}).await.unwrap_err();
    let error = panicked.fabric().unwrap().clone();
    assert!(matches!(error, FabricError::HandlerPanicked { .. }), "{error}");
    assert!(error.may_have_run());
    pair.registration.died().await;
    let later = pair.remote.ask(Count {}).await.unwrap_err();
    assert!(matches!(later.fabric(), Some(FabricError::NoSuchEndpoint { .. })), "{later}");
});

both_ways!(a_panic_in_a_handlers_future_is_answered_and_its_endpoint_lives, |pair| {
    let panicked = pair.remote.ask(PanicLater {}).await.unwrap_err();
    assert!(matches!(panicked.fabric(), Some(FabricError::HandlerPanicked { .. })), "{panicked}");
    assert_eq!(pair.remote.ask(Count {}).await, Ok(0));
});

both_ways!(a_slow_handler_and_a_wedged_actor_tell_queue_and_handler_apart, |pair| {
    let slow = pair.remote.ask_within(Sleep { ms: 5_000 }, Duration::from_secs(1)).await;
    let slow = slow.unwrap_err();
    let Some(FabricError::DeadlineExceeded { queued, running, handler }) = slow.fabric() else {
        panic!("{slow}");
    };
    assert!(*queued < Duration::from_millis(50) && *running >= Duration::from_secs(1), "{slow}");
    assert_eq!(handler, "test (test.Sleep)");

    pair.remote.tell(Block { ms: 5_000 });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let wedged = pair.remote.ask_within(Count {}, Duration::from_secs(1)).await.unwrap_err();
    let Some(FabricError::DeadlineExceeded { queued, running, .. }) = wedged.fabric() else {
        panic!("{wedged}");
    };
    assert!(*queued >= Duration::from_secs(1) && running.is_zero(), "{wedged}");
    assert!(!wedged.fabric().unwrap().may_have_run());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "an expired call in the mailbox is not run");
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
        let gone = pair.remote.ask(Count {}).await.unwrap_err();
        assert!(matches!(gone.fabric(), Some(FabricError::NoSuchEndpoint { .. })));
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
