//! The memory of a process and the program hosts that it has started, together: when it is above the number that was
//! configured for all of them, a host is ended: one that only serves the results of a finished job, or else the largest. This
//! module must never end a process that is not a host.
//!
//! A host of a TaskManager limits its own tasks before (`host::worker`); here memory counts that no allocator of a program
//! has seen, such as that of C libraries, and all memory of the JobManager's hosts.

use crate::facts::anonymous_bytes;
use host::launch::Kill;
use model::MemorySize;
use platform::{Lane, Platform};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest and the longest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The rate at which the memory of hosts is assumed to grow at most, in bytes per second.
const GROWTH_MAX: u64 = 4 << 30;
/// The part of the limit that is left free, a thirty-second: memory grows until a host has ended, and in a container the system
/// would end all processes at the limit itself.
const MARGIN: u64 = 32;

/// Time after which the results of a finished job count as fetched: a client that fetches them asks many times a second.
const UNASKED_MIN: Duration = Duration::from_secs(2);

/// The memory that a process and the program hosts that it has started may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessLimit {
    /// Limit in bytes on the memory of the process and its hosts together.
    pub size: MemorySize,
    /// Key of the option that sets the limit, for messages.
    pub option: &'static str,
}

/// The program hosts of this process, by process id, and the limit that they share with it. Clones share one list.
#[derive(Clone)]
pub(crate) struct HostMemory(Arc<Shared>);

struct Shared {
    limit: Option<ProcessLimit>,
    platform: Platform,
    hosts: Mutex<Hosts>,
}

#[derive(Default)]
struct Hosts {
    by_pid: BTreeMap<u32, Host>,
    /// True while [`HostMemory::watch`] runs.
    watched: bool,
}

struct Host {
    kill: Kill,
    /// The monotonic time at which the host was last asked for the results of its finished job; `None`: it has more to do.
    served: Option<Duration>,
    /// The reason for which the host was ended; `None` before.
    ended: Option<String>,
}

/// The consequence of a look at the memory.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// All together are within the limit: the next look is due after that time.
    Within(Duration),
    /// The host with this process id is to be ended; it has so many bytes.
    End(u32, u64),
    /// The process itself has more than the limit, so that the end of a host would not help.
    Alone,
}

/// A host's process id, its memory in bytes, and the time since it was last asked for the results of its finished job (`None`: it has
/// more to do).
type Size = (u32, u64, Option<Duration>);

/// Decides what follows from the memory, in bytes, of the process itself and of each of its hosts.
fn look(limit: u64, own: u64, hosts: &[Size]) -> Verdict {
    let used = hosts.iter().map(|(_, bytes, _)| *bytes).fold(own, u64::saturating_add);
    if let Some(headroom) = limit.checked_sub(used) {
        // So soon that even the quickest host is noticed before it has taken what is left.
        let millis = headroom.saturating_mul(1_000) / GROWTH_MAX;
        return Verdict::Within(Duration::from_millis(millis).clamp(PAUSE_MIN, PAUSE_MAX));
    }
    let spare = hosts.iter().filter(|(.., unasked)| *unasked >= Some(UNASKED_MIN));
    let spare = spare.max_by_key(|(.., unasked)| *unasked);
    match spare.or_else(|| hosts.iter().max_by_key(|(_, bytes, _)| *bytes)) {
        Some((pid, bytes, _)) if own <= limit => Verdict::End(*pid, *bytes),
        _ => Verdict::Alone,
    }
}

impl HostMemory {
    /// Creates an empty list. `None`: no limit.
    pub(crate) fn new(platform: Platform, limit: Option<ProcessLimit>) -> Self {
        Self(Arc::new(Shared { limit, platform, hosts: Mutex::default() }))
    }

    /// Adds a host that has been started. While there are hosts, the memory is looked at.
    pub(crate) fn add(&self, pid: u32, kill: Kill) {
        let first = {
            let mut hosts = self.hosts();
            hosts.by_pid.insert(pid, Host { kill, served: None, ended: None });
            !std::mem::replace(&mut hosts.watched, true)
        };
        if let (true, Some(limit)) = (first, self.0.limit) {
            let watched = self.clone();
            let watch = async move { watched.watch(limit).await };
            self.0.platform.lane(Lane::Heartbeat).spawn_local(watch);
        }
    }

    /// Notes that a host only serves what its finished job has collected, and was just asked for it. Does nothing for any other process.
    pub(crate) fn serves_collected(&self, pid: u32) {
        if let Some(host) = self.hosts().by_pid.get_mut(&pid) {
            host.served = Some(self.0.platform.now());
        }
    }

