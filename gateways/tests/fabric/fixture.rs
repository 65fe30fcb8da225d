//! A gateway with every kind of handler, and services of one simulated or real cluster.

use actix::prelude::*;
use gateways::{
    Answer, Ask, CallError, Caller, EndpointAddress, FabricError, Never, Principal, Registration,
    Remote, RpcOptions, RpcService, TraceContext, gateway,
};
use model::{ClusterId, Epoch, Fence, LeaderSession, ProcessSession};
use platform::{
    BoxStream, Credentials, Identity, Introduction, Platform, PortSpec, Secret, handshake,
    inproc::InProcessNetwork,
};
use serde::{Deserialize, Serialize};
use std::{future::Future, sync::Arc, time::Duration};

gateway! {
    /// Everything that a handler may do.
    pub struct TestGateway = "test", fenced by ProcessSession;
    Echo => serde_bytes::ByteBuf, Never;
    WhoAmI => Principal, Never;
    WhichTrace => TraceContext, Never;
    Count => u64, Never;
    Refuse => (), Refusal;
    Panic => (), Never;
    PanicLater => (), Never;
    Block => (), Never;
    Sleep => (), Never;
    Stop => (), Never;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Echo {
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WhoAmI {}
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WhichTrace {}
/// Asks for the number of `Count`s that were handled before this one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Count {}
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refuse {
    pub why: String,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused: {why}")]
pub struct Refusal {
    pub why: String,
}
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Panic {}
/// Panics in the future that it returns: its actor lives on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PanicLater {}
/// Holds the actor's turn (not the thread) for that time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Block {
    pub ms: u64,
}
/// Answers after that time; the actor goes on meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sleep {
    pub ms: u64,
}
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stop {}

#[derive(Default)]
pub struct TestActor {
    count: u64,
}

impl Actor for TestActor {
    type Context = Context<Self>;
}

/// Makes the handlers of calls that are answered in the actor's turn.
macro_rules! answers {
    ($($call:ident: |$actor:pat_param, $ask:pat_param| $answer:expr;)+) => {$(
        impl Handler<Ask<$call>> for TestActor {
            type Result = Answer<$call>;
            fn handle(&mut self, ask: Ask<$call>, _: &mut Context<Self>) -> Answer<$call> {
                let ($actor, $ask) = (self, ask);
                $answer
            }
        }
    )+};
}
answers! {
    Echo: |_, ask| Ok(ask.body.bytes.into());
    WhichTrace: |_, ask| Ok(ask.caller.trace);
    WhoAmI: |_, ask| Ok(ask.caller.principal);
    Count: |actor, _| {
        actor.count += 1;
        Ok(actor.count - 1)
    };
    Refuse: |_, ask| Err(Refusal { why: ask.body.why });
    Panic: |_, _| panic!("on purpose");
}

impl Handler<Ask<PanicLater>> for TestActor {
    type Result = ResponseFuture<Answer<PanicLater>>;
    fn handle(&mut self, ask: Ask<PanicLater>, _: &mut Context<Self>) -> Self::Result {
        Box::pin(async move {
            let _caller: Caller = ask.caller;
            tokio::task::yield_now().await;
            panic!("on purpose")
        })
    }
}
impl Handler<Ask<Block>> for TestActor {
    type Result = AtomicResponse<Self, Answer<Block>>;
    fn handle(&mut self, ask: Ask<Block>, _: &mut Context<Self>) -> Self::Result {
        let wait = Duration::from_millis(ask.body.ms);
        AtomicResponse::new(Box::pin(
            tokio::time::sleep(wait).into_actor(self).map(|(), _, _| Ok(())),
        ))
    }
}
impl Handler<Ask<Sleep>> for TestActor {
    type Result = ResponseFuture<Answer<Sleep>>;
    fn handle(&mut self, ask: Ask<Sleep>, _: &mut Context<Self>) -> Self::Result {
        let wait = Duration::from_millis(ask.body.ms);
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            Ok(())
        })
    }
}
impl Handler<Ask<Stop>> for TestActor {
    type Result = Answer<Stop>;
    fn handle(&mut self, _: Ask<Stop>, ctx: &mut Context<Self>) -> Answer<Stop> {
        ctx.stop();
        Ok(())
    }
}

/// A leader session.
pub fn session(store: u64) -> ProcessSession {
    ProcessSession::from_session(LeaderSession { epoch: Epoch { store, process: 0 }, nonce: 7 })
}

/// Runs a test as one simulated host: paused clock, one thread.
pub fn simulated<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let net = Arc::new(InProcessNetwork::new());
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let world = World { net };
        tokio::time::timeout(Duration::from_secs(3600), test(world)).await.expect("a test hangs");
    });
}

