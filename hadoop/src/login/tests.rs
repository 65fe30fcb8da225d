use super::*;
use crate::conf::tests::with_properties as conf;
use crate::tokens::kinds;

fn token(kind: &str, service: &str) -> Token {
    Token::new(service.as_bytes().to_vec(), b"hunter2".to_vec(), kind, service)
}
fn with(tokens: &[(&str, &str)]) -> Credentials {
    let mut credentials = Credentials::new();
    for (i, (kind, service)) in tokens.iter().enumerate() {
        credentials.add(i.to_string(), token(kind, service));
    }
    credentials
}
fn sasl(target: &Target) -> &SaslConfig {
    match &target.auth {
        Auth::Sasl(config) => config,
        Auth::Simple => panic!("{target:?}"),
    }
}

#[tokio::test]
async fn without_security_and_tokens_nothing_is_proven() {
    let login = Login::simple(&conf(&[]), "alice", Credentials::new()).unwrap();
    let target = login.target(Service::ResourceManager, "localhost", 8032).await.unwrap();
    assert!(matches!(target.auth, Auth::Simple));
    assert_eq!(target.user, UserInformation { effective: Some("alice".to_owned()), real: None });
    assert_eq!(target.protocol.name, "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB");
    let proxied = login.proxy("bob");
    let target = proxied.target(Service::ResourceManager, "localhost", 8032).await.unwrap();
    let expected =
        UserInformation { effective: Some("bob".to_owned()), real: Some("alice".to_owned()) };
    assert_eq!(target.user, expected);
    assert_eq!(proxied.renew_in(), None);
    proxied.renew().await.unwrap();
}

#[tokio::test]
async fn the_right_token_is_taken_and_simple_is_refused_then() {
    let tokens = [
        (kinds::AM_RM, ""),
        (kinds::RM_DELEGATION, "127.0.0.9:8032"),
        (kinds::RM_DELEGATION, "127.0.0.8:8032,127.0.0.1:8032"),
        (kinds::HDFS_DELEGATION, "localhost:8020"),
    ];
    let login = Login::simple(&conf(&[]), "alice", with(&tokens)).unwrap();
    let chosen = async |service, host: &str, port| {
        let target = login.target(service, host, port).await.unwrap();
        match target.auth {
            Auth::Simple => None,
            Auth::Sasl(config) => {
                assert_eq!(config.simple, SimpleFallback::Refuse);
                config.token.map(|token| token.service().to_owned())
            }
        }
    };
    assert_eq!(chosen(Service::Scheduler, "localhost", 8030).await.as_deref(), Some(""));
    let rm = chosen(Service::ResourceManager, "127.0.0.1", 8032).await;
    assert_eq!(rm.as_deref(), Some("127.0.0.8:8032,127.0.0.1:8032"));
    assert_eq!(chosen(Service::ResourceManager, "127.0.0.7", 8032).await, None);
    assert_eq!(
        chosen(Service::NameNode, "LOCALHOST", 8020).await.as_deref(),
        Some("localhost:8020")
    );
    assert_eq!(chosen(Service::NodeManager, "localhost", 1).await, None);
}

#[tokio::test]
async fn security_settings_come_from_the_configuration() {
    let secure = conf(&[
        ("hadoop.security.authentication", "Kerberos"),
        ("hadoop.rpc.protection", "privacy,integrity"),
        ("yarn.resourcemanager.principal", "rm/_HOST@EXAMPLE.ORG"),
        ("dfs.namenode.kerberos.principal.pattern", "nn/*"),
        ("dfs.namenode.kerberos.principal", "nn/_HOST@EXAMPLE.ORG"),
    ]);
    let login = Login::simple(&secure, "alice", with(&[(kinds::AM_RM, "")])).unwrap();
    assert!(login.is_secure());
    let target = login.target(Service::Scheduler, "RM.example.org", 1).await.unwrap();
    assert_eq!(sasl(&target).qops, [Qop::Privacy, Qop::Integrity]);
    assert!(sasl(&target).kerberos.is_none());
    // No token and no tickets: SASL all the same, so that the server's refusal is heard.
    let target = login.target(Service::ResourceManager, "RM.example.org", 1).await.unwrap();
    assert_eq!(
        (sasl(&target).token.is_none(), sasl(&target).simple),
        (true, SimpleFallback::Refuse)
    );
    let exact = |name: &str| Some(ServerPrincipal::Exact(name.to_owned()));
    assert_eq!(
        login.principal(Service::Scheduler, "RM.example.org").await,
        exact("rm/rm.example.org@EXAMPLE.ORG")
    );
    assert_eq!(
        login.principal(Service::NameNode, "x").await,
        Some(ServerPrincipal::Pattern("nn/*".to_owned()))
    );
    assert_eq!(login.principal(Service::NodeManager, "x").await, None);

    let mut allowed = secure.clone();
    allowed.set("ipc.client.fallback-to-simple-auth-allowed", "true");
    let login = Login::simple(&allowed, "alice", Credentials::new()).unwrap();
    let target = login.target(Service::ResourceManager, "h", 1).await.unwrap();
    assert_eq!(sasl(&target).simple, SimpleFallback::Allow);

    for (name, value) in
        [("hadoop.security.authentication", "tls"), ("hadoop.rpc.protection", "auth")]
    {
        let wrong = Login::simple(&conf(&[(name, value)]), "alice", Credentials::new());
        assert!(wrong.unwrap_err().to_string().contains(name));
    }
}

