//! Reads the checkpoints that a job may continue from, and decides whether it may continue from an older one than the newest.
//!
//! Sinks may have committed output with the newest checkpoint. A job that continues from the one before makes that output again,
//! under other transactions, so it is there twice. This module must therefore never pass over the newest checkpoint unless
//! `execution.checkpointing.fallback` allows it, and never because a store does not answer: a store that is unreachable for now is
//! tried again without end, only a file that is missing or damaged is given up.

use super::checkpoints::STORE_RETRY;
use crate::stores::{retried, unusable_directory};
use conf::{Options, checkpointing};
use model::{CheckpointMetadata, CheckpointPointer, FailureCause, JobId};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use storage::checkpoints::{CheckpointDirectory, CheckpointError};
use thiserror::Error;

/// The job's options about its older checkpoints.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Number of checkpoints that are kept (`execution.checkpointing.num-retained`).
    retained: usize,
    /// True if the job falls back to an older checkpoint (`execution.checkpointing.fallback`).
    falls_back: bool,
}

impl Policy {
    pub(super) fn of(options: &Options) -> Self {
        let retained = options.get(&checkpointing::RETAINED).get();
        let falls_back = options.get(&checkpointing::FALLBACK);
        Self { retained: usize::try_from(retained).unwrap_or(usize::MAX), falls_back }
    }
}

/// The checkpoints that a job has.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Number of the newest checkpoint in the log, readable or not; 0 if there is none.
    pub(super) newest: u64,
    /// The checkpoints that can be read. The job continues from the last one.
    pub(super) checkpoints: Vec<Arc<CheckpointMetadata>>,
    /// The checkpoints that are newer than the last one of `checkpoints` and cannot be read, the newest last, each with its number and the
    /// fault, which names the file.
    pub(super) passed_over: Vec<(u64, String)>,
}

/// The reason why a job cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ReadError {
    /// The checkpoint directory cannot be opened, or the job's mark cannot be written into it; the text names it, the reason and the
    /// remedy.
    #[error("{0}")]
    Directory(String),
    /// The directory cannot be read, or no checkpoint can be read and no other one is kept.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The newest checkpoint cannot be read, and the options forbid to pass it over.
    #[error(
        "checkpoint {checkpoint} can't be read: {error}; restore the file, or let the job continue from checkpoint {previous} \
         with execution.checkpointing.fallback: true, which makes output that was committed after it a second time"
    )]
    Newest {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The fault; it names the file.
        error: CheckpointError,
        /// The number of the checkpoint before, which is kept.
        previous: u64,
    },
}

impl ReadError {
    /// Returns the error of a job whose checkpoint directory cannot be used for this reason.
    pub(super) fn unusable(uri: &str, why: &impl Display) -> Self {
        Self::Directory(unusable_directory(uri, why))
    }

    /// Returns the failure of the job, which no restart can mend.
    pub(super) fn cause(&self) -> FailureCause {
        let kind = match self {
            Self::Directory(_) => FailureCause::CHECKPOINT_DIRECTORY_UNUSABLE,
            Self::Checkpoint(_) | Self::Newest { .. } => FailureCause::CHECKPOINT_UNREADABLE,
        };
        FailureCause::fatal(kind, self.to_string())
    }
}

/// Reads the metadata of the newest checkpoint and of the older ones that are kept. `pointers` are
/// those in the log, the newest last.
///
/// # Errors
/// [`ReadError`] if the job must not continue. An older checkpoint that can't be read is no error.
pub(super) async fn read(
    job: JobId,
    directory: &CheckpointDirectory,
    pointers: &[CheckpointPointer],
    policy: Policy,
) -> Result<Kept, ReadError> {
    let Some(newest) = pointers.last() else { return Ok(Kept::default()) };
    let what = "list the objects of the job's checkpoints";
    let there = match policy.falls_back {
        true => Some(
            retried(what, STORE_RETRY, CheckpointError::may_pass, || directory.names(job)).await?,
        ),
        false => None,
    };
    let mut checkpoints = Vec::new();
    let (mut passed_over, mut fault) = (Vec::new(), None);
    let mut kept = pointers.iter().rev().take(policy.retained).peekable();
    while let Some(pointer) = kept.next() {
        let checkpoint = pointer.checkpoint;
        let error = match read_whole(directory, &pointer.metadata, there.as_ref()).await {
            Ok(metadata) => {
                checkpoints.push(Arc::new(metadata));
                continue;
            }
            Err(error) => error,
        };
        if checkpoints.is_empty()
            && !policy.falls_back
            && let Some(previous) = kept.peek()
        {
            return Err(ReadError::Newest { checkpoint, error, previous: previous.checkpoint });
        }
        tracing::warn!(%job, checkpoint, %error, "a checkpoint of the job can't be read");
        if checkpoints.is_empty() {
            passed_over.push((checkpoint, error.to_string()));
        }
        fault.get_or_insert(error);
    }
    checkpoints.reverse();
    passed_over.reverse();
    match fault {
        Some(error) if checkpoints.is_empty() => Err(error.into()),
        _ => Ok(Kept { newest: newest.checkpoint, checkpoints, passed_over }),
    }
}

