//! DIGEST-MD5 (RFC 2831) as Hadoop uses it for tokens: the user is the token's identifier and the password
//! its password, both in base64. The server's proof is always checked.

use super::directives::{once, parse, quote};
use super::layer::{DigestLayer, Side};
use super::{Cipher, Mechanism, Qop, SaslError, SecurityLayer};
use crate::tokens::{Secret, Token};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};

/// How long a wrapped message may be for a side that says nothing else.
pub(super) const RAW_MAX: usize = 65_536;
/// The digest's stand-in for a message's body, used where messages are protected.
const NO_BODY: &str = ":00000000000000000000000000000000";

/// The client's half of the SASL mechanism DIGEST-MD5, for one exchange: client and server prove to each other that they know a token's
/// password. A server whose proof is missing or wrong is refused ([`SaslError::ServerProof`]). A [`Negotiation`](super::Negotiation) makes
/// it when the server offers `TOKEN` and the client has a token. It sends no password.
#[derive(derive_more::Debug)]
#[debug("DigestMd5 {{ uri: {:?}, .. }}", self.uri)]
pub struct DigestMd5 {
    user: String,
    password: Secret,
    uri: String,
    cnonce: String,
    qops: Vec<Qop>,
    ciphers: Vec<Cipher>,
    state: State,
}

enum State {
    Start,
    Answered { proof: String, qop: Qop, layer: Option<Box<DigestLayer>> },
    Done,
}

impl DigestMd5 {
    /// Makes the client's half for a token, whose identifier is the user name and whose password the secret. `protocol`
    /// and `server_id` are the two parts of the server's name in its offer; `entropy` is 16 random bytes for this
    /// exchange only. `qops` and `ciphers` are the acceptable ones, the best first: the first that the server offers
    /// too is used, a cipher only with [`Qop::Privacy`].
    #[must_use]
    pub fn new(
        token: &Token,
        protocol: &str,
        server_id: &str,
        entropy: [u8; 16],
        qops: &[Qop],
        ciphers: &[Cipher],
    ) -> Self {
        let password = BASE64_STANDARD.encode(token.password().expose());
        Self {
            user: BASE64_STANDARD.encode(token.identifier()),
            password: Secret::new(password.into_bytes()),
            uri: format!("{protocol}/{server_id}"),
            cnonce: BASE64_STANDARD.encode(entropy),
            qops: qops.to_vec(),
            ciphers: ciphers.to_vec(),
            state: State::Start,
        }
    }

    #[cfg(test)]
    pub(super) fn with(
        user: &str,
        password: &str,
        uri: &str,
        cnonce: &str,
        qops: &[Qop],
        ciphers: &[Cipher],
    ) -> Self {
        Self {
            user: user.to_owned(),
            password: Secret::new(password.as_bytes().to_vec()),
            uri: uri.to_owned(),
            cnonce: cnonce.to_owned(),
            qops: qops.to_vec(),
            ciphers: ciphers.to_vec(),
            state: State::Start,
        }
    }

    fn answer(&self, challenge: &[u8]) -> Result<(String, State), SaslError> {
        let challenge = Challenge::parse(challenge)?;
        let qop = challenge.choose_qop(&self.qops)?;
        let cipher = match qop {
            Qop::Privacy => Some(challenge.choose_cipher(&self.ciphers)?),
            _ => None,
        };
        let session = Session {
            user: &self.user,
            realm: &challenge.realm,
            password: self.password.expose(),
            nonce: &challenge.nonce,
            cnonce: &self.cnonce,
            uri: &self.uri,
            qop,
        };
        let h_a1 = session.h_a1();
        let mut text = String::new();
        if challenge.utf8 {
            text.push_str("charset=utf-8,");
        }
        text.push_str(&format!("username={},", quote(&self.user)));
        if challenge.has_realm {
            text.push_str(&format!("realm={},", quote(&challenge.realm)));
        }
        text.push_str(&format!(
            "nonce={},nc=00000001,cnonce={},digest-uri={},maxbuf={RAW_MAX},response={},qop={}",
            quote(&challenge.nonce),
            quote(&self.cnonce),
            quote(&self.uri),
            session.response(&h_a1, "AUTHENTICATE"),
            qop.name(),
        ));
        if let Some(cipher) = cipher {
            text.push_str(&format!(",cipher=\"{}\"", cipher.name()));
        }
        let protected = qop != Qop::Authentication;
        let layer = protected
            .then(|| Box::new(DigestLayer::new(Side::Client, &h_a1, cipher, challenge.raw_max)));
        Ok((text, State::Answered { proof: session.response(&h_a1, ""), qop, layer }))
    }
}

