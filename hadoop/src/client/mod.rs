//! The tokio shell around [`rpc`](crate::rpc): sockets, time and tasks. One connection per server, protocol
//! and user carries all their calls; it comes about with the first and closes when nothing is to do.
//! The meaning of a failure is decided in the core and in [`RetryPolicy`](crate::rpc::RetryPolicy), never here.
//!
//! Every call has a deadline. Back-pressure: a connection takes only as many calls and bytes as its
//! [`Limits`](crate::rpc::Limits) say, and further callers wait in line, at most until their deadlines.

mod options;
mod proxy;
mod task;
#[cfg(test)]
pub(crate) mod tests;

pub use options::Options;
pub(crate) use options::connect_retries;
pub use proxy::{CallOptions, Proxy};
pub(crate) use task::start;

use crate::rpc::header::UserInformation;
use crate::rpc::{
    AuthSetup, CallError, ClientId, ConnectionError, LONGEST, Protocol, Request, Setup,
};
use crate::sasl::SaslConfig;
use bytes::Bytes;
use prost::Message;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Callers that may stand in line for one connection before further ones wait for a place in it.
const LINE: usize = 64;
/// How often a call goes to a connection that closes for idleness in that very moment.
const IDLE_RACES: usize = 4;

/// The way in which connections to a [`Target`] authenticate: not at all, or by SASL. [`Login::target`](crate::login::Login::target)
/// chooses it.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Neither side authenticates: the server believes the user name that it is told.
    Simple,
    /// By SASL, with the token or the Kerberos tickets in this value.
    Sasl(Box<SaslConfig>),
}

/// A server, the protocol to speak there, and the user to speak as: what a call needs besides method and request. Made by
/// [`Login::target`](crate::login::Login::target). Calls of one client to targets that agree in these, with the same token and Kerberos
/// principal, share a connection.
#[derive(Debug, Clone)]
pub struct Target {
    /// Host of the server, as a name or an address.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// The protocol of all calls to the server.
    pub protocol: Protocol,
    /// The user in whose name the calls are made, and the one that really makes them, if another.
    pub user: UserInformation,
    /// How this client proves that it acts for the user.
    pub auth: Auth,
}

impl Target {
    /// Returns the server's address as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn key(&self) -> Key {
        let (token, principal) = match &self.auth {
            Auth::Simple => (None, None),
            Auth::Sasl(config) => (
                config.token.as_ref().map(|token| token.identifier().to_vec()),
                config.kerberos.as_ref().map(|kerberos| kerberos.initiator.principal()),
            ),
        };
        let simple = matches!(self.auth, Auth::Simple);
        let (host, protocol, user) = (self.host.clone(), self.protocol.clone(), self.user.clone());
        Key { host, port: self.port, protocol, user, simple, token, principal }
    }
}

/// Calls with the same key share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    host: String,
    port: u16,
    protocol: Protocol,
    user: UserInformation,
    simple: bool,
    token: Option<Vec<u8>>,
    principal: Option<String>,
}

/// A call on its way to a connection.
struct Command {
    request: Request,
    /// Absolute, in tokio's time.
    deadline: Instant,
    /// How long the caller gave it.
    timeout: Duration,
    /// Whoever sets it first has the call: the connection, or the caller who waits no longer.
    taken: Arc<AtomicBool>,
    reply: oneshot::Sender<Result<Bytes, CallError>>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The channel may hold an answer already.
        f.debug_struct("Command")
            .field("request", &self.request)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Handle {
    line: mpsc::Sender<Command>,
    /// Tells a connection's own entry from that of its successor.
    generation: u64,
}

/// A client of any number of servers of Hadoop RPC, which makes connections as calls need them: one for each server, protocol, user and
/// credential, each served by a task of the tokio runtime that made the first call on it. Makes no second try of a call that was sent: a
/// [`Proxy`] does. Only connecting and Kerberos are tried again, as the [`Options`] say. A connection that fails ends with its calls; the
/// next call makes another. Clones share their connections; when the last clone is dropped, they close once their calls have ended.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    id: ClientId,
    next_call: AtomicI32,
    next_generation: AtomicU64,
    connections: Mutex<HashMap<Key, Handle>>,
    /// For nonces and for waits; from the system's entropy.
    random: Mutex<StdRng>,
}

