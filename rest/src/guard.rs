//! Stands before every handler: requests without the token are refused where there is one, foreign web pages are
//! turned away, bodies are taken in, and whatever is refused is refused in the same words.
//!
//! Every failure leaves as `{"errors": […]}`, also one that the web server found by itself.

use crate::access::{self, Access, Allowed, Asked};
use crate::bodies::{Bodies, Incoming, Unread};
use crate::error::ApiError;
use crate::kinds::Place;
use actix_web::ResponseError;
use actix_web::body::{self, BodySize, BoxBody, EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN,
};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use std::cell::Cell;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

/// Longest path with its query. Beyond sixty-four KiB the web server itself refuses a request's head.
const URI_BYTES_MAX: usize = 16 << 10;

/// The state of the guard of one endpoint.
#[derive(Clone)]
pub(crate) struct Gate {
    /// True if the endpoint listens on loopback only.
    pub(crate) loopback: bool,
    /// The rules by which requests are allowed; `None`: every request is.
    pub(crate) access: Option<Access>,
    /// The budget and limits of request bodies.
    pub(crate) bodies: Bodies,
}

/// The place of a connection among those without a request, until its request's head has come.
pub(crate) struct IdlePlace(pub(crate) Cell<Option<Place>>);

type Guarded<B> = Result<ServiceResponse<EitherBody<B>>, actix_web::Error>;

/// Lets a request through to its handler, or answers it.
pub(crate) async fn guard<B: MessageBody + 'static>(
    gate: Gate,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Guarded<B> {
    if let Some(idle) = request.conn_data::<IdlePlace>() {
        idle.0.take();
    }
    let incoming = Incoming::of(&mut request);
    let refused = permitted(&gate, &request).await.and_then(|()| short(&request)).err();
    let admitted = match refused {
        Some(refused) => Err(refused),
        None => gate.bodies.admit(&mut request, &incoming).await,
    };
    // Held until the handler has answered.
    let _share = match admitted {
        Ok(share) => share,
        Err(refused) => {
            let answer = request.into_response(refused.error_response().map_into_right_body());
            return Ok(closing(answer, incoming));
        }
    };
    let head_only = request.method() == Method::HEAD;
    let answer = next.call(request).await?;
    let mut answer = match in_our_words(&answer, &incoming) {
        Some(error) => {
            let (request, _) = answer.into_parts();
            ServiceResponse::new(request, error.error_response().map_into_right_body())
        }
        None => answer.map_into_left_body(),
    };
    if head_only && matches!(answer.response().body().size(), BodySize::Stream) {
        // Nobody reads it: so it need not be made.
        answer = answer.map_body(|_, _| EitherBody::right(BoxBody::new(body::None::new())));
    }
    Ok(closing(answer, incoming))
}

/// Returns an error to send instead of the answer: for a client that was too slow, or for a refusal
/// of the web server itself. `None`: the answer stays.
fn in_our_words<B>(answer: &ServiceResponse<B>, incoming: &Incoming) -> Option<ApiError> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    if incoming.was_too_slow() {
        let why = "the upload came too slowly, and was cut off";
        return Some(ApiError::new(StatusCode::REQUEST_TIMEOUT, why));
    }
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return None;
    }
    let why = answer.response().error().map(ToString::to_string);
    let why = why.or_else(|| status.canonical_reason().map(str::to_owned)).unwrap_or_default();
    Some(ApiError::new(status, why))
}

/// Makes an answer that is given before the body was read close the connection, because the rest of
/// the body is not read.
fn closing<B: MessageBody + 'static>(
    answer: ServiceResponse<EitherBody<B>>,
    incoming: Rc<Incoming>,
) -> ServiceResponse<EitherBody<B>> {
    if incoming.is_read() {
        return answer;
    }
    answer.map_body(|head, answer| {
        head.set_connection_type(actix_web::http::ConnectionType::Close);
        EitherBody::right(Unread::boxed(BoxBody::new(answer), incoming))
    })
}

fn short(request: &ServiceRequest) -> Result<(), ApiError> {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if uri <= URI_BYTES_MAX {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::URI_TOO_LONG,
        format!(
            "the path with its query has {uri} bytes; more than {URI_BYTES_MAX} are not served"
        ),
    ))
}

/// Refuses what has no right to be here: without the token, from a page of another site, or under a foreign name.
async fn permitted(gate: &Gate, request: &ServiceRequest) -> Result<(), ApiError> {
    let headers = request.headers();
    let Some(access) = &gate.access else {
        return same_site(gate.loopback, headers);
    };
    let asked = Asked {
        method: request.method().as_str(),
        path: request.uri().path(),
        // The address of the connection: a header about the request's way could be invented.
        peer: request.peer_addr().map(|address| address.ip()),
        authorization: only(headers, AUTHORIZATION),
        cookie: only(headers, COOKIE),
        origin: only(headers, ORIGIN),
        content_type: only(headers, CONTENT_TYPE),
    };
    let from_proxy = match &access.proxy {
        // Whoever shows a token is judged by that.
        Some(proxy) if asked.authorization.is_none() => {
            access::is_from(&proxy.addresses.addresses().await, &asked)
        }
        _ => false,
    };
    match access::decide(access, from_proxy, &asked)? {
        Allowed::Token => same_site(gate.loopback, headers),
        // The pages are the proxy's, and its requests name this endpoint.
        Allowed::Proxy => own_name(gate.loopback, headers).map(drop),
    }
}

