//! What can be wrong with a configuration. Every message names the place, the key and the remedy.

use std::path::PathBuf;
use thiserror::Error;

/// Why options cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// The configuration file is not YAML as it is understood here.
    #[error("{place}: {why}")]
    Yaml {
        /// File, line and column.
        place: String,
        /// What is wrong there.
        why: String,
    },
    /// A key that no option has.
    #[error("unknown option '{key}' ({place}){}", nearest.as_ref().map(|n| format!("; did you mean '{n}'?")).unwrap_or_default())]
    Unknown {
        /// As it was written.
        key: String,
        /// Where it was set.
        place: String,
        /// The option whose name is nearest, where one is near.
        nearest: Option<String>,
    },
    /// An option of Flink that has no meaning here.
    #[error("option '{key}' ({place}) does not exist in Flott: {instead}")]
    Refused {
        /// As it was written.
        key: String,
        /// Where it was set.
        place: String,
        /// What to use instead, and why.
        instead: String,
    },
    /// A value that its option does not take.
    #[error("option '{key}' ({place}): '{value}' is wrong, it takes {expected}")]
    Invalid {
        /// The option.
        key: String,
        /// As it was written; secrets are masked.
        value: String,
        /// Where it was set.
        place: String,
        /// What the option takes.
        expected: String,
    },
    /// One option set twice in one place.
    #[error("option '{key}' is set twice: {first} and {second}")]
    Twice {
        /// The option.
        key: String,
        /// Where first.
        first: String,
        /// Where again.
        second: String,
    },
    /// `-D` without a key and a value.
    #[error("'{0}' is not KEY=VALUE")]
    NotAPair(String),
    /// The layers could not be merged.
    #[error("the configuration cannot be merged: {0}")]
    Merge(String),
}
