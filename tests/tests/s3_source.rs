//! Text in an S3 server as a source's input: splits, folders, what is refused, and a cluster whose own options name the server.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly")]

mod common;
#[path = "common/s3.rs"]
mod s3;

use common::{Cluster, SOON, output_lines};
use flott::prelude::{NoWatermarks, SourceTimestamps};
use flott::{sources::FileSource, testing};
use s3::{BUCKET, S3Server, SECRET_KEY};
use storage::files;

type Test = testing::SourceHarness<FileSource<Vec<u8>>>;
type Configured =
    testing::SourceHarnessBuilder<FileSource<Vec<u8>>, SourceTimestamps, NoWatermarks>;

/// A source of lines in a job whose options name the server.
fn configured(server: &S3Server, source: FileSource<Vec<u8>>, secret: &str) -> Configured {
    let options = server.options(secret).into_iter();
    options.fold(testing::source(source), |test, (key, value)| test.option(key, value))
}

fn open(server: &S3Server, source: FileSource<Vec<u8>>) -> Test {
    configured(server, source, SECRET_KEY).open().unwrap()
}

fn read(server: &S3Server, source: FileSource<Vec<u8>>) -> Vec<String> {
    let mut test = open(server, source);
    test.run().unwrap();
    test.output().into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

fn uri(path: &str) -> String {
    format!("s3://{BUCKET}{path}")
}

#[test]
fn every_line_is_read_once_however_an_object_is_cut() {
    let server = S3Server::start();
    // Splits end at, before and behind line ends, and inside of a line that is longer than they are.
    let text = "one\r\n\nthree is longer\nfour\n5";
    server.put("text", text);
    for split_bytes in 1..=text.len() as u64 {
        let lines = read(&server, FileSource::lines(uri("/text")).with_split_bytes(split_bytes));
        assert_eq!(lines, ["one", "", "three is longer", "four", "5"], "{split_bytes}");
    }
}

#[test]
fn a_large_object_is_read_by_ranges_and_never_as_a_whole() {
    let server = S3Server::start();
    let long = "x".repeat(6 << 20);
    let lines: Vec<String> = (0..200_000).map(|i| format!("line {i} of the text")).collect();
    let text = format!("{}\n{long}\n{}\n", lines.join("\n"), lines.join("\n"));
    assert!(text.len() > 13 << 20, "{}", text.len());
    server.put("in/large", &text);
    let read = read(&server, FileSource::lines(uri("/in")).with_split_bytes(5 << 20));
    assert!(read.iter().eq(lines.iter().chain([&long]).chain(&lines)), "{}", read.len());
    let reads = server.reads.lock().unwrap().clone();
    assert!(reads.len() >= 5, "{reads:?}");
    for read in &reads {
        let (from, to) = read.split_once("bytes=").unwrap().1.split_once('-').unwrap();
        let length = to.parse::<u64>().unwrap() + 1 - from.parse::<u64>().unwrap();
        assert!(length <= 4 << 20, "{reads:?}");
    }
}

#[test]
fn a_folder_is_read_in_the_order_of_names_without_hidden_objects() {
    let server = S3Server::start();
    for (name, text) in [
        ("in/b", "3\n4"),
        ("in/a", "1\n2\n"),
        ("in/empty", ""),
        ("in/deeper/c d%20\u{fc}#", "5"),
        ("in/_SUCCESS", "hidden"),
        ("in/.part", "hidden"),
        ("in/_temporary/0", "hidden"),
        ("input", "another one"),
        ("_logs/a", "6"),
    ] {
        server.put(name, text);
    }
    let of = |path: &str| read(&server, FileSource::lines(uri(path)));
    assert_eq!(of("/in"), ["1", "2", "3", "4", "5"]);
    assert_eq!(of("/in/"), ["1", "2", "3", "4", "5"]);
    assert_eq!(of("/in/deeper/c d%20\u{fc}#"), ["5"]);
    assert_eq!(of("/in/a"), ["1", "2"]);
    assert_eq!(of("/in/empty"), [""; 0]);
    assert_eq!(of("/_logs"), ["6"], "a folder that is named may have a hidden name");
    assert_eq!(of("").len(), 6);
    let smallest = read(&server, FileSource::lines(uri("/in")).with_split_bytes(1));
    assert_eq!(smallest, ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn a_listing_has_more_than_one_page() {
    let server = S3Server::start();
    for i in 0..2_100 {
        server.put(&format!("in/{i:05}"), "x");
    }
    let files = files::open(&uri("/in"), &server.settings(SECRET_KEY)).unwrap();
    let found = files.list(&uri("/in")).await.unwrap();
    assert_eq!(found.len(), 2_100);
    assert!(found.is_sorted() && found[2_099] == (uri("/in/02099"), 1), "{:?}", found.last());
}

#[test]
fn a_source_goes_on_from_a_snapshot_in_the_middle_of_an_object() {
    let server = S3Server::start();
    let lines: Vec<String> = (0..50_000).map(|i| i.to_string()).collect();
    server.put("text", lines.join("\n"));
    let source = || FileSource::lines(uri("/text")).with_split_bytes(100_000);
    let mut test = open(&server, source());
    let mut read = Vec::new();
    while read.is_empty() {
        test.poll().unwrap();
        read = test.output();
    }
    let snapshot = test.snapshot().unwrap();
    drop(test);
    let restored = configured(&server, source(), SECRET_KEY).restore(snapshot);
    let mut restored = restored.open().unwrap();
    restored.run().unwrap();
    let rest = restored.output();
    assert!(read.len() < lines.len(), "{}", read.len());
    let mut all: Vec<Vec<u8>> = read.into_iter().chain(rest).collect();
    all.sort_by_key(|line| String::from_utf8_lossy(line).parse::<u64>().unwrap());
    assert!(all.iter().eq(lines.iter().map(|line| line.as_bytes())), "{}", all.len());
}

#[test]
fn an_input_that_cannot_be_read_is_refused_with_what_where_and_what_to_do() {
    let server = S3Server::start();
    server.put("in/a", "1\n2\n");
    let refused = |path: &str, secret: &str| {
        let test = configured(&server, FileSource::lines(path), secret);
        test.open().err().unwrap().to_string()
    };
    for path in [uri("/absent"), uri("/absent/"), uri("/i"), uri("/in/a/b")] {
        let error = refused(&path, SECRET_KEY);
        let all = [&*path, "does not exist", "check the names of bucket and folder"];
        assert!(all.iter().all(|part| error.contains(part)), "{error}");
    }
    let error = refused("s3://absent-bucket/in", SECRET_KEY);
    let all =
        ["s3://absent-bucket/in", "the bucket s3://absent-bucket does not exist", "s3.endpoint"];
    assert!(all.iter().all(|part| error.contains(part)), "{error}");
    for path in [uri("/in"), uri("/in/a")] {
        let error = refused(&path, "wrong-secret");
        let all = [&*path, "no permission", "check s3.access-key and s3.secret-key"];
        assert!(all.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains("wrong-secret"), "{error}");
    }
}

#[test]
fn an_object_that_is_replaced_or_deleted_before_it_is_read_fails_the_job() {
    let server = S3Server::start();
    let fails = |change: &dyn Fn()| {
        server.put("text", "a line\n".repeat(1_300_000));
        let mut test = open(&server, FileSource::lines(uri("/text")).with_split_bytes(64 << 20));
        while test.output().is_empty() {
            test.poll().unwrap();
        }
        change();
        test.run().unwrap_err().to_string()
    };
    let longer = fails(&|| server.put("text", "b line\n".repeat(1_300_000)));
    assert!(longer.contains("the object was replaced while it was read"), "{longer}");
    assert!(longer.contains(&uri("/text")), "{longer}");
    let shorter = fails(&|| server.put("text", "a line\n"));
    assert!(shorter.contains("the object was replaced while it was read"), "{shorter}");
    let path = server.folder.path().join(BUCKET).join("text");
    let gone = fails(&|| std::fs::remove_file(&path).unwrap());
    assert!(gone.contains(&uri("/text")) && gone.contains("does not exist"), "{gone}");

    // Shorter than it was listed, before its first byte is read.
    server.put("text", "a line\n".repeat(10));
    let mut test = open(&server, FileSource::lines(uri("/text")).with_split_bytes(35));
    server.put("text", "a line\n");
    let error = test.run().unwrap_err().to_string();
    assert!(error.contains("became shorter while it was read"), "{error}");
}

/// The options of the server are those of the cluster: the source's enumerator and its readers get them without the job's help.
#[test]
fn a_job_reads_a_folder_of_the_server_that_its_cluster_is_configured_for() {
    let server = S3Server::start();
    server.put("in/a", "to be or\n");
    server.put("in/b", "not to be\n");
    let cluster = Cluster::start(&server.options(SECRET_KEY), 1);
    let out = cluster.folder.path().join("counts");
    let job = cluster.count_words(&uri("/in"), &out, "1");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_eq!(output_lines(&out), ["be\t2", "not\t1", "or\t1", "to\t2"]);
    let log = cluster.jobmanager.as_ref().unwrap().log();
    assert!(!log.contains(SECRET_KEY), "{log}");
}
