//! Reading stores with arbitrary bytes on their disk: job records, details of ended jobs, leader records, checksummed
//! files.

use super::{Target, law, sample, scratch};
use crate::{mutate::mutate, rng::Rng};
use bytes::Bytes;
use gateways::job_master::JobDetails;
use model::{BlobKey, BlobKind};
use model::{JobGraph, JobId, LeaderSession};
use platform::{Platform, inproc::InProcessNetwork};
use std::{fs, sync::Arc, time::Duration};
use storage::{
    blobs::{BlobStore, BlobStoreError, DurableBlobs, MemoryBlobs, hash_bytes},
    ha::{FileElection, FileElectionSettings, Lease},
    jobs::{DetailsStore, JobFact, JobLogs, JobRecord, JobResultEntry, JobState, Writer},
    objects::{FileObjects, MemoryObjects, ObjectStore},
    testing::{Blocking, wait},
};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "stored_graph", make: graph, check: check_graph, memory_max: 0 },
    Target { name: "stored_result", make: result, check: check_result, memory_max: 0 },
    Target { name: "archived_job", make: archived, check: check_archived, memory_max: 0 },
    Target { name: "leader_record", make: leader, check: check_leader, memory_max: 0 },
    Target { name: "object_file", make: file, check: check_file, memory_max: 0 },
    Target { name: "program_copy", make: copy, check: check_copy, memory_max: 0 },
];

const JOB: JobId = JobId(0xab);
const LOG: &str = "1.1.0000000000000001.0";

fn platform() -> Platform {
    Platform::simulated(1, Arc::new(InProcessNetwork::new()))
}

fn writer() -> Writer {
    Writer { session: LeaderSession::default(), address: "host:6123".to_owned() }
}

fn record(fact: JobFact) -> Vec<u8> {
    let record = JobRecord { job: JOB, writer: writer(), fact };
    record.encode().map(|bytes| bytes.to_vec()).unwrap_or_default()
}

fn some_graph(rng: &mut Rng) -> Option<JobGraph> {
    Some(JobGraph { job_id: JOB, ..sample(rng)? })
}

fn graph(rng: &mut Rng) -> Vec<u8> {
    let graph = some_graph(rng).map(|graph| record(JobFact::Graph(Arc::new(graph))));
    let mut bytes = graph.unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

/// Returns the state of a job whose log begins with these records.
fn taken_over(records: &[&[u8]]) -> Result<JobState, String> {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::new());
    wait(async {
        for (number, bytes) in records.iter().enumerate() {
            let name = format!("jobs/{JOB}/{LOG}-{number:010}");
            store.put(&name, Bytes::copy_from_slice(bytes)).await.map_err(|e| e.to_string())?;
        }
        let newest = LeaderSession { nonce: u64::MAX, ..LeaderSession::default() };
        let newest =
            LeaderSession { epoch: model::Epoch { store: u64::MAX, process: u64::MAX }, ..newest };
        let leader = Writer { session: newest, address: String::new() };
        let logs = JobLogs::new(store, platform(), Lease::endless());
        let taken = logs.take_over(JOB, None, leader).await;
        taken.map(|taken| taken.state).map_err(|e| e.to_string())
    })
}

/// Checks that a job with any record 0 is running or damaged: it must never disappear.
fn check_graph(input: &[u8]) -> Result<bool, String> {
    match taken_over(&[input])? {
        JobState::Running(graph) => {
            law(graph.job_id == JOB, || format!("the graph of job {}", graph.job_id))?;
            Ok(true)
        }
        JobState::Damaged { why, .. } => {
            law(!why.is_empty(), || "nobody says what is damaged".to_owned())?;
            Ok(false)
        }
        state => Err(format!("a job with a first record is {state:?}")),
    }
}

