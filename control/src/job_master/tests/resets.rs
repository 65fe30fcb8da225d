//! A region restarts without the others that share enumerators with it, and these take back what it had.

use super::checkpoints::{placements, triggered, with_checkpoints};
use super::*;
use model::SubtaskSnapshot;
use model::testing::enumerate;

/// The operator with the enumerator.
const SOURCE: OperatorId = OperatorId(1);
/// The subtasks of the source.
const PARALLELISM: u32 = 3;

/// A source with an enumerator and a sink, with an edge that connects each subtask with the one of its number: three regions, one group.
fn three_readers() -> JobGraph {
    let ship = ShipStrategy::Forward;
    let mut graph = model::testing::pair(PARALLELISM, PARALLELISM, ship);
    graph.vertices[0].source = true;
    enumerate(&mut graph, 1);
    graph
}

fn with_readers(graph: JobGraph) -> World {
    with_checkpoints(graph, Duration::from_secs(1))
}

/// Starts the job; all of its subtasks run.
fn running(graph: JobGraph) -> (World, Vec<ExecutionAttemptId>) {
    let (mut w, tasks) = with_readers(graph).running_with_coordinators(PARALLELISM);
    assert_eq!(tasks.len(), 2 * PARALLELISM as usize);
    w.commands();
    (w, tasks)
}

fn of_subtask(tasks: &[ExecutionAttemptId], subtask: u32) -> Vec<ExecutionAttemptId> {
    tasks.iter().filter(|attempt| attempt.subtask == subtask).copied().collect()
}

/// The resets: round, attempts of the source, checkpoint.
fn resets(commands: &[Command]) -> Vec<(u64, Vec<ExecutionAttemptId>, Option<u64>)> {
    picked!(commands, Command::ResetSubtasks { round, attempts, checkpoint } => {
        assert_eq!(attempts.keys().copied().collect::<Vec<_>>(), [SOURCE]);
        (*round, attempts[&SOURCE].clone(), *checkpoint)
    })
}

impl World {
    /// Takes the checkpoint that is due, up to the last acknowledgement. Returns what is to be persisted.
    fn take(&mut self, tasks: &[ExecutionAttemptId]) -> Arc<CheckpointMetadata> {
        self.pass(1000);
        let commands = self.commands();
        let begun =
            picked!(commands, Command::SnapshotCoordinators { checkpoint, .. } => *checkpoint);
        let [checkpoint] = begun[..] else { panic!("{commands:?}") };
        self.core.coordinators_snapshotted(self.now(), checkpoint, Ok(BTreeMap::new()));
        self.acknowledge_all(checkpoint, tasks, false);
        self.awaiting_persistence()
    }
    /// Takes a checkpoint that becomes complete.
    fn take_whole(&mut self, tasks: &[ExecutionAttemptId]) {
        let metadata = self.take(tasks);
        self.core.checkpoint_persisted(self.now(), metadata.checkpoint, Ok(metadata));
        self.commands();
    }
    /// Fails a task and has the rest of its region cancelled. Returns the attempts that were to be cancelled.
    fn fail_with(&mut self, task: ExecutionAttemptId, kind: &str) -> Vec<ExecutionAttemptId> {
        let cause = Some(cause(kind));
        self.update(1, TaskStateUpdate { cause, ..state_of(task, ExecutionState::Failed) });
        let cancelled = cancelled(&self.commands());
        self.report_all(&cancelled, ExecutionState::Canceled);
        cancelled
    }
}

