//! TCP as production uses it: no delay, keep-alive. It must never wait: time-outs are the caller's.

use crate::net::{BoxListener, BoxStream, Listener, Network};
use futures::future::BoxFuture;
use std::{io, os::fd::AsFd, time::Duration};
use tokio::net::{TcpListener, TcpStream};

/// Silence after which the system probes a connection, to notice that the peer's machine is gone.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// The machine's TCP.
#[derive(Debug)]
pub(crate) struct TcpNetwork;

impl Network for TcpNetwork {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxStream>> {
        let host = host.to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect((without_brackets(&host), port)).await?;
            refuse_itself(&stream)?;
            tune(&stream)?;
            Ok(stream.into())
        })
    }

    fn listen(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<BoxListener>> {
        let host = host.to_owned();
        Box::pin(async move {
            let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "host has no address");
            for address in tokio::net::lookup_host((without_brackets(&host), port)).await? {
                match bind(address) {
                    Ok(listener) => {
                        let port = listener.local_addr()?.port();
                        return Ok(Box::new(Bound { listener, port }) as BoxListener);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}

/// Returns the address in `[…]`, as URLs and options may name one of IPv6; any other host as it is.
fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

fn bind(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        tokio::net::TcpSocket::new_v4()?
    } else {
        tokio::net::TcpSocket::new_v6()?
    };
    // A restarted process gets its port back though old connections linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG.unsigned_abs())
}

/// Refuses a connection whose two ends are the same. The system makes such a connection if nothing
/// listens on the port of this machine and the connecting socket is given the same port: a process
/// that keeps trying is one day connected with itself, and the process that should listen there
/// can't bind the port any more.
fn refuse_itself(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let fd = stream.as_fd();
    let socket = socket2::SockRef::from(&fd);
    socket.set_tcp_keepalive(
        &socket2::TcpKeepalive::new()
            .with_time(KEEP_ALIVE_AFTER)
            .with_interval(Duration::from_secs(5))
            .with_retries(3),
    )
}

#[derive(Debug)]
struct Bound {
    listener: TcpListener,
    port: u16,
}

impl Listener for Bound {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        Box::pin(async move {
            let (stream, peer) = self.listener.accept().await?;
            tune(&stream)?;
            Ok((stream.into(), peer.to_string()))
        })
    }

    fn local_port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_with_itself_is_refused() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let itself = socket.local_addr().unwrap();
        let stream = socket.connect(itself).await.unwrap();
        assert_eq!(refuse_itself(&stream).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);

        let mut listener = TcpNetwork.listen("127.0.0.1", 0).await.unwrap();
        let port = listener.local_port();
        let (accepted, connected) =
            futures::join!(listener.accept(), TcpNetwork.connect("127.0.0.1", port));
        assert!(accepted.is_ok() && connected.is_ok());
    }

    #[tokio::test]
    async fn an_address_in_brackets_is_that_address() {
        for (host, bare) in [("[::1]", "::1"), ("::1", "::1"), ("node", "node"), ("[x", "[x")] {
            assert_eq!(without_brackets(host), bare);
        }
        let mut listener = TcpNetwork.listen("[127.0.0.1]", 0).await.unwrap();
        let port = listener.local_port();
        let dialled = TcpNetwork.connect("[127.0.0.1]", port);
        let (accepted, connected) = futures::join!(listener.accept(), dialled);
        assert!(accepted.is_ok() && connected.is_ok());
    }
}
