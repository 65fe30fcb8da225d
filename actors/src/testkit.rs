//! A world for tests of this process's actors: services on a paused clock, leaders that the test names,
//! and gateways whose every call the test answers itself.

use crate::heartbeat::HeartbeatActor;
use crate::leader_retrieval::LeaderTable;
use crate::services::{ProcessServices, Running};
use crate::testing::{Facts, TestProcess};
use actix::{Actor, Addr, Context, Handler, ResponseFuture};
use gateways::leader_election::LeaderInformation;
use gateways::{Answer, Ask, Call, Endpoint, EndpointAddress, Gateway, Registration};
use model::{Fence, LeaderSession, ResourceId};
use std::any::Any;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// One process with its services.
pub(crate) struct World {
    pub(crate) services: ProcessServices,
    pub(crate) leaders: LeaderTable,
    pub(crate) facts: Facts,
    _heartbeat: Running<HeartbeatActor>,
}

impl World {
    pub(crate) async fn new(options: &[(&str, &str)]) -> Self {
        let process = TestProcess::start(options).await;
        let beating = process.heartbeats().await;
        let TestProcess { mut services, leaders, facts } = process;
        services.resource_id = ResourceId::new("tm-1");
        services.host = "node-1".into();
        Self { services, leaders, facts, _heartbeat: beating }
    }

    /// Serves a gateway whose calls the test answers.
    pub(crate) fn double<G: Gateway>(
        &self,
        name: &str,
        fence: G::Fence,
        endpoint: fn(Addr<Double>) -> Endpoint<G>,
    ) -> Script {
        let (seen, queue) = mpsc::unbounded_channel();
        let actor = Double { seen }.start();
        let registration = self.services.rpc.serve(name, fence, endpoint(actor.clone()));
        let address = self.services.rpc.address_of(name);
        Script {
            address,
            session: fence.session(),
            queue,
            registration: Some(registration),
            _actor: actor,
        }
    }
}

/// An actor that hands every call to the test.
pub(crate) struct Double {
    seen: mpsc::UnboundedSender<Seen>,
}

struct Seen {
    name: &'static str,
    call: Box<dyn Any>,
}

impl Actor for Double {
    type Context = Context<Self>;
}

/// A call that waits for the test's answer.
pub(crate) struct Received<C: Call> {
    pub(crate) body: C,
    answer: oneshot::Sender<Answer<C>>,
}

impl<C: Call> Received<C> {
    pub(crate) fn answer(self, answer: Answer<C>) -> C {
        let _ = self.answer.send(answer);
        self.body
    }
}

impl<C: Call> Handler<Ask<C>> for Double {
    type Result = ResponseFuture<Answer<C>>;

    fn handle(&mut self, ask: Ask<C>, _: &mut Context<Self>) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        let received = Received { body: ask.body, answer };
        let _ = self.seen.send(Seen { name: C::NAME, call: Box::new(received) });
        Box::pin(async move {
            match answered.await {
                Ok(answer) => answer,
                // A test that drops a call never answers it.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// The calls of a double, in order.
pub(crate) struct Script {
    pub(crate) address: EndpointAddress,
    pub(crate) session: LeaderSession,
    queue: mpsc::UnboundedReceiver<Seen>,
    registration: Option<Registration>,
    _actor: Addr<Double>,
}

impl Script {
    pub(crate) fn leader(&self) -> LeaderInformation {
        LeaderInformation { session: self.session, address: self.address.clone() }
    }

    /// The next call, which must be this one.
    pub(crate) async fn next<C: Call>(&mut self) -> Received<C> {
        let wait = tokio::time::timeout(Duration::from_secs(600), self.queue.recv());
        let seen = match wait.await {
            Ok(seen) => seen.expect("the double is gone"),
            Err(_) => panic!("nobody called {}", C::NAME),
        };
        match seen.call.downcast::<Received<C>>() {
            Ok(received) => *received,
            Err(_) => panic!("called {} instead of {}", seen.name, C::NAME),
        }
    }

    /// Checks that no call comes within `wait`.
    pub(crate) async fn silent_for(&mut self, wait: Duration) {
        if let Ok(Some(seen)) = tokio::time::timeout(wait, self.queue.recv()).await {
            panic!("called {}", seen.name);
        }
    }

    /// The endpoint is not served any more: calls find nobody.
    pub(crate) fn vanish(&mut self) {
        self.registration = None;
    }
}
