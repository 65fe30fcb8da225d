//! Sources through the harness, and the enumerator by itself.

use super::*;
use super::{
    coordinator::SourceCoordinator,
    link::EnumeratorLink,
    output::Requests,
    protocol::{FromReader, Poll, PollAnswer, ToReader},
    text::{FileReader, FileSource},
};
use crate::{
    Coordinator, CoordinatorContext, CoordinatorWaker, EventReply, Interrupt, OnFailure, TaskError,
    api::tests::{built, lines, run},
    batch::Batch,
    chain::{Head, NoConsumer, RoundRobin, SourceHead, fixtures::TestPort},
    harness::Harness,
    operators::{BoxError, Collector, Link, Operator, OperatorContext, OperatorMail, SideOutputs},
    seam::Barrier,
    state::fixtures,
    testing,
    time::{BoundedOutOfOrderness, PerSplit, SplitTimes, WatermarkStrategy},
    types::{decode_one, encode_one},
};
use bytes::Bytes;
use futures::future::BoxFuture;
use model::{ExecutionAttemptId, JobId, JobVertexId, OperatorId};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    ffi::OsStr,
    io::Write,
    net::TcpListener,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use storage::{
    files::{RemoteFile, RemoteFiles},
    objects::{S3Settings, StoreError, StoreFuture},
};

fn attempt(subtask: u32, attempt: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask, attempt }
}

/// Local files as another system would have them: `hdfs://fake/path`. Each read brings at most three bytes.
#[derive(Debug)]
struct Elsewhere;

#[derive(Debug)]
struct ElsewhereFile(Vec<u8>);

fn remote(uri: &str, _s3: &S3Settings) -> Result<Arc<dyn RemoteFiles>, StoreError> {
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

/// Makes a file of that text, in a folder which is deleted when the first result is dropped.
fn file(text: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    std::fs::write(&path, text).unwrap();
    (tmp, path)
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
        let (_tmp, path) = file(&text);
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
    fn bytes_that_no_source_wrote_are_refused_without_a_panic(bytes: Vec<u8>) {
        let _ = (Poll::decode(&bytes), PollAnswer::decode(&bytes), decode_one::<FileSplit>(&bytes));
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
    let text = b"one\r\ntwo\r\r\n\r\nthr\ree\r";
    let (tmp, path) = file(text);
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
    let mut text = Vec::new();
    for i in 0..2_000 {
        writeln!(text, "{}", "x".repeat(i * 7 % 900)).unwrap();
    }
    text.extend(vec![b'y'; 3 << 20]);
    text.extend(b"\nlast");
    let (_tmp, path) = file(&text);
    let mut expected = lines_of(&text);
    expected.sort();
    assert!(read(&path, 100_000, 3) == expected);
}

/// The coordinator of a source of text.
fn coordinator(path: PathBuf, split_bytes: Option<u64>) -> SourceCoordinator<FileSource<String>> {
    coordinator_of(FileSource::new(vec![path], split_bytes, remote), OnFailure::default())
}

fn started(path: &Path, split_bytes: u64) -> SourceCoordinator<FileSource<String>> {
    let mut files = coordinator(path.to_owned(), Some(split_bytes));
    files.start(None).unwrap();
    files
}

fn coordinator_of<S: Source>(source: S, on_failure: OnFailure) -> SourceCoordinator<S> {
    let context = CoordinatorContext {
        job_id: JobId(1),
        operator: OperatorId(2),
        parallelism: 2,
        tmp_dir: PathBuf::new(),
        options: Arc::default(),
        on_failure,
        waker: CoordinatorWaker::default(),
    };
    SourceCoordinator::new(Arc::new(Mutex::new(source)), context)
}

/// One attempt of a reader, as its chain would have it.
struct Attempt {
    id: ExecutionAttemptId,
    link: EnumeratorLink,
    answers: mpsc::Receiver<Result<Vec<u8>, String>>,
    answer: mpsc::Sender<Result<Vec<u8>, String>>,
}

impl Attempt {
    fn new(id: ExecutionAttemptId) -> Self {
        let (answer, answers) = mpsc::channel();
        let mut link = EnumeratorLink::default();
        link.say(FromReader::Register(Vec::new()));
        Self { id, link, answers, answer }
    }
    /// Sends the next poll.
    fn poll(&mut self, coordinator: &mut dyn Coordinator) {
        let Some(poll) = self.link.poll(true) else { return };
        let answer = self.answer.clone();
        let reply = EventReply::new(move |result| answer.send(result).unwrap());
        coordinator.answer_event(self.id, &poll, reply);
    }
    /// Takes the answers that have come, and returns what they say.
    fn heard(&mut self) -> Vec<ToReader> {
        for answer in self.answers.try_iter() {
            self.link.answered(&answer.unwrap()).unwrap();
        }
        std::iter::from_fn(|| self.link.next()).collect()
    }
    fn ask(&mut self, coordinator: &mut dyn Coordinator) -> Vec<ToReader> {
        self.link.say(FromReader::Request);
        self.poll(coordinator);
        self.heard()
    }
}

/// Returns the begin and end of each split of an answer.
fn ranges(heard: &[ToReader]) -> Vec<(u64, u64)> {
    let splits = heard.iter().flat_map(|message| match message {
        ToReader::Splits(splits) => splits.clone(),
        _ => Vec::new(),
    });
    let split = |bytes: Vec<u8>| decode_one::<FileSplit>(&bytes).unwrap();
    splits.map(split).map(|split| (split.start, split.end)).collect()
}

#[test]
fn splits_of_an_attempt_are_given_again_when_another_takes_its_place() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 4);
    let (mut a, mut b) = (Attempt::new(attempt(0, 0)), Attempt::new(attempt(1, 0)));
    assert_eq!(ranges(&a.ask(&mut files)), [(0, 4)]);
    assert_eq!(ranges(&b.ask(&mut files)), [(4, 8)]);
    assert_eq!(ranges(&b.ask(&mut files)), [(8, 10)]);
    // Another attempt takes the place of one that had a late message.
    let mut b = Attempt::new(attempt(1, 1));
    assert_eq!(ranges(&b.ask(&mut files)), [(4, 8)]);
    let mut a = Attempt::new(attempt(0, 1));
    assert_eq!(ranges(&a.ask(&mut files)), [(0, 4)], "the earliest first");
    assert_eq!(ranges(&a.ask(&mut files)), [(8, 10)]);
    assert_eq!(a.ask(&mut files), [ToReader::NoMoreSplits]);
    assert_eq!(b.ask(&mut files), [ToReader::NoMoreSplits]);
    let mut stale = Attempt::new(attempt(1, 0));
    stale.poll(&mut files);
    assert!(stale.answers.recv().unwrap().unwrap_err().contains("has taken its place"));
    let refused = Arc::new(Mutex::new(None));
    let put = refused.clone();
    let reply = EventReply::new(move |answer| *put.lock().unwrap() = Some(answer));
    files.answer_event(attempt(0, 1), b"nonsense", reply);
    assert!(refused.lock().unwrap().take().unwrap().is_err());
}

#[test]
fn a_poll_that_is_repeated_or_overtaken_asks_once_and_an_answer_that_is_lost_comes_again() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 4);
    let mut reader = Attempt::new(attempt(0, 0));
    let register = reader.link.poll(false).unwrap();
    reader.link.say(FromReader::Request);
    let request = reader.link.poll(false).unwrap();
    let (answer, answers) = mpsc::channel();
    let mut send = |poll: &[u8]| {
        let answer = answer.clone();
        let reply = EventReply::new(move |result| answer.send(result.unwrap()).unwrap());
        files.answer_event(attempt(0, 0), poll, reply);
    };
    for poll in [&request, &request, &register, &request] {
        send(poll);
    }
    // The first three answers are lost.
    let last = answers.try_iter().last().unwrap();
    reader.link.answered(&last).unwrap();
    reader.link.answered(&last).unwrap();
    let heard: Vec<_> = std::iter::from_fn(|| reader.link.next()).collect();
    assert_eq!(ranges(&heard), [(0, 4)]);
    reader.link.say(FromReader::Request);
    send(&reader.link.poll(false).unwrap());
    reader.link.answered(&answers.try_iter().last().unwrap()).unwrap();
    assert_eq!(ranges(&std::iter::from_fn(|| reader.link.next()).collect::<Vec<_>>()), [(4, 8)]);
}

