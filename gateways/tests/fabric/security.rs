//! Strangers, liars and hosts of other jobs.

use crate::fixture::*;
use actix::Actor;
use gateways::{Call, CallError, FabricError, Principal, RpcOptions, RpcService};
use model::{ClusterId, JobId};
use platform::{
    Credentials, Identity, Network, Secret,
    handshake::{self, Greeting, Role},
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const JOB: JobId = JobId(5);

/// Makes a call to `a` from a process with these credentials, and returns its result.
async fn call_as(world: &World, credentials: Credentials) -> Result<u64, FabricError> {
    let server = world.service("a").await;
    let _served = serve(&server);
    let client = world.service_with("b", RpcOptions { credentials, ..options("b") }).await;
    let remote = client.gateway::<TestGateway>(&server.address_of("test"), session(1));
    match remote.ask(Count {}).await {
        Ok(count) => Ok(count),
        Err(CallError::Fabric(error)) => Err(error),
        Err(CallError::Refused(never)) => match never {},
    }
}

#[test]
fn a_wrong_secret_is_forbidden() {
    simulated(|world| async move {
        let wrong = Credentials { secret: Secret::new([1; 32]), ..credentials() };
        let error = call_as(&world, wrong).await.unwrap_err();
        assert!(matches!(error, FabricError::Forbidden { .. }), "{error}");
        assert!(error.to_string().contains("secret"), "{error}");
    });
}

#[test]
fn a_wrong_cluster_id_is_incompatible() {
    simulated(|world| async move {
        let wrong = Credentials { cluster: ClusterId::new("other"), ..credentials() };
        let error = call_as(&world, wrong).await.unwrap_err();
        let expected = FabricError::Incompatible {
            theirs: "cluster test".to_owned(),
            ours: "cluster other".to_owned(),
        };
        assert_eq!(error, expected);
    });
}

#[test]
fn a_wrong_version_is_incompatible() {
    simulated(|world| async move {
        // A server of the next major.
        let mut listener = world.net.listen("a", 6123).await.unwrap();
        tokio::task::spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut greeting = greeting(Role::Server, [9; 32]);
            greeting.version.major += 1;
            stream.write_all(&greeting.encode()).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let client = world.service("b").await;
        let remote = client.gateway::<TestGateway>(&address("flott://a:6123/test"), session(1));
        let error = remote.ask(Count {}).await.unwrap_err();
        let Some(FabricError::Incompatible { theirs, ours }) = error.fabric() else {
            panic!("{error}");
        };
        assert_eq!((theirs.as_str(), ours.as_str()), ("protocol 4.0", "protocol 3.0"));
    });
}

fn greeting(role: Role, nonce: [u8; 32]) -> Greeting {
    Greeting {
        role,
        version: handshake::VERSION,
        identity: Identity::Cluster,
        nonce,
        incarnation: 1,
        cluster: "test".to_owned(),
        node: String::new(),
    }
}

/// Everything that a peer says until it closes, or `None` when it does not close in time.
async fn said(stream: &mut platform::BoxStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    match tokio::time::timeout(Duration::from_secs(60), read).await {
        Ok(_) => Some(bytes),
        Err(_) => None,
    }
}

#[test]
fn a_replayed_handshake_is_closed_without_a_word() {
    simulated(|world| async move {
        let server = world.service("a").await;
        let _served = serve(&server);
        // An eavesdropper records what a real client sends...
        let mut tapped = world.net.connect("a", 6123).await.unwrap();
        let hello = greeting(Role::Client, [1; 32]).encode();
        tapped.write_all(&hello).await.unwrap();
        let mut length = [0; 2];
        tapped.read_exact(&mut length).await.unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length)) + 32];
        tapped.read_exact(&mut answer).await.unwrap();
        let theirs = [&length[..], &answer[..answer.len() - 32]].concat();
        let proof =
            handshake::proof(&secret(), Role::Client, &hello, &theirs, handshake::Channel::Plain);
        tapped.write_all(&proof).await.unwrap();
        while server.connections() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // ... and sends it again.
        let mut replayed = world.net.connect("a", 6123).await.unwrap();
        replayed.write_all(&hello).await.unwrap();
        replayed.write_all(&proof).await.unwrap();
        let heard = said(&mut replayed).await.expect("the connection is closed");
        assert_eq!(heard.len(), 2 + answer.len(), "greeting and proof, nothing else");
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn strangers_can_do_nothing_but_be_closed() {
    simulated(|world| async move {
        let server = world.service("a").await;
        let _served = serve(&server);
        let hello = greeting(Role::Client, [1; 32]).encode();
        let attacks: [&[u8]; 6] = [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            &[0xff; 100_000],
            &[0; 100_000],
            &[2, 88], // the longest greeting, never sent
            &hello[..hello.len() - 1],
            b"",
        ];
        for attack in attacks {
            let mut stream = world.net.connect("a", 6123).await.unwrap();
            let _ = stream.write_all(attack).await;
            assert_eq!(said(&mut stream).await, Some(vec![]), "{} bytes", attack.len());
        }
        assert_eq!(server.connections(), 0);
        let client = world.service("b").await;
        let remote = client.gateway::<TestGateway>(&server.address_of("test"), session(1));
        assert_eq!(remote.ask(Count {}).await, Ok(0), "others are served meanwhile");
    });
}

#[test]
fn handshakes_under_way_are_bounded_in_number_and_time() {
    simulated(|world| async move {
        let options = RpcOptions { handshakes_max: 3, ..options("a") };
        let server = world.service_with("a", options).await;
        let _served = serve(&server);
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(world.net.connect("a", 6123).await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let began = tokio::time::Instant::now();
        let mut one_more = world.net.connect("a", 6123).await.unwrap();
        assert_eq!(said(&mut one_more).await, Some(vec![]));
        assert!(began.elapsed() < Duration::from_secs(1), "closed at once");
        for stream in &mut silent {
            assert_eq!(said(stream).await, Some(vec![]));
        }
        assert!(began.elapsed() < Duration::from_secs(6), "closed when their time was over");
        let client = world.service("b").await;
        let remote = client.gateway::<TestGateway>(&server.address_of("test"), session(1));
        assert_eq!(remote.ask(Count {}).await, Ok(0));
    });
}

#[test]
fn garbage_after_the_handshake_ends_that_connection_alone() {
    simulated(|world| async move {
        let pair = world.pair().await;
        pair.remote.ask(Count {}).await.unwrap();
        let endless = u32::MAX.to_be_bytes();
        let short: &[u8] = &[0, 0, 0, 3, 1, 1, 0];
        for garbage in [&[0xff; 1000][..], &endless, short, &[0, 0, 0, 2, 9, 9]] {
            let mut stream = world.net.connect("a", 6123).await.unwrap();
            introduce(&mut stream, 4).await;
            stream.write_all(garbage).await.unwrap();
            assert!(said(&mut stream).await.is_some());
        }
        assert_eq!(pair.server.connections(), 1);
        assert_eq!(pair.remote.ask(Count {}).await, Ok(1));
    });
}

/// A client that is a program host of `job`.
async fn host_of(world: &World, job: JobId) -> RpcService {
    let (identity, secret) = (Identity::Host(job), secret().for_job(job));
    let credentials = Credentials { identity, secret, ..credentials() };
    world.service_with("h", RpcOptions { credentials, ..options("h") }).await
}

#[test]
fn a_host_may_call_its_own_jobs_gateways_only() {
    simulated(|world| async move {
        let server = world.service("a").await;
        let endpoint = TestGateway::endpoint(TestActor::default().start());
        let _all = server.serve("cluster", session(1), endpoint.clone());
        let calls = [WhoAmI::NAME];
        let _own = server.serve_for_job("own", session(1), endpoint.clone(), JOB, &calls);
        let _other = server.serve_for_job("other", session(1), endpoint, JobId(6), &[]);
        let host = host_of(&world, JOB).await;
        let remote = |name| host.gateway::<TestGateway>(&server.address_of(name), session(1));
        assert_eq!(remote("own").ask(WhoAmI {}).await, Ok(Principal::Host { job: JOB }));
        for (name, call) in [("own", "Count"), ("cluster", "Count"), ("other", "Count")] {
            let error = remote(name).ask(Count {}).await.unwrap_err();
            let Some(FabricError::Forbidden { why }) = error.fabric() else {
                panic!("{error}");
            };
            assert!(why.contains(&JOB.to_string()) && why.contains(call), "{why}");
        }
    });
}

#[test]
fn a_host_is_never_told_apart_by_fence_or_name_before_its_principal() {
    simulated(|world| async move {
        let server = world.service("a").await;
        let _served = serve(&server);
        let host = host_of(&world, JOB).await;
        let remote = host.gateway::<TestGateway>(&server.address_of("test"), session(99));
        fabric_error!(remote.ask(Count {}).await, FabricError::Forbidden { .. });
    });
}
