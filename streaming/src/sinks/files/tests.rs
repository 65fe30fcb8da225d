//! The file sink in a local folder: rolling, crashes, other parallelisms, and a folder that is not shared.

use super::*;
use crate::{
    operators::Operator as _,
    sinks::{
        marks,
        two_phase::{Prepared, SinkWriterOperator, global_committer},
    },
    testing::{self, SinkHarness, SinkHarnessBuilder},
};
use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

type Files = FileSink<Lines>;

fn sink(folder: &Path) -> SinkHarnessBuilder<String, Files> {
    testing::sink(FileSink::lines(folder.to_str().unwrap()).rolling(RollingPolicy::on_checkpoint()))
}

fn names(folder: &Path, hidden: bool) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with('.') == hidden).collect();
    names.sort();
    names
}

/// The lines of all finished files.
fn finished(folder: &Path) -> Vec<String> {
    let texts = names(folder, false).into_iter().map(|name| fs::read_to_string(folder.join(name)));
    let mut lines: Vec<String> = texts
        .flat_map(|text| text.unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

fn push(test: &mut SinkHarness<String, Files>, subtask: u32, lines: &[&str]) {
    lines.iter().for_each(|line| test.push(subtask, (*line).to_owned()).unwrap());
}

#[test]
fn a_part_is_in_progress_then_pending_then_finished() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(tmp.path()).subtasks(2).open().unwrap();
    push(&mut test, 1, &["a", "b"]);
    let hidden = names(tmp.path(), true);
    assert!(hidden.len() == 1 && hidden[0].ends_with(".inprogress"), "{hidden:?}");
    test.barrier(1, false).unwrap();
    let hidden = names(tmp.path(), true);
    assert!(hidden.len() == 1 && hidden[0].ends_with(".pending"), "{hidden:?}");
    assert_eq!(names(tmp.path(), false), [""; 0]);
    test.notify_complete(1).unwrap();
    assert_eq!(names(tmp.path(), true), [""; 0]);
    let finished_names = names(tmp.path(), false);
    assert!(finished_names[0].starts_with("part-00001-00000-"), "{finished_names:?}");
    assert_eq!(finished(tmp.path()), ["a", "b"]);
    push(&mut test, 1, &["c"]);
    test.finish().unwrap();
    assert_eq!(
        finished(tmp.path()),
        ["a", "b", "c"],
        "and the last records by the final checkpoint"
    );
    assert_eq!(names(tmp.path(), false).len(), 2);
}

#[test]
fn a_part_ends_at_its_size_and_at_its_age() {
    let tmp = tempfile::tempdir().unwrap();
    let policy = RollingPolicy::on_checkpoint()
        .max_part_bytes(4)
        .rollover_interval(Duration::from_millis(500));
    let files = FileSink::lines(tmp.path().to_str().unwrap()).rolling(policy).suffix(".txt");
    let mut test = testing::sink(files).open().unwrap();
    push(&mut test, 0, &["a", "b", "c"]);
    test.advance_clock_to(499).unwrap();
    push(&mut test, 0, &["d", "e"]);
    test.advance_clock_to(998).unwrap();
    push(&mut test, 0, &["f"]);
    test.advance_clock_to(999).unwrap();
    push(&mut test, 0, &["g"]);
    test.finish().unwrap();
    let texts: Vec<String> = names(tmp.path(), false)
        .into_iter()
        .map(|name| {
            assert!(name.ends_with(".txt"), "{name}");
            fs::read_to_string(tmp.path().join(name)).unwrap().replace('\n', "")
        })
        .collect();
    assert_eq!(texts, ["ab", "cd", "ef", "g"]);
}

#[test]
fn a_record_larger_than_several_pieces_is_written_whole() {
    let tmp = tempfile::tempdir().unwrap();
    let large = "x".repeat(5 << 20);
    let mut test = sink(tmp.path()).open().unwrap();
    push(&mut test, 0, &["a", &large, "b"]);
    test.finish().unwrap();
    assert!(finished(tmp.path()) == ["a", "b", &large]);
}

#[test]
fn a_crash_at_any_point_loses_and_repeats_nothing_at_any_parallelism() {
    for (before, after) in [(1, 1), (2, 2), (3, 1), (1, 3), (4, 2)] {
        for point in ["prepared", "committed", "records behind", "pending behind"] {
            let tmp = tempfile::tempdir().unwrap();
            let mut test = sink(tmp.path()).subtasks(before).open().unwrap();
            for subtask in 0..before {
                push(&mut test, subtask, &[&format!("first {subtask}")]);
            }
            let checkpoint = test.barrier(1, false).unwrap();
            if point != "prepared" {
                test.notify_complete(1).unwrap();
            }
            if point.ends_with("behind") {
                (0..before).for_each(|subtask| push(&mut test, subtask, &["not in a checkpoint"]));
            }
            if point == "pending behind" {
                test.barrier(2, false).unwrap();
            }
            test.fail();
            let restored = sink(tmp.path()).subtasks(after).attempt(1).restore(checkpoint);
            let mut restored = restored.open().unwrap();
            let mut expected: Vec<String> = (0..before).map(|n| format!("first {n}")).collect();
            assert_eq!(finished(tmp.path()), expected, "{before} -> {after}, {point}");
            push(&mut restored, 0, &["second"]);
            restored.finish().unwrap();
            expected.push("second".to_owned());
            assert_eq!(finished(tmp.path()), expected, "{before} -> {after}, {point}");
            assert_eq!(names(tmp.path(), true), [""; 0], "{before} -> {after}, {point}");
        }
    }
}

#[test]
fn finished_parts_that_a_reader_has_taken_away_do_not_fail_a_repeated_commit() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(tmp.path()).open().unwrap();
    push(&mut test, 0, &["first"]);
    let checkpoint = test.barrier(1, false).unwrap();
    test.notify_complete(1).unwrap();
    names(tmp.path(), false)
        .iter()
        .for_each(|name| fs::remove_file(tmp.path().join(name)).unwrap());
    test.fail();
    let mut restored = sink(tmp.path()).attempt(1).restore(checkpoint).open().unwrap();
    push(&mut restored, 0, &["second"]);
    restored.finish().unwrap();
    assert_eq!(finished(tmp.path()), ["second"]);
}

