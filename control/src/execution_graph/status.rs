//! The job status machine: which job state may follow which, and when each was entered. It must never
//! leave a globally terminal state.

use model::JobStatus;
use std::collections::BTreeMap;
use thiserror::Error;

/// The error of [`StatusMachine::advance`], its only source, that a change of a job's state is not allowed: out of FINISHED, CANCELED,
/// FAILED or SUSPENDED, into the state that the job is in, or against the order (such as FAILING to CANCELLING). Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a job can't go from {from} to {to}")]
pub struct IllegalTransition {
    /// The state that the job is in.
    pub from: JobStatus,
    /// The state that it was to enter.
    pub to: JobStatus,
}

/// A job's state, and when it last entered each state, in Unix milliseconds. Only `advance` changes the state: a change that is
/// not allowed, such as from RESTARTING to FINISHED, is refused with `IllegalTransition` and changes nothing. FINISHED,
/// CANCELED, FAILED and SUSPENDED are never left.
#[derive(Debug, Clone)]
pub struct StatusMachine {
    current: JobStatus,
    entered: BTreeMap<JobStatus, u64>,
}

impl StatusMachine {
    /// Starts in state CREATED, entered at `now_ms`, after INITIALIZING, entered at `initialized_ms` (both Unix milliseconds).
    pub fn new(initialized_ms: u64, now_ms: u64) -> Self {
        let entered = BTreeMap::from([
            (JobStatus::Initializing, initialized_ms),
            (JobStatus::Created, now_ms),
        ]);
        Self { current: JobStatus::Created, entered }
    }

    /// Returns the state that the job is in.
    pub fn current(&self) -> JobStatus {
        self.current
    }

    /// Returns the time of the latest entry into each state, in Unix milliseconds; states that were never entered are missing.
    pub fn entered(&self) -> &BTreeMap<JobStatus, u64> {
        &self.entered
    }

    /// Returns true if the job may change from its current state to `to`, so that [`StatusMachine::advance`] would succeed. False for the
    /// current state itself; nothing changes.
    pub fn may(&self, to: JobStatus) -> bool {
        follows(self.current, to)
    }

    /// Changes the state to `to` and records the time (Unix milliseconds).
    ///
    /// # Errors
    /// Returns [`IllegalTransition`] if `to` may not follow the current state; nothing has changed then.
    pub fn advance(&mut self, to: JobStatus, now_ms: u64) -> Result<(), IllegalTransition> {
        if !self.may(to) {
            return Err(IllegalTransition { from: self.current, to });
        }
        self.current = to;
        self.entered.insert(to, now_ms);
        Ok(())
    }
}

fn follows(from: JobStatus, to: JobStatus) -> bool {
    use JobStatus as S;
    match from {
        S::Initializing => matches!(to, S::Created | S::Failed | S::Canceled | S::Suspended),
        S::Created => {
            matches!(to, S::Running | S::Failing | S::Cancelling | S::Suspended | S::Reconciling)
        }
        S::Reconciling => matches!(to, S::Running | S::Failing | S::Cancelling | S::Suspended),
        S::Running => {
            matches!(to, S::Restarting | S::Failing | S::Cancelling | S::Finished | S::Suspended)
        }
        S::Restarting => matches!(to, S::Running | S::Failing | S::Cancelling | S::Suspended),
        // A job that is failing can be cancelled no more: its own failure is what people must see.
        S::Failing => matches!(to, S::Failed | S::Suspended),
        S::Cancelling => matches!(to, S::Canceled | S::Suspended),
        S::Failed | S::Canceled | S::Finished | S::Suspended => false,
    }
}
