use super::*;
use crate::slot_table::AllocateError;
use crate::testing::{ms, picked, session};
use ExecutionState::{Canceled, Failed, Running};
use model::testing::state_of;
use model::{ExecutionState, FailureCause, JobMasterId, JobVertexId};
use proptest::prelude::*;
use std::collections::BTreeSet;

const JOB: JobId = JobId(1);
const A: AllocationId = AllocationId(10);
const B: AllocationId = AllocationId(11);

fn rm(n: u64) -> ResourceManagerId {
    ResourceManagerId(session(n))
}
fn jm(n: u64) -> JobMasterId {
    JobMasterId(session(n))
}
fn attempt(n: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: n, attempt: 0 }
}
fn state(n: u32, state: ExecutionState) -> TaskStateUpdate {
    state_of(attempt(n), state)
}
fn settings() -> Settings {
    Settings {
        resource_id: ResourceId::new("tm"),
        slots: vec![ResourceProfile::default(); 2],
        registration: Pauses::default(),
        registration_timeout: ms(300_000),
        slot_timeout: ms(10_000),
        release_timeout: ms(20_000),
        mutation: crate::mutation::Mutation::None,
    }
}
fn request(index: u32, allocation: AllocationId) -> SlotRequest {
    SlotRequest {
        by: rm(1),
        index,
        job: JOB,
        allocation,
        need: ResourceProfile::unknown(),
        program: None,
    }
}
fn gained(n: u64) -> Event {
    Event::JobMasterGained { job: JOB, id: jm(n), instance: InstanceId(1) }
}

/// A TaskExecutor with its time.
struct Te {
    core: TaskExecutor,
    now: Duration,
}

impl Te {
    fn new() -> Self {
        Self { core: TaskExecutor::new(ms(0), settings()), now: ms(0) }
    }
    fn registered() -> Self {
        let mut te = Self::new();
        te.step(Event::ResourceManager(Some(rm(1))));
        te.step(Event::RegistrationAccepted { by: rm(1), instance: InstanceId(1) });
        te
    }
    /// Slot A is the job's, and its host is being launched.
    fn allocated() -> Self {
        let mut te = Self::registered();
        te.core.request_slot(te.now, &request(0, A)).unwrap();
        te
    }
    /// Slot A of the job, its host up, its JobMaster connected, the slot accepted.
    fn serving() -> Self {
        let mut te = Te::allocated();
        te.step(Event::HostUp { job: JOB, launch: 1 });
        te.step(gained(1));
        te.step(Event::OffersAnswered { job: JOB, connection: 1, accepted: vec![A] });
        te
    }
    /// … and task 0 running in it.
    fn running() -> Self {
        let mut te = Self::serving();
        te.core.deploy(te.now, JOB, jm(1), &[(attempt(0), A)]).unwrap();
        te.step(Event::TaskStates { job: JOB, updates: vec![state(0, Running)] });
        te.taken();
        te
    }
    fn step(&mut self, event: Event) -> Vec<Command> {
        self.core.step(self.now, event)
    }
    fn after(&mut self, wait: u64) -> Vec<Command> {
        self.now += ms(wait);
        self.step(Event::Tick)
    }
    fn taken(&mut self) -> Vec<Command> {
        let connection = self.core.job_master(JOB).unwrap().number;
        self.step(Event::ReportsTaken { job: JOB, connection, unknown: vec![] })
    }
    fn phase(&self, allocation: AllocationId) -> Option<Phase> {
        self.core.slots.get(allocation).map(|held| held.phase)
    }
}

fn reason(commands: &[Command]) -> String {
    match commands {
        [Command::Fail { reason }] => reason.clone(),
        other => panic!("{other:?}"),
    }
}
fn slot_available() -> Command {
    Command::NotifySlotAvailable { id: rm(1), instance: InstanceId(1), index: 0, allocation: A }
}
fn launches(commands: &[Command]) -> Vec<u64> {
    picked!(commands, Command::LaunchHost { launch, .. } => *launch)
}

