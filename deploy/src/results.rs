//! Results of collecting sinks, read from their coordinators and printed: the same way from a cluster (by
//! REST) and from an embedded one. A result that cannot be written is never passed over in silence.

use crate::exit::Exit;
use gateways::dispatcher::{DeliverCoordinationRequest, DispatcherGateway, RequestJobDetails};
use gateways::job_master::CoordinationError;
use gateways::{CallError, Remote};
use model::job::JobDetails;
use model::{JobGraph, JobId, JobStatus, OperatorId};
use rest::client::{ClientError, RestClient};
use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;
use streaming::sinks::{CollectChunk, CollectRequest};
use thiserror::Error;

/// The kind of an operator whose coordinator keeps results.
const COLLECTING: &str = "collect";
/// Bytes that one request asks for.
const CHUNK_BYTES: u64 = 1 << 20;
/// Number of consecutive requests without an answer after which reading is given up.
const FAILURES_MAX: u32 = 200;

/// The reason why results can't be read any further.
#[derive(Debug, Error)]
pub(crate) enum ResultsError {
    /// The coordinator has no answer.
    #[error("results of operator {operator}: {why}")]
    Unread {
        /// Operator whose coordinator was asked.
        operator: String,
        /// Reason as text for people.
        why: String,
    },
    /// The results can't be written.
    #[error("the results cannot be written to standard output: {0}")]
    Unwritten(#[source] io::Error),
}

impl ResultsError {
    /// Returns the exit of a process that cannot hand its results over.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unread { .. } => Exit::Unknown,
            Self::Unwritten(_) => Exit::Fatal,
        }
    }
}

/// The reason why one request has no answer.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The answer says that the coordinators do not run now, because the job waits for slots or
    /// restarts. The reader asks again until the job has ended; the caller that waits for the job's
    /// end stops the reader then.
    NotNow,
    /// No answer came. The reader asks again a limited number of times.
    Transient(String),
    /// Another try is of no use.
    Final(String),
}

/// A way to the coordinators of one job.
pub(crate) trait Coordinators {
    /// Asks for the operators that collect results.
    fn collecting(&self) -> impl Future<Output = Result<Vec<String>, RequestFailure>>;
    /// Sends one request and returns its answer.
    fn request(
        &self,
        operator: &str,
        request: &[u8],
    ) -> impl Future<Output = Result<Vec<u8>, RequestFailure>>;
}

/// Prints one line of a result.
pub(crate) type PrintLine = Box<dyn FnMut(&[u8]) -> io::Result<()>>;

/// The position up to which one operator's results have been read.
struct Cursor {
    operator: String,
    offset: u64,
    failures: u32,
    ended: bool,
}

/// Reads all results of a job.
pub(crate) struct ResultReader<C> {
    coordinators: C,
    print: PrintLine,
}

impl<C: Coordinators> ResultReader<C> {
    /// `print` is called with each line, in order per operator; its first error ends the reading.
    pub(crate) fn new(
        coordinators: C,
        print: impl FnMut(&[u8]) -> io::Result<()> + 'static,
    ) -> Self {
        Self { coordinators, print: Box::new(print) }
    }

    /// Reads until every collecting operator has no more; `poll` passes between two looks where there was
    /// nothing.
    pub(crate) async fn read_all(&mut self, poll: Duration) -> Result<(), ResultsError> {
        let mut cursors = self.cursors(poll).await?;
        while cursors.iter().any(|cursor| !cursor.ended) {
            let mut idle = true;
            for cursor in cursors.iter_mut().filter(|cursor| !cursor.ended) {
                idle &= !self.advance(cursor).await?;
            }
            if idle && cursors.iter().any(|cursor| !cursor.ended) {
                tokio::time::sleep(poll).await;
            }
        }
        Ok(())
    }

    async fn cursors(&self, poll: Duration) -> Result<Vec<Cursor>, ResultsError> {
        let mut failures = 0;
        loop {
            match self.coordinators.collecting().await {
                Ok(operators) => {
                    let cursor =
                        |operator| Cursor { operator, offset: 0, failures: 0, ended: false };
                    return Ok(operators.into_iter().map(cursor).collect());
                }
                Err(RequestFailure::NotNow) => tokio::time::sleep(poll).await,
                Err(RequestFailure::Transient(_)) if failures < FAILURES_MAX => {
                    failures += 1;
                    tokio::time::sleep(poll).await;
                }
                Err(RequestFailure::Transient(why) | RequestFailure::Final(why)) => {
                    return Err(ResultsError::Unread { operator: "(all)".to_owned(), why });
                }
            }
        }
    }

