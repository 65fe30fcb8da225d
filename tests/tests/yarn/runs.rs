//! A session, a program as its own JobManager, a job's graph with its program: started, used and ended in order.

use super::application::{Application, WITHIN, jobmanager, options};
use super::common::{bin, eventually, expected_counts, output_lines, repository_text};
use hadoop::yarn::messages::FinalApplicationStatus;
use rest::client::{ClientTimeouts, RestClient};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_session_runs_two_jobs_lets_its_containers_go_and_ends() {
    let flott = bin("flott");
    let application = Application::submit(
        &jobmanager("flott", "session"),
        &[],
        &options(&[]),
        &[("flott", &flott)],
    );
    let (host, port) = application.rest();
    let client = RestClient::new(&host, port, ClientTimeouts::default());
    let text = repository_text();
    let folder = tempfile::tempdir().unwrap();
    for round in ["first", "second"] {
        let out = folder.path().join(round);
        let began = Instant::now();
        let run = Command::new(&flott)
            .args(["run", "-p", "4", "-m", &format!("{host}:{port}")])
            .arg(bin("word_count"))
            .args(["--input", text.to_str().unwrap(), "--output", out.to_str().unwrap()])
            .env_remove("FLOTT_CONF_DIR")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
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
    let args = json!(["--input", text, "--output", out]).to_string();
    let options = options(&[("pipeline.program-args", &args), ("parallelism.default", "4")]);
    let program = bin("word_count");
    let application = Application::submit(
        &jobmanager("program", "application"),
        &[("FLOTT_ROLE", "cluster")],
        &options,
        &[("program", &program)],
    );
    application.has_succeeded();
    eprintln!("ended after {:?}", application.submitted.elapsed());
    assert_eq!(output_lines(&out), expected_counts(&text));
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_application_whose_job_fails_has_failed_and_says_why() {
    let options = options(&[
        ("pipeline.program-args", r#"["--input", "/no/such/file"]"#),
        ("restart-strategy.type", "none"),
    ]);
    let program = bin("word_count");
    let application = Application::submit(
        &jobmanager("program", "application"),
        &[("FLOTT_ROLE", "cluster")],
        &options,
        &[("program", &program)],
    );
    let report = application.ended();
    assert_eq!(report.final_status(), FinalApplicationStatus::Failed, "{}", report.diagnostics());
    assert!(report.diagnostics().contains("/no/such/file"), "{}", report.diagnostics());
    application.is_gone();
}

/// Builds a program's job graph into a file, as the client does it.
fn build_graph(graph: &Path, program: &Path, options: &[&str], args: &[&str]) {
    let info = Command::new(bin("flott"))
        .arg("info")
        .args(options)
        .args(["--job-graph", graph.to_str().unwrap()])
        .arg(program)
        .args(args)
        .env_remove("FLOTT_CONF_DIR")
        .output()
        .unwrap();
    assert!(info.status.success(), "{}", String::from_utf8_lossy(&info.stderr));
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_graph_that_the_client_built_runs_with_its_program() {
    let (text, folder) = (repository_text(), tempfile::tempdir().unwrap());
    let (out, graph) = (folder.path().join("counts"), folder.path().join("job.graph"));
    let (flott, program) = (bin("flott"), bin("word_count"));
    let (input, output) = (text.to_str().unwrap(), out.to_str().unwrap());
    build_graph(&graph, &program, &["-p", "4"], &["--input", input, "--output", output]);
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
    let (text, flott, program) = (repository_text(), bin("flott"), bin("word_count"));
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("job.graph");
    build_graph(&graph, &program, &[], &["--input", text.to_str().unwrap()]);
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
    let text = repository_text();
    let args = json!(["--input", text]).to_string();
    let options = options(&[
        ("pipeline.program-args", &args),
        ("taskmanager.memory.process.size", "1t"),
        ("restart-strategy.type", "none"),
    ]);
    let program = bin("word_count");
    let application = Application::submit(
        &jobmanager("program", "application"),
        &[("FLOTT_ROLE", "cluster")],
        &options,
        &[("program", &program)],
    );
    let began = Instant::now();
    let report = application.ended();
    eprintln!("refused after {:?}: {}", began.elapsed(), report.diagnostics());
    assert_eq!(report.final_status(), FinalApplicationStatus::Failed, "{}", report.diagnostics());
    assert!(report.diagnostics().contains("InvalidResourceRequest"), "{}", report.diagnostics());
    application.is_gone();
}
