//! `flott list`.

use super::args::List;
use super::output::{duration, table, utc};
use super::{Context, Outcome, client};
use crate::exit::Exit;
use rest::messages::{JobOverview, JobsOverview};

pub(super) async fn list(context: &Context, args: List) -> Outcome {
    let client = client::connect(context, &args.cluster)?;
    let mut jobs = client.jobs_overview().await?.jobs;
    jobs.retain(|job| wanted(job, &args));
    jobs.sort_by_key(|job| job.start_time);
    let overview = JobsOverview { jobs };
    context.print.value(&overview, || show(&overview.jobs, args.all));
    Ok(Exit::Success)
}

fn wanted(job: &JobOverview, args: &List) -> bool {
    let ended = matches!(job.state.as_str(), "FINISHED" | "FAILED" | "CANCELED");
    let scheduled = matches!(job.state.as_str(), "CREATED" | "INITIALIZING");
    if args.running || args.scheduled {
        return (args.running && !ended && !scheduled)
            || (args.scheduled && scheduled)
            || (args.all && ended);
    }
    args.all || !ended
}

fn show(jobs: &[JobOverview], all: bool) -> String {
    if jobs.is_empty() {
        return if all {
            "no jobs".to_owned()
        } else {
            "no running jobs (ended ones: flott list -a)".to_owned()
        };
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let total = job.tasks.get("total").copied().unwrap_or(0);
            let running = job.tasks.get("running").copied().unwrap_or(0);
            vec![
                job.jid.clone(),
                job.state.clone(),
                utc(job.start_time),
                duration(job.duration),
                format!("{running}/{total}"),
                job.name.clone(),
            ]
        })
        .collect();
    table(&["JOB ID", "STATE", "STARTED (UTC)", "DURATION", "TASKS", "NAME"], &rows)
}
