use super::*;

const RECORDED: Result<(), String> = Ok(());

/// Begins a checkpoint, or a savepoint, of one task. Returns the only step that follows.
fn first_step(c: &mut Checkpoints, kind: CheckpointKind) -> CheckpointStep {
    c.take_steps();
    c.begin(at(1000), 5, kind, scope(1));
    let steps = c.take_steps();
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps[0].clone()
}

/// Returns the reason of the first aborted checkpoint.
fn aborted(steps: &[CheckpointStep]) -> String {
    let whys = picked!(steps, CheckpointStep::Aborted { why, .. } => why.clone());
    whys.into_iter().next().unwrap_or_else(|| panic!("none is aborted: {steps:?}"))
}

#[test]
fn nothing_is_triggered_before_the_number_is_recorded() {
    let mut c = Checkpoints::new(config(), at(0));
    let number = c.begin(at(1000), 5, CHECKPOINT, coordinated_scope(1, &["numbers"]));
    assert_eq!((number, c.take_steps()), (1, vec![CheckpointStep::RecordNumber(1)]));
    assert!(!c.is_idle() && !c.is_persisting());
    c.coordinators_answered(at(1000), 1, Ok(BTreeMap::new()));
    c.number_recorded(at(1000), 2, RECORDED);
    assert_eq!(c.take_steps(), [], "it waits for its own number");
    c.acknowledge(at(1000), 1, TaskIndex(0), part("a"));
    assert_eq!(c.take_steps(), [CheckpointStep::Discard(["a".to_owned()].into())]);
    c.number_recorded(at(1001), 1, RECORDED);
    assert_eq!(c.take_steps(), [CheckpointStep::SnapshotCoordinators(1, [OperatorId(1)].into())]);
    c.number_recorded(at(1002), 1, RECORDED);
    assert_eq!(c.take_steps(), [], "once");
    c.coordinators_answered(at(1003), 1, Ok(BTreeMap::new()));
    assert_eq!(c.take_steps(), [CheckpointStep::Trigger(1)]);
}

/// The usual way, where every checkpoint completes, costs no record but those of the checkpoints.
#[test]
fn the_number_after_a_complete_checkpoint_needs_no_record_and_every_other_one_does() {
    let mut c = Checkpoints::new(config(), at(0));
    assert_eq!(first_step(&mut c, CHECKPOINT), CheckpointStep::RecordNumber(1));
    c.number_recorded(at(1000), 1, RECORDED);
    c.acknowledge(at(1000), 1, TaskIndex(0), part("a"));
    let stored = to_persist(c.take_steps());
    c.persisted(at(1000), 1, Ok(stored));
    assert_eq!(first_step(&mut c, CHECKPOINT), CheckpointStep::Trigger(2));
    c.tasks_lost(at(1000), "a task failed");
    // One after a failed checkpoint, and one after another one that has failed.
    for number in [3, 4] {
        assert_eq!(first_step(&mut c, CHECKPOINT), CheckpointStep::RecordNumber(number));
        c.tasks_lost(at(1000), "a task failed");
    }
    c.take_steps();
    complete(&mut c, at(1000), "b");
    assert_eq!(first_step(&mut c, CheckpointKind::Savepoint), CheckpointStep::Trigger(6));
    c.acknowledge(at(1000), 6, TaskIndex(0), part("c"));
    c.savepoint_stored(at(1000), 6, Ok("/savepoints/6".to_owned()));
    // A savepoint that the job continues after is not in the log.
    assert_eq!(first_step(&mut c, CheckpointKind::Savepoint), CheckpointStep::RecordNumber(7));
}

