//! The endpoint: binds, serves the paths at `/` and `/v1/`, guards against foreign web pages.
//!
//! It has no credentials: whoever reaches it may use it. So it must never be usable by a web page that
//! merely runs in the browser of somebody who reaches it (foreign origin, rebound host name).

use crate::error::ApiError;
use crate::handlers;
use crate::services::{RestAddress, RestBind, RestServices};
use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Server, ServerHandle, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpServer, ResponseError};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;
use thiserror::Error;

/// How long a client may take to send a request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Seconds that requests under way are given at the end.
const SHUTDOWN_WITHIN_S: u64 = 2;

/// Why the endpoint could not start.
#[derive(Debug, Error)]
pub enum RestStartError {
    /// None of the ports is free.
    #[error("the REST endpoint cannot listen on {address}, port {ports}: {why}; set rest.port")]
    Bind {
        /// Bind address.
        address: IpAddr,
        /// The ports that were tried.
        ports: String,
        /// The last failure.
        why: String,
    },
    /// The server could not be set up.
    #[error("the REST endpoint cannot start: {0}")]
    Io(#[from] std::io::Error),
}

/// The URL that clients are told.
pub(crate) struct RestUrl(pub(crate) String);

/// A bound endpoint: answers once [`RestServer::run`] is polled.
pub struct RestServer {
    server: Server,
    handle: RestHandle,
}

/// Stops the endpoint and says where it is.
#[derive(Clone)]
pub struct RestHandle {
    server: ServerHandle,
    /// Where it is.
    pub address: RestAddress,
}

impl RestHandle {
    /// Stops it: no new requests, those under way get two seconds.
    pub async fn stop(&self) {
        self.server.stop(true).await;
    }
}

impl RestServer {
    /// Starts the worker thread on a bound listener.
    pub fn start(listener: RestListener, services: RestServices) -> Result<Self, RestStartError> {
        let RestListener { listener, address, loopback } = listener;
        let connections_max = services.settings.connections_max.max(1);
        let state = Data::new(services);
        let link = Data::new(RestUrl(address.url.clone()));
        let server = HttpServer::new(move || {
            App::new()
                .app_data(state.clone())
                .app_data(link.clone())
                .app_data(PayloadConfig::new(state.settings.body_bytes_max))
                .wrap(from_fn(move |request, next| guard(loopback, request, next)))
                .service(web::scope("/v1").configure(handlers::routes))
                .configure(handlers::routes)
                .default_service(web::to(not_found))
        })
        .workers(1)
        .worker_max_blocking_threads(8)
        .max_connections(connections_max)
        .client_request_timeout(HEAD_WITHIN)
        .shutdown_timeout(SHUTDOWN_WITHIN_S)
        .disable_signals()
        .listen(listener)?
        .run();
        let handle = RestHandle { server: server.handle(), address };
        Ok(Self { server, handle })
    }

    /// Its handle.
    pub fn handle(&self) -> RestHandle {
        self.handle.clone()
    }

    /// Serves until stopped.
    pub async fn run(self) -> std::io::Result<()> {
        self.server.await
    }
}

/// A bound port, before anything is served on it: its address can be told already.
#[derive(Debug)]
pub struct RestListener {
    listener: TcpListener,
    /// Where it is.
    pub address: RestAddress,
    loopback: bool,
}

impl RestListener {
    /// Binds the first free port.
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

async fn guard<B: MessageBody + 'static>(
    loopback: bool,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, actix_web::Error> {
    if let Err(refused) = same_site(loopback, request.headers()) {
        let response = refused.error_response().map_into_right_body();
        return Ok(request.into_response(response));
    }
    next.call(request).await.map(ServiceResponse::map_into_left_body)
}

/// Refuses what a page of another site makes a browser send: its `Origin` is not the host that is asked,
/// or (on loopback) the host asked for is a name that was rebound to this machine.
fn same_site(loopback: bool, headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let host = text(HOST).unwrap_or_default();
    if loopback && !host.is_empty() && !is_local(host) {
        return Err(ApiError::forbidden(format!(
            "host '{host}' is not this machine: the endpoint listens on loopback only"
        )));
    }
    let Some(origin) = text(ORIGIN) else {
        return Ok(());
    };
    let site = origin.split_once("://").map(|(_, rest)| rest);
    if site == Some(host) {
        return Ok(());
    }
    Err(ApiError::forbidden(format!("requests from pages of '{origin}' are not served")))
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn headers(host: &'static str, origin: Option<&'static str>) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert(HOST, HeaderValue::from_static(host));
        if let Some(origin) = origin {
            map.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        map
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let ok = |loopback, host, origin| same_site(loopback, &headers(host, origin)).is_ok();
        assert!(ok(true, "localhost:8081", None));
        assert!(ok(true, "127.0.0.1:8081", Some("http://127.0.0.1:8081")));
        assert!(ok(true, "[::1]:8081", None));
        assert!(!ok(true, "127.0.0.1:8081", Some("http://evil.example")));
        assert!(!ok(true, "127.0.0.1:8081", Some("null")));
        assert!(!ok(true, "evil.example:8081", Some("http://evil.example:8081")));
        assert!(ok(false, "jobmanager:8081", Some("http://jobmanager:8081")));
        assert!(!ok(false, "jobmanager:8081", Some("http://other:8081")));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let bind = RestBind {
            address: IpAddr::from([127, 0, 0, 1]),
            ports: vec![taken.local_addr().unwrap().port()],
            advertised_host: "localhost".to_owned(),
        };
        let why = listen(&bind).unwrap_err().to_string();
        assert!(why.contains("rest.port") && why.contains("in use"), "{why}");
    }
}
