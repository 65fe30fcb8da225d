//! Sources through the harness, and the enumerator by itself.

use super::*;
use crate::{
    Coordinator, Interrupt, TaskError,
    api::tests::{built, lines, run},
    chain::{NoConsumer, ReadProgress, SourceReader},
    harness::Harness,
    operators::{Collector, OperatorContext, OperatorMail, SideOutputs},
};
use bytes::Bytes;
use model::{ExecutionAttemptId, JobVertexId};
use proptest::prelude::*;
use std::{
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
};
use storage::{
    files::{RemoteFile, RemoteFiles},
    objects::{StoreError, StoreFuture},
};

fn attempt(subtask: u32, attempt: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask, attempt }
}

/// Local files as another system would have them: `hdfs://fake/path`. Each read brings at most three bytes.
#[derive(Debug)]
struct Elsewhere;

#[derive(Debug)]
struct ElsewhereFile(Vec<u8>);

fn remote(uri: &str) -> Result<Arc<dyn RemoteFiles>, StoreError> {
    assert!(uri.starts_with("hdfs://fake/"), "{uri}");
    Ok(Arc::new(Elsewhere))
}

fn elsewhere(path: &Path) -> PathBuf {
    PathBuf::from(format!("hdfs://fake{}", path.display()))
}

fn place(uri: &str) -> PathBuf {
    PathBuf::from(uri.strip_prefix("hdfs://fake").unwrap())
}

impl RemoteFiles for Elsewhere {
    fn list(&self, uri: &str) -> StoreFuture<Vec<(String, u64)>> {
        let (uri, path) = (uri.to_owned(), place(uri));
        Box::pin(async move {
            let length = std::fs::metadata(&path).map_err(|e| StoreError::from_io(&path, &e));
            Ok(vec![(uri, length?.len())])
        })
    }
    fn open(&self, uri: &str) -> StoreFuture<Arc<dyn RemoteFile>> {
        let path = place(uri);
        Box::pin(async move {
            let bytes = std::fs::read(&path).map_err(|e| StoreError::from_io(&path, &e))?;
            Ok(Arc::new(ElsewhereFile(bytes)) as Arc<dyn RemoteFile>)
        })
    }
}

impl RemoteFile for ElsewhereFile {
    fn read(&self, offset: u64, most: usize) -> StoreFuture<Bytes> {
        let rest = self.0.iter().skip(offset as usize).take(most.min(3)).copied();
        Box::pin(std::future::ready(Ok(rest.collect())))
    }
}

/// Lines in a person's sense: the text between line feeds, without one carriage return at its end; behind the last line
/// feed only if there is a byte.
fn lines_of(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).collect()
}

fn read(path: &Path, split_bytes: u64, parallelism: u32) -> Vec<Vec<u8>> {
    let path = path.to_owned();
    let job = built(parallelism, move |env| {
        env.text::<Vec<u8>>("line_source", &path, Some(split_bytes), remote).collect();
    });
    let mut lines = run(&job).collected.concat();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Every line exactly once, however the file is cut.
    #[test]
    fn ranges_cut_no_line(
        text in prop::collection::vec(prop::sample::select(vec![b'a', b'\n', b'\r', 0xff, b'b']), 0..120),
        split_bytes in 1_u64..50, parallelism in 1_u32..4,
    ) {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("text");
        std::fs::write(&path, &text).unwrap();
        let mut expected = lines_of(&text);
        expected.sort();
        prop_assert_eq!(&read(&path, split_bytes, parallelism), &expected);
        prop_assert_eq!(&read(&elsewhere(&path), split_bytes, parallelism), &expected);
    }

    #[test]
    fn blocks_cut_no_line(blocks in prop::collection::vec("[ab\n]{0,20}", 0..20)) {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for block in &blocks {
            buffer.push(block.as_bytes()).unwrap();
            while let Some(line) = buffer.next_line() {
                lines.push(line.to_vec());
            }
        }
        let rest = buffer.rest().to_vec();
        if !rest.is_empty() {
            lines.push(rest);
        }
        prop_assert_eq!(lines, lines_of(blocks.concat().as_bytes()));
    }

    #[test]
    fn bytes_that_are_no_splits_are_refused_without_a_panic(bytes: Vec<u8>) {
        let _ = FileSplits::decode(&bytes);
    }
}

