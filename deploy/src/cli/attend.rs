//! The wait for a job as one loop over what may happen: the job ends, results come, Ctrl-C, an answer from
//! the keyboard. It must never wait for one of them alone: an open question holds neither the results nor
//! the end of the job up.

use super::output::Printer;
use crate::results::ResultsError;
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::LocalBoxStream;
use rest::client::ClientError;
use rest::messages::JobExecutionResult;
use std::io;

/// The way in which the wait for a job ended.
#[derive(Debug)]
pub(super) enum End {
    Ended(Box<JobExecutionResult>),
    /// The cluster answers and does not know the job any more.
    Lost,
    /// The cluster does not answer.
    Gone(ClientError),
    Detached,
    /// Results can't be handed over. `finished`: all of the job's results have been fetched;
    /// otherwise the job goes on.
    Results {
        error: ResultsError,
        finished: bool,
    },
    /// The user did not want to see the rest of the results of a job that has finished.
    Interrupted,
}

/// A signal to this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Ctrl-C on the terminal (SIGINT).
    Interrupt,
    /// SIGTERM, the usual request to end.
    Terminate,
}

/// A line from the keyboard; `None`: there will be none.
pub(super) type Line = io::Result<Option<String>>;

/// The futures, streams and calls of which the wait for a job is made, see `attend`.
pub(super) struct Waiting<'a> {
    /// Resolves when the job has ended, or nothing more can be learned about it.
    pub ending: LocalBoxFuture<'a, End>,
    /// Prints the job's results as they come; resolves when all are printed, or with the reason why they cannot be.
    pub reading: LocalBoxFuture<'a, Result<(), ResultsError>>,
    /// Future that prints notes about the job's progress; never ends.
    pub following: LocalBoxFuture<'a, std::convert::Infallible>,
    /// SIGINT and SIGTERM of this process, in order.
    pub signals: LocalBoxStream<'a, Signal>,
    /// Reads a line from the keyboard; `None` if there is no terminal.
    pub keyboard: Option<Box<dyn Fn() -> LocalBoxFuture<'static, Line>>>,
    /// Makes a request to the cluster to cancel the job; resolves with the answer.
    pub cancel: Box<dyn Fn() -> LocalBoxFuture<'a, Result<(), ClientError>> + 'a>,
    /// Question that is put to the user on the terminal.
    pub question: String,
    /// Printer by which the question and notes reach the user.
    pub print: Printer,
}

/// The user's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Cancel,
    Detach,
    Wait,
    /// The answer was neither yes nor no.
    Unclear,
}

/// Returns the decision that a line states. Without a keyboard nobody can be asked again.
fn decision(line: &Line) -> Decision {
    let Ok(line) = line else { return Decision::Detach };
    match line.as_deref().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Decision::Cancel,
        "d" | "detach" => Decision::Detach,
        "" | "n" | "no" => Decision::Wait,
        _ => Decision::Unclear,
    }
}

/// Something that is under way, or not.
type Slot<'a, T> = Option<LocalBoxFuture<'a, T>>;

/// Waits for the future in `slot`, empties the slot and returns the outcome. Never returns if the
/// slot is empty.
async fn outcome<T>(slot: &mut Slot<'_, T>) -> T {
    match slot {
        Some(future) => {
            let value = future.await;
            *slot = None;
            value
        }
        None => std::future::pending().await,
    }
}

/// The futures that are under way.
#[derive(Default)]
struct State<'a> {
    answer: Slot<'static, Line>,
    cancelling: Slot<'a, Result<(), ClientError>>,
    read: Option<Result<(), ResultsError>>,
    /// The job has finished; what is left of its results is still being read.
    finished: Option<End>,
}

/// Waits until there is nothing more to wait for.
pub(super) async fn attend<'a>(waiting: &mut Waiting<'a>) -> End {
    let mut state: State<'a> = State::default();
    loop {
        tokio::select! {
            biased;
            signal = waiting.signals.next() => {
                if let Some(end) = state.signalled(signal, waiting) {
                    return end;
                }
            }
            line = outcome(&mut state.answer) => {
                if let Some(end) = state.answered(&line, waiting) {
                    return end;
                }
            }
            end = &mut waiting.ending, if state.finished.is_none() => {
                if let Some(end) = state.ended(end) {
                    return end;
                }
            }
            outcome = &mut waiting.reading, if state.read.is_none() => {
                if let Some(end) = state.all_read(outcome) {
                    return end;
                }
            }
            cancelled = outcome(&mut state.cancelling) => {
                if let Err(error) = cancelled {
                    waiting.print.note(&format!("the job could not be cancelled: {error}"));
                }
            }
            never = &mut waiting.following => match never {},
        }
    }
}

impl<'a> State<'a> {
    /// Handles a signal. The second Ctrl-C does not wait for an answer to the first.
    fn signalled(&mut self, signal: Option<Signal>, waiting: &Waiting<'a>) -> Option<End> {
        if self.finished.is_some() {
            return Some(End::Interrupted);
        }
        match (signal, &waiting.keyboard) {
            (Some(Signal::Interrupt), Some(keyboard)) if self.answer.is_none() => {
                waiting.print.note(&format!("\n{}", waiting.question));
                self.answer = Some(keyboard());
                None
            }
            _ => Some(End::Detached),
        }
    }

    fn answered(&mut self, line: &Line, waiting: &Waiting<'a>) -> Option<End> {
        match decision(line) {
            // It can't be cancelled any more; its results come out.
            _ if self.finished.is_some() => None,
            Decision::Wait => None,
            Decision::Detach => Some(End::Detached),
            Decision::Cancel => {
                waiting.print.note("cancelling the job");
                self.cancelling = Some((waiting.cancel)());
                None
            }
            Decision::Unclear => {
                waiting.print.note(&waiting.question);
                self.answer = waiting.keyboard.as_ref().map(|keyboard| keyboard());
                None
            }
        }
    }

    /// Handles the end of the job. A job that finished has all its results ready: the reader
    /// reaches their end by itself.
    fn ended(&mut self, end: End) -> Option<End> {
        let finished =
            matches!(&end, End::Ended(result) if result.application_status == "SUCCEEDED");
        match self.read.take() {
            _ if !finished => Some(end),
            Some(Ok(())) => Some(end),
            Some(Err(error)) => Some(End::Results { error, finished }),
            None => {
                self.finished = Some(end);
                None
            }
        }
    }

    fn all_read(&mut self, outcome: Result<(), ResultsError>) -> Option<End> {
        match (outcome, self.finished.take()) {
            (Ok(()), Some(end)) => Some(end),
            (Err(error), Some(_)) => Some(End::Results { error, finished: true }),
            // There is no use in waiting for results that can't be shown.
            (Err(error @ ResultsError::Unwritten(_)), None) => {
                Some(End::Results { error, finished: false })
            }
            // The job's own end may say more.
            (outcome, None) => {
                self.read = Some(outcome);
                None
            }
        }
    }
}

#[cfg(test)]
#[path = "attend_tests.rs"]
mod tests;
