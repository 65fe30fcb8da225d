//! Output files in a local folder, and the URIs of all folders.

use super::*;
use std::{fs, path::Path};

const OWNER: &str = "job-1";

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn pending(folder: &dyn OutputFolder, name: &str, text: &'static str) -> PendingOutput {
    let file = folder.create(name, OWNER).await.unwrap();
    let file = file.write(text.into()).await.unwrap();
    file.write(text.into()).await.unwrap().finish().await.unwrap()
}

#[tokio::test]
async fn a_file_is_hidden_until_it_is_published_once_or_again() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("deep/er");
    let folder = open(path.to_str().unwrap(), &S3Settings::default()).unwrap();
    let file = folder.create("a", OWNER).await.unwrap();
    assert_eq!(names(&path), [".a.job-1.inprogress"]);
    drop(file);
    assert_eq!(names(&path), [""; 0], "a file that is given up is deleted");
    let file = pending(&*folder, "a", "x").await;
    assert_eq!((names(&path), file.bytes), (vec![".a.job-1.pending".to_owned()], 2));
    for _ in 0..2 {
        assert_eq!(folder.publish(file.clone()).await, Ok(Published::Done));
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "xx");
    }
    assert_eq!(names(&path), ["a"]);
    let longer = PendingOutput { bytes: 3, ..file.clone() };
    assert_eq!(folder.publish(longer).await, Ok(Published::Missing), "another file of that name");
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = open(elsewhere.path().to_str().unwrap(), &S3Settings::default()).unwrap();
    assert_eq!(elsewhere.publish(file).await, Ok(Published::Missing));
}

#[tokio::test]
async fn a_pending_file_that_was_changed_is_not_published() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = open(tmp.path().to_str().unwrap(), &S3Settings::default()).unwrap();
    let file = pending(&*folder, "a", "x").await;
    fs::write(tmp.path().join(".a.job-1.pending"), "x").unwrap();
    assert_eq!(folder.publish(file).await, Ok(Published::Damaged { found: 1 }));
    assert_eq!(names(tmp.path()), [".a.job-1.pending"]);
}

#[tokio::test]
async fn the_files_of_an_owner_are_found_and_discarded() {
    let tmp = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", tmp.path().display());
    let folder = open(&uri, &S3Settings::default()).unwrap();
    pending(&*folder, "a", "x").await;
    let kept = folder.create("b.csv", OWNER).await.unwrap();
    folder.create("c", "job-11").await.unwrap().finish().await.unwrap();
    fs::write(tmp.path().join("d.job-1.pending"), "").unwrap();
    let mut found = folder.unpublished(OWNER).await.unwrap();
    found.sort();
    let found_names: Vec<&str> = found.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(found_names, ["a", "b.csv"]);
    for file in found.into_iter().chain([Unpublished { name: "e".into(), hidden: ".e".into() }]) {
        folder.discard(file).await.unwrap();
    }
    assert_eq!(names(tmp.path()), [".c.job-11.pending", "d.job-1.pending"]);
    drop(kept);
    let absent = open("/nonexistent/flott", &S3Settings::default()).unwrap();
    assert_eq!(absent.unpublished(OWNER).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_mark_is_seen_once_in_the_folder_in_which_it_was_left_and_in_no_other_one() {
    let (tmp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, elsewhere) = (local(tmp.path().join("deep/er")), local(other.path()));
    let mark = folder.leave_mark("a", OWNER).await.unwrap().unwrap();
    assert_eq!(folder.unpublished(OWNER).await.unwrap().len(), 1, "a mark that nobody takes");
    assert_eq!(elsewhere.take_mark(&mark).await, Ok(false));
    assert_eq!(folder.take_mark(&mark).await, Ok(true));
    assert_eq!(folder.take_mark(&mark).await, Ok(false));
    assert_eq!(names(&tmp.path().join("deep/er")), [""; 0]);
}

#[tokio::test]
async fn a_mark_that_is_removed_while_it_is_being_left_does_not_appear() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = local(tmp.path().join("out"));
    let leaving = folder.leave_mark("a", OWNER);
    folder.remove_mark("a", OWNER);
    assert_eq!(leaving.await, Ok(None));
    assert!(!tmp.path().join("out").exists());
    // That of another attempt has another name.
    assert!(folder.leave_mark("b", OWNER).await.unwrap().is_some());
}

#[test]
fn a_uri_that_names_no_folder_is_refused() {
    for uri in ["out", "ftp://host/x", "file://host/x", "s3://", "hdfs://", "hdfs://service/"] {
        let error = open(uri, &S3Settings::default()).err();
        assert!(matches!(error, Some(StoreError::UnknownUri { .. })), "{uri}: {error:?}");
    }
}
