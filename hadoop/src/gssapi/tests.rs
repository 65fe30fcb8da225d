use super::*;
use crate::client::tests::{Does, Server, echo};
use crate::client::{Client, Options};
use crate::conf::Configuration;
use crate::login::{Login, LoginError, Service};
use crate::rpc::header::{SaslAuth, SaslMessage, SaslState};
use crate::rpc::testing::ServerAuth;
use crate::sasl::{AuthMethod, Kerberos, Negotiation, Qop, SaslConfig, ServerPrincipal, Step};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn a_missing_library_is_named_with_what_to_install() {
    let error = Library::load_from(&["libnowhere-to-be-found.so.7"]).unwrap_err().to_string();
    assert!(error.contains("libnowhere-to-be-found.so.7"), "{error}");
    assert!(error.contains("install MIT Kerberos"), "{error}");
}

/// Set for the part of the test that runs below a KDC: the folder of its files.
const FOLDER: &str = "HADOOP_TEST_KDC";

/// Kills what it holds.
struct Kdc(Child);
impl Drop for Kdc {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The library reads its settings from the environment, so the KDC is started here and the test proper runs
/// in a process of its own.
#[test]
#[ignore = "starts a KDC: needs Debian's krb5-kdc, krb5-admin-server and krb5-user"]
fn against_a_real_kdc() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return below_a_kdc(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = format!(
        "[libdefaults]\n default_realm = TEST.LOCAL\n dns_lookup_kdc = false\n rdns = false\n \
         dns_canonicalize_hostname = false\n udp_preference_limit = 1\n\
         [realms]\n TEST.LOCAL = {{\n kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = TEST.LOCAL\n"
    );
    let kdc = format!(
        "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n \
         TEST.LOCAL = {{\n database_name = {}\n key_stash_file = {}\n max_life = 1h\n max_renewable_life = 1d\n \
         supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n",
        at("principal"),
        at("stash"),
    );
    std::fs::write(at("krb5.conf"), client).unwrap();
    std::fs::write(at("kdc.conf"), kdc).unwrap();
    let set = |command: &mut Command| {
        command
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("KRB5_CONFIG", at("krb5.conf"))
            .env("KRB5_KDC_PROFILE", at("kdc.conf"))
            .env("KRB5_KTNAME", format!("FILE:{}", at("service.keytab")))
            .env("KRB5CCNAME", format!("FILE:{}", at("cache")))
            .env(FOLDER, folder.path());
    };
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        set(&mut command);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    };
    run("kdb5_util", &["create", "-s", "-r", "TEST.LOCAL", "-P", "master"]);
    for (principal, keytab) in
        [("alice", "alice.keytab"), ("carol", "carol.keytab"), ("rm/localhost", "service.keytab")]
    {
        run("kadmin.local", &["-q", &format!("addprinc -randkey {principal}")]);
        run("kadmin.local", &["-q", &format!("ktadd -k {} {principal}", at(keytab))]);
    }
    run("kadmin.local", &["-q", "addprinc -randkey -maxlife 5seconds brief"]);
    run("kadmin.local", &["-q", &format!("ktadd -k {} brief", at("brief.keytab"))]);
    let mut command = Command::new("krb5kdc");
    set(&mut command);
    let _kdc = Kdc(command.arg("-n").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let listening = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert!(listening);
    run("kinit", &["-r", "1d", "-kt", &at("alice.keytab"), "alice"]);
    let mut command = Command::new(std::env::current_exe().unwrap());
    set(&mut command);
    let arguments = ["--ignored", "--exact", "--nocapture", "gssapi::tests::against_a_real_kdc"];
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("below a KDC: done"));
}