#[test]
fn a_part_that_was_changed_after_it_was_written_fails_the_job_and_stays_hidden() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(tmp.path()).open().unwrap();
    push(&mut test, 0, &["first"]);
    test.barrier(1, false).unwrap();
    let pending = tmp.path().join(&names(tmp.path(), true)[0]);
    fs::File::options().write(true).open(pending).unwrap().set_len(3).unwrap();
    let error = test.notify_complete(1).unwrap_err().to_string();
    for part in ["can never be committed", "has 3 bytes instead of 6"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(names(tmp.path(), false), [""; 0]);
}

#[test]
fn what_is_in_progress_goes_with_its_attempt() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(tmp.path()).open().unwrap();
    push(&mut test, 0, &["a"]);
    assert_eq!(names(tmp.path(), true).len(), 1);
    test.fail();
    assert_eq!(names(tmp.path(), true), [""; 0]);
}

#[test]
fn leftovers_of_other_jobs_and_of_the_running_attempt_stay() {
    let tmp = tempfile::tempdir().unwrap();
    let mut other = sink(tmp.path()).job(7).open().unwrap();
    push(&mut other, 0, &["other"]);
    other.barrier(1, false).unwrap();
    let mut dead = sink(tmp.path()).open().unwrap();
    push(&mut dead, 0, &["dead"]);
    dead.barrier(1, false).unwrap();
    dead.fail();
    let mut test = sink(tmp.path()).attempt(1).open().unwrap();
    push(&mut test, 0, &["a"]);
    test.barrier(1, false).unwrap();
    push(&mut test, 0, &["b"]);
    let before = names(tmp.path(), true).len();
    test.notify_complete(1).unwrap();
    assert_eq!(before, 4);
    let hidden = names(tmp.path(), true);
    assert_eq!(hidden.len(), 2, "of the other job, and in progress: {hidden:?}");
    test.finish().unwrap();
    other.notify_complete(1).unwrap();
    assert_eq!(finished(tmp.path()), ["a", "b", "other"]);
}

#[test]
fn the_parts_of_a_savepoint_are_finished_by_whoever_commits_first() {
    let tmp = tempfile::tempdir().unwrap();
    let mut old = sink(tmp.path()).open().unwrap();
    push(&mut old, 0, &["a"]);
    let savepoint = old.barrier(1, false).unwrap();
    let restored = sink(tmp.path()).job(2).restore(savepoint).open().unwrap();
    assert_eq!(finished(tmp.path()), ["a"]);
    old.notify_complete(1).unwrap();
    old.finish().unwrap();
    restored.finish().unwrap();
    assert_eq!(finished(tmp.path()), ["a"]);
}

