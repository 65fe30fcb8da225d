//! What travels in REST bodies, with Flink's field names: one set of types for server and client.
//!
//! Shapes only. A field keeps Flink's name and meaning; what Flink has and this runtime has not is left
//! out, never made up.

mod cluster;
mod jars;
mod jobs;
mod taskmanagers;

pub use cluster::*;
pub use jars::*;
pub use jobs::*;
pub use taskmanagers::*;

use serde::{Deserialize, Serialize};

/// Every error body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong, most general first.
    pub errors: Vec<String>,
}

/// `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EmptyBody {}
