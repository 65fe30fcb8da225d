//! Decides who may use the endpoint where a bearer token protects it: holders of the token may do everything; YARN's web
//! proxy, known by its address, may read, and may change something in the name of the users who own the cluster.
//!
//! The decision is a function of what a request says and of the proxy's addresses. It must never read a socket or a
//! clock, and nothing here may show the token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use platform::Platform;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;

/// Random bytes of a token that is made here.
const RANDOM_BYTES: usize = 32;
/// Fewest and most characters of a token: 128 bits in hexadecimal digits need 32.
const CHARACTERS: std::ops::RangeInclusive<usize> = 32..=512;
/// Cookie in which YARN's proxy names the user who sent the request.
const PROXY_USER: &str = "proxy-user";
/// Last parts of paths that change something in answer to GET: YARN's proxy forwards only GET and PUT.
const CHANGING: [&str; 2] = ["yarn-cancel", "yarn-stop"];

/// The error of [`BearerToken::new`], its only source: the text has fewer than 32 or more than 512 bytes, or other
/// characters than letters, digits and `-._~+/=`, and so cannot be a bearer token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a bearer token has {} to {} characters out of letters, digits and -._~+/=", CHARACTERS.start(), CHARACTERS.end()
)]
pub struct NoToken;

/// The secret that opens an endpoint: a request that names it in its `Authorization` header may do everything. Its `Debug`
/// form does not show it; clones share the text.
#[derive(Clone, derive_more::Debug)]
#[debug("BearerToken(…)")]
pub struct BearerToken(Arc<str>);

impl BearerToken {
    /// Makes a token of 256 random bits, written as 43 letters, digits, `-` and `_`.
    pub fn random(platform: &Platform) -> Self {
        Self(URL_SAFE_NO_PAD.encode(platform.random_bytes::<RANDOM_BYTES>()).into())
    }

    /// Makes a token from a text, such as one that [`BearerToken::random`] made and a file kept: 32 to 512 letters, digits
    /// and `-._~+/=`. Reads no file.
    ///
    /// # Errors
    /// Returns [`NoToken`] if the text is not of that form.
    pub fn new(text: &str) -> Result<Self, NoToken> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
        match CHARACTERS.contains(&text.len()) && text.bytes().all(fits) {
            true => Ok(Self(text.into())),
            false => Err(NoToken),
        }
    }

    /// Returns the token's text, for the `Authorization` header and for files that only its user reads; it must never be
    /// logged.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in a time that tells nothing but the length.
    fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differ = own.iter().zip(other).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        own.len() == other.len() && differ == 0
    }
}

/// A source of the IP addresses of YARN's web proxy, by which its requests are recognised; they may change while the endpoint runs. The
/// process that runs on YARN implements it, and the endpoint's guard calls it.
pub trait ProxyAddresses: Send + Sync {
    /// Returns the addresses that are known now; empty if there are none, so that no request counts as the proxy's. A
    /// lookup that is due may delay the answer for a bounded time. Called for each request without an `Authorization`
    /// header.
    fn addresses(&self) -> BoxFuture<'static, Arc<[IpAddr]>>;
}

/// The settings for YARN's web proxy in front of the endpoint. The proxy has no token: requests through it may read (paths below `/jars/`
/// apart), and its named users may cancel and stop jobs; see `decide`. The proxy is known by its address alone.
#[derive(Clone)]
pub struct WebProxy {
    /// The source of the addresses from which the proxy's requests come.
    pub addresses: Arc<dyn ProxyAddresses>,
    /// The proxy's sites as browsers name them: `http://host:port`, in lower case. A request through the proxy with another
    /// `Origin` is refused.
    pub origins: Vec<String>,
    /// The users who may change something through the proxy, as its cookie `proxy-user` names them; empty: nobody may.
    pub users: Vec<String>,
}

/// The rules by which an endpoint that a token protects allows and refuses requests, for
/// [`RestSettings::access`](crate::RestSettings::access); see [`decide`]. Fixed at the endpoint's start.
#[derive(Clone, derive_more::Debug)]
#[debug("Access(token, proxy: {})", self.proxy.is_some())]
pub struct Access {
    /// The token that a request must show in its `Authorization` header, unless it comes through the proxy.
    pub token: BearerToken,
    /// YARN's web proxy, whose requests are allowed some things without the token; `None`: only the token opens the
    /// endpoint.
    pub proxy: Option<WebProxy>,
}

