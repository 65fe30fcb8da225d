//! The bodies of REST requests and answers, with Flink's field names: one set of types for server
//! and client.
//!
//! Shapes only. A field keeps Flink's name and meaning. A field that has no counterpart in this
//! runtime is left out or 0 (ports: -1), never made up.

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

/// The body of an answer with a status of 400 or more: the reasons why the request was not served. The answer to a `HEAD` request, and to
/// one whose head the web server cannot read (more than 64 KiB, for one), has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The messages of the error, most general first; at least one.
    pub errors: Vec<String>,
    /// Set if the errors are a program's own help or complaint about its arguments, which clients print as they are; absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Tells that the messages of an error answer are a program's own words: its help, or its complaint about its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// The program was asked for its help or version, and the messages are that text; this is no failure.
    Help,
    /// The program refused its arguments, and the messages are its complaint.
    Wrong,
}

/// An empty JSON object, `{}`: the body of answers that say only that the request was accepted (a cancellation, a client's beat, the end of
/// the cluster) or done (a deleted program, an unblocked node).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EmptyBody {}
