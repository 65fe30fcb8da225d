//! The object store that all hosts of a run share, as each host sees it: it can be slow, hang or fail for one host. The
//! observer is notified of every record that appears in a job's log, of the metadata of checkpoints, and of copies of programs.
//!
//! The store must never lose or invent an object: a call that hangs takes effect once the fault is lifted, however late
//! that is.

use super::observer::{Noticed, Observer};
use super::plan::StorageFault;
use bytes::Bytes;
use control::mutation::{Mutation, Rule};
use futures::FutureExt;
use model::ContentHash;
use platform::Platform;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::blobs::parse_copy_name;
use storage::checkpoints::parse_metadata_name;
use storage::ha::{FileElection, FileElectionSettings, LeaderRecord};
use storage::jobs::{JobFact, JobRecord, parse_record_name};
use storage::objects::{
    Fault, FaultyObjects, MemoryObjects, ObjectStore, PutNew, StoreError, StoreFuture,
};

/// The lease settings of all processes. A holder whose renewals fail stops after 4.8 s (0.6 of the duration).
const LEASE: FileElectionSettings = FileElectionSettings {
    lease_duration: Duration::from_secs(8),
    renew_interval: Duration::from_secs(1),
};

/// The object store, in memory, that all hosts of a run share and that outlives them. Clones share it.
#[derive(Debug, Clone)]
pub struct SharedStorage {
    objects: MemoryObjects,
    recorded: Recorded,
    hosts: Arc<Mutex<BTreeMap<String, HostStorage>>>,
}

impl SharedStorage {
    /// Returns an empty store. `observer` is told of new job records, checkpoint metadata and program copies. With the mutation that
    /// breaks `Rule::RecordsStay`, a job's record that exists is overwritten by another one of its name; other mutations change nothing
    /// here.
    pub fn new(observer: Observer, mutation: Mutation) -> Self {
        let objects = MemoryObjects::new();
        let recorded = Recorded { inner: objects.clone(), observer, mutation };
        Self { objects, recorded, hosts: Arc::default() }
    }

    /// Returns the store as a host sees it: with the host's present fault, which each first call under it observes.
    pub fn of(&self, host: &str) -> Arc<dyn ObjectStore> {
        Arc::new(self.host(host))
    }

    /// Returns the election of a host's process over this store, with a lease of 8 s, renewed every second. It also finds the leader.
    pub fn election(&self, platform: &Platform, host: &str) -> FileElection {
        FileElection::new(platform.clone(), self.of(host), LEASE)
    }

    /// Sets the fault of a host's calls from now on, with the observer's number for it, in place of an earlier one; `None` ends it. Calls
    /// that hang then do what the new fault says; with `None` they take effect.
    pub fn set_fault(&self, host: &str, fault: Option<(StorageFault, u64)>) {
        let host = self.host(host);
        let number = fault.map(|(_, number)| number);
        *host.number.lock().unwrap_or_else(PoisonError::into_inner) = number;
        host.faulty.set(match fault {
            None => Fault::None,
            Some((StorageFault::Slow(pause), _)) => Fault::Slow(pause),
            Some((StorageFault::Hang, _)) => Fault::Hang,
            Some((StorageFault::Fail, _)) => {
                Fault::Fail(StoreError::Io { path: "memory".into(), why: "simulated".into() })
            }
        });
    }

    /// Returns the host of the process that took the newest epoch of the election, whether its lease still holds or not; `None` before
    /// the first.
    pub fn leader(&self) -> Option<String> {
        let names = self.objects.list("leader/epoch-").now_or_never()?.ok()?;
        let bytes = self.objects.get(names.last()?).now_or_never()?.ok()??;
        let record: LeaderRecord = serde_json::from_slice(&bytes).ok()?;
        Some(record.node.split_once(':')?.0.to_owned())
    }

    fn host(&self, host: &str) -> HostStorage {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || HostStorage {
            faulty: FaultyObjects::new(Arc::new(self.recorded.clone())),
            number: Arc::default(),
            observer: self.recorded.observer.clone(),
        };
        hosts.entry(host.to_owned()).or_insert_with(new).clone()
    }
}

