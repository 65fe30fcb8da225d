//! Errors of a configuration. Every message names the place, the key and the remedy.

use std::path::PathBuf;
use thiserror::Error;

/// The reason why options cannot be made from a file, the environment or the command line. Its text names the place,
/// the key and the remedy where they are known, and no value of a secret.
/// A key that is set in several layers is no error; one that is set twice in the same layer is one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfError {
    /// The file `flott.yaml` cannot be opened or read, for example because the named directory has none, or is not
    /// UTF-8.
    #[error("cannot read the configuration {}: {why}", path.display())]
    Unreadable {
        /// Path of `flott.yaml`.
        path: PathBuf,
        /// Message of the system.
        why: String,
    },
    /// The file `flott.yaml`, or a text given as one, is not YAML, or YAML that is not accepted: it is no mapping of keys to values,
    /// has a second document, aliases, lists of anything but plain values, empty keys, keys above 1 KiB, more than 32 levels or more
    /// than 1 MiB.
    #[error("{place}: {why}")]
    Yaml {
        /// Place of the fault: file, and line where it is known.
        place: String,
        /// The fault found at `place`.
        why: String,
    },
    /// The key belongs to no option of Flott, nor to a family of options; an environment variable counts with the key that it sets. A key
    /// of Flink's that is known to have no meaning here is `Refused` instead. Keys under `program.` are never unknown.
    #[error("unknown option '{key}' ({place}){}", nearest.as_ref().map(|n| format!("; did you mean '{n}'?")).unwrap_or_default())]
    Unknown {
        /// Key as it was written, cut after 200 characters.
        key: String,
        /// Place of the setting: file and line, environment variable, command line, or the name that the caller gave it.
        place: String,
        /// Key of the option whose name is most like `key`; `None` if none is like it.
        nearest: Option<String>,
    },
    /// The key is that of an option of Flink which does not exist here, for example one of the JVM; `instead` says
    /// what to use. Such a setting is an error and is not ignored.
    #[error("option '{key}' ({place}) does not exist in Flott: {instead}")]
    Refused {
        /// Key as it was written, cut after 200 characters.
        key: String,
        /// Place of the setting: file and line, environment variable, command line, or the name that the caller gave it.
        place: String,
        /// Advice for users: the option to use instead, and the reason.
        instead: String,
    },
    /// The option does not take the value: it has the wrong form, or lies outside of the option's bounds. Checked for each setting of every
    /// layer, also for one that another layer overrides.
    #[error("option '{key}' ({place}): '{value}' is wrong, it takes {expected}")]
    Invalid {
        /// Key of the option, under its own name also where another accepted one was written.
        key: String,
        /// Value as it was written, cut after 200 characters; `******` for a secret.
        value: String,
        /// Place of the setting: file and line, environment variable, command line, or the name that the caller gave it.
        place: String,
        /// The values that the option takes, as a phrase that completes "it takes …".
        expected: String,
    },
    /// One option is set twice in the file or in the environment, perhaps under two of its names. Only `Options::load` and
    /// `Options::from_yaml` report it. On a command line the last setting counts, and in a map the one under the option's own name: this
    /// error does not occur there.
    #[error("option '{key}' is set twice: {first} and {second}")]
    Twice {
        /// Own key of the option that is set twice.
        key: String,
        /// Place of the first setting: file and line, or environment variable.
        first: String,
        /// Place of the second setting, in the same form.
        second: String,
    },
    /// The text after `-D` on the command line is not `KEY=VALUE`, or its key is empty. The error does not repeat the text, which may be a
    /// secret. Made by the command-line programs; no function of this crate returns it.
    #[error(
        "argument {number} of -D is not KEY=VALUE: {}; write -D KEY=VALUE, in quotes if the value has spaces; the argument is not repeated \
         here because it may be a secret",
        if *has_sign { "it has no key before its '='" } else { "it has no '='" }
    )]
    NotAPair {
        /// Place of the argument among those of `-D`, from 1.
        number: usize,
        /// True if the text has a `=`: then its key is empty.
        has_sign: bool,
    },
    /// The library that merges the layers failed, which is a fault of Flott; holds its message. No setting of a user leads to it.
    #[error("the configuration cannot be merged: {0}")]
    Merge(String),
}
