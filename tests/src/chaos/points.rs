//! The named points at which half of the kills aim, and the files through which the campaign and the job speak about them.
//!
//! The campaign *arms* a point by creating the file `armed.POINT` in a folder that the job's arguments name. The first process
//! that comes to the point renames the file to `hit.POINT.PID` and waits there, until it is killed or the campaign has removed
//! the file, at most [`LONGEST_WAIT`]. A point that is not armed costs one failed rename. Points exist in the program
//! `chaos_job` only, which reaches them through its own sink and source: nothing of them is in the product.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// A named place in the life of the chaos job at which a process can be made to wait, so that the campaign kills it right there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A writer has prepared its records for a commit, and has not acknowledged the checkpoint.
    Prepared,
    /// The checkpoint is complete, and the committer has heard of it; it has not committed yet.
    BeforeCommit,
    /// The committer has committed and has not told its operator.
    Committed,
    /// A subtask of a source is being restored: it has its splits again, and has not read anything.
    Restore,
    /// The enumerator assigns a split that nobody has asked for, beside one that was asked for.
    EnumeratorPush,
    /// The enumerator was woken, and assigns a split that nobody has asked for.
    EnumeratorWoken,
    /// A writer has prepared the last records for the final checkpoint.
    FinalCheckpoint,
}

impl Point {
    /// All points that a job can reach before the end of its input; every seed aims at three of them.
    pub const BEFORE_END: [Self; 6] = [
        Self::Prepared,
        Self::BeforeCommit,
        Self::Committed,
        Self::Restore,
        Self::EnumeratorPush,
        Self::EnumeratorWoken,
    ];
    /// All points, that of the final checkpoint included.
    pub const ALL: [Self; 7] = [
        Self::Prepared,
        Self::BeforeCommit,
        Self::Committed,
        Self::Restore,
        Self::EnumeratorPush,
        Self::EnumeratorWoken,
        Self::FinalCheckpoint,
    ];

    /// Returns the point's name in files and in what is printed, such as `before-commit`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::BeforeCommit => "before-commit",
            Self::Committed => "committed",
            Self::Restore => "restore",
            Self::EnumeratorPush => "enumerator-push",
            Self::EnumeratorWoken => "enumerator-woken",
            Self::FinalCheckpoint => "final-checkpoint",
        }
    }

    /// Returns true if the enumerator comes to the point, which is in a host of the JobManager, and false for points of tasks.
    pub fn is_of_enumerator(self) -> bool {
        matches!(self, Self::EnumeratorPush | Self::EnumeratorWoken)
    }
}

/// Time after which a process goes on that waits at a point, if nothing has killed it or let it go on.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The points as a process of the chaos job sees them: it waits at those that the campaign has armed in a folder.
#[derive(Debug, Clone)]
pub struct Points {
    folder: Option<PathBuf>,
}

impl Points {
    /// Returns the points of a folder that the campaign and the job share; with `None` no point is ever armed.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Waits at a point if it is armed and this is the first process that comes to it; otherwise returns at once. The wait tells the
    /// campaign this process's id, blocks the thread, and ends with [`release`] or after [`LONGEST_WAIT`].
    pub fn reach(&self, point: Point) {
        let Some(folder) = &self.folder else { return };
        let hit = folder.join(format!("hit.{}.{}", point.name(), std::process::id()));
        if fs::rename(folder.join(armed(point)), &hit).is_err() {
            return;
        }
        let looks = LONGEST_WAIT.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..looks {
            if !hit.exists() {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn armed(point: Point) -> String {
    format!("armed.{}", point.name())
}

/// Arms a point in a folder: the next process that comes to it waits there; later ones go on.
///
/// # Errors
/// The file that arms the point cannot be created.
pub fn arm(folder: &Path, point: Point) -> io::Result<()> {
    fs::write(folder.join(armed(point)), "")
}

/// Disarms a point, so that no process waits there. Returns false if it was not armed any more: a process has come to it in the meantime.
pub fn disarm(folder: &Path, point: Point) -> bool {
    fs::remove_file(folder.join(armed(point))).is_ok()
}

/// Returns the id of the process that has come to a point and was not released, even if it has ended since; `None` if there is none.
pub fn waiting(folder: &Path, point: Point) -> Option<i32> {
    let prefix = format!("hit.{}.", point.name());
    let names = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix(&prefix)?.parse().ok()).next()
}

/// Lets the process `pid` go on that waits at a point, and forgets it; harmless if the process has ended.
pub fn release(folder: &Path, point: Point, pid: i32) {
    // The file is absent if the folder is.
    let _ = fs::remove_file(folder.join(format!("hit.{}.{pid}", point.name())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_waits_at_an_armed_point_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let points = Points::new(Some(folder.path().to_owned()));
        points.reach(Point::Committed);
        arm(folder.path(), Point::Committed).unwrap();
        points.reach(Point::Restore);
        let waits = thread::Builder::new().spawn({
            let points = points.clone();
            move || points.reach(Point::Committed)
        });
        let pid = loop {
            if let Some(pid) = waiting(folder.path(), Point::Committed) {
                break pid;
            }
            thread::yield_now();
        };
        assert_eq!(u32::try_from(pid).unwrap(), std::process::id());
        // Nobody else is held up: the point is taken.
        points.reach(Point::Committed);
        assert!(!disarm(folder.path(), Point::Committed));
        release(folder.path(), Point::Committed, pid);
        waits.unwrap().join().unwrap();
    }
}
