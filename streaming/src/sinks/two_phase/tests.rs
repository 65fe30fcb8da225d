//! The commit protocol, line by line: `EXACTLY-ONCE.md` names these tests.

use super::*;
use crate::{
    Barrier,
    api::tests::built,
    chain::NoConsumer,
    operators::{Consumer, Control, Flow, Link, OperatorMail, SideOutputs},
    seam::StreamEvent,
    sinks::{
        Announcement, CommitError, CommitRequest, CommittingSinkWriter, NoCommitter, NoWriterState,
        SinkWriter, WriterContext,
    },
    state::slow::Reads,
    testing,
};
use std::collections::VecDeque;

/// Everything that the sinks of a test have done, and how their next commits end.
#[derive(Default)]
struct World {
    log: Vec<String>,
    /// The results of the next commits; those after them succeed.
    results: VecDeque<Result<(), CommitError>>,
}
type Shown = Arc<Mutex<World>>;

fn log(world: &Shown) -> Vec<String> {
    std::mem::take(&mut lock(world).log)
}

fn later(why: &str) -> Result<(), CommitError> {
    Err(CommitError::Retry(why.to_owned()))
}

/// A sink whose committables are the numbers themselves.
#[derive(Default)]
struct Numbers {
    world: Shown,
}
struct NumberWriter {
    world: Shown,
    taken: Vec<u64>,
}
struct NumberCommitter(Shown);

impl Sink<u64> for Numbers {
    type Committable = u64;
    type Writer = NumberWriter;
    type Committer = NumberCommitter;
    type GlobalCommitter = NoCommitter;
    fn create_writer(&self, _: &OperatorContext) -> Result<NumberWriter, BoxError> {
        Ok(NumberWriter { world: self.world.clone(), taken: Vec::new() })
    }
    fn create_committer(&self, _: &OperatorContext) -> Result<NumberCommitter, BoxError> {
        Ok(NumberCommitter(self.world.clone()))
    }
    fn create_global_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
}
impl SinkWriter<u64> for NumberWriter {
    fn write(&mut self, number: u64, _: &WriterContext<'_>) -> Result<(), BoxError> {
        self.taken.push(number);
        Ok(())
    }
}
impl CommittingSinkWriter<u64> for NumberWriter {
    type Committable = u64;
    type State = NoWriterState;
    fn prepare_commit(&mut self) -> Result<Vec<u64>, BoxError> {
        Ok(std::mem::take(&mut self.taken))
    }
    fn abort_leftovers(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        lock(&self.world).log.push(format!("abort {}", context.subtask()));
        Ok(())
    }
}
impl Committer<u64> for NumberCommitter {
    async fn commit(&self, request: CommitRequest<u64>) -> Result<(), CommitError> {
        let mut world = lock(&self.0);
        let CommitRequest { committable, checkpoint, retries, .. } = request;
        world.log.push(format!("{committable} of {checkpoint} try {retries}"));
        world.results.pop_front().unwrap_or(Ok(()))
    }
}

/// The same with a global committer.
struct Globally<const AT_END: bool>(Numbers);
struct AllTogether<const AT_END: bool>(Shown);
impl<const AT_END: bool> Sink<u64> for Globally<AT_END> {
    type Committable = u64;
    type Writer = NumberWriter;
    type Committer = NoCommitter;
    type GlobalCommitter = AllTogether<AT_END>;
    fn create_writer(&self, context: &OperatorContext) -> Result<NumberWriter, BoxError> {
        self.0.create_writer(context)
    }
    fn create_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
    fn create_global_committer(
        &self,
        _: &OperatorContext,
    ) -> Result<AllTogether<AT_END>, BoxError> {
        Ok(AllTogether(self.0.world.clone()))
    }
}
impl<const AT_END: bool> GlobalCommitter<u64> for AllTogether<AT_END> {
    const ONLY_AT_END: bool = AT_END;
    async fn commit(&self, request: CommitRequest<Vec<u64>>) -> Result<(), CommitError> {
        let mut world = lock(&self.0);
        world.log.push(format!("{:?}", request.committable));
        world.results.pop_front().unwrap_or(Ok(()))
    }
}

