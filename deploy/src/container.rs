//! The memory limit of the container (control group) that this process runs in, from `/proc` and the mounted control
//! groups of version 1 and 2. What can't be read is no limit, and is logged as a warning; nothing here may fail a start.

use conf::{Opt, Options, jobmanager, memory, taskmanager_memory};
use model::MemorySize;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// From this number of bytes on a limit stands for none: version 1 writes `i64::MAX`, rounded to pages.
const NO_LIMIT: u64 = 1 << 60;

/// A memory limit, and whether this process shares it with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// True if other processes than this one and those that have started it run under the limit.
    shared: bool,
}

/// Returns the memory limit of the container that a TaskManager with these options runs in: the most that
/// `taskmanager.memory.process.size` may be, and its value where it is not set.
///
/// `None` on plain hosts. Also `None` if the option is not set, the limit is above its default, and other processes run in
/// the container as well (a machine for development or tests, where a JobManager and TaskManagers share one limit): the
/// default holds there.
pub(crate) fn taskmanager_limit(options: &Options) -> Option<MemorySize> {
    chosen(limit(), options, &taskmanager_memory::PROCESS_SIZE)
}

/// Returns the same for a JobManager and `jobmanager.memory.process.size`.
pub(crate) fn jobmanager_limit(options: &Options) -> Option<MemorySize> {
    chosen(limit(), options, &jobmanager::PROCESS_SIZE)
}

/// Returns the parts of the memory of a TaskManager on this machine.
///
/// # Errors
/// Returns the errors of [`memory::task_manager_memory`].
pub(crate) fn taskmanager_memory(
    options: &Options,
) -> Result<memory::TaskManagerMemory, memory::MemoryError> {
    memory::task_manager_memory(options, taskmanager_limit(options))
}

/// Returns the container's memory limit as a text for the log.
pub(crate) fn describe() -> String {
    text_of(limit())
}

fn text_of(limit: Option<Limit>) -> String {
    match limit {
        None => "no memory limit".to_owned(),
        Some(Limit { bytes, shared: false }) => format!("memory limit {}", MemorySize(bytes)),
        Some(Limit { bytes, shared: true }) => {
            format!("memory limit {}, shared with other processes", MemorySize(bytes))
        }
    }
}

fn chosen(
    limit: Option<Limit>,
    options: &Options,
    process_size: &'static Opt<Option<MemorySize>>,
) -> Option<MemorySize> {
    let Limit { bytes, shared } = limit?;
    let limit = MemorySize(bytes);
    let below = options.get(process_size).is_some_and(|size| limit <= size);
    (!shared || below || options.is_set(process_size)).then_some(limit)
}

/// Reads the smallest limit of this process's control groups and of those above them.
fn limit() -> Option<Limit> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let places = folders(&groups, &mounts);
    let (smallest, unclear) = smallest(&places, |file| std::fs::read_to_string(file));
    unclear.iter().for_each(warn_once);
    let (bytes, folder) = smallest?;
    // A limit of a control group further up holds for others too.
    let own = places.iter().any(|place| place.own == folder);
    let shared = !own || has_strangers(&folder);
    tracing::debug!(bytes, folder = %folder.display(), shared, "the container's memory limit");
    Some(Limit { bytes, shared })
}

/// A file that should say something about the container and does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Unclear {
    file: PathBuf,
    /// The content of the file, or the reason why it can't be read.
    says: String,
}

/// Logs a file that is not understood, the first time that it says this.
fn warn_once(unclear: &Unclear) {
    static WARNED: Mutex<BTreeSet<Unclear>> = Mutex::new(BTreeSet::new());
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if warned.insert(unclear.clone()) {
        let Unclear { file, says } = unclear;
        tracing::warn!(
            file = %file.display(), says = %says.escape_debug(),
            "the memory limit of the container is not understood here, and nothing follows from it; set \
             taskmanager.memory.process.size and jobmanager.memory.process.size to what the container may use"
        );
    }
}

/// Returns the smallest limit with the folder of its control group, and the files that say neither a limit nor that there is
/// none. A file that is absent says that there is none: the controller is not in use there.
fn smallest(
    places: &[Place],
    read: impl Fn(&Path) -> io::Result<String>,
) -> (Option<(u64, PathBuf)>, Vec<Unclear>) {
    let (mut smallest, mut unclear) = (None::<(u64, PathBuf)>, Vec::new());
    for (folder, file) in places.iter().flat_map(Place::upwards) {
        let file = folder.join(file);
        let says = match read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                unclear.push(Unclear { file, says: error.to_string() });
                continue;
            }
        };
        match amount(&says) {
            Amount::Bytes(bytes) => {
                if smallest.as_ref().is_none_or(|(known, _)| bytes < *known) {
                    smallest = Some((bytes, folder));
                }
            }
            Amount::NoLimit => {}
            Amount::Unclear => {
                unclear.push(Unclear { file, says: says.trim().to_owned() });
            }
        }
    }
    (smallest, unclear)
}

