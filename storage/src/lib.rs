//! What must survive a process: blobs, job graphs, job results, leader records and election
//! drivers. It must never know actors.

pub mod blobs;
pub mod disk;
pub mod ha;
pub mod jobs;
pub mod objects;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