fn sink(world: &Shown) -> testing::SinkHarnessBuilder<u64, Numbers> {
    testing::sink(Numbers { world: world.clone() })
}

#[test]
fn nothing_is_committed_before_its_checkpoint_is_complete() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    test.barrier(1, false).unwrap();
    test.push(0, 2).unwrap();
    assert_eq!(log(&world), [""; 0], "acknowledged is not complete");
    test.notify_complete(1).unwrap();
    assert_eq!(log(&world), ["abort 0", "1 of 1 try 0"], "and nothing behind the barrier");
}

#[test]
fn a_complete_checkpoint_commits_what_aborted_ones_before_it_prepared() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    for checkpoint in 1..=3 {
        test.push(0, checkpoint * 10).unwrap();
        test.barrier(checkpoint, false).unwrap();
    }
    test.notify_complete(2).unwrap();
    assert_eq!(log(&world), ["abort 0", "10 of 1 try 0", "20 of 2 try 0"]);
    test.notify_complete(1).unwrap();
    assert_eq!(log(&world), [""; 0], "a notification that was overtaken commits nothing twice");
    test.notify_complete(3).unwrap();
    assert_eq!(log(&world), ["30 of 3 try 0"]);
}

#[test]
fn a_crash_between_the_acknowledgement_and_the_commit_is_made_good_by_the_restore() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    let checkpoint = test.barrier(1, false).unwrap();
    test.push(0, 2).unwrap();
    test.barrier(2, false).unwrap();
    test.fail();
    assert_eq!(log(&world), [""; 0]);
    let restored = sink(&world).attempt(1).restore(checkpoint).open().unwrap();
    assert_eq!(log(&world), ["1 of 1 try 0"], "and not what belongs to no complete checkpoint");
    restored.finish().unwrap();
    assert_eq!(log(&world), ["abort 0"]);
}

#[test]
fn a_crash_after_a_commit_repeats_it_until_a_checkpoint_says_that_it_is_done() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    let first = test.barrier(1, false).unwrap();
    test.notify_complete(1).unwrap();
    let second = test.barrier(2, false).unwrap();
    test.fail();
    log(&world);
    sink(&world).attempt(1).restore(first).open().unwrap();
    assert_eq!(log(&world), ["1 of 1 try 0"], "commits must be idempotent");
    sink(&world).attempt(1).restore(second).open().unwrap();
    assert_eq!(log(&world), [""; 0]);
}

#[test]
fn the_committables_of_a_savepoint_are_committed_by_the_old_job_and_by_the_restored_one() {
    let world = Shown::default();
    let mut old = sink(&world).open().unwrap();
    old.push(0, 1).unwrap();
    let savepoint = old.barrier(1, false).unwrap();
    sink(&world).job(2).restore(savepoint).open().unwrap();
    old.notify_complete(1).unwrap();
    assert_eq!(log(&world), ["1 of 1 try 0", "abort 0", "1 of 1 try 0"]);
}

#[test]
fn a_restore_at_another_parallelism_commits_everything_once() {
    for (before, after) in [(1_u32, 3_u32), (3, 1), (3, 2), (2, 4), (2, 2)] {
        let world = Shown::default();
        let mut test = sink(&world).subtasks(before).open().unwrap();
        for number in 0..6 {
            test.push(number % before, u64::from(number)).unwrap();
        }
        let checkpoint = test.barrier(7, false).unwrap();
        test.fail();
        let restored = sink(&world).subtasks(after).attempt(1).restore(checkpoint);
        let restored = restored.open().unwrap();
        let mut committed = log(&world);
        committed.sort();
        let expected: Vec<String> = (0..6).map(|n| format!("{n} of 7 try 0")).collect();
        assert_eq!(committed, expected, "{before} -> {after}");
        restored.finish().unwrap();
        let mut aborted = log(&world);
        aborted.sort();
        let expected: Vec<String> = (0..after).map(|n| format!("abort {n}")).collect();
        assert_eq!(aborted, expected, "{before} -> {after}");
    }
}

