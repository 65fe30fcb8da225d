//! `flott logs` of an application on YARN: from its nodes while it runs, from HDFS afterwards.

use super::client::{User, text_of};
use super::common::{program, repository_text, succeeded};
use serde_json::Value;

/// The files that `flott logs --output json` lists: process and file name.
fn listed(user: &User, words: &[&str]) -> Vec<(String, String)> {
    let list = succeeded(user.flott(&[&["logs", "--output", "json"], words].concat()));
    let files: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
    let text = |file: &Value, name: &str| file[name].as_str().unwrap().to_owned();
    files.iter().map(|file| (text(file, "process"), text(file, "file"))).collect()
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn logs_are_shown_while_the_application_runs_and_after() {
    let (user, text) = (User::new(), repository_text());
    let (program, input) = (program("word_count"), text.to_str().unwrap());
    let start = ["yarn-session", "-d", "-jm", "512", "-tm", "512", "-s", "2"];
    succeeded(user.flott(&start));
    let id = user.alive()[0].clone();
    succeeded(user.flott(&["run", "-t", "yarn-session", &program, "--input", input]));

    let while_it_runs = listed(&user, &["-t", "yarn-session"]);
    let process_of = |file: &str| {
        let found = while_it_runs.iter().find(|(_, name)| name == file);
        found.unwrap_or_else(|| panic!("{file} in {while_it_runs:?}")).0.clone()
    };
    let (master, worker) = (process_of("jobmanager.log"), process_of("taskmanager.log"));
    assert_ne!(master, worker);
    let one = [id.as_str(), "--process", &master, "--file", "jobmanager.log"];
    let show = |words: &[&str]| user.flott(&[&["logs"], words].concat());
    let running = text_of(&show(&one).stdout);
    assert!(running.contains(&format!("YARN container: {master}")), "{running}");
    assert!(running.contains("Hadoop: 3."), "{running}");

    // The application's own endpoint shows the log under this name, as it does where the nodes' pages are closed.
    let by_name = [id.as_str(), "--process", "jobmanager", "--file", "jobmanager.log"];
    let by_name = text_of(&succeeded(show(&by_name)).stdout);
    assert!(by_name.contains(&format!("YARN container: {master}")), "{by_name}");

    succeeded(user.flott(&["yarn-session", "--stop"]));
    let after = succeeded(show(&["-t", "yarn", &id]));
    let after = text_of(&after.stdout);
    for (process, file) in [(&master, "jobmanager.log"), (&worker, "taskmanager.log")] {
        assert!(after.contains(&format!("==> {process} on ")), "{after}");
        assert!(after.contains(&format!(": {file} (")), "{after}");
    }
    let ended = text_of(&show(&one).stdout);
    assert!(ended.starts_with(&running), "collected:\n{ended}\nbefore:\n{running}");
    for file in &while_it_runs {
        assert!(listed(&user, &[&id]).contains(file), "{file:?}");
    }

    let unknown = show(&["application_1_0001"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text_of(&unknown.stderr).contains("knows no application_1_0001"));
    let wrong = show(&[&id, "--process", "jobmanager"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(text_of(&wrong.stderr).contains("is no container's id"), "{}", text_of(&wrong.stderr));
    let none = show(&[&id, "--file", "no-such.log"]);
    assert_eq!(none.status.code(), Some(1));
}
