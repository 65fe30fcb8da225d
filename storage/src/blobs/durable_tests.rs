//! Copies of programs across JobManagers, each of which has files of its own.

use super::*;
use crate::jobs::LogId;
use crate::objects::{Fault, FaultyObjects, MemoryObjects, ObjectStore as _};
use model::{Epoch, LeaderSession};
use std::{sync::Arc, time::Duration};

fn leader(epoch: u64) -> LeaderSession {
    LeaderSession { epoch: Epoch { store: epoch, process: 0 }, nonce: epoch }
}

/// The blobs of another JobManager on these objects, which leads.
fn leading(objects: &MemoryObjects, epoch: u64) -> DurableBlobs {
    let blobs = standby(objects);
    blobs.lead(leader(epoch));
    blobs
}

fn standby(objects: &MemoryObjects) -> DurableBlobs {
    DurableBlobs::new(Arc::new(MemoryBlobs::new()), Arc::new(objects.clone()))
}

/// The blobs of another JobManager, which leads, on these objects behind faults that the test sets.
fn faulty_leading(objects: &MemoryObjects, epoch: u64) -> (FaultyObjects, DurableBlobs) {
    let faulty = FaultyObjects::new(Arc::new(objects.clone()));
    let blobs = DurableBlobs::new(Arc::new(MemoryBlobs::new()), Arc::new(faulty.clone()));
    blobs.lead(leader(epoch));
    (faulty, blobs)
}

/// The program, of which these blobs have made a copy.
async fn kept_program(blobs: &DurableBlobs) -> BlobKey {
    let key = program(blobs).await;
    blobs.keep(&key).await.unwrap();
    key
}

async fn program(blobs: &DurableBlobs) -> BlobKey {
    store_bytes(blobs, b"program", None, BlobKind::Permanent).await.unwrap()
}

async fn copies(objects: &MemoryObjects) -> usize {
    objects.list("programs/").await.unwrap().iter().filter(|name| name.contains("whole.")).count()
}

#[tokio::test]
async fn another_jobmanager_finds_a_program_that_was_kept_and_no_other() {
    let objects = MemoryObjects::new();
    let a = leading(&objects, 1);
    // Two parts, the second of which is short.
    let bytes: Vec<u8> = (0..(8 << 20) + 5_u32).map(|i| (i % 251) as u8).collect();
    let kept = store_bytes(&a, &bytes, None, BlobKind::Permanent).await.unwrap();
    let other = program(&a).await;
    a.keep(&kept).await.unwrap();
    for b in [leading(&objects, 2), standby(&objects)] {
        assert_eq!(b.read(&kept, 8 << 20, 100).await.unwrap(), &bytes[8 << 20..]);
    }
    let c = leading(&objects, 3);
    assert_eq!(c.keys().await.unwrap(), [kept]);
    assert_eq!(c.find(None, kept.hash).await, Ok(Some(kept)));
    assert_eq!(c.find(None, other.hash).await, Ok(None));
    assert_eq!(c.path(&other).await, Err(BlobStoreError::NotFound(other.hash)));
}

#[tokio::test]
async fn a_program_is_copied_once_in_a_leadership_and_again_by_the_next_leader() {
    let objects = MemoryObjects::new();
    let a = leading(&objects, 1);
    let key = program(&a).await;
    let (first, second) = tokio::join!(a.keep(&key), a.keep(&key));
    assert_eq!((first, second), (Ok(()), Ok(())));
    a.keep(&key).await.unwrap();
    assert_eq!(copies(&objects).await, 1);
    let b = leading(&objects, 2);
    b.keep(&key).await.unwrap();
    assert_eq!(copies(&objects).await, 2);
    assert_eq!(b.remove(&key).await, Ok(true));
    assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
    assert_eq!(b.find(None, key.hash).await, Ok(None));
}

