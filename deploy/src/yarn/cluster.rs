//! The cluster that the client deploys on: its Hadoop configuration, and a ResourceManager that answers.
//!
//! Without a configuration Hadoop's defaults lead to a ResourceManager on this host, which nobody runs: that is refused
//! here. Nothing on the cluster is changed.

use super::error::YarnFailure;
use hadoop::conf::Configuration;
use hadoop::login::{Login, Service};
use hadoop::yarn::{YarnClient, YarnError, resource_managers};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Longest one question to a ResourceManager takes before it counts as unanswered.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries to reach a ResourceManager.
const RETRY_EVERY: Duration = Duration::from_secs(2);
/// Variables that name a directory with Hadoop's configuration, and what is below it.
const DIRECTORIES: [(&str, &str); 3] =
    [("HADOOP_CONF_DIR", ""), ("YARN_CONF_DIR", ""), ("HADOOP_HOME", "etc/hadoop")];
const SITE_FILES: &str = "core-site.xml, hdfs-site.xml and yarn-site.xml";

/// A YARN cluster and the user there.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) conf: Configuration,
    pub(super) login: Login,
    pub(super) yarn: YarnClient,
}

/// Returns the configuration that Hadoop's own commands would have here.
///
/// # Errors
/// No directory is named; the directory is absent, or has no site file, or none that says where the ResourceManager
/// is; a file that cannot be understood.
pub(super) fn configuration() -> Result<Configuration, YarnFailure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = DIRECTORIES.iter().find_map(|(name, below)| {
        let directory = PathBuf::from(variable(name)?);
        // Joined with nothing, a path would get a slash at its end.
        Some((*name, if below.is_empty() { directory } else { directory.join(below) }))
    });
    check_directory(named.as_ref().map(|(name, dir)| (*name, dir.as_path())))?;
    let conf = Configuration::load().map_err(YarnError::from)?;
    check_sources(&conf, named.map(|(_, dir)| dir).unwrap_or_default().as_path())?;
    Ok(conf)
}

fn check_directory(named: Option<(&str, &Path)>) -> Result<(), YarnFailure> {
    let Some((variable, directory)) = named else {
        return Err(YarnFailure::configuration(format!(
            "HADOOP_CONF_DIR is not set: set it to the directory with the cluster's {SITE_FILES}"
        )));
    };
    if !directory.is_dir() {
        return Err(YarnFailure::configuration(format!(
            "{variable} names {}, and there is no such directory; it must have the cluster's {SITE_FILES}",
            directory.display()
        )));
    }
    Ok(())
}

/// Checks that some file names the ResourceManager.
fn check_sources(conf: &Configuration, directory: &Path) -> Result<(), YarnFailure> {
    let directory = directory.display();
    if conf.sources().iter().all(|source| *source == "defaults") {
        return Err(YarnFailure::configuration(format!(
            "{directory} has no configuration of Hadoop: none of {SITE_FILES} is there or sets anything"
        )));
    }
    let set = |name: &str| conf.source(name).is_some_and(|source| source != "defaults");
    let ids = "yarn.resourcemanager.ha.rm-ids";
    if ["yarn.resourcemanager.hostname", "yarn.resourcemanager.address", ids].into_iter().any(set) {
        return Ok(());
    }
    Err(YarnFailure::configuration(format!(
        "the configuration in {directory} does not say where the ResourceManager is: yarn.resourcemanager.hostname is \
         not set; is its yarn-site.xml the cluster's?"
    )))
}

