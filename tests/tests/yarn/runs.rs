//! A session, a program as its own JobManager, a job's graph with its program: started, used and ended in order.

use super::application::{Application, WITHIN, jobmanager, options, run_in};
use super::common::{
    bin, eventually, expected_counts, output_lines, program, repository_text, run, succeeded,
};
use hadoop::yarn::messages::FinalApplicationStatus;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_session_runs_two_jobs_lets_its_containers_go_and_ends() {
    let application = Application::session(&[]);
    let client = application.client();
    let text = repository_text();
    let folder = tempfile::tempdir().unwrap();
    for round in ["first", "second"] {
        let out = folder.path().join(round);
        let began = Instant::now();
        let args = ["--input", text.to_str().unwrap(), "--output", out.to_str().unwrap()];
        run_in(&client, 4, "word_count", &args);
        eprintln!("{round} job: {:?}", began.elapsed());
        assert_eq!(output_lines(&out), expected_counts(&text));
        let workers = application.block_on(client.task_managers()).unwrap().taskmanagers;
        assert_eq!(workers.len(), 2, "two containers of two slots");
        application.shows_no_secret();
        if round == "first" {
            eventually(WITHIN, "idle containers are let go", || {
                let workers = application.block_on(client.task_managers()).ok()?.taskmanagers;
                let processes = application.processes();
                let left = processes.iter().filter(|(_, c)| c.contains("taskmanager")).count();
                (workers.is_empty() && left == 0).then_some(())
            });
        }
    }
    application.block_on(client.shut_down_cluster()).unwrap();
    application.has_succeeded();
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_application_ends_with_its_job() {
    let (text, folder) = (repository_text(), tempfile::tempdir().unwrap());
    let out = folder.path().join("counts");
    let args = json!(["--input", text, "--output", out]);
    let four = ("parallelism.default", "4");
    let application = Application::of_program(1, "word_count", &args, &[four]);
    application.has_succeeded();
    eprintln!("ended after {:?}", application.submitted.elapsed());
    assert_eq!(output_lines(&out), expected_counts(&text));
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_application_whose_job_fails_has_failed_and_says_why() {
    let (args, none) = (json!(["--input", "/no/such/file"]), ("restart-strategy.type", "none"));
    let application = Application::of_program(1, "word_count", &args, &[none]);
    let report = application.ended();
    assert_eq!(report.final_status(), FinalApplicationStatus::Failed, "{}", report.diagnostics());
    assert!(report.diagnostics().contains("/no/such/file"), "{}", report.diagnostics());
    application.is_gone();
}

/// Builds a program's job graph into a file, as the client does it.
fn build_graph(graph: &Path, name: &str, options: &[&str], args: &[&str]) {
    let program = program(name);
    let words = ["--job-graph", graph.to_str().unwrap(), &program];
    succeeded(run("flott", [&["info"][..], options, &words, args].concat()));
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_graph_that_the_client_built_runs_with_its_program() {
    let (text, folder) = (repository_text(), tempfile::tempdir().unwrap());
    let (out, graph) = (folder.path().join("counts"), folder.path().join("job.graph"));
    let (flott, program) = (bin("flott"), bin("word_count"));
    let (input, output) = (text.to_str().unwrap(), out.to_str().unwrap());
    build_graph(&graph, "word_count", &["-p", "4"], &["--input", input, "--output", output]);
    let command = jobmanager("flott", "per-job --job-graph job.graph --program program");
    let files = [("flott", flott.as_path()), ("program", &program), ("job.graph", &graph)];
    let application = Application::submit(&command, &[], &options(&[]), &files);
    application.has_succeeded();
    assert_eq!(output_lines(&out), expected_counts(&text));
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_program_that_cannot_be_loaded_fails_the_application_with_the_reason() {
    let (text, flott) = (repository_text(), bin("flott"));
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("job.graph");
    build_graph(&graph, "word_count", &[], &["--input", text.to_str().unwrap()]);
    let command = jobmanager("flott", "per-job --job-graph job.graph --program program");
    let files = [("flott", flott.as_path()), ("program", &text), ("job.graph", &graph)];
    let application = Application::submit(&command, &[], &options(&[]), &files);
    let report = application.ended();
    let why = report.diagnostics();
    assert_eq!(report.final_status(), FinalApplicationStatus::Failed, "{why}");
    assert!(why.contains("exitCode: 1") && why.contains("program"), "{why}");
    application.has_no_process();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_taskmanager_that_no_node_can_hold_fails_the_job_with_yarns_reason() {
    let args = json!(["--input", repository_text()]);
    let more = [("taskmanager.memory.process.size", "1t"), ("restart-strategy.type", "none")];
    let application = Application::of_program(1, "word_count", &args, &more);
    let began = Instant::now();
    let report = application.ended();
    eprintln!("refused after {:?}: {}", began.elapsed(), report.diagnostics());
    assert_eq!(report.final_status(), FinalApplicationStatus::Failed, "{}", report.diagnostics());
    assert!(report.diagnostics().contains("InvalidResourceRequest"), "{}", report.diagnostics());
    application.is_gone();
}
