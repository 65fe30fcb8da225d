//! Chores: what builds, runs or rewrites something.

use crate::{
    run::{Result, cargo, output, run},
    workspace::{self, Member},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The variable that tells tests and benchmarks where the release programs are.
const BIN_DIR: &str = "FLOTT_BIN_DIR";
/// Where the page of all options is.
const REFERENCE: &str = "conf/REFERENCE.md";
/// How many simulated clusters every test run tries.
const TEST_SEEDS: &str = "50";

/// Everything that a machine can mend.
pub(crate) fn fix() -> Result<()> {
    run(&mut cargo(&["fmt", "--all"]))?;
    fs::write(workspace::root().join(REFERENCE), reference()?)?;
    run(&mut cargo(&[
        "clippy",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
        "--workspace",
        "--all-targets",
    ]))?;
    run(&mut cargo(&["fmt", "--all"]))
}

/// Fails where the page of options is not what the declarations say.
pub(crate) fn check_reference() -> Result<()> {
    match fs::read_to_string(workspace::root().join(REFERENCE))? == reference()? {
        true => Ok(()),
        false => Err(format!("{REFERENCE} is not current; run `cargo xtask fix`").into()),
    }
}

/// Without `-p`: the features of dependencies are then those of every other build of the workspace,
/// and nothing is built twice.
fn reference() -> Result<String> {
    output(&mut cargo(&["run", "--quiet", "--example", "reference"]))
}

/// Every test: of units, documentation, whole processes, and a few simulated clusters.
pub(crate) fn test() -> Result<()> {
    let (bins, members) = release_programs(None)?;
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    run(tests.env(BIN_DIR, &bins))?;
    if has_bin(&members, "simulate") {
        run(Command::new(bins.join("simulate")).args(["--seeds", TEST_SEEDS]))?;
    }
    Ok(())
}

/// One benchmark; its standard output is this one's.
pub(crate) fn bench(name: &str, args: &[String]) -> Result<()> {
    let (bins, members) = release_programs(None)?;
    let known = members.iter().filter(|m| m.name == "benches").flat_map(|m| m.bins.clone());
    let known: Vec<String> = known.collect();
    if !known.iter().any(|bin| bin == name) {
        return Err(format!("no benchmark '{name}'; there are {}", known.join(", ")).into());
    }
    run(Command::new(bins.join(name)).args(args).env(BIN_DIR, &bins))
}

/// Builds one release program of the workspace and runs it.
pub(crate) fn run_binary(name: &str, args: &[String]) -> Result<()> {
    let (bins, _) = release_programs(Some(name))?;
    run(Command::new(bins.join(name)).args(args).env(BIN_DIR, &bins))
}

/// Builds the release programs (all, or one) and says where they are.
fn release_programs(only: Option<&str>) -> Result<(PathBuf, Vec<Member>)> {
    let metadata = workspace::metadata(false)?;
    let members = workspace::members(&metadata);
    let mut build = cargo(&["build", "--release", "--workspace"]);
    match only {
        Some(name) if has_bin(&members, name) => build.args(["--bin", name]),
        Some(name) => return Err(format!("there is no program '{name}' in the workspace").into()),
        None => build.arg("--bins"),
    };
    run(&mut build)?;
    let bins: &Path = &workspace::target_directory(&metadata);
    Ok((bins.join("release"), members))
}

fn has_bin(members: &[Member], name: &str) -> bool {
    members.iter().any(|member| member.bins.iter().any(|bin| bin == name))
}