fn result(rng: &mut Rng) -> Vec<u8> {
    let entry: Option<JobResultEntry> = sample(rng);
    let entry = entry.map(|entry| JobResultEntry { job_id: JOB, ..entry });
    let fact = entry.map(|entry| match rng.one_in(4) {
        true => JobFact::CheckpointNumber(rng.next()),
        false => JobFact::Result(Box::new(entry)),
    });
    let mut bytes = fact.map(record).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

/// Checks that a job counts as running only if no record after its graph is damaged.
fn check_result(input: &[u8]) -> Result<bool, String> {
    let graph = (0..64).find_map(|seed| some_graph(&mut Rng::new(seed))).ok_or("no graph")?;
    let first = record(JobFact::Graph(Arc::new(graph)));
    let readable = JobRecord::try_decode(input).is_ok();
    match taken_over(&[&first, input])? {
        JobState::Running(_) => {
            law(readable, || "a damaged record was taken for none".to_owned())?;
            Ok(true)
        }
        JobState::Ended(_) => Ok(true),
        JobState::Removed => Ok(true),
        JobState::Damaged { .. } => {
            law(!readable, || "a record that can be read is damaged".to_owned())?;
            Ok(false)
        }
        JobState::Ghost => Err("a job with a first record is none".to_owned()),
    }
}

fn archived(rng: &mut Rng) -> Vec<u8> {
    let details: Option<JobDetails> = sample(rng);
    let bytes = details.and_then(|d| DetailsStore::encode(&d).ok());
    let mut bytes = bytes.map(|bytes| bytes.to_vec()).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

fn check_archived(input: &[u8]) -> Result<bool, String> {
    let details = DetailsStore::new(Arc::new(MemoryObjects::new()));
    wait(async {
        let bytes = Bytes::copy_from_slice(input);
        details.clone().put("archive/x".to_owned(), bytes).await.map_err(|e| e.to_string())?;
        Ok(matches!(details.get::<JobDetails>("archive/x".to_owned()).await, Ok(Some(_))))
    })
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
    let second = Duration::from_secs(1);
    let settings = FileElectionSettings { lease_duration: second, renew_interval: second };
    let read = wait(async {
        store.put(&name, Bytes::copy_from_slice(input)).await?;
        FileElection::new(platform(), store, settings).read_leader().await
    });
    let record = read.map_err(|e| e.to_string())?.ok_or("the epoch is not seen")?;
    law(record.store_epoch == 7, || format!("epoch {} for 7", record.store_epoch))?;
    Ok(!record.node.is_empty())
}

fn file(rng: &mut Rng) -> Vec<u8> {
    let content = rng.bytes(24);
    let written = scratch::with(|folder| {
        let store = Blocking::new(FileObjects::open(folder).map_err(|e| e.to_string())?);
        store.put("written", content.into()).map_err(|e| e.to_string())?;
        fs::read(folder.join("written")).map_err(|e| e.to_string())
    });
    let mut bytes = written.unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

/// Checks that a file reads as it was written, or gives an error because its checksum differs.
fn check_file(input: &[u8]) -> Result<bool, String> {
    scratch::with(|folder| {
        let store = Blocking::new(FileObjects::open(folder).map_err(|e| e.to_string())?);
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

const PROGRAM: &[u8] = b"program";

/// Objects below `programs/`, one per line: the name, a space and the content.
fn copy(rng: &mut Rng) -> Vec<u8> {
    let of = hash_bytes(PROGRAM);
    let mut bytes = format!("{of}/{LOG}/0 program\n{of}/{LOG}/whole.7 \n").into_bytes();
    mutate(&mut bytes, rng);
    bytes
}

/// Checks that a program is restored exactly or not at all, whatever the object store holds.
fn check_copy(input: &[u8]) -> Result<bool, String> {
    let key = BlobKey {
        job: None,
        hash: hash_bytes(PROGRAM),
        kind: BlobKind::Permanent,
        size: PROGRAM.len() as u64,
    };
    wait(async {
        let objects = MemoryObjects::new();
        for line in input.split(|byte| *byte == b'\n') {
            let mut parts = line.splitn(2, |byte| *byte == b' ');
            let name = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
            let content = Bytes::copy_from_slice(parts.next().unwrap_or_default());
            // A name that no store takes cannot be there.
            let _ = objects.put(&format!("programs/{name}"), content).await;
        }
        let store = DurableBlobs::new(Arc::new(MemoryBlobs::new()), Arc::new(objects));
        store.lead(LeaderSession::default());
        store.keys().await.map_err(|e| e.to_string())?;
        match store.read(&key, 0, 100).await {
            Ok(read) => law(read == PROGRAM, || format!("{read:?} is given out")).map(|()| true),
            Err(BlobStoreError::NotFound(_)) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    })
}