#[test]
fn a_checkpoint_has_every_split_once_whoever_holds_it() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 2);
    let mut reader = Attempt::new(attempt(0, 0));
    reader.link.say(FromReader::Request);
    reader.poll(&mut files);
    let taken = Arc::new(Mutex::new(None));
    let put = taken.clone();
    let reply = EventReply::new(move |answer| *put.lock().unwrap() = Some(answer));
    files.snapshot(1, reply);
    assert!(taken.lock().unwrap().is_none(), "the reader may not have its first split yet");
    assert_eq!(ranges(&reader.heard()), [(0, 2)]);
    // Behind the checkpoint of the enumerator, and so of the reader too.
    assert_eq!(reader.ask(&mut files), []);
    let snapshot = taken.lock().unwrap().take().unwrap().unwrap();
    reader.link.checkpoint_passed(1);
    let heard: Vec<_> = std::iter::from_fn(|| reader.link.next()).collect();
    assert_eq!(ranges(&heard), [(2, 4)]);
    files.checkpoint_ended(1, true).unwrap();
    assert_eq!(ranges(&reader.ask(&mut files)), [(4, 6)]);
    // What the checkpoint has of the reader does not go back when another attempt takes its place.
    let mut next = Attempt::new(attempt(0, 1));
    let all: Vec<_> = (0..4).flat_map(|_| ranges(&next.ask(&mut files))).collect();
    assert_eq!(all, [(2, 4), (4, 6), (6, 8), (8, 10)]);

    let mut restored = coordinator(path, Some(2));
    restored.start(Some(snapshot)).unwrap();
    let mut next = Attempt::new(attempt(0, 0));
    let all: Vec<_> = (0..4).flat_map(|_| ranges(&next.ask(&mut restored))).collect();
    assert_eq!(all, [(2, 4), (4, 6), (6, 8), (8, 10)]);
}

/// The answer to a snapshot, once it has come.
type Taken = Arc<Mutex<Option<Result<Vec<u8>, String>>>>;

/// Takes a snapshot of the enumerator; returns where its answer is found.
fn take_snapshot(coordinator: &mut dyn Coordinator, checkpoint: u64) -> Taken {
    let taken = Arc::new(Mutex::new(None));
    let put = taken.clone();
    coordinator.snapshot(checkpoint, EventReply::new(move |a| *put.lock().unwrap() = Some(a)));
    taken
}

#[test]
fn a_reset_gives_back_what_the_checkpoint_does_not_have_and_late_polls_are_refused() {
    for is_notified in [true, false] {
        let (_tmp, path) = file("0123456789");
        let mut files = started(&path, 2);
        let (mut a, mut b) = (Attempt::new(attempt(0, 0)), Attempt::new(attempt(1, 0)));
        assert_eq!(ranges(&a.ask(&mut files)), [(0, 2)]);
        assert_eq!(ranges(&b.ask(&mut files)), [(2, 4)]);
        a.poll(&mut files);
        b.poll(&mut files);
        let taken = take_snapshot(&mut files, 1);
        assert!(taken.lock().unwrap().as_ref().unwrap().is_ok(), "both have confirmed");
        a.link.checkpoint_passed(1);
        assert_eq!(ranges(&a.ask(&mut files)), [(4, 6)]);
        // The notification and the reset are calls of their own, of which the first may be repeated.
        if is_notified {
            files.checkpoint_ended(1, true).unwrap();
        }
        a.link.say(FromReader::Request);
        let late = a.link.poll(true).unwrap();
        files.subtask_reset(attempt(0, 0), Some(1)).unwrap();
        files.checkpoint_ended(1, true).unwrap();
        let refused = Arc::new(Mutex::new(None));
        let put = refused.clone();
        let reply = EventReply::new(move |answer| *put.lock().unwrap() = Some(answer));
        files.answer_event(attempt(0, 0), &late, reply);
        assert!(refused.lock().unwrap().take().unwrap().unwrap_err().contains("has ended"));
        assert_eq!(ranges(&b.ask(&mut files)), [(4, 6)], "given back, and (0, 2) is not");
        let mut next = Attempt::new(attempt(0, 1));
        assert_eq!(ranges(&next.ask(&mut files)), [(6, 8)]);
        assert_eq!(ranges(&next.ask(&mut files)), [(8, 10)]);
        assert_eq!(next.ask(&mut files), [ToReader::NoMoreSplits], "once");
        // A reset that comes late says nothing of the later attempt.
        files.subtask_reset(attempt(0, 0), Some(1)).unwrap();
        assert_eq!(b.ask(&mut files), [ToReader::NoMoreSplits]);
        files.subtask_reset(attempt(1, 0), Some(1)).unwrap();
        let mut b = Attempt::new(attempt(1, 1));
        assert_eq!(ranges(&b.ask(&mut files)), [(4, 6)], "also of a reader that was told the end");
    }
}

#[test]
fn a_reset_to_the_checkpoint_that_the_enumerator_was_restored_from_gives_all_back() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 5);
    let taken = take_snapshot(&mut files, 7).lock().unwrap().take().unwrap().unwrap();
    let mut restored = coordinator(path, Some(5));
    restored.start(Some(taken)).unwrap();
    // A checkpoint that was taken without this enumerator is complete: it has nothing of what this one assigns.
    let mut reader = Attempt::new(attempt(0, 0));
    assert_eq!(ranges(&reader.ask(&mut restored)), [(0, 5)]);
    restored.checkpoint_ended(8, true).unwrap();
    take_snapshot(&mut restored, 9);
    restored.checkpoint_ended(9, false).unwrap();
    assert_eq!(ranges(&reader.ask(&mut restored)), [(5, 10)]);
    restored.subtask_reset(attempt(0, 0), Some(8)).unwrap();
    let mut next = Attempt::new(attempt(0, 1));
    assert_eq!(ranges(&next.ask(&mut restored)), [(0, 5)]);
    assert_eq!(ranges(&next.ask(&mut restored)), [(5, 10)]);
    restored.subtask_reset(attempt(0, 1), None).unwrap();
    let mut next = Attempt::new(attempt(0, 2));
    assert_eq!(ranges(&next.ask(&mut restored)), [(0, 5)]);
}

#[test]
fn a_reset_fails_the_open_snapshot_and_answers_the_open_poll() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 5);
    let (mut a, mut b) = (Attempt::new(attempt(0, 0)), Attempt::new(attempt(1, 0)));
    assert_eq!(ranges(&a.ask(&mut files)), [(0, 5)]);
    b.poll(&mut files);
    let taken = take_snapshot(&mut files, 1);
    assert!(taken.lock().unwrap().is_none(), "a has not confirmed its split");
    files.subtask_reset(attempt(1, 0), None).unwrap();
    let failed = taken.lock().unwrap().take().unwrap().unwrap_err();
    assert!(failed.contains("subtask 1"), "{failed}");
    assert!(b.answers.try_iter().last().unwrap().unwrap_err().contains("has ended"));
    files.checkpoint_ended(1, false).unwrap();
    let taken = take_snapshot(&mut files, 2);
    a.poll(&mut files);
    assert!(taken.lock().unwrap().take().unwrap().is_ok());
}

#[test]
fn a_checkpoint_that_is_given_up_holds_nothing_up() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 5);
    let mut reader = Attempt::new(attempt(0, 0));
    reader.poll(&mut files);
    files.snapshot(1, EventReply::new(|_| ()));
    assert_eq!(reader.ask(&mut files), [], "its trigger has not come");
    files.checkpoint_ended(1, false).unwrap();
    reader.poll(&mut files);
    assert_eq!(ranges(&reader.heard()), [(0, 5)]);
    let mut next = Attempt::new(attempt(0, 1));
    assert_eq!(ranges(&next.ask(&mut files)), [(0, 5)], "no checkpoint has it");
    assert_eq!(ranges(&next.ask(&mut files)), [(5, 10)]);
}

