//! The container that this process runs in: what YARN says of it in the environment, and what that makes of the
//! process's options.
//!
//! The secret must never get into options, arguments, the environment or a log.

use super::contract::{
    CLUSTER_SECRET, HADOOP_CONF_FOLDER, HADOOP_SITE_FILE, REST_TOKEN, USER_VARIABLE,
};
use crate::cluster_files::ClusterIdentity;
use crate::hosts::is_loopback;
use crate::target::Role;
use ::rest::access::{BearerToken, NoToken};
use conf::taskmanager;
use conf::{List, Options, cluster, high_availability, jobmanager, logging, rest};
use hadoop::conf::{ConfError, Configuration};
use hadoop::tokens::{Credentials, TokenError};
use hadoop::yarn::WebAddress;
use hadoop::yarn::messages::{ContainerId, IdError};
use model::PortSpec;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The shortest cluster secret, as for those in files.
const SECRET_BYTES_MIN: usize = 8;

/// The reason why a process cannot run in its container, or runs in none.
#[derive(Debug, Error)]
pub(crate) enum ContainerError {
    /// A variable that NodeManagers set is not there.
    #[error(
        "cluster.driver is yarn, but the environment has no {0}: this process was not started by a NodeManager; \
         deploy with 'flott run -t yarn-application' or 'flott yarn-session'"
    )]
    NoVariable(&'static str),
    /// The container id is malformed.
    #[error("CONTAINER_ID: {0}")]
    Id(#[from] IdError),
    /// YARN's working directory is not where the process runs.
    #[error("PWD is {expected}, but the process runs in {actual}")]
    Directory {
        /// Working directory that YARN names.
        expected: String,
        /// Working directory of the process, by the system.
        actual: String,
    },
    /// The staged configuration of Hadoop.
    #[error("{HADOOP_SITE_FILE} of the application: {0}")]
    Conf(#[from] ConfError),
    /// The container's credentials cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The credentials lack the cluster's secret, or it is too short.
    #[error(
        "the container's credentials hold no usable cluster secret ({CLUSTER_SECRET}): at least \
         {SECRET_BYTES_MIN} characters"
    )]
    NoSecret,
    /// The token of the REST endpoint is none.
    #[error("{REST_TOKEN} in the container's credentials: {0}")]
    RestToken(#[from] NoToken),
    /// A folder or file below the working directory.
    #[error("{path}: {why}")]
    File {
        /// Path of the file concerned.
        path: PathBuf,
        /// Message of the system.
        why: String,
    },
}

/// A container, as its NodeManager describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) id: ContainerId,
    /// The node's name, by which others reach the process.
    pub(crate) host: String,
    /// The NodeManager's port.
    pub(crate) port: String,
    local_dirs: Vec<String>,
    log_dirs: Vec<String>,
    /// The working directory.
    pub(crate) work: PathBuf,
}

impl Container {
    /// Reads the container from this process's environment, and checks it.
    pub(crate) fn of_this_process() -> Result<Self, ContainerError> {
        let container = Self::from_environment(|name| std::env::var(name).ok())?;
        let here = std::env::current_dir().unwrap_or_default();
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if real(&here) != real(&container.work) {
            return Err(ContainerError::Directory {
                expected: container.work.display().to_string(),
                actual: here.display().to_string(),
            });
        }
        Ok(container)
    }

