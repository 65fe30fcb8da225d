//! Errors of configurations. They name the property or file, never a value that could be a password.

use std::path::PathBuf;

/// The reason why a configuration could not be read (`Read`, `Xml`, `Includes`, `TooLong`), or a property's value could not be used:
/// missing, of the wrong type, or with `${…}` that never stop expanding. Returned by [`Configuration`](super::Configuration) and by what
/// reads properties.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfError {
    /// A configuration file could not be read, or is not UTF-8.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file that could not be read.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A configuration's text is not well-formed XML, has a DTD or more than 1,048,576 XML nodes, or is no Hadoop configuration; or it
    /// includes a file by an inclusion without `href`, or where [`NoIncludes`](super::NoIncludes) forbids it.
    #[error("{resource}: {reason}")]
    Xml {
        /// The file or resource.
        resource: String,
        /// The mistake, with line and column where they are known.
        reason: String,
    },
    /// Files include each other more than 16 levels deep, perhaps without end. A `<fallback>` does not help here.
    #[error("{resource}: more than {max} levels of included files")]
    Includes {
        /// The file whose inclusion was refused, as the inclusion's `href` spells it.
        resource: String,
        /// Maximum depth of inclusions.
        max: usize,
    },
    /// A configuration, with all that it includes, has more than 16 MiB; or its values together have, so that
    /// [`Configuration::to_xml`](super::Configuration::to_xml) does not write them.
    #[error("{resource}: longer than {max} bytes")]
    TooLong {
        /// The file or resource.
        resource: String,
        /// Largest length that is read, in bytes.
        max: usize,
    },
    /// The property's value refers to itself by `${…}`, or expands to more than 1 MiB or by more than 20 replacements.
    #[error("the value of {name} never stops expanding: check its ${{…}}")]
    Expansion {
        /// Name of the property whose value was asked for.
        name: String,
    },
    /// The property's value is not of the type that is needed, or is none of the words that the property may be. It does not fall back to a
    /// default.
    #[error("{name} must be {expected}")]
    Type {
        /// Name of the property whose value does not fit.
        name: String,
        /// The expected type or the allowed words, such as `a whole number` or `simple or kerberos`.
        expected: &'static str,
    },
    /// A property that is needed is not set, or empty.
    #[error("{name} is not set: {why}")]
    Missing {
        /// Name of the property that is not set.
        name: String,
        /// The purpose of the property, in words.
        why: &'static str,
    },
}