#[tokio::test]
async fn a_missing_keytab_is_named() {
    let error =
        Login::from_keytab(&conf(&[]), "alice@R", Path::new("/absent/k")).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("/absent/k") || said.contains("GSSAPI"), "{said}");
}

#[test]
fn names_are_cut_and_filled_in() {
    let login = |user: &str| Login::simple(&conf(&[]), user, Credentials::new()).unwrap();
    assert_eq!(login("alice/host@R").short_name(), "alice");
    assert_eq!(login("alice").short_name(), "alice");
    assert_eq!(with_host("rm/_HOST@R", "H.x"), "rm/h.x@R");
    assert_eq!(with_host("rm/_HOST", "h"), "rm/h");
    assert_eq!(with_host("rm/_HOSTS@R", "h"), "rm/_HOSTS@R");
    assert_eq!(with_host("rm/h@R", "x"), "rm/h@R");
    let mut named = conf(&[]);
    named.set_environment("HADOOP_USER_NAME", "carol");
    assert_eq!(user_name(&named).unwrap(), "carol");
    assert!(!user_name(&conf(&[])).unwrap().is_empty());
}

#[tokio::test]
async fn hosts_of_principals_are_looked_up_where_only_their_addresses_are_known() {
    assert_eq!(canonical("RM.example.org").await.as_deref(), Some("RM.example.org"));
    assert_eq!(canonical("127.0.0.1").await.as_deref(), Some("localhost"));
    // Nobody has this one: it is for documentation.
    assert_eq!(canonical("192.0.2.1").await, None);
    let principal = ("yarn.resourcemanager.principal", "rm/_HOST@EXAMPLE.ORG");
    let login = Login::simple(&conf(&[principal]), "alice", Credentials::new()).unwrap();
    assert_eq!(
        login.principal(Service::ResourceManager, "127.0.0.1").await,
        Some(ServerPrincipal::Exact("rm/localhost@EXAMPLE.ORG".to_owned()))
    );
    assert_eq!(
        login.principal(Service::ResourceManager, "192.0.2.1").await,
        Some(ServerPrincipal::Exact("rm/192.0.2.1@EXAMPLE.ORG".to_owned()))
    );
    // Where the host plays no part nothing is looked up.
    assert_eq!(with_named_host("rm/one@R", "192.0.2.1").await.as_deref(), Some("rm/one@R"));
}

#[test]
fn newer_tickets_are_those_that_last_longer() {
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
    let longer = |read, held| renewal::lasts_longer(read, held, Duration::from_secs(8 * 3600));
    // What the cache had before, rounded; what somebody else has put there; what has run out.
    assert!(!longer(hours(2), hours(10)));
    assert!(!longer(Some(Duration::from_secs(2 * 3600 + 1)), hours(10)));
    assert!(longer(hours(10), hours(10)));
    assert!(longer(hours(1), hours(8)));
    assert!(!longer(hours(0), hours(8)));
    assert!(longer(None, hours(8)) && !longer(hours(10), None) && !longer(None, None));
}

#[test]
fn tickets_are_renewed_when_they_are_old_or_refused_and_not_twice_at_once() {
    use crate::gssapi::Need::{Connection, Refusal};
    let (seconds, minute) = (Duration::from_secs, Duration::from_secs(60));
    let ages = |age: u64, tried: Option<u64>| renewal::Ages {
        lifetime: Some(seconds(1000)),
        age: seconds(age),
        tried: tried.map(seconds),
    };
    // (age, last try) => (on a connection, on a refusal, what the task waits)
    for (age, tried, on_connection, on_refusal, wait) in [
        (0, None, false, true, 800),
        (799, None, false, true, 1),
        (800, None, true, true, 0),
        (2000, None, true, true, 0),
        (800, Some(59), false, false, 1),
        (800, Some(60), true, true, 0),
        (10, Some(10), false, false, 790),
        (790, Some(30), false, false, 30),
    ] {
        let ages = ages(age, tried);
        let due = (ages.is_due(Connection, minute), ages.is_due(Refusal, minute));
        assert_eq!(due, (on_connection, on_refusal), "{ages:?}");
        assert_eq!(ages.due_in(minute), Some(seconds(wait)), "{ages:?}");
    }
    let waits = |age| (ages(age, None).waits(Connection), ages(age, None).waits(Refusal));
    assert_eq!((waits(999), waits(1000)), ((false, true), (true, true)));
    let lasting = renewal::Ages { lifetime: None, ..ages(5000, None) };
    assert_eq!((lasting.due_in(minute), lasting.is_due(Connection, minute)), (None, false));
    assert!(lasting.is_due(Refusal, minute) && !lasting.waits(Connection));
}

#[tokio::test]
async fn debug_shows_no_secret() {
    let login = Login::simple(&conf(&[]), "alice", with(&[(kinds::AM_RM, "s")])).unwrap();
    let target = login
        .target_with(Service::Scheduler, "h", 1, Some(token(kinds::AM_RM, "s")))
        .await
        .unwrap();
    for shown in [format!("{login:?}"), format!("{target:?}")] {
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
    }
}
