//! GSSAPI, listened to while it works, and played back afterwards. Nothing is computed here: what is asked in
//! play must be what was asked then.

use super::fixture::Gss;
use hadoop::gssapi::{GssContext, GssError, GssTarget, Initiator, Opened};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The recorded calls of GSSAPI, in the order in which they were made.
pub(super) type Log = Arc<Mutex<Vec<Gss>>>;

/// Whoever really has tickets, and what is asked of them.
pub(super) struct Listening {
    pub(super) initiator: Arc<dyn Initiator>,
    pub(super) log: Log,
}

impl Initiator for Listening {
    fn principal(&self) -> String {
        self.initiator.principal()
    }
    fn context(&self, target: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        let context = self.initiator.context(target)?;
        Ok(Box::new(Heard { context, log: Arc::clone(&self.log) }))
    }
}

struct Heard {
    context: Box<dyn GssContext>,
    log: Log,
}

impl Heard {
    fn note(&self, call: Gss) {
        self.log.lock().unwrap().push(call);
    }
}

impl GssContext for Heard {
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        let (answer, stands) = self.context.step(token)?;
        self.note(Gss::Step { token: token.to_vec(), answer: answer.clone(), stands });
        Ok((answer, stands))
    }
    fn wrap(&mut self, encrypt: bool, plain: &[u8]) -> Result<Vec<u8>, GssError> {
        let wrapped = self.context.wrap(encrypt, plain)?;
        self.note(Gss::Wrap { encrypt, plain: plain.to_vec(), wrapped: wrapped.clone() });
        Ok(wrapped)
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError> {
        let opened = self.context.unwrap(wrapped)?;
        let Opened { plain, encrypted } = opened.clone();
        self.note(Gss::Unwrap { wrapped: wrapped.to_vec(), plain, encrypted });
        Ok(opened)
    }
    fn plain_max(&self, encrypt: bool, raw_max: u32) -> Result<usize, GssError> {
        let plain = self.context.plain_max(encrypt, raw_max)?;
        self.note(Gss::Max { encrypt, raw: raw_max, plain });
        Ok(plain)
    }
}

/// An initiator that plays back the recorded calls of GSSAPI.
#[derive(Clone)]
pub(super) struct Scripted {
    pub(super) principal: String,
    script: Arc<Mutex<VecDeque<Gss>>>,
}

impl Scripted {
    pub(super) fn new(principal: &str, script: impl IntoIterator<Item = Gss>) -> Self {
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { principal: principal.to_owned(), script }
    }

    fn next(&self) -> Gss {
        self.script.lock().unwrap().pop_front().expect("nothing more was asked of GSSAPI then")
    }

    /// Whether all was asked that was asked then.
    pub(super) fn is_through(&self) -> bool {
        self.script.lock().unwrap().is_empty()
    }
}

impl Initiator for Scripted {
    fn principal(&self) -> String {
        self.principal.clone()
    }
    fn context(&self, _: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        Ok(Box::new(self.clone()))
    }
}

impl GssContext for Scripted {
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        let Gss::Step { token: then, answer, stands } = self.next() else { panic!("a step") };
        assert_eq!(token, then);
        Ok((answer, stands))
    }
    fn wrap(&mut self, encrypt: bool, plain: &[u8]) -> Result<Vec<u8>, GssError> {
        let Gss::Wrap { encrypt: did, plain: then, wrapped } = self.next() else {
            panic!("a message to be wrapped")
        };
        assert_eq!((encrypt, plain), (did, then.as_slice()));
        Ok(wrapped)
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError> {
        let Gss::Unwrap { wrapped: then, plain, encrypted } = self.next() else {
            panic!("a message to be opened")
        };
        assert_eq!(wrapped, then);
        Ok(Opened { plain, encrypted })
    }
    fn plain_max(&self, encrypt: bool, raw_max: u32) -> Result<usize, GssError> {
        let Gss::Max { encrypt: did, raw, plain } = self.next() else { panic!("a bound") };
        assert_eq!((encrypt, raw_max), (did, raw));
        Ok(plain)
    }
}
