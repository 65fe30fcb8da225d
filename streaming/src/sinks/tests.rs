//! Sinks and their coordinators.

use super::*;
use crate::{
    Coordinator, CoordinatorContext, EventReply,
    api::tests::{built, lines},
    harness::{Harness, HarnessError},
    types::{decode_one, encode_one},
};
use model::{ExecutionAttemptId, JobId, JobVertexId, OperatorId};
use proptest::prelude::*;
use std::{collections::BTreeMap, path::Path, sync::Arc};

fn attempt(subtask: u32, attempt: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask, attempt }
}

fn context(tmp: &Path, parallelism: u32) -> CoordinatorContext {
    CoordinatorContext {
        job_id: JobId(1),
        operator: OperatorId(2),
        parallelism,
        tmp_dir: tmp.to_owned(),
        options: Arc::new(BTreeMap::new()),
        on_failure: Default::default(),
        waker: Default::default(),
    }
}

/// The context in a job with periodic checkpoints.
fn periodic(tmp: &Path) -> CoordinatorContext {
    let interval = ("execution.checkpointing.interval".to_owned(), "1s".to_owned());
    CoordinatorContext { options: Arc::new([interval].into()), ..context(tmp, 1) }
}

/// A chunk that an attempt made after the barrier of a checkpoint.
fn chunk_after(from: ExecutionAttemptId, after: u64, sequence: u64, lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        crate::types::write_len(line.len(), &mut bytes);
        bytes.extend_from_slice(line.as_bytes());
    }
    let origin = (from.graph, (0_u64, 2_u64), from.subtask, from.attempt);
    encode_one(&(1_u8, (origin, sequence, after, lines.len() as u64, bytes)))
}

fn chunk(from: ExecutionAttemptId, sequence: u64, lines: &[&str]) -> Vec<u8> {
    chunk_after(from, 0, sequence, lines)
}

/// The coordinator's answer that a chunk is taken, when its newest snapshot is that of this checkpoint.
fn taken_at(snapshot: u64) -> Vec<u8> {
    encode_one(&Some(snapshot))
}

fn ask(coordinator: &mut CollectCoordinator, offset: u64, max_bytes: u64) -> (Vec<String>, bool) {
    let answer =
        coordinator.handle_request(&CollectRequest { offset, max_bytes }.encode()).unwrap();
    let chunk = CollectChunk::decode(&answer).unwrap();
    assert!(chunk.lines.is_empty() || chunk.offset >= offset);
    (chunk.lines.into_iter().map(|l| String::from_utf8(l).unwrap()).collect(), chunk.end)
}

#[test]
fn a_bounded_result_is_seen_when_the_job_has_finished() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&context(tmp.path(), 2), true);
    collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), 0, &["a", "b"])).unwrap();
    collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), 0, &["a", "b"])).unwrap();
    collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), 1, &["", "c"])).unwrap();
    assert_eq!(ask(&mut collector, 0, 99), (vec![], false));
    collector.handle_event(attempt(1, 1), &chunk(attempt(1, 1), 0, &["d"])).unwrap();
    collector.job_ended(true).unwrap();
    let mut read = Vec::new();
    loop {
        let (lines, end) = ask(&mut collector, read.len() as u64, 1);
        assert!(!lines.is_empty());
        read.extend(lines);
        if end {
            break;
        }
    }
    assert_eq!(read, ["a", "b", "", "c", "d"]);
    assert_eq!(ask(&mut collector, 1, 1).0, ["b"], "it can be read again");
    assert_eq!(ask(&mut collector, 5, 1), (vec![], true));
    assert_eq!(ask(&mut collector, 99, 1), (vec![], true));
}

#[test]
fn a_failed_job_has_no_result() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&context(tmp.path(), 1), true);
    collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), 0, &["a"])).unwrap();
    collector.job_ended(false).unwrap();
    assert_eq!(ask(&mut collector, 0, 99), (vec![], false));
}

