//! The handles of snapshots that later ones build on: a snapshot of changes is stored as parts behind those of the complete checkpoint
//! before, which a restore reads first. No object is written twice, and none is deleted here: the JobMaster deletes an object with the
//! last checkpoint that refers to it.

use model::{ExecutionAttemptId, OperatorId, StateHandle, StatePart};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The snapshots of one job's attempts that may be built on. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Bases(Arc<Mutex<BTreeMap<(ExecutionAttemptId, OperatorId), Handles>>>);

/// The handles of one operator in one attempt, by checkpoint: of the newest snapshot, and of the one that it builds on.
type Handles = BTreeMap<u64, StateHandle>;

impl Bases {
    /// Returns the handle of a whole state of which `stored` is the snapshot of this checkpoint: a full one, or the changes since the
    /// checkpoint `base`. Remembers it for later ones, and forgets those that none can build on any more.
    ///
    /// # Errors
    /// Returns a text if the snapshot of `base` is not known.
    pub(crate) fn join(
        &self,
        of: (ExecutionAttemptId, OperatorId),
        checkpoint: u64,
        base: Option<u64>,
        stored: StateHandle,
    ) -> Result<StateHandle, String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = all.entry(of).or_default();
        let whole = match base {
            None => stored,
            Some(base) => {
                let below = handles.get(&base).cloned().ok_or_else(|| {
                    format!("its changes since checkpoint {base} were written, which is not known")
                })?;
                let parts = [below, stored].into_iter().flat_map(parts_of);
                StateHandle::Parts(parts.collect())
            }
        };
        if handles.keys().next_back().is_some_and(|newest| *newest > checkpoint) {
            // Its checkpoint was aborted while it was being stored, and the one after it is stored already.
            return Ok(whole);
        }
        // A snapshot builds on the newest one, or on what that one builds on if its checkpoint is aborted.
        handles.retain(|number, _| base == Some(*number));
        handles.insert(checkpoint, whole.clone());
        Ok(whole)
    }

    /// Forgets the snapshots of an attempt that has ended.
    pub(crate) fn ended(&self, attempt: ExecutionAttemptId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _), _| *of != attempt);
    }
}

/// Returns the parts of a state; one that has none becomes a part with any key groups.
fn parts_of(state: StateHandle) -> Vec<StatePart> {
    match state {
        StateHandle::Parts(parts) => parts,
        state => vec![StatePart::whole(Vec::new(), state)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::JobVertexId;

    fn inline(bytes: &[u8]) -> StateHandle {
        StateHandle::Inline(bytes.to_vec())
    }

    fn places(state: &StateHandle) -> Vec<&StateHandle> {
        state.places().collect()
    }

    #[test]
    fn changes_come_behind_what_they_change_also_after_an_aborted_checkpoint() {
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask: 0, attempt: 0 };
        let (bases, of) = (Bases::default(), (attempt, OperatorId(3)));
        let few = StatePart::whole(vec![(0, 3)], inline(b"1"));
        let full = StateHandle::Parts(vec![few.clone()]);
        assert_eq!(bases.join(of, 1, None, full.clone()), Ok(full));
        let second = bases.join(of, 2, Some(1), inline(b"2")).unwrap();
        let any = StatePart::whole(Vec::new(), inline(b"2"));
        assert_eq!(second, StateHandle::Parts(vec![few, any]));
        // Checkpoint 2 is aborted, 3 is complete.
        let third = bases.join(of, 3, Some(1), inline(b"2 and 3")).unwrap();
        assert_eq!(places(&third), [&inline(b"1"), &inline(b"2 and 3")]);
        let fourth = bases.join(of, 4, Some(3), inline(b"4")).unwrap();
        assert_eq!(places(&fourth), [&inline(b"1"), &inline(b"2 and 3"), &inline(b"4")]);
        // What is stored late belongs to an aborted checkpoint.
        bases.join(of, 2, Some(3), inline(b"late")).unwrap();
        bases.join(of, 5, Some(4), inline(b"5")).unwrap();
        assert!(bases.join(of, 6, Some(1), inline(b"6")).unwrap_err().contains("checkpoint 1"));
        assert!(bases.join((attempt, OperatorId(4)), 6, Some(5), inline(b"6")).is_err());
        bases.ended(attempt);
        assert!(bases.join(of, 6, Some(5), inline(b"6")).is_err());
    }
}
