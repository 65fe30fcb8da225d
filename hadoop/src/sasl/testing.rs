//! The server's half of DIGEST-MD5, for tests: it asks, checks answers and proves itself like Hadoop's.

use super::digest::{RAW_MAX, Session};
use super::directives::{once, parse};
use super::layer::{DigestLayer, Side};
use super::{Cipher, Qop, SecurityLayer};
use crate::tokens::Token;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The proof, the protection agreed on and its layer.
type Accepted = (Vec<u8>, Qop, Option<Box<dyn SecurityLayer>>);

/// A server that knows one token.
pub(crate) struct DigestServer {
    user: String,
    password: String,
    nonce: String,
    qops: Vec<Qop>,
    ciphers: Vec<Cipher>,
}

impl DigestServer {
    pub(crate) fn new(token: &Token, qops: &[Qop], ciphers: &[Cipher]) -> Self {
        Self {
            user: BASE64_STANDARD.encode(token.identifier()),
            password: BASE64_STANDARD.encode(token.password().expose()),
            nonce: "bm9uY2U=".to_owned(),
            qops: qops.to_vec(),
            ciphers: ciphers.to_vec(),
        }
    }

    pub(crate) fn challenge(&self) -> Vec<u8> {
        let names = |names: Vec<&str>| names.join(",");
        let mut text = format!(
            "realm=\"default\",nonce=\"{}\",qop=\"{}\",charset=utf-8,algorithm=md5-sess",
            self.nonce,
            names(self.qops.iter().map(|qop| qop.name()).collect()),
        );
        if self.qops.contains(&Qop::Privacy) {
            let ciphers = names(self.ciphers.iter().map(|cipher| cipher.name()).collect());
            text.push_str(&format!(",cipher=\"{ciphers}\""));
        }
        text.into_bytes()
    }

    /// `None` for a wrong password.
    pub(crate) fn accept(&self, response: &[u8]) -> Option<Accepted> {
        let list = parse(response).unwrap();
        let get = |name| once(&list, name).unwrap().unwrap_or_default();
        let qop = self.qops.iter().copied().find(|qop| qop.name() == get("qop")).unwrap();
        let cipher = Cipher::ALL.into_iter().find(|cipher| cipher.name() == get("cipher"));
        assert_eq!(get("username"), self.user);
        assert_eq!(get("nonce"), self.nonce);
        let session = Session {
            user: &self.user,
            realm: get("realm"),
            password: self.password.as_bytes(),
            nonce: &self.nonce,
            cnonce: get("cnonce"),
            uri: get("digest-uri"),
            qop,
        };
        let h_a1 = session.h_a1();
        if session.response(&h_a1, "AUTHENTICATE") != get("response") {
            return None;
        }
        let proof = format!("rspauth={}", session.response(&h_a1, "")).into_bytes();
        let layer = (qop != Qop::Authentication).then(|| {
            Box::new(DigestLayer::new(Side::Server, &h_a1, cipher, RAW_MAX))
                as Box<dyn SecurityLayer>
        });
        Some((proof, qop, layer))
    }
}
