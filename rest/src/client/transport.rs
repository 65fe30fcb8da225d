//! One HTTP/1.1 exchange on one connection, bounded in time and size.

use crate::access::BearerToken;
use crate::messages::{ErrorBody, Usage};
use crate::traces::TRACEPARENT;
use bytes::Bytes;
use gateways::TraceContext;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The reason why a request of a [`RestClient`](super::RestClient) has no usable answer: no connection, no answer in time, a
/// refusal, an answer of another shape, or a file to upload that cannot be read.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No connection to the endpoint was made: the host name was not resolved, the system refused or reported an error, or
    /// [`ClientTimeouts::connect`](super::ClientTimeouts::connect) passed. The request was not sent.
    #[error("no REST endpoint answers at {authority}: {why}")]
    Unreachable {
        /// Authority of the endpoint, `host:port`.
        authority: String,
        /// Message of the system.
        why: String,
    },
    /// A connection was made, but there is no whole answer: the connection broke, the answer did not come in time or was above 256 MiB (a
    /// download has no such limit), the answer is not HTTP, or the file of an upload could not be read to its end. The endpoint may have
    /// carried the request out. Also a path that is not a valid one for HTTP; nothing was sent then.
    #[error("the REST endpoint at {authority} did not answer {path}: {why}")]
    Broken {
        /// Authority of the endpoint, `host:port`.
        authority: String,
        /// Path of the request.
        path: String,
        /// Description of the failure, for users.
        why: String,
    },
    /// The endpoint has answered with a status of 400 or more, for example 404 because the job is unknown or 503 because
    /// nobody leads just now. Without a readable error body, the one reason names the status.
    #[error("{}", errors.join("; "))]
    Refused {
        /// Status of the HTTP answer.
        status: u16,
        /// Reasons that the endpoint gave, in its order; at least one.
        errors: Vec<String>,
        /// Set if the errors are a program's own words about its arguments; otherwise `None`.
        usage: Option<Usage>,
    },
    /// The endpoint answered with a status below 400, but the body is not JSON of the expected shape, so the other side is
    /// perhaps no such endpoint; or the request's body could not be encoded, and nothing was sent.
    #[error("the answer to {what} is not understood (is this a Flott endpoint?): {why}")]
    Malformed {
        /// Path of the request.
        what: String,
        /// The reason why the answer is not understood.
        why: String,
    },
    /// The file to upload can't be opened or its size can't be read; nothing was sent.
    #[error("'{path}' cannot be read: {why}")]
    File {
        /// Path of the file to send.
        path: String,
        /// Message of the system.
        why: String,
    },
}

impl ClientError {
    /// Returns the HTTP status of the endpoint's refusal (`Refused`), 400 or more; `None` for other errors.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
    /// Returns true if asking again may help: nobody answered (`Unreachable`, `Broken`), or the endpoint refused with 503 or 504 (nobody
    /// leads just now, too many requests, or a component did not answer in time). After `Broken`, 503 or 504 the first request may have
    /// been carried out.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Refused { status, .. } => matches!(*status, 503 | 504),
            _ => false,
        }
    }
}

pub(super) type Body = BoxBody<Bytes, std::io::Error>;

/// The endpoint that requests go to.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    host: String,
    port: u16,
    authority: String,
    connect_within: Duration,
    pub(super) token: Option<BearerToken>,
    pub(super) trace: TraceContext,
}

