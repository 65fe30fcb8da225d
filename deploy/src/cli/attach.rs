//! Waiting for a job: its results are printed as they come, its end decides the exit code. Ctrl-C asks
//! what is to become of the job.

use super::attend::{End, Line, Signal, Waiting, attend};
use super::{Context, Failure, Outcome, client};
use crate::exit::Exit;
use crate::results::{RestCoordinators, ResultReader, write_line};
use conf::execution;
use futures::future::LocalBoxFuture;
use futures::stream::LocalBoxStream;
use futures::{FutureExt, StreamExt};
use platform::{Lane, Platform};
use rest::client::RestClient;
use rest::messages::JobExecutionResult;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Time for which one request for the job's end stays open.
const WAIT: Duration = Duration::from_secs(20);

/// Waits for a job. A `bound` job is cancelled when this client goes away, also where the user detaches.
pub(super) async fn attach(
    context: &Context,
    client: &RestClient,
    job: &str,
    bound: bool,
) -> Outcome {
    let coordinators = RestCoordinators::new(client.clone(), job);
    let json = context.print.is_json();
    let mut results = ResultReader::new(coordinators, move |line| print_result(json, line));
    let poll = context.options.get(&execution::CLIENT_POLL_INTERVAL);
    let mut waiting = Waiting {
        ending: job_end(context, client, job).boxed_local(),
        reading: results.read_all(poll).boxed_local(),
        following: notes(context, client, job, bound).boxed_local(),
        signals: signals()?,
        keyboard: keyboard(),
        cancel: Box::new(|| client.cancel(job).boxed_local()),
        question: format!(
            "cancel job {job}? [y] cancel it, [d] detach and leave it running, [n] or Enter: keep waiting"
        ),
        print: context.print,
    };
    let end = attend(&mut waiting).await;
    if bound && matches!(end, End::Detached) {
        context.print.note("cancelling the job");
        client.cancel(job).await.map_err(|error| client::failure(context, client, error))?;
        return Ok(Exit::Unknown);
    }
    report(context, client, job, end)
}

/// Says what happens to the job on its way, and lets a bound job know that this client lives.
async fn notes(
    context: &Context,
    client: &RestClient,
    job: &str,
    bound: bool,
) -> std::convert::Infallible {
    let follow = super::follow::follow(context.print, client, job);
    if !bound {
        return follow.await;
    }
    tokio::select! {
        biased;
        never = follow => never,
        never = super::beat::beat(&context.options, client, job) => never,
    }
}

/// Prints a line of a result.
fn print_result(json: bool, line: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !json {
        return write_line(&mut out, line);
    }
    let value = json!({ "result": String::from_utf8_lossy(line) });
    write_line(&mut out, value.to_string().as_bytes())
}

fn signals() -> Result<LocalBoxStream<'static, Signal>, Failure> {
    let interrupts = signal(SignalKind::interrupt()).map_err(Failure::start)?;
    let terminations = signal(SignalKind::terminate()).map_err(Failure::start)?;
    let both = (interrupts, terminations);
    Ok(futures::stream::unfold(both, async |(mut interrupts, mut terminations)| {
        let signal = tokio::select! {
            biased;
            _ = interrupts.recv() => Signal::Interrupt,
            _ = terminations.recv() => Signal::Terminate,
        };
        Some((signal, (interrupts, terminations)))
    })
    .boxed_local())
}

/// Reads lines, each at a call.
pub(super) type ReadLine = Box<dyn Fn() -> LocalBoxFuture<'static, Line>>;

/// Reads lines from a terminal; without one nobody can be asked.
fn keyboard() -> Option<ReadLine> {
    (io::stdin().is_terminal() && io::stderr().is_terminal()).then(standard_input)
}

/// Returns a reader of standard input.
///
/// A thread that reads can't be called off. This one belongs to a platform of its own, which nobody waits
/// for: the process ends though a line is awaited.
pub(super) fn standard_input() -> ReadLine {
    let platform = Platform::production();
    Box::new(move || {
        let answer = platform.lane(Lane::Work).run(async || {
            let mut line = String::new();
            let bytes = io::stdin().lock().read_line(&mut line)?;
            Ok((bytes > 0).then_some(line))
        });
        async move { answer.await.map_err(io::Error::other)? }.boxed_local()
    })
}

/// Asks until the job has ended. A cluster that does not answer is given `client.timeout`.
async fn job_end(context: &Context, client: &RestClient, job: &str) -> End {
    let patience = context.options.get(&execution::CLIENT_TIMEOUT);
    let pause = context.options.get(&execution::CLIENT_POLL_INTERVAL);
    let mut silent_since: Option<tokio::time::Instant> = None;
    loop {
        let asked = tokio::time::Instant::now();
        let error = match client.execution_result(job, WAIT).await {
            Ok(answer) => {
                if silent_since.take().is_some() {
                    context.print.note("the JobManager answers again");
                }
                match answer.job_execution_result {
                    Some(result) => return End::Ended(Box::new(result)),
                    None => {
                        // A JobManager with too many clients that wait answers some of them early.
                        if asked.elapsed() < WAIT / 2 {
                            tokio::time::sleep(pause).await;
                        }
                        continue;
                    }
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

fn report(context: &Context, client: &RestClient, job: &str, end: End) -> Outcome {
    Ok(match end {
        End::Ended(result) => return report_result(context, &result),
        End::Lost => {
            context.print.error(&format!(
                "job {job} is lost: the JobManager does not know it (it was restarted without high availability)"
            ));
            Exit::Unknown
        }
        End::Gone(error) => {
            let why = client::failure(context, client, error);
            context.print.error(&format!("what became of job {job} is not known: {}", why.message));
            Exit::Unknown
        }
        End::Results { error, finished } => {
            let job = match finished {
                true => format!("job {job} finished"),
                false => format!("job {job} continues (flott list, flott cancel {job})"),
            };
            context.print.error(&format!("{error}; {job}"));
            error.exit()
        }
        End::Interrupted => {
            context.print.error(&format!("job {job} finished; its results are not all shown"));
            Exit::Unknown
        }
        End::Detached => {
            context
                .print
                .note(&format!("detached: job {job} continues (flott list, flott cancel {job})"));
            Exit::Unknown
        }
    })
}

fn report_result(context: &Context, result: &JobExecutionResult) -> Outcome {
    if context.print.is_json() {
        context.print.value(result, String::new)?;
    }
    let runtime = super::output::duration(i64::try_from(result.net_runtime).unwrap_or(i64::MAX));
    Ok(match result.application_status.as_str() {
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
    })
}
