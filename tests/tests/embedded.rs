//! The program by itself: an embedded cluster in its own process.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{
    bin, expected_counts, output_lines, repository_text, run, sorted_lines, succeeded, text_file,
};
use std::path::Path;
use std::process::Command;

fn assert_counts(text: &Path, parallelism: &str) {
    let args = ["--input", text.to_str().unwrap(), "--parallelism", parallelism];
    let counted = sorted_lines(&succeeded(run("word_count", args)).stdout);
    assert_eq!(counted, expected_counts(text), "{text:?} × {parallelism}");
}

#[test]
fn the_counts_are_those_of_sort_and_uniq_at_any_parallelism() {
    for parallelism in 1..=16 {
        assert_counts(&repository_text(), &parallelism.to_string());
    }
}

#[test]
fn words_of_other_scripts_are_counted_as_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    let words = "流处理 是\u{3000}什么\t流处理\r\nZürich Zürich\u{b}naïve\u{c}流处理\n\n  ";
    std::fs::write(&text, words.repeat(50)).unwrap();
    for parallelism in ["1", "3", "8"] {
        assert_counts(&text, parallelism);
    }
}

#[test]
fn a_larger_text_and_outputs_of_one_and_of_several_parts() {
    let folder = tempfile::tempdir().unwrap();
    let text = text_file(folder.path(), 200_000);
    for (parallelism, is_folder) in [("1", false), ("4", true)] {
        let out = folder.path().join(format!("out-{parallelism}"));
        let (input, output) = (text.to_str().unwrap(), out.to_str().unwrap());
        let args = ["--input", input, "--output", output, "--parallelism", parallelism];
        succeeded(run("word_count", args));
        assert_eq!(out.is_dir(), is_folder);
        assert_eq!(output_lines(&out), expected_counts(&text));
    }
}

#[test]
fn a_relative_path_is_of_the_start_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "a b a\n").unwrap();
    let mut command = Command::new(bin("word_count"));
    let run = command.current_dir(folder.path()).args(["--input", "text"]).output();
    assert_eq!(sorted_lines(&succeeded(run.unwrap()).stdout), ["a\t2", "b\t1"]);
}

#[test]
fn a_missing_input_is_an_error_with_its_path() {
    let run = run("word_count", ["--input", "/no/such/text"]);
    assert_eq!(run.status.code(), Some(3), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8_lossy(&run.stderr).contains("/no/such/text"));
}

#[test]
fn nothing_but_results_is_printed() {
    let run = run("word_count", ["--input", repository_text().to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
}

/// Writes a text of 400,000 words, of which no two are equal: some 20 MiB of state.
fn write_many_words(text: &Path) {
    let words: String = (0..400_000).map(|n| format!("word-{n:020}\n")).collect();
    std::fs::write(text, words).unwrap();
}

#[test]
fn a_job_without_checkpoints_ends_with_more_state_than_the_jobmanager_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let (conf, input) = (folder.path().join("conf"), folder.path().join("in"));
    std::fs::create_dir(&conf).unwrap();
    write_many_words(&input);
    let expected: Vec<_> = (0..400_000).map(|n| format!("word-{n:020}\t1")).collect();
    for storage in ["", "execution.checkpointing.storage: jobmanager\n"] {
        std::fs::write(conf.join("flott.yaml"), storage).unwrap();
        let output = folder.path().join(format!("out-{}", storage.len()));
        let mut command = Command::new(bin("word_count"));
        command.arg("--input").arg(&input).arg("--output").arg(&output);
        succeeded(command.env("FLOTT_CONF_DIR", &conf).output().unwrap());
        assert_eq!(output_lines(&output), expected, "{storage}");
    }
}

#[test]
fn state_that_the_jobmanager_does_not_keep_goes_to_a_temporary_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (conf, tmp) = (folder.path().join("conf"), folder.path().join("tmp"));
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir(&conf).unwrap();
    write_many_words(&input);
    let count = |storage: &str| {
        let options = format!(
            "execution.checkpointing.interval: 100 ms\nio.tmp.dirs: {}\n{storage}",
            tmp.display()
        );
        std::fs::write(conf.join("flott.yaml"), options).unwrap();
        let mut command = Command::new(bin("word_count"));
        command.arg("--input").arg(&input).arg("--output").arg(&output);
        command.env("FLOTT_CONF_DIR", &conf).output().unwrap()
    };
    succeeded(count(""));
    assert_eq!(output_lines(&output).len(), 400_000);
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "it goes with the cluster");
    let failed =
        count("execution.checkpointing.storage: jobmanager\nrestart-strategy.type: none\n");
    let why = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(3), "{why}");
    assert!(why.contains("more than the 5242880 that the JobManager keeps of a task"), "{why}");
}