    /// Fetches results once. Returns true if anything came.
    async fn advance(&mut self, cursor: &mut Cursor) -> Result<bool, ResultsError> {
        let request = CollectRequest { offset: cursor.offset, max_bytes: CHUNK_BYTES };
        let failed = |why: String| ResultsError::Unread { operator: cursor.operator.clone(), why };
        let answer = self.coordinators.request(&cursor.operator, &request.encode()).await;
        let bytes = match answer {
            Ok(bytes) => bytes,
            Err(RequestFailure::NotNow) => return Ok(false),
            Err(RequestFailure::Transient(_)) if cursor.failures < FAILURES_MAX => {
                cursor.failures += 1;
                return Ok(false);
            }
            Err(RequestFailure::Transient(why) | RequestFailure::Final(why)) => {
                return Err(failed(why));
            }
        };
        let chunk = CollectChunk::decode(&bytes).map_err(|e| failed(e.to_string()))?;
        cursor.failures = 0;
        for line in &chunk.lines {
            (self.print)(line).map_err(ResultsError::Unwritten)?;
        }
        cursor.offset = chunk.offset.saturating_add(chunk.lines.len() as u64);
        cursor.ended = chunk.end;
        Ok(!chunk.lines.is_empty() || chunk.end)
    }
}

/// Reads the results of a job of this process and prints them, because no client does.
///
/// # Errors
/// When they can't be read to their end.
pub(crate) async fn print_own(
    dispatcher: Remote<DispatcherGateway>,
    job_id: JobId,
    poll: Duration,
) -> Result<(), ResultsError> {
    let details = loop {
        match dispatcher.ask(RequestJobDetails { job_id }).await {
            Ok(details) => break details,
            // Not submitted yet, or its JobMaster is not up.
            Err(error) => tracing::trace!(%error, "no details of the job yet"),
        }
        tokio::time::sleep(poll).await;
    };
    announce(&details);
    let operators = collecting_operators(&details.graph);
    if operators.is_empty() {
        return Ok(());
    }
    let coordinators = LocalCoordinators { dispatcher, job_id, operators };
    ResultReader::new(coordinators, print_line).read_all(poll).await
}

/// Prints the line that announces the job of this process; the process that started this one waits
/// for it. A job that failed at once is reported as the process's end.
fn announce(details: &JobDetails) {
    if details.status == JobStatus::Failed {
        return;
    }
    // Standard error may be closed; there is nobody to tell then.
    let _ = writeln!(
        io::stderr().lock(),
        "job {} '{}' is submitted",
        details.graph.job_id,
        crate::cli::output::plain(&details.graph.name)
    );
}

/// Prints a line of a result to standard output.
pub(crate) fn print_line(line: &[u8]) -> io::Result<()> {
    write_line(&mut io::stdout().lock(), line)
}

