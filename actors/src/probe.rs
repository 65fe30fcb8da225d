//! Facts that an observer may want to see as they happen: the simulation's invariants are checked
//! on them.
//!
//! A probe only watches. In production there is none, and noting a fact costs one call that does
//! nothing.

use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Call, CallError, FabricError};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, InstanceId, JobId, JobStatus, LeaderSession,
    ResourceId, SlotId,
};
use std::fmt;

/// Something that has just happened in an actor of the control plane, for the simulation and tests to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A contender is granted leadership.
    LeadershipGranted {
        /// Component that the leadership belongs to.
        component: Component,
        /// Session that is granted; new with each grant.
        session: LeaderSession,
    },
    /// A contender's leadership is revoked.
    LeadershipRevoked {
        /// Component that the leadership belongs to.
        component: Component,
        /// Session that is revoked.
        session: LeaderSession,
    },
    /// Everything that a contender had started under a session has ended.
    LeadershipEnded {
        /// Component that the leadership belongs to.
        component: Component,
        /// Session of which nothing is left.
        session: LeaderSession,
    },
    /// The endpoint of a component is served under a session: it answers from now on. Noted before the
    /// leadership is confirmed.
    ComponentAnswers {
        /// Component that answers.
        component: Component,
        /// Session under which the component is served.
        session: LeaderSession,
    },
    /// A leader's address is made known.
    LeaderPublished {
        /// Component that the leadership belongs to.
        component: Component,
        /// Address and session of the leader.
        leader: LeaderInformation,
    },
    /// A SlotManager asks a TaskExecutor to give a slot to a job.
    SlotRequested {
        /// The SlotManager's session.
        session: LeaderSession,
        /// The TaskExecutor's incarnation.
        instance_id: InstanceId,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// Job that the slot is requested for.
        job_id: JobId,
        /// Allocation of the slot concerned.
        allocation_id: AllocationId,
    },
    /// The TaskExecutor's answer to a slot request, or what became of it, is known.
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
    /// A SlotManager heard from the TaskExecutor that an allocation has ended.
    SlotFreed {
        /// The SlotManager's session.
        session: LeaderSession,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// Allocation of the slot concerned.
        allocation_id: AllocationId,
    },
    /// A slot's allocation changed at its TaskExecutor.
    SlotAllocation {
        /// The TaskExecutor's process session.
        session: LeaderSession,
        /// Slot that the fact is about.
        slot_id: SlotId,
        /// Job and allocation that have the slot now; `None` if it is free.
        allocation: Option<(JobId, AllocationId)>,
    },
    /// A job declared its requirements, and the ResourceManager accepted them.
    SlotsDeclared {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Job that the message concerns.
        job_id: JobId,
        /// The JobMaster that declared.
        job_master: LeaderSession,
        /// Number of slots that are declared in all.
        slots: u32,
    },
    /// A worker was asked from the external resource system.
    WorkerRequested {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Number of the request for a worker.
        request: u64,
        /// Number of slots of the worker.
        slots: u32,
    },
    /// A request for a worker was taken back, has failed, or its worker has registered or gone.
    WorkerRequestEnded {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Number of the request for a worker.
        request: u64,
    },
    /// A TaskExecutor was registered at a ResourceManager.
    WorkerRegistered {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
        /// New incarnation of the TaskExecutor.
        instance_id: InstanceId,
    },
    /// A TaskExecutor is not registered any more.
    WorkerLost {
        /// The ResourceManager's session.
        session: LeaderSession,
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
        /// Incarnation of the TaskExecutor.
        instance_id: InstanceId,
    },
    /// A component accepts a leader and obeys it from now on.
    LeaderFollowed {
        /// Name of the endpoint of the component that follows.
        by: String,
        /// Leader that the component follows now.
        leader: Component,
        /// Session of that leader.
        session: LeaderSession,
    },
    /// A component stops obeying a leader, because it was lost or another one is followed.
    LeaderLeft {
        /// Name of the endpoint of the component that followed.
        by: String,
        /// Component whose leader is meant.
        leader: Component,
        /// Session of that leader.
        session: LeaderSession,
    },
    /// A component executed the command of a leader.
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
    /// A call was answered `Fenced`: its endpoint is in another session than the caller meant. Noted by the
    /// caller; nothing changed.
    CallFenced {
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
        /// Session that the call was meant for.
        yours: LeaderSession,
        /// Session of the endpoint that received it.
        current: LeaderSession,
    },
    /// A JobMaster records a new state of an attempt.
    TaskState {
        /// The JobMaster's session.
        session: LeaderSession,
        /// Job that the message concerns.
        job_id: JobId,
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
        /// The attempt's new state.
        state: ExecutionState,
    },
    /// A JobMaster's job has a new state; noted by the JobMaster.
    JobStatusChanged {
        /// The JobMaster's session.
        session: LeaderSession,
        /// Job that the message concerns.
        job_id: JobId,
        /// The job's new state.
        status: JobStatus,
        /// [`model::FailureCause::kind`] of the job's newest failure; `None` if there was none.
        cause: Option<String>,
    },
    /// A call came from a session that is not the current one and was refused; nothing changed.
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

/// Watches facts of the control plane, in the simulation and in tests. It must never change what happens.
pub trait Probe: Send + Sync + fmt::Debug {
    /// Notes a fact, on the thread where it happened. Facts of one thread come in the order in which they happen.
    fn note(&self, fact: Fact);
    /// Returns true if the probe wants [`Fact::TaskState`], which is not noted otherwise; false by default. Each
    /// JobMaster asks once, at its start.
    fn watches_tasks(&self) -> bool {
        false
    }
}

/// A probe that ignores all facts; every process outside of the simulation and tests has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn note(&self, _: Fact) {}
}
