//! The file sink, with named points before and after what it does. It adds nothing to the sink's protocol.

use super::{Point, Points};
use flott::{
    operators::OperatorMail,
    prelude::*,
    sinks::{Lines, PartCommitter, PartWriter, PendingPart},
};
use std::thread;

/// A [`FileSink`] that stops at the campaign's points.
pub(super) struct StoppingSink {
    pub(super) files: FileSink<Lines>,
    pub(super) points: Points,
    /// True if two-phase commit is broken on purpose.
    pub(super) commits_early: bool,
}

impl Sink<String> for StoppingSink {
    type Committable = PendingPart;
    type Writer = StoppingWriter;
    type Committer = NoCommitter;
    type GlobalCommitter = StoppingCommitter;

    fn create_writer(&self, context: &OperatorContext) -> Result<StoppingWriter> {
        let committer = Sink::<String>::create_global_committer(&self.files, context)?;
        Ok(StoppingWriter {
            writer: Sink::<String>::create_writer(&self.files, context)?,
            commits_early: self.commits_early.then_some(committer),
            points: self.points.clone(),
            is_last: false,
        })
    }
    fn create_committer(&self, _: &OperatorContext) -> Result<NoCommitter> {
        Ok(NoCommitter)
    }
    fn create_global_committer(&self, context: &OperatorContext) -> Result<StoppingCommitter> {
        let committer = Sink::<String>::create_global_committer(&self.files, context)?;
        Ok(StoppingCommitter { committer, points: self.points.clone() })
    }
}

/// Writes lines, and stops after they are prepared.
pub(super) struct StoppingWriter {
    writer: PartWriter<Lines>,
    /// Commits what is prepared at once, which breaks two-phase commit.
    commits_early: Option<PartCommitter>,
    points: Points,
    /// True if the end of the input was flushed.
    is_last: bool,
}

impl SinkWriter<String> for StoppingWriter {
    fn open(&mut self, context: &OperatorContext) -> Result<()> {
        SinkWriter::<String>::open(&mut self.writer, context)
    }
    fn write(&mut self, line: String, context: &WriterContext<'_>) -> Result<()> {
        self.writer.write(line, context)
    }
    fn flush(&mut self, end_of_input: bool, context: &OperatorContext) -> Result<()> {
        self.is_last |= end_of_input;
        SinkWriter::<String>::flush(&mut self.writer, end_of_input, context)
    }
    fn mail(&mut self, mail: OperatorMail, context: &OperatorContext) -> Result<()> {
        SinkWriter::<String>::mail(&mut self.writer, mail, context)
    }
    fn is_full(&self) -> bool {
        SinkWriter::<String>::is_full(&self.writer)
    }
    fn is_flushing(&self) -> bool {
        SinkWriter::<String>::is_flushing(&self.writer)
    }
    fn close(&mut self) {
        SinkWriter::<String>::close(&mut self.writer);
    }
}

impl CommittingSinkWriter<String> for StoppingWriter {
    type Committable = PendingPart;
    type State = NoWriterState;

    fn prepare_commit(&mut self) -> Result<Vec<PendingPart>> {
        let parts = CommittingSinkWriter::<String>::prepare_commit(&mut self.writer)?;
        if let Some(committer) = &self.commits_early {
            commit_now(committer, &parts)?;
        }
        match self.is_last {
            true => self.points.reach(Point::FinalCheckpoint),
            false if !parts.is_empty() => self.points.reach(Point::Prepared),
            false => {}
        }
        Ok(parts)
    }
    fn announce(&mut self, context: &OperatorContext) -> Option<Announcement<PendingPart>> {
        CommittingSinkWriter::<String>::announce(&mut self.writer, context)
    }
    fn abort_leftovers(&mut self, context: &OperatorContext) -> Result<()> {
        CommittingSinkWriter::<String>::abort_leftovers(&mut self.writer, context)
    }
}

/// Commits parts without waiting for their checkpoint.
fn commit_now(committer: &PartCommitter, parts: &[PendingPart]) -> Result<()> {
    let request =
        CommitRequest { committable: parts.to_vec(), checkpoint: 0, retries: 0, restored: false };
    let commit = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(committer.commit(request))?;
        Ok(())
    };
    // On a thread of its own, because the task's thread may belong to a runtime.
    thread::scope(|threads| {
        let thread =
            thread::Builder::new().name("early commit".into()).spawn_scoped(threads, commit)?;
        thread.join().map_err(|_| "the early commit panicked")?
    })
}

/// Commits parts, and stops before and after it.
pub(super) struct StoppingCommitter {
    committer: PartCommitter,
    points: Points,
}

impl StoppingCommitter {
    async fn reach(&self, point: Point) -> Result<(), CommitError> {
        let points = self.points.clone();
        let waited = tokio::task::spawn_blocking(move || points.reach(point)).await;
        waited.map_err(|error| CommitError::Retry(error.to_string()))
    }
}

impl GlobalCommitter<PendingPart> for StoppingCommitter {
    async fn commit(&self, request: CommitRequest<Vec<PendingPart>>) -> Result<(), CommitError> {
        self.reach(Point::BeforeCommit).await?;
        self.committer.commit(request).await?;
        self.reach(Point::Committed).await
    }
    async fn check(&self, announced: PendingPart) -> Result<(), CommitError> {
        self.committer.check(announced).await
    }
}
