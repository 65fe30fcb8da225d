//! Facts about a TaskManager that users are shown: its machine and its memory, from `/proc` and the
//! options. This module must never fail a start or decide anything: a value that can't be read is
//! 0.

use conf::{Options, taskmanager};
use metrics::Registry;
use model::{MemorySize, TaskManagerFacts};
use std::path::Path;

/// Memory in use by this process and the program hosts that it has started, bytes.
const MEMORY_USED: (&str, &str) = ("Status", "Memory.Used");

/// Returns the facts about this process, for its registration.
pub(crate) fn of_this_process(options: &Options) -> TaskManagerFacts {
    let parts = crate::container::taskmanager_memory(options).ok();
    let ports = options.get(&taskmanager::DATA_PORT);
    let data_port = ports.is_fixed().then(|| ports.first());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    TaskManagerFacts {
        cpu_cores: u32::try_from(cores).unwrap_or(u32::MAX),
        physical_memory: MemorySize(field_bytes(&machine, "MemTotal:").unwrap_or(0)),
        framework: parts.map_or(MemorySize(0), |parts| parts.framework),
        overhead: parts.map_or(MemorySize(0), |parts| parts.overhead),
        data_port,
        log_page: crate::target::log_page(options),
    }
}

/// Publishes the memory in use as a gauge; it is read only when metrics are asked for.
pub(crate) fn publish_memory(registry: &Registry) {
    let (scope, name) = MEMORY_USED;
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
    registry.scope(scope).gauge_of(name, || memory_used() as f64);
}

/// Returns the anonymous memory of this process and its children in bytes. The executable's pages,
/// which they share, are left out.
fn memory_used() -> u64 {
    let own = std::process::id();
    let hosts = children(Path::new("/proc/self/task"));
    std::iter::once(own).chain(hosts).map(anonymous_bytes).fold(0, u64::saturating_add)
}

/// Returns the anonymous memory of a process, in bytes; 0 if there is no such process.
pub(crate) fn anonymous_bytes(pid: u32) -> u64 {
    // A child may be gone by now.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    field_bytes(&status, "RssAnon:").unwrap_or(0)
}

/// Returns the processes that this one's threads have started.
fn children(tasks: &Path) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(tasks) else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|pids| {
            pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Reads a line such as `MemTotal:  16384 kB`, in bytes.
fn field_bytes(text: &str, field: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    let mut words = rest.split_whitespace();
    let amount: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| amount.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_from_proc_in_bytes() {
        let text = "MemTotal:       2048 kB\nMemFree: 7 kB\nHugePages_Total:   3\n";
        assert_eq!(field_bytes(text, "MemTotal:"), Some(2048 * 1024));
        assert_eq!(field_bytes(text, "HugePages_Total:"), None);
        assert_eq!(field_bytes(text, "Absent:"), None);
        assert_eq!(field_bytes("MemTotal: x kB", "MemTotal:"), None);
    }

    #[test]
    fn a_process_knows_its_machine_and_the_parts_of_its_memory() {
        let options = Options::from_map([
            ("taskmanager.memory.process.size", "1728m"),
            ("taskmanager.memory.framework.size", "100m"),
            ("taskmanager.data.port", "7001"),
        ])
        .unwrap();
        let facts = of_this_process(&options);
        assert!(facts.cpu_cores > 0);
        assert!(facts.physical_memory > MemorySize::from_mib(16));
        assert_eq!(facts.framework, MemorySize::from_mib(100));
        assert!(facts.overhead > MemorySize(0));
        assert_eq!(facts.data_port, Some(7001));
        let drawn = Options::from_map([("taskmanager.data.port", "7001-7003")]).unwrap();
        assert_eq!(of_this_process(&drawn).data_port, None);
        assert_eq!(of_this_process(&Options::default()).data_port, None);
    }

    #[test]
    fn memory_in_use_covers_children() {
        let registry = Registry::default();
        publish_memory(&registry);
        assert!(memory_used() > 0);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = children(Path::new("/proc/self/task"));
        let bytes = anonymous_bytes(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        // If the kernel does not list children, only this process is counted.
        let listed = Path::new("/proc/self/task/self").exists()
            || Path::new(&format!("/proc/self/task/{}/children", std::process::id())).exists();
        assert_eq!(found.contains(&child.id()), listed);
        assert!(bytes > 0);
    }
}
