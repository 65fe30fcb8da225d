//! Tells the crate which commit it is built from.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FLOTT_COMMIT");
    let given = std::env::var("FLOTT_COMMIT").ok();
    let release = std::env::var("PROFILE").is_ok_and(|p| p == "release");
    let commit = match (given, release) {
        (Some(commit), _) => commit,
        // A development build would otherwise be made anew after every commit.
        (None, false) => "development".to_owned(),
        (None, true) => {
            // Where git keeps it: elsewhere in a worktree or a submodule. Cargo would build the crate anew each time for a file that is absent.
            let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
            if let Some(log) = log.filter(|log| std::path::Path::new(log).exists()) {
                println!("cargo::rerun-if-changed={log}");
            }
            git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
        }
    };
    println!("cargo::rustc-env=FLOTT_COMMIT={commit}");
}

/// Returns what git answers; `None` if it is not installed, or this is not a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let answer = std::process::Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    answer.status.success().then(|| text.trim().to_owned())
}
