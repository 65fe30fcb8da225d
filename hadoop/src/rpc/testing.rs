//! The server's side of a connection, for tests: it reads what a client writes with the same codec and
//! answers as it is told to.

use super::frame::{FrameDecoder, put, take, take_body};
use super::header::{
    CALL_CONTEXT, CALL_PING, CALL_SASL, ConnectionContext, MethodHeader, RequestHeader,
    ResponseHeader, ResponseStatus, SaslAuth, SaslMessage, SaslState,
};
use crate::gssapi::GssContext;
use crate::sasl::testing::DigestServer;
use crate::sasl::{Cipher, Qop, SaslError, SecurityLayer};
use crate::tokens::Token;
use bytes::{Bytes, BytesMut};
use std::sync::Arc;

const MAX: usize = 64 << 20;

/// How a server authenticates.
#[derive(Clone)]
pub(crate) enum ServerAuth {
    Simple,
    Token {
        token: Token,
        qops: Vec<Qop>,
        ciphers: Vec<Cipher>,
    },
    /// With contexts that accept, for the service `rm` on `localhost`; offering protections by this mask.
    Kerberos {
        accept: Arc<dyn Fn() -> Box<dyn GssContext> + Send + Sync>,
        mask: u8,
    },
    /// SASL is answered, and SIMPLE is all that is offered.
    OnlySimple,
}

/// How far a client with Kerberos has come.
enum Gss {
    Establishing(Box<dyn GssContext>),
    Offered(Box<dyn GssContext>),
}

/// The server's side of a stream that Kerberos protects.
struct GssServerLayer {
    context: Box<dyn GssContext>,
    encrypt: bool,
}

impl SecurityLayer for GssServerLayer {
    fn plain_max(&self) -> usize {
        usize::MAX
    }
    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, SaslError> {
        Ok(self.context.wrap(self.encrypt, plain)?)
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, SaslError> {
        let opened = self.context.unwrap(wrapped)?;
        assert_eq!(opened.encrypted, self.encrypt);
        Ok(opened.plain)
    }
}

/// A message that the client has sent.
#[derive(Debug)]
pub(crate) enum Said {
    Context(ConnectionContext),
    Call { header: RequestHeader, method: MethodHeader, body: Bytes },
    Ping,
}

struct Protected {
    layer: Box<dyn SecurityLayer>,
    inner: FrameDecoder,
}

pub(crate) struct ServerConnection {
    auth: ServerAuth,
    digest: Option<DigestServer>,
    gss: Option<Gss>,
    preface: Option<u8>,
    raw: BytesMut,
    outer: FrameDecoder,
    protected: Option<Protected>,
    pub(crate) out: BytesMut,
    pub(crate) said: Vec<Said>,
}

impl ServerConnection {
    pub(crate) fn new(auth: ServerAuth) -> Self {
        let digest = match &auth {
            ServerAuth::Token { token, qops, ciphers } => {
                Some(DigestServer::new(token, qops, ciphers))
            }
            _ => None,
        };
        Self {
            auth,
            digest,
            gss: None,
            preface: None,
            raw: BytesMut::new(),
            outer: FrameDecoder::new(MAX),
            protected: None,
            out: BytesMut::new(),
            said: Vec::new(),
        }
    }

    /// Takes a client's bytes. `false` when the connection is to be closed after `out` was sent.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> bool {
        if self.preface.is_none() {
            self.raw.extend_from_slice(bytes);
            if self.raw.len() < 7 {
                return true;
            }
            let rest = self.raw.split_off(7);
            assert_eq!(&self.raw[..6], b"hrpc\x09\x00");
            self.preface = Some(self.raw[6]);
            if self.raw[6] == 0 && matches!(self.auth, ServerAuth::Token { .. }) {
                let message = "SIMPLE authentication is not enabled.  Available:[TOKEN]";
                self.fail(
                    -1,
                    "org.apache.hadoop.security.AccessControlException",
                    message,
                    15,
                    true,
                );
                return false;
            }
            self.outer.push(&rest);
        } else {
            self.outer.push(bytes);
        }
        while let Some(frame) = self.outer.next_frame().unwrap() {
            if !self.frame(frame) {
                return false;
            }
        }
        true
    }

    fn frame(&mut self, mut frame: Bytes) -> bool {
        let whole = frame.clone();
        let header: RequestHeader = take(&mut frame, "header").unwrap();
        if header.call_id != CALL_SASL {
            assert!(self.protected.is_none(), "an unprotected request");
            return self.request(whole);
        }
        let message: SaslMessage = take(&mut frame, "sasl").unwrap();
        match SaslState::try_from(message.state).unwrap() {
            SaslState::Negotiate => self.offer(),
            SaslState::Initiate if message.auths[0].method == "SIMPLE" => {}
            SaslState::Initiate if message.auths[0].method == "KERBEROS" => {
                let ServerAuth::Kerberos { accept, .. } = &self.auth else { panic!() };
                self.gss = Some(Gss::Establishing(accept()));
                return self.kerberos(&message.token.unwrap());
            }
            SaslState::Response => return self.kerberos(&message.token.unwrap()),
            SaslState::Initiate => {
                let digest = self.digest.as_ref().unwrap();
                let Some((proof, _, layer)) = digest.accept(&message.token.unwrap()) else {
                    let class = "javax.security.sasl.SaslException";
                    self.fail(
                        CALL_SASL,
                        class,
                        "DIGEST-MD5: digest response format violation. Mismatched response.",
                        15,
                        true,
                    );
                    return false;
                };
                self.sasl(SaslState::Success, Some(proof), vec![]);
                self.protected =
                    layer.map(|layer| Protected { layer, inner: FrameDecoder::new(MAX) });
            }
            SaslState::Wrap => {
                let protected = self.protected.as_mut().unwrap();
                let plain = protected.layer.unwrap(&message.token.unwrap()).unwrap();
                protected.inner.push(&plain);
                while let Some(frame) = self.protected.as_mut().unwrap().inner.next_frame().unwrap()
                {
                    if !self.request(frame) {
                        return false;
                    }
                }
            }
            other => panic!("{other:?}"),
        }
        true
    }

