//! The warning for state that an operator encodes in one piece at a barrier: its task handles no records meanwhile, however long that
//! takes. State of keys, timers and the lists of `process_with_state` are not meant; they are written while records come.

use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes that an operator should write in one piece: encoding them takes about as long as a task should pause for a checkpoint,
/// 5 ms.
const ENOUGH: usize = 4 << 20;

/// The state that one operator of an execution attempt writes in one piece.
#[derive(Debug, Default)]
pub(crate) struct OnePiece {
    has_warned: AtomicBool,
}

impl OnePiece {
    /// Takes note that `operator` has written so many bytes in one piece. Above 4 MiB it logs a warning, the first time in the attempt.
    /// Returns true if it did.
    pub(crate) fn written(&self, operator: &str, bytes: usize) -> bool {
        let warns = bytes > ENOUGH && !self.has_warned.swap(true, Ordering::Relaxed);
        if warns {
            tracing::warn!(
                operator,
                bytes,
                "the operator writes this state in one piece at each checkpoint, and its task handles no records meanwhile (above {ENOUGH} \
                 bytes about 5 ms and more); keep most of it in state of keys or in lists of a subtask's state, which are written while records \
                 come"
            );
        }
        warns
    }

    /// Returns true if the operator has written so much that a warning was logged.
    #[cfg(test)]
    pub(crate) fn has_warned(&self) -> bool {
        self.has_warned.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_above_the_bound_is_warned_of_once() {
        let piece = OnePiece::default();
        let sizes = [0, ENOUGH, ENOUGH + 1, ENOUGH + 2];
        let warned = sizes.map(|bytes| piece.written("rules", bytes));
        assert_eq!(warned, [false, false, true, false]);
    }
}