#[test]
fn a_region_restarts_alone_once_the_enumerator_has_taken_back_what_it_had() {
    let (mut w, tasks) = running(three_readers());
    w.take_whole(&tasks);
    let (failed, others) = (of_subtask(&tasks, 1), of_subtask(&tasks, 2));
    assert_eq!(w.fail_with(failed[0], "TaskFailed"), [failed[1]]);
    assert_eq!(w.core.route_event(&others[0], SOURCE), Ok(()), "the others go on");
    assert_eq!(w.core.route_event(&failed[0], SOURCE), Err(Unroutable::StaleAttempt));
    w.pass(1000);
    let commands = w.commands();
    let [(round, attempts, Some(1))] = &resets(&commands)[..] else { panic!("{commands:?}") };
    assert_eq!(*attempts, [failed[0]]);
    assert_eq!(deployed(&commands), [], "it waits for the enumerator");
    w.pass(5000);
    assert_eq!(triggered(&w.commands()), [], "a checkpoint would have the splits nowhere");
    w.core.subtasks_reset(w.now(), round + 1, Ok(()));
    assert_eq!(deployed(&w.commands()), [], "another reset");
    w.core.subtasks_reset(w.now(), *round, Ok(()));
    let again = w.run_all();
    assert_eq!(again.iter().map(|a| (a.subtask, a.attempt)).collect::<Vec<_>>(), [(1, 1), (1, 1)]);
    w.commands();
    assert!(w.seen.contains(&Command::SnapshotCoordinators {
        checkpoint: 2,
        operators: [OperatorId(1)].into()
    }));
    assert_eq!(starts(&w.seen).len(), 1, "the enumerator was started once");
}

#[test]
fn a_region_that_fails_while_a_checkpoint_is_persisted_is_reset_to_what_is_the_newest_then() {
    for is_persisted in [true, false] {
        let (mut w, tasks) = running(three_readers());
        let metadata = w.take(&tasks);
        w.fail_with(tasks[0], "TaskFailed");
        w.pass(1000);
        assert_eq!(resets(&w.commands()), []);
        let outcome = if is_persisted { Ok(metadata) } else { Err("disk full".to_owned()) };
        w.core.checkpoint_persisted(w.now(), 1, outcome);
        w.pass(1000);
        let sent = w.commands();
        let restarted: Vec<_> =
            resets(&sent).into_iter().map(|(_, of, checkpoint)| (of.len(), checkpoint)).collect();
        match is_persisted {
            true => assert_eq!(restarted, [(1, Some(1))]),
            // More checkpoints have failed than are tolerated, which fails all of them.
            false => assert_eq!((restarted, starts(&w.seen).len()), (vec![], 2)),
        }
    }
}

#[test]
fn a_coordinator_that_takes_nothing_back_restarts_with_all_that_it_serves() {
    let mut graph = three_readers();
    coordinate(&mut graph, 2);
    let (mut w, tasks) = running(graph);
    assert_eq!(w.fail_with(tasks[0], "TaskFailed").len(), 5);
    w.pass(1000);
    let commands = w.commands();
    assert_eq!((resets(&commands), starts(&commands).len()), (vec![], 1));
}

#[test]
fn a_failure_of_the_enumerator_or_of_its_reset_restarts_the_whole_group() {
    let (mut w, tasks) = running(three_readers());
    w.fail_with(tasks[0], "TaskFailed");
    w.pass(1000);
    let round = resets(&w.commands())[0].0;
    w.core.subtasks_reset(w.now(), round, Err(cause("CoordinatorFailed")));
    let rest = cancelled(&w.commands());
    assert_eq!(rest.len(), 4, "the other two regions");
    w.report_all(&rest, ExecutionState::Canceled);
    w.pass(1000);
    let commands = w.commands();
    assert_eq!((resets(&commands), starts(&commands).len()), (vec![], 1));
    w.coordinators_up();
    let tasks = w.run_all();
    assert_eq!(tasks.len(), 6);
    w.core.coordinator_reported(w.now(), w.core.round, cause("CoordinatorFailed"));
    assert_eq!(cancelled(&w.commands()).len(), 6);
}

