//! Hadoop's jars, by Maven: where they come from is the affair of its own settings.

use super::place::held;
use crate::run::{Result, run};
use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

const DEPENDENCY_PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1";
/// The daemons, their command line programs, and what the ResourceManager lacks without saying so.
const ARTIFACTS: &[&str] = &[
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-timelineservice",
    "hadoop-yarn-client",
];
/// Hadoop's native library, which its own jars lack, in a jar of others: built from Hadoop 3.3, and taken by 3.4 too.
const NATIVE: &str = "io.trino.hadoop:hadoop-apache:3.4.3-1";

/// A version as people write it: it becomes part of paths and of XML.
pub(super) fn version(text: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    match text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is no version of Hadoop, such as 3.4.2").into()),
    }
}

/// The directory with all jars of a version, fetched when they are not there whole. Whoever has the lock is `alone`.
pub(super) fn jars(home: &Path, version: &str, alone: &File) -> Result<PathBuf> {
    let jars = home.join(version);
    if jars.is_dir() {
        return Ok(jars);
    }
    let partial = empty(home.join(format!("{version}.partial")))?;
    let pom = home.join(format!("{version}.pom.xml"));
    fs::write(&pom, project(version))?;
    let mut mvn = copying("copy-dependencies", &partial, alone)?;
    run(mvn.arg("--file").arg(&pom).arg("-DincludeScope=runtime"))?;
    // The name without `.partial` is the promise that all of them are there.
    fs::rename(&partial, &jars)?;
    Ok(jars)
}

/// The directory with the native library for this machine, fetched when it is not there. Whoever has the lock is
/// `alone`.
pub(super) fn native(home: &Path, alone: &File) -> Result<PathBuf> {
    let machine = machine().ok_or("there is no native library of Hadoop's for this machine")?;
    let version = NATIVE.rsplit(':').next().unwrap_or_default();
    let library = home.join(format!("native-{version}"));
    if !library.is_dir() {
        let partial = empty(home.join(format!("native-{version}.partial")))?;
        let mut mvn = copying("unpack", &partial, alone)?;
        mvn.arg(format!("-Dartifact={NATIVE}")).arg("-Dmdep.unpack.includes=nativelib/Linux-*/*");
        // It notes there what it has unpacked, and would not do it again.
        run(mvn.current_dir(&partial))?;
        fs::rename(partial.join("nativelib"), &library)?;
        fs::remove_dir_all(partial)?;
    }
    of_machine(&library, machine)
}

/// The part of the native libraries that is for this machine.
fn of_machine(library: &Path, machine: &str) -> Result<PathBuf> {
    let dir = library.join(machine);
    match dir.is_dir() {
        true => Ok(dir),
        false => Err(format!("{}: {NATIVE} has nothing for {machine}", library.display()).into()),
    }
}

/// A directory without what an earlier try left.
pub(super) fn empty(dir: PathBuf) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Returns the directory of the jar that has this machine's libraries; `None` if the jar has none.
fn machine() -> Option<&'static str> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Some("Linux-amd64"),
        ("linux", "aarch64") => Some("Linux-aarch64"),
        _ => None,
    }
}

fn copying(goal: &str, to: &Path, alone: &File) -> Result<Command> {
    let mut mvn = mvn(alone)?;
    mvn.arg(format!("{DEPENDENCY_PLUGIN}:{goal}"));
    mvn.arg(format!("-DoutputDirectory={}", to.display()));
    Ok(mvn)
}

/// Maven without a goal, silent unless something fails. Whoever has the lock is `alone`.
pub(super) fn mvn(alone: &File) -> Result<Command> {
    let mut mvn = Command::new("mvn");
    // Where this process is killed it goes on, and must not write where the next one does.
    mvn.stdin(held(alone)?);
    // What `up` prints is evaluated by a shell, and Maven resets colours even where it shows none.
    mvn.stdout(std::io::stderr());
    mvn.args(["--quiet", "--batch-mode", "-Dstyle.color=never"]);
    Ok(mvn)
}

fn project(version: &str) -> String {
    let dependency = |artifact: &&str| {
        format!(
            "    <dependency><groupId>org.apache.hadoop</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    let dependencies: String = ARTIFACTS.iter().map(dependency).collect();
    format!(
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>xtask</groupId>\n  \
         <artifactId>hadoop-daemons</artifactId>\n  <version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_library_is_there_or_an_error() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(of_machine(here, "src").unwrap(), here.join("src"));
        let absent = of_machine(here, "Linux-z80").unwrap_err().to_string();
        assert!(absent.contains("nothing for Linux-z80"), "{absent}");
    }

    #[test]
    fn versions_cannot_leave_their_directory() {
        assert_eq!(version("3.5.0-SNAPSHOT").unwrap(), "3.5.0-SNAPSHOT");
        for wrong in ["", "..", "3/../..", "3.4<", "latest"] {
            assert!(version(wrong).is_err(), "{wrong}");
        }
    }
}
