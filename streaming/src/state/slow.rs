//! A slow backend for tests: only a few keys are resident and all others are encoded bytes; the test decides when and
//! in which order reads are answered; writes are under way for a while.

use super::{
    Fetch, Free, Kept, KeyAddress, KeyGroups, Place, RowReader, RowWriter, StateBackend,
    StateError, Table, Taken,
};
use crate::{
    operators::{OperatorMail, split_ticket},
    seam::{TaskSnapshot, TaskUpcalls},
    types::{Key, Reader, decode_one, encode_one},
};
use futures::{FutureExt, future::BoxFuture};
use hashbrown::hash_table::{Entry, OccupiedEntry};
use model::{NodeId, OperatorId};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

type Read = BoxFuture<'static, Result<Vec<u8>, String>>;

/// A host that keeps the reads (or other I/O) that were begun, with their tickets, until the test has them answered, and does nothing
/// else.
#[derive(Default)]
pub(crate) struct Reads(Mutex<Vec<(u64, Read)>>);

impl Reads {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Carries out one of the reads, which must not wait for anything; returns the operator that asked for it, and its answer.
    pub(crate) fn answer(&self, which: usize) -> Option<(NodeId, OperatorMail)> {
        let mut reads = self.0.lock().unwrap();
        let which = which.checked_rem(reads.len())?;
        let (ticket, read) = reads.remove(which);
        let (node, ticket) = split_ticket(ticket);
        let result = read.now_or_never().expect("it is ready at once");
        Some((node, OperatorMail::Reply { ticket, result }))
    }
}

impl TaskUpcalls for Reads {
    fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {}
    fn spawn_io(&self, read: Read, ticket: u64) {
        self.0.lock().unwrap().push((ticket, read));
    }
    fn now_unix_ms(&self) -> u64 {
        0
    }
    fn wake_at(&self, _: Duration, _: u64) {}
    fn acknowledge(&self, _: u64, _: TaskSnapshot) {}
}

/// The encoded rows of each key, by key group and encoded key; `None` for a removed key.
type Bytes = BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>;

struct Resident<V> {
    state: Option<V>,
    pinned: bool,
}

pub(crate) struct Slow<K, V> {
    /// The number of keys that may stay resident without a pin.
    room: usize,
    resident: Table<K, Resident<V>>,
    keys: Vec<(KeyAddress, K)>,
    missing: Vec<(KeyAddress, K)>,
    fetching: Table<K, ()>,
    asked: BTreeMap<u32, Vec<(KeyAddress, K)>>,
    tickets: u32,
    under_way: Bytes,
    releases: usize,
    disk: Arc<Mutex<Bytes>>,
}

impl<K: Key, V: Kept> Slow<K, V> {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            room,
            resident: Table::default(),
            keys: Vec::new(),
            missing: Vec::new(),
            fetching: Table::default(),
            asked: BTreeMap::new(),
            tickets: 0,
            under_way: Bytes::new(),
            releases: 0,
            disk: Arc::default(),
        }
    }

    fn written(state: &V) -> Vec<u8> {
        let mut bytes = Vec::new();
        RowWriter::default().write(&mut bytes, |rows| state.write(rows));
        bytes
    }

    fn read(bytes: &[u8]) -> V {
        let fields: Vec<_> = (0..16).map(Some).collect();
        let mut input = Reader::new(bytes);
        let state = V::read(&mut RowReader::new(&mut input, &fields).unwrap()).unwrap();
        input.finish().unwrap();
        state
    }

    fn make_resident(&mut self, at: KeyAddress, key: &K, bytes: Option<&[u8]>) {
        let resident = Resident { state: bytes.map(Self::read), pinned: true };
        match self.resident.entry(at, |stored| stored == key).unwrap() {
            Entry::Occupied(_) => panic!("a resident key was fetched"),
            Entry::Vacant(free) => free.insert((key.clone(), resident)),
        };
        self.keys.push((at, key.clone()));
    }

    /// Writes resident keys back, oldest first, until `room` are left; pinned keys stay.
    fn write_back(&mut self, room: usize) {
        let mut kept = Vec::new();
        let mut keys = std::mem::take(&mut self.keys).into_iter();
        while kept.len() + keys.len() > room {
            let Some((at, key)) = keys.next() else { break };
            let Ok(Entry::Occupied(entry)) = self.resident.entry(at, |stored| *stored == key)
            else {
                panic!()
            };
            if entry.get().1.pinned {
                kept.push((at, key));
                continue;
            }
            let ((_, resident), _) = entry.remove();
            let bytes = resident.state.as_ref().map(Self::written);
            self.under_way.insert((at.group, encode_one(&key)), bytes);
        }
        kept.extend(keys);
        self.keys = kept;
    }

    fn everything_to_disk(&mut self) {
        self.write_back(0);
        self.disk.lock().unwrap().append(&mut self.under_way);
    }
}

pub(crate) struct Here<'a, K, V>(OccupiedEntry<'a, (K, Resident<V>)>);

impl<K, V> Taken<K, V> for Here<'_, K, V> {
    fn entry(&mut self) -> (&K, &mut V) {
        let (key, resident) = self.0.get_mut();
        (key, resident.state.as_mut().unwrap())
    }
    fn remove(mut self) {
        self.0.get_mut().1.state = None;
    }
}

impl<K: PartialEq, V> Free<K, V> for Here<'_, K, V> {
    fn insert(mut self, key: K, state: V) {
        assert!(self.0.get().0 == key);
        self.0.get_mut().1.state = Some(state);
    }
}

