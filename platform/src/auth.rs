//! Opens authenticated connections, for the fabric and for data ports: TLS first where the cluster uses it, then the
//! handshake. Must never hand out a stream whose peer has not proved itself. Time-outs are the caller's.

use crate::{
    BoxStream, Platform, Tls,
    handshake::{self, Channel, Credentials, HandshakeError, Introduction, Peer},
};

/// Everything by which one process authenticates itself on connections: its credentials, its introduction, and its TLS certificate. Made
/// of borrowed parts by the RPC service and the data plane for each connection, on which `dial` or `accept` is then called once. Both
/// sides of a connection must prove themselves, the one that dials and the one that accepts.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// The process's cluster, its identity, and the secret that it proves to know.
    pub credentials: &'a Credentials,
    /// The process's address for calls back, and its incarnation, a number that tells it from an earlier process at that address.
    pub introduction: &'a Introduction,
    /// The process's certificate; `None` for connections without TLS. Both sides must have one, or neither.
    pub tls: Option<&'a Tls>,
}

impl Party<'_> {
    /// Authenticates the peer of a connection that this process has opened to `host`, which must be named in the peer's
    /// certificate if TLS is used. Returns the stream for all further bytes (encrypted with TLS) and the proved peer, which may
    /// yet refuse this process's proof by closing the stream. Never times out by itself.
    ///
    /// # Errors
    /// Returns [`HandshakeError::Tls`] if one side refuses the other's certificate, `Io` if the stream fails, or with TLS if `host` is
    /// neither a host name nor an address, `Malformed`, `Version` or `Cluster` if the peer is not of this protocol, version or cluster,
    /// and `WrongSecret` for a wrong proof. If only one side uses TLS, the error is `Io` for a process that dials with TLS
    /// and `Malformed` for one that dials without. A peer that refuses this process before its own proof (it is overloaded, or a host of
    /// another job) closes: `Io`. The stream is closed after any error.
    pub async fn dial(
        &self,
        platform: &Platform,
        stream: BoxStream,
        host: &str,
    ) -> Result<(BoxStream, Peer), HandshakeError> {
        let (mut stream, channel) = match self.tls {
            Some(tls) => tls.connect(stream, host).await?,
            None => (stream, Channel::Plain),
        };
        let nonce = platform.random_bytes();
        let (mine, me) = (self.credentials, self.introduction);
        let peer = handshake::connect(&mut stream, mine, me, nonce, channel).await?;
        Ok((stream, peer))
    }

    /// Authenticates the peer of a connection that this process has accepted. Returns the stream for all further bytes
    /// (encrypted with TLS) and the proved peer. Never times out by itself.
    ///
    /// # Errors
    /// Returns [`HandshakeError::Tls`] if one side refuses the other's certificate or the peer does not use TLS, `Io` if the stream
    /// fails, `Malformed` (also if only the peer uses TLS), `Version`, `Cluster` or `OtherJob` if the peer is not of this protocol,
    /// version, cluster or job, `WrongSecret` for a wrong proof, and `Unproved` if the peer leaves without one. The stream is closed
    /// after any error.
    pub async fn accept(
        &self,
        platform: &Platform,
        stream: BoxStream,
    ) -> Result<(BoxStream, Peer), HandshakeError> {
        let (mut stream, channel) = match self.tls {
            Some(tls) => tls.accept(stream).await?,
            None => (stream, Channel::Plain),
        };
        let nonce = platform.random_bytes();
        let (mine, me) = (self.credentials, self.introduction);
        let peer = handshake::accept(&mut stream, mine, me, nonce, channel).await?;
        Ok((stream, peer))
    }
}
