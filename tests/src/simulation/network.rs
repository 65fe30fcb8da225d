//! The network of one simulated host: turmoil's, with connections that a fault can reset while both hosts live.
//!
//! This module must never change or reorder the bytes of a connection.

use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use platform::turmoil_net::TurmoilNetwork;
use platform::{BoxListener, BoxStream, Network};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The state of a connection through which a fault resets it.
#[derive(Debug, Default)]
struct Line {
    is_cut: AtomicBool,
    reader: AtomicWaker,
}

#[derive(Debug)]
struct Dialled {
    from: String,
    to: String,
    line: Weak<Line>,
}

/// All connections of a run between simulated hosts, so that faults can reset them. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<Mutex<Vec<Dialled>>>);

impl Connections {
    fn with<T>(&self, f: impl FnOnce(&mut Vec<Dialled>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resets every connection between two hosts that is open now: reads and writes on the side that connected fail. Returns false if there
    /// was none.
    pub fn reset(&self, a: &str, b: &str) -> bool {
        let lines: Vec<Arc<Line>> = self.with(|all| {
            all.retain(|dialled| dialled.line.strong_count() > 0);
            let between =
                all.iter().filter(|d| d.from == a && d.to == b || d.from == b && d.to == a);
            between.filter_map(|dialled| dialled.line.upgrade()).collect()
        });
        for line in &lines {
            line.is_cut.store(true, Ordering::Relaxed);
            line.reader.wake();
        }
        !lines.is_empty()
    }

    /// Returns the network by which a host connects and listens: turmoil's, whose outgoing connections can be reset here.
    pub fn network_of(&self, host: &str) -> Arc<dyn Network> {
        Arc::new(HostNetwork { connections: self.clone(), host: host.to_owned() })
    }
}

#[derive(Debug)]
struct HostNetwork {
    connections: Connections,
    host: String,
}

impl Network for HostNetwork {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>> {
        let (connections, from, to) =
            (self.connections.clone(), self.host.clone(), host.to_owned());
        let connecting = TurmoilNetwork.connect(host, port);
        Box::pin(async move {
            let stream = connecting.await?;
            let line = Arc::<Line>::default();
            connections.with(|all| all.push(Dialled { from, to, line: Arc::downgrade(&line) }));
            Ok(BoxStream::new(Connection { stream, line }))
        })
    }

    fn listen(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>> {
        TurmoilNetwork.listen(host, port)
    }
}

struct Connection {
    stream: BoxStream,
    line: Arc<Line>,
}

impl Connection {
    fn check(&self) -> io::Result<()> {
        match self.line.is_cut.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.line.reader.register(cx.waker());
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