impl<K: Key, V: Kept> StateBackend<K, V> for Slow<K, V> {
    type Taken<'a> = Here<'a, K, V>;
    type Free<'a> = Here<'a, K, V>;
    const ALWAYS_RESIDENT: bool = false;

    fn open(&mut self, groups: KeyGroups) {
        self.resident = Table::new(groups.clone());
        self.fetching = Table::new(groups);
    }

    fn memory_bytes(&self) -> u64 {
        self.resident.memory_bytes() + self.fetching.memory_bytes()
    }

    fn place(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
    ) -> Result<Place<Here<'_, K, V>, Here<'_, K, V>>, StateError> {
        match self.resident.entry(at, same)? {
            Entry::Occupied(entry) if entry.get().1.pinned => Ok(match entry.get().1.state {
                Some(_) => Place::Taken(Here(entry)),
                None => Place::Free(Here(entry)),
            }),
            _ => Err(StateError::NotResident { group: at.group }),
        }
    }

    fn admit(&mut self, at: KeyAddress, key: &K) -> bool {
        if let Ok(Entry::Occupied(mut entry)) = self.resident.entry(at, |stored| stored == key) {
            entry.get_mut().1.pinned = true;
            return true;
        }
        // A read sees a write that is under way, although the disk does not have it yet.
        if let Some(bytes) = self.under_way.remove(&(at.group, encode_one(key))) {
            // The disk's value is outdated from now on; the next write back replaces it.
            self.make_resident(at, key, bytes.as_deref());
            return true;
        }
        if let Ok(Entry::Vacant(free)) = self.fetching.entry(at, |stored| stored == key) {
            free.insert((key.clone(), ()));
            self.missing.push((at, key.clone()));
        }
        false
    }

    /// Returns two reads for the missing keys of one batch, so that these arrive in any order too.
    fn fetch(&mut self) -> Vec<Fetch> {
        let half = self.missing.len().div_ceil(2).max(1);
        let halves: Vec<_> = self.missing.chunks(half).map(<[_]>::to_vec).collect();
        self.missing.clear();
        let mut fetches = Vec::new();
        for keys in halves {
            self.tickets += 1;
            let wanted: Vec<_> = keys.iter().map(|(at, key)| (at.group, encode_one(key))).collect();
            let disk = self.disk.clone();
            let read = async move {
                let disk = disk.lock().unwrap();
                let rows: Vec<Option<Vec<u8>>> =
                    wanted.iter().map(|key| disk.get(key).cloned().flatten()).collect();
                Ok(encode_one(&rows))
            };
            self.asked.insert(self.tickets, keys);
            fetches.push(Fetch { ticket: self.tickets, read: read.boxed() });
        }
        fetches
    }

    fn arrived(
        &mut self,
        ticket: u32,
        result: Result<Vec<u8>, String>,
        keys: &mut Vec<(KeyAddress, K)>,
    ) -> Result<(), StateError> {
        let asked = self.asked.remove(&ticket).unwrap();
        let bytes = result.map_err(|why| StateError::Fetch { keys: asked.len(), why })?;
        let rows: Vec<Option<Vec<u8>>> = decode_one(&bytes)?;
        for ((at, key), rows) in asked.into_iter().zip(rows) {
            self.fetching.remove(at, &key);
            self.make_resident(at, &key, rows.as_deref());
            keys.push((at, key));
        }
        Ok(())
    }

    fn release(&mut self) {
        for (at, key) in &self.keys {
            let Ok(Entry::Occupied(mut entry)) = self.resident.entry(*at, |stored| stored == key)
            else {
                panic!()
            };
            entry.get_mut().1.pinned = false;
        }
        // Keys that are written back now are under way during the next one to three batches.
        self.releases += 1;
        if self.releases.is_multiple_of(3) {
            self.disk.lock().unwrap().append(&mut self.under_way);
        }
        self.write_back(self.room);
    }

    fn restore(&mut self, at: KeyAddress, key: K, state: V) -> Result<(), StateError> {
        let bytes = Self::written(&state);
        self.disk.lock().unwrap().insert((at.group, encode_one(&key)), Some(bytes));
        Ok(())
    }

    fn restore_removed(&mut self, at: KeyAddress, key: &K) -> Result<(), StateError> {
        self.disk.lock().unwrap().remove(&(at.group, encode_one(key)));
        Ok(())
    }

    fn restore_joined(
        &mut self,
        at: KeyAddress,
        key: K,
        part: V,
        join: fn(&mut V, V),
    ) -> Result<(), StateError> {
        let stored = self.disk.lock().unwrap().remove(&(at.group, encode_one(&key))).flatten();
        let state = match stored {
            None => part,
            Some(bytes) => {
                let mut state = Self::read(&bytes);
                join(&mut state, part);
                state
            }
        };
        self.restore(at, key, state)
    }

    fn for_each(&mut self, group: u32, each: &mut dyn FnMut(&K, &V)) -> Result<(), StateError> {
        self.everything_to_disk();
        let disk = self.disk.lock().unwrap();
        for ((_, key), rows) in disk.range((group, Vec::new())..(group + 1, Vec::new())) {
            if let Some(rows) = rows {
                each(&decode_one(key)?, &Self::read(rows));
            }
        }
        Ok(())
    }

    fn take_part(&mut self) -> Result<Option<Vec<(K, V)>>, StateError> {
        self.everything_to_disk();
        let mut disk = self.disk.lock().unwrap();
        while let Some(((_, key), rows)) = disk.pop_first() {
            if let Some(rows) = rows {
                return Ok(Some(vec![(decode_one(&key)?, Self::read(&rows))]));
            }
        }
        Ok(None)
    }
}