#[test]
fn an_unbounded_result_is_dropped_when_it_was_read_and_waits_when_nobody_does() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&context(tmp.path(), 1), false);
    let large = "x".repeat(1 << 20);
    let mut taken = 0;
    while collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), taken, &[&large])).unwrap()
        == taken_at(0)
    {
        taken += 1;
        assert!(taken < 100, "somebody must wait");
    }
    assert!(taken >= 7);
    assert_eq!(ask(&mut collector, 0, 1).0.len(), 1);
    assert_eq!(ask(&mut collector, taken, 1), (vec![], false));
    assert_eq!(
        collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), taken, &["more"])).unwrap(),
        taken_at(0)
    );
    assert_eq!(ask(&mut collector, taken, 1).0, ["more"]);
    let answer =
        collector.handle_request(&CollectRequest { offset: 0, max_bytes: 9 }.encode()).unwrap();
    assert_eq!(CollectChunk::decode(&answer).unwrap().offset, taken, "what is gone is skipped");
}

/// A coordinator's snapshot for a checkpoint.
fn snapshot(coordinator: &mut CollectCoordinator, checkpoint: u64) -> Vec<u8> {
    let (send, answer) = std::sync::mpsc::channel();
    coordinator.snapshot(checkpoint, EventReply::new(move |taken| send.send(taken).unwrap()));
    answer.recv().unwrap().unwrap()
}

#[test]
fn a_client_sees_what_a_complete_checkpoint_contains_and_a_restored_job_repeats_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let periodic = periodic(tmp.path());
    let from = attempt(0, 0);
    let mut collector = CollectCoordinator::new(&periodic, false);
    let take = |c: &mut CollectCoordinator, after, sequence, line| {
        c.handle_event(from, &chunk_after(from, after, sequence, &[line])).unwrap()
    };
    assert_eq!(take(&mut collector, 0, 0, "a"), taken_at(0));
    let state = snapshot(&mut collector, 1);
    assert_eq!(
        take(&mut collector, 0, 1, "b"),
        taken_at(1),
        "after the snapshot, before the barrier"
    );
    assert_eq!(take(&mut collector, 1, 2, "c"), taken_at(1));
    assert_eq!(ask(&mut collector, 0, 99).0, [""; 0]);
    collector.checkpoint_ended(1, true).unwrap();
    assert_eq!(ask(&mut collector, 0, 1).0, ["a"]);
    assert_eq!(ask(&mut collector, 1, 99).0, ["b"], "c belongs to the next checkpoint");
    // The job fails and continues from checkpoint 1. The sink sends what it has kept, of which one chunk is known.
    let mut restored = CollectCoordinator::new(&periodic, false);
    restored.start(Some(state)).unwrap();
    take(&mut restored, 0, 0, "a");
    take(&mut restored, 0, 1, "b");
    let again = attempt(0, 1);
    restored.handle_event(again, &chunk_after(again, 1, 0, &["c"])).unwrap();
    assert_eq!(ask(&mut restored, 0, 1).0, ["a"]);
    restored.checkpoint_ended(2, true).unwrap();
    assert_eq!(ask(&mut restored, 1, 1).0, ["b"]);
    assert_eq!(ask(&mut restored, 2, 99).0, ["c"]);
}

/// A barrier waits behind the chunks of its sink: if they waited for the checkpoint, both would wait for ever.
#[test]
fn what_no_client_may_see_before_the_next_checkpoint_does_not_wait_for_it() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&periodic(tmp.path()), false);
    let (from, large) = (attempt(0, 0), "x".repeat(1 << 20));
    for round in 0..3 {
        let first = round * 15;
        for sequence in first..first + 15 {
            let chunk = chunk_after(from, round, sequence, &[&large]);
            assert_eq!(collector.handle_event(from, &chunk).unwrap(), taken_at(round));
        }
        snapshot(&mut collector, round + 1);
        collector.checkpoint_ended(round + 1, true).unwrap();
        let chunk = chunk_after(from, round + 1, first + 15, &[&large]);
        let answer: Option<u64> =
            decode_one(&collector.handle_event(from, &chunk).unwrap()).unwrap();
        assert_eq!(answer, None, "a client can read now");
        for line in first..first + 15 {
            assert_eq!(ask(&mut collector, line, 1).0, [large.as_str()]);
        }
        assert_eq!(ask(&mut collector, first + 15, 1), (vec![], false));
        let files = std::fs::read_dir(tmp.path()).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(bytes, 0, "what was read takes no room on the disk");
    }
}