/// The parts of a request by which [`decide`] allows or refuses it. The guard of an endpoint that has a token makes it of each request,
/// before the body is read; a header that occurs twice or cannot be read counts as an empty one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Method of the request, such as `GET`.
    pub method: &'a str,
    /// The path of the URL as it was sent, percent signs not decoded, without the query.
    pub path: &'a str,
    /// IP address of the connection's other end; `None` if it is unknown.
    pub peer: Option<IpAddr>,
    /// Value of the `Authorization` header; `None` if absent. If it is present, it alone decides.
    pub authorization: Option<&'a str>,
    /// Value of the `Cookie` header, in which the proxy names its user; `None` if absent. Looked at only for a change
    /// without a token.
    pub cookie: Option<&'a str>,
    /// Value of the `Origin` header, the site of the page that makes the browser send the request; `None` if absent.
    pub origin: Option<&'a str>,
    /// Value of the `Content-Type` header; `None` if absent. A change through the proxy needs `application/json`.
    pub content_type: Option<&'a str>,
}

/// The reason for which [`decide`] lets a request be served: it has the token, or comes through YARN's proxy. The endpoint's guard may
/// still refuse it: for another machine's name in `Host` on a loopback address, and, with the token, for a page of another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// The request has the token and may do everything. It is still refused if a page of another site makes a browser send it.
    Token,
    /// The request has no token, but comes from YARN's proxy, and is a read or a change by one of the proxy's named users.
    Proxy,
}

/// The reason for which [`decide`] refuses a request. It is answered with status 401 (`NoToken`, `WrongToken`, `Method`) or 403 (the
/// others), and its text is for the sender. All but the first two are about requests that come through YARN's proxy without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    /// The request has no `Authorization` header, and does not come from the proxy, or there is no proxy.
    #[error(
        "this endpoint asks for its token: send 'Authorization: Bearer TOKEN'. The commands of flott do so for the user who \
         started the cluster, with -t yarn-session -Dyarn.application.id=…; the token is in the file \
         yarn-token-<application id> beside that user's session file. Without it YARN's web proxy shows this endpoint"
    )]
    NoToken,
    /// The request has another token, or its `Authorization` is not of the form `Bearer TOKEN`.
    #[error(
        "'Authorization' has not this endpoint's token: it is another cluster's, or not of the form 'Bearer TOKEN'; the \
         right one is in the file yarn-token-<application id> of the user who started the cluster"
    )]
    WrongToken,
    /// The request comes from the proxy without a token, and its method is not GET, HEAD or PUT, which alone are allowed
    /// there.
    #[error(
        "YARN's web proxy forwards GET and PUT only; for anything else ask the JobManager itself, with 'Authorization: \
         Bearer TOKEN'"
    )]
    Method,
    /// The request through the proxy is for a path below `/jars/`: only holders of the token may upload, plan, run or
    /// delete programs.
    #[error(
        "YARN's web proxy does not plan, run or take programs; ask the JobManager itself, with 'Authorization: Bearer \
         TOKEN'"
    )]
    Program,
    /// The request through the proxy has an `Origin` header that is none of [`WebProxy::origins`]: a page of another site
    /// has made the browser send it.
    #[error("requests of pages that are not of YARN's web proxy are not served")]
    Origin,
    /// The request through the proxy would change something, and its cookie names no user, two users, or none of
    /// [`WebProxy::users`].
    #[error(
        "through YARN's web proxy only the user who submitted the application may change something; whoever \
         has the token may do so at the JobManager itself"
    )]
    User,
    /// The request through the proxy would change something and lacks `Content-Type: application/json`, so a page of
    /// another site could have made the browser send it.
    #[error(
        "through YARN's web proxy a change needs the header 'Content-Type: application/json', which pages of other sites \
         cannot make a browser send"
    )]
    CrossSite,
}

impl Refused {
    /// Returns true for `NoToken`, `WrongToken` and `Method`, which are answered with HTTP's status 401, so that the client sends the
    /// token. The others are answered with 403.
    pub fn asks_for_token(self) -> bool {
        matches!(self, Self::NoToken | Self::WrongToken | Self::Method)
    }
}

