//! Mutual TLS 1.3 under the handshake, as a setting. Every process shows a certificate of the cluster's
//! own authority, and wants one from its peer. Must never print a key.

use crate::{handshake::Channel, net::BoxStream};
use serde::{Deserialize, Serialize};
use std::{fmt, io, sync::Arc};
use thiserror::Error;
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        self, ClientConfig, ConnectionCommon, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
        server::WebPkiClientVerifier,
        version::TLS13,
    },
};

/// The PEM texts behind `security.ssl.internal.*`. A TaskManager hands them to its program hosts over their inherited sockets;
/// they must be in no argument, environment variable or log. The debug text shows none of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsPem {
    /// Certificates of the authorities that sign the certificates of the cluster's processes (`security.ssl.internal.ca`).
    pub authority: String,
    /// This process's certificate chain, its own certificate first (`security.ssl.internal.cert`).
    pub chain: String,
    /// This process's private key (`security.ssl.internal.key`).
    pub key: String,
}

impl fmt::Debug for TlsPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsPem(…)")
    }
}

/// A process's certificate with its key, and the authorities that it trusts, for mutual TLS 1.3: both sides must show a certificate that
/// an authority of the other side has signed, and that of the side that accepts must name the host that was dialled. Serves both as the
/// side that dials and the one that accepts. Clones share everything.
#[derive(Clone, derive_more::Debug)]
#[debug("Tls")]
pub struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    pem: Arc<TlsPem>,
}

/// The error of [`Tls::new`]: a PEM text cannot be parsed, there is no authority, no certificate or no key, or the key is not that of the
/// certificate. The text names the wrong option.
#[derive(Debug, Error)]
#[error("TLS settings can't be used: {option}: {why}")]
pub struct TlsError {
    option: &'static str,
    why: String,
}

/// The reason why a peer and this process do not agree on TLS, as part of [`HandshakeError::Tls`](crate::HandshakeError::Tls): the peer's
/// bytes are no TLS, one side refuses the other's certificate, or another error of the TLS library. Found while TLS or the handshake after
/// it runs. The text names the option to look at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TlsRefusal {
    /// The peer's bytes are not TLS.
    #[error(
        "the peer does not use TLS, this process does; security.ssl.internal.enabled must be the same on all processes"
    )]
    Plain,
    /// This process refuses the peer's certificate, or the peer shows none; the text is the reason.
    #[error(
        "the peer's certificate is refused ({0}); it must be signed by an authority in security.ssl.internal.ca and name the peer's host"
    )]
    Certificate(String),
    /// The peer has ended the TLS handshake with this alert, as it does if it refuses this process's certificate.
    #[error(
        "the peer refuses this process's certificate (alert {0}); security.ssl.internal.cert must be signed by an authority in the peer's security.ssl.internal.ca"
    )]
    Alert(String),
    /// Any other error of the TLS library, such as a peer without TLS 1.3; the text is the library's.
    #[error("{0} (see security.ssl.internal.enabled)")]
    Other(String),
}

impl TlsRefusal {
    /// Returns the refusal behind an error of a TLS stream; `None` if the stream itself failed.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match error {
            rustls::Error::InvalidMessage(_) => Self::Plain,
            rustls::Error::InvalidCertificate(why) => Self::Certificate(why.to_string()),
            rustls::Error::NoCertificatesPresented => Self::Certificate("it shows none".to_owned()),
            rustls::Error::AlertReceived(alert) => Self::Alert(format!("{alert:?}")),
            other => Self::Other(other.to_string()),
        })
    }
}

