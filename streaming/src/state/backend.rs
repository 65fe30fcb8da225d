//! What a backend of keyed state must do, so that the functions above it are synchronous and borrow `&mut` state whether
//! a key is in memory or has to be fetched.
//!
//! A batch's life with a backend that is not always resident: [`StateBackend::admit`] for each record's key pins the keys
//! that are resident and remembers the others, whose records the caller parks; [`StateBackend::fetch`] begins to read
//! what was missing, everything concurrently and beside the task; [`StateBackend::place`] gives the resident keys'
//! state, to be changed in place; [`StateBackend::release`] lets go of the pins. An answer comes between two batches:
//! [`StateBackend::arrived`] makes its keys resident and pins them, the caller works off their parked records in order,
//! then releases. So a key is parked for a whole batch or not at all, and its records never overtake each other.
//! A key without state is resident too, once that is known.

use super::{Kept, KeyAddress, KeyGroups};
use crate::types::{CodecError, Key};
use futures::future::BoxFuture;
use thiserror::Error;

/// State cannot be accessed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// A key came to a subtask that does not own it.
    #[error(
        "a record of key group {group} came to the subtask that owns groups {first} to {end} (exclusive)"
    )]
    NotOwned {
        /// The key's group.
        group: u32,
        /// The first owned group.
        first: u32,
        /// Behind the last owned group.
        end: u32,
    },
    /// A key was used that was not admitted before.
    #[error("the state of a key of group {group} is used before it was fetched")]
    NotResident {
        /// The key's group.
        group: u32,
    },
    /// Bytes of a state or a snapshot are none.
    #[error("bytes of state cannot be read")]
    Codec(#[from] CodecError),
    /// The backend's storage failed.
    #[error("the state of {keys} keys cannot be fetched: {why}")]
    Fetch {
        /// How many keys wait for it.
        keys: usize,
        /// What the storage said.
        why: String,
    },
    /// A snapshot holds a state of the same name and another type.
    #[error(
        "state '{name}' was written as {written}, the program declares it as {declared}: give the changed state another name, or restore with the program that wrote it"
    )]
    Schema {
        /// The state's name.
        name: String,
        /// Kind and fingerprints in the snapshot.
        written: String,
        /// Kind and fingerprints in the program.
        declared: String,
    },
    /// A snapshot is of a stream that was keyed by another type.
    #[error("the snapshot's keys are of type {written}, the program's of type {declared}")]
    KeySchema {
        /// Fingerprint in the snapshot.
        written: String,
        /// Fingerprint in the program.
        declared: String,
    },
}

/// A read that a backend has begun. The future runs beside the task; its result comes back to
/// [`StateBackend::arrived`] with the ticket.
pub struct Fetch {
    /// Tells the fetches of one backend apart.
    pub ticket: u32,
    /// The read.
    pub read: BoxFuture<'static, Result<Vec<u8>, String>>,
}

/// The place of a resident key: one that has state, or one that has none.
#[derive(Debug)]
pub enum Place<T, F> {
    /// The key has state.
    Taken(T),
    /// The key has no state.
    Free(F),
}

/// The place of a key that has state.
pub trait Taken<K, V> {
    /// Returns the stored key, and the state to be changed in place.
    fn entry(&mut self) -> (&K, &mut V);
    /// Removes key and state.
    fn remove(self);
}

/// The place of a resident key that has no state.
pub trait Free<K, V> {
    /// Stores the key, which must be the one that the place was asked for, and its state.
    fn insert(self, key: K, state: V);
}

/// Keeps the state of the keys of one operator's subtask.
pub trait StateBackend<K: Key, V: Kept>: Send + 'static {
    /// The place of a key that has state.
    type Taken<'a>: Taken<K, V>
    where
        Self: 'a;
    /// The place of a key that has none.
    type Free<'a>: Free<K, V>
    where
        Self: 'a;
    /// Every key is resident at all times: nothing is admitted, fetched or released.
    const ALWAYS_RESIDENT: bool;

    /// Begins empty, for those key groups.
    fn open(&mut self, groups: KeyGroups);

    /// Returns the bytes of memory that the backend's tables take, full or not. What keys and values themselves have on the heap does
    /// not count: the program's allocator knows that.
    fn memory_bytes(&self) -> u64;

    /// Returns the place of a resident key. `same` sees the stored keys that have the same hash.
    ///
    /// # Errors
    /// When this subtask does not own the key, or the key is not resident.
    fn place(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
    ) -> Result<Place<Self::Taken<'_>, Self::Free<'_>>, StateError>;

    /// Returns whether [`StateBackend::fetch_ahead`] pays for the next batch: where the state is larger than the processor's caches.
    fn reads_ahead(&mut self) -> bool {
        false
    }

    /// Tells that a key comes soon, so that its place can be fetched into the processor's cache.
    fn fetch_ahead(&self, _at: KeyAddress) {}

    /// Pins a key that is resident until the next [`StateBackend::release`] and returns true; remembers one that is
    /// not for the next [`StateBackend::fetch`], unless it is being fetched, and returns false.
    fn admit(&mut self, _at: KeyAddress, _key: &K) -> bool {
        true
    }

    /// Returns the reads for the keys that were admitted and are missing, to be run concurrently.
    fn fetch(&mut self) -> Vec<Fetch> {
        Vec::new()
    }

    /// Takes in the result of a read: its keys are resident and pinned now and appended to `keys`.
    ///
    /// # Errors
    /// When the read failed, or gave other bytes than were written.
    fn arrived(
        &mut self,
        _ticket: u32,
        _result: Result<Vec<u8>, String>,
        _keys: &mut Vec<(KeyAddress, K)>,
    ) -> Result<(), StateError> {
        Ok(())
    }

    /// Lets go of all pins: what is not pinned may be written back and forgotten.
    fn release(&mut self) {}

    /// Adds an entry of a snapshot. The key's group is an owned one.
    ///
    /// # Errors
    /// When the entry cannot be stored.
    fn restore(&mut self, at: KeyAddress, key: K, state: V) -> Result<(), StateError>;

    /// Calls `each` with every key of a group, and its state. Called between two batches, while nothing is parked.
    ///
    /// # Errors
    /// When the entries cannot be read.
    fn for_each(&mut self, group: u32, each: &mut dyn FnMut(&K, &V)) -> Result<(), StateError>;

    /// Takes a part of all entries away and returns it; `None` when nothing is left.
    ///
    /// # Errors
    /// When the entries cannot be read.
    fn take_part(&mut self) -> Result<Option<Vec<(K, V)>>, StateError>;
}
