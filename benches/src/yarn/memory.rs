//! Memory of an application's processes on this machine: those of its containers and what they have started.

use anyhow::Result;
use hadoop::yarn::messages::ApplicationId;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// The sum of the resident memory of an application's processes, in MiB, counted in two ways.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// Resident memory (`Rss`): what several processes share counts in full for each.
    pub resident: f64,
    /// Proportional memory (`Pss`): what several processes share counts by equal parts, so once in all.
    pub proportional: f64,
}

/// Shells that only wait for a container's process.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// Returns the memory of all processes of an application on this machine, found by their `CONTAINER_ID` and their parents; the shells
/// around them do not count. A process that ends meanwhile is left out, and one whose environment this user may not read. Program hosts of
/// Flott are such even if they are this user's, because they bar other processes from their memory; only root reads them.
///
/// # Errors
/// `/proc` cannot be read.
pub fn of(id: &ApplicationId) -> Result<Memory> {
    let mark = id.to_string().replace("application_", "_") + "_";
    let mut parents = BTreeMap::new();
    let mut own = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // It may have ended since.
        let (Ok(stat), Ok(environment)) = (read(pid, "stat"), read(pid, "environ")) else {
            continue;
        };
        if let Some(parent) =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1))
        {
            parents.insert(pid, parent.parse::<u32>()?);
        }
        let is_container = |pair: &str| pair.starts_with("CONTAINER_ID=") && pair.contains(&mark);
        if environment.split('\0').any(is_container) {
            own.insert(pid);
        }
    }
    let mut memory = Memory::default();
    for &pid in parents.keys().filter(|pid| is_below(**pid, &own, &parents)) {
        let name = read(pid, "comm").unwrap_or_default();
        if SHELLS.contains(&name.trim()) {
            continue;
        }
        let rollup = read(pid, "smaps_rollup").unwrap_or_default();
        memory.resident += mib(&rollup, "Rss:");
        memory.proportional += mib(&rollup, "Pss:");
    }
    Ok(memory)
}

fn read(pid: u32, what: &str) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{what}"))?).into_owned())
}

/// Returns true if a process is one of these or was started by one.
fn is_below(pid: u32, own: &BTreeSet<u32>, parents: &BTreeMap<u32, u32>) -> bool {
    let mut at = Some(pid);
    while let Some(pid) = at {
        if own.contains(&pid) {
            return true;
        }
        at = parents.get(&pid).copied();
    }
    false
}

fn mib(rollup: &str, name: &str) -> f64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_a_container_are_its_applications() {
        let parents = BTreeMap::from([(7, 5), (5, 3), (3, 1), (9, 1)]);
        let own = BTreeSet::from([5]);
        let below: Vec<u32> =
            parents.keys().copied().filter(|pid| is_below(*pid, &own, &parents)).collect();
        assert_eq!(below, [5, 7]);
    }

    #[test]
    fn memory_is_read_in_kib() {
        let rollup = "0-1 ---p 00000000 00:00 0 [rollup]\nRss:   2048 kB\nPss:   1024 kB\n";
        assert_eq!((mib(rollup, "Rss:"), mib(rollup, "Pss:")), (2.0, 1.0));
    }
}
