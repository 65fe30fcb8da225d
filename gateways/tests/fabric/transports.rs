//! The same calls over real TCP, TLS, an inherited socket and the simulated network.

use crate::fixture::*;
use gateways::{FabricError, NodeAddress, Principal, RpcOptions, RpcService, RpcStartError};
use model::{ClusterId, JobId};
use platform::{Platform, PortSpec, Tls, TlsPem, inproc::InProcessNetwork, testing::Authority};
use std::{sync::Arc, time::Duration};

fn tcp_options(tls: Option<Tls>) -> RpcOptions {
    let cluster = ClusterId::new("test");
    let options =
        RpcOptions::listening("127.0.0.1", "localhost", PortSpec::any(), cluster, secret());
    RpcOptions { tls, ..options }
}

pub async fn tcp_service(tls: Option<Tls>) -> RpcService {
    RpcService::start(Platform::production(), tcp_options(tls)).await.unwrap()
}

#[test]
fn calls_cross_tcp_between_threads() {
    real(|| async {
        let pair = Pair::of(tcp_service(None).await, tcp_service(None).await);
        assert_ne!(pair.server.node().port(), Some(0), "the bound port is told");
        assert_eq!(pair.remote.ask(WhoAmI {}).await, Ok(Principal::Cluster));
        let bytes = vec![5; 3 << 20];
        let echoed = pair.remote.ask(Echo { bytes: bytes.clone() }).await.unwrap();
        assert!(echoed.as_ref() == bytes);
        let calls = (0..1_000).map(|_| pair.remote.ask(Count {}));
        let counts = futures::future::join_all(calls).await;
        assert!(counts.into_iter().map(Result::unwrap).eq(0..1_000));
        pair.server.shutdown(Duration::from_secs(1)).await;
        fabric_error!(pair.remote.ask(Count {}).await, FabricError::Unreachable { .. });
    });
}

#[test]
fn a_busy_port_is_an_error_and_the_next_of_a_range_is_taken() {
    real(|| async {
        let first = tcp_service(None).await;
        let port = first.node().port().unwrap();
        let with = |ports: PortSpec| {
            RpcOptions::listening("127.0.0.1", "localhost", ports, ClusterId::new("test"), secret())
        };
        let busy = RpcService::start(Platform::production(), with(PortSpec::one(port))).await;
        let Err(RpcStartError::Bind { ports, .. }) = busy else {
            panic!("the port was free");
        };
        assert_eq!(ports, port.to_string());
        let range = with(PortSpec::from(vec![port, 0]));
        let next = RpcService::start(Platform::production(), range).await.unwrap();
        assert_ne!(next.node(), first.node());
    });
}

fn tls(authority: &Authority) -> Tls {
    Tls::new(authority.issue(&["localhost"])).unwrap()
}

#[test]
fn calls_cross_mutual_tls_and_strangers_to_the_authority_do_not() {
    real(|| async {
        let authority = Authority::new();
        let server = tcp_service(Some(tls(&authority))).await;
        let client = tcp_service(Some(tls(&authority))).await;
        let pair = Pair::of(server, client);
        let bytes = vec![5; 3 << 20];
        let echoed = pair.remote.ask(Echo { bytes: bytes.clone() }).await.unwrap();
        assert!(echoed.as_ref() == bytes);
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0));

        // It accepts the server's certificate, so that only its own one is refused.
        let ours = authority.issue(&["localhost"]).authority;
        let stranger = TlsPem { authority: ours, ..Authority::new().issue(&["localhost"]) };
        for stranger in [Some(Tls::new(stranger).unwrap()), None] {
            let plain = stranger.is_none();
            let client = tcp_service(stranger).await;
            let remote = client.gateway::<TestGateway>(&pair.server.address_of("test"), session(1));
            let refused = remote.ask(Count {}).await.unwrap_err();
            assert!(!refused.fabric().unwrap().may_have_run(), "{refused}");
            assert!(!plain || refused.to_string().contains("it speaks TLS"), "{refused}");
        }
    });
}

#[test]
fn a_parent_and_its_child_talk_over_an_inherited_socket() {
    real(|| async {
        let job = JobId(3);
        let start = || RpcService::start(Platform::production(), RpcOptions::in_process());
        let (parent, child) = (tcp_service(None).await, start().await.unwrap());
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        let name = NodeAddress::new("host:17-1");
        let handle = parent.adopt(name.clone(), ours.into(), Principal::Host { job });
        let up = child.adopt(parent.node().clone(), theirs.into(), Principal::Cluster);

        // The child calls what is served for its job, at the parent's own address.
        use actix::Actor;
        let endpoint = TestGateway::endpoint(TestActor::default().start());
        let _own = parent.serve_for_job("host", session(1), endpoint.clone(), job, &[]);
        let _all = parent.serve("test", session(1), endpoint);
        let own = child.gateway::<TestGateway>(&parent.address_of("host"), session(1));
        assert_eq!(own.ask(WhoAmI {}).await, Ok(Principal::Host { job }));
        let all = child.gateway::<TestGateway>(&parent.address_of("test"), session(1));
        fabric_error!(all.ask(Count {}).await, FabricError::Forbidden { .. });

        // The parent calls the child by the name it gave it.
        let _served = serve(&child);
        let address = gateways::EndpointAddress::new(name, "test");
        let down = parent.gateway::<TestGateway>(&address, session(1));
        assert_eq!(down.ask(WhoAmI {}).await, Ok(Principal::Cluster));

        // The child's end is seen, and later calls say so.
        let mut events = parent.peer_events();
        up.close();
        handle.closed().await;
        assert!(matches!(events.recv().await, Ok(gateways::PeerEvent::Confirmed { .. })));
        let gone = down.ask(Count {}).await.unwrap_err();
        assert!(!gone.fabric().unwrap().may_have_run(), "{gone}");
    });
}

