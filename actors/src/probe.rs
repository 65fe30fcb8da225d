//! Facts that an observer may want to see as they happen: the simulation's invariants are checked
//! on them.
//!
//! A probe only watches. In production it is [`NoProbe`], and noting a fact costs one call that does nothing. The module is
//! part of every build and behind no feature: actors note facts in the middle of their turns, and with a feature the
//! simulation would check another program than the one that is shipped.

use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Call, CallError, FabricError};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, InstanceId, JobId, JobStatus, LeaderSession,
    ResourceId, SlotId,
};
use std::fmt;

/// Something that has just happened in an actor of the control plane, for the simulation and tests to check. The actor
/// gives it to the process's [`Probe`]; in production nothing happens with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A contender (component that stands for leadership) is granted leadership; noted by the election, and for a
    /// JobMaster by its job's runner.
    LeadershipGranted {
        /// Component that the leadership belongs to.
        component: Component,
        /// Session that is granted; new each time.
        session: LeaderSession,
    },
    /// A contender's leadership is revoked, which orders it to stop what runs under the session; noted by the election,
    /// and for a JobMaster by its job's runner. Of a JobMaster that has died of a panic, [`Fact::LeadershipEnded`] comes before.
    LeadershipRevoked {
        /// Component that the leadership belongs to.
        component: Component,
        /// Session that is revoked.
        session: LeaderSession,
    },
    /// Everything that a contender had started under a session has ended after its revocation, or because a JobMaster died of a panic, so
    /// that the next leader may be granted; noted by the election, and for a JobMaster by its job's runner. Not noted by the election for a
    /// contender that withdrew while it led.
    LeadershipEnded {
        /// Component that the leadership belongs to.
        component: Component,
        /// Session of which nothing is left.
        session: LeaderSession,
    },
    /// The endpoint of a leading component is served under a granted session: it answers from now on. Noted at the
    /// leader's start, before its leadership is confirmed and its address is published.
    ComponentAnswers {
        /// Component that answers.
        component: Component,
        /// Session under which the component is served.
        session: LeaderSession,
    },
    /// A leader's address is published after the leader has answered; from now on the leader retrieval gives it out (a JobMaster's only
    /// while its Dispatcher is published). Noted by the election, and for a JobMaster by its job's runner, again if the leader confirms
    /// once more.
    LeaderPublished {
        /// Component that the leadership belongs to.
        component: Component,
        /// Address and session of the leader.
        leader: LeaderInformation,
    },
    /// A SlotManager sends a TaskExecutor the request to give one of its slots to a job; the answer is a
    /// [`Fact::SlotAnswered`].
    SlotRequested {
        /// The SlotManager's session.
        session: LeaderSession,
        /// The TaskExecutor's incarnation.
        instance_id: InstanceId,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// Job that the slot is requested for.
        job_id: JobId,
        /// Id of the slot's allocation to the job.
        allocation_id: AllocationId,
    },
    /// The outcome of a slot request is known to the SlotManager, which notes it: the TaskExecutor has given the slot, has refused, or
    /// has not answered.
    SlotAnswered {
        /// The SlotManager's session.
        session: LeaderSession,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// The allocation that was asked for.
        allocation_id: AllocationId,
        /// True if the TaskExecutor gave the slot; false if it refused or did not answer.
        granted: bool,
    },
    /// A SlotManager learns from the ResourceManager that a TaskExecutor has freed a slot: the slot's allocation to a
    /// job has ended. Noted for each such message, also for one about a former allocation of the slot.
    SlotFreed {
        /// The SlotManager's session.
        session: LeaderSession,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// Id of the slot's allocation to the job.
        allocation_id: AllocationId,
    },
    /// A TaskExecutor has given one of its slots to a job's allocation, or has freed it; noted by the TaskExecutor.
    SlotAllocation {
        /// The TaskExecutor's process session.
        session: LeaderSession,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// Job and allocation that have the slot now; `None` if it is free.
        allocation: Option<(JobId, AllocationId)>,
    },
    /// A job's JobMaster has declared how many slots the job needs, and the ResourceManager has accepted the
    /// declaration.
    SlotsDeclared {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Job that the fact is about.
        job_id: JobId,
        /// The JobMaster that declared.
        job_master: LeaderSession,
        /// Number of slots that are declared in all.
        slots: u32,
    },
    /// The ResourceManager requests one worker (TaskManager) from the driver of the external resource system, which has not answered
    /// yet.
    WorkerRequested {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Number of the request for a worker.
        request: u64,
        /// Number of slots of the worker.
        slots: u32,
    },
    /// A request for a worker is no longer open at the ResourceManager: it was cancelled, has failed, or its worker has
    /// registered or gone.
    WorkerRequestEnded {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Number of the request for a worker.
        request: u64,
    },
    /// A ResourceManager has accepted the registration of a TaskExecutor.
    TaskManagerRegistered {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
        /// New incarnation of the TaskExecutor.
        instance_id: InstanceId,
    },
    /// A ResourceManager has removed a registered TaskExecutor, because it was lost, has left, was released, or has registered again.
    /// Not noted when the ResourceManager itself ends, nor when it releases all at the end of an application without an external system.
    TaskManagerLost {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
        /// Incarnation of the TaskExecutor.
        instance_id: InstanceId,
    },
    /// A TaskExecutor or JobMaster has been registered at the leader of another component (ResourceManager; of a TaskExecutor also a
    /// JobMaster) and obeys its commands from now on.
    LeaderFollowed {
        /// Name of the endpoint of the component that follows.
        by: String,
        /// Leader that the component follows now.
        leader: Component,
        /// Session of that leader.
        session: LeaderSession,
    },
    /// A TaskExecutor or JobMaster stops obeying a leader, because the leader was lost, another one is followed, or this one is not needed
    /// any more (a TaskExecutor without slots for the job, a JobMaster that ends).
    LeaderLeft {
        /// Name of the endpoint of the component that followed.
        by: String,
        /// Component whose leader is meant.
        leader: Component,
        /// Session of that leader.
        session: LeaderSession,
    },
    /// A TaskExecutor or JobMaster executes a command that came from the leader that it follows; a command of any other session is not
    /// noted.
    LeaderObeyed {
        /// Name of the endpoint of the component that executed it.
        by: String,
        /// Leader that gave the command.
        leader: Component,
        /// Session of that leader.
        session: LeaderSession,
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
    },
    /// A call was answered with the error [`FabricError::Fenced`]: its endpoint is served under another session than
    /// the caller named. The callee changed nothing. Noted by TaskManagers (registrations, slot reports, calls to JobMasters) and by the
    /// SlotManager (slot requests); other callers note none.
    CallFenced {
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
        /// Session that the call was meant for.
        yours: LeaderSession,
        /// Session of the endpoint that received it.
        current: LeaderSession,
    },
    /// A JobMaster records a new state of an execution attempt (one try of a subtask). Noted only if
    /// [`Probe::watches_tasks`] is true.
    TaskState {
        /// The JobMaster's session.
        session: LeaderSession,
        /// Job that the fact is about.
        job_id: JobId,
        /// Execution attempt that the fact is about.
        attempt: ExecutionAttemptId,
        /// The attempt's new state.
        state: ExecutionState,
    },
    /// A JobMaster's job has a new state; noted by the JobMaster.
    JobStatusChanged {
        /// The JobMaster's session.
        session: LeaderSession,
        /// Job that the fact is about.
        job_id: JobId,
        /// The job's new state.
        status: JobStatus,
        /// [`model::FailureCause::kind`] of the job's newest failure; `None` if there was none.
        cause: Option<String>,
    },
    /// A call came from a session that is not that of the current leader and was refused, or had no effect. Noted by the
    /// component that was called, if it is a TaskExecutor, a ResourceManager or the election.
    StaleCallerRefused {
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
        /// Session that the caller claimed.
        caller: LeaderSession,
    },
}

impl Fact {
    /// Returns [`Fact::CallFenced`] if the call `C` failed because its endpoint is in another session; otherwise `None`.
    /// Notes nothing itself: the caller gives the fact to its probe.
    pub fn fenced<C: Call>(error: &CallError<C::Error>) -> Option<Self> {
        match error.fabric() {
            Some(FabricError::Fenced { yours, current }) => {
                Some(Self::CallFenced { call: C::NAME, yours: *yours, current: *current })
            }
            _ => None,
        }
    }
}

/// An observer of the control plane's facts, for the simulation and tests: each actor calls [`Probe::note`] as
/// something happens. It must never change what happens.
pub trait Probe: Send + Sync + fmt::Debug {
    /// Receives a fact, on the thread where it happened and as part of the actor's turn, so it must return quickly. The
    /// facts of one thread come in the order in which they happen.
    fn note(&self, fact: Fact);
    /// Returns true if the probe wants [`Fact::TaskState`], which is not noted otherwise; false by default. Each
    /// JobMaster asks once, at its start.
    fn watches_tasks(&self) -> bool {
        false
    }
}

/// A [`Probe`] that ignores all facts; every process outside of the simulation and tests has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn note(&self, _: Fact) {}
}
