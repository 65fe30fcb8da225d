//! Every exchange of the library with Hadoop's daemons, without a socket: what the core sends must be, byte for
//! byte, what it sent when these exchanges were captured, and what daemons said then is handed to it in pieces of
//! any length. `README.md` tells how exchanges are captured; `data` holds them.
//!
//! The scripts run twice: against a cluster, where their connections are written down, and over what was written
//! down. What they assert is true of both.

#![cfg(test)]

mod client;
mod failures;
mod fixture;
mod gss;
mod java;
mod master;
mod methods;
mod scarce;
mod secure;
mod wire;
mod world;

use client::size;
use hadoop::sasl::{Cipher, Qop};
use hadoop::yarn::Ask;
use hadoop::yarn::messages::LocalResource;
use proptest::prelude::*;
use wire::Cuts;
use world::World;

/// With a cluster that has no security.
fn plain(world: &World) {
    client::nodes(world);
    client::queues(world);
    client::reservations(world);
    client::managed(world);
    client::delegation_token(world);
    failures::of_calls(world);
    failures::besides_calls(world);
    failures::no_tokens_of_hdfs(world);

    let (id, token) = client::unmanaged(world);
    failures::of_connections(world, &token);
    let mut life = master::Life::begin(world, token);
    life.over("authentication", Qop::Authentication, Cipher::Rc4);
    let container = life.containers(1, Ask::new(1, size(64))).remove(0);
    life.over("integrity", Qop::Integrity, Cipher::Rc4);
    master::node(world, &mut life, &container, file(world));
    life.over("privacy-3des", Qop::Privacy, Cipher::TripleDes);
    life.refused();
    let two = life.containers(2, Ask { priority: 1, ..Ask::new(2, size(64)) });
    life.over("privacy-rc4", Qop::Privacy, Cipher::Rc4);
    for container in two {
        life.released(container.id.unwrap());
    }
    client::moved(world, id);
    life.finish();
    master::recovered(world);
}

/// A file that a node can fetch.
fn file(world: &World) -> LocalResource {
    let path = world.fact("file", || {
        let path = std::path::PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap());
        let path = path.join("fetched");
        std::fs::write(&path, "text").unwrap();
        path.display().to_string()
    });
    let modified = world.fact("modified", || {
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis().to_string()
    });
    LocalResource::file(&format!("file://{path}"), 4, modified.parse().unwrap()).unwrap()
}

/// With a cluster that has Kerberos and two ResourceManagers.
fn kerberized(world: &World) {
    secure::tickets(world);
    secure::proxy(world);
    secure::delegation_tokens(world);
    secure::refusals(world);
}

const PLAIN: &str = "plain";
const SECURE: &str = "secure";
const SCARCE: &str = "scarce";

#[test]
fn every_exchange_is_what_it_was_however_its_bytes_come() {
    for length in [usize::MAX, 1, 2, 3, 5, 64] {
        plain(&World::captured(PLAIN, Cuts::Each(length)));
        kerberized(&World::captured(SECURE, Cuts::Each(length)));
        scarce::all(&World::captured(SCARCE, Cuts::Each(length)));
    }
}

proptest! {
    // Each case plays all exchanges: what fails is the same for most seeds, and looked for no longer.
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_exchange_is_what_it_was_wherever_its_bytes_are_cut(seed in any::<u64>()) {
        plain(&World::captured(PLAIN, Cuts::Random(seed)));
        kerberized(&World::captured(SECURE, Cuts::Random(seed)));
        scarce::all(&World::captured(SCARCE, Cuts::Random(seed)));
    }
}

/// Not a test: it writes what the others read.
#[test]
#[ignore = "captures a cluster made for it: see README.md"]
fn capture() {
    match std::env::var("CAPTURE").unwrap().as_str() {
        "plain" => plain(&World::live(PLAIN)),
        "secure" => kerberized(&World::live(SECURE)),
        // Hadoop's own commands would say nothing new there.
        "scarce" => return scarce::all(&World::live(SCARCE)),
        other => panic!("no kind of cluster: {other}"),
    }
    java::capture();
}
