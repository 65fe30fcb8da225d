//! The text sink: restored at every point and parallelism, and commits that are repeated.

use super::*;
use crate::{
    sinks::two_phase::{SinkWriterOperator, global_committer},
    testing::{self, SinkHarness, SinkHarnessBuilder, SinkSnapshot},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

fn sink(out: &Path) -> SinkHarnessBuilder<String, TextSink> {
    testing::sink(TextSink::new(out.to_owned()))
}

/// Returns the path of an output that is not there yet, in a folder which is deleted when the first result is dropped.
pub(super) fn output() -> (TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let out = tmp.path().join("out");
    (tmp, out)
}

fn push(test: &mut SinkHarness<String, TextSink>, subtask: u32, lines: &[&str]) {
    lines.iter().for_each(|line| test.push(subtask, (*line).to_owned()).unwrap());
}

/// The lines of the result, whether it is a file or a folder.
fn lines(out: &Path) -> Vec<String> {
    let mut files = vec![out.to_owned()];
    if out.is_dir() {
        files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
    }
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Runs a sink up to its final checkpoint, which is complete and not committed.
fn ended(out: &Path, subtasks: u32) -> SinkSnapshot {
    let mut test = sink(out).subtasks(subtasks).open().unwrap();
    (0..subtasks).for_each(|subtask| push(&mut test, subtask, &["new"]));
    test.end_of_input().unwrap();
    let last = test.barrier(1, true).unwrap();
    test.fail();
    last
}

#[test]
fn a_restored_part_goes_on_behind_the_checkpoint_at_any_parallelism() {
    for (before, after) in [(1_u32, 1_u32), (2, 2), (3, 1), (1, 2), (4, 3)] {
        let (tmp, out) = output();
        let mut test = sink(&out).subtasks(before).open().unwrap();
        (0..before).for_each(|subtask| push(&mut test, subtask, &["first"]));
        let checkpoint = test.barrier(1, false).unwrap();
        test.notify_complete(1).unwrap();
        (0..before).for_each(|subtask| push(&mut test, subtask, &["in no checkpoint"]));
        test.fail();
        assert!(!out.exists(), "not before the end");
        let restored = sink(&out).subtasks(after).attempt(1).restore(checkpoint);
        let mut restored = restored.open().unwrap();
        let again = restored.barrier(2, false).unwrap();
        restored.notify_complete(2).unwrap();
        restored.fail();
        let restored = sink(&out).subtasks(after).attempt(2).restore(again);
        let mut restored = restored.open().unwrap();
        push(&mut restored, 0, &["second"]);
        restored.finish().unwrap();
        let mut found = lines(&out);
        found.sort();
        let mut expected = vec!["first"; before as usize];
        expected.push("second");
        assert_eq!(found, expected, "{before} -> {after}");
        assert_eq!(out.is_dir(), after > 1);
        assert_eq!(entries(tmp.path()), 1, "no leftovers");
    }
}

#[test]
fn a_part_that_has_ended_outlives_restarts_and_one_that_a_restart_has_copied_does_not() {
    let tmp = tempfile::tempdir().unwrap();
    let out = tmp.path().join("out");
    let parts = || {
        let all = fs::read_dir(publish::staging(&out, model::JobId(0))).unwrap().flatten();
        all.filter(|entry| entry.file_name().to_str().unwrap().contains("part-")).count()
    };
    let mut test = sink(&out).open().unwrap();
    push(&mut test, 0, &["of the end"]);
    test.end_of_input().unwrap();
    // Other subtasks of a job go on, so that this is not the final checkpoint.
    let ended = test.barrier(1, false).unwrap();
    test.notify_complete(1).unwrap();
    test.fail();
    let mut restored = sink(&out).attempt(1).restore(ended).open().unwrap();
    push(&mut restored, 0, &["later"]);
    let later = restored.barrier(2, false).unwrap();
    restored.notify_complete(2).unwrap();
    restored.fail();
    let mut restored = sink(&out).attempt(2).restore(later).open().unwrap();
    assert_eq!(parts(), 3);
    restored.barrier(3, false).unwrap();
    restored.notify_complete(3).unwrap();
    assert_eq!(parts(), 2, "the one that has ended, and the one in progress");
    restored.finish().unwrap();
    let mut found = lines(&out);
    found.sort();
    assert_eq!(found, ["later", "of the end"]);
    assert_eq!(entries(tmp.path()), 1);
}

#[test]
fn a_part_that_has_ended_after_the_checkpoint_that_is_restored_is_continued_from_it() {
    let (tmp, out) = output();
    let mut test = sink(&out).open().unwrap();
    push(&mut test, 0, &["before"]);
    let before = test.barrier(1, false).unwrap();
    test.notify_complete(1).unwrap();
    push(&mut test, 0, &["lost"]);
    test.end_of_input().unwrap();
    test.fail();
    let mut restored = sink(&out).attempt(1).restore(before).open().unwrap();
    push(&mut restored, 0, &["after"]);
    restored.finish().unwrap();
    assert_eq!(lines(&out), ["before", "after"]);
    assert_eq!(entries(tmp.path()), 1);
}

#[test]
fn a_commit_that_is_repeated_after_a_crash_at_any_point_publishes_once() {
    for subtasks in [1, 3] {
        for earlier in [false, true] {
            for point in ["parts moved", "exchanged", "published"] {
                let (tmp, out) = output();
                if earlier {
                    fs::write(&out, "old").unwrap();
                }
                let last = ended(&out, subtasks);
                let staging = publish::staging(&out, model::JobId(0));
                let ready = staging.join(publish::READY);
                let mut parts: Vec<_> =
                    fs::read_dir(&staging).unwrap().map(|entry| entry.unwrap().path()).collect();
                parts.retain(|path| path.to_str().unwrap().contains("part-"));
                parts.sort();
                assert_eq!(parts.len() as u32, subtasks);
                if point == "published" {
                    sink(&out).subtasks(subtasks).restore(last.clone()).open().unwrap();
                } else if subtasks == 1 {
                    fs::rename(&parts[0], &ready).unwrap();
                } else {
                    fs::create_dir(&ready).unwrap();
                    let all = if point == "exchanged" { 3 } else { 2 };
                    for (index, part) in parts.iter().enumerate().take(all) {
                        fs::rename(part, ready.join(format!("part-0000{index}"))).unwrap();
                    }
                }
                if point == "exchanged" {
                    let aside = tmp.path().join("aside");
                    let stood = fs::rename(&out, &aside).is_ok();
                    fs::rename(&ready, &out).unwrap();
                    if stood {
                        fs::rename(&aside, &ready).unwrap();
                    }
                }
                for attempt in 1..3 {
                    let restored = sink(&out).subtasks(subtasks).attempt(attempt);
                    let test = restored.restore(last.clone()).open().unwrap();
                    assert!(!test.is_committing());
                    let expected = vec!["new"; subtasks as usize];
                    assert_eq!(lines(&out), expected, "{subtasks} {earlier} {point}");
                }
            }
        }
    }
}

#[test]
fn parts_that_the_committer_does_not_see_fail_the_job_and_keep_the_earlier_result() {
    let (_tmp, out) = output();
    fs::write(&out, "old").unwrap();
    let mut test = sink(&out).subtasks(2).open().unwrap();
    push(&mut test, 1, &["new"]);
    test.end_of_input().unwrap();
    test.barrier(1, true).unwrap();
    // The part of subtask 1 is on another machine.
    let staging = publish::staging(&out, model::JobId(0));
    for entry in fs::read_dir(staging).unwrap().flatten() {
        if entry.file_name().to_str().unwrap().contains("part-00001") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let error = test.notify_complete(1).unwrap_err();
    assert!(!error.is_recoverable());
    let text = error.to_string();
    assert!(text.contains("subtask 1") && text.contains("do not share"), "{text}");
    assert_eq!(lines(&out), ["old"]);
}

#[test]
fn a_folder_that_the_committer_does_not_share_fails_the_job_at_its_start() {
    for shares in [true, false] {
        let (tmp, out) = output();
        let text = Arc::new(Mutex::new(TextSink::new(out.clone())));
        let writer = SinkWriterOperator::<String, TextSink>::new(text.clone());
        let mut writer = testing::operator(writer).subtask(1, 2).open().unwrap();
        let announced = writer.output().remove(0);
        let staging = publish::staging(&out, model::JobId(0));
        if !shares {
            fs::rename(&staging, tmp.path().join("of another machine")).unwrap();
        }
        let committer = global_committer::<String, TextSink>(text);
        let mut committer = testing::operator(committer).open().unwrap();
        let checked = committer.push(announced);
        assert_eq!(checked.is_ok(), shares);
        if let Err(error) = checked {
            let (text, place) = (error.to_string(), format!("'{}'", out.display()));
            assert!(!error.is_recoverable());
            for part in [place.as_str(), "subtask 1", "not shared"] {
                assert!(text.contains(part), "{text}");
            }
            continue;
        }
        writer.fail();
        committer.fail();
        assert_eq!(entries(tmp.path()), 0, "no mark is left");
    }
}

#[test]
fn a_destination_that_became_a_folder_of_somebody_else_fails_the_job() {
    let (_tmp, out) = output();
    let mut test = sink(&out).open().unwrap();
    test.end_of_input().unwrap();
    test.barrier(1, true).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("precious"), "x").unwrap();
    let error = test.notify_complete(1).unwrap_err();
    assert!(!error.is_recoverable() && error.to_string().contains("precious"), "{error}");
    assert!(out.join("precious").exists());
}

#[test]
fn a_job_that_is_cancelled_before_its_first_checkpoint_leaves_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let mut test = sink(&tmp.path().join("out")).subtasks(2).open().unwrap();
    push(&mut test, 0, &["a"]);
    assert_eq!(entries(tmp.path()), 1);
    test.fail();
    assert_eq!(entries(tmp.path()), 0);
    let mut test = sink(&tmp.path().join("out")).open().unwrap();
    test.end_of_input().unwrap();
    test.fail();
    assert_eq!(entries(tmp.path()), 0, "nor one that is cancelled behind its end");
}

#[test]
fn attempts_that_fail_again_and_again_leave_one_mark_each_subtask() {
    let (_tmp, out) = output();
    let text = Arc::new(Mutex::new(TextSink::new(out.clone())));
    for attempt in 0..100 {
        for subtask in 0..2 {
            let writer = SinkWriterOperator::<String, TextSink>::new(text.clone());
            let writer = testing::operator(writer).attempt(attempt).subtask(subtask, 2);
            let mut writer = writer.open().unwrap();
            assert_eq!(writer.output().len(), 1, "announced");
            writer.fail();
        }
    }
    assert_eq!(entries(&publish::staging(&out, model::JobId(0))), 2);
}

#[test]
fn the_savepoint_of_a_drained_job_names_where_its_result_is_when_it_is_restored_to_another_output()
{
    for subtasks in [1, 2] {
        let tmp = tempfile::tempdir().unwrap();
        let (out, other) = (tmp.path().join("out"), tmp.path().join("other"));
        let last = ended(&out, subtasks);
        // The job that was drained publishes its result.
        let drained = sink(&out).subtasks(subtasks).attempt(1).restore(last.clone());
        drained.open().unwrap().fail();
        assert_eq!(lines(&out), vec!["new"; subtasks as usize]);
        let restored = || sink(&other).subtasks(subtasks).job(2).restore(last.clone()).open();
        let error = restored().err().unwrap();
        assert!(!error.is_recoverable());
        let text = error.to_string();
        let published = format!("has ended and published it as its result '{}'", out.display());
        for part in [published.as_str(), "--drain", &format!("'{}'", other.display())] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("do not share"), "{text}");
        assert!(!other.exists());
        // Somebody has replaced the result since.
        fs::remove_file(&out).or_else(|_| fs::remove_dir_all(&out)).unwrap();
        let text = restored().err().unwrap().to_string();
        assert!(text.contains("or it was deleted") && !text.contains("do not share"), "{text}");
    }
}

