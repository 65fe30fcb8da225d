//! The states of writers and committers in `fixtures/state-v1`, as `src/state/fixtures.rs` has those of keyed state.

use super::{
    files::PendingPart,
    text::{TextPart, TextState},
    two_phase::{KeptCommittables, Queue},
};
use crate::{
    state::{OperatorState, Share, fixtures, read_operator_state, write_operator_state},
    types::Record,
};

/// Checks the fixture of an operator state that this program writes as `state`.
fn check<S: OperatorState>(name: &str, state: &S) {
    fixtures::check(name, &write_operator_state(state).unwrap(), |bytes| {
        let read = read_operator_state::<S>(&[bytes.to_vec()], Share::new(0, 1)).ok()?;
        write_operator_state(&read).ok()
    });
}

/// Returns what a committer keeps of two committables: one of checkpoint 7, which is being committed, and one of checkpoint 8.
fn kept<C: Record>(committable: &C, ends: bool) -> KeptCommittables<C> {
    let mut queue = Queue::new(ends);
    for checkpoint in [7, 8] {
        queue.add([committable.clone()]);
        queue.barrier(checkpoint, ends && checkpoint == 8);
    }
    queue.kept()
}

#[test]
fn the_fixtures_of_writers_and_committers_are_read_and_written_alike_and_damage_is_no_panic() {
    check("text-writer.bin", &TextState::example());
    check("file-committer.bin", &kept(&PendingPart::example(), false));
    check("text-committer.bin", &kept(&TextPart::example(), true));
}