/// Writes a line. A closed reader (`| head`) is not an error; any other failure is.
pub(crate) fn write_line(out: &mut impl Write, line: &[u8]) -> io::Result<()> {
    match out.write_all(line).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Returns the operators of a graph whose results a client reads.
pub(crate) fn collecting_operators(graph: &JobGraph) -> Vec<OperatorId> {
    graph.nodes.iter().filter(|node| node.kind == COLLECTING).map(|node| node.operator_id).collect()
}

/// Through a cluster's REST endpoint.
pub(crate) struct RestCoordinators {
    client: RestClient,
    job: String,
}

impl RestCoordinators {
    /// Reads the results of the given job.
    pub(crate) fn new(client: RestClient, job: &str) -> Self {
        Self { client, job: job.to_owned() }
    }
}

fn rest_failure(error: ClientError) -> RequestFailure {
    match &error {
        ClientError::Refused { status: 503, .. } => RequestFailure::NotNow,
        error if error.is_transient() => RequestFailure::Transient(error.to_string()),
        error => RequestFailure::Final(error.to_string()),
    }
}

impl Coordinators for RestCoordinators {
    async fn collecting(&self) -> Result<Vec<String>, RequestFailure> {
        let plan = self.client.job_plan(&self.job).await.map_err(rest_failure)?;
        let operators = plan.plan.nodes.into_iter().flat_map(|node| node.operators);
        Ok(operators
            .filter(|operator| operator.kind == COLLECTING)
            .map(|operator| operator.id)
            .collect())
    }

    async fn request(&self, operator: &str, request: &[u8]) -> Result<Vec<u8>, RequestFailure> {
        self.client.coordinate(&self.job, operator, request).await.map_err(rest_failure)
    }
}

/// Asks the coordinators of a job's collecting operators through the Dispatcher of this process.
pub(crate) struct LocalCoordinators {
    /// Gateway of the Dispatcher that passes requests on to the job's coordinators.
    pub dispatcher: Remote<DispatcherGateway>,
    /// Job whose results are read.
    pub job_id: JobId,
    /// Operators of the job that collect results, by their ids.
    pub operators: Vec<OperatorId>,
}

impl Coordinators for LocalCoordinators {
    async fn collecting(&self) -> Result<Vec<String>, RequestFailure> {
        Ok(self.operators.iter().map(ToString::to_string).collect())
    }

    async fn request(&self, operator: &str, request: &[u8]) -> Result<Vec<u8>, RequestFailure> {
        let operator = operator
            .parse()
            .map_err(|e: model::ids::ParseIdError| RequestFailure::Final(e.to_string()))?;
        let ask =
            DeliverCoordinationRequest { job_id: self.job_id, operator, request: request.to_vec() };
        match self.dispatcher.ask(ask).await {
            Ok(answer) => Ok(answer.into_vec()),
            Err(CallError::Refused(
                CoordinationError::Unavailable(_) | CoordinationError::Unanswered(_),
            )) => Err(RequestFailure::NotNow),
            Err(CallError::Refused(refused)) => Err(RequestFailure::Final(refused.to_string())),
            Err(CallError::Fabric(error)) if error.is_retriable() => {
                Err(RequestFailure::Transient(error.to_string()))
            }
            Err(CallError::Fabric(error)) => Err(RequestFailure::Final(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// A coordinator that has two lines, is away for a while, and then ends.
    #[derive(Default)]
    struct Scripted {
        asked: Cell<u32>,
    }

    impl Coordinators for Scripted {
        async fn collecting(&self) -> Result<Vec<String>, RequestFailure> {
            Ok(vec!["a".to_owned()])
        }
        async fn request(&self, _: &str, request: &[u8]) -> Result<Vec<u8>, RequestFailure> {
            let request = CollectRequest::decode(request).unwrap();
            self.asked.set(self.asked.get() + 1);
            let all = [b"one".to_vec(), b"two".to_vec()];
            let chunk = match self.asked.get() {
                1 => return Err(RequestFailure::Transient("not yet".to_owned())),
                2 => CollectChunk { offset: 0, lines: Vec::new(), end: false },
                3 => CollectChunk { offset: 0, lines: vec![all[0].clone()], end: false },
                _ => {
                    assert_eq!(request.offset, 1);
                    CollectChunk { offset: 1, lines: vec![all[1].clone()], end: true }
                }
            };
            Ok(chunk.encode())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_line_is_read_once_and_in_order() {
        let lines = Rc::new(RefCell::new(Vec::new()));
        let seen = lines.clone();
        let mut reader = ResultReader::new(Scripted::default(), move |line: &[u8]| {
            seen.borrow_mut().push(line.to_vec());
            Ok(())
        });
        reader.read_all(Duration::from_millis(10)).await.unwrap();
        assert_eq!(*lines.borrow(), [b"one".to_vec(), b"two".to_vec()]);
    }

    /// The coordinators of a job that waits for slots for ten minutes; after that no request is answered.
    #[derive(Default)]
    struct Waiting {
        asked: Cell<u32>,
    }

    impl Coordinators for Waiting {
        async fn collecting(&self) -> Result<Vec<String>, RequestFailure> {
            Ok(vec!["a".to_owned()])
        }
        async fn request(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, RequestFailure> {
            self.asked.set(self.asked.get() + 1);
            Err(match self.asked.get() {
                ..=6000 => RequestFailure::NotNow,
                _ => RequestFailure::Transient("connection refused".to_owned()),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_waits_is_asked_for_as_long_as_somebody_answers() {
        let mut reader = ResultReader::new(Waiting::default(), |_: &[u8]| Ok(()));
        let error = reader.read_all(Duration::from_millis(100)).await.unwrap_err();
        assert!(error.to_string().contains("connection refused"), "{error}");
        assert_eq!(reader.coordinators.asked.get(), 6000 + FAILURES_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_cannot_be_written_ends_the_reading() {
        let full = |line: &[u8]| {
            let mut device = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
            write_line(&mut device, line)
        };
        let mut reader = ResultReader::new(Scripted::default(), full);
        let error = reader.read_all(Duration::from_millis(10)).await.unwrap_err();
        assert_eq!(error.exit(), Exit::Fatal);
        assert!(error.to_string().contains("No space left on device"), "{error}");
        assert_eq!(reader.coordinators.asked.get(), 3, "it goes on asking");
    }

    #[test]
    fn only_a_reader_that_has_gone_is_no_failure() {
        struct Failing(ErrorKind);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(write_line(&mut Failing(ErrorKind::BrokenPipe), b"x").is_ok());
        for kind in [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::WouldBlock] {
            assert_eq!(write_line(&mut Failing(kind), b"x").unwrap_err().kind(), kind);
        }
        let mut text = Vec::new();
        write_line(&mut text, b"one").unwrap();
        assert_eq!(text, b"one\n");
    }
}