#[test]
fn the_fixtures_of_splits_and_of_an_enumerator_are_read_and_written_alike() {
    let split = |path: &str, start| FileSplit { path: path.into(), start, end: start + 70_000 };
    // A path need not be text.
    let odd = FileSplit { path: PathBuf::from(OsStr::from_bytes(b"/in/\xff")), start: 1, end: 2 };
    let reader = vec![(split("/in/a", 0), -300), (split("s3://b/in/c", 1 << 40), i64::MIN)];
    let again = |bytes: &[u8]| {
        let read: Vec<(FileSplit, i64)> = decode_one(bytes).ok()?;
        Some(encode_one(&read))
    };
    fixtures::check("file-splits.bin", &encode_one(&reader), again);
    let state: FileEnumeratorState = (vec![split("/in/b", 9), odd], 1 << 20);
    let again = |bytes: &[u8]| {
        let read: FileEnumeratorState = decode_one(bytes).ok()?;
        Some(encode_one(&read))
    };
    fixtures::check("file-enumerator.bin", &encode_one(&state), again);
}

#[test]
fn a_reader_that_polls_no_more_has_few_messages_kept_for_it_however_many_checkpoints_come() {
    let (_tmp, path) = file("0123456789");
    let mut files = started(&path, 5);
    let mut reader = Attempt::new(attempt(0, 0));
    assert_eq!(ranges(&reader.ask(&mut files)), [(0, 5)]);
    // The poll that the coordinator holds is answered by the first release, and the reader sends no other one.
    reader.poll(&mut files);
    for checkpoint in 1..=100 {
        files.checkpoint_ended(checkpoint, false).unwrap();
    }
    let answer = reader.answers.try_iter().last().unwrap().unwrap();
    let heard = PollAnswer::decode(&answer).unwrap().messages;
    assert_eq!(heard.last().unwrap().message, ToReader::Release(1));
    reader.link.answered(&answer).unwrap();
    // It does poll again: all releases since are one, and a split that was held for the last checkpoint comes.
    reader.poll(&mut files);
    let answer = reader.answers.try_iter().last().unwrap().unwrap();
    let heard = PollAnswer::decode(&answer).unwrap().messages;
    let heard: Vec<_> = heard.into_iter().map(|numbered| numbered.message).collect();
    assert_eq!(heard, [ToReader::Release(100)]);
    reader.link.answered(&answer).unwrap();
    assert_eq!(ranges(&reader.ask(&mut files)), [(5, 10)]);
}

#[test]
fn an_absent_input_is_named() {
    let error = coordinator("/nowhere/at/all".into(), None).start(None).unwrap_err();
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
        let error = coordinator(input, None).start(None).unwrap_err();
        assert!(error.contains(&format!("'{}'", named.display())), "{error}");
        assert!(error.contains(kind), "{error}");
    }
}

/// A reader of text by itself.
struct Alone {
    reader: FileReader<String>,
    out: ReaderOutput<String>,
    context: OperatorContext,
    requests: Requests,
}

impl Alone {
    fn new() -> Self {
        let out =
            Collector::new(Box::new(NoConsumer), SideOutputs::default(), Interrupt::default());
        Self {
            reader: FileReader::with_remote(remote, S3Settings::default()),
            out: ReaderOutput::new(out, None),
            context: OperatorContext::for_tests(0, 1),
            requests: Requests::default(),
        }
    }
    fn call<T>(
        &mut self,
        call: impl FnOnce(
            &mut FileReader<String>,
            &mut ReaderOutput<String>,
            &mut ReaderContext<'_>,
        ) -> Result<T, BoxError>,
    ) -> Result<T, TaskError> {
        let mut context = ReaderContext::new(&self.context, &mut self.requests);
        let result = call(&mut self.reader, &mut self.out, &mut context);
        result.map_err(|error| *error.downcast::<TaskError>().unwrap())
    }
    fn poll(&mut self, most: usize) -> Result<ReadProgress, TaskError> {
        self.call(|reader, out, context| reader.poll_next(most, out, context))
    }
    fn add(&mut self, split: FileSplit) {
        self.call(|reader, _, context| reader.add_splits(vec![split], context)).unwrap();
    }
    fn io_done(&mut self, ticket: u32, result: Result<Vec<u8>, String>) -> Result<(), TaskError> {
        self.call(|reader, _, context| reader.io_done(ticket, result, context))
    }
}

/// Reads a range of a file that is changed after its first block was read.
fn read_split(path: &Path, end: u64, change: impl FnOnce()) -> Result<(), TaskError> {
    let mut alone = Alone::new();
    alone.add(FileSplit { path: path.to_owned(), start: 0, end });
    alone.poll(1)?;
    change();
    alone.reader.no_more_splits();
    while alone.poll(1 << 20)? != ReadProgress::Ended {}
    Ok(())
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_read_fails_the_job() {
    let text = "0123456789\n".repeat(200_000);
    let (_tmp, path) = file(&text);
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
    let (tmp, path) = file(b"fine\n\xff\xfe\n");
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

/// Sends these bytes, part by part, to the first client of the returned address.
fn serve(parts: &'static [&'static [u8]]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let sender = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        parts.iter().for_each(|part| stream.write_all(part).unwrap());
    });
    (address, sender.unwrap())
}

#[test]
fn a_socket_gives_lines_without_their_ends_until_it_is_closed() {
    let (address, sender) = serve(&[b"one\r\ntw", b"o\nthree\r"]);
    let job = built(2, move |env| drop(env.socket_text(&address).collect()));
    let outcome = run(&job);
    sender.join().unwrap();
    assert_eq!(lines(&outcome), ["one", "three", "two"]);
    let vertices: Vec<_> =
        job.graph().vertices.iter().map(|v| (v.name.as_str(), v.parallelism)).collect();
    assert_eq!(vertices[..2], [("socket", 1), ("collect", 2)]);
}

#[test]
fn a_socket_source_has_one_subtask_and_times_of_its_lines() {
    let (address, sender) = serve(&[b"10 \xff\n20 b\r\n"]);
    let time = |line: &Vec<u8>| str::from_utf8(&line[..2]).unwrap().parse().unwrap();
    let times = WatermarkStrategy::for_monotonous_timestamps(time);
    let source = SocketSource::lines(address);
    let mut test = testing::source(source.clone()).watermarks(times.clone()).open().unwrap();
    test.run().unwrap();
    sender.join().unwrap();
    assert_eq!(
        test.timed_output(),
        [(b"10 \xff".to_vec(), Some(10)), (b"20 b".to_vec(), Some(20))]
    );
    assert!(test.has_ended());

    let job = built(2, move |env| {
        env.from_source(source.clone(), times.clone(), "lines").collect();
    });
    let vertices: Vec<_> =
        job.graph().vertices.iter().map(|v| (v.name.as_str(), v.parallelism)).collect();
    assert_eq!(vertices[..2], [("lines", 1), ("collect", 2)]);
}

#[test]
fn a_sequence_source_refuses_a_rate_that_is_none_wherever_it_is_used() {
    let rated = || SequenceSource::new(0..9).with_rate(f64::NAN);
    let error = testing::source(rated()).open().err().unwrap().to_string();
    assert!(error.contains("the rate must be finite and above 0, not NaN"), "{error}");
    let error = crate::api::tests::try_built(crate::api::tests::inputs(1), move |env| {
        env.from_source(rated(), WatermarkStrategy::no_watermarks(), "numbers").discard();
    });
    let error = error.err().unwrap().to_string();
    assert_eq!(error, "operator 'numbers': the rate must be finite and above 0, not NaN");
}

