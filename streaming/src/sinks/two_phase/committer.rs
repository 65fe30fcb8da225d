//! The operator that commits: collects committables, keeps them in its snapshots, and commits them when their checkpoint is
//! complete, one checkpoint after another, beside the task. It must never let a barrier pass before everything that the restored
//! checkpoint held is committed.

use super::{Prepared, Slot, beside, failed, queue::Queue};
use crate::{
    batch::Batch,
    lock,
    operators::{BoxError, Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{StreamEvent, TaskError},
    sinks::sink::{CommitError, CommitRequest, Committer, GlobalCommitter},
    state::{Share, read_operator_state, write_operator_state},
    types::Record,
};
use futures::{StreamExt as _, future::BoxFuture, stream};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// The job option for how often a commit is repeated; name and default are Flink's.
const RETRIES: &str = "sink.committer.retries";
const RETRIES_DEFAULT: u32 = 10;
/// The pause before the first repetition, which doubles with each further one, and its maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Maximum number of commits of one committer that are under way.
const AT_ONCE: usize = 64;
/// The committer's tickets: of a commit under way, of the timer to repeat it, of the check of an announcement, and of keeping what a
/// savepoint holds.
const COMMIT: u32 = 0;
const AGAIN: u32 = 1;
const CHECK: u32 = 2;
const KEEP: u32 = 3;

/// The outcome of committing the committables of a checkpoint: those that are left to be committed again, and the reason, which is the
/// first permanent one if there is one, else the first. Without a reason nothing is left: all are committed. A [`CommitGroup`] makes it,
/// [`CommitterOperator`] reads it.
#[derive(Debug)]
pub struct Outcome<C> {
    /// The committables that are to be committed again later.
    left: Vec<C>,
    /// The first reason, if not everything is committed.
    error: Option<CommitError>,
}

impl<C> Outcome<C> {
    fn add(&mut self, committables: impl IntoIterator<Item = C>, result: Result<(), CommitError>) {
        let Err(error) = result else { return };
        self.left.extend(committables);
        // A permanent failure hides the others.
        match &self.error {
            Some(CommitError::Failed(_)) => {}
            Some(_) if matches!(error, CommitError::Retry(_)) => {}
            _ => self.error = Some(error),
        }
    }
}

/// Commits the committables of one checkpoint: what [`Committer`] and [`GlobalCommitter`] have in common. `EachAlone` and `Together`
/// implement the trait; other types can't make its outcome. If a commit fails, the outcome names the committables that are left and the
/// reason. `CommitterOperator` tries these again, or fails the task if the reason is permanent or the retries are used up.
pub trait CommitGroup<C>: Send + 'static {
    /// True if nothing is committed before the final checkpoint, or the savepoint of a stop that drains the job, is complete.
    const ONLY_AT_END: bool;
    /// Commits the committables of the request. The future runs beside the task and does not fail: its outcome names what is left.
    fn commit(&self, request: CommitRequest<Vec<C>>) -> BoxFuture<'static, Outcome<C>>;
    /// Keeps committables that a savepoint holds from being aborted by the writers of a later attempt, as [`Committer::keep`] does;
    /// an error fails the savepoint's task.
    fn keep(&self, committables: Vec<C>) -> BoxFuture<'static, Result<(), CommitError>>;
    /// Returns the check of a writer's announcement, a committable that is not to be committed: see [`GlobalCommitter::check`].
    /// `None`, as by default and for a [`Committer`], drops the announcement.
    fn check(&self, _announced: C) -> Option<BoxFuture<'static, Result<(), CommitError>>> {
        None
    }
}

/// The [`CommitGroup`] that commits each committable by itself with a [`Committer`], at most 64 at a time.
pub struct EachAlone<K>(pub(super) K);
/// The [`CommitGroup`] that commits all committables of a checkpoint together with a [`GlobalCommitter`].
pub struct Together<K>(pub(super) K);

impl<C: Record, K: Committer<C>> CommitGroup<C> for EachAlone<Arc<K>> {
    const ONLY_AT_END: bool = false;
    fn commit(&self, request: CommitRequest<Vec<C>>) -> BoxFuture<'static, Outcome<C>> {
        let committer = self.0.clone();
        let CommitRequest { committable: committables, checkpoint, retries, restored } = request;
        Box::pin(async move {
            let one = |committable: &C| {
                let committable = committable.clone();
                committer.commit(CommitRequest { committable, checkpoint, retries, restored })
            };
            let commits: Vec<_> = committables.iter().map(one).collect();
            let results: Vec<_> = stream::iter(commits).buffered(AT_ONCE).collect().await;
            let mut outcome = Outcome { left: Vec::new(), error: None };
            for (committable, result) in committables.into_iter().zip(results) {
                outcome.add([committable], result);
            }
            outcome
        })
    }
    fn keep(&self, committables: Vec<C>) -> BoxFuture<'static, Result<(), CommitError>> {
        let committer = self.0.clone();
        Box::pin(async move { committer.keep(committables).await })
    }
}

