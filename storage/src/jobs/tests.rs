use super::*;
use crate::objects::{FileObjects, MemoryObjects, ObjectStore};
use model::{
    ContentHash, FailureCause, JobGraph, JobId, JobStatus, JobVertex, JobVertexId, NodeId,
    ProgramRef,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn graph(job: u128) -> JobGraph {
    JobGraph {
        job_id: JobId(job),
        name: format!("job {job}"),
        program: ProgramRef {
            hash: ContentHash([7; 32]),
            name: "words".into(),
            size: 10,
            args: vec!["--input".into()],
            env: BTreeMap::new(),
            once: BTreeMap::from([("seed".into(), vec![0, 255, 1])]),
            job: None,
        },
        nodes: vec![],
        vertices: vec![JobVertex {
            id: JobVertexId(3),
            name: "source".into(),
            nodes: vec![NodeId(0)],
            parallelism: 2,
            max_parallelism: 128,
            slot_sharing_group: "default".into(),
            resources: None,
            source: true,
        }],
        edges: vec![],
        bounded: true,
        options: BTreeMap::new(),
        fingerprint: ContentHash([1; 32]),
    }
}

fn entry(job: u128, status: JobStatus) -> JobResultEntry {
    JobResultEntry {
        job_id: JobId(job),
        name: format!("job {job}"),
        status,
        cause: Some(FailureCause::recoverable("UserError", "it broke")),
        start_ms: 5,
        end_ms: 9,
    }
}

fn stores() -> Vec<(Arc<dyn ObjectStore>, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().unwrap();
    let file = FileObjects::open(dir.path()).unwrap();
    vec![(Arc::new(MemoryObjects::default()), None), (Arc::new(file), Some(dir))]
}

#[test]
fn a_graph_is_stored_once_and_found_again() {
    for (objects, _dir) in stores() {
        let store = JobGraphStore::new(objects.clone());
        store.put(&graph(2)).unwrap();
        store.put(&graph(1)).unwrap();
        assert!(matches!(store.put(&graph(1)), Err(JobStoreError::Exists { .. })));
        let again = JobGraphStore::new(objects);
        assert_eq!(again.recover().unwrap().graphs, [graph(1), graph(2)]);
        assert_eq!(again.get(JobId(2)).unwrap(), Some(graph(2)));
        again.remove(JobId(1)).unwrap();
        again.remove(JobId(1)).unwrap();
        assert_eq!(again.recover().unwrap().graphs, [graph(2)]);
    }
}

#[test]
fn a_damaged_graph_is_told_and_does_not_keep_the_others_from_running() {
    let objects: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::default());
    let store = JobGraphStore::new(objects.clone());
    store.put(&graph(1)).unwrap();
    objects.put("jobs/graphs/xx", bytes::Bytes::from_static(b"FJG1nonsense")).unwrap();
    objects.put("jobs/graphs/yy", bytes::Bytes::from_static(b"")).unwrap();
    let whole = objects.get(&format!("jobs/graphs/{}", JobId(1))).unwrap().unwrap();
    objects.put(&format!("jobs/graphs/{}", JobId(9)), whole).unwrap();
    let found = store.recover().unwrap();
    assert_eq!(found.graphs, [graph(1)]);
    let jobs: Vec<Option<JobId>> = found.damaged.iter().map(|damaged| damaged.job).collect();
    assert_eq!(jobs, [Some(JobId(9)), None, None]);
}

#[test]
fn the_first_result_wins_and_stays() {
    for (objects, _dir) in stores() {
        let store = JobResultStore::new(objects.clone());
        let first = entry(1, JobStatus::Finished);
        assert_eq!(store.record(&first).unwrap(), RecordedResult::Recorded);
        let second = store.record(&entry(1, JobStatus::Failed)).unwrap();
        assert_eq!(second, RecordedResult::EndedBefore(first.clone()));
        assert_eq!(store.dirty().unwrap(), std::slice::from_ref(&first));
        store.mark_clean(JobId(1)).unwrap();
        store.mark_clean(JobId(1)).unwrap();
        assert_eq!(store.dirty().unwrap(), []);
        assert_eq!(store.get(JobId(1)).unwrap(), Some(first));
        assert_eq!(store.get(JobId(2)).unwrap(), None);
        JobGraphStore::new(objects.clone()).put(&graph(1)).unwrap();
        clear(&*objects).unwrap();
        assert_eq!(store.get(JobId(1)).unwrap(), None);
        assert_eq!(objects.list("").unwrap(), Vec::<String>::new());
    }
}

