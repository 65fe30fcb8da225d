//! What travels in REST bodies, with Flink's field names: one set of types for server and client.
//!
//! Shapes only. A field keeps Flink's name and meaning; what Flink has and this runtime has not is left
//! out, or 0 (ports: -1) where there truly is none of it; never made up.

mod checkpoints;
mod cluster;
mod jars;
mod jobs;
mod taskmanagers;

pub use checkpoints::*;
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
    /// Where the words are a program's own help or complaint about its arguments; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What a program's own words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// Help or the version was asked for: no failure.
    Help,
    /// The arguments are wrong.
    Wrong,
}

/// `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EmptyBody {}