#[test]
fn it_registers_at_each_new_resource_manager_and_tells_its_slots() {
    let mut te = Te::new();
    assert_eq!(te.step(Event::ResourceManager(Some(rm(1)))), [Command::Register { at: rm(1) }]);
    let accepted = |n| Event::RegistrationAccepted { by: rm(n), instance: InstanceId(7) };
    assert_eq!(te.step(accepted(2)), [], "another one's answer");
    let connect = |n| Command::ConnectResourceManager { id: rm(n), instance: InstanceId(7) };
    assert_eq!(te.step(accepted(1)), [connect(1)]);
    let drop = Command::DropResourceManager { id: rm(1), instance: InstanceId(7) };
    assert_eq!(
        te.step(Event::ResourceManager(Some(rm(2)))),
        [drop, Command::Register { at: rm(2) }]
    );
    assert_eq!(te.core.registered_at(), None);
}

#[test]
fn failed_registrations_are_tried_again_and_end_the_process_in_time() {
    let mut te = Te::new();
    te.step(Event::ResourceManager(Some(rm(1))));
    te.step(Event::RegistrationFailed { at: rm(1), reason: "connection refused".into() });
    assert_eq!(te.after(99), []);
    assert_eq!(te.after(1), [Command::Register { at: rm(1) }]);
    let message = reason(&te.after(300_000));
    assert_eq!(message, "not registered at a ResourceManager within 300000 ms: connection refused");
    assert_eq!(te.after(300_000), [], "said once");
}

#[test]
fn a_refusal_for_good_ends_the_process() {
    let mut te = Te::new();
    te.step(Event::ResourceManager(Some(rm(1))));
    let refused =
        |retry| Event::RegistrationRefused { by: rm(1), reason: "not asked for".into(), retry };
    assert_eq!(te.step(refused(true)), []);
    assert_eq!(te.after(30_000), [Command::Register { at: rm(1) }]);
    assert!(reason(&te.step(refused(false))).contains("not asked for"));
}

#[test]
fn a_lost_resource_manager_is_registered_at_again_while_tasks_go_on() {
    let mut te = Te::running();
    let lost = Event::ResourceManagerLost { id: rm(1), reason: "timeout".into() };
    let drop = Command::DropResourceManager { id: rm(1), instance: InstanceId(1) };
    assert_eq!(te.step(lost.clone()), [drop]);
    assert_eq!(te.step(lost), []);
    assert!(te.core.is_running(JOB, attempt(0)));
    assert_eq!(te.after(100), [Command::Register { at: rm(1) }]);
    let refused = te.core.request_slot(te.now, &request(1, B));
    assert_eq!(refused, Err(SlotRefusal::NotMyResourceManager));
}

#[test]
fn the_registered_resource_manager_can_end_the_process_and_no_other() {
    let mut te = Te::registered();
    let releases = |n| Event::ResourceManagerReleases { id: rm(n), reason: "idle".into() };
    assert_eq!(te.step(releases(2)), []);
    assert_eq!(te.step(releases(1)), [Command::End { reason: "idle".into() }]);
}

#[test]
fn the_first_slot_of_a_job_launches_its_host_and_watches_its_leader() {
    let mut te = Te::registered();
    let watch = Command::WatchJob { job: JOB, instance: InstanceId(1) };
    let launch = Command::LaunchHost { job: JOB, launch: 1, program: None };
    let first = te.core.request_slot(te.now, &request(0, A)).unwrap();
    assert_eq!(first, [watch.clone(), Command::PublishSlots, launch]);
    let repeated = te.core.request_slot(te.now, &request(0, A)).unwrap();
    assert_eq!(repeated, std::slice::from_ref(&watch));
    let second = te.core.request_slot(te.now, &request(1, B)).unwrap();
    assert_eq!(second, [watch, Command::PublishSlots]);
    let taken = SlotRefusal::Table(AllocateError::Occupied { job: JOB, allocation: A });
    assert_eq!(te.core.request_slot(te.now, &request(0, AllocationId(9))), Err(taken));
    let mut stale = request(1, B);
    stale.by = rm(0);
    assert_eq!(te.core.request_slot(te.now, &stale), Err(SlotRefusal::NotMyResourceManager));
}

