//! Adapts a process to the system that it was started by: options, identity, source of workers, and
//! what program hosts inherit. On plain hosts (`cluster.driver: standalone`) nothing is changed.
//!
//! The entrypoints know of YARN through this module alone, with and without the cargo feature `yarn`.

use crate::cluster_files::{ClusterFiles, ClusterIdentity};
use crate::entrypoint::StartError;
use actors::resource_manager;
use actors::services::FatalErrorHandler;
use conf::cluster::Driver;
use conf::{Options, cluster};
use model::ContentHash;
use platform::Platform;
use rest::access::Access;
use std::collections::BTreeMap;

/// The role of a process in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    JobManager,
    TaskManager,
}

/// Facts about a JobManager that its resource system needs once its ports are bound.
#[cfg_attr(not(feature = "yarn"), expect(dead_code, reason = "nothing else asks for workers"))]
pub(crate) struct ExternalParts<'a> {
    pub(crate) platform: &'a Platform,
    pub(crate) options: &'a Options,
    /// URL of the REST endpoint.
    pub(crate) rest: &'a str,
    pub(crate) fatal: &'a FatalErrorHandler,
}

/// The source of a JobManager's workers, and what is left to do after its application has ended for
/// good.
pub(crate) struct External {
    pub(crate) workers: resource_manager::Mode,
    #[cfg(feature = "yarn")]
    pub(crate) staging: Option<crate::yarn::master::Staging>,
}

impl External {
    /// Returns true if an external resource system runs the application, and starts it again unless it is unregistered.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.workers, resource_manager::Mode::Active { .. })
    }

    /// Removes what the application was started from, when it has ended for good.
    pub(crate) async fn clean(self) {
        #[cfg(feature = "yarn")]
        if let Some(staging) = self.staging {
            staging.remove().await;
        }
    }

    /// An external system is absent: workers register by themselves.
    fn none() -> Self {
        Self {
            workers: resource_manager::Mode::Standalone,
            #[cfg(feature = "yarn")]
            staging: None,
        }
    }
}

#[cfg(feature = "yarn")]
mod on_yarn {
    use super::*;
    use crate::yarn::container::{Container, ContainerError};
    use crate::yarn::contract::{PROGRAM_HASH_VARIABLE, USER_VARIABLE};
    use hadoop::tokens::TOKEN_FILE_VARIABLE;

    fn container() -> Result<Container, StartError> {
        Container::of_this_process().map_err(refused)
    }

    fn refused(error: ContainerError) -> StartError {
        StartError::Invalid(error.to_string())
    }

    pub(super) fn adapt(options: Options, role: Role) -> Result<Options, StartError> {
        Ok(container()?.adapt(options, role))
    }

    pub(super) fn identity() -> Result<ClusterIdentity, StartError> {
        let container = container()?;
        container.prepare_hosts().map_err(refused)?;
        container.identity().map_err(refused)
    }

    pub(super) fn rest_access(platform: &Platform) -> Result<Option<Access>, StartError> {
        crate::yarn::web_proxy::access(&container()?, platform).map_err(refused)
    }

    pub(super) fn attempt() -> Result<u64, StartError> {
        Ok(container()?.attempt())
    }

    pub(super) async fn external(parts: ExternalParts<'_>) -> Result<External, StartError> {
        crate::yarn::master::start(parts).await
    }

    pub(super) fn describe() -> Vec<(&'static str, String)> {
        match Container::of_this_process() {
            Ok(container) => facts(&container, |name| std::env::var(name).ok()),
            Err(_) => Vec::new(),
        }
    }

    /// Returns what there is to be said of a container whose process has these variables.
    fn facts(
        container: &Container,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<(&'static str, String)> {
        let node = format!("{}:{}", container.host, container.port);
        let user = variable(USER_VARIABLE).unwrap_or_default();
        let release = crate::yarn::container::hadoop_release();
        vec![
            (
                "Hadoop",
                release.unwrap_or_else(|| "unknown: the NodeManager names no home".to_owned()),
            ),
            ("YARN container", container.id.to_string()),
            ("YARN node", node),
            ("YARN user", user),
        ]
    }

    pub(super) fn program_hash() -> Option<ContentHash> {
        std::env::var(PROGRAM_HASH_VARIABLE).ok()?.parse().ok()
    }

    pub(super) fn log_page() -> Option<String> {
        container().ok()?.log_page()
    }

    pub(super) fn host_environment(options: &Options, env: &mut BTreeMap<String, String>) {
        let Ok(container) = Container::of_this_process() else { return };
        let shown = |path: std::path::PathBuf| path.display().to_string();
        env.insert("HADOOP_CONF_DIR".to_owned(), shown(container.host_conf_folder()));
        env.insert(TOKEN_FILE_VARIABLE.to_owned(), shown(container.host_token_file()));
        let mut inherit = |name: &str| {
            if let Ok(value) = std::env::var(name) {
                env.insert(name.to_owned(), value);
            }
        };
        inherit(USER_VARIABLE);
        options.get_family(&conf::yarn_containers::TASKMANAGER_ENV).keys().for_each(|n| inherit(n));
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_log_of_a_container_names_its_node_and_the_user_of_its_application() {
            let variable = |name: &str| {
                let value = match name {
                    "CONTAINER_ID" => "container_e02_1570379089091_0019_03_000007",
                    "NM_HOST" => "node-7",
                    "NM_PORT" => "45454",
                    "LOCAL_DIRS" | "LOG_DIRS" | "PWD" => "/d1/app",
                    "HADOOP_USER_NAME" => "alice",
                    _ => return None,
                };
                Some(value.to_owned())
            };
            let container = Container::from_environment(variable).unwrap();
            let facts: BTreeMap<_, _> = facts(&container, variable).into_iter().collect();
            assert_eq!(facts["YARN user"], "alice");
            assert_eq!(facts["YARN node"], "node-7:45454");
            assert_eq!(facts["YARN container"], "container_e02_1570379089091_0019_03_000007");
        }
    }
}

#[cfg(not(feature = "yarn"))]
mod on_yarn {
    use super::*;