#[test]
fn each_former_subtask_has_one_successor() {
    for parallelism in 1..5 {
        let contexts = (0..parallelism).map(|s| OperatorContext::for_tests(s, parallelism));
        let contexts: Vec<_> = contexts.collect();
        for former in 0..12 {
            let successors = contexts.iter().filter(|context| context.takes_over(former));
            assert_eq!(successors.count(), 1);
        }
        assert!(contexts.iter().all(|context| context.takes_over(context.subtask())));
    }
}

#[test]
fn leftovers_are_aborted_once_and_after_the_restored_commits() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    let checkpoint = test.barrier(1, false).unwrap();
    test.fail();
    lock(&world).results.push_back(later("not yet"));
    let mut restored = sink(&world).attempt(1).restore(checkpoint).open().unwrap();
    for checkpoint in 2..4 {
        restored.barrier(checkpoint, false).unwrap();
        restored.notify_complete(checkpoint).unwrap();
    }
    assert_eq!(log(&world), ["1 of 1 try 0", "1 of 1 try 1", "abort 0"]);
}

#[test]
fn a_commit_is_repeated_alone_and_holds_up_those_of_the_next_checkpoint() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    test.push(0, 2).unwrap();
    test.barrier(1, false).unwrap();
    test.push(0, 3).unwrap();
    test.barrier(2, false).unwrap();
    lock(&world).results.extend([later("busy"), Ok(()), later("busy")]);
    test.notify_complete(2).unwrap();
    let expected =
        ["abort 0", "1 of 1 try 0", "2 of 1 try 0", "1 of 1 try 1", "1 of 1 try 2", "3 of 2 try 0"];
    assert_eq!(log(&world), expected);
    assert!(!test.is_committing());
}

type NumbersCommitter = CommitterOf<u64, Numbers>;

/// A committer of a subtask, without a writer.
fn committer_alone(world: &Shown) -> testing::HarnessBuilder<Prepared<u64>, NumbersCommitter> {
    let sink = Arc::new(Mutex::new(Numbers { world: world.clone() }));
    testing::operator(committer::<u64, Numbers>(sink))
}

#[test]
fn the_pause_before_a_repetition_doubles_up_to_ten_seconds() {
    let world = Shown::default();
    let mut test = committer_alone(&world).open().unwrap();
    test.push(Prepared::Committable(1)).unwrap();
    test.barrier(1, false).unwrap();
    lock(&world).results.extend((0..9).map(|_| later("busy")));
    test.notify_complete(1).unwrap();
    let mut now = 0;
    for pause in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
        log(&world);
        assert!(test.is_committing());
        test.advance_clock_to(now + pause - 1).unwrap();
        assert_eq!(log(&world), [""; 0], "{pause}");
        now += pause;
        test.advance_clock_to(now).unwrap();
        assert_eq!(log(&world).len(), 1, "{pause}");
    }
    assert!(!test.is_committing());
}

#[test]
fn a_snapshot_holds_what_is_to_be_repeated() {
    let world = Shown::default();
    let mut test = committer_alone(&world).open().unwrap();
    test.push(Prepared::Committable(1)).unwrap();
    test.push(Prepared::Committable(2)).unwrap();
    test.barrier(1, false).unwrap();
    lock(&world).results.extend([later("busy"), Ok(())]);
    test.notify_complete(1).unwrap();
    let snapshot = test.barrier(2, false).unwrap();
    test.fail();
    log(&world);
    committer_alone(&world).restore(snapshot).open().unwrap();
    assert_eq!(log(&world), ["1 of 1 try 0"]);
}

#[test]
fn a_permanent_failure_fails_the_task_which_is_never_done() {
    let world = Shown::default();
    let mut test = committer_alone(&world).open().unwrap();
    test.push(Prepared::Committable(1)).unwrap();
    test.push(Prepared::Committable(2)).unwrap();
    test.end_of_input().unwrap();
    test.barrier(1, true).unwrap();
    let failed = Err(CommitError::Failed("no such table".to_owned()));
    lock(&world).results.extend([later("busy"), failed]);
    let error = test.notify_complete(1).unwrap_err();
    assert!(!error.is_recoverable(), "the job fails");
    let error = error.to_string();
    assert!(error.contains("checkpoint 1") && error.contains("no such table"), "{error}");
    assert!(test.is_committing());
}