    /// Reads the container from these variables.
    pub(crate) fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ContainerError> {
        let set = |name: &'static str| {
            variable(name)
                .filter(|value| !value.trim().is_empty())
                .ok_or(ContainerError::NoVariable(name))
        };
        let list = |text: String| text.split(',').map(|dir| dir.trim().to_owned()).collect();
        Ok(Self {
            id: set("CONTAINER_ID")?.parse()?,
            host: set("NM_HOST")?,
            port: set("NM_PORT")?,
            local_dirs: list(set("LOCAL_DIRS")?),
            log_dirs: list(set("LOG_DIRS")?),
            work: PathBuf::from(set("PWD")?),
        })
    }

    /// Returns the application's id, which is the cluster's.
    pub(crate) fn application(&self) -> String {
        self.id
            .app_attempt_id
            .and_then(|attempt| attempt.application_id)
            .unwrap_or_default()
            .to_string()
    }

    /// Returns the number of the attempt, from 1: the epoch of its leaders.
    pub(crate) fn attempt(&self) -> u64 {
        let attempt = self.id.app_attempt_id.map_or(0, |attempt| attempt.attempt_id());
        u64::try_from(attempt).unwrap_or(0)
    }

    /// Returns the options of a process in this container. The node decides on names and directories whatever was
    /// configured for other machines; ports are any free ones where no bind port is set, because several containers
    /// share a node.
    pub(crate) fn adapt(&self, options: Options, role: Role) -> Options {
        let application = Some(self.application());
        let mut options = options.with_value(&cluster::ID, &application);
        if !options.is_set(&cluster::TMP_DIRS) {
            options = options.with_value(&cluster::TMP_DIRS, &List(self.local_dirs.clone()));
        }
        if !options.is_set(&high_availability::CLUSTER_ID) {
            options = options.with_value(&high_availability::CLUSTER_ID, &self.application());
        }
        let logs = self.log_dirs.first().map(PathBuf::from);
        options = options.with_value(&logging::DIR, &logs);
        match role {
            Role::JobManager => self.adapt_jobmanager(options),
            Role::TaskManager => self.adapt_taskmanager(options),
        }
    }

    fn adapt_jobmanager(&self, options: Options) -> Options {
        let mut options = options
            .with_value(&jobmanager::RPC_ADDRESS, &self.host)
            .with_value(&rest::ADDRESS, &self.host)
            .with_value(&jobmanager::RESOURCE_ID, &Some(self.id.to_string()));
        for bind in [&jobmanager::BIND_HOST, &rest::BIND_ADDRESS] {
            let host = self.bind(options.is_set(bind).then(|| options.get(bind)));
            options = options.with_value(bind, &host);
        }
        if !options.is_set(&jobmanager::RPC_BIND_PORT) {
            options = options.with_value(&jobmanager::RPC_PORT, &PortSpec::any());
        }
        if !options.is_set(&rest::BIND_PORT) {
            options = options.with_value(&rest::PORT, &PortSpec::any());
        }
        options
    }

    fn adapt_taskmanager(&self, options: Options) -> Options {
        let bind = &taskmanager::BIND_HOST;
        let host = self.bind(options.is_set(bind).then(|| options.get(bind)));
        options
            .with_value(bind, &host)
            .with_value(&taskmanager::HOST, &Some(self.host.clone()))
            .with_value(&taskmanager::RESOURCE_ID, &Some(self.id.to_string()))
    }

    /// Returns the interface to bind: as configured, unless no other node could reach it; all of
    /// them by default. If the node itself is called by a name of the loopback interface, there are
    /// no other nodes.
    fn bind(&self, configured: Option<String>) -> String {
        match configured {
            _ if is_loopback(&self.host) => "localhost".to_owned(),
            Some(host) if !is_loopback(&host) => host,
            _ => "0.0.0.0".to_owned(),
        }
    }

    /// Reads the application's Hadoop configuration; nothing of the node's own.
    pub(crate) fn hadoop_conf(&self) -> Result<Configuration, ContainerError> {
        let mut conf = Configuration::with_defaults();
        for name in ["HADOOP_USER_NAME", "USER", "HOME"] {
            if let Ok(value) = std::env::var(name) {
                conf.set_environment(name, value);
            }
        }
        conf.add_file(&self.work.join(HADOOP_SITE_FILE))?;
        Ok(conf)
    }

    /// Returns the NodeManager's page of this container's log files. After the application's end it leads to the collected
    /// ones, where the cluster has a server for them.
    pub(crate) fn log_page(&self) -> Option<String> {
        let https = hadoop::yarn::https_only(&self.hadoop_conf().ok()?).ok()?;
        let port = std::env::var("NM_HTTP_PORT").ok()?.parse().ok()?;
        let node = WebAddress { host: self.host.clone(), port, https };
        let user = std::env::var(USER_VARIABLE).or_else(|_| std::env::var("USER")).ok()?;
        Some(format!("{}/node/containerlogs/{}/{user}", node.origin(), self.id))
    }

    /// Returns the cluster's id and the secret by which its processes prove themselves to each
    /// other; the secret is in the container's credentials.
    pub(crate) fn identity(&self) -> Result<ClusterIdentity, ContainerError> {
        identity_of(self.application(), &Credentials::from_environment()?)
    }

    /// Returns the token that opens the REST endpoint, from the container's credentials; `None` where the application was
    /// submitted without one.
    pub(crate) fn rest_token(&self) -> Result<Option<BearerToken>, ContainerError> {
        let credentials = Credentials::from_environment()?;
        let Some(token) = credentials.secret(REST_TOKEN) else { return Ok(None) };
        let text = std::str::from_utf8(token.expose()).unwrap_or_default();
        Ok(Some(BearerToken::new(text.trim())?))
    }

    /// Makes, below the working directory, the files by which program hosts find Hadoop: a folder
    /// with the configuration, and a token file without any secret of the cluster.
    pub(crate) fn prepare_hosts(&self) -> Result<(), ContainerError> {
        let folder = self.host_conf_folder();
        let failed = |path: &Path, error: std::io::Error| ContainerError::File {
            path: path.to_owned(),
            why: error.to_string(),
        };
        std::fs::create_dir_all(&folder).map_err(|e| failed(&folder, e))?;
        for name in hadoop::conf::SITE_FILES {
            let link = folder.join(name);
            match std::os::unix::fs::symlink(self.work.join(HADOOP_SITE_FILE), &link) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(failed(&link, e));
                }
                _ => {}
            }
        }
        let mut tokens = Credentials::new();
        for (alias, token) in Credentials::from_environment()?.tokens() {
            if token.kind() == hadoop::tokens::kinds::HDFS_DELEGATION {
                tokens.add(alias, token.clone());
            }
        }
        tokens.write_file(&self.host_token_file())?;
        Ok(())
    }

    /// Returns the folder of the configuration for program hosts.
    pub(crate) fn host_conf_folder(&self) -> PathBuf {
        self.work.join(HADOOP_CONF_FOLDER)
    }

    /// Returns the token file for program hosts.
    pub(crate) fn host_token_file(&self) -> PathBuf {
        self.work.join("host-tokens")
    }
}

