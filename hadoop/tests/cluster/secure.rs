//! Kerberos, protected RPC, and tokens that are renewed. It needs the cluster of `cargo xtask yarn up --secure`.

use super::examples::{ended, example};
use super::{conf, yarn};
use hadoop::client::{Auth, Client, Options};
use hadoop::hdfs::HdfsTokens;
use hadoop::login::{Login, Service};
use hadoop::rpc::{CallError, ConnectionError};
use hadoop::tokens::{Credentials, Token};
use hadoop::yarn::messages::{
    ApplicationSubmissionContext, ContainerLaunchContext, GetClusterMetricsRequest,
    GetClusterMetricsResponse,
};
use hadoop::yarn::{YarnClient, YarnError, renewer, resource_managers};
use std::path::PathBuf;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

async fn alice() -> Login {
    let login = Login::current(&conf()).await.unwrap();
    assert!(login.is_secure(), "this needs a cluster of --secure");
    assert_eq!((login.user(), login.short_name()), ("alice@TEST.LOCAL", "alice"));
    login
}

async fn by(login: Login) -> YarnClient {
    YarnClient::new(&conf(), login).await.unwrap().with_deadline(SOON)
}

/// Somebody who has this token and nothing else.
fn bearer(token: &Token) -> Login {
    let mut credentials = Credentials::new();
    credentials.add("token", token.clone());
    Login::simple(&conf(), "anybody", credentials).unwrap()
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn nobody_gets_in_without_proof() {
    let login = alice().await;
    let nobody = Login::simple(&conf(), "alice", Credentials::new()).unwrap();
    let error = by(nobody).await.nodes(&[]).await.unwrap_err();
    assert!(error.to_string().contains("KERBEROS"), "{error}");

    let mut heard = 0;
    for rm in resource_managers(&conf(), Service::ResourceManager).unwrap() {
        let mut target = login.target(Service::ResourceManager, &rm.host, rm.port).await.unwrap();
        target.auth = Auth::Simple;
        let called = Client::new(Options::default())
            .call::<_, GetClusterMetricsResponse>(
                &target,
                "getClusterMetrics",
                &GetClusterMetricsRequest {},
                SOON,
            )
            .await;
        let error = called.unwrap_err();
        // One that only stands by does not listen for clients.
        if let CallError::Connection { error: ConnectionError::Connect { .. }, .. } = error {
            continue;
        }
        let error = YarnError::from(error);
        assert!(error.is_remote("AccessControlException"), "{error:?}");
        assert!(error.to_string().contains("SIMPLE authentication is not enabled"), "{error}");
        heard += 1;
    }
    assert_eq!(heard, 1);
}

/// The servers refuse connections without encryption; the answers that the tests above read were therefore encrypted.
#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn servers_insist_on_privacy_for_tickets_and_for_tokens() {
    let token = yarn().await.delegation_token("alice").await.unwrap();
    let mut conf = conf();
    assert_eq!(conf.get("hadoop.rpc.protection").unwrap().as_deref(), Some("privacy"));
    conf.set("hadoop.rpc.protection", "authentication");
    let mut credentials = Credentials::new();
    credentials.add("token", token);
    let weak_token = Login::simple(&conf, "anybody", credentials).unwrap();
    let weak_tickets = Login::current(&conf).await.unwrap();
    for login in [weak_token, weak_tickets] {
        let yarn = YarnClient::new(&conf, login).await.unwrap().with_deadline(SOON);
        let error = yarn.nodes(&[]).await.unwrap_err();
        let told = error.to_string();
        assert!(told.contains("protection") || told.contains("qop"), "{told}");
    }
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn a_keytab_gives_tickets_again_and_again() {
    let keytab = PathBuf::from(std::env::var_os("KRB5KEYTAB").unwrap());
    let login = Login::from_keytab(&conf(), "alice@TEST.LOCAL", &keytab).await.unwrap();
    assert_eq!(login.keytab(), Some(("alice@TEST.LOCAL", keytab.as_path())));
    let most = Duration::from_secs(3600);
    for _ in 0..3 {
        assert!(login.renew_in().is_some_and(|after| after < most && !after.is_zero()));
        assert!(!by(login.clone()).await.nodes(&[]).await.unwrap().is_empty());
        login.renew().await.unwrap();
    }
    let nobody = Login::from_keytab(&conf(), "bob@TEST.LOCAL", &keytab).await.unwrap_err();
    assert!(nobody.to_string().contains("bob@TEST.LOCAL"), "{nobody}");
}

/// Its principal is `rm/_HOST`, and the host has a name.
#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn a_server_whose_address_is_configured_is_known_by_its_name() {
    let (login, mut conf) = (alice().await, conf());
    conf.set("yarn.resourcemanager.principal", "rm/_HOST@TEST.LOCAL");
    for rm in resource_managers(&conf, Service::ResourceManager).unwrap() {
        let id = rm.id.map(|id| format!(".{id}")).unwrap_or_default();
        let address = format!("127.0.0.1:{}", rm.port);
        conf.set(&format!("yarn.resourcemanager.address{id}"), address);
    }
    let yarn = YarnClient::new(&conf, login).await.unwrap().with_deadline(SOON);
    assert!(!yarn.nodes(&[]).await.unwrap().is_empty());
    assert_eq!(renewer(&conf).await.unwrap(), "rm/localhost@TEST.LOCAL");
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn one_user_acts_for_another_who_may_not() {
    let bob = by(alice().await.proxy("bob")).await;
    let (id, _) = bob.new_application().await.unwrap();
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        unmanaged_am: Some(true),
        am_container_spec: Some(ContainerLaunchContext::default()),
        resource: Some(super::size(64)),
        ..ApplicationSubmissionContext::default()
    };
    bob.submit(context).await.unwrap();
    assert_eq!(bob.report(id).await.unwrap().user(), "bob");
    bob.kill(id, None).await.unwrap();
    // By a token of his own, not for others: bob has no tickets, and may act for nobody.
    let token = bob.delegation_token("bob").await.unwrap();
    let as_carol = bearer(&token).proxy("carol");
    assert!(by(as_carol).await.nodes(&[]).await.is_err());
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn tokens_of_yarn_and_hdfs_are_their_renewers_alone_and_end_when_cancelled() {
    let (conf, login, yarn) = (conf(), alice().await, yarn().await);
    let hdfs = HdfsTokens::new(&conf, &login, None).await.unwrap();
    let (of_yarn, of_hdfs) =
        (yarn.delegation_token("alice").await.unwrap(), hdfs.get("alice").await.unwrap());
    let first =
        (yarn.renew_delegation_token(&of_yarn).await.unwrap(), hdfs.renew(&of_hdfs).await.unwrap());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(yarn.renew_delegation_token(&of_yarn).await.unwrap() > first.0);
    assert!(hdfs.renew(&of_hdfs).await.unwrap() > first.1);

    // With the tokens one is known, but gets no others: that takes tickets.
    let by_token = by(bearer(&of_yarn)).await;
    assert!(!by_token.nodes(&[]).await.unwrap().is_empty());
    let error = by_token.delegation_token("alice").await.unwrap_err();
    assert!(error.to_string().contains("kerberos"), "{error}");
    let hdfs_by_token = HdfsTokens::new(&conf, &bearer(&of_hdfs), None).await.unwrap();
    let error = hdfs_by_token.get("alice").await.unwrap_err().to_string();
    assert!(error.contains("kerberos"), "{error}");

    // Whose renewer is the ResourceManager is not alice's to renew.
    let managers = renewer(&conf).await.unwrap();
    assert_eq!(managers, "rm/localhost@TEST.LOCAL");
    let others = yarn.delegation_token(&managers).await.unwrap();
    let error = yarn.renew_delegation_token(&others).await.unwrap_err().to_string();
    assert!(error.contains("AccessControlException"), "{error}");
    let error = hdfs.renew(&hdfs.get(&managers).await.unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("AccessControlException"), "{error}");

    yarn.cancel_delegation_token(&of_yarn).await.unwrap();
    hdfs.cancel(&of_hdfs).await.unwrap();
    let error = by(bearer(&of_yarn)).await.nodes(&[]).await.unwrap_err();
    assert!(error.is_remote("InvalidToken"), "{error:?}");
    let late = HdfsTokens::new(&conf, &bearer(&of_hdfs), None).await.unwrap();
    let error = late.get("alice").await.unwrap_err().to_string();
    assert!(error.contains("InvalidToken"), "{error}");
}

/// Tokens live for twenty seconds unless somebody renews them: the ApplicationMaster, which has no tickets,
/// removes the files with one at the end.
#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --secure`, named by HADOOP_CONF_DIR"]
async fn the_tokens_of_an_application_are_renewed_while_it_runs() {
    let renewed = || {
        let logs = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap()).join("../logs");
        let managers = ["resourcemanager", "resourcemanager1", "resourcemanager2"];
        let logs = managers.map(|name| logs.join(format!("{name}.log")));
        let logs: String =
            logs.iter().map(|log| std::fs::read_to_string(log).unwrap_or_default()).collect();
        logs.lines().filter(|line| line.contains("Renewed delegation-token")).count()
    };
    let before = renewed();
    let (ok, said) = ended(example("distributed-shell").args(["--command", "sleep 25"]));
    assert!(ok && said.contains("Finished\tSucceeded\t2 succeeded"), "{said}");
    assert!(!said.contains("its files are removed"), "the client had to: {said}");
    // Two tokens: at the submission, and before each twenty seconds were over.
    assert!(renewed() >= before + 4, "{} renewals", renewed() - before);
}
