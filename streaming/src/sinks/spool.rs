//! Stores chunks of results until a client reads them: in memory up to a bound, beyond it in temporary files. Files must not grow for as
//! long as a job runs whose client reads as fast as results come.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
};

/// The number of bytes from which a file gets no more chunks.
const FILE_BYTES: u64 = 64 << 20;

/// The place of a chunk's bytes.
#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File { number: u64, at: u64, len: usize },
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

/// A store of chunks, in memory and in files, which are deleted with the store.
#[derive(Debug)]
pub(super) struct Spool {
    /// The path of the first file; the others have `-1`, `-2` and so on behind it.
    path: PathBuf,
    /// The files with chunks, by their numbers. New chunks go to the last one.
    files: BTreeMap<u64, Chunks>,
    /// The number of the next file.
    next: u64,
    /// The number of bytes from which a file gets no more chunks.
    file_bytes: u64,
    /// Bytes of all chunks, and of those in memory.
    bytes: usize,
    in_memory: usize,
    most_in_memory: usize,
}

/// A file with chunks, which is deleted when it is dropped.
#[derive(Debug)]
struct Chunks {
    path: PathBuf,
    file: File,
    len: u64,
    /// The number of chunks that are not released.
    live: usize,
}

impl Spool {
    /// Creates a store that holds at most `most_in_memory` bytes in memory and writes further chunks to the file `path` and, when it has
    /// 64 MiB, to further ones beside it. Each is created with its first chunk and deleted when its last one is released.
    pub(super) fn new(path: PathBuf, most_in_memory: usize) -> Self {
        Self {
            path,
            files: BTreeMap::new(),
            next: 0,
            file_bytes: FILE_BYTES,
            bytes: 0,
            in_memory: 0,
            most_in_memory,
        }
    }

    /// Returns the number of bytes of all chunks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores a chunk.
    ///
    /// # Errors
    /// Returns a text for users if the chunk cannot be written: the folder, and if its disk is full, what to do.
    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> Result<Kept, String> {
        self.store(bytes).map_err(|error| self.not_stored(&error))
    }

    /// Says why a chunk is not stored.
    fn not_stored(&self, error: &io::Error) -> String {
        let folder = self.path.parent().unwrap_or(&self.path).display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
                "the disk for hidden results is full: {} MiB of results are collected that no client has read, those beyond {} MiB in \
                 the JobManager's folder '{folder}': make room there, set io.tmp.dirs to a larger disk, or write large results to \
                 files ({error})",
                self.bytes >> 20,
                self.most_in_memory >> 20,
            ),
            _ => format!("results cannot be stored in the JobManager's folder '{folder}': {error}"),
        }
    }

    fn store(&mut self, bytes: Vec<u8>) -> io::Result<Kept> {
        let len = bytes.len();
        if self.in_memory + len <= self.most_in_memory {
            self.in_memory += len;
            self.bytes += len;
            return Ok(Kept { place: Place::Memory(bytes) });
        }
        let (number, file) = self.file()?;
        let at = file.len;
        file.file.seek(SeekFrom::Start(at))?;
        file.file.write_all(&bytes)?;
        file.len += len as u64;
        file.live += 1;
        self.bytes += len;
        Ok(Kept { place: Place::File { number, at, len } })
    }

    /// Returns the file for the next chunk and its number.
    fn file(&mut self) -> io::Result<(u64, &mut Chunks)> {
        let last = self.files.last_key_value().filter(|(_, file)| file.len < self.file_bytes);
        let number = match last {
            Some((number, _)) => *number,
            None => {
                let number = self.next;
                let mut path = self.path.clone().into_os_string();
                if number > 0 {
                    path.push(format!("-{number}"));
                }
                self.files.insert(number, Chunks::create(path.into())?);
                self.next += 1;
                number
            }
        };
        let file = self.files.get_mut(&number).ok_or(io::ErrorKind::NotFound)?;
        Ok((number, file))
    }

    /// Reads a chunk, which stays in the store.
    pub(super) fn read(&mut self, kept: &Kept) -> io::Result<Vec<u8>> {
        match &kept.place {
            Place::Memory(bytes) => Ok(bytes.clone()),
            Place::File { number, at, len } => {
                let file = self.files.get_mut(number).ok_or(io::ErrorKind::NotFound)?;
                file.file.seek(SeekFrom::Start(*at))?;
                let mut bytes = vec![0; *len];
                file.file.read_exact(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// Drops a chunk. A file is deleted with its last one.
    pub(super) fn release(&mut self, kept: Kept) {
        self.bytes = self.bytes.saturating_sub(kept.len());
        match kept.place {
            Place::Memory(bytes) => self.in_memory = self.in_memory.saturating_sub(bytes.len()),
            Place::File { number, .. } => {
                let Some(file) = self.files.get_mut(&number) else { return };
                file.live = file.live.saturating_sub(1);
                if file.live == 0 {
                    self.files.remove(&number);
                }
            }
        }
    }
}

impl Chunks {
    fn create(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).read(true).write(true).open(&path)?;
        Ok(Self { path, file, len: 0, live: 0 })
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // A failure is ignored: the folder of temporary files goes with the process.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn files_do_not_grow_while_chunks_are_released_as_fast_as_they_come() {
        let folder = std::env::temp_dir().join(format!("spool-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut spool = Spool { file_bytes: 100, ..Spool::new(folder.join("results"), 20) };
        let mut kept = VecDeque::new();
        for number in 0..=255_u8 {
            kept.push_back(spool.keep(vec![number; 10]).unwrap());
            if kept.len() > 15 {
                spool.release(kept.pop_front().unwrap());
            }
            // Never all of them, so that no moment comes at which everything may go.
            for (chunk, number) in kept.iter().rev().zip((0..=number).rev()) {
                assert_eq!(spool.read(chunk).unwrap(), [number; 10]);
            }
            let on_disk = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap());
            let on_disk: u64 = on_disk.map(|file| file.metadata().unwrap().len()).sum();
            assert!(on_disk <= 300, "{on_disk} bytes");
        }
        assert_eq!(spool.bytes(), 150);
        kept.into_iter().for_each(|chunk| spool.release(chunk));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
