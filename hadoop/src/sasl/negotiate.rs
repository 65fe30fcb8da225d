//! The choice of a method and the exchange until both sides agree that it is over: Hadoop's own messages
//! around SASL's. SIMPLE - no authentication - is taken only where the caller allowed it.

use super::{Cipher, DigestMd5, GssapiMechanism, Mechanism, Qop, SaslError, SecurityLayer};
use crate::gssapi::{GssTarget, Initiator};
use crate::rpc::header::{SaslAuth, SaslMessage, SaslState};
use crate::tokens::Token;
use std::sync::Arc;

/// The way in which a client was authenticated at a server: not at all, by a token, or by Kerberos. Part of an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AuthMethod {
    /// The client was not authenticated: the server believes the user name that the client sends.
    Simple,
    /// The client proved that it knows a token's password, and so did the server.
    Token,
    /// The client and the server proved by Kerberos tickets who they are.
    Kerberos,
}

impl AuthMethod {
    /// Returns the method's name in Hadoop's SASL messages: `SIMPLE`, `TOKEN` or `KERBEROS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Token => "TOKEN",
            Self::Kerberos => "KERBEROS",
        }
    }
}

/// The reaction of a client to a server that wants no authentication: refuse it (the default) or go on. Part of a [`SaslConfig`]; a
/// [`Login`](crate::login::Login) takes it from `ipc.client.fallback-to-simple-auth-allowed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SimpleFallback {
    /// Skip the server's offer of no authentication, and fail with [`SaslError::SimpleRefused`] if it offers nothing else that the client
    /// can use ([`SaslError::Principal`] if it also offers Kerberos under a wrong principal): it may not be the server that it seems to be.
    #[default]
    Refuse,
    /// Go on without authentication: anybody who answers at the address is taken for the server. A client with a token or
    /// Kerberos tickets does so too if the server offers that first.
    Allow,
}

/// The Kerberos principal that a server must have, as the client's configuration says: one principal, or a pattern. A
/// [`Login`](crate::login::Login) takes it from the property of the service (`….principal.pattern` before `….principal`); without one,
/// Kerberos is not used, and for a user with tickets a target without a token cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerPrincipal {
    /// Exactly this principal, with or without a realm; `_HOST` in it was replaced already by the server's host name.
    Exact(String),
    /// Any principal that this pattern admits (`*` stands for any text, `?` for one character), from a property
    /// `….principal.pattern` of the configuration.
    Pattern(String),
}

impl ServerPrincipal {
    /// Checks the principal that the server claims, `service/host`, against this one; realms are not compared, and case
    /// is ignored for [`Exact`](Self::Exact) only. Returns the target to authenticate to: the exact principal, or for a
    /// pattern the claimed service and host.
    ///
    /// # Errors
    /// Fails with [`SaslError::Principal`] if the server claims another principal, or [`Exact`](Self::Exact) is compared
    /// with one without a host.
    pub fn admit(&self, service: &str, host: &str) -> Result<GssTarget, SaslError> {
        let advertised = format!("{service}/{host}");
        let (Self::Exact(expected) | Self::Pattern(expected)) = self;
        let short = expected.split('@').next().unwrap_or_default();
        let admitted = match self {
            Self::Exact(_) => short.eq_ignore_ascii_case(&advertised) && !host.is_empty(),
            Self::Pattern(_) => glob(short, &advertised),
        };
        match (self, admitted) {
            (Self::Exact(expected), true) => Ok(GssTarget::Principal(expected.clone())),
            (Self::Pattern(_), true) => {
                Ok(GssTarget::Service { service: service.to_owned(), host: host.to_owned() })
            }
            (_, false) => Err(SaslError::Principal { advertised, expected: expected.clone() }),
        }
    }
}

/// Whether `text` is what a pattern of `*`, `?` and plain characters describes.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star stood, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == c => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

/// A Kerberos credential, and the server that it may be used with. Its `Debug` shows the user and the server only. Part of a
/// [`SaslConfig`].
#[derive(Clone)]
pub struct Kerberos {
    /// The user's Kerberos credential, by which tickets for the server are got.
    pub initiator: Arc<dyn Initiator>,
    /// The principal that the server must have. Kerberos is not used with a server that names another one; if it offers no
    /// other method that the client can use, the negotiation fails with [`SaslError::Principal`].
    pub server: ServerPrincipal,
}

impl std::fmt::Debug for Kerberos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kerberos")
            .field("user", &self.initiator.principal())
            .field("server", &self.server)
            .finish()
    }
}

