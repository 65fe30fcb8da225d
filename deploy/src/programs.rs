//! Programs as files: whether one is ours, and this process's own.

use model::ContentHash;
use rest::ProgramChecker;
use std::path::{Path, PathBuf};
use streaming::program_note;

/// Reads the ELF note of a program; nothing is executed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NoteChecker;

impl ProgramChecker for NoteChecker {
    fn check(&self, path: &Path) -> Result<Vec<String>, String> {
        check_file(path)?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(vec![name.to_string_lossy().into_owned()])
    }
}

/// Why a file is not a program that this version runs; nothing is executed.
pub(crate) fn check_file(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => e.to_string(),
    })?;
    if !meta.is_file() {
        return Err("it is not a file".to_owned());
    }
    program_note::read(path).map(|_| ()).map_err(|e| e.to_string())
}

/// This process's own executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnProgram {
    /// Where it is.
    pub path: PathBuf,
    /// Its file name.
    pub name: String,
    /// Its content.
    pub hash: ContentHash,
    /// Its bytes.
    pub size: u64,
}

impl OwnProgram {
    /// Finds and hashes it.
    pub(crate) async fn find() -> std::io::Result<Self> {
        let path = std::env::current_exe()?;
        // By its inode: the path may have been replaced by a newer build since the process started.
        let (hash, size) = rest::programs::hash_file(Path::new("/proc/self/exe")).await?;
        let name = path
            .file_name()
            .map_or_else(|| "program".to_owned(), |n| n.to_string_lossy().into_owned());
        Ok(Self { path, name, hash, size })
    }
}
