//! Data connections with TLS, and processes that disagree about it.

use super::*;
use platform::{Tls, TlsPem, testing::Authority};

const KEY: &[u8] = b"the key of the job, 32 bytes ok!";

fn secured(runtime: &tokio::runtime::Runtime, tls: Option<Tls>) -> Exchange {
    let options =
        ExchangeOptions { connect_timeout: Duration::from_millis(500), ..options(64 << 10) };
    remote_over(runtime, options, KEY, tls)
}

fn of(authority: &Authority) -> Tls {
    Tls::new(authority.issue(&["127.0.0.1"])).unwrap()
}

/// Returns why a consumer at `consumer` gets nothing from a producer at `producer`.
fn refusal(consumer: &Exchange, producer: &Exchange) -> String {
    let (task, causes) = watched(2, 0, 0);
    let _port = consumer.open_input(&task, vec![input(3, ShipStrategy::Rebalance, &[producer])]);
    let cause = causes.recv_timeout(PATIENCE).unwrap();
    assert_eq!(cause.kind, "DataConnectionFailed");
    assert!(cause.message.contains(producer.address()), "{cause}");
    assert_eq!(producer.shared.peers.connections(), 0);
    cause.message
}

#[test]
fn all_kinds_of_edges_over_tls() {
    let runtime = runtime();
    let authority = Authority::new();
    let both = [of(&authority), of(&authority)].map(|tls| secured(&runtime, Some(tls)));
    let [a, b] = &both;
    for ship in [ShipStrategy::Forward, ShipStrategy::Hash, ShipStrategy::Broadcast] {
        // Batches of 3,200 and of 320,000 bytes: smaller and larger than what TLS and the writer buffer.
        check_edge(ship, &[a, b], &[b, a], 40, 400);
        check_edge(ship, &[a, b], &[b, a], 3, 40_000);
    }
    // The last batch is not followed by anything that would push it out.
    let producer = task(1, 0);
    producer.signal().bind_current_thread();
    let mut out = a.open_output(&producer, output(7, ShipStrategy::Hash, 1));
    let consumer = task(2, 0);
    let mut port = b.open_input(&consumer, vec![input(7, ShipStrategy::Hash, &[a])]);
    for n in 0..50 {
        assert!(send(&producer, out.as_mut(), 0, batch(n..n + 900)));
        consumer.signal().bind_current_thread();
        assert_eq!(poll_batch(&consumer, port.as_mut()).1.len(), 900);
        producer.signal().bind_current_thread();
    }
}

#[test]
fn a_process_without_tls_is_refused_and_the_option_is_named() {
    let runtime = runtime();
    let with = secured(&runtime, Some(of(&Authority::new())));
    let without = secured(&runtime, None);
    for (consumer, producer) in [(&without, &with), (&with, &without)] {
        let why = refusal(consumer, producer);
        assert!(why.contains("security.ssl.internal.enabled"), "{why}");
    }
}

#[test]
fn a_process_with_a_certificate_of_another_authority_is_refused_and_the_option_is_named() {
    let runtime = runtime();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let trusted = secured(&runtime, Some(of(&ours)));
    // It trusts this cluster's authority, but its own certificate is another one's.
    let authority = ours.issue(&["127.0.0.1"]).authority;
    let stranger = TlsPem { authority, ..theirs.issue(&["127.0.0.1"]) };
    let stranger = secured(&runtime, Some(Tls::new(stranger).unwrap()));
    let why = refusal(&stranger, &trusted);
    assert!(why.contains("security.ssl.internal.cert"), "{why}");
    let why = refusal(&trusted, &stranger);
    assert!(why.contains("security.ssl.internal.ca"), "{why}");
}

#[test]
fn a_certificate_for_another_host_is_refused_by_the_side_that_dials() {
    let runtime = runtime();
    let authority = Authority::new();
    let ours = secured(&runtime, Some(of(&authority)));
    let elsewhere = Tls::new(authority.issue(&["elsewhere"])).unwrap();
    let elsewhere = secured(&runtime, Some(elsewhere));
    let why = refusal(&ours, &elsewhere);
    assert!(why.contains("name the peer's host"), "{why}");
}
