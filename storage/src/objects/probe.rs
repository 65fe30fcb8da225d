//! A look at a remote store before it is used: whether it answers, lets this process write, and keeps the promise on
//! which fencing is built. It must leave nothing behind.

use super::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;

/// Checks that a store answers, can be written to, and refuses to create an object that exists: creates the object `name` twice and deletes
/// it. A JobManager calls this at its start for a remote store of `high-availability.storageDir`. `name` must be unused: an object that is
/// there is deleted. An S3 server that does not know `If-None-Match` replaces the object the second time; on it, two leaders would each
/// believe that a job's log is theirs.
///
/// # Errors
/// Returns the store's error, after which the object may be left; [`StoreError::Unconditional`] if the second creation did not find the
/// object of the first, or an object of this name existed before.
pub async fn probe(store: &dyn ObjectStore, name: &str) -> Result<(), StoreError> {
    let first = store.put_new(name, Bytes::from_static(b"1")).await?;
    let second = store.put_new(name, Bytes::from_static(b"2")).await?;
    store.delete(name).await?;
    match (first, second) {
        (PutNew::Created, PutNew::Exists) => Ok(()),
        _ => Err(StoreError::Unconditional { path: store.location() }),
    }
}
