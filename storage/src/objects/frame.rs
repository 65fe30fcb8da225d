//! The encoding of a stored object: a header that shows whether the object is whole, then its content.
//!
//! Format: magic (8 bytes), length of the content in bytes (u64, big-endian), CRC-32 of the content as in zip (u32, big-endian),
//! content. The checksum finds damage, not forgery: whoever may write to the store could change the checksum too. A cryptographic
//! hash took a quarter of the CPU time of a checkpoint. This module must never give out content that does not match its header.

use super::StoreError;
use bytes::Bytes;

/// The first eight bytes of an object that is stored as a file.
pub(super) const FILE_MAGIC: &[u8; 8] = b"FLOTTOB3";
/// The beginning that the magics of all versions share.
const FAMILY: &[u8] = b"FLOTTOB";
pub(super) const HEADER_BYTES: usize = 8 + 8 + 4;

/// Returns the header for content that consists of these pieces.
#[cfg(any(test, feature = "hdfs", feature = "s3"))]
pub(super) fn header(magic: &[u8; 8], pieces: &[&[u8]]) -> [u8; HEADER_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| checksum.update(piece));
    let length = pieces.iter().map(|piece| piece.len() as u64).sum();
    header_of(magic, length, checksum)
}

/// Returns the header for content of `length` bytes with this checksum.
pub(super) fn header_of(
    magic: &[u8; 8],
    length: u64,
    checksum: crc32fast::Hasher,
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (length, checksum) = (length.to_be_bytes(), checksum.finalize().to_be_bytes());
    let fields = magic.iter().chain(&length).chain(&checksum);
    header.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
    header
}

/// Checks a stored object and returns its content, or [`StoreError::Corrupt`] that names `place`.
pub(super) fn checked(magic: &[u8; 8], place: &str, object: Bytes) -> Result<Bytes, StoreError> {
    let corrupt = |why: String| StoreError::Corrupt { path: place.to_owned(), why };
    let header: Option<&[u8; HEADER_BYTES]> = object.first_chunk();
    let Some(header) = header else {
        return Err(corrupt(format!("{} bytes are too few for its header", object.len())));
    };
    let content = object.slice(HEADER_BYTES..);
    let (begin, fields) = header.split_at(8);
    let (length, checksum) = fields.split_at(8);
    if begin != magic {
        return Err(corrupt(match begin.starts_with(FAMILY) {
            true => {
                "it was written by another version of Flott, or copied from another kind of store"
                    .into()
            }
            false => "it does not start like an object of this store".into(),
        }));
    }
    let length = length.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    if length != content.len() as u64 {
        return Err(corrupt(format!("it should hold {length} bytes and holds {}", content.len())));
    }
    if crc32fast::hash(&content).to_be_bytes() != *checksum {
        return Err(corrupt("its checksum does not match its content".into()));
    }
    Ok(content)
}