#[test]
fn an_old_job_and_one_restored_from_its_savepoint_do_not_disturb_each_other() {
    let (tmp, out) = output();
    let mut old = sink(&out).open().unwrap();
    push(&mut old, 0, &["a"]);
    let savepoint = old.barrier(1, false).unwrap();
    let mut restored = sink(&out).job(2).restore(savepoint).open().unwrap();
    push(&mut restored, 0, &["of the restored one"]);
    push(&mut old, 0, &["of the old one"]);
    old.finish().unwrap();
    assert_eq!(lines(&out), ["a", "of the old one"]);
    restored.finish().unwrap();
    assert_eq!(lines(&out), ["a", "of the restored one"]);
    assert_eq!(entries(tmp.path()), 1);
}

#[test]
fn a_savepoint_whose_parts_are_gone_fails_the_job_and_not_again_and_again() {
    let (_tmp, out) = output();
    let mut old = sink(&out).open().unwrap();
    push(&mut old, 0, &["a"]);
    let savepoint = old.barrier(1, false).unwrap();
    old.finish().unwrap();
    let error = sink(&out).job(2).restore(savepoint).open().err().unwrap();
    assert!(!error.is_recoverable(), "{error}");
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_eq!(lines(&out), ["a"], "the earlier result stays");
}

