//! Hadoop's jars, by Maven: where they come from is the affair of its own settings.

use crate::run::{Result, run};
use std::{
    fs,
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

/// A version as people write it: it becomes part of paths and of XML.
pub(super) fn version(text: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    match text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is no version of Hadoop, such as 3.4.2").into()),
    }
}

/// The directory with all jars of a version, fetched when they are not there whole.
pub(super) fn jars(home: &Path, version: &str) -> Result<PathBuf> {
    let jars = home.join(version);
    if jars.is_dir() {
        return Ok(jars);
    }
    let partial = home.join(format!("{version}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    let pom = home.join(format!("{version}.pom.xml"));
    fs::write(&pom, project(version))?;
    let mut mvn = Command::new("mvn");
    mvn.args(["--quiet", "--batch-mode", "--file"]).arg(&pom);
    mvn.arg(format!("{DEPENDENCY_PLUGIN}:copy-dependencies"));
    mvn.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", partial.display()));
    // Colours of a terminal, even where there is none.
    run(mvn.arg("-Dstyle.color=never"))?;
    // The name without `.partial` is the promise that all of them are there.
    fs::rename(&partial, &jars)?;
    Ok(jars)
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
    fn versions_cannot_leave_their_directory() {
        assert_eq!(version("3.5.0-SNAPSHOT").unwrap(), "3.5.0-SNAPSHOT");
        for wrong in ["", "..", "3/../..", "3.4<", "latest"] {
            assert!(version(wrong).is_err(), "{wrong}");
        }
    }
}
