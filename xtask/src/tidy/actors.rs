//! Actor ⇔ gateway ⇔ test module: every component has all three, under one name; and its mailbox is as long
//! as the fabric counts on.

use super::{Complaints, source::Source};
use std::collections::BTreeSet;

/// The program host lives in a crate of its own, linked with user code.
const HOSTED: &str = "program_host";

/// How many calls an actor's mailbox takes before callers hear that it is full.
const CAPACITY: &str = "gateways::MAILBOX_CAPACITY";

pub(crate) fn check(sources: &[Source], complaints: &mut Complaints) {
    let gateways: BTreeSet<&str> = sources.iter().flat_map(gateways_of).collect();
    let paths: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    let folders: BTreeSet<&str> = paths.iter().filter_map(|path| folder(path)).collect();

    for name in &gateways {
        let place =
            if *name == HOSTED { "host/src".to_owned() } else { format!("actors/src/{name}") };
        let exists = paths.iter().any(|path| path.starts_with(&format!("{place}/")));
        if !exists {
            complaints.push(format!("gateway '{name}' has no component: {place}/ is missing"));
        } else if !has_tests(&place, &paths) {
            complaints.push(format!(
                "{place}: a component is driven through its gateway in {place}/tests.rs"
            ));
        } else if !sources.iter().any(|source| is_below(&place, source) && sets_mailbox(source)) {
            complaints
                .push(format!("{place}: its actor sets no mailbox of {CAPACITY} when it starts"));
        }
    }
    for name in folders.difference(&gateways) {
        complaints
            .push(format!("actors/src/{name}: no gateway of this name is declared in gateways/"));
    }
}

/// The names that gateways are declared under in this file: `pub struct XGateway = "name", fenced by …`.
fn gateways_of(source: &Source) -> Vec<&str> {
    if !source.path.starts_with("gateways/src/") {
        return Vec::new();
    }
    let declared = |(line, text): (usize, &'_ str)| {
        let (_, rest) = text.trim().strip_prefix("pub struct ")?.split_once("Gateway = \"")?;
        let (name, fence) = rest.split_once('"')?;
        (fence.contains("fenced by") && !source.is_test_line(line)).then_some(name.len())?;
        let start = source.text.find(rest)?;
        source.text.get(start..start + name.len())
    };
    source.text.lines().enumerate().filter_map(declared).collect()
}

/// The component's folder that a path is in.
fn folder(path: &str) -> Option<&str> {
    let (folder, _) = path.strip_prefix("actors/src/")?.split_once('/')?;
    Some(folder)
}

fn is_below(place: &str, source: &Source) -> bool {
    source.path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
}

fn sets_mailbox(source: &Source) -> bool {
    let sets = format!("set_mailbox_capacity({CAPACITY})");
    let mut lines = source.text.lines().enumerate();
    lines.any(|(line, text)| text.contains(&sets) && !source.is_test_line(line))
}

fn has_tests(place: &str, paths: &BTreeSet<&str>) -> bool {
    let (file, folder) = (format!("{place}/tests.rs"), format!("{place}/tests/"));
    paths.contains(file.as_str()) || paths.iter().any(|path| path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> String {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let mut complaints = Complaints::new();
        check(&sources, &mut complaints);
        complaints.join("\n")
    }
    const GATEWAY: (&str, &str) =
        ("gateways/src/a.rs", "gateway! {\n    pub struct AGateway = \"a\", fenced by AId;\n}\n");

    const ACTOR: &str =
        "fn started() {\n    ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);\n}\n";

    #[test]
    fn a_component_with_gateway_and_tests_passes() {
        assert_eq!(
            complaints(&[GATEWAY, ("actors/src/a/mod.rs", ACTOR), ("actors/src/a/tests.rs", "")]),
            ""
        );
    }

    #[test]
    fn an_actor_whose_mailbox_is_as_actix_has_it_is_named() {
        let short =
            complaints(&[GATEWAY, ("actors/src/a/mod.rs", ""), ("actors/src/a/tests.rs", ACTOR)]);
        assert!(short.contains("actors/src/a: its actor sets no mailbox"), "{short}");
    }

    #[test]
    fn whatever_of_the_three_is_missing_is_named() {
        assert!(complaints(&[GATEWAY]).contains("actors/src/a/ is missing"));
        assert!(
            complaints(&[GATEWAY, ("actors/src/a/mod.rs", "")]).contains("actors/src/a/tests.rs")
        );
        assert!(complaints(&[("actors/src/b/mod.rs", "")]).contains("no gateway of this name"));
    }
}