impl<C: Record, K: GlobalCommitter<C>> CommitGroup<C> for Together<Arc<K>> {
    const ONLY_AT_END: bool = K::ONLY_AT_END;
    fn commit(&self, request: CommitRequest<Vec<C>>) -> BoxFuture<'static, Outcome<C>> {
        let committer = self.0.clone();
        Box::pin(async move {
            let result = committer.commit(request.clone()).await;
            let mut outcome = Outcome { left: Vec::new(), error: None };
            outcome.add(request.committable, result);
            outcome
        })
    }
    fn keep(&self, committables: Vec<C>) -> BoxFuture<'static, Result<(), CommitError>> {
        let committer = self.0.clone();
        Box::pin(async move { committer.keep(committables).await })
    }
    fn check(&self, announced: C) -> Option<BoxFuture<'static, Result<(), CommitError>>> {
        let committer = self.0.clone();
        Some(Box::pin(async move { committer.check(announced).await }))
    }
}

type Create<K> = Box<dyn FnMut(&OperatorContext) -> Result<K, BoxError> + Send>;

/// Runs a [`Committer`] or [`GlobalCommitter`]: keeps committables in its snapshots until they are committed, and commits them when
/// their checkpoint is complete. After a restore it takes no records before all is committed that the checkpoint held and that is due
/// (with `ONLY_AT_END`, only what the job's final checkpoint held is). The operator has announcements of writers checked, and begins no
/// commit meanwhile. The barrier of a savepoint waits until `keep` has kept what is not committed.
/// `sink.committer.retries` (10 by default) bounds the repetitions of a commit; beyond it the task fails. A value that is not a number from
/// 0 on fails the job.
pub struct CommitterOperator<C, K> {
    create: Create<K>,
    /// Made when the task opens.
    committer: Option<K>,
    queue: Queue<C>,
    most_retries: u32,
    /// Receives the outcome of the commit that is under way; `None` while none is.
    under_way: Option<Slot<Outcome<C>>>,
    /// Number of checks of announcements that are under way, and the outcomes of those that are done.
    checking: usize,
    checked: Arc<Mutex<Vec<Result<(), CommitError>>>>,
    /// Number of the savepoint whose barrier waits, and the slot that says when what it holds is kept; `None` if no barrier waits for it.
    keeping: Option<(u64, Slot<Result<(), CommitError>>)>,
    /// True while a timer is set for a repetition.
    pausing: bool,
    /// True until everything is committed that the restored checkpoint held.
    restoring: bool,
    /// True once the end of input has come.
    ended: bool,
}

impl<C: Record, K: CommitGroup<C>> CommitterOperator<C, K> {
    /// Makes the operator of one subtask. `create` makes the committer when the task opens.
    pub(super) fn new(
        create: impl FnMut(&OperatorContext) -> Result<K, BoxError> + Send + 'static,
    ) -> Self {
        Self {
            create: Box::new(create),
            committer: None,
            queue: Queue::new(K::ONLY_AT_END),
            most_retries: RETRIES_DEFAULT,
            under_way: None,
            checking: 0,
            checked: Arc::default(),
            keeping: None,
            pausing: false,
            restoring: false,
            ended: false,
        }
    }

    /// Begins to commit the next group, unless a commit or a check is under way or a pause lasts. A commit may remove the marks
    /// that checks look for.
    fn commit_next(&mut self, context: &OperatorContext) {
        if self.under_way.is_some() || self.pausing || self.checking > 0 {
            return;
        }
        let (Some(committer), Some(group)) = (&self.committer, self.queue.next()) else {
            self.restoring = false;
            return;
        };
        let commit = committer.commit(CommitRequest {
            committable: group.committables.clone(),
            checkpoint: group.checkpoint,
            retries: group.retries,
            restored: group.restored,
        });
        self.under_way = Some(beside(commit, COMMIT, context));
    }

    /// Begins to check an announcement.
    fn check(&mut self, announced: C, context: &OperatorContext) {
        let Some(check) = self.committer.as_ref().and_then(|committer| committer.check(announced))
        else {
            return;
        };
        let checked = self.checked.clone();
        let work = async move {
            let outcome = check.await;
            lock(&checked).push(outcome);
            Ok(Vec::new())
        };
        self.checking += 1;
        context.spawn_io(Box::pin(work), CHECK);
    }

    /// Returns true if everything that the savepoint of this number holds is kept from being aborted; begins that at the first call.
    fn kept(&mut self, savepoint: u64, context: &OperatorContext) -> Result<bool, TaskError> {
        if let Some((of, slot)) = &self.keeping
            && *of == savepoint
        {
            let Some(outcome) = lock(slot).take() else { return Ok(false) };
            self.keeping = None;
            return match outcome {
                Ok(()) => Ok(true),
                Err(error) => {
                    Err(context.io_error("cannot keep what the savepoint holds", error.to_string()))
                }
            };
        }
        let committables = self.queue.all();
        let Some(committer) = self.committer.as_ref().filter(|_| !committables.is_empty()) else {
            return Ok(true);
        };
        self.keeping = Some((savepoint, beside(committer.keep(committables), KEEP, context)));
        Ok(false)
    }

