//! A stand-in for any component, for tests: it answers the calls that a test names and leaves the others waiting. It must
//! never be part of a product.

use crate::call::{Answer, Ask, Call};
use actix::{Actor, Context, Handler, ResponseFuture};
use std::{
    any::Any,
    collections::BTreeMap,
    future::{pending, ready},
    sync::{Arc, Mutex, PoisonError},
};

/// Answers the calls of one kind.
type Answers<S, C> = Box<dyn FnMut(&mut S, C) -> ResponseFuture<Answer<C>>>;

/// A stand-in for any component in tests: an actor that handles every call of every gateway. A call for which the test
/// has named no answer ([`Double::on`]) is never answered: its caller waits until its deadline.
///
/// ```
/// # use gateways::{Double, blob_server::{BlobServerGateway, DeleteJobBlobs, OpenUpload, UploadId}};
/// # use actix::Actor as _;
/// # fn endpoint() -> gateways::Endpoint<BlobServerGateway> {
/// let server = Double::of(0)
///     .on(|opened, _: OpenUpload| {
///         *opened += 1;
///         Ok(UploadId(*opened))
///     })
///     .on(|_, _: DeleteJobBlobs| Ok(()));
/// BlobServerGateway::endpoint(server.start())
/// # }
/// ```
#[derive(derive_more::Debug)]
#[debug("Double({} calls)", self.answers.len())]
pub struct Double<S = ()> {
    state: S,
    /// Values are [`Answers`], by the name of their call.
    answers: BTreeMap<&'static str, Box<dyn Any>>,
}

impl<S: Unpin + 'static> Double<S> {
    /// Returns a double that answers no call yet. `state` is a value that each answer gets as `&mut S`.
    pub fn of(state: S) -> Self {
        Self { state, answers: BTreeMap::new() }
    }

    /// Answers every call `C` at once with what `answer` returns; `answer` is called once per call, with the state and
    /// the message. Replaces an earlier answer to `C`.
    #[must_use]
    pub fn on<C: Call>(self, mut answer: impl FnMut(&mut S, C) -> Answer<C> + 'static) -> Self {
        self.on_later(move |state, call| Box::pin(ready(answer(state, call))))
    }

    /// Answers every call `C` when the future that `answer` returns is ready; `answer` is called once per call, on its
    /// arrival, with the state and the message. Replaces an earlier answer to `C`.
    #[must_use]
    pub fn on_later<C: Call>(
        mut self,
        answer: impl FnMut(&mut S, C) -> ResponseFuture<Answer<C>> + 'static,
    ) -> Self {
        let answers: Answers<S, C> = Box::new(answer);
        self.answers.insert(C::NAME, Box::new(answers));
        self
    }

    /// Adds every call `C` to `calls` and answers it with `Ok(())` at once. Replaces an earlier answer to `C`.
    #[must_use]
    pub fn records<C: Call<Reply = ()> + Clone>(self, calls: &Calls<C>) -> Self {
        let calls = calls.clone();
        self.on(move |_, call| {
            calls.push(call);
            Ok(())
        })
    }
}

impl<S: Unpin + 'static> Actor for Double<S> {
    type Context = Context<Self>;
}

impl<S: Unpin + 'static, C: Call> Handler<Ask<C>> for Double<S> {
    type Result = ResponseFuture<Answer<C>>;

    fn handle(&mut self, ask: Ask<C>, _: &mut Context<Self>) -> Self::Result {
        let answers = self.answers.get_mut(C::NAME);
        match answers.and_then(|answers| answers.downcast_mut::<Answers<S, C>>()) {
            Some(answer) => answer(&mut self.state, ask.body),
            None => Box::pin(pending()),
        }
    }
}

/// A shared list of the calls of one type that doubles were given ([`Double::records`]), in the order of their arrival.
/// Clones share one list; it may be read from other threads.
#[derive(Debug)]
pub struct Calls<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Calls<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Calls<T> {
    /// Adds a call to the end; seen through all clones.
    pub fn push(&self, call: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
    /// Returns all calls since the last [`Calls::take`], the earliest first, and keeps them.
    pub fn all(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Returns all calls since the last `take`, the earliest first, and forgets them.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