#[test]
fn a_commit_that_is_refused_too_often_fails_the_task() {
    let world = Shown::default();
    let mut test = committer_alone(&world).option(RETRIES_OPTION, "2").open().unwrap();
    test.push(Prepared::Committable(1)).unwrap();
    test.barrier(1, false).unwrap();
    lock(&world).results.extend((0..3).map(|_| later("busy")));
    test.notify_complete(1).unwrap();
    let error = test.advance_clock_to(10_000).unwrap_err().to_string();
    assert!(error.contains("after 2 retries") && error.contains("busy"), "{error}");
    assert_eq!(log(&world).len(), 3);
    let wrong = committer_alone(&world).option(RETRIES_OPTION, "often").open().err().unwrap();
    assert!(wrong.to_string().contains("'often'"), "{wrong}");
}
const RETRIES_OPTION: &str = "sink.committer.retries";

#[test]
fn the_last_records_are_committed_by_the_final_checkpoint() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    test.end_of_input().unwrap();
    test.barrier(1, false).unwrap();
    let last = test.barrier(2, true).unwrap();
    assert_eq!(log(&world), [""; 0]);
    test.notify_complete(2).unwrap();
    assert_eq!(log(&world), ["abort 0", "1 of 1 try 0"]);
    assert!(!test.is_committing());
    sink(&world).attempt(1).restore(last).open().unwrap();
    assert_eq!(log(&world), ["1 of 1 try 0"], "the job failed before its end was recorded");
}

#[test]
fn a_record_after_the_end_of_input_is_refused_by_the_test_of_a_sink() {
    let world = Shown::default();
    let mut test = sink(&world).open().unwrap();
    test.push(0, 1).unwrap();
    test.end_of_input().unwrap();
    let error = test.push(0, 2).unwrap_err().to_string();
    assert!(error.contains("subtask 0") && error.contains("before end_of_input"), "{error}");
    test.finish().unwrap();
    assert_eq!(log(&world), ["abort 0", "1 of 1 try 0"]);
}

#[test]
fn a_global_committer_gets_what_all_writers_prepared_for_a_checkpoint_at_once() {
    let world = Shown::default();
    let global = || testing::sink(Globally::<false>(Numbers { world: world.clone() })).subtasks(2);
    let mut test = global().open().unwrap();
    test.push(0, 1).unwrap();
    test.push(1, 2).unwrap();
    let checkpoint = test.barrier(1, false).unwrap();
    lock(&world).results.push_back(later("busy"));
    test.notify_complete(1).unwrap();
    assert_eq!(log(&world), ["abort 0", "abort 1", "[1, 2]", "[1, 2]"]);
    test.fail();
    global().subtasks(3).restore(checkpoint).open().unwrap();
    assert_eq!(log(&world), ["[1, 2]"]);
}

#[test]
fn what_is_committed_only_at_the_end_waits_for_the_final_checkpoint_also_across_failures() {
    let world = Shown::default();
    let global = || testing::sink(Globally::<true>(Numbers { world: world.clone() })).subtasks(2);
    let mut test = global().open().unwrap();
    test.push(0, 1).unwrap();
    let first = test.barrier(1, false).unwrap();
    test.notify_complete(1).unwrap();
    test.fail();
    let mut test = global().attempt(1).restore(first).open().unwrap();
    test.push(1, 2).unwrap();
    test.barrier(2, false).unwrap();
    test.end_of_input().unwrap();
    let last = test.barrier(3, true).unwrap();
    test.notify_complete(2).unwrap();
    assert!(!log(&world).iter().any(|line| line.starts_with('[')), "3 is not complete yet");
    test.fail();
    let restored = global().subtasks(1).attempt(2).restore(last).open().unwrap();
    assert_eq!(log(&world), ["[1, 2]"]);
    restored.finish().unwrap();
    assert_eq!(log(&world), [""; 0], "once, and no writer deletes what waits for the end");
}

