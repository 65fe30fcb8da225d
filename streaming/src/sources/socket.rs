//! Lines that come over a TCP connection. One subtask; nothing is read again after a failure.

use super::{LineBuffer, lines::without_return};
use crate::{
    chain::{ReadProgress, SourceReader},
    operators::{Collector, OperatorContext, OperatorMail},
    seam::TaskError,
    types::FromLine,
};
use std::{marker::PhantomData, sync::Arc};
use tokio::{io::AsyncReadExt, net::TcpStream, sync::Mutex};

/// Bytes of one read.
const BLOCK: usize = 64 << 10;

/// Reads lines as `T`.
#[derive(Debug)]
pub struct SocketReader<T> {
    address: String,
    /// Made by the first read; only one read is under way at a time.
    connection: Arc<Mutex<Option<TcpStream>>>,
    lines: LineBuffer,
    asked: bool,
    closed: bool,
    record: PhantomData<fn() -> T>,
}

impl<T: FromLine> SocketReader<T> {
    /// From `host:port`.
    pub fn new(address: String) -> Self {
        Self {
            address,
            connection: Arc::default(),
            lines: LineBuffer::default(),
            asked: false,
            closed: false,
            record: PhantomData,
        }
    }

    fn ask(&mut self, context: &OperatorContext) {
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
    context: &OperatorContext,
) -> Result<T, TaskError> {
    T::from_line(without_return(line))
        .map_err(|why| context.io_error(format!("a line of {address}"), why))
}

impl<T: FromLine> SourceReader for SocketReader<T> {
    type Record = T;

    fn read(
        &mut self,
        most: usize,
        out: &mut Collector<T>,
        context: &OperatorContext,
    ) -> Result<ReadProgress, TaskError> {
        for _ in 0..most {
            let Some(line) = self.lines.next_line() else {
                if self.closed {
                    let rest = self.lines.rest();
                    if !rest.is_empty() {
                        out.collect(record(&self.address, rest, context)?);
                    }
                    return Ok(ReadProgress::Ended);
                }
                if !self.asked {
                    self.ask(context);
                }
                return Ok(ReadProgress::Waiting);
            };
            out.collect(record(&self.address, line, context)?);
        }
        Ok(ReadProgress::More)
    }

    fn mail(&mut self, mail: OperatorMail, context: &OperatorContext) -> Result<(), TaskError> {
        let OperatorMail::Reply { result, .. } = mail else { return Ok(()) };
        let block = result.map_err(|why| context.io_error("socket", why))?;
        self.asked = false;
        // A read that brings nothing is the end.
        self.closed = block.is_empty();
        self.lines.push(&block).map_err(|error| context.io_error("socket", error))
    }
}
