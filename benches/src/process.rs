//! CPU time and memory of this process, its ended children, and other processes by id.
//!
//! Reads `getrusage` and `/proc`; must never change anything.

use nix::sys::resource::{UsageWho, getrusage};
use std::{fs, io, ops::Sub};

/// User and system CPU seconds.
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

/// CPU of this process so far.
pub fn cpu_of_self() -> CpuTime {
    usage(UsageWho::RUSAGE_SELF)
}

/// CPU of children that were waited for so far.
pub fn cpu_of_children() -> CpuTime {
    usage(UsageWho::RUSAGE_CHILDREN)
}

/// CPU of a running process so far, from `/proc/PID/stat` (10 ms steps).
pub fn cpu_of(pid: u32) -> io::Result<CpuTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command name may hold blanks: fields are counted from behind its closing parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok(CpuTime((user + system) / 100.0)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat")),
    }
}

/// Resident memory of a process in MiB.
pub fn rss_mib(pid: u32) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse::<f64>().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no VmRSS"))?;
    Ok(kib / 1024.0)
}

/// Returns the number of threads of a process.
pub fn threads_of(pid: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// Returns the number of open descriptors of a process.
pub fn descriptors_of(pid: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Returns the number of children of a process that were not reaped.
pub fn children_of(pid: u32) -> io::Result<usize> {
    let mut children = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // The file is absent if the thread has ended since.
        let of_thread = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        children += of_thread.split_whitespace().count();
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_a_stat_line() {
        assert!(rss_mib(std::process::id()).unwrap() > 0.5);
        assert!(cpu_of(std::process::id()).unwrap().0 >= 0.0);
        assert!(threads_of(std::process::id()).unwrap() >= 1);
        assert!(descriptors_of(std::process::id()).unwrap() >= 3);
    }
}