#[test]
fn a_savepoint_behind_the_end_is_committed_by_both_jobs() {
    let (_tmp, out) = output();
    let last = ended(&out, 2);
    sink(&out).subtasks(2).job(2).restore(last.clone()).open().unwrap();
    assert_eq!(lines(&out), ["new", "new"]);
    sink(&out).subtasks(2).attempt(1).restore(last).open().unwrap();
    assert_eq!(lines(&out), ["new", "new"]);
}

/// Returns a savepoint of a sink whose subtasks have written a line each, ended or not, and its parts' kept folder. Afterwards the job has
/// failed, has deleted what was left over, and has published its result.
fn savepoint(out: &Path, subtasks: u32, at_end: bool) -> SinkSnapshot {
    let mut old = sink(out).subtasks(subtasks).open().unwrap();
    (0..subtasks).for_each(|subtask| push(&mut old, subtask, &["in it"]));
    if at_end {
        old.end_of_input().unwrap();
    }
    let savepoint = old.savepoint(1).unwrap();
    old.fail();
    let restarted = sink(out).subtasks(subtasks).attempt(1).restore(savepoint.clone());
    let mut restarted = restarted.open().unwrap();
    restarted.barrier(2, false).unwrap();
    restarted.notify_complete(2).unwrap();
    push(&mut restarted, 0, &["behind it"]);
    restarted.finish().unwrap();
    savepoint
}

