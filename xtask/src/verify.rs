//! `verify`: every check, none of which changes a file.

use crate::{
    chores, deny, deps,
    run::{Result, Watch, cargo, run},
    tidy,
};

type Check = (&'static str, fn() -> Result<()>);

/// Cheap ones first: they say most of what there is to say.
const CHECKS: [Check; 7] = [
    ("fmt", fmt),
    ("tidy", tidy::tidy),
    ("deps", deps::deps),
    ("options", chores::check_reference),
    ("clippy", clippy),
    ("docs", docs),
    ("deny", deny::deny),
];

/// Runs the checks named in `only`, or all; says of each whether it passed.
pub(crate) fn verify(only: &[String]) -> Result<()> {
    if let Some(unknown) = only.iter().find(|name| CHECKS.iter().all(|(n, _)| n != name)) {
        let names: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no check '{unknown}'; there are {}", names.join(", ")).into());
    }
    let chosen =
        CHECKS.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|n| n == name));
    let mut failed = Vec::new();
    for (name, check) in chosen {
        eprintln!("== verify {name}");
        let watch = Watch::start();
        let result = check();
        let seconds = watch.elapsed().as_secs_f64();
        match result {
            Ok(()) => eprintln!("== verify {name}: ok ({seconds:.1} s)"),
            Err(error) => {
                eprintln!("{error}\n== verify {name}: FAILED ({seconds:.1} s)");
                failed.push(*name);
            }
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(format!("failed: {}", failed.join(", ")).into()),
    }
}

fn fmt() -> Result<()> {
    chores::format(&["--check"])
}

fn clippy() -> Result<()> {
    let mut clippy = cargo(&["clippy", "--quiet", "--workspace", "--all-targets"]);
    run(clippy.args(["--features", chores::MUTANTS, "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
