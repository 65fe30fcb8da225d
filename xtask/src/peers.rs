//! The other systems that the benchmark of throughput measures beside ours: which of them its arguments name, and the
//! program for Renoir. Flink's distribution and job are in `yarn/flink.rs`.

use crate::run::{Result, cargo, run};
use std::path::{Path, PathBuf};

/// The manifest of the program for Renoir, a package by itself and no member of the workspace.
pub(crate) const RENOIR: &str = "benches/peers/renoir/Cargo.toml";
/// The program's name.
const PROGRAM: &str = "renoir-peer";

/// Returns true if `--against` names the peer in the benchmark's arguments: alone, in a list with commas, or in one of
/// several `--against`. The benchmark itself refuses names that it does not know.
pub(crate) fn wanted(args: &[String], peer: &str) -> bool {
    let value = |(at, arg): (usize, &'_ String)| match arg.strip_prefix("--against")? {
        "" => args.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    let mut values = args.iter().enumerate().filter_map(value);
    values.any(|names| names.split(',').any(|name| name == peer))
}

/// Builds the program for Renoir below the target directory, in release mode, with the versions of its own `Cargo.lock`.
/// Cargo fetches crates that are not there, and compiles what has changed since the last time. Returns the program's path.
pub(crate) fn renoir(target: &Path) -> Result<PathBuf> {
    let folder = target.join("peers").join("renoir");
    let mut build = cargo(&["build", "--release", "--locked", "--manifest-path", RENOIR]);
    run(build.arg("--target-dir").arg(&folder)).map_err(|error| unbuilt(&error.to_string()))?;
    Ok(folder.join("release").join(PROGRAM))
}

fn unbuilt(error: &str) -> String {
    format!(
        "{error}: the program for Renoir is not built; if cargo could not download the crate that it names above, run \
         `cargo fetch --locked --manifest-path {RENOIR}` with a network and try again, or leave `--against renoir` out"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_wanted_in_each_form_that_the_benchmark_takes() {
        let wanted = |args: &[&str], peer: &str| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            super::wanted(&args, peer)
        };
        for both in [
            &["--against", "flink,renoir"][..],
            &["--against=renoir,flink", "--pairs", "1"],
            &["--against", "renoir", "--workload", "chain", "--against=flink"],
        ] {
            assert!(wanted(both, "flink") && wanted(both, "renoir"), "{both:?}");
        }
        assert!(wanted(&["--against", "renoir"], "renoir"));
        for neither in [
            &[][..],
            &["--against"],
            &["--against", "spark"],
            &["--workload", "renoir"],
            &["--against-all=renoir"],
        ] {
            assert!(!wanted(neither, "renoir"), "{neither:?}");
        }
        assert!(!wanted(&["--against", "renoir"], "flink"));
    }

    #[test]
    fn a_failed_build_says_what_to_do_without_a_network() {
        let error = unbuilt("`cargo build` ended with exit status: 101");
        assert!(
            error.contains("cargo fetch --locked --manifest-path benches/peers/renoir/Cargo.toml")
        );
    }

    #[test]
    fn the_program_is_no_member_and_has_the_workspace_s_allocator() {
        let root = crate::workspace::root();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let manifest = read(RENOIR);
        assert!(
            manifest.contains("\n[workspace]\n"),
            "an empty table makes it a workspace by itself"
        );
        assert!(manifest.contains(&format!("name = \"{PROGRAM}\"")));
        let ours = read("Cargo.lock");
        assert!(!ours.contains("name = \"renoir\""), "its licence is not allowed in the workspace");
        let version = |lock: &str, name: &str| {
            let (_, rest) = lock.split_once(&format!("name = \"{name}\"\n")).unwrap();
            rest.lines().next().unwrap().to_owned()
        };
        let peer = read("benches/peers/renoir/Cargo.lock");
        for name in ["mimalloc", "libmimalloc-sys"] {
            assert_eq!(
                version(&peer, name),
                version(&ours, name),
                "{name}: cargo update --precise"
            );
        }
    }
}
