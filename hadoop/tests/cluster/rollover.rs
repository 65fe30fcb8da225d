//! The scheduler's tokens, replaced while an ApplicationMaster runs: ResourceManagers make new keys for them, and
//! those made with keys before the last two are worth nothing.

use super::master::{Running, command};
use super::security::register;
use super::settings::Settings;
use super::{Daemon, conf, size};
use hadoop::login::Login;
use hadoop::tokens::{Credentials, Token};
use hadoop::yarn::{Ask, ContainerExit, MasterEvent};

const MANAGER: &str = "resourcemanager";

/// A new key each 13 s, in use 6 s later: the least that ResourceManagers take is more than three times the first of
/// these, and one and a half of it is the delay.
const OFTEN: &[(&str, &str)] = &[
    ("yarn.am.liveness-monitor.expiry-interval-ms", "4000"),
    ("yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs", "13"),
    // It must be heard of within those four seconds after a restart.
    ("yarn.resourcemanager.connect.retry-interval.ms", "200"),
];

async fn replaced(master: &mut Running) -> Token {
    loop {
        match master.event().await {
            MasterEvent::TokenReplaced(token) => return token,
            MasterEvent::Shutdown => panic!("told to end"),
            _ => {}
        }
    }
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR, for itself"]
async fn an_application_master_lives_on_by_the_tokens_that_replace_its_own() {
    let settings = Settings::of([MANAGER.to_owned()]);
    settings.set(OFTEN);
    let mut master = Running::register().await;
    let first = master.application.token.clone();
    let second = replaced(&mut master).await;
    let third = replaced(&mut master).await;
    assert_eq!((second.kind(), third.kind()), (first.kind(), first.kind()));
    assert!(first.identifier() != second.identifier() && second.identifier() != third.identifier());

    // The third key is there, so the first one is not.
    let mut credentials = Credentials::new();
    credentials.add("master", first);
    let late = Login::simple(&conf(), "anybody", credentials).unwrap();
    let error = register(&late).await.unwrap_err();
    assert!(error.is_remote("InvalidToken"), "{error:?}");

    // Nobody is connected any more: only a token that is worth something opens the next ResourceManager.
    // The ApplicationMaster goes on meanwhile: it has four seconds, and the start ends with the last NodeManager's
    // return.
    tokio::task::spawn_blocking(|| drop(Daemon::kill(MANAGER))).await.unwrap();
    while !matches!(master.event().await, MasterEvent::Registered(_)) {}
    let container = master.allocated(Ask::new(1, size(64))).await;
    master.start(&container, command("true")).await;
    let (exit, diagnostics) = master.end_of(container.id.unwrap()).await;
    assert_eq!(exit, ContainerExit::Success, "{diagnostics}");
    master.finish().await;
    drop(settings);
}