#[test]
fn groups_that_fail_together_have_resets_of_their_own() {
    // Two sources that exchange nothing, each with an enumerator and two regions.
    let mut graph = graph(vec![vertex(1, 2), vertex(2, 2)], vec![]);
    enumerate(&mut graph, 1);
    enumerate(&mut graph, 2);
    let mut w = with_readers(graph);
    w.core.start(at(0));
    w.tm(1, 2);
    for (round, _) in starts(&w.commands()) {
        w.core.coordinators_started(w.now(), round, Ok(()));
    }
    let tasks = w.run_all();
    assert_eq!(tasks.len(), 4);
    let of_vertex = |vertex: u32, subtask: u32| {
        let vertex = JobVertexId(u128::from(vertex));
        *tasks.iter().find(|a| (a.vertex, a.subtask) == (vertex, subtask)).unwrap()
    };
    let failed = [of_vertex(1, 0), of_vertex(2, 0)];
    w.report_all(&failed, ExecutionState::Failed);
    w.pass(1000);
    let commands = w.commands();
    let asked = picked!(commands, Command::ResetSubtasks { round, attempts, .. } => {
        (*round, attempts.clone())
    });
    let [(first, of_first), (second, of_second)] = &asked[..] else { panic!("{commands:?}") };
    assert_ne!(first, second);
    assert_eq!(*of_first, BTreeMap::from([(OperatorId(1), vec![failed[0]])]));
    assert_eq!(*of_second, BTreeMap::from([(OperatorId(2), vec![failed[1]])]));
    // While the first one is slow, the other region starts; then the first one fails, with its own group alone.
    w.core.subtasks_reset(w.now(), *second, Ok(()));
    let again = w.run_all();
    assert_eq!(
        again.iter().map(|a| (a.vertex, a.attempt)).collect::<Vec<_>>(),
        [(JobVertexId(2), 1)]
    );
    w.core.subtasks_reset(w.now(), *first, Err(cause("CoordinatorFailed")));
    let rest = cancelled(&w.commands());
    assert_eq!(rest, [of_vertex(1, 1)]);
    w.report_all(&rest, ExecutionState::Canceled);
    w.pass(60_000);
    let again = starts(&w.commands());
    assert_eq!(
        again.iter().map(|(_, of)| of.clone()).collect::<Vec<_>>(),
        [[OperatorId(1)].into()]
    );
}

#[test]
fn a_group_restarts_as_a_whole_from_an_older_checkpoint_and_the_next_one_makes_it_whole() {
    let checkpoints = CheckpointConfig {
        interval: Some(Duration::from_secs(1)),
        retained: 3,
        falls_back: true,
        ..CheckpointConfig::default()
    };
    let w = super::checkpoints::configured(three_readers(), checkpoints);
    let (mut w, mut tasks) = w.running_with_coordinators(PARALLELISM);
    w.take_whole(&tasks);
    w.take_whole(&tasks);
    let mut restart = |w: &mut World, kind| {
        let failed = w.fail_with(tasks[0], kind);
        w.pass(1000);
        let commands = w.commands();
        for (round, ..) in resets(&commands) {
            w.core.subtasks_reset(w.now(), round, Ok(()));
        }
        if !starts(&commands).is_empty() {
            w.coordinators_up();
        }
        let commands = [commands, w.commands()].concat();
        let again = deployed(&commands);
        w.report_all(&again, ExecutionState::Running);
        tasks.retain(|task| {
            !again.iter().any(|a| (a.vertex, a.subtask) == (task.vertex, task.subtask))
        });
        tasks.extend(&again);
        tasks.sort_unstable();
        (failed.len() + 1, starts(&commands).len(), tasks.clone())
    };
    let (failed, starts, _) = restart(&mut w, "TaskFailed");
    assert_eq!((failed, starts), (2, 0), "its region alone, from checkpoint 2");
    let (failed, starts, _) = restart(&mut w, FailureCause::CHECKPOINT_UNREADABLE);
    assert_eq!(
        (failed, starts),
        (6, 1),
        "the record of what was assigned begins at 2, they restart from 1"
    );
    let (failed, starts, all) = restart(&mut w, "TaskFailed");
    assert_eq!((failed, starts), (2, 0), "the new enumerator has all since 1");
    w.take_whole(&all);
    let (failed, starts, _) = restart(&mut w, "TaskFailed");
    assert_eq!((failed, starts), (2, 0));
}

// ---- a model of the enumerator and its readers ----------------------------------------------------