#[test]
fn a_call_to_an_adopted_peer_waits_for_its_introduction() {
    simulated(|world| async move {
        let platform = |host: &str| world.platform(host);
        let start = |host: &str| RpcService::start(platform(host), RpcOptions::in_process());
        let (parent, child) = (start("p").await.unwrap(), start("c").await.unwrap());
        let (ours, theirs) = tokio::io::duplex(4096);
        let name = NodeAddress::new("host:1-1");
        let principal = Principal::Host { job: JobId(1) };
        let ours = platform::BoxStream::new(ours);
        let _parent = parent.adopt(name.clone(), ours, principal);
        let address = gateways::EndpointAddress::new(name, "test");
        let down = parent.gateway::<TestGateway>(&address, session(1));
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let theirs = platform::BoxStream::new(theirs);
            let up = child.adopt(NodeAddress::new("p:1"), theirs, Principal::Cluster);
            (up, serve(&child))
        };
        let (answer, _up) = futures::join!(down.ask(Count {}), later);
        assert_eq!(answer, Ok(0));
    });
}

#[test]
fn production_lanes_may_run_over_pipes() {
    real(|| async {
        let platform = Platform::production_on(Arc::new(InProcessNetwork::new()));
        let start = |host| RpcService::start(platform.clone(), options(host));
        let pair = Pair::of(start("a").await.unwrap(), start("b").await.unwrap());
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0));
    });
}

/// Both ends of 8,000 connections are in this process: 16,000 descriptors and some.
#[test]
fn eight_thousand_idle_connections_are_held_and_answer() {
    const CONNECTIONS: usize = 8_000;
    real(|| async {
        let server = tcp_service(None).await;
        let _served = serve(&server);
        let port = server.node().port().unwrap();
        let net = Platform::production();
        let mut idle = Vec::new();
        for batch in 0..CONNECTIONS / 100 {
            let connect = (0..100).map(|i| {
                let net = net.net().clone();
                async move {
                    let mut stream = net.connect("127.0.0.1", port).await.unwrap();
                    introduce(&mut stream, (batch * 100 + i) as u128).await;
                    stream
                }
            });
            idle.extend(futures::future::join_all(connect).await);
        }
        while server.connections() < CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let client = tcp_service(None).await;
        let remote = client.gateway::<TestGateway>(&server.address_of("test"), session(1));
        for count in 0..100 {
            assert_eq!(remote.ask(Count {}).await, Ok(count));
        }
        drop(idle);
        while server.connections() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(remote.ask(Count {}).await, Ok(100));
    });
}

/// Starts the service of a host that turmoil simulates.
async fn turmoil_service(seed: u64, host: &str) -> Result<RpcService, RpcStartError> {
    let platform = Platform::simulated(seed, Arc::new(platform::turmoil_net::TurmoilNetwork));
    let cluster = ClusterId::new("test");
    let options = RpcOptions::listening("0.0.0.0", host, PortSpec::one(6123), cluster, secret());
    RpcService::start(platform, options).await
}

/// Three hosts, losses and latencies from a seed: what happened, step by step.
fn turmoil_run(seed: u64) -> Vec<String> {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(120))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(40))
        .build();
    sim.host("server", || async {
        let service = turmoil_service(1, "server").await?;
        let _served = serve(&service);
        std::future::pending::<()>().await;
        Ok(())
    });
    for (index, name) in ["one", "two"].into_iter().enumerate() {
        let log = log.clone();
        sim.client(name, async move {
            let service = turmoil_service(2 + index as u64, name).await?;
            let mut events = service.peer_events();
            let address = address("flott://server:6123/test");
            let remote = service.gateway::<TestGateway>(&address, session(1));
            for step in 0..60 {
                let answer = remote.ask_within(Count {}, Duration::from_secs(1)).await;
                let at = service.platform().now();
                log.lock().unwrap().push(format!("{at:?} {name} {step}: {answer:?}"));
                while let Ok(event) = events.try_recv() {
                    log.lock().unwrap().push(format!("{at:?} {name} saw {event:?}"));
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Ok(())
        });
    }
    let mut steps = 0_u64;
    while !sim.step().unwrap() {
        steps += 1;
        match steps {
            3_000 => sim.partition("one", "server"),
            6_000 => sim.repair("one", "server"),
            9_000 => sim.crash("server"),
            11_000 => sim.bounce("server"),
            _ => {}
        }
    }
    drop(sim);
    Arc::try_unwrap(log).unwrap().into_inner().unwrap()
}

#[test]
fn partitions_crashes_and_restarts_are_survived_the_same_way_for_the_same_seed() {
    let log = turmoil_run(3);
    assert_eq!(log, turmoil_run(3));
    assert_ne!(log, turmoil_run(4));
    let has = |what: &str| log.iter().any(|line| line.contains(what));
    assert!(has("Unreachable") && has("Suspected") && has("Confirmed"), "{log:#?}");
    for name in ["one", "two"] {
        let last = log.iter().rfind(|line| line.contains(&format!("{name} 59"))).unwrap();
        assert!(last.contains("Ok("), "healed in the end: {last}");
    }
}