/// Returns the release of Hadoop on this node by the name of its library, because no protocol of YARN tells it. The
/// variables are those that NodeManagers hand on (`yarn.nodemanager.env-whitelist`). `None` where they do not.
pub(crate) fn hadoop_release() -> Option<String> {
    let homes = ["HADOOP_COMMON_HOME", "HADOOP_HOME"].into_iter().filter_map(std::env::var_os);
    homes.map(PathBuf::from).find_map(|home| release_below(&home))
}

fn release_below(home: &Path) -> Option<String> {
    let folders = [home.join("share/hadoop/common"), home.to_owned()];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    entries.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let release = name.strip_prefix("hadoop-common-")?.strip_suffix(".jar")?;
        (!release.ends_with("-tests")).then(|| release.to_owned())
    })
}

fn identity_of(id: String, credentials: &Credentials) -> Result<ClusterIdentity, ContainerError> {
    let secret = credentials.secret(CLUSTER_SECRET).ok_or(ContainerError::NoSecret)?;
    let secret = secret.expose().trim_ascii().to_vec();
    if secret.len() < SECRET_BYTES_MIN {
        return Err(ContainerError::NoSecret);
    }
    Ok(ClusterIdentity { id, secret })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hadoop::tokens::Secret;

    const ENVIRONMENT: [(&str, &str); 6] = [
        ("CONTAINER_ID", "container_e02_1570379089091_0019_03_000007"),
        ("NM_HOST", "node-7"),
        ("NM_PORT", "45454"),
        ("LOCAL_DIRS", "/d1/app,/d2/app"),
        ("LOG_DIRS", "/l1/c7,/l2/c7"),
        ("PWD", "/d1/app/c7"),
    ];

    fn container(without: &str, host: &str) -> Result<Container, ContainerError> {
        Container::from_environment(|name| {
            let (name, value) = ENVIRONMENT.iter().find(|(n, _)| *n == name && *n != without)?;
            Some(if *name == "NM_HOST" { host } else { value }.to_string())
        })
    }

    #[test]
    fn a_container_is_told_by_its_environment_and_what_is_missing_is_named() {
        let found = container("", "node-7").unwrap();
        assert_eq!(found.application(), "application_1570379089091_0019");
        assert_eq!((found.attempt(), found.host.as_str()), (3, "node-7"));
        for (name, _) in ENVIRONMENT {
            let error = container(name, "node-7").unwrap_err().to_string();
            assert!(error.contains(&format!("no {name}:")), "{error}");
        }
        let odd = Container::from_environment(|_| Some("x".to_owned())).unwrap_err();
        assert!(matches!(odd, ContainerError::Id(_)), "{odd}");
    }

    #[test]
    fn the_node_decides_on_names_directories_and_ports() {
        let given = Options::from_map([
            ("jobmanager.rpc.address", "client"),
            ("jobmanager.rpc.port", "6123"),
            ("jobmanager.bind-host", "localhost"),
            ("rest.bind-address", "10.0.0.7"),
            ("rest.bind-port", "50100-50200"),
            ("log.dir", "/home/u/log"),
        ])
        .unwrap();
        let options = container("", "node-7").unwrap().adapt(given.clone(), Role::JobManager);
        let text = |key| options.text_of(key).unwrap();
        assert_eq!(text("cluster.id"), "application_1570379089091_0019");
        assert_eq!(text("io.tmp.dirs"), "/d1/app,/d2/app");
        assert_eq!(text("log.dir"), "/l1/c7");
        assert_eq!(
            (text("jobmanager.rpc.address"), text("rest.address")),
            ("node-7".into(), "node-7".into())
        );
        assert_eq!(
            (text("jobmanager.rpc.port"), text("rest.bind-port")),
            ("0".into(), "50100-50200".into())
        );
        assert_eq!(
            (text("jobmanager.bind-host"), text("rest.bind-address")),
            ("0.0.0.0".into(), "10.0.0.7".into())
        );
        let local = container("", "localhost").unwrap().adapt(given, Role::JobManager);
        assert_eq!(local.text_of("rest.bind-address").unwrap(), "localhost");
        let worker = container("", "node-7").unwrap();
        let worker = worker.adapt(Options::default(), Role::TaskManager);
        let text = |key| worker.text_of(key).unwrap();
        assert_eq!(text("taskmanager.host"), "node-7");
        assert_eq!(text("taskmanager.bind-host"), "0.0.0.0");
        assert_eq!(text("taskmanager.resource-id"), "container_e02_1570379089091_0019_03_000007");
        assert_eq!(text("jobmanager.rpc.port"), "6123", "as the JobManager has told it");
    }

    #[test]
    fn the_secret_is_that_of_the_credentials_as_a_file_would_hold_it() {
        let with = |secret: &[u8]| {
            let mut credentials = Credentials::new();
            credentials.add_secret(CLUSTER_SECRET, Secret::new(secret.to_vec()));
            identity_of("application_1_0001".to_owned(), &credentials)
        };
        assert_eq!(with(b"0123456789abcdef\n").unwrap().secret, b"0123456789abcdef");
        for bad in [&b""[..], b"short", b"\n\n\n\n\n\n\n\n\n"] {
            let error = with(bad).unwrap_err();
            assert!(error.to_string().contains(CLUSTER_SECRET), "{error}");
        }
        assert!(identity_of("a".to_owned(), &Credentials::new()).is_err());
    }

    #[test]
    fn the_name_of_a_library_tells_hadoops_release() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(release_below(home.path()), None);
        let folder = home.path().join("share/hadoop/common");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["hadoop-common-3.4.2-tests.jar", "hadoop-nfs-3.4.2.jar", "lib"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(release_below(home.path()), None);
        std::fs::write(folder.join("hadoop-common-3.4.2.jar"), "").unwrap();
        assert_eq!(release_below(home.path()).as_deref(), Some("3.4.2"));
    }
}
