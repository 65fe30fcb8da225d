//! The buffer timeout of a task whose steps are long, on a clock that only the test moves.

use super::*;
use crate::{
    chain::{ChainTask, Head, PassedBarrier},
    operators::{ChainShared, OperatorMail},
    seam::{Barrier, RunningTask, TaskUpcalls},
    state::Slice,
};
use model::NodeId;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

/// The default of `execution.buffer-timeout`, in microseconds.
const TIMEOUT_US: u64 = 100_000;
/// By how much the host and a clock of milliseconds may be late, in microseconds.
const LATE_US: u64 = 6_000;
/// Maximum number of records in a step.
const STEP: usize = 64;

/// An event that comes to the task.
#[derive(Debug, Clone, Copy)]
enum Input {
    /// A record that takes so many microseconds.
    Record(u64),
    /// A record that takes so many microseconds and that a filter drops: only the watermark after it goes on.
    Dropped(u64),
    /// A pause of so many microseconds in which nothing comes.
    Pause(u64),
}

/// The clock of the test, in microseconds, and what goes by it.
#[derive(Debug, Default)]
struct World {
    now: u64,
    timers: BTreeSet<(u64, u64)>,
    /// The moment of the host's next look at the task.
    look: u64,
    /// The moment since which output waits to be sent.
    unsent: Option<u64>,
    /// The longest time that output has waited.
    longest: u64,
    input: VecDeque<Input>,
}

/// The world as the task's operators, its head and its interrupt flag see it.
#[derive(Clone, derive_more::Debug)]
#[debug("Seen")]
struct Seen {
    world: Arc<Mutex<World>>,
    control: Arc<TaskControl>,
}

impl Seen {
    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Moves the clock to `until`; the host looks at the task on the way.
    fn advance(&self, until: u64) {
        loop {
            let look = self.world().look;
            if look > until {
                break;
            }
            self.world().now = look;
            let pause = self.control.end_long_step();
            self.world().look += pause.as_micros() as u64;
        }
        self.world().now = until;
    }

    fn take_timer(&self) -> Option<Mail> {
        let mut world = self.world();
        let (_, ticket) = world.timers.first().copied().filter(|(due, _)| *due <= world.now)?;
        world.timers.pop_first();
        Some(Mail::Timer { ticket })
    }
}

