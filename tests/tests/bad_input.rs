//! Each wrong input has its clear error and exit code.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{Cluster, SOON, bin, program, repository_text, request};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn flott(args: &[&str]) -> Output {
    common::run("flott", args)
}

#[test]
fn wrong_usage_is_64_and_names_the_nearest() {
    let unknown = flott(&["lits"]);
    assert_eq!(unknown.status.code(), Some(64));
    assert!(stderr(&unknown).contains("list"), "{}", stderr(&unknown));
    let option = flott(&["list", "-D", "rest.prot=1"]);
    assert_eq!(option.status.code(), Some(64));
    assert!(stderr(&option).contains("rest.port"), "{}", stderr(&option));
    let refused = flott(&["run", "-C", "file:///x.jar", "./prog"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(stderr(&refused).contains("classpath"), "{}", stderr(&refused));
    assert_eq!(flott(&["--help"]).status.code(), Some(0));
}

#[test]
fn what_is_no_job_id_is_wrong_usage_everywhere() {
    let program = program("word_count");
    let wrong: [&[&str]; 5] = [
        &["cancel", "123"],
        &["run", "--job-id", "zz", &program],
        &["run", "-D", "pipeline.job-id=zz", &program],
        &["run-application", "--job-id", "zz", &program],
        &["jobmanager", "--mode", "application", "--job-id", "zz", "--program", &program],
    ];
    for words in wrong {
        let output = flott(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {said}");
        assert!(said.contains("32 hexadecimal digits"), "{words:?}: {said}");
    }
}

#[test]
fn a_port_that_is_in_use_is_named_by_its_option() {
    let cluster = Cluster::new(&[]);
    assert_eq!(cluster.flott(&["make-secret"], &[]).status.code(), Some(0));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (role, option) in [
        ("jobmanager", "jobmanager.rpc.port"),
        ("jobmanager", "jobmanager.rpc.bind-port"),
        ("jobmanager", "rest.port"),
        ("jobmanager", "rest.bind-port"),
        ("taskmanager", "taskmanager.rpc.port"),
    ] {
        let output = cluster.flott(&[role], &["-D", &format!("{option}={port}")]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{option}: {said}");
        assert!(said.contains(&format!("set {option}, or ")), "{option}: {said}");
        assert!(said.contains(&port.to_string()), "{option}: {said}");
    }
}

#[test]
fn a_data_port_that_is_in_use_fails_the_job_by_its_option() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let options = [("taskmanager.data.port", port.as_str()), ("restart-strategy.type", "none")];
    let cluster = Cluster::start(&options, 1);
    let text = repository_text();
    let job = cluster.submit(&bin("word_count"), &request(&["--input", text.to_str().unwrap()], 1));
    cluster.await_state(&job, "FAILED", SOON);
    let why = format!("{:?}", cluster.block_on(cluster.client().job_exceptions(&job)).unwrap());
    assert!(why.contains("taskmanager.data.port") && why.contains(&port), "{why}");
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let port = common::free_port();
    let output = flott(&["list", "-m", &format!("127.0.0.1:{port}")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&port.to_string()), "{}", stderr(&output));
}

#[test]
fn files_that_are_no_programs_are_refused_without_running_them() {
    let folder = tempfile::tempdir().unwrap();
    let absent = flott(&["run", folder.path().join("absent").to_str().unwrap()]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(stderr(&absent).contains("no such file"), "{}", stderr(&absent));
    let script = folder.path().join("script");
    let witness = folder.path().join("witness");
    std::fs::write(&script, format!("#!/bin/sh\ntouch {}\n", witness.display())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let foreign = flott(&["run", script.to_str().unwrap()]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(stderr(&foreign).contains("not a Flott program"), "{}", stderr(&foreign));
    assert!(!witness.exists());
    let other = folder.path().join("other");
    let mut bytes = std::fs::read(bin("word_count")).unwrap();
    // ELF's e_machine: 0xf3 is RISC-V.
    bytes[18] = 0xf3;
    bytes[19] = 0;
    std::fs::write(&other, bytes).unwrap();
    let architecture = flott(&["run", other.to_str().unwrap()]);
    assert_eq!(architecture.status.code(), Some(1));
    assert!(stderr(&architecture).contains("architecture"), "{}", stderr(&architecture));
}

#[test]
fn an_upload_that_is_no_program_is_refused_by_the_endpoint() {
    let cluster = Cluster::start(&[], 0);
    let error = cluster.block_on(cluster.client().upload(&repository_text(), |_| ())).unwrap_err();
    assert_eq!(error.status(), Some(400));
    assert!(error.to_string().contains("not a Flott program"), "{error}");
    assert!(cluster.block_on(cluster.client().jars()).unwrap().files.is_empty());
}

#[test]
fn a_job_id_is_used_once() {
    let cluster = Cluster::start(&[], 1);
    let mut endless = request(&["--count", "1000000", "--rate", "100"], 1);
    endless.job_id = Some(format!("{:032x}", 0xabc));
    let job = cluster.submit(&bin("sequence_sum"), &endless);
    assert_eq!(job, format!("{:032x}", 0xabc));
    let refused = |cluster: &Cluster| {
        let client = cluster.client();
        cluster.block_on(async {
            let jar = client.upload(&bin("sequence_sum"), |_| ()).await.unwrap();
            client.run(jar.jar_id(), &endless).await.unwrap_err()
        })
    };
    let running = refused(&cluster);
    assert_eq!(running.status(), Some(409));
    assert!(running.to_string().contains("running already"), "{running}");
    cluster.block_on(cluster.client().cancel(&job)).unwrap();
    cluster.await_state(&job, "CANCELED", SOON);
    let ended = refused(&cluster);
    assert_eq!(ended.status(), Some(409));
    assert!(ended.to_string().contains("already ended as CANCELED"), "{ended}");
}

#[test]
fn a_missing_input_fails_the_job_with_its_path() {
    let cluster = Cluster::start(&[], 1);
    let run = cluster.flott(
        &["run", "-D", "restart-strategy.type=none"],
        &[&program("word_count"), "--input", "/no/such/text"],
    );
    assert_ne!(run.status.code(), Some(0));
    assert!(stderr(&run).contains("/no/such/text"), "{}", stderr(&run));
}

#[test]
fn a_relative_path_is_refused_at_submission() {
    let cluster = Cluster::start(&[], 1);
    let run = cluster.flott(&["run"], &[&program("word_count"), "--input", "LICENSE"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("LICENSE"), "{}", stderr(&run));
}

#[test]
fn a_port_in_use_is_named() {
    let cluster = Cluster::start(&[], 0);
    let output = cluster.flott(&["jobmanager"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains(&cluster.rpc_port.to_string()), "{text}");
}

#[test]
fn a_wrong_secret_is_not_let_in() {
    let mut cluster = Cluster::start(&[], 0);
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "not the secret of this cluster\n").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let define = format!("security.cluster-secret-file={}", secret.display());
    cluster.start_taskmanager(&["-D", &define, "-D", "taskmanager.registration.timeout=3 s"]);
    let mut stranger = cluster.taskmanagers.pop().unwrap();
    let code = stranger.wait(SOON);
    assert!(code == 1 || code == 2, "exit code {code}");
    assert!(stranger.log().contains("secret"), "{}", stranger.log());
    cluster.await_taskmanagers(0);
}

#[test]
fn an_unreadable_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let absent = flott(&["list", "--config-dir", dir]);
    assert_eq!(absent.status.code(), Some(64));
    assert!(stderr(&absent).contains("flott.yaml"), "{}", stderr(&absent));
    std::fs::write(folder.path().join("flott.yaml"), "rest.port: [1,\n").unwrap();
    let broken = flott(&["jobmanager", "--config-dir", dir]);
    assert_eq!(broken.status.code(), Some(64));
    assert!(stderr(&broken).contains("flott.yaml"), "{}", stderr(&broken));
}

#[test]
fn too_little_memory_is_refused_at_the_start() {
    let cluster = Cluster::new(&[]);
    let output = cluster.flott(&["taskmanager", "-D", "taskmanager.memory.process.size=64m"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("memory"), "{}", stderr(&output));
}

#[test]
fn a_full_disk_of_the_blob_store_is_said() {
    // A tiny file system that the JobManager alone sees: it needs root, or the right to make user namespaces.
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().to_str().unwrap();
    let mut cluster = Cluster::new(&[("blob.storage.directory", full)]);
    let alone = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let mount = "mount -t tmpfs -o size=1m tmpfs \"$0\" && exec \"$@\"";
    let flott = bin("flott");
    let words =
        [alone, "sh", "-c", mount, full, flott.to_str().unwrap(), "jobmanager", "--output", "json"];
    cluster.start_jobmanager_with(Path::new("unshare"), &words, &[]);
    let client = cluster.client();
    let error = cluster.block_on(async {
        let jar = client.upload(&bin("word_count"), |_| ()).await.unwrap();
        client.run(jar.jar_id(), &request(&["--input", "/etc/hosts"], 1)).await.unwrap_err()
    });
    assert_eq!(error.status(), Some(507), "{error}");
    assert!(error.to_string().contains("blob.storage.directory"), "{error}");
}
