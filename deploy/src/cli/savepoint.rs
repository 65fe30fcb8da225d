//! `flott savepoint` and `flott stop`: trigger an operation, and wait for its end.

use super::args::ClusterArgs;
use super::savepoint_args::{Savepoint, SavepointAction, Stop};
use super::{Context, Failure, Outcome, client};
use crate::exit::Exit;
use crate::targets;
use conf::Options;
use model::JobId;
use rest::client::{ClientError, RestClient};
use rest::messages::{OperationInfo, SavepointBody, StopBody};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The first and the longest pause between two questions about an operation.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Time without any answer after which the command gives up.
const SILENT_MAX: Duration = Duration::from_secs(60);

pub(super) async fn savepoint(context: &Context, args: Savepoint) -> Outcome {
    if let Some(SavepointAction::Dispose { path, cluster }) = args.action {
        return dispose(context, &cluster, path).await;
    }
    let job = job_id(args.job.as_deref().unwrap_or_default())?;
    let target_directory = directory(&context.options, args.directory)?;
    let client = targets::retrieve(context, &args.cluster).await?;
    let body = SavepointBody { target_directory, ..SavepointBody::default() };
    let begun = client.savepoint(&job, &body).await;
    let trigger = begun.map_err(|e| client::failure(context, &client, e))?;
    let what = format!("the savepoint of job {job}");
    let folder = savepoint_of(context, &client, &what, (&job, &trigger)).await?;
    context.print.value(&json!({ "jobid": job, "savepoint": folder }), || {
        format!("savepoint of job {job}: {folder}")
    })?;
    Ok(Exit::Success)
}

pub(super) async fn stop(context: &Context, args: Stop) -> Outcome {
    let job = job_id(&args.job)?;
    let target_directory = directory(&context.options, args.directory)?;
    let client = targets::retrieve(context, &args.cluster).await?;
    let body = StopBody { target_directory, drain: Some(args.drain), ..StopBody::default() };
    let begun = client.stop(&job, &body).await;
    let trigger = begun.map_err(|e| client::failure(context, &client, e))?;
    let what = format!("the stop of job {job}");
    let folder = savepoint_of(context, &client, &what, (&job, &trigger)).await?;
    context.print.value(&json!({ "jobid": job, "stopped": true, "savepoint": folder }), || {
        format!("job {job} has stopped; its savepoint: {folder}")
    })?;
    Ok(Exit::Success)
}

async fn dispose(context: &Context, cluster: &ClusterArgs, path: String) -> Outcome {
    check_directory(Some(&path))?;
    let client = targets::retrieve(context, cluster).await?;
    let begun = client.dispose_savepoint(&path).await;
    let trigger = begun.map_err(|e| client::failure(context, &client, e))?;
    let what = format!("the deletion of savepoint {path}");
    end_of(context, &client, &what, || client.disposal_status(&trigger)).await?;
    context.print.value(&json!({ "savepoint": path, "disposed": true }), || {
        format!("savepoint {path} is deleted")
    })?;
    Ok(Exit::Success)
}

/// Waits for the savepoint of `what` and returns its folder.
async fn savepoint_of(
    context: &Context,
    client: &RestClient,
    what: &str,
    (job, trigger): (&str, &str),
) -> Result<String, Failure> {
    let ended = end_of(context, client, what, || client.savepoint_status(job, trigger)).await?;
    ended.ok_or_else(|| Failure::start("the JobManager does not say where the savepoint is"))
}

/// Asks about the operation `what` until it has ended. Returns its location, if it has one.
async fn end_of<F: Future<Output = Result<OperationInfo, ClientError>>>(
    context: &Context,
    client: &RestClient,
    what: &str,
    ask: impl Fn() -> F,
) -> Result<Option<String>, Failure> {
    let mut pause = ASK_AGAIN.0;
    let mut heard = Instant::now();
    loop {
        match ask().await {
            Ok(info) => {
                heard = Instant::now();
                if let Some(ended) = ended(info) {
                    return ended.map_err(|why| Failure::start(format!("{what} failed: {why}")));
                }
            }
            Err(error) if error.is_transient() && heard.elapsed() < SILENT_MAX => {}
            Err(error) => {
                let failure = client::failure(context, client, error);
                let message = format!("{failure}\nhow {what} ends is not known");
                return Err(Failure::new(Exit::Unknown, message));
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(ASK_AGAIN.1);
    }
}

/// Returns the outcome of an operation; `None` while it runs.
fn ended(info: OperationInfo) -> Option<Result<Option<String>, String>> {
    let operation = info.operation?;
    Some(match operation.failure_cause {
        Some(cause) => Err(cause.stack_trace),
        None => Ok(operation.location),
    })
}

fn job_id(text: &str) -> Result<String, Failure> {
    text.parse::<JobId>().map(|job| job.to_string()).map_err(Failure::usage)
}

/// Returns the directory that the command names for a savepoint, by its argument or else by `-D`. Where it names none, the JobManager takes
/// the job's or its own, which this machine's `flott.yaml` does not override.
fn directory(options: &Options, argument: Option<String>) -> Result<Option<String>, Failure> {
    let option = &conf::checkpointing::SAVEPOINT_DIRECTORY;
    let by_command = options.source_of(option.key()) == Some("command line");
    let directory = argument.or_else(|| options.get(option).filter(|_| by_command));
    check_directory(directory.as_deref())?;
    Ok(directory)
}

/// Refuses a relative path, which would mean a directory of the JobManager's process.
fn check_directory(directory: Option<&str>) -> Result<(), Failure> {
    match directory {
        Some(text) if !text.starts_with('/') && !text.contains(":/") => {
            Err(Failure::usage(format!(
                "'{text}' is neither an absolute path nor a URI; the JobManager opens it, not this command"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rest::messages::{FailureBody, OperationResult, QueueStatus};

    fn info(operation: Option<OperationResult>) -> OperationInfo {
        OperationInfo { status: QueueStatus { id: String::new() }, operation }
    }

    #[test]
    fn an_operation_runs_until_it_has_a_result() {
        assert_eq!(ended(info(None)), None);
        let done = OperationResult { location: Some("/s".to_owned()), failure_cause: None };
        assert_eq!(ended(info(Some(done))), Some(Ok(Some("/s".to_owned()))));
        let cause = FailureBody {
            class: String::new(),
            stack_trace: "full".to_owned(),
            serialized_throwable: String::new(),
        };
        let failed = OperationResult { location: None, failure_cause: Some(cause) };
        assert_eq!(ended(info(Some(failed))), Some(Err("full".to_owned())));
    }

    #[test]
    fn the_directory_of_the_command_line_is_sent_and_that_of_the_machine_is_not() {
        let of = |place| {
            let set = [("state.savepoints.dir", "/of-option")];
            Options::default().overlaid(set, place).unwrap()
        };
        let (by_command, by_file) = (of("command line"), of("flott.yaml:3"));
        let sent = |options, argument: Option<&str>| {
            directory(options, argument.map(str::to_owned)).unwrap()
        };
        assert_eq!(sent(&by_command, None).as_deref(), Some("/of-option"));
        assert_eq!(sent(&by_command, Some("/argument")).as_deref(), Some("/argument"));
        assert_eq!(sent(&by_file, None), None);
    }

    #[test]
    fn a_relative_directory_is_refused_here() {
        for fine in [None, Some("/s"), Some("file:///s"), Some("s3://bucket/s")] {
            assert!(check_directory(fine).is_ok(), "{fine:?}");
        }
        assert_eq!(check_directory(Some("s/t")).unwrap_err().exit, Exit::Usage);
    }
}
