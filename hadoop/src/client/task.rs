//! The task of one connection: it moves bytes between the socket and the core, hands requests in and results
//! out, and tells the core the time. It must never wait for anything without also watching the socket.

use super::{Auth, Command, Options, Target};
use crate::gssapi::Need;
use crate::rpc::{
    Answered, Ask, CallError, Connection, ConnectionError, Event, Setup, Time, doubled,
};
use bytes::{Buf as _, Bytes};
use rand::Rng as _;
use rand::rngs::StdRng;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, Sleep};

/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// How long the reason of a broken connection is waited for: servers say why and close at once.
const LAST_WORDS: Duration = Duration::from_secs(1);

type Replies = HashMap<i32, oneshot::Sender<Result<Bytes, CallError>>>;

/// Starts a task of this library.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate stands alone: its tasks are tasks of the caller's runtime"
)]
pub(crate) fn start(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

/// Connects, serves calls until the connection ends, and answers whoever is left in line.
pub(super) async fn run(
    target: &Target,
    setup: Setup,
    options: &Options,
    mut random: StdRng,
    mut commands: mpsc::Receiver<Command>,
) {
    let mut serving = Serving::new(setup);
    let end = serving.streams(target, options, &mut random, &mut commands).await;
    tracing::debug!(address = %target.address(), %end, "connection ended");
    commands.close();
    while let Some(command) = commands.recv().await {
        let error = CallError::Connection { error: end.clone(), sent: false };
        // A caller that has gone needs no answer.
        let _ = command.reply.send(Err(error));
    }
}

/// Has the user's Kerberos tickets renewed where the connection may need them.
async fn refresh(target: &Target, need: Need) {
    if let Auth::Sasl(config) = &target.auth
        // Servers that take a token take it before tickets.
        && (config.token.is_none() || need == Need::Refusal)
        && let Some(kerberos) = &config.kerberos
    {
        kerberos.initiator.refresh(need).await;
    }
}

/// Tries the target's addresses in turn, and all again after waits as the options say.
async fn connect(
    target: &Target,
    options: &Options,
    random: &mut StdRng,
) -> Result<TcpStream, ConnectionError> {
    let mut tried = 0;
    loop {
        let error = match connect_once(target, options).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        if tried >= options.connect_retries {
            return Err(error);
        }
        let base = options.connect_backoff;
        tokio::time::sleep(doubled(base, 0, base, random.random())).await;
        tried = tried.saturating_add(1);
    }
}

async fn connect_once(target: &Target, options: &Options) -> Result<TcpStream, ConnectionError> {
    let address = target.address();
    let failed = |error: io::Error| ConnectionError::Connect {
        address: address.clone(),
        reason: error.to_string(),
    };
    let late = |_| ConnectionError::ConnectTimeout { address: address.clone() };
    let found = tokio::net::lookup_host((target.host.as_str(), target.port));
    let found = tokio::time::timeout(options.connect_timeout, found).await.map_err(late)?;
    let mut last = failed(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for one in found.map_err(failed)? {
        match tokio::time::timeout(options.connect_timeout, TcpStream::connect(one)).await {
            Ok(Ok(stream)) => {
                // Requests are small and whole: nothing is gained by holding them back. Where the socket
                // does not take the settings it works without.
                let _ = stream.set_nodelay(true);
                let _ = socket2::SockRef::from(&stream).set_keepalive(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = failed(error),
            Err(elapsed) => last = late(elapsed),
        }
    }
    Err(last)
}

/// Waits until then; without a moment, for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The same with a timer that is kept. It may be set for an earlier moment, and is set anew when that has come: setting
/// one for every answer wakes tokio's driver each time.
async fn rung(alarm: &mut Option<Pin<Box<Sleep>>>, due: Option<Instant>) {
    let Some(due) = due else { return std::future::pending().await };
    loop {
        let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if alarm.is_elapsed() || alarm.deadline() > due {
            alarm.as_mut().reset(due);
        }
        alarm.as_mut().await;
        if Instant::now() >= due {
            return;
        }
    }
}

/// Waits until the thread that may ask a KDC is through; without one, for ever.
async fn through(asking: &mut Option<JoinHandle<Answered>>) -> Result<Answered, JoinError> {
    match asking {
        Some(thread) => thread.await,
        None => std::future::pending().await,
    }
}

/// The event that woke the connection's task.
enum Woken {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Command(Option<Command>),
    Answered(Result<Answered, JoinError>),
    Time,
}

/// One connection, with a stream or until there is one.
pub(super) struct Serving {
    core: Connection,
    replies: Replies,
    began: Instant,
    outbound: Bytes,
    /// The thread that may be waiting for a KDC. Nothing is read until it is through.
    asking: Option<JoinHandle<Answered>>,
    /// Set when nothing can be written any more: until when the server's last words are waited for.
    mute: Option<(Instant, String)>,
    /// No further caller comes.
    lonely: bool,
    /// Rings when there is something to do, or sooner.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// How serving a stream ends.
#[derive(Debug)]
pub(super) enum End {
    /// With the connection.
    Closed(ConnectionError),
    /// Kerberos failed; the calls wait for another stream.
    Refused(ConnectionError),
}

impl Serving {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            core: Connection::without_stream(setup),
            replies: Replies::new(),
            began: Instant::now(),
            outbound: Bytes::new(),
            asking: None,
            mute: None,
            lonely: false,
            alarm: None,
        }
    }

    /// Serves calls over a stream until it ends.
    pub(super) async fn serve(
        &mut self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        commands: &mut mpsc::Receiver<Command>,
        entropy: [u8; 16],
    ) -> End {
        let now = self.now();
        self.core.start(entropy, now);
        let mut buffer = vec![0; READ];
        loop {
            if let Some(end) = self.settle() {
                return end;
            }
            let woken = self.wait(&mut reader, &mut writer, commands, &mut buffer).await;
            match woken {
                Woken::Read(Ok(0)) => self.ended("the server closed it".to_owned()),
                Woken::Read(Err(error)) => self.ended(error.to_string()),
                Woken::Read(Ok(read)) => {
                    let bytes = buffer.get(..read).unwrap_or_default();
                    let ask = self.core.take(bytes, self.now());
                    self.ask(ask);
                }
                Woken::Answered(answered) => self.answered(answered),
                Woken::Written(Ok(written)) => self.outbound.advance(written),
                Woken::Written(Err(error)) => {
                    self.mute = Some((Instant::now() + LAST_WORDS, error.to_string()));
                }
                Woken::Command(Some(command)) => self.begin(command),
                Woken::Command(None) => self.lonely = true,
                Woken::Time => self.on_time(),
            }
        }
    }

    /// Serves calls over a stream, and over others where Kerberos fails, until the end.
    async fn streams(
        &mut self,
        target: &Target,
        options: &Options,
        random: &mut StdRng,
        commands: &mut mpsc::Receiver<Command>,
    ) -> ConnectionError {
        let (mut need, mut pause) = (Need::Connection, Duration::ZERO);
        loop {
            let entropy = random.random();
            let stream = async {
                refresh(target, need).await;
                // Even a wait for no time takes a turn of the clock.
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                connect(target, options, random).await
            };
            let mut stream = match self.until_there(stream, commands).await {
                Ok(stream) => stream,
                Err(end) => return end,
            };
            let (reader, writer) = stream.split();
            match self.serve(reader, writer, commands, entropy).await {
                End::Closed(end) => return end,
                End::Refused(refusal) => {
                    let address = target.address();
                    tracing::info!(%address, %refusal, "Kerberos failed; trying again");
                }
            }
            need = Need::Refusal;
            pause = options.kerberos_backoff.mul_f64(random.random());
        }
    }

    /// Takes calls until there is a stream to serve them on. Their deadlines hold meanwhile.
    async fn until_there(
        &mut self,
        stream: impl Future<Output = Result<TcpStream, ConnectionError>>,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<TcpStream, ConnectionError> {
        (self.outbound, self.mute) = (Bytes::new(), None);
        tokio::pin!(stream);
        loop {
            if let Some(End::Closed(end) | End::Refused(end)) = self.settle() {
                return Err(end);
            }
            let takes = !self.lonely && !self.core.is_full();
            tokio::select! {
                biased;
                stream = &mut stream => match stream {
                    Ok(stream) => return Ok(stream),
                    Err(error) => self.core.close(error),
                },
                () = until(self.due()) => self.on_time(),
                command = commands.recv(), if takes => match command {
                    Some(command) => self.begin(command),
                    None => self.lonely = true,
                },
            }
        }
    }

    fn now(&self) -> Time {
        self.began.elapsed()
    }

    /// Hands out what has happened; the end, when that is what has happened.
    fn settle(&mut self) -> Option<End> {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Ready { method, qop } => {
                    tracing::trace!(method = method.name(), qop = qop.name(), "connection ready");
                }
                Event::Reply { id, result } => {
                    if let Some(reply) = self.replies.remove(&id) {
                        // A caller that has gone needs no answer.
                        let _ = reply.send(result);
                    }
                }
                Event::Refused(refusal) => return Some(End::Refused(refusal)),
                Event::Closed(end) => return Some(End::Closed(end)),
            }
        }
        if self.core.is_full() {
            let now = self.now();
            let gone = self.replies.iter().filter(|(_, reply)| reply.is_closed());
            let gone: Vec<i32> = gone.map(|(id, _)| *id).collect();
            for id in gone {
                self.replies.remove(&id);
                self.core.cancel(id, now);
            }
        }
        if self.outbound.is_empty() {
            self.outbound = self.core.take_outbound();
        }
        (self.lonely && self.core.waiting() == 0 && self.outbound.is_empty())
            .then_some(End::Closed(ConnectionError::Shutdown))
    }

    async fn wait(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        commands: &mut mpsc::Receiver<Command>,
        buffer: &mut [u8],
    ) -> Woken {
        let writes = !self.outbound.is_empty() && self.mute.is_none();
        let takes = !self.lonely && !self.core.is_full() && self.mute.is_none();
        let reads = self.asking.is_none();
        let due = self.due();
        tokio::select! {
            biased;
            answered = through(&mut self.asking) => Woken::Answered(answered),
            read = reader.read(buffer), if reads => Woken::Read(read),
            written = writer.write(&self.outbound), if writes => Woken::Written(written),
            () = rung(&mut self.alarm, due) => Woken::Time,
            command = commands.recv(), if takes => Woken::Command(command),
        }
    }

    /// When the core or this task has something to do next.
    fn due(&self) -> Option<Instant> {
        let core = self.core.next_time().and_then(|time| self.began.checked_add(time));
        let mute = self.mute.as_ref().map(|(at, _)| *at);
        core.into_iter().chain(mute).min()
    }

    fn begin(&mut self, command: Command) {
        let now = self.now();
        let deadline = command.deadline.saturating_duration_since(self.began);
        let id = command.request.id;
        if command.reply.is_closed() || command.taken.swap(true, Ordering::AcqRel) {
            return;
        }
        if deadline <= now {
            let (method, after) = (command.request.method, command.timeout);
            let late = CallError::Deadline { method, after, sent: false };
            let _ = command.reply.send(Err(late));
            return;
        }
        let mut request = command.request;
        request.deadline = Some((deadline, command.timeout));
        match self.core.call(request, now) {
            Ok(()) => {
                self.replies.insert(id, command.reply);
            }
            Err(error) => {
                let _ = command.reply.send(Err(error));
            }
        }
    }

    /// Has a step made on a thread that may wait for a KDC.
    fn ask(&mut self, ask: Option<Ask>) {
        self.asking = ask.map(|ask| tokio::task::spawn_blocking(|| ask.run()));
    }

    fn answered(&mut self, answered: Result<Answered, JoinError>) {
        self.asking = None;
        match answered {
            Ok(answered) => {
                let ask = self.core.resume(answered, self.now());
                self.ask(ask);
            }
            // The runtime is shutting down, or the library panicked.
            Err(error) => {
                let reason = format!("authentication was stopped: {error}");
                self.core.close(ConnectionError::Closed(reason));
            }
        }
    }

    fn on_time(&mut self) {
        let now = self.now();
        match self.mute.take() {
            Some((at, reason)) if Instant::now() >= at => self.ended(reason),
            mute => {
                self.mute = mute;
                self.core.on_time(now);
            }
        }
    }

    /// The stream has ended; what was wrong with writing says more than an end of reading.
    fn ended(&mut self, reason: String) {
        let reason = match self.mute.take() {
            Some((_, reason)) => reason,
            None => reason,
        };
        self.core.close(ConnectionError::Closed(reason));
    }
}