#[test]
fn a_sequence_source_has_all_kinds_of_ranges() {
    let of = |source: SequenceSource| {
        let mut test = testing::source(source).open().unwrap();
        test.run().unwrap();
        test.output()
    };
    assert_eq!(of(SequenceSource::new(3..6)), [3, 4, 5]);
    assert_eq!(of(SequenceSource::new(3..=6)), [3, 4, 5, 6]);
    assert_eq!(of(SequenceSource::new(..2)), [0, 1]);
    assert_eq!(of(SequenceSource::new(u64::MAX - 2..u64::MAX)), [u64::MAX - 2, u64::MAX - 1]);
    assert_eq!(of(SequenceSource::new(7..7)), [0; 0]);
    assert_eq!(SequenceSource::new(5..).boundedness(), Boundedness::ContinuousUnbounded);
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
    let mut alone = Alone::new();
    alone.add(FileSplit { path: elsewhere(&path), start: 0, end: 100 });
    assert_eq!(alone.poll(10), Ok(ReadProgress::Waiting));
    // An answer that was meant for an earlier split changes nothing.
    alone.io_done(7, Ok(b"other".to_vec())).unwrap();
    assert_eq!(alone.poll(10), Ok(ReadProgress::Waiting));
    alone.io_done(1, Ok(b"a line\n".to_vec())).unwrap();
    assert_eq!(alone.poll(10), Ok(ReadProgress::Waiting));
    alone.io_done(1, Ok(Vec::new())).unwrap();
    let shorter = alone.poll(10).unwrap_err().to_string();
    assert!(shorter.contains("hdfs://fake") && shorter.contains("became shorter"), "{shorter}");
    let refused = alone.io_done(1, Err("the NameNode is gone".into()));
    assert!(refused.unwrap_err().to_string().contains("the NameNode is gone"));
}

/// An order to the enumerator, which it carries out when it is woken.
type Order = Box<dyn FnOnce(&SplitEnumeratorContext<Log>) + Send>;

/// A test's hold on the enumerator of [`Scripted`].
struct Director {
    context: SplitEnumeratorContext<Log>,
    orders: mpsc::Sender<Order>,
}

impl Director {
    fn order(&self, order: impl FnOnce(&SplitEnumeratorContext<Log>) + Send + 'static) {
        self.orders.send(Box::new(order)).unwrap();
        self.context.waker().wake();
    }
    fn assign(&self, log: Log) {
        self.order(|context| context.assign_splits(0, [log]).unwrap());
    }
}

/// Gives each subtask what a test has for it.
struct Scripted {
    /// The director of the enumerator, once there is one.
    director: mpsc::Sender<Director>,
    /// Splits that are given at the first request.
    first: Vec<Log>,
}

/// Records that come in order, with their times.
#[derive(Debug, Clone, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
struct Log {
    name: String,
    times: Vec<i64>,
    next: u32,
    /// The split goes on for ever.
    open: bool,
}

fn log(name: &str, times: impl IntoIterator<Item = i64>) -> Log {
    Log { name: name.to_owned(), times: times.into_iter().collect(), next: 0, open: false }
}

impl SourceSplit for Log {
    fn split_id(&self) -> String {
        self.name.clone()
    }
}

struct Script {
    context: SplitEnumeratorContext<Log>,
    orders: mpsc::Receiver<Order>,
    first: Vec<Log>,
}

impl SplitEnumerator for Script {
    type Split = Log;
    type Checkpoint = Vec<Log>;
    fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError> {
        let first = std::mem::take(&mut self.first);
        if !first.is_empty() {
            self.context.assign_splits(subtask, first)?;
        }
        Ok(())
    }
    fn woken(&mut self) -> Result<(), BoxError> {
        self.orders.try_iter().for_each(|order| order(&self.context));
        Ok(())
    }
    fn handle_source_event(&mut self, subtask: u32, event: Vec<u8>) -> Result<(), BoxError> {
        if event == b"fail" {
            return Err("the script is torn".into());
        }
        self.context.send_event(subtask, event)?;
        self.context.no_more_splits(subtask)?;
        Ok(())
    }
    fn add_splits_back(&mut self, splits: Vec<Log>, _: u32) -> Result<(), BoxError> {
        self.first.extend(splits);
        Ok(())
    }
    fn snapshot_state(&mut self, _: u64) -> Result<Vec<Log>, BoxError> {
        Ok(self.first.clone())
    }
}

impl Source for Scripted {
    type Record = (String, i64);
    type Split = Log;
    type Enumerator = Script;
    type Reader = LogReader;
    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Log>,
        restored: Option<Vec<Log>>,
    ) -> Result<Script, BoxError> {
        let (orders, ordered) = mpsc::channel();
        let _ = self.director.send(Director { context: context.clone(), orders });
        let first = restored.unwrap_or_else(|| self.first.clone());
        Ok(Script { context, orders: ordered, first })
    }
    fn create_reader(&self, _: &OperatorContext) -> Result<LogReader, BoxError> {
        Ok(LogReader::default())
    }
}

/// Reads one record of each split in turn. An event that comes back is a record.
#[derive(Default)]
struct LogReader {
    logs: VecDeque<Log>,
    events: Vec<Vec<u8>>,
    no_more: bool,
}

impl SourceReader for LogReader {
    type Record = (String, i64);
    type Split = Log;
    fn start(&mut self, context: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        context.request_splits();
        Ok(())
    }
    fn poll_next(
        &mut self,
        _most: usize,
        out: &mut ReaderOutput<(String, i64)>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        let mut any = false;
        for mut read in std::mem::take(&mut self.logs) {
            if let Some(time) = read.times.get(read.next as usize).copied() {
                any = true;
                read.next += 1;
                if time < 0 {
                    context.send_event(if time == -1 {
                        b"echo".to_vec()
                    } else {
                        b"fail".to_vec()
                    });
                } else {
                    out.split(&read.name).collect_at((read.name.clone(), time), time);
                }
            }
            if read.open || (read.next as usize) < read.times.len() {
                self.logs.push_back(read);
            } else {
                out.release_split(&read.name);
            }
        }
        for event in self.events.drain(..) {
            out.collect((String::from_utf8(event)?, 0));
        }
        Ok(match (any, self.no_more && self.logs.is_empty()) {
            (true, _) => ReadProgress::More,
            (false, true) => ReadProgress::Ended,
            (false, false) => ReadProgress::Waiting,
        })
    }
    fn add_splits(&mut self, splits: Vec<Log>, _: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        self.logs.extend(splits);
        Ok(())
    }
    fn no_more_splits(&mut self) {
        self.no_more = true;
    }
    fn handle_source_event(
        &mut self,
        event: Vec<u8>,
        _: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        self.events.push(event);
        Ok(())
    }
    fn snapshot_state(&mut self, _: u64) -> Result<Vec<Log>, BoxError> {
        Ok(self.logs.iter().cloned().collect())
    }
}

fn scripted(first: Vec<Log>) -> (Scripted, mpsc::Receiver<Director>) {
    let (director, directors) = mpsc::channel();
    (Scripted { director, first }, directors)
}

fn in_order()
-> WatermarkStrategy<(String, i64), crate::time::SourceTimestamps, BoundedOutOfOrderness> {
    WatermarkStrategy::for_source_timestamps(BoundedOutOfOrderness::new(Duration::ZERO))
}

#[test]
fn the_slowest_split_of_a_subtask_holds_back_its_watermark_until_it_is_read() {
    // One split is an hour ahead of the other: one generator for both would make the second one late as a whole.
    let (ahead, behind) = (log("ahead", [3_600_000, 3_600_010]), log("behind", [10, 20, 30]));
    let (source, _) = scripted(vec![ahead, behind]);
    let mut test = testing::source(source).watermarks(in_order()).open().unwrap();
    let mut seen = Vec::new();
    while test.poll().unwrap() {
        for ((split, _), time) in test.timed_output() {
            seen.push((split, time.unwrap(), test.last_watermark()));
        }
    }
    let behind = seen.iter().filter(|(split, ..)| split == "behind");
    let watermarks: Vec<_> = behind.map(|(_, time, watermark)| (*time, *watermark)).collect();
    assert_eq!(watermarks, [(10, Some(9)), (20, Some(19)), (30, Some(29))]);
    assert_eq!(test.last_watermark(), Some(29), "nothing is known of what comes next");
}