#[test]
fn folders_are_read_in_full_without_their_hidden_files() {
    let tmp = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tmp.path().join("in/deeper")).unwrap();
    for (name, text) in
        [("a", "1\n2\r\n"), ("deeper/b", "3"), ("empty", ""), (".hidden", "4"), ("_too", "5")]
    {
        std::fs::write(tmp.path().join("in").join(name), text).unwrap();
    }
    assert_eq!(
        read(&tmp.path().join("in"), 1 << 20, 2),
        [b"1".to_vec(), b"2".to_vec(), b"3".to_vec()]
    );
}

#[test]
fn a_line_that_ends_with_crlf_loses_one_carriage_return_and_no_more() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    let text = b"one\r\ntwo\r\r\n\r\nthr\ree\r";
    std::fs::write(&path, text).unwrap();
    let expected = [b"".to_vec(), b"one".to_vec(), b"thr\ree".to_vec(), b"two\r".to_vec()];
    for split_bytes in 1..=text.len() as u64 {
        assert_eq!(read(&path, split_bytes, 2), expected, "{split_bytes}");
        assert_eq!(read(&elsewhere(&path), split_bytes, 2), expected, "{split_bytes}");
    }
    // Places in messages are those of the raw bytes.
    std::fs::write(&path, b"fine\r\n\xff\r\n").unwrap();
    let job = built(1, move |env| drop(env.read_text_file(&path).collect()));
    let error = Harness::new(tmp.path()).run(&job).unwrap_err().to_string();
    assert!(error.contains("at byte 6") && error.contains("not UTF-8"), "{error}");
}

#[test]
fn large_files_and_long_lines() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    let mut text = Vec::new();
    for i in 0..2_000 {
        writeln!(text, "{}", "x".repeat(i * 7 % 900)).unwrap();
    }
    text.extend(vec![b'y'; 3 << 20]);
    text.extend(b"\nlast");
    std::fs::write(&path, &text).unwrap();
    let mut expected = lines_of(&text);
    expected.sort();
    assert!(read(&path, 100_000, 3) == expected);
}

#[test]
fn splits_of_attempts_that_ended_are_given_again() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    std::fs::write(&path, "0123456789").unwrap();
    let mut enumerator = FileEnumerator::new(vec![path], 2, Some(4));
    enumerator.start(None).unwrap();
    let mut next = |of| FileSplits::decode(&enumerator.handle_event(of, &[1]).unwrap()).unwrap().0;
    let first = next(attempt(0, 0));
    assert_eq!((first[0].start, first[0].end), (0, 4));
    assert_eq!(next(attempt(1, 0))[0].start, 4);
    assert_eq!(next(attempt(1, 0))[0].end, 10);
    assert!(next(attempt(1, 0)).is_empty());
    enumerator.attempts_ended(&[attempt(0, 0)]);
    let mut next = |of| FileSplits::decode(&enumerator.handle_event(of, &[1]).unwrap()).unwrap().0;
    assert_eq!(next(attempt(0, 1)), first);
    assert!(next(attempt(0, 1)).is_empty());
    assert!(enumerator.handle_event(attempt(0, 1), b"nonsense").is_err());
}

#[test]
fn an_absent_input_is_named() {
    let mut enumerator = FileEnumerator::new(vec!["/nowhere/at/all".into()], 1, None);
    let error = enumerator.start(None).unwrap_err();
    assert!(
        error.starts_with("the input '/nowhere/at/all' can't be read: No such file"),
        "{error}"
    );
}

