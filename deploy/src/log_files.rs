//! Bounds log files by size while processes write to them. A process renames its own file when it is full and begins a new
//! one; the outputs of a program host, which the host holds open, are copied and emptied by its parent.
//!
//! Nothing here may log: the log is what is written.

use conf::{Options, logging};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Limits of one log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogLimits {
    /// Maximum size of a file in bytes (`env.log.max-size`); a single longer line is written whole.
    pub(crate) bytes_max: u64,
    /// Number of full files that are kept as `FILE.1`, the newest, `FILE.2` and so on (`env.log.max`).
    pub(crate) keep: u32,
}

impl LogLimits {
    /// Returns the configured limits.
    pub(crate) fn of(options: &Options) -> Self {
        let bytes_max = options.get(&logging::LOG_MAX_SIZE).0;
        Self { bytes_max, keep: options.get(&logging::LOG_MAX) }
    }
}

/// A process's own log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    mode: u32,
    limits: LogLimits,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    /// True if the file has been renamed, and the next one could not be opened.
    renamed: bool,
}

impl LogFile {
    /// Opens a log file for appending; makes it and its folders, which are for this user alone, where they are absent.
    ///
    /// # Errors
    /// The system's, if the folder or the file cannot be made.
    pub(crate) fn open(path: &Path, mode: u32, limits: LogLimits) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = open(path, mode)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            mode,
            limits,
            open: Mutex::new(Open { file, bytes, renamed: false }),
        })
    }

    /// Appends a line by one write. A file that the line would make too large is renamed first; if it cannot be renamed,
    /// it is emptied.
    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = open.bytes.saturating_add(line.len() as u64);
        if open.bytes > 0 && bytes > self.limits.bytes_max {
            let moved = match open.renamed {
                true => Ok(()),
                false => shift(&self.path, self.limits.keep),
            };
            match moved {
                Ok(()) => match self::open(&self.path, self.mode) {
                    Ok(file) => *open = Open { file, bytes: 0, renamed: false },
                    // Tried again at the next line; this one goes to the end of the renamed file.
                    Err(_) => open.renamed = true,
                },
                Err(_) => {
                    open.file.set_len(0)?;
                    open.bytes = 0;
                }
            }
        }
        open.bytes = open.bytes.saturating_add(line.len() as u64);
        open.file.write_all(line)
    }
}

impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.append(line).map(|()| line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bounds a file that another process holds open for appending: if it is larger than `bytes_max`, its content becomes
/// `FILE.1` in the place of an earlier one, and the file is emptied, also if there is no room for the copy. What is
/// written between the copy and the emptying is lost. Does nothing if there is no such file.
///
/// # Errors
/// The system's, if the file cannot be emptied.
pub(crate) fn bound(path: &Path, bytes_max: u64) -> io::Result<()> {
    if std::fs::metadata(path).map_or(0, |meta| meta.len()) <= bytes_max {
        return Ok(());
    }
    let old = numbered(path, 1);
    if std::fs::copy(path, &old).is_err() {
        let _ = std::fs::remove_file(&old);
    }
    OpenOptions::new().write(true).open(path)?.set_len(0)
}

fn open(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(mode).open(path)
}

/// Makes room for a new file: `FILE` becomes `FILE.1`, that becomes `FILE.2` and so on; the last one goes. With `keep` 0
/// the file is removed.
fn shift(path: &Path, keep: u32) -> io::Result<()> {
    for number in (1..keep).rev() {
        match std::fs::rename(numbered(path, number), numbered(path, number + 1)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    let moved = match keep {
        0 => std::fs::remove_file(path),
        _ => std::fs::rename(path, numbered(path, 1)),
    };
    match moved {
        // Somebody else has moved or removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn sizes(folder: &Path) -> Vec<(String, u64)> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
        });
        let mut files: Vec<_> = files.collect();
        files.sort();
        files
    }

    #[test]
    fn logs_are_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("of/log/flott.log");
        let mode = crate::target::log_mode(&Options::default());
        LogFile::open(&path, mode, LogLimits::of(&Options::default())).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&dir.path().join("of")), 0o700);
    }

    #[test]
    fn a_log_file_is_renamed_when_it_is_full_and_so_many_old_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tm.log");
        std::fs::write(&path, "of before ").unwrap();
        let log = LogFile::open(&path, 0o600, LogLimits { bytes_max: 20, keep: 2 }).unwrap();
        for n in 0..9 {
            (&log).write_all(format!("line {n:03}\n").as_bytes()).unwrap();
        }
        let named = |name: &str, bytes: u64| (name.to_owned(), bytes);
        let expected = [named("tm.log", 18), named("tm.log.1", 18), named("tm.log.2", 18)];
        assert_eq!(sizes(dir.path()), expected);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 007\nline 008\n");
        // Written whole though it is longer than the limit.
        (&log).write_all(&[b'x'; 50]).unwrap();
        assert_eq!(sizes(dir.path())[0], named("tm.log", 50));
    }

    #[test]
    fn a_log_file_that_somebody_has_moved_is_begun_anew_when_it_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tm.log");
        let log = LogFile::open(&path, 0o600, LogLimits { bytes_max: 10, keep: 2 }).unwrap();
        (&log).write_all(b"line one").unwrap();
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        (&log).write_all(b"line two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line two");
        assert_eq!(std::fs::read_to_string(dir.path().join("moved")).unwrap(), "line one");
    }

    #[test]
    fn a_log_file_that_cannot_be_renamed_or_has_no_old_ones_is_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tm.log");
        for (keep, obstacle) in [(0, false), (1, true)] {
            if obstacle {
                // A folder with something in it is no place for a file.
                std::fs::create_dir_all(dir.path().join("tm.log.1/x")).unwrap();
            }
            let log = LogFile::open(&path, 0o600, LogLimits { bytes_max: 10, keep }).unwrap();
            for _ in 0..5 {
                (&log).write_all(b"seven b").unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "seven b", "{keep}");
        }
    }

    #[test]
    fn a_file_that_a_child_holds_open_goes_on_behind_its_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.out");
        let mut held = open(&path, 0o600).unwrap();
        held.write_all(b"0123456789").unwrap();
        bound(&path, 10).unwrap();
        assert_eq!(sizes(dir.path()).len(), 1, "it is not larger than the limit");
        for text in ["abc", "def"] {
            held.write_all(text.as_bytes()).unwrap();
            bound(&path, 2).unwrap();
        }
        held.write_all(b"g").unwrap();
        assert_eq!(std::fs::read_to_string(numbered(&path, 1)).unwrap(), "def");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "g");
        bound(&dir.path().join("absent"), 0).unwrap();
    }
}
