//! Words and addresses that no file may hold.

use super::Complaints;

/// Split, so that this file does not hold them.
const WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or write an issue"),
    (concat!("FIX", "ME"), "fix it, or write an issue"),
    (concat!("todo", "!("), "do it, or answer with a typed error"),
    (concat!("unimplemented", "!("), "do it, or answer with a typed error"),
    (concat!("BEGIN PRIVATE", " KEY"), "make keys when tests run"),
    (concat!("/tmp/", "briefs"), "the repository explains itself"),
];
/// The one registry that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(path: &str, text: &str, complaints: &mut Complaints) {
    for (i, line) in text.lines().enumerate() {
        for (word, instead) in WORDS {
            if line.contains(word) {
                complaints.push(format!("{path}:{}: '{word}': {instead}", i + 1));
            }
        }
        let source = line.trim().strip_prefix("source = \"");
        if path.ends_with("Cargo.lock")
            && source.is_some_and(|s| s.trim_end_matches('"') != REGISTRY)
        {
            complaints.push(format!("{path}:{}: dependencies come from crates.io only", i + 1));
        }
        if path.ends_with(".cargo/config.toml")
            && (line.starts_with("[source") || line.starts_with("[registr"))
        {
            complaints.push(format!("{path}:{}: registries are each machine's own affair", i + 1));
        }
        if path.ends_with(".rs") && line.len() > line.trim_end().len() {
            complaints.push(format!("{path}:{}: blanks at the end of the line", i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        let mut complaints = Complaints::new();
        check(path, text, &mut complaints);
        complaints.len()
    }

    #[test]
    fn words_and_foreign_registries_are_found() {
        assert_eq!(complaints("a.md", &format!("x\n{}: later\n", WORDS[0].0)), 1);
        assert_eq!(complaints("Cargo.lock", &format!("source = \"{REGISTRY}\"\n")), 0);
        assert_eq!(
            complaints("Cargo.lock", "source = \"registry+https://example.org/index\"\n"),
            1
        );
        assert_eq!(complaints(".cargo/config.toml", "[source.crates-io]\n"), 1);
    }
}
