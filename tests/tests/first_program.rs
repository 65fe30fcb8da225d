//! README's "A first program", made outside of the repository with README's own commands.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails loudly")]

use std::path::Path;
use std::process::Command;

/// Returns the content of the first block of this language.
fn block<'a>(text: &'a str, language: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_first_program_of_the_readme_is_built_outside_of_the_repository_and_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme.split("\n## ").find(|s| s.starts_with("A first program\n")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &mut Command| {
        // The crates are here; none is looked for elsewhere.
        command.current_dir(&folder).env("CARGO_NET_OFFLINE", "true");
        command.env("CARGO_TARGET_DIR", root.join("target/first-program"));
        let output = command.env("CARGO_PROFILE_DEV_DEBUG", "0").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = block(section, "sh").replace("/path/to/flott", root.to_str().unwrap());
    run(Command::new("sh").args(["-ec", &commands]));
    std::fs::write(folder.path().join("src/main.rs"), block(section, "rust")).unwrap();
    // The versions that the repository is built with.
    std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = run(Command::new(cargo).args(["run", "--quiet"]));
    let mut squares: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    squares.sort_unstable();
    assert_eq!(squares, (1..=10).map(|n| n * n).collect::<Vec<u64>>(), "{said}");
}
