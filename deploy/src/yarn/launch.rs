//! Prepares the start of the JobManager on YARN: command, environment, files, credentials, options.
//!
//! Pure. No secret and no value of an option is in a command or an environment: options are in the staged `flott.yaml`,
//! the cluster's secret is in the credentials.

use super::contract::{
    CLUSTER_SECRET, FILES_VARIABLE, FLOTT_FILE, LaunchFile, PROGRAM_FILE, PROGRAM_HASH_VARIABLE,
    REST_TOKEN, STAGING_VARIABLE, USER_VARIABLE, files_to_env, hadoop_conf_env, program_hash_env,
    shipped_env,
};
use super::error::YarnFailure;
use crate::roles::{CLUSTER_ROLE, ROLE_VARIABLE};
use conf::{Options, yarn_client};
use hadoop::tokens::{Credentials, Secret};
use hadoop::yarn::YarnError;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationSubmissionContext, ContainerLaunchContext, LogAggregationContext,
    Priority, Resource,
};
use rest::access::BearerToken;
use std::collections::BTreeMap;
use streaming::SHIPPED_VARIABLE;

/// The staged options.
pub(super) const OPTIONS_FILE: &str = "flott.yaml";
/// The staged job graph of a per-job cluster.
pub(super) const GRAPH_FILE: &str = "job.graph";
/// A tag of every application that this client submits.
pub(super) const TAG: &str = "flott";
/// Options of this client's own host, which mean nothing in a container.
const CLIENTS_OWN: [&str; 15] = [
    "env.",
    "execution.target",
    "cluster.id-file",
    "cluster.id",
    "security.cluster-secret-file",
    "jobmanager.rpc.address",
    "jobmanager.rpc.port",
    "jobmanager.rpc.bind-port",
    "jobmanager.bind-host",
    "taskmanager.bind-host",
    "taskmanager.host",
    "rest.bind-address",
    "rest.address",
    "rest.port",
    "rest.bind-port",
];

/// The kind of work that a cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// The cluster runs any number of jobs.
    Session,
    /// The cluster runs the job of the program that its JobManager is.
    Application,
    /// The cluster runs the job whose graph the client has built.
    PerJob,
}

impl ClusterKind {
    /// Returns the command of the JobManager's container.
    fn command(self) -> String {
        let role = match self {
            Self::Session => format!("./{FLOTT_FILE} jobmanager --mode session"),
            Self::Application => format!("./{PROGRAM_FILE} jobmanager --mode application"),
            Self::PerJob => format!(
                "./{FLOTT_FILE} jobmanager --mode per-job --job-graph {GRAPH_FILE} --program {PROGRAM_FILE}"
            ),
        };
        format!("{role} --config-dir . 1><LOG_DIR>/jobmanager.out 2><LOG_DIR>/jobmanager.stderr")
    }

    /// Returns true if the containers get the command `flott`.
    pub(super) fn ships_flott(self) -> bool {
        self != Self::Application
    }
}

/// Returns the options for the staged `flott.yaml`: the client's but those about the client's own host, then `more`.
/// Addresses are set by the JobManager on its node; its ports are any that is free, unless the options say otherwise.
pub(super) fn staged_options(
    options: &Options,
    application: &str,
    more: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let is_own = |key: &str| {
        CLIENTS_OWN.iter().any(|own| key == *own || own.ends_with('.') && key.starts_with(own))
    };
    let mut staged = options.to_map();
    staged.retain(|key, _| !is_own(key));
    let mut set =
        vec![("cluster.driver", "yarn".to_owned()), ("cluster.id", application.to_owned())];
    if options.is_set(&conf::rest::BIND_PORT) {
        let ports = options.get(&conf::rest::BIND_PORT).to_string();
        set.extend([("rest.port", ports.clone()), ("rest.bind-port", ports)]);
    }
    if options.is_set(&yarn_client::MASTER_PORT) {
        let ports = options.get(&yarn_client::MASTER_PORT).to_string();
        set.extend([("jobmanager.rpc.port", ports.clone()), ("jobmanager.rpc.bind-port", ports)]);
    }
    staged.extend(set.into_iter().map(|(key, value)| (key.to_owned(), value)));
    staged.extend(more);
    staged
}

