//! Lost, half-open and restarted peers.

use crate::fixture::*;
use gateways::{Executed, FabricError, NodeAddress, PeerEvent, RpcOptions, RpcService};
use platform::{BoxStream, Introduction, Network, handshake, net::BoxListener};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;

/// A peer at `a:6123` that the test controls: it proves itself, then follows the script.
struct Puppet {
    listener: BoxListener,
}

impl Puppet {
    async fn at(world: &World) -> Self {
        Self { listener: world.net.listen("a", 6123).await.unwrap() }
    }

    async fn accept(&mut self, incarnation: u128) -> BoxStream {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let me = Introduction { node: "a:6123".to_owned(), incarnation };
        handshake::accept(&mut stream, &credentials(), &me, [8; 32], handshake::Channel::Plain)
            .await
            .unwrap();
        stream
    }
}

fn node() -> NodeAddress {
    NodeAddress::new("a:6123")
}

async fn next(events: &mut Receiver<PeerEvent>) -> PeerEvent {
    events.recv().await.unwrap()
}

async fn caller(world: &World) -> (RpcService, gateways::Remote<TestGateway>) {
    let client = world.service("b").await;
    let remote = client.gateway(&address("flott://a:6123/test"), session(1));
    (client, remote)
}

#[test]
fn a_connection_dropped_mid_reply_may_have_run_the_call() {
    simulated(|world| async move {
        let mut puppet = Puppet::at(&world).await;
        let (_client, remote) = caller(&world).await;
        let peer = async {
            let mut stream = puppet.accept(1).await;
            let mut ask = [0; 64];
            stream.read_exact(&mut ask).await.unwrap();
            // The first half of a reply.
            stream.write_all(&[0, 0, 0, 40, 1, 2, 0, 0, 0]).await.unwrap();
        };
        let (lost, ()) = futures::join!(remote.ask(Count {}), peer);
        let error = fabric_error!(lost, FabricError::Unreachable { executed: Executed::Maybe, .. });
        assert!(error.may_have_run() && error.is_retriable(), "{error}");
    });
}

#[test]
fn a_half_open_peer_is_noticed_by_its_silence() {
    simulated(|world| async move {
        let mut puppet = Puppet::at(&world).await;
        let (client, remote) = caller(&world).await;
        let mut events = client.peer_events();
        let peer = async {
            let stream = puppet.accept(1).await;
            // It neither reads, writes nor closes, and takes no new connection.
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(stream);
        };
        let call = async {
            let began = Instant::now();
            let unanswered = remote.ask_within(Count {}, Duration::from_secs(1)).await;
            fabric_error!(unanswered, FabricError::Unreachable { executed: Executed::Maybe, .. });
            assert!(began.elapsed() <= Duration::from_millis(1_500), "not much past the deadline");
            assert_eq!(next(&mut events).await, PeerEvent::Suspected { node: node() });
            assert!(began.elapsed() <= Duration::from_secs(16));
            let suspected = Instant::now();
            let confirmed = next(&mut events).await;
            assert!(matches!(confirmed, PeerEvent::Confirmed { .. }), "{confirmed:?}");
            assert!(suspected.elapsed() <= Duration::from_millis(501));
        };
        futures::join!(peer, call);
    });
}

#[test]
fn an_idle_peer_that_lives_is_not_suspected() {
    with_pair(async |pair| {
        let mut events = pair.client.peer_events();
        pair.remote.ask(Count {}).await.unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(events.try_recv().is_err());
        assert_eq!((pair.client.connections(), pair.server.connections()), (1, 1));
    });
}

#[test]
fn a_closed_connection_is_a_suspicion_that_the_same_incarnation_clears() {
    simulated(|world| async move {
        let mut puppet = Puppet::at(&world).await;
        let (client, remote) = caller(&world).await;
        let mut events = client.peer_events();
        remote.tell(Count {});
        drop(puppet.accept(1).await);
        let peer = async {
            let stream = puppet.accept(1).await;
            assert_eq!(next(&mut events).await, PeerEvent::Suspected { node: node() });
            assert_eq!(next(&mut events).await, PeerEvent::Cleared { node: node() });
            drop(stream);
        };
        tokio::time::timeout(Duration::from_millis(600), peer).await.unwrap();
    });
}

#[test]
fn another_incarnation_confirms_the_loss_of_the_first() {
    simulated(|world| async move {
        let mut puppet = Puppet::at(&world).await;
        let (client, remote) = caller(&world).await;
        let mut events = client.peer_events();
        remote.tell(Count {});
        drop(puppet.accept(1).await);
        let _second = puppet.accept(2).await;
        assert_eq!(next(&mut events).await, PeerEvent::Suspected { node: node() });
        assert!(matches!(next(&mut events).await, PeerEvent::Confirmed { .. }));
    });
}

