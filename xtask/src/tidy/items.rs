//! Rules of single files: length, module documentation, `unsafe`, ordered maps, fair selects.

use super::{Complaints, source::Source};

/// Lines of a file, tests aside.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// The places where `unsafe` may stand: a crate, or the one module of its kind.
const UNSAFE_ALLOWED: &[&str] = &[
    "streaming/src/",
    // The sampler of the stacks of threads.
    "deploy/src/stacks.rs",
    // The calls into the system's GSSAPI library.
    "hadoop/src/gssapi/raw",
    // The allocator that bounds what one input may take.
    "fuzz/src/allocator.rs",
];

/// Returns a complaint for each place of `UNSAFE_ALLOWED` at which none of `files` (paths from the root) is.
pub(crate) fn stale_places(files: &[String]) -> Complaints {
    let stale =
        UNSAFE_ALLOWED.iter().filter(|place| !files.iter().any(|path| path.starts_with(**place)));
    stale
        .map(|place| {
            let list = "xtask/src/tidy/items.rs: UNSAFE_ALLOWED";
            format!("{list}: no file is at '{place}': remove the entry")
        })
        .collect()
}

pub(crate) fn check(source: &Source, complaints: &mut Complaints) {
    let path = &source.path;
    let lines = source.lines_without_tests();
    if lines > FILE_LINES_MAX {
        complaints.push(format!(
            "{path}: {lines} lines without tests, at most {FILE_LINES_MAX}: split it by concern"
        ));
    }
    for function in source.functions() {
        let (first, last) = function.lines;
        if last - first + 1 > FUNCTION_LINES_MAX {
            let (name, lines) = (function.name, last - first + 1);
            complaints.push(format!(
                "{path}:{}: `{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}",
                first + 1
            ));
        }
    }
    if !source.is_test_line(0) && !opens_with_documentation(&source.text) {
        complaints.push(format!(
            "{path}:1: say with `//!` what this module is for and what it must never do"
        ));
    }
    unsafe_code(source, complaints);
    ordered(source, complaints);
    selects(source, complaints);
}

fn opens_with_documentation(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.is_none_or(|line| line.starts_with("//!"))
}

fn unsafe_code(source: &Source, complaints: &mut Complaints) {
    let path = &source.path;
    let allowed = UNSAFE_ALLOWED.iter().any(|place| path.starts_with(place));
    let texts: Vec<&str> = source.text.lines().collect();
    for line in source.lines_with("unsafe") {
        if !allowed {
            complaints.push(format!("{path}:{}: `unsafe` is not allowed here", line + 1));
            continue;
        }
        let near = texts.iter().take(line + 1).rev().take(8);
        let said =
            near.into_iter().any(|text| text.contains("SAFETY:") || text.contains("# Safety"));
        if !said {
            complaints.push(format!("{path}:{}: say with `// SAFETY:` why this holds", line + 1));
        }
    }
}

/// Refuses maps without an order where their order could be observed: decisions must not depend on hashes.
fn ordered(source: &Source, complaints: &mut Complaints) {
    let path = &source.path;
    if !(path.starts_with("control/src/") || path.starts_with("actors/src/")) {
        return;
    }
    for word in ["HashMap", "HashSet", "DashMap", "RandomState"] {
        for line in source.lines_with(word) {
            complaints.push(format!(
                "{path}:{}: `{word}` has no order: use a BTreeMap or BTreeSet",
                line + 1
            ));
        }
    }
}

/// A select that draws its branch at random makes two runs of one seed differ.
fn selects(source: &Source, complaints: &mut Complaints) {
    let (path, code) = (&source.path, &source.code);
    for (at, select) in code.match_indices("select!") {
        let before = code.get(..at).unwrap_or_default();
        if before.ends_with('_') || source.is_test_line(super::source::line_of(code, at)) {
            continue;
        }
        let body = code.get(at + select.len()..).unwrap_or_default();
        let opens = body.trim_start().trim_start_matches(['{', '(']).trim_start();
        let line = super::source::line_of(code, at) + 1;
        if before.ends_with("futures::") {
            complaints
                .push(format!("{path}:{line}: use `select_biased!`: this one draws at random"));
        } else if !opens.starts_with("biased") {
            complaints.push(format!(
                "{path}:{line}: begin the select with `biased;`: it draws at random otherwise"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Complaints {
        let mut complaints = Complaints::new();
        check(&Source::new(path, text), &mut complaints);
        complaints
    }
    fn only(path: &str, text: &str) -> String {
        let complaints = complaints(path, text);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        complaints.concat()
    }

    #[test]
    fn an_entry_without_a_file_may_not_stay() {
        let mut files: Vec<String> = UNSAFE_ALLOWED.iter().map(|p| format!("{p}x.rs")).collect();
        assert_eq!(stale_places(&files), Complaints::new());
        files.remove(1);
        let complaints = stale_places(&files);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints.concat().contains(UNSAFE_ALLOWED[1]), "{complaints:?}");
    }

    #[test]
    fn a_tidy_file_passes() {
        let text = "//! For this.\n\nfn a() { tokio::select! { biased; _ = x => {} } }\n";
        assert_eq!(complaints("a/src/b.rs", text), Complaints::new());
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        let long = format!("//! x\n{}", "\n".repeat(500));
        assert!(only("a/src/b.rs", &long).contains("501 lines"));
        let body = format!("//! x\nfn f() {{\n{}}}\n", "a();\n".repeat(69));
        assert!(only("a/src/b.rs", &body).contains("`f` has 71 lines"));
        assert!(only("a/src/b.rs", "// x\n").contains("`//!`"));
        assert!(
            only("a/src/b.rs", "//! x\nfn f() { unsafe { g() } }").contains("not allowed here")
        );
        assert!(only("streaming/src/b.rs", "//! x\nfn f() { unsafe { g() } }").contains("SAFETY"));
        assert!(
            only("control/src/b.rs", "//! x\nuse std::collections::HashMap;").contains("no order")
        );
        assert!(
            only("a/src/b.rs", "//! x\nfn f() { tokio::select! { _ = a => {} } }")
                .contains("`biased;`")
        );
        assert!(
            only("a/src/b.rs", "//! x\nfn f() { futures::select! { _ = a => {} } }")
                .contains("select_biased")
        );
    }

    #[test]
    fn tests_may_be_long_and_undocumented() {
        let text = format!("#[test]\nfn f() {{\n{}}}\n", "a();\n".repeat(600));
        assert_eq!(complaints("a/tests/b.rs", &text), Complaints::new());
    }
}