impl Client {
    /// Makes a client that has no connections yet. Its calls must be made inside a tokio runtime with I/O and time.
    /// Times in `options` of more than a year are cut to a year.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let options = options.bounded();
        let mut random = StdRng::from_os_rng();
        let inner = Inner {
            options,
            id: ClientId(random.random()),
            next_call: AtomicI32::new(0),
            next_generation: AtomicU64::new(0),
            connections: Mutex::new(HashMap::new()),
            random: Mutex::new(random),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the options that this client uses: those given to `Client::new`, with times of more than a year cut to a
    /// year.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Returns a number for a new request, 0 or more; after 2^31 of them the numbers repeat. A repetition of a request
    /// keeps its number, so that servers can recognise it.
    #[must_use]
    pub fn next_call_id(&self) -> i32 {
        // From 0 again after the greatest: negative numbers are no calls.
        self.inner.next_call.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }

    /// Makes one call, without a second try: connects if necessary, encodes the request, waits at most `timeout` (a year, if more) for
    /// everything together, and decodes the answer. Where the connection is full, the call waits in line within that time. Dropping the
    /// future gives the call up; the server may carry it out all the same.
    ///
    /// # Errors
    /// Fails with the [`CallError`] of this try: `Deadline` if the time is over, in line too; `Connection` for a connection that cannot be
    /// made or fails, and instead of `Deadline` if Kerberos kept failing until then; `Remote`; `TooLong`; `Undecodable`.
    /// [`CallError::may_have_run`] says whether the server may have carried it out.
    pub async fn call<Q: Message, R: Message + Default>(
        &self,
        target: &Target,
        method: &str,
        request: &Q,
        timeout: Duration,
    ) -> Result<R, CallError> {
        let request = Request::new(self.next_call_id(), method, request.encode_to_vec().into());
        decode(method, self.attempt(target, request, timeout).await?)
    }

    /// Makes one try of a request that is encoded and numbered already, and returns the encoded answer. Sets the request's deadline to
    /// `timeout` from now; at most a year. Dropping the future gives the try up; the server may carry it out all the same. A [`Proxy`]
    /// calls this for each try.
    ///
    /// # Errors
    /// Fails as [`Client::call`] does, except that the answer is not decoded; also with `Overloaded` if a call with the request's number
    /// waits on the connection already.
    pub async fn attempt(
        &self,
        target: &Target,
        request: Request,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let timeout = timeout.min(LONGEST);
        let deadline = Instant::now() + timeout;
        let method = request.method.clone();
        let late = |sent| CallError::Deadline { method: method.clone(), after: timeout, sent };
        let mut last = late(false);
        for _ in 0..IDLE_RACES {
            let (reply, mut answer) = oneshot::channel();
            let taken = Arc::new(AtomicBool::new(false));
            let (request, mine) = (request.clone(), Arc::clone(&taken));
            let command = Command { request, deadline, timeout, taken, reply };
            let line = self.line(target);
            match tokio::time::timeout_at(deadline, line.send(command)).await {
                Err(_) => return Err(late(false)),
                // The connection ended between the look-up and now: the next look-up makes another.
                Ok(Err(_)) => continue,
                Ok(Ok(())) => {}
            }
            let mut answered = tokio::time::timeout_at(deadline, &mut answer).await;
            if answered.is_err() {
                if !mine.swap(true, Ordering::AcqRel) {
                    return Err(late(false));
                }
                // The connection keeps the deadline; this one only guards against a connection that cannot.
                answered = tokio::time::timeout_at(deadline + Duration::from_secs(1), answer).await;
            }
            last = match answered {
                Err(_) => return Err(late(true)),
                Ok(Err(_)) => closed(mine.load(Ordering::Acquire)),
                Ok(Ok(Ok(body))) => return Ok(body),
                Ok(Ok(Err(error))) => error,
            };
            let idle = matches!(
                &last,
                CallError::Connection { error: ConnectionError::Idle, sent: false }
            );
            if !idle {
                return Err(last);
            }
        }
        Err(last)
    }

    /// The way to the target's connection, which is made where there is none.
    fn line(&self, target: &Target) -> mpsc::Sender<Command> {
        let key = target.key();
        let mut connections = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = connections.get(&key)
            && !handle.line.is_closed()
        {
            return handle.line.clone();
        }
        connections.retain(|_, handle| !handle.line.is_closed());
        let (line, commands) = mpsc::channel(LINE);
        let generation = self.inner.next_generation.fetch_add(1, Ordering::Relaxed);
        connections.insert(key.clone(), Handle { line: line.clone(), generation });
        drop(connections);
        let (target, setup) = (target.clone(), self.setup(target));
        let random = StdRng::from_seed(self.random());
        let (options, inner) = (self.inner.options.clone(), Arc::downgrade(&self.inner));
        task::start(async move {
            task::run(&target, setup, &options, random, commands).await;
            if let Some(inner) = inner.upgrade() {
                let mut connections =
                    inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
                if connections.get(&key).is_some_and(|handle| handle.generation == generation) {
                    connections.remove(&key);
                }
            }
        });
        line
    }

    /// A value from the client's own source of randomness.
    fn random<T>(&self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        self.inner.random.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    fn setup(&self, target: &Target) -> Setup {
        let options = &self.inner.options;
        let auth = match &target.auth {
            Auth::Simple => AuthSetup::Simple,
            Auth::Sasl(config) => {
                AuthSetup::Sasl { config: config.clone(), entropy: self.random() }
            }
        };
        Setup {
            protocol: target.protocol.clone(),
            client: self.inner.id,
            user: target.user.clone(),
            auth,
            limits: options.limits,
            ping: options.ping,
            setup_timeout: options.setup_timeout,
            idle: options.idle,
            kerberos_retries: options.kerberos_retries,
        }
    }

    /// Returns the number of connections of this client and its clones that are open or being made, idle ones included; a diagnostic value
    /// that may be old when it is returned.
    #[must_use]
    pub fn connections(&self) -> usize {
        let connections = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.values().filter(|handle| !handle.line.is_closed()).count()
    }
}

/// The answer as the message that the method returns.
fn decode<R: Message + Default>(method: &str, body: Bytes) -> Result<R, CallError> {
    R::decode(body).map_err(|error| CallError::Undecodable {
        method: method.to_owned(),
        reason: error.to_string(),
    })
}

/// The end of a call whose connection's task is gone.
fn closed(sent: bool) -> CallError {
    let error = ConnectionError::Closed("its task has ended".to_owned());
    CallError::Connection { error, sent }
}