/// The control group of this process in one mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    mount: PathBuf,
    own: PathBuf,
    /// The name of the file that holds the limit.
    file: &'static str,
}

impl Place {
    /// Returns the folders from the process's own control group up to the mount point, each with the file of the limit.
    fn upwards(&self) -> Vec<(PathBuf, &'static str)> {
        let own = self.own.ancestors().take_while(|folder| folder.starts_with(&self.mount));
        own.map(|folder| (folder.to_owned(), self.file)).collect()
    }
}

/// Returns where the memory controller's hierarchies are mounted (version 1, version 2 or both), and this process's group
/// there. `groups` is `/proc/self/cgroup`, `mounts` is `/proc/self/mountinfo`.
fn folders(groups: &str, mounts: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for line in mounts.lines() {
        // ID PARENT MAJOR:MINOR ROOT MOUNT-POINT OPTIONS [FIELDS] - TYPE SOURCE SUPER-OPTIONS
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
        let (Some(root), Some(mount)) = (left.next(), left.next()) else { continue };
        let (Some(kind), Some(options)) = (right.next(), right.nth(1)) else { continue };
        let file = match kind {
            "cgroup2" => "memory.max",
            "cgroup" if options.split(',').any(|option| option == "memory") => {
                "memory.limit_in_bytes"
            }
            _ => continue,
        };
        let Some(group) = group(groups, kind == "cgroup2") else { continue };
        let (root, mount) = (unescaped(root), PathBuf::from(unescaped(mount)));
        // A group outside of what is mounted (`/../other`) can't be seen: only the mounted one counts.
        let inside = Path::new(group).strip_prefix(&root).unwrap_or(Path::new(""));
        let plain = inside.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let own = if plain { mount.join(inside) } else { mount.clone() };
        places.push(Place { mount, own, file });
    }
    places
}

/// Returns the path of the process's group: in version 2, or in version 1's hierarchy of the memory controller.
fn group(groups: &str, version_2: bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let ours = match version_2 {
            true => number == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|controller| controller == "memory"),
        };
        ours.then_some(path)
    })
}

/// Returns a path of `/proc/self/mountinfo` without its octal escapes.
fn unescaped(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (escape, plain)| path.replace(escape, plain))
}

/// The content of a limit's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    /// A limit, in bytes.
    Bytes(u64),
    NoLimit,
    /// Neither a number nor a word for no limit.
    Unclear,
}

/// Reads the content of a limit's file.
fn amount(text: &str) -> Amount {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(bytes) if is_number && bytes < NO_LIMIT => Amount::Bytes(bytes),
        // A number of too many digits is also beyond every memory.
        _ if is_number || ["max", "-1"].contains(&text) => Amount::NoLimit,
        _ => Amount::Unclear,
    }
}

/// Returns whether a control group has processes other than this one and its ancestors.
fn has_strangers(folder: &Path) -> bool {
    let file = folder.join("cgroup.procs");
    let processes = match std::fs::read_to_string(&file) {
        Ok(processes) => processes,
        Err(error) => {
            warn_once(&Unclear { file, says: error.to_string() });
            return true;
        }
    };
    let mut family = BTreeSet::new();
    let mut process = std::process::id();
    while process > 0 && family.insert(process) {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        process = parent(&status).unwrap_or(0);
    }
    strangers(&processes, &family)
}

fn strangers(processes: &str, family: &BTreeSet<u32>) -> bool {
    processes.lines().any(|line| line.trim().parse().is_ok_and(|pid| !family.contains(&pid)))
}

