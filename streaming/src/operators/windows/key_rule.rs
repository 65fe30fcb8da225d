//! The rule of windows with one state per key: which windows a key has, when they end, and how they are written. What is the same for all
//! rules is in `KeyCore`.

use super::{TimeWindow, WindowFolding, key_core::Taking};
use crate::{
    operators::{KeySelector, Keyed, OperatorContext},
    seam::TaskError,
    state::{Kept, KeyAddress, StateBackend, StateDeclaration},
    types::Reader,
};

/// The rule of a kind of windows whose state a `KeyCore` keeps per key (panes of fixed windows, or sessions):
/// which windows of its key a record goes to, and which ones end as time passes. The `KeyCore` calls `record` for each record and `pass`
/// when the moment comes that a key is queued for; `write_parts` and `read_parts` at a snapshot and a restore, `give_up` and `next` for windows that were read back.
pub trait KeyRule<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>>:
    Sized + Send + 'static
{
    /// The type of the windows of one key, with the values that the folding keeps: the state of the key in the backend.
    type Windows: KeyWindows;
    /// Version byte of the written state, different for windows of another kind, so that neither is read as the other.
    const VERSION: u8;

    /// Appends the properties that tell these windows from others of the same kind, such as their size, to a snapshot; nothing by
    /// default.
    fn write_parts(&self, _out: &mut Vec<u8>) {}

    /// Reads what [`KeyRule::write_parts`] wrote, and compares it with these windows; reads nothing by default. Called at a restore.
    ///
    /// # Errors
    /// [`TaskError::Deployment`] if the state belongs to other windows, [`TaskError::Codec`] if it cannot be decoded.
    fn read_parts(
        &self,
        _input: &mut Reader<'_>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }

    /// Returns the next moment after `passed`, in milliseconds since 1970, at which the key has to be looked at: a window ends, or
    /// is to be discarded `lateness` milliseconds after its end. `None` if there are no windows, or only ones that
    /// [`KeyRule::give_up`] discards at `passed`.
    fn next(&self, windows: &Self::Windows, passed: i64, lateness: i64) -> Option<i64>;

    /// Discards the windows that ended `lateness` milliseconds before `moment` or earlier; emits nothing. Called for windows that were
    /// read from a snapshot or storage, whose allowed lateness may have been longer.
    fn give_up(&self, windows: &mut Self::Windows, moment: i64, lateness: i64);

    /// Adds a record with the event time `taking.time` to the windows of its key, whose state is resident. A late record that no window takes goes to the
    /// side output of late records, or is dropped and counted; a record between two windows that is not late is dropped uncounted. A window
    /// that was fired already and takes a record is fired once more, a session that has grown beyond the time that has passed only at its
    /// new end. Queues the key if it has to be looked at earlier than before. Returns true if the operator goes on with the next record of
    /// the batch, false if the step is to end; the record is taken either way.
    ///
    /// # Errors
    /// Returns an error if the user's code fails, if the subtask does not own the key, or if a value that a snapshot needs before it
    /// changes cannot be encoded.
    fn record<B: StateBackend<S::Key, Self::Windows>>(
        taking: &mut Taking<'_, T, S::Key, F, Self, F::Out>,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError>;

    /// Called when the moment has come for which a key is queued: emits the key's windows that end at `moment` and did not end by
    /// `passed`, but returns the last of them, for the caller to emit; discards the windows that were kept long enough for late records.
    ///
    /// # Errors
    /// Returns an error if the user's code fails.
    fn pass(
        taking: &mut Taking<'_, T, S::Key, F, Self, F::Out>,
        key: &S::Key,
        windows: &mut Self::Windows,
        moment: i64,
        passed: i64,
    ) -> Result<Option<(TimeWindow, F::Kept)>, TaskError>;
}

/// The windows of one key, as a [`KeyRule`] keeps them in the state backend, with the moment that the key is queued for. The `KeyCore`
/// sets that moment, and joins the windows that several parts of a restored state have of the key.
pub trait KeyWindows: Kept + Default {
    /// Returns the declaration of the keyed state, a map of panes or sessions.
    fn declare() -> Vec<StateDeclaration>;
    /// Returns the place of the moment, in milliseconds since 1970, for which the key is queued: no window ends, or is discarded,
    /// before it. The moment is no part of the written state: it is `None` for windows that were read.
    fn looked_at(&mut self) -> &mut Option<i64>;
    /// Takes in the windows `more` of the same key, which another part of the restored state has. What both have is replaced by that of
    /// `more`: the values of panes, but all sessions, because a part has all sessions of its key.
    fn join(&mut self, more: Self);
}
