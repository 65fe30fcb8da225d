//! A world for tests of this process's actors: services on a paused clock, leaders that the test names,
//! and gateways whose every call the test answers itself.

use crate::heartbeat::{self, HeartbeatActor, HeartbeatDeps};
use crate::probe::{Fact, Probe};
use crate::services::{
    FatalErrorHandler, HeartbeatHandle, LeaderRetrieval, ProcessServices, Running,
};
use actix::{Actor, Addr, Context, Handler, ResponseFuture};
use control::liveness::Limits;
use control::mutation::Mutation;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{
    Answer, Ask, Call, EndpointAddress, EndpointBuilder, Gateway, Registration, RpcOptions,
    RpcService,
};
use model::{Epoch, Fence, LeaderSession, ProcessSession, ResourceId};
use platform::Platform;
use platform::inproc::InProcessNetwork;
use platform::watch;
use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

/// Runs a test on a paused clock, on one thread.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

pub(crate) fn session(n: u64) -> LeaderSession {
    LeaderSession { epoch: Epoch { store: 1, process: n }, nonce: n }
}

/// Leaders that the test names.
#[derive(Default)]
pub(crate) struct Leaders {
    all: Mutex<BTreeMap<Component, watch::Sender<Option<LeaderInformation>>>>,
}

impl Leaders {
    pub(crate) fn set(&self, component: Component, leader: Option<LeaderInformation>) {
        let mut all = self.all.lock().unwrap();
        all.entry(component).or_insert_with(|| watch::Sender::new(None)).send_replace(leader);
    }
}

impl LeaderRetrieval for Leaders {
    fn watch(&self, component: Component) -> watch::Receiver<Option<LeaderInformation>> {
        let mut all = self.all.lock().unwrap();
        all.entry(component).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }
}

/// Facts as they were noted.
#[derive(Debug, Default)]
pub(crate) struct Facts(pub(crate) Mutex<Vec<Fact>>);

impl Probe for Facts {
    fn note(&self, fact: Fact) {
        self.0.lock().unwrap().push(fact);
    }
}

/// One process with its services.
pub(crate) struct World {
    pub(crate) services: ProcessServices,
    pub(crate) leaders: Arc<Leaders>,
    pub(crate) facts: Arc<Facts>,
    _heartbeat: Running<HeartbeatActor>,
}

impl World {
    pub(crate) async fn new(options: &[(&str, &str)]) -> Self {
        let platform = Platform::simulated(7, Arc::new(InProcessNetwork::new()));
        let rpc = RpcService::start(platform.clone(), RpcOptions::in_process()).await.unwrap();
        let session = ProcessSession(session(1));
        let heartbeat = HeartbeatHandle::new(platform.clone(), Limits::default());
        let fatal = FatalErrorHandler::default();
        let deps = HeartbeatDeps {
            platform: platform.clone(),
            rpc: rpc.clone(),
            session,
            fatal: fatal.clone(),
            stacks: None,
        };
        let beating = heartbeat::start(&heartbeat, deps).await.unwrap();
        let leaders = Arc::new(Leaders::default());
        let facts = Arc::new(Facts::default());
        let options = options.iter().map(|(key, value)| (*key, *value));
        let services = ProcessServices {
            platform,
            rpc,
            options: Arc::new(conf::Options::from_map(options).unwrap()),
            resource_id: ResourceId::new("tm-1"),
            session,
            heartbeat,
            retrieval: leaders.clone(),
            fatal,
            metrics: Arc::default(),
            host: "node-1".into(),
            mutation: Mutation::None,
            probe: facts.clone(),
        };
        Self { services, leaders, facts, _heartbeat: beating }
    }

    /// Serves a gateway whose calls the test answers.
    pub(crate) fn double<G: Gateway>(
        &self,
        name: &str,
        fence: G::Fence,
        calls: impl FnOnce(EndpointBuilder<Double>) -> EndpointBuilder<Double>,
    ) -> Script {
        let (seen, queue) = mpsc::unbounded_channel();
        let actor = Double { seen }.start();
        let endpoint = calls(EndpointBuilder::new(actor.clone())).build::<G>();
        let registration = self.services.rpc.serve(name, fence, endpoint);
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
