//! Bodies of any size: more than the memory for them, several at once, cut off, and more than the disk takes.

use crate::fixture::*;
use gateways::{
    Call, FabricError, RpcOptions, TraceContext,
    frame::{self, AskHeader, Decoded, Frame, Kind},
};
use model::Fence;
use platform::{BoxStream, Network};
use std::{path::PathBuf, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MIB: usize = 1 << 20;

/// Options of a process that keeps 1 MiB of long bodies in memory.
fn small(host: &str) -> RpcOptions {
    RpcOptions { body_memory: MIB, body_folders: vec![folder(host)], ..options(host) }
}

fn folder(host: &str) -> PathBuf {
    std::env::temp_dir().join(format!("flott-large-{}-{host}", std::process::id()))
}

fn body(mib: usize, first: u8) -> Vec<u8> {
    (0..mib * MIB).map(|i| first.wrapping_add((i >> 3) as u8)).collect()
}

#[test]
fn bodies_beyond_the_memory_for_them_cross_both_ways_and_several_at_once() {
    simulated(|world| async move {
        let server = world.service_with("a", small("a")).await;
        let pair = Pair::of(server, world.service_with("b", small("b")).await);
        let echoes = (3..=5).map(|n| {
            let (remote, bytes) = (pair.remote.clone(), body(usize::from(n), n));
            async move {
                let echoed = remote.ask(Echo { bytes: bytes.clone() }).await;
                assert!(echoed.unwrap().as_ref() == bytes, "body {n} came back changed");
            }
        });
        let mut echoes = std::pin::pin!(futures::future::join_all(echoes));
        let small = tokio::select! {
            biased;
            _ = &mut echoes => panic!("the small call waited behind the large ones"),
            small = pair.remote.ask(Count {}) => small,
        };
        assert_eq!(small, Ok(0));
        echoes.await;
        for host in ["a", "b"] {
            assert_eq!(open_files(host), 0, "files of {host}");
            // It was made, and is empty.
            std::fs::remove_dir(folder(host)).unwrap();
        }
    });
}

/// Number of files of long bodies that this process holds for `host`.
fn open_files(host: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    open.filter(|file| file.starts_with(folder(host))).count()
}

#[test]
fn a_disk_that_does_not_take_a_body_is_named_and_costs_only_that_call() {
    simulated(|world| async move {
        let nowhere =
            |host| RpcOptions { body_folders: vec!["/dev/null/tmp".into()], ..small(host) };
        let server = world.service_with("a", nowhere("a")).await;
        let client = world.service_with("b", options("b")).await;
        let pair = Pair::of(server, client);
        let refused = pair.remote.ask(Echo { bytes: vec![0; 2 * MIB] }).await.unwrap_err();
        let Some(FabricError::NoRoom { bytes, folder, .. }) = refused.fabric() else {
            panic!("{refused}");
        };
        assert!(*bytes > 2 << 20 && folder == "/dev/null/tmp", "{refused}");
        assert!(!refused.fabric().unwrap().may_have_run());
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "the connection goes on");
        // The reply, this time.
        let client = world.service_with("c", nowhere("c")).await;
        let server = world.service("d").await;
        let pair = Pair::of(server, client);
        let lost = pair.remote.ask(Echo { bytes: vec![0; 2 * MIB] }).await;
        assert!(fabric_error!(lost, FabricError::NoRoom { .. }).may_have_run());
        assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "the connection goes on");
    });
}

/// A peer that writes its frames by hand.
struct Peer {
    stream: BoxStream,
    /// Bytes that were read and are not handled yet.
    read: Vec<u8>,
}

impl Peer {
    async fn connect(world: &World, incarnation: u128) -> Self {
        let mut stream = world.net.connect("a", 6123).await.unwrap();
        introduce(&mut stream, incarnation).await;
        Self { stream, read: Vec::new() }
    }

    async fn send(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame::encode(frame, &mut bytes);
        // The other side may have closed the connection in the middle of it.
        let _ = self.stream.write_all(&bytes).await;
    }

    /// Begins a request of `total` bytes that is to be answered within a second.
    async fn begin(&mut self, id: u64, total: u64) {
        let ask = AskHeader {
            call: Echo::ID,
            remaining: Duration::from_secs(1),
            trace: TraceContext::default(),
            fence: session(1).session(),
            session: None,
            endpoint: "test",
        };
        let first = Frame::answer(Kind::Ask, id, &[]);
        self.send(&Frame { ask: Some(ask), total: Some(total), more: true, ..first }).await;
    }

    async fn part(&mut self, id: u64, bytes: usize, more: bool) {
        let bytes = vec![0; bytes];
        self.send(&Frame { more, ..Frame::answer(Kind::Chunk, id, &bytes) }).await;
    }

