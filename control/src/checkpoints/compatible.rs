//! Whether a job can start from the snapshot of another program, or of another version of it: decided before anything is started.
//! This module must never guess; what does not fit by name and type is an error that names it.

use crate::job_graph::MAX_PARALLELISM_MAX;
use model::graph::{GraphNode, StateDeclaration};
use model::{CheckpointMetadata, JobGraph, OperatorState};
use std::collections::BTreeSet;
use thiserror::Error;

/// The option that is among a graph's options if the client, the cluster or the program sets the maximum parallelism.
const MAX_PARALLELISM: &str = "pipeline.max-parallelism";

/// The reason why a job can't start from a snapshot (a savepoint or checkpoint): one operator or state that does not fit the
/// program. Produced by [`check`] only; with `allow_dropped` the causes `OperatorMissing`, `PlaceMissing` and
/// `StateMissing` do not occur.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Incompatible {
    /// An operator with a uid has state in the snapshot, and no operator of the program has its id. Not a fault if state may be dropped.
    #[error(
        "{operator} has state in it and is not in the program: give an operator that uid, or drop the state \
         (--allowNonRestoredState)"
    )]
    OperatorMissing {
        /// The operator, with its uid.
        operator: String,
    },
    /// An operator without a uid has state in the snapshot, and the program has no operator of its kind without a uid in its place. Not a
    /// fault if state may be dropped.
    #[error(
        "operator '{name}' has state in it that was stored without a uid and is found by the operator's place, and the program has no \
         operator without a uid there: restore it into the program without uids (pipeline.auto-generate-uids), or drop the state \
         (--allowNonRestoredState)"
    )]
    PlaceMissing {
        /// Name of the operator.
        name: String,
    },
    /// The operator is in the program, but no longer declares a state that is in the snapshot. Not a fault if state may be dropped.
    #[error("{}", StateDeclaration::undeclared(operator, state, kind))]
    StateMissing {
        /// The operator, with its uid if it has one.
        operator: String,
        /// The name of the state.
        state: String,
        /// Kind of the state in the snapshot.
        kind: String,
    },
    /// The state is of another kind in the program (such as `list` instead of `value`).
    #[error(
        "the state '{state}' of {operator} is {then} state in it and {now} state in the program"
    )]
    Kind {
        /// The operator, with its uid if it has one.
        operator: String,
        /// The name of the state.
        state: String,
        /// The kind in the snapshot.
        then: String,
        /// The kind in the program.
        now: String,
    },
    /// The type of one role of the state (of its keys, its values, …) differs between the snapshot and the program.
    #[error(
        "the {role} of the state '{state}' of {operator} is of another type in it than in the program (schema {then}, now {now}): keep the \
         type, or give the operator another uid and drop the old state (--allowNonRestoredState)"
    )]
    Schema {
        /// The operator, with its uid if it has one.
        operator: String,
        /// The name of the state.
        state: String,
        /// Role of the type in the state: `key`, `value`, …
        role: String,
        /// The type in the snapshot: its structure, if the snapshot has it, and its schema; `none` if the state has no type of that role
        /// there.
        then: String,
        /// The type in the program: its structure and its schema; `none` if the state has no type of that role there.
        now: String,
    },
    /// The settings of the operator on which the content of the state depends, such as the size of windows, differ between the snapshot
    /// and the program. Not compared if the snapshot or the program does not name them.
    #[error(
        "the state '{state}' of {operator} is of {then} in it and of {now} in the program: keep the settings, or give the operator another \
         uid and drop the old state (--allowNonRestoredState)"
    )]
    Settings {
        /// The operator, with its uid if it has one.
        operator: String,
        /// The name of the state.
        state: String,
        /// The settings in the snapshot.
        then: String,
        /// The settings in the program.
        now: String,
    },
    /// A source that had no enumerator (the coordinator that assigns its splits) in the snapshot has one in the program, which
    /// would assign again what was read.
    #[error(
        "{operator} had no enumerator in it and has one in the program, which would assign again what was read: give the source another \
         uid"
    )]
    EnumeratorAdded {
        /// The operator, with its uid if it has one.
        operator: String,
    },
    /// The operator has keyed state in the snapshot or in the program, and its number of key groups differs between the two. If its
    /// parallelism is above the number in the snapshot, the cause is `TooManySubtasks` instead.
    #[error(
        "the maximum parallelism of {operator} is {then} in it and {now} in the program, and keys can't be redistributed: set \
         pipeline.max-parallelism to {then} or not at all; {then} is also the most subtasks that the operator can have"
    )]
    MaxParallelism {
        /// The operator, with its uid if it has one.
        operator: String,
        /// The number of key groups in the snapshot.
        then: u32,
        /// The number of key groups in the program.
        now: u32,
    },
    /// The operator has keyed state in the snapshot or in the program, and is to have more subtasks than key groups in the snapshot.
    #[error(
        "the maximum parallelism of {operator} is {then} in it, so that the operator can have at most {then} subtasks and not \
         {parallelism}, because keys can't be redistributed: give it a parallelism of at most {then}, and set \
         pipeline.max-parallelism to {then} or not at all"
    )]
    TooManySubtasks {
        /// The operator, with its uid if it has one.
        operator: String,
        /// The number of key groups in the snapshot.
        then: u32,
        /// The operator's parallelism in the program.
        parallelism: u32,
    },
}

