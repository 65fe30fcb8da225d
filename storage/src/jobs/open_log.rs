//! The log of one running job, to which two components append: the JobMaster its checkpoints and their numbers, the Dispatcher the job's
//! result. Appends are made one after another, so both always know the position of the next record.
//!
//! A JobMaster that died of a panic may leave an append under way. Its successor first calls [`OpenJobLog::lead`], which waits for
//! that append and returns the checkpoint that counts; later appends of the predecessor are refused. Otherwise the successor could
//! restore from checkpoint 4 while checkpoint 5 of its predecessor becomes the newest one in the log.
//!
//! An append that has failed, or that nobody waits for any more, may have written its record all the same. Before anything else is
//! appended that append is repeated: its record would otherwise be taken for that of another leader.

use super::log::{AppendError, JobLogs, LogEnd};
use super::record::{JobFact, Writer};
use super::replay::CheckpointRecords;
use futures::lock::Mutex;
use model::{CheckpointPointer, LeaderSession};
use std::{collections::BTreeSet, sync::Arc};

/// The log of a running job, opened for appends by the Dispatcher that owns it and shared with the job's JobMasters, so that both know the
/// position of the next record; appends wait for one another. JobMasters record checkpoints and their numbers (only the one that has called
/// `lead` last), the Dispatcher records the result. Clones share the position.
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
    checkpoints: CheckpointRecords,
    /// The fact whose append has no outcome yet: its record may be at `end`.
    unsettled: Option<JobFact>,
    /// True if the job's last fact is in the log.
    ended: bool,
}

impl OpenJobLog {
    /// Opens the log that ends at `end` for appends by `writer`, the Dispatcher; reads and writes nothing. `checkpoints` are the records
    /// about checkpoints in it, as in [`TakenOver`](super::TakenOver); none for a new log. Appends of a JobMaster are refused before it
    /// calls [`OpenJobLog::lead`].
    pub fn new(logs: JobLogs, writer: Writer, end: LogEnd, checkpoints: CheckpointRecords) -> Self {
        let state =
            Mutex::new(State { end, master: None, checkpoints, unsettled: None, ended: false });
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
    /// earlier one. Each JobMaster calls this once, before it reads its checkpoint. Writes nothing of its own: the log does not name the
    /// JobMaster; but an append of an earlier JobMaster that has failed is repeated. Returns the newest complete checkpoint in the log;
    /// `None` if there is none.
    ///
    /// # Errors
    /// Returns the errors of [`JobLogs::append`] for that repetition, and [`AppendError::Superseded`] if a later JobMaster (one with a higher
    /// session) has called this. After a store error the caller must repeat the call before it reads anything of the log.
    pub async fn lead(
        &self,
        master: LeaderSession,
    ) -> Result<Option<CheckpointPointer>, AppendError> {
        let mut state = self.0.state.lock().await;
        if state.master > Some(master) {
            return Err(AppendError::Superseded { job: state.end.job, by: None });
        }
        state.master = Some(master);
        self.settle(&mut state).await?;
        Ok(state.checkpoints.complete.last().map(|(_, pointer)| pointer.clone()))
    }

    /// Waits for an append that is under way, then returns the pointers to the complete checkpoints in the log, the newest last.
    pub async fn checkpoints(&self) -> Vec<CheckpointPointer> {
        let state = self.0.state.lock().await;
        state.checkpoints.complete.iter().map(|(_, pointer)| pointer.clone()).collect()
    }

    /// Waits for an append that is under way, then returns the highest number of a checkpoint or savepoint that was recorded by itself
    /// ([`OpenJobLog::record_number`]); 0 if none is in the log. Also the number after the newest complete checkpoint may be given out.
    pub async fn newest_number(&self) -> u64 {
        self.0.state.lock().await.checkpoints.newest_number()
    }

    /// Records for the JobMaster `master` that this number is given out to a checkpoint or savepoint, and then deletes the records of lower
    /// numbers; a failed deletion is only logged. Does nothing if this number or a higher one is recorded already. After a store error of
    /// the append the record may exist or not; the next append of anything, or [`OpenJobLog::lead`], repeats it first.
    ///
    /// # Errors
    /// Returns the errors of [`OpenJobLog::record_checkpoint`].
    pub async fn record_number(
        &self,
        master: LeaderSession,
        number: u64,
    ) -> Result<(), AppendError> {
        let mut state = self.0.state.lock().await;
        state.lets_append(master)?;
        if state.checkpoints.newest_number() >= number {
            return Ok(());
        }
        self.append(&mut state, JobFact::CheckpointNumber(number)).await?;
        self.forget_numbers(&mut state, |old| old < number).await;
        Ok(())
    }

    /// Records a complete checkpoint for the JobMaster `master`, and then deletes the records of earlier ones whose checkpoint
    /// numbers are not in `keep`, and those of numbers up to its own; a failed deletion is only logged. After a store error of the append
    /// the record may exist or not: the caller must repeat the call.
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
        state.lets_append(master)?;
        let checkpoint = pointer.checkpoint;
        self.append(&mut state, JobFact::Checkpoint(pointer)).await?;
        let is_old = |(_, kept): &mut (u64, CheckpointPointer)| {
            kept.checkpoint != checkpoint && !keep.contains(&kept.checkpoint)
        };
        let old: Vec<_> = state.checkpoints.complete.extract_if(.., is_old).collect();
        self.delete(state.end, old.into_iter().map(|(record, _)| record)).await;
        self.forget_numbers(&mut state, |old| old <= checkpoint).await;
        Ok(())
    }

