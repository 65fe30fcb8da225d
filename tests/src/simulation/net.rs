//! The fabric's network over turmoil's simulated TCP.
//!
//! Must only be used inside a turmoil host.

use futures::FutureExt;
use futures::future::BoxFuture;
use platform::{BoxListener, BoxStream, Listener, Network};
use std::{fmt, io};
use turmoil::net::{TcpListener, TcpStream};

/// Simulated TCP between turmoil hosts, by host name.
#[derive(Debug, Clone, Copy)]
pub struct TurmoilNetwork;

struct TurmoilListener {
    listener: TcpListener,
    port: u16,
}

impl fmt::Debug for TurmoilListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TurmoilListener({})", self.port)
    }
}

impl Network for TurmoilNetwork {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>> {
        let host = host.to_owned();
        async move { Ok(BoxStream::new(TcpStream::connect((host, port)).await?)) }.boxed()
    }

    fn listen(&self, _host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>> {
        async move {
            let listener = TcpListener::bind(("0.0.0.0", port)).await?;
            let port = listener.local_addr()?.port();
            Ok(Box::new(TurmoilListener { listener, port }) as BoxListener)
        }
        .boxed()
    }
}

impl Listener for TurmoilListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        async move {
            let (stream, peer) = self.listener.accept().await?;
            Ok((BoxStream::new(stream), peer.to_string()))
        }
        .boxed()
    }

    fn local_port(&self) -> u16 {
        self.port
    }
}
