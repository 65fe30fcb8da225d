//! The encoding of a stored object: a header that shows whether the object is whole, then its content.
//!
//! Format: magic (8 bytes), length of the content in bytes (u64, big-endian), SHA-256 of the content, content. This
//! module must never give out content that does not match its header.

use super::StoreError;
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The first eight bytes of an object that is stored as a file.
pub(super) const FILE_MAGIC: &[u8; 8] = b"FLOTTOB1";
const HEADER_BYTES: usize = 8 + 8 + 32;

/// Returns the header for the given content.
pub(super) fn header(magic: &[u8; 8], content: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let length = (content.len() as u64).to_be_bytes();
    let hash = Sha256::digest(content);
    let fields = magic.iter().chain(&length).chain(&hash);
    header.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
    header
}

/// Checks a stored object and returns its content, or [`StoreError::Corrupt`] that names `place`.
pub(super) fn checked(magic: &[u8; 8], place: &str, object: Bytes) -> Result<Bytes, StoreError> {
    let corrupt = |why: String| StoreError::Corrupt { path: place.to_owned(), why };
    if object.len() < HEADER_BYTES {
        return Err(corrupt(format!("{} bytes are too few for its header", object.len())));
    }
    let content = object.slice(HEADER_BYTES..);
    let (Some(begin), Some(length), Some(hash)) =
        (object.get(..8), object.get(8..16), object.get(16..48))
    else {
        return Err(corrupt("its header is cut".into()));
    };
    if begin != magic {
        return Err(corrupt("it does not start like an object of this store".into()));
    }
    let length = length.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    if length != content.len() as u64 {
        return Err(corrupt(format!("it should hold {length} bytes and holds {}", content.len())));
    }
    if Sha256::digest(&content).as_slice() != hash {
        return Err(corrupt("its checksum does not match its content".into()));
    }
    Ok(content)
}
