//! CPU time and memory of this process, its ended children, and other processes by id.
//!
//! Reads `getrusage` and `/proc`; must never change anything.

use nix::sys::resource::{UsageWho, getrusage};
use std::{fs, io, ops::Sub};

/// CPU time in seconds, user and system together; NaN if the system does not tell it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct CpuTime(pub f64);

impl Sub for CpuTime {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }
}

fn usage(who: UsageWho) -> CpuTime {
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    getrusage(who)
        .map_or(CpuTime(f64::NAN), |u| CpuTime(seconds(u.user_time()) + seconds(u.system_time())))
}

/// Returns the CPU time of this process so far, all threads together.
pub fn cpu_of_self() -> CpuTime {
    usage(UsageWho::RUSAGE_SELF)
}

/// Returns the CPU time of all children of this process that have ended and were waited for since it began, with that of their own
/// children that they had waited for; children that still run count 0.
pub fn cpu_of_children() -> CpuTime {
    usage(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the CPU time of a running process so far, from `/proc/PID/stat` (10 ms steps), without its children.
///
/// # Errors
/// The process is gone, or its file is unreadable.
pub fn cpu_of(pid: u32) -> io::Result<CpuTime> {
    ticks_of(pid, 2)
}

/// Returns the CPU time of a running process so far and of those of its children that it has waited for (10 ms steps); children that
/// still run do not count.
///
/// # Errors
/// The process is gone, or its file is unreadable.
pub fn cpu_of_tree(pid: u32) -> io::Result<CpuTime> {
    ticks_of(pid, 4)
}

/// Sums the first `count` of: user, system, children's user, children's system time.
fn ticks_of(pid: u32, count: usize) -> io::Result<CpuTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command name may hold blanks: fields are counted from behind its closing parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = fields.iter().skip(11).take(count).map(|ticks| ticks.parse::<f64>());
    match ticks.collect::<Result<Vec<f64>, _>>() {
        Ok(ticks) if ticks.len() == count => Ok(CpuTime(ticks.iter().sum::<f64>() / 100.0)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat")),
    }
}

/// Returns the memory of a process that is resident now, in MiB, from `/proc/PID/status`, shared pages included, children not.
///
/// # Errors
/// The process is gone or has ended, so that it has no memory.
pub fn rss_mib(pid: u32) -> io::Result<f64> {
    memory_mib(pid, "VmRSS:")
}

/// Returns the most memory in MiB that was resident in a process at any time since its start (`VmHWM`), children not included.
///
/// # Errors
/// The process is gone or has ended, so that it has no memory.
pub fn peak_mib(pid: u32) -> io::Result<f64> {
    memory_mib(pid, "VmHWM:")
}

fn memory_mib(pid: u32, field: &str) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|l| l.strip_prefix(field))
        .and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse::<f64>().ok())
        .ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "no such line in /proc/PID/status")
        })?;
    Ok(kib / 1024.0)
}

/// Returns the number of threads of a process; fails if the process is gone.
pub fn threads_of(pid: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// Returns the number of open file descriptors of a process; fails if the process is gone, or another user's.
pub fn descriptors_of(pid: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Returns the number of children of a process that it has not waited for, ended ones included; 0 for a process that has ended itself.
/// Fails if the process is gone (ended and waited for).
pub fn children_of(pid: u32) -> io::Result<usize> {
    Ok(child_ids_of(pid)?.len())
}

/// Returns the ids of the children of a process that it has not waited for, ended ones included; none for a process that has ended itself.
/// Fails if the process is gone (ended and waited for).
pub fn child_ids_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // The file is absent if the thread has ended since.
        let of_thread = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        children.extend(of_thread.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_a_stat_line() {
        assert!(rss_mib(std::process::id()).unwrap() > 0.5);
        assert!(peak_mib(std::process::id()).unwrap() > 0.5);
        let own = cpu_of(std::process::id()).unwrap();
        assert!(own.0 >= 0.0 && cpu_of_tree(std::process::id()).unwrap() >= own);
        assert!(threads_of(std::process::id()).unwrap() >= 1);
        assert!(descriptors_of(std::process::id()).unwrap() >= 3);
    }
}
