//! The part of a connection that may wait for a KDC: it can be taken to another thread, so that nothing else
//! waits with it. Everything else must stay in the connection.

use super::{Connection, Phase};
use crate::rpc::ConnectionError;
use crate::rpc::header::SaslMessage;
use crate::rpc::setup::Time;
use crate::sasl::{Negotiation, SaslError, Step};

/// A step of authentication that may ask a Kerberos server (KDC) and so block, given out by [`Connection::take`] and [`Connection::resume`]
/// for the caller to run, on another thread if need be. While it is out, the connection handles no bytes. If it is dropped, the connection
/// never gets ready, and ends with the setup timeout.
#[derive(Debug)]
pub struct Ask {
    negotiation: Box<Negotiation>,
    message: SaslMessage,
}

/// The outcome of an [`Ask`], made by [`Ask::run`], to be given to [`Connection::resume`] of the connection that gave the [`Ask`] out. If
/// it is dropped, that connection never gets ready, and ends with the setup timeout.
#[derive(Debug)]
pub struct Answered {
    negotiation: Box<Negotiation>,
    result: Result<Step, SaslError>,
}

impl Ask {
    /// Makes this step of a connection's authentication. It may block for as long as the Kerberos server (KDC) and the
    /// system's library take; it may run on any thread. Give the result to [`Connection::resume`].
    #[must_use]
    pub fn run(self) -> Answered {
        let Self { mut negotiation, message } = self;
        let result = negotiation.receive(message);
        Answered { negotiation, result }
    }
}

impl Connection {
    /// Takes bytes from the server like [`take`](Self::take), and runs every [`Ask`] itself, so that it may block for
    /// as long as a Kerberos server (KDC) takes.
    pub fn receive(&mut self, bytes: &[u8], now: Time) {
        let mut ask = self.take(bytes, now);
        while let Some(asked) = ask {
            ask = self.resume(asked.run(), now);
        }
    }

    /// Goes on with authentication after a step that [`take`](Self::take) or this method returned, and with the bytes
    /// that came with it. Returns the next step to run, if there is one. If the step has failed, the connection
    /// closes, or asks for another stream ([`Event::Refused`](crate::rpc::Event::Refused)). Does nothing if the connection has ended
    /// meanwhile.
    #[must_use]
    pub fn resume(&mut self, answered: Answered, now: Time) -> Option<Ask> {
        if !matches!(self.phase, Phase::Asking) {
            return None;
        }
        self.heard = now;
        match self.step(answered, now) {
            Ok(()) => self.frames(now),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// The server's word in authentication: answered at once where no KDC can be in the way.
    pub(super) fn negotiate(
        &mut self,
        message: SaslMessage,
        now: Time,
    ) -> Result<Option<Ask>, ConnectionError> {
        match std::mem::replace(&mut self.phase, Phase::Asking) {
            Phase::Negotiating(negotiation) => {
                let ask = Ask { negotiation, message };
                match ask.negotiation.may_block() {
                    true => Ok(Some(ask)),
                    false => self.step(ask.run(), now).map(|()| None),
                }
            }
            other => {
                self.phase = other;
                Ok(None)
            }
        }
    }

    pub(super) fn step(&mut self, answered: Answered, now: Time) -> Result<(), ConnectionError> {
        let Answered { negotiation, result } = answered;
        // Whether a failure may pass depends on how far it has come.
        self.phase = Phase::Negotiating(negotiation);
        match result? {
            Step::Send(answer) => self.put_sasl(&answer),
            Step::Done(last, outcome) => {
                if let Some(last) = last {
                    self.put_sasl(&last);
                }
                self.begin(outcome, now);
            }
        }
        Ok(())
    }
}
