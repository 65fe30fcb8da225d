//! The chaos campaign finds what it is there for: a sink that breaks two-phase commit. That it finds nothing else, its runs in
//! `cargo xtask test` say.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::bin;
use std::{path::Path, process::Command};

/// Runs one seed of the campaign; returns whether it succeeded, and what it has printed.
fn campaign(more: &[&str]) -> (bool, String) {
    let kept = tempfile::tempdir().unwrap();
    let output = Command::new(bin("chaos"))
        .args(["--runs", "1", "--seed", "1"])
        .args(more)
        // The folder of a failed run stays there.
        .env("TMPDIR", kept.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let folder = text.lines().find_map(|line| line.trim().strip_prefix("its folder: "));
    assert_eq!(folder.is_some_and(|folder| Path::new(folder).is_dir()), !output.status.success());
    (output.status.success(), text)
}

#[test]
fn a_sink_that_commits_what_is_only_prepared_fails_the_campaign() {
    let (succeeded, text) = campaign(&["--no-disks", "--commits-early"]);
    assert!(!succeeded);
    assert!(text.contains("0 lines are missing"), "{text}");
    assert!(!text.contains(", 0 are surplus"), "{text}");
    let repeat = "cargo xtask chaos --runs 1 --seed 1 --no-disks --commits-early";
    assert!(text.contains(repeat), "{text}");
}

#[test]
fn a_run_without_disturbed_disks_says_so() {
    let (succeeded, text) = campaign(&["--no-disks"]);
    assert!(succeeded, "{text}");
    assert!(text.contains("slow and full disks were left out (--no-disks)"), "{text}");
}
