//! The interface of a backend of keyed state. It lets the functions above it be synchronous and borrow `&mut` state,
//! whether a key's state is in memory or has to be fetched.
//!
//! The caller handles a batch as follows, with a backend that is not always resident:
//!
//! 1. It calls [`StateBackend::admit`] for each record's key. The backend pins the keys that are resident and remembers
//!    the others, whose records the caller parks.
//! 2. It calls [`StateBackend::fetch`] and runs the returned reads of the missing keys concurrently, outside of the
//!    task's thread.
//! 3. It calls [`StateBackend::place`] for each resident key and changes the state in place.
//! 4. It calls [`StateBackend::release`], which removes all pins.
//!
//! Results of reads are handed in between two batches: [`StateBackend::arrived`] makes their keys resident and pins
//! them, the caller processes the parked records of these keys in order and then releases the pins. Therefore a key is
//! parked for a whole batch or not at all, and its records never overtake each other. A key that is known to have no
//! state is resident too.

use super::{Kept, KeyAddress, KeyGroups, Slice};
use crate::types::{CodecError, Key};
use futures::future::BoxFuture;
use thiserror::Error;

/// Errors of accessing, writing or restoring state, returned by a [`StateBackend`] and by the functions that read and write snapshots. Each
/// fails the task. The restart strategy decides what follows [`StateError::Codec`], [`StateError::Fetch`] and [`StateError::MovedList`];
/// the others fail the job.
/// If a function of the program, other than one of a sink, returns the error, it counts as an error of user code instead.
///
/// ```
/// use streaming::{state::StateError, types::CodecError};
///
/// /// Returns true if the restart strategy decides what follows.
/// fn may_restart(error: &StateError) -> bool {
///     match error {
///         StateError::Codec(_) | StateError::Fetch { .. } | StateError::MovedList => true,
///         StateError::NotOwned { .. } | StateError::OtherKey => false,
///         StateError::NotResident { .. } => false,
///         StateError::Schema { .. } | StateError::KeySchema { .. } => false,
///     }
/// }
///
/// assert!(may_restart(&CodecError::Truncated.into()));
/// assert!(!may_restart(&StateError::NotResident { group: 7 }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// A record's key belongs to a key group of another subtask. The key function is called by the sending and by the receiving
    /// subtask, and usually it has returned different keys; otherwise the exchange or a snapshot is wrong.
    #[error(
        "a record of key group {group} came to the subtask that owns groups {first} to {end} (exclusive): does the key function return the same key each time it is called for a record?"
    )]
    NotOwned {
        /// The key's group.
        group: u32,
        /// The first key group that the subtask owns.
        first: u32,
        /// The end of the subtask's key groups, exclusive.
        end: u32,
    },
    /// A record came with the hash of another key: the key function has returned another key to the sending subtask than to the receiving
    /// one.
    #[error(
        "a record came with the hash of another key: does the key function return the same key each time it is called for a record?"
    )]
    OtherKey,
    /// The state of a key was used although the key was not announced by [`StateBackend::admit`], or is still being read from storage.
    /// Never returned by a backend whose keys are always resident.
    #[error("the state of a key of group {group} is used before it was fetched")]
    NotResident {
        /// The key's group.
        group: u32,
    },
    /// The bytes of a state or a snapshot cannot be decoded, or a value cannot be encoded.
    #[error("cannot encode or decode state")]
    Codec(#[from] CodecError),
    /// A read from the backend's storage failed; [`StateBackend::arrived`] returns this. Never returned by the in-memory backend.
    #[error("the state of {keys} keys cannot be fetched: {why}")]
    Fetch {
        /// The number of keys that the read was for.
        keys: usize,
        /// The storage's error.
        why: String,
    },
    /// A snapshot contains a state of the same name with another kind or other types than the program declares.
    #[error(
        "state '{name}' was written as {written}, the program declares it as {declared}: give the changed state another name, or restore with the program that wrote it"
    )]
    Schema {
        /// The state's name.
        name: String,
        /// The kind and fingerprints in the snapshot.
        written: String,
        /// The kind, structures and fingerprints in the program.
        declared: String,
    },
    /// A snapshot was written for another type of key, so that the state cannot be restored.
    #[error(
        "the snapshot's keys have the schema {written}, those of the program the schema {declared}: keep the type of the keys, or restore \
         with the program that wrote the snapshot"
    )]
    KeySchema {
        /// The fingerprint of the key's type in the snapshot, which has no other name there.
        written: String,
        /// The structure of the key's type in the program, and its fingerprint.
        declared: String,
    },
    /// A list of operator state was moved out of the struct of state while a checkpoint was being written, which then cannot be completed.
    #[error(
        "the function has moved a list of its operator state to another place while a checkpoint was being written: take the list's \
         values instead"
    )]
    MovedList,
}

