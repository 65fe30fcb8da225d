//! Mutual TLS 1.3 under the handshake, as a setting. Every process shows a certificate of the cluster's
//! own authority, and wants one from its peer.

use crate::net::BoxStream;
use std::{fmt, io, sync::Arc};
use thiserror::Error;
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
        server::WebPkiClientVerifier,
        version::TLS13,
    },
};

/// A process's certificate and the authority that it trusts.
#[derive(Clone, derive_more::Debug)]
#[debug("Tls")]
pub struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

/// Why the settings can't be used.
#[derive(Debug, Error)]
#[error("TLS settings can't be used: {what}: {why}")]
pub struct TlsError {
    what: &'static str,
    why: String,
}

impl Tls {
    /// From PEM texts: the authority's certificates, this process's chain, its private key.
    pub fn new(authority: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        fn wrong<E: fmt::Display>(what: &'static str) -> impl Fn(E) -> TlsError {
            move |why| TlsError { what, why: why.to_string() }
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority) {
            let certificate = certificate.map_err(wrong("authority"))?;
            roots.add(certificate).map_err(wrong("authority"))?;
        }
        let roots = Arc::new(roots);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(wrong("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(wrong("key"))?;
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong("versions"))?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(wrong("certificate"))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(wrong("authority"))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong("versions"))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(wrong("certificate"))?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }

    /// The side that opened the connection; `host` must be named in the peer's certificate.
    pub async fn connect(&self, stream: BoxStream, host: &str) -> io::Result<BoxStream> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = self.connector.connect(name, stream).await?;
        Ok(BoxStream::new(stream))
    }

    /// The side that accepted it.
    pub async fn accept(&self, stream: BoxStream) -> io::Result<BoxStream> {
        Ok(BoxStream::new(self.acceptor.accept(stream).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A new authority and a certificate of it for `localhost`.
    fn settings() -> (String, String, String) {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).unwrap();
        let issuer = rcgen::Issuer::new(params, authority_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        (authority.pem(), certificate.pem(), key.serialize_pem())
    }

    fn tls(authority: &str, certificate: &str, key: &str) -> Tls {
        Tls::new(authority.as_bytes(), certificate.as_bytes(), key.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn both_sides_show_certificates_of_one_authority() {
        let (authority, certificate, key) = settings();
        let tls = tls(&authority, &certificate, &key);
        let (a, b) = tokio::io::duplex(4096);
        let (client, server) = tokio::join!(
            tls.connect(BoxStream::new(a), "localhost"),
            tls.accept(BoxStream::new(b))
        );
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        client.write_all(b"hello").await.unwrap();
        client.flush().await.unwrap();
        let mut text = [0; 5];
        server.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
    }

    #[tokio::test]
    async fn a_stranger_is_refused() {
        let (authority, certificate, key) = settings();
        let ours = tls(&authority, &certificate, &key);
        let (_, stranger, stranger_key) = settings();
        let theirs = tls(&authority, &stranger, &stranger_key);
        let (a, b) = tokio::io::duplex(4096);
        let (_, server) = tokio::join!(
            theirs.connect(BoxStream::new(a), "localhost"),
            ours.accept(BoxStream::new(b))
        );
        assert!(server.is_err());
    }
}
