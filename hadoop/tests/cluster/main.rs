//! Against real daemons: the examples as users run them, with Hadoop's own commands as witnesses; an
//! application's life from submission to end; and what may go wrong with it. `cargo xtask test` runs all of it.
//! By hand it needs a cluster of its own:
//!
//! ```text
//! cargo build -p hadoop --examples
//! eval "$(cargo xtask yarn up | tail -1)"
//! cargo test -p hadoop --test cluster -- --ignored --test-threads 1 --skip secure:: --skip failover::
//! cargo xtask yarn down
//! eval "$(cargo xtask yarn up --secure --ha | tail -1)"
//! cargo test -p hadoop --test cluster -- --ignored --test-threads 1 secure:: failover:: examples::
//! cargo xtask yarn down
//! ```

#![cfg(test)]

mod client;
mod examples;
mod failover;
mod faults;
mod labels;
mod master;
mod preemption;
mod rollover;
mod secure;
mod security;
#[path = "../shared/settings.rs"]
mod settings;
mod shell;

use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::tokens::{Credentials, Token};
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationSubmissionContext, ContainerLaunchContext, Resource,
    YarnApplicationState,
};
use std::path::PathBuf;
use std::time::Duration;

/// The configuration of the cluster that `HADOOP_CONF_DIR` names.
fn conf() -> Configuration {
    let conf = Configuration::load().unwrap();
    assert!(!conf.sources().is_empty(), "HADOOP_CONF_DIR names no cluster");
    conf
}

async fn yarn() -> YarnClient {
    let conf = conf();
    let login = Login::current(&conf).await.unwrap();
    YarnClient::new(&conf, login).await.unwrap().with_deadline(Duration::from_secs(30))
}

/// One of Hadoop's own commands for this cluster.
fn hadoops_own(name: &str) -> std::process::Command {
    let conf = std::env::var_os("HADOOP_CONF_DIR").expect("HADOOP_CONF_DIR");
    std::process::Command::new(PathBuf::from(conf).join("../bin").join(name))
}

/// Asks until there is an answer; fails when there is none for long.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let late = format!("{what} within two minutes");
    tokio::time::timeout(Duration::from_secs(120), asked).await.expect(&late)
}

/// A daemon of the cluster that is dead. It is started again when this is dropped, and then ready.
struct Daemon(String);

impl Daemon {
    fn kill(name: &str) -> Self {
        Self::tell("kill", name);
        Self(name.to_owned())
    }

    fn tell(what: &str, name: &str) {
        let told = hadoops_own("daemon").args([what, name]).output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        Self::tell("start", &self.0);
    }
}

fn size(memory: i64) -> Resource {
    Resource { memory: Some(memory), virtual_cores: Some(1), ..Resource::default() }
}

/// An application whose ApplicationMaster is this process.
struct Unmanaged {
    yarn: YarnClient,
    id: ApplicationId,
    token: Token,
}

impl Unmanaged {
    async fn submit() -> Self {
        Self::submit_to("default").await
    }

    async fn submit_to(queue: &str) -> Self {
        let (conf, login) = (conf(), Login::current(&conf()).await.unwrap());
        // ResourceManagers give the token to the user who submitted, whom they know without realm, and with
        // Kerberos whoever asks has one - unless somebody acts for a user, be it for oneself.
        let login = if login.is_secure() { login.proxy(login.short_name()) } else { login };
        let yarn = YarnClient::new(&conf, login).await.unwrap();
        let yarn = yarn.with_deadline(Duration::from_secs(30));
        let (id, _) = yarn.new_application().await.unwrap();
        let context = ApplicationSubmissionContext {
            application_id: Some(id),
            application_name: Some("unmanaged".to_owned()),
            queue: Some(queue.to_owned()),
            unmanaged_am: Some(true),
            max_app_attempts: Some(1),
            am_container_spec: Some(ContainerLaunchContext::default()),
            resource: Some(size(64)),
            ..ApplicationSubmissionContext::default()
        };
        yarn.submit(context).await.unwrap();
        // The token is there once the attempt is launched, which no state of the application tells.
        let token = loop {
            let report = yarn.report(id).await.unwrap();
            assert_eq!(report.state(), YarnApplicationState::Accepted);
            if let Some(token) = report.am_rm_token {
                break token.into();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        Self { yarn, id, token }
    }

    /// This process as the application's ApplicationMaster.
    fn login(&self) -> Login {
        let mut credentials = Credentials::new();
        credentials.add("master", self.token.clone());
        Login::simple(&conf(), "anybody", credentials).unwrap()
    }
}
