//! Kerberos that fails at first: with doubles of both sides, so that no KDC is needed.

use super::*;
use crate::gssapi::{GssContext, GssError, GssTarget, Initiator, Need, Opened};
use crate::sasl::{Kerberos, ServerPrincipal};
use std::pin::Pin;
use std::sync::Condvar;

/// One side of a context, without protection. Its first step fails where it is told to.
struct Side {
    fails: bool,
    steps: u8,
    /// The client needs two steps, the server one.
    client: bool,
    kdc: Arc<Kdc>,
}
impl GssContext for Side {
    fn step(&mut self, _: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        self.kdc.asked();
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

/// A KDC that may be silent for a while.
#[derive(Default)]
struct Kdc {
    silent: Mutex<bool>,
    changed: Condvar,
}
impl Kdc {
    fn asked(&self) {
        let silent = self.silent.lock().unwrap();
        drop(self.changed.wait_while(silent, |silent| *silent).unwrap());
    }
    fn be(&self, silent: bool) {
        *self.silent.lock().unwrap() = silent;
        self.changed.notify_all();
    }
}
/// Has it speak in the end: a runtime waits for its threads.
struct Silence(Arc<Kdc>);
impl Silence {
    fn of(user: &User) -> Self {
        user.kdc.be(true);
        Self(Arc::clone(&user.kdc))
    }
}
impl Drop for Silence {
    fn drop(&mut self) {
        self.0.be(false);
    }
}

/// A user whose tickets serve once they were renewed so often.
struct User {
    bad: usize,
    needs: Mutex<Vec<Need>>,
    kdc: Arc<Kdc>,
}
impl User {
    fn new(bad: usize) -> Arc<Self> {
        Arc::new(Self { bad, needs: Mutex::default(), kdc: Arc::default() })
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
        let kdc = Arc::clone(&self.kdc);
        Ok(Box::new(Side { fails: self.renewals() < self.bad, steps: 0, client: true, kdc }))
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
        Box::new(Side { fails, steps: 0, client: false, kdc: Arc::default() })
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
    // What is wrong is said, rather than that there was no answer: it is not worth another try.
    let error = ConnectionError::Sasl(SaslError::Gss(refused()));
    let expected = CallError::Connection { error, sent: false };
    let late = client.call::<_, TokenProto>(&target, "m", &message(""), soon).await.unwrap_err();
    assert_eq!(late, expected);
    // A call that comes meanwhile has its own.
    let late = client.call::<_, TokenProto>(&target, "m", &message(""), soon).await.unwrap_err();
    assert_eq!(late, expected);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn nobody_waits_for_a_silent_kdc_longer_than_a_deadline() {
    let (user, server) = (User::new(0), server(0).await);
    let silence = Silence::of(&user);
    let (client, target) = (client(), by(&user, &server, "rm/localhost@R"));
    let soon = Duration::from_millis(100);
    let late = async || {
        let late = client.call::<_, TokenProto>(&target, "m", &message(""), soon).await;
        let late = late.unwrap_err();
        assert!(matches!(late, CallError::Deadline { sent: false, .. }), "{late:?}");
    };
    let patient = echo(&client, &target, "patient");
    let others = async {
        late().await;
        // One that comes while the KDC is being asked is no worse off.
        late().await;
        assert_eq!(server.calls(), 0);
        drop(silence);
    };
    assert_eq!(tokio::join!(patient, others).0.unwrap(), "patient");
    // What its caller was told had failed was not sent after that.
    assert_eq!((server.calls(), server.connections()), (1, 1));
}

#[tokio::test]
async fn a_silent_kdc_does_not_hold_up_the_bound_of_authentication() {
    let (user, server) = (User::new(0), server(0).await);
    let _silence = Silence::of(&user);
    let soon = Duration::from_millis(100);
    let client = Client::new(Options { setup_timeout: soon, ..Options::default() });
    let error = echo(&client, &by(&user, &server, "rm/localhost@R"), "x").await.unwrap_err();
    let expected = ConnectionError::SetupTimeout;
    assert_eq!(error, CallError::Connection { error: expected, sent: false });
}
