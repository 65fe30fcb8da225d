//! Looks for the tools that `test` needs besides cargo and a C compiler, before anything is built. A missing tool is installed, and
//! the output says so, or is named with its package. This module must never install a tool silently, or go on without one.

use crate::run::{Result, output, run};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
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

/// The rights of this user, and what this machine offers.
#[derive(Debug, Clone, Copy)]
struct Rights {
    is_root: bool,
    /// True if the user is another one, and `sudo` asks that one for no password.
    sudo: bool,
    /// True if [`FUSE`] can be opened.
    fuse: bool,
    apt_get: bool,
}

impl Rights {
    /// Looks at this machine and user. Tries `sudo`, which may be logged, only if something has to be installed.
    fn look(something_is_missing: bool) -> Result<Self> {
        let is_root = output(Command::new("id").arg("-u"))?.trim() == "0";
        Ok(Self {
            is_root,
            sudo: !is_root && something_is_missing && sudo_asks_nothing(),
            fuse: fs::File::options().read(true).write(true).open(FUSE).is_ok(),
            apt_get: find("apt-get").is_some(),
        })
    }

    /// Returns how packages are installed; `None`: not from here.
    fn installer(self) -> Option<&'static [&'static str]> {
        match self {
            Self { apt_get: false, .. } => None,
            Self { is_root: true, .. } => Some(&["env", NO_QUESTIONS, "apt-get"]),
            Self { sudo: true, .. } => Some(&["sudo", "-n", "env", NO_QUESTIONS, "apt-get"]),
            _ => None,
        }
    }
}

/// Keeps packages from asking.
const NO_QUESTIONS: &str = "DEBIAN_FRONTEND=noninteractive";

fn sudo_asks_nothing() -> bool {
    let mut nothing = Command::new("sudo");
    nothing.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    find("sudo").is_some() && nothing.status().is_ok_and(|status| status.success())
}

/// Finds all that the tests need, or installs it, as root or with sudo, and says so.
///
/// # Errors
/// This user cannot mount file systems, as only root can, or a program is missing and could not be installed: each is
/// named with its package.
pub(crate) fn ensure() -> Result<()> {
    let missing = missing(|program| find(program).is_some());
    let rights = Rights::look(!missing.is_empty())?;
    let commands = plan(&missing, rights)?;
    if !commands.is_empty() {
        eprintln!("   missing: {}", list(&missing));
        let how = if rights.is_root { "as root" } else { "with sudo, which asks for no password" };
        eprintln!("   installing them with apt-get, {how}");
    }
    for words in commands {
        let (first, rest) = words.split_first().ok_or("no command")?;
        run(Command::new(first).args(rest))?;
    }
    let missing = self::missing(|program| find(program).is_some());
    if !missing.is_empty() {
        return Err(by_hand(&missing).into());
    }
    if rights.is_root { Ok(()) } else { Err(as_root().into()) }
}

/// Returns the commands that install the packages of the missing programs; none if none is missing.
///
/// # Errors
/// The tests could not mount file systems, or the packages cannot be installed from here: the text says all that has to
/// be done.
fn plan(missing: &[Tool], rights: Rights) -> Result<Commands> {
    let installer = rights.installer().filter(|_| rights.fuse);
    if let Some(installer) = installer
        && !missing.is_empty()
    {
        return Ok(install(missing, installer));
    }
    let mut wrong = Vec::new();
    if !rights.is_root || !rights.fuse {
        wrong.push(as_root());
    }
    if !missing.is_empty() {
        wrong.push(by_hand(missing));
    }
    if wrong.is_empty() { Ok(Vec::new()) } else { Err(wrong.join("\n").into()) }
}

fn as_root() -> String {
    format!(
        "the tests of disks that hang or are full mount file systems: run `cargo xtask test` as root, on a machine with {FUSE}"
    )
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

/// Returns the commands by which `installer` installs the packages of these programs.
fn install(missing: &[Tool], installer: &[&'static str]) -> Commands {
    let apt = |words: &[&'static str]| [installer, &["-q", "-y"], words].concat();
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
        "`cargo xtask test` needs {}; it installs them itself with apt-get only, for root or where sudo asks for no password, on a \
         machine with {FUSE}: install them, on Debian with `apt-get install {}`",
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

    const ROOT: Rights = Rights { is_root: true, sudo: false, fuse: true, apt_get: true };
    const OTHER: Rights = Rights { is_root: false, ..ROOT };
    const WITH_SUDO: Rights = Rights { sudo: true, ..OTHER };

    fn refused(missing: &[Tool], rights: Rights) -> String {
        plan(missing, rights).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_installed_by_root_or_with_sudo() {
        assert!(plan(&without(&[]), Rights { apt_get: false, ..ROOT }).unwrap().is_empty());
        let missing = without(&["mvn", "krb5kdc", "kdb5_util"]);
        let apt_get = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"];
        let sudo = [&["sudo", "-n"], &apt_get[..]].concat();
        for (rights, first) in [(ROOT, &apt_get[..]), (WITH_SUDO, &sudo[..])] {
            let commands = plan(&missing, rights).unwrap();
            let [update, install] = &commands[..] else { panic!("{commands:?}") };
            assert_eq!(update[..], [first, &["update"][..]].concat());
            let packages = ["install", "--no-install-recommends", "krb5-kdc", "maven"];
            assert_eq!(install[..], [first, &packages[..]].concat());
        }
    }

    #[test]
    fn nothing_is_installed_without_the_right_to_or_without_fuse() {
        let missing = without(&["mvn"]);
        let without_fuse = |rights| Rights { fuse: false, ..rights };
        let all = [OTHER, without_fuse(OTHER), without_fuse(ROOT), without_fuse(WITH_SUDO)];
        for rights in all {
            let said = refused(&missing, rights);
            assert!(said.contains("as root, on a machine with /dev/fuse"), "{said}");
            assert!(said.contains("apt-get install maven"), "{said}");
            let said = refused(&[], rights);
            assert!(!said.contains("apt-get"), "nothing is missing: {said}");
        }
        // The packages are there then; the tests still mount file systems.
        assert!(refused(&[], WITH_SUDO).contains("as root"));
    }

    #[test]
    fn what_cannot_be_installed_is_named_with_its_package() {
        let said =
            refused(&without(&["kinit", "java", "javac"]), Rights { apt_get: false, ..ROOT });
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
