//! The subtask around a chain: what the thread that steps it calls. It decides when outputs are flushed, and turns
//! panics into failures.

use super::{Head, PassedBarrier};
use crate::{
    memory::allocator,
    operators::{ChainShared, OperatorMail, split_ticket, ticket_of},
    seam::{Mail, Progress, Subtask, TaskCounters, TaskError, TaskSnapshot},
    state::Slice,
    task::panics::catch,
};
use model::NodeId;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The options for the maximum time that a record waits for its batch to fill; the first one that is set counts. Names
/// and default are Flink's.
const BUFFER_TIMEOUT: [&str; 2] = ["execution.buffer-timeout.interval", "execution.buffer-timeout"];
const BUFFER_TIMEOUT_DEFAULT: Duration = Duration::from_millis(100);
/// The minimum time in milliseconds between two flushes of a task that runs out of input. Under load a task runs out of
/// input all the time, and flushing each time would only make its batches small.
const LINGER_MS: u64 = 5;
/// The node number in tickets of the runner itself; no operator has it.
const RUNNER: NodeId = NodeId(u32::MAX);
/// The number in tickets of the timer that wakes the task to send its output, of the one that looks whether chunks of a snapshot
/// are stored, of the request to step again, and of the timer that ends a step because of the buffer timeout.
const FLUSH: u32 = 0;
const STORED: u32 = 1;
const AGAIN: u32 = 2;
const TIMEOUT: u32 = 3;
/// The bytes of its snapshots that a task writes in each step, however much input is due: about 0.1 ms.
const LEAST_BYTES: usize = 128 << 10;
/// The bytes that it writes at once while no input is due, so that it looks at its timers and wakes others in time.
const MOST_BYTES: usize = 1 << 20;
/// The unit of the clock by which the buffer timeout is measured.
const TICK: Duration = Duration::from_millis(1);
/// The pause after which a task looks again whether chunks of its snapshots are stored.
const STORED_AFTER: Duration = Duration::from_millis(1);

