//! The simulated network: turmoil's hosts, latencies, losses and partitions behind [`Network`]. Only for
//! simulations; it must never be reachable from a production build.

use crate::net::{BoxListener, BoxStream, Listener, Network};
use futures::future::BoxFuture;
use std::io;
use turmoil::net::{TcpListener, TcpStream};

/// The simulated network of the host that the calling task belongs to, in a simulation of the crate `turmoil`. Calls outside of a
/// simulation panic.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurmoilNetwork;

impl Network for TurmoilNetwork {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>> {
        let host = host.to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            Ok(BoxStream::new(stream))
        })
    }

    fn listen(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>> {
        let host = host.to_owned();
        Box::pin(async move {
            let listener = TcpListener::bind((host.as_str(), port)).await?;
            let port = listener.local_addr()?.port();
            Ok(Box::new(Bound { listener, port }) as BoxListener)
        })
    }
}

#[derive(derive_more::Debug)]
#[debug("turmoil port {}", self.port)]
struct Bound {
    listener: TcpListener,
    port: u16,
}

impl Listener for Bound {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        Box::pin(async move {
            let (stream, peer) = self.listener.accept().await?;
            Ok((BoxStream::new(stream), peer.to_string()))
        })
    }

    fn local_port(&self) -> u16 {
        self.port
    }
}
