//! `flott run-application`, and `flott run` on targets where every job has a cluster of its own: starts the cluster, and
//! where its results come back to this client, waits for the job.

use super::args::{ClusterArgs, ProgramArgs, RunApplication};
use super::{Context, Failure, Outcome, attach, run};
use crate::exit::Exit;
use crate::targets::{self, Application, ClusterDescriptor, ClusterSpecification, Ending};
use conf::execution::{self, Target};
use model::JobId;
use rest::client::RestClient;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks whether a cluster that does not answer has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum time from the end of the job until the end of its cluster is known.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// The way in which the client waits for a cluster's job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// True if the client does not wait.
    pub(super) detached: bool,
    /// True if the job is cancelled when this client goes away.
    pub(super) bound: bool,
    /// The id that the job is to have.
    pub(super) job_id: Option<JobId>,
}

pub(super) async fn run_application(context: &Context, args: RunApplication) -> Outcome {
    run::refuse(&args.refused)?;
    if args.shutdown_on_attached_exit {
        return Err(Failure::usage(
            "-sae is for flott run: the cluster of an application ends with its job",
        ));
    }
    let choice = &targets::RUN_APPLICATION;
    let target = targets::choose(&context.options, args.target.as_deref(), choice)?;
    let start_as = Start { detached: args.detached, bound: false, job_id: args.job_id };
    start(context, target, args.program, start_as).await
}

/// Starts the cluster of one program and says where it is.
pub(super) async fn start(
    context: &Context,
    target: Target,
    args: ProgramArgs,
    how: Start,
) -> Outcome {
    let spec = ClusterSpecification::of(&context.options)?;
    let program = run::local_program(&args)?;
    let program = std::path::absolute(&program).map_err(Failure::start)?;
    let attached = !how.detached && context.options.get(&execution::ATTACHED);
    let application = Application { program, args, job_id: how.job_id, attached };
    let descriptor = targets::descriptor(context, target, &ClusterArgs::default())?;
    let deployed = descriptor.deploy(spec, Some(application)).await?;
    match (&deployed.client, &deployed.application) {
        (Some(client), Some(name)) if attached => {
            context.print.note(&deployed.text);
            await_job(context, &*descriptor, (client, name), how.bound).await
        }
        (None, Some(name)) if attached => {
            context.print.note(&deployed.text);
            ended(context, &*descriptor, name, None).await
        }
        _ => {
            context.print.value(&deployed.value, || deployed.text.clone())?;
            Ok(Exit::Success)
        }
    }
}

/// Waits for the one job of a cluster.
async fn await_job(
    context: &Context,
    descriptor: &dyn ClusterDescriptor,
    (client, name): (&RestClient, &str),
    bound: bool,
) -> Outcome {
    let pause = context.options.get(&execution::CLIENT_POLL_INTERVAL);
    let mut looked = Instant::now();
    let job = loop {
        if let Ok(overview) = client.jobs_overview().await
            && let Some(job) = overview.jobs.into_iter().next()
        {
            break job.jid;
        }
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            if let Some(ending) = descriptor.ending(name).await? {
                return Ok(report_end(context, &ending));
            }
        }
        tokio::time::sleep(pause).await;
    };
    context.print.note(&format!("the cluster runs job {job}"));
    match attach::attach(context, client, &job, bound).await? {
        Exit::Unknown => ended(context, descriptor, name, Some(&job)).await,
        exit => {
            // The JobManager waits until its client has everything. It may be gone all the same.
            match client.shut_down_cluster().await {
                Ok(()) => descriptor.forget(name),
                Err(error) => {
                    tracing::debug!(%error, "the JobManager has not heard that its client has everything");
                }
            }
            Ok(exit)
        }
    }
}

/// Returns the exit code of a cluster that answers no more; waits a while for its end to be known.
async fn ended(
    context: &Context,
    descriptor: &dyn ClusterDescriptor,
    name: &str,
    job: Option<&str>,
) -> Outcome {
    let since = Instant::now();
    loop {
        if let Some(ending) = descriptor.ending(name).await? {
            return Ok(report_end(context, &ending));
        }
        // A job that goes on without this client has no end to wait for.
        if job.is_some() && since.elapsed() >= LOOK_EVERY || since.elapsed() >= ENDED_WITHIN {
            return Ok(Exit::Unknown);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn report_end(context: &Context, ending: &Ending) -> Exit {
    context.print.note(&format!("the cluster {}", ending.how));
    if ending.succeeded { Exit::Success } else { Exit::JobFailed }
}