/// A sink that publishes everything at the end. Its writers hide their numbers with those of their attempts, and abort leftovers as
/// [`CommittingSinkWriter`] says: those of other attempts that are hidden still.
#[derive(Default)]
struct AtTheEnd(Arc<Mutex<Hidden>>);
#[derive(Default)]
struct Hidden {
    hidden: std::collections::BTreeSet<(u32, u64)>,
    shown: Vec<u64>,
}
struct HidingWriter {
    place: Arc<Mutex<Hidden>>,
    attempt: u32,
    taken: Vec<(u32, u64)>,
}
struct ShowAll(Arc<Mutex<Hidden>>);

impl Sink<u64> for AtTheEnd {
    type Committable = (u32, u64);
    type Writer = HidingWriter;
    type Committer = NoCommitter;
    type GlobalCommitter = ShowAll;
    fn create_writer(&self, context: &OperatorContext) -> Result<HidingWriter, BoxError> {
        let attempt = context.attempt().attempt;
        Ok(HidingWriter { place: self.0.clone(), attempt, taken: Vec::new() })
    }
    fn create_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
    fn create_global_committer(&self, _: &OperatorContext) -> Result<ShowAll, BoxError> {
        Ok(ShowAll(self.0.clone()))
    }
}
impl SinkWriter<u64> for HidingWriter {
    fn write(&mut self, number: u64, _: &WriterContext<'_>) -> Result<(), BoxError> {
        lock(&self.place).hidden.insert((self.attempt, number));
        self.taken.push((self.attempt, number));
        Ok(())
    }
}
impl CommittingSinkWriter<u64> for HidingWriter {
    type Committable = (u32, u64);
    type State = NoWriterState;
    fn prepare_commit(&mut self) -> Result<Vec<(u32, u64)>, BoxError> {
        Ok(std::mem::take(&mut self.taken))
    }
    fn abort_leftovers(&mut self, _: &OperatorContext) -> Result<(), BoxError> {
        lock(&self.place).hidden.retain(|(attempt, _)| *attempt == self.attempt);
        Ok(())
    }
}
impl GlobalCommitter<(u32, u64)> for ShowAll {
    const ONLY_AT_END: bool = true;
    async fn commit(&self, request: CommitRequest<Vec<(u32, u64)>>) -> Result<(), CommitError> {
        let mut place = lock(&self.0);
        for committable in request.committable {
            if !place.hidden.remove(&committable) {
                return Err(CommitError::Failed(format!("{committable:?} is not there")));
            }
            place.shown.push(committable.1);
        }
        // What is left belongs to no checkpoint.
        place.hidden.clear();
        Ok(())
    }
}

#[test]
fn what_waits_for_the_end_is_not_aborted_by_the_attempts_that_come_before_it() {
    let place = Arc::<Mutex<Hidden>>::default();
    let made = |attempt| testing::sink(AtTheEnd(place.clone())).attempt(attempt);
    let mut checkpoint = testing::SinkSnapshot::default();
    for attempt in 0..3 {
        let mut test = made(attempt).restore(checkpoint).open().unwrap();
        let number = u64::from(attempt) + 1;
        test.push(0, number).unwrap();
        checkpoint = test.barrier(number, false).unwrap();
        test.notify_complete(number).unwrap();
        test.push(0, 99).unwrap();
        test.fail();
    }
    let mut last = made(3).restore(checkpoint).open().unwrap();
    last.push(0, 4).unwrap();
    last.finish().unwrap();
    let place = lock(&place);
    assert_eq!((place.shown.as_slice(), place.hidden.len()), ([1, 2, 3, 4].as_slice(), 0));
}

#[test]
fn a_job_that_is_stopped_before_its_end_commits_nothing_that_waits_for_the_end() {
    let world = Shown::default();
    let mut test =
        testing::sink(Globally::<true>(Numbers { world: world.clone() })).open().unwrap();
    test.push(0, 1).unwrap();
    test.barrier(1, true).unwrap();
    test.notify_complete(1).unwrap();
    assert_eq!(log(&world), [""; 0]);
    assert!(!test.is_committing(), "the task may finish");
}