/// The credentials that a client has and the methods that it accepts, for connections to one server. By default it has none, refuses
/// servers without authentication, and accepts authentication without further protection. A [`Login`](crate::login::Login) makes it for
/// each target; a [`Negotiation`] reads it.
#[derive(Debug, Clone)]
pub struct SaslConfig {
    /// The token for this server; `None` if the client has none. Of token and Kerberos, the one that the server offers
    /// first is used.
    pub token: Option<Token>,
    /// The Kerberos credential; `None` if the client does not use Kerberos.
    pub kerberos: Option<Kerberos>,
    /// The reaction to a server that wants no authentication: refused by default, with [`SaslError::SimpleRefused`].
    pub simple: SimpleFallback,
    /// Acceptable protections of the stream, the best first: the first that the server offers too is used. By default
    /// only [`Qop::Authentication`], which protects nothing.
    pub qops: Vec<Qop>,
    /// Acceptable ciphers for a stream that is encrypted after authentication by a token, the best first;
    /// [`Cipher::STRONG`] by default.
    pub ciphers: Vec<Cipher>,
}

impl Default for SaslConfig {
    fn default() -> Self {
        Self {
            token: None,
            kerberos: None,
            simple: SimpleFallback::Refuse,
            qops: vec![Qop::Authentication],
            ciphers: Cipher::STRONG.to_vec(),
        }
    }
}

/// The next thing that the client has to do after [`Negotiation::receive`] took a message of the server. A failure is not a step but a
/// [`SaslError`].
pub enum Step {
    /// Send this message, and wait for the server's answer.
    Send(SaslMessage),
    /// Authentication has succeeded, with this outcome. Send the message first, if there is one: it tells the server
    /// that no authentication was chosen.
    Done(Option<SaslMessage>, Outcome),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Send(message) => f.debug_tuple("Send").field(message).finish(),
            Self::Done(last, outcome) => f.debug_tuple("Done").field(last).field(outcome).finish(),
        }
    }
}

/// The result of an authentication that succeeded: its method, and how the stream is protected from then on. Comes with [`Step::Done`]; the
/// connection keeps the layer for all later frames.
pub struct Outcome {
    /// The method by which the client was authenticated.
    pub method: AuthMethod,
    /// The protection of the stream that both sides agreed on.
    pub qop: Qop,
    /// The layer that protects the stream; `None` for [`Qop::Authentication`].
    pub layer: Option<Box<dyn SecurityLayer>>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome")
            .field("method", &self.method)
            .field("qop", &self.qop)
            .finish_non_exhaustive()
    }
}

/// The client's half of a connection's authentication, from the server's offers to the end, as an exchange of messages that the caller
/// moves. [`receive`](Self::receive) drives it. Each stream needs a new one. A [`Connection`](crate::rpc::Connection) makes and drives it.
pub struct Negotiation {
    config: SaslConfig,
    entropy: [u8; 16],
    chosen: Option<(AuthMethod, Box<dyn Mechanism>)>,
    rounds: usize,
}

/// Messages of the server in one exchange; Kerberos needs four.
const ROUNDS_MAX: usize = 32;

impl std::fmt::Debug for Negotiation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chosen = self.chosen.as_ref().map(|(method, _)| method);
        f.debug_struct("Negotiation").field("chosen", &chosen).finish_non_exhaustive()
    }
}

impl Negotiation {
    /// Begins a new exchange. Returns it with the message to send first, which asks for the server's offers; the caller sends it and gives
    /// every answer to [`receive`](Self::receive). `entropy` is 16 random bytes for this exchange only. Asks no server itself.
    #[must_use]
    pub fn start(config: SaslConfig, entropy: [u8; 16]) -> (Self, SaslMessage) {
        (Self { config, entropy, chosen: None, rounds: 0 }, message(SaslState::Negotiate, None))
    }