    /// Appends the job's last fact, its result, after every append that is under way, and returns the position after it. Appends of
    /// JobMasters are refused from then on, also if this call fails (after a failure until one calls [`OpenJobLog::lead`] again). After a
    /// store error the caller repeats the call with the same fact: it succeeds if the record is there from an earlier try. Another fact is
    /// refused as superseded then.
    ///
    /// # Errors
    /// Returns the errors of [`JobLogs::append`].
    pub async fn append_last(&self, fact: JobFact) -> Result<LogEnd, AppendError> {
        let mut state = self.0.state.lock().await;
        state.master = None;
        self.settle(&mut state).await?;
        // The position stays: the caller repeats the same append after a store error.
        let end = self.0.logs.clone().append(state.end, fact, self.0.writer.clone()).await?;
        state.ended = true;
        Ok(end)
    }

    /// Waits for an append that is under way, then returns true if [`OpenJobLog::append_last`] has succeeded: nobody runs the job again.
    pub async fn has_ended(&self) -> bool {
        self.0.state.lock().await.ended
    }

    /// Appends a JobMaster's fact, after another one whose append has no outcome yet.
    async fn append(&self, state: &mut State, fact: JobFact) -> Result<(), AppendError> {
        if state.unsettled.as_ref() != Some(&fact) {
            self.settle(state).await?;
        }
        state.unsettled = Some(fact);
        self.settle(state).await
    }

    /// Makes, or repeats, the append that has no outcome yet, if there is one.
    async fn settle(&self, state: &mut State) -> Result<(), AppendError> {
        let Some(fact) = state.unsettled.clone() else { return Ok(()) };
        let (logs, writer) = (self.0.logs.clone(), self.0.writer.clone());
        let appended = logs.append(state.end, fact.clone(), writer).await;
        if !matches!(appended, Err(AppendError::Store(_))) {
            state.unsettled = None;
        }
        let record = state.end.number();
        state.end = appended?;
        state.checkpoints.add(record, &fact);
        Ok(())
    }

    /// Deletes the records of those numbers of checkpoints that are `old`.
    async fn forget_numbers(&self, state: &mut State, old: impl Fn(u64) -> bool) {
        let old: Vec<_> = state.checkpoints.numbers.extract_if(.., |(_, n)| old(*n)).collect();
        self.delete(state.end, old.into_iter().map(|(record, _)| record)).await;
    }

    /// Deletes records. One whose deletion fails stays and is ignored, because a newer one follows.
    async fn delete(&self, end: LogEnd, records: impl Iterator<Item = u64>) {
        for record in records {
            if let Err(error) = self.0.logs.delete_record(end, record).await {
                tracing::debug!(%error, "the record of an old checkpoint stays");
            }
        }
    }
}

impl State {
    /// Returns an error unless this JobMaster may append.
    fn lets_append(&self, master: LeaderSession) -> Result<(), AppendError> {
        match self.master == Some(master) {
            true => Ok(()),
            false => Err(AppendError::Superseded { job: self.end.job, by: None }),
        }
    }
}