/// Everything that a submission is made of.
#[derive(Debug)]
pub(super) struct Submission<'a> {
    pub(super) id: ApplicationId,
    pub(super) kind: ClusterKind,
    /// Name of the application in YARN's lists if `yarn.application.name` is not set.
    pub(super) default_name: String,
    /// The queue's full path or name.
    pub(super) queue: Option<String>,
    pub(super) user: &'a str,
    pub(super) staging: String,
    pub(super) files: &'a [LaunchFile],
    pub(super) master: Resource,
    pub(super) attempts: u32,
    pub(super) secret: String,
    /// Opens the JobManager's REST endpoint.
    pub(super) rest_token: BearerToken,
    /// Tokens of HDFS on secure clusters.
    pub(super) tokens: Credentials,
}

impl Submission<'_> {
    /// Returns the context that YARN is given.
    ///
    /// # Errors
    /// A file whose URL YARN could not read.
    pub(super) fn context(
        self,
        options: &Options,
    ) -> Result<ApplicationSubmissionContext, YarnFailure> {
        let milliseconds = options.get(&yarn_client::ATTEMPTS_INTERVAL).as_millis();
        let mut tags: Vec<String> =
            options.get(&yarn_client::TAGS).0.iter().map(|tag| tag.to_lowercase()).collect();
        tags.push(TAG.to_owned());
        let priority = options.get(&yarn_client::PRIORITY);
        let priority = priority.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
        let named = options.get(&yarn_client::NAME);
        let rolled = options.get(&yarn_client::ROLLED_LOGS_INCLUDE);
        let logs = rolled.map(|include| LogAggregationContext {
            rolled_logs_include_pattern: Some(include),
            rolled_logs_exclude_pattern: Some(
                options.get(&yarn_client::ROLLED_LOGS_EXCLUDE).unwrap_or_default(),
            ),
            ..LogAggregationContext::default()
        });
        let launch = self.launch(options)?;
        Ok(ApplicationSubmissionContext {
            application_id: Some(self.id),
            application_name: Some(named.unwrap_or(self.default_name)),
            application_type: Some(options.get(&yarn_client::TYPE)),
            application_tags: tags,
            queue: self.queue,
            priority: priority.map(|priority| Priority { priority: Some(priority) }),
            am_container_spec: Some(launch),
            resource: Some(self.master),
            max_app_attempts: i32::try_from(self.attempts).ok(),
            keep_containers_across_application_attempts: Some(self.attempts > 1),
            attempt_failures_validity_interval: i64::try_from(milliseconds).ok(),
            node_label_expression: options.get(&yarn_client::NODE_LABEL),
            log_aggregation_context: logs,
            ..ApplicationSubmissionContext::default()
        })
    }

    fn launch(&self, options: &Options) -> Result<ContainerLaunchContext, YarnFailure> {
        let mut tokens = self.tokens.clone();
        tokens.add_secret(CLUSTER_SECRET, Secret::new(self.secret.clone().into_bytes()));
        let token = self.rest_token.expose().as_bytes().to_vec();
        tokens.add_secret(REST_TOKEN, Secret::new(token));
        let files = files_to_env(self.files)
            .map_err(|e| YarnFailure::cluster(format!("the files cannot be listed: {e}")))?;
        let mut launch = ContainerLaunchContext::of_command(self.kind.command());
        for (name, value) in options.get_family(&yarn_client::MASTER_ENV) {
            launch = launch.with_env(name, value);
        }
        launch = launch
            .with_env(FILES_VARIABLE, files)
            .with_env(STAGING_VARIABLE, &self.staging)
            .with_env(USER_VARIABLE, self.user)
            .with_expanded_env("HADOOP_CONF_DIR", hadoop_conf_env())
            .with_tokens(&tokens);
        if let Some(folder) = shipped_env(self.files) {
            launch = launch.with_expanded_env(SHIPPED_VARIABLE, folder);
        }
        if self.kind == ClusterKind::Application {
            launch = launch.with_env(ROLE_VARIABLE, CLUSTER_ROLE);
            if let Some(hash) = program_hash_env(self.files) {
                launch = launch.with_env(PROGRAM_HASH_VARIABLE, hash);
            }
        }
        for file in self.files {
            let resource = file
                .resource()
                .map_err(|e| YarnFailure::cluster(format!("staged file {}: {e}", file.name)))?;
            launch = launch.with_file(&file.name, resource);
        }
        Ok(launch)
    }
}