/// Decides whether a request is allowed. With an `Authorization` header the token alone decides. Without one, a request
/// from YARN's web proxy (`from_proxy`, see [`is_from`]) may read; it may change something (by PUT, or by GET or HEAD of a path
/// that ends in `yarn-cancel` or `yarn-stop` or has a percent sign) only if its cookie names one of [`WebProxy::users`] and
/// its content type is JSON. Logs and changes nothing.
///
/// # Errors
/// Returns the reason why the request is refused: [`Refused::NoToken`] without a token from elsewhere than the proxy,
/// [`Refused::WrongToken`] for another token; through the proxy [`Refused::Method`] for other methods than GET, HEAD and
/// PUT, [`Refused::Program`] for paths below `/jars/`, [`Refused::Origin`] for a page of another site, [`Refused::User`]
/// and [`Refused::CrossSite`] for a change that lacks the user or the content type.
pub fn decide(access: &Access, from_proxy: bool, asked: &Asked<'_>) -> Result<Allowed, Refused> {
    if let Some(authorization) = asked.authorization {
        let is_right = bearer(authorization).is_some_and(|token| access.token.is(token));
        return if is_right { Ok(Allowed::Token) } else { Err(Refused::WrongToken) };
    }
    match &access.proxy {
        Some(proxy) if from_proxy => through_proxy(proxy, asked).map(|()| Allowed::Proxy),
        _ => Err(Refused::NoToken),
    }
}

/// Returns true if the request's peer address is one of these addresses, an IPv4 address and its IPv6-mapped form being the
/// same; false if the peer is unknown.
pub fn is_from(addresses: &[IpAddr], asked: &Asked<'_>) -> bool {
    asked.peer.is_some_and(|peer| addresses.iter().any(|a| a.to_canonical() == peer.to_canonical()))
}

/// Decides about a request through the proxy. Reads are allowed for everybody who may use the
/// proxy. Programs are refused, because a program that makes its plan runs, and the proxy is known
/// by its address alone. Changes are allowed for the owner, and only in a form that no page of
/// another site can make the owner's browser send: the proxy forwards neither `Referer` nor headers
/// of one's own, and browsers send no `Origin` with a GET, but none sends this content type to
/// another site without asking it first.
fn through_proxy(proxy: &WebProxy, asked: &Asked<'_>) -> Result<(), Refused> {
    let reads = matches!(asked.method, "GET" | "HEAD");
    if !reads && asked.method != "PUT" {
        return Err(Refused::Method);
    }
    if is_of_program(asked.path) {
        return Err(Refused::Program);
    }
    if let Some(origin) = asked.origin
        && !proxy.origins.iter().any(|own| own.eq_ignore_ascii_case(origin))
    {
        return Err(Refused::Origin);
    }
    if reads && !changes(asked.path) {
        return Ok(());
    }
    let user = asked.cookie.and_then(proxy_user).ok_or(Refused::User)?;
    if !proxy.users.contains(&user) {
        return Err(Refused::User);
    }
    let kind = asked.content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    match kind.trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Refused::CrossSite),
    }
}

/// Returns true if GET of this path changes something, or may: the router decodes percent signs, which could stand for any name
/// here.
fn changes(path: &str) -> bool {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    path.contains('%') || CHANGING.contains(&last)
}

/// Returns true if the path is one below `/jars/`, once the router has decoded it. The list `/jars` itself is only read.
fn is_of_program(path: &str) -> bool {
    // In a query '&' would end the value.
    let Ok(decoded) = crate::decode::query_pairs(&format!("path={}", path.replace('&', "%26")))
    else {
        return true;
    };
    decoded.iter().any(|(_, path)| {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.any(|part| part == "jars") && parts.next().is_some()
    })
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

/// Returns the user that the proxy's cookie names; `None` without it, and if it names two.
fn proxy_user(cookie: &str) -> Option<String> {
    let pairs = cookie.split(';').filter_map(|pair| pair.trim().split_once('='));
    let mut users = pairs.filter(|(name, _)| *name == PROXY_USER).map(|(_, value)| value);
    let user = users.next()?;
    let decoded = crate::decode::query_pairs(&format!("{PROXY_USER}={user}")).ok()?;
    match (decoded.as_slice(), users.next()) {
        ([(_, user)], None) if !user.is_empty() => Some(user.clone()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
