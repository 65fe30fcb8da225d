//! Runs `flott list`: prints the cluster's jobs.

use super::args::List;
use super::output::{duration, table, utc};
use super::{Context, Outcome, client};
use crate::exit::Exit;
use crate::targets;
use rest::messages::{JobOverview, JobsOverview};

pub(super) async fn list(context: &Context, args: List) -> Outcome {
    let client = targets::retrieve(context, &args.cluster).await?;
    let overview = client.jobs_overview().await;
    let mut jobs = overview.map_err(|e| client::failure(context, &client, e))?.jobs;
    jobs.retain(|job| wanted(job, &args));
    jobs.sort_by_key(|job| job.start_time);
    let overview = JobsOverview { jobs };
    context.print.value(&overview, || show(&overview.jobs, &args))?;
    Ok(Exit::Success)
}

fn has_ended(job: &JobOverview) -> bool {
    matches!(job.state.as_str(), "FINISHED" | "FAILED" | "CANCELED")
}

fn wanted(job: &JobOverview, args: &List) -> bool {
    let ended = has_ended(job);
    let scheduled = matches!(job.state.as_str(), "CREATED" | "INITIALIZING");
    if args.running || args.scheduled {
        return (args.running && !ended && !scheduled)
            || (args.scheduled && scheduled)
            || (args.all && ended);
    }
    args.all || !ended
}

/// Returns the message that is printed if there is no job to list.
fn nothing(args: &List) -> &'static str {
    match (args.all, args.running, args.scheduled) {
        (true, _, _) => "no jobs",
        (false, true, true) => "no running or scheduled jobs (ended ones: flott list -a)",
        (false, false, true) => "no scheduled jobs (all jobs: flott list -a)",
        (false, _, false) => "no running jobs (ended ones: flott list -a)",
    }
}

/// Returns the text "n/total state": the number of a job's tasks in its final state if the job has
/// ended, otherwise in the state running.
fn tasks(job: &JobOverview) -> String {
    let state = if has_ended(job) { job.state.to_ascii_lowercase() } else { "running".to_owned() };
    let count = |state: &str| job.tasks.get(state).copied().unwrap_or(0);
    format!("{}/{} {state}", count(&state), count("total"))
}

fn show(jobs: &[JobOverview], args: &List) -> String {
    if jobs.is_empty() {
        return nothing(args).to_owned();
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            vec![
                job.jid.clone(),
                job.state.clone(),
                utc(job.start_time),
                duration(job.duration),
                tasks(job),
                job.name.clone(),
            ]
        })
        .collect();
    table(&["JOB ID", "STATE", "STARTED (UTC)", "DURATION", "TASKS", "NAME"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn args(words: &[&str]) -> List {
        let cli = Cli::parse_from(["flott", "list"].iter().chain(words));
        let Command::List(list) = cli.command else {
            panic!("not list");
        };
        list
    }

    fn job(state: &str, tasks: &[(&str, u32)]) -> JobOverview {
        let tasks = tasks.iter().map(|(state, n)| ((*state).to_owned(), *n)).collect();
        JobOverview { state: state.to_owned(), tasks, ..JobOverview::default() }
    }

    #[test]
    fn tasks_of_an_ended_job_are_those_that_ended_so() {
        let done = job("FINISHED", &[("finished", 2), ("running", 0), ("total", 2)]);
        assert_eq!(tasks(&done), "2/2 finished");
        let failed = job("FAILED", &[("failed", 1), ("canceled", 3), ("total", 4)]);
        assert_eq!(tasks(&failed), "1/4 failed");
        let live = job("RUNNING", &[("finished", 1), ("running", 3), ("total", 4)]);
        assert_eq!(tasks(&live), "3/4 running");
        assert!(show(&[done], &args(&["-a"])).contains("  2/2 finished"));
    }

    #[test]
    fn an_empty_list_says_which_jobs_there_are_none_of() {
        assert!(show(&[], &args(&[])).starts_with("no running jobs"));
        assert!(show(&[], &args(&["-r"])).starts_with("no running jobs"));
        assert!(show(&[], &args(&["-s"])).starts_with("no scheduled jobs"));
        assert!(show(&[], &args(&["-r", "-s"])).starts_with("no running or scheduled jobs"));
        assert_eq!(show(&[], &args(&["-a"])), "no jobs");
    }
}
