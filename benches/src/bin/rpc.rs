//! The fabric against bare peers: a local ask against Actix's `send`, a remote ask against a TCP echo, and
//! many asks at once against a framed TCP peer. Bodies of 128 bytes both ways; fence, deadline and trace on.

use actix::{Actor, Context, Handler, Message};
use anyhow::{Context as _, Result, bail};
use benches::peers::{self, Threads};
use benches::process::{cpu_of, cpu_of_self};
use benches::{Report, cluster::millis};
use clap::{Parser, ValueEnum};
use gateways::{
    Answer, Ask, ListenOptions, MAILBOX_CAPACITY, Never, Remote, RpcOptions, RpcService, gateway,
};
use model::ProcessSession;
use platform::{Lane, Platform, PortSpec};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::Instant;

const RUNS: usize = 5;
const LOCAL_ASKS: u32 = 100_000;
const REMOTE_ASKS: u32 = 30_000;
const PIPELINED_ASKS: u32 = 512_000;
const OUTSTANDING: u32 = 1_024;
const BODY_BYTES: usize = 128;

gateway! {
    /// The gateway of the benchmark's echo actor: answers [`Echo`] with what it is asked, and nothing else.
    pub struct EchoGateway = "echo", fenced by ProcessSession;
    Echo => Echo, Never;
}

/// A call with a body of 128 bytes, and its answer: the actor sends the same body back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Echo {
    #[serde(with = "serde_bytes")]
    body: Vec<u8>,
}

struct EchoActor;

impl Actor for EchoActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Handler<Ask<Echo>> for EchoActor {
    type Result = Answer<Echo>;
    fn handle(&mut self, ask: Ask<Echo>, _: &mut Context<Self>) -> Answer<Echo> {
        Ok(ask.body)
    }
}

/// The same without the fabric.
#[derive(Message)]
#[rtype(result = "Vec<u8>")]
struct Bare(Vec<u8>);

impl Handler<Bare> for EchoActor {
    type Result = Vec<u8>;
    fn handle(&mut self, bare: Bare, _: &mut Context<Self>) -> Vec<u8> {
        bare.0
    }
}

#[derive(Parser)]
struct Cli {
    /// Be the serving process of a kind: fabric, echo or framed
    #[arg(long)]
    serve: Option<String>,
    /// Measure one part alone
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Local,
    Remote,
    Pipelined,
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let cli = Cli::parse();
        match cli.serve.as_deref() {
            Some("fabric") => serve_fabric().await,
            Some(kind) => serve_peer(kind).await,
            None => measure(cli.only).await,
        }
    })
}

fn options(listen: bool) -> RpcOptions {
    let listen = listen.then(|| ListenOptions {
        bind_host: "127.0.0.1".into(),
        advertised_host: "127.0.0.1".into(),
        ports: PortSpec::any(),
    });
    RpcOptions { listen, ..RpcOptions::in_process() }
}

fn tell_parent(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

async fn serve_fabric() -> Result<()> {
    let platform = Platform::production();
    let rpc = RpcService::start(platform.clone(), options(true)).await?;
    // The actor is on the work lane and registered there, as components are.
    let on = rpc.clone();
    let serve = move || async move {
        on.serve("echo", ProcessSession::default(), EchoGateway::endpoint(EchoActor.start()))
    };
    let _registration = platform.lane(Lane::Work).run(serve).await?;
    tell_parent(rpc.node().as_str())?;
    futures::future::pending().await
}

async fn serve_peer(kind: &str) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    tell_parent(&listener.local_addr()?.to_string())?;
    match kind {
        "echo" => peers::serve_echo(listener).await,
        "framed-1" => peers::serve_framed(listener, Threads::One).await,
        "framed-2" => peers::serve_framed(listener, Threads::Two).await,
        _ => bail!("there is no peer '{kind}'"),
    }
}

