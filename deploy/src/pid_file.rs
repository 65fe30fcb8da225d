//! The file in which the scripts keep the process ids of a role. A process that ends by itself,
//! because its job has ended or it is not needed any more, removes its own id.
//!
//! This module must never wait for the scripts, which may be waiting for this process to end, nor
//! remove the id of another process.

use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Names the file, as the scripts do.
const FILE_VARIABLE: &str = "FLOTT_PID_FILE";

/// Removes this process's id from the file, because the process is about to end.
pub(crate) fn leave() {
    let Some(file) = std::env::var_os(FILE_VARIABLE).map(PathBuf::from) else {
        return;
    };
    if let Err(error) = take_out(&file, std::process::id()) {
        // Whoever reads it next sees that this process is dead.
        tracing::debug!(file = %file.display(), %error, "the pid file is left as it is");
    }
}

/// Removes `pid` from the file, under the lock that the scripts use, without waiting for it: a
/// script that holds the lock puts the file in order itself. Processes that end at the same time
/// take turns by a lock on the folder, which no script takes; so a taken lock on the file always
/// means a script.
fn take_out(file: &Path, pid: u32) -> io::Result<()> {
    let folder = File::open(file.parent().unwrap_or(Path::new(".")))?;
    let _turn = Flock::lock(folder, FlockArg::LockExclusive).map_err(|(_, e)| e)?;
    let lock = OpenOptions::new().append(true).open(with_suffix(file, ".lock"))?;
    let _locked = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
    let pids = std::fs::read_to_string(file)?;
    let own = pid.to_string();
    let others: Vec<&str> = pids.lines().filter(|line| line.trim() != own).collect();
    if others.is_empty() {
        return std::fs::remove_file(file);
    }
    let new = with_suffix(file, ".new");
    std::fs::write(&new, others.join("\n") + "\n")?;
    std::fs::rename(new, file)
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_pid_is_taken_out_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flott-me-taskmanager.pid");
        std::fs::write(folder.path().join("flott-me-taskmanager.pid.lock"), "").unwrap();
        std::fs::write(&file, "12\n123\n1234\n").unwrap();
        take_out(&file, 123).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "12\n1234\n");
        take_out(&file, 12).unwrap();
        take_out(&file, 1234).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn processes_that_end_together_all_take_theirs_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flott-me-taskmanager.pid");
        std::fs::write(folder.path().join("flott-me-taskmanager.pid.lock"), "").unwrap();
        let pids: Vec<u32> = (1..=40).collect();
        let lines: Vec<String> = pids.iter().map(|pid| format!("{pid}\n")).collect();
        std::fs::write(&file, lines.concat()).unwrap();
        std::thread::scope(|scope| {
            for pid in pids {
                let file = &file;
                scope.spawn(move || take_out(file, pid).unwrap());
            }
        });
        assert!(!file.exists());
    }

    #[test]
    fn a_script_that_is_at_it_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flott-me-jobmanager.pid");
        let lock =
            std::fs::File::create(folder.path().join("flott-me-jobmanager.pid.lock")).unwrap();
        std::fs::write(&file, "7\n").unwrap();
        let held = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
        assert!(take_out(&file, 7).is_err());
        assert!(file.exists());
        drop(held);
        take_out(&file, 7).unwrap();
        assert!(!file.exists());
    }
}