impl Transport {
    pub(super) fn new(host: &str, port: u16, connect_within: Duration) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let shown = if bare.contains(':') { format!("[{bare}]") } else { bare.to_owned() };
        let authority = format!("{shown}:{port}");
        let (host, trace) = (bare.to_owned(), TraceContext::NONE);
        Self { host, port, authority, connect_within, token: None, trace }
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Bytes, ClientError> {
        let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {}).boxed();
        self.exchange(method, path, "application/json", body, within).await
    }

    /// Sends and reads the whole answer; a status of 400 or more is an error with its reasons.
    pub(super) async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Body,
        within: Duration,
    ) -> Result<Bytes, ClientError> {
        let (stream, request) = self.open(method, path, content_type, body).await?;
        match timeout(within, answered(stream, request, within, whole)).await {
            Err(_) => Err(self.broken(path, silence(within))),
            Ok(Err(why) | Ok(Err(why))) => Err(self.broken(path, why)),
            Ok(Ok(Ok((status, bytes)))) if is_refusal(status) => Err(refusal(status, &bytes)),
            Ok(Ok(Ok((_, bytes)))) => Ok(bytes),
        }
    }

    /// Gets an answer of any length and hands it to `each` in pieces as they come; each wait for the next piece may take
    /// `within`. Stops at the first error of `each`.
    pub(super) async fn download<E: From<ClientError>>(
        &self,
        path: &str,
        within: Duration,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let empty = Full::new(Bytes::new()).map_err(|never: Infallible| match never {}).boxed();
        let (stream, request) = self.open(Method::GET, path, "application/json", empty).await?;
        let read = async |response: Response<Incoming>| -> Result<(), E> {
            if is_refusal(response.status()) {
                let body = timeout(within, whole(response)).await;
                let body = body.map_err(|_| self.broken(path, silence(within)))?;
                let (status, bytes) = body.map_err(|why| self.broken(path, why))?;
                return Err(refusal(status, &bytes).into());
            }
            let mut body = response.into_body();
            loop {
                let frame = timeout(within, body.frame()).await;
                let Some(frame) = frame.map_err(|_| self.broken(path, silence(within)))? else {
                    return Ok(());
                };
                let frame = frame.map_err(|e| self.broken(path, describe(&e)))?;
                if let Some(piece) = frame.data_ref() {
                    each(piece)?;
                }
            }
        };
        let answered = answered(stream, request, within, read).await;
        answered.map_err(|why| self.broken(path, why))?
    }

    /// Connects; returns the connection and the request to send on it.
    async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Body,
    ) -> Result<(TcpStream, Request<Body>), ClientError> {
        let stream = self.connect().await?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/v1{path}"))
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, content_type);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        if !self.trace.is_none() {
            request = request.header(TRACEPARENT, self.trace.traceparent());
        }
        let request = request.body(body).map_err(|e| self.broken(path, e.to_string()))?;
        Ok((stream, request))
    }

    fn broken(&self, path: &str, why: String) -> ClientError {
        ClientError::Broken { authority: self.authority.clone(), path: path.to_owned(), why }
    }

    async fn connect(&self) -> Result<TcpStream, ClientError> {
        let unreachable =
            |why: String| ClientError::Unreachable { authority: self.authority.clone(), why };
        let dial = TcpStream::connect((self.host.as_str(), self.port));
        match timeout(self.connect_within, dial).await {
            Err(_) => Err(unreachable(format!(
                "no connection within {} s",
                self.connect_within.as_secs()
            ))),
            Ok(Err(e)) => Err(unreachable(e.to_string())),
            Ok(Ok(stream)) => {
                // Small requests should not wait for more to send; failing to say so only costs time.
                let _ = stream.set_nodelay(true);
                Ok(stream)
            }
        }
    }
}

/// Sends the request on the connection and gives the answer, whose head has to come `within`, to `read`. The error is
/// what went wrong, in words.
async fn answered<T>(
    stream: TcpStream,
    request: Request<Body>,
    within: Duration,
    read: impl AsyncFnOnce(Response<Incoming>) -> T,
) -> Result<T, String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| describe(&e))?;
    let answer = async {
        let response = timeout(within, sender.send_request(request)).await;
        let response = response.map_err(|_| silence(within))?.map_err(|e| describe(&e))?;
        // The sender must live until the body has come: dropped earlier, the connection closes.
        let read = read(response).await;
        drop(sender);
        Ok(read)
    };
    tokio::pin!(connection, answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The connection's end shows as the answer's error; its own result adds nothing.
        _ = &mut connection => answer.await,
    }
}

fn silence(within: Duration) -> String {
    format!("no answer within {} s", within.as_secs())
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Reads an answer to its end.
async fn whole(response: Response<Incoming>) -> Result<(StatusCode, Bytes), String> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let collected = body.collect().await.map_err(|e| e.to_string())?;
    Ok((status, collected.to_bytes()))
}

fn describe(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

fn refusal(status: StatusCode, bytes: &[u8]) -> ClientError {
    let mut body = serde_json::from_slice::<ErrorBody>(bytes).unwrap_or_default();
    if body.errors.is_empty() {
        body.errors = vec![format!("the endpoint answered {status}")];
    }
    let ErrorBody { errors, usage } = body;
    ClientError::Refused { status: status.as_u16(), errors, usage }
}

/// Percent-encodes a path segment.
pub(super) fn escape(segment: &str) -> String {
    segment
        .bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(b).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_are_escaped() {
        assert_eq!(escape("a b/ö"), "a%20b%2F%C3%B6");
    }

    #[tokio::test]
    async fn nobody_there_is_said_with_the_address() {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = gone.local_addr().unwrap().port();
        drop(gone);
        let transport = Transport::new("127.0.0.1", port, Duration::from_secs(5));
        let error = transport
            .send(Method::GET, "/overview", Vec::new(), Duration::from_secs(5))
            .await
            .unwrap_err();
        assert!(error.is_transient());
        assert!(error.to_string().contains(&port.to_string()));
    }

    #[tokio::test]
    async fn the_body_of_a_refused_download_is_not_waited_for_without_a_limit() {
        use crate::client::{ClientTimeouts, RestClient};
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let serve = async {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut request = [0; 1_024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let head = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 9\r\n\r\nhalf";
            stream.write_all(head).await.unwrap();
            // The connection stays open until the client closes it.
            while stream.read(&mut request).await.unwrap() > 0 {}
        };
        let timeouts =
            ClientTimeouts { answer: Duration::from_millis(100), ..ClientTimeouts::default() };
        let client = RestClient::new("127.0.0.1", port, timeouts);
        let read = client.log("log", |_| Ok::<(), ClientError>(()));
        let (error, ()) = tokio::join!(async { read.await.unwrap_err() }, serve);
        assert!(matches!(&error, ClientError::Broken { .. }), "{error:?}");
        assert!(error.to_string().contains("no answer within"), "{error}");
    }
}
