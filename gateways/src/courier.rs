//! Carries facts to one receiver by the delivery rule of [`crate::delivery`]. It must never reorder them, nor
//! give one up while both sides live.

use crate::{
    call::{Call, Gateway, Never},
    delivery::{Facts, Outbox},
    error::{CallError, FabricError},
    remote::Remote,
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// Pauses between two tries: first, longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Makes a call until it is answered, for calls that may be executed twice. Pauses between tries grow from 20 ms to
/// 1 s. Returns `None` as soon as `wanted` says, after a failure, that nobody wants the answer any more.
///
/// # Errors
/// The callee's refusal, or a failure of the fabric that no repetition mends.
pub async fn until_answered<C: Call + Clone>(
    remote: &Remote<C::Gateway>,
    call: &C,
    wanted: impl Fn() -> bool,
) -> Option<Result<C::Reply, CallError<C::Error>>> {
    let mut pause = RETRY.0;
    loop {
        match remote.ask(call.clone()).await {
            Err(CallError::Fabric(error)) if error.is_retriable() => {
                tracing::debug!(call = C::NAME, to = %remote.address(), %error, "trying again");
            }
            answered => return Some(answered),
        }
        rest(&mut pause).await;
        if !wanted() {
            return None;
        }
    }
}

impl<G: Gateway> Remote<G> {
    /// Delivers one fact that stands alone: nothing has to arrive before or after it, and taking it twice does no more
    /// than taking it once. Returns at once; the call is repeated until it is answered or the callee is in another
    /// session.
    pub fn insist<C: Call<Gateway = G> + Clone + Sync>(&self, fact: C) {
        let remote = self.clone();
        self.spawn_here(async move {
            if let Some(Err(error)) = until_answered(&remote, &fact, || true).await {
                tracing::debug!(call = C::NAME, to = %remote.address(), %error, "not delivered");
            }
        });
    }
}

/// A type of facts and the call that brings them.
pub trait Deliverable: Clone + Send + 'static {
    /// `Facts<Self>`.
    type Delivery: Call<Reply = u64, Error = Never> + Clone + From<Facts<Self>>;
}

impl<F: Clone + Send + 'static> Deliverable for F
where
    Facts<F>: Call<Reply = u64, Error = Never>,
{
    type Delivery = Facts<F>;
}

/// The gateway that takes facts of type `F`.
type To<F> = <<F as Deliverable>::Delivery as Call>::Gateway;

/// The sender's end of a pair: delivers facts of type `F` to one endpoint. What is not acknowledged when the courier
/// is dropped is dropped with it: its session is over.
pub struct Courier<F: Deliverable> {
    pair: Arc<Pair<F>>,
    remote: Remote<To<F>>,
}

struct Pair<F> {
    /// `None`: the pair is over or broken.
    outbox: Mutex<Option<Outbox<F>>>,
    on_break: Box<dyn Fn(String) + Send + Sync>,
}

impl<F: Deliverable> Courier<F> {
    /// Makes the sender's end of a new pair with `remote`. `on_break` is called at most once, with the reason: the
    /// receiver lives but takes facts no more, so the sender must end and be replaced under a new session. It is
    /// not called where the receiver is in another session: then the sender's own is over.
    pub fn new(remote: Remote<To<F>>, on_break: impl Fn(String) + Send + Sync + 'static) -> Self {
        let outbox = Mutex::new(Some(Outbox::default()));
        Self { pair: Arc::new(Pair { outbox, on_break: Box::new(on_break) }), remote }
    }

    /// Delivers a fact behind all that were delivered before. Returns at once; the call is made on this thread's
    /// lane after the present turn, together with those of other facts of the turn.
    pub fn deliver(&self, fact: impl Into<F>) {
        let added = self.pair.lock().as_mut().map(|outbox| outbox.push(fact.into()));
        match added {
            Some(Ok(true)) => {
                self.remote.spawn_here(carry(Arc::downgrade(&self.pair), self.remote.clone()))
            }
            Some(Ok(false)) | None => {}
            Some(Err(broken)) => self.pair.breaks(&self.remote, &broken.to_string()),
        }
    }
}

impl<F: Deliverable> fmt::Debug for Courier<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Courier({:?})", self.remote)
    }
}

impl<F: Deliverable> Pair<F> {
    fn lock(&self) -> MutexGuard<'_, Option<Outbox<F>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaks(&self, remote: &Remote<To<F>>, why: &str) {
        // Taken first: the lock is not held while somebody else's code runs.
        let was_whole = self.lock().take().is_some();
        if was_whole {
            (self.on_break)(format!("facts for {} cannot be delivered: {why}", remote.address()));
        }
    }
}

/// Makes one call after the other until everything is acknowledged, the pair breaks, or its courier is dropped.
async fn carry<F: Deliverable>(pair: Weak<Pair<F>>, remote: Remote<To<F>>) {
    let mut pause = RETRY.0;
    loop {
        let next = pair.upgrade().and_then(|pair| pair.lock().as_mut()?.next_call());
        let Some(facts) = next else {
            return;
        };
        let answer = remote.ask(F::Delivery::from(facts)).await;
        let Some(whole) = pair.upgrade() else {
            return;
        };
        let why = match answer {
            Ok(expected) => {
                pause = RETRY.0;
                let taken = whole.lock().as_mut().map(|outbox| outbox.acknowledged(expected));
                match taken {
                    Some(Err(broken)) => broken.to_string(),
                    Some(Ok(())) | None => continue,
                }
            }
            Err(CallError::Fabric(FabricError::Fenced { .. })) => {
                whole.lock().take();
                return;
            }
            Err(CallError::Fabric(error)) if error.is_retriable() => {
                tracing::debug!(to = %remote.address(), %error, "facts not acknowledged; trying again");
                drop(whole);
                rest(&mut pause).await;
                continue;
            }
            Err(error) => error.to_string(),
        };
        return whole.breaks(&remote, &why);
    }
}

/// Waits for the present pause; the next one is twice as long.
async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = pause.saturating_mul(2).min(RETRY.1);
}