impl Cluster {
    /// Logs in and waits until a ResourceManager answers, at most `patience`; calls `note` with the
    /// text of each failed try.
    ///
    /// # Errors
    /// No login; no answer in that time.
    pub(super) async fn connect(
        mut conf: Configuration,
        patience: Duration,
        note: impl Fn(&str),
    ) -> Result<Self, YarnFailure> {
        let default = |name: &str| conf.source(name).is_none_or(|source| source == "defaults");
        // Hadoop's own clients wait for a quarter of an hour, without a word.
        let bounds = [
            ("yarn.resourcemanager.connect.max-wait.ms", patience),
            ("yarn.resourcemanager.connect.retry-interval.ms", RETRY_EVERY),
        ];
        let bounds: Vec<_> = bounds.into_iter().filter(|(name, _)| default(name)).collect();
        for (name, time) in bounds {
            conf.set(name, time.as_millis().to_string());
        }
        let login = Login::current(&conf).await.map_err(YarnError::from)?;
        let mut once = conf.clone();
        once.set("yarn.resourcemanager.connect.max-wait.ms", "0");
        once.set("yarn.client.failover-max-attempts", "1");
        once.set("ipc.client.connect.max.retries", "0");
        let once = YarnClient::new(&once, login.clone()).await?.with_deadline(ANSWER_WITHIN);
        let since = Instant::now();
        while let Err(error) = once.metrics().await {
            if !is_away(&error) {
                return Err(error.into());
            }
            let places = places(&conf)?;
            if since.elapsed() + RETRY_EVERY > patience {
                return Err(YarnFailure::cluster(format!(
                    "no ResourceManager answered at {places} within {} s: {error}; is it running, and is \
                     HADOOP_CONF_DIR that of its cluster?",
                    patience.as_secs()
                )));
            }
            let left = patience.saturating_sub(since.elapsed()).as_secs();
            note(&format!(
                "no ResourceManager answers at {places} ({error}); trying again for up to {left} s"
            ));
            tokio::time::sleep(RETRY_EVERY).await;
        }
        let yarn = YarnClient::new(&conf, login.clone()).await?;
        Ok(Self { conf, login, yarn })
    }
}

/// Returns true if nobody answered, which may change by itself.
fn is_away(error: &YarnError) -> bool {
    match error {
        YarnError::Call(error) => error.remote().is_none_or(|e| e.is("StandbyException")),
        _ => false,
    }
}

/// Returns the addresses of the ResourceManagers, as text for users.
fn places(conf: &Configuration) -> Result<String, YarnFailure> {
    let all = resource_managers(conf, Service::ResourceManager).map_err(YarnError::from)?;
    let all: Vec<String> = all.iter().map(|rm| format!("{}:{}", rm.host, rm.port)).collect();
    Ok(all.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hadoop::conf::NoIncludes;

    fn complaint(named: Option<(&str, &Path)>) -> String {
        check_directory(named).unwrap_err().to_string()
    }

    #[test]
    fn each_way_to_have_no_configuration_has_words_of_its_own() {
        assert!(complaint(None).starts_with("HADOOP_CONF_DIR is not set"));
        let absent = complaint(Some(("YARN_CONF_DIR", Path::new("/absent/conf"))));
        assert!(absent.contains("YARN_CONF_DIR names /absent/conf"), "{absent}");
        let folder = tempfile::tempdir().unwrap();
        check_directory(Some(("HADOOP_CONF_DIR", folder.path()))).unwrap();
        let mut conf = Configuration::with_defaults();
        let text = check_sources(&conf, folder.path()).unwrap_err().to_string();
        assert!(text.contains("has no configuration of Hadoop"), "{text}");
        let site = |name: &str, value: &str| {
            format!(
                "<configuration><property><name>{name}</name><value>{value}</value></property></configuration>"
            )
        };
        let core = site("fs.defaultFS", "hdfs://h:8020");
        conf.add_xml("core-site.xml", &core, &mut NoIncludes).unwrap();
        let text = check_sources(&conf, folder.path()).unwrap_err().to_string();
        assert!(text.contains("does not say where the ResourceManager is"), "{text}");
        let yarn = site("yarn.resourcemanager.hostname", "rm");
        conf.add_xml("yarn-site.xml", &yarn, &mut NoIncludes).unwrap();
        check_sources(&conf, folder.path()).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_manager_that_is_down_is_tried_for_a_stated_time_with_a_line_for_each_try() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let mut conf = Configuration::with_defaults();
        conf.set("yarn.resourcemanager.address", address.clone());
        let lines = std::cell::Cell::new(0);
        let connected =
            Cluster::connect(conf, Duration::from_secs(7), |_| lines.set(lines.get() + 1)).await;
        let text = connected.unwrap_err().to_string();
        assert!(text.contains(&address) && text.contains("within 7 s"), "{text}");
        assert!((2..=4).contains(&lines.get()), "{}", lines.get());
    }
}
