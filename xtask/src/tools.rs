//! Looks for the tools that `test` needs besides cargo and a C compiler, before anything is built. A missing tool is installed, and
//! the output says so, or is named with its package. This module must never install a tool silently, or go on without one.

use crate::run::{Result, output, run};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The directories in which packages install programs for administrators.
const PLACES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// The device by which a process mounts file systems of its own.
const FUSE: &str = "/dev/fuse";

/// A program, Debian's package of it, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const fn tool(program: &'static str, package: &'static str, purpose: &'static str) -> Tool {
    Tool { program, package, purpose }
}

const TOOLS: [Tool; 10] = [
    tool("curl", "curl", "REST from a shell"),
    tool("flock", "util-linux", "the scripts of deploy/bin"),
    tool("unshare", "util-linux", "full disks"),
    tool("java", "default-jdk-headless", "Hadoop's daemons, Flink's client"),
    tool("javac", "default-jdk-headless", "Flink's client"),
    tool("mvn", "maven", "the jars of Hadoop and Flink"),
    tool("krb5kdc", "krb5-kdc", "Kerberos"),
    tool("kdb5_util", "krb5-kdc", "Kerberos"),
    tool("kadmin.local", "krb5-admin-server", "Kerberos"),
    tool("kinit", "krb5-user", "Kerberos"),
];

/// Commands, each with its arguments.
type Commands = Vec<Vec<&'static str>>;

/// Finds all that the tests need, or installs it. Installs nothing for a user who could not run the tests all the same.
///
/// # Errors
/// The tests could not mount file systems, as only root can, or a program is missing and could not be installed: each is
/// named with its package.
pub(crate) fn ensure() -> Result<()> {
    let missing = missing(|program| find(program).is_some());
    let is_root = output(Command::new("id").arg("-u"))?.trim() == "0";
    let fuse = fs::File::options().read(true).write(true).open(FUSE).is_ok();
    let Some(commands) = plan(&missing, is_root, fuse, find("apt-get").is_some())? else {
        return Ok(());
    };
    eprintln!("   missing: {}", list(&missing));
    eprintln!("   installing them with apt-get");
    for words in commands {
        let (first, rest) = words.split_first().ok_or("no command")?;
        run(Command::new(first).args(rest).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    let missing = self::missing(|program| find(program).is_some());
    if missing.is_empty() { Ok(()) } else { Err(by_hand(&missing).into()) }
}

/// Returns the commands that install the packages of the missing programs; `None` if none is missing.
///
/// # Errors
/// The tests could not mount file systems, or `apt-get` is not there: the text says all that has to be done.
fn plan(missing: &[Tool], is_root: bool, fuse: bool, apt_get: bool) -> Result<Option<Commands>> {
    let mut wrong = Vec::new();
    if !is_root || !fuse {
        wrong.push(format!(
            "the tests of disks that hang or are full mount file systems: run `cargo xtask test` as root, on a machine with {FUSE}"
        ));
    }
    let installs = is_root && apt_get;
    if !missing.is_empty() && !installs {
        wrong.push(by_hand(missing));
    }
    match wrong.is_empty() {
        true => Ok((!missing.is_empty()).then(|| install(missing))),
        false => Err(wrong.join("\n").into()),
    }
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<Tool> {
    TOOLS.into_iter().filter(|tool| !is_there(tool.program)).collect()
}

/// Returns the path of a program: in Java's home, on the path, or where only administrators look.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let java = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin"));
    let places = java.into_iter().chain(env::split_paths(&path));
    let mut places = places.chain(PLACES.iter().map(PathBuf::from));
    places.find_map(|dir| Some(dir.join(program)).filter(|program| program.is_file()))
}

/// Returns the commands that install the packages of these programs.
fn install(missing: &[Tool]) -> Commands {
    let apt = |words: &[&'static str]| [&["apt-get", "-q", "-y"], words].concat();
    let packages = packages(missing);
    vec![apt(&["update"]), apt(&[&["install", "--no-install-recommends"], &packages[..]].concat())]
}

fn packages(missing: &[Tool]) -> Vec<&'static str> {
    let packages: BTreeSet<_> = missing.iter().map(|tool| tool.package).collect();
    packages.into_iter().collect()
}

fn list(missing: &[Tool]) -> String {
    let each = missing
        .iter()
        .map(|tool| format!("{} (package {}, for {})", tool.program, tool.package, tool.purpose));
    each.collect::<Vec<_>>().join(", ")
}

fn by_hand(missing: &[Tool]) -> String {
    format!(
        "`cargo xtask test` needs {}; they can be installed from here by root and with apt-get only: install them, on Debian \
         with `apt-get install {}`",
        list(missing),
        packages(missing).join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(absent: &[&str]) -> Vec<Tool> {
        missing(|program| !absent.contains(&program))
    }

    fn refused(missing: &[Tool], is_root: bool, fuse: bool, apt_get: bool) -> String {
        plan(missing, is_root, fuse, apt_get).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_installed_by_root() {
        assert_eq!(plan(&without(&[]), true, true, false).unwrap(), None);
        let missing = without(&["mvn", "krb5kdc", "kdb5_util"]);
        let commands = plan(&missing, true, true, true).unwrap().unwrap();
        let [update, install] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!(update[..], ["apt-get", "-q", "-y", "update"]);
        assert_eq!(install[3..], ["install", "--no-install-recommends", "krb5-kdc", "maven"]);
    }

    /// It may have sudo: the tests would not run all the same.
    #[test]
    fn nothing_is_installed_for_one_who_could_not_run_the_tests() {
        let missing = without(&["mvn"]);
        for (is_root, fuse) in [(false, true), (true, false), (false, false)] {
            let said = refused(&missing, is_root, fuse, true);
            assert!(said.contains("as root, on a machine with /dev/fuse"), "{said}");
            assert_eq!(said.contains("apt-get install maven"), !is_root, "{said}");
            let said = refused(&[], is_root, fuse, true);
            assert!(!said.contains("apt-get"), "nothing is missing: {said}");
        }
    }

    #[test]
    fn what_cannot_be_installed_is_named_with_its_package() {
        let said = refused(&without(&["kinit", "java", "javac"]), true, true, false);
        for words in [
            "kinit (package krb5-user, for Kerberos)",
            "apt-get install default-jdk-headless krb5-user",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn programs_are_found_where_only_administrators_look() {
        assert!(find("sh").is_some() && find("no-such-program").is_none());
    }
}