/// Returns the failure of a token that was not given.
pub(super) fn without_token(error: impl std::fmt::Display) -> YarnFailure {
    YarnFailure::cluster(format!("the cluster gives no token for the application: {error}"))
}

/// Returns the tokens by which the application's processes prove their user to HDFS; none if the
/// cluster has no security. A token for the ResourceManager would be of no use to them, and a
/// ResourceManager that takes over and finds it expired would stop renewing all the application's
/// tokens.
///
/// # Errors
/// A token that HDFS does not give.
pub(super) async fn tokens(cluster: &super::cluster::Cluster) -> Result<Credentials, YarnFailure> {
    let mut tokens = Credentials::new();
    if cluster.login.is_secure() {
        let renewer = hadoop::yarn::renewer(&cluster.conf).await.map_err(YarnError::from)?;
        let hdfs = hadoop::hdfs::HdfsTokens::new(&cluster.conf, &cluster.login, None).await;
        let hdfs = hdfs.map_err(without_token)?;
        let token = hdfs.get(&renewer).await.map_err(without_token)?;
        // Nodes look a token up by the NameNode's address, programs by what a URI says, which may be a name. YARN cancels
        // each token at the end, so each of them gets its own.
        let default =
            cluster.conf.get("fs.defaultFS").map_err(YarnError::from)?.unwrap_or_default();
        let authority = default.strip_prefix("hdfs://").and_then(|rest| rest.split('/').next());
        if let Some(name) = authority.filter(|name| name.contains(':') && *name != token.service())
        {
            let named = hdfs.get(&renewer).await.map_err(without_token)?;
            tokens.add(name, named.with_service(name));
        }
        tokens.add(token.service().to_owned(), token);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ContentHash;

    const SECRET: &str = "0123456789abcdef";
    const TOKEN: &str = "a-token-of-forty-two-characters-or-a-few";

    fn context(kind: ClusterKind, options: &Options) -> ApplicationSubmissionContext {
        let file = |name: &str, archive| LaunchFile {
            name: name.to_owned(),
            url: format!("hdfs://h:8020/user/a/.flott/application_1_0001/{name}"),
            size: 3,
            timestamp: 4,
            archive,
            public: false,
            hash: (name == PROGRAM_FILE).then_some(ContentHash([7; 32])),
        };
        let files = [file("program", false), file("ship/a.zip", true)];
        let submission = Submission {
            id: "application_1_0001".parse().unwrap(),
            kind,
            default_name: "Flott: word_count".to_owned(),
            queue: Some("root.small".to_owned()),
            user: "alice",
            staging: "hdfs://h:8020/user/a/.flott/application_1_0001".to_owned(),
            files: &files,
            master: Resource::default(),
            attempts: 1,
            secret: SECRET.to_owned(),
            rest_token: BearerToken::new(TOKEN).unwrap(),
            tokens: Credentials::new(),
        };
        submission.context(options).unwrap()
    }

    #[test]
    fn no_secret_and_no_option_is_in_command_or_environment() {
        let options = Options::from_map([
            ("program.password", "hunter2"),
            ("containerized.master.env.LANG", "a \"b\" $c"),
            ("yarn.tags", "Blue,green"),
        ])
        .unwrap();
        for kind in [ClusterKind::Session, ClusterKind::Application, ClusterKind::PerJob] {
            let context = context(kind, &options);
            let launch = context.am_container_spec.unwrap();
            let visible = format!("{:?} {:?}", launch.command, launch.environment);
            assert!(!visible.contains(TOKEN), "{visible}");
            assert!(!visible.contains(SECRET) && !visible.contains("hunter2"), "{visible}");
            let credentials = Credentials::from_bytes(&launch.tokens.unwrap()).unwrap();
            assert_eq!(credentials.secret(CLUSTER_SECRET).unwrap().expose(), SECRET.as_bytes());
            assert_eq!(credentials.secret(REST_TOKEN).unwrap().expose(), TOKEN.as_bytes());
            let value = |name: &str| {
                let found =
                    launch.environment.iter().find(|pair| pair.key.as_deref() == Some(name));
                found.and_then(|pair| pair.value.clone())
            };
            assert_eq!(value("LANG").as_deref(), Some(r#"a \"b\" \$c"#));
            assert_eq!(value("HADOOP_USER_NAME").as_deref(), Some("alice"));
            let is_program = kind == ClusterKind::Application;
            assert_eq!(value(ROLE_VARIABLE).is_some(), is_program);
            assert_eq!(value(PROGRAM_HASH_VARIABLE), is_program.then(|| "07".repeat(32)));
            let names: Vec<_> =
                launch.local_resources.iter().filter_map(|f| f.key.as_deref()).collect();
            assert_eq!(names, ["program", "ship/a.zip"]);
            assert_eq!(context.application_tags, ["blue", "green", "flott"]);
        }
    }

    #[test]
    fn the_command_says_what_the_cluster_runs() {
        let redirected = " --config-dir . 1><LOG_DIR>/jobmanager.out 2><LOG_DIR>/jobmanager.stderr";
        let commands = [
            (ClusterKind::Session, "./flott jobmanager --mode session"),
            (ClusterKind::Application, "./program jobmanager --mode application"),
            (
                ClusterKind::PerJob,
                "./flott jobmanager --mode per-job --job-graph job.graph --program program",
            ),
        ];
        for (kind, command) in commands {
            assert_eq!(kind.command(), format!("{command}{redirected}"));
        }
    }

    #[test]
    fn options_of_the_clients_host_stay_there() {
        let options = Options::from_map([
            ("env.pid.dir", "/run/x"),
            ("execution.target", "yarn-session"),
            ("jobmanager.rpc.address", "laptop"),
            ("rest.bind-address", "localhost"),
            ("rest.port", "8081"),
            ("taskmanager.numberOfTaskSlots", "4"),
            ("yarn.application-master.port", "50100-50200"),
            ("program.password", "hunter2"),
        ])
        .unwrap();
        let more = BTreeMap::from([("pipeline.program-args".to_owned(), "--input,x".to_owned())]);
        let staged = staged_options(&options, "application_1_0001", more);
        let get = |key: &str| staged.get(key).map(String::as_str);
        assert_eq!(get("env.pid.dir").or(get("execution.target")), None);
        assert_eq!(get("jobmanager.rpc.address").or(get("rest.bind-address")), None);
        assert_eq!(
            (get("rest.port"), get("jobmanager.rpc.bind-port")),
            (None, Some("50100-50200"))
        );
        assert_eq!(
            (get("cluster.driver"), get("cluster.id")),
            (Some("yarn"), Some("application_1_0001"))
        );
        assert_eq!(get("taskmanager.numberOfTaskSlots"), Some("4"));
        assert_eq!(
            (get("program.password"), get("pipeline.program-args")),
            (Some("hunter2"), Some("--input,x"))
        );
        let bound = options.with("rest.bind-port", "9000-9100").unwrap();
        assert_eq!(staged_options(&bound, "a", BTreeMap::new())["rest.bind-port"], "9000-9100");
    }
}
