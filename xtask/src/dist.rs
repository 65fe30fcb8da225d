//! Builds the programs that are handed out: release programs with their symbol names in them, and DWARF in a file
//! beside each.
//!
//! `PROGRAM.debug` is found by debuggers through the link that the program carries, as long as both are in
//! one folder. Needs `objcopy` of binutils, which comes with every C compiler.

use crate::{
    run::{Result, cargo, run},
    workspace,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The `flott` command and the example programs, or only those that are named, in `target/dist/programs`.
pub(crate) fn dist(only: &[String]) -> Result<()> {
    let metadata = workspace::metadata(false)?;
    let members = workspace::members(&metadata);
    let shipped = members.iter().filter(|m| m.name == "deploy" || m.name == "examples");
    let all: Vec<&String> = shipped.flat_map(|member| &member.bins).collect();
    if let Some(unknown) = only.iter().find(|program| !all.contains(program)) {
        let known: Vec<&str> = all.iter().map(|program| program.as_str()).collect();
        return Err(format!("no program '{unknown}'; there are {}", known.join(", ")).into());
    }
    let wanted: Vec<&String> =
        all.into_iter().filter(|program| only.is_empty() || only.contains(program)).collect();
    // One after the other: together, programs would have the features that only `flott` is built with.
    for member in members.iter().filter(|m| m.name == "deploy" || m.name == "examples") {
        let bins: Vec<_> = member.bins.iter().filter(|bin| wanted.contains(bin)).collect();
        if !bins.is_empty() {
            let mut build = cargo(&["build", "--profile", "dist", "-p", &member.name]);
            run(build.args(bins.into_iter().flat_map(|bin| ["--bin", bin])))?;
        }
    }
    let built = workspace::target_directory(&metadata).join("dist");
    let folder = built.join("programs");
    fs::create_dir_all(&folder)?;
    for program in wanted {
        split(&built.join(program), &folder.join(program))?;
        eprintln!("{}", folder.join(program).display());
    }
    Ok(())
}

/// The command `flott` and, in a folder of its own, a program of the crate `examples` with the feature `yarn`.
pub(crate) fn on_yarn(program: &str) -> Result<(PathBuf, PathBuf)> {
    dist(&["flott".to_owned()])?;
    let with = ["-p", "examples", "--features", "flott/yarn", "--bin", program];
    run(cargo(&["build", "--profile", "dist"]).args(with))?;
    let built = workspace::target_directory(&workspace::metadata(false)?).join("dist");
    let folder = built.join("programs-yarn");
    fs::create_dir_all(&folder)?;
    split(&built.join(program), &folder.join(program))?;
    Ok((built.join("programs/flott"), folder.join(program)))
}

/// Copies a program without its DWARF, and that into a file beside it.
fn split(from: &Path, to: &Path) -> Result<()> {
    let debug = to.with_extension("debug");
    let objcopy =
        |options: &[&str], files: &[&Path]| run(Command::new("objcopy").args(options).args(files));
    objcopy(&["--only-keep-debug", "--compress-debug-sections"], &[from, &debug])?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    // Labels of unwinding tables are no names of anything, and a fortieth of the program.
    let labels = ["--wildcard", "--strip-symbol=GCC_except_table*"];
    objcopy(&[&["--strip-debug", &link], &labels[..]].concat(), &[from, to])
}