impl Mechanism for DigestMd5 {
    fn name(&self) -> &'static str {
        "DIGEST-MD5"
    }

    fn step(&mut self, challenge: Option<&[u8]>) -> Result<Vec<u8>, SaslError> {
        let State::Start = self.state else {
            return Err(SaslError::OutOfStep("a second challenge of DIGEST-MD5"));
        };
        let challenge =
            challenge.ok_or(SaslError::OutOfStep("DIGEST-MD5 begins with a challenge"))?;
        let (text, state) = self.answer(challenge)?;
        self.state = state;
        Ok(text.into_bytes())
    }

    fn finish(
        &mut self,
        token: Option<&[u8]>,
    ) -> Result<(Qop, Option<Box<dyn SecurityLayer>>), SaslError> {
        let State::Answered { proof, qop, layer } = std::mem::replace(&mut self.state, State::Done)
        else {
            return Err(SaslError::OutOfStep("success before DIGEST-MD5 has begun"));
        };
        let token = token.ok_or(SaslError::ServerProof)?;
        let said = parse(token)?;
        let said = once(&said, "rspauth")?.ok_or(SaslError::ServerProof)?.as_bytes();
        let differ = said.iter().zip(proof.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        if said.len() != proof.len() || differ != 0 {
            return Err(SaslError::ServerProof);
        }
        Ok((qop, layer.map(|layer| layer as Box<dyn SecurityLayer>)))
    }
}

/// The server's first message: its offers and its nonce.
struct Challenge {
    realm: String,
    has_realm: bool,
    nonce: String,
    qops: String,
    ciphers: String,
    raw_max: usize,
    utf8: bool,
}

impl Challenge {
    fn parse(challenge: &[u8]) -> Result<Self, SaslError> {
        let wrong = |what: &str| SaslError::Challenge(what.to_owned());
        let list = parse(challenge)?;
        let nonce = once(&list, "nonce")?.ok_or_else(|| wrong("it has no nonce"))?.to_owned();
        if nonce.is_empty() {
            return Err(wrong("its nonce is empty"));
        }
        if !once(&list, "algorithm")?.is_some_and(|name| name.eq_ignore_ascii_case("md5-sess")) {
            return Err(wrong("its algorithm is not md5-sess"));
        }
        let utf8 = match once(&list, "charset")? {
            None => false,
            Some(name) if name.eq_ignore_ascii_case("utf-8") => true,
            Some(_) => return Err(wrong("its charset is not utf-8")),
        };
        let raw_max = match once(&list, "maxbuf")? {
            None => RAW_MAX,
            Some(number) => number
                .parse()
                .ok()
                .filter(|max| (64..1 << 24).contains(max))
                .ok_or_else(|| wrong("its maxbuf is no sensible number"))?,
        };
        // Several realms may be offered; Hadoop takes the first.
        let realm = list.iter().find(|(name, _)| name == "realm").map(|(_, realm)| realm.clone());
        Ok(Self {
            has_realm: realm.is_some(),
            realm: realm.unwrap_or_default(),
            nonce,
            qops: once(&list, "qop")?.unwrap_or("auth").to_ascii_lowercase(),
            ciphers: once(&list, "cipher")?.unwrap_or_default().to_ascii_lowercase(),
            raw_max,
            utf8,
        })
    }

    fn choose_qop(&self, wanted: &[Qop]) -> Result<Qop, SaslError> {
        let offers = |qop: &&Qop| self.qops.split(',').any(|offer| offer.trim() == qop.name());
        wanted.iter().find(offers).copied().ok_or_else(|| SaslError::NoCommonQop {
            offered: self.qops.clone(),
            wanted: wanted.iter().map(|qop| qop.name()).collect::<Vec<_>>().join(","),
        })
    }

    fn choose_cipher(&self, wanted: &[Cipher]) -> Result<Cipher, SaslError> {
        let offers =
            |cipher: &&Cipher| self.ciphers.split(',').any(|offer| offer.trim() == cipher.name());
        let offered = || SaslError::NoCommonCipher { offered: self.ciphers.clone() };
        wanted.iter().find(offers).copied().ok_or_else(offered)
    }
}

/// The values that both sides put into their digests.
pub(super) struct Session<'a> {
    pub(super) user: &'a str,
    pub(super) realm: &'a str,
    pub(super) password: &'a [u8],
    pub(super) nonce: &'a str,
    pub(super) cnonce: &'a str,
    pub(super) uri: &'a str,
    pub(super) qop: Qop,
}

impl Session<'_> {
    /// H(A1), the secret of the session.
    pub(super) fn h_a1(&self) -> [u8; 16] {
        let who: [u8; 16] = Md5::new()
            .chain_update(latin1(self.user))
            .chain_update(":")
            .chain_update(latin1(self.realm))
            .chain_update(":")
            .chain_update(self.password)
            .finalize()
            .into();
        let a1 = Md5::new().chain_update(who).chain_update(":").chain_update(self.nonce);
        a1.chain_update(":").chain_update(self.cnonce).finalize().into()
    }

    /// The client's response (`method` is `AUTHENTICATE`) or the server's proof (`method` is empty).
    pub(super) fn response(&self, h_a1: &[u8; 16], method: &str) -> String {
        let body = if self.qop == Qop::Authentication { "" } else { NO_BODY };
        let a2 = format!("{method}:{}{body}", self.uri);
        let text = format!(
            "{}:{}:00000001:{}:{}:{}",
            hex(h_a1),
            self.nonce,
            self.cnonce,
            self.qop.name(),
            hex(&Md5::digest(a2)),
        );
        hex(&Md5::digest(text))
    }
}

/// Texts that Latin 1 can spell are hashed in it, others in UTF-8.
fn latin1(text: &str) -> Vec<u8> {
    let bytes: Result<Vec<u8>, _> = text.chars().map(|c| u8::try_from(u32::from(c))).collect();
    bytes.unwrap_or_else(|_| text.as_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