    /// The next fault; `None` when the other side has closed the connection. Pings are skipped.
    async fn fault(&mut self) -> Option<(u64, FabricError)> {
        let Self { stream, read } = self;
        loop {
            while let Ok(Decoded::Frame(frame, used)) = frame::decode(read, 8 * MIB) {
                let fault = (frame.kind == Kind::Fault)
                    .then(|| (frame.id, gateways::codec::decode("a fault", frame.body).unwrap()));
                read.drain(..used);
                if fault.is_some() {
                    return fault;
                }
            }
            if stream.read_buf(read).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }
}

#[test]
fn parts_that_are_not_what_was_announced_close_the_connection_and_nothing_else() {
    simulated(|world| async move {
        let server = world
            .service_with(
                "a",
                RpcOptions { body_folders: vec![folder("a-malformed")], ..small("a") },
            )
            .await;
        let _served = serve(&server);
        let other = world.service("b").await;
        let other = other.gateway::<TestGateway>(&server.address_of("test"), session(1));
        // In memory, and in a file.
        for (round, total) in [MIB / 2, 4 * MIB].into_iter().enumerate() {
            for (attack, last) in [total, total / 4].into_iter().enumerate() {
                let mut peer = Peer::connect(&world, (round * 2 + attack + 1) as u128).await;
                peer.part(99, 1000, true).await; // of a body that never began: skipped
                peer.begin(1, total as u64).await;
                peer.part(1, total / 2, true).await;
                peer.part(1, last, false).await; // too long, then too short
                assert_eq!(peer.fault().await, None, "attack {attack} with {total} bytes");
            }
        }
        for count in 0..3 {
            assert_eq!(other.ask(Count {}).await, Ok(count));
        }
        let bytes = body(3, 1);
        let echoed = other.ask(Echo { bytes: bytes.clone() }).await;
        assert!(echoed.unwrap().as_ref() == bytes);
        std::fs::remove_dir(folder("a-malformed")).unwrap();
    });
}

#[test]
fn bodies_whose_peers_stop_half_way_give_their_room_back() {
    simulated(|world| async move {
        let server = world
            .service_with("a", RpcOptions { body_folders: vec![folder("a-half")], ..small("a") })
            .await;
        let _served = serve(&server);
        let asked = world.service("b").await;
        let _asked_served = serve(&asked);
        let back = server.gateway::<TestGateway>(&asked.address_of("test"), session(1));
        let other = asked.gateway::<TestGateway>(&server.address_of("test"), session(1));
        let large = || other.ask(Echo { bytes: body(2, 1) });
        let when_there_is_room = || async {
            while let Err(error) = large().await {
                let overloaded = matches!(error.fabric(), Some(FabricError::Overloaded { .. }));
                assert!(overloaded, "{error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // One stops and stays: its calls' deadlines pass.
        let mut stays = Peer::connect(&world, 1).await;
        stays.begin(1, MIB as u64).await;
        stays.part(1, 1000, true).await;
        for id in 2..66 {
            stays.begin(id, u64::MAX).await;
            stays.part(id, 1000, true).await;
        }
        // A later body on this connection has been refused by then: the others were read before.
        stays.begin(66, u64::MAX).await;
        let (id, refused) = stays.fault().await.unwrap();
        assert!(id == 66 && matches!(refused, FabricError::Overloaded { .. }), "{id}: {refused}");
        let full = fabric_error!(large().await, FabricError::Overloaded { .. });
        assert!(!full.may_have_run());
        // The answer to a call of this side finds no room either, after the call has run.
        let lost = back.ask(Echo { bytes: body(2, 1) }).await;
        assert!(fabric_error!(lost, FabricError::Overloaded { .. }).may_have_run());
        let mut late = Vec::new();
        for _ in 1..66 {
            let (id, error) = stays.fault().await.unwrap();
            let FabricError::DeadlineExceeded { handler, .. } = &error else { panic!("{error}") };
            assert!(handler.contains("before all of the request had arrived"), "{error}");
            late.push(id);
        }
        late.sort_unstable();
        assert!(late.into_iter().eq(1..66));
        when_there_is_room().await;
        // Another one goes.
        let mut goes = Peer::connect(&world, 2).await;
        for id in 1..65 {
            goes.begin(id, u64::MAX).await;
        }
        goes.begin(65, u64::MAX).await;
        assert_eq!(goes.fault().await.unwrap().0, 65);
        drop(goes);
        while server.connections() > 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        when_there_is_room().await;
        assert_eq!(open_files("a-half"), 0);
        std::fs::remove_dir(folder("a-half")).unwrap();
    });
}
