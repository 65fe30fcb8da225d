//! House rules that neither compiler nor clippy checks.

mod actors;
mod docs;
mod items;
mod options;
mod source;
mod words;

use crate::{
    run::Result,
    workspace::{self, Member},
};
use source::Source;
use std::{fs, path::Path, process::Command};

/// A broken rule: where, and what to do.
pub(crate) type Complaints = Vec<String>;

/// Checks every rule and lists what breaks one.
pub(crate) fn tidy() -> Result<()> {
    let root = workspace::root();
    let members = workspace::members(&workspace::metadata(false)?);
    let files = files()?;
    let mut sources: Vec<Source> = files
        .iter()
        .filter(|path| path.ends_with(".rs"))
        .filter_map(|path| Some(Source::new(path, &fs::read_to_string(root.join(path)).ok()?)))
        .collect();

    let for_tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        let under = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if for_tests.iter().any(under) {
            source.mark_as_test();
        }
    }

    let mut complaints = licences(&members);
    complaints.extend(unmapped(&members));
    for source in &sources {
        docs::check(source, &mut complaints);
        items::check(source, &mut complaints);
    }
    complaints.extend(items::stale_places(&files));
    actors::check(&sources, &mut complaints);
    let scripts: String = files
        .iter()
        .filter(|path| path.starts_with("deploy/bin/"))
        .filter_map(|path| fs::read_to_string(root.join(path)).ok())
        .collect();
    options::check(&sources, &scripts, &mut complaints);
    for path in &files {
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            words::check(path, &text, &mut complaints);
        }
    }
    eprintln!("   {} files", files.len());
    match complaints.as_slice() {
        [] => Ok(()),
        complaints => {
            Err(format!("{}\n{} complaints", complaints.join("\n"), complaints.len()).into())
        }
    }
}

/// Returns the files that git knows or would add, as paths from the root.
fn files() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace::root());
    let mut files: Vec<String> = crate::run::output(&mut git)?.lines().map(str::to_owned).collect();
    files.retain(|path| workspace::root().join(path).is_file());
    files.sort();
    Ok(files)
}

fn licences(members: &[Member]) -> Complaints {
    let wrong = members.iter().filter(|member| member.licence.as_deref() != Some("Apache-2.0"));
    wrong
        .map(|member| {
            format!(
                "{}: `license.workspace = true` is missing",
                Path::new(&member.dir).join("Cargo.toml").display()
            )
        })
        .collect()
}

/// The page that says what is where.
const MAP: &str = "ARCHITECTURE.md";

/// Crates that the map does not show.
fn unmapped(members: &[Member]) -> Complaints {
    let map = fs::read_to_string(workspace::root().join(MAP)).unwrap_or_default();
    let missing = members.iter().filter(|member| !map.contains(&format!("{}/", member.name)));
    missing.map(|member| format!("{MAP}: says nothing of {}/", member.name)).collect()
}
