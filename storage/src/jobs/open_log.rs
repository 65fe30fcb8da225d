//! The log of one running job, to which two components append: the JobMaster its checkpoints, the Dispatcher the job's result.
//! Appends are made one after another, so both always know the position of the next record.
//!
//! A JobMaster that died of a panic may leave an append under way. Its successor first calls [`OpenJobLog::lead`], which waits for
//! that append and returns the checkpoint that counts; later appends of the predecessor are refused. Otherwise the successor could
//! restore from checkpoint 4 while checkpoint 5 of its predecessor becomes the newest one in the log.

use super::log::{AppendError, JobLogs, LogEnd};
use super::record::{JobFact, Writer};
use futures::lock::Mutex;
use model::{CheckpointPointer, LeaderSession};
use std::{collections::BTreeSet, sync::Arc};

/// The log of a running job, opened for appends by the Dispatcher that owns it and shared with the job's JobMasters, so that both know the
/// position of the next record; appends wait for one another. JobMasters record checkpoints (only the one that has called `lead` last), the
/// Dispatcher records the result. Clones share the position.
#[derive(Clone, derive_more::Debug)]
#[debug("OpenJobLog({}, {})", self.0.opened.job, self.0.opened.log)]
pub struct OpenJobLog(Arc<Shared>);

struct Shared {
    logs: JobLogs,
    writer: Writer,
    /// The position at which the log was opened; its job and log never change.
    opened: LogEnd,
    state: Mutex<State>,
}

struct State {
    end: LogEnd,
    /// The JobMaster that may append.
    master: Option<LeaderSession>,
    /// The checkpoints in the log with the numbers of their records, the newest last.
    checkpoints: Vec<(u64, CheckpointPointer)>,
    /// True if the job's last fact is in the log.
    ended: bool,
}

impl OpenJobLog {
    /// Opens the log that ends at `end` for appends by `writer`, the Dispatcher; reads and writes nothing. `checkpoints` are those in the
    /// log with the numbers of their records, the newest last, as in [`TakenOver`](super::TakenOver). Appends of a JobMaster are refused
    /// before it calls [`OpenJobLog::lead`].
    pub fn new(
        logs: JobLogs,
        writer: Writer,
        end: LogEnd,
        checkpoints: Vec<(u64, CheckpointPointer)>,
    ) -> Self {
        let state = Mutex::new(State { end, master: None, checkpoints, ended: false });
        Self(Arc::new(Shared { logs, writer, opened: end, state }))
    }

    /// Returns the position at which the log was opened, which names the job and the log; it does not move with appends.
    pub fn opened(&self) -> LogEnd {
        self.0.opened
    }

    /// Returns the logs of all jobs, to which this one belongs.
    pub fn logs(&self) -> &JobLogs {
        &self.0.logs
    }

    /// Waits for an append that is under way, then lets the JobMaster with the session `master` record checkpoints, and no longer an
    /// earlier one. Each JobMaster calls this once, before it reads its checkpoint. Writes nothing: the log does not name the JobMaster.
    /// Returns the newest complete checkpoint in the log; `None` if there is none.
    pub async fn lead(&self, master: LeaderSession) -> Option<CheckpointPointer> {
        let mut state = self.0.state.lock().await;
        state.master = Some(master);
        state.checkpoints.last().map(|(_, pointer)| pointer.clone())
    }

    /// Waits for an append that is under way, then returns the pointers to the complete checkpoints in the log, the newest last.
    pub async fn checkpoints(&self) -> Vec<CheckpointPointer> {
        let state = self.0.state.lock().await;
        state.checkpoints.iter().map(|(_, pointer)| pointer.clone()).collect()
    }

    /// Records a complete checkpoint for the JobMaster `master`, and then deletes the records of earlier ones whose checkpoint
    /// numbers are not in `keep`; a failed deletion is only logged. After a store error of the append the record may exist or not: the
    /// caller must repeat the call.
    ///
    /// # Errors
    /// Returns [`AppendError::Superseded`] if another JobMaster or another leader owns the log, or [`OpenJobLog::append_last`] was called
    /// before; see [`JobLogs::append`] for others.
    pub async fn record_checkpoint(
        &self,
        master: LeaderSession,
        pointer: CheckpointPointer,
        keep: &BTreeSet<u64>,
    ) -> Result<(), AppendError> {
        let mut state = self.0.state.lock().await;
        if state.master != Some(master) {
            return Err(AppendError::Superseded { job: state.end.job, by: None });
        }
        let (number, fact) = (state.end.number(), JobFact::Checkpoint(pointer.clone()));
        state.end = self.append(state.end, fact).await?;
        let all = std::mem::take(&mut state.checkpoints);
        let (kept, old): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, old)| keep.contains(&old.checkpoint));
        state.checkpoints = kept;
        state.checkpoints.push((number, pointer));
        for (old, _) in old {
            // If this fails, the record stays and is ignored, because a newer one follows.
            if let Err(error) = self.0.logs.delete_record(state.end, old).await {
                tracing::debug!(%error, "the record of an old checkpoint stays");
            }
        }
        Ok(())
    }

    /// Appends the job's last fact, its result, after every append that is under way, and returns the position after it. Appends of
    /// JobMasters are refused from then on, also if this call fails (after a failure until one calls [`OpenJobLog::lead`] again). After a
    /// store error the caller repeats the call with the same fact: it succeeds if the record is there from an earlier try. Another fact is
    /// refused as superseded then.
    ///
    /// # Errors
    /// Returns the errors of [`JobLogs::append`]; [`AppendError::Superseded`] also if a [`OpenJobLog::record_checkpoint`] that
    /// failed with a store error has written its record after all.
    pub async fn append_last(&self, fact: JobFact) -> Result<LogEnd, AppendError> {
        let mut state = self.0.state.lock().await;
        state.master = None;
        // The position stays: the caller repeats the same append after a store error.
        let end = self.append(state.end, fact).await?;
        state.ended = true;
        Ok(end)
    }

    /// Waits for an append that is under way, then returns true if [`OpenJobLog::append_last`] has succeeded: nobody runs the job again.
    pub async fn has_ended(&self) -> bool {
        self.0.state.lock().await.ended
    }

    async fn append(&self, end: LogEnd, fact: JobFact) -> Result<LogEnd, AppendError> {
        self.0.logs.clone().append(end, fact, self.0.writer.clone()).await
    }
}