/// Reads metadata; a store that does not answer is tried again. `there`: the names of the job's objects, if those that the
/// metadata refers to must be among them, because another checkpoint may take its place.
async fn read_whole(
    directory: &CheckpointDirectory,
    name: &str,
    there: Option<&BTreeSet<String>>,
) -> Result<CheckpointMetadata, CheckpointError> {
    let read = || directory.metadata(name);
    let metadata =
        retried("read the job's checkpoint", STORE_RETRY, CheckpointError::may_pass, read).await?;
    if let Some(there) = there {
        directory.check_objects(&metadata, there)?;
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ExecutionAttemptId, JobVertexId, OperatorId, testing::snapshot};
    use storage::objects::{MemoryObjects, ObjectStore};

    const JOB: JobId = JobId(7);
    const FORBIDDEN: Policy = Policy { retained: 3, falls_back: false };
    const ALLOWED: Policy = Policy { retained: 3, falls_back: true };

    /// Stores checkpoints 3 to 5 and cuts the metadata of `damaged` short.
    async fn stored(damaged: &[u64]) -> (CheckpointDirectory, Vec<CheckpointPointer>) {
        let store = Arc::new(MemoryObjects::new());
        let directory = CheckpointDirectory::new(store.clone());
        let mut pointers = Vec::new();
        for checkpoint in 3..=5 {
            let metadata = snapshot(JOB, checkpoint, OperatorId(1), []);
            let name = directory.put_metadata(&metadata).await.unwrap();
            if damaged.contains(&checkpoint) {
                let bytes = store.get(&name).await.unwrap().unwrap();
                store.put(&name, bytes.slice(..bytes.len() / 2)).await.unwrap();
            }
            pointers.push(CheckpointPointer {
                checkpoint,
                metadata: name,
                directory: None,
                claimed: None,
            });
        }
        (directory, pointers)
    }

    async fn numbers(damaged: &[u64], policy: Policy) -> Result<(u64, Vec<u64>), ReadError> {
        let (directory, pointers) = stored(damaged).await;
        let kept = read(JOB, &directory, &pointers, policy).await?;
        Ok((kept.newest, kept.checkpoints.iter().map(|kept| kept.checkpoint).collect()))
    }

    #[tokio::test]
    async fn the_newest_checkpoint_is_passed_over_only_if_the_options_say_so() {
        for policy in [FORBIDDEN, ALLOWED] {
            assert_eq!(numbers(&[], policy).await, Ok((5, vec![3, 4, 5])));
            assert_eq!(numbers(&[4], policy).await, Ok((5, vec![3, 5])), "nothing needs it");
        }
        assert_eq!(numbers(&[5], ALLOWED).await, Ok((5, vec![3, 4])));
        assert_eq!(numbers(&[4, 5], ALLOWED).await, Ok((5, vec![3])));
        let refused = numbers(&[5], FORBIDDEN).await.unwrap_err().to_string();
        for part in ["/chk-5/_metadata-", "checkpoint 4", "execution.checkpointing.fallback"] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[tokio::test]
    async fn only_checkpoints_that_are_newer_than_the_one_to_continue_from_are_passed_over() {
        for (damaged, expected) in
            [(&[][..], &[][..]), (&[3], &[]), (&[5], &[5]), (&[4, 5], &[4, 5])]
        {
            let (directory, pointers) = stored(damaged).await;
            let kept = read(JOB, &directory, &pointers, ALLOWED).await.unwrap();
            let numbers: Vec<u64> = kept.passed_over.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, expected, "{damaged:?}");
            for (number, error) in kept.passed_over {
                assert!(error.contains(&format!("/chk-{number}/_metadata")), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn a_checkpoint_without_one_of_its_objects_is_passed_over_too() {
        let store = Arc::new(MemoryObjects::new());
        let directory = CheckpointDirectory::new(store.clone());
        let mut pointers = Vec::new();
        for checkpoint in [4, 5] {
            let attempt =
                ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
            let operator = OperatorId(1);
            let state = directory.put_state(JOB, checkpoint, attempt, operator, vec![1].into());
            let state = state.await.unwrap();
            if checkpoint == 5 {
                store.delete(state.object().unwrap()).await.unwrap();
            }
            let metadata = snapshot(JOB, checkpoint, operator, [state]);
            let name = directory.put_metadata(&metadata).await.unwrap();
            pointers.push(CheckpointPointer {
                checkpoint,
                metadata: name,
                directory: None,
                claimed: None,
            });
        }
        let kept = read(JOB, &directory, &pointers, ALLOWED).await.unwrap();
        assert_eq!(kept.checkpoints.last().unwrap().checkpoint, 4);
        assert_eq!(kept.newest, 5, "its number is not given again");
    }

    #[tokio::test]
    async fn without_another_checkpoint_the_file_is_named() {
        let one = Policy { retained: 1, falls_back: true };
        for (damaged, policy) in [(&[5][..], one), (&[3, 4, 5], ALLOWED)] {
            let refused = numbers(damaged, policy).await.unwrap_err();
            assert!(matches!(refused, ReadError::Checkpoint(_)), "{refused:?}");
            assert!(refused.to_string().contains("/chk-5/_metadata-"), "{refused}");
        }
    }
}
