//! Output files in a folder of a local or mounted file system. The disk work runs on tokio's blocking threads.

use super::{
    IN_PROGRESS, OutputFile, OutputFolder, PENDING, PendingOutput, Published, Unpublished, hidden,
    kept, unpublished,
};
use crate::{
    disk::DiskCalls,
    objects::{StoreError, StoreFuture},
};
use bytes::Bytes;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

const PIECE_BYTES: usize = 1 << 20;

/// A folder of a local or mounted file system.
#[derive(Debug)]
pub(super) struct LocalFolder {
    folder: PathBuf,
    calls: DiskCalls,
    /// The marks that were removed by this value. One that is still being created when it is removed must not appear afterwards.
    removed: Arc<Mutex<BTreeSet<String>>>,
}

impl LocalFolder {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { calls: DiskCalls::new(&folder), folder, removed: Arc::default() }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |error| StoreError::from_io(path, &error)
}

/// Returns the name of the file that is a mark.
fn mark_name(name: &str, owner: &str) -> String {
    format!("{}{IN_PROGRESS}", hidden(name, owner))
}

/// Makes the names of a folder durable.
fn sync(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(failed(folder))
}

impl OutputFolder for LocalFolder {
    fn create(&self, name: &str, owner: &str) -> StoreFuture<Box<dyn OutputFile>> {
        let (folder, calls) = (self.folder.clone(), self.calls.clone());
        let (name, hidden) = (name.to_owned(), hidden(name, owner));
        self.calls.run(move || {
            fs::create_dir_all(&folder).map_err(failed(&folder))?;
            let path = folder.join(format!("{hidden}{IN_PROGRESS}"));
            let file = File::create(&path).map_err(failed(&path))?;
            let file = Some(file);
            Ok(Box::new(LocalFile { folder, path, name, hidden, file, bytes: 0, calls })
                as Box<dyn OutputFile>)
        })
    }

    fn publish(&self, pending: PendingOutput) -> StoreFuture<Published> {
        let folder = self.folder.clone();
        self.calls.run(move || {
            let to = folder.join(&pending.name);
            // A savepoint may rename the file at this moment, but only once and in this direction.
            for hidden in [&pending.hidden, &kept(&pending.hidden)] {
                let from = folder.join(hidden);
                let written = fs::symlink_metadata(&from).map(|metadata| metadata.len());
                if let Some(found) = written.as_ref().ok().filter(|found| **found != pending.bytes)
                {
                    return Ok(Published::Damaged { found: *found });
                }
                match written.and_then(|_| fs::rename(&from, &to)) {
                    Ok(()) => return sync(&folder).map(|()| Published::Done),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(StoreError::from_io(&to, &error)),
                }
            }
            let length = fs::metadata(&to).ok().map(|metadata| metadata.len());
            if length != Some(pending.bytes) {
                return Ok(Published::Missing);
            }
            sync(&folder).map(|()| Published::Done)
        })
    }

    fn keep(&self, hidden: String) -> StoreFuture<()> {
        let folder = self.folder.clone();
        self.calls.run(move || match fs::rename(folder.join(&hidden), folder.join(kept(&hidden))) {
            Ok(()) => sync(&folder),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(&folder.join(&hidden))(error)),
        })
    }

    fn unpublished(&self, owner: &str) -> StoreFuture<Vec<Unpublished>> {
        let (folder, owner) = (self.folder.clone(), owner.to_owned());
        self.calls.run(move || {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(failed(&folder))?,
            };
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            Ok(names.filter_map(|name| unpublished(name, &owner)).collect())
        })
    }

    fn discard(&self, file: Unpublished) -> StoreFuture<()> {
        let path = self.folder.join(&file.hidden);
        self.calls.run(move || match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&path)(error)),
            _ => Ok(()),
        })
    }

    fn leave_mark(&self, name: &str, owner: &str) -> StoreFuture<Option<String>> {
        let (folder, mark) = (self.folder.clone(), mark_name(name, owner));
        let removed = self.removed.clone();
        self.calls.run(move || {
            // Locked until the mark is there, so that `remove_mark` comes before or afterwards.
            let removed = removed.lock().unwrap_or_else(PoisonError::into_inner);
            if removed.contains(&mark) {
                return Ok(None);
            }
            fs::create_dir_all(&folder).map_err(failed(&folder))?;
            let path = folder.join(&mark);
            File::create(&path).map_err(failed(&path))?;
            Ok(Some(mark))
        })
    }

    fn take_mark(&self, mark: &str) -> StoreFuture<bool> {
        let path = self.folder.join(mark);
        self.calls.run(move || {
            let take = || match fs::remove_file(&path) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(failed(&path)(error)),
            };
            if take()? {
                return Ok(true);
            }
            // A network's file system may remember that the file, or its folder, was absent. It looks again when a folder is opened.
            for folder in path.ancestors().skip(1).take(2).collect::<Vec<_>>().into_iter().rev() {
                let _ = fs::read_dir(folder);
            }
            take()
        })
    }

    fn remove_mark(&self, name: &str, owner: &str) {
        let mark = mark_name(name, owner);
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = fs::remove_file(self.folder.join(&mark));
        removed.insert(mark);
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }
}

struct LocalFile {
    folder: PathBuf,
    path: PathBuf,
    name: String,
    hidden: String,
    /// `None` once the file is pending.
    file: Option<File>,
    bytes: u64,
    calls: DiskCalls,
}

impl OutputFile for LocalFile {
    fn write(mut self: Box<Self>, bytes: Bytes) -> StoreFuture<Box<dyn OutputFile>> {
        self.calls.clone().run(move || {
            if let Some(file) = &mut self.file {
                file.write_all(&bytes).map_err(failed(&self.path))?;
            }
            self.bytes += bytes.len() as u64;
            Ok(self as Box<dyn OutputFile>)
        })
    }

    fn finish(mut self: Box<Self>) -> StoreFuture<PendingOutput> {
        self.calls.clone().run(move || {
            if let Some(file) = &self.file {
                file.sync_data().map_err(failed(&self.path))?;
            }
            let hidden = format!("{}{PENDING}", self.hidden);
            let path = self.folder.join(&hidden);
            fs::rename(&self.path, &path).map_err(failed(&path))?;
            self.file = None;
            sync(&self.folder)?;
            let name = std::mem::take(&mut self.name);
            Ok(PendingOutput { name, hidden, parts: Vec::new(), bytes: self.bytes })
        })
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // A failure is ignored: the file is hidden, and a later attempt deletes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
