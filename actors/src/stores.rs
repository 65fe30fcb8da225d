//! Object stores as actors open and call them: from the cluster's options, without waiting inside a turn. This module must never
//! put an S3 key into an error or a log.

use control::registration::backoff;
use platform::Platform;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use storage::objects::{self, ObjectStore, S3Settings, StoreError};

/// Returns the settings for S3 from the options `s3.*`: endpoint, region, access keys, and how buckets are addressed.
/// Options that are not set become `None`: the environment (`AWS_…`) supplies them when a store is opened. Connects nowhere. The result
/// holds secrets; its debug text shows none.
pub fn s3_settings(options: &conf::Options) -> S3Settings {
    S3Settings {
        endpoint: options.get(&conf::s3::ENDPOINT),
        region: options.get(&conf::s3::REGION),
        access_key: options.get(&conf::s3::ACCESS_KEY),
        secret_key: options.get(&conf::s3::SECRET_KEY),
        path_style_access: options.get(&conf::s3::PATH_STYLE_ACCESS),
    }
}

/// Opens a store; a local directory is created.
pub(crate) async fn open_store(
    uri: String,
    platform: Platform,
    s3: S3Settings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let place = uri.clone();
    let opened = platform::blocking(move || objects::open(&uri, &platform, &s3)).await;
    opened.map_err(|why| StoreError::Io { path: place, why: why.to_string() })?
}

/// Returns the text for users about a checkpoint directory, the job's own or the cluster's, that a job cannot use for this reason: with the
/// directory, the reason and the remedy.
pub(crate) fn unusable_directory(uri: &str, why: &impl fmt::Display) -> String {
    format!(
        "the checkpoint directory '{uri}' cannot be used: {why}; set execution.checkpointing.dir to a directory that the JobManager and \
         all TaskManagers can reach and write to, or set execution.checkpointing.storage to jobmanager, which then keeps the state, at most \
         5 MiB per task"
    )
}

/// Returns the reason of a checkpoint that has failed because its metadata could not be stored in the checkpoint directory at `uri`, with
/// the remedy; `None`: the job has no directory, and its metadata is in the store of job logs.
pub(crate) fn metadata_not_stored(uri: Option<&str>, why: &impl fmt::Display) -> String {
    match uri {
        Some(uri) => format!(
            "the checkpoint's metadata is not stored in the checkpoint directory '{uri}': {why}; see that the JobManager can write there \
             and has room, or set execution.checkpointing.dir to another directory"
        ),
        None => format!(
            "the checkpoint's metadata is not stored beside the job's log: {why}; see that the JobManager can write there and has room \
             (high-availability.storageDir), or give the job a checkpoint directory: set execution.checkpointing.dir, and \
             execution.checkpointing.storage, if it is set, to filesystem"
        ),
    }
}

/// Makes a call again, after pauses that double from `pauses.0` to `pauses.1`, until it succeeds or fails with an error for which
/// `may_pass` is false. `what` names in the log what cannot be done.
pub(crate) async fn retried<T, E: fmt::Display, F>(
    what: &str,
    pauses: (Duration, Duration),
    may_pass: impl Fn(&E) -> bool,
    call: impl Fn() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut failures = 0;
    loop {
        match call().await {
            Err(error) if may_pass(&error) => {
                let pause = backoff(pauses.0, pauses.1, failures);
                tracing::error!(%error, retry_after = ?pause, "cannot {what}");
                failures = failures.saturating_add(1);
                tokio::time::sleep(pause).await;
            }
            outcome => return outcome,
        }
    }
}