/// The number of splits.
const SPLITS: u8 = 24;

/// A call to the coordinators' host, which carries them out in order.
#[derive(Debug, Clone)]
enum HostCall {
    Start(u64, Option<Vec<u8>>),
    Reset(u64, Vec<ExecutionAttemptId>, Option<u64>),
    Snapshot(u64),
    Ended(u64, bool),
    Poll(ExecutionAttemptId),
}

/// The enumerator, as the coordinator of a source runs it.
#[derive(Debug, Clone, Default)]
struct Enumerator {
    waiting: Vec<u8>,
    /// The attempt of each subtask that is known, with what it was assigned: the newest checkpoint then, and the split.
    readers: BTreeMap<u32, (ExecutionAttemptId, Vec<(u64, u8)>)>,
    ended: BTreeMap<u32, u32>,
    newest: u64,
    first: Option<u64>,
    open: bool,
}

impl Enumerator {
    fn give_back(&mut self, subtask: u32, checkpoint: Option<u64>) {
        let Some((_, assigned)) = self.readers.remove(&subtask) else { return };
        let kept =
            |tag: u64| checkpoint.is_some_and(|c| self.first.is_some_and(|f| f <= c) && tag < c);
        let back: Vec<u8> =
            assigned.into_iter().filter(|(tag, _)| !kept(*tag)).map(|(_, s)| s).collect();
        self.waiting.extend(back);
    }
}

/// A reader: the splits that it holds, those that it has read, and those that it gets after its part of a checkpoint.
#[derive(Debug, Clone, Default)]
struct SplitReader {
    held: Vec<u8>,
    read: Vec<u8>,
    later: Vec<(u64, u8)>,
}

impl SplitReader {
    fn passed(&mut self, checkpoint: u64) {
        let (now, later) =
            self.later.drain(..).partition::<Vec<_>, _>(|(after, _)| *after <= checkpoint);
        self.held.extend(now.into_iter().map(|(_, split)| split));
        self.later = later;
    }
    /// The state of a subtask in a checkpoint: its number, how many splits it holds, these, and those that it has read.
    fn state(&self, subtask: u32) -> Vec<u8> {
        let mut state = vec![subtask as u8, self.held.len() as u8];
        state.extend(self.held.iter().chain(&self.read));
        state
    }
    fn of(state: &[u8]) -> Self {
        let (held, read) = state[2..].split_at(usize::from(state[1]));
        Self { held: held.to_vec(), read: read.to_vec(), later: Vec::new() }
    }
}

/// The job and what is outside of its JobMaster.
struct Outside {
    w: World,
    host: std::collections::VecDeque<HostCall>,
    /// The round of the last start of the enumerator.
    started: u64,
    enumerator: Option<Enumerator>,
    readers: BTreeMap<ExecutionAttemptId, SplitReader>,
    cancelled: Vec<ExecutionAttemptId>,
    barriers: Vec<(ExecutionAttemptId, u64)>,
    /// The numbers of checkpoints that the job's log has yet to take.
    numbers: Vec<u64>,
    persisting: Option<Arc<CheckpointMetadata>>,
    tm: u32,
}

impl Outside {
    fn new() -> Self {
        let checkpoints = CheckpointConfig {
            interval: Some(Duration::from_secs(1)),
            tolerable_failures: 5,
            retained: 3,
            falls_back: true,
            ..CheckpointConfig::default()
        };
        let w = super::checkpoints::configured(three_readers(), checkpoints);
        let mut outside = Self {
            w,
            host: Default::default(),
            started: 0,
            enumerator: None,
            readers: BTreeMap::new(),
            cancelled: Vec::new(),
            barriers: Vec::new(),
            numbers: Vec::new(),
            persisting: None,
            tm: 0,
        };
        outside.w.core.start(at(0));
        outside.new_task_manager();
        outside
    }

    fn new_task_manager(&mut self) {
        self.tm += 1;
        self.w.tm(self.tm, PARALLELISM);
        self.carry_out();
    }