impl ChainShared {
    /// Returns the job's buffer timeout. A part of a millisecond does not count.
    fn buffer_timeout_ms(&self) -> Result<u64, TaskError> {
        let timeout = self.duration_option(&BUFFER_TIMEOUT, BUFFER_TIMEOUT_DEFAULT)?;
        Ok(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the minimum time in milliseconds between two flushes of a task that runs out of input. A source that emits less than a
    /// batch in that time need not be woken in between.
    pub(crate) fn linger_ms(&self) -> Result<u64, TaskError> {
        Ok(self.buffer_timeout_ms()?.min(LINGER_MS))
    }
}

/// The subtask of a chain: the [`Subtask`] that steps the chain's head, sends partly filled batches after the buffer timeout
/// (`execution.buffer-timeout`, 100 ms by default; 0: after each record of a source and each batch of an input) and when input runs out, at
/// most every 5 ms (or buffer timeout, if that is shorter), and acknowledges checkpoints. A panic of user code is returned as
/// [`TaskError::Panicked`]. After any error, and after [`Mail::Cancel`], no user code runs but that of `dispose`: a step does nothing and
/// returns [`Progress::Finished`], and mail is dropped.
pub struct ChainTask {
    head: Box<dyn Head>,
    shared: Arc<ChainShared>,
    name: String,
    /// The buffer timeout, and the shorter time for which a task that runs out of input keeps its output; both are set when the
    /// task is opened.
    buffer_timeout_ms: u64,
    linger_ms: u64,
    flushed_ms: u64,
    /// The number of output records and the newest watermark when everything was last sent.
    flushed: (u64, u64),
    /// True while a timer is set that wakes the task to send its output.
    timer: bool,
    /// True while a timer is set that ends a step when the buffer timeout is over.
    timeout: bool,
    /// True if the last step has returned [`Progress::Busy`].
    busy: bool,
    /// Barriers that have passed and whose snapshots are not complete.
    passed: VecDeque<PassedBarrier>,
    /// The number of input and output records when a slice of a snapshot was last written.
    worked: u64,
    /// The time that the barriers of the last step have taken, and the time without records until the last slice of a snapshot ended, zero
    /// if no input was due then.
    at_barrier: Duration,
    pause: Duration,
    /// True while a timer is set after which the task looks whether chunks are stored.
    stored_timer: bool,
    /// The number of the newest barrier that has passed, if the task ends with its checkpoint.
    last_barrier: Option<u64>,
    /// True once the checkpoint that the task ends with is complete.
    final_complete: bool,
    /// True once the task was cancelled, has failed, or was closed or disposed of: no user code runs any more.
    over: bool,
}

impl ChainTask {
    /// Creates the subtask of a chain, which is not opened yet. `name` names the chain in the error of a panic.
    pub fn new(head: Box<dyn Head>, shared: Arc<ChainShared>, name: String) -> Self {
        Self {
            head,
            shared,
            name,
            buffer_timeout_ms: 0,
            linger_ms: 0,
            flushed_ms: 0,
            flushed: (0, 0),
            timer: false,
            timeout: false,
            busy: false,
            passed: VecDeque::new(),
            worked: 0,
            at_barrier: Duration::ZERO,
            pause: Duration::ZERO,
            stored_timer: false,
            last_barrier: None,
            final_complete: false,
            over: false,
        }
    }

    /// Sets the times that follow from the job's options.
    fn read_options(&mut self) -> Result<(), TaskError> {
        self.buffer_timeout_ms = self.shared.buffer_timeout_ms()?;
        self.linger_ms = self.shared.linger_ms()?;
        self.shared.interrupt.set_longest_step(self.buffer_timeout_ms);
        Ok(())
    }

    /// Runs user code. A panic becomes [`TaskError::Panicked`]; after any error the task is over.
    fn guard<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        let result = catch(|| run(self)).unwrap_or_else(|message| {
            Err(TaskError::Panicked { chain: self.name.clone(), message })
        });
        if result.is_err() {
            self.over = true;
        }
        result
    }

    fn advance(&mut self, budget: usize) -> Result<Progress, TaskError> {
        if !self.head.flush(false)? {
            return Ok(Progress::Blocked);
        }
        self.shared.interrupt.set_hurries(self.head.is_interrupted());
        self.head.resume()?;
        let mut progress = match self.head.is_interrupted() {
            true => Progress::Blocked,
            false => {
                self.shared.interrupt.set_hurries(false);
                self.head.step(budget)?
            }
        };
        if self.head.is_interrupted() && !self.head.full() {
            // Whatever the step returned: records are left for which nobody would wake the task.
            progress = Progress::Busy;
        }
        let passed = self.head.passed_barriers();
        self.at_barrier = passed.iter().map(|passed| passed.pause).sum();
        // The barrier of a stop: nothing is read and no timer fires after it.
        if passed.iter().any(|passed| passed.barrier.last && !passed.ended) {
            self.shared.stopped.store(true, Ordering::Relaxed);
        }
        self.passed.extend(passed);
        self.acknowledge();
        match progress {
            // Not before the snapshot is complete, which makes another step due.
            Progress::Finished if self.head.writes().is_some() => Ok(Progress::Starved),
            Progress::Finished => self.end(),
            Progress::Busy => {
                self.send_in_time()?;
                Ok(Progress::Busy)
            }
            Progress::Starved => self.send_before_parking(),
            Progress::Blocked => {
                if !self.head.flush(true)? {
                    return Ok(Progress::Blocked);
                }
                // If the flush has just made room, no later event would wake the task.
                Ok(if self.head.full() { Progress::Blocked } else { Progress::Busy })
            }
        }
    }

    /// Acknowledges the checkpoints whose barrier has passed and whose snapshots are complete; those that were aborted meanwhile are
    /// given up.
    fn acknowledge(&mut self) {
        while let Some(PassedBarrier { barrier, ended, pause }) = self.passed.front().copied()
            && self.head.writes().is_none_or(|writes| writes > barrier.checkpoint)
        {
            self.passed.pop_front();
            if self.shared.is_aborted(barrier.checkpoint) {
                self.give_up(barrier.checkpoint);
                continue;
            }
            let operators = self.shared.take_snapshots(barrier.checkpoint);
            self.last_barrier = barrier.last.then_some(barrier.checkpoint);
            let bases = self.shared.take_bases(barrier.checkpoint);
            let snapshot = TaskSnapshot { ended, operators, bases, pause };
            self.shared.upcalls.acknowledge(barrier.checkpoint, snapshot);
        }
    }

    /// Drops the snapshots of an aborted checkpoint, which is not acknowledged.
    fn give_up(&self, checkpoint: u64) {
        let dropped = self.shared.take_snapshots(checkpoint);
        let bytes = dropped.iter().flat_map(|(_, chunks)| chunks).map(|chunk| chunk.len() as u64);
        // They were handed over, and are freed by this thread.
        allocator::take_over(bytes.sum());
        self.shared.upcalls.give_up(checkpoint);
    }

    /// Drops what is still being written for an aborted checkpoint. If its barrier comes later, nothing is written for it. Where an
    /// operator has to write its snapshot to the end, the checkpoint is given up then.
    fn abort(&mut self, checkpoint: u64) {
        self.shared.abort(checkpoint);
        if self.head.writes().is_none_or(|writes| writes > checkpoint) {
            return;
        }
        self.head.abort_snapshots(checkpoint);
        if self.head.writes().is_some_and(|writes| writes <= checkpoint) {
            return;
        }
        self.passed.retain(|passed| passed.barrier.checkpoint != checkpoint);
        self.give_up(checkpoint);
        // An event, or the task's end, may have waited for the end of the snapshot.
        self.shared.upcalls.step_again(ticket_of(RUNNER, AGAIN));
    }

    /// Writes a slice of the snapshots that are being written, after a step with that result. Returns when the next step is due.
    fn write_snapshots(&mut self, progress: Progress) -> Result<Progress, TaskError> {
        if self.head.writes().is_none() {
            return Ok(progress);
        }
        let counters = &self.shared.counters;
        let count = |records: &AtomicU64| records.load(Ordering::Relaxed);
        let worked = count(&counters.records_in).wrapping_add(count(&counters.records_out));
        let worked = std::mem::replace(&mut self.worked, worked) != worked;
        let shared = Arc::clone(&self.shared);
        // After a step with records the task first wakes the receivers of its output, which the host does between two steps.
        let busy = progress == Progress::Busy || worked;
        let stop = || busy || shared.interrupt.is_raised() || shared.upcalls.is_woken();
        let mut slice = Slice::new(LEAST_BYTES, MOST_BYTES, &stop);
        let began = Instant::now();
        self.head.write_snapshots(&mut slice)?;
        // Without input that waits, the slice has delayed none.
        let since = if worked { Duration::ZERO } else { self.pause };
        self.pause =
            if stop() { since + self.at_barrier + began.elapsed() } else { Duration::ZERO };
        for passed in &mut self.passed {
            passed.pause = passed.pause.max(self.pause);
        }
        self.acknowledge();
        if self.head.writes().is_none() {
            // The time until the next snapshot is no pause.
            self.pause = Duration::ZERO;
        }
        let again = match (self.head.writes(), slice.waits()) {
            // An event, or the task's end, may have waited for the end of the snapshot.
            (None, _) | (Some(_), false) => true,
            (Some(_), true) => {
                if !std::mem::replace(&mut self.stored_timer, true) {
                    shared.upcalls.wake_at(STORED_AFTER, ticket_of(RUNNER, STORED));
                }
                false
            }
        };
        if again && progress != Progress::Busy {
            shared.upcalls.step_again(ticket_of(RUNNER, AGAIN));
        }
        Ok(progress)
    }

    /// Sends the records that wait for their batches to fill once the buffer timeout is over, or half of it if the timer has just come: the
    /// next one is then set so early that the host sees it before it is due. The timer ends the step of slow records that runs then.
    fn send_in_time(&mut self) -> Result<(), TaskError> {
        let now = self.shared.upcalls.now_unix_ms();
        let timeout = self.buffer_timeout_ms;
        // A clock that jumps back flushes too, because the difference wraps to a large number.
        let mut since = now.wrapping_sub(self.flushed_ms);
        if since >= if self.timeout { timeout } else { timeout.div_ceil(2) } {
            since = 0;
            self.flushed_ms = now;
            self.head.flush(true)?;
        }
        if timeout > 0 && !std::mem::replace(&mut self.timeout, true) {
            // A millisecond later, because `now` was rounded down.
            let wait = Duration::from_millis(timeout.saturating_sub(since)).saturating_add(TICK);
            self.shared.upcalls.wake_at(wait, ticket_of(RUNNER, TIMEOUT));
        }
        Ok(())
    }

    /// Sends the records that wait for their batches to fill, before the task parks; within 5 ms of the last flush it
    /// sets a timer instead.
    fn send_before_parking(&mut self) -> Result<Progress, TaskError> {
        let counters = &self.shared.counters;
        let count = |records: &AtomicU64| records.load(Ordering::Relaxed);
        // Input counts too: operators bring their metrics up to date when everything is flushed, also before a sink.
        let records = count(&counters.records_out).wrapping_add(count(&counters.records_in));
        let made = (records, count(&counters.watermark_ms));
        if made == self.flushed {
            return Ok(Progress::Starved);
        }
        let now = self.shared.upcalls.now_unix_ms();
        let since = now.wrapping_sub(self.flushed_ms);
        if since < self.linger_ms {
            if !self.timer {
                self.timer = true;
                let wait = Duration::from_millis(self.linger_ms - since);
                self.shared.upcalls.wake_at(wait, ticket_of(RUNNER, FLUSH));
            }
            return Ok(Progress::Starved);
        }
        self.flushed_ms = now;
        if !self.head.flush(true)? {
            return Ok(Progress::Blocked);
        }
        self.flushed = made;
        // If records are left and the full output has room now, nothing would wake the task.
        let has_work = self.head.is_interrupted() && !self.head.full();
        Ok(if has_work { Progress::Busy } else { Progress::Starved })
    }

    /// Sends what is left at the end of the data. The task then finishes, or waits for the barrier of the final checkpoint, for the
    /// notification that this is complete, and for its sinks to commit.
    fn end(&mut self) -> Result<Progress, TaskError> {
        if !self.head.flush(true)? {
            return Ok(Progress::Blocked);
        }
        if self.head.is_interrupted() {
            // Side outputs that were interrupted still have records, with the end of input behind them.
            return Ok(if self.head.full() { Progress::Blocked } else { Progress::Busy });
        }
        self.shared.counters.end_of_data.store(true, Ordering::Relaxed);
        let complete = self.final_complete && !self.head.is_committing();
        let waits = self.shared.ends_with_checkpoint && !complete;
        Ok(if waits { Progress::Starved } else { Progress::Finished })
    }
}

impl Subtask for ChainTask {
    fn open(&mut self) -> Result<(), TaskError> {
        self.guard(|task| {
            task.read_options()?;
            task.head.open()
        })
    }

