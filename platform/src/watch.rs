//! A value that many receivers may watch: each sees the newest, none blocks the sender.
//!
//! Waiting receivers are woken in the order in which they began to wait: tokio's channel of the
//! same name picks the order at random, and then no seed gives the same run twice. A guard of the
//! value must never be held across an await, nor while another one is taken on the same thread.

use std::{
    fmt, mem,
    ops::Deref,
    pin::pin,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use thiserror::Error;
use tokio::sync::Notify;

/// The error of a [`Receiver`] that waits: every [`Sender`] is gone, and the last value is one that it has seen already
/// ([`Receiver::changed`]) or does not want ([`Receiver::wait_for`], [`Receiver::some`]). The value will never change again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the sender is gone: this value will not change any more")]
pub struct Closed;

struct State<T> {
    value: T,
    /// Version of the value; rises with every change.
    version: u64,
    closed: bool,
}

struct Shared<T> {
    state: RwLock<State<T>>,
    changed: Notify,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// The last receiver is gone.
    deserted: Notify,
}

impl<T> Shared<T> {
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        // A closure that panicked while it changed the value left a value all the same.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<R>(&self, f: impl FnOnce(&mut State<T>) -> R) -> R {
        f(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes the sender of a value and its first receiver, for which the value counts as seen.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// The side of a watched value that sets it, and wakes the [`Receiver`]s that wait for a new value. Clones set the same value. Once the
/// last clone is dropped, receivers still see the last value, but waiting for another one ends with [`Closed`].
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Makes the sender of a value that has no receivers yet.
    pub fn new(value: T) -> Self {
        let state = RwLock::new(State { value, version: 0, closed: false });
        Self(Arc::new(Shared {
            state,
            changed: Notify::new(),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(0),
            deserted: Notify::new(),
        }))
    }

    /// Makes a receiver for which the present value counts as seen: [`Receiver::changed`] waits for the next one, while
    /// [`Receiver::wait_for`] begins with the present one.
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { seen: self.0.read().version, shared: Arc::clone(&self.0) }
    }

    /// Returns the number of receivers that exist now, clones included.
    pub fn receiver_count(&self) -> usize {
        self.0.receivers.load(Ordering::Acquire)
    }

    /// Returns true if there are no receivers; more may be made by [`Sender::subscribe`].
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there are no receivers; returns at once if there are none now.
    pub async fn closed(&self) {
        loop {
            let mut deserted = pin!(self.0.deserted.notified());
            deserted.as_mut().enable();
            if self.is_closed() {
                return;
            }
            deserted.await;
        }
    }

    /// Returns a guard of the present value. While it is held, setting the value blocks: it must not be held across an await.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.read())
    }

    /// Sets the value (also if there are no receivers), wakes the receivers even if it is equal to the last one, and returns the
    /// last one.
    pub fn send_replace(&self, value: T) -> T {
        let before = self.0.write(|state| {
            state.version += 1;
            mem::replace(&mut state.value, value)
        });
        self.0.changed.notify_waiters();
        before
    }

    /// Calls `change` with the value, which it may change; readers and other senders wait meanwhile, so `change` must not touch this
    /// sender or its receivers. If `change` returns true, the value counts as new and the receivers are woken; if false, it must not
    /// have changed the value. Returns the result of `change`.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let modified = self.0.write(|state| {
            let modified = change(&mut state.value);
            state.version += u64::from(modified);
            modified
        });
        if modified {
            self.0.changed.notify_waiters();
        }
        modified
    }
}

impl<T: PartialEq> Sender<T> {
    /// Sets the value. Wakes the receivers and returns true if the value differs from the last one; an equal value counts as no change.
    pub fn set(&self, value: T) -> bool {
        self.send_if_modified(|known| {
            let changed = *known != value;
            *known = value;
            changed
        })
    }
}

impl<T> Sender<Option<T>> {
    /// Sets the value and wakes the receivers if there is none (`None`) yet; otherwise the first value stays. Returns true if
    /// it was set.
    pub fn set_first(&self, value: T) -> bool {
        self.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(value);
            is_first
        })
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.write(|state| state.closed = true);
            self.0.changed.notify_waiters();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

