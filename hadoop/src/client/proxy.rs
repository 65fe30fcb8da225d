//! Calls to one of several servers of which one is active, tried again as a policy says. Which server is
//! asked first is remembered across calls.

use super::{Client, Target, decode};
use crate::rpc::{Attempt, CallError, Decision, Request, RetryPolicy};
use bytes::Bytes;
use prost::Message;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// The bounds on the time of one call through a [`Proxy`] (`None`: of all tries no bound, of one try the client's `call_timeout`), and
/// whether a policy with failover may repeat the call where the server may have executed it; a fixed one repeats it in any case.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// Maximum time of the call with all its tries and pauses, counted from the call. `None`: as long as the proxy's retry policy goes on,
    /// which may be for ever.
    pub deadline: Option<Duration>,
    /// Maximum time of one try, after which the retry policy decides what comes next; `None`: the client's `call_timeout`.
    pub attempt: Option<Duration>,
    /// True if executing the call twice has the same effect as once, or the server notices a repetition. If false, a
    /// policy with failover does not repeat the call where the server may have executed it; [`RetryPolicy::Fixed`]
    /// repeats it all the same.
    pub idempotent: bool,
}

impl Default for CallOptions {
    /// Returns options without an overall deadline, with the client's time-out for each try, idempotent as YARN's
    /// methods are.
    fn default() -> Self {
        Self { deadline: None, attempt: None, idempotent: true }
    }
}

/// A client of the servers of one service of which one is active, such as a cluster's ResourceManagers. Calls go to the active one, and are
/// tried again as a policy says; the proxy remembers across calls which server it asks first. The proxy finds out which one is active only
/// by calling: from one that is not, or does not answer, it turns to the next if the policy is [`RetryPolicy::FailOver`].
#[derive(Debug)]
pub struct Proxy {
    client: Client,
    targets: RwLock<Arc<[Target]>>,
    policy: RetryPolicy,
    /// Failovers so far, counted once however many calls saw the same failure.
    failovers: Mutex<usize>,
}

impl Proxy {
    /// Makes a proxy for these servers, of which the first is asked first. Without servers every call fails with
    /// `ConnectionError::Connect`. Connects to nothing yet.
    #[must_use]
    pub fn new(client: Client, targets: Vec<Target>, policy: RetryPolicy) -> Self {
        Self { client, targets: RwLock::new(targets.into()), policy, failovers: Mutex::new(0) }
    }

    /// Replaces the servers, for example by the same ones with a renewed token. Calls under way use the new ones from
    /// their next try on. In a list of the same length the position of the server that is asked first stays; in one of another length any
    /// server, not always the first, may be the one.
    pub fn set_targets(&self, targets: Vec<Target>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets.into();
    }

    /// Returns the servers as they were set last, in the order in which they are tried: after the last comes the first.
    #[must_use]
    pub fn targets(&self) -> Arc<[Target]> {
        Arc::clone(&self.targets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the server that the next call asks first; `None` if the proxy has no servers. Calls that run already may be at another one.
    #[must_use]
    pub fn current(&self) -> Option<Target> {
        let count = *self.failovers.lock().unwrap_or_else(PoisonError::into_inner);
        let targets = self.targets();
        let index = count.checked_rem(targets.len())?;
        targets.get(index).cloned()
    }

    /// Moves on to the next server, unless another call did since `seen`.
    fn fail_over(&self, seen: usize) {
        let mut failovers = self.failovers.lock().unwrap_or_else(PoisonError::into_inner);
        if *failovers == seen {
            *failovers += 1;
        }
    }

    /// Calls the current server, tries again there or at the next one as the policy says, and decodes the answer. A change to another
    /// server counts for all later calls. Each repetition keeps the call's number and is logged at info. Dropping the future gives the call
    /// up; the server may carry it out all the same.
    ///
    /// # Errors
    /// Fails with the error of the last try, at once where the pause before the next would end after the overall deadline. If the overall
    /// deadline left the last try less than its full time and its request was never sent, the error of the try before it is returned. An
    /// answer that cannot be decoded ([`CallError::Undecodable`]) is not tried again.
    pub async fn call<Q: Message, R: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        options: CallOptions,
    ) -> Result<R, CallError> {
        let body = Bytes::from(request.encode_to_vec());
        decode(method, self.call_encoded(method, body, options).await?)
    }

    /// Makes a call like [`Proxy::call`], with a request and an answer in encoded form.
    ///
    /// # Errors
    /// Fails as [`Proxy::call`] does, except that the answer is not decoded.
    pub async fn call_encoded(
        &self,
        method: &str,
        body: Bytes,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        let began = Instant::now();
        let mut request = Request::new(self.client.next_call_id(), method, body);
        let (mut retries, mut failovers) = (0, 0);
        let mut before = None;
        loop {
            let seen = *self.failovers.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(target) = self.current() else {
                let error = crate::rpc::ConnectionError::Connect {
                    address: "nowhere".to_owned(),
                    reason: "no server is configured".to_owned(),
                };
                return Err(CallError::Connection { error, sent: false });
            };
            let left = options.deadline.map(|all| all.saturating_sub(began.elapsed()));
            let attempt = options.attempt.unwrap_or(self.client.options().call_timeout);
            let timeout = left.map_or(attempt, |left| left.min(attempt));
            let error = match self.client.attempt(&target, request.clone(), timeout).await {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            if let (CallError::Deadline { method, sent, .. }, Some(after)) =
                (&error, options.deadline.filter(|_| timeout < attempt))
            {
                // The time is over, of which this try had a rest. What was wrong before says more.
                let (method, sent) = (method.clone(), *sent);
                let late = CallError::Deadline { method, after, sent };
                return Err(before.filter(|_| !sent).unwrap_or(late));
            }
            let decision = self.policy.decide(Attempt {
                error: &error,
                retries,
                failovers,
                idempotent: options.idempotent,
                random: self.client.random(),
            });
            let after = match decision {
                Decision::Fail => return Err(error),
                Decision::Retry(after) => after,
                Decision::FailOver(after) => {
                    self.fail_over(seen);
                    failovers = u32::saturating_add(failovers, 1);
                    after
                }
            };
            let over =
                options.deadline.is_some_and(|all| began.elapsed().saturating_add(after) >= all);
            if over {
                return Err(error);
            }
            let address = target.address();
            tracing::info!(%method, %address, %error, retries, "trying again in {after:?}");
            before = Some(error);
            tokio::time::sleep(after).await;
            retries = u32::saturating_add(retries, 1);
            request.retry = request.retry.saturating_add(1);
        }
    }
}