    /// Takes the outcomes of checks that are done.
    fn checked(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let done = std::mem::take(&mut *lock(&self.checked));
        self.checking = self.checking.saturating_sub(done.len());
        done.into_iter().try_for_each(|outcome| match outcome {
            Ok(()) => Ok(()),
            Err(CommitError::Failed(what)) => {
                Err(TaskError::Output { operator: context.name().to_owned(), what })
            }
            Err(CommitError::Retry(why)) => {
                Err(context.io_error("cannot check where the writers write", why))
            }
        })?;
        self.commit_next(context);
        Ok(())
    }

    /// Takes the outcome of the commit that was under way.
    fn committed(
        &mut self,
        outcome: Outcome<C>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let checkpoint = self.queue.next().map_or(0, |group| group.checkpoint);
        let retries = self.queue.committed(outcome.left);
        match outcome.error {
            None => {}
            Some(CommitError::Failed(why)) => {
                let what = format!("of checkpoint {checkpoint} can never be committed: {why}");
                return Err(TaskError::Output { operator: context.name().to_owned(), what });
            }
            Some(CommitError::Retry(why)) if retries > self.most_retries => {
                let what = format!(
                    "the output of checkpoint {checkpoint} is not committed after {} retries",
                    self.most_retries
                );
                return Err(context.io_error(what, why));
            }
            Some(CommitError::Retry(why)) => {
                tracing::warn!(operator = context.name(), checkpoint, retries, %why, "cannot commit yet");
                let doubled = 2_u32.saturating_pow(retries.saturating_sub(1));
                context.wake_after(FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE), AGAIN);
                self.pausing = true;
            }
        }
        self.commit_next(context);
        Ok(())
    }
}

impl<C: Record, K: CommitGroup<C>> Operator<Prepared<C>> for CommitterOperator<C, K> {
    type Out = ();
    const HAS_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        if let Some(text) = context.option(RETRIES) {
            let wrong = |_| {
                let why = format!("job option '{RETRIES}': '{text}' is not a number from 0 on");
                TaskError::Deployment(why)
            };
            self.most_retries = text.trim().parse().map_err(wrong)?;
        }
        // Then the operator does not see the end of input again.
        self.ended = context.shared().restored_at_end;
        let created = (self.create)(context);
        self.committer = Some(created.map_err(|error| failed(context, error))?);
        if !context.is_restored() {
            return Ok(());
        }
        let share = Share::new(context.subtask(), context.parallelism());
        let kept =
            read_operator_state::<super::queue::KeptCommittables<C>>(&context.snapshots()?, share);
        let kept = kept.and_then(|mut kept| kept.list.take());
        self.queue.restore(kept.map_err(|error| failed(context, error.into()))?);
        self.restoring = true;
        self.commit_next(context);
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<Prepared<C>>,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.each(|prepared, _| match prepared {
            Prepared::Committable(committable) => self.queue.add([committable]),
            Prepared::Announcement(announced) => self.check(announced, context),
        });
        Ok(())
    }

    fn event(
        &mut self,
        event: StreamEvent,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        match event {
            StreamEvent::EndOfInput => self.ended = true,
            StreamEvent::Barrier(_) if self.restoring => return Ok(Flow::Waiting),
            // What is committed with the savepoint of a stop, and only then, is not kept: the result is there.
            StreamEvent::Barrier(crate::Barrier { checkpoint, last, savepoint: true, .. })
                if !(K::ONLY_AT_END && last && self.ended || self.kept(checkpoint, context)?) =>
            {
                return Ok(Flow::Waiting);
            }
            StreamEvent::Barrier(barrier) => {
                self.queue.barrier(barrier.checkpoint, barrier.last && self.ended);
            }
            StreamEvent::Watermark(_) | StreamEvent::Idle(_) => {}
        }
        Ok(Flow::Done)
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        match mail {
            OperatorMail::Timer { .. } => {
                self.pausing = false;
                self.commit_next(context);
                Ok(())
            }
            OperatorMail::Reply { ticket: CHECK, result } => {
                result.map_err(|why| context.io_error("a check was interrupted", why))?;
                self.checked(context)
            }
            OperatorMail::Reply { ticket: KEEP, result } => {
                result.map(drop).map_err(|why| context.io_error("a savepoint was interrupted", why))
            }
            OperatorMail::Reply { result, .. } => {
                result.map_err(|why| context.io_error("a commit was interrupted", why))?;
                let outcome = self.under_way.take().and_then(|slot| lock(&slot).take());
                match outcome {
                    Some(outcome) => self.committed(outcome, context),
                    None => Ok(()),
                }
            }
        }
    }

    fn full(&self) -> bool {
        self.restoring
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let bytes = write_operator_state(&self.queue.kept());
        bytes.map(Some).map_err(|error| failed(context, error.into()))
    }

    fn notify_complete(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.queue.complete(checkpoint);
        self.commit_next(context);
        Ok(())
    }

    fn is_committing(&self) -> bool {
        self.queue.next().is_some() || self.checking > 0
    }
}
