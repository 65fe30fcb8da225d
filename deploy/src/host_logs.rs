//! Log files of program hosts: beside their process's own log, a pair for each job, and those of old jobs
//! removed.
//!
//! It must never remove a file of another process, or of a job that has just been started.

use crate::logging::LogPlace;
use model::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Between the stem of a process's log and the job.
const MARK: &str = "-host-";
/// How the names of a job's files end: what the user's code prints, and what the host logs; the full ones before them.
const ENDS: [&str; 4] = [".out", ".log", ".out.1", ".log.1"];

/// Returns the files for a host's standard output and standard error: beside the log of its process
/// if there is one, so that they are shown with it; otherwise in the host's own folder.
pub(crate) fn places(log: &LogPlace, root: &Path, job: JobId) -> (PathBuf, PathBuf) {
    let (Some(folder), Some(stem)) = (log.folder(), log.stem()) else {
        return (root.join("stdout"), root.join("stderr"));
    };
    let [out, log, ..] = ENDS.map(|end| folder.join(format!("{stem}{MARK}{job}{end}")));
    (out, log)
}

/// Removes the files of this process's oldest jobs, so that there are at most `jobs_max`. Jobs
/// whose hosts have a folder in `hosts` are running and keep their files. A file that can't be
/// removed is logged and stays.
pub(crate) fn prune(log: &LogPlace, hosts: &[PathBuf], jobs_max: u32) {
    let (Some(folder), Some(stem)) = (log.folder(), log.stem()) else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return; // the host's own files can't be made then, which is said
    };
    let files = entries.flatten().filter_map(|entry| {
        let written = entry.metadata().ok()?.modified().ok()?;
        Some((entry.file_name().into_string().ok()?, written))
    });
    for name in superfluous(files, &stem, &running(hosts), jobs_max) {
        let path = folder.join(name);
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            // Another host that ended at the same time has removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "log file of an old job stays");
            }
        }
    }
}

/// Returns the jobs whose hosts have a folder: its name begins with the job.
fn running(hosts: &[PathBuf]) -> BTreeSet<JobId> {
    let entries = hosts.iter().flat_map(std::fs::read_dir).flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_string_lossy().split('-').next()?.parse().ok())
        .collect()
}

/// Returns the names of the files to delete: all files of the jobs beyond `jobs_max` whose last
/// write is oldest. Running jobs count, but their files are kept.
fn superfluous(
    files: impl Iterator<Item = (String, SystemTime)>,
    stem: &str,
    running: &BTreeSet<JobId>,
    jobs_max: u32,
) -> Vec<String> {
    let mut jobs: BTreeMap<String, (SystemTime, Vec<String>)> = BTreeMap::new();
    for (name, written) in files {
        let of = ENDS
            .iter()
            .find_map(|end| name.strip_prefix(stem)?.strip_prefix(MARK)?.strip_suffix(end));
        let Some(of) = of.filter(|of| of.parse::<JobId>().is_ok_and(|of| !running.contains(&of)))
        else {
            continue;
        };
        let entry = jobs.entry(of.to_owned()).or_insert((written, Vec::new()));
        entry.0 = entry.0.max(written);
        entry.1.push(name);
    }
    let mut jobs: Vec<_> = jobs.into_values().collect();
    jobs.sort();
    let others = usize::try_from(jobs_max).unwrap_or(usize::MAX).saturating_sub(running.len());
    let over = jobs.len().saturating_sub(others);
    jobs.into_iter().take(over).flat_map(|(_, names)| names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    fn pair(stem: &str, job: u128, second: u64) -> Vec<(String, SystemTime)> {
        let job = JobId(job);
        [".log", ".log.1", ".out"]
            .map(|end| (format!("{stem}{MARK}{job}{end}"), at(second)))
            .to_vec()
    }

    #[test]
    fn the_oldest_jobs_of_this_process_go() {
        let files = [
            pair("tm-0", 1, 30),
            pair("tm-0", 2, 10),
            pair("tm-0", 3, 20),
            pair("tm-0", 4, 1), // it runs, and says little
            pair("tm-01", 5, 2),
            vec![("tm-0.log".into(), at(0)), ("tm-0-host-notes.log".into(), at(0))],
        ];
        let gone =
            |max| superfluous(files.concat().into_iter(), "tm-0", &BTreeSet::from([JobId(4)]), max);
        let names = |jobs: &[u128]| -> Vec<String> {
            jobs.iter().flat_map(|job| pair("tm-0", *job, 0)).map(|(name, _)| name).collect()
        };
        assert_eq!(gone(4), names(&[]));
        assert_eq!(gone(3), names(&[2]));
        assert_eq!(gone(1), names(&[2, 3, 1]));
        assert_eq!(gone(0), names(&[2, 3, 1]), "a job that runs keeps its files");
    }

    #[test]
    fn pruned_files_are_gone_from_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let log = LogPlace { file: Some(folder.path().join("tm-0.log")) };
        let hosts = tempfile::tempdir().unwrap();
        std::fs::create_dir(hosts.path().join(format!("{}-tasks-7", JobId(1)))).unwrap();
        for job in 1..=3 {
            let (out, err) = places(&log, folder.path(), JobId(job));
            std::fs::write(out, "").unwrap();
            std::fs::write(err, "").unwrap();
        }
        let hosts = [hosts.path().to_owned()];
        prune(&log, &hosts, 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(places(&log, folder.path(), JobId(1)).0.exists(), "the job that runs");
        prune(&LogPlace::default(), &hosts, 0);
    }
}
