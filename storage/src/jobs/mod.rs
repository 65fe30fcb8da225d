//! What a JobManager must not forget about jobs: graphs that are to run, results of those that have
//! ended, and, for a while, everything about ended jobs. Built on create-if-absent objects, so that the
//! first writer of a fact wins whatever else happens. It must never decide what a fact means.

mod archive;
mod graphs;
mod results;
#[cfg(test)]
mod tests;

pub use archive::{Archive, ArchiveBounds, ArchiveError};
pub use graphs::{Damaged, JobGraphStore, StoredGraphs};
pub use results::{JobResultEntry, JobResultStore, RecordedResult};

use crate::objects::{ObjectStore, StoreError};
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Deepest nesting of what is stored: damaged bytes must not exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Why a store of jobs could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobStoreError {
    /// The objects below.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something of that name is there already.
    #[error("{what} is stored already at {location}")]
    Exists {
        /// What.
        what: String,
        /// Where.
        location: String,
    },
    /// An object that is whole, but not what it should be.
    #[error("{name} at {location} can't be understood: {why}")]
    Malformed {
        /// Its name.
        name: String,
        /// Where.
        location: String,
        /// What is wrong.
        why: String,
    },
}

/// What MessagePack says; bytes behind its end are not looked at.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut decoder)
}

/// Removes everything about jobs: the application has ended, and its cluster with it.
///
/// # Errors
/// As the store's; what was removed stays removed.
pub fn clear(objects: &dyn ObjectStore) -> Result<(), StoreError> {
    for name in objects.list("jobs/")? {
        objects.delete(&name)?;
    }
    Ok(())
}
