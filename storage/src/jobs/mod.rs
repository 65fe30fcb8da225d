//! The facts about jobs that a JobManager must not forget: each job's numbered log, and the details of ended
//! jobs. Built on create-if-absent objects. It must never decide what a fact means for the cluster.

mod archive;
mod log;
mod record;
mod replay;
#[cfg(test)]
mod tests;

pub use archive::{DetailsStore, archive_name};
pub use log::{AppendError, JobLogs, LogEnd, TakenOver};
pub use record::{JobFact, JobRecord, JobResultEntry, Writer};
pub use replay::JobState;

use crate::objects::{ObjectStore, StoreError};
use serde::de::DeserializeOwned;

/// Deepest nesting of stored values: damaged bytes must not exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Decodes MessagePack; bytes after its end are ignored.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut decoder)
}

/// Removes everything about jobs: the application has ended, and its cluster with it.
///
/// # Errors
/// As the store's; objects that were removed before the error stay removed.
pub async fn clear(objects: &dyn ObjectStore) -> Result<(), StoreError> {
    for prefix in [log::PREFIX, archive::PREFIX] {
        for name in objects.list(prefix).await? {
            objects.delete(&name).await?;
        }
    }
    Ok(())
}
