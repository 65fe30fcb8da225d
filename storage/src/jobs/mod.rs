//! The facts about jobs that a JobManager must not forget: each job's numbered log, and the details of ended jobs. Both
//! are kept in create-if-absent objects. This module must never decide what a fact means for the cluster.

mod archive;
mod log;
mod open_log;
mod record;
mod replay;
#[cfg(test)]
mod tests;

pub use archive::{DetailsStore, archive_name};
pub use log::{AppendError, JobLogs, LogEnd, LogId, TakenOver, parse_record_name};
pub use open_log::OpenJobLog;
pub use record::{JobFact, JobRecord, JobResultEntry, Writer};
pub use replay::{CheckpointRecords, JobState};

use crate::objects::{ObjectStore, StoreError};
use platform::messagepack::{self, DecodeError};
use serde::de::DeserializeOwned;

/// Maximum nesting depth of stored values, so that damaged bytes cannot exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Decodes a MessagePack value; bytes after its end are ignored.
fn decode<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T, DecodeError> {
    messagepack::decode(&mut bytes, DEPTH_MAX)
}

/// Deletes the logs of all jobs, the marks of take-overs and the stored details of ended jobs in the cluster's object store, without
/// checking a lease; checkpoints and copies of programs stay. Called when a session has been shut down for good; no other JobManager may
/// lead then. In a cluster of one job the log stays, so that a process that is started again does not run the job a second time.
///
/// # Errors
/// Returns the store's error; objects that were deleted before it stay deleted.
pub async fn clear(objects: &dyn ObjectStore) -> Result<(), StoreError> {
    for prefix in [log::PREFIX, archive::PREFIX] {
        for name in objects.list(prefix).await? {
            objects.delete(&name).await?;
        }
    }
    Ok(())
}
