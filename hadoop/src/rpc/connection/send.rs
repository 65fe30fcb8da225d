//! Writes headers, requests and authentication, protected where the stream is. It must never read or decide anything.

use super::{Connection, Phase};
use crate::rpc::ConnectionError;
use crate::rpc::frame::{Part, put};
use crate::rpc::header::{
    CALL_SASL, KIND_PROTOBUF, MethodHeader, OP_FINAL_PACKET, RETRY_NONE, RequestHeader,
    SaslMessage, SaslState,
};
use crate::rpc::setup::{AuthSetup, Request, Time};
use crate::sasl::{AuthMethod, Negotiation, Outcome, Qop};
use bytes::BytesMut;

impl Connection {
    /// The first bytes of a stream: "hrpc", version 9, service class 0, then how authentication begins.
    pub(super) fn greet(&mut self, now: Time) {
        self.outbound.extend_from_slice(b"hrpc\x09\x00");
        match self.setup.auth.clone() {
            AuthSetup::Simple => {
                self.outbound.extend_from_slice(&[0]);
                let method = AuthMethod::Simple;
                self.begin(Outcome { method, qop: Qop::Authentication, layer: None }, now);
            }
            AuthSetup::Sasl { config, entropy } => {
                self.outbound.extend_from_slice(&[0xdf]);
                let (negotiation, first) = Negotiation::start(*config, entropy);
                self.phase = Phase::Negotiating(Box::new(negotiation));
                self.put_sasl(&first);
            }
        }
    }

    pub(super) fn request_header(&self, call_id: i32, retry: i32, named: bool) -> RequestHeader {
        RequestHeader {
            kind: Some(KIND_PROTOBUF),
            op: Some(OP_FINAL_PACKET),
            call_id,
            client_id: if named { self.setup.client.0.to_vec() } else { Vec::new() },
            retry_count: Some(retry),
        }
    }

    pub(super) fn put_call(&mut self, request: &Request) {
        let header = self.request_header(request.id, request.retry, true);
        let method = MethodHeader {
            method: request.method.clone(),
            protocol: self.setup.protocol.name.clone(),
            version: self.setup.protocol.version,
        };
        self.put_frame(&[&header, &method], Some(&request.body));
    }

    pub(super) fn put_sasl(&mut self, message: &SaslMessage) {
        let header = self.request_header(CALL_SASL, RETRY_NONE, false);
        let max = self.setup.limits.frame_out;
        if put(&mut self.outbound, &[&header, message], None, max).is_err() {
            self.close(ConnectionError::Protocol(
                "an authentication message is too long".to_owned(),
            ));
        }
    }

    /// Appends a frame, protected where the stream is.
    pub(super) fn put_frame(&mut self, parts: &[&dyn Part], body: Option<&[u8]>) {
        let max = self.setup.limits.frame_out;
        let Some(protected) = &mut self.protected else {
            // Lengths were checked before: what is too long here is a name beyond all reason.
            if put(&mut self.outbound, parts, body, max).is_err() {
                self.close(ConnectionError::Protocol("a header is too long".to_owned()));
            }
            return;
        };
        let mut plain = BytesMut::new();
        if put(&mut plain, parts, body, max).is_err() {
            return self.close(ConnectionError::Protocol("a header is too long".to_owned()));
        }
        let mut wrapped = Vec::new();
        for part in plain.chunks(protected.layer.plain_max().max(1)) {
            match protected.layer.wrap(part) {
                Ok(token) => wrapped.push(token),
                Err(error) => return self.close(error.into()),
            }
        }
        for token in wrapped {
            let state = SaslState::Wrap.into();
            self.put_sasl(&SaslMessage {
                version: None,
                state,
                token: Some(token),
                auths: Vec::new(),
            });
        }
    }
}
