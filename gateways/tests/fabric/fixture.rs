//! A gateway with every kind of handler, and services of one simulated or real cluster.

use actix::prelude::*;
use gateways::{
    Answer, Ask, Caller, EndpointAddress, Never, Principal, Registration, Remote, RpcOptions,
    RpcService, TraceContext, gateway,
};
use model::{ClusterId, Epoch, Fence, LeaderSession, ProcessSession};
use platform::{Platform, PortSpec, Secret, inproc::InProcessNetwork};
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

impl Handler<Ask<Echo>> for TestActor {
    type Result = Answer<Echo>;
    fn handle(&mut self, ask: Ask<Echo>, _: &mut Context<Self>) -> Answer<Echo> {
        Ok(ask.body.bytes.into())
    }
}
impl Handler<Ask<WhichTrace>> for TestActor {
    type Result = Answer<WhichTrace>;
    fn handle(&mut self, ask: Ask<WhichTrace>, _: &mut Context<Self>) -> Answer<WhichTrace> {
        Ok(ask.caller.trace)
    }
}
impl Handler<Ask<WhoAmI>> for TestActor {
    type Result = Answer<WhoAmI>;
    fn handle(&mut self, ask: Ask<WhoAmI>, _: &mut Context<Self>) -> Answer<WhoAmI> {
        Ok(ask.caller.principal)
    }
}
impl Handler<Ask<Count>> for TestActor {
    type Result = Answer<Count>;
    fn handle(&mut self, _: Ask<Count>, _: &mut Context<Self>) -> Answer<Count> {
        self.count += 1;
        Ok(self.count - 1)
    }
}
impl Handler<Ask<Refuse>> for TestActor {
    type Result = Answer<Refuse>;
    fn handle(&mut self, ask: Ask<Refuse>, _: &mut Context<Self>) -> Answer<Refuse> {
        Err(Refusal { why: ask.body.why })
    }
}
impl Handler<Ask<Panic>> for TestActor {
    type Result = Answer<Panic>;
    fn handle(&mut self, _: Ask<Panic>, _: &mut Context<Self>) -> Answer<Panic> {
        panic!("on purpose")
    }
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
