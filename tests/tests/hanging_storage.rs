//! A storage directory that hangs, as on a network file system whose server is gone.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{SOON, passthrough::PassthroughMount};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Time for which a frozen mount is watched for an operation that should not return.
const WATCHED: Duration = Duration::from_millis(500);

/// Creates an object as the file object store does: writes and flushes a temporary file, then links it under its name
/// unless the name exists.
fn create(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".{name}.part"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary, folder.join(name));
    fs::remove_file(&temporary)?;
    File::open(folder)?.sync_all()?;
    linked
}

#[test]
fn every_operation_passes_through() {
    let dir = tempfile::tempdir().unwrap();
    let mount = PassthroughMount::start(dir.path()).unwrap_or_else(|e| panic!("{e}"));
    let (shown, stored) = (mount.path().join("jobs"), dir.path().join("jobs"));

    create(&shown, "one", b"first").unwrap();
    assert_eq!(fs::read(stored.join("one")).unwrap(), b"first");
    let taken = create(&shown, "one", b"second").unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(stored.join("one")).unwrap(), b"first");

    fs::rename(shown.join("one"), shown.join("two")).unwrap();
    let names: Vec<_> =
        fs::read_dir(&stored).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["two"]);

    // A change that another process makes in the directory is seen at once, because nothing is cached.
    fs::write(stored.join("two"), b"changed behind the mount").unwrap();
    assert_eq!(fs::read(shown.join("two")).unwrap(), b"changed behind the mount");
    assert_eq!(
        fs::metadata(shown.join("two")).unwrap().size(),
        fs::metadata(stored.join("two")).unwrap().size()
    );
    fs::remove_file(stored.join("two")).unwrap();
    assert!(!shown.join("two").exists());

    File::create(shown.join("three")).unwrap().set_len(100).unwrap();
    assert_eq!(fs::metadata(stored.join("three")).unwrap().len(), 100);
    fs::remove_dir_all(&shown).unwrap();
    assert!(!stored.exists());

    // Dropping the guard has unmounted the directory.
    let path = mount.path().to_owned();
    drop(mount);
    assert!(!path.exists());
}

#[test]
fn while_frozen_nothing_returns_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mount = PassthroughMount::start(dir.path()).unwrap_or_else(|e| panic!("{e}"));
    let mut open = File::create(mount.path().join("open")).unwrap();
    create(mount.path(), "known", b"known").unwrap();

    mount.freeze();
    let (sender, done) = mpsc::channel();
    let in_background = |name: &'static str, operation: Box<dyn FnOnce() + Send>| {
        let sender = sender.clone();
        thread::spawn(move || {
            operation();
            sender.send(name).unwrap();
        })
    };
    let (shown, shown_too) = (mount.path().to_owned(), mount.path().to_owned());
    let threads = [
        in_background("write to an open file", Box::new(move || open.write_all(b"late").unwrap())),
        in_background("create", Box::new(move || create(&shown, "new", b"late").unwrap())),
        in_background("look", Box::new(move || assert!(shown_too.join("known").is_file()))),
    ];
    assert_eq!(done.recv_timeout(WATCHED), Err(RecvTimeoutError::Timeout));
    assert_eq!(fs::read(dir.path().join("open")).unwrap(), b"");
    assert!(!dir.path().join("new").exists());

    mount.thaw();
    for _ in &threads {
        done.recv_timeout(SOON).unwrap();
    }
    assert_eq!(fs::read(dir.path().join("open")).unwrap(), b"late");
    assert_eq!(fs::read(dir.path().join("new")).unwrap(), b"late");
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn the_guard_ends_operations_that_hang() {
    let dir = tempfile::tempdir().unwrap();
    let mount = PassthroughMount::start(dir.path()).unwrap_or_else(|e| panic!("{e}"));
    let mut open = File::create(mount.path().join("open")).unwrap();
    mount.freeze();
    let hanging = thread::spawn(move || open.write_all(b"never"));
    drop(mount);
    // The file was opened before, so its write fails whether or not it had begun.
    assert!(hanging.join().unwrap().is_err());
    assert_eq!(fs::read(dir.path().join("open")).unwrap(), b"");
}

#[test]
fn a_mount_that_is_refused_says_why() {
    let missing = tempfile::tempdir().unwrap().path().join("missing");
    let error = PassthroughMount::start(&missing).err().unwrap();
    assert!(error.contains("cannot open"), "{error}");
}
