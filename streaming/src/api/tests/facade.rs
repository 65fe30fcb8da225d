//! Programs name the crate `flott` alone: it has everything that an example of this crate names.

use std::{collections::BTreeSet, fs, path::Path};

/// Adds the text of all doc comments of the Rust files below a folder, without the comment marks.
fn read_docs(folder: &Path, docs: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_docs(&path, docs);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let comments = source.lines().filter_map(|line| {
            let line = line.trim_start();
            let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start();
            Some(text.strip_prefix("# ").unwrap_or(text))
        });
        comments.for_each(|line| docs.extend([line, "\n"]));
    }
}

/// Returns the first names of an import: `a` and `b` of `a::c` and of `{a::{c, d}, b}`.
fn first_names(import: &str) -> impl Iterator<Item = String> {
    let (mut depth, mut names) = (0, vec![String::new()]);
    let import = import.strip_prefix('{').unwrap_or(import);
    for c in import.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            _ if depth == 0 => names.last_mut().into_iter().for_each(|name| name.push(c)),
            _ => {}
        }
    }
    names.into_iter().filter_map(|name| {
        let first = name.split("::").next().unwrap_or_default().trim();
        (!first.is_empty()).then(|| first.to_owned())
    })
}

#[test]
fn what_an_example_names_is_in_the_crate_of_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut docs = String::new();
    read_docs(&root.join("src"), &mut docs);
    let imports = docs.split("use streaming::").skip(1);
    let named: BTreeSet<String> =
        imports.filter_map(|rest| rest.split_once(';')).flat_map(|(i, _)| first_names(i)).collect();
    assert!(["Environment", "MemorySize", "api", "time"].iter().all(|n| named.contains(*n)));

    let flott = fs::read_to_string(root.join("../flott/src/lib.rs")).unwrap();
    let exports = flott.split_once("pub use streaming::{").unwrap().1.split_once("};").unwrap().0;
    let exported: BTreeSet<String> = first_names(exports).collect();
    let missing: Vec<&String> = named.difference(&exported).collect();
    assert!(missing.is_empty(), "not in flott: {missing:?}");
    for inner in ["model", "platform", "storage", "metrics"] {
        assert!(
            !docs.contains(&format!("use {inner}::")),
            "programs do not have the crate {inner}"
        );
    }
}
