//! Tests that a client with a wrong identity, or with none, is refused at once.

use super::{Unmanaged, conf, size, yarn};
use hadoop::login::Login;
use hadoop::tokens::{Credentials, Token};
use hadoop::yarn::messages::{ApplicationId, NodeId};
use hadoop::yarn::{
    AmRmClient, AmRmOptions, Ask, MasterEvent, NmClient, Registration, YarnClient, YarnError,
};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

pub(super) async fn register(login: &Login) -> Result<(), YarnError> {
    let registration = Registration { rpc_port: -1, ..Registration::default() };
    let conf = conf();
    let registered = AmRmClient::register(&conf, login, registration, AmRmOptions::default());
    tokio::time::timeout(SOON, registered).await.expect("an answer soon").map(|_| ())
}

/// The same token with one bit of its password turned over.
fn broken(token: &Token) -> Token {
    let mut password = token.password().expose().to_vec();
    *password.last_mut().unwrap() ^= 1;
    Token::new(token.identifier().to_vec(), password, token.kind(), token.service())
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_wrong_password_and_no_token_are_refused_by_the_scheduler() {
    let application = Unmanaged::submit().await;
    let mut credentials = Credentials::new();
    credentials.add("master", broken(&application.token));
    let login = Login::simple(&conf(), "anybody", credentials).unwrap();
    let error = register(&login).await.unwrap_err();
    assert!(error.is_remote("SaslException"), "{error:?}");

    let nobody = Login::simple(&conf(), "anybody", Credentials::new()).unwrap();
    let error = register(&nobody).await.unwrap_err();
    assert!(error.is_remote("AccessControlException"), "{error:?}");

    register(&application.login()).await.unwrap();
    application.yarn.kill(application.id, None).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_wrong_password_and_a_wrong_container_token_are_refused_by_a_node() {
    let application = Unmanaged::submit().await;
    let (conf, login) = (conf(), application.login());
    let registration = Registration { rpc_port: -1, ..Registration::default() };
    let (yarn, mut events) =
        AmRmClient::register(&conf, &login, registration, AmRmOptions::default()).await.unwrap();
    yarn.request(Ask::new(1, size(64))).unwrap();
    let mut container = loop {
        if let MasterEvent::Allocated { container, .. } = events.next().await.unwrap().unwrap() {
            break *container;
        }
    };
    let node: NodeId = container.node_id.clone().unwrap();
    let token = yarn.nm_token(&node).unwrap();
    let nodes = NmClient::new(&conf, &login).unwrap();
    let wrong = broken(&token);
    let status = nodes.status(&node, &wrong, container.id.unwrap());
    let error = tokio::time::timeout(SOON, status).await.expect("an answer soon").unwrap_err();
    assert!(error.is_remote("SaslException"), "{error:?}");

    let mut forged = container.container_token.clone().unwrap();
    *forged.password.last_mut().unwrap() ^= 1;
    container.container_token = Some(forged);
    let start = nodes.start(&container, &token, Default::default());
    let error = tokio::time::timeout(SOON, start).await.expect("an answer soon").unwrap_err();
    assert!(error.is_remote("SecretManager$InvalidToken"), "{error:?}");
    application.yarn.kill(application.id, None).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_delegation_token_opens_the_resource_manager_until_it_is_cancelled() {
    let (conf, yarn) = (conf(), yarn().await);
    let user = Login::current(&conf).await.unwrap();
    let token = yarn.delegation_token(user.short_name()).await.unwrap();
    let address = conf.get("yarn.resourcemanager.address").unwrap().unwrap();
    let port = address.rsplit(':').next().unwrap();
    assert!(token.service().ends_with(&format!(":{port}")), "{token:?}");
    assert!(yarn.renew_delegation_token(&token).await.unwrap() > 0);

    let mut credentials = Credentials::new();
    credentials.add("manager", token.clone());
    let bearer = Login::simple(&conf, "anybody", credentials).unwrap();
    let by_token = YarnClient::new(&conf, bearer.clone()).await.unwrap().with_deadline(SOON);
    assert!(!by_token.nodes(&[]).await.unwrap().is_empty());

    yarn.cancel_delegation_token(&token).await.unwrap();
    let late = YarnClient::new(&conf, bearer).await.unwrap().with_deadline(SOON);
    let error = late.nodes(&[]).await.unwrap_err();
    assert!(error.is_remote("InvalidToken"), "{error:?}");
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn an_application_that_nobody_knows_is_no_report() {
    let yarn = yarn().await;
    let nobodys = ApplicationId { id: Some(9_999), cluster_timestamp: Some(1) };
    let error = yarn.report(nobodys).await.unwrap_err();
    assert!(error.is_remote("ApplicationNotFoundException"), "{error:?}");
}