/// Gives the vertices of a graph that is to start from `snapshot` the numbers of key groups that their operators with keyed state have
/// there, as Flink does, if neither the program nor an option sets the maximum parallelism (`pipeline.max-parallelism` is not among the
/// graph's options): the number in the graph is derived from the parallelism then, and would change with it. Changes nothing of a vertex
/// whose parallelism is above that number, or whose operators have different ones there; [`check`] refuses it.
pub fn adopt_max_parallelism(graph: &mut JobGraph, snapshot: &CheckpointMetadata) {
    if graph.options.contains_key(MAX_PARALLELISM) {
        return;
    }
    let JobGraph { nodes, vertices, .. } = graph;
    for vertex in vertices {
        let of_vertex = nodes.iter().filter(|node| vertex.nodes.contains(&node.id));
        let saved: BTreeSet<u32> = of_vertex
            .filter_map(|node| Some((node, snapshot.operators.get(&node.operator_id)?)))
            .filter(|(node, saved)| has_keys(node, saved))
            .map(|(_, saved)| saved.max_parallelism)
            .collect();
        if saved.len() == 1
            && let Some(groups) = saved.first()
            && (vertex.parallelism..=MAX_PARALLELISM_MAX).contains(groups)
        {
            vertex.max_parallelism = *groups;
        }
    }
}

/// Returns true if the operator has keyed state in the snapshot or in the program.
fn has_keys(node: &GraphNode, saved: &OperatorState) -> bool {
    node.states.iter().chain(&saved.states).any(StateDeclaration::is_keyed)
}

