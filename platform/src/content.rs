//! The hash and the size of a content, by which programs and blobs are told apart.

use model::ContentHash;
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The SHA-256 hash of a content, and its size in bytes.
pub type Content = (ContentHash, u64);

/// Computes the SHA-256 hash and the size in bytes of a content that comes in pieces, as an upload does.
#[derive(Debug, Clone, Default)]
pub struct ContentHasher {
    hasher: Sha256,
    bytes: u64,
}

impl ContentHasher {
    /// Adds the next piece of the content, in the order of the content; pieces may be of any length.
    pub fn add(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
    }

    /// Returns the size in bytes of all pieces so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the SHA-256 hash and the size in bytes of all pieces together; those of the empty content if there were
    /// none.
    pub fn finish(self) -> Content {
        (ContentHash(self.hasher.finalize().into()), self.bytes)
    }
}

/// Computes the hash and size of a file, which is read piece by piece on one blocking thread, whatever its size. An error means that the
/// file can't be read, or that the system gives no thread for it.
pub async fn hash_file(path: &Path) -> io::Result<Content> {
    let path = path.to_owned();
    crate::blocking(move || hash_file_now(&path)).await?
}

/// Computes the hash and size of a file as [`hash_file`] does, on the calling thread, which it blocks.
pub fn hash_file_now(path: &Path) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let mut hasher = ContentHasher::default();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let n = file.read(&mut buffer)?;
        let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else {
            return Ok(hasher.finish());
        };
        hasher.add(read);
    }
}