/// Leader A hangs in the removal of a program that nothing needs. A job with the program is submitted at leader B. Then
/// A's removal takes effect.
#[tokio::test(start_paused = true)]
async fn a_removal_that_takes_effect_late_does_not_reach_the_copy_of_the_next_leader() {
    let objects = MemoryObjects::new();
    let (slow, a) = faulty_leading(&objects, 1);
    let key = kept_program(&a).await;
    for fault in [FaultyObjects::set_reads, FaultyObjects::set_writes] {
        fault(&slow, Fault::Hang);
        let mut late = a.remove(&key);
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut late).await.is_err());
        let b = leading(&objects, 2);
        kept_program(&b).await;
        fault(&slow, Fault::None);
        late.await.unwrap();
        assert_eq!(copies(&objects).await, 1, "the copy of B");
        assert_eq!(standby(&objects).read(&key, 0, 100).await.unwrap(), "program");
        // The next round begins as this one did.
        b.remove(&key).await.unwrap();
        kept_program(&a).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_does_not_reach_a_copy_that_the_same_leader_makes_meanwhile() {
    let objects = MemoryObjects::new();
    let (slow, a) = faulty_leading(&objects, 1);
    let key = kept_program(&a).await;
    slow.set_reads(Fault::Hang);
    let mut removal = a.remove(&key);
    assert!(tokio::time::timeout(Duration::from_secs(9), &mut removal).await.is_err());
    kept_program(&a).await;
    slow.set_reads(Fault::None);
    assert_eq!(removal.await, Ok(true));
    assert_eq!(copies(&objects).await, 1);
}

/// The recovered job of a leader is cancelled, or its whole cluster ended, while its program is still being restored and copied.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_program_that_is_removed_while_it_is_copied() {
    for ends in [false, true] {
        let objects = MemoryObjects::new();
        let bytes = vec![7; 9 << 20];
        let a = leading(&objects, 1);
        let key = store_bytes(&a, &bytes, None, BlobKind::Permanent).await.unwrap();
        a.keep(&key).await.unwrap();
        let (slow, b) = faulty_leading(&objects, 2);
        slow.set_writes(Fault::Hang);
        let mut copying = b.keep(&key);
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut copying).await.is_err());
        let mut removing = Box::pin(async {
            if ends {
                b.clear().await.unwrap();
            } else {
                assert!(b.remove(&key).await.unwrap());
            }
        });
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut removing).await.is_err());
        slow.set_writes(Fault::None);
        let ((), copied) = tokio::join!(removing, copying);
        assert_eq!(copied, Err(BlobStoreError::NotFound(key.hash)));
        assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_standby_removes_no_copies() {
    let objects = MemoryObjects::new();
    let a = leading(&objects, 1);
    let key = kept_program(&a).await;
    let b = standby(&objects);
    program(&b).await;
    assert_eq!(b.keep(&key).await.unwrap_err().to_string(), "memory: this process does not lead");
    assert_eq!(b.remove(&key).await, Ok(true));
    assert_eq!(b.keys().await.unwrap(), []);
    assert_eq!(copies(&objects).await, 1);
}

#[tokio::test]
async fn a_copy_that_failed_is_made_by_the_next_job() {
    let objects = MemoryObjects::new();
    let (faulty, a) = faulty_leading(&objects, 1);
    let key = program(&a).await;
    let full = StoreError::DiskFull { path: "programs".to_owned() };
    faulty.set_writes(Fault::Fail(full.clone()));
    assert_eq!(a.keep(&key).await, Err(full.into()));
    faulty.set_writes(Fault::None);
    assert_eq!(a.keep(&key).await, Ok(()));
    assert_eq!(copies(&objects).await, 1);
    let missing = BlobKey { hash: hash_bytes(b"never uploaded"), ..key };
    assert_eq!(a.keep(&missing).await, Err(BlobStoreError::NotFound(missing.hash)));
}