impl Tls {
    /// Makes the TLS settings from PEM texts: parses the certificates and the key, and checks that there is an authority and that
    /// the key belongs to the certificate. Does not check that the authority has signed the certificate, nor that it is still valid.
    ///
    /// # Errors
    /// Returns an error that names the option whose text is wrong (`security.ssl.internal.cert` if the key is of another one).
    pub fn new(pem: TlsPem) -> Result<Self, TlsError> {
        const AUTHORITY: &str = "security.ssl.internal.ca";
        const CHAIN: &str = "security.ssl.internal.cert";
        const KEY: &str = "security.ssl.internal.key";
        fn wrong<E: fmt::Display>(option: &'static str) -> impl Fn(E) -> TlsError {
            move |why| TlsError { option, why: why.to_string() }
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.authority.as_bytes()) {
            let certificate = certificate.map_err(wrong(AUTHORITY))?;
            roots.add(certificate).map_err(wrong(AUTHORITY))?;
        }
        let roots = Arc::new(roots);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(wrong(CHAIN))?;
        let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(wrong(KEY))?;
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong(CHAIN))?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(wrong(CHAIN))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(wrong(AUTHORITY))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong(CHAIN))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(wrong(CHAIN))?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
            pem: Arc::new(pem),
        })
    }

    /// Returns the PEM texts that these settings were made from, to be handed to a program host.
    pub fn pem(&self) -> &TlsPem {
        &self.pem
    }

    /// Does the TLS handshake as the side that opened the connection; `host` must be named in the peer's certificate.
    /// Returns the encrypted stream, and the connection's keying material, which the proofs of `handshake::connect`
    /// have to cover. Never times out by itself.
    ///
    /// # Errors
    /// Returns the stream's error (also if the peer closes the stream because it does not use TLS), or an I/O error that wraps that
    /// of the TLS library, such as for a certificate that this side refuses; `InvalidInput` if `host` is neither a host name nor an
    /// address. A peer that refuses this process's certificate may show it only by an error of the first read.
    pub async fn connect(&self, stream: BoxStream, host: &str) -> io::Result<(BoxStream, Channel)> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = self.connector.connect(name, stream).await.map_err(closed)?;
        let channel = channel(stream.get_ref().1)?;
        Ok((BoxStream::new(stream), channel))
    }

    /// Does the TLS handshake as the side that accepted the connection. Returns the encrypted stream, and the connection's keying
    /// material, which the proofs of `handshake::accept` have to cover. Never times out by itself.
    ///
    /// # Errors
    /// Returns the stream's error, or an I/O error that wraps that of the TLS library: the peer does not use TLS, or one side refuses
    /// the other's certificate.
    pub async fn accept(&self, stream: BoxStream) -> io::Result<(BoxStream, Channel)> {
        let stream = self.acceptor.accept(stream).await?;
        let channel = channel(stream.get_ref().1)?;
        Ok((BoxStream::new(stream), channel))
    }
}

/// Returns the keying material of a connection whose TLS handshake is over, for this use alone (RFC 8446, section 7.5).
fn channel<Side>(connection: &ConnectionCommon<Side>) -> io::Result<Channel> {
    connection
        .export_keying_material([0; 32], b"EXPORTER-flott-handshake", None)
        .map(Channel::Tls)
        .map_err(io::Error::other)
}

