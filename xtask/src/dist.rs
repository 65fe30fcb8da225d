//! What is handed out: release programs with their names in them and DWARF in a file beside each.
//!
//! `PROGRAM.debug` is found by debuggers through the link that the program carries, as long as both are in
//! one folder. Needs `objcopy` of binutils, which comes with every C compiler.

use crate::{
    run::{Result, cargo, run},
    workspace,
};
use std::{fs, path::Path, process::Command};

/// The `flott` command and the example programs, in `target/dist/programs`.
pub(crate) fn dist() -> Result<()> {
    let build = ["build", "--profile", "dist", "-p", "deploy", "-p", "examples", "--bins"];
    run(&mut cargo(&build))?;
    let metadata = workspace::metadata(false)?;
    let built = workspace::target_directory(&metadata).join("dist");
    let folder = built.join("programs");
    fs::create_dir_all(&folder)?;
    let members = workspace::members(&metadata);
    let shipped = members.iter().filter(|m| m.name == "deploy" || m.name == "examples");
    for program in shipped.flat_map(|member| &member.bins) {
        split(&built.join(program), &folder.join(program))?;
        eprintln!("{}", folder.join(program).display());
    }
    Ok(())
}

/// Copies a program without its DWARF, and that into a file beside it.
fn split(from: &Path, to: &Path) -> Result<()> {
    let debug = to.with_extension("debug");
    let objcopy =
        |options: &[&str], files: &[&Path]| run(Command::new("objcopy").args(options).args(files));
    objcopy(&["--only-keep-debug", "--compress-debug-sections"], &[from, &debug])?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--strip-debug", &link], &[from, to])
}