/// The store as one host sees it.
#[derive(Clone, derive_more::Debug)]
#[debug("HostStorage")]
struct HostStorage {
    faulty: FaultyObjects,
    /// The number of the fault that the host's calls have now.
    number: Arc<Mutex<Option<u64>>>,
    observer: Observer,
}

impl HostStorage {
    /// Returns the store for one call. The first call under a fault observes the fault.
    fn reached(&self) -> &FaultyObjects {
        let number = *self.number.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = number {
            self.observer.fault_observed(number);
        }
        &self.faulty
    }
}

impl ObjectStore for HostStorage {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        self.reached().get(name)
    }
    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        self.reached().put_new(name, bytes)
    }
    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        self.reached().put(name, bytes)
    }
    fn delete(&self, name: &str) -> StoreFuture<bool> {
        self.reached().delete(name)
    }
    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        self.reached().list(prefix)
    }
    fn location(&self) -> String {
        self.faulty.location()
    }
}

/// The objects; every new record of a job and every change of a checkpoint's metadata or a program's copies is reported to the
/// observer.
#[derive(Clone, derive_more::Debug)]
#[debug("Recorded")]
struct Recorded {
    inner: MemoryObjects,
    observer: Observer,
    mutation: Mutation,
}

/// Returns the fact that a new object records about a job; `None` if the object is no record.
fn recorded(name: &str, bytes: &[u8]) -> Option<Noticed> {
    let (job_id, log, number) = parse_record_name(name)?;
    let record = JobRecord::try_decode(bytes).ok()?;
    let result = matches!(record.fact, JobFact::Result(_));
    let program = match &record.fact {
        JobFact::Graph(graph) => Some(graph.program.hash),
        _ => None,
    };
    let checkpoint = match &record.fact {
        JobFact::Checkpoint(pointer) => Some(pointer.checkpoint),
        _ => None,
    };
    let session = record.writer.session;
    Some(Noticed::Recorded { job_id, log, number, session, result, checkpoint, program })
}

/// Returns what is noticed when an object with a checkpoint's metadata is new; `None` if the object is none.
fn metadata(name: &str, bytes: &[u8]) -> Option<Noticed> {
    let (job_id, checkpoint) = parse_metadata_name(name)?;
    let content = ContentHash(Sha256::digest(bytes).into());
    Some(Noticed::MetadataStored { job_id, checkpoint, content })
}

impl ObjectStore for Recorded {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        self.inner.get(name)
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        let (store, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let noticed = recorded(&name, &bytes).or_else(|| metadata(&name, &bytes));
            let record = matches!(noticed, Some(Noticed::Recorded { .. }));
            let put = if record && !store.mutation.keeps(Rule::RecordsStay) {
                store.inner.put(&name, bytes).await.map(|()| PutNew::Created)?
            } else {
                store.inner.put_new(&name, bytes).await?
            };
            if let (PutNew::Created, Some(noticed)) = (put, noticed) {
                store.observer.notice(&noticed);
            }
            Ok(put)
        })
    }

    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        let kept = parse_copy_name(name);
        let (put, observer) = (self.inner.put(name, bytes), self.observer.clone());
        Box::pin(async move {
            put.await?;
            if let Some((hash, copy)) = kept {
                observer.notice(&Noticed::ProgramKept { hash, copy });
            }
            Ok(())
        })
    }

    fn delete(&self, name: &str) -> StoreFuture<bool> {
        let copy = parse_copy_name(name);
        let copy = copy.map(|(hash, copy)| Noticed::ProgramDropped { hash, copy });
        let metadata = parse_metadata_name(name);
        let dropped = copy.or_else(|| {
            metadata.map(|(job_id, checkpoint)| Noticed::MetadataDropped { job_id, checkpoint })
        });
        let (deleted, observer) = (self.inner.delete(name), self.observer.clone());
        Box::pin(async move {
            let deleted = deleted.await?;
            if let Some(dropped) = dropped {
                observer.notice(&dropped);
            }
            Ok(deleted)
        })
    }

    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        self.inner.list(prefix)
    }
    fn location(&self) -> String {
        self.inner.location()
    }
}