/// Returns the parent that `/proc/PID/status` names.
fn parent(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(mount: &str, own: &str, file: &'static str) -> Place {
        Place { mount: mount.into(), own: own.into(), file }
    }

    #[test]
    fn the_log_names_the_limit_and_whether_others_share_it() {
        let limit = |bytes, shared| Some(Limit { bytes, shared });
        assert_eq!(text_of(None), "no memory limit");
        assert_eq!(text_of(limit(1_258_291_200, false)), "memory limit 1200m");
        assert_eq!(text_of(limit(1 << 30, true)), "memory limit 1g, shared with other processes");
    }

    #[test]
    fn version_2_in_a_container_with_a_namespace_of_its_own() {
        let mounts = "1432 1419 0:27 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n\
                      1433 1419 0:95 / /dev/mqueue rw - mqueue mqueue rw\n";
        let found = folders("0::/\n", mounts);
        assert_eq!(found, [place("/sys/fs/cgroup", "/sys/fs/cgroup", "memory.max")]);
        assert_eq!(found[0].upwards(), [("/sys/fs/cgroup".into(), "memory.max")]);
    }

    #[test]
    fn version_2_of_a_service_asks_every_group_above_it() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
        let [place] = &folders("0::/system.slice/flott.service\n", mounts)[..] else {
            panic!("one hierarchy")
        };
        let asked: Vec<_> = place.upwards().into_iter().map(|(folder, _)| folder).collect();
        let expected = [
            "/sys/fs/cgroup/system.slice/flott.service",
            "/sys/fs/cgroup/system.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(asked, expected.map(PathBuf::from));
    }

    #[test]
    fn version_1_of_docker_shows_the_container_s_group_as_the_root() {
        let groups =
            "12:cpu,cpuacct:/docker/f00\n5:memory:/docker/f00\n1:name=systemd:/docker/f00\n";
        let mounts = "700 690 0:31 /docker/f00 /sys/fs/cgroup/cpu ro master:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      701 690 0:35 /docker/f00 /sys/fs/cgroup/memory ro master:15 - cgroup cgroup rw,memory\n";
        let file = "memory.limit_in_bytes";
        let expected = [place("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory", file)];
        assert_eq!(folders(groups, mounts), expected);
    }

    #[test]
    fn both_versions_side_by_side_are_both_asked() {
        let groups = "4:memory:/jobs/817b\n2:cpuacct:/\n0::/init.scope\n";
        let mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/with\\040space rw - cgroup2 cgroup2 rw\n";
        let expected = [
            place(
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/memory/jobs/817b",
                "memory.limit_in_bytes",
            ),
            place(
                "/sys/fs/cgroup/with space",
                "/sys/fs/cgroup/with space/init.scope",
                "memory.max",
            ),
        ];
        assert_eq!(folders(groups, mounts), expected);
    }

    #[test]
    fn a_group_that_is_not_mounted_leaves_the_mount_point() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = folders("0::/../other\n", mounts);
        assert_eq!(found, [place("/sys/fs/cgroup", "/sys/fs/cgroup", "memory.max")]);
        for (groups, mounts) in [("", mounts), ("0::/\n", ""), ("nothing\n:\n", "a - b\n - \n")] {
            assert_eq!(folders(groups, mounts), []);
        }
    }

    #[test]
    fn what_stands_for_no_limit_is_none() {
        assert_eq!(amount("536870912\n"), Amount::Bytes(512 << 20));
        for none in ["max\n", "9223372036854771712\n", "-1", "18446744073709551616"] {
            assert_eq!(amount(none), Amount::NoLimit, "{none:?}");
        }
        for unclear in ["", "\n", "512M", "-2", "536870912 max", "+5"] {
            assert_eq!(amount(unclear), Amount::Unclear, "{unclear:?}");
        }
    }

    #[test]
    fn a_limit_that_is_not_understood_is_named_with_its_file_and_what_it_says() {
        let places = [place("/cg", "/cg/a/b", "memory.max")];
        let read = |file: &Path| match file.to_str().unwrap() {
            "/cg/a/b/memory.max" => Ok("512M\n".to_owned()),
            "/cg/a/memory.max" => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let (found, unclear) = smallest(&places, read);
        let named = |file: &str, says: &str| Unclear { file: file.into(), says: says.to_owned() };
        let expected =
            [named("/cg/a/b/memory.max", "512M"), named("/cg/a/memory.max", "permission denied")];
        assert_eq!((found, unclear), (None, expected.to_vec()));
        let (found, unclear) = smallest(&places, |_| Ok("4096".to_owned()));
        assert_eq!((found, unclear), (Some((4096, "/cg/a/b".into())), vec![]));
    }

    #[test]
    fn a_process_and_its_ancestors_are_no_strangers() {
        let family = BTreeSet::from([1, 40, 41]);
        assert!(!strangers("1\n40\n41\n", &family));
        assert!(strangers("1\n41\n57\n", &family));
        assert_eq!(parent("Name:\tsh\nPid:\t41\nPPid:\t40\n"), Some(40));
        assert_eq!(parent("Name:\tsh\n"), None);
    }

    #[test]
    fn a_limit_that_others_share_only_lowers_the_default() {
        let key = &taskmanager_memory::PROCESS_SIZE;
        let limit = |mib: u64, shared| Some(Limit { bytes: mib << 20, shared });
        let (unset, size) = (Options::default(), |mib| Some(MemorySize::from_mib(mib)));
        assert_eq!(chosen(limit(4096, false), &unset, key), size(4096));
        assert_eq!(chosen(limit(4096, true), &unset, key), None);
        assert_eq!(chosen(limit(512, true), &unset, key), size(512));
        assert_eq!(chosen(None, &unset, key), None);
        let set = Options::from_map([(key.key(), "8g")]).unwrap();
        assert_eq!(chosen(limit(4096, true), &set, key), size(4096), "what is set is compared");
    }

    #[test]
    fn this_machine_s_limit_can_be_read_and_its_default_makes_a_process() {
        let options = Options::default();
        let parts = taskmanager_memory(&options).unwrap();
        assert!(parts.total() >= MemorySize::from_mib(64), "{parts}");
        assert!(memory::job_manager_memory(&options, jobmanager_limit(&options)).is_ok());
    }
}
