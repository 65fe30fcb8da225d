//! Facts that an observer may want to see as they happen: the simulation's invariants are checked on them.
//!
//! A probe only watches. In production nobody does, and noting a fact costs one call that does nothing.

use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Call, CallError, FabricError};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, InstanceId, JobId, JobStatus, LeaderSession,
    ResourceId, SlotId,
};
use std::fmt;

/// Something that has just happened in an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A contender is told that it leads.
    LeadershipGranted {
        /// Who.
        component: Component,
        /// Under which session.
        session: LeaderSession,
    },
    /// A contender is told that it leads no more.
    LeadershipRevoked {
        /// Who.
        component: Component,
        /// Which session.
        session: LeaderSession,
    },
    /// What a contender had started under a session has ended.
    LeadershipEnded {
        /// Who.
        component: Component,
        /// Which session.
        session: LeaderSession,
    },
    /// The endpoint of a component is served under a session: it answers from now on. Noted before the
    /// leadership is confirmed.
    ComponentAnswers {
        /// Who.
        component: Component,
        /// Under which session.
        session: LeaderSession,
    },
    /// A leader's address is made known.
    LeaderPublished {
        /// Who.
        component: Component,
        /// Where, under which session.
        leader: LeaderInformation,
    },
    /// A SlotManager asks a TaskExecutor to give a slot to a job.
    SlotRequested {
        /// The SlotManager's session.
        session: LeaderSession,
        /// The TaskExecutor's incarnation.
        instance_id: InstanceId,
        /// The slot.
        slot_id: SlotId,
        /// For whom.
        job_id: JobId,
        /// The allocation.
        allocation_id: AllocationId,
    },
    /// The TaskExecutor's answer to a slot request, or what became of it, is known.
    SlotAnswered {
        /// The SlotManager's session.
        session: LeaderSession,
        /// The slot.
        slot_id: SlotId,
        /// The allocation that was asked for.
        allocation_id: AllocationId,
        /// Whether it was given.
        granted: bool,
    },
    /// A SlotManager heard from the TaskExecutor that an allocation has ended.
    SlotFreed {
        /// The SlotManager's session.
        session: LeaderSession,
        /// The slot.
        slot_id: SlotId,
        /// The allocation.
        allocation_id: AllocationId,
    },
    /// A slot's allocation changed at its TaskExecutor.
    SlotAllocation {
        /// The TaskExecutor's process session.
        session: LeaderSession,
        /// The slot.
        slot_id: SlotId,
        /// Whom it is given to now.
        allocation: Option<(JobId, AllocationId)>,
    },
    /// A job declared what it needs, and was believed.
    SlotsDeclared {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// The job.
        job_id: JobId,
        /// The JobMaster that declared.
        job_master: LeaderSession,
        /// Slots in all.
        slots: u32,
    },
    /// A worker was asked from the external resource system.
    WorkerRequested {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// The request.
        request: u64,
        /// Slots that it is to have.
        slots: u32,
    },
    /// A request for a worker was taken back, has failed, or its worker has registered or gone.
    WorkerRequestEnded {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// The request.
        request: u64,
    },
    /// A TaskExecutor was registered at a ResourceManager.
    WorkerRegistered {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// The process.
        resource_id: ResourceId,
        /// Its new incarnation.
        instance_id: InstanceId,
    },
    /// A TaskExecutor is not registered any more.
    WorkerLost {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// The process.
        resource_id: ResourceId,
        /// Its incarnation.
        instance_id: InstanceId,
    },
    /// A component takes a leader for the one that it obeys from now on.
    LeaderFollowed {
        /// The endpoint of the one that follows.
        by: String,
        /// Whom it follows.
        leader: Component,
        /// In which session.
        session: LeaderSession,
    },
    /// A component obeys a leader no more.
    LeaderLeft {
        /// The endpoint of the one that followed.
        by: String,
        /// Whom.
        leader: Component,
        /// In which session.
        session: LeaderSession,
    },
    /// A component did what a leader told it.
    LeaderObeyed {
        /// The endpoint of the one that did it.
        by: String,
        /// Who told it.
        leader: Component,
        /// In which session.
        session: LeaderSession,
        /// Which call.
        call: &'static str,
    },
    /// A call was answered `Fenced`: its endpoint is in another session than the caller meant. Noted by the
    /// caller; nothing changed.
    CallFenced {
        /// Which call.
        call: &'static str,
        /// Whom it was meant for.
        yours: LeaderSession,
        /// Who is there.
        current: LeaderSession,
    },
    /// A JobMaster records a new state of an attempt.
    TaskState {
        /// The JobMaster's session.
        session: LeaderSession,
        /// The job.
        job_id: JobId,
        /// The attempt.
        attempt: ExecutionAttemptId,
        /// The attempt's new state.
        state: ExecutionState,
    },
    /// A JobMaster's job has a new state.
    JobStatusChanged {
        /// The JobMaster's session.
        session: LeaderSession,
        /// The job.
        job_id: JobId,
        /// The job's new state.
        status: JobStatus,
        /// [`model::FailureCause::kind`] of the job's newest failure; `None` if there was none.
        cause: Option<String>,
    },
    /// A call came from a session that is not the current one and was refused; nothing changed.
    StaleCallerRefused {
        /// Which call.
        call: &'static str,
        /// Who called.
        caller: LeaderSession,
    },
}

impl Fact {
    /// The fact that a call was fenced, if that is what became of it.
    pub fn fenced<C: Call>(error: &CallError<C::Error>) -> Option<Self> {
        match error.fabric() {
            Some(FabricError::Fenced { yours, current }) => {
                Some(Self::CallFenced { call: C::NAME, yours: *yours, current: *current })
            }
            _ => None,
        }
    }
}

/// Watches facts.
pub trait Probe: Send + Sync + fmt::Debug {
    /// A fact, in the order in which facts of one thread happen.
    fn note(&self, fact: Fact);
    /// Returns true if the probe wants [`Fact::TaskState`]. Each JobMaster asks once.
    fn watches_tasks(&self) -> bool {
        false
    }
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn note(&self, _: Fact) {}
}
