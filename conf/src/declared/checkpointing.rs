//! Options of checkpoints, with Flink's names.

use crate::{declare::options, value::choices};
use model::MemorySize;
use std::{num::NonZeroU32, time::Duration};

choices! {
    /// Decides whether the newest checkpoints (as many as `execution.checkpointing.num-retained`) are kept or deleted when a job fails or
    /// is cancelled. Those of a job that finished are always deleted, savepoints never. Without effect where the JobManager keeps the
    /// state (`execution.checkpointing.dir`).
    pub enum Retention {
        /// Keeps the newest checkpoints if the job fails, deletes them if it is cancelled.
        DeleteOnCancellation = "delete_on_cancellation" | "delete-on-cancellation",
        /// Keeps the newest checkpoints if the job is cancelled, and also if it fails.
        RetainOnCancellation = "retain_on_cancellation" | "retain-on-cancellation",
        /// Deletes all checkpoints if the job is cancelled, and also if it fails; the default.
        NoExternalizedCheckpoints = "no_externalized_checkpoints" | "no-externalized-checkpoints",
    }
}

choices! {
    /// Decides where the state of checkpoints goes (`execution.checkpointing.storage`).
    pub enum Storage {
        /// Into the checkpoint directory; a job without one is refused.
        FileSystem = "filesystem",
        /// To the JobManager, whatever directory is set.
        JobManager = "jobmanager",
    }
}

options! {
    /// The time between the beginnings of two checkpoints. Where it is not set there are no periodic checkpoints, and a job that
    /// is restarted begins anew, unless a checkpoint was asked for or a stop has taken one.
    INTERVAL: Option<Duration> = "execution.checkpointing.interval" => None, must be_longer_than_zero_if_set;
    /// The time from its trigger within which all tasks have to acknowledge a checkpoint; otherwise it is aborted and counts as failed.
    /// Also the longest time that a savepoint waits for tasks that come up.
    TIMEOUT: Duration = "execution.checkpointing.timeout" => Duration::from_secs(600), must be_longer_than_zero;
    /// The shortest time between the completion of a checkpoint or savepoint and the next periodic checkpoint; a checkpoint that failed
    /// is followed without it.
    MIN_PAUSE: Duration = "execution.checkpointing.min-pause" => Duration::ZERO;
    /// The number of checkpoints in a row that may fail; one more fails all tasks, and the restart strategy decides. Failed savepoints,
    /// and checkpoints that were aborted because tasks failed, do not count, nor do those of a job without
    /// `execution.checkpointing.interval`.
    TOLERABLE_FAILURES: u32 = "execution.checkpointing.tolerable-failed-checkpoints" => 0;
    /// Whether a job whose newest checkpoint can't be read continues from the previous one that is kept
    /// (`execution.checkpointing.num-retained`). Sinks may have committed output with the newest one; the job makes that output
    /// again, so it is there twice. Where this is `false`, a JobManager that takes over a job whose newest checkpoint has lost or
    /// damaged metadata fails the job and keeps its checkpoints, so that the file can be restored; tasks that find a file lost or
    /// damaged start again as the restart strategy says.
    FALLBACK: bool = "execution.checkpointing.fallback" => false;
    /// The number of complete checkpoints that are kept; older ones are deleted.
    RETAINED: NonZeroU32 = "execution.checkpointing.num-retained" => NonZeroU32::MIN, other ["state.checkpoints.num-retained"];
    /// The directory for checkpoints: a path or URI (file, hdfs, s3) that means the same on all machines of the cluster. Where it
    /// is not set, a job that takes checkpoints (periodic ones, one at its end for sinks that commit, savepoints) uses the folder
    /// `checkpoints` of the cluster in `high-availability.storageDir` if `high-availability.type` is `filesystem` and that is a path;
    /// without high availability, in a cluster that other machines cannot reach (`jobmanager.bind-host` is a loopback address, or the
    /// program runs by itself), a temporary folder that is deleted with the JobManager.
    /// Where there is neither, the JobManager keeps the state, which is limited to 5 MiB per task then; keyed state does not count at the
    /// end of the data. A job is refused when it is submitted if the JobManager cannot write to its directory, and fails when it starts if a TaskManager does not share it.
    DIRECTORY: Option<String> = "execution.checkpointing.dir" => None, other ["state.checkpoints.dir"],
        must be_absolute_if_set;
    /// Where the state of checkpoints goes: `filesystem` (into the directory `execution.checkpointing.dir` or its default; the job is
    /// refused if there is none) or `jobmanager` (to the JobManager, at most 5 MiB per task, even if a directory is set). Not set: into the directory, if the job has one.
    STORAGE: Option<Storage> = "execution.checkpointing.storage" => None, other ["state.checkpoint-storage"];
    /// The directory for savepoints, if a request names none: a path or URI like that of checkpoints. The JobManager writes it; a job
    /// that starts from a savepoint reads it on all machines.
    SAVEPOINT_DIRECTORY: Option<String> = "execution.checkpointing.savepoint-dir" => None, other ["state.savepoints.dir"],
        must be_absolute_if_set;
    /// Whether checkpoints store only what has changed in keyed state since the newest complete checkpoint, and refer to that one's files
    /// for the rest: cheaper where little changes between two checkpoints, slower to restore. Operators with timers or event time, and
    /// windows, store all of their state in any case, and so do savepoints and the checkpoints after them. Has an effect only with
    /// a checkpoint directory. The checkpoints that are kept then share files: a damaged file may belong to all of them, a file of
    /// an older checkpoint is deleted with the last one that refers to it, and a retained checkpoint that other ones build on is neither
    /// disposed of nor claimed before them. Where it is not set and `execution.checkpointing.fallback` is true, checkpoints store
    /// everything, so that the one before is whole if a file of the newest is damaged. Where both are true, a damaged file that all kept
    /// checkpoints share leaves none to continue from: the job fails with the name of the file once no restart is left. Flink's default is false, because its heap state has
    /// no such checkpoints.
    INCREMENTAL: bool = "execution.checkpointing.incremental" => true, other ["state.backend.incremental"];
    /// State up to this size is stored in the checkpoint's metadata instead of a file of its own.
    INLINE_THRESHOLD: MemorySize = "execution.checkpointing.data-inline-threshold" => MemorySize(20 << 10),
        other ["state.storage.fs.memory-threshold"];
    /// Whether checkpoints outlive their job: `DELETE_ON_CANCELLATION` (they stay if it fails), `RETAIN_ON_CANCELLATION` or
    /// `NO_EXTERNALIZED_CHECKPOINTS`.
    RETENTION: Retention = "execution.checkpointing.externalized-checkpoint-retention" => Retention::NoExternalizedCheckpoints;
}
