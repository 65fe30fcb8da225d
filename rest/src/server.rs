//! The endpoint: binds, serves the paths at `/` and `/v1/`, guards against foreign web pages.
//!
//! Without a token (`access`) everybody who reaches the endpoint may use it. It must never be
//! usable by a web page that merely runs in the browser of such a user (foreign origin, rebound
//! host name).

use crate::bodies::Bodies;
use crate::error::ApiError;
use crate::guard::{Gate, IdlePlace, guard};
use crate::handlers;
use crate::kinds::{self, Kind, Kinds, Place};
use crate::services::{RestAddress, RestBind, RestServices};
use crate::traces::traced;
use actix_web::dev::{Server, ServerHandle};
use actix_web::http::KeepAlive;
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::web::{self, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpServer};
use std::cell::Cell;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;
use thiserror::Error;

/// Maximum time a client takes to send a request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Time for which a connection whose request was not read whole is drained, so that the answer
/// arrives.
const LINGER_WITHIN: Duration = Duration::from_secs(1);
/// Seconds that requests under way are given at the end.
const SHUTDOWN_WITHIN_S: u64 = 2;

/// The reason why the REST endpoint could not start, from [`RestListener::bind`] (no port could be bound, or the bound address could not be
/// read) and [`RestServer::start`] (the server could not be set up); no port stays bound then.
#[derive(Debug, Error)]
pub enum RestStartError {
    /// None of the ports could be bound on the address.
    #[error("the REST endpoint cannot listen on {address}, port {ports}: {why}")]
    Bind {
        /// Address that was to be bound.
        address: IpAddr,
        /// The ports that were tried, at most the first eight.
        ports: String,
        /// Error of the last attempt.
        why: String,
    },
    /// The system reports an error after a port was bound: its address could not be read ([`RestListener::bind`]), or the
    /// server could not be set up on it ([`RestServer::start`]). Holds the system's error.
    #[error("the REST endpoint cannot start: {0}")]
    Io(#[from] std::io::Error),
}

/// The URL that clients are given; relative if a proxy may be on the way.
pub(crate) struct RestUrl(pub(crate) String);

/// A REST endpoint that is set up on a bound port, by [`RestServer::start`], and serves requests while [`RestServer::run`] is polled;
/// connections that come before wait. [`RestServer::handle`] returns the handle that stops it.
pub struct RestServer {
    server: Server,
    handle: RestHandle,
}

/// A handle by which an endpoint is stopped ([`RestHandle::stop`]), with the endpoint's address. Clones are for the same endpoint; dropping
/// them stops nothing.
#[derive(Clone)]
pub struct RestHandle {
    server: ServerHandle,
    /// The address that the endpoint serves at: the bound one, and the URL for clients.
    pub address: RestAddress,
}

impl RestHandle {
    /// Stops the endpoint and waits until that is done: it takes no new requests, and those under way get two seconds, after which they are
    /// cut off. [`RestServer::run`], which must be polled meanwhile, returns then. The port is free.
    pub async fn stop(&self) {
        self.server.stop(true).await;
    }
}

impl RestServer {
    /// Sets up the endpoint, with one worker thread, on a bound listener, for the paths at `/` and at `/v1/`. Requests are
    /// answered once `RestServer::run` is polled, one per connection; a client that takes more than 10 s for a request's
    /// head gets 408 and is cut off, a path that has more than 16 KiB with its query is refused with 414. Returns
    /// `RestStartError::Io` if the server could not be set up; the port is free then.
    pub fn start(listener: RestListener, services: RestServices) -> Result<Self, RestStartError> {
        let RestListener { listener, address, loopback } = listener;
        let connections_max = services.settings.connections_max.max(1);
        let access = services.settings.access.clone();
        // A client that comes through the proxy could not use the endpoint's own address.
        let link = if access.is_some() { ".".to_owned() } else { address.url.clone() };
        let limits = services.settings.bodies.clone();
        let kinds = Kinds::new(connections_max, limits.uploads);
        let gate = Gate { loopback, access, bodies: Bodies::new(limits, kinds.clone()) };
        let idle = kinds.idle.clone();
        let kinds = Data::new(kinds);
        let state = Data::new(services);
        let link = Data::new(RestUrl(link));
        let server = HttpServer::new(move || {
            let (gate, platform) = (gate.clone(), state.platform.clone());
            App::new()
                .app_data(state.clone())
                .app_data(link.clone())
                .app_data(kinds.clone())
                .app_data(PayloadConfig::new(state.settings.bodies.each))
                .wrap(from_fn(move |request, next| guard(gate.clone(), request, next)))
                .wrap(from_fn(move |request, next| traced(platform.clone(), request, next)))
                .service(web::scope("/v1").configure(handlers::routes))
                .configure(handlers::routes)
                .default_service(web::to(not_found))
        })
        .on_connect(move |io, data| {
            if let Some(place) = io.downcast_ref::<TcpStream>().and_then(|io| waits(&idle, io)) {
                data.insert(IdlePlace(Cell::new(Some(place))));
            }
        })
        .workers(1)
        .worker_max_blocking_threads(8)
        .max_connections(connections_max)
        .client_request_timeout(HEAD_WITHIN)
        .client_disconnect_timeout(LINGER_WITHIN)
        // The deadline above is for a connection's first head only: a client that sent a second one
        // slowly would keep one of the few connections for ever.
        .keep_alive(KeepAlive::Disabled)
        .shutdown_timeout(SHUTDOWN_WITHIN_S)
        .disable_signals()
        .listen(listener)?
        .run();
        let handle = RestHandle { server: server.handle(), address };
        Ok(Self { server, handle })
    }

