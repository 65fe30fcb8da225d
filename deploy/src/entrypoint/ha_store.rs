//! The cluster's part of `high-availability.storageDir`. This module must never put an S3 key into an error or a log.

use super::{StartError, opened};
use conf::Options;
use conf::high_availability as ha;
use platform::Platform;
use std::sync::Arc;
use std::time::Duration;
use storage::ha::FileElectionSettings;
use storage::objects::{self, ObjectStore, StoreError};

/// Shortest lease: below it, ordinary delays of a disk or of the scheduler end leaderships.
const LEASE_MIN: Duration = Duration::from_millis(200);

/// Opens the cluster's part of `high-availability.storageDir`. A directory is created; a remote system is not
/// contacted. A directory that hangs holds up only this future: the process still ends on a signal.
pub(super) async fn open(
    options: &Options,
    platform: &Platform,
) -> Result<Arc<dyn ObjectStore>, StartError> {
    let uri = storage_dir(options)?;
    let settings = actors::stores::s3_settings(options);
    let uri = objects::below(&uri, &options.get(&ha::CLUSTER_ID));
    let platform = platform.clone();
    opened(ha::STORAGE_DIR.key(), move || objects::open(&uri, &platform, &settings)).await
}

/// Returns the directory for the checkpoints of jobs that name none: the folder `checkpoints` in the cluster's part. The metadata of jobs
/// whose state the JobManager keeps is there too. `None` if it is on a remote system: programs may be built without its client.
pub(super) fn checkpoints(options: &Options) -> Result<Option<String>, StartError> {
    let storage = storage_dir(options)?;
    let cluster = objects::below(&storage, &options.get(&ha::CLUSTER_ID));
    Ok((!objects::is_remote(&storage)).then(|| objects::below(&cluster, "checkpoints")))
}

/// Checks a remote store before anything depends on it. If it cannot be reached now, there is only a warning: the
/// election tries again until it can.
pub(super) async fn check(
    options: &Options,
    store: &dyn ObjectStore,
    platform: &Platform,
) -> Result<(), StartError> {
    if !objects::is_remote(&storage_dir(options)?) {
        return Ok(());
    }
    let name = format!("probe/{:016x}", platform.random_u64());
    match objects::probe(store, &name).await {
        Err(error @ StoreError::Unreachable { .. }) => {
            tracing::warn!(%error, "cannot check high-availability.storageDir; no leader is elected without it");
            Ok(())
        }
        outcome => outcome.map_err(failed),
    }
}

/// Returns the configured URI or path, after checking that a local path is valid.
fn storage_dir(options: &Options) -> Result<String, StartError> {
    let Some(uri) = options.get(&ha::STORAGE_DIR) else {
        return Err(StartError::Invalid(
            "high-availability.type is filesystem: set high-availability.storageDir to a directory that \
             every JobManager and TaskManager reaches"
                .to_owned(),
        ));
    };
    if !objects::is_remote(&uri) && !objects::local_path(&uri).map_err(failed)?.is_absolute() {
        return Err(StartError::Invalid(format!(
            "high-availability.storageDir '{uri}' is a relative path, which means another directory to each \
             JobManager: give an absolute one"
        )));
    }
    let cluster_id = options.get(&ha::CLUSTER_ID);
    if !objects::is_segment(&cluster_id) {
        return Err(StartError::Invalid(format!(
            "high-availability.cluster-id '{cluster_id}' is not the name of a folder: give it letters, digits, '.', \
             '_' and '-', the first no dot"
        )));
    }
    Ok(uri)
}

/// Returns how long a lease lasts and how often it is renewed.
pub(super) fn lease(options: &Options) -> Result<FileElectionSettings, StartError> {
    let lease_duration = options.get(&ha::LEASE_DURATION);
    let renew_interval = options.get(&ha::LEASE_RENEW_INTERVAL);
    if lease_duration < LEASE_MIN || lease_duration < renew_interval.saturating_mul(3) {
        let (lease, renew) = (ha::LEASE_DURATION.key(), ha::LEASE_RENEW_INTERVAL.key());
        return Err(StartError::Invalid(format!(
            "{lease} is {lease_duration:?} and {renew} {renew_interval:?}: a lease must last at least {LEASE_MIN:?} and \
             three renewals, else leaders lose it while they are alive"
        )));
    }
    Ok(FileElectionSettings { lease_duration, renew_interval })
}

fn failed(error: StoreError) -> StartError {
    StartError::storage("high-availability.storageDir", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(set: &[(&str, &str)]) -> Options {
        Options::from_map(set.iter().copied()).unwrap()
    }

    const DIR: &str = "high-availability.storageDir";

    #[tokio::test]
    async fn a_storage_that_is_no_directory_is_refused() {
        for nothing in ["", "file://", "file://other/x"] {
            let opened = open(&options(&[(DIR, nothing)]), &Platform::production()).await;
            assert!(opened.is_err(), "{nothing}");
        }
    }

    #[test]
    fn a_storage_that_means_another_place_to_each_process_is_refused() {
        let relative = storage_dir(&options(&[(DIR, "relative/dir")])).unwrap_err().to_string();
        assert!(relative.contains("'relative/dir' is a relative path"), "{relative}");
        for id in ["", "../../escaped", "a/b", ".hidden"] {
            let set = [(DIR, "/shared/ha"), ("high-availability.cluster-id", id)];
            let error = storage_dir(&options(&set)).unwrap_err().to_string();
            assert!(error.contains("high-availability.cluster-id"), "{error}");
        }
    }

    #[test]
    fn a_lease_lasts_for_several_renewals() {
        const LEASE: &str = "high-availability.filesystem.lease-duration";
        const RENEW: &str = "high-availability.filesystem.renew-interval";
        assert!(lease(&options(&[])).is_ok());
        assert!(lease(&options(&[(LEASE, "3 s"), (RENEW, "1 s")])).is_ok());
        for wrong in [[(LEASE, "1 s"), (RENEW, "2 s")], [(LEASE, "10 ms"), (RENEW, "1 ms")]] {
            let error = lease(&options(&wrong)).unwrap_err().to_string();
            assert!(error.contains(LEASE) && error.contains(RENEW), "{error}");
        }
    }

    #[tokio::test]
    async fn no_error_shows_a_secret() {
        let set = [(DIR, "s3:wrong"), ("s3.access-key", "hush"), ("s3.secret-key", "hush")];
        let error = open(&options(&set), &Platform::production()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"));
        assert!(!format!("{:?}", options(&set).to_masked_map()).contains("hush"));
    }
}