/// Does the I/O that has waited longest, and delivers its result; returns false if there is none.
fn answer<T>(host: &Reads, link: &mut impl Consumer<T>) -> bool {
    let Some((node, mail)) = host.answer(0) else { return false };
    link.deliver(node, mail).unwrap();
    true
}

/// A committer whose commits last until the test lets them end.
fn slow(
    world: &Shown,
    restore: Vec<Vec<u8>>,
) -> (Link<Prepared<u64>, NumbersCommitter>, Arc<Reads>) {
    let host = Arc::new(Reads::default());
    let context = OperatorContext::for_tests_with(0, 1, host.clone()).restoring(restore);
    let sink = Arc::new(Mutex::new(Numbers { world: world.clone() }));
    let operator = committer::<u64, Numbers>(sink);
    let mut link = Link::new(operator, Box::new(NoConsumer), SideOutputs::default(), context);
    link.open().unwrap();
    (link, host)
}

fn barrier(checkpoint: u64) -> StreamEvent {
    StreamEvent::Barrier(Barrier { checkpoint, ..Barrier::default() })
}

fn push(link: &mut impl Consumer<Prepared<u64>>, number: u64) {
    let mut batch = crate::batch::Batch::default();
    batch.push(Prepared::Committable(number), crate::batch::NO_TIME);
    link.batch(&mut batch).unwrap();
}

#[test]
fn barriers_and_notifications_come_while_a_commit_lasts_and_none_is_lost() {
    let world = Shown::default();
    let (mut link, host) = slow(&world, Vec::new());
    for checkpoint in 1..=3 {
        push(&mut link, checkpoint * 10);
        assert_eq!(link.event(barrier(checkpoint)).unwrap(), Flow::Done);
        link.notify_complete(checkpoint).unwrap();
    }
    assert!(link.is_committing() && !link.full());
    assert_eq!(host.len(), 1, "one checkpoint after the other");
    while answer(&host, &mut link) {}
    assert_eq!(log(&world), ["10 of 1 try 0", "20 of 2 try 0", "30 of 3 try 0"]);
    assert!(!link.is_committing());
}

#[test]
fn a_snapshot_holds_what_is_being_committed() {
    let world = Shown::default();
    let (mut link, host) = slow(&world, Vec::new());
    push(&mut link, 1);
    link.event(barrier(1)).unwrap();
    link.notify_complete(1).unwrap();
    assert_eq!(host.len(), 1, "under way");
    link.event(barrier(2)).unwrap();
    let snapshot = link.snapshots(2);
    link.dispose();
    assert_eq!(log(&world), [""; 0]);
    committer_alone(&world).restore(snapshot).open().unwrap();
    assert_eq!(log(&world), ["1 of 1 try 0"]);
}

#[test]
fn a_restored_committer_takes_no_records_and_lets_no_barrier_pass_before_it_has_committed() {
    let world = Shown::default();
    let mut test = committer_alone(&world).open().unwrap();
    test.push(Prepared::Committable(1)).unwrap();
    let snapshot = test.barrier(1, false).unwrap();
    let (mut link, host) = slow(&world, snapshot);
    assert!(link.full() && link.is_committing());
    assert_eq!(link.event(barrier(2)).unwrap(), Flow::Waiting);
    assert!(answer(&host, &mut link));
    assert!(!link.full() && !link.is_committing());
    assert_eq!(link.event(barrier(2)).unwrap(), Flow::Done);
    assert_eq!(log(&world), ["1 of 1 try 0"]);
}

/// A sink whose writers announce the number of their subtask.
struct Announces(Numbers);
struct Announcer(NumberWriter);
struct Checks(Shown);

