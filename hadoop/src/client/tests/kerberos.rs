//! Kerberos that fails at first: with doubles of both sides, so that no KDC is needed.

use super::*;
use crate::gssapi::{GssContext, GssError, GssTarget, Initiator, Need, Opened};
use crate::sasl::{Kerberos, ServerPrincipal};
use std::pin::Pin;

/// One side of a context, without protection. Its first step fails where it is told to.
struct Side {
    fails: bool,
    steps: u8,
    /// The client needs two steps, the server one.
    client: bool,
}
impl GssContext for Side {
    fn step(&mut self, _: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        if self.fails {
            return Err(refused());
        }
        self.steps += 1;
        let stands = !self.client || self.steps == 2;
        Ok((if self.client && stands { Vec::new() } else { b"token".to_vec() }, stands))
    }
    fn wrap(&mut self, _: bool, plain: &[u8]) -> Result<Vec<u8>, GssError> {
        Ok(plain.to_vec())
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError> {
        Ok(Opened { plain: wrapped.to_vec(), encrypted: false })
    }
    fn plain_max(&self, _: bool, _: u32) -> Result<usize, GssError> {
        Ok(1000)
    }
}
fn refused() -> GssError {
    GssError::Refused { call: "gss_init_sec_context", reason: "Ticket expired".to_owned() }
}

/// A user whose tickets serve once they were renewed so often.
struct User {
    bad: usize,
    needs: Mutex<Vec<Need>>,
}
impl User {
    fn new(bad: usize) -> Arc<Self> {
        Arc::new(Self { bad, needs: Mutex::default() })
    }
    fn renewals(&self) -> usize {
        self.needs.lock().unwrap().iter().filter(|need| **need == Need::Refusal).count()
    }
}
impl Initiator for User {
    fn principal(&self) -> String {
        "alice@R".to_owned()
    }
    fn context(&self, _: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        Ok(Box::new(Side { fails: self.renewals() < self.bad, steps: 0, client: true }))
    }
    fn refresh(&self, need: Need) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.needs.lock().unwrap().push(need);
        Box::pin(std::future::ready(()))
    }
}

/// A server that refuses so many contexts.
async fn server(refusals: usize) -> Server {
    let accepted = AtomicUsize::new(0);
    let accept: Arc<dyn Fn() -> Box<dyn GssContext> + Send + Sync> = Arc::new(move || {
        let fails = accepted.fetch_add(1, Ordering::SeqCst) < refusals;
        Box::new(Side { fails, steps: 0, client: false })
    });
    Server::start(ServerAuth::Kerberos { accept, mask: 1 }, Does::Echo).await
}
fn by(user: &Arc<User>, server: &Server, principal: &str) -> Target {
    let initiator = Arc::clone(user) as Arc<dyn Initiator>;
    let kerberos = Kerberos { initiator, server: ServerPrincipal::Exact(principal.to_owned()) };
    server.target(Auth::Sasl(Box::new(SaslConfig {
        kerberos: Some(kerberos),
        ..SaslConfig::default()
    })))
}
fn client() -> Client {
    Client::new(Options { kerberos_backoff: Duration::from_millis(1), ..Options::default() })
}

#[tokio::test]
async fn tickets_that_fail_are_renewed_and_the_calls_go_over_another_connection() {
    // On this side, as with tickets that have run out; on the server's, as with what it takes for a repetition.
    for (bad, refusals) in [(2, 0), (0, 2), (5, 0), (0, 5)] {
        let (user, server) = (User::new(bad), server(refusals).await);
        let (client, target) = (client(), by(&user, &server, "rm/localhost@R"));
        let calls = ["a", "b", "c"].map(|text| echo(&client, &target, text));
        let [a, b, c] = calls;
        let (a, b, c) = tokio::join!(a, b, c);
        assert_eq!(
            (a.unwrap().as_str(), b.unwrap().as_str(), c.unwrap().as_str()),
            ("a", "b", "c")
        );
        assert_eq!(server.connections(), 1 + bad + refusals);
        let needs = user.needs.lock().unwrap().clone();
        assert_eq!(needs[0], Need::Connection);
        assert_eq!(needs[1..], vec![Need::Refusal; bad + refusals]);
        // Each call went out once.
        assert_eq!(server.calls(), 3);
    }
}

#[tokio::test]
async fn kerberos_that_fails_for_good_is_said_after_five_more_tries() {
    let (user, refusing) = (User::new(usize::MAX), server(0).await);
    let error = echo(&client(), &by(&user, &refusing, "rm/localhost@R"), "x").await.unwrap_err();
    let expected = ConnectionError::Sasl(SaslError::Gss(refused()));
    assert_eq!(error, CallError::Connection { error: expected, sent: false });
    assert_eq!((refusing.connections(), user.renewals()), (6, 5));

    let (user, refusing) = (User::new(0), server(usize::MAX).await);
    let error = echo(&client(), &by(&user, &refusing, "rm/localhost@R"), "x").await.unwrap_err();
    assert!(error.remote().is_some_and(|e| e.message == "GSS initiate failed"), "{error:?}");
    assert_eq!((refusing.connections(), user.renewals()), (6, 5));
}

#[tokio::test]
async fn a_server_that_is_another_is_not_asked_again() {
    let (user, other) = (User::new(0), server(0).await);
    let error = echo(&client(), &by(&user, &other, "nn/localhost@R"), "x").await.unwrap_err();
    let is_principal = matches!(
        &error,
        CallError::Connection {
            error: ConnectionError::Sasl(SaslError::Principal { .. }),
            sent: false
        }
    );
    assert!(is_principal, "{error:?}");
    assert_eq!((other.connections(), user.renewals()), (1, 0));
}

#[tokio::test]
async fn deadlines_hold_while_kerberos_is_tried_again() {
    let (user, server) = (User::new(1), server(0).await);
    let patient = Options { kerberos_backoff: Duration::MAX, ..Options::default() };
    let (client, target) = (Client::new(patient), by(&user, &server, "rm/localhost@R"));
    let soon = Duration::from_millis(100);
    let late = client.call::<_, TokenProto>(&target, "m", &message(""), soon).await.unwrap_err();
    assert!(matches!(late, CallError::Deadline { sent: false, .. }), "{late:?}");
    // A call that comes meanwhile has its own.
    let late = client.call::<_, TokenProto>(&target, "m", &message(""), soon).await.unwrap_err();
    assert!(matches!(late, CallError::Deadline { sent: false, .. }), "{late:?}");
    assert_eq!(server.connections(), 1);
}
