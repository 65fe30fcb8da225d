//! Asks cargo for the workspace's place and members.

use crate::run::{Result, cargo, output};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The workspace's directory.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// `cargo metadata`, without or with the graph of all dependencies.
pub(crate) fn metadata(with_dependencies: bool) -> Result<Value> {
    let mut args = vec!["metadata", "--format-version", "1", "--quiet"];
    if with_dependencies {
        args.extend(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    } else {
        args.push("--no-deps");
    }
    Ok(serde_json::from_str(&output(&mut cargo(&args))?)?)
}

/// One of our crates.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) licence: Option<String>,
    /// The names of its programs.
    pub(crate) bins: Vec<String>,
}

/// Our crates, by name.
pub(crate) fn members(metadata: &Value) -> Vec<Member> {
    let ids = list(&metadata["workspace_members"]);
    let own = list(&metadata["packages"]).iter().filter(|p| ids.contains(&p["id"]));
    let mut members: Vec<Member> = own
        .map(|package| Member {
            name: text(&package["name"]),
            dir: Path::new(&text(&package["manifest_path"]))
                .parent()
                .map(Path::to_owned)
                .unwrap_or_default(),
            licence: package["license"].as_str().map(str::to_owned),
            bins: list(&package["targets"])
                .iter()
                .filter(|target| list(&target["kind"]).iter().any(|kind| kind == "bin"))
                .map(|target| text(&target["name"]))
                .collect(),
        })
        .collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    members
}

/// Returns the directory of cargo's build output.
pub(crate) fn target_directory(metadata: &Value) -> PathBuf {
    PathBuf::from(text(&metadata["target_directory"]))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