#[test]
fn results_that_no_checkpoint_shows_are_bounded() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&periodic(tmp.path()), false);
    let (from, large) = (attempt(0, 0), "x".repeat(8 << 20));
    let mut answers =
        (0..100).map(|n| collector.handle_event(from, &chunk_after(from, 0, n, &[&large])));
    let why = answers.find_map(Result::err).unwrap();
    assert!(why.contains("write large results to files"), "{why}");
}

/// The file of the results is a link to a device without room.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_for_hidden_results_is_named_with_its_folder_and_what_to_do() {
    let tmp = tempfile::tempdir().unwrap();
    let context = periodic(tmp.path());
    let file = tmp.path().join(format!("collect-{}-{}", context.job_id, context.operator));
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let mut collector = CollectCoordinator::new(&context, false);
    let (from, large) = (attempt(0, 0), "x".repeat(5 << 20));
    collector.handle_event(from, &chunk(from, 0, &[&large])).unwrap();
    let why = collector.handle_event(from, &chunk(from, 1, &[&large])).unwrap_err();
    let folder = tmp.path().display().to_string();
    for part in ["the disk for hidden results is full", &folder, "io.tmp.dirs", "to files"] {
        assert!(why.contains(part), "{why}");
    }
    drop(collector);
    assert!(!file.exists() && Path::new("/dev/full").exists(), "the link alone is deleted");
}

/// An unbounded job whose checkpoint, which may take 10 s, waits behind 8 MiB that a client may see.
fn held_up(tmp: &Path, tolerates: &str) -> (CollectCoordinator, Vec<u8>) {
    let options = [
        ("execution.checkpointing.interval", "1s"),
        ("execution.checkpointing.timeout", "10s"),
        ("execution.checkpointing.tolerable-failed-checkpoints", tolerates),
    ];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let context = CoordinatorContext { options: Arc::new(options.into()), ..context(tmp, 1) };
    let mut collector = CollectCoordinator::new(&context, false);
    let (from, large) = (attempt(0, 0), "x".repeat(4 << 20));
    for sequence in 0..2 {
        collector.handle_event(from, &chunk(from, sequence, &[&large])).unwrap();
    }
    snapshot(&mut collector, 1);
    collector.checkpoint_ended(1, true).unwrap();
    (collector, chunk_after(from, 1, 2, &["more"]))
}

#[test]
fn a_checkpoint_that_would_be_late_because_nobody_reads_fails_with_a_text_that_says_so() {
    let (tmp, from) = (tempfile::tempdir().unwrap(), attempt(0, 0));
    let (mut collector, refused) = held_up(tmp.path(), "0");
    let wait = |c: &mut CollectCoordinator, times: u32| {
        (0..times).try_for_each(|_| {
            let answer = c.handle_event(from, &refused)?;
            assert_eq!(decode_one::<Option<u64>>(&answer).unwrap(), None);
            Ok::<(), String>(())
        })
    };
    wait(&mut collector, 10_000).expect("no checkpoint waits");
    snapshot(&mut collector, 2);
    // A refused chunk comes again after 50 ms: three quarters of 10 s.
    wait(&mut collector, 149).unwrap();
    ask(&mut collector, 0, 1);
    wait(&mut collector, 10_000).expect("a client is there, however slow");
    collector.checkpoint_ended(2, false).unwrap();
    snapshot(&mut collector, 3);
    wait(&mut collector, 149).unwrap();
    let why = wait(&mut collector, 1).unwrap_err();
    for part in ["nobody reads the collected results", "8388", "keep the client attached"] {
        assert!(why.contains(part), "{why}");
    }
    let (mut tolerant, _) = held_up(tmp.path(), "3");
    snapshot(&mut tolerant, 2);
    wait(&mut tolerant, 10_000).expect("the job goes on after such a checkpoint");
}