/// A serving process; it ends with this value.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(kind: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", kind])
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("no output")?;
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        Ok(Self { child, address: address.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; either way it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn measure(only: Option<Part>) -> Result<()> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let report = Report::new("rpc");
    let platform = Platform::production();
    let rpc = RpcService::start(platform.clone(), options(false)).await?;
    if wanted(Part::Local) {
        local(&report, &platform, &rpc).await?;
    }
    if !wanted(Part::Remote) && !wanted(Part::Pipelined) {
        return Ok(());
    }
    let fabric = Server::start("fabric")?;
    let address = format!("flott://{}/echo", fabric.address).parse()?;
    let gateway: Remote<EchoGateway> = rpc.gateway(&address, ProcessSession::default());
    ask_in_turn(&gateway, 1_000).await?;
    if wanted(Part::Remote) {
        in_turn(&report, &gateway).await?;
    }
    if wanted(Part::Pipelined) {
        pipelined(&report, &platform, &gateway, fabric.child.id()).await?;
    }
    Ok(())
}

async fn ask_in_turn(remote: &Remote<EchoGateway>, n: u32) -> Result<()> {
    let mut echo = Echo { body: vec![7; BODY_BYTES] };
    for _ in 0..n {
        echo = remote.ask(echo).await?;
    }
    Ok(())
}

async fn local(report: &Report, platform: &Platform, rpc: &RpcService) -> Result<()> {
    let actor = platform.lane(Lane::Work).run(|| async { EchoActor.start() }).await?;
    let session = ProcessSession::default();
    let _registration = rpc.serve("echo", session, EchoGateway::endpoint(actor.clone()));
    let gateway = rpc.gateway(&rpc.address_of("echo"), session);
    let (mut ratios, mut asks) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let began = Instant::now();
        let mut body = vec![7; BODY_BYTES];
        for _ in 0..LOCAL_ASKS {
            body = actor.send(Bare(body)).await?;
        }
        let send = millis(began);
        let began = Instant::now();
        ask_in_turn(&gateway, LOCAL_ASKS).await?;
        let ask = millis(began);
        ratios.push(ask / send);
        asks.push(ask * 1e3 / f64::from(LOCAL_ASKS));
    }
    report.runs("local_ask_over_send", &ratios, "ratio")?;
    Ok(report.runs("local_ask_us", &asks, "us")?)
}

async fn in_turn(report: &Report, gateway: &Remote<EchoGateway>) -> Result<()> {
    let echo = Server::start("echo")?;
    let mut plain = TcpStream::connect(&echo.address).await?;
    plain.set_nodelay(true)?;
    let mut ratios = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        peers::call_echo(&mut plain, REMOTE_ASKS).await?;
        let bare = millis(began);
        let began = Instant::now();
        ask_in_turn(gateway, REMOTE_ASKS).await?;
        ratios.push(millis(began) / bare);
    }
    Ok(report.runs("remote_ask_over_echo", &ratios, "ratio")?)
}

async fn pipelined(
    report: &Report,
    platform: &Platform,
    gateway: &Remote<EchoGateway>,
    server: u32,
) -> Result<()> {
    let (one, two) = (Server::start("framed-1")?, Server::start("framed-2")?);
    let (mut over_one, mut over_two, mut per_cpu) = (Vec::new(), Vec::new(), Vec::new());
    let (mut asks, mut ones, mut twos) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let bare_one = framed(&one, Threads::One).await?;
        let bare_two = framed(&two, Threads::Two).await?;
        let cpu = cpu_of_self().0 + cpu_of(server)?.0;
        let began = Instant::now();
        // Callers are where actors are.
        let callers = gateway.clone();
        platform.lane(Lane::Work).run(|| ask_at_once(callers)).await??;
        let ours = micros_each(began);
        let cpu = cpu_of_self().0 + cpu_of(server)?.0 - cpu;
        over_one.push(bare_one / ours);
        over_two.push(bare_two / ours);
        per_cpu.push(f64::from(PIPELINED_ASKS) / cpu);
        asks.push(ours);
        ones.push(bare_one);
        twos.push(bare_two);
    }
    report.runs("pipelined_over_framed_tcp", &over_two, "ratio")?;
    report.runs("pipelined_over_one_thread_tcp", &over_one, "ratio")?;
    report.runs("pipelined_ask_us", &asks, "us")?;
    report.runs("framed_tcp_us", &twos, "us")?;
    report.runs("one_thread_tcp_us", &ones, "us")?;
    Ok(report.runs("remote_asks_per_cpu_second", &per_cpu, "1/s")?)
}

/// Microseconds of each of the pipelined asks since then.
fn micros_each(began: Instant) -> f64 {
    millis(began) * 1e3 / f64::from(PIPELINED_ASKS)
}

async fn framed(server: &Server, threads: Threads) -> Result<f64> {
    let stream = TcpStream::connect(&server.address).await?;
    stream.set_nodelay(true)?;
    let began = Instant::now();
    peers::call_framed(stream, PIPELINED_ASKS, OUTSTANDING, threads).await?;
    Ok(micros_each(began))
}

async fn ask_at_once(gateway: Remote<EchoGateway>) -> Result<()> {
    let callers = (0..OUTSTANDING).map(|_| {
        let gateway = gateway.clone();
        tokio::task::spawn_local(async move {
            ask_in_turn(&gateway, PIPELINED_ASKS / OUTSTANDING).await
        })
    });
    for caller in futures::future::join_all(callers).await {
        caller??;
    }
    Ok(())
}