fn below_a_kdc(folder: &Path) {
    let library = Library::load().unwrap();
    let keytab = |principal: &str, file: &str| {
        let (principal, keytab) = (principal.to_owned(), folder.join(file));
        library.credential(&CredentialSource::Keytab { principal, keytab })
    };
    let absent = keytab("alice@TEST.LOCAL", "absent.keytab").unwrap_err().to_string();
    assert!(absent.contains("absent.keytab"), "{absent}");
    let stranger = keytab("bob@TEST.LOCAL", "alice.keytab").unwrap_err().to_string();
    assert!(stranger.contains("alice.keytab for bob@TEST.LOCAL"), "{stranger}");
    println!("{absent}\n{stranger}");
    let no_cache =
        library.credential(&CredentialSource::TicketCache(Some("FILE:/nowhere/cc".to_owned())));
    assert!(no_cache.is_err());

    a_keytabs_tickets_go_with_whoever_uses_them(
        &library,
        keytab("alice@TEST.LOCAL", "alice.keytab").unwrap(),
    );
    let from_keytab = keytab("alice@TEST.LOCAL", "alice.keytab").unwrap();
    let from_cache = library.credential(&CredentialSource::TicketCache(None)).unwrap();
    for credential in [from_keytab, from_cache] {
        assert_eq!(credential.principal(), "alice@TEST.LOCAL");
        let lifetime = credential.lifetime().unwrap();
        assert!((3000..=3600).contains(&lifetime.as_secs()), "{lifetime:?}");
        let exact = ServerPrincipal::Exact("rm/localhost@TEST.LOCAL".to_owned());
        let pattern = ServerPrincipal::Pattern("rm/*@TEST.LOCAL".to_owned());
        for qop in [Qop::Authentication, Qop::Integrity, Qop::Privacy] {
            exchange(&library, &credential, exact.clone(), qop);
        }
        exchange(&library, &credential, pattern, Qop::Privacy);
    }
    // Each on a runtime of its own: tasks are counted.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(logins(&library, folder));
    runtime().block_on(renewal(&library, folder));
    runtime().block_on(renewals_that_nobody_waits_for(folder));
    runtime().block_on(another_users_tickets(folder));
    println!("below a KDC: done");
}

fn a_keytabs_tickets_go_with_whoever_uses_them(library: &Library, credential: Credential) {
    let cache = CredentialSource::TicketCache(credential.0.raw.cache());
    assert!(cache.to_string().contains("MEMORY:hadoop-"), "{cache}");
    let target = GssTarget::Service { service: "rm".to_owned(), host: "localhost".to_owned() };
    let mut context = credential.context(&target).unwrap();
    let other = credential.clone();
    drop(credential);
    assert_eq!(library.credential(&cache).unwrap().principal(), "alice@TEST.LOCAL");
    drop(other);
    // The context has it yet.
    assert!(!context.step(&[]).unwrap().0.is_empty());
    assert!(library.credential(&cache).is_ok());
    drop(context);
    let gone = library.credential(&cache).unwrap_err();
    assert!(matches!(gone, GssError::Credential { .. }), "{gone}");
}

/// Users from a keytab and from the ticket cache, their renewal, and calls over real connections.
async fn logins(library: &Library, folder: &Path) {
    let mut conf = Configuration::with_defaults();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("hadoop.rpc.protection", "privacy,integrity,authentication");
    conf.set("yarn.resourcemanager.principal", "rm/_HOST@TEST.LOCAL");
    let keytab = folder.join("alice.keytab");
    let from_keytab = Login::from_keytab(&conf, "alice@TEST.LOCAL", &keytab).await.unwrap();
    let from_cache = Login::current(&conf).await.unwrap();
    for login in [from_keytab, from_cache] {
        assert_eq!((login.user(), login.short_name()), ("alice@TEST.LOCAL", "alice"));
        let due = || login.renew_in().unwrap().as_secs();
        assert!((2400..=2880).contains(&due()), "{}", due());
        login.renew().await.unwrap();
        assert!((2400..=2880).contains(&due()), "{}", due());
        for mask in [7, 3, 1] {
            let library = library.clone();
            let accept: Arc<dyn Fn() -> Box<dyn GssContext> + Send + Sync> =
                Arc::new(move || Box::new(raw::Context::acceptor(&library)));
            let server = Server::start(ServerAuth::Kerberos { accept, mask }, Does::Echo).await;
            let target =
                login.target(Service::ResourceManager, "localhost", server.port).await.unwrap();
            let client = Client::new(Options::default());
            for text in ["short".to_owned(), "long".repeat(50_000)] {
                assert_eq!(echo(&client, &target, &text).await.unwrap(), text);
            }
            let proxied = login.proxy("bob");
            let target =
                proxied.target(Service::ResourceManager, "localhost", server.port).await.unwrap();
            assert_eq!(echo(&client, &target, "for bob").await.unwrap(), "for bob");
        }
    }
}

