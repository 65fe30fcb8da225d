//! The options, one module per component, in the order of the reference page.

pub mod checkpointing;
pub mod cluster;
pub mod execution;
pub mod heartbeat;
pub mod high_availability;
pub mod jobmanager;
pub mod logging;
pub mod network;
pub mod resourcemanager;
pub mod rest;
pub mod restart;
pub mod rpc;
pub mod s3;
pub mod security;
pub mod state_recovery;
pub mod taskmanager;
pub mod taskmanager_memory;
pub mod yarn_client;
pub mod yarn_containers;

use crate::Declaration;
use std::{collections::BTreeMap, sync::LazyLock};

/// The sections of the reference page.
pub(crate) static SECTIONS: &[(&str, &[&[&dyn Declaration]])] = &[
    ("Cluster", &[cluster::ALL]),
    ("JobManager", &[jobmanager::ALL]),
    ("REST and web", &[rest::ALL]),
    ("TaskManager", &[taskmanager::ALL, taskmanager::FAMILIES]),
    ("TaskManager memory", &[taskmanager_memory::ALL]),
    ("Network", &[network::ALL]),
    ("ResourceManager and slots", &[resourcemanager::ALL]),
    ("YARN client", &[yarn_client::ALL, yarn_client::FAMILIES]),
    ("YARN containers", &[yarn_containers::ALL, yarn_containers::FAMILIES]),
    ("Jobs", &[execution::ALL]),
    ("Checkpoints", &[checkpointing::ALL, state_recovery::ALL]),
    ("Restart strategies", &[restart::ALL]),
    ("Heartbeats", &[heartbeat::ALL]),
    ("High availability", &[high_availability::ALL]),
    ("S3", &[s3::ALL]),
    ("RPC and blobs", &[rpc::ALL]),
    ("Security", &[security::ALL]),
    ("Logs and processes", &[logging::ALL]),
];

/// Returns the declarations of all options and families of options, in the order of the reference page.
pub fn declarations() -> impl Iterator<Item = &'static dyn Declaration> {
    let lists = SECTIONS.iter().flat_map(|(_, lists)| lists.iter());
    lists.flat_map(|list| list.iter().copied())
}

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static dyn Declaration>> = LazyLock::new(|| {
    declarations()
        .filter(|d| !d.is_family())
        .flat_map(|d| {
            let names = std::iter::once(d.key()).chain(d.other_names().iter().copied());
            names.map(move |name| (name, d))
        })
        .collect()
});

/// Returns the option that `key` names: by its own name, another accepted one, or as a family's
/// member.
pub(crate) fn find(key: &str) -> Option<&'static dyn Declaration> {
    let family = || declarations().find(|d| d.is_family() && d.owns(key));
    BY_NAME.get(key).copied().or_else(family)
}

/// Returns every accepted name, except those of families.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BY_NAME.keys().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_default_is_a_value_that_its_option_takes() {
        for option in declarations() {
            if let Some(text) = option.default_text() {
                assert_eq!(option.complaint(&text), None, "{} = {text}", option.key());
            }
        }
    }

    #[test]
    fn no_name_is_declared_twice_and_no_two_share_an_environment_variable() {
        let mut seen = BTreeSet::new();
        for option in declarations() {
            for name in std::iter::once(&option.key()).chain(option.other_names()) {
                assert!(seen.insert(crate::layer::variable(name)), "{name}");
            }
        }
    }

    #[test]
    fn every_option_is_documented_and_refuses_what_is_no_option() {
        for option in declarations() {
            let doc = option.doc().trim();
            assert!(doc.ends_with('.') || doc.ends_with('`'), "{}: '{doc}'", option.key());
            let key = option.key();
            assert_eq!(crate::refused::instead_of(key), None, "{key}");
        }
    }

    #[test]
    fn what_an_option_falls_back_to_has_its_type_and_default() {
        for option in declarations() {
            if let Some(other) = option.falls_back() {
                let other = find(other).unwrap();
                assert_eq!(option.kind(), other.kind(), "{}", option.key());
                assert_eq!(option.default_text(), other.default_text(), "{}", option.key());
            }
        }
    }
}