    /// Returns true if [`receive`](Self::receive) may wait for a Kerberos server (KDC): whenever the configuration has
    /// a Kerberos credential, even where a token is used.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.config.kerberos.is_some()
    }

    /// Returns the method that was chosen; `None` before the choice, after the end, and without authentication.
    #[must_use]
    pub fn method(&self) -> Option<AuthMethod> {
        self.chosen.as_ref().map(|(method, _)| *method)
    }

    /// Takes a message of the server, and returns the next step. Of the server's offers the first is chosen that this
    /// client can use. May ask a Kerberos server (KDC), and so may block.
    ///
    /// # Errors
    /// Fails with a [`SaslError`] if the server's message is malformed, out of order or the 33rd of this exchange, if it
    /// offers nothing that this client can or may use, or if the mechanism fails. The connection is of no use then. A server
    /// that refuses the client sends no such message, but an exception in the response's header, which the caller handles.
    pub fn receive(&mut self, said: SaslMessage) -> Result<Step, SaslError> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Err(SaslError::OutOfStep("the exchange does not end"));
        }
        match SaslState::try_from(said.state) {
            Ok(SaslState::Negotiate) if self.chosen.is_none() => self.choose(said.auths),
            Ok(SaslState::Challenge) => {
                let Some((_, mechanism)) = &mut self.chosen else {
                    return Err(SaslError::OutOfStep("a challenge before a method was chosen"));
                };
                let token =
                    said.token.ok_or(SaslError::OutOfStep("a challenge without content"))?;
                let answer = mechanism.step(Some(&token))?;
                Ok(Step::Send(message(SaslState::Response, Some(answer))))
            }
            Ok(SaslState::Success) => match self.chosen.take() {
                Some((method, mut mechanism)) => {
                    let (qop, layer) = mechanism.finish(said.token.as_deref())?;
                    Ok(Step::Done(None, Outcome { method, qop, layer }))
                }
                // What a server without security says to a client that offers SASL.
                None => Ok(Step::Done(None, self.simple()?)),
            },
            Ok(SaslState::Negotiate) => Err(SaslError::OutOfStep("a second offer")),
            Ok(_) | Err(_) => Err(SaslError::OutOfStep("a message that servers do not send")),
        }
    }

    fn simple(&self) -> Result<Outcome, SaslError> {
        match self.config.simple {
            SimpleFallback::Allow => {
                Ok(Outcome { method: AuthMethod::Simple, qop: Qop::Authentication, layer: None })
            }
            SimpleFallback::Refuse => Err(SaslError::SimpleRefused),
        }
    }

    /// Takes the first of the server's offers that this client can use.
    fn choose(&mut self, offers: Vec<SaslAuth>) -> Result<Step, SaslError> {
        let offered =
            offers.iter().map(|offer| offer.method.as_str()).collect::<Vec<_>>().join(", ");
        let mut refused_simple = false;
        let mut wrong_principal = None;
        for offer in offers {
            match (offer.method.as_str(), offer.mechanism.as_str()) {
                ("SIMPLE", "") => match self.simple() {
                    Ok(outcome) => {
                        let mut chosen = message(SaslState::Initiate, None);
                        chosen.auths.push(SaslAuth { challenge: None, ..offer });
                        return Ok(Step::Done(Some(chosen), outcome));
                    }
                    Err(_) => refused_simple = true,
                },
                ("TOKEN", "DIGEST-MD5") => {
                    if let Some(token) = &self.config.token {
                        let mechanism = self.digest(token, &offer);
                        return self.initiate(AuthMethod::Token, Box::new(mechanism), offer);
                    }
                }
                ("KERBEROS", "GSSAPI") => match self.kerberos(&offer) {
                    Ok(Some(mechanism)) => {
                        return self.initiate(AuthMethod::Kerberos, Box::new(mechanism), offer);
                    }
                    Ok(None) => {}
                    Err(error @ SaslError::Principal { .. }) => wrong_principal = Some(error),
                    Err(error) => return Err(error),
                },
                _ => {}
            }
        }
        match wrong_principal {
            Some(error) => Err(error),
            None if refused_simple => Err(SaslError::SimpleRefused),
            None => Err(SaslError::NoCommonMethod { offered, have: self.have() }),
        }
    }

    fn digest(&self, token: &Token, offer: &SaslAuth) -> DigestMd5 {
        DigestMd5::new(
            token,
            offer.protocol.as_deref().unwrap_or_default(),
            offer.server_id.as_deref().unwrap_or_default(),
            self.entropy,
            &self.config.qops,
            &self.config.ciphers,
        )
    }

    fn kerberos(&self, offer: &SaslAuth) -> Result<Option<GssapiMechanism>, SaslError> {
        let Some(kerberos) = &self.config.kerberos else { return Ok(None) };
        let target = kerberos.server.admit(
            offer.protocol.as_deref().unwrap_or_default(),
            offer.server_id.as_deref().unwrap_or_default(),
        )?;
        let context = kerberos.initiator.context(&target)?;
        Ok(Some(GssapiMechanism::new(context, &self.config.qops)))
    }

    fn initiate(
        &mut self,
        method: AuthMethod,
        mut mechanism: Box<dyn Mechanism>,
        offer: SaslAuth,
    ) -> Result<Step, SaslError> {
        let answer = mechanism.step(offer.challenge.as_deref())?;
        self.chosen = Some((method, mechanism));
        let mut chosen = message(SaslState::Initiate, Some(answer));
        chosen.auths.push(SaslAuth { challenge: None, ..offer });
        Ok(Step::Send(chosen))
    }

    fn have(&self) -> String {
        let token =
            self.config.token.as_ref().map(|token| format!("a token of kind {}", token.kind()));
        let kerberos = self.config.kerberos.as_ref().map(|_| "Kerberos".to_owned());
        let have: Vec<_> = token.into_iter().chain(kerberos).collect();
        match have.is_empty() {
            true => "no token for it and no Kerberos ticket".to_owned(),
            false => have.join(" and "),
        }
    }
}

fn message(state: SaslState, token: Option<Vec<u8>>) -> SaslMessage {
    SaslMessage { version: None, state: state.into(), token, auths: Vec::new() }
}