#[test]
fn slots_are_offered_when_host_and_job_master_are_there_and_rejected_ones_freed() {
    for host_first in [true, false] {
        let mut te = Te::allocated();
        te.core.request_slot(te.now, &request(1, B)).unwrap();
        let mut events = vec![Event::HostUp { job: JOB, launch: 1 }, gained(1)];
        if !host_first {
            events.reverse();
        }
        let second = events.pop().unwrap();
        let offers =
            |commands: &[Command]| commands.iter().any(|c| matches!(c, Command::OfferSlots { .. }));
        assert!(!offers(&te.step(events.pop().unwrap())));
        let commands = te.step(second);
        let Some(Command::OfferSlots { slots, to, .. }) =
            commands.iter().find(|c| matches!(c, Command::OfferSlots { .. }))
        else {
            panic!("{commands:?}")
        };
        assert_eq!(slots.len(), 2);
        assert_eq!((to.id, to.instance), (jm(1), InstanceId(1)));
        let answered =
            te.step(Event::OffersAnswered { job: JOB, connection: to.number, accepted: vec![B] });
        assert!(answered.contains(&slot_available()), "{answered:?}");
        assert_eq!(te.phase(A), None);
        assert_eq!(te.phase(B), Some(Phase::Active));
        assert_eq!(te.core.job_report(JOB).0, [B]);
    }
}

#[test]
fn a_failed_offer_is_repeated_and_an_answer_of_an_earlier_connection_is_not_believed() {
    let mut te = Te::allocated();
    te.step(Event::HostUp { job: JOB, launch: 1 });
    te.step(gained(1));
    te.step(Event::OffersFailed { job: JOB, connection: 1 });
    assert_eq!(te.after(49), []);
    assert!(matches!(te.after(1)[..], [Command::OfferSlots { .. }]));
    assert_eq!(te.step(Event::OffersAnswered { job: JOB, connection: 7, accepted: vec![] }), []);
    assert_eq!(te.phase(A), Some(Phase::Inactive));
}

#[test]
fn deployments_are_checked_three_ways() {
    let mut te = Te::serving();
    let tasks = [(attempt(0), A), (attempt(1), B)];
    let none = te.core.deploy(te.now, JobId(9), jm(1), &tasks);
    assert_eq!(none, Err(JobMasterRefusal::NoJobMaster(JobId(9))));
    assert_eq!(te.core.deploy(te.now, JOB, jm(2), &tasks), Err(JobMasterRefusal::OtherJobMaster));
    let deployment = te.core.deploy(te.now, JOB, jm(1), &tasks).unwrap();
    assert_eq!(deployment.accepted, [attempt(0)]);
    assert_eq!(deployment.refused, [(attempt(1), JobMasterRefusal::NoSuchAllocation(B))]);
    assert_eq!(deployment.commands, [Command::PublishJob { job: JOB }]);
    assert_eq!(te.core.job_report(JOB).1, [state(0, ExecutionState::Deploying)]);
    let again = te.core.deploy(te.now, JOB, jm(1), &tasks[..1]).unwrap();
    assert_eq!(again.accepted, [], "a repeated deployment starts nothing twice");
}

#[test]
fn a_task_may_come_before_the_answer_to_the_offer() {
    let mut te = Te::allocated();
    te.step(gained(1));
    let early = te.core.deploy(te.now, JOB, jm(1), &[(attempt(0), A)]);
    assert_eq!(early, Err(JobMasterRefusal::HostNotUp));
    te.step(Event::HostUp { job: JOB, launch: 1 });
    te.core.deploy(te.now, JOB, jm(1), &[(attempt(0), A)]).unwrap();
    assert_eq!(te.phase(A), Some(Phase::Active));
    te.step(Event::OffersAnswered { job: JOB, connection: 1, accepted: vec![A] });
    assert!(te.core.is_running(JOB, attempt(0)));
}

#[test]
fn unknown_attempts_are_cancelled() {
    let mut te = Te::running();
    te.step(Event::TaskStates { job: JOB, updates: vec![state(0, ExecutionState::Canceling)] });
    let taken = te.step(Event::ReportsTaken {
        job: JOB,
        connection: 1,
        unknown: vec![attempt(0), attempt(5)],
    });
    assert_eq!(taken[0], Command::CancelOnHost { job: JOB, attempts: vec![attempt(0)] });
}

#[test]
fn only_the_jobs_own_job_master_cancels_and_frees() {
    let mut te = Te::running();
    assert_eq!(te.core.cancel(JOB, jm(2), &[attempt(0)]), Err(JobMasterRefusal::OtherJobMaster));
    let cancel = Command::CancelOnHost { job: JOB, attempts: vec![attempt(0)] };
    assert_eq!(te.core.cancel(JOB, jm(1), &[attempt(0)]), Ok(vec![cancel]));
    assert_eq!(te.core.free_slot(te.now, jm(2), A), Err(JobMasterRefusal::OtherJobMaster));
    assert_eq!(te.core.free_slot(te.now, jm(1), B), Err(JobMasterRefusal::NoSuchAllocation(B)));
}

