//! The committables of one committer, by checkpoint, until they are committed. Pure bookkeeping: nothing here calls a committer.

use crate::{
    state::{ListState, State, StateDeclaration},
    types::Record,
};
use std::collections::VecDeque;

/// A committable in a snapshot: its checkpoint, whether the snapshot is that of the job's final checkpoint, and the committable.
type Kept<C> = (u64, bool, C);

/// The snapshot of a committer.
#[derive(derive::OperatorState)]
#[flott(crate = crate)]
pub(in crate::sinks) struct KeptCommittables<C> {
    #[state(name = "committables")]
    pub(super) list: ListState<Kept<C>>,
}

/// The committables of one checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group<C> {
    pub(super) checkpoint: u64,
    /// True for the job's final checkpoint after the end of input.
    is_final: bool,
    pub(super) committables: Vec<C>,
    /// Number of times that committing it was tried in vain.
    pub(super) retries: u32,
    /// True if committables of it were restored.
    pub(super) restored: bool,
}

/// The committables that are not committed.
#[derive(Debug)]
pub(in crate::sinks) struct Queue<C> {
    /// The committables that came after the last barrier.
    current: Vec<C>,
    /// The committables of checkpoints that are not complete, in ascending order of the checkpoints.
    pending: VecDeque<Group<C>>,
    /// The committables to be committed, in ascending order of their checkpoints. A group is removed when it is committed.
    due: VecDeque<Group<C>>,
    /// True if everything waits for the final checkpoint.
    only_at_end: bool,
}

impl<C: Record> Queue<C> {
    pub(in crate::sinks) fn new(only_at_end: bool) -> Self {
        Self { current: Vec::new(), pending: VecDeque::new(), due: VecDeque::new(), only_at_end }
    }

    /// Takes committables over from a complete checkpoint: they are due at once, but for those that wait for the end.
    pub(super) fn restore(&mut self, mut kept: Vec<Kept<C>>) {
        kept.sort_by_key(|(checkpoint, ..)| *checkpoint);
        let ended = kept.iter().any(|(_, is_final, _)| *is_final);
        for (checkpoint, is_final, committable) in kept {
            match self.pending.back_mut().filter(|group| group.checkpoint == checkpoint) {
                Some(group) => group.committables.push(committable),
                None => self.pending.push_back(Group {
                    checkpoint,
                    is_final,
                    committables: vec![committable],
                    retries: 0,
                    restored: true,
                }),
            }
        }
        if ended || !self.only_at_end {
            self.release();
        }
    }

    pub(in crate::sinks) fn add(&mut self, committables: impl IntoIterator<Item = C>) {
        self.current.extend(committables);
    }

    /// Assigns what came since the last barrier to a checkpoint. `is_final`: it is the final one, after the end of input.
    pub(in crate::sinks) fn barrier(&mut self, checkpoint: u64, is_final: bool) {
        let committables = std::mem::take(&mut self.current);
        if is_final || !committables.is_empty() {
            let group = Group { checkpoint, is_final, committables, retries: 0, restored: false };
            self.pending.push_back(group);
        }
    }

    /// Returns what a snapshot must hold: everything before the last barrier that is not committed.
    pub(in crate::sinks) fn kept(&self) -> KeptCommittables<C> {
        let mut kept = <KeptCommittables<C> as State>::empty();
        let groups = || self.due.iter().chain(&self.pending);
        // The final group itself may be empty: then the others say that it came.
        let ended = groups().any(|group| group.is_final);
        for group in groups() {
            for committable in &group.committables {
                kept.list.push((group.checkpoint, ended, committable.clone()));
            }
        }
        kept
    }

    /// Returns all committables that are not committed.
    pub(super) fn all(&self) -> Vec<C> {
        let groups = self.due.iter().chain(&self.pending).flat_map(|group| &group.committables);
        groups.chain(&self.current).cloned().collect()
    }

    /// Makes due what was prepared for a checkpoint up to this one, which is complete.
    pub(super) fn complete(&mut self, checkpoint: u64) {
        let covered = |group: &Group<C>| group.checkpoint <= checkpoint;
        if self.only_at_end {
            if self.pending.iter().any(|group| group.is_final && covered(group)) {
                self.release();
            }
            return;
        }
        while let Some(group) = self.pending.pop_front_if(|group| covered(group)) {
            self.push_due(group);
        }
    }

    /// Makes everything that is pending due; of a queue that waits for the end, as one group.
    fn release(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        if self.only_at_end
            && let Some(mut last) = pending.pop_back()
        {
            last.restored |= pending.iter().any(|group| group.restored);
            let earlier = pending.drain(..).flat_map(|group| group.committables);
            last.committables = earlier.chain(std::mem::take(&mut last.committables)).collect();
            last.is_final = true;
            pending.push_back(last);
        }
        pending.into_iter().for_each(|group| self.push_due(group));
    }

    fn push_due(&mut self, group: Group<C>) {
        if !group.committables.is_empty() {
            self.due.push_back(group);
        }
    }

    /// Returns the group to be committed next; it stays in the queue.
    pub(super) fn next(&self) -> Option<&Group<C>> {
        self.due.front()
    }

    /// Keeps of the next group only what is `left` to be committed; removes the group if that is nothing. Returns how often
    /// committing the group was tried in vain.
    pub(super) fn committed(&mut self, left: Vec<C>) -> u32 {
        let Some(group) = self.due.front_mut() else { return 0 };
        if left.is_empty() {
            self.due.pop_front();
            return 0;
        }
        group.committables = left;
        group.retries += 1;
        group.retries
    }
}

/// Returns the declaration of a committer's state, for the job graph.
pub(crate) fn declare<C: Record>() -> Vec<StateDeclaration> {
    <KeptCommittables<C> as State>::declare()
}
