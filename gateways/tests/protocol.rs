//! `PROTOCOL.md` is true: each golden block is what the code encodes, and decodes back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

use gateways::{
    Call, EndpointAddress, Executed, FabricError, NodeAddress, TraceContext, codec,
    frame::{self, AskHeader, Decoded, Frame, Kind},
    handshake::{self, Greeting, Identity, Role, Secret, VERSION},
    resource_manager::RegisterTaskExecutor,
    task_executor::CancelTasks,
};
use model::{
    Epoch, ExecutionAttemptId, JobId, JobVertexId, LeaderSession, MemorySize, ProcessSession,
    ResourceId, TaskManagerFacts, WorkerResourceSpec,
};
use proptest::prelude::*;
use std::{collections::BTreeMap, time::Duration};

const PAGE: &str = include_str!("../PROTOCOL.md");

/// The golden blocks of the page by their names.
fn golden() -> BTreeMap<&'static str, Vec<u8>> {
    let mut blocks = BTreeMap::new();
    let mut parts = PAGE.split("```");
    parts.next();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        let (name, digits) = block.split_once('\n').unwrap();
        let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        assert!(blocks.insert(name, bytes).is_none(), "{name} twice");
    }
    blocks
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let groups =
            line.chunks(4).map(|g| g.iter().map(|b| format!("{b:02x}")).collect::<String>());
        groups.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn greeting(role: Role, node: &str) -> Greeting {
    let nonce = if role == Role::Client { [0x11; 32] } else { [0x22; 32] };
    Greeting {
        role,
        version: VERSION,
        identity: Identity::Cluster,
        nonce,
        incarnation: 0x0102,
        cluster: "demo".to_owned(),
        node: node.to_owned(),
    }
}

fn session(store: u64, nonce: u64) -> LeaderSession {
    LeaderSession { epoch: Epoch { store, process: 2 }, nonce }
}

fn ask_header() -> AskHeader<'static> {
    AskHeader {
        call: CancelTasks::ID,
        remaining: Duration::from_secs(10),
        trace: TraceContext { trace: 0xa, span: 0xb },
        fence: session(1, 0xc),
        session: Some(session(3, 0xd)),
        endpoint: "task_executor",
    }
}

fn message() -> CancelTasks {
    let attempt = ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask: 3, attempt: 4 };
    CancelTasks { job_id: JobId(5), attempts: vec![attempt] }
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame::encode(frame, &mut out);
    out
}

/// Everything that the page shows.
fn examples() -> Vec<(&'static str, Vec<u8>)> {
    let secret = Secret::new(*b"0123456789abcdef0123456789abcdef");
    let client = greeting(Role::Client, "tm-1:6122").encode();
    let server = greeting(Role::Server, "jm-1:6123").encode();
    let prove = |role| {
        handshake::proof(&secret, role, &client, &server, handshake::Channel::Plain).to_vec()
    };
    let body = codec::encode(&message()).unwrap();
    let fault = FabricError::Unreachable {
        peer: NodeAddress::new("tm-1:6122"),
        executed: Executed::Maybe,
        why: "gone".to_owned(),
    };
    let fault = codec::encode(&fault).unwrap();
    let ask = Frame { ask: Some(ask_header()), ..Frame::answer(Kind::Ask, 7, &body) };
    let first = Frame { total: Some(6), more: true, ..Frame::answer(Kind::Reply, 7, &[]) };
    let part =
        Frame { of_answer: true, more: true, ..Frame::answer(Kind::Chunk, 7, &[1, 2, 3, 4]) };
    let last = Frame { of_answer: true, ..Frame::answer(Kind::Chunk, 7, &[5, 6]) };
    vec![
        ("greeting-client", client.clone()),
        ("greeting-server", server.clone()),
        ("proof-server", prove(Role::Server)),
        ("proof-client", prove(Role::Client)),
        ("job-key", secret.for_job(JobId(5)).expose().to_vec()),
        ("ask", encoded(&ask)),
        ("body", body.clone()),
        ("reply", encoded(&Frame::answer(Kind::Reply, 7, &codec::encode(&()).unwrap()))),
        ("fault", encoded(&Frame::answer(Kind::Fault, 7, &fault))),
        ("long", [encoded(&first), encoded(&part), encoded(&last)].concat()),
        ("ping", encoded(&Frame::bare(Kind::Ping))),
        ("goodbye", encoded(&Frame::bare(Kind::Goodbye))),
    ]
}

#[test]
fn every_golden_block_is_what_the_code_encodes() {
    let mut golden = golden();
    for (name, bytes) in examples() {
        let shown = golden.remove(name).unwrap_or_default();
        assert!(shown == bytes, "block {name} should be\n{}", hex(&bytes));
    }
    assert!(golden.is_empty(), "blocks that nothing checks: {:?}", golden.keys());
}