#[test]
fn the_resource_manager_it_is_registered_at_takes_slots_back() {
    let mut te = Te::running();
    let other = te.core.take_back_slot(te.now, rm(2), A);
    assert_eq!(other, None);
    let commands = te.core.take_back_slot(te.now, rm(1), A).unwrap();
    assert_eq!(commands[0], Command::ReleaseSlotOnHost { job: JOB, allocation: A });
    assert_eq!(te.core.take_back_slot(te.now, rm(1), B), None, "it is not held");
}

#[test]
fn a_slot_given_back_is_free_only_when_its_tasks_have_ended() {
    let mut te = Te::running();
    let commands = te.core.free_slot(te.now, jm(1), A).unwrap();
    assert_eq!(commands[0], Command::ReleaseSlotOnHost { job: JOB, allocation: A });
    assert_eq!(te.phase(A), Some(Phase::Releasing));
    assert!(te.core.request_slot(te.now, &request(0, B)).is_err());
    let commands = te.step(Event::TaskStates { job: JOB, updates: vec![state(0, Canceled)] });
    assert!(commands.contains(&slot_available()));
    assert!(commands.contains(&Command::EndHost { job: JOB, launch: 1, at_once: false }));
    assert!(!commands.contains(&Command::ForgetJob { job: JOB }), "its end is not reported yet");
    let commands = te.taken();
    assert!(commands.contains(&Command::ForgetJob { job: JOB }), "{commands:?}");
    assert_eq!(te.core.jobs().count(), 1);
    te.step(Event::HostEnded { job: JOB, launch: 1 });
    assert_eq!(te.core.jobs().count(), 0);
}

#[test]
fn a_slot_whose_tasks_do_not_end_costs_the_host() {
    let mut te = Te::running();
    te.core.free_slot(te.now, jm(1), A).unwrap();
    let commands = te.after(20_000);
    assert!(commands.contains(&Command::EndHost { job: JOB, launch: 1, at_once: true }));
    assert_eq!(te.phase(A), None);
}

#[test]
fn a_dead_host_fails_its_tasks_by_name_and_its_slots() {
    let mut te = Te::running();
    let cause = FailureCause::recoverable("ProgramHostLost", "killed by SIGKILL");
    let commands = te.step(Event::HostLost { job: JOB, launch: 1, cause: cause.clone() });
    let mut failed = state(0, Failed);
    failed.cause = Some(cause.clone());
    let to = te.core.job_master(JOB).unwrap();
    assert_eq!(commands[1], Command::UpdateTaskStates { job: JOB, to, updates: vec![failed] });
    let fail = Command::FailSlot { job: JOB, to, allocation: A, accepted: true, cause };
    assert_eq!(te.taken().last(), Some(&fail));
    assert_eq!(te.phase(A), Some(Phase::Failing));
    let commands = te.taken();
    assert_eq!(te.phase(A), None);
    assert!(commands.contains(&Command::ForgetJob { job: JOB }));
    assert_eq!(te.core.jobs().count(), 0);
}

#[test]
fn a_new_slot_after_the_hosts_death_launches_another() {
    let mut te = Te::running();
    let cause = FailureCause::recoverable("ProgramHostLost", "exit code 101");
    te.step(Event::HostLost { job: JOB, launch: 1, cause });
    let commands = te.core.request_slot(te.now, &request(1, B)).unwrap();
    assert_eq!(launches(&commands), [2]);
    assert_eq!(te.step(Event::HostUp { job: JOB, launch: 1 }), [], "of the former host");
    let offered = te.step(Event::HostUp { job: JOB, launch: 2 });
    assert!(
        offered.iter().any(|c| matches!(c, Command::OfferSlots { slots, .. } if slots.len() == 1))
    );
}

#[test]
fn a_host_that_cannot_be_launched_is_told_to_the_job_master_when_it_is_known() {
    let mut te = Te::allocated();
    let cause = FailureCause::fatal("NotAProgram", "not a Flott program");
    te.step(Event::HostLost { job: JOB, launch: 1, cause: cause.clone() });
    let commands = te.step(gained(1));
    let to = te.core.job_master(JOB).unwrap();
    let fail = Command::FailSlot { job: JOB, to, allocation: A, accepted: false, cause };
    assert!(commands.contains(&fail), "{commands:?}");
    assert_eq!(launches(&commands), Vec::<u64>::new());
    te.taken();
    assert_eq!(te.phase(A), None);
}

