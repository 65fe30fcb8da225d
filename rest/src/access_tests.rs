//! Tests the decision, request by request and for drawn requests.

use super::*;
use futures::FutureExt;
use proptest::prelude::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef-_";
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

struct At(IpAddr);
impl ProxyAddresses for At {
    fn addresses(&self) -> BoxFuture<'static, Arc<[IpAddr]>> {
        std::future::ready(Arc::from([self.0])).boxed()
    }
}

fn access() -> Access {
    let proxy = WebProxy {
        addresses: Arc::new(At(PEER)),
        origins: vec!["http://rm:8088".to_owned()],
        users: vec!["alice".to_owned()],
    };
    Access { token: BearerToken::new(TOKEN).unwrap(), proxy: Some(proxy) }
}

fn cancel() -> Asked<'static> {
    Asked {
        method: "GET",
        path: "/v1/jobs/a/yarn-cancel",
        peer: Some(PEER),
        cookie: Some("proxy-user=alice"),
        content_type: Some("application/json"),
        ..Asked::default()
    }
}

fn by_proxy(asked: Asked<'_>) -> Result<Allowed, Refused> {
    decide(&access(), true, &asked)
}

#[test]
fn a_token_is_random_and_is_never_shown() {
    let platform = Platform::production();
    let (one, two) = (BearerToken::random(&platform), BearerToken::random(&platform));
    assert!(one.expose() != two.expose() && one.expose().len() >= 43);
    assert!(BearerToken::new(one.expose()).unwrap().is(one.expose()));
    let shown = format!("{:?}", Access { token: one.clone(), proxy: None });
    assert!(!shown.contains(one.expose()) && !format!("{one:?}").contains(one.expose()));
    for wrong in ["", "short", &"a b".repeat(12), &"x".repeat(513), &format!("{TOKEN}\n")] {
        assert_eq!(BearerToken::new(wrong).unwrap_err(), NoToken, "{wrong:?}");
    }
    assert!(NoToken.to_string().contains("32 to 512"));
}

#[test]
fn whoever_shows_the_token_may_do_everything() {
    for scheme in ["Bearer", "bearer", "BEARER "] {
        let authorization = format!("{scheme} {TOKEN}");
        let asked = Asked {
            method: "DELETE",
            path: "/cluster",
            authorization: Some(&authorization),
            ..Asked::default()
        };
        assert_eq!(decide(&access(), false, &asked), Ok(Allowed::Token));
    }
    let nearly = [TOKEN.to_owned(), format!("Basic {TOKEN}"), format!("Bearer {TOKEN}x")];
    for wrong in nearly.iter().map(String::as_str).chain(["", "Bearer", "Bearer "]) {
        // Also from the proxy, which forwards none.
        let asked = Asked { method: "GET", path: "/jobs", authorization: Some(wrong), ..cancel() };
        assert_eq!(by_proxy(asked), Err(Refused::WrongToken), "{wrong}");
    }
    let none = Asked { method: "GET", path: "/jobs", ..cancel() };
    assert_eq!(decide(&access(), false, &none), Err(Refused::NoToken));
    assert_eq!(decide(&Access { proxy: None, ..access() }, true, &none), Err(Refused::NoToken));
}

#[test]
fn the_proxy_reads_for_everybody_and_changes_for_the_owner() {
    let read = Asked { path: "/jobs/a", cookie: None, content_type: None, ..cancel() };
    assert_eq!(by_proxy(read), Ok(Allowed::Proxy));
    assert_eq!(by_proxy(cancel()), Ok(Allowed::Proxy));
    assert_eq!(by_proxy(Asked { method: "PUT", path: "/x", ..cancel() }), Ok(Allowed::Proxy));
    for method in ["POST", "PATCH", "DELETE", "OPTIONS"] {
        assert_eq!(by_proxy(Asked { method, ..cancel() }), Err(Refused::Method), "{method}");
    }
    let strangers = [
        "",
        "proxy-user=bob",
        "proxy-user=",
        "proxy-user",
        "other=alice",
        "proxy-user=alice; proxy-user=bob",
        "proxy-user=alice&proxy-user=alice",
        "xproxy-user=alice",
    ];
    for cookie in strangers.map(Some).into_iter().chain([None]) {
        assert_eq!(by_proxy(Asked { cookie, ..cancel() }), Err(Refused::User), "{cookie:?}");
    }
    let encoded = Asked { cookie: Some("checked=true; proxy-user=%61lice"), ..cancel() };
    assert_eq!(by_proxy(encoded), Ok(Allowed::Proxy));
}

#[test]
fn no_page_of_another_site_changes_anything_through_the_proxy() {
    // A link or an image: browsers say neither where it stands nor that its content is JSON.
    for content_type in [None, Some("text/plain"), Some("multipart/form-data"), Some("")] {
        let asked = Asked { content_type, ..cancel() };
        assert_eq!(by_proxy(asked), Err(Refused::CrossSite), "{content_type:?}");
    }
    let json = Some("application/json; charset=utf-8");
    assert_eq!(by_proxy(Asked { content_type: json, ..cancel() }), Ok(Allowed::Proxy));
    for origin in ["http://evil.example", "null", "", "http://rm:8089"] {
        let asked = Asked { origin: Some(origin), ..cancel() };
        assert_eq!(by_proxy(asked), Err(Refused::Origin), "{origin}");
    }
    let own = Asked { origin: Some("http://RM:8088"), ..cancel() };
    assert_eq!(by_proxy(own), Ok(Allowed::Proxy));
}