fn bounds(jobs: usize, bytes: u64, age_ms: u64) -> ArchiveBounds {
    ArchiveBounds { jobs, bytes, age_ms }
}

#[test]
fn an_ended_job_is_kept_whole_until_it_is_too_old() {
    for (objects, _dir) in stores() {
        let mut archive = Archive::new(objects.clone(), bounds(10, 1 << 20, 100)).unwrap();
        archive.put(JobId(1), "one", &graph(1), 1000).unwrap();
        archive.put(JobId(2), "two", &graph(2), 1050).unwrap();
        assert_eq!(archive.get::<JobGraph>(JobId(1)).unwrap(), Some(graph(1)));
        archive.expire(1099);
        assert_eq!(archive.summaries().count(), 2);
        archive.expire(1100);
        assert_eq!(archive.summaries().collect::<Vec<_>>(), [(JobId(2), &"two")]);
        assert_eq!(archive.get::<JobGraph>(JobId(1)).unwrap(), None);
        let next = Archive::<()>::new(objects.clone(), bounds(10, 1 << 20, 100)).unwrap();
        assert_eq!(next.summaries().count(), 0);
        assert_eq!(objects.list("").unwrap(), Vec::<String>::new());
    }
}

#[test]
fn failures_within_failures_without_end_do_not_exhaust_the_stack() {
    let objects: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::default());
    let mut archive = Archive::new(objects.clone(), bounds(10, 1 << 20, 100)).unwrap();
    let job = JobId(1);
    archive.put(job, (), &"whole", 0).unwrap();
    // A map with one field: a list of one such map.
    let level = [b"\x81\xaaconcurrent".as_slice(), b"\x91"].concat();
    let name = objects.list("archive/").unwrap().remove(0);
    objects.put(&name, level.repeat(100_000).into()).unwrap();
    let error = archive.get::<model::job::FailureRecord>(job).unwrap_err();
    assert!(error.to_string().contains("depth"), "{error}");
}

#[test]
fn a_job_larger_than_the_archive_is_refused() {
    let mut archive =
        Archive::new(Arc::new(MemoryObjects::default()), bounds(10, 10, 100)).unwrap();
    let refused = archive.put(JobId(1), (), &graph(1), 0).unwrap_err();
    assert!(matches!(refused, ArchiveError::TooLarge { .. }));
}

proptest! {
    #[test]
    fn the_archive_stays_within_its_bounds_and_keeps_the_newest(
        sizes in prop::collection::vec(0usize..300, 0..40), jobs in 1usize..8, bytes in 300u64..900,
    ) {
        let objects: Arc<dyn ObjectStore> = Arc::new(MemoryObjects::default());
        let mut archive = Archive::new(objects.clone(), bounds(jobs, bytes, u64::MAX)).unwrap();
        let mut last = None;
        for (i, size) in sizes.iter().enumerate() {
            let job = JobId(i as u128 % 10);
            if archive.put(job, *size, &"x".repeat(*size), i as u64).is_ok() {
                last = Some(job);
            }
            let names = objects.list("").unwrap();
            let stored: usize = names.iter().map(|n| objects.get(n).unwrap().unwrap().len()).sum();
            prop_assert!(stored as u64 <= bytes);
            prop_assert!(names.len() <= jobs);
            prop_assert_eq!(archive.summaries().count(), names.len());
        }
        if let Some(last) = last {
            prop_assert!(archive.get::<String>(last).unwrap().is_some());
        }
    }
}
