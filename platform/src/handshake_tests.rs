//! Two ends of a pipe, right and wrong.

use super::*;

const JOB: JobId = JobId(7);

fn credentials(cluster: &str, identity: Identity, secret: Secret) -> Credentials {
    Credentials { cluster: ClusterId::new(cluster), identity, secret }
}
fn secret() -> Secret {
    Secret::new([3; 32])
}
fn cluster() -> Credentials {
    credentials("c", Identity::Cluster, secret())
}
fn host(job: JobId) -> Credentials {
    credentials("c", Identity::Host(job), secret().for_job(job))
}
fn me(node: &str) -> Introduction {
    Introduction { node: node.to_owned(), incarnation: 9 }
}

async fn meet(
    client: &Credentials,
    server: &Credentials,
) -> (Result<Peer, HandshakeError>, Result<Peer, HandshakeError>) {
    let (mut a, mut b) = tokio::io::duplex(4096);
    let (nodes, nonces) = ((me("a:1"), me("b:2")), ([1; 32], [2; 32]));
    let one = async {
        let met = connect(&mut a, client, &nodes.0, nonces.0, Channel::Plain).await;
        drop(a);
        met
    };
    let other = async {
        let met = accept(&mut b, server, &nodes.1, nonces.1, Channel::Plain).await;
        drop(b);
        met
    };
    tokio::join!(one, other)
}

#[tokio::test]
async fn equal_secrets_meet_and_tell_who_they_are() {
    let (client, server) = meet(&cluster(), &cluster()).await;
    assert_eq!(client.unwrap().node.as_deref(), Some("b:2"));
    let client = server.unwrap();
    assert_eq!((client.identity, client.incarnation), (Identity::Cluster, 9));
}

#[tokio::test]
async fn hosts_of_one_job_meet_each_other_and_the_cluster_but_no_other_job() {
    let (client, server) = meet(&host(JOB), &cluster()).await;
    assert!(client.is_ok());
    assert_eq!(server.unwrap().identity, Identity::Host(JOB));
    let (client, server) = meet(&host(JOB), &host(JOB)).await;
    assert!(client.is_ok() && server.is_ok());
    let (_, server) = meet(&host(JobId(8)), &host(JOB)).await;
    assert!(matches!(server, Err(HandshakeError::OtherJob)));
    // A host that claims another job, or to be of the cluster, lacks the key.
    let liar = credentials("c", Identity::Host(JobId(8)), secret().for_job(JOB));
    let (_, server) = meet(&liar, &cluster()).await;
    assert!(server.is_err());
    let liar = credentials("c", Identity::Cluster, secret().for_job(JOB));
    let (client, server) = meet(&liar, &cluster()).await;
    assert!(matches!(client, Err(HandshakeError::WrongSecret)));
    assert!(server.is_err());
}

#[tokio::test]
async fn a_wrong_secret_or_cluster_is_named_on_both_sides() {
    let other = credentials("c", Identity::Cluster, Secret::new([4; 32]));
    let (client, server) = meet(&other, &cluster()).await;
    assert!(matches!(client, Err(HandshakeError::WrongSecret)));
    assert!(matches!(server, Err(HandshakeError::Unproved)));
    let other = credentials("d", Identity::Cluster, secret());
    let (client, server) = meet(&other, &cluster()).await;
    assert!(matches!(client, Err(HandshakeError::Cluster { .. })));
    assert!(matches!(server, Err(HandshakeError::Cluster { .. })));
}

#[tokio::test]
async fn a_client_that_does_not_check_is_refused_by_the_server() {
    let (mut a, mut b) = tokio::io::duplex(4096);
    let attack = async {
        let hello = cluster().greeting(Role::Client, &me(""), [1; 32]).encode();
        a.write_all(&hello).await.unwrap();
        a.write_all(&[0; 32]).await.unwrap();
    };
    let (mine, node) = (cluster(), me("b:2"));
    let (_, server) = tokio::join!(attack, accept(&mut b, &mine, &node, [2; 32], Channel::Plain));
    assert!(matches!(server, Err(HandshakeError::WrongSecret)));
}

#[tokio::test]
async fn a_recorded_handshake_proves_nothing_the_second_time() {
    // An eavesdropper has everything that the client sent.
    let client = cluster().greeting(Role::Client, &me("a:1"), [1; 32]).encode();
    let server = cluster().greeting(Role::Server, &me("b:2"), [2; 32]).encode();
    let recorded = proof(&secret(), Role::Client, &client, &server, Channel::Plain);
    let replay = |nonce: [u8; 32]| {
        let client = client.clone();
        async move {
            let (mut a, mut b) = tokio::io::duplex(4096);
            a.write_all(&client).await.unwrap();
            a.write_all(&recorded).await.unwrap();
            accept(&mut b, &cluster(), &me("b:2"), nonce, Channel::Plain).await
        }
    };
    assert!(replay([2; 32]).await.is_ok(), "the recording is a good one");
    assert!(matches!(replay([5; 32]).await, Err(HandshakeError::WrongSecret)));
}

#[tokio::test]
async fn other_versions_and_garbage_are_refused() {
    let mut wrong = cluster().greeting(Role::Server, &me("b:2"), [2; 32]);
    wrong.version.major = VERSION.major + 1;
    let (mut a, mut b) = tokio::io::duplex(4096);
    b.write_all(&wrong.encode()).await.unwrap();
    let met = connect(&mut a, &cluster(), &me("a:1"), [1; 32], Channel::Plain).await;
    assert!(matches!(met, Err(HandshakeError::Version { .. })));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 700], &[0xff; 700]] {
        let (mut a, mut b) = tokio::io::duplex(4096);
        a.write_all(garbage).await.unwrap();
        drop(a);
        let met = accept(&mut b, &cluster(), &me("b:2"), [2; 32], Channel::Plain).await;
        assert!(met.is_err());
    }
}

#[tokio::test]
async fn a_program_newer_than_its_cluster_is_refused() {
    let newer = Greeting {
        role: Role::Trusted,
        version: Version { minor: VERSION.minor + 1, ..VERSION },
        ..cluster().greeting(Role::Trusted, &me(""), [0; 32])
    };
    for (of_program, accepted) in [(true, false), (false, true)] {
        let (mut a, mut b) = tokio::io::duplex(4096);
        b.write_all(&newer.encode()).await.unwrap();
        assert_eq!(introduce(&mut a, &me(""), of_program).await.is_ok(), accepted);
    }
}

#[test]
fn greetings_decode_to_what_was_encoded_and_never_panic_when_cut() {
    let greeting = host(JOB).greeting(Role::Client, &me("a:1"), [1; 32]);
    let bytes = greeting.encode();
    assert_eq!(Greeting::decode(&bytes[2..]).unwrap(), greeting);
    for cut in 2..bytes.len() {
        assert!(Greeting::decode(&bytes[2..cut]).is_err());
    }
}

#[test]
fn a_long_name_in_a_greeting_is_cut_between_two_characters() {
    let node = format!("{}é:1", "a".repeat(254));
    let bytes = host(JOB).greeting(Role::Client, &me(&node), [1; 32]).encode();
    assert_eq!(Greeting::decode(&bytes[2..]).unwrap().node, "a".repeat(254));
}