#[test]
fn a_snapshot_with_too_many_results_says_if_nobody_reads_them() {
    let tmp = tempfile::tempdir().unwrap();
    let (from, large) = (attempt(0, 0), "x".repeat(1 << 20));
    for is_read in [false, true] {
        let mut collector = CollectCoordinator::new(&periodic(tmp.path()), false);
        collector.handle_event(from, &chunk(from, 0, &["seen"])).unwrap();
        snapshot(&mut collector, 1);
        collector.checkpoint_ended(1, true).unwrap();
        if is_read {
            ask(&mut collector, 0, 1);
        }
        for sequence in 1..20 {
            collector.handle_event(from, &chunk_after(from, 1, sequence, &[&large])).unwrap();
        }
        let (send, answer) = std::sync::mpsc::channel();
        collector.snapshot(2, EventReply::new(move |taken| send.send(taken).unwrap()));
        let why = answer.recv().unwrap().unwrap_err();
        assert_eq!(why.contains("nobody reads the collected results"), !is_read, "{why}");
        assert!(why.contains("16 MiB"), "{why}");
    }
}

#[test]
fn a_result_that_is_too_large_for_a_checkpoint_fails_it_and_says_so() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&context(tmp.path(), 1), true);
    let large = "x".repeat(17 << 20);
    collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), 0, &[&large])).unwrap();
    let (send, answer) = std::sync::mpsc::channel();
    collector.snapshot(1, EventReply::new(move |taken| send.send(taken).unwrap()));
    let why = answer.recv().unwrap().unwrap_err();
    assert!(why.contains("write large results to files"), "{why}");
}

#[test]
fn a_bounded_job_with_checkpoints_fails_at_the_result_that_its_final_checkpoint_cannot_keep() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&periodic(tmp.path()), true);
    let (from, large) = (attempt(0, 0), "x".repeat(8 << 20));
    collector.handle_event(from, &chunk(from, 0, &[&large])).unwrap();
    let why = collector.handle_event(from, &chunk(from, 1, &[&large])).unwrap_err();
    assert!(why.contains("write large results to files"), "{why}");
}

#[test]
fn a_large_result_goes_through_a_file() {
    let tmp = tempfile::tempdir().unwrap();
    let mut collector = CollectCoordinator::new(&context(tmp.path(), 1), true);
    for i in 0..40_u64 {
        let line = format!("{i}{}", "y".repeat(1 << 20));
        collector.handle_event(attempt(0, 0), &chunk(attempt(0, 0), i, &[&line])).unwrap();
    }
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 1);
    collector.job_ended(true).unwrap();
    for i in 0..40_u64 {
        let (lines, end) = ask(&mut collector, i, 1);
        assert!(lines[0].starts_with(&format!("{i}y")));
        assert_eq!((lines.len(), end), (1, i == 39));
    }
    drop(collector);
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

proptest! {
    #[test]
    fn no_bytes_make_a_coordinator_panic(bytes: Vec<u8>) {
        let tmp = std::env::temp_dir();
        let mut collector = CollectCoordinator::new(&context(&tmp, 1), true);
        let _ = collector.handle_event(attempt(0, 0), &bytes);
        let _ = collector.handle_request(&bytes);
        let mut text = vec![1_u8];
        text.extend(&bytes);
        let _ = collector.handle_event(attempt(0, 0), &encode_one(&(1_u8, ((0_u64, (0_u64, 0_u64), 0_u32, 0_u32), 0_u64, 0_u64, 5_u64, text))));
        let _ = collector.job_ended(true);
        let _ = collector.handle_request(&CollectRequest { offset: 0, max_bytes: 10 }.encode());
        let _ = CollectChunk::decode(&bytes);
    }
}

fn write(tmp: &Path, to: &Path, parallelism: u32, count: u64) -> Result<(), HarnessError> {
    let to = to.to_owned();
    let job = built(parallelism, move |env| drop(env.sequence(0..count).write_text(&to)));
    Harness::new(tmp).run(&job).map(drop)
}

#[test]
fn one_subtask_writes_a_file_several_a_folder_and_both_replace_earlier_results() {
    let tmp = tempfile::tempdir().unwrap();
    let to = tmp.path().join("new/folder/out");
    write(tmp.path(), &to, 1, 3).unwrap();
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "0\n1\n2\n");
    write(tmp.path(), &to, 1, 2).unwrap();
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "0\n1\n");
    write(tmp.path(), &to, 3, 4).unwrap();
    let parts: Vec<_> = (0..3)
        .map(|i| std::fs::read_to_string(to.join(format!("part-0000{i}"))).unwrap())
        .collect();
    assert_eq!(parts, ["0\n3\n", "1\n", "2\n"]);
    write(tmp.path(), &to, 2, 0).unwrap();
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2);
    write(tmp.path(), &to, 1, 1).unwrap();
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "0\n");
    assert_eq!(std::fs::read_dir(to.parent().unwrap()).unwrap().count(), 1, "no leftovers");
}

