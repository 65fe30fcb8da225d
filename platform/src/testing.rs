//! Helpers for tests of encrypted connections: certificates of a new authority, and a network that records what crosses
//! it. Must never be part of a product build.

use crate::{
    BoxListener, BoxStream, Listener, Network, TlsPem,
    net::{BoxRead, BoxWrite},
    tcp::TcpNetwork,
};
use futures::{FutureExt, future::BoxFuture};
use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A certificate authority with a key of its own, which issues TLS certificates for tests.
pub struct Authority {
    pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    /// Makes a new authority with a new key.
    ///
    /// # Panics
    /// If no key can be generated.
    #[expect(clippy::expect_used, clippy::new_without_default, reason = "tests only")]
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: rcgen::Issuer::new(params, key) }
    }

    /// Issues a certificate that names `hosts`, for a new key. Returns certificate, key and the authority's certificate as PEM.
    ///
    /// # Panics
    /// If no key can be generated, or a name is not one of a host.
    #[expect(clippy::expect_used, reason = "tests only")]
    pub fn issue(&self, hosts: &[&str]) -> TlsPem {
        let key = rcgen::KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let params = rcgen::CertificateParams::new(hosts).expect("names of hosts");
        let chain = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        TlsPem { authority: self.pem.clone(), chain, key: key.serialize_pem() }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// A [`Network`] for tests: TCP whose connections are recorded, with all bytes that are written to or read from a socket (so a connection
/// with both ends in this network is recorded twice). The bytes of all connections are in one record, in the order in which they passed.
/// The record is kept in memory without a bound; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Wiretap {
    recorded: Arc<Mutex<Vec<u8>>>,
}

impl Wiretap {
    /// Returns the number of bytes that were recorded.
    pub fn len(&self) -> usize {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns true if no byte was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if `text` is contained in the recorded bytes, which are those of all connections and both directions in the
    /// order in which they passed.
    ///
    /// # Panics
    /// If `text` is empty.
    pub fn saw(&self, text: &[u8]) -> bool {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.windows(text.len()).any(|window| window == text)
    }

    fn tap(&self, stream: BoxStream) -> BoxStream {
        let (read, write) = stream.split();
        BoxStream::new(Tapped { read, write, recorded: Arc::clone(&self.recorded) })
    }
}

impl Network for Wiretap {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>> {
        let (tap, connecting) = (self.clone(), TcpNetwork.connect(host, port));
        async move { Ok(tap.tap(connecting.await?)) }.boxed()
    }

    fn listen(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>> {
        let (tap, binding) = (self.clone(), TcpNetwork.listen(host, port));
        async move { Ok(Box::new(TappedListener { bound: binding.await?, tap }) as BoxListener) }
            .boxed()
    }
}

#[derive(Debug)]
struct TappedListener {
    bound: BoxListener,
    tap: Wiretap,
}

impl Listener for TappedListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        async {
            let (stream, from) = self.bound.accept().await?;
            Ok((self.tap.tap(stream), from))
        }
        .boxed()
    }

    fn local_port(&self) -> u16 {
        self.bound.local_port()
    }
}

struct Tapped {
    read: BoxRead,
    write: BoxWrite,
    recorded: Arc<Mutex<Vec<u8>>>,
}

impl Tapped {
    fn record(&self, bytes: &[u8]) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.extend_from_slice(bytes);
    }
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(cx, buf);
        self.record(buf.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = polled {
            self.record(buf.get(..written).unwrap_or_default());
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}
