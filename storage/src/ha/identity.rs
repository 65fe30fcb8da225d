//! Identifies this process on its machine, so that a successor can tell that its predecessor has
//! ended.

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use std::fs;

/// Returns the identity of this process on its machine as text, for [`is_gone`]: boot, pid namespace, pid and start time, so that
/// no other process ever has the same. Empty if the system does not tell them. Reads `/proc`.
pub fn process_identity() -> String {
    let pid = std::process::id();
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let parts = (machine(), stat.and_then(|stat| start_time(&stat)));
    match parts {
        (Some(machine), Some(start)) => format!("{machine}/{pid}/{start}"),
        _ => String::new(),
    }
}

/// Returns true if the process with this identity (see `process_identity`) has certainly ended: it ran on this
/// machine, since this boot and in this pid namespace, and is not there any more (a zombie counts as ended). False if
/// that can't be told, as for a process of another machine and for an empty text. Reads `/proc`.
pub fn is_gone(identity: &str) -> bool {
    let Some((rest, start)) = identity.rsplit_once('/') else {
        return false;
    };
    let Some((their_machine, pid)) = rest.rsplit_once('/') else {
        return false;
    };
    let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else {
        return false;
    };
    if machine().is_none_or(|ours| ours != their_machine) {
        return false;
    }
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => start_time(&stat) != Some(start),
        // It may be hidden (`hidepid`), or this process may have no descriptor left: only the kernel's word counts.
        Err(_) => {
            i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH))
        }
    }
}

fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let text = format!("{}-{}", boot.trim(), namespace.display());
    Some(text.replace('/', "_"))
}

/// Start time of a live process in clock ticks since boot, from its `/proc/PID/stat`. A zombie has ended.
fn start_time(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything; what follows its last one is regular.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_not_gone_and_one_that_ended_is() {
        let me = process_identity();
        assert!(!me.is_empty() && !is_gone(&me));
        let (machine, _) =
            me.rsplit_once('/').and_then(|(r, _)| r.rsplit_once('/')).expect("parts");
        let pid = std::process::id();
        assert!(is_gone(&format!("{machine}/{pid}/1")), "another process had this pid");
        // The largest pid of Linux is 4,194,304; 0 would be this process's group.
        assert!(is_gone(&format!("{machine}/4194305/1")), "there is no such process");
        assert!(!is_gone(&format!("{machine}/4294967295/1")), "no pid");
        assert!(!is_gone(&format!("other-machine/{pid}/1")));
        for text in ["", "x", "a/b", "a/b/c", "a/1/x"] {
            assert!(!is_gone(text), "{text}");
        }
    }
}
