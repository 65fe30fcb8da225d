//! The stores of a JobManager: its election, the logs of jobs, the details of ended jobs, and blobs. Without high
//! availability they go with the process; with it, what another JobManager needs is in
//! `high-availability.storageDir`. This module must never leave anything behind for a cluster that has ended.

use super::{StartError, ha_store, opened};
use crate::hosts::is_loopback;
use crate::target;
use crate::work_folder::WorkFolder;
use conf::Options;
use conf::high_availability::{self as ha, HaType};
use platform::Platform;
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::{BlobStore, DurableBlobs, FileBlobs};
use storage::ha::{ElectionDriver, EmbeddedElection, FileElection};
use storage::objects::{FileObjects, MemoryObjects, ObjectStore};

/// Maximum time that the removal of HA data may take.
const CLEAN_WITHIN: Duration = Duration::from_secs(10);

/// The stores of a JobManager.
pub(super) struct Stores {
    pub(super) election: Arc<dyn ElectionDriver>,
    /// True if other JobManagers may lead instead of this one.
    pub(super) standby: bool,
    pub(super) ha: HaData,
    pub(super) details: Arc<dyn ObjectStore>,
    /// The directory for the checkpoints of jobs that name none; `None`: no directory is known to be shared by all TaskManagers.
    pub(super) checkpoints: Option<String>,
    pub(super) blobs: Arc<dyn BlobStore>,
    /// The folder of the blobs, if it is not in the work folder. It goes with this process.
    pub(super) blob_folder: Option<WorkFolder>,
}

/// The data for another JobManager, or what stands in for it if there is none.
pub(super) struct HaData {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) durable: Option<DurableBlobs>,
}

impl Stores {
    /// Opens the stores that the options name.
    pub(super) async fn open(
        platform: &Platform,
        options: &Options,
        work: &WorkFolder,
    ) -> Result<Self, StartError> {
        let blob_folder = blob_folder(platform, options)?;
        let folders = blob_folder.as_ref().unwrap_or(work).subs("blobs")?;
        let files = opened("blob store", || FileBlobs::open_on(folders)).await?;
        let files: Arc<dyn BlobStore> = Arc::new(files);
        match options.get(&ha::TYPE) {
            HaType::None => {
                let archive = work.path().join("archive");
                let details =
                    opened("details of ended jobs", || FileObjects::open(archive)).await?;
                Ok(Self {
                    election: Arc::new(EmbeddedElection::new(target::epoch(platform, options)?)),
                    standby: false,
                    ha: HaData { objects: Arc::new(MemoryObjects::default()), durable: None },
                    details: Arc::new(details),
                    checkpoints: is_of_this_machine(options).then(|| work.checkpoints()),
                    blobs: files,
                    blob_folder,
                })
            }
            HaType::Filesystem => {
                // The election has its own store, so that its calls do not queue behind those of jobs.
                let leaders = ha_store::open(options, platform).await?;
                let objects = ha_store::open(options, platform).await?;
                ha_store::check(options, &*objects, platform).await?;
                let settings = ha_store::lease(options)?;
                let durable = DurableBlobs::new(files, objects.clone());
                Ok(Self {
                    election: Arc::new(FileElection::new(platform.clone(), leaders, settings)),
                    standby: true,
                    details: objects.clone(),
                    checkpoints: ha_store::checkpoints(options)?,
                    blobs: Arc::new(durable.clone()),
                    ha: HaData { objects, durable: Some(durable) },
                    blob_folder,
                })
            }
        }
    }
}

impl HaData {
    /// Removes the data for other JobManagers, because the application has ended. The leader's record stays, so that
    /// epochs continue to rise. In a cluster of one job the job's log stays, so that a supervisor that restarts the
    /// process does not run the job again.
    pub(super) async fn clean(&self, single_job: bool) {
        let cleared = async {
            if !single_job {
                storage::jobs::clear(&*self.objects).await?;
            }
            // A job whose log is still there needs its program, so the programs come last.
            match &self.durable {
                Some(durable) => durable.clear().await,
                None => Ok(()),
            }
        };
        match tokio::time::timeout(CLEAN_WITHIN, cleared).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove the HA data"),
            Err(_) => tracing::warn!("cannot remove the HA data: the store does not answer"),
        }
    }
}

/// Returns true if only processes of this machine can reach the JobManager, so that all TaskManagers share its temporary folders.
fn is_of_this_machine(options: &Options) -> bool {
    is_loopback(&options.get(&conf::jobmanager::BIND_HOST))
}

/// Returns a folder of this process alone in `blob.storage.directory`; `None` if the option is not set.
fn blob_folder(platform: &Platform, options: &Options) -> Result<Option<WorkFolder>, StartError> {
    let Some(base) = options.get(&conf::rpc::BLOB_DIRECTORY) else {
        return Ok(None);
    };
    let made = WorkFolder::make(&base, "jobmanager", platform.random_u64());
    let failed = |e| StartError::storage(format!("blob.storage.directory {}", base.display()), e);
    made.map(Some).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn checkpoints_go_to_storage_that_survives_or_on_one_machine_to_the_work_folder() {
        let base = tempfile::tempdir().unwrap();
        let folder = |name| base.path().join(name).display().to_string();
        let (temporary, storage) = (folder("tmp"), folder("ha"));
        let opened = async |set: &[(&str, &str)]| {
            let tmp = [("io.tmp.dirs", temporary.as_str())];
            let options = Options::from_map(set.iter().chain(&tmp).copied()).unwrap();
            let work = WorkFolder::on_all_disks(&options, "test", 7).unwrap();
            let stores = Stores::open(&Platform::production(), &options, &work).await.unwrap();
            (stores.checkpoints, work.path().join("checkpoints").display().to_string())
        };
        for here in ["localhost", "127.0.0.1", "::1", "[::1]"] {
            let (checkpoints, own) = opened(&[("jobmanager.bind-host", here)]).await;
            assert_eq!(checkpoints, Some(own), "{here}");
        }
        let everywhere = ("jobmanager.bind-host", "0.0.0.0");
        assert_eq!(opened(&[everywhere]).await.0, None);
        let shared =
            [("high-availability.type", "filesystem"), (ha::STORAGE_DIR.key(), storage.as_str())];
        let expected = format!("{storage}/default/checkpoints");
        assert_eq!(opened(&shared).await.0.as_ref(), Some(&expected));
        assert_eq!(opened(&[&shared[..], &[everywhere]].concat()).await.0, Some(expected));
        // Programs may be built without the client of a remote system.
        let remote = Options::from_map([(ha::STORAGE_DIR.key(), "s3://bucket/ha")]).unwrap();
        assert_eq!(ha_store::checkpoints(&remote).unwrap(), None);
    }
}