#[test]
fn a_new_job_master_leaves_out_the_number_after_the_newest_checkpoint_and_all_recorded_ones() {
    let first = |newest: u64, given_out: u64, snapshot: Option<u64>| {
        let mut c = Checkpoints::new(config(), at(0));
        let metadata = |number| Arc::new(metadata(number, &BTreeMap::new()));
        match snapshot {
            Some(number) => c.restore(7, metadata(number), Some("/s/1/_metadata".to_owned())),
            None if newest > 0 => c.restore(7, metadata(newest), None),
            None => {}
        }
        c.restore_older(Vec::new(), newest, given_out);
        match first_step(&mut c, CHECKPOINT) {
            CheckpointStep::RecordNumber(number) => number,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(first(0, 0, None), 1);
    assert_eq!(first(0, 1, None), 2, "the first one was triggered, and has failed");
    assert_eq!((first(4, 0, None), first(4, 6, None)), (6, 7));
    // The first checkpoint of a job that starts from a snapshot of another one has no complete one before it.
    assert_eq!((first(0, 0, Some(41)), first(0, 42, Some(41))), (42, 43));
    // The newest checkpoint can't be read, and the job continues from an older one.
    let mut c = Checkpoints::new(config(), at(0));
    c.restore(7, Arc::new(metadata(4, &BTreeMap::new())), None);
    c.restore_older(Vec::new(), 5, 0);
    assert_eq!(first_step(&mut c, CHECKPOINT), CheckpointStep::RecordNumber(7));
}

#[test]
fn a_checkpoint_whose_number_is_not_recorded_fails_with_the_reason() {
    let begun = |kind| {
        let mut c = Checkpoints::new(CheckpointConfig { timeout: SECOND, ..config() }, at(0));
        assert_eq!(first_step(&mut c, kind), CheckpointStep::RecordNumber(1));
        c
    };
    let too_many =
        |steps: &[CheckpointStep]| picked!(steps, CheckpointStep::TooManyFailures(_) => ()).len();
    // Sources have taken no barrier of a stop yet, so they read on.
    let stop = CheckpointKind::Stop { drain: false };
    for (kind, failures) in [(CHECKPOINT, 1), (CheckpointKind::Savepoint, 0), (stop, 0)] {
        let mut c = begun(kind);
        c.number_recorded(at(1001), 1, Err("no such folder".to_owned()));
        let steps = c.take_steps();
        let why = "its number is not recorded in the job's log: no such folder";
        assert_eq!((aborted(&steps).as_str(), too_many(&steps)), (why, failures), "{kind:?}");

        let mut c = begun(kind);
        assert_eq!(c.next_deadline(true, false), Some(at(2000)));
        c.tick(at(1999));
        assert_eq!(c.take_steps(), []);
        c.tick(at(2000));
        let steps = c.take_steps();
        let why = "it took longer than 1s (execution.checkpointing.timeout); its number is not recorded in the job's log \
                   (in high-availability.storageDir), so no barrier was sent";
        assert_eq!((aborted(&steps).as_str(), too_many(&steps)), (why, failures), "{kind:?}");
        // The record may be there all the same, so the next one has another number.
        c.number_recorded(at(2001), 1, RECORDED);
        assert_eq!(c.take_steps(), []);
        assert_eq!(first_step(&mut c, kind), CheckpointStep::RecordNumber(2));
    }
    let mut c = begun(CHECKPOINT);
    c.tasks_lost(at(1001), "a task failed");
    assert_eq!(aborted(&c.take_steps()), "a task failed");
}

/// The newest checkpoint and the newest number of its own in a job's log, as a new JobMaster finds them.
#[derive(Default)]
struct Log {
    newest: u64,
    given_out: u64,
}

impl Log {
    /// Returns the coordinator of a JobMaster that takes the job over.
    fn next_job_master(&self) -> Checkpoints {
        let config = CheckpointConfig { tolerable_failures: 9, ..config() };
        let mut c = Checkpoints::new(config, at(0));
        if self.newest > 0 {
            c.restore(7, Arc::new(metadata(self.newest, &BTreeMap::new())), None);
        }
        c.restore_older(Vec::new(), self.newest, self.given_out);
        c
    }
}

proptest! {
    /// However checkpoints and savepoints fail, and whenever JobMasters end, also between a record and its answer: no number is
    /// triggered twice, and numbers grow.
    #[test]
    fn no_number_comes_again_whatever_job_master_gives_it_out(
        events in prop::collection::vec((0u8..20, any::<bool>()), 0..200),
    ) {
        let mut log = Log::default();
        let mut c = log.next_job_master();
        let (mut newest, mut number) = (0, 0);
        // The number that the log was asked to take, and has not answered about.
        let mut recording = None;
        for (event, good) in events {
            let outcome = if good { Ok(()) } else { Err("no".to_owned()) };
            match event {
                0..=5 if c.is_idle() => {
                    let kind = if good { CHECKPOINT } else { CheckpointKind::Savepoint };
                    number = c.begin(at(1), 5, kind, scope(1));
                }
                0..=5 => {
                    // The record may be there however the JobMaster is answered.
                    log.given_out = recording.take().unwrap_or(log.given_out);
                    c.number_recorded(at(1), number, outcome);
                }
                6..=11 => c.acknowledge(at(1), number, TaskIndex(0), part("a")),
                12..=14 => {
                    let stored = Arc::new(metadata(number, &BTreeMap::new()));
                    // The log has the checkpoint if its pointer is being written.
                    if good && log.newest == number {
                        c.persisted(at(1), number, Ok(stored));
                    } else if log.newest != number {
                        c.persisted(at(1), number, Err("no".to_owned()));
                    }
                }
                15 => c.savepoint_stored(at(1), number, outcome.map(|()| "/s/1".to_owned())),
                16 => c.decline(at(1), number, "no".to_owned()),
                17 => c.tasks_lost(at(1), "lost"),
                _ => {
                    let arrived = recording.take().filter(|_| good);
                    log.given_out = arrived.unwrap_or(log.given_out);
                    c = log.next_job_master();
                }
            }
            for step in c.take_steps() {
                match step {
                    CheckpointStep::Trigger(triggered) => {
                        prop_assert!(triggered > newest, "{triggered} after {newest}");
                        newest = triggered;
                    }
                    CheckpointStep::RecordNumber(number) => recording = Some(number),
                    CheckpointStep::Persist(parts) if good => log.newest = parts.checkpoint,
                    _ => {}
                }
            }
        }
    }
}