#[test]
fn what_is_no_file_is_refused_with_what_it_is() {
    let tmp = tempfile::tempdir().unwrap();
    let pipe = tmp.path().join("in/pipe");
    std::fs::create_dir(tmp.path().join("in")).unwrap();
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let device = Path::new("/dev/zero").to_owned();
    for (input, named, kind) in [
        (pipe.clone(), &pipe, "a pipe (FIFO)"),
        (tmp.path().join("in"), &pipe, "a pipe (FIFO)"),
        (device.clone(), &device, "a character device"),
    ] {
        let error = FileEnumerator::new(vec![input], 1, None).start(None).unwrap_err();
        assert!(error.contains(&format!("'{}'", named.display())), "{error}");
        assert!(error.contains(kind), "{error}");
    }
}

/// Reads a range of a file that is changed after its first block was read.
fn read_split(path: &Path, end: u64, change: impl FnOnce()) -> Result<(), TaskError> {
    let context = OperatorContext::for_tests(0, 1);
    let mut reader = TextReader::<String>::default();
    let splits = FileSplits(vec![FileSplit { path: path.to_owned(), start: 0, end }]);
    let given = |splits: FileSplits| OperatorMail::Reply { ticket: 0, result: Ok(splits.encode()) };
    reader.mail(given(splits), &context)?;
    let mut out =
        Collector::new(Box::new(NoConsumer), SideOutputs::default(), Interrupt::default());
    reader.read(1, &mut out, &context)?;
    change();
    reader.mail(given(FileSplits::default()), &context)?;
    while reader.read(1 << 20, &mut out, &context)? != ReadProgress::Ended {}
    Ok(())
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_read_fails_the_job() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    let text = "0123456789\n".repeat(200_000);
    let len = text.len() as u64;
    let cut = |left| {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
    };
    // Of the range itself, or of the line that begins in it.
    for (end, left) in [(len, len / 2), (len, len - 1), (len / 2 + 1, len / 2 + 3)] {
        std::fs::write(&path, &text).unwrap();
        let error = read_split(&path, end, || cut(left)).unwrap_err();
        let shown = error.to_string();
        let named =
            format!("text' became shorter while it was read: it ends at byte {left}, before");
        assert!(shown.contains(&named), "{shown}");
        assert!(!error.is_recoverable());
    }
    std::fs::write(&path, &text).unwrap();
    read_split(&path, len, || ()).unwrap();
    // It was cut after it had been listed.
    let error = read_split(&path, len + 1, || ()).unwrap_err().to_string();
    assert!(error.contains(&format!("before byte {}", len + 1)), "{error}");
}

#[test]
fn a_reader_does_not_wait_for_a_pipe() {
    let tmp = tempfile::tempdir().unwrap();
    let pipe = tmp.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = read_split(&pipe, 9, || ()).unwrap_err().to_string();
    assert!(error.contains("pipe' is a pipe (FIFO), not a file"), "{error}");
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_place() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    std::fs::write(&path, b"fine\n\xff\xfe\n").unwrap();
    let from = path.clone();
    let job = built(1, move |env| drop(env.read_text_file(&from).collect()));
    let error = Harness::new(tmp.path()).run(&job).unwrap_err().to_string();
    assert!(error.contains("text' at byte 5") && error.contains("not UTF-8"), "{error}");
}

#[test]
fn sequences_have_every_number_once() {
    for parallelism in [1, 3, 7] {
        let job = built(parallelism, |env| drop(env.sequence(5..1_000).collect()));
        let mut numbers: Vec<u64> = lines(&run(&job)).iter().map(|l| l.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (5..1_000).collect::<Vec<_>>());
    }
    assert!(lines(&run(&built(2, |env| drop(env.sequence(3..3).collect())))).is_empty());
    let last = lines(&run(&built(2, |env| drop(env.sequence(u64::MAX - 1..).collect()))));
    assert_eq!(last, [(u64::MAX - 1).to_string(), u64::MAX.to_string()]);
}

