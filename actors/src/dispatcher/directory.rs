//! The checkpoint directory of a job: its default, and its check when the job is submitted, before anything of it is stored or started.

use super::jobs::NotStored;
use crate::stores::{open_store, retried, s3_settings, unusable_directory};
use conf::{
    Options,
    checkpointing::{self, Storage},
};
use model::{CheckpointPointer, JobGraph, JobId};
use platform::Platform;
use std::cell::RefCell;
use std::time::Duration;
use storage::checkpoints::{CheckpointDirectory, CheckpointError};
use storage::objects::StoreError;

/// Longest the check of a directory may take: the client that submits the job waits. One call of a remote store ends after 30 s by
/// itself; a network file system that hangs has no limit of its own.
const CHECK_WITHIN: Duration = Duration::from_secs(40);
/// Shortest and longest pause before a store that could not be reached is asked again.
const CHECK_AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(500));
/// Longest the deletion of a mark may take.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(10);

/// The reason why a job is refused that asks for a directory and has none.
const NO_DIRECTORY: &str = "execution.checkpointing.storage is filesystem, and the cluster has no directory of its own for checkpoints: set \
    execution.checkpointing.dir to a directory that the JobManager and all TaskManagers can reach and write to";

/// A mark that [`mark`] has written, in the directory and for the job.
#[derive(Debug)]
pub(super) struct Marked(CheckpointDirectory, JobId);

impl Marked {
    /// Deletes the mark, because the job is refused for another reason. Best effort within 10 s: a mark that stays is an empty
    /// object, which a later job of the same id uses.
    pub(super) async fn withdraw(self) {
        let Self(directory, job) = self;
        let deleted = tokio::time::timeout(WITHDRAW_WITHIN, directory.unmark(job)).await;
        if !matches!(deleted, Ok(Ok(()))) {
            tracing::warn!(%job, ?directory, "the mark of a refused job stays in its checkpoint directory");
        }
    }
}

/// Returns a job's options with its checkpoint directory as `execution.checkpointing.storage` says: the one that is set, else `default`, the
/// cluster's, if checkpoints of the job may be taken (periodic ones, a final one, savepoints), or it asks for a directory. Without one the
/// JobManager keeps the state.
pub(super) fn resolved(options: Options, default: Option<&str>, graph: &JobGraph) -> Options {
    let own = options.get(&checkpointing::DIRECTORY);
    let is_periodic = options.get(&checkpointing::INTERVAL).is_some();
    let directory = match options.get(&checkpointing::STORAGE) {
        Some(Storage::JobManager) => None,
        None if !is_periodic && !graph.ends_with_checkpoint() => own,
        None | Some(Storage::FileSystem) => own.or_else(|| default.map(str::to_owned)),
    };
    options.with_value(&checkpointing::DIRECTORY, &directory)
}

/// Returns the options of a recovered job with the directory in which its newest checkpoint is, whatever the cluster's options say by now:
/// there the checkpoint is found, and later ones follow it. A job without a complete checkpoint keeps what the options say.
pub(super) fn of_recovered(options: Options, newest: Option<&CheckpointPointer>) -> Options {
    match newest {
        Some(newest) => options.with_value(&checkpointing::DIRECTORY, &newest.directory),
        None => options,
    }
}

/// Opens the directory that the job's checkpoints are to be in, which creates a local one, and writes the job's mark into it, as its
/// JobMaster does at its start: so the directory answers and can be written to. Returns `None` if the job has no directory, or if the
/// mark was there before. `options` are [`resolved`].
///
/// # Errors
/// [`NotStored::Directory`] with the directory, the reason and the remedy, also after 40 s without an answer, and if the job asks for a
/// directory and has none. Nothing of the job is there
/// then, unless the store does what it has not confirmed.
pub(super) async fn mark(
    job: JobId,
    options: &Options,
    platform: Platform,
) -> Result<Option<Marked>, NotStored> {
    let Some(uri) = options.get(&checkpointing::DIRECTORY) else {
        return match options.get(&checkpointing::STORAGE) {
            Some(Storage::FileSystem) => Err(NotStored::Directory(NO_DIRECTORY.to_owned())),
            None | Some(Storage::JobManager) => Ok(None),
        };
    };
    let marked = async || {
        let objects = open_store(uri.clone(), platform.clone(), s3_settings(options)).await?;
        let directory = CheckpointDirectory::new(objects);
        let is_new = directory.mark_shared(job).await?;
        Ok::<_, CheckpointError>(is_new.then_some(Marked(directory, job)))
    };
    in_time(&uri, marked).await
}

