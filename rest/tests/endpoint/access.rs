//! A token in front of the endpoint, and YARN's web proxy beside it.

use super::*;
use futures::FutureExt;
use rest::access::{Access, BearerToken, ProxyAddresses, WebProxy};

/// The proxy's address on this machine; tests come from 127.0.0.1 otherwise.
const PROXY: &str = "127.0.0.9";

struct At(IpAddr);
impl ProxyAddresses for At {
    fn addresses(&self) -> BoxFuture<'static, Arc<[IpAddr]>> {
        std::future::ready(Arc::from([self.0])).boxed()
    }
}

fn protected(settings: &mut RestSettings, token: &BearerToken) {
    let proxy = WebProxy {
        addresses: Arc::new(At(PROXY.parse().unwrap())),
        origins: vec!["http://rm:8088".to_owned()],
        users: vec!["alice".to_owned()],
    };
    settings.access = Some(Access { token: token.clone(), proxy: Some(proxy) });
}

/// The answer with its head.
async fn with_head(url: &str, args: &[&str]) -> String {
    curl(url, &[&["-i"][..], args].concat()).await
}

#[tokio::test(flavor = "local")]
async fn without_its_token_a_protected_endpoint_answers_nobody() {
    let token = BearerToken::random(&Platform::production());
    let world = world(|settings| protected(settings, &token)).await;
    for (method, path) in [
        ("GET", "/overview"),
        ("GET", "/v1/jobs/overview"),
        ("POST", "/jars/upload"),
        ("DELETE", "/cluster"),
        ("GET", "/nothing"),
    ] {
        let answer = with_head(&format!("{}{path}", world.url), &["-X", method]).await;
        let head = answer.to_lowercase();
        assert!(head.starts_with("http/1.1 401"), "{method} {path}: {answer}");
        assert!(head.contains("\r\nwww-authenticate: bearer\r\n"), "{answer}");
        assert!(answer.contains(r#"{"errors":["#), "{answer}");
        assert!(answer.contains("Authorization: Bearer"), "{answer}");
        assert!(!answer.contains(token.expose()), "{answer}");
    }
    let other = BearerToken::random(&Platform::production());
    for wrong in [None, Some(other)] {
        let error = world.client.clone().with_token(wrong).jobs_overview().await.unwrap_err();
        assert_eq!(error.status(), Some(401), "{error}");
    }
    let client = world.client.clone().with_token(Some(token.clone()));
    assert_eq!(client.jobs_overview().await.unwrap().jobs.len(), 1);
    client.cancel(&JOB.to_string()).await.unwrap();
    assert_eq!(client.jars().await.unwrap().address, ".");
    let program = world.folder.path().join("words");
    std::fs::write(&program, "ours").unwrap();
    client.upload(&program, |_| ()).await.unwrap();
    // A page that knows the token is none of ours all the same.
    let bearer = format!("Authorization: Bearer {}", token.expose());
    let foreign = ["-H", bearer.as_str(), "-H", "Origin: http://evil.example"];
    let answer = with_head(&format!("{}/overview", world.url), &foreign).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let twice = ["-H", bearer.as_str(), "-H", bearer.as_str()];
    let answer = with_head(&format!("{}/jobs", world.url), &twice).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn yarns_proxy_reads_and_cancels_for_its_owner() {
    let token = BearerToken::random(&Platform::production());
    let world = world(|settings| protected(settings, &token)).await;
    let asked = async |path: String, more: &[&str]| {
        let url = format!("{}{path}", world.url);
        let answer = with_head(&url, &[&["--interface", PROXY], more].concat()).await;
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let json = ["-H", "Content-Type: application/json"];
    let owner = ["-H", "Content-Type: application/json", "-H", "Cookie: proxy-user=alice"];
    let stranger = ["-H", "Content-Type: application/json", "-H", "Cookie: proxy-user=bob"];
    let (cancel, stop) = (format!("/jobs/{JOB}/yarn-cancel"), format!("/v1/jobs/{JOB}/yarn-stop"));
    assert_eq!(asked("/jobs/overview".to_owned(), &[]).await, "200");
    assert_eq!(asked(cancel.clone(), &json).await, "403");
    assert_eq!(asked(cancel.clone(), &stranger).await, "403");
    assert_eq!(asked(cancel.clone(), &owner[2..]).await, "403", "any page could send it");
    let encoded = format!("/jobs/{JOB}/yarn%2Dcancel");
    assert_eq!(asked(encoded, &json).await, "403", "the router decodes it");
    assert_eq!(asked(cancel.clone(), &owner).await, "202");
    assert_eq!(asked(stop, &owner).await, "202");
    let patch = [&["-X", "PATCH"], &owner[..]].concat();
    assert_eq!(asked(format!("/jobs/{JOB}"), &patch).await, "401");
    let evil = [&["-H", "Origin: http://evil.example"], &owner[..]].concat();
    assert_eq!(asked(cancel, &evil).await, "403");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn without_a_token_no_get_changes_anything() {
    let world = world(|_| ()).await;
    for path in ["yarn-cancel", "yarn-stop"] {
        let answer = with_head(&format!("{}/jobs/{JOB}/{path}", world.url), &[]).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
    world.handle.stop().await;
}