#[test]
fn a_refused_reconnect_confirms_within_half_a_second() {
    simulated(|world| async move {
        let mut puppet = Puppet::at(&world).await;
        let (client, remote) = caller(&world).await;
        let mut events = client.peer_events();
        remote.tell(Count {});
        let stream = puppet.accept(1).await;
        drop(puppet);
        let died = Instant::now();
        drop(stream);
        assert_eq!(next(&mut events).await, PeerEvent::Suspected { node: node() });
        assert!(matches!(next(&mut events).await, PeerEvent::Confirmed { .. }));
        assert!(died.elapsed() <= Duration::from_millis(500));
    });
}

#[test]
fn a_goodbye_confirms_at_once() {
    with_pair(async |pair| {
        let mut events = pair.client.peer_events();
        pair.remote.ask(Count {}).await.unwrap();
        pair.server.shutdown(Duration::from_secs(1)).await;
        let event = next(&mut events).await;
        let PeerEvent::Confirmed { node, cause } = event else {
            panic!("{event:?}");
        };
        assert_eq!((node, cause.as_str()), (pair.server.node().clone(), "it has shut down"));
    });
}

#[test]
fn the_side_that_was_connected_to_notices_a_loss_too() {
    with_pair(async |pair| {
        pair.remote.ask(Count {}).await.unwrap();
        let mut events = pair.server.peer_events();
        let node = pair.client.node().clone();
        // The process ends without a goodbye.
        let Pair { client, remote, .. } = pair;
        drop((client, remote));
        assert_eq!(next(&mut events).await, PeerEvent::Suspected { node: node.clone() });
        assert!(matches!(next(&mut events).await, PeerEvent::Confirmed { .. }));
    });
}

#[test]
fn reconnects_back_off_and_find_a_restarted_peer() {
    simulated(|world| async move {
        let (_client, remote) = caller(&world).await;
        let first = remote.ask(Count {}).await.unwrap_err();
        assert!(matches!(first.fabric(), Some(FabricError::Unreachable { .. })));
        let server = world.service("a").await;
        let _served = serve(&server);
        let early = remote.ask(Count {}).await.unwrap_err();
        assert_eq!(early, first, "within the back-off the last failure is told at once");
        tokio::time::sleep(Duration::from_millis(51)).await;
        assert_eq!(remote.ask(Count {}).await, Ok(0));
    });
}

#[test]
fn many_callers_share_one_connection_attempt() {
    with_pair(async |pair| {
        let calls = (0..100).map(|_| pair.remote.ask(Count {}));
        let answers = futures::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!((pair.client.connections(), pair.server.connections()), (1, 1));
    });
}

#[test]
fn a_peer_that_does_not_read_overloads_its_callers_at_once() {
    simulated(|world| async move {
        let mut puppet = Puppet::at(&world).await;
        let options = RpcOptions { outbound_max: 64 << 10, ..options("b") };
        let client = world.service_with("b", options).await;
        let remote = client.gateway::<TestGateway>(&address("flott://a:6123/test"), session(1));
        let peer = async {
            let stream = puppet.accept(1).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(stream);
        };
        let calls = async {
            let calls = (0..100).map(|_| {
                remote.ask_within(Echo { bytes: vec![0; 10_000] }, Duration::from_secs(1))
            });
            futures::future::join_all(calls).await
        };
        let ((), answers) = futures::join!(peer, calls);
        let overloaded = answers.iter().filter_map(|a| a.as_ref().err()?.fabric());
        let overloaded =
            overloaded.filter(|error| matches!(error, FabricError::Overloaded { .. })).count();
        assert!((50..100).contains(&overloaded), "{overloaded}");
    });
}

#[test]
fn a_peer_that_cannot_be_connected_leaves_the_table_once_nobody_calls_it() {
    simulated(|world| async move {
        let (client, remote) = caller(&world).await;
        for _ in 0..3 {
            remote.ask(Count {}).await.unwrap_err();
            assert_eq!(client.known_peers(), 1, "its pause has to be kept");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        tokio::time::sleep(RpcOptions::in_process().reconnect_max * 2).await;
        assert_eq!(client.known_peers(), 0);
        let _server = world.service("a").await;
        remote.ask(Count {}).await.unwrap_err();
        assert_eq!(client.known_peers(), 1, "it is connected now, though nobody serves there");
    });
}