#[test]
fn a_job_that_is_lost_with_its_job_master_is_not_connected_to_the_next() {
    let mut te = Te::allocated();
    let cause = FailureCause::recoverable("ProgramHostLost", "exit code 101");
    te.step(Event::HostLost { job: JOB, launch: 1, cause });
    te.step(gained(1));
    let commands = te.step(gained(2));
    assert!(commands.contains(&Command::ForgetJob { job: JOB }));
    assert!(
        !commands.iter().any(|c| matches!(c, Command::ConnectJobMaster { .. })),
        "{commands:?}"
    );
    assert_eq!(te.core.jobs().count(), 0);
}

#[test]
fn a_slot_that_no_job_master_takes_is_freed() {
    let mut te = Te::allocated();
    assert_eq!(te.after(60_000), [], "its host is still being launched");
    te.step(Event::HostUp { job: JOB, launch: 1 });
    assert_eq!(te.after(9_999), []);
    assert_eq!(te.core.deadline(), Some(te.now + ms(1)));
    let commands = te.after(1);
    assert_eq!(te.phase(A), None);
    assert!(commands.contains(&Command::EndHost { job: JOB, launch: 1, at_once: false }));
    assert!(commands.contains(&Command::ForgetJob { job: JOB }));
}

#[test]
fn another_job_master_gets_the_slots_after_the_old_ones_tasks_are_gone() {
    let mut te = Te::running();
    let commands = te.step(gained(2));
    assert!(commands.contains(&Command::EndHost { job: JOB, launch: 1, at_once: true }));
    assert!(
        !commands
            .iter()
            .any(|c| matches!(c, Command::OfferSlots { .. } | Command::LaunchHost { .. }))
    );
    assert_eq!(te.core.job_report(JOB), (vec![], vec![]));
    assert_eq!(launches(&te.step(Event::HostEnded { job: JOB, launch: 1 })), [2]);
    let commands = te.step(Event::HostUp { job: JOB, launch: 2 });
    assert!(commands.iter().any(|c| matches!(c, Command::OfferSlots { to, .. } if to.id == jm(2))));
    assert_eq!(te.core.deploy(te.now, JOB, jm(1), &[]), Err(JobMasterRefusal::OtherJobMaster));
}

#[test]
fn a_lost_job_master_ends_its_tasks_and_the_slots_wait_for_the_next() {
    let mut te = Te::running();
    let lost =
        |n| Event::JobMasterLost { job: JOB, id: jm(n), reason: "timeout".into(), reconnect: true };
    assert_eq!(te.step(lost(2)), []);
    let commands = te.step(lost(1));
    assert!(commands.contains(&Command::EndHost { job: JOB, launch: 1, at_once: true }));
    assert_eq!(commands.last(), Some(&Command::ReconnectJob { job: JOB }));
    assert_eq!(te.phase(A), Some(Phase::Inactive));
    assert_eq!(launches(&te.step(Event::HostEnded { job: JOB, launch: 1 })), Vec::<u64>::new());
    assert_eq!(te.after(9_000), []);
    assert_eq!(launches(&te.step(gained(1))), [2]);
}

#[test]
fn tasks_that_end_because_their_job_master_is_silent_say_for_how_long_and_by_which_option() {
    let mut te = Te::running();
    let commands = te.step(Event::JobMasterSilent { job: JOB, id: jm(1) });
    let causes: Vec<_> = commands
        .iter()
        .filter_map(|command| match command {
            Command::UpdateTaskStates { updates, .. } => updates[0].cause.clone(),
            _ => None,
        })
        .collect();
    let message = "the JobMaster was not heard for 0.6 of heartbeat.timeout, so the job's tasks here were ended";
    assert_eq!(causes, [FailureCause::recoverable("Fenced", message)]);
    // The number in the message is that of the rule.
    let limits = crate::liveness::Limits::default();
    assert_eq!(limits.fence_after() * 10, limits.timeout * 6);
}

