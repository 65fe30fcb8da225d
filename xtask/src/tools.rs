//! What `test` needs of the machine beside cargo and a C compiler, looked for before anything is built. What is missing is
//! installed, which is said, or named with its package. Nothing here may install anything silently, or go on without it.

use crate::run::{Result, output, run};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Where packages put what only administrators run.
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

/// How a machine's packages are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Installer {
    /// By this user, who is root.
    Root,
    /// By `sudo`, which asks for no password.
    Sudo,
    /// Not from here.
    None,
}

/// Finds all that the tests need, or installs it.
///
/// # Errors
/// A program is missing and could not be installed: each is named with its package. The tests could not mount file
/// systems.
pub(crate) fn ensure() -> Result<()> {
    let missing = missing(|program| find(program).is_some());
    let is_root = output(Command::new("id").arg("-u"))?.trim() == "0";
    if !missing.is_empty() {
        let installer = installer(is_root);
        eprintln!("   missing: {}", list(&missing));
        let command = install(&missing, installer).ok_or_else(|| by_hand(&missing))?;
        eprintln!(
            "   installing them with apt-get{}",
            match installer {
                Installer::Sudo => ", by sudo",
                _ => "",
            }
        );
        for words in command {
            let (first, rest) = words.split_first().ok_or("no command")?;
            run(Command::new(first).args(rest).env("DEBIAN_FRONTEND", "noninteractive"))?;
        }
        let missing = self::missing(|program| find(program).is_some());
        if !missing.is_empty() {
            return Err(by_hand(&missing).into());
        }
    }
    match is_root && fs::File::options().read(true).write(true).open(FUSE).is_ok() {
        true => Ok(()),
        false => Err(format!(
            "the tests of disks that hang or are full mount file systems: run `cargo xtask test` as root, on a machine with {FUSE}"
        )
        .into()),
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

fn installer(is_root: bool) -> Installer {
    if find("apt-get").is_none() {
        return Installer::None;
    }
    if is_root {
        return Installer::Root;
    }
    let mut sudo = Command::new("sudo");
    let sudo = sudo.args(["-n", "true"]).stderr(Stdio::null()).status();
    if sudo.is_ok_and(|status| status.success()) { Installer::Sudo } else { Installer::None }
}

/// Returns the commands that install the packages of these programs; `None` if that cannot be done from here.
fn install(missing: &[Tool], installer: Installer) -> Option<Vec<Vec<&'static str>>> {
    let before: &[&str] = match installer {
        Installer::Root => &[],
        Installer::Sudo => &["sudo", "-n", "--preserve-env=DEBIAN_FRONTEND"],
        Installer::None => return None,
    };
    let apt = |words: &[&'static str]| [before, &["apt-get", "-q", "-y"], words].concat();
    let packages = packages(missing);
    Some(vec![
        apt(&["update"]),
        apt(&[&["install", "--no-install-recommends"], &packages[..]].concat()),
    ])
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
        "`cargo xtask test` needs {}; they cannot be installed from here, which takes apt-get as root or by a sudo that asks \
         for no password: install them, on Debian with `apt-get install {}`",
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

    #[test]
    fn what_is_missing_is_installed_by_root_or_sudo() {
        assert_eq!(without(&[]), []);
        let missing = without(&["mvn", "krb5kdc", "kdb5_util"]);
        let [update, install] = &install(&missing, Installer::Root).unwrap()[..] else { panic!() };
        assert_eq!(update[..], ["apt-get", "-q", "-y", "update"]);
        assert_eq!(install[3..], ["install", "--no-install-recommends", "krb5-kdc", "maven"]);
        let by_sudo = self::install(&missing, Installer::Sudo).unwrap();
        assert!(by_sudo.iter().all(|words| words[..2] == ["sudo", "-n"]), "{by_sudo:?}");
    }

    #[test]
    fn what_cannot_be_installed_is_named_with_its_package() {
        let missing = without(&["kinit", "java", "javac"]);
        assert_eq!(install(&missing, Installer::None), None);
        let said = by_hand(&missing);
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
