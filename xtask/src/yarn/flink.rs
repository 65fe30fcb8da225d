//! Flink's distribution, beside which the benchmark on YARN measures. Maven's repositories lack its main jar and its
//! examples: `pip` has the distribution whole, and where it comes from is the affair of pip's own settings.

use super::{
    home,
    jars::{self, empty},
    place::{self, held},
};
use crate::run::{Result, run};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

/// The version that figures are compared with.
const FLINK: &str = "2.1.0";
/// The package with the distribution in it.
const PACKAGE: &str = "apache-flink-libraries";
/// The same in names of files.
const FILE: &str = "apache_flink_libraries";
/// The project of the job that the benchmark of throughput measures.
const PEER_POM: &str = "benches/peers/flink/pom.xml";
/// The folder that it is built in.
const PEER: &str = "flink-peer";
/// The unbounded program, in the source form.
const SOURCE: &str = "benches/src/yarn/Ticker.java";
/// The program's name.
const PROGRAM: &str = "Ticker";

/// The folder of the distribution with the program of the benchmark on YARN in it, fetched and built when it is not there.
pub(crate) fn distribution() -> Result<PathBuf> {
    let home = home()?;
    let alone = lock(&home)?;
    let flink = fetched(&home, &alone)?;
    program(&flink)?;
    Ok(flink)
}

/// The folder of the distribution, fetched when it is not there, and the jar of the job that the benchmark of throughput
/// measures, built by Maven in a folder of its own below the target directory.
pub(crate) fn with_peer() -> Result<(PathBuf, PathBuf)> {
    let home = home()?;
    let alone = lock(&home)?;
    let flink = fetched(&home, &alone)?;
    let build = home.join(PEER);
    let mut mvn = jars::mvn(&alone)?;
    mvn.arg("--file").arg(crate::workspace::root().join(PEER_POM));
    // It compiles what has changed since the last time.
    run(mvn.arg(format!("-Dpeer.build={}", build.display())).arg("package"))?;
    Ok((flink, build.join("throughput.jar")))
}

fn lock(home: &Path) -> Result<File> {
    fs::create_dir_all(home)?;
    place::alone(&home.join("flink.lock"))
}

/// The folder of the distribution, without any program of ours. Whoever has the lock is `alone`.
fn fetched(home: &Path, alone: &File) -> Result<PathBuf> {
    let flink = home.join(format!("flink-{FLINK}"));
    if !flink.is_dir() {
        let packed = empty(home.join("flink.packed"))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"]).arg(&packed);
        // Where this process is killed it goes on, and must not write where the next one does.
        pip.arg(format!("{PACKAGE}=={FLINK}")).stdin(held(alone)?).stdout(std::io::stderr());
        run(&mut pip)?;
        let partial = empty(home.join("flink.partial"))?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(packed.join(format!("{FILE}-{FLINK}.tar.gz")));
        tar.args(["--strip-components=2", "-C"]).arg(&partial);
        tar.arg(format!("{FILE}-{FLINK}/deps")).stdin(held(alone)?);
        run(&mut tar)?;
        // The name without `partial` is the promise that it is there whole.
        fs::rename(&partial, &flink)?;
        fs::remove_dir_all(packed)?;
    }
    Ok(flink)
}

/// Builds the program: it is small, and may have changed since.
fn program(flink: &Path) -> Result<()> {
    let classes = empty(flink.join("program"))?;
    let mut compiler = Command::new("javac");
    compiler.arg("-cp").arg(flink.join("lib").join("*")).args(["-proc:none", "-d"]).arg(&classes);
    run(compiler.arg(crate::workspace::root().join(SOURCE)))?;
    let mut jar = Command::new("jar");
    jar.args(["--create", "--main-class", PROGRAM, "--file"]);
    run(jar.arg(flink.join("ticker.jar")).arg("-C").arg(&classes).arg("."))
}
