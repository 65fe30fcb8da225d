//! Record types: codec, schema and stable hash of what is exchanged, keyed by, or kept as state.
//!
//! Decoding must never panic and must never allocate more than a small multiple of the bytes it was given.

use thiserror::Error;

/// Why bytes can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CodecError {
    /// They end too early.
    #[error("the bytes end too early")]
    Truncated,
    /// They hold a value that the type has not.
    #[error("invalid {what}")]
    Invalid {
        /// Which part.
        what: &'static str,
    },
    /// Something follows the value.
    #[error("{0} bytes are left over")]
    Trailing(usize),
    /// The batch holds records of another type.
    #[error("the batch holds records of another type than the edge's, {0}")]
    OtherType(&'static str),
}
