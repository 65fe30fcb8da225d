//! Publication, with kills and on file systems that can't exchange names.

use super::{super::tests::output, *};
use std::{
    ffi::OsString,
    os::unix::fs::{PermissionsExt, symlink},
};

const JOB: JobId = JobId(1);
const OTHER: JobId = JobId(2);

type Exchange = fn(&Path, &Path) -> Result<(), Errno>;

fn no_exchange(_: &Path, _: &Path) -> Result<(), Errno> {
    Err(Errno::EINVAL)
}

/// Both ways, of which a file system has one.
const WAYS: [Exchange; 2] = [exchange, no_exchange];

fn publication(destination: &Path, job: JobId, way: Exchange) -> Publication {
    let mut publication = Publication::new(destination.to_owned(), job);
    publication.exchange = way;
    publication
}

/// A job's publication of "new", whose committer still lives.
fn published(out: &Path, folder: bool, way: Exchange) -> Publication {
    let mut first = publication(out, JOB, way);
    first.start().unwrap();
    make(&first.ready(), folder, "new");
    first.publish().unwrap();
    first
}

/// Makes a file, or a folder with one part.
fn make(path: &Path, folder: bool, text: &str) {
    if folder {
        fs::create_dir(path).unwrap();
        fs::write(path.join("part-00000"), text).unwrap();
    } else {
        fs::write(path, text).unwrap();
    }
}

fn text(path: &Path) -> String {
    let part = path.join("part-00000");
    fs::read_to_string(if path.is_dir() { &part } else { path }).unwrap()
}

fn names(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Every kind of result over every kind of earlier result, both ways.
fn every_kind(test: impl Fn(&Path, bool, bool, Exchange)) {
    for way in WAYS {
        for (before, now) in [(false, false), (false, true), (true, false), (true, true)] {
            let (_tmp, out) = output();
            test(&out, before, now, way);
        }
    }
}

#[test]
fn a_result_replaces_an_earlier_one_of_any_kind() {
    every_kind(|out, before, now, way| {
        make(out, before, "old");
        let mut publication = publication(out, JOB, way);
        publication.start().unwrap();
        make(&publication.ready(), now, "new");
        publication.publish().unwrap();
        assert_eq!(text(out), "new");
        publication.clean_up();
        assert_eq!(names(out.parent().unwrap()), ["out"]);
    });
}

#[test]
fn a_kill_between_two_renames_loses_nothing() {
    let (_tmp, out) = output();
    for next in [JOB, OTHER] {
        make(&out, true, "old");
        let mut killed = publication(&out, JOB, no_exchange);
        killed.start().unwrap();
        make(&killed.ready(), true, "new");
        fs::rename(&out, killed.earlier()).unwrap();
        if next == OTHER {
            // While the job lives it is not touched.
            let mut other = publication(&out, OTHER, no_exchange);
            other.start().unwrap();
            assert!(!out.exists());
            other.clean_up();
        }
        drop(killed);
        let mut restarted = publication(&out, next, no_exchange);
        restarted.start().unwrap();
        assert_eq!(text(&out), "old");
        restarted.clean_up();
        assert_eq!(text(&out), "old");
        publication(&out, JOB, no_exchange).clean_up();
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn a_second_rename_that_fails_puts_the_earlier_result_back() {
    let (_tmp, out) = output();
    make(&out, true, "old");
    let mut publication = publication(&out, JOB, no_exchange);
    publication.start().unwrap();
    let absent = publication.staging().join("absent");
    publication.place(&absent, &publication.earlier()).unwrap_err();
    assert_eq!(text(&out), "old");
}

#[test]
fn a_result_that_stands_is_published_whatever_a_call_says() {
    /// Does the exchange and reports an error, as over NFS when an answer is lost and the request
    /// is repeated.
    fn done_but_told_otherwise(one: &Path, other: &Path) -> Result<(), Errno> {
        exchange(one, other)?;
        Err(Errno::ENOENT)
    }
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let out = folder.join("out");
    make(&out, false, "old");
    let mut publication = publication(&out, JOB, done_but_told_otherwise);
    publication.start().unwrap();
    make(&publication.ready(), false, "new");
    // A folder that may be changed and not be listed can't be synced (unless by root).
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o300)).unwrap();
    let published = publication.publish();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    published.unwrap();
    assert_eq!(text(&out), "new");
}

#[test]
fn a_refusal_leaves_the_earlier_result() {
    fn refused(_: &Path, _: &Path) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }
    let (_tmp, out) = output();
    make(&out, false, "old");
    let mut publication = publication(&out, JOB, refused);
    publication.start().unwrap();
    make(&publication.ready(), false, "new");
    assert_eq!(publication.publish().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    publication.clean_up();
    assert_eq!(text(&out), "old");
}

/// Makes a folder look as if nothing had been written in it for that long.
fn age(folder: &Path, by: Duration) {
    let then = modified(folder).unwrap() - by;
    let paths = names(folder).into_iter().map(|name| folder.join(name));
    for path in paths.chain([folder.to_owned()]) {
        File::open(path).unwrap().set_modified(then).unwrap();
    }
}

#[test]
fn staging_folders_of_jobs_that_are_gone_are_removed_after_a_day() {
    let (tmp, out) = output();
    let stage = |job: u128, days: u32| {
        let mut publication = publication(&out, JobId(job), exchange);
        publication.start().unwrap();
        fs::write(publication.staging().join("part-00000"), "x").unwrap();
        age(publication.staging(), Duration::from_secs(60 * 60 * 24) * days);
        publication
    };
    let alive = stage(10, 2);
    let (gone, young, writing, without) = (stage(11, 2), stage(12, 0), stage(13, 2), stage(14, 2));
    fs::write(writing.staging().join("part-00001"), "x").unwrap();
    fs::remove_file(without.staging().join(LOCK)).unwrap();
    age(without.staging(), Duration::from_secs(60 * 60 * 24 * 2));
    let paths = [&gone, &young, &writing, &without].map(|p| p.staging().to_owned());
    drop((gone, young, writing, without));
    // What only looks like one.
    let linked = tmp.path().join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(&linked, staging(&out, JobId(15))).unwrap();
    fs::create_dir(tmp.path().join(".out.flott-notes")).unwrap();

    published(&out, false, exchange).remove_stale();
    assert!(alive.staging().exists(), "its committer lives");
    let left = paths.map(|path| path.exists());
    assert_eq!(left, [false, true, true, true]);
    assert!(linked.exists() && tmp.path().join(".out.flott-notes").exists());
}

/// A folder stands for a part on a file system without hard links: the system refuses to link either for the same reason.
#[test]
fn a_part_that_cannot_be_linked_leaves_no_folder_behind_and_takes_none_from_others() {
    let (tmp, out) = output();
    let stage = staging(&out, JOB);
    let (part, without) = (stage.join("part-00000"), stage.join("part-00001"));
    fs::create_dir_all(&without).unwrap();
    keep(&without).unwrap();
    let names = || fs::read_dir(tmp.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(names().collect::<Vec<_>>(), std::slice::from_ref(&stage), "no empty folder");

    fs::write(&part, "x").unwrap();
    keep(&part).unwrap();
    keep(&without).unwrap();
    assert_eq!(fs::read_to_string(kept(&part).unwrap()).unwrap(), "x");
}