#[test]
fn a_folder_of_somebody_else_is_not_replaced() {
    let tmp = tempfile::tempdir().unwrap();
    let to = tmp.path().join("theirs");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("precious"), "x").unwrap();
    let error = write(tmp.path(), &to, 1, 1).unwrap_err().to_string();
    assert!(error.contains("it is not replaced") && error.contains("precious"), "{error}");
    assert!(to.join("precious").exists());
}

#[test]
fn what_can_not_be_written_is_named() {
    let tmp = tempfile::tempdir().unwrap();
    std::fs::write(tmp.path().join("file"), "x").unwrap();
    let error = write(tmp.path(), &tmp.path().join("file/below"), 1, 1).unwrap_err().to_string();
    assert!(error.contains("file/below' can't be written"), "{error}");
}

#[test]
fn a_file_job_that_did_not_finish_shows_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let to = tmp.path().join("out");
    let path = to.clone();
    let job =
        built(2, move |env| drop(env.sequence_with_rate(0..1_000_000, 10.0).write_text(&path)));
    Harness::new(tmp.path()).cancel_after(50).run(&job).unwrap();
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn a_checksum_does_not_depend_on_order_or_parallelism() {
    let of = |parallelism| {
        let job = built(parallelism, |env| {
            env.sequence(0..5_000)
                .map(|n| (format!("k{n}"), n))
                .rebalance()
                .map(|r| r)
                .checksum()
                .collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        lines(&Harness::new(tmp.path()).run(&job).unwrap())
    };
    let one = of(1);
    assert!(one[0].starts_with("5000\t"));
    assert_eq!(one, of(5));
}

#[test]
fn lines_are_printed_with_the_subtask_where_there_are_several() {
    use crate::{batch::NO_TIME, testing};
    use std::sync::Mutex;
    static PRINTED: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    struct Out;
    impl std::io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            PRINTED.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let records = [("a".to_owned(), 1_u64), ("b".to_owned(), 2)].map(|record| (record, NO_TIME));
    let mut second = testing::operator(Print::to(|| Out)).subtask(1, 2).open().unwrap();
    second.push_batch(records.clone()).unwrap();
    assert_eq!(*PRINTED.lock().unwrap(), b"2> a\t1\n2> b\t2\n");
    PRINTED.lock().unwrap().clear();
    let mut only = testing::operator(Print::to(|| Out)).interrupted().open().unwrap();
    only.push_batch(records).unwrap();
    only.end_of_input().unwrap();
    assert_eq!(*PRINTED.lock().unwrap(), b"a\t1\nb\t2\n");
}

/// A record whose line takes long to write: mail comes while that of the number 2 is written.
struct Slow(u8, crate::Interrupt);

impl crate::types::ToLine for Slow {
    fn write_line(&self, out: &mut Vec<u8>) {
        if self.0 == 2 {
            self.1.raise();
        }
        out.push(b'0' + self.0);
    }
}

#[test]
fn sinks_of_lines_stop_after_the_line_during_which_mail_came() {
    use crate::operators::{Collector, Operator, OperatorContext, SideOutputs};
    fn left(mut sink: impl Operator<Slow, Out = ()>) -> usize {
        let interrupt = crate::Interrupt::default();
        let next = Box::new(crate::chain::NoConsumer);
        let mut out = Collector::new(next, SideOutputs::default(), interrupt.clone());
        let context = OperatorContext::for_tests(0, 1);
        let records: Vec<_> = (1..=4).map(|n| Slow(n, interrupt.clone())).collect();
        let mut batch = crate::batch::Batch::from(records);
        sink.process(&mut batch, &mut out, &context).unwrap();
        let left = batch.len();
        interrupt.clear();
        sink.process(&mut batch, &mut out, &context).unwrap();
        assert!(batch.is_empty());
        left
    }
    assert_eq!(left(Print::to(std::io::sink)), 2);
    assert_eq!(left(CollectSink::default()), 2);
}