#[test]
fn a_path_that_the_router_reads_as_a_change_is_one() {
    for path in [
        "/jobs/a/yarn-cancel",
        "/v1/jobs/a/yarn-stop",
        "/jobs/a/yarn%2Dcancel",
        "/jobs/a/yarn-cancel/",
    ] {
        let asked = Asked { path, cookie: None, ..cancel() };
        assert_eq!(by_proxy(asked), Err(Refused::User), "{path}");
    }
    for path in ["/", "/jobs/a/plan", "/jars", "/taskmanagers/container_1_2_3_4/logs"] {
        let asked = Asked { path, cookie: None, ..cancel() };
        assert_eq!(by_proxy(asked), Ok(Allowed::Proxy), "{path}");
    }
}

#[test]
fn nobody_makes_a_program_run_through_the_proxy() {
    for path in [
        "/jars/p/plan",
        "/v1/jars/p/plan",
        "/v1/jars/p/plan/",
        "//jars//p/plan",
        "/j%61rs/p/pl%61n",
        "/jars/a&b/plan",
        "/jars/&/plan",
        "/jars/p%/%70lan",
        "/jars/p/run",
        "/jars/upload",
    ] {
        for method in ["GET", "HEAD", "PUT"] {
            // Also in the name of the user who owns the cluster.
            let refused = by_proxy(Asked { method, path, ..cancel() });
            assert_eq!(refused, Err(Refused::Program), "{method} {path}");
        }
        assert_eq!(by_proxy(Asked { method: "POST", path, ..cancel() }), Err(Refused::Method));
    }
    assert!(!Refused::Program.asks_for_token(), "it is answered with 403");
    assert!(Refused::Program.to_string().contains("Authorization: Bearer"));
    let token = format!("Bearer {TOKEN}");
    let asked = Asked { path: "/jars/p/plan", authorization: Some(&token), ..cancel() };
    assert_eq!(by_proxy(asked), Ok(Allowed::Token));
}

#[test]
fn the_proxy_is_known_by_its_address_alone() {
    let mapped: IpAddr = "::ffff:10.0.0.7".parse().unwrap();
    assert!(is_from(&[PEER], &Asked { peer: Some(mapped), ..Asked::default() }));
    let other: IpAddr = "10.0.0.8".parse().unwrap();
    assert!(!is_from(&[PEER], &Asked { peer: Some(other), ..cancel() }));
    assert!(!is_from(&[PEER], &Asked { peer: None, ..cancel() }));
    assert!(!is_from(&[], &cancel()));
}

#[test]
fn refusals_say_what_to_do() {
    assert!(Refused::NoToken.to_string().contains("Authorization: Bearer"));
    assert!(Refused::NoToken.asks_for_token() && Refused::WrongToken.asks_for_token());
    assert!(!Refused::User.asks_for_token() && !Refused::CrossSite.asks_for_token());
}

fn text() -> impl Strategy<Value = Option<String>> {
    let words = prop::sample::select(vec![
        "proxy-user=alice",
        "proxy-user=bob",
        "application/json",
        "http://rm:8088",
        "http://evil.example",
        "Bearer x",
        "",
    ]);
    prop_oneof![Just(None), words.prop_map(|word| Some(word.to_owned())), ".{0,60}".prop_map(Some)]
}

fn path() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "/jobs",
        "/jobs/a/yarn-cancel",
        "/v1/jobs/a/yarn-stop",
        "/jobs/a/yarn%2dcancel",
        "/jars/p/plan",
        "/cluster",
    ]);
    prop_oneof![known.prop_map(str::to_owned), "/[ -~]{0,40}"]
}

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "BREW"])
}

proptest! {
    #[test]
    fn no_request_without_the_token_that_is_not_the_proxys_is_allowed(
        method in method(), path in path(), authorization in text(), cookie in text(), origin in text(),
        content_type in text(), known in any::<bool>(),
    ) {
        let asked = Asked {
            method, path: &path, peer: Some(PEER), authorization: authorization.as_deref(),
            cookie: cookie.as_deref(), origin: origin.as_deref(), content_type: content_type.as_deref(),
        };
        let access = Access { proxy: access().proxy.filter(|_| known), ..access() };
        let refused = decide(&access, false, &asked);
        prop_assert!(refused.is_err_and(Refused::asks_for_token), "{asked:?}");
    }

    #[test]
    fn without_its_owner_the_proxy_reads_only(
        method in method(), path in path(), cookie in text(), origin in text(), content_type in text(),
    ) {
        let asked = Asked {
            method, path: &path, peer: Some(PEER), authorization: None,
            cookie: cookie.as_deref(), origin: origin.as_deref(), content_type: content_type.as_deref(),
        };
        if by_proxy(asked).is_ok() {
            let reads = matches!(method, "GET" | "HEAD")
                && !["yarn-cancel", "yarn-stop", "%"].iter().any(|mark| path.contains(mark));
            let named = asked.cookie.is_some_and(|c| c.contains("proxy-user=alice"));
            let json = asked.content_type.is_some_and(|t| t.starts_with("application/json"));
            prop_assert!(reads || method != "POST" && named && json, "{asked:?}");
            prop_assert!(path != "/jars/p/plan", "{asked:?}");
        }
    }
}
