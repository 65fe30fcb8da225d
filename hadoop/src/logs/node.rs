//! Logs of containers that run, from their nodes' web addresses. A thin shell: a connection for each
//! question, a deadline for each wait.

use super::http::HttpResponse;
use super::local::{LIST_MAX, LocalLog, LocalLogs, local_logs};
use super::{LogError, LogEvent};
use crate::yarn::messages::ContainerId;
use bytes::{Bytes, BytesMut};
use std::fmt::Write as _;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// Characters of a refusal that are kept.
const REASON_MAX: usize = 300;

/// A client of one node's web service, which asks it over HTTP for the logs of containers that run there. No connection is made until a log
/// or a list is asked for. Nothing is tried again, and a connection serves one question only.
#[derive(Debug, Clone)]
pub struct NodeLogs {
    address: String,
    user: String,
    patience: Duration,
}

impl NodeLogs {
    /// Describes the node at this web address, as a `ContainerReport` has it: `http://host:port` or `host:port`. `user` is the user name
    /// that the node is told, without proof; nodes that want Kerberos or TLS refuse. `patience` is the longest wait for each connection,
    /// each request and each read, not for a log as a whole. Connects to nothing and checks nothing.
    #[must_use]
    pub fn new(address: &str, user: &str, patience: Duration) -> Self {
        let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        Self { address: address.to_owned(), user: user.to_owned(), patience }
    }

    /// Asks the node which log files of the container are on its disk; empty if there are none. Makes a connection of its own.
    ///
    /// # Errors
    /// Fails with [`LogError::Node`] if the node cannot be reached, breaks the connection, is silent for longer than `patience`, or wants
    /// TLS; [`LogError::Refused`] for any HTTP status but 200, such as for an unknown container or one that the user may not see;
    /// [`LogError::Answer`] for an answer that is not HTTP or no list, ends too early, or has more than 4 MiB.
    pub async fn list(&self, container: ContainerId) -> Result<Vec<LocalLog>, LogError> {
        let path = format!("/ws/v1/node/containers/{container}/logs");
        let mut answer = self.ask(&path, "application/xml").await?;
        let mut list = BytesMut::new();
        while let Some(piece) = answer.next().await? {
            list.extend_from_slice(&piece);
            if list.len() > LIST_MAX {
                return Err(LogError::Answer("the list of logs is too long"));
            }
        }
        local_logs(&String::from_utf8_lossy(&list))
    }

    /// Opens one of the container's logs; bytes that the container writes after the node has begun to answer are not in it. `name` is the
    /// file's name, such as `stdout`. Makes a connection of its own, and returns once the node has begun to answer.
    ///
    /// # Errors
    /// Fails with [`LogError::Node`] if the node cannot be reached, breaks the connection, is silent for longer than `patience`, or wants
    /// TLS; [`LogError::Refused`] for any HTTP status but 200, such as for an unknown container or log or one that the user may not see;
    /// [`LogError::Answer`] for an answer that is not HTTP, or ends in its head.
    pub async fn open(
        &self,
        container: ContainerId,
        name: &str,
    ) -> Result<NodeLogStream, LogError> {
        let name = escaped(name);
        let path = format!("/ws/v1/node/containers/{container}/logs/{name}");
        let answer = self.ask(&path, "text/plain").await?;
        Ok(NodeLogStream { answer, decoder: LocalLogs::default() })
    }

    async fn ask(&self, path: &str, accept: &str) -> Result<Answer, LogError> {
        if self.address.starts_with("https://") {
            let why = "nodes that want TLS are not supported";
            return Err(self.failed(io::Error::new(io::ErrorKind::Unsupported, why)));
        }
        let mut stream = self.in_time(TcpStream::connect(&self.address)).await?;
        let (host, user) = (&self.address, escaped(&self.user));
        let request = format!(
            "GET {path}?user.name={user} HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\n\
             Connection: close\r\n\r\n"
        );
        self.in_time(stream.write_all(request.as_bytes())).await?;
        let mut answer =
            Answer { node: self.clone(), stream, response: HttpResponse::default(), first: None };
        answer.first = answer.next().await?;
        match answer.response.status() {
            Some(200) => Ok(answer),
            status => {
                let said = answer.first.unwrap_or_default();
                let reason = String::from_utf8_lossy(&said);
                let reason = reason.chars().filter(|c| !c.is_control()).take(REASON_MAX).collect();
                let (address, status) = (self.address.clone(), status.unwrap_or_default());
                Err(LogError::Refused { address, status, reason })
            }
        }
    }

    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> Result<T, LogError> {
        let done = timeout(self.patience, step).await;
        done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> LogError {
        LogError::Node { address: self.address.clone(), source }
    }
}

/// The body of a node's answer.
struct Answer {
    node: NodeLogs,
    stream: TcpStream,
    response: HttpResponse,
    /// The beginning of the body, which came in one read with the head.
    first: Option<Bytes>,
}

impl Answer {
    /// The next piece, never empty; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, LogError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while !self.response.is_over() {
            let mut bytes = BytesMut::with_capacity(READ);
            if self.node.in_time(self.stream.read_buf(&mut bytes)).await? == 0 {
                self.response.finish()?;
                return Ok(None);
            }
            let piece = self.response.give(bytes.freeze())?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// One log that a node sends over its connection, made by [`NodeLogs::open`]: its header, its bytes and its end as events, read from the
/// node as they are asked for. It is not continued after an error. Dropping it closes the connection.
#[derive(derive_more::Debug)]
#[debug("NodeLogStream {{ node: {:?}, .. }}", self.answer.node)]
pub struct NodeLogStream {
    answer: Answer,
    decoder: LocalLogs,
}

impl NodeLogStream {
    /// Returns the next event of the log, waiting at most the `patience` of [`NodeLogs::new`] for each read; `None`
    /// after the log's end.
    ///
    /// # Errors
    /// Fails with [`LogError::Node`] if the connection breaks, or the node is silent for longer than `patience`;
    /// [`LogError::Answer`] if the answer holds no log, or ends before the length that its HTTP head announced. If that
    /// announced none, a log that was cut off ends with `complete: false`.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, LogError> {
        loop {
            if let Some(event) = self.decoder.poll()? {
                return Ok(Some(event));
            }
            if self.decoder.is_over() {
                return Ok(None);
            }
            match self.answer.next().await? {
                Some(piece) => self.decoder.give(piece),
                None => return self.decoder.finish(),
            }
        }
    }
}

/// A word as a part of a path or query.
fn escaped(word: &str) -> String {
    let mut escaped = String::with_capacity(word.len());
    for byte in word.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            // Writing to a text cannot fail.
            _ => _ = write!(escaped, "%{byte:02X}"),
        }
    }
    escaped
}
