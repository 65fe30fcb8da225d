//! Waiting for a job: its results are printed as they come, its end decides the exit code. Ctrl-C asks
//! what is to become of the job.

use super::{Context, Outcome};
use crate::exit::Exit;
use crate::results::{RestCoordinators, ResultReader};
use conf::execution;
use rest::client::{ClientError, RestClient};
use rest::messages::JobExecutionResult;
use serde_json::json;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long one question for the job's end stays open.
const WAIT: Duration = Duration::from_secs(20);

/// What the user decided at Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Cancel,
    Detach,
    Wait,
}

/// How the wait for a job ended.
enum End {
    Ended(Box<JobExecutionResult>),
    /// The cluster answers and does not know the job any more.
    Lost,
    /// The cluster does not answer.
    Gone(ClientError),
    Detached,
}

pub(super) async fn attach(context: &Context, client: &RestClient, job: &str) -> Outcome {
    let coordinators = RestCoordinators::new(client.clone(), job);
    let json = context.print.is_json();
    let mut results = ResultReader::new(coordinators, move |line| print_result(json, line));
    let end = wait(context, client, job, &mut results).await?;
    Ok(report(context, job, end))
}

/// A line of a result. A reader that has gone (`| head`) is no failure of the job.
fn print_result(json: bool, line: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = if json {
        writeln!(out, "{}", json!({ "result": String::from_utf8_lossy(line) }))
    } else {
        out.write_all(line).and_then(|()| out.write_all(b"\n"))
    };
}

async fn wait(
    context: &Context,
    client: &RestClient,
    job: &str,
    results: &mut ResultReader<RestCoordinators>,
) -> Result<End, super::Failure> {
    let mut interrupts = signal(SignalKind::interrupt()).map_err(super::Failure::start)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(super::Failure::start)?;
    let ending = job_end(context, client, job);
    tokio::pin!(ending);
    let reading = results.read_all(context.options.get(&execution::CLIENT_POLL_INTERVAL));
    tokio::pin!(reading);
    let following = super::follow::follow(context.print, client, job);
    tokio::pin!(following);
    let mut read = false;
    loop {
        tokio::select! {
            biased;
            end = &mut ending => {
                // A job that finished has all its results ready: the reader comes to their end by itself.
                let finished = matches!(
                    &end,
                    End::Ended(result) if result.application_status == "SUCCEEDED"
                );
                if finished && !read && let Err(why) = reading.await {
                    context.print.note(&format!("not all results could be read: {why}"));
                    return Ok(End::Lost);
                }
                return Ok(end);
            }
            outcome = &mut reading, if !read => {
                read = true;
                if let Err(why) = outcome {
                    tracing::debug!(%why, "results end");
                }
            }
            _ = interrupts.recv() => match decide(context, job).await {
                Decision::Wait => {}
                Decision::Detach => return Ok(End::Detached),
                Decision::Cancel => {
                    context.print.note("cancelling the job");
                    if let Err(e) = client.cancel(job).await {
                        context.print.note(&format!("the job could not be cancelled: {e}"));
                    }
                }
            },
            _ = terminations.recv() => return Ok(End::Detached),
            never = &mut following => match never {},
        }
    }
}

/// Asks until the job has ended. A cluster that does not answer is given `client.timeout`.
async fn job_end(context: &Context, client: &RestClient, job: &str) -> End {
    let patience = context.options.get(&execution::CLIENT_TIMEOUT);
    let pause = context.options.get(&execution::CLIENT_POLL_INTERVAL);
    let mut silent_since: Option<tokio::time::Instant> = None;
    loop {
        let error = match client.execution_result(job, WAIT).await {
            Ok(answer) => {
                if silent_since.take().is_some() {
                    context.print.note("the JobManager answers again");
                }
                match answer.job_execution_result {
                    Some(result) => return End::Ended(Box::new(result)),
                    None => continue,
                }
            }
            Err(error) => error,
        };
        if error.status() == Some(404) {
            return End::Lost;
        }
        if !error.is_transient() {
            return End::Gone(error);
        }
        let since = *silent_since.get_or_insert_with(|| {
            context.print.note(&format!("the JobManager does not answer, trying again: {error}"));
            tokio::time::Instant::now()
        });
        if since.elapsed() >= patience {
            return End::Gone(error);
        }
        tokio::time::sleep(pause.max(Duration::from_millis(50))).await;
    }
}

async fn decide(context: &Context, job: &str) -> Decision {
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asks {
        return Decision::Detach;
    }
    context.print.note(&format!(
        "\ncancel job {job}? [y] cancel it, [d] detach and leave it running, [Enter] keep waiting"
    ));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let again = tokio::signal::ctrl_c();
    let line = tokio::select! {
            biased;
        line = answer => line,
        _ = again => return Decision::Detach,
    };
    match line {
        Ok(Ok(line)) => match line.trim() {
            "y" | "Y" | "yes" => Decision::Cancel,
            "d" | "D" | "n" | "N" => Decision::Detach,
            _ => Decision::Wait,
        },
        _ => Decision::Detach,
    }
}

fn report(context: &Context, job: &str, end: End) -> Exit {
    match end {
        End::Ended(result) => report_result(context, &result),
        End::Lost => {
            context.print.error(&format!(
                "job {job} is lost: the JobManager does not know it (it was restarted without high availability)"
            ));
            Exit::Unknown
        }
        End::Gone(error) => {
            context.print.error(&format!("what became of job {job} is not known: {error}"));
            Exit::Unknown
        }
        End::Detached => {
            context
                .print
                .note(&format!("detached: job {job} goes on (flott list, flott cancel {job})"));
            Exit::Unknown
        }
    }
}

fn report_result(context: &Context, result: &JobExecutionResult) -> Exit {
    if context.print.is_json() {
        context.print.value(result, String::new);
    }
    let runtime = super::output::duration(i64::try_from(result.net_runtime).unwrap_or(i64::MAX));
    match result.application_status.as_str() {
        "SUCCEEDED" => {
            context.print.note(&format!("job {} finished in {runtime}", result.id));
            Exit::Success
        }
        "CANCELED" => {
            context.print.note(&format!("job {} was cancelled after {runtime}", result.id));
            Exit::Success
        }
        "FAILED" => {
            if !context.print.is_json() {
                let why = result.failure_cause.as_ref().map_or_else(
                    || "no cause is known".to_owned(),
                    |cause| format!("{}: {}", cause.class, cause.stack_trace),
                );
                context.print.error(&format!("job {} failed after {runtime}: {why}", result.id));
            }
            Exit::JobFailed
        }
        other => {
            context.print.error(&format!("job {} ended as {other}", result.id));
            Exit::Unknown
        }
    }
}