impl Sink<u64> for Announces {
    type Committable = u64;
    type Writer = Announcer;
    type Committer = NumberCommitter;
    type GlobalCommitter = Checks;
    fn create_writer(&self, context: &OperatorContext) -> Result<Announcer, BoxError> {
        self.0.create_writer(context).map(Announcer)
    }
    fn create_committer(&self, context: &OperatorContext) -> Result<NumberCommitter, BoxError> {
        self.0.create_committer(context)
    }
    fn create_global_committer(&self, _: &OperatorContext) -> Result<Checks, BoxError> {
        Ok(Checks(self.0.world.clone()))
    }
}
impl SinkWriter<u64> for Announcer {
    fn write(&mut self, number: u64, context: &WriterContext<'_>) -> Result<(), BoxError> {
        self.0.write(number, context)
    }
}
impl CommittingSinkWriter<u64> for Announcer {
    type Committable = u64;
    type State = NoWriterState;
    fn announce(&mut self, context: &OperatorContext) -> Option<Announcement<u64>> {
        let subtask = context.subtask().into();
        Some(Box::pin(async move { Ok(Some(subtask)) }))
    }
    fn prepare_commit(&mut self) -> Result<Vec<u64>, BoxError> {
        self.0.prepare_commit()
    }
}
impl GlobalCommitter<u64> for Checks {
    async fn commit(&self, request: CommitRequest<Vec<u64>>) -> Result<(), CommitError> {
        lock(&self.0).log.push(format!("{:?}", request.committable));
        Ok(())
    }
    async fn check(&self, announced: u64) -> Result<(), CommitError> {
        let mut world = lock(&self.0);
        world.log.push(format!("check {announced}"));
        world.results.pop_front().unwrap_or(Ok(()))
    }
}

#[test]
fn announcements_are_checked_at_the_start_by_the_global_committer_alone_and_never_committed() {
    let world = Shown::default();
    let announces = || testing::sink(Announces(Numbers { world: world.clone() })).subtasks(2);
    let mut test = announces().open().unwrap();
    assert_eq!(log(&world), ["check 0", "check 1"]);
    test.push(0, 7).unwrap();
    let checkpoint = test.barrier(1, false).unwrap();
    test.notify_complete(1).unwrap();
    assert_eq!(log(&world), ["7 of 1 try 0", "[7]"]);
    test.fail();
    let restored = announces().attempt(1).restore(checkpoint).open().unwrap();
    assert_eq!(log(&world), ["[7]", "7 of 1 try 0", "check 0", "check 1"]);
    restored.finish().unwrap();
    assert_eq!(log(&world), [""; 0]);
}

#[test]
fn a_check_that_fails_fails_the_job_and_one_that_cannot_be_made_fails_the_task() {
    let world = Shown::default();
    let announces = || testing::sink(Announces(Numbers { world: world.clone() }));
    lock(&world).results.push_back(Err(CommitError::Failed("'x' is not shared".to_owned())));
    let error = announces().open().err().unwrap();
    assert!(
        !error.is_recoverable() && error.to_string().contains("the output 'x' is not shared"),
        "{error}"
    );
    lock(&world).results.push_back(later("the disk is slow"));
    let error = announces().open().err().unwrap();
    assert!(error.is_recoverable() && error.to_string().contains("the disk is slow"), "{error}");
}

#[test]
fn a_barrier_and_the_end_of_input_wait_for_the_announcement() {
    let world = Shown::default();
    for event in [barrier(1), StreamEvent::EndOfInput] {
        let host = Arc::new(Reads::default());
        let context = OperatorContext::for_tests_with(0, 1, host.clone());
        let sink = Arc::new(Mutex::new(Announces(Numbers { world: world.clone() })));
        let operator = SinkWriterOperator::<u64, Announces>::new(sink);
        let mut link = Link::new(operator, Box::new(NoConsumer), SideOutputs::default(), context);
        link.open().unwrap();
        assert_eq!(link.event(event).unwrap(), Flow::Waiting);
        assert!(answer(&host, &mut link));
        assert_eq!(link.event(event).unwrap(), Flow::Done);
    }
}

/// A writer that sends its numbers away and waits for an answer.
#[derive(Clone, Default)]
struct Remote {
    world: Shown,
    waits: usize,
}