#[test]
fn a_silent_job_masters_tasks_are_killed_and_reported_when_it_is_heard_again() {
    let mut te = Te::running();
    let silent = |n| Event::JobMasterSilent { job: JOB, id: jm(n) };
    assert_eq!(te.step(silent(2)), []);
    let commands = te.step(silent(1));
    assert_eq!(commands[0], Command::EndHost { job: JOB, launch: 1, at_once: true });
    let failed = commands.iter().any(|c| {
        matches!(c, Command::UpdateTaskStates { updates, .. }
            if updates[0].state == Failed && updates[0].cause.as_ref().unwrap().kind == "Fenced")
    });
    assert!(failed, "{commands:?}");
    assert_eq!(te.step(silent(1)), [], "nothing runs any more");
    assert_eq!(
        te.step(Event::TaskStates { job: JOB, updates: vec![state(0, ExecutionState::Finished)] })
            .len(),
        1
    );
    assert_eq!(te.core.job_report(JOB).1[0].state, Failed);
}

#[test]
fn a_silent_job_master_without_tasks_costs_nothing() {
    let mut te = Te::serving();
    assert_eq!(te.step(Event::JobMasterSilent { job: JOB, id: jm(1) }), []);
}

#[test]
fn a_job_master_that_refuses_gets_no_slots() {
    let mut te = Te::allocated();
    te.step(Event::HostUp { job: JOB, launch: 1 });
    let commands = te.step(Event::JobMasterRefused { job: JOB, reason: "blocked".into() });
    assert!(commands.contains(&Command::EndHost { job: JOB, launch: 1, at_once: true }));
    assert!(commands.contains(&Command::ForgetJob { job: JOB }));
    assert_eq!(te.phase(A), None);
}

#[derive(Debug, Clone)]
enum Op {
    Core(Event),
    Request(SlotRequest),
    Free(u64, AllocationId),
    Deploy(u64, u32, AllocationId),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let allocation = || (10u128..14).prop_map(AllocationId);
    let job = || (1u128..3).prop_map(JobId);
    let launch = || 1u64..8;
    let cause = FailureCause::recoverable("x", "y");
    let states = (0u32..3, 0usize..9).prop_map(|(n, s)| vec![state(n, ExecutionState::ALL[s])]);
    let core = prop_oneof![
        proptest::option::of(1u64..3).prop_map(|n| Event::ResourceManager(n.map(rm))),
        (1u64..3, any::<bool>()).prop_map(|(n, ok)| match ok {
            true => Event::RegistrationAccepted { by: rm(n), instance: InstanceId(1) },
            false => Event::RegistrationFailed { at: rm(n), reason: String::new() },
        }),
        (1u64..3).prop_map(|n| Event::ResourceManagerLost { id: rm(n), reason: String::new() }),
        (job(), 1u64..3).prop_map(|(job, n)| Event::JobMasterGained {
            job,
            id: jm(n),
            instance: InstanceId(1)
        }),
        (job(), 1u64..3, any::<bool>()).prop_map(|(job, n, reconnect)| Event::JobMasterLost {
            job,
            id: jm(n),
            reason: String::new(),
            reconnect
        }),
        (job(), 1u64..3).prop_map(|(job, n)| Event::JobMasterSilent { job, id: jm(n) }),
        job().prop_map(|job| Event::JobMasterRefused { job, reason: String::new() }),
        (job(), launch()).prop_map(|(job, launch)| Event::HostUp { job, launch }),
        (job(), launch()).prop_map(|(job, launch)| Event::HostEnded { job, launch }),
        (job(), launch()).prop_map(move |(job, launch)| Event::HostLost {
            job,
            launch,
            cause: cause.clone()
        }),
        (job(), launch(), proptest::collection::vec(allocation(), 0..3)).prop_map(
            |(job, connection, accepted)| Event::OffersAnswered { job, connection, accepted }
        ),
        (job(), launch()).prop_map(|(job, connection)| Event::OffersFailed { job, connection }),
        (job(), launch()).prop_map(|(job, connection)| Event::ReportsTaken {
            job,
            connection,
            unknown: vec![]
        }),
        (job(), launch()).prop_map(|(job, connection)| Event::ReportsFailed { job, connection }),
        (job(), states).prop_map(|(job, updates)| Event::TaskStates { job, updates }),
    ];
    let request =
        (1u64..3, 0u32..2, job(), allocation()).prop_map(|(by, index, job, allocation)| {
            SlotRequest { by: rm(by), job, ..request(index, allocation) }
        });
    prop_oneof![
        6 => core.prop_map(Op::Core),
        3 => request.prop_map(Op::Request),
        1 => (1u64..3, allocation()).prop_map(|(n, a)| Op::Free(n, a)),
        2 => (1u64..3, 0u32..3, allocation()).prop_map(|(n, t, a)| Op::Deploy(n, t, a)),
        1 => (0u64..30_000).prop_map(Op::Wait),
    ]
}