    /// Carries out what is not a call to the host, and queues the calls to it.
    fn carry_out(&mut self) {
        loop {
            let commands = self.w.core.take_commands();
            if commands.is_empty() {
                return;
            }
            for task in placements(&commands) {
                let own = |state: &&StateHandle| match state {
                    StateHandle::Inline(state) => u32::from(state[0]) == task.attempt.subtask,
                    other => panic!("{other:?}"),
                };
                let mut states = task.restore.iter().flat_map(|(_, states)| states);
                let reader = match states.rfind(own) {
                    Some(StateHandle::Inline(state)) => SplitReader::of(state),
                    _ => SplitReader::default(),
                };
                let former = self.readers.keys().filter(|a| {
                    (a.vertex, a.subtask) == (task.attempt.vertex, task.attempt.subtask)
                });
                assert_eq!(former.count(), 0, "one attempt at a time");
                self.readers.insert(task.attempt, reader);
                self.w.report(self.tm, task.attempt, ExecutionState::Running);
            }
            for command in commands {
                self.note(command);
            }
        }
    }

    fn note(&mut self, command: Command) {
        match command {
            Command::CancelTasks { attempts, .. } => self.cancelled.extend(attempts),
            Command::StartCoordinators { round, restore, .. } => {
                let state = restore.into_iter().next().map(|(_, state)| match state {
                    StateHandle::Inline(state) => state,
                    other => panic!("{other:?}"),
                });
                self.started = round;
                self.host.push_back(HostCall::Start(round, state));
            }
            Command::ResetSubtasks { round, attempts, checkpoint } => {
                self.host.push_back(HostCall::Reset(round, attempts[&SOURCE].clone(), checkpoint));
            }
            Command::RecordCheckpointNumber(number) => self.numbers.push(number),
            Command::SnapshotCoordinators { checkpoint, .. } => {
                self.host.push_back(HostCall::Snapshot(checkpoint));
            }
            Command::CoordinatorsCheckpointEnded { checkpoint, complete } => {
                self.host.push_back(HostCall::Ended(checkpoint, complete));
            }
            Command::TriggerCheckpoint { barrier, .. } => {
                let live = self.readers.keys();
                self.barriers.extend(live.map(|attempt| (*attempt, barrier.checkpoint)));
            }
            Command::PersistCheckpoint(metadata) => {
                let coordinator = metadata.operators[&SOURCE].coordinator.clone();
                let Some(StateHandle::Inline(mut all)) = coordinator else {
                    panic!("{metadata:?}")
                };
                for subtask in &metadata.operators[&SOURCE].subtasks {
                    if let Some(StateHandle::Inline(state)) = &subtask.state {
                        all.extend(&state[2..]);
                    }
                }
                all.sort_unstable();
                assert_eq!(all, Vec::from_iter(0..SPLITS), "checkpoint {}", metadata.checkpoint);
                self.persisting = Some(metadata);
            }
            _ => {}
        }
    }

