//! GSSAPI as a SASL mechanism (RFC 4752), over any GSS context: the exchange of its tokens, then of one
//! wrapped message each way that settles the protection. The context's library is not known here.

use super::{Mechanism, Qop, SaslError, SecurityLayer};
use crate::gssapi::GssContext;

/// How long a wrapped message may be that the server sends us: the most that three bytes can say.
const RAW_MAX: u32 = 0x00ff_ffff;

/// The client's half of the SASL mechanism GSSAPI (Kerberos), for one exchange: client and server prove who they are, then agree on the
/// protection of the stream. A [`Negotiation`](super::Negotiation) makes it when the server offers `KERBEROS` with an acceptable principal.
#[derive(derive_more::Debug)]
#[debug("GssapiMechanism {{ .. }}")]
pub struct GssapiMechanism {
    state: State,
    qops: Vec<Qop>,
}

enum State {
    Establishing(Box<dyn GssContext>),
    /// Both sides know each other; the server offers protections next.
    Offered(Box<dyn GssContext>),
    Chosen(Box<dyn GssContext>, Qop, usize),
    Done,
}

impl GssapiMechanism {
    /// Makes the client's half from a security context that has made no step yet. `qops` are the acceptable
    /// protections, the best first: the first that the server offers too is used.
    #[must_use]
    pub fn new(context: Box<dyn GssContext>, qops: &[Qop]) -> Self {
        Self { state: State::Establishing(context), qops: qops.to_vec() }
    }

    /// Answers the server's offer of protections.
    fn choose(
        &self,
        context: &mut dyn GssContext,
        offer: &[u8],
    ) -> Result<(Vec<u8>, Qop, usize), SaslError> {
        let plain = context.unwrap(offer)?.plain;
        let [mask, a, b, c] = plain.as_slice() else {
            return Err(SaslError::Challenge(
                "the offer of protections is not four bytes".to_owned(),
            ));
        };
        let raw_max = u32::from_be_bytes([0, *a, *b, *c]);
        let Some(qop) = self.qops.iter().copied().find(|qop| mask & bit(*qop) != 0) else {
            let names =
                |known: &[Qop]| known.iter().map(|qop| qop.name()).collect::<Vec<_>>().join(",");
            let known = [Qop::Authentication, Qop::Integrity, Qop::Privacy];
            let offered: Vec<_> = known.into_iter().filter(|qop| mask & bit(*qop) != 0).collect();
            return Err(SaslError::NoCommonQop {
                offered: names(&offered),
                wanted: names(&self.qops),
            });
        };
        let plain_max = match qop {
            Qop::Authentication => 0,
            _ => context.plain_max(qop == Qop::Privacy, raw_max)?,
        };
        if qop != Qop::Authentication && plain_max == 0 {
            return Err(SaslError::Challenge("the server takes no protected message".to_owned()));
        }
        let ours = if qop == Qop::Authentication { 0 } else { RAW_MAX };
        let [_, a, b, c] = ours.to_be_bytes();
        Ok((context.wrap(false, &[bit(qop), a, b, c])?, qop, plain_max))
    }
}

fn bit(qop: Qop) -> u8 {
    match qop {
        Qop::Authentication => 1,
        Qop::Integrity => 2,
        Qop::Privacy => 4,
    }
}

impl Mechanism for GssapiMechanism {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    fn step(&mut self, challenge: Option<&[u8]>) -> Result<Vec<u8>, SaslError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Establishing(mut context) => {
                let (token, established) = context.step(challenge.unwrap_or_default())?;
                self.state = match established {
                    true => State::Offered(context),
                    false => State::Establishing(context),
                };
                Ok(token)
            }
            State::Offered(mut context) => {
                let offer = challenge.ok_or(SaslError::OutOfStep("no offer of protections"))?;
                let (answer, qop, plain_max) = self.choose(context.as_mut(), offer)?;
                self.state = State::Chosen(context, qop, plain_max);
                Ok(answer)
            }
            State::Chosen(..) | State::Done => {
                Err(SaslError::OutOfStep("a challenge after the end of GSSAPI"))
            }
        }
    }

    fn finish(
        &mut self,
        token: Option<&[u8]>,
    ) -> Result<(Qop, Option<Box<dyn SecurityLayer>>), SaslError> {
        let State::Chosen(context, qop, plain_max) =
            std::mem::replace(&mut self.state, State::Done)
        else {
            return Err(SaslError::OutOfStep("success before GSSAPI was through"));
        };
        if token.is_some_and(|token| !token.is_empty()) {
            return Err(SaslError::OutOfStep("a token after the end of GSSAPI"));
        }
        let layer = GssLayer { context, encrypt: qop == Qop::Privacy, plain_max };
        let layer = (qop != Qop::Authentication).then(|| Box::new(layer) as Box<dyn SecurityLayer>);
        Ok((qop, layer))
    }
}

/// Protection by the context's own messages.
struct GssLayer {
    context: Box<dyn GssContext>,
    encrypt: bool,
    plain_max: usize,
}

impl SecurityLayer for GssLayer {
    fn plain_max(&self) -> usize {
        self.plain_max
    }

    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, SaslError> {
        Ok(self.context.wrap(self.encrypt, plain)?)
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, SaslError> {
        let opened = self.context.unwrap(wrapped)?;
        if self.encrypt && !opened.encrypted {
            return Err(SaslError::Integrity("it is not encrypted"));
        }
        Ok(opened.plain)
    }
}