/// Checks that every state in a snapshot (a savepoint or checkpoint) has its place in a job: an operator with its id that declares it as
/// the same kind, with the same types and settings, that has as many key groups (if it has keyed state), and that is no source to which an
/// enumerator was added. `allow_dropped`: operators and states that the job does not have are no fault, and are left behind. Operators
/// without state in the snapshot, or with optional states only, are not checked.
///
/// # Errors
///
/// Returns every reason why the job can't start from the snapshot, ordered by operator id; never an empty list. Operators and states that
/// are new in the program are no reason.
pub fn check(
    graph: &JobGraph,
    snapshot: &CheckpointMetadata,
    allow_dropped: bool,
) -> Result<(), Vec<Incompatible>> {
    let mut found = Vec::new();
    for (id, saved) in &snapshot.operators {
        let has_state =
            saved.coordinator.is_some() || saved.subtasks.iter().any(|part| part.state.is_some());
        let is_optional =
            !saved.states.is_empty() && saved.states.iter().all(StateDeclaration::is_optional);
        if !has_state || is_optional {
            continue;
        }
        match graph.nodes.iter().find(|node| node.operator_id == *id) {
            None if allow_dropped => {}
            None => found.push(match saved.uid.as_deref() {
                Some(uid) => {
                    Incompatible::OperatorMissing { operator: shown(&saved.name, Some(uid)) }
                }
                None => Incompatible::PlaceMissing { name: saved.name.clone() },
            }),
            Some(node) => check_operator(graph, node, saved, allow_dropped, &mut found),
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Returns true if the operator `node` can read the state that was saved under its id, at least to drop a part of it. False if the two
/// have no state of the same name: types are compared by name, so that nothing says that the bytes are in a format that `node` knows (a
/// window operator, for instance, cannot read the sums of a `reduce` that had its uid). False also if they differ in the kinds that have
/// a format of their own (`splits`, `collected`, `watermark`). True if the snapshot declares no states (older versions wrote none).
pub fn is_readable(node: &GraphNode, saved: &OperatorState) -> bool {
    let whole = |states: &[StateDeclaration]| -> BTreeSet<String> {
        states.iter().filter(|state| state.is_whole()).map(|state| state.kind.clone()).collect()
    };
    let names: BTreeSet<&String> = node.states.iter().map(|state| &state.name).collect();
    let shares = || saved.states.iter().any(|state| names.contains(&state.name));
    saved.states.is_empty() || (shares() && whole(&saved.states) == whole(&node.states))
}

fn check_operator(
    graph: &JobGraph,
    node: &GraphNode,
    saved: &OperatorState,
    allow_dropped: bool,
    found: &mut Vec<Incompatible>,
) {
    let operator = shown(&node.name, node.uid.as_deref());
    let vertex = graph.vertices.iter().find(|vertex| vertex.nodes.contains(&node.id));
    if let Some(vertex) = vertex
        && vertex.max_parallelism != saved.max_parallelism
        && has_keys(node, saved)
    {
        let (operator, then) = (operator.clone(), saved.max_parallelism);
        let (parallelism, now) = (vertex.parallelism, vertex.max_parallelism);
        found.push(match parallelism > then {
            true => Incompatible::TooManySubtasks { operator, then, parallelism },
            false => Incompatible::MaxParallelism { operator, then, now },
        });
    }
    let has = |states: &[StateDeclaration], name| states.iter().any(|state| state.name == name);
    let (splits, enumerator) = (StateDeclaration::SPLITS, StateDeclaration::ENUMERATOR);
    if has(&saved.states, splits)
        && !has(&saved.states, enumerator)
        && has(&node.states, enumerator)
    {
        found.push(Incompatible::EnumeratorAdded { operator: operator.clone() });
    }
    for then in &saved.states {
        match node.states.iter().find(|now| now.name == then.name) {
            None if allow_dropped => {}
            None => found.push(Incompatible::StateMissing {
                operator: operator.clone(),
                state: then.name.clone(),
                kind: then.kind.clone(),
            }),
            Some(now) => check_state(&operator, then, now, found),
        }
    }
}

fn check_state(
    operator: &str,
    then: &StateDeclaration,
    now: &StateDeclaration,
    found: &mut Vec<Incompatible>,
) {
    let (operator, state) = (operator.to_owned(), then.name.clone());
    if then.kind != now.kind {
        let (then, now) = (then.kind.clone(), now.kind.clone());
        found.push(Incompatible::Kind { operator, state, then, now });
        return;
    }
    // A version that did not write settings checks them when the task is restored.
    if let (Some(then), Some(now)) = (&then.settings, &now.settings)
        && then != now
    {
        let (operator, state, then, now) =
            (operator.clone(), state.clone(), then.clone(), now.clone());
        found.push(Incompatible::Settings { operator, state, then, now });
    }
    let roles: BTreeSet<&String> = then.schemas.keys().chain(now.schemas.keys()).collect();
    for role in roles {
        if then.schemas.get(role) != now.schemas.get(role) {
            found.push(Incompatible::Schema {
                operator: operator.clone(),
                state: state.clone(),
                role: role.clone(),
                then: then.type_of(role),
                now: now.type_of(role),
            });
        }
    }
}

fn shown(name: &str, uid: Option<&str>) -> String {
    match uid {
        Some(uid) => format!("operator '{name}' (uid '{uid}')"),
        None => format!("operator '{name}' (without a uid)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::{declaration, graph, snapshot, vertex};
    use model::{JobId, StateHandle};

    fn sums(key: &str, value: &str) -> StateDeclaration {
        declaration("sum", "value", &[("key", key), ("value", value)])
    }

    /// A job of one operator with one keyed state, and its snapshot.
    fn saved() -> (JobGraph, CheckpointMetadata) {
        let mut graph = graph(vec![vertex(1, 2)], Vec::new());
        graph.nodes[0].states = vec![sums("u64", "i64")];
        graph.nodes[0].uid = Some("sums".to_owned());
        graph.nodes[0].name = "total".to_owned();
        let state = StateHandle::Inline(vec![1]);
        let mut snapshot = snapshot(JobId(9), 5, graph.nodes[0].operator_id, [state]);
        let saved = snapshot.operators.values_mut().next().unwrap();
        saved.name = "total".to_owned();
        saved.uid = graph.nodes[0].uid.clone();
        saved.states = graph.nodes[0].states.clone();
        (graph, snapshot)
    }

    fn complaints(graph: &JobGraph, snapshot: &CheckpointMetadata, dropped: bool) -> Vec<String> {
        let found = check(graph, snapshot, dropped).err().unwrap_or_default();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_same_program_with_another_parallelism_fits() {
        let (mut graph, snapshot) = saved();
        graph.vertices[0].parallelism = 3;
        graph.nodes[0]
            .states
            .push(StateDeclaration { name: "new".to_owned(), ..sums("u64", "i64") });
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_operator_and_state() {
        let (graph, snapshot) = saved();
        let with = |change: &dyn Fn(&mut JobGraph)| {
            let mut other = graph.clone();
            change(&mut other);
            let strict = complaints(&other, &snapshot, false);
            assert_eq!(strict.len(), 1, "{strict:?}");
            (strict[0].clone(), complaints(&other, &snapshot, true).is_empty())
        };
        let (text, droppable) = with(&|graph| graph.nodes[0].operator_id.0 += 1);
        assert!(
            text.starts_with("operator 'total' (uid 'sums') has state in it and is not"),
            "{text}"
        );
        assert!(droppable);
        let (text, droppable) = with(&|graph| graph.nodes[0].states.clear());
        assert!(text.contains("(uid 'sums') has the value state 'sum' in it"), "{text}");
        assert!(droppable);
        let (text, droppable) = with(&|graph| graph.nodes[0].states = vec![sums("String", "i64")]);
        assert!(text.starts_with("the key of the state 'sum' of operator 'total'"), "{text}");
        assert!(
            text.contains("is of another type in it than in the program (schema u64, now String)"),
            "{text}"
        );
        assert!(!droppable);
        let (text, droppable) = with(&|graph| graph.nodes[0].states = vec![sums("u64", "f64")]);
        assert!(text.starts_with("the value of the state 'sum'"), "{text}");
        assert!(!droppable);
        let (text, droppable) =
            with(&|graph| "list".clone_into(&mut graph.nodes[0].states[0].kind));
        assert!(text.contains("is value state in it and list state in the program"), "{text}");
        assert!(!droppable);
        let (text, droppable) = with(&|graph| graph.vertices[0].max_parallelism += 1);
        assert!(text.contains("set pipeline.max-parallelism to"), "{text}");
        assert!(!droppable);
    }

    #[test]
    fn a_maximum_parallelism_that_nobody_sets_is_that_of_the_snapshot() {
        let (mut graph, mut snapshot) = saved();
        for saved in snapshot.operators.values_mut() {
            saved.max_parallelism = 128;
        }
        graph.vertices[0].parallelism = 90;
        graph.vertices[0].max_parallelism = 256;
        let derived = graph.clone();
        assert_eq!(complaints(&derived, &snapshot, false).len(), 1);
        adopt_max_parallelism(&mut graph, &snapshot);
        assert_eq!((graph.vertices[0].parallelism, graph.vertices[0].max_parallelism), (90, 128));
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
        // One that is set stays, and is refused.
        let mut set = derived.clone();
        set.options.insert("pipeline.max-parallelism".to_owned(), "256".to_owned());
        adopt_max_parallelism(&mut set, &snapshot);
        assert_eq!(set.vertices, derived.vertices);
        let text = &complaints(&set, &snapshot, false)[0];
        assert!(text.contains("set pipeline.max-parallelism to 128 or not at all"), "{text}");
        // More subtasks than key groups are refused.
        let mut many = derived.clone();
        many.vertices[0].parallelism = 200;
        adopt_max_parallelism(&mut many, &snapshot);
        assert_eq!(many.vertices[0].max_parallelism, 256);
        let text = &complaints(&many, &snapshot, false)[0];
        assert!(text.contains("at most 128 subtasks and not 200"), "{text}");
        // Without keys there is nothing to keep.
        let mut unkeyed = derived.clone();
        unkeyed.nodes[0].states.clear();
        for saved in snapshot.operators.values_mut() {
            saved.states.clear();
        }
        adopt_max_parallelism(&mut unkeyed, &snapshot);
        assert_eq!(unkeyed.vertices, derived.vertices);
    }

    #[test]
    fn state_without_a_uid_is_said_to_be_found_by_its_place() {
        let (mut graph, mut snapshot) = saved();
        for saved in snapshot.operators.values_mut() {
            saved.uid = None;
        }
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
        // The operator has got a uid.
        graph.nodes[0].operator_id.0 += 1;
        let texts = complaints(&graph, &snapshot, false);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(
            texts[0].starts_with("operator 'total' has state in it that was stored"),
            "{texts:?}"
        );
        assert!(texts[0].contains("the program without uids (pipeline.auto-generate"), "{texts:?}");
        assert!(!texts[0].contains("that uid"), "{texts:?}");
        assert_eq!(complaints(&graph, &snapshot, true), Vec::<String>::new());
    }

    /// A state of a source, as its operator declares it.
    fn of_source(kind: &str, role: &str, schema: &str) -> StateDeclaration {
        declaration(kind, kind, &[(role, schema)])
    }

    #[test]
    fn a_source_that_gets_an_enumerator_is_refused_because_it_would_read_everything_again() {
        let (mut graph, mut snapshot) = saved();
        let splits = of_source("splits", "split", "File");
        for saved in snapshot.operators.values_mut() {
            saved.states = vec![splits.clone()];
        }
        graph.nodes[0].states = vec![splits, of_source("enumerator", "value", "Left")];
        for allow_dropped in [true, false] {
            let found = check(&graph, &snapshot, allow_dropped).unwrap_err();
            let [Incompatible::EnumeratorAdded { .. }] = &found[..] else { panic!("{found:?}") };
        }
    }

    #[test]
    fn another_kind_of_source_of_the_same_uid_is_refused_and_named() {
        let (mut graph, mut snapshot) = saved();
        let files =
            [of_source("splits", "split", "File"), of_source("enumerator", "value", "Left")];
        for saved in snapshot.operators.values_mut() {
            saved.states = files.to_vec();
        }
        graph.nodes[0].states = files.to_vec();
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
        graph.nodes[0].states = vec![of_source("splits", "split", "Partition")];
        let texts = complaints(&graph, &snapshot, false);
        assert!(
            texts[0].starts_with("the split of the state 'splits' of operator 'total' (uid 'sums') is of another type in it than in the program (schema File, now Partition)"),
            "{texts:?}"
        );
        assert!(texts[1].contains("has the enumerator state 'enumerator' in it"), "{texts:?}");
        assert_eq!(complaints(&graph, &snapshot, true).len(), 1, "the splits cannot be read");
        // An operator with other state does not get the bytes that it cannot read.
        graph.nodes[0].states = vec![sums("u64", "i64")];
        assert_eq!(complaints(&graph, &snapshot, true), Vec::<String>::new());
        let saved = snapshot.operators.values().next().unwrap();
        assert!(!is_readable(&graph.nodes[0], saved));
        graph.nodes[0].states = vec![files[0].clone()];
        assert!(is_readable(&graph.nodes[0], saved));
    }

    #[test]
    fn an_operator_that_assigns_watermarks_may_go_and_no_other_one_gets_its_state() {
        let (mut graph, mut snapshot) = saved();
        let watermark = declaration("watermark", "watermark", &[]);
        for saved in snapshot.operators.values_mut() {
            saved.states = vec![watermark.clone()];
        }
        let saved = snapshot.operators.values().next().unwrap();
        // The operator in its place has other state, or none.
        for states in [vec![sums("u64", "i64")], Vec::new()] {
            graph.nodes[0].states = states;
            assert_eq!(check(&graph, &snapshot, false), Ok(()));
            assert!(!is_readable(&graph.nodes[0], saved));
        }
        graph.nodes[0].states = vec![watermark];
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
        assert!(is_readable(&graph.nodes[0], saved));
        graph.nodes[0].operator_id.0 += 1;
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
    }

    #[test]
    fn an_operator_with_none_of_the_saved_states_begins_without_any() {
        let (mut graph, snapshot) = saved();
        let panes = StateDeclaration { name: "window-contents".to_owned(), ..sums("[u8]", "i64") };
        graph.nodes[0].states = vec![panes.clone()];
        assert_eq!(complaints(&graph, &snapshot, false).len(), 1);
        assert_eq!(complaints(&graph, &snapshot, true), Vec::<String>::new());
        let saved = snapshot.operators.values().next().unwrap();
        assert!(!is_readable(&graph.nodes[0], saved), "of keys of another type, in another format");
        graph.nodes[0].states = vec![panes, sums("u64", "i64")];
        assert!(is_readable(&graph.nodes[0], saved));
    }

    #[test]
    fn windows_of_another_size_are_refused_unless_a_version_without_settings_has_written_them() {
        let (mut graph, mut snapshot) = saved();
        let with = |settings: Option<&str>| StateDeclaration {
            settings: settings.map(str::to_owned),
            ..sums("u64", "i64")
        };
        graph.nodes[0].states = vec![with(Some("windows with size 20000 ms"))];
        for (settings, fits) in [
            (Some("windows with size 10000 ms"), false),
            (Some("windows with size 20000 ms"), true),
            (None, true),
        ] {
            for saved in snapshot.operators.values_mut() {
                saved.states = vec![with(settings)];
            }
            let texts = complaints(&graph, &snapshot, true);
            assert_eq!(texts.is_empty(), fits, "{texts:?}");
            for text in texts {
                let expected = "the state 'sum' of operator 'total' (uid 'sums') is of windows with size 10000 ms in it and of windows \
                    with size 20000 ms in the program";
                assert!(text.starts_with(expected), "{text}");
            }
        }
    }

    #[test]
    fn types_that_differ_are_named_by_their_structures_where_these_are_known() {
        let (mut graph, mut snapshot) = saved();
        let of = |schema: &str, structure: Option<&str>| {
            let types = structure.map(|text| ("value".to_owned(), text.to_owned()));
            StateDeclaration { types: types.into_iter().collect(), ..sums("u64", schema) }
        };
        graph.nodes[0].states = vec![of("9a", Some("Order{id:u64,}"))];
        for (structure, then) in [(Some("Order{id:u32,}"), "Order{id:u32,}, 3f"), (None, "3f")] {
            for saved in snapshot.operators.values_mut() {
                saved.states = vec![of("3f", structure)];
            }
            let texts = complaints(&graph, &snapshot, true);
            let expected = format!("(schema {then}, now Order{{id:u64,}}, 9a)");
            assert!(texts.len() == 1 && texts[0].contains(&expected), "{texts:?}");
        }
        // Only the schemas are compared.
        graph.nodes[0].states = vec![of("3f", Some("Order"))];
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
    }

    #[test]
    fn an_operator_without_state_may_go() {
        let (mut graph, mut snapshot) = saved();
        graph.nodes[0].operator_id.0 += 1;
        for saved in snapshot.operators.values_mut() {
            saved.subtasks[0].state = None;
        }
        assert_eq!(check(&graph, &snapshot, false), Ok(()));
    }
}