    fn host_answers(&mut self, succeeds: bool) {
        let Some(call) = self.host.pop_front() else { return };
        let now = self.w.now();
        match (call, &mut self.enumerator) {
            (HostCall::Start(round, state), enumerator) => {
                let waiting = state.unwrap_or_else(|| (0..SPLITS).collect());
                *enumerator = Some(Enumerator { waiting, ..Enumerator::default() });
                let outcome = if succeeds { Ok(()) } else { Err(cause("CoordinatorHostLost")) };
                self.w.core.coordinators_started(now, round, outcome);
            }
            (HostCall::Reset(round, ..), _) if !succeeds => {
                self.w.core.subtasks_reset(now, round, Err(cause("CoordinatorFailed")));
            }
            (HostCall::Reset(round, attempts, checkpoint), Some(enumerator)) => {
                for ended in attempts {
                    let later =
                        |(known, _): &(ExecutionAttemptId, _)| known.attempt > ended.attempt;
                    if !enumerator.readers.get(&ended.subtask).is_some_and(later) {
                        enumerator.ended.insert(ended.subtask, ended.attempt);
                        enumerator.give_back(ended.subtask, checkpoint);
                    }
                }
                self.w.core.subtasks_reset(now, round, Ok(()));
            }
            (HostCall::Snapshot(checkpoint), Some(enumerator)) => {
                (enumerator.newest, enumerator.open) = (checkpoint, true);
                enumerator.first.get_or_insert(checkpoint);
                let state = StateHandle::Inline(enumerator.waiting.clone());
                let answer =
                    if succeeds { Ok([(SOURCE, state)].into()) } else { Err("no".to_owned()) };
                self.w.core.coordinators_snapshotted(now, checkpoint, answer);
            }
            (HostCall::Ended(checkpoint, complete), Some(enumerator)) => {
                enumerator.open &= enumerator.newest != checkpoint;
                let is_known = enumerator.first.is_some_and(|first| first <= checkpoint);
                for (_, assigned) in
                    enumerator.readers.values_mut().filter(|_| complete && is_known)
                {
                    assigned.retain(|(tag, _)| *tag >= checkpoint);
                }
                self.readers.values_mut().for_each(|reader| reader.passed(checkpoint));
            }
            (HostCall::Poll(from), Some(enumerator)) => {
                let is_fenced =
                    enumerator.ended.get(&from.subtask).is_some_and(|e| *e >= from.attempt);
                let known = enumerator.readers.get(&from.subtask).map(|(known, _)| known.attempt);
                if is_fenced || known.is_some_and(|known| known > from.attempt) {
                    return;
                }
                if known != Some(from.attempt) {
                    enumerator.give_back(from.subtask, None);
                    enumerator.readers.insert(from.subtask, (from, Vec::new()));
                }
                let Some(split) = enumerator.waiting.pop() else { return };
                let (newest, open) = (enumerator.newest, enumerator.open);
                if let Some((_, assigned)) = enumerator.readers.get_mut(&from.subtask) {
                    assigned.push((newest, split));
                }
                if let Some(reader) = self.readers.get_mut(&from) {
                    match open {
                        true => reader.later.push((newest, split)),
                        false => reader.held.push(split),
                    }
                }
            }
            (call, None) => panic!("{call:?}"),
        }
        self.carry_out();
    }

    fn task_ends(&mut self, attempt: ExecutionAttemptId, state: ExecutionState, kind: &str) {
        self.readers.remove(&attempt);
        let cause = (state == ExecutionState::Failed).then(|| cause(kind));
        self.w.update(self.tm, TaskStateUpdate { cause, ..state_of(attempt, state) });
        self.carry_out();
    }

    /// The nth source attempt that runs.
    fn nth(&self, n: usize) -> Option<ExecutionAttemptId> {
        let sources: Vec<_> = self.readers.keys().filter(|a| a.vertex == JobVertexId(1)).collect();
        sources.get(n % sources.len().max(1)).map(|attempt| **attempt)
    }

    fn acknowledge(&mut self, n: usize) {
        if self.barriers.is_empty() {
            return;
        }
        let (attempt, checkpoint) = self.barriers.remove(n % self.barriers.len());
        let Some(reader) = self.readers.get_mut(&attempt) else { return };
        let state = StateHandle::Inline(reader.state(attempt.subtask));
        reader.passed(checkpoint);
        let operators = vec![(OperatorId(attempt.vertex.0), state)];
        let part = SubtaskSnapshot { ended: false, operators, pause_us: 0 };
        self.w.core.acknowledged(self.w.now(), &attempt, checkpoint, part);
        self.carry_out();
    }

    /// The job's log takes the number of a checkpoint, or else a checkpoint.
    fn log_answers(&mut self, succeeds: bool) {
        if let Some(number) = self.numbers.pop() {
            let outcome = if succeeds { Ok(()) } else { Err("disk full".to_owned()) };
            self.w.core.checkpoint_number_recorded(self.w.now(), number, outcome);
            return self.carry_out();
        }
        let Some(metadata) = self.persisting.take() else { return };
        let checkpoint = metadata.checkpoint;
        let outcome = if succeeds { Ok(metadata) } else { Err("disk full".to_owned()) };
        self.w.core.checkpoint_persisted(self.w.now(), checkpoint, outcome);
        self.carry_out();
    }