    fn step(&mut self, budget: usize) -> Result<Progress, TaskError> {
        if self.over {
            return Ok(Progress::Finished);
        }
        // Without a buffer timeout each record of a source, and what comes of each batch of an input, is sent before the next one.
        let budget = if self.buffer_timeout_ms == 0 { budget.min(1) } else { budget };
        self.guard(|task| {
            let progress = task.advance(budget)?;
            task.busy = progress == Progress::Busy;
            task.write_snapshots(progress)
        })
    }

    fn deliver(&mut self, mail: Mail) -> Result<(), TaskError> {
        if self.over {
            return Ok(());
        }
        // A full output, or one that was interrupted, may keep a barrier that has gone out by another output: a call that waited could
        // wait for a consumer which waits for that barrier.
        self.shared.interrupt.set_hurries(self.head.is_interrupted() || self.head.full());
        self.guard(|task| match mail {
            Mail::Reply { ticket, result } => {
                let (node, ticket) = split_ticket(ticket);
                task.head.deliver(node, OperatorMail::Reply { ticket, result })
            }
            Mail::Timer { ticket } => {
                let (node, ticket) = split_ticket(ticket);
                if node == RUNNER {
                    match ticket {
                        FLUSH => task.timer = false,
                        STORED => task.stored_timer = false,
                        TIMEOUT => {
                            task.timeout = false;
                            if task.busy {
                                return task.send_in_time();
                            }
                        }
                        _ => {}
                    }
                    return Ok(());
                }
                task.head.deliver(node, OperatorMail::Timer { ticket })
            }
            Mail::Drain => {
                task.head.drain();
                Ok(())
            }
            Mail::Trigger(barrier) => task.head.trigger(barrier),
            Mail::NotifyComplete(checkpoint) => {
                task.final_complete |= task.last_barrier == Some(checkpoint);
                task.head.notify_complete(checkpoint)
            }
            Mail::NotifyAborted(checkpoint) => {
                task.abort(checkpoint);
                Ok(())
            }
            Mail::Cancel => {
                task.over = true;
                task.shared.cancelled.store(true, Ordering::Relaxed);
                Ok(())
            }
        })
    }