#[test]
fn a_split_that_is_read_to_its_end_holds_nothing_back() {
    let (source, directors) = scripted(vec![log("short", [5]), log("long", [10, 20, 30])]);
    let mut test = testing::source(source).watermarks(in_order()).open().unwrap();
    test.run().unwrap();
    assert_eq!(test.last_watermark(), Some(29));
    // A split that comes later is behind, and the watermark stays.
    let director = directors.recv().unwrap();
    director.assign(log("late", [7]));
    test.run().unwrap();
    assert_eq!(test.timed_output().last(), Some(&(("late".to_owned(), 7), Some(7))));
    assert_eq!(test.last_watermark(), Some(29));
    director.context.no_more_splits(0).unwrap();
    test.run().unwrap();
    assert_eq!((test.last_watermark(), test.has_ended()), (Some(i64::MAX), true));
}

#[test]
fn a_split_without_records_is_left_out_after_its_time_out_and_then_the_subtask() {
    let waiting = Log { open: true, ..log("waiting", [5]) };
    let busy = Log { open: true, ..log("busy", [100]) };
    let (source, directors) = scripted(vec![waiting, busy]);
    let strategy = in_order().with_idleness(Duration::from_secs(10));
    let mut test = testing::source(source).watermarks(strategy).open().unwrap();
    test.run().unwrap();
    assert_eq!(test.last_watermark(), Some(4));
    test.advance_clock_to(5_000).unwrap();
    let director = directors.recv().unwrap();
    director.assign(log("more", [50, 60, 70]));
    test.run().unwrap();
    assert_eq!((test.last_watermark(), test.is_idle()), (Some(4), false));
    test.advance_clock_to(20_000).unwrap();
    assert!(test.is_idle(), "nothing came for ten seconds");
    director.assign(Log { open: true, ..log("again", [200]) });
    test.run().unwrap();
    assert_eq!((test.last_watermark(), test.is_idle()), (Some(199), false));
    director.context.no_more_splits(0).unwrap();
}

#[test]
fn a_split_is_idle_no_sooner_than_its_timeout_after_a_record() {
    let (source, directors) = scripted(Vec::new());
    let strategy = in_order().with_idleness(Duration::from_secs(10));
    let mut test = testing::source(source).watermarks(strategy).open().unwrap();
    // Right before the first look for idle splits.
    test.advance_clock_to(4_999).unwrap();
    let director = directors.recv().unwrap();
    director.assign(Log { open: true, ..log("open", [50]) });
    test.run().unwrap();
    test.advance_clock_to(14_998).unwrap();
    assert!(!test.is_idle());
    test.advance_clock_to(19_999).unwrap();
    assert!(test.is_idle());
}

#[test]
fn a_source_with_a_timeout_of_zero_looks_at_most_once_a_millisecond() {
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
        let open = Log { open: true, ..log("open", [50]) };
        let (source, _directors) = scripted(vec![open]);
        let strategy = in_order().with_idleness(timeout);
        let mut test = testing::source(source).watermarks(strategy).open().unwrap();
        test.run().unwrap();
        test.advance_clock_to(10).unwrap();
        assert!(test.is_idle(), "{timeout:?}");
    }
}

#[test]
fn an_enumerator_answers_later_when_its_thread_wakes_it_and_gives_what_nobody_asked_for() {
    let (source, directors) = scripted(Vec::new());
    let given = std::thread::Builder::new().spawn(move || {
        let director = directors.recv().unwrap();
        // The attempt registers whenever the job runs.
        while director.context.registered_readers() != [0] {
            std::thread::yield_now();
        }
        director.order(|context| {
            let nobody = Err(AssignError::NotRegistered(NotRegistered(1)));
            assert_eq!(context.assign_splits(1, [log("nobody's", [1])]), nobody);
            context.assign_splits(0, [log("first", [1, 2])]).unwrap();
        });
        director.order(|context| {
            context.assign_splits(0, [log("second", [3])]).unwrap();
            context.no_more_splits(0).unwrap();
            let over = Err(AssignError::NotRegistered(NotRegistered(0)));
            assert_eq!(context.assign_splits(0, [log("more", [4])]), over);
            assert_eq!(context.no_more_splits(0), Ok(()), "a second request gets the same answer");
        });
    });
    let source = Mutex::new(Some(source));
    let job = built(1, move |env| {
        let source = source.lock().unwrap().take().unwrap();
        let logs = env.from_source(source, WatermarkStrategy::no_watermarks(), "logs");
        logs.map(|(name, time)| format!("{name} {time}")).collect();
    });
    let vertices: Vec<_> =
        job.graph().nodes.iter().map(|n| (n.name.as_str(), n.coordinated)).collect();
    assert_eq!(vertices[0], ("logs", true));
    assert_eq!(lines(&run(&job)), ["first 1", "first 2", "second 3"]);
    given.unwrap().join().unwrap();
}

/// The names of the splits in the answers that a reader got.
fn names(heard: &[ToReader]) -> Vec<String> {
    let splits = heard.iter().flat_map(|message| match message {
        ToReader::Splits(splits) => splits.clone(),
        _ => Vec::new(),
    });
    splits.map(|bytes| decode_one::<Log>(&bytes).unwrap().name).collect()
}

/// An enumerator whose thread finds a split while the snapshot is being taken.
struct FindsDuringSnapshot {
    context: SplitEnumeratorContext<Log>,
    waiting: Vec<Log>,
}

impl SplitEnumerator for FindsDuringSnapshot {
    type Split = Log;
    type Checkpoint = Vec<Log>;
    fn woken(&mut self) -> Result<(), BoxError> {
        Ok(self.context.assign_splits(0, std::mem::take(&mut self.waiting))?)
    }
    fn handle_split_request(&mut self, _: u32) -> Result<(), BoxError> {
        Ok(())
    }
    fn add_splits_back(&mut self, _: Vec<Log>, _: u32) -> Result<(), BoxError> {
        Ok(())
    }
    fn snapshot_state(&mut self, checkpoint: u64) -> Result<Vec<Log>, BoxError> {
        let (context, waiting) = (self.context.clone(), &mut self.waiting);
        let finds = move || {
            let found = log(&format!("found at {checkpoint}"), [1]);
            let refused = context.assign_splits(0, [found.clone()]);
            assert_eq!(refused, Err(AssignError::OutsideOfMethod));
            waiting.push(found);
            (0..100).for_each(|_| context.waker().wake());
        };
        std::thread::scope(|scope| scope.spawn(finds).join().unwrap());
        Ok(self.waiting.clone())
    }
}

struct Finding;

impl Source for Finding {
    type Record = (String, i64);
    type Split = Log;
    type Enumerator = FindsDuringSnapshot;
    type Reader = LogReader;
    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Log>,
        restored: Option<Vec<Log>>,
    ) -> Result<FindsDuringSnapshot, BoxError> {
        Ok(FindsDuringSnapshot { context, waiting: restored.unwrap_or_default() })
    }
    fn create_reader(&self, _: &OperatorContext) -> Result<LogReader, BoxError> {
        Ok(LogReader::default())
    }
}

#[test]
fn a_split_that_a_thread_finds_during_the_snapshot_is_in_the_enumerators_part_alone() {
    let mut finding = coordinator_of(Finding, OnFailure::default());
    finding.start(None).unwrap();
    let mut reader = Attempt::new(attempt(0, 0));
    reader.poll(&mut finding);
    let taken = Arc::new(Mutex::new(None));
    let put = taken.clone();
    finding.snapshot(1, EventReply::new(move |answer| *put.lock().unwrap() = Some(answer)));
    finding.woken().unwrap();
    let snapshot = taken.lock().unwrap().take().unwrap().unwrap();
    let kept: Vec<Log> = decode_one(&snapshot).unwrap();
    assert_eq!(kept, [log("found at 1", [1])]);
    // The reader gets the split behind the barrier.
    assert_eq!(names(&reader.heard()), [] as [String; 0]);
    reader.link.checkpoint_passed(1);
    assert_eq!(names(&reader.heard()), ["found at 1"]);

    // In the harness, with the reader's part.
    let found = ("found at 1".to_owned(), 1);
    let mut test = testing::source(Finding).open().unwrap();
    let first = test.snapshot().unwrap();
    test.run().unwrap();
    assert_eq!(test.output(), std::slice::from_ref(&found));
    let mut again = testing::source(Finding).restore(first).open().unwrap();
    again.snapshot().unwrap();
    again.run().unwrap();
    assert_eq!(again.output(), [found.clone(), found], "one is restored, the other one is new");
}

