//! `cargo deny`: bans, licences and sources of dependencies; advisories need a network and are left
//! out.

use crate::{
    run::{Result, cargo, run},
    workspace,
};
use std::{path::PathBuf, process::Command};

const VERSION: &str = "0.20.2";

/// Checks `deny.toml` against `Cargo.lock`, installing the tool under `target/tools` where it is absent.
pub(crate) fn deny() -> Result<()> {
    let root = workspace::target_directory(&workspace::metadata(false)?).join("tools");
    let own = root.join("bin/cargo-deny");
    let tool = if own.is_file() {
        own
    } else if let Some(found) = on_path() {
        found
    } else {
        let root = root.to_string_lossy();
        // Unoptimised: it checks in a second and is built in a third of the time.
        let install =
            ["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--root", &root];
        run(&mut cargo(&install))?;
        own
    };
    let mut check = Command::new(tool);
    check.args([
        "--offline",
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]);
    run(check.current_dir(workspace::root()))
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("cargo-deny")).find(|file| file.is_file())
}