/// Runs a test of a simulated [`Pair`].
pub fn with_pair(test: impl AsyncFnOnce(Pair)) {
    simulated(|world| async move { test(world.pair().await).await });
}

/// Runs a test on the machine's own clock, for real sockets.
pub fn real<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(60), test()).await.expect("a test hangs");
    });
}

/// A network of pipes.
#[derive(Clone)]
pub struct World {
    pub net: Arc<InProcessNetwork>,
}

pub fn secret() -> Secret {
    Secret::new(*b"the secret of the test cluster..")
}

pub fn credentials() -> Credentials {
    Credentials { cluster: ClusterId::new("test"), identity: Identity::Cluster, secret: secret() }
}

/// Proves to the other side of a connection to be a process of the cluster, one at which nothing is served.
pub async fn introduce(stream: &mut BoxStream, incarnation: u128) {
    let me = Introduction { node: String::new(), incarnation };
    let plain = handshake::Channel::Plain;
    handshake::connect(stream, &credentials(), &me, [1; 32], plain).await.unwrap();
}

/// Checks that a call failed in the fabric in this way, and returns the failure.
macro_rules! fabric_error {
    ($answer:expr, $error:pat) => {{
        let error = $answer.unwrap_err().fabric().unwrap().clone();
        assert!(matches!(error, $error), "{error}");
        error
    }};
}
pub(crate) use fabric_error;

pub fn options(host: &str) -> RpcOptions {
    let cluster = ClusterId::new("test");
    RpcOptions::listening(host, host, PortSpec::one(6123), cluster, secret())
}

impl World {
    pub fn platform(&self, host: &str) -> Platform {
        let seed = host.bytes().fold(1, |seed: u64, byte| seed * 31 + u64::from(byte));
        Platform::simulated(seed, self.net.clone())
    }

    pub async fn service(&self, host: &str) -> RpcService {
        self.service_with(host, options(host)).await
    }

    pub async fn service_with(&self, host: &str, options: RpcOptions) -> RpcService {
        RpcService::start(self.platform(host), options).await.unwrap()
    }

    /// A service named `a` with a served actor, and another named `b` with a gateway to it.
    pub async fn pair(&self) -> Pair {
        let (server, client) = (self.service("a").await, self.service("b").await);
        Pair::of(server, client)
    }
}

/// Serves a new [`TestActor`] under `test` in session 1.
pub fn serve(service: &RpcService) -> Registration {
    service.serve("test", session(1), TestGateway::endpoint(TestActor::default().start()))
}

pub struct Pair {
    pub server: RpcService,
    pub client: RpcService,
    pub registration: Registration,
    pub remote: Remote<TestGateway>,
}

impl Pair {
    pub fn of(server: RpcService, client: RpcService) -> Self {
        let registration = serve(&server);
        let remote = client.gateway(&server.address_of("test"), session(1));
        Self { server, client, registration, remote }
    }
}

pub fn address(text: &str) -> EndpointAddress {
    text.parse().unwrap()
}

/// Calls from sessions before and after the endpoint's.
pub async fn check_fences(pair: &Pair) {
    for theirs in [0, 2] {
        let address = pair.server.address_of("test");
        let remote = pair.client.gateway::<TestGateway>(&address, session(theirs));
        let fenced = remote.ask(Count {}).await.unwrap_err();
        let expected = FabricError::Fenced { yours: session(theirs).0, current: session(1).0 };
        assert_eq!(fenced, CallError::Fabric(expected));
    }
    assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "a fenced call changed nothing");
}

/// A call whose handler takes longer than the second that it has, of which the handler gets at least this time.
pub async fn check_slow_handler(pair: &Pair, at_least: Duration) {
    let slow = pair.remote.ask_within(Sleep { ms: 5_000 }, Duration::from_secs(1)).await;
    let slow = slow.unwrap_err();
    let Some(FabricError::DeadlineExceeded { queued, running, handler }) = slow.fabric() else {
        panic!("{slow}");
    };
    assert!(*queued < Duration::from_millis(50) && *running >= at_least, "{slow}");
    assert_eq!(handler, "test (test.Sleep)");
    assert!(slow.fabric().unwrap().may_have_run());
}

/// A call whose actor is blocked for longer than the second that it has, of which it waits at least this time.
pub async fn check_wedged_actor(pair: &Pair, at_least: Duration) {
    pair.remote.tell(Block { ms: 5_000 });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let wedged = pair.remote.ask_within(Count {}, Duration::from_secs(1)).await.unwrap_err();
    let Some(FabricError::DeadlineExceeded { queued, running, .. }) = wedged.fabric() else {
        panic!("{wedged}");
    };
    assert!(*queued >= at_least && running.is_zero(), "{wedged}");
    assert!(!wedged.fabric().unwrap().may_have_run());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(pair.remote.ask(Count {}).await, Ok(0), "an expired call in the mailbox is not run");
}