#[test]
fn a_wake_after_the_enumerator_is_closed_or_before_it_is_there_calls_nobody() {
    let (source, directors) = scripted(Vec::new());
    let mut script = coordinator_of(source, OnFailure::new(|why| panic!("{why}")));
    script.woken().unwrap();
    script.start(None).unwrap();
    let mut reader = Attempt::new(attempt(0, 0));
    reader.poll(&mut script);
    let director = directors.recv().unwrap();
    let refused = director.context.assign_splits(0, [log("a", [1])]);
    assert_eq!(refused, Err(AssignError::OutsideOfMethod), "no method runs");
    script.job_ended(true).unwrap();
    director.context.waker().wake();
    script.woken().unwrap();
    assert!(reader.heard().is_empty());
}

#[test]
fn events_go_both_ways_and_an_enumerator_that_fails_is_named() {
    let (source, _) = scripted(vec![log("a", [1, -1])]);
    let mut test = testing::source(source).open().unwrap();
    test.run().unwrap();
    assert_eq!(test.output(), [("a".to_owned(), 1), ("echo".to_owned(), 0)]);
    assert!(test.has_ended());
    let (source, _) = scripted(vec![log("a", [1, -2])]);
    let error = testing::source(source).open().unwrap().run().unwrap_err().to_string();
    assert!(error.contains("the script is torn"), "{error}");
    let (source, directors) = scripted(Vec::new());
    let mut test = testing::source(source).open().unwrap();
    directors.recv().unwrap().context.fail("the disk is full");
    let error = test.run().unwrap_err().to_string();
    assert!(error.contains("the disk is full"), "{error}");
}

/// A source whose enumerator cannot start; the enumerator says when it is closed.
struct Unstartable(mpsc::Sender<&'static str>);

impl Source for Unstartable {
    type Record = (String, i64);
    type Split = Log;
    type Enumerator = Self;
    type Reader = LogReader;
    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        _: SplitEnumeratorContext<Log>,
        _: Option<()>,
    ) -> Result<Self, BoxError> {
        Ok(Self(self.0.clone()))
    }
    fn create_reader(&self, _: &OperatorContext) -> Result<LogReader, BoxError> {
        Ok(LogReader::default())
    }
}

impl SplitEnumerator for Unstartable {
    type Split = Log;
    type Checkpoint = ();
    fn start(&mut self) -> Result<(), BoxError> {
        Err("no such topic".into())
    }
    fn handle_split_request(&mut self, _: u32) -> Result<(), BoxError> {
        Ok(())
    }
    fn add_splits_back(&mut self, _: Vec<Log>, _: u32) -> Result<(), BoxError> {
        Ok(())
    }
    fn snapshot_state(&mut self, _: u64) -> Result<(), BoxError> {
        Ok(())
    }
    fn close(&mut self) {
        let _ = self.0.send("closed");
    }
}

#[test]
fn an_enumerator_that_cannot_start_is_closed_once() {
    let (sender, closed) = mpsc::channel();
    let mut coordinator = coordinator_of(Unstartable(sender), OnFailure::default());
    assert_eq!(coordinator.start(None).unwrap_err(), "no such topic");
    drop(coordinator);
    assert_eq!(closed.into_iter().count(), 1);
}

/// Reads a source with a checkpoint after every poll, and starts it anew from each: all records come, none twice.
fn restored_everywhere<S: Source>(make: impl Fn() -> S) -> Vec<S::Record> {
    let mut all = Vec::new();
    let mut test = testing::source(make()).open().unwrap();
    for _ in 0..1_000 {
        test.poll().unwrap();
        all.extend(test.output());
        if test.has_ended() {
            break;
        }
        let snapshot = test.snapshot().unwrap();
        // What comes behind the checkpoint is lost with the attempt.
        test.poll().unwrap();
        test = testing::source(make()).restore(snapshot).open().unwrap();
    }
    all
}

#[test]
fn every_source_goes_on_from_a_checkpoint_where_it_was() {
    assert_eq!(
        restored_everywhere(|| SequenceSource::new(5..4_000)),
        (5..4_000).collect::<Vec<u64>>()
    );
    let values: Vec<u64> = (0..3_000).map(|i| i * 7).collect();
    assert_eq!(restored_everywhere(|| CollectionSource::new(values.clone())), values);
    let text: Vec<String> = (0..5_000).map(|i| format!("line {i}")).collect();
    let (_tmp, path) = file(text.join("\n"));
    for split_bytes in [1_000, 7_777, 1 << 20] {
        let source = || FileSource::<String>::new(vec![path.clone()], Some(split_bytes), remote);
        assert_eq!(restored_everywhere(source), text, "{split_bytes}");
    }
}

/// Reads a source to its end and starts it anew from a checkpoint after that. Returns what the two read.
fn restored_after_its_end<S: Source>(make: impl Fn() -> S) -> (Vec<S::Record>, Vec<S::Record>) {
    let mut test = testing::source(make()).open().unwrap();
    test.run().unwrap();
    assert!(test.has_ended());
    let snapshot = test.snapshot().unwrap();
    let mut restored = testing::source(make()).restore(snapshot).open().unwrap();
    restored.run().unwrap();
    assert!(restored.has_ended());
    assert_eq!(restored.last_watermark(), Some(i64::MAX));
    (test.output(), restored.output())
}

#[test]
fn a_source_that_is_restored_after_its_end_reads_nothing_again() {
    let numbers: Vec<u64> = (0..50).collect();
    let expected = || (numbers.clone(), Vec::new());
    assert_eq!(restored_after_its_end(|| SequenceSource::new(0..50)), expected());
    assert_eq!(restored_after_its_end(|| CollectionSource::new(numbers.clone())), expected());
    let (again, directors) = mpsc::channel();
    let made = || Scripted { director: again.clone(), first: vec![log("a", [1, -1])] };
    let read = vec![("a".to_owned(), 1), ("echo".to_owned(), 0)];
    assert_eq!(restored_after_its_end(made), (read, Vec::new()));
    let directors: Vec<_> = directors.try_iter().collect();
    assert_eq!(directors.len(), 2, "enumerators");
    let registered = directors[1].context.registered_readers();
    assert_eq!(registered, [0; 0], "the reader was not started");
}

#[test]
fn a_source_goes_on_with_another_number_of_subtasks() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("text");
    let text: Vec<String> = (10_000..19_000).map(|i| i.to_string()).collect();
    std::fs::write(&path, text.join("\n")).unwrap();
    let file = || FileSource::<String>::new(vec![path.clone()], Some(10_000), remote);
    let numbers: Vec<u64> = (0..9_000).collect();
    for (before, after) in [(1, 1), (2, 1), (2, 2), (1, 3), (3, 2)] {
        let all = rescaled(|| SequenceSource::new(0..9_000), before, after);
        assert_eq!(all, numbers, "{before} -> {after}");
        assert_eq!(rescaled(file, before, after), text, "{before} -> {after}");
    }
    let one = testing::source(SequenceSource::new(0..9)).subtask(1, 2);
    let mut one = one.open().unwrap();
    let snapshot = one.snapshot().unwrap();
    let one = testing::source(SequenceSource::new(0..9)).subtask(1, 2).restore(snapshot);
    let mut one = one.open().unwrap();
    one.run().unwrap();
    assert_eq!(one.output(), [1, 3, 5, 7], "its own part, though the other subtask has no reader");
}

