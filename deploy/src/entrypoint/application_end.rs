//! An application's last call to its ResourceManager, and the effect of its outcome on the JobManager's exit code.
//!
//! This module must never report success for an application that the external resource system may start again.

use crate::cli;
use crate::exit::Exit;
use gateways::leader_election::LeaderInformation;
use gateways::resource_manager::{DeregisterApplication, ResourceManagerGateway};
use gateways::{Remote, RpcService};
use model::{Fence, ResourceManagerId};
use platform::watch;
use std::time::Duration;

/// Additional time after `resourcemanager.deregister.timeout` in which the ResourceManager may report that it failed.
const SLACK: Duration = Duration::from_secs(5);

/// An application that has ended.
pub(super) struct ApplicationEnd {
    /// The leader of the ResourceManager.
    pub(super) leader: watch::Receiver<Option<LeaderInformation>>,
    /// The call that ends the application, with its final status.
    pub(super) goodbye: DeregisterApplication,
    /// Longest time for the deregistration (`resourcemanager.deregister.timeout`).
    pub(super) within: Duration,
    /// True if an external resource system runs the application and starts it again unless it is deregistered.
    pub(super) external: bool,
}

impl ApplicationEnd {
    /// Asks the ResourceManager to deregister the application and release its TaskManagers. Returns
    /// the exit code of the JobManager: `exit`, or [`Exit::Fatal`] if the external resource system
    /// may start the application again.
    pub(super) async fn deregister(self, rpc: &RpcService, exit: Exit) -> Exit {
        let external = self.external;
        let Err(error) = self.ask(rpc).await else {
            return exit;
        };
        if !external {
            tracing::warn!(error, "TaskManagers may not have heard that the application has ended");
            return exit;
        }
        let text =
            format!("the application may be started again, it could not be unregistered: {error}");
        tracing::error!("{text}");
        cli::complain(&text);
        Exit::Fatal
    }

    async fn ask(mut self, rpc: &RpcService) -> Result<(), String> {
        // TaskManagers that were started by hand notice the end by themselves, so without an external system nobody
        // waits for a leader.
        let wait = if self.external { self.within } else { Duration::ZERO };
        let known = tokio::time::timeout(wait, self.leader.wait_for(Option::is_some)).await;
        let leader = known.ok().and_then(Result::ok).and_then(|leader| leader.clone());
        let leader = leader.ok_or("no ResourceManager leads")?;
        let manager: Remote<ResourceManagerGateway> =
            rpc.gateway(&leader.address, ResourceManagerId::from_session(leader.session));
        let answer = manager.ask_within(self.goodbye, self.within.saturating_add(SLACK)).await;
        answer.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix::Actor;
    use gateways::resource_manager::*;
    use gateways::{Double, RpcOptions};
    use model::LeaderSession;
    use platform::Platform;

    /// Returns a ResourceManager that deregisters the application, or fails to.
    fn manager(fails: bool) -> Double {
        Double::of(()).on(move |_, _: DeregisterApplication| {
            let cause = "connection refused".to_owned();
            let error = DeregisterError { within_ms: 30_000, attempts: 7, cause };
            if fails { Err(error) } else { Ok(()) }
        })
    }

    /// The time at which the ResourceManager leads.
    #[derive(Clone, Copy, PartialEq)]
    enum Leads {
        Now,
        Later,
        Never,
    }

    async fn exit_of(external: bool, fails: bool, leads: Leads) -> Exit {
        let rpc = RpcService::start(Platform::production(), RpcOptions::in_process()).await;
        let rpc = rpc.expect("a service without a port starts");
        let session = LeaderSession::default();
        let endpoint = ResourceManagerGateway::endpoint(manager(fails).start());
        let _registration = rpc.serve("manager", ResourceManagerId(session), endpoint);
        let leader = LeaderInformation { session, address: rpc.address_of("manager") };
        let (sender, receiver) = watch::channel((leads == Leads::Now).then(|| leader.clone()));
        let status = ApplicationStatus::Succeeded;
        let end = ApplicationEnd {
            leader: receiver,
            goodbye: DeregisterApplication { status, diagnostics: None },
            within: Duration::from_secs(30),
            external,
        };
        let publish = async {
            tokio::task::yield_now().await;
            if leads == Leads::Later {
                sender.send_replace(Some(leader));
            }
        };
        let (exit, ()) = futures::join!(end.deregister(&rpc, Exit::Success), publish);
        exit
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn only_what_the_external_system_forgets_has_succeeded() {
        assert_eq!(exit_of(true, false, Leads::Now).await, Exit::Success);
        assert_eq!(exit_of(true, false, Leads::Later).await, Exit::Success);
        assert_eq!(exit_of(true, true, Leads::Now).await, Exit::Fatal);
        assert_eq!(exit_of(true, false, Leads::Never).await, Exit::Fatal);
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn without_an_external_system_the_exit_code_stays() {
        for leads in [Leads::Now, Leads::Later, Leads::Never] {
            assert_eq!(exit_of(false, true, leads).await, Exit::Success);
        }
    }
}
