//! Stores what must survive a process - blobs, job graphs, job results, leader records, election
//! drivers - input files of other systems, and output files. It must never know actors.

pub mod blobs;
pub mod checkpoints;
mod disk;
pub mod files;
pub mod ha;
pub mod jobs;
pub mod objects;
pub mod output;
pub mod savepoints;
pub mod state_reader;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
