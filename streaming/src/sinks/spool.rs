//! Chunks of results that wait for a client: in memory up to a bound, behind that in a temporary file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
};

/// Where a chunk's bytes are.
#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File { at: u64, len: usize },
}

/// A chunk that is kept.
#[derive(Debug)]
pub(super) struct Kept {
    place: Place,
}

/// Keeps chunks.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    file: Option<File>,
    file_len: u64,
    in_memory: usize,
    most_in_memory: usize,
}

impl Spool {
    /// Beyond so many bytes chunks go to a file of that name, which is made when it is needed.
    pub(super) fn new(path: PathBuf, most_in_memory: usize) -> Self {
        Self { path, file: None, file_len: 0, in_memory: 0, most_in_memory }
    }

    /// Bytes in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.in_memory
    }

    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> io::Result<Kept> {
        if self.in_memory + bytes.len() <= self.most_in_memory {
            self.in_memory += bytes.len();
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
        Ok(Kept { place: Place::File { at, len: bytes.len() } })
    }

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

    /// A chunk is not needed any more.
    pub(super) fn release(&mut self, kept: Kept) {
        if let Place::Memory(bytes) = kept.place {
            self.in_memory = self.in_memory.saturating_sub(bytes.len());
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nobody is left to be told; the folder goes with the process.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
