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
            println!("cargo::rerun-if-changed=../.git/logs/HEAD");
            std::process::Command::new("git")
                .args(["rev-parse", "--short=12", "HEAD"])
                .output()
                .ok()
                .filter(|out| out.status.success())
                .and_then(|out| String::from_utf8(out.stdout).ok())
                .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
        }
    };
    println!("cargo::rustc-env=FLOTT_COMMIT={commit}");
}