/// A process without TLS closes a connection that begins with TLS, and cannot say why.
fn closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::new(
            error.kind(),
            "the peer closed the connection when TLS began: it has ended, is overloaded, or does not use TLS \
             (security.ssl.internal.enabled)",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Credentials, HandshakeError, Identity, Introduction, Platform, Secret, auth::Party,
        testing::Authority,
    };
    use model::ClusterId;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn tls(host: &str) -> Tls {
        Tls::new(Authority::new().issue(&[host])).unwrap()
    }

    fn credentials() -> Credentials {
        Credentials {
            cluster: ClusterId::new("c"),
            identity: Identity::Cluster,
            secret: Secret::new([3; 32]),
        }
    }

    /// Has two processes of one cluster authenticate each other; returns the errors of the dialling and the accepting side.
    async fn meet(client: Option<&Tls>, server: Option<&Tls>) -> [Option<String>; 2] {
        let platform = Platform::production();
        let credentials = credentials();
        let introduction = Introduction { node: "a:1".to_owned(), incarnation: 1 };
        let party = |tls| Party { credentials: &credentials, introduction: &introduction, tls };
        let (a, b) = tokio::io::duplex(4096);
        let (client, server) = (party(client), party(server));
        let text = |met: Result<_, HandshakeError>| met.err().map(|error| error.to_string());
        let dialled = async { text(client.dial(&platform, BoxStream::new(a), "localhost").await) };
        let accepted = async { text(server.accept(&platform, BoxStream::new(b)).await) };
        tokio::join!(dialled, accepted).into()
    }

    #[tokio::test]
    async fn both_sides_show_certificates_of_one_authority() {
        let tls = tls("localhost");
        let (a, b) = tokio::io::duplex(4096);
        let (client, server) = tokio::join!(
            tls.connect(BoxStream::new(a), "localhost"),
            tls.accept(BoxStream::new(b))
        );
        let ((mut client, one), (mut server, other)) = (client.unwrap(), server.unwrap());
        assert!(one == other && one != Channel::Plain);
        client.write_all(b"hello").await.unwrap();
        client.flush().await.unwrap();
        let mut text = [0; 5];
        server.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        assert_eq!(meet(Some(&tls), Some(&tls)).await, [None, None]);
    }

    #[tokio::test]
    async fn a_stranger_is_refused() {
        let ours = Authority::new().issue(&["localhost"]);
        let mut theirs = Authority::new().issue(&["localhost"]);
        // The stranger accepts this process's certificate, so that only its own one is refused.
        theirs.authority.clone_from(&ours.authority);
        let (ours, theirs) = (Tls::new(ours).unwrap(), Tls::new(theirs).unwrap());
        let [client, server] = meet(Some(&theirs), Some(&ours)).await;
        assert!(server.unwrap().contains("security.ssl.internal.ca"));
        assert!(client.unwrap().contains("security.ssl.internal.cert"));
        let [client, _] = meet(Some(&ours), Some(&theirs)).await;
        let client = client.unwrap();
        assert!(client.contains("the peer's certificate is refused"), "{client}");
        assert!(client.contains("security.ssl.internal.ca"), "{client}");
    }

    /// A program host has the cluster's certificate and key, but not its secret.
    #[tokio::test]
    async fn a_relay_that_ends_tls_on_both_sides_with_the_cluster_s_certificate_is_refused() {
        let tls = &tls("localhost");
        let (platform, credentials) = (Platform::production(), credentials());
        let introduction = Introduction { node: "a:1".to_owned(), incarnation: 1 };
        let party =
            Party { credentials: &credentials, introduction: &introduction, tls: Some(tls) };
        let ((a, near), (far, b)) = (tokio::io::duplex(4096), tokio::io::duplex(4096));
        let relay = async {
            let (near, far) = tokio::join!(
                tls.accept(BoxStream::new(near)),
                tls.connect(BoxStream::new(far), "localhost")
            );
            let (mut near, mut far) = (near.unwrap().0, far.unwrap().0);
            // Ends as soon as one side hangs up.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        };
        let dialled = party.dial(&platform, BoxStream::new(a), "localhost");
        let accepted = party.accept(&platform, BoxStream::new(b));
        let ((), dialled, accepted) = tokio::join!(relay, dialled, accepted);
        assert!(matches!(dialled.map(|_| ()), Err(HandshakeError::WrongSecret)));
        assert!(accepted.is_err());
    }

    #[tokio::test]
    async fn a_certificate_for_another_host_is_refused_by_the_side_that_dials() {
        let other = tls("elsewhere");
        let [client, _] = meet(Some(&other), Some(&other)).await;
        assert!(client.unwrap().contains("name the peer's host"));
    }

    #[tokio::test]
    async fn a_peer_without_tls_is_refused_and_both_sides_name_the_option() {
        let tls = tls("localhost");
        for (client, server) in [(Some(&tls), None), (None, Some(&tls))] {
            for error in meet(client, server).await {
                let error = error.unwrap();
                assert!(error.contains("security.ssl.internal.enabled"), "{error}");
            }
        }
    }

    #[test]
    fn no_key_is_printed_and_a_wrong_text_is_named_by_its_option() {
        let pem = Authority::new().issue(&["localhost"]);
        assert!(!format!("{pem:?}").contains("KEY"), "{pem:?}");
        let error = Tls::new(TlsPem { key: "none".to_owned(), ..pem.clone() }).unwrap_err();
        assert!(error.to_string().contains("security.ssl.internal.key"), "{error}");
        let error = Tls::new(TlsPem { authority: String::new(), ..pem }).unwrap_err();
        assert!(error.to_string().contains("security.ssl.internal.ca"), "{error}");
    }
}