#[tokio::test]
async fn a_damaged_or_half_written_copy_is_passed_over() {
    let objects = MemoryObjects::new();
    let key = kept_program(&leading(&objects, 1)).await;
    for epoch in [2, 3, 4] {
        kept_program(&leading(&objects, epoch)).await;
    }
    let names = objects.list("programs/").await.unwrap();
    let of = |epoch: u64, last: &str| {
        let id = LogId { creator: leader(epoch), count: 0 };
        let mut of = names.iter().filter(|name| name.contains(&format!("/{id}/{last}")));
        of.next().unwrap().clone()
    };
    objects.put(&of(4, "0"), "Program".into()).await.unwrap();
    objects.delete(&of(3, "0")).await.unwrap();
    objects.delete(&of(2, "whole.")).await.unwrap();
    assert_eq!(standby(&objects).read(&key, 0, 100).await.unwrap(), "program");
    objects.delete(&of(1, "0")).await.unwrap();
    assert_eq!(standby(&objects).find(None, key.hash).await, Ok(None));
    // The rest of a copy is listed, so that it is removed once nothing needs it.
    let last = leading(&objects, 5);
    assert_eq!(
        last.keys().await.unwrap().iter().map(|key| key.hash).collect::<Vec<_>>(),
        [key.hash]
    );
    last.remove(&key).await.unwrap();
    assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_damaged_file_is_replaced_by_the_copy() {
    let (dir, objects) = (tempfile::tempdir().unwrap(), MemoryObjects::new());
    let files = || Arc::new(FileBlobs::open(dir.path()).unwrap());
    let a = DurableBlobs::new(files(), Arc::new(objects.clone()));
    a.lead(leader(1));
    let key = kept_program(&a).await;
    std::fs::write(a.path(&key).await.unwrap().unwrap(), b"Program").unwrap();
    let again = DurableBlobs::new(files(), Arc::new(objects.clone()));
    let path = again.path(&key).await.unwrap().unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"program");
}

#[tokio::test]
async fn a_complete_copy_replaces_those_of_earlier_leaders() {
    let objects = MemoryObjects::new();
    let a = leading(&objects, 1);
    let key = kept_program(&a).await;
    let b = leading(&objects, 2);
    assert_eq!(b.keys().await.unwrap(), [key]);
    assert_eq!(copies(&objects).await, 1, "B has none of its own yet");
    b.keep(&key).await.unwrap();
    b.keys().await.unwrap();
    assert_eq!(copies(&objects).await, 1);
    // A's late removal reaches its own copy alone, which is gone.
    a.remove(&key).await.unwrap();
    assert_eq!(standby(&objects).read(&key, 0, 100).await.unwrap(), "program");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_cannot_be_completed_leaves_no_parts() {
    let objects = MemoryObjects::new();
    let slow = FaultyObjects::new(Arc::new(objects.clone()));
    let files = Arc::new(MemoryBlobs::new());
    let a = DurableBlobs::new(Arc::clone(&files) as Arc<dyn BlobStore>, Arc::new(slow.clone()));
    a.lead(leader(1));
    let bytes = vec![7; 3 << 20];
    let key = store_bytes(&a, &bytes, None, BlobKind::Permanent).await.unwrap();
    slow.set_writes(Fault::Slow(Duration::from_secs(1)));
    let mut kept = a.keep(&key);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut kept).await.is_err());
    files.remove(&key).await.unwrap();
    assert_eq!(kept.await, Err(BlobStoreError::NotFound(key.hash)));
    assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_end_of_a_cluster_does_not_reach_the_copies_of_the_next_leader() {
    let objects = MemoryObjects::new();
    let a = leading(&objects, 1);
    let key = kept_program(&a).await;
    let b = leading(&objects, 2);
    b.keep(&key).await.unwrap();
    a.clear().await.unwrap();
    assert_eq!(copies(&objects).await, 1);
    standby(&objects).clear().await.unwrap();
    assert_eq!(copies(&objects).await, 1);
    b.clear().await.unwrap();
    assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_restored_in_order_to_be_removed() {
    let objects = MemoryObjects::new();
    let a = leading(&objects, 1);
    let key = kept_program(&a).await;
    let files = Arc::new(MemoryBlobs::new());
    let b = DurableBlobs::new(Arc::clone(&files) as Arc<dyn BlobStore>, Arc::new(objects.clone()));
    b.lead(leader(2));
    assert_eq!(b.stored(key.hash).await, Ok(Some(key)));
    assert_eq!(files.find(None, key.hash).await, Ok(None));
    assert_eq!(b.remove(&key).await, Ok(true));
    assert_eq!(b.stored(key.hash).await, Ok(None));
}
