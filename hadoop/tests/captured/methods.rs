//! Compares the methods that the library offers, according to its own sources, with those that were captured.

use super::wire::Cuts;
use super::world::{CLIENT, HDFS, MASTER, NODE, World};
use super::{PLAIN, SECURE, kerberized, plain};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Methods without a captured answer, and why there is none.
const WITHOUT: &[(&str, &str, &str)] = &[];

fn sources(under: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(under).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let nested = folders.iter().filter(|path| !path.ends_with("tests"));
    let nested = nested.flat_map(|folder| sources(folder));
    nested.chain(files).filter(|file| !file.ends_with("tests.rs")).collect()
}

/// Texts between these marks.
fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| rest.split(close).next()).collect()
}

fn is_method(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.contains(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Every method that has a message or a caller: messages say whose they are, callers name it.
fn offered() -> BTreeSet<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = BTreeSet::new();
    for path in sources(&root.join("yarn")).into_iter().chain(sources(&root.join("hdfs"))) {
        let text = std::fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(&root).unwrap().display().to_string();
        let protocol = match place.as_str() {
            place if place.starts_with("hdfs") => HDFS,
            place if place.contains("master") => MASTER,
            place if place.contains("container_protocol") || place.contains("node_manager") => NODE,
            _ => CLIENT,
        };
        let documented = ["The request of `", "The response to `"].into_iter();
        let documented = documented.flat_map(|open| between(&text, open, '`'));
        let mut named = BTreeSet::new();
        // Texts stand in every second place between quotes.
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            named.extend(line.split('"').skip(1).step_by(2).filter(|text| is_method(text)));
        }
        let methods = documented.chain(named);
        all.extend(methods.map(|method| (protocol.to_owned(), method.to_owned())));
    }
    all
}

#[test]
fn every_method_that_the_library_offers_was_captured() {
    let worlds = [
        (World::captured(PLAIN, Cuts::Each(usize::MAX)), plain as fn(&World)),
        (World::captured(SECURE, Cuts::Each(usize::MAX)), kerberized),
    ];
    let mut captured = BTreeSet::new();
    for (world, script) in worlds {
        script(&world);
        let called = world.called.borrow();
        let answered = called.iter().filter(|(_, _, thrown)| thrown.is_none());
        captured.extend(answered.map(|(protocol, method, _)| (protocol.clone(), method.clone())));
    }
    let offered = offered();
    assert!(offered.len() >= 50, "methods are not found any more: {offered:?}");
    for protocol in [CLIENT, MASTER, NODE, HDFS] {
        assert!(offered.iter().any(|(of, _)| of == protocol), "{protocol}");
    }
    let excused: BTreeSet<_> =
        WITHOUT.iter().map(|(of, method, _)| ((*of).to_owned(), (*method).to_owned())).collect();
    let missing: Vec<_> = offered.difference(&captured).collect();
    let excused: Vec<_> = excused.iter().collect();
    assert_eq!(missing, excused, "methods without a captured exchange: see README.md");
}