    /// Removes a host that has ended. Returns the reason if it was ended for its memory.
    pub(crate) fn remove(&self, pid: u32) -> Option<String> {
        self.hosts().by_pid.remove(&pid)?.ended
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the memory until there is no host.
    async fn watch(self, limit: ProcessLimit) {
        let mut told = false;
        loop {
            // A host that was ended counts until it is gone, and no other is ended meanwhile.
            let pids: Option<Vec<(u32, Option<Duration>)>> = {
                let mut hosts = self.hosts();
                if hosts.by_pid.is_empty() {
                    hosts.watched = false;
                    return;
                }
                let going = hosts.by_pid.values().any(|host| host.ended.is_some());
                (!going)
                    .then(|| hosts.by_pid.iter().map(|(pid, host)| (*pid, host.served)).collect())
            };
            let pause = match pids {
                None => PAUSE_MIN,
                Some(pids) => {
                    let now = self.0.platform.now();
                    let size = |(pid, served): (u32, Option<Duration>)| {
                        (pid, anonymous_bytes(pid), served.map(|at| now.saturating_sub(at)))
                    };
                    let sizes: Vec<Size> = pids.into_iter().map(size).collect();
                    let own = anonymous_bytes(std::process::id());
                    let used = sizes.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + own;
                    match look(limit.size.0 - limit.size.0 / MARGIN, own, &sizes) {
                        Verdict::Within(pause) => {
                            told = false;
                            pause
                        }
                        Verdict::End(pid, bytes) => {
                            self.end(pid, &why(limit, used, bytes));
                            PAUSE_MIN
                        }
                        Verdict::Alone => {
                            if !std::mem::replace(&mut told, true) {
                                tracing::error!("this process {}", why(limit, used, own));
                            }
                            PAUSE_MAX
                        }
                    }
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn end(&self, pid: u32, why: &str) {
        if let Some(host) = self.hosts().by_pid.get_mut(&pid) {
            tracing::warn!(pid, why, "a program host is ended for its memory");
            host.ended = Some(why.to_owned());
            host.kill.kill();
        }
    }
}

/// Says how much all processes used, of how much, and how much of it one of them has; below the limit also why that is too much.
fn why(limit: ProcessLimit, used: u64, own: u64) -> String {
    let mib = |bytes: u64| MemorySize::from_mib(bytes.div_ceil(1 << 20));
    let ProcessLimit { size, option } = limit;
    let free = match used <= size.0 {
        true => format!(", and {} have to stay free", mib(size.0 / MARGIN)),
        false => String::new(),
    };
    format!("used {} of {size} ({option}), {} of it in this process{free}", mib(used), mib(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_largest_host_is_ended_when_all_together_exceed_the_limit() {
        let hosts = [(7, 500 * MIB, None), (8, 900 * MIB, None), (9, 100 * MIB, None)];
        assert_eq!(look(1_600 * MIB, 101 * MIB, &hosts), Verdict::End(8, 900 * MIB));
        assert!(matches!(look(1_600 * MIB, 100 * MIB, &hosts), Verdict::Within(_)));
    }

    #[test]
    fn hosts_whose_results_were_fetched_are_ended_before_others_and_the_oldest_first() {
        let asked = |seconds| Some(Duration::from_secs(seconds));
        let mut hosts = [(6, 300 * MIB, asked(5)), (7, 20 * MIB, asked(6)), (8, 900 * MIB, None)];
        assert_eq!(look(1_000 * MIB, 10 * MIB, &hosts), Verdict::End(7, 20 * MIB));
        hosts[1].2 = asked(1);
        assert_eq!(look(1_000 * MIB, 10 * MIB, &hosts), Verdict::End(6, 300 * MIB));
        hosts[0].2 = asked(1);
        assert_eq!(look(1_000 * MIB, 10 * MIB, &hosts), Verdict::End(8, 900 * MIB));
    }

    #[test]
    fn no_host_is_ended_for_what_the_process_itself_takes() {
        assert_eq!(look(100 * MIB, 101 * MIB, &[(7, 5 * MIB, None)]), Verdict::Alone);
        assert_eq!(look(100 * MIB, 101 * MIB, &[]), Verdict::Alone);
        assert_eq!(look(100 * MIB, 99 * MIB, &[(7, 5 * MIB, None)]), Verdict::End(7, 5 * MIB));
    }

    #[test]
    fn the_next_look_is_due_before_what_is_left_can_be_taken() {
        let pause = |left: u64| match look(2_000 * MIB, 2_000 * MIB - left, &[(7, 0, None)]) {
            Verdict::Within(pause) => pause,
            other => panic!("{other:?}"),
        };
        assert_eq!(pause(1_024 * MIB), Duration::from_millis(250));
        assert_eq!(pause(0), PAUSE_MIN);
        assert_eq!(look(u64::MAX, 0, &[(7, 1, None)]), Verdict::Within(PAUSE_MAX));
    }

    #[test]
    fn the_reason_says_what_was_used_and_allowed_and_where_it_is_set() {
        let limit = ProcessLimit {
            size: MemorySize::from_mib(1_600),
            option: "jobmanager.memory.process.size",
        };
        assert_eq!(
            why(limit, 1_601 * MIB, 1_200 * MIB + 1),
            "used 1601m of 1600m (jobmanager.memory.process.size), 1201m of it in this process"
        );
        assert_eq!(
            why(limit, 1_551 * MIB, 1_420 * MIB),
            "used 1551m of 1600m (jobmanager.memory.process.size), 1420m of it in this process, and 50m have to stay free"
        );
    }

    #[tokio::test]
    async fn a_host_that_takes_too_much_is_ended_with_the_reason() {
        let option = "jobmanager.memory.process.size";
        // What this process has, and less than the child takes.
        let size = MemorySize(anonymous_bytes(std::process::id()) + 64 * MIB);
        let limit = Some(ProcessLimit { size, option });
        let memory = HostMemory::new(Platform::production(), limit);
        let script = "kept=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 60";
        let mut child = std::process::Command::new("sh");
        child.args(["-c", script]).process_group(0);
        let child = child.spawn().unwrap();
        let (pid, kill) = (child.id(), Kill::of(&child));
        memory.add(pid, kill.clone());
        let exit = tokio::task::spawn_blocking(move || kill.wait(child)).await.unwrap();
        assert_eq!(exit, host::launch::ExitCause::Signal(9));
        let why = memory.remove(pid).unwrap();
        assert!(why.contains(option) && why.starts_with("used "), "{why}");
        assert_eq!(memory.remove(pid), None);
    }
}