/// A read of keys from the backend's storage, which the backend wants to have done. The caller runs the future outside of the task's
/// thread and passes its result with the ticket to [`StateBackend::arrived`].
pub struct Fetch {
    /// Identifies the read among those of this backend that are under way. Never `u32::MAX`, which the caller uses itself.
    pub ticket: u32,
    /// The read; an error is the storage's text. The bytes are opaque to the caller.
    pub read: BoxFuture<'static, Result<Vec<u8>, String>>,
}

/// The place of a resident key in the backend: taken when the key has state, free when it has none. A key is resident if its state is in
/// memory, or if it is known to have none.
#[derive(Debug)]
pub enum Place<T, F> {
    /// The key has state; the place gives access to it.
    Taken(T),
    /// The key has no state; the place takes one.
    Free(F),
}

/// The place of a key that has state; borrowed from the backend.
pub trait Taken<K, V> {
    /// Returns the stored key and its state; the caller may change the state in place.
    fn entry(&mut self) -> (&K, &mut V);
    /// Removes the key and its state from the backend; a snapshot that is being written keeps them.
    fn remove(self);
}

/// The place of a resident key (its state needs no read from storage) that has no state; borrowed from the backend.
pub trait Free<K, V> {
    /// Stores a key and its state here; a snapshot that is being written leaves them out. The key must equal the one that the place was
    /// looked up for.
    fn insert(self, key: K, state: V);
}

/// The arguments of [`StateBackend::begin_incremental`], with which a snapshot is begun that may contain changes only.
#[derive(Clone, Copy)]
pub struct Incremental<'a> {
    /// The number of the snapshot's checkpoint.
    pub checkpoint: u64,
    /// The size in bytes up to which a full snapshot is stored with the metadata, so that one of changes would only add objects.
    pub inline: u64,
    /// Returns true for the newest of the checkpoints that were aborted: nothing refers to it. Returns false for older ones.
    pub is_aborted: &'a dyn Fn(u64) -> bool,
    /// The beginning of each chunk of a full snapshot.
    pub head: &'a [u8],
    /// The beginning of each chunk of a snapshot of changes.
    pub changes_head: &'a [u8],
}

/// The kind of a snapshot that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// The snapshot contains all state.
    Full,
    /// The snapshot contains what has changed since an earlier one, on top of which it is restored: keys with their present state, and
    /// keys that were removed.
    Changes {
        /// The number of the complete checkpoint with the earlier snapshot.
        base: u64,
    },
}

impl SnapshotKind {
    /// Returns the number of the complete checkpoint on whose snapshot this one is restored; `None` for a full one.
    pub(crate) fn base(self) -> Option<u64> {
        match self {
            Self::Full => None,
            Self::Changes { base } => Some(base),
        }
    }
}