    fn close(&mut self) -> Result<(), TaskError> {
        if self.over {
            return Ok(());
        }
        let closed = self.guard(|task| task.head.close());
        self.over = true;
        closed
    }

    fn dispose(&mut self) {
        // The attempt has ended already, so a failure while cleaning up is dropped.
        let _ = self.guard(|task| {
            task.head.dispose();
            Ok(())
        });
        self.over = true;
    }

    fn counters(&self) -> Arc<TaskCounters> {
        self.shared.counters.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        operators::OperatorContext,
        seam::{Barrier, TaskUpcalls},
    };
    use futures::{FutureExt as _, future::BoxFuture};
    use model::OperatorId;
    use std::sync::Mutex;

    /// The answers of a chain in a test, and how often everything was flushed.
    #[derive(Default)]
    struct Answers {
        sent: Vec<bool>,
        flushes: u32,
        interrupted: bool,
        /// The chain has ended after its next step, its output is full, and this many records are left in a side output.
        left: Option<u32>,
        full: bool,
        /// The number of records of which the last step was told to take so many.
        budget: usize,
        /// The results of steps, the last one first; [`Progress::Starved`] after the last one.
        steps: Vec<Progress>,
        passed: Vec<PassedBarrier>,
        /// The slices that are left to be written of the snapshot for checkpoint 1, and the bytes that each slice has let pass.
        slices: u32,
        slice_lasts: Duration,
        written: Vec<usize>,
        /// The checkpoints that were acknowledged, and the requests to step again.
        acknowledged: Vec<u64>,
        pauses: Vec<Duration>,
        again: u32,
        /// The checkpoints that were given up, and whether the chain can drop its snapshots.
        given_up: Vec<u64>,
        stubborn: bool,
    }