#[test]
fn a_savepoint_gives_its_whole_result_after_its_job_has_failed_and_ended_as_often_as_it_is_restored()
 {
    for (before, after, at_end) in
        [(1_u32, 1_u32, false), (2, 3, false), (1, 1, true), (2, 1, true)]
    {
        let (tmp, out) = output();
        let savepoint = savepoint(&out, before, at_end);
        assert_eq!(entries(tmp.path()), 2, "the result, and the parts that are kept");
        fs::remove_file(&out).or_else(|_| fs::remove_dir_all(&out)).unwrap();
        for (job, name) in [(2, "out"), (3, "other"), (4, "other")] {
            let to = tmp.path().join(name);
            let restored = sink(&to).subtasks(after).job(job).restore(savepoint.clone());
            let mut restored = restored.open().unwrap();
            push(&mut restored, 0, &["of the restored job"]);
            restored.finish().unwrap();
            let mut expected = vec!["in it"; before as usize];
            expected.push("of the restored job");
            let mut found = lines(&to);
            found.sort();
            assert_eq!(found, expected, "{before} -> {after}, {at_end}: job {job}");
        }
        assert_eq!(entries(tmp.path()), 3, "both results, and the parts that are kept");
    }
}

#[test]
fn a_savepoint_whose_kept_part_was_truncated_fails_the_job_with_the_files_name_and_not_again_and_again()
 {
    for at_end in [false, true] {
        let (tmp, out) = output();
        let savepoint = savepoint(&out, 1, at_end);
        let list = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let is_kept = |path: &&PathBuf| path.to_string_lossy().ends_with(".kept");
        let folders = list(tmp.path());
        let [kept] = list(folders.iter().find(is_kept).unwrap()).try_into().unwrap();
        let file = fs::File::options().write(true).open(&kept).unwrap();
        file.set_len("in it".len() as u64).unwrap();
        let restored = sink(&tmp.path().join("other")).job(2).restore(savepoint).open();
        // A part that has ended is committed with the others of its job.
        let ended = restored.and_then(SinkHarness::finish);
        let error = ended.err().unwrap_or_else(|| panic!("at end: {at_end}"));
        assert!(!error.is_recoverable(), "{at_end}: {error}");
        let text = error.to_string();
        assert!(text.contains(&kept.display().to_string()), "{at_end}: {text}");
        assert!(text.contains("start the job from another savepoint"), "{at_end}: {text}");
    }
}
