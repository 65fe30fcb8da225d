//! Clients that send too much, too slowly or nothing at all.

use super::{World, world};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rest::{BodyLimits, RestSettings};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A limit of patience for what must come at once.
const SOON: Duration = Duration::from_secs(5);

/// A short request of somebody else.
const OTHER: &[u8] = b"GET /v1/jobs/overview HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The answer that a client got.
struct Told {
    status: u16,
    text: String,
}

impl Told {
    fn assert_error(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        let (head, body) = self.text.split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
        assert!(body.starts_with("{\"errors\":[\"") && body.contains(words), "{body}");
    }
}

impl World {
    async fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.handle.address.bound).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Sends, and reads until the server closes the connection.
    async fn send(&self, bytes: &[u8]) -> Told {
        told(self.connect(bytes).await).await
    }
}

async fn told(mut stream: TcpStream) -> Told {
    let mut bytes = Vec::new();
    // A connection that is reset behind the answer has brought the answer.
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "the connection stays open: {}", String::from_utf8_lossy(&bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
    Told { status: status.unwrap_or_else(|| panic!("no status: {text}")), text }
}

fn head(path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n\r\n")
}

fn limits(bodies: BodyLimits) -> impl FnOnce(&mut RestSettings) {
    move |settings| settings.bodies = bodies
}

#[tokio::test(flavor = "local")]
async fn a_body_that_is_too_large_is_refused_before_it_comes() {
    let world = world(|_| ()).await;
    let announced = head("/jars/x/run", "Content-Length: 99000000");
    world.send(announced.as_bytes()).await.assert_error(413, "max-content-length");
    let mut chunked = head("/v1/jars/x/run", "Transfer-Encoding: chunked").into_bytes();
    chunked.extend(format!("{:x}\r\n", (1 << 20) + 1).bytes());
    chunked.extend(vec![b' '; (1 << 20) + 1]);
    world.send(&chunked).await.assert_error(413, "larger than 1048576 bytes");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn bodies_share_one_budget() {
    let bodies = BodyLimits {
        each: 64 << 10,
        together: 64 << 10,
        within: Duration::from_secs(60),
        ..BodyLimits::default()
    };
    let world = world(limits(bodies)).await;
    let mut part = head("/jars/x/run", &format!("Content-Length: {}", 64 << 10)).into_bytes();
    part.extend(vec![b' '; 60 << 10]);
    let silent = world.connect(&part).await;
    let mut whole = head("/jars/x/run", &format!("Content-Length: {}", 10 << 10)).into_bytes();
    whole.extend(vec![b' '; 10 << 10]);
    // Until the server has read what the silent one sent there is room.
    let refused = loop {
        let told = world.send(&whole).await;
        if told.status != 404 {
            break told;
        }
    };
    refused.assert_error(503, "ask again");
    assert!(refused.text.to_lowercase().contains("retry-after"), "{}", refused.text);
    // The small one has the reserve.
    let mut small = head("/jars/x/run", &format!("Content-Length: {}", 4 << 10)).into_bytes();
    small.extend(vec![b' '; 4 << 10]);
    assert_eq!(world.send(&small).await.status, 404);
    drop(silent);
    while world.send(&whole).await.status != 404 {}
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_body_that_does_not_come_is_given_up() {
    let within = Duration::from_millis(300);
    let world = world(|settings| settings.bodies.within = within).await;
    let sized = head("/jars/x/run", "Content-Length: 100") + "{";
    let chunked = head("/jars/x/run", "Transfer-Encoding: chunked") + "1\r\n{\r\n";
    let unknown = head("/nothing", "Transfer-Encoding: chunked") + "1\r\n{\r\n";
    let mut slow = Vec::new();
    for bytes in [&sized, &chunked, &unknown, &sized] {
        slow.push(world.connect(bytes.as_bytes()).await);
    }
    assert_eq!(world.send(OTHER).await.status, 200);
    for stream in slow {
        told(stream).await.assert_error(408, "was not whole");
    }
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_connection_that_was_answered_is_not_kept_by_half_a_request() {
    let world = world(|_| ()).await;
    let one = b"GET /v1/jobs/overview HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1";
    assert_eq!(world.send(one).await.status, 200);
    world.handle.stop().await;
}

fn upload_head() -> String {
    let part =
        "--b\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"p\"\r\n\r\nours";
    let more = "Transfer-Encoding: chunked\r\nContent-Type: multipart/form-data; boundary=b";
    format!("{}{:x}\r\n{part}\r\n", head("/v1/jars/upload", more), part.len())
}

#[tokio::test(flavor = "local")]
async fn an_upload_that_stands_still_is_given_up() {
    let world = world(|s| s.bodies.upload_window = Duration::from_millis(300)).await;
    world.send(upload_head().as_bytes()).await.assert_error(408, "too slowly");
    let left = std::fs::read_dir(world.folder.path().join("up")).unwrap().count();
    assert_eq!(left, 0, "what came of it is gone");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn an_upload_that_moves_may_take_longer_than_the_window() {
    let world = world(|s| {
        s.bodies.upload_window = Duration::from_millis(1_500);
        s.bodies.upload_bytes = 1 << 10;
    })
    .await;
    let mut stream = world.connect(upload_head().as_bytes()).await;
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    for _ in 0..10 {
        pace.tick().await;
        stream.write_all(format!("{:x}\r\n", 2 << 10).as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; 2 << 10]).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
    }
    stream.write_all(b"9\r\n\r\n--b--\r\n\r\n0\r\n\r\n").await.unwrap();
    let told = told(stream).await;
    assert_eq!(told.status, 200, "{}", told.text);
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn uploads_at_once_are_counted() {
    let world = world(|s| s.bodies.uploads = 1).await;
    let first = world.connect(upload_head().as_bytes()).await;
    // The first one has its place when its file is there.
    let folder = world.folder.path().join("up");
    while std::fs::read_dir(&folder).unwrap().count() == 0 {
        tokio::task::yield_now().await;
    }
    world.send(upload_head().as_bytes()).await.assert_error(503, "being uploaded already");
    drop(first);
    world.handle.stop().await;
}

/// Opens more connections of one kind than there may be in all, while others are served. Returns those that are open when
/// there are no more than `max`.
async fn flood(world: &World, bytes: &[u8], max: usize) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for n in 0..100 {
        all.push(world.connect(bytes).await);
        if n % 10 == 9 {
            assert_eq!(world.send(OTHER).await.status, 200, "after {n}");
        }
    }
    let bounded = async {
        while all.len() > max {
            let mut open = Vec::new();
            for stream in std::mem::take(&mut all) {
                let mut byte = [0];
                let answered = stream.peek(&mut byte);
                if tokio::time::timeout(Duration::from_millis(1), answered).await.is_err() {
                    open.push(stream);
                }
            }
            all = open;
        }
    };
    let bounded = tokio::time::timeout(SOON, bounded).await;
    assert!(bounded.is_ok(), "{} are open", all.len());
    all
}

#[tokio::test(flavor = "local")]
async fn connections_without_a_request_leave_places_for_others() {
    let world = world(|_| ()).await;
    for bytes in [&b""[..], b"GET /v1/jobs"] {
        flood(&world, bytes, 16).await;
    }
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn long_polls_have_a_pool_of_their_own() {
    let world = world(|_| ()).await;
    let path = format!("/jobs/{}/execution-result?wait=60000", super::ENDLESS);
    let poll = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let open = flood(&world, poll.as_bytes(), 32).await;
    // The oldest is answered with what is known when one more comes.
    let next = world.connect(poll.as_bytes()).await;
    let told = told(open.into_iter().next().unwrap()).await;
    assert!(told.status == 200 && told.text.contains("IN_PROGRESS"), "{}", told.text);
    drop(next);
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn slow_bodies_leave_places_and_memory_for_others() {
    let world = world(|s| s.bodies.within = Duration::from_secs(60)).await;
    // Together they announce more than the budget, and send all but the last byte.
    let mut slow = head("/jars/x/run", &format!("Content-Length: {}", 1 << 20)).into_bytes();
    slow.extend(vec![b' '; (1 << 20) - 1]);
    let _open = flood(&world, &slow, 8).await;
    let whole = head("/jars/x/run", "Content-Length: 2") + "{}";
    assert_eq!(world.send(whole.as_bytes()).await.status, 404);
    world.handle.stop().await;
}

/// Returns a number of connections of one client, of each of which these bytes have come. A request of somebody else is answered after
/// every 64 of them.
async fn hold(world: &World, bytes: &[u8], number: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    while held.len() < number {
        held.push(world.connect(bytes).await);
        if held.len() % 64 == 0 {
            assert_eq!(world.send(OTHER).await.status, 200, "beside {}", held.len());
        }
    }
    held
}

#[tokio::test(flavor = "local")]
async fn at_the_numbers_of_an_attack_a_short_request_of_another_client_is_answered() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let world = world(|settings| {
        settings.connections_max = 1024;
        settings.bodies.within = Duration::from_secs(60);
    })
    .await;
    let poll = format!("/jobs/{}/execution-result?wait=60000", super::ENDLESS);
    let poll = format!("GET {poll} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut slow = head("/jars/x/run", &format!("Content-Length: {}", 1 << 20)).into_bytes();
    slow.extend(vec![b' '; (1 << 20) - 1]);
    // All of them at once, more than twice as many as there may be connections.
    let mut held = hold(&world, poll.as_bytes(), 1_024).await;
    let uploads = world.folder.path().join("up");
    held.extend(hold(&world, upload_head().as_bytes(), 64).await);
    // The last upload is under way: the endpoint has read what came before it.
    let all_begun = async {
        while std::fs::read_dir(&uploads).unwrap().count() < 64 {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(SOON, all_begun).await.is_ok(), "64 uploads are not begun");
    held.extend(hold(&world, &slow, 32).await);
    held.extend(hold(&world, b"", 1_100).await);
    assert_eq!(held.len(), 2_220);
    for path in ["/v1/jobs/overview", "/v1/config", "/v1/jars"] {
        let short = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(world.send(short.as_bytes()).await.status, 200, "{path}");
    }
    let whole = head("/jars/x/run", "Content-Length: 2") + "{}";
    assert_eq!(world.send(whole.as_bytes()).await.status, 404, "a short body has room");
    let uploads = std::fs::read_dir(&uploads).unwrap().count();
    assert_eq!(uploads, 64, "uploads wait for more, whatever others do");
    drop(held);
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn an_upload_that_stands_still_gives_way_to_one_that_waits() {
    let world = world(|s| s.bodies.uploads = 1).await;
    let stalled = world.connect(upload_head().as_bytes()).await;
    // Refused until the first one has stood still for a moment.
    let mut whole = upload_head().into_bytes();
    whole.extend(b"9\r\n\r\n--b--\r\n\r\n0\r\n\r\n");
    let told_at_last = loop {
        let told = world.send(&whole).await;
        if told.status != 503 {
            break told;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(told_at_last.status, 200, "{}", told_at_last.text);
    told(stalled).await.assert_error(408, "too slowly");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn whatever_is_refused_is_refused_in_the_same_words() {
    let world = world(|_| ()).await;
    let long = format!("GET /jobs/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(20_000));
    world.send(long.as_bytes()).await.assert_error(414, "are not served");
    let no_parts = head("/jars/upload", "Content-Length: 0");
    world.send(no_parts.as_bytes()).await.assert_error(400, "multipart");
    let not_utf8 = b"GET /jobs/%ff HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let told = world.send(not_utf8).await;
    told.assert_error(told.status, "");
    assert!((400..500).contains(&told.status));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn head_is_get_without_its_body() {
    let world = world(|_| ()).await;
    std::fs::write(world.folder.path().join("jm.log"), "line\n".repeat(50_000)).unwrap();
    for path in ["/v1/jobs/overview", "/jobmanager/log"] {
        let ask = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let told = world.send(ask.as_bytes()).await;
        assert_eq!(told.status, 200, "{}", told.text);
        assert!(told.text.ends_with("\r\n\r\n"), "{}", told.text);
    }
    let wrong = world.send(head("/v1/jobs/overview", "Content-Length: 0").as_bytes()).await;
    wrong.assert_error(405, "possible: GET, HEAD");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_log_that_is_a_link_or_a_pipe_is_none() {
    let world = world(|_| ()).await;
    let folder = world.folder.path();
    std::fs::write(folder.join("secret"), "hush").unwrap();
    std::os::unix::fs::symlink(folder.join("secret"), folder.join("link.log")).unwrap();
    nix::unistd::mkfifo(&folder.join("pipe.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(folder.join("folder.log")).unwrap();
    for name in ["link.log", "pipe.log", "folder.log"] {
        let ask = format!("GET /jobmanager/logs/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let told = world.send(ask.as_bytes()).await;
        told.assert_error(404, "there is no log file");
        assert!(!told.text.contains("hush"));
    }
    assert!(world.client.logs().await.unwrap().logs.is_empty());
    world.handle.stop().await;
}
