//! Prepares a process's environment at its start and logs it once: version, commit, system, user, limits, container and
//! the options that were set. Values of secrets are masked.

use crate::version;
use conf::Options;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, User, getuid};
use std::fmt::Write;

/// The variable by which a process tells its program hosts the facts of its cluster.
pub(crate) const FACTS_VARIABLE: &str = "FLOTT_INTERNAL_FACTS";
/// Maximum length of its value in bytes: the system takes no variable of more than 128 KiB.
const FACTS_BYTES_MAX: usize = 32 << 10;

/// Appends a fact to a text, as a line.
fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {name}: {value}");
}

/// Returns the text of the environment of a process, one fact a line, without those of its cluster.
fn of_process(role: &str) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| line(&mut text, name, &value);
    line("version", version::LONG.to_owned());
    line("role", role.to_owned());
    line("system", system());
    line("user", user());
    line("process", std::process::id().to_string());
    line("command", command());
    line("directory", show(std::env::current_dir()));
    line("cores", cores());
    line("memory", memory());
    line("limits", limits());
    line("container", crate::container::describe());
    text
}

/// Returns the facts of the cluster, one a line: the system that its processes run on, and the options that were set,
/// secrets masked.
fn of_cluster(options: &Options) -> String {
    let mut text = String::new();
    for (name, value) in crate::target::describe(options) {
        line(&mut text, name, &value);
    }
    let set = options.to_masked_map();
    if set.is_empty() {
        line(&mut text, "options", "all at their defaults");
    }
    for (key, value) in set {
        let place = options.source_of(&key).unwrap_or("default");
        line(&mut text, "option", &format!("{key} = {value}  ({place})"));
    }
    text
}

/// Returns the text of the environment of a process, one fact a line.
pub(crate) fn describe(role: &str, options: &Options) -> String {
    of_process(role) + &of_cluster(options)
}

/// Prepares the process of a serving role: raises the soft limit of open files to the hard one, then logs the
/// environment at info.
pub(crate) fn prepare(role: &str, options: &Options) {
    raise_open_files();
    tracing::info!("starting\n{}", describe(role, options).trim_end());
}

/// Returns the value of [`FACTS_VARIABLE`] for the program hosts of this process.
pub(crate) fn facts(options: &Options) -> String {
    let mut facts = of_cluster(options).replace('\0', "");
    facts.truncate(facts.floor_char_boundary(FACTS_BYTES_MAX));
    facts
}

/// Prepares a program host as [`prepare`] does. The facts of its cluster are those that its parent has told.
pub(crate) fn prepare_host() {
    raise_open_files();
    let facts = std::env::var(FACTS_VARIABLE).unwrap_or_default();
    let text = of_process("program host") + &facts;
    tracing::info!("starting\n{}", text.trim_end());
}

/// Raises the soft limit of open files to the hard one: a JobManager needs a descriptor per TaskManager, client and
/// program host, and the usual soft limit is 1024. If that fails, logs a warning and leaves the limit as it is.
pub(crate) fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| match soft < hard {
        true => setrlimit(Resource::RLIMIT_NOFILE, hard, hard),
        false => Ok(()),
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// Logs the environment of a client at debug.
pub(crate) fn log_client(options: &Options) {
    tracing::debug!("starting\n{}", describe("client", options).trim_end());
}

fn show(path: std::io::Result<std::path::PathBuf>) -> String {
    path.map_or_else(|e| e.to_string(), |p| p.display().to_string())
}

fn system() -> String {
    match nix::sys::utsname::uname() {
        Ok(name) => format!(
            "{} {} {}",
            name.sysname().to_string_lossy(),
            name.release().to_string_lossy(),
            name.machine().to_string_lossy()
        ),
        Err(e) => e.to_string(),
    }
}

fn user() -> String {
    let uid = getuid();
    let name = User::from_uid(uid).ok().flatten().map_or_else(|| "?".to_owned(), |user| user.name);
    let effective = Uid::effective();
    if effective == uid {
        format!("{name} ({uid})")
    } else {
        format!("{name} ({uid}, effective {effective})")
    }
}

/// Returns the binary and its subcommand; arguments may hold the user's secrets and are only
/// counted.
fn command() -> String {
    let binary = show(std::env::current_exe());
    let more = std::env::args().len().saturating_sub(2);
    let verb = std::env::args().nth(1).unwrap_or_default();
    format!("{binary} {verb} ({more} more arguments)")
}

fn cores() -> String {
    std::thread::available_parallelism().map_or_else(|e| e.to_string(), |n| n.to_string())
}

fn memory() -> String {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("MemTotal:"))?.to_owned();
            Some(line.trim_start_matches("MemTotal:").trim().to_owned())
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

fn limits() -> String {
    let show = |name: &str, resource: Resource| match getrlimit(resource) {
        Ok((soft, hard)) => format!("{name} {}/{}", bound(soft), bound(hard)),
        Err(e) => format!("{name} {e}"),
    };
    [
        show("open files", Resource::RLIMIT_NOFILE),
        show("processes", Resource::RLIMIT_NPROC),
        show("address space", Resource::RLIMIT_AS),
        show("core", Resource::RLIMIT_CORE),
    ]
    .join(", ")
}

fn bound(limit: u64) -> String {
    if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_places_are_named() {
        let options =
            Options::from_map([("program.db-password", "hunter2"), ("parallelism.default", "4")])
                .unwrap();
        let text = describe("jobmanager", &options);
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("parallelism.default = 4"), "{text}");
        assert_eq!(
            describe("x", &options),
            of_process("x") + &facts(&options),
            "a host says the same"
        );
        let long = Options::from_map([("program.text", "é".repeat(40_000))]).unwrap();
        assert!((FACTS_BYTES_MAX - 1..=FACTS_BYTES_MAX).contains(&facts(&long).len()));
        for fact in ["version", "system", "user", "limits", "container"] {
            assert!(text.contains(fact), "{fact} in {text}");
        }
    }
}
