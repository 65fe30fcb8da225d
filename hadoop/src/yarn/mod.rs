//! YARN: its messages; clients of ResourceManagers and NodeManagers; the ApplicationMaster's side.
//!
//! # How a YARN application lives
//!
//! 1. A client asks for an id and for the largest container there may be
//!    ([`YarnClient::new_application`]), checks its queue ([`YarnClient::check_queue`]) and its sizes, puts the
//!    program's files where nodes can read them (HDFS), and submits: a command, an environment, files with exact
//!    sizes and times, tokens ([`YarnClient::submit`]). [`YarnClient::watch`] reports what becomes of it. With
//!    Kerberos the tokens are those of HDFS ([`HdfsTokens`](crate::hdfs::HdfsTokens)) and YARN
//!    ([`YarnClient::delegation_token`]) for this user, with the ResourceManager as their [`renewer`]: an
//!    application's processes have no tickets, and nodes fetch its files with them.
//! 2. The ResourceManager grants one container and starts the ApplicationMaster in it. Its tokens are in the file
//!    that `HADOOP_TOKEN_FILE_LOCATION` names; one of them is for the scheduler, which takes nothing else.
//! 3. The ApplicationMaster registers ([`AmRmClient::register`]); the application is `Running` now. From then on
//!    its heart must beat. It asks for containers and gets them one by one, each with a token of its own and,
//!    with the first one on a node, a token for that node ([`AmRmClient::nm_token`]).
//! 4. It starts the containers on their nodes ([`NmClient::start`]), before their tokens expire. A node fetches the
//!    files first; that the container runs is known for certain only when the program in it says so.
//! 5. Containers end: by themselves, with their nodes, by preemption, because they were stopped. The
//!    ApplicationMaster hears of each once ([`MasterEvent::Completed`]) and asks for others if it wants.
//! 6. It says how all went ([`AmRmClient::finish`]); YARN stops what still runs, and collects logs.
//!
//! An *unmanaged* ApplicationMaster (`unmanaged_am` of the submission) is started by its user instead, anywhere: step 2
//! is to ask for the report until it has a token (`am_rm_token`, a moment after the state is `Accepted`), and to log in
//! with it. ResourceManagers give it to the user who submitted, by the short name: with Kerberos submit and ask as
//! [`Login::proxy`](crate::login::Login::proxy) of one's own short name.
//!
//! # States
//!
//! An application is [`New`](messages::YarnApplicationState), `NewSaving` and `Submitted` for moments, while it is
//! written down ([`YarnClient::submit`] waits for the end of that). It is `Accepted` while it waits for the
//! ApplicationMaster's container, or for that to register, and `Running` from then on. It ends as `Finished` when the
//! ApplicationMaster has said goodbye - with what result, the final status says: a `Finished` application may have
//! failed in its own words - or as `Failed` or `Killed`. When an attempt fails and another may follow
//! (`max_app_attempts`), the application is `Accepted` again until that registers.
//! [`YarnApplicationAttemptState`](messages::YarnApplicationAttemptState) has the finer steps of each attempt.
//!
//! A container that was granted is nothing but a promise until it is started; one that is not started in time
//! (`yarn.resourcemanager.rm.container-allocation.expiry-interval-ms`, ten minutes) ends as
//! [`ContainerExit::Aborted`]. On its node it is `Scheduled` while files are fetched, `Running`, `Completing` and
//! `Done` ([`ContainerSubState`](messages::ContainerSubState)); [`ContainerExit`] says how it ended.
//!
//! # What may go wrong
//!
//! On the way, and who deals with it:
//!
//! | what | who |
//! |---|---|
//! | the ResourceManager is restarted, or another one takes over | [`YarnClient`] and [`AmRmClient`] by themselves: they wait, register again, and say again what is wanted |
//! | the ApplicationMaster dies | YARN starts another attempt; with `keep_containers_across_application_attempts` it gets the containers and node tokens back ([`MasterEvent::Recovered`]) |
//! | the attempt is over, and its process lives on | [`MasterEvent::Shutdown`]; end the process |
//! | a node is lost | its containers end with [`ContainerExit::Aborted`]. Their processes may still run: fence them |
//! | a request can never be met | [`MasterEvent::Refused`] where YARN says so; a queue that is too small only waits |
//! | a container cannot be started | [`YarnError::Container`]; release it and ask for another |
//! | the scheduler's token is replaced | [`AmRmClient`] by itself |
//! | a node cannot be reached | [`NmClient`] tries again for three minutes (`yarn.client.nodemanager-connect.max-wait-ms`); whether the container was started may be unknown then: [`NmClient::status`] |
//! | Kerberos tickets grow old | [`Login`](crate::login::Login) by itself |
//! | a delegation token runs out | the ResourceManager renews those that an application was submitted with; at the end of their greatest life nobody can |
//!
//! # An ApplicationMaster
//!
//! ```no_run
//! use hadoop::conf::Configuration;
//! use hadoop::login::Login;
//! use hadoop::yarn::messages::{ContainerLaunchContext, FinalApplicationStatus, Resource};
//! use hadoop::yarn::{AmRmClient, AmRmOptions, Ask, Finish, MasterEvent, NmClient, Registration};
//!
//! # async fn master() -> Result<(), Box<dyn std::error::Error>> {
//! let conf = Configuration::load()?;
//! let login = Login::current(&conf).await?;
//! let registration = Registration { host: "here".into(), rpc_port: -1, tracking_url: String::new() };
//! let (yarn, mut events) =
//!     AmRmClient::register(&conf, &login, registration, AmRmOptions::default()).await?;
//! let nodes = NmClient::new(&conf, &login)?;
//! let size = Resource { memory: Some(256), virtual_cores: Some(1), ..Resource::default() };
//! yarn.request(Ask::new(1, size))?;
//! while let Some(event) = events.next().await? {
//!     match event {
//!         MasterEvent::Allocated { container, .. } => {
//!             let node = container.node_id.clone().unwrap_or_default();
//!             let Some(token) = yarn.nm_token(&node) else { continue };
//!             let launch = ContainerLaunchContext::of_command("date 1><LOG_DIR>/stdout");
//!             nodes.start(&container, &token, launch).await?;
//!         }
//!         MasterEvent::Completed { .. } => break,
//!         _ => {}
//!     }
//! }
//! let (status, diagnostics) = (FinalApplicationStatus::Succeeded, String::new());
//! yarn.finish(Finish { status, diagnostics, tracking_url: String::new() }).await?;
//! # Ok(()) }
//! ```

mod client;
mod error;
mod launch;
mod master;
pub mod messages;
mod node_manager;
mod resource_manager;
#[cfg(test)]
mod tests;
mod web;

pub use client::{Watch, YarnClient};
pub use error::YarnError;
pub use master::{
    AmRmClient, AmRmEvents, AmRmOptions, Ask, ContainerExit, Finish, Master, MasterEvent, Place,
    Refused, Registration, RequestId,
};
pub use node_manager::NmClient;
pub use resource_manager::{ResourceManager, renewer, resource_managers, retry_policy};
pub use web::{WebAddress, https_only, web_proxies};