impl SinkWriter<u64> for Remote {
    fn write(&mut self, number: u64, context: &WriterContext<'_>) -> Result<(), BoxError> {
        let world = self.world.clone();
        self.waits += 1;
        let times = (context.timestamp(), context.current_watermark());
        let work = async move {
            lock(&world).log.push(format!("{number} at {times:?}"));
            Ok(Vec::new())
        };
        context.spawn_io(Box::pin(work), 7);
        Ok(())
    }
    fn mail(&mut self, _: OperatorMail, _: &OperatorContext) -> Result<(), BoxError> {
        self.waits -= 1;
        Ok(())
    }
    fn is_full(&self) -> bool {
        self.waits == 2
    }
    fn is_flushing(&self) -> bool {
        self.waits > 0
    }
}

#[test]
fn a_barrier_waits_for_writes_under_way_and_so_do_records_behind_too_many() {
    let world = Shown::default();
    let host = Arc::new(Reads::default());
    let context = OperatorContext::for_tests_with(0, 1, host.clone());
    let sink = Arc::new(Mutex::new(Remote { world: world.clone(), waits: 0 }));
    let operator = SinkWriterOperator::<u64, Remote>::new(sink);
    let mut link = Link::new(operator, Box::new(NoConsumer), SideOutputs::default(), context);
    link.open().unwrap();
    link.event(StreamEvent::Watermark(5)).unwrap();
    let mut batch = crate::batch::Batch::default();
    (1..=3).for_each(|number| batch.push(number, 8));
    assert!(!link.batch(&mut batch).unwrap());
    assert!(link.full() && link.is_interrupted());
    assert!(answer(&host, &mut link));
    link.resume().unwrap();
    assert!(!link.is_interrupted());
    assert_eq!(link.event(barrier(1)).unwrap(), Flow::Waiting);
    for _ in 0..2 {
        assert!(answer(&host, &mut link));
    }
    assert_eq!(link.event(barrier(1)).unwrap(), Flow::Done);
    let at = "at (Some(8), Some(5))";
    assert_eq!(log(&world), [format!("1 {at}"), format!("2 {at}"), format!("3 {at}")]);
}

#[test]
fn the_graph_shows_which_nodes_commit() {
    let built = built(1, |env| {
        let sink = env.sequence(0..9).sink_to(Globally::<true>(Numbers::default()));
        sink.uid("out").name("output").set_parallelism(3);
        env.sequence(0..9).sink_to(Numbers::default()).set_parallelism(2);
        env.sequence(0..9).sink_to(Remote::default());
    });
    let graph = built.graph();
    let nodes: Vec<(&str, bool)> =
        graph.nodes.iter().map(|node| (node.name.as_str(), node.commits)).collect();
    let expected = [
        ("sequence", false),
        ("output", false),
        ("output: global committer", true),
        ("sequence", false),
        ("sink", false),
        ("sink committer", true),
        ("sequence", false),
        ("sink", false),
    ];
    assert_eq!(nodes, expected);
    assert_eq!(graph.nodes[2].uid.as_deref(), Some("out: global committer"));
    assert_eq!(graph.nodes[2].states[0].name, "committables");
    let chains: Vec<(&str, u32)> =
        graph.vertices.iter().map(|vertex| (vertex.name.as_str(), vertex.parallelism)).collect();
    assert!(chains.contains(&("output", 3)) && chains.contains(&("output: global committer", 1)));
    assert!(chains.contains(&("sink -> sink committer", 2)), "{chains:?}");
}

#[test]
fn restored_state_of_a_sink_that_cannot_be_decoded_is_no_error_of_user_code_and_names_the_checkpoint()
 {
    let sink = Arc::new(Mutex::new(Numbers::default()));
    let damaged = || [vec![9, 9, 9]];
    let operator = committer::<u64, Numbers>(sink);
    let error = testing::operator(operator).restore(damaged()).open().map(drop).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, TaskError::Restore { .. }) && error.is_recoverable(), "{text}");
    for part in ["operator 'test'", "checkpoint or savepoint", "restored from"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("received"), "{text}");
}