    fn refused() -> StartError {
        StartError::Invalid(
            "cluster.driver is yarn, but this program was built without YARN: build it with the feature 'yarn' of flott"
                .to_owned(),
        )
    }

    pub(super) fn adapt(_: Options, _: Role) -> Result<Options, StartError> {
        Err(refused())
    }

    pub(super) fn identity() -> Result<ClusterIdentity, StartError> {
        Err(refused())
    }

    pub(super) fn rest_access(_: &Platform) -> Result<Option<Access>, StartError> {
        Err(refused())
    }

    pub(super) fn attempt() -> Result<u64, StartError> {
        Err(refused())
    }

    pub(super) async fn external(_: ExternalParts<'_>) -> Result<External, StartError> {
        Err(refused())
    }

    pub(super) fn describe() -> Vec<(&'static str, String)> {
        Vec::new()
    }

    pub(super) fn program_hash() -> Option<ContentHash> {
        None
    }

    pub(super) fn log_page() -> Option<String> {
        None
    }

    pub(super) fn host_environment(_: &Options, _: &mut BTreeMap<String, String>) {}
}

fn is_on_yarn(options: &Options) -> bool {
    options.get(&cluster::DRIVER) == Driver::Yarn
}

/// Returns the options of a process in this place: names, interfaces and directories are the node's.
///
/// # Errors
/// The process is not where its options say, or was built without support for that.
pub(crate) fn adapt(options: Options, role: Role) -> Result<Options, StartError> {
    if is_on_yarn(&options) { on_yarn::adapt(options, role) } else { Ok(options) }
}

/// Returns what the process proves itself with: from the container's credentials, else from the cluster's files. A
/// JobManager makes files that are absent, a TaskManager waits for them.
pub(crate) async fn identity(
    platform: &Platform,
    options: &Options,
    role: Role,
) -> Result<ClusterIdentity, StartError> {
    if is_on_yarn(options) {
        return on_yarn::identity();
    }
    let files = ClusterFiles::of(options);
    if role == Role::JobManager {
        files.make(platform)?;
    }
    Ok(files.read(options.get(&cluster::FILES_TIMEOUT)).await?)
}

/// Returns the rules by which a JobManager's REST endpoint allows requests; `None`: every request
/// is allowed.
pub(crate) fn rest_access(
    platform: &Platform,
    options: &Options,
) -> Result<Option<Access>, StartError> {
    if is_on_yarn(options) { on_yarn::rest_access(platform) } else { Ok(None) }
}

/// Returns the epoch of the leaders of a JobManager without high availability: on YARN the number of the attempt, else
/// the time in milliseconds since 1970, so that a later process has a higher one.
pub(crate) fn epoch(platform: &Platform, options: &Options) -> Result<u64, StartError> {
    if is_on_yarn(options) { on_yarn::attempt() } else { Ok(platform.unix_millis()) }
}

/// Returns where the workers of a JobManager come from.
pub(crate) async fn external(parts: ExternalParts<'_>) -> Result<External, StartError> {
    if is_on_yarn(parts.options) { on_yarn::external(parts).await } else { Ok(External::none()) }
}

/// Returns the mode of a file with a log or what a program prints. They name paths, arguments and records: they are for
/// this user alone, and on YARN for the group of the container's log directory, which is the NodeManager's: it collects them.
pub(crate) fn log_mode(options: &Options) -> u32 {
    if is_on_yarn(options) { 0o640 } else { 0o600 }
}

/// Returns the name of a process's log file: the container's directory of logs on YARN is for one process alone.
pub(crate) fn log_file(role: &str, options: &Options) -> String {
    match is_on_yarn(options) {
        true => format!("{role}.log"),
        false => format!("flott-{role}-{}.log", std::process::id()),
    }
}

/// Returns true if TaskManagers of an application may have to fetch its program. Those that YARN starts are processes of
/// the program themselves.
pub(crate) fn application_ships_program(options: &Options) -> bool {
    !is_on_yarn(options)
}

/// Returns the hash of this process's own program if the process that started it has passed it on.
/// `None`: it has to be computed.
pub(crate) fn program_hash(options: &Options) -> Option<ContentHash> {
    if is_on_yarn(options) { on_yarn::program_hash() } else { None }
}

/// Returns the page where an external system shows this process's log files, if it does.
pub(crate) fn log_page(options: &Options) -> Option<String> {
    if is_on_yarn(options) { on_yarn::log_page() } else { None }
}

/// Returns what there is to be said of the place that the process runs in, for its log.
pub(crate) fn describe(options: &Options) -> Vec<(&'static str, String)> {
    if is_on_yarn(options) { on_yarn::describe() } else { Vec::new() }
}

/// Adds the variables that program hosts find Hadoop by. None of them leads to the cluster's secret.
pub(crate) fn host_environment(options: &Options, env: &mut BTreeMap<String, String>) {
    if is_on_yarn(options) {
        on_yarn::host_environment(options, env);
    }
}