    /// Size in bytes of an entry in the snapshot of a chain in a test.
    const ENTRY: usize = 1 << 10;

    struct Recording(Arc<Mutex<Answers>>);

    impl TaskUpcalls for Recording {
        fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {}
        fn spawn_io(&self, _: BoxFuture<'static, Result<Vec<u8>, String>>, _: u64) {}
        fn now_unix_ms(&self) -> u64 {
            0
        }
        fn wake_at(&self, _: Duration, _: u64) {}
        fn step_again(&self, _: u64) {
            self.0.lock().unwrap().again += 1;
        }
        fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot) {
            let mut answers = self.0.lock().unwrap();
            answers.acknowledged.push(checkpoint);
            answers.pauses.push(snapshot.pause);
        }
        fn give_up(&self, checkpoint: u64) {
            self.0.lock().unwrap().given_up.push(checkpoint);
        }
    }

    /// A source without input.
    struct Waiting(Arc<Mutex<Answers>>);

    impl Head for Waiting {
        fn open(&mut self) -> Result<(), TaskError> {
            Ok(())
        }
        fn step(&mut self, budget: usize) -> Result<Progress, TaskError> {
            let mut answers = self.0.lock().unwrap();
            answers.budget = budget;
            if let Some(progress) = answers.steps.pop() {
                return Ok(progress);
            }
            answers.interrupted |= answers.left.is_some_and(|left| left > 0);
            Ok(if answers.left.is_some() { Progress::Finished } else { Progress::Starved })
        }
        fn trigger(&mut self, _barrier: Barrier) -> Result<(), TaskError> {
            Ok(())
        }
        fn deliver(&mut self, _to: NodeId, _mail: OperatorMail) -> Result<(), TaskError> {
            Ok(())
        }
        fn notify_complete(&mut self, _checkpoint: u64) -> Result<(), TaskError> {
            Ok(())
        }
        fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
            let mut answers = self.0.lock().unwrap();
            if !partial {
                return Ok(true);
            }
            answers.flushes += 1;
            Ok(answers.sent.pop().unwrap_or(true))
        }
        fn full(&self) -> bool {
            self.0.lock().unwrap().full
        }
        fn resume(&mut self) -> Result<(), TaskError> {
            let mut answers = self.0.lock().unwrap();
            if let (true, Some(left)) = (answers.interrupted, answers.left) {
                answers.left = Some(left - 1);
                answers.interrupted = left > 1;
            }
            Ok(())
        }
        fn writes(&self) -> Option<u64> {
            (self.0.lock().unwrap().slices > 0).then_some(1)
        }
        fn write_snapshots(&mut self, slice: &mut Slice<'_>) -> Result<(), TaskError> {
            let entries = std::iter::repeat_with(|| slice.goes_on(ENTRY)).take_while(|on| *on);
            let written = (entries.count() + 1) * ENTRY;
            let mut answers = self.0.lock().unwrap();
            answers.written.push(written);
            answers.slices -= 1;
            // Only tests with a paused clock say how long a slice lasts.
            if !answers.slice_lasts.is_zero() {
                let _ = tokio::time::advance(answers.slice_lasts).now_or_never();
            }
            Ok(())
        }
        fn abort_snapshots(&mut self, checkpoint: u64) {
            let mut answers = self.0.lock().unwrap();
            if checkpoint == 1 && !answers.stubborn {
                answers.slices = 0;
            }
        }
        fn is_interrupted(&self) -> bool {
            if self.0.lock().unwrap().left.is_some() {
                return self.0.lock().unwrap().interrupted;
            }
            // From the moment at which everything was sent.
            let answers = self.0.lock().unwrap();
            answers.interrupted && answers.flushes > 0
        }
        fn passed_barriers(&mut self) -> Vec<PassedBarrier> {
            std::mem::take(&mut self.0.lock().unwrap().passed)
        }
        fn is_committing(&self) -> bool {
            false
        }
        fn close(&mut self) -> Result<(), TaskError> {
            Ok(())
        }
        fn dispose(&mut self) {}
    }