/// Waits for the check of the directory at `uri`, which is repeated while the store cannot be reached: it may be starting as well.
///
/// # Errors
/// [`NotStored::Directory`] with the store's error; after [`CHECK_WITHIN`] with the last one, or with the time if there was none.
async fn in_time<T>(
    uri: &str,
    check: impl AsyncFn() -> Result<T, CheckpointError>,
) -> Result<T, NotStored> {
    let why = RefCell::new(format!("it did not answer within {CHECK_WITHIN:?}"));
    let told = async || check().await.inspect_err(|error| *why.borrow_mut() = error.to_string());
    let starts = |error: &CheckpointError| {
        matches!(error, CheckpointError::Store(StoreError::Unreachable { .. }))
    };
    let checked = retried("use the checkpoint directory", CHECK_AGAIN, starts, told);
    match tokio::time::timeout(CHECK_WITHIN, checked).await {
        Ok(checked) => {
            checked.map_err(|error| NotStored::Directory(unusable_directory(uri, &error)))
        }
        Err(_) => Err(NotStored::Directory(unusable_directory(uri, &why.borrow()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::{graph, vertex};

    #[test]
    fn a_recovered_job_finds_its_checkpoints_where_they_are_whatever_the_options_say_by_now() {
        let directory = |set: &[(&str, &str)], newest: Option<Option<&str>>| {
            let newest = newest.map(|directory| CheckpointPointer {
                checkpoint: 3,
                metadata: "chk-3/_metadata".to_owned(),
                directory: directory.map(str::to_owned),
                claimed: None,
            });
            let options = Options::from_map(set.iter().copied()).unwrap();
            of_recovered(options, newest.as_ref()).get(&checkpointing::DIRECTORY)
        };
        let new = [("execution.checkpointing.dir", "/new")];
        let old = Some("/old".to_owned());
        assert_eq!(directory(&new, Some(Some("/old"))), old);
        assert_eq!(directory(&[], Some(Some("/old"))), old, "the JobManager was to keep the state");
        assert_eq!(directory(&new, Some(None)), None, "the JobManager has the state");
        assert_eq!(directory(&new, None), Some("/new".to_owned()), "there is none yet");
    }

    #[test]
    fn jobs_with_checkpoints_use_the_directory_of_the_cluster_unless_they_say_otherwise() {
        const INTERVAL: (&str, &str) = ("execution.checkpointing.interval", "1 s");
        const OWN: (&str, &str) = ("execution.checkpointing.dir", "/own");
        const FILES: (&str, &str) = ("execution.checkpointing.storage", "filesystem");
        const JOB_MANAGER: (&str, &str) = ("state.checkpoint-storage", "jobmanager");
        let bounded = graph(vec![vertex(1, 1)], vec![]);
        let unbounded = JobGraph { bounded: false, ..bounded.clone() };
        let mut commits = bounded.clone();
        commits.nodes[0].commits = true;
        let of = |graph, set: &[(&str, &str)], default| {
            let options = Options::from_map(set.iter().copied()).unwrap();
            resolved(options, default, graph).get(&checkpointing::DIRECTORY)
        };
        let default = Some("/ha/checkpoints");
        for graph in [&unbounded, &commits] {
            assert_eq!(of(graph, &[], default).as_deref(), default, "a stop, or a final one");
            assert_eq!(of(graph, &[JOB_MANAGER], default), None);
        }
        let directory = |set: &[(&str, &str)], default| of(&bounded, set, default);
        let cases: [(&[_], _, _); 9] = [
            (&[INTERVAL], Some("/ha/checkpoints"), Some("/ha/checkpoints")),
            (&[INTERVAL], None, None),
            (&[], Some("/ha/checkpoints"), None),
            (&[FILES], Some("/ha/checkpoints"), Some("/ha/checkpoints")),
            (&[OWN], Some("/ha/checkpoints"), Some("/own")),
            (&[INTERVAL, OWN], Some("/ha/checkpoints"), Some("/own")),
            (&[OWN, FILES], None, Some("/own")),
            (&[INTERVAL, JOB_MANAGER], Some("/ha/checkpoints"), None),
            (&[INTERVAL, OWN, JOB_MANAGER], None, None),
        ];
        for (set, default, expected) in cases {
            assert_eq!(directory(set, default).as_deref(), expected, "{set:?} with {default:?}");
        }
    }

    #[tokio::test]
    async fn a_job_that_asks_for_a_directory_where_there_is_none_is_refused() {
        let options = Options::from_map([("execution.checkpointing.storage", "filesystem")]);
        let graph = graph(vec![vertex(1, 1)], vec![]);
        let options = resolved(options.unwrap(), None, &graph);
        let why = mark(JobId(1), &options, Platform::production()).await.unwrap_err().to_string();
        assert!(why.contains("set execution.checkpointing.dir to"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_hangs_does_not_leave_a_job_initializing() {
        let hangs = async || std::future::pending::<Result<(), CheckpointError>>().await;
        let why = in_time("/mnt/checkpoints", hangs).await.unwrap_err().to_string();
        assert!(
            why.contains(
                "'/mnt/checkpoints' cannot be used: it did not answer within 40s; set execution.checkpointing.dir to"
            ),
            "{why}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_being_started_is_asked_again_and_its_last_error_is_told() {
        fn unreachable<T>() -> Result<T, CheckpointError> {
            let (path, why) = ("ckpt".to_owned(), "connection refused".to_owned());
            Err(CheckpointError::Store(StoreError::Unreachable { path, why }))
        }
        let tries = std::cell::Cell::new(0);
        let starts = async || {
            tries.set(tries.get() + 1);
            if tries.get() < 4 { unreachable() } else { Ok(7) }
        };
        assert!(matches!(in_time("s3://ckpt", starts).await, Ok(7)));
        let never = async || unreachable::<()>();
        let why = in_time("s3://ckpt", never).await.unwrap_err().to_string();
        assert!(why.contains("connection refused"), "{why}");
    }
}