#[test]
fn the_parts_of_a_savepoint_outlive_a_failure_of_the_job() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(tmp.path()).subtasks(2).open().unwrap();
    push(&mut test, 0, &["a"]);
    push(&mut test, 1, &["b"]);
    // A checkpoint that is never complete: the savepoint holds its parts too.
    test.barrier(1, false).unwrap();
    push(&mut test, 0, &["c"]);
    let savepoint = test.savepoint(2).unwrap();
    push(&mut test, 0, &["behind"]);
    test.barrier(3, false).unwrap();
    test.fail();
    let mut restarted = sink(tmp.path()).attempt(1).open().unwrap();
    push(&mut restarted, 0, &["a"]);
    restarted.barrier(4, false).unwrap();
    restarted.notify_complete(4).unwrap();
    assert_eq!(names(tmp.path(), true).len(), 3, "what the savepoint holds, and nothing else");
    restarted.finish().unwrap();
    assert_eq!(finished(tmp.path()), ["a"]);
    let restored = sink(tmp.path()).job(2).restore(savepoint).open().unwrap();
    restored.finish().unwrap();
    assert_eq!(finished(tmp.path()), ["a", "a", "b", "c"]);
    assert_eq!(names(tmp.path(), true), [""; 0]);
}

#[test]
fn what_a_savepoint_holds_is_committed_by_the_next_checkpoint() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(tmp.path()).open().unwrap();
    push(&mut test, 0, &["a"]);
    test.savepoint(1).unwrap();
    test.barrier(2, false).unwrap();
    test.notify_complete(2).unwrap();
    assert_eq!(finished(tmp.path()), ["a"]);
    assert_eq!(names(tmp.path(), true), [""; 0]);
    test.finish().unwrap();
}

#[test]
fn a_folder_that_the_committer_does_not_share_fails_the_job_and_is_named() {
    let tmp = tempfile::tempdir().unwrap();
    let shared = tmp.path().join("out");
    let mut test = sink(&shared).subtasks(2).open().unwrap();
    push(&mut test, 1, &["a"]);
    test.barrier(1, false).unwrap();
    // The global committer's process has another folder under this path.
    fs::rename(&shared, tmp.path().join("of another machine")).unwrap();
    fs::create_dir(&shared).unwrap();
    let error = test.notify_complete(1).unwrap_err().to_string();
    for part in ["can never be committed", "subtask 1", "do not share", shared.to_str().unwrap()] {
        assert!(error.contains(part), "{error}");
    }
}

/// The announcement of the writer of subtask 1 of 2.
fn announcement(folder: &Path) -> (Arc<Mutex<Files>>, Prepared<PendingPart>) {
    let files = FileSink::lines(folder.to_str().unwrap());
    let shared = Arc::new(Mutex::new(files));
    let writer = SinkWriterOperator::<String, Files>::new(shared.clone());
    let mut writer = testing::operator(writer).subtask(1, 2).open().unwrap();
    let announced = writer.output().remove(0);
    writer.fail();
    (shared, announced)
}

