//! The operators of a [`Sink`]: the writer, the committer and the global committer.
//!
//! The committables of a checkpoint are those that reach a committer before the checkpoint's barrier. A committer keeps them,
//! with the number of their checkpoint, in its snapshots until they are committed. Nothing here may commit before the checkpoint
//! is complete, and nothing may be dropped that is not committed.

mod committer;
mod queue;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(test)]
pub(in crate::sinks) use queue::{KeptCommittables, Queue};

pub use committer::{CommitGroup, CommitterOperator, EachAlone, Together};
pub(crate) use queue::declare;
pub use writer::SinkWriterOperator;

use super::sink::{Committer, GlobalCommitter, Sink};
use crate::{
    lock,
    operators::{BoxError, OperatorContext, state_failed},
    seam::TaskError,
    state::StateError,
};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};

/// A record from a sink's writer to its committers: a committable, or the writer's announcement. [`SinkWriterOperator`] emits it,
/// [`CommitterOperator`] takes it.
#[derive(Debug, Clone, derive::FlottType)]
#[flott(crate = crate)]
pub enum Prepared<C> {
    /// A committable of the next checkpoint, to be committed when that is complete.
    Committable(C),
    /// The writer's announcement ([`CommittingSinkWriter::announce`](super::CommittingSinkWriter::announce)): the global committer
    /// checks it at once and never commits it; other committers drop it.
    Announcement(C),
}

/// A sink that the operators of all subtasks in a process share; locked only while a writer or committer is created.
pub type Shared<S> = Arc<Mutex<S>>;

/// Receives the outcome of work beside the task.
type Slot<O> = Arc<Mutex<Option<O>>>;

/// Runs work beside the task. The slot has its outcome when the reply with this ticket comes.
fn beside<O: Send + 'static>(
    work: BoxFuture<'static, O>,
    ticket: u32,
    context: &OperatorContext,
) -> Slot<O> {
    let slot = Slot::default();
    let filled = slot.clone();
    let work = async move {
        let outcome = work.await;
        *lock(&filled) = Some(outcome);
        Ok(Vec::new())
    };
    context.spawn_io(Box::pin(work), ticket);
    slot
}

/// Makes the task's failure of an error of a sink; a [`TaskError`] stays what it is, and an error of state is none of user code.
fn failed(context: &OperatorContext, error: BoxError) -> TaskError {
    match error.downcast::<TaskError>().map_err(|error| error.downcast::<StateError>()) {
        Ok(error) => *error,
        Err(Ok(error)) => state_failed(context, *error),
        Err(Err(error)) => context.user_error(error),
    }
}

/// Returns whether a sink has committers, and whether it has a global committer.
pub(crate) fn commits<T, S: Sink<T>>() -> (bool, bool) {
    (
        <S::Committer as Committer<S::Committable>>::COMMITS,
        <S::GlobalCommitter as GlobalCommitter<S::Committable>>::COMMITS,
    )
}

/// The operator that runs the [`Committer`] of a sink, in as many subtasks as the writer; chained to the writer's operator, unless the sink
/// has a global committer too.
pub type CommitterOf<T, S> =
    CommitterOperator<<S as Sink<T>>::Committable, EachAlone<Arc<<S as Sink<T>>::Committer>>>;
/// The operator that runs the [`GlobalCommitter`] of a sink, in one subtask that gets the committables of all writers.
pub type GlobalCommitterOf<T, S> =
    CommitterOperator<<S as Sink<T>>::Committable, Together<Arc<<S as Sink<T>>::GlobalCommitter>>>;

/// Makes the operator of a sink's committers.
pub(crate) fn committer<T, S: Sink<T>>(sink: Shared<S>) -> CommitterOf<T, S> {
    CommitterOperator::new(move |context| {
        lock(&sink).create_committer(context).map(|made| EachAlone(Arc::new(made)))
    })
}

/// Makes the operator of a sink's global committer.
pub(crate) fn global_committer<T, S: Sink<T>>(sink: Shared<S>) -> GlobalCommitterOf<T, S> {
    CommitterOperator::new(move |context| {
        lock(&sink).create_global_committer(context).map(|made| Together(Arc::new(made)))
    })
}