    fn event(&mut self, event: u8, n: usize) {
        match event {
            0..=19 => {
                if let Some(from) = self.nth(n)
                    && self.w.core.route_event(&from, SOURCE).is_ok()
                {
                    self.host.push_back(HostCall::Poll(from));
                }
            }
            20..=27 => {
                if let Some(reader) = self.nth(n).and_then(|a| self.readers.get_mut(&a)) {
                    reader.read.extend(reader.held.pop());
                }
            }
            28..=35 => {
                self.w.pass(500);
                self.carry_out();
            }
            36..=59 => self.host_answers(!n.is_multiple_of(16)),
            60..=75 => self.acknowledge(n),
            76..=82 => self.log_answers(!n.is_multiple_of(8)),
            83..=90 => {
                if !self.cancelled.is_empty() {
                    let attempt = self.cancelled.remove(n % self.cancelled.len());
                    self.task_ends(attempt, ExecutionState::Canceled, "");
                }
            }
            91..=95 => {
                let attempt = self.readers.keys().nth(n % self.readers.len().max(1)).copied();
                let kinds = ["TaskFailed", "TaskFailed", FailureCause::CHECKPOINT_UNREADABLE];
                if let Some(attempt) = attempt.filter(|a| !self.cancelled.contains(a)) {
                    self.task_ends(attempt, ExecutionState::Failed, kinds[n % 3]);
                }
            }
            96 => {
                let failure = cause("CoordinatorFailed");
                self.w.core.coordinator_reported(self.w.now(), self.started, failure);
                self.carry_out();
            }
            97 => {
                self.readers.clear();
                self.cancelled.clear();
                let lost = tm_name(self.tm);
                self.w.core.task_manager_lost(
                    self.w.now(),
                    &lost,
                    InstanceId(1),
                    &cause("TaskManagerLost"),
                );
                self.carry_out();
                self.new_task_manager();
            }
            _ => {
                // One region alone.
                if let Some(attempt) = self.nth(n).filter(|a| !self.cancelled.contains(a)) {
                    self.task_ends(attempt, ExecutionState::Failed, "TaskFailed");
                }
            }
        }
    }

    /// Lets everything come to rest: all regions run, and no checkpoint is under way.
    fn settle(&mut self) {
        for _ in 0..40 {
            while !self.host.is_empty()
                || !self.cancelled.is_empty()
                || !self.barriers.is_empty()
                || !self.numbers.is_empty()
                || self.persisting.is_some()
            {
                self.host_answers(true);
                self.acknowledge(0);
                while let Some(attempt) = self.cancelled.pop() {
                    self.task_ends(attempt, ExecutionState::Canceled, "");
                }
                self.log_answers(true);
            }
            let all = self.readers.len() == 2 * PARALLELISM as usize;
            if all
                && self.host.is_empty()
                && self.barriers.is_empty()
                && self.w.core.status() == JobStatus::Running
            {
                return;
            }
            self.w.pass(1000);
            self.carry_out();
        }
        panic!("it does not come to rest: {:?}", self.w.core.status());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_split_is_lost_or_read_by_two_however_regions_enumerator_and_checkpoints_fail(
        events in prop::collection::vec((0u8..100, 0usize..1000), 1..300),
    ) {
        let mut outside = Outside::new();
        for (event, n) in events {
            outside.event(event, n);
        }
        outside.settle();
        let enumerator = outside.enumerator.as_ref().unwrap();
        let mut all = enumerator.waiting.clone();
        for (_, reader) in outside.readers.iter().filter(|(a, _)| a.vertex == JobVertexId(1)) {
            all.extend(reader.held.iter().chain(&reader.read));
            all.extend(reader.later.iter().map(|(_, split)| split));
        }
        all.sort_unstable();
        prop_assert_eq!(all, Vec::from_iter(0..SPLITS));
    }
}
