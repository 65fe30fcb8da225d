//! The parts that a sink can do without: its committers, its writer's state, and everything but the writer.

use super::{
    sink::{CommitError, CommitRequest, Committer, GlobalCommitter, Sink},
    writer::{CommittingSinkWriter, SinkWriter, WriterContext},
};
use crate::{
    operators::{BoxError, OperatorContext, OperatorMail},
    state::{ListPass, OperatorState, Row, RowWriter, Share, State, StateDeclaration},
    types::CodecError,
};

/// The state type of a [`CommittingSinkWriter`] without state: checkpoints contain nothing of the writer, and restoring does
/// nothing.
#[derive(Debug, Default)]
pub struct NoWriterState;

impl State for NoWriterState {
    fn declare() -> Vec<StateDeclaration> {
        Vec::new()
    }
    fn empty() -> Self {
        Self
    }
    fn holds_nothing(&self) -> bool {
        true
    }
    fn write(&self, _rows: &mut RowWriter) {}
    fn read(&mut self, _field: usize, _row: Row<'_>) -> Result<(), CodecError> {
        Err(CodecError::Invalid { what: "field of a state" })
    }
}

impl OperatorState for NoWriterState {
    fn redistribute(_parts: Vec<Self>, _share: Share) -> Self {
        Self
    }
    fn lists(&mut self, _pass: &mut ListPass<'_, '_>) {}
}

/// The type of the [`Committer`] or [`GlobalCommitter`] of a sink that has none: the job then has no such operator, and neither the
/// sink's method that would create it nor `commit` is ever called.
#[derive(Debug, Clone, Copy)]
pub struct NoCommitter;

impl<C: Send + 'static> Committer<C> for NoCommitter {
    const COMMITS: bool = false;
    async fn commit(&self, _request: CommitRequest<C>) -> Result<(), CommitError> {
        Ok(())
    }
}

impl<C: Send + 'static> GlobalCommitter<C> for NoCommitter {
    const COMMITS: bool = false;
    async fn commit(&self, _request: CommitRequest<Vec<C>>) -> Result<(), CommitError> {
        Ok(())
    }
}

/// The writer of a sink without committers, made of a [`SinkWriter`] that can be cloned: passes every call on to it and prepares
/// nothing for a commit.
#[derive(Debug, Clone)]
pub struct WithoutCommitter<W>(W);

impl<T, W: SinkWriter<T>> SinkWriter<T> for WithoutCommitter<W> {
    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        self.0.open(context)
    }
    #[inline]
    fn write(&mut self, record: T, context: &WriterContext<'_>) -> Result<(), BoxError> {
        self.0.write(record, context)
    }
    fn flush(&mut self, end_of_input: bool, context: &OperatorContext) -> Result<(), BoxError> {
        self.0.flush(end_of_input, context)
    }
    fn mail(&mut self, mail: OperatorMail, context: &OperatorContext) -> Result<(), BoxError> {
        self.0.mail(mail, context)
    }
    fn is_full(&self) -> bool {
        self.0.is_full()
    }
    fn is_flushing(&self) -> bool {
        self.0.is_flushing()
    }
    fn close(&mut self) {
        self.0.close();
    }
}

impl<T, W: SinkWriter<T>> CommittingSinkWriter<T> for WithoutCommitter<W> {
    type Committable = ();
    type State = NoWriterState;
    fn prepare_commit(&mut self) -> Result<Vec<()>, BoxError> {
        Ok(Vec::new())
    }
}

/// A writer that can be cloned is a sink without a committer.
impl<T, W: SinkWriter<T> + Clone> Sink<T> for W {
    type Committable = ();
    type Writer = WithoutCommitter<W>;
    type Committer = NoCommitter;
    type GlobalCommitter = NoCommitter;
    fn create_writer(&self, _context: &OperatorContext) -> Result<WithoutCommitter<W>, BoxError> {
        Ok(WithoutCommitter(self.clone()))
    }
    fn create_committer(&self, _context: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
    fn create_global_committer(&self, _context: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
}