/// Returns the header's value, `None` if the header is absent, or an empty text if it occurs twice
/// or is not text.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name);
    let first = all.next()?;
    Some(if all.next().is_some() { "" } else { first.to_str().unwrap_or_default() })
}

/// Refuses what a page of another site makes a browser send: its `Origin` is not the host that is asked,
/// or (on loopback) the host asked for is a name that was rebound to this machine.
fn same_site(loopback: bool, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = own_name(loopback, headers)?;
    let Some(origin) = only(headers, ORIGIN) else {
        return Ok(());
    };
    let site = origin.split_once("://").and_then(|(scheme, site)| {
        let port =
            [("http", 80), ("https", 443)].into_iter().find(|(known, _)| *known == scheme)?.1;
        Some((Site::parse(site)?, port))
    });
    match (site, host) {
        (Some((site, port)), Some(host)) if site.is(&host, port) => Ok(()),
        _ => Err(ApiError::forbidden(format!("requests from pages of '{origin}' are not served"))),
    }
}

/// Returns the host that the request names; `None` if it names none, which no browser does.
fn own_name(loopback: bool, headers: &HeaderMap) -> Result<Option<Site>, ApiError> {
    let Some(host) = only(headers, HOST) else {
        return Ok(None);
    };
    let Some(site) = Site::parse(host) else {
        return Err(ApiError::bad_request(format!("host '{host}' is not 'name' or 'name:port'")));
    };
    if loopback && !site.is_local() {
        return Err(ApiError::forbidden(format!(
            "host '{host}' is not this machine: the endpoint listens on loopback only"
        )));
    }
    Ok(Some(site))
}

/// A host and port as `Host` and `Origin` name them.
#[derive(Debug, PartialEq, Eq)]
struct Site {
    /// In lower case; an IPv6 address has no brackets.
    name: String,
    port: Option<u16>,
}

impl Site {
    /// Reads `name`, `name:port`, `[v6]` or `[v6]:port`; `None` for anything else, such as a user before an `@`.
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(v6) => {
                let (v6, rest) = v6.split_once(']')?;
                (v6.parse::<Ipv6Addr>().ok()?.to_string(), rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
                let is_name = !name.is_empty() && name.bytes().all(fits);
                (is_name.then(|| name.to_ascii_lowercase())?, rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            None if rest.is_empty() => None,
            _ => return None,
        };
        Some(Self { name, port })
    }

    /// Returns true if both are the same site. `port` counts where none is named.
    fn is(&self, other: &Self, port: u16) -> bool {
        self.name == other.name && self.port.unwrap_or(port) == other.port.unwrap_or(port)
    }

    fn is_local(&self) -> bool {
        self.name == "localhost" || self.name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
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
    fn host_and_origin_are_taken_by_the_letter_and_once() {
        let served = |loopback, host, origin| same_site(loopback, &headers(host, origin)).is_ok();
        for host in [
            "[::1].evil.com:80",
            "[::1]evil.com",
            "[evil.com]",
            "[127.0.0.1]",
            "localhost:80@evil",
            "localhost@evil",
            "localhost:80:80",
            "localhost:99999",
            "localhost:+80",
            "localhost/evil",
            "::1",
            "",
            ":8081",
        ] {
            assert!(!served(true, host, None), "{host}");
            assert!(!served(false, host, None), "{host}");
        }
        for host in ["LOCALHOST", "localhost:8081", "127.0.0.2", "[::1]", "[0:0::1]:8081"] {
            assert!(served(true, host, None), "{host}");
        }
        assert!(served(false, "Job_Manager:8081", Some("http://job_manager:8081")));
        assert!(
            served(false, "jm", Some("http://jm:80"))
                && served(false, "jm", Some("https://jm:443"))
        );
        for origin in [
            "jm",
            "ftp://jm",
            "http://jm:81",
            "http://jm@evil.example",
            "http://jm/",
            "http://jm http://evil.example",
            "",
        ] {
            assert!(!served(false, "jm", Some(origin)), "{origin}");
        }
        let mut twice = headers("localhost:1", Some("http://localhost:1"));
        assert!(same_site(true, &twice).is_ok());
        twice.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(same_site(true, &twice).is_err(), "a second Origin");
        let mut twice = headers("localhost:1", None);
        twice.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(same_site(true, &twice).is_err(), "a second Host");
        let origin_alone = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://jm"))]);
        assert!(
            same_site(false, &origin_alone).is_err() && same_site(true, &HeaderMap::new()).is_ok()
        );
    }
}
