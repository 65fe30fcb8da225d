//! Bodies: MessagePack with named fields, so that fields may be added within a major version and
//! unknown ones are skipped. Decoding never panics and never allocates more than its input justifies.

use crate::error::FabricError;
use platform::messagepack;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt::Display,
    fs::File,
    io::{BufReader, Read},
};

/// Appends the encoding of a value.
pub(crate) fn encode_into<T: Serialize>(
    out: &mut Vec<u8>,
    what: impl Display,
    value: &T,
) -> Result<(), FabricError> {
    rmp_serde::encode::write_named(out, value).map_err(|error| malformed(what, error))
}

/// Encodes a value as MessagePack with named fields.
///
/// # Errors
/// Returns [`FabricError::Malformed`] if the value can't be serialised.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FabricError> {
    let mut out = Vec::with_capacity(128);
    encode_into(&mut out, std::any::type_name::<T>(), value)?;
    Ok(out)
}

/// Decodes a value from MessagePack. Unknown fields and bytes after its end are ignored. `what` names the value in
/// errors.
///
/// # Errors
/// Returns [`FabricError::Malformed`] if the bytes are not such a value, or nested deeper than 128 levels (apart from what is in unknown fields).
pub fn decode<T: DeserializeOwned>(what: impl Display, bytes: &[u8]) -> Result<T, FabricError> {
    decode_read(what, bytes)
}

/// Decodes a value from MessagePack that a reader gives, such as a file; unknown fields are ignored, bytes after its end are not
/// read, and `what` names the value in errors. Memory is needed for the value and its longest part (one string or byte array), not for
/// all bytes.
///
/// # Errors
/// Returns [`FabricError::Malformed`] if the bytes are not such a value, nested deeper than 128 levels (apart from what is in unknown
/// fields), or the reader fails.
pub fn decode_read<T: DeserializeOwned>(
    what: impl Display,
    mut input: impl Read,
) -> Result<T, FabricError> {
    // Nesting is bounded so that hostile bytes can't exhaust the stack.
    messagepack::decode(&mut input, DEPTH_MAX).map_err(|error| malformed(what, error))
}

/// An encoded value where it is.
#[derive(Clone, Copy)]
pub(crate) enum Encoded<'a> {
    /// All bytes, in memory.
    Bytes(&'a [u8]),
    /// The rest of a file. Decoding blocks the thread.
    File(&'a File),
}

impl Encoded<'_> {
    /// Decodes the value.
    pub(crate) fn decode<T: DeserializeOwned>(self, what: impl Display) -> Result<T, FabricError> {
        match self {
            Self::Bytes(bytes) => decode(what, bytes),
            Self::File(file) => decode_read(what, BufReader::with_capacity(READ_BYTES, file)),
        }
    }
}

/// Bytes of one read of a file.
const READ_BYTES: usize = 256 * 1024;
/// Deepest nesting of a body.
const DEPTH_MAX: usize = 128;

fn malformed(what: impl Display, why: impl Display) -> FabricError {
    FabricError::Malformed { what: what.to_string(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Old {
        a: u32,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct New {
        a: u32,
        #[serde(default)]
        b: Option<String>,
    }

    #[test]
    fn a_new_field_is_skipped_by_the_old_and_defaulted_by_the_new() {
        let new = encode(&New { a: 7, b: Some("x".into()) }).unwrap();
        assert_eq!(decode::<Old>("Old", &new), Ok(Old { a: 7 }));
        let old = encode(&Old { a: 7 }).unwrap();
        assert_eq!(decode::<New>("New", &old), Ok(New { a: 7, b: None }));
    }

    #[derive(Debug, Deserialize)]
    struct Nested(#[expect(dead_code, reason = "only its depth counts")] Vec<Nested>);

    #[test]
    fn hostile_lengths_and_depths_are_errors() {
        // An array that claims four thousand million entries, and ten thousand nested arrays.
        assert!(decode::<Vec<u64>>("v", &[0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
        let deep = [vec![0x91; 10_000], vec![0x90]].concat();
        let error = decode::<Nested>("v", &deep).unwrap_err().to_string();
        assert!(error.contains("nested beyond the depth"), "{error}");
        let fits = [vec![0x91; DEPTH_MAX - 1], vec![0x90]].concat();
        assert!(decode::<Nested>("v", &fits).is_ok());
    }
}
