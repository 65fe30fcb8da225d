//! Opens authenticated connections, for the fabric and for data ports: TLS first where the cluster uses it, then the
//! handshake. Must never hand out a stream whose peer has not proved itself. Time-outs are the caller's.

use crate::{
    BoxStream, Platform, Tls,
    handshake::{self, Channel, Credentials, HandshakeError, Introduction, Peer},
};

/// The proof and the introduction that one process shows to every peer.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// The secret that it proves to know, and its identity.
    pub credentials: &'a Credentials,
    /// Its address and incarnation.
    pub introduction: &'a Introduction,
    /// Its certificate; `None` for connections without TLS. Both sides must have one, or neither.
    pub tls: Option<&'a Tls>,
}

impl Party<'_> {
    /// Authenticates the peer of a connection that this process opened to `host`, which the peer's certificate must name. Returns the
    /// stream to go on with.
    ///
    /// # Errors
    /// Returns [`HandshakeError::Tls`] if only one side uses TLS or a certificate is refused, and the handshake's own
    /// errors after that.
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

    /// Authenticates the peer of a connection that this process accepted. Returns the stream to go on with.
    ///
    /// # Errors
    /// Returns the errors of [`Party::dial`].
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