impl TaskUpcalls for Seen {
    fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {}
    fn spawn_io(&self, _: BoxFuture<'static, Result<Vec<u8>, String>>, _: u64) {}
    fn now_unix_ms(&self) -> u64 {
        self.world().now / 1_000
    }
    fn wake_at(&self, after: Duration, ticket: u64) {
        let mut world = self.world();
        let due = world.now + after.as_micros() as u64;
        world.timers.insert((due, ticket));
    }
    fn acknowledge(&self, _: u64, _: crate::TaskSnapshot) {}
}

impl RunningTask for Seen {
    fn wait(&self) -> bool {
        false
    }
    fn take_mail(&self, _: &dyn Fn(u64) -> bool) -> Option<Mail> {
        None
    }
    fn until_timer(&self) -> Option<Duration> {
        let world = self.world();
        let (due, _) = world.timers.first()?;
        Some(Duration::from_micros(due.saturating_sub(world.now)))
    }
    fn step_again(&self) {}
}

/// A head that reads the input of the world.
struct Reading(Seen, Arc<ChainShared>);

impl Head for Reading {
    fn open(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
    fn step(&mut self, _: usize) -> Result<Progress, TaskError> {
        for _ in 0..STEP {
            let next = self.0.world().input.front().copied();
            let (took, passes) = match next {
                None => return Ok(Progress::Finished),
                Some(Input::Pause(_)) => return Ok(Progress::Starved),
                Some(Input::Record(took)) => (took, true),
                Some(Input::Dropped(took)) => (took, false),
            };
            self.0.world().input.pop_front();
            let end = self.0.world().now + took;
            self.0.advance(end);
            self.0.world().unsent.get_or_insert(end);
            match passes {
                true => TaskCounters::add(&self.1.counters.records_out, 1),
                false => self.1.counters.watermark_ms.store(end, Ordering::Relaxed),
            }
            if self.1.interrupt.is_raised() {
                break;
            }
        }
        Ok(Progress::Busy)
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        let mut world = self.0.world();
        if partial && let Some(since) = world.unsent.take() {
            world.longest = world.longest.max(world.now - since);
        }
        Ok(true)
    }
    fn trigger(&mut self, _: Barrier) -> Result<(), TaskError> {
        Ok(())
    }
    fn deliver(&mut self, _: NodeId, _: OperatorMail) -> Result<(), TaskError> {
        Ok(())
    }
    fn notify_complete(&mut self, _: u64) -> Result<(), TaskError> {
        Ok(())
    }
    fn full(&self) -> bool {
        false
    }
    fn resume(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
    fn is_interrupted(&self) -> bool {
        false
    }
    fn writes(&self) -> Option<u64> {
        None
    }
    fn write_snapshots(&mut self, _: &mut Slice<'_>) -> Result<(), TaskError> {
        Ok(())
    }
    fn abort_snapshots(&mut self, _: u64) {}
    fn passed_barriers(&mut self) -> Vec<PassedBarrier> {
        Vec::new()
    }
    fn is_committing(&self) -> bool {
        false
    }
    fn close(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
    fn dispose(&mut self) {}
}

/// Runs a task with this input as its thread does; returns for how many microseconds output has waited at most.
fn longest_wait(input: Vec<Input>, first_look: u64) -> u64 {
    let control = rig().control;
    // The clock is not at 0, where the flush before the first step would be.
    let (now, look) = (1_000_000_000, 1_000_000_000 + first_look);
    let world = World { now, look, input: input.into(), ..World::default() };
    let seen = Seen { world: Arc::new(Mutex::new(world)), control };
    let interrupt = seen.control.signal().interruption();
    interrupt.bind(Box::new(seen.clone()));
    let upcalls = Arc::new(seen.clone());
    let context = crate::testing::context((0, 1), Default::default(), interrupt.clone(), upcalls);
    let shared = context.shared();
    let head = Box::new(Reading(seen.clone(), shared.clone()));
    let mut task = ChainTask::new(head, shared.clone(), "test".into());
    task.open().unwrap();
    loop {
        seen.control.begin_step();
        if let Some(timer) = seen.take_timer() {
            task.deliver(timer).unwrap();
        }
        match task.step(STEP).unwrap() {
            Progress::Busy => {}
            Progress::Finished => break,
            parked => {
                assert_eq!(parked, Progress::Starved);
                let mut world = seen.world();
                let Some(Input::Pause(rest)) = world.input.pop_front() else { continue };
                let (now, end) = (world.now, world.now + rest);
                let timer = world.timers.first().map_or(end, |(due, _)| (*due).max(now));
                if timer < end {
                    world.input.push_front(Input::Pause(end - timer));
                }
                drop(world);
                seen.advance(timer.min(end));
            }
        }
    }
    let world = seen.world();
    world.longest.max(world.unsent.map_or(0, |since| world.now - since))
}

fn input() -> impl Strategy<Value = Vec<Input>> {
    let records = |us: u64, many: usize| {
        (Just(us), 1..many).prop_map(|(us, many)| vec![Input::Record(us); many])
    };
    let part = prop_oneof![
        records(3, 5_000),
        records(300, 1_000),
        records(9_000, 60),
        records(45_000, 10),
        (1_usize..1_000).prop_map(|many| vec![Input::Dropped(300); many]),
        (1_u64..50_000).prop_map(|us| vec![Input::Dropped(us), Input::Pause(200_000)]),
        (1_000_u64..200_000).prop_map(|us| vec![Input::Pause(us)]),
        (1_000_u64..8_000).prop_map(|us| vec![Input::Pause(us), Input::Record(100)]),
    ];
    prop::collection::vec(part, 1..40).prop_map(|parts| parts.concat())
}

proptest! {
    /// Whatever the length of the records and the pauses between them, output waits for the buffer timeout and one record at most.
    #[test]
    fn output_waits_for_the_buffer_timeout_and_the_record_at_work(input in input(), look in 0_u64..50_000) {
        let slowest = input.iter().map(|input| match input {
            Input::Record(us) | Input::Dropped(us) => *us,
            Input::Pause(_) => 0,
        });
        let most = TIMEOUT_US + LATE_US + slowest.max().unwrap_or(0);
        let waited = longest_wait(input, look);
        prop_assert!(waited <= most, "{waited} us of {most}");
    }
}

#[test]
fn output_behind_slow_records_is_sent_after_the_buffer_timeout() {
    for look in [1_000, 20_000, 49_000] {
        let waited = longest_wait(vec![Input::Record(9_000); 200], look);
        assert!(waited <= TIMEOUT_US + LATE_US + 9_000, "{waited} us, first look after {look}");
        assert!(waited > TIMEOUT_US / 2, "it waits for more records all the same: {waited} us");
    }
}

#[test]
fn a_watermark_alone_leaves_within_the_buffer_timeout() {
    let pause = Input::Pause(3 * TIMEOUT_US);
    for (records, what) in [(1, "one record"), (1_000, "load")] {
        let mut input = vec![Input::Dropped(1_000); records];
        input.push(pause);
        let waited = longest_wait(input, 1_000);
        assert!(waited <= TIMEOUT_US + LATE_US + 1_000, "{waited} us behind {what}");
    }
    let waited = longest_wait(vec![Input::Dropped(1_000); 1_000], 1_000);
    assert!(waited > TIMEOUT_US / 4, "it waits for records all the same: {waited} us");
}