/// Tickets that last for five seconds, and that nobody renews but the library.
async fn renewal(library: &Library, folder: &Path) {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut conf = Configuration::with_defaults();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("hadoop.kerberos.min.seconds.before.relogin", "0");
    conf.set("yarn.resourcemanager.principal", "rm/_HOST@TEST.LOCAL");
    let keytab = folder.join("brief.keytab");
    let login = Login::from_keytab(&conf, "brief@TEST.LOCAL", &keytab).await.unwrap();
    assert_eq!(tasks(), before + 1);
    let library = library.clone();
    let accept: Arc<dyn Fn() -> Box<dyn GssContext> + Send + Sync> =
        Arc::new(move || Box::new(raw::Context::acceptor(&library)));
    let server = Server::start(ServerAuth::Kerberos { accept, mask: 1 }, Does::Echo).await;
    let target = login.target(Service::ResourceManager, "localhost", server.port).await.unwrap();
    let (began, mut due, mut renewals) = (tokio::time::Instant::now(), login.renew_in(), 0);
    // The first tickets, and those that follow them, have run out by then.
    while began.elapsed() < Duration::from_secs(11) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = login.renew_in();
        renewals += usize::from(now > due);
        due = now;
        let client = Client::new(Options { kerberos_retries: 0, ..Options::default() });
        assert_eq!(echo(&client, &target, "fresh").await.unwrap(), "fresh");
    }
    assert!((2..=4).contains(&renewals), "{renewals}");
    drop((login, target, server));
    // The task of the login ends with its last handle; those of the server and its connections stay.
    let ended = async {
        while tasks() > before + 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}

/// Tickets that are old and good serve while newer ones are got, and whoever goes breaks nothing off.
async fn renewals_that_nobody_waits_for(folder: &Path) {
    let (kinit, goes) = (folder.join("slow-kinit"), folder.join("goes"));
    assert!(Command::new("mkfifo").arg(&goes).status().unwrap().success());
    let script = format!("#!/bin/sh\nread go < {} && exec kinit \"$@\"\n", goes.display());
    std::fs::write(&kinit, script).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&kinit).status().unwrap().success());
    // Open for both, a pipe without a reader does not block.
    let mut goes = std::fs::File::options().read(true).write(true).open(goes).unwrap();
    let mut conf = Configuration::with_defaults();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("hadoop.kerberos.min.seconds.before.relogin", "0");
    conf.set("hadoop.kerberos.kinit.command", kinit.to_str().unwrap());
    conf.set("yarn.resourcemanager.principal", "rm/_HOST@TEST.LOCAL");
    let login = Login::current(&conf).await.unwrap();
    let user = initiator(&login).await;
    let (soon, late) = (Duration::from_millis(100), Duration::from_secs(20));
    for need in [Need::Connection, Need::Refusal] {
        login.age(Duration::from_secs(3000));
        assert_eq!(login.renew_in(), Some(Duration::ZERO));
        match need {
            Need::Connection => tokio::time::timeout(late, user.refresh(need)).await.unwrap(),
            // This one waits for newer tickets, and is given up.
            Need::Refusal => {
                tokio::time::timeout(soon, user.refresh(need)).await.unwrap_err();
            }
        }
        assert_eq!(login.renew_in(), Some(Duration::ZERO));
        goes.write_all(b"go\n").unwrap();
        let renewed = async {
            while login.renew_in() == Some(Duration::ZERO) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(late, renewed).await.unwrap();
    }
}

async fn initiator(login: &Login) -> Arc<dyn Initiator> {
    let target = login.target(Service::ResourceManager, "localhost", 1).await.unwrap();
    let crate::client::Auth::Sasl(config) = target.auth else { panic!("{target:?}") };
    config.kerberos.unwrap().initiator
}

/// Somebody else logs in to the ticket cache.
async fn another_users_tickets(folder: &Path) {
    let mut conf = Configuration::with_defaults();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("yarn.resourcemanager.principal", "rm/_HOST@TEST.LOCAL");
    let login = Login::current(&conf).await.unwrap();
    let keytab = folder.join("carol.keytab");
    let mut kinit = Command::new("kinit");
    let kinit = kinit.args(["-r", "1d", "-kt"]).arg(keytab).arg("carol").status();
    assert!(kinit.unwrap().success());
    let error = login.renew().await.unwrap_err();
    assert!(matches!(error, LoginError::OtherUser { .. }), "{error}");
    let expected =
        "now holds tickets of carol@TEST.LOCAL, this login was for alice@TEST.LOCAL; log in again";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert_eq!(initiator(&login).await.principal(), "alice@TEST.LOCAL");
}

