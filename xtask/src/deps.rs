//! The dependency table of the architecture: which of our crates may use which, and what each must
//! never link, however indirectly.

use crate::{
    run::Result,
    workspace::{self, list, text},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The dependencies that one crate may have.
struct Rule {
    name: &'static str,
    /// The crates of this workspace that the crate may use. Its tests may use more.
    may: &'static [&'static str],
    /// The packages that the crate must never link, also not through others.
    never: &'static [&'static str],
}

const fn rule(
    name: &'static str,
    may: &'static [&'static str],
    never: &'static [&'static str],
) -> Rule {
    Rule { name, may, never }
}

/// Anything of ours.
const ANY: &[&str] = &["*"];

const TABLE: &[Rule] = &[
    rule("model", &[], &["tokio", "actix"]),
    rule("derive", &[], &["tokio", "actix"]),
    rule("conf", &["model"], &["tokio", "actix"]),
    rule("metrics", &["model"], &["tokio", "actix"]),
    rule("platform", &["model"], &["actix"]),
    rule("control", &["model"], &["tokio", "actix", "rand", "getrandom", "mio", "nix"]),
    rule("storage", &["model", "platform"], &["actix"]),
    rule("gateways", &["model", "platform", "metrics"], &[]),
    rule("streaming", &["model", "platform", "storage", "metrics", "derive"], &["actix"]),
    rule("host", &["gateways", "streaming", "model", "platform", "storage", "metrics"], &[]),
    rule(
        "actors",
        &["gateways", "control", "model", "platform", "conf", "storage", "metrics"],
        &["kube"],
    ),
    rule("rest", &["gateways", "model", "platform", "conf", "metrics", "web"], &[]),
    rule("hadoop", &[], &[]),
    rule(
        "connectors",
        &["streaming", "derive", "model", "platform", "storage", "metrics"],
        &["actix"],
    ),
    rule(
        "deploy",
        &[
            "model",
            "derive",
            "conf",
            "metrics",
            "platform",
            "control",
            "storage",
            "gateways",
            "streaming",
            "host",
            "actors",
            "rest",
            "hadoop",
            "connectors",
            "web",
        ],
        &[],
    ),
    rule("flott", &["deploy", "streaming", "connectors", "derive"], &[]),
    rule("web", &[], &["tokio", "actix"]),
    rule("examples", ANY, &[]),
    rule("tests", ANY, &[]),
    rule("benches", ANY, &[]),
    rule("words", &["deploy", "streaming"], &["flott", "mimalloc"]),
    rule("fuzz", ANY, &[]),
    rule("xtask", ANY, &[]),
];

/// Checks the table against what cargo would build.
pub(crate) fn deps() -> Result<()> {
    let metadata = workspace::metadata(true)?;
    let broken = broken(&Graph::of(&metadata), TABLE);
    match broken.as_slice() {
        [] => Ok(()),
        broken => Err(broken.join("\n").into()),
    }
}

fn broken(graph: &Graph, table: &[Rule]) -> Vec<String> {
    let mut broken = Vec::new();
    for own in &graph.own {
        let Some(rule) = table.iter().find(|rule| graph.name(own) == rule.name) else {
            broken.push(format!("crate '{}' is not in the dependency table", graph.name(own)));
            continue;
        };
        for used in graph.uses(own).iter().filter(|used| graph.own.contains(*used)) {
            let name = graph.name(used);
            if !rule.may.contains(&name) && rule.may != ANY {
                broken.push(format!("'{}' must not depend on '{name}'", rule.name));
            }
        }
        for never in rule.never {
            if let Some(path) = graph.path(own, never) {
                broken.push(format!(
                    "'{}' must never link '{never}': {}",
                    rule.name,
                    path.join(" → ")
                ));
            }
        }
    }
    broken
}

/// Packages by id and what each links; build scripts, macros' own and test dependencies aside.
struct Graph {
    own: BTreeSet<String>,
    names: BTreeMap<String, String>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn of(metadata: &Value) -> Self {
        let name = |package: &Value| (text(&package["id"]), text(&package["name"]));
        let names: BTreeMap<_, _> = list(&metadata["packages"]).iter().map(name).collect();
        let macros: BTreeSet<String> = list(&metadata["packages"])
            .iter()
            .filter(|package| {
                list(&package["targets"])
                    .iter()
                    .any(|t| list(&t["kind"]).iter().any(|k| k == "proc-macro"))
            })
            .map(|package| text(&package["id"]))
            .collect();
        let linked = |dependency: &&Value| {
            list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
        };
        let uses = list(metadata.pointer("/resolve/nodes").unwrap_or(&Value::Null))
            .iter()
            .map(|node| {
                let used =
                    list(&node["deps"]).iter().filter(linked).map(|d| text(&d["pkg"])).collect();
                (text(&node["id"]), used)
            })
            // What a macro uses runs in the compiler and is not linked.
            .map(|(id, used): (String, BTreeSet<String>)| match macros.contains(&id) {
                true => (id, used.into_iter().filter(|used| own_id(metadata, used)).collect()),
                false => (id, used),
            })
            .collect();
        let own = list(&metadata["workspace_members"]).iter().map(text).collect();
        Self { own, names, uses }
    }

    fn name(&self, id: &str) -> &str {
        self.names.get(id).map_or("", String::as_str)
    }

    fn uses(&self, id: &str) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.uses.get(id).unwrap_or(&NONE)
    }

    /// The names on a way from `from` to a package called `to`.
    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at != from && self.name(at) == to {
                let mut way = vec![self.name(at).to_owned()];
                let mut step = at;
                while let Some(previous) = came.get(step) {
                    way.push(self.name(previous).to_owned());
                    step = previous;
                }
                way.reverse();
                return Some(way);
            }
            for next in self.uses(at) {
                if next != from && !came.contains_key(next.as_str()) {
                    came.insert(next, at);
                    open.push(next);
                }
            }
        }
        None
    }
}

fn own_id(metadata: &Value, id: &str) -> bool {
    list(&metadata["workspace_members"]).iter().any(|own| own == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])], own: &[&str]) -> Graph {
        let names: BTreeSet<&str> =
            edges.iter().flat_map(|(a, b)| b.iter().copied().chain([*a])).collect();
        Graph {
            own: own.iter().map(|name| (*name).to_owned()).collect(),
            names: names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect(),
            uses: edges
                .iter()
                .map(|(a, b)| ((*a).to_owned(), b.iter().map(|b| (*b).to_owned()).collect()))
                .collect(),
        }
    }

    #[test]
    fn a_use_that_the_table_does_not_allow_is_named() {
        let graph = graph(
            &[("control", &["model", "actors"]), ("new", &[])],
            &["control", "model", "actors", "new"],
        );
        let complaints = broken(&graph, TABLE);
        assert_eq!(
            complaints,
            ["'control' must not depend on 'actors'", "crate 'new' is not in the dependency table"]
        );
    }

    #[test]
    fn what_must_never_be_linked_is_found_through_others() {
        let graph = graph(
            &[("storage", &["a"]), ("a", &["b", "storage"]), ("b", &["actix"])],
            &["storage"],
        );
        assert_eq!(
            broken(&graph, TABLE),
            ["'storage' must never link 'actix': storage → a → b → actix"]
        );
    }
}