/// Reads with `before` subtasks, of which the last one is ahead, and with `after` ones from a checkpoint. Returns all records, sorted.
fn rescaled<S: Source<Record: Ord>>(
    make: impl Fn() -> S,
    before: u32,
    after: u32,
) -> Vec<S::Record> {
    let mut test = testing::source(make()).subtasks(before).open().unwrap();
    test.poll().unwrap();
    test.poll_subtask(before - 1).unwrap();
    assert!(test.poll_subtask(before).unwrap_err().to_string().contains("no subtask"));
    let snapshot = test.snapshot().unwrap();
    let mut all = test.output();
    // What comes behind the checkpoint is lost with the attempts.
    test.poll().unwrap();
    let mut test = testing::source(make()).subtasks(after).restore(snapshot).open().unwrap();
    test.run().unwrap();
    assert!(test.has_ended());
    all.extend(test.output());
    all.sort();
    all
}

#[test]
fn a_checkpoint_of_which_a_source_hears_nothing_is_one_that_has_failed() {
    let read_again = |complete: bool| {
        let (source, _directors) = scripted(vec![log("a", [1, 2])]);
        let mut test = testing::source(source).open().unwrap();
        test.barrier(1).unwrap();
        if complete {
            test.notify_complete(1).unwrap();
        }
        test.give_back().unwrap();
        let of_enumerator = test.barrier(2).unwrap();
        let (source, _directors) = scripted(Vec::new());
        let mut test = testing::source(source).restore(of_enumerator).open().unwrap();
        test.run().unwrap();
        test.output().len()
    };
    assert_eq!(read_again(true), 2, "the reader's part has the split");
    assert_eq!(read_again(false), 4, "the enumerator has got the split back too");
    let mut test = testing::source(SequenceSource::new(0..9)).open().unwrap();
    test.barrier(2).unwrap();
    let error = test.barrier(2).unwrap_err().to_string();
    assert!(error.contains("checkpoint 2") && error.contains("ascend"), "{error}");
}

#[test]
fn the_names_of_splits_stay_while_they_are_read() {
    let split = FileSplit { path: "/a".into(), start: 5, end: 10 };
    let later = FileSplit { start: 7, ..split.clone() };
    assert_eq!(split.split_id(), later.split_id());
    assert_eq!(decode_one::<FileSplit>(&encode_one(&split)), Ok(split));
}

/// A reader without records, which counts how often it is closed.
struct Closing(Arc<Mutex<u32>>);

