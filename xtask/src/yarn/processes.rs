//! The processes of a cluster: found by the directory in their command line, never by their kind of name.

use crate::run::Result;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// How long a daemon may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// What a daemon's command line has.
pub(super) fn mark(dir: &Path) -> String {
    format!("-Dxtask.yarn.dir={}", dir.display())
}

/// The daemons that run.
pub(super) fn daemons(dir: &Path) -> Result<Vec<u32>> {
    let mark = mark(dir);
    let is_marked = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    matching(is_marked)
}

/// What containers left behind: processes that work in a NodeManager's directory.
fn containers(dir: &Path) -> Result<Vec<u32>> {
    let nodes = dir.join("nodes");
    let works_there = |process: &PathBuf| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&nodes))
    };
    matching(works_there)
}

fn matching(wanted: impl Fn(&PathBuf) -> bool) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if wanted(&entry.path()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Ends the daemons, politely first, then the containers they left.
pub(super) fn stop(dir: &Path) -> Result<()> {
    signal("TERM", &daemons(dir)?)?;
    if !gone(|| daemons(dir))? {
        signal("KILL", &daemons(dir)?)?;
        if !gone(|| daemons(dir))? {
            return Err(format!("processes {:?} do not end", daemons(dir)?).into());
        }
    }
    signal("KILL", &containers(dir)?)?;
    match gone(|| containers(dir))? {
        true => Ok(()),
        false => Err(format!("processes {:?} do not end", containers(dir)?).into()),
    }
}

fn gone(rest: impl Fn() -> Result<Vec<u32>>) -> Result<bool> {
    for _ in 0..(PATIENCE.as_millis() / POLL.as_millis()) {
        if rest()?.is_empty() {
            return Ok(true);
        }
        sleep(POLL);
    }
    Ok(false)
}

/// A process that has ended meanwhile is fine.
fn signal(name: &str, pids: &[u32]) -> Result<()> {
    for pid in pids {
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &pid.to_string()]).stderr(Stdio::null());
        kill.status().map_err(|e| format!("kill: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_with_the_mark_are_stopped() {
        let dir = std::env::temp_dir().join(format!("xtask-yarn-{}", std::process::id()));
        let sleeper = |mark: String| {
            Command::new("sh").args(["-c", "read line", &mark]).stdin(Stdio::piped()).spawn()
        };
        let mut ours = sleeper(mark(&dir)).unwrap();
        let mut other = sleeper(mark(&dir.join("other"))).unwrap();
        while daemons(&dir).unwrap() != [ours.id()] {
            std::thread::yield_now();
        }
        stop(&dir).unwrap();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
