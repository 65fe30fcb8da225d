//! The stores of a JobManager: its election, the logs of jobs, the details of ended jobs, and blobs. Without high
//! availability they go with the process; with it, what another JobManager needs is in
//! `high-availability.storageDir`. This module must never leave anything behind for a cluster that has ended.

use super::{StartError, ha_store, opened};
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

/// Returns a folder of this process alone in `blob.storage.directory`; `None` if the option is not set.
fn blob_folder(platform: &Platform, options: &Options) -> Result<Option<WorkFolder>, StartError> {
    let Some(base) = options.get(&conf::rpc::BLOB_DIRECTORY) else {
        return Ok(None);
    };
    let made = WorkFolder::make(&base, "jobmanager", platform.random_u64());
    let failed = |e| StartError::storage(format!("blob.storage.directory {}", base.display()), e);
    made.map(Some).map_err(failed)
}
