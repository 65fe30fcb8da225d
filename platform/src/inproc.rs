//! A network of pipes inside one process: hosts are names, ports are numbers, nothing leaves memory.
//! It must never lose or reorder bytes; faults are the business of a simulated network.

use crate::net::{BoxListener, BoxStream, Listener, Network};
use futures::future::BoxFuture;
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::mpsc;

/// Bytes that one direction of a pipe holds.
const PIPE_BYTES: usize = 256 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: usize = 1024;
/// The first port that is tried if port 0 is asked for.
const FIRST_FREE_PORT: u16 = 1;

type Ports = BTreeMap<(String, u16), mpsc::Sender<BoxStream>>;

/// A network of pipes (256 KiB per direction; a writer waits while one is full) inside one process. Hosts are arbitrary names,
/// compared as text; two values of this type do not reach each other. Up to 1,024 connections of a port wait to be accepted; further
/// ones wait in `connect`. Connecting to a port without a listener fails with `ConnectionRefused`, also for those that wait when the
/// listener is dropped; binding a taken one fails with `AddrInUse`. Port 0 means the lowest free one of that host name. Dropping a
/// listener frees its port, and closes connections that it has not accepted.
#[derive(Default, derive_more::Debug)]
#[debug("InProcessNetwork")]
pub struct InProcessNetwork {
    ports: Arc<Mutex<Ports>>,
}

impl InProcessNetwork {
    /// Makes a network on which nothing listens.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Network for InProcessNetwork {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = ports.get(&(host.to_owned(), port)).cloned();
        Box::pin(async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let queue = queue.ok_or_else(refused)?;
            let (here, there) = tokio::io::duplex(PIPE_BYTES);
            queue.send(BoxStream::new(there)).await.map_err(|_| refused())?;
            Ok(BoxStream::new(here))
        })
    }

    fn listen(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>> {
        let bound = self.bind(host, port);
        Box::pin(async move { bound.map(|b| Box::new(b) as BoxListener) })
    }
}

impl InProcessNetwork {
    fn bind(&self, host: &str, port: u16) -> io::Result<Bound> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let port = match port {
            0 => (FIRST_FREE_PORT..u16::MAX)
                .find(|p| !ports.contains_key(&(host.to_owned(), *p)))
                .ok_or(io::ErrorKind::AddrInUse)?,
            port if ports.contains_key(&(host.to_owned(), port)) => {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            port => port,
        };
        let (queue, streams) = mpsc::channel(BACKLOG);
        let key = (host.to_owned(), port);
        ports.insert(key.clone(), queue);
        Ok(Bound { key, streams, ports: Arc::downgrade(&self.ports) })
    }
}

#[derive(derive_more::Debug)]
#[debug("{}:{}", self.key.0, self.key.1)]
struct Bound {
    key: (String, u16),
    streams: mpsc::Receiver<BoxStream>,
    ports: Weak<Mutex<Ports>>,
}

impl Listener for Bound {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        Box::pin(async move {
            let stream = self.streams.recv().await;
            let stream = stream.ok_or(io::ErrorKind::NotConnected)?;
            Ok((stream, "in-process".to_owned()))
        })
    }

    fn local_port(&self) -> u16 {
        self.key.1
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(ports) = self.ports.upgrade() {
            let mut ports = ports.lock().unwrap_or_else(PoisonError::into_inner);
            ports.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn bytes_pass_and_a_port_is_free_again_after_its_listener() {
        let net = InProcessNetwork::new();
        let mut bound = net.listen("a", 0).await.unwrap();
        let port = bound.local_port();
        assert_eq!(net.listen("a", port).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let mut client = net.connect("a", port).await.unwrap();
        let (mut server, _) = bound.accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
        drop(bound);
        assert_eq!(
            net.connect("a", port).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(net.listen("a", port).await.is_ok());
    }
}
