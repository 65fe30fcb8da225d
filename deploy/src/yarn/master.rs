//! The JobManager as ApplicationMaster: the driver for its ResourceManager, and the end of its staging directory.

use super::container::{Container, ContainerError};
use super::contract::{FILES_VARIABLE, STAGING_VARIABLE, USER_VARIABLE, files_from_env};
use super::driver::launch::LaunchPlan;
use super::driver::{DriverSettings, YarnDriver, YarnDriverParts};
use super::hdfs;
use crate::entrypoint::StartError;
use crate::target::{External, ExternalParts};
use actors::resource_manager::Mode;
use conf::memory::{Machine, worker_resource_spec};
use conf::{jobmanager, yarn_containers};
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::tokens::Credentials;
use hadoop::yarn::Registration;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for HDFS to remove the staging directory. It is short because the application has
/// ended and YARN soon stops this process.
const REMOVE_WITHIN: Duration = Duration::from_secs(10);

/// Starts the driver of this application. It registers when the ResourceManager leads.
pub(crate) async fn start(parts: ExternalParts<'_>) -> Result<External, StartError> {
    let container = Container::of_this_process().map_err(refused)?;
    let options = parts.options;
    let hadoop = container.hadoop_conf().map_err(refused)?;
    let invalid = |why: String| StartError::Invalid(why);
    let login = Login::current(&hadoop).await.map_err(|e| invalid(e.to_string()))?;
    let variable = |name: &str| std::env::var(name).ok();
    let files = variable(FILES_VARIABLE)
        .ok_or_else(|| invalid(format!("the environment has no {FILES_VARIABLE}")))?;
    let files = files_from_env(&files)
        .map_err(|error| invalid(format!("{FILES_VARIABLE}: {error}: {files}")))?;
    let credentials = Credentials::from_environment().map_err(|e| invalid(e.to_string()))?;
    let plan = LaunchPlan::new(options, &files, &credentials, variable(USER_VARIABLE))
        .map_err(|error| invalid(format!("{FILES_VARIABLE}: {error}")))?;
    let settings = DriverSettings::new(options, &hadoop).map_err(|e| invalid(e.to_string()))?;
    let cores = options.get(&yarn_containers::VCORES).and_then(NonZeroU32::new);
    let machine = Machine { cores: cores.unwrap_or(NonZeroU32::MIN), memory_limit: None };
    let worker = worker_resource_spec(options, &machine)
        .map_err(|error| StartError::Memory(error.to_string()))?;
    let staging = variable(STAGING_VARIABLE).map(|url| Staging {
        url,
        hadoop: hadoop.clone(),
        login: login.clone(),
    });
    let registration = Registration {
        host: container.host.clone(),
        rpc_port: i32::from(options.get(&jobmanager::RPC_PORT).first()),
        tracking_url: parts.rest.to_owned(),
    };
    let driver = YarnDriver::start(YarnDriverParts {
        platform: parts.platform.clone(),
        fatal: parts.fatal.clone(),
        hadoop,
        login,
        registration,
        settings,
        plan,
    });
    Ok(External { workers: Mode::Active { driver: Arc::new(driver), worker }, staging })
}

fn refused(error: ContainerError) -> StartError {
    StartError::Invalid(error.to_string())
}

/// The application's directory in the cluster's file system.
pub(crate) struct Staging {
    url: String,
    hadoop: Configuration,
    login: Login,
}

impl Staging {
    /// Removes the directory. A failure is logged: the application has ended all the same.
    pub(crate) async fn remove(self) {
        let url = self.url.clone();
        match tokio::time::timeout(REMOVE_WITHIN, self.delete()).await {
            Ok(Ok(())) => tracing::info!(url, "the staging directory is removed"),
            Ok(Err(error)) => tracing::warn!(url, error, "the staging directory stays behind"),
            Err(_) => {
                tracing::warn!(url, "HDFS does not answer; the staging directory stays behind")
            }
        }
    }

    async fn delete(self) -> Result<(), String> {
        let (service, path) = split(&self.url).ok_or("it is no hdfs://host/path")?;
        let client = hdfs::client(&self.hadoop, &self.login, &format!("{service}/"));
        let client = client.map_err(|error| error.to_string())?;
        client.delete(path, true).await.map(drop).map_err(|error| error.to_string())
    }
}

/// Splits `hdfs://host:port/path` before the path. The root and relative paths are refused.
fn split(url: &str) -> Option<(&str, &str)> {
    let start = url.find("://")? + 3;
    let slash = start + url.get(start..)?.find('/')?;
    let (service, path) = url.split_at_checked(slash)?;
    let named = path.split('/').filter(|part| !part.is_empty());
    (named.clone().count() > 1 && !named.into_iter().any(|part| part == ".."))
        .then_some((service, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_below_another_one_is_removed() {
        let url = "hdfs://localhost:8020/user/alice/.flott/application_1_0001";
        let path = "/user/alice/.flott/application_1_0001";
        assert_eq!(split(url), Some(("hdfs://localhost:8020", path)));
        assert_eq!(split("hdfs:///a/b"), Some(("hdfs://", "/a/b")));
        for wrong in ["", "/a/b", "hdfs://h", "hdfs://h/", "hdfs://h/a", "hdfs://h/a/../b"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