/// Stores the state of the keys of one operator in one subtask. Only the task's thread calls it. No method may block.
///
/// `open` is called first, then the `restore…` methods for what the checkpoint has. For each batch the caller admits and fetches keys,
/// uses their places and releases them; a backend with `ALWAYS_RESIDENT` needs only `place`. At a barrier the caller begins a snapshot, and
/// calls `write_snapshot` in slices between batches until it is complete. After an error the task fails and calls nothing more.
pub trait StateBackend<K: Key, V: Kept>: Send + 'static {
    /// The place of a key that has state.
    type Taken<'a>: Taken<K, V>
    where
        Self: 'a;
    /// The place of a key that has none.
    type Free<'a>: Free<K, V>
    where
        Self: 'a;
    /// True if every key is resident at all times: callers then leave out `admit` and `release`; `fetch`, which they may call, must return
    /// nothing.
    const ALWAYS_RESIDENT: bool;

    /// Resets the backend to an empty one for the key groups that the subtask owns. Called once, before anything is restored.
    fn open(&mut self, groups: KeyGroups);

    /// Returns the bytes of memory that the backend's tables take, full or not, together with the memory for snapshots. What keys and
    /// values themselves have on the heap does not count: the program's allocator knows that.
    fn memory_bytes(&self) -> u64;

    /// Returns the place of a resident key. `same` is called with stored keys whose hashes may be equal and returns true for the wanted
    /// one.
    ///
    /// # Errors
    /// Fails with [`StateError::NotOwned`] if this subtask does not own the key's group, [`StateError::NotResident`] if the key was not
    /// admitted or is still being fetched, [`StateError::Codec`] if a snapshot is being written and needs an old value that cannot be
    /// encoded.
    fn place(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
    ) -> Result<Place<Self::Taken<'_>, Self::Free<'_>>, StateError>;

    /// Returns the state of a resident key, which the caller changes, if a look-up is all that it takes. With `None` the caller asks
    /// [`StateBackend::place`]: the key may have state all the same, which a snapshot still needs, for example. A way around the place,
    /// which is large: always `None` by default.
    #[inline(always)]
    fn at_hand(&mut self, _at: KeyAddress, _same: impl FnMut(&K) -> bool) -> Option<&mut V> {
        None
    }

    /// Returns true if the state is larger than the processor's caches, so that the caller should call [`StateBackend::fetch_ahead`] for
    /// the keys of the next batch. Called once before each batch if [`StateBackend::ALWAYS_RESIDENT`]; the backend may prepare for that
    /// then, and allocate memory for the snapshots of large state. False by default.
    fn reads_ahead(&mut self) -> bool {
        false
    }

    /// Asks the processor to load a key's place into its cache, because a record of the key follows soon. A hint
    /// without other effects.
    fn fetch_ahead(&self, _at: KeyAddress) {}

    /// Announces that a record's key will be used. If the key is resident, returns true and pins it: it stays in memory until the next
    /// [`StateBackend::release`]. Otherwise returns false: the caller keeps the record back, and the next [`StateBackend::fetch`]
    /// includes the key, unless a read of it is under way. By default every key is resident.
    fn admit(&mut self, _at: KeyAddress, _key: &K) -> bool {
        true
    }

    /// Returns the reads for the keys that were not resident when they were announced by [`StateBackend::admit`] since the last call. The
    /// caller runs them concurrently. None by default.
    fn fetch(&mut self) -> Vec<Fetch> {
        Vec::new()
    }

    /// Takes the result of the read with that ticket: makes its keys resident, pins them until the next [`StateBackend::release`], and
    /// appends them to `keys`, so that the caller processes their records that it kept back.
    ///
    /// # Errors
    /// Fails with [`StateError::Fetch`] if the read failed, with [`StateError::Codec`] if it returned other bytes than were written.
    fn arrived(
        &mut self,
        _ticket: u32,
        _result: Result<Vec<u8>, String>,
        _keys: &mut Vec<(KeyAddress, K)>,
    ) -> Result<(), StateError> {
        Ok(())
    }

    /// Removes all pins, which have kept the keys of a batch in memory, at the batch's end. The backend may then write keys to its storage
    /// and drop them from memory. Does nothing by default.
    fn release(&mut self) {}

    /// Stores a key and its state from a snapshot; replaces the state if the key has one. The caller has checked that
    /// this subtask owns the key's group.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot store the entry.
    fn restore(&mut self, at: KeyAddress, key: K, state: V) -> Result<(), StateError>;

    /// Removes a key that a snapshot of changes says is removed; does nothing if the key has no state. Called while state is restored.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot remove the entry.
    fn restore_removed(&mut self, at: KeyAddress, key: &K) -> Result<(), StateError>;

    /// Stores a key and a part of its state from a snapshot, as [`StateBackend::restore`] does; if the key has state, `join` adds the
    /// part to it.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read or store the entry.
    fn restore_joined(
        &mut self,
        at: KeyAddress,
        key: K,
        part: V,
        join: fn(&mut V, V),
    ) -> Result<(), StateError>;

    /// Calls `each` with every key of a group and its state, in no particular order. Called between two batches, while no record waits
    /// for a read.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the entries.
    fn for_each(&mut self, group: u32, each: &mut dyn FnMut(&K, &V)) -> Result<(), StateError>;

    /// Begins a snapshot of the present state that is written while records change it. Returns true if the backend does so: its caller
    /// then calls [`StateBackend::write_snapshot`] until the snapshot is complete, or drops it by [`StateBackend::abort_snapshot`], before
    /// the next one begins. Returns false and does nothing, as by default, if the backend cannot: the caller then writes the snapshot at
    /// once. The first chunk begins with the bytes `first`, the others with `head`, so that every chunk is a snapshot of its own; the
    /// entries follow.
    fn begin_snapshot(&mut self, _first: &[u8], _head: &[u8]) -> bool {
        false
    }

    /// Begins a snapshot as [`StateBackend::begin_snapshot`] does, of all state or, if the backend chooses so, of what has changed since a
    /// complete checkpoint. A key without rows in it was removed. `None`: the backend cannot, and the caller writes the snapshot at once.
    /// By default the snapshot is a full one.
    fn begin_incremental(&mut self, incremental: &Incremental<'_>) -> Option<SnapshotKind> {
        let Incremental { head, .. } = incremental;
        self.begin_snapshot(head, head).then_some(SnapshotKind::Full)
    }

    /// Takes note that a checkpoint is complete in the whole job: the next [`StateBackend::begin_incremental`] may build on it. Does
    /// nothing by default.
    fn checkpoint_complete(&mut self, _checkpoint: u64) {}

    /// Writes a slice of the snapshot that was begun, and appends the chunks that became full to the slice. Returns true if the
    /// snapshot is complete. [`read_snapshot`](super::read_snapshot) reads each of its chunks, and any number of them that follow each
    /// other.
    ///
    /// # Errors
    /// Fails with [`StateError::Codec`] if a value cannot be encoded.
    fn write_snapshot(&mut self, _slice: &mut Slice<'_>) -> Result<bool, StateError> {
        Ok(true)
    }

    /// Drops the snapshot that was begun and is not complete: later changes of the state write nothing for it. Returns true if it was
    /// dropped; false, with no effect, if the backend has to write it to its end, as by default.
    fn abort_snapshot(&mut self) -> bool {
        false
    }

    /// Returns true while so many chunks of a snapshot wait for their storage that no more records should change the state. False by
    /// default.
    fn waits_for_storage(&self) -> bool {
        false
    }

    /// Removes some of the entries and returns them; `None` if no entry is left. Called at the end of bounded input, once no snapshot is
    /// being written, by operators that emit one result per key. The caller repeats the call until it gets `None`, and neither uses a key
    /// nor begins a snapshot before: so the backend is emptied without having all entries in memory twice.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the entries.
    fn take_part(&mut self) -> Result<Option<Vec<(K, V)>>, StateError>;
}
