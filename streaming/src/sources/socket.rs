//! The source of lines from a TCP connection. It has one subtask, and reads nothing again after a failure.

use super::{
    Boundedness, LineBuffer, NoEnumerator, ReadProgress, ReaderContext, ReaderOutput, Source,
    SourceReader, SourceSplit, SplitEnumeratorContext, lines::without_return,
};
use crate::{
    operators::{BoxError, OperatorContext},
    types::FromLine,
};
use std::{marker::PhantomData, sync::Arc};
use tokio::{io::AsyncReadExt, net::TcpStream, sync::Mutex};

/// The id of the only split. It is not the address, so that a restored program may name another one.
const SPLIT: &str = "socket";
/// Capacity of one read in bytes.
const BLOCK: usize = 64 << 10;

/// A source of the lines that arrive over a TCP connection, for tries and demonstrations: Flink's `socketTextStream`.
///
/// A line ends with `\n` or `\r\n`, which is not part of the record; the last line needs no line end. The source has one subtask
/// and is a chain of its own; its records are distributed round-robin to the subtasks of the next operator. The task fails if it
/// cannot connect. The source ends when the peer closes the connection, but it counts as unbounded, because nobody knows whether
/// the peer will. After a failure it connects anew: lines that were read before are not read again, so results are not exactly
/// once.
///
/// ```
/// # use streaming::{Environment, sources::SocketSource, time::WatermarkStrategy};
/// # fn job(env: &Environment) {
/// let times = WatermarkStrategy::for_monotonous_timestamps(|line: &String| {
///     line.split(' ').next().and_then(|at| at.parse().ok()).unwrap_or(0)
/// });
/// let lines = env.from_source(SocketSource::text("localhost:9999"), times, "socket").uid("socket");
/// let bytes = SocketSource::lines("localhost:9998");
/// let sizes = env.from_source(bytes, WatermarkStrategy::no_watermarks(), "bytes").map(|line| line.len());
/// # lines.print();
/// # sizes.print();
/// # }
/// ```
///
/// [`Environment::socket_text`](crate::Environment::socket_text) is the short form, without event times.
#[derive(Debug, Clone)]
pub struct SocketSource<T> {
    address: String,
    record: PhantomData<fn() -> T>,
}

impl SocketSource<String> {
    /// Creates a source of lines as text that connects to `address`, `host:port`, when its task first reads. A line that is not UTF-8,
    /// or longer than 256 MiB, fails the task.
    pub fn text(address: impl Into<String>) -> Self {
        Self { address: address.into(), record: PhantomData }
    }
}

impl SocketSource<Vec<u8>> {
    /// Creates a source of lines as bytes, which need not be UTF-8, that connects to `address`, `host:port`, when its task first reads.
    /// A line longer than 256 MiB fails the task.
    pub fn lines(address: impl Into<String>) -> Self {
        Self { address: address.into(), record: PhantomData }
    }
}

/// The only split of a [`SocketSource`]: its connection. The split has no position, since a socket cannot be read again.
#[derive(Debug, Clone, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
pub struct SocketSplit {
    /// Address of the peer, `host:port`.
    address: String,
}

impl SourceSplit for SocketSplit {
    fn split_id(&self) -> String {
        SPLIT.to_owned()
    }
}

impl<T: FromLine> Source for SocketSource<T> {
    type Record = T;
    type Split = SocketSplit;
    type Enumerator = NoEnumerator<SocketSplit>;
    type Reader = SocketReader<T>;

    fn boundedness(&self) -> Boundedness {
        Boundedness::ContinuousUnbounded
    }
    fn is_single(&self) -> bool {
        true
    }
    fn create_enumerator(
        &self,
        _context: SplitEnumeratorContext<SocketSplit>,
        _restored: Option<()>,
    ) -> Result<NoEnumerator<SocketSplit>, BoxError> {
        Ok(NoEnumerator::default())
    }
    fn create_reader(&self, _context: &OperatorContext) -> Result<SocketReader<T>, BoxError> {
        Ok(SocketReader::new(self.address.clone()))
    }
}

/// The reader of a [`SocketSource`]: connects when it is first polled, reads up to 64 KiB at a time beside the task, and ends when the
/// peer closes the connection. A failed connection or read, a line that is no record, and one longer than 256 MiB fail the task with
/// `TaskError::Io`; there is no time-out and no further try within an attempt.
#[derive(Debug)]
pub struct SocketReader<T> {
    address: String,
    /// The connection, opened by the first read; at most one read is under way.
    connection: Arc<Mutex<Option<TcpStream>>>,
    lines: LineBuffer,
    asked: bool,
    closed: bool,
    record: PhantomData<fn() -> T>,
}

impl<T: FromLine> SocketReader<T> {
    pub(super) fn new(address: String) -> Self {
        Self {
            address,
            connection: Arc::default(),
            lines: LineBuffer::default(),
            asked: false,
            closed: false,
            record: PhantomData,
        }
    }

    fn ask(&mut self, context: &mut ReaderContext<'_>) {
        let (address, connection) = (self.address.clone(), self.connection.clone());
        self.asked = true;
        let read = async move {
            let mut connection = connection.lock().await;
            let stream = match &mut *connection {
                Some(stream) => stream,
                none => none.insert(
                    TcpStream::connect(&address)
                        .await
                        .map_err(|error| format!("can't connect to {address}: {error}"))?,
                ),
            };
            let mut block = Vec::with_capacity(BLOCK);
            stream
                .read_buf(&mut block)
                .await
                .map_err(|error| format!("can't read from {address}: {error}"))?;
            Ok(block)
        };
        context.spawn_io(Box::pin(read), 0);
    }
}

fn record<T: FromLine>(
    address: &str,
    line: &[u8],
    context: &ReaderContext<'_>,
) -> Result<T, BoxError> {
    let wrong = |why| context.operator().io_error(format!("can't read a line of {address}"), why);
    Ok(T::from_line(without_return(line)).map_err(wrong)?)
}

impl<T: FromLine> SourceReader for SocketReader<T> {
    type Record = T;
    type Split = SocketSplit;

    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<T>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        for _ in 0..most {
            let Some(line) = self.lines.next_line() else {
                if self.closed {
                    let rest = self.lines.rest();
                    if !rest.is_empty() {
                        out.split(SPLIT).collect(record(&self.address, rest, context)?);
                    }
                    return Ok(ReadProgress::Ended);
                }
                if !self.asked {
                    self.ask(context);
                }
                return Ok(ReadProgress::Waiting);
            };
            out.split(SPLIT).collect(record(&self.address, line, context)?);
            if out.is_stopped() {
                break;
            }
        }
        Ok(ReadProgress::More)
    }

    fn io_done(
        &mut self,
        _ticket: u32,
        result: Result<Vec<u8>, String>,
        context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        let operator = context.operator();
        let block = result.map_err(|why| operator.io_error("socket", why))?;
        self.asked = false;
        // An empty read is the end of the stream.
        self.closed = block.is_empty();
        self.lines.push(&block).map_err(|error| operator.io_error("socket", error))?;
        Ok(())
    }

    fn add_splits(
        &mut self,
        _splits: Vec<SocketSplit>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    fn no_more_splits(&mut self) {}
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<SocketSplit>, BoxError> {
        Ok(vec![SocketSplit { address: self.address.clone() }])
    }
}
