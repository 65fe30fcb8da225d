//! Errors of a configuration. Every message names the place, the key and the remedy.

use std::path::PathBuf;
use thiserror::Error;

/// The reason why options cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration {}: {why}", path.display())]
    Unreadable {
        /// Path of the file concerned.
        path: PathBuf,
        /// Message of the system.
        why: String,
    },
    /// The configuration file is not YAML as it is understood here.
    #[error("{place}: {why}")]
    Yaml {
        /// Place of the fault: file, line and column.
        place: String,
        /// The fault found at `place`.
        why: String,
    },
    /// A key that no option has.
    #[error("unknown option '{key}' ({place}){}", nearest.as_ref().map(|n| format!("; did you mean '{n}'?")).unwrap_or_default())]
    Unknown {
        /// Key as it was written.
        key: String,
        /// Place of the setting: file and line, environment variable or command line.
        place: String,
        /// The option whose name is nearest, where one is near.
        nearest: Option<String>,
    },
    /// An option of Flink that has no meaning here.
    #[error("option '{key}' ({place}) does not exist in Flott: {instead}")]
    Refused {
        /// Key as it was written.
        key: String,
        /// Place of the setting: file and line, environment variable or command line.
        place: String,
        /// The option to use instead, and why.
        instead: String,
    },
    /// A value that its option does not take.
    #[error("option '{key}' ({place}): '{value}' is wrong, it takes {expected}")]
    Invalid {
        /// Key of the option concerned.
        key: String,
        /// Value as it was written; secrets are masked.
        value: String,
        /// Place of the setting: file and line, environment variable or command line.
        place: String,
        /// The values that the option takes.
        expected: String,
    },
    /// One option set twice in one place.
    #[error("option '{key}' is set twice: {first} and {second}")]
    Twice {
        /// Key of the option concerned.
        key: String,
        /// Place of the option's first value: file and line, or command line.
        first: String,
        /// Place of the option's second value.
        second: String,
    },
    /// `-D` without a key and a value.
    #[error("'{0}' is not KEY=VALUE")]
    NotAPair(String),
    /// The layers could not be merged.
    #[error("the configuration cannot be merged: {0}")]
    Merge(String),
}
