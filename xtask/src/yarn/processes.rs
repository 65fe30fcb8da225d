//! The processes of a cluster: found by the directory in their command line, never by their kind of name.

use crate::run::Result;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// How long a daemon may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// Returns the argument that marks every daemon of the cluster in `dir`.
pub(super) fn mark(dir: &Path) -> String {
    format!("-Dxtask.yarn.dir={}", dir.display())
}

/// Returns the argument that marks the daemon of this name.
pub(super) fn name(name: &str) -> String {
    format!("-Dxtask.yarn.daemon={name}")
}

/// The words of a process's command line.
fn has_words(process: &Path, wanted: &[String]) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    wanted.iter().all(|wanted| words.contains(&wanted.as_bytes()))
}

/// The word that a KDC has instead of a mark: it takes none that it does not know.
fn kdc_mark(dir: &Path) -> String {
    dir.join("krb/krb5kdc.pid").display().to_string()
}

/// The daemons that run.
pub(super) fn daemons(dir: &Path) -> Result<Vec<u32>> {
    let (mark, kdc) = ([mark(dir)], [kdc_mark(dir)]);
    matching(|process| has_words(process, &mark) || has_words(process, &kdc))
}

/// The daemon of this name, where it runs.
pub(super) fn named(dir: &Path, daemon: &str) -> Result<Vec<u32>> {
    let words = match daemon {
        "kdc" => vec![kdc_mark(dir)],
        daemon => vec![mark(dir), name(daemon)],
    };
    matching(|process| has_words(process, &words))
}

/// Kills the daemon of this name and returns when it is gone.
pub(super) fn kill(dir: &Path, daemon: &str) -> Result<()> {
    let pids = named(dir, daemon)?;
    if pids.is_empty() {
        return Err(format!("{daemon} is not running").into());
    }
    signal("KILL", &pids)?;
    match gone(|| named(dir, daemon))? {
        true => Ok(()),
        false => Err(format!("processes {pids:?} do not end").into()),
    }
}

/// Returns the processes that containers have left behind: those that work in a NodeManager's directory.
fn containers(dir: &Path) -> Result<Vec<u32>> {
    let nodes = dir.join("nodes");
    let works_there = |process: &Path| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&nodes))
    };
    matching(works_there)
}

fn matching(wanted: impl Fn(&Path) -> bool) -> Result<Vec<u32>> {
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
        assert!(named(&dir, "nobody").unwrap().is_empty() && kill(&dir, "nobody").is_err());
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
