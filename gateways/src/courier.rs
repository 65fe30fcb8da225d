//! Delivers facts to one receiver by the delivery rule of [`crate::delivery`]. This module must never reorder facts,
//! nor give one up while both sides live.

use crate::{
    call::{Call, Gateway, Never},
    delivery::{Facts, Outbox},
    error::{CallError, FabricError},
    remote::Remote,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// The first and the longest pause between two attempts.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Repeats a call until it is answered; only for calls that may be executed twice. Each attempt waits as [`Remote::ask`] does;
/// pauses between attempts grow from 20 ms to 1 s, and attempts never run out (not even once this process shuts down). `wanted` is
/// called after each pause, not before the first attempt: if it returns false, the answer is not needed any more, and the result is
/// `None`; an earlier attempt may have been executed.
///
/// # Errors
/// Returns the callee's refusal, or a failure of the fabric for which `FabricError::is_retriable` is false, such as a
/// call that is fenced (meant for another leader session).
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
    /// Delivers one independent fact: a message that must arrive, but neither before nor after another one, and whose
    /// repeated execution has the same effect as one. Returns at once. The call is repeated after 20 ms to 1 s until it
    /// is answered, or fails in a way that no repetition can mend (the handler refuses it or panics, or the callee is in another
    /// session, for example); that is only logged, at debug. Dropping this gateway does not end the repetition, which runs on the lane of
    /// the calling thread (without one, on the lane of the connections) and ends with that lane; until then it keeps the service alive.
    pub fn insist<C: Call<Gateway = G> + Clone + Sync>(&self, fact: C) {
        let remote = self.clone();
        self.spawn_here(async move {
            if let Some(Err(error)) = until_answered(&remote, &fact, || true).await {
                tracing::debug!(call = C::NAME, to = %remote.address(), %error, "not delivered");
            }
        });
    }
}

/// A type of facts, messages that must arrive exactly once and in order, that a [`Courier`] can deliver. Implemented for every type `F`
/// for which a gateway declares the call `Facts<F>`, whose reply is the number of the fact that the receiver expects next; nobody
/// implements it by hand.
pub trait Deliverable: Clone + Send + 'static {
    /// The delivering call, `Facts<Self>`.
    type Delivery: Call<Reply = u64, Error = Never> + Clone + From<Facts<Self>>;
}

impl<F: Clone + Send + 'static> Deliverable for F
where
    Facts<F>: Call<Reply = u64, Error = Never>,
{
    type Delivery = Facts<F>;
}

/// The gateway that receives facts of type `F`.
type To<F> = <<F as Deliverable>::Delivery as Call>::Gateway;

/// Delivers facts of type `F`, messages that must arrive exactly once and in order, from one component to one endpoint:
/// it repeats calls until the receiver has acknowledged each fact, with pauses of 20 ms to 1 s after failures. Nothing is persisted.
/// Dropping the courier drops the facts that are not acknowledged, because its session (the sender's leadership) has ended; those of
/// a call that is under way may still arrive.
#[derive(derive_more::Debug)]
#[debug("Courier({:?})", self.remote)]
pub struct Courier<F: Deliverable> {
    pair: Arc<Pair<F>>,
    remote: Remote<To<F>>,
}

struct Pair<F> {
    /// The unacknowledged facts; `None` once the pair has ended or broken.
    outbox: Mutex<Option<Outbox<F>>>,
    on_break: Box<dyn Fn(String) + Send + Sync>,
}

impl<F: Deliverable> Courier<F> {
    /// Makes a courier whose facts go to `remote`, numbered from 0. `on_break` is called at most once, with the reason, if delivery breaks
    /// off: [`KEPT_MAX`](crate::delivery::KEPT_MAX) facts are unacknowledged, the receiver's answer is out of step, or a call failed in a
    /// way that no repetition can mend (its handler panicked, for example). All kept facts are dropped before. The sender must then end
    /// and be replaced under a new session. It is not called if the receiver is in another session, because the sender's own session has
    /// ended then.
    pub fn new(remote: Remote<To<F>>, on_break: impl Fn(String) + Send + Sync + 'static) -> Self {
        let outbox = Mutex::new(Some(Outbox::default()));
        Self { pair: Arc::new(Pair { outbox, on_break: Box::new(on_break) }), remote }
    }

    /// Delivers a fact after all facts delivered before it. Returns at once. The call is made later, on the lane (event
    /// loop) of this thread, or that of the connections if it has none, and carries the facts that were added meanwhile too. Does nothing
    /// once delivery has broken off or the receiver was found in another session. If [`KEPT_MAX`](crate::delivery::KEPT_MAX) facts are
    /// unacknowledged already, delivery breaks off: `on_break` is called before this returns, and the fact is not delivered.
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

impl<F: Deliverable> Pair<F> {
    fn lock(&self) -> MutexGuard<'_, Option<Outbox<F>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaks(&self, remote: &Remote<To<F>>, why: &str) {
        // The outbox is taken out first, so that the lock is not held while `on_break` runs.
        let was_whole = self.lock().take().is_some();
        if was_whole {
            (self.on_break)(format!("facts for {} cannot be delivered: {why}", remote.address()));
        }
    }
}

/// Makes one call after another until everything is acknowledged, the pair breaks, or its courier is dropped.
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

/// Waits for `pause`, then doubles it up to the longest pause.
async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = pause.saturating_mul(2).min(RETRY.1);
}