/// A whole exchange with a server that is the library's own other half, then messages both ways.
fn exchange(library: &Library, credential: &Credential, server: ServerPrincipal, qop: Qop) {
    let kerberos = Kerberos { initiator: Arc::new(credential.clone()), server };
    let config = SaslConfig { kerberos: Some(kerberos), qops: vec![qop], ..SaslConfig::default() };
    let (mut client, _) = Negotiation::start(config, [0; 16]);
    let message = |state: SaslState, token: Option<Vec<u8>>, auths| SaslMessage {
        version: None,
        state: state.into(),
        token,
        auths,
    };
    let offer = SaslAuth {
        method: "KERBEROS".to_owned(),
        mechanism: "GSSAPI".to_owned(),
        protocol: Some("rm".to_owned()),
        server_id: Some("localhost".to_owned()),
        challenge: None,
    };
    let mut server = raw::Context::acceptor(library);
    let mut established = false;
    let mut chosen = None;
    let mut said = message(SaslState::Negotiate, None, vec![offer]);
    let outcome = loop {
        match client.receive(said).unwrap() {
            Step::Done(_, outcome) => break outcome,
            Step::Send(answer) if !established => {
                let (token, complete) = server.step(&answer.token.unwrap()).unwrap();
                established = complete;
                said = message(SaslState::Challenge, Some(token), vec![]);
            }
            // The client's empty word after the context stands; then its choice.
            Step::Send(answer) if answer.token.as_deref() == Some(&[]) => {
                let offer = server.wrap(false, &[7, 0, 255, 255]).unwrap();
                said = message(SaslState::Challenge, Some(offer), vec![]);
            }
            Step::Send(answer) => {
                let plain = server.unwrap(&answer.token.unwrap()).unwrap().plain;
                chosen = plain.first().copied();
                said = message(SaslState::Success, None, vec![]);
            }
        }
    };
    assert_eq!((outcome.method, outcome.qop), (AuthMethod::Kerberos, qop));
    let Some(mut layer) = outcome.layer else {
        assert_eq!(chosen, Some(1));
        return;
    };
    let encrypted = qop == Qop::Privacy;
    assert_eq!(chosen, Some(if encrypted { 4 } else { 2 }));
    assert!((60_000..65_535).contains(&layer.plain_max()));
    let text = vec![7; layer.plain_max()];
    let wrapped = layer.wrap(&text).unwrap();
    assert!(wrapped.len() <= 65_535);
    assert_eq!(wrapped.windows(32).any(|part| part == [7; 32]), !encrypted);
    let opened = server.unwrap(&wrapped).unwrap();
    assert_eq!((opened.plain, opened.encrypted), (text, encrypted));
    let wrapped = server.wrap(encrypted, b"answer").unwrap();
    assert_eq!(layer.unwrap(&wrapped).unwrap(), b"answer");
    assert!(layer.unwrap(&wrapped).is_err(), "a repeated message was taken");
    unwrapping_leaves_the_message_as_it_came(
        &server.wrap(encrypted, b"rotated").unwrap(),
        |wrapped| {
            assert_eq!(layer.unwrap(wrapped).unwrap(), b"rotated");
        },
    );
    let mut changed = server.wrap(encrypted, b"answer").unwrap();
    *changed.last_mut().unwrap() ^= 1;
    assert!(layer.unwrap(&changed).is_err(), "a changed message was taken");
}

/// Java rotates what it signs (RFC 4121, 4.2.5), and MIT's library turns it back in the memory that it is given.
fn unwrapping_leaves_the_message_as_it_came(wrapped: &[u8], mut unwrap: impl FnMut(&[u8])) {
    let mut rotated = wrapped.to_vec();
    assert_eq!(rotated[6..8], [0, 0], "the library rotates by itself");
    rotated[7] = 12;
    rotated[16..].rotate_right(12);
    let came = rotated.clone();
    unwrap(&rotated);
    assert_eq!(rotated, came);
}
