//! Fuzzes the headers and paths by which the REST endpoint of an application on YARN allows
//! requests.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use futures::FutureExt;
use futures::future::BoxFuture;
use rest::access::{
    Access, Allowed, Asked, BearerToken, ProxyAddresses, Refused, WebProxy, decide,
};
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) const TARGETS: &[Target] =
    &[Target { name: "rest_access", make, check, memory_max: 8 << 20 }];

/// The endpoint's token.
const TOKEN: &str = "c0ffee00112233445566778899aabbccddeeff00112";
/// Parts of a request, one text for each: method, path, then headers, empty where there is none.
const METHODS: &[&str] = &["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"];
const PATHS: &[&str] = &[
    "/overview",
    "/v1/jobs/0000000000000000000000000000000a/yarn-cancel",
    "/jobs/a/yarn%2dstop/",
    "/jars/x/plan",
    "/v1/j%61rs/x/run",
    "/taskmanagers/container_1/logs",
];
const AUTHORIZATIONS: &[&str] = &[
    "",
    "",
    "Bearer c0ffee00112233445566778899aabbccddeeff00112",
    "bearer  c0ffee00112233445566778899aabbccddeeff00112 ",
    "Basic YWxpY2U6",
];
const COOKIES: &[&str] =
    &["", "proxy-user=alice", "a=b; proxy-user=al%69ce", "proxy-user=alice; proxy-user=mallory"];
const ORIGINS: &[&str] = &["", "http://rm:8088", "http://elsewhere"];
const TYPES: &[&str] = &["", "application/json", "application/json; charset=utf-8", "text/plain"];

/// A proxy without addresses.
struct NoAddresses;

impl ProxyAddresses for NoAddresses {
    fn addresses(&self) -> BoxFuture<'static, Arc<[IpAddr]>> {
        std::future::ready(Arc::from([])).boxed()
    }
}

fn make(rng: &mut Rng) -> Vec<u8> {
    let parts = [METHODS, PATHS, AUTHORIZATIONS, COOKIES, ORIGINS, TYPES];
    let mut bytes = parts.map(|part| rng.text(part)).join("\n").into_bytes();
    if rng.one_in(2) {
        mutate(&mut bytes, rng);
    }
    bytes
}

fn check(input: &[u8]) -> Result<bool, String> {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.split('\n');
    let mut part = || parts.next().unwrap_or_default();
    let (method, path) = (part(), part());
    let mut header = || Some(part()).filter(|text| !text.is_empty());
    let (authorization, cookie, origin, content_type) = (header(), header(), header(), header());
    let peer = None;
    let asked = Asked { method, path, peer, authorization, cookie, origin, content_type };
    let token = BearerToken::new(TOKEN).map_err(|error| error.to_string())?;
    let proxy = WebProxy {
        addresses: Arc::new(NoAddresses),
        origins: vec!["http://rm:8088".to_owned()],
        users: vec!["alice".to_owned()],
    };
    let access = Access { token, proxy: Some(proxy) };
    let (direct, proxied) = (decide(&access, false, &asked), decide(&access, true, &asked));
    if authorization.is_some() {
        law(direct == proxied, || format!("the token is the token: {direct:?}, {proxied:?}"))?;
        let has_token = authorization.is_some_and(|text| text.contains(TOKEN));
        law(direct.is_err() || has_token, || format!("no token, and {direct:?}"))?;
        return Ok(direct.is_ok());
    }
    law(direct == Err(Refused::NoToken), || format!("no token, and {direct:?}"))?;
    let Ok(allowed) = proxied else { return Ok(false) };
    law(allowed == Allowed::Proxy, || format!("no token, and {allowed:?}"))?;
    law(matches!(method, "GET" | "HEAD" | "PUT"), || format!("the proxy forwards no {method}"))?;
    law(!path.contains("/jars/x"), || format!("a program by the proxy: {path}"))?;
    let last = path.trim_end_matches('/').ends_with("/yarn-cancel");
    let changes = method == "PUT" || last || path.contains('%');
    let by_owner = cookie.is_some_and(|cookie| cookie.contains("proxy-user="));
    law(!changes || by_owner, || format!("nobody changes something: {method} {path}"))?;
    let own_page = origin.is_none_or(|origin| origin.eq_ignore_ascii_case("http://rm:8088"));
    law(own_page, || format!("a page of {origin:?}"))?;
    Ok(true)
}