#[test]
fn a_rate_is_kept() {
    let job = built(4, |env| drop(env.sequence_with_rate(0..1_000, 100.0).collect()));
    let outcome = run(&job);
    assert_eq!(lines(&outcome).len(), 1_000);
    assert!((9_000..=10_500).contains(&outcome.elapsed_ms), "{}", outcome.elapsed_ms);
}

#[test]
fn an_unbounded_job_shows_what_came_before_it_was_cancelled() {
    let job = built(2, |env| drop(env.sequence_with_rate(0.., 1_000.0).collect()));
    assert!(!job.graph().bounded);
    let tmp = tempfile::tempdir().unwrap();
    let outcome = Harness::new(tmp.path()).cancel_after(400).run(&job).unwrap();
    let numbers = lines(&outcome);
    assert!(numbers.len() > 10 && numbers.contains(&"0".to_owned()), "{}", numbers.len());
}

#[test]
fn collections_are_dealt_out() {
    let job = built(3, |env| drop(env.from_collection((0..10).map(|i| format!("v{i}"))).collect()));
    assert_eq!(lines(&run(&job)), (0..10).map(|i| format!("v{i}")).collect::<Vec<_>>());
}

#[test]
fn a_socket_gives_lines_without_their_ends_until_it_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let sender = std::thread::Builder::new();
    let sender = sender
        .spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"one\r\ntw").unwrap();
            stream.write_all(b"o\nthree\r").unwrap();
        })
        .unwrap();
    let job = built(2, move |env| drop(env.socket_text(&address).collect()));
    let outcome = run(&job);
    sender.join().unwrap();
    assert_eq!(lines(&outcome), ["one", "three", "two"]);
    let vertices: Vec<_> =
        job.graph().vertices.iter().map(|v| (v.name.as_str(), v.parallelism)).collect();
    assert_eq!(vertices[..2], [("socket", 1), ("collect", 2)]);
}

#[test]
fn a_missing_or_shortened_file_of_another_system_fails_by_its_uri() {
    let tmp = tempfile::tempdir().unwrap();
    let absent = elsewhere(&tmp.path().join("absent"));
    let uri = absent.to_str().unwrap().to_owned();
    let job = built(1, move |env| {
        env.text::<Vec<u8>>("line_source", &absent, None, remote).collect();
    });
    let error = Harness::new(tmp.path()).run(&job).unwrap_err().to_string();
    assert!(error.contains(&uri), "{error}");

    let path = tmp.path().join("text");
    std::fs::write(&path, "a line\n").unwrap();
    let mut reader = TextReader::<Vec<u8>>::with_remote(remote);
    let context = OperatorContext::for_tests(0, 1);
    let split = FileSplit { path: elsewhere(&path), start: 0, end: 100 };
    let answer = FileSplits(vec![split]).encode();
    let mail = |ticket, result| OperatorMail::Reply { ticket, result };
    reader.mail(mail(0, Ok(answer)), &context).unwrap();
    let mut out =
        Collector::new(Box::new(NoConsumer), SideOutputs::default(), Interrupt::default());
    let mut read = |reader: &mut TextReader<Vec<u8>>| reader.read(10, &mut out, &context);
    assert!(matches!(read(&mut reader), Ok(ReadProgress::Waiting)));
    // An answer that was meant for an earlier split changes nothing.
    reader.mail(mail(7, Ok(b"other".to_vec())), &context).unwrap();
    assert!(matches!(read(&mut reader), Ok(ReadProgress::Waiting)));
    reader.mail(mail(1, Ok(b"a line\n".to_vec())), &context).unwrap();
    assert!(matches!(read(&mut reader), Ok(ReadProgress::Waiting)));
    reader.mail(mail(1, Ok(Vec::new())), &context).unwrap();
    let shorter = read(&mut reader).unwrap_err().to_string();
    assert!(shorter.contains("hdfs://fake") && shorter.contains("became shorter"), "{shorter}");
    let refused = reader.mail(mail(1, Err("the NameNode is gone".into())), &context);
    assert!(refused.unwrap_err().to_string().contains("the NameNode is gone"));
}