#[test]
fn golden_frames_decode_to_what_was_meant() {
    let golden = golden();
    let ask = &golden["ask"];
    let Ok(Decoded::Frame(frame, used)) = frame::decode(ask, 1 << 20) else {
        panic!("not a frame");
    };
    assert_eq!((used, frame.ask), (ask.len(), Some(ask_header())));
    let message: CancelTasks = codec::decode("CancelTasks", frame.body).unwrap();
    assert_eq!(format!("{message:?}"), format!("{:?}", self::message()));
    for length in 0..ask.len() {
        let cut = frame::decode(&ask[..length], 1 << 20);
        assert!(matches!(cut, Ok(Decoded::Incomplete(more)) if more > length));
    }
}

/// A TaskManager that was built before its registration said what machine it is on.
#[test]
fn what_a_message_lacks_has_a_default() {
    #[derive(serde::Serialize)]
    struct Older<'a> {
        resource_id: &'a ResourceId,
        address: &'a EndpointAddress,
        session: ProcessSession,
        heartbeat: &'a EndpointAddress,
        host: &'a str,
        spec: &'a WorkerResourceSpec,
        pid: u32,
        process_memory: MemorySize,
    }
    let now = RegisterTaskExecutor {
        resource_id: ResourceId::new("tm"),
        address: EndpointAddress::new(NodeAddress::new("tm-1:6122"), "task_executor"),
        session: ProcessSession(session(1, 2)),
        heartbeat: EndpointAddress::new(NodeAddress::new("tm-1:6122"), "heartbeat"),
        host: "tm-1".to_owned(),
        spec: WorkerResourceSpec::default(),
        pid: 7,
        process_memory: MemorySize(9),
        facts: TaskManagerFacts { cpu_cores: 3, ..TaskManagerFacts::default() },
    };
    let older = codec::encode(&Older {
        resource_id: &now.resource_id,
        address: &now.address,
        session: now.session,
        heartbeat: &now.heartbeat,
        host: &now.host,
        spec: &now.spec,
        pid: now.pid,
        process_memory: now.process_memory,
    })
    .unwrap();
    let older: RegisterTaskExecutor = codec::decode("RegisterTaskExecutor", &older).unwrap();
    assert_eq!(older, RegisterTaskExecutor { facts: TaskManagerFacts::default(), ..now });
}

#[test]
fn frames_that_are_none_are_errors() {
    let over = frame::decode(&[0xff, 0xff, 0xff, 0xff], 1 << 20);
    assert!(matches!(over, Err(frame::FrameError::TooLong { .. })));
    let of = |bytes: &[u8]| {
        let mut frame = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(bytes);
        frame::decode(&frame, 1 << 20).err()
    };
    assert_eq!(of(&[]), Some(frame::FrameError::TooShort));
    assert_eq!(of(&[9, 1]), Some(frame::FrameError::Version(9)));
    assert_eq!(of(&[1, 99]), Some(frame::FrameError::Kind(99)));
    assert_eq!(of(&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(frame::FrameError::TooShort));
}

proptest! {
    #[test]
    fn decoding_what_was_encoded_gives_it_back(
        kind in 1_u8..=8,
        id: u64,
        of_answer: bool,
        total in proptest::option::of(any::<u64>()),
        micros in 0_u64..1 << 60,
        fence: (u64, u64, u64),
        own in proptest::option::of(any::<(u64, u64, u64)>()),
        endpoint in "[a-z/_0-9]{0,80}",
        body: Vec<u8>,
    ) {
        let session = |(store, process, nonce)| LeaderSession { epoch: Epoch { store, process }, nonce };
        let kind = [
            Kind::Ask, Kind::Reply, Kind::Refused, Kind::Fault,
            Kind::Chunk, Kind::Ping, Kind::Pong, Kind::Goodbye,
        ][usize::from(kind) - 1];
        let ask = AskHeader {
            call: 77,
            remaining: Duration::from_micros(micros),
            trace: TraceContext { trace: u128::from(id) << 40, span: id },
            fence: session(fence),
            session: own.map(session),
            endpoint: &endpoint,
        };
        let total = total.filter(|_| kind != Kind::Chunk);
        let frame = Frame {
            kind,
            id,
            ask: (kind == Kind::Ask).then_some(ask),
            of_answer,
            total,
            more: total.is_some(),
            body: &body,
        };
        let bytes = encoded(&frame);
        prop_assert_eq!(frame::decode(&bytes, 1 << 20), Ok(Decoded::Frame(frame, bytes.len())));
    }

    #[test]
    fn any_bytes_decode_to_a_frame_or_an_error(bytes: Vec<u8>) {
        if let Ok(Decoded::Frame(_, used)) = frame::decode(&bytes, 1 << 20) {
            prop_assert!(used <= bytes.len());
        }
        let _ = Greeting::decode(&bytes);
    }
}
