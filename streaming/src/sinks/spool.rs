//! Stores chunks of results until a client reads them: in memory up to a bound, beyond it in a temporary file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
};

/// The place of a chunk's bytes.
#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File { at: u64, len: usize },
}

/// A handle to a chunk in a [`Spool`].
#[derive(Debug)]
pub(super) struct Kept {
    place: Place,
}

impl Kept {
    /// Returns the number of the chunk's bytes.
    pub(super) fn len(&self) -> usize {
        match &self.place {
            Place::Memory(bytes) => bytes.len(),
            Place::File { len, .. } => *len,
        }
    }
}

/// A store of chunks, in memory and in one file, which is deleted with the store.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    file: Option<File>,
    file_len: u64,
    /// Bytes of all chunks, and of those in memory.
    bytes: usize,
    in_memory: usize,
    most_in_memory: usize,
}

impl Spool {
    /// Creates a store that holds at most `most_in_memory` bytes in memory and writes further chunks to the file `path`, which is
    /// created with the first of them.
    pub(super) fn new(path: PathBuf, most_in_memory: usize) -> Self {
        Self { path, file: None, file_len: 0, bytes: 0, in_memory: 0, most_in_memory }
    }

    /// Returns the number of bytes of all chunks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> io::Result<Kept> {
        if self.in_memory + bytes.len() <= self.most_in_memory {
            self.in_memory += bytes.len();
            self.bytes += bytes.len();
            return Ok(Kept { place: Place::Memory(bytes) });
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(
                OpenOptions::new()
                    .create(true)
                    .truncate(true)
                    .read(true)
                    .write(true)
                    .open(&self.path)?,
            ),
        };
        let at = self.file_len;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&bytes)?;
        self.file_len += bytes.len() as u64;
        self.bytes += bytes.len();
        Ok(Kept { place: Place::File { at, len: bytes.len() } })
    }

    /// Reads a chunk, which stays in the store.
    pub(super) fn read(&mut self, kept: &Kept) -> io::Result<Vec<u8>> {
        match &kept.place {
            Place::Memory(bytes) => Ok(bytes.clone()),
            Place::File { at, len } => {
                let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
                file.seek(SeekFrom::Start(*at))?;
                let mut bytes = vec![0; *len];
                file.read_exact(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// Drops a chunk. The file is emptied with its last one.
    pub(super) fn release(&mut self, kept: Kept) {
        self.bytes = self.bytes.saturating_sub(kept.len());
        if let Place::Memory(bytes) = kept.place {
            self.in_memory = self.in_memory.saturating_sub(bytes.len());
        } else if self.bytes == self.in_memory
            && let Some(file) = &self.file
            && file.set_len(0).is_ok()
        {
            self.file_len = 0;
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // A failure is ignored: the folder of temporary files goes with the process.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