/// The observations that the world around a TaskExecutor has made.
#[derive(Default)]
struct World {
    hosts: BTreeSet<(JobId, u64)>,
    connected: BTreeSet<JobId>,
}

impl World {
    fn see(&mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            match command {
                Command::LaunchHost { job, launch, .. } => {
                    let other = self.hosts.iter().any(|(j, _)| j == job);
                    prop_assert!(!other, "two hosts of job {} at once", job);
                    self.hosts.insert((*job, *launch));
                }
                Command::EndHost { job, launch, .. } => {
                    prop_assert!(self.hosts.contains(&(*job, *launch)));
                }
                Command::ConnectJobMaster { job, .. } => prop_assert!(self.connected.insert(*job)),
                Command::DropJobMaster { job, .. } => prop_assert!(self.connected.remove(job)),
                Command::OfferSlots { job, .. }
                | Command::UpdateTaskStates { job, .. }
                | Command::FailSlot { job, .. } => {
                    prop_assert!(self.connected.contains(job), "a call to nobody");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever happens in whatever order: one host of a job at a time, calls only to the connected
    /// JobMaster, tasks only while one is connected, and never a deadline that has passed.
    #[test]
    fn the_rules_hold_in_every_order(ops in proptest::collection::vec(op(), 0..120)) {
        let mut te = Te::registered();
        let mut world = World::default();
        for op in ops {
            let before: BTreeSet<AllocationId> = te.core.slots.held().map(|h| h.allocation).collect();
            let commands = match op {
                Op::Core(event) => {
                    match &event {
                        Event::HostLost { job, launch, .. } | Event::HostEnded { job, launch } => {
                            // Only a host that was launched can end.
                            if !world.hosts.remove(&(*job, *launch)) {
                                continue;
                            }
                            if matches!(event, Event::HostEnded { .. })
                                && te.core.jobs.get(job).is_some_and(|j| j.host == (crate::job_table::Host::Up { launch: *launch })
                                    || j.host == (crate::job_table::Host::Launching { launch: *launch }))
                            {
                                world.hosts.insert((*job, *launch));
                                continue;
                            }
                        }
                        _ => {}
                    }
                    te.step(event)
                }
                Op::Request(request) => te.core.request_slot(te.now, &request).unwrap_or_default(),
                Op::Free(by, allocation) => te.core.free_slot(te.now, jm(by), allocation).unwrap_or_default(),
                Op::Deploy(by, task, allocation) => {
                    let held = te.core.slots.get(allocation);
                    let job = held.map_or(JOB, |held| held.job);
                    match te.core.deploy(te.now, job, jm(by), &[(attempt(task), allocation)]) {
                        Ok(deployment) => deployment.commands,
                        Err(_) => vec![],
                    }
                }
                Op::Wait(wait) => {
                    let commands = te.after(wait);
                    prop_assert!(te.core.deadline().is_none_or(|at| at > te.now), "a deadline was left behind");
                    commands
                }
            };
            world.see(&commands)?;
            let after: BTreeSet<AllocationId> = te.core.slots.held().map(|h| h.allocation).collect();
            if let Some((id, instance)) = te.core.registered_at() {
                for freed in before.difference(&after) {
                    let told = commands.iter().any(|c| matches!(c, Command::NotifySlotAvailable { id: i, instance: n, allocation, .. }
                        if (*i, *n, allocation) == (id, instance, freed)));
                    prop_assert!(told, "a freed slot was kept secret");
                }
            }
            for job in [JobId(1), JobId(2)] {
                let (accepted, tasks) = te.core.job_report(job);
                let connected = te.core.job_master(job).is_some();
                prop_assert_eq!(connected, world.connected.contains(&job));
                prop_assert!(connected || (accepted.is_empty() && tasks.is_empty()), "tasks without a JobMaster");
                let running = te.core.jobs.get(&job).is_some_and(|j| j.running().next().is_some());
                let up = te.core.jobs.get(&job).is_some_and(|j| j.host_up().is_some());
                prop_assert!(up || !running, "tasks without a host");
            }
        }
    }
}