impl SourceReader for Closing {
    type Record = u64;
    type Split = Log;
    fn poll_next(
        &mut self,
        _: usize,
        _: &mut ReaderOutput<u64>,
        _: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        Ok(ReadProgress::Ended)
    }
    fn add_splits(&mut self, _: Vec<Log>, _: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    fn no_more_splits(&mut self) {}
    fn snapshot_state(&mut self, _: u64) -> Result<Vec<Log>, BoxError> {
        Ok(Vec::new())
    }
    fn close(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

/// A reader that finds nothing in its first ten calls, and notes how many records each call may read.
struct Late(Arc<Mutex<Vec<usize>>>);

impl SourceReader for Late {
    type Record = u64;
    type Split = Log;
    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<u64>,
        _: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        let mut calls = self.0.lock().unwrap();
        calls.push(most);
        if calls.len() <= 10 {
            return Ok(ReadProgress::Waiting);
        }
        out.split("").collect_all(0..most as u64);
        Ok(ReadProgress::More)
    }
    fn add_splits(&mut self, _: Vec<Log>, _: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    fn no_more_splits(&mut self) {}
    fn snapshot_state(&mut self, _: u64) -> Result<Vec<Log>, BoxError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_reader_that_had_to_wait_does_not_begin_with_a_large_batch() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let context = OperatorContext::for_tests(0, 1);
    // The consumer is not there yet.
    let port = TestPort::<u64>::new(1, usize::MAX);
    port.state().asked = vec![None];
    let next = port.writer(Box::new(RoundRobin::new(0)), &Interrupt::default());
    let reader = Ok(Late(calls.clone()));
    let mut head = SourceHead::new(reader, false, None, Box::new(next), context).unwrap();
    head.open().unwrap();
    for _ in 0..12 {
        head.step(4_096).unwrap();
    }
    assert_eq!(*calls.lock().unwrap(), [32; 12]);
}

/// An operator that fails when it is closed.
struct Stuck;

impl Operator<u64> for Stuck {
    type Out = u64;
    fn process(
        &mut self,
        _: &mut Batch<u64>,
        _: &mut Collector<u64>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }
    fn close(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        Err(context.user_error("stuck".into()))
    }
}

#[test]
fn a_reader_is_closed_once_though_an_operator_behind_it_fails_to_close() {
    let closed = Arc::new(Mutex::new(0));
    let context = || OperatorContext::for_tests(0, 1);
    let next = Link::new(Stuck, Box::new(NoConsumer), SideOutputs::default(), context());
    let reader = Ok(Closing(closed.clone()));
    let mut head = SourceHead::new(reader, false, None, Box::new(next), context()).unwrap();
    head.open().unwrap();
    assert!(head.close().is_err());
    head.dispose();
    assert_eq!(*closed.lock().unwrap(), 1);
}

/// The number of polls to the enumerator.
#[derive(Default)]
struct Polls(std::sync::atomic::AtomicUsize);

impl crate::TaskUpcalls for Polls {
    fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    fn spawn_io(&self, _: BoxFuture<'static, Result<Vec<u8>, String>>, _: u64) {}
    fn now_unix_ms(&self) -> u64 {
        0
    }
    fn wake_at(&self, _: Duration, _: u64) {}
    fn acknowledge(&self, _: u64, _: crate::TaskSnapshot) {}
}

#[test]
fn a_subtask_that_had_read_everything_does_not_register_again_at_its_enumerator() {
    let polls = |restored_at_end: bool| {
        let polls = Arc::new(Polls::default());
        let mut context = OperatorContext::for_tests_with(0, 1, polls.clone());
        Arc::get_mut(&mut context.shared).unwrap().restored_at_end = restored_at_end;
        let node = context.node;
        let next = Link::new(
            Stuck,
            Box::new(NoConsumer),
            SideOutputs::default(),
            OperatorContext::for_tests(0, 1),
        );
        let reader = Ok(Closing(Arc::default()));
        let mut head = SourceHead::new(reader, true, None, Box::new(next), context).unwrap();
        head.open().unwrap();
        head.deliver(node, OperatorMail::Timer { ticket: 0 }).unwrap();
        let (last, savepoint, full) = (false, false, false);
        head.trigger(Barrier { checkpoint: 1, triggered_ms: 0, last, savepoint, full }).unwrap();
        polls.0.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(polls(true), 0);
    assert_eq!(polls(false), 1);
}

#[test]
fn a_source_declares_the_types_of_its_splits_and_of_its_enumerators_state() {
    use crate::{Environment, api::tests::built};
    let job = built(1, |env: &Environment| {
        env.read_lines("/in").collect();
        env.sequence(0..3).discard();
    });
    let states: Vec<Vec<(&str, Vec<&str>)>> = (job.graph().nodes.iter())
        .map(|node| {
            (node.states.iter())
                .map(|state| {
                    (state.kind.as_str(), state.schemas.keys().map(String::as_str).collect())
                })
                .collect()
        })
        .collect();
    assert_eq!(
        states,
        [
            vec![("splits", vec!["split"]), ("enumerator", vec!["value"])],
            vec![("collected", vec!["value"])],
            vec![("splits", vec!["split"])],
            vec![],
        ]
    );
    let splits = &job.graph().nodes[0].states[0].schemas["split"];
    assert!(splits.starts_with("FileSplit (") && splits.len() == 28, "{splits}");
    assert_ne!(splits, &job.graph().nodes[2].states[0].schemas["split"]);
}

thread_local! {
    /// Number of lines that [`Parsed`] has read, and the interruption that it raises.
    static PARSED: (std::cell::Cell<u32>, Interrupt) = Default::default();
}

/// A record during whose second reading mail comes.
#[derive(Debug, Clone, derive::FlottType)]
#[flott(crate = crate)]
struct Parsed;

impl crate::types::FromLine for Parsed {
    fn from_line(_line: &[u8]) -> Result<Self, String> {
        PARSED.with(|(count, interrupt)| {
            count.set(count.get() + 1);
            if count.get() == 2 {
                interrupt.raise();
            }
        });
        Ok(Self)
    }
}

/// Polls a reader for up to 100 records of four lines until it has ended; the lines that each call has read.
fn parsed_by_call<R: SourceReader<Record = Parsed>>(
    mut reader: R,
    begin: impl FnOnce(&mut R, &mut ReaderContext<'_>),
) -> Vec<u32> {
    let interrupt = PARSED.with(|(count, interrupt)| {
        count.set(0);
        interrupt.clone()
    });
    let out = Collector::new(Box::new(NoConsumer), SideOutputs::default(), interrupt.clone());
    let mut out = ReaderOutput::new(out, None);
    let (context, mut requests) = (OperatorContext::for_tests(0, 1), Requests::default());
    let mut context = ReaderContext::new(&context, &mut requests);
    begin(&mut reader, &mut context);
    let mut calls = Vec::new();
    loop {
        let before = PARSED.with(|(count, _)| count.get());
        let read = reader.poll_next(100, &mut out, &mut context).unwrap();
        calls.push(PARSED.with(|(count, _)| count.get()) - before);
        interrupt.clear();
        if read != ReadProgress::More {
            return calls;
        }
    }
}

#[test]
fn readers_of_lines_return_after_the_line_during_which_mail_came() {
    let (_tmp, path) = file("a\nb\nc\nd\n");
    let files = FileReader::with_remote(remote, S3Settings::default());
    let calls = parsed_by_call(files, |reader, context| {
        let split = FileSplit { path, start: 0, end: 8 };
        reader.add_splits(vec![split], context).unwrap();
        reader.no_more_splits();
    });
    assert_eq!(calls, [2, 2, 0]);
    let socket = SocketReader::new("localhost:1".to_owned());
    let calls = parsed_by_call(socket, |reader, context| {
        reader.io_done(0, Ok(b"a\nb\nc\nd\n".to_vec()), context).unwrap();
        reader.io_done(0, Ok(Vec::new()), context).unwrap();
    });
    assert_eq!(calls, [2, 2]);
}

/// Takes everything, and keeps how many records came at once.
#[derive(Clone, Default)]
struct Sizes(Arc<Mutex<Vec<usize>>>);

impl Operator<String> for Sizes {
    type Out = ();
    fn process(
        &mut self,
        batch: &mut Batch<String>,
        _: &mut Collector<()>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.0.lock().unwrap().push(batch.len());
        batch.clear();
        Ok(())
    }
}

#[test]
fn large_records_of_a_source_go_on_in_batches_of_a_few() {
    let strategies = [None, Some(WatermarkStrategy::for_monotonous_timestamps(|_: &String| 7))];
    for strategy in strategies {
        let sizes = Sizes::default();
        let sides = SideOutputs::default();
        let context = OperatorContext::for_tests(0, 1);
        let link = Link::new(sizes.clone(), Box::new(NoConsumer), sides, context);
        let out = Collector::new(Box::new(link), SideOutputs::default(), Interrupt::default());
        let times = strategy
            .map(|strategy| -> Box<dyn SplitTimes<String>> { Box::new(PerSplit::new(strategy)) });
        let mut out = ReaderOutput::new(out, times);
        out.collect_all((0..10).map(|_| "x".repeat(100_000)));
        out.pass_pending();
        out.collector().flush().unwrap();
        assert_eq!(*sizes.0.lock().unwrap(), [3, 3, 3, 1]);
    }
}

/// The watermark's position is that of the slowest split, before and after a restore, also with another parallelism.
#[test]
fn event_time_goes_on_after_a_restore_of_a_source_without_an_enumerator() {
    let times = || WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
    for range in [(0, Some(100_000_000)), (0, None)] {
        let source = || match range {
            (first, Some(end)) => SequenceSource::new(first..end),
            (first, None) => SequenceSource::new(first..),
        };
        let mut before = testing::source(source()).watermarks(times()).subtasks(4).open().unwrap();
        for _ in 0..8 {
            before.poll().unwrap();
        }
        let read: Vec<u64> = before.output();
        let snapshot = before.snapshot().unwrap();
        for subtasks in [1, 2, 4, 5] {
            let restored = testing::source(source()).watermarks(times()).subtasks(subtasks);
            let mut after = restored.restore(snapshot.clone()).open().unwrap();
            for _ in 0..40 {
                after.poll().unwrap();
            }
            let mut all = [read.clone(), after.output()].concat();
            all.sort_unstable();
            let least = (0..).zip(&all).take_while(|(n, read)| n == *read).count() as i64;
            assert!(least > read.len() as i64 + 100, "{subtasks} subtasks: numbers of each split");
            let watermark = after.last_watermark().unwrap();
            let newest = *read.iter().max().unwrap() as i64;
            assert!(watermark > newest, "{subtasks} subtasks: {watermark} after {newest}");
            assert!(watermark <= least + 4, "{subtasks} subtasks: {watermark}, {least} are read");
        }
    }
    let values: Vec<u64> = (0..100_000).collect();
    let source = || CollectionSource::new(values.clone());
    let mut before = testing::source(source()).watermarks(times()).subtasks(2).open().unwrap();
    before.poll().unwrap();
    let snapshot = before.snapshot().unwrap();
    let restored = testing::source(source()).watermarks(times());
    let mut after = restored.restore(snapshot).open().unwrap();
    for _ in 0..10 {
        after.poll().unwrap();
    }
    let read = after.output().len() as i64;
    assert!(read < 50_000 && after.last_watermark().unwrap() > read / 2, "both splits take turns");
}

#[test]
fn event_time_goes_on_after_a_restore_of_a_socket() {
    let times = || WatermarkStrategy::for_monotonous_timestamps(|n: &String| n.parse().unwrap());
    let mut snapshot: Option<testing::SourceSnapshot> = None;
    const SERVED: [&[&[u8]]; 2] = [&[b"1\n2\n"], &[b"7\n8\n"]];
    for (served, last) in SERVED.into_iter().zip([2, 8]) {
        let (address, sender) = serve(served);
        let source = testing::source(SocketSource::text(address)).watermarks(times());
        let mut test = match snapshot.take() {
            Some(snapshot) => source.restore(snapshot).open().unwrap(),
            None => source.open().unwrap(),
        };
        while test.output().is_empty() {
            test.poll().unwrap();
        }
        assert_eq!(test.last_watermark(), Some(last - 1));
        snapshot = Some(test.snapshot().unwrap());
        sender.join().unwrap();
    }
}

/// Whatever the number of subtasks, all splits are read at the same pace, which is that of the source together.
#[test]
fn splits_of_a_restored_source_with_a_rate_share_it() {
    let source = || SequenceSource::new(0..).with_rate(1_000.0);
    let mut before = testing::source(source()).subtasks(4).open().unwrap();
    before.poll().unwrap();
    let snapshot = before.snapshot().unwrap();
    let first: u64 = before.output().len() as u64;
    for subtasks in [1, 2, 3, 4, 8] {
        let restored = testing::source(source()).subtasks(subtasks).restore(snapshot.clone());
        let mut after = restored.open().unwrap();
        let mut read = [0_u64; 4];
        for ms in (0..=2_000).step_by(5) {
            after.advance_clock_to(ms).unwrap();
            while after.poll().unwrap() {}
            after.output().iter().for_each(|n| read[(n % 4) as usize] += 1);
        }
        assert!((1_950..2_050).contains(&(read.iter().sum::<u64>() + first)), "{read:?}");
        // With one split in one subtask and two in another, both subtasks have a part of the rate for each.
        let (least, most) = (*read.iter().min().unwrap(), *read.iter().max().unwrap());
        assert!(most - least < 10, "{subtasks} subtasks: {read:?}");
    }
}
