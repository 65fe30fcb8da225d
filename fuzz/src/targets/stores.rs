//! What a store gives back after its disk had its own ideas: job graphs, results, leader records,
//! checksummed files.

use super::{Target, law, sample, scratch};
use crate::{mutate::mutate, rng::Rng};
use bytes::Bytes;
use gateways::job_master::JobDetails;
use model::{JobGraph, JobId};
use platform::{Platform, inproc::InProcessNetwork};
use std::{fs, sync::Arc, time::Duration};
use storage::{
    ha::{FileElection, FileElectionSettings},
    jobs::{Archive, ArchiveBounds, JobGraphStore, JobResultEntry, JobResultStore},
    objects::{FileObjects, MemoryObjects, ObjectStore},
};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "stored_graph", make: graph, check: check_graph, memory_max: 0 },
    Target { name: "stored_result", make: result, check: check_result, memory_max: 0 },
    Target { name: "archived_job", make: archived, check: check_archived, memory_max: 0 },
    Target { name: "leader_record", make: leader, check: check_leader, memory_max: 0 },
    Target { name: "object_file", make: file, check: check_file, memory_max: 0 },
];

/// The name and the bytes of the one object that `store` holds.
fn only_object(store: &dyn ObjectStore) -> Option<(String, Vec<u8>)> {
    let name = store.list("").ok()?.into_iter().next()?;
    let bytes = store.get(&name).ok()??.to_vec();
    Some((name, bytes))
}

/// A store that holds `bytes` under the name that `write` uses.
fn holding(
    bytes: &[u8],
    write: impl FnOnce(Arc<dyn ObjectStore>),
) -> Result<Arc<dyn ObjectStore>, String> {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::new());
    write(Arc::clone(&store));
    let (name, _) = only_object(&*store).ok_or("nothing was stored")?;
    store.put(&name, Bytes::copy_from_slice(bytes)).map_err(|e| e.to_string())?;
    Ok(store)
}

const JOB: JobId = JobId(0xab);

fn some_graph(rng: &mut Rng) -> Option<JobGraph> {
    Some(JobGraph { job_id: JOB, ..sample(rng)? })
}

fn graph(rng: &mut Rng) -> Vec<u8> {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::new());
    if let Some(graph) = some_graph(rng) {
        let _ = JobGraphStore::new(Arc::clone(&store)).put(&graph);
    }
    let mut bytes = only_object(&*store).map(|(_, bytes)| bytes).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

fn check_graph(input: &[u8]) -> Result<bool, String> {
    let write = |store| {
        if let Some(graph) = (0..64).find_map(|seed| some_graph(&mut Rng::new(seed))) {
            let _ = JobGraphStore::new(store).put(&graph);
        }
    };
    let store = JobGraphStore::new(holding(input, write)?);
    let one = store.get(JOB);
    let all = store.recover().map_err(|e| e.to_string())?;
    law(all.graphs.len() + all.damaged.len() == 1, || {
        "a damaged graph is neither kept nor named".to_owned()
    })?;
    law(one.is_ok() == (all.graphs.len() == 1), || {
        "one graph alone reads otherwise than all".to_owned()
    })?;
    Ok(one.is_ok())
}

fn some_result(rng: &mut Rng) -> Option<JobResultEntry> {
    Some(JobResultEntry { job_id: JOB, ..sample(rng)? })
}

fn result(rng: &mut Rng) -> Vec<u8> {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::new());
    if let Some(entry) = some_result(rng) {
        let _ = JobResultStore::new(Arc::clone(&store)).record(&entry);
    }
    let mut bytes = only_object(&*store).map(|(_, bytes)| bytes).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

fn check_result(input: &[u8]) -> Result<bool, String> {
    let write = |store| {
        if let Some(entry) = (0..64).find_map(|seed| some_result(&mut Rng::new(seed))) {
            let _ = JobResultStore::new(store).record(&entry);
        }
    };
    let store = JobResultStore::new(holding(input, write)?);
    let _ = store.dirty().map_err(|e| e.to_string())?;
    Ok(matches!(store.get(JOB), Ok(Some(_))))
}

fn archive_in(store: Arc<dyn ObjectStore>) -> Result<Archive<()>, String> {
    let bounds = ArchiveBounds { jobs: 8, bytes: 1 << 30, age_ms: u64::MAX };
    let mut archive = Archive::new(store, bounds).map_err(|e| e.to_string())?;
    archive.put(JOB, (), &(), 0).map_err(|e| e.to_string())?;
    Ok(archive)
}

fn archived(rng: &mut Rng) -> Vec<u8> {
    let details: Option<JobDetails> = sample(rng);
    let mut bytes = details.and_then(|d| rmp_serde::to_vec_named(&d).ok()).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

fn check_archived(input: &[u8]) -> Result<bool, String> {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::new());
    let archive = archive_in(Arc::clone(&store))?;
    let (name, _) = only_object(&*store).ok_or("nothing was archived")?;
    store.put(&name, Bytes::copy_from_slice(input)).map_err(|e| e.to_string())?;
    Ok(matches!(archive.get::<JobDetails>(JOB), Ok(Some(_))))
}

fn leader(rng: &mut Rng) -> Vec<u8> {
    let record =
        r#"{"store_epoch":7,"node":"host:6123","rest":"http://host:8081","identity":"1/2"}"#;
    let mut bytes = record.as_bytes().to_vec();
    mutate(&mut bytes, rng);
    bytes
}

/// Whatever the record holds, its epoch counts: another process must not take it for nobody's.
fn check_leader(input: &[u8]) -> Result<bool, String> {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::new());
    let name = format!("leader/epoch-{:020}", 7);
    store.put(&name, Bytes::copy_from_slice(input)).map_err(|e| e.to_string())?;
    let second = Duration::from_secs(1);
    let settings = FileElectionSettings { lease_duration: second, renew_interval: second };
    let platform = Platform::simulated(1, Arc::new(InProcessNetwork::new()));
    let read = FileElection::new(platform, store, settings).read_leader();
    let record = read.map_err(|e| e.to_string())?.ok_or("the epoch is not seen")?;
    law(record.store_epoch == 7, || format!("epoch {} for 7", record.store_epoch))?;
    Ok(!record.node.is_empty())
}

fn file(rng: &mut Rng) -> Vec<u8> {
    let content = rng.bytes(24);
    let written = scratch::with(|folder| {
        let store = FileObjects::open(folder).map_err(|e| e.to_string())?;
        store.put("written", content.into()).map_err(|e| e.to_string())?;
        fs::read(folder.join("written")).map_err(|e| e.to_string())
    });
    let mut bytes = written.unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

/// What is read is what was written, or an error: the checksum says so.
fn check_file(input: &[u8]) -> Result<bool, String> {
    scratch::with(|folder| {
        let store = FileObjects::open(folder).map_err(|e| e.to_string())?;
        fs::write(folder.join("damaged"), input).map_err(|e| e.to_string())?;
        match store.get("damaged") {
            Ok(Some(content)) => {
                law(input.ends_with(&content), || "other bytes than are in the file".to_owned())?;
                Ok(true)
            }
            Ok(None) => Err("the file is there, but was not found".to_owned()),
            Err(_) => Ok(false),
        }
    })
}
