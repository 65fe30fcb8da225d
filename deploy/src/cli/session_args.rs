//! The command line of `flott yarn-session`, declared, with the names of Flink's script. No behaviour.

use clap::Args;

/// Arguments of `flott yarn-session`, which starts, watches and ends sessions on YARN; the names are those of Flink's
/// script.
#[derive(Debug, Args)]
pub struct YarnSession {
    /// Return as soon as the session runs, as with execution.attached false; otherwise watch it until it ends
    #[arg(short = 'd', long)]
    pub detached: bool,
    /// YARN queue that the session is submitted to; also -qu [yarn.application.queue]
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Memory of the JobManager, MiB unless a unit is given; also -jm [jobmanager.memory.process.size]
    #[arg(long = "jobManagerMemory", value_name = "MEMORY")]
    pub job_manager_memory: Option<String>,
    /// Memory of each TaskManager, MiB unless a unit is given; also -tm [taskmanager.memory.process.size]
    #[arg(long = "taskManagerMemory", value_name = "MEMORY")]
    pub task_manager_memory: Option<String>,
    /// Number of slots of each TaskManager [taskmanager.numberOfTaskSlots]
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slots: Option<u32>,
    /// Name of the session in YARN's lists; also -nm [yarn.application.name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// File or directory that every container gets, for env.shipped(); may be given several times [yarn.ship-files]
    #[arg(short = 't', long, value_name = "PATH")]
    pub ship: Vec<String>,
    /// YARN node label on whose nodes all containers are started; also -nl [yarn.application.node-label]
    #[arg(long = "nodeLabel", value_name = "LABEL")]
    pub node_label: Option<String>,
    /// Type of the session in YARN's lists; also -at [yarn.application.type]
    #[arg(long = "applicationType", value_name = "TYPE")]
    pub application_type: Option<String>,
    /// Id of a session that runs already, to watch or, with --stop, to end; also -id [yarn.application.id]
    #[arg(long = "applicationId", value_name = "APPLICATION")]
    pub application_id: Option<String>,
    /// End the session when this client is told to end by SIGINT (Ctrl-C) or SIGTERM, or when its terminal closes; a client that
    /// ends in another way leaves it running. Not with -d; also -sae
    #[arg(long = "shutdownOnAttachedExit")]
    pub shutdown_on_attached_exit: bool,
    /// Show the nodes and queues of the YARN cluster and return; starts no session
    #[arg(short = 'q', long, conflicts_with = "stop")]
    pub query: bool,
    /// End the session that was started last, or the one that -id names
    #[arg(long)]
    pub stop: bool,
    #[command(flatten)]
    pub(crate) refused: RefusedOfSessions,
}

/// Options of Flink's `yarn-session.sh` that have no meaning here.
#[derive(Debug, Clone, Args)]
pub(crate) struct RefusedOfSessions {
    #[arg(short = 'n', long = "container", hide = true, value_name = "N")]
    container: Option<String>,
    #[arg(short = 'z', long = "zookeeperNamespace", hide = true, value_name = "NAME")]
    namespace: Option<String>,
    #[arg(short = 'j', long = "jar", hide = true, value_name = "PATH")]
    jar: Option<String>,
    #[arg(long = "streaming", hide = true)]
    streaming: bool,
}

impl RefusedOfSessions {
    /// Returns what to do instead of using an option that was given.
    pub(crate) fn complaint(&self) -> Option<&'static str> {
        if self.container.is_some() {
            return Some(
                "-n/--container: TaskManagers are started as jobs need them and released when idle; bound their slots \
                 with -D slotmanager.number-of-slots.max=N",
            );
        }
        if self.namespace.is_some() {
            return Some(
                "-z/--zookeeperNamespace: the application's id keeps clusters apart; set -D \
                 high-availability.cluster-id=NAME to choose another name",
            );
        }
        if self.jar.is_some() {
            return Some("-j/--jar: the command ships itself; there is no jar");
        }
        self.streaming.then_some("-st/--streaming: every session runs streaming jobs; drop it")
    }
}
