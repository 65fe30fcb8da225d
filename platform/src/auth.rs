//! Opens authenticated connections, for the fabric and for data ports: TLS first where the cluster uses it, then the
//! handshake. Must never hand out a stream whose peer has not proved itself. Time-outs are the caller's.

use crate::{
    BoxStream, Platform, Tls,
    handshake::{self, Credentials, HandshakeError, Introduction, Peer},
};

/// The proof and the introduction that one process shows to every peer with which it opens an authenticated connection.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// The process's cluster, its identity, and the secret that it proves to know.
    pub credentials: &'a Credentials,
    /// The process's address for calls back, and its incarnation.
    pub introduction: &'a Introduction,
    /// The process's certificate; `None` for connections without TLS. Both sides must have one, or neither.
    pub tls: Option<&'a Tls>,
}

impl Party<'_> {
    /// Authenticates the peer of a connection that this process has opened to `host`, which must be named in the peer's
    /// certificate if TLS is used. Returns the stream for all further bytes (encrypted with TLS) and the proved peer. Never
    /// times out by itself.
    ///
    /// # Errors
    /// Returns [`HandshakeError::Tls`] if only one side uses TLS or a certificate is refused, and the handshake's own errors
    /// after that. The stream is then closed.
    pub async fn dial(
        &self,
        platform: &Platform,
        stream: BoxStream,
        host: &str,
    ) -> Result<(BoxStream, Peer), HandshakeError> {
        let mut stream = match self.tls {
            Some(tls) => tls.connect(stream, host).await?,
            None => stream,
        };
        let nonce = platform.random_bytes();
        let peer =
            handshake::connect(&mut stream, self.credentials, self.introduction, nonce).await?;
        Ok((stream, peer))
    }

    /// Authenticates the peer of a connection that this process has accepted. Returns the stream for all further bytes
    /// (encrypted with TLS) and the proved peer. Never times out by itself.
    ///
    /// # Errors
    /// Returns the errors of [`Party::dial`]. The stream is then closed.
    pub async fn accept(
        &self,
        platform: &Platform,
        stream: BoxStream,
    ) -> Result<(BoxStream, Peer), HandshakeError> {
        let mut stream = match self.tls {
            Some(tls) => tls.accept(stream).await?,
            None => stream,
        };
        let nonce = platform.random_bytes();
        let peer =
            handshake::accept(&mut stream, self.credentials, self.introduction, nonce).await?;
        Ok((stream, peer))
    }
}