/// The side of a watched value that reads it and waits for a newer one, made by [`Sender::subscribe`] or [`channel`]; sees the newest value
/// that a [`Sender`] has set, and may miss values in between. Remembers the last value that it has seen, for [`Receiver::changed`]. A
/// clone has seen what the original has seen, and goes its own way from then on.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    /// Returns a guard of the present value without marking it as seen. Setting the value blocks while the guard is held: it
    /// must not be held across an await.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }

    /// Returns a guard of the present value and marks it as seen. Setting the value blocks while the guard is held: it must not
    /// be held across an await.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.read();
        self.seen = state.version;
        Ref(state)
    }

    /// Waits until there is a value that was not seen yet, and marks it as seen; returns at once if there is one.
    ///
    /// # Errors
    /// Returns [`Closed`] if the last value was seen and every sender is gone.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let shared = &self.shared;
        loop {
            let mut changed = pin!(shared.changed.notified());
            // From here on a change wakes this future, although it does not wait yet.
            changed.as_mut().enable();
            let (version, closed) = {
                let state = shared.read();
                (state.version, state.closed)
            };
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if closed {
                return Err(Closed);
            }
            changed.await;
        }
    }

    /// Waits for a value for which `right` returns true, beginning with the present one whether it was seen or not. Marks each
    /// value that it looks at as seen. Values that are replaced before it looks are missed. Returns a guard of the value, while which
    /// is held setting the value blocks.
    ///
    /// # Errors
    /// Returns [`Closed`] if every sender is gone and `right` is false for the last value.
    pub async fn wait_for(
        &mut self,
        mut right: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, Closed> {
        let shared = &self.shared;
        loop {
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            let closed = {
                let state = shared.read();
                self.seen = state.version;
                if right(&state.value) {
                    return Ok(Ref(state));
                }
                state.closed
            };
            if closed {
                return Err(Closed);
            }
            changed.await;
        }
    }
}

impl<T: Clone> Receiver<Option<T>> {
    /// Waits until the value is not `None`, and returns a clone of its content; a present content is returned at once. Marks
    /// the value as seen.
    ///
    /// # Errors
    /// Returns [`Closed`] if every sender is gone and the last value is `None`.
    pub async fn some(&mut self) -> Result<T, Closed> {
        let value = self.wait_for(Option::is_some).await?.clone();
        value.ok_or(Closed)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.deserted.notify_waiters();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

/// A guard of a watched value: senders wait until it is dropped. It must not be held across an await, nor while the same thread
/// takes another one.
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn the_newest_value_is_seen_once() {
        let (sender, mut receiver) = channel(1);
        sender.send_replace(2);
        assert_eq!(sender.send_replace(3), 2);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 3);
        assert!(!sender.send_if_modified(|_| false));
        drop(sender);
        assert_eq!(receiver.changed().await, Err(Closed));
        assert!(receiver.wait_for(|n| *n == 4).await.is_err());
        assert_eq!(*receiver.wait_for(|n| *n == 3).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_value_set_before_the_end_is_seen() {
        let (sender, mut receiver) = channel(1);
        sender.send_replace(2);
        drop(sender);
        assert_eq!(receiver.changed().await, Ok(()));
        assert_eq!(receiver.changed().await, Err(Closed));
    }

    #[tokio::test]
    async fn those_who_wait_are_woken_in_their_order() {
        let sender = Sender::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        for n in 0..40 {
            let (mut receiver, order) = (sender.subscribe(), Arc::clone(&order));
            local.spawn_local(async move {
                while receiver.changed().await.is_ok() {
                    order.lock().unwrap().push(n);
                }
            });
        }
        local
            .run_until(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    sender.send_replace(1);
                }
                tokio::task::yield_now().await;
            })
            .await;
        let order = order.lock().unwrap();
        assert!(order.len() >= 80, "{order:?}");
        assert!(order.iter().enumerate().all(|(i, n)| *n == i % 40), "{order:?}");
    }

    #[tokio::test]
    async fn those_who_watch_hear_of_another_value_only() {
        let (sender, mut receiver) = channel(1);
        assert!(!sender.set(1));
        assert!(sender.set(2));
        assert_eq!((receiver.changed().await, *receiver.borrow()), (Ok(()), 2));
    }

    #[tokio::test]
    async fn the_first_value_stays_and_is_waited_for() {
        let (sender, mut receiver) = channel(None);
        let mut late = receiver.clone();
        let (first, ()) = tokio::join!(receiver.some(), async {
            assert!(sender.set_first("first"));
            assert!(!sender.set_first("second"));
        });
        assert_eq!(first, Ok("first"));
        assert_eq!(late.some().await, Ok("first"));
        let (_, mut never) = channel::<Option<u32>>(None);
        assert_eq!(never.some().await, Err(Closed));
    }

    #[tokio::test]
    async fn receivers_are_counted() {
        let (sender, receiver) = channel(());
        let another = receiver.clone();
        assert_eq!(sender.receiver_count(), 2);
        drop((receiver, another));
        assert_eq!(sender.receiver_count(), 0);
        sender.closed().await;
    }
}
