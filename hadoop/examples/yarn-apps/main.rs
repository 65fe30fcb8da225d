//! Lists, shows and kills applications, and prints their logs:
//! `HADOOP_CONF_DIR=… cargo run -p hadoop --example yarn-apps -- list [--all]`, `report ID`, `kill ID`,
//! `logs ID [--container ID] [--file NAME]`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "that is what it is for")]

#[path = "../shared/hdfs.rs"]
mod hdfs;
mod logs;

use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationReport, FinalApplicationStatus, GetApplicationsRequest,
    YarnApplicationState,
};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: yarn-apps list [--all] | report ID | kill ID | \
                     logs ID [--container ID] [--file NAME]";

/// For one answer of the ResourceManager or of a node.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &[&str]) -> Result<(), Box<dyn Error>> {
    let conf = Configuration::load()?;
    let login = Login::current(&conf).await?;
    let yarn = YarnClient::new(&conf, login.clone()).await?.with_deadline(PATIENCE);
    match args {
        ["list"] => list(&yarn, LIVING).await,
        ["list", "--all"] => list(&yarn, &[]).await,
        ["report", id] => report(&yarn, id.parse()?).await,
        ["kill", id] => {
            let id: ApplicationId = id.parse()?;
            yarn.kill(id, Some("killed by yarn-apps".to_owned())).await?;
            println!("{id}\t{:?}", yarn.report(id).await?.state());
            Ok(())
        }
        ["logs", id, rest @ ..] => {
            let selection = logs::selection(rest).ok_or(USAGE)?;
            logs::print(&conf, &login, &yarn, id.parse()?, &selection).await
        }
        _ => Err(USAGE.into()),
    }
}

/// The states of applications that have not ended.
const LIVING: &[YarnApplicationState] = &[
    YarnApplicationState::New,
    YarnApplicationState::NewSaving,
    YarnApplicationState::Submitted,
    YarnApplicationState::Accepted,
    YarnApplicationState::Running,
];

/// Lists the applications in these states; an empty list stands for all states.
async fn list(yarn: &YarnClient, states: &[YarnApplicationState]) -> Result<(), Box<dyn Error>> {
    let application_states = states.iter().map(|state| i32::from(*state)).collect();
    let request = GetApplicationsRequest { application_states, ..Default::default() };
    for report in yarn.applications(&request).await? {
        println!(
            "{}\t{}\t{}\t{}\t{}\t{:?}\t{:?}\t{:.0} %",
            report.application_id.unwrap_or_default(),
            report.name(),
            report.application_type(),
            report.user(),
            report.queue(),
            report.state(),
            end(&report),
            report.progress() * 100.0,
        );
    }
    Ok(())
}

async fn report(yarn: &YarnClient, id: ApplicationId) -> Result<(), Box<dyn Error>> {
    let report = yarn.report(id).await?;
    println!("{id}\t{}\t{:?}\t{:?}", report.name(), report.state(), end(&report));
    println!(
        "user {}, queue {}, tracking {}",
        report.user(),
        report.queue(),
        report.tracking_url()
    );
    if let Some(usage) = &report.resource_usage {
        println!("{} MiB s, {} core s", usage.memory_seconds(), usage.vcore_seconds());
    }
    if !report.diagnostics().trim().is_empty() {
        println!("{}", report.diagnostics().trim());
    }
    for attempt in yarn.attempts(id).await? {
        let attempt_id = attempt.application_attempt_id.unwrap_or_default();
        println!("{attempt_id}\t{:?}", attempt.yarn_application_attempt_state());
        for container in yarn.containers(attempt_id).await? {
            println!(
                "{}\t{}\t{:?}\texit {}",
                container.container_id.unwrap_or_default(),
                container.node_id.clone().unwrap_or_default(),
                container.container_state(),
                container.container_exit_status(),
            );
        }
    }
    Ok(())
}

fn end(report: &ApplicationReport) -> FinalApplicationStatus {
    report.final_status()
}