    #[test]
    fn the_buffer_timeout_takes_each_unit_and_fails_the_task_if_it_is_no_duration() {
        let opened = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(key, text)| ((*key).into(), (*text).into()));
            let nobody = OperatorContext::for_tests(0, 1).shared().upcalls.clone();
            let context = crate::testing::context(
                (0, 1),
                options.collect(),
                crate::Interrupt::default(),
                nobody,
            );
            let head = Box::new(Waiting(Arc::default()));
            let mut task = ChainTask::new(head, context.shared().clone(), "test".into());
            task.open().map(|()| (task.buffer_timeout_ms, task.linger_ms))
        };
        let [first, second] = BUFFER_TIMEOUT;
        assert_eq!(opened(&[]).unwrap(), (100, 5));
        assert_eq!(opened(&[(second, "1 sec")]).unwrap(), (1_000, 5));
        assert_eq!(opened(&[(second, "1 sec"), (first, "900 us")]).unwrap(), (0, 0));
        let error = opened(&[(second, "1 parsec")]).unwrap_err().to_string();
        assert!(error.contains("'execution.buffer-timeout': '1 parsec'"), "{error}");
    }

    fn task(answers: Answers) -> (ChainTask, Arc<Mutex<Answers>>) {
        let answers = Arc::new(Mutex::new(answers));
        let upcalls = Arc::new(Recording(answers.clone()));
        let shared = OperatorContext::for_tests_with(0, 1, upcalls).shared().clone();
        let task = ChainTask::new(Box::new(Waiting(answers.clone())), shared, "test".into());
        AtomicU64::fetch_add(&task.shared.counters.records_out, 1, Ordering::Relaxed);
        (task, answers)
    }

    #[test]
    fn without_a_buffer_timeout_a_step_takes_one_record_and_with_a_short_one_it_is_looked_at_soon()
    {
        for (timeout, budget, look_ms) in [
            ("0 ms", 1, 1),
            ("1 ms", 4_096, 1),
            ("20 ms", 4_096, 10),
            ("100 ms", 4_096, 50),
            ("1 s", 4_096, 50),
        ] {
            let answers = Arc::new(Mutex::new(Answers::default()));
            let interrupt = crate::Interrupt::default();
            let context = crate::testing::context(
                (0, 1),
                [(BUFFER_TIMEOUT[1].into(), timeout.into())].into_iter().collect(),
                interrupt.clone(),
                Arc::new(Recording(answers.clone())),
            );
            let head = Box::new(Waiting(answers.clone()));
            let mut task = ChainTask::new(head, context.shared().clone(), "test".into());
            task.open().unwrap();
            answers.lock().unwrap().steps = vec![Progress::Busy; 2];
            for _ in 0..2 {
                task.step(4_096).unwrap();
            }
            assert_eq!(answers.lock().unwrap().budget, budget, "{timeout}");
            assert_eq!(answers.lock().unwrap().flushes == 2, timeout == "0 ms", "{timeout}");
            assert_eq!(interrupt.look_every(), Duration::from_millis(look_ms), "{timeout}");
        }
    }

    #[test]
    fn what_was_not_sent_because_a_channel_was_full_is_sent_when_it_has_room() {
        let (mut task, answers) = task(Answers { sent: vec![false], ..Answers::default() });
        assert_eq!(task.step(1).unwrap(), Progress::Blocked);
        assert_eq!(task.step(1).unwrap(), Progress::Starved);
        assert_eq!(answers.lock().unwrap().flushes, 2);
        assert_eq!(task.step(1).unwrap(), Progress::Starved);
        assert_eq!(answers.lock().unwrap().flushes, 2, "nothing was made since");
    }

    #[test]
    fn records_that_are_left_in_a_side_output_are_sent_after_the_end_of_input() {
        let (mut task, answers) = task(Answers { left: Some(2), full: true, ..Answers::default() });
        assert_eq!(
            task.step(1).unwrap(),
            Progress::Blocked,
            "the end has passed, the output is full"
        );
        answers.lock().unwrap().full = false;
        assert_eq!(task.step(1).unwrap(), Progress::Busy, "nobody would wake it");
        assert_eq!(task.step(1).unwrap(), Progress::Finished);
        assert_eq!(answers.lock().unwrap().left, Some(0));
    }

    #[test]
    fn a_source_that_waits_goes_on_with_records_that_found_the_output_full() {
        let (mut task, _) = task(Answers { interrupted: true, ..Answers::default() });
        assert_eq!(task.step(1).unwrap(), Progress::Busy, "nobody would wake it");
    }

    #[test]
    fn a_checkpoint_is_acknowledged_when_its_snapshots_are_complete_and_the_task_ends_then() {
        let passed = |checkpoint| PassedBarrier {
            barrier: Barrier { checkpoint, ..Barrier::default() },
            ended: false,
            pause: Duration::ZERO,
        };
        let (mut task, answers) = task(Answers {
            passed: vec![passed(1)],
            slices: 3,
            steps: vec![Progress::Finished, Progress::Finished, Progress::Busy, Progress::Starved],
            ..Answers::default()
        });
        assert_eq!(task.step(1).unwrap(), Progress::Starved);
        assert_eq!(task.step(1).unwrap(), Progress::Busy);
        assert!(answers.lock().unwrap().acknowledged.is_empty());
        assert_eq!(answers.lock().unwrap().again, 1, "a busy task is stepped anyway");
        // The end of the data waits for the last slice.
        assert_eq!(task.step(1).unwrap(), Progress::Starved);
        assert_eq!(answers.lock().unwrap().acknowledged, [1]);
        assert_eq!(answers.lock().unwrap().again, 2, "nothing else would let the task end");
        assert_eq!(task.step(1).unwrap(), Progress::Finished);
        answers.lock().unwrap().passed = vec![passed(2)];
        assert_eq!(task.step(1).unwrap(), Progress::Starved);
        assert_eq!(answers.lock().unwrap().acknowledged, [1, 2], "nothing is being written");
    }

    #[test]
    fn a_snapshot_gets_its_share_of_each_step_however_much_input_and_mail_is_due() {
        let busy = vec![Progress::Busy; 20];
        let (mut task, answers) = task(Answers { slices: 20, steps: busy, ..Answers::default() });
        for _ in 0..20 {
            task.shared.interrupt.raise();
            assert_eq!(task.step(1).unwrap(), Progress::Busy);
        }
        assert_eq!(answers.lock().unwrap().written, [LEAST_BYTES; 20], "no less, and no more");
        answers.lock().unwrap().slices = 1;
        task.shared.interrupt.clear();
        task.step(1).unwrap();
        assert_eq!(answers.lock().unwrap().written.last(), Some(&MOST_BYTES), "nothing is due");
    }

    /// Returns the pause of a checkpoint whose barrier takes 2 ms, and whose four slices take 3 ms each. `steps` are the results of the
    /// steps before the slices. `records` says before which of the slices records are handled.
    fn pause(steps: [Progress; 4], records: [bool; 4]) -> Duration {
        let barrier = Barrier { checkpoint: 1, ..Barrier::default() };
        let pause = Duration::from_millis(2);
        let (mut task, answers) = task(Answers {
            passed: vec![PassedBarrier { barrier, ended: false, pause }],
            slices: 4,
            slice_lasts: Duration::from_millis(3),
            steps: steps.into_iter().rev().collect(),
            ..Answers::default()
        });
        for handles in records {
            let counters = &task.shared.counters;
            counters.records_in.fetch_add(u64::from(handles), Ordering::Relaxed);
            task.step(1).unwrap();
        }
        let answers = answers.lock().unwrap();
        assert_eq!(answers.acknowledged, [1]);
        answers.pauses[0]
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_of_a_checkpoint_is_the_longest_time_without_records_while_input_waits() {
        use Progress::{Busy, Starved};
        let ms = Duration::from_millis;
        let (all, none) = ([true; 4], [true, false, false, false]);
        assert_eq!(pause([Busy; 4], all), ms(5), "the barrier and the slice behind it");
        assert_eq!(pause([Busy; 4], none), ms(14), "no record comes between the slices");
        let first = [true, true, true, false];
        assert_eq!(pause([Busy; 4], first), ms(6), "two slices are longer than the barrier's");
        assert_eq!(pause([Busy, Starved, Starved, Starved], none), ms(5), "nothing waits");
        assert_eq!(pause([Busy, Starved, Busy, Busy], none), ms(6), "input is there again");
    }

    #[test]
    fn a_checkpoint_whose_barrier_comes_after_its_abort_is_given_up() {
        let passed = |checkpoint| PassedBarrier {
            barrier: Barrier { checkpoint, ..Barrier::default() },
            ended: false,
            pause: Duration::ZERO,
        };
        let (mut task, answers) = task(Answers::default());
        task.deliver(Mail::NotifyAborted(2)).unwrap();
        for checkpoint in [2, 3] {
            task.shared.add_snapshot(checkpoint, OperatorId(1), vec![vec![7].into()]);
            answers.lock().unwrap().passed = vec![passed(checkpoint)];
            task.step(1).unwrap();
        }
        let answers = answers.lock().unwrap();
        assert_eq!((&answers.acknowledged[..], &answers.given_up[..]), (&[3][..], &[2][..]));
        assert!(task.shared.snapshots.lock().unwrap().is_empty());
    }

    #[test]
    fn an_aborted_checkpoint_is_written_no_further_and_not_acknowledged() {
        let passed = |checkpoint| PassedBarrier {
            barrier: Barrier { checkpoint, ..Barrier::default() },
            ended: false,
            pause: Duration::ZERO,
        };
        for stubborn in [false, true] {
            let (mut task, answers) = task(Answers {
                passed: vec![passed(1)],
                slices: 9,
                steps: vec![Progress::Busy],
                stubborn,
                ..Answers::default()
            });
            task.step(1).unwrap();
            assert_eq!(answers.lock().unwrap().slices, 8);
            task.deliver(Mail::NotifyAborted(0)).unwrap();
            assert_eq!(answers.lock().unwrap().slices, 8, "another one is being written");
            task.deliver(Mail::NotifyAborted(1)).unwrap();
            let left = if stubborn { 8 } else { 0 };
            assert_eq!(answers.lock().unwrap().slices, left);
            for _ in 0..left {
                task.step(1).unwrap();
            }
            answers.lock().unwrap().passed = vec![passed(2)];
            task.step(1).unwrap();
            let answers = answers.lock().unwrap();
            assert_eq!((&answers.acknowledged[..], &answers.given_up[..]), (&[2][..], &[1][..]));
        }
    }
}
