//! Byte streams and where they come from. Nothing here knows what is said over a stream.

use futures::future::BoxFuture;
use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// The reading half of a [`BoxStream`].
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
/// The writing half of a [`BoxStream`]. A write may be polled on another thread than the reading half's, such as another lane's.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;
/// A listener on a bound port of any [`Network`]; dropping it frees the port.
pub type BoxListener = Box<dyn Listener>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite);
}

/// A stream whose halves share a lock, because its type has no halves of its own.
struct Generic<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Generic<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Generic<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for Generic<S> {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite) {
        let (read, write) = tokio::io::split(self.0);
        (Box::new(read), Box::new(write))
    }
}

impl Stream for TcpStream {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite) {
        let (read, write) = self.into_split();
        (Box::new(read), Box::new(write))
    }
}

impl Stream for UnixStream {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite) {
        let (read, write) = self.into_split();
        (Box::new(read), Box::new(write))
    }
}

/// A two-way byte stream of any kind: TCP, Unix socket, pipe, TLS or simulated.
#[derive(derive_more::Debug)]
#[debug("BoxStream")]
pub struct BoxStream(Box<dyn Stream>);

impl BoxStream {
    /// Wraps any stream. Its halves (see [`BoxStream::split`]) then share a lock; sockets of tokio have cheaper conversions:
    /// `From<TcpStream>` and `From<UnixStream>`.
    pub fn new<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) -> Self {
        Self(Box::new(Generic(stream)))
    }

    /// Splits the stream into its reading and its writing half. Dropping the writing half of a socket (made by `From`) ends that
    /// direction only; a stream made by [`BoxStream::new`] stays open until both halves are dropped.
    pub fn split(self) -> (BoxRead, BoxWrite) {
        self.0.split()
    }
}

impl From<TcpStream> for BoxStream {
    fn from(stream: TcpStream) -> Self {
        Self(Box::new(stream))
    }
}

impl From<UnixStream> for BoxStream {
    fn from(stream: UnixStream) -> Self {
        Self(Box::new(stream))
    }
}

impl AsyncRead for BoxStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for BoxStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}

/// A bound port on which connections come in, made by [`Network::listen`]: each call of `accept` returns one of them, in the order of
/// their arrival; those that nobody accepts wait. Dropping the listener frees the port; accepted connections stay open.
pub trait Listener: Send + fmt::Debug {
    /// Waits for the next connection, without a limit. Returns its stream and the peer's address as text for log lines
    /// (`in-process` for pipes). An error may concern one connection only; the caller may call again. Dropping the future loses no
    /// connection.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>>;
    /// Returns the bound port: the chosen one if port 0 was asked for.
    fn local_port(&self) -> u16;
}

/// A way to open connections (`connect`) and to accept them (`listen`): TCP, pipes inside a process, or a simulated network. Neither
/// call retries, nor sets a limit of time; nobody's identity is checked. One value serves a whole process.
pub trait Network: Send + Sync + fmt::Debug + 'static {
    /// Connects to a port of a host, named by host name or address (of IPv6 also in brackets); TCP tries all addresses of a name in turn.
    /// Fails with the system's error, such as `ConnectionRefused` if nobody listens. Sets no limit of time (the system's may be minutes):
    /// the caller sets one, and gives the attempt up by dropping the future.
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>>;
    /// Binds a port of the local address `host` and listens on it; port 0 means any free one. Of a host name the first address that
    /// can be bound is taken. Fails if the port is taken or the host is no local address.
    fn listen(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>>;
}