#[test]
fn a_folder_that_the_committer_does_not_share_fails_the_job_at_its_start() {
    let tmp = tempfile::tempdir().unwrap();
    let shared = tmp.path().join("out");
    let (files, announced) = announcement(&shared);
    // The global committer's process has another folder under this path.
    fs::rename(&shared, tmp.path().join("of another machine")).unwrap();
    let committer = global_committer::<String, Files>(files);
    let mut committer = testing::operator(committer).open().unwrap();
    let error = committer.push(announced).unwrap_err();
    assert!(!error.is_recoverable());
    let (error, host) = (error.to_string(), marks::host());
    let place = format!("'{}'", shared.display());
    let on = format!("on '{host}'");
    for part in [place.as_str(), "subtask 1", on.as_str(), "not shared", "hdfs://", "s3://"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(error.matches(&on).count() == 2, "both machines: {error}");
}

#[test]
fn a_shared_folder_is_recognised_also_if_the_writer_is_gone_and_no_mark_stays() {
    let tmp = tempfile::tempdir().unwrap();
    let (files, announced) = announcement(tmp.path());
    assert_eq!(names(tmp.path(), true).len(), 1, "the announcement may be on its way");
    let committer = global_committer::<String, Files>(files);
    let mut committer = testing::operator(committer).open().unwrap();
    committer.push(announced).unwrap();
    assert_eq!(names(tmp.path(), true), [""; 0]);
    // A mark that no committer has taken, of an attempt under another JobMaster.
    announcement(tmp.path());
    let mark = names(tmp.path(), true).remove(0);
    let other = tmp.path().join(mark.replace("-mark-", "-mark-0"));
    fs::rename(tmp.path().join(&mark), other).unwrap();
    let mut next = sink(tmp.path()).subtasks(2).attempt(1).open().unwrap();
    assert_eq!(names(tmp.path(), true).len(), 1);
    next.barrier(1, false).unwrap();
    next.notify_complete(1).unwrap();
    assert_eq!(names(tmp.path(), true), [""; 0]);
}

#[test]
fn a_writer_that_is_cancelled_takes_its_mark_away_and_one_that_has_failed_leaves_it() {
    let tmp = tempfile::tempdir().unwrap();
    for cancelled in [false, true] {
        let folder = tmp.path().join(format!("{cancelled}"));
        let files = Arc::new(Mutex::new(FileSink::lines(folder.to_str().unwrap())));
        let writer = SinkWriterOperator::<String, Files>::new(files);
        let mut writer = testing::operator(writer).subtask(1, 2).open().unwrap();
        assert_eq!((writer.output().len(), names(&folder, true).len()), (1, 1));
        if cancelled {
            writer.cancel();
        } else {
            writer.fail();
        }
        assert_eq!(names(&folder, true).len(), usize::from(!cancelled));
    }
}

#[test]
fn a_writer_that_fails_before_its_announcement_is_sent_takes_its_mark_away() {
    let tmp = tempfile::tempdir().unwrap();
    let files = Arc::new(Mutex::new(FileSink::lines(tmp.path().to_str().unwrap())));
    let mut writer = SinkWriterOperator::<String, Files>::new(files);
    let upcalls = Arc::new(testing::Host::default());
    let context = testing::context((0, 1), Default::default(), Default::default(), upcalls);
    writer.open(&context).unwrap();
    assert_eq!(names(tmp.path(), true).len(), 1, "the mark is there, its mail is not handled");
    // Another operator of the chain, which is opened later, cannot be restored.
    writer.dispose(&context);
    assert_eq!(names(tmp.path(), true), [""; 0]);
}

#[test]
fn attempts_that_fail_again_and_again_leave_one_mark_and_take_none_of_a_later_attempt() {
    let tmp = tempfile::tempdir().unwrap();
    let files = Arc::new(Mutex::new(FileSink::lines(tmp.path().to_str().unwrap())));
    let failed = |attempt: u32| {
        let writer = SinkWriterOperator::<String, Files>::new(files.clone());
        let writer = testing::operator(writer).attempt(attempt).subtask(1, 2);
        let mut writer = writer.open().unwrap();
        assert_eq!(writer.output().len(), 1, "announced");
        writer.fail();
    };
    (0..100).for_each(failed);
    let left = names(tmp.path(), true);
    assert_eq!(left.len(), 1, "{left:?}");
    // One of an attempt under another JobMaster, of which nobody knows whether it is an earlier one.
    let other = left[0].replace("-mark-", "-mark-0");
    fs::write(tmp.path().join(&other), "").unwrap();
    // An attempt that was superseded long ago and continues now does not take the mark of the newest one.
    failed(7);
    let now = names(tmp.path(), true);
    assert!(now.len() == 3 && now.contains(&left[0]) && now.contains(&other), "{left:?} {now:?}");
}

#[test]
fn a_folder_that_cannot_be_used_now_is_tried_again() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("out");
    let mut test = sink(&folder).option("sink.committer.retries", "3").open().unwrap();
    push(&mut test, 0, &["a"]);
    test.barrier(1, false).unwrap();
    // A folder stands where the file belongs.
    let hidden = names(&folder, true).remove(0);
    let name = hidden.split('.').nth(1).unwrap();
    fs::create_dir_all(folder.join(name).join("x")).unwrap();
    let error = test.notify_complete(1).unwrap_err().to_string();
    assert!(error.contains("not committed after 3 retries"), "{error}");
    assert!(test.is_committing());
}

#[test]
fn what_can_never_be_written_fails_at_once() {
    let unrecoverable = |files: Files, what: &str| {
        let error = testing::sink::<String, _>(files).open().err().unwrap();
        assert!(!error.is_recoverable() && error.to_string().contains(what), "{error}");
    };
    unrecoverable(FileSink::lines("out"), "relative");
    unrecoverable(FileSink::lines("ftp://x/y"), "ftp");
    unrecoverable(FileSink::lines("/tmp/out").suffix("/x"), "'/x'");
}

#[test]
fn a_job_without_periodic_checkpoints_commits_by_its_final_one() {
    for (fail_after, parallelism) in [(&[][..], 1), (&[7, 20][..], 3)] {
        let tmp = tempfile::tempdir().unwrap();
        let folder = tmp.path().join("out").display().to_string();
        let built = crate::api::tests::built(parallelism, move |env| {
            env.sequence(0..5_000).rebalance().sink_to(FileSink::lines(folder.clone()));
        });
        let harness = crate::harness::Harness::new(tmp.path()).budget(100).fail_after(fail_after);
        harness.run(&built).unwrap();
        let mut expected: Vec<String> = (0..5_000).map(|n: u32| n.to_string()).collect();
        expected.sort();
        assert!(finished(&tmp.path().join("out")) == expected, "{parallelism}");
        assert_eq!(names(&tmp.path().join("out"), true), [""; 0]);
    }
}