    /// Returns a handle that names the endpoint's address and by which the endpoint is stopped; may be used from any
    /// thread.
    pub fn handle(&self) -> RestHandle {
        self.handle.clone()
    }

    /// Serves requests until the endpoint is stopped by [`RestHandle::stop`]. An error means that the listener failed. It installs no
    /// signal handlers.
    pub async fn run(self) -> std::io::Result<()> {
        self.server.await
    }
}

/// Returns the place of a new connection among those without a request. If it has to give way, it is closed.
fn waits(idle: &Kind, io: &TcpStream) -> Option<Place> {
    // Without a descriptor left it could not be closed from here; its deadline is there all the same.
    let socket = std::net::TcpStream::from(io.as_fd().try_clone_to_owned().ok()?);
    let give_way = move || {
        // It fails where the connection is closed already.
        let _ = socket.shutdown(Shutdown::Both);
    };
    idle.enter(kinds::counted(io.peer_addr().ok()), give_way)
}

/// A bound port, from [`RestListener::bind`], on which nothing is served yet, so that its address can be published first; connections are
/// queued. [`RestServer::start`] uses it up; dropping it frees the port.
#[derive(Debug)]
pub struct RestListener {
    listener: TcpListener,
    /// The address that is bound, with the real port, and the URL for clients.
    pub address: RestAddress,
    loopback: bool,
}

impl RestListener {
    /// Binds the first of the given ports that is free; for port 0 the system chooses one. Serves nothing yet. The listener queues
    /// connections from now on. Returns [`RestStartError::Bind`] with the error of the last attempt if none can be bound or no port was
    /// given, [`RestStartError::Io`] if the bound address can't be read.
    pub fn bind(bind: &RestBind) -> Result<Self, RestStartError> {
        let listener = listen(bind)?;
        let bound = listener.local_addr()?;
        let url = format!("http://{}:{}", host_of_url(&bind.advertised_host), bound.port());
        Ok(Self { listener, address: RestAddress { bound, url }, loopback: bind.is_loopback() })
    }
}

fn listen(bind: &RestBind) -> Result<TcpListener, RestStartError> {
    let mut why = "no port was given".to_owned();
    for port in &bind.ports {
        match TcpListener::bind(SocketAddr::new(bind.address, *port)) {
            Ok(listener) => return Ok(listener),
            Err(e) => why = e.to_string(),
        }
    }
    let ports: Vec<String> = bind.ports.iter().take(8).map(ToString::to_string).collect();
    Err(RestStartError::Bind { address: bind.address, ports: ports.join(", "), why })
}

fn host_of_url(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]"),
        _ => host.to_owned(),
    }
}

async fn not_found(request: HttpRequest) -> Result<actix_web::HttpResponse, ApiError> {
    Err(ApiError::not_found(format!("{} {} is not served here", request.method(), request.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let bind = RestBind {
            address: IpAddr::from([127, 0, 0, 1]),
            ports: vec![port],
            advertised_host: "localhost".to_owned(),
        };
        let why = listen(&bind).unwrap_err().to_string();
        // The caller adds the option that sets the address; see deploy.
        assert!(
            why.contains(&format!("127.0.0.1, port {port}: ")) && why.contains("in use"),
            "{why}"
        );
    }
}