    fn offer(&mut self) {
        let auth = |method: &str, mechanism: &str, challenge| SaslAuth {
            method: method.to_owned(),
            mechanism: mechanism.to_owned(),
            protocol: Some(String::new()),
            server_id: Some("default".to_owned()),
            challenge,
        };
        let auths = match &self.digest {
            _ if matches!(self.auth, ServerAuth::Kerberos { .. }) => {
                let (protocol, server_id) = (Some("rm".to_owned()), Some("localhost".to_owned()));
                vec![SaslAuth { protocol, server_id, ..auth("KERBEROS", "GSSAPI", None) }]
            }
            Some(digest) => vec![auth("TOKEN", "DIGEST-MD5", Some(digest.challenge()))],
            None => vec![auth("SIMPLE", "", None)],
        };
        self.sasl(SaslState::Negotiate, None, auths);
    }

    /// `false` where the context does not come about.
    fn kerberos(&mut self, token: &[u8]) -> bool {
        let ServerAuth::Kerberos { mask, .. } = self.auth else { panic!() };
        match self.gss.take().unwrap() {
            Gss::Establishing(mut context) => {
                let Ok((answer, complete)) = context.step(token) else {
                    let class = "javax.security.sasl.SaslException";
                    self.fail(CALL_SASL, class, "GSS initiate failed", 15, true);
                    return false;
                };
                assert!(complete);
                self.gss = Some(Gss::Offered(context));
                self.sasl(SaslState::Challenge, Some(answer), vec![]);
            }
            // The client's empty word after the context stands.
            Gss::Offered(mut context) if token.is_empty() => {
                let offer = context.wrap(false, &[mask, 0, 255, 255]).unwrap();
                self.gss = Some(Gss::Offered(context));
                self.sasl(SaslState::Challenge, Some(offer), vec![]);
            }
            Gss::Offered(mut context) => {
                let chosen = context.unwrap(token).unwrap().plain[0];
                assert_eq!(chosen & mask, chosen);
                self.sasl(SaslState::Success, None, vec![]);
                if chosen > 1 {
                    let layer = Box::new(GssServerLayer { context, encrypt: chosen == 4 });
                    self.protected = Some(Protected { layer, inner: FrameDecoder::new(MAX) });
                }
            }
        }
        true
    }

    fn sasl(&mut self, state: SaslState, token: Option<Vec<u8>>, auths: Vec<SaslAuth>) {
        let message = SaslMessage { version: None, state: state.into(), token, auths };
        let header = header(CALL_SASL, ResponseStatus::Success);
        put(&mut self.out, &[&header, &message], None, MAX).unwrap();
    }

    fn request(&mut self, mut frame: Bytes) -> bool {
        let header: RequestHeader = take(&mut frame, "header").unwrap();
        match header.call_id {
            CALL_CONTEXT => {
                let context = take(&mut frame, "context").unwrap();
                self.said.push(Said::Context(context));
            }
            CALL_PING => self.said.push(Said::Ping),
            _ => {
                let method = take(&mut frame, "method").unwrap();
                let body = take_body(&mut frame, "body").unwrap();
                self.said.push(Said::Call { header, method, body });
            }
        }
        assert!(frame.is_empty());
        true
    }

    pub(crate) fn answer(&mut self, call: i32, body: &[u8]) {
        let header = header(call, ResponseStatus::Success);
        let mut plain = BytesMut::new();
        put(&mut plain, &[&header], Some(body), MAX).unwrap();
        self.send(&plain);
    }

    pub(crate) fn fail(&mut self, call: i32, class: &str, message: &str, code: i32, fatal: bool) {
        let status = if fatal { ResponseStatus::Fatal } else { ResponseStatus::Error };
        let header = ResponseHeader {
            exception_class: Some(class.to_owned()),
            error: Some(message.to_owned()),
            error_code: Some(code),
            ..header(call, status)
        };
        let mut plain = BytesMut::new();
        put(&mut plain, &[&header], None, MAX).unwrap();
        self.send(&plain);
    }

    fn send(&mut self, plain: &[u8]) {
        match &mut self.protected {
            None => self.out.extend_from_slice(plain),
            // As Hadoop's server does: the whole answer in one message, however long.
            Some(protected) => {
                let token = protected.layer.wrap(plain).unwrap();
                self.sasl(SaslState::Wrap, Some(token), vec![]);
            }
        }
    }
}

pub(super) fn header(call: i32, status: ResponseStatus) -> ResponseHeader {
    ResponseHeader {
        call_id: u32::from_be_bytes(call.to_be_bytes()),
        status: status.into(),
        server_version: Some(9),
        exception_class: None,
        error: None,
        error_code: None,
        client_id: None,
        retry_count: None,
    }
}
