//! A cluster's daemons: which there are, how each is started and killed. It waits until they can be used, and
//! fails as soon as one of them has ended.

use super::{
    http, kerberos,
    layout::{Layout, Port},
    processes,
    ready::{self, tail},
};
use crate::run::{Result, Watch};
use std::{
    env,
    fs::{File, OpenOptions},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

const NAME_NODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATA_NODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";
const RESOURCE_MANAGER: &str = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager";
const NODE_MANAGER: &str = "org.apache.hadoop.yarn.server.nodemanager.NodeManager";
const ZOO_KEEPER: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const SHELL: &str = "org.apache.hadoop.fs.FsShell";

/// A daemon: its name in this cluster and what it runs.
struct Daemon {
    name: String,
    runs: Runs,
}

enum Runs {
    Kdc,
    Java { main: &'static str, args: Vec<String> },
}

/// One that was started by this process.
pub(super) struct Started {
    pub(super) name: String,
    pub(super) child: Child,
}

/// All of a cluster, in the order in which they are started.
fn all(layout: &Layout) -> Vec<Daemon> {
    let java = |name: &str, main, args: Vec<String>| Daemon {
        name: name.to_owned(),
        runs: Runs::Java { main, args },
    };
    let mut daemons = Vec::new();
    if layout.kind.secure {
        daemons.push(Daemon { name: KDC.to_owned(), runs: Runs::Kdc });
    }
    if layout.kind.ha {
        let settings = layout.conf().join("zookeeper.properties");
        daemons.push(java("zookeeper", ZOO_KEEPER, vec![settings.display().to_string()]));
    }
    daemons.push(java("namenode", NAME_NODE, Vec::new()));
    daemons.push(java("datanode", DATA_NODE, Vec::new()));
    for rm in layout.resource_managers() {
        let id = rm.id.map(|id| setting("yarn.resourcemanager.ha.id", id));
        daemons.push(java(rm.name, RESOURCE_MANAGER, id.into_iter().flatten().collect()));
    }
    for node in 0..layout.kind.nodes {
        let name = format!("nodemanager{}", node + 1);
        daemons.push(java(&name, NODE_MANAGER, node_settings(layout, node)));
    }
    daemons
}

const KDC: &str = "kdc";

/// A property on the command line of a daemon.
fn setting(name: &str, value: &str) -> [String; 2] {
    ["-D".to_owned(), format!("{name}={value}")]
}

/// Returns the settings by which one NodeManager differs from the others: its addresses and directories.
fn node_settings(layout: &Layout, node: u16) -> Vec<String> {
    let dir = layout.dir.join(format!("nodes/{}", node + 1));
    let address = |which| format!("localhost:{}", layout.node_port(node, which));
    [
        ("address", address(0)),
        ("localizer.address", address(1)),
        ("webapp.address", address(2)),
        ("collector-service.address", address(3)),
        ("local-dirs", dir.join("local").display().to_string()),
        ("log-dirs", dir.join("logs").display().to_string()),
    ]
    .into_iter()
    .flat_map(|(name, value)| setting(&format!("yarn.nodemanager.{name}"), &value))
    .collect()
}

/// Starts all and returns when all are ready.
pub(super) fn start(layout: &Layout) -> Result<()> {
    let watch = Watch::start();
    let mut started = Vec::new();
    if layout.kind.secure {
        kerberos::make(layout)?;
    }
    let (first, others): (Vec<_>, Vec<_>) =
        all(layout).into_iter().partition(|daemon| matches!(daemon.runs, Runs::Kdc));
    for kdc in first {
        started.push(spawn(layout, &kdc)?);
        // All others prove themselves with its help.
        ready::until(layout, &mut started, KDC, || ready::is_ready(layout, KDC))?;
    }
    format(layout)?;
    for daemon in others {
        started.push(spawn(layout, &daemon)?);
    }
    ready::until(layout, &mut started, "HDFS", || ready::is_ready(layout, "datanode"))?;
    directories(layout)?;
    told(&watch, &format!("HDFS: hdfs://{}, 1 DataNode", layout.at(Port::NameNode)));
    ready::until(layout, &mut started, "YARN", || ready::yarn(layout))?;
    let managers = layout.resource_managers();
    let addresses: Vec<String> = managers
        .iter()
        .map(|rm| format!("{} (http://{})", layout.at(rm.client), layout.at(rm.http)))
        .collect();
    let nodes = layout.kind.nodes;
    told(&watch, &format!("YARN: {}, {nodes} NodeManagers", addresses.join(", ")));
    Ok(())
}

fn told(watch: &Watch, what: &str) {
    eprintln!("ready after {:.1} s: {what}", watch.elapsed().as_secs_f64());
}

/// Starts one that is not running, and returns when it is ready.
pub(super) fn start_one(layout: &Layout, name: &str) -> Result<()> {
    let daemon = named(layout, name)?;
    if !processes::named(&layout.dir, name)?.is_empty() {
        return Err(format!("{name} is running").into());
    }
    let mut started = [spawn(layout, &daemon)?];
    ready::until(layout, &mut started, name, || ready::is_ready(layout, name))
}

/// Kills one as a power failure would; containers of a NodeManager live on.
pub(super) fn kill(layout: &Layout, name: &str) -> Result<()> {
    named(layout, name)?;
    processes::kill(&layout.dir, name)
}

fn named(layout: &Layout, name: &str) -> Result<Daemon> {
    let mut daemons = all(layout);
    let Some(at) = daemons.iter().position(|daemon| daemon.name == name) else {
        let names: Vec<String> = daemons.into_iter().map(|daemon| daemon.name).collect();
        return Err(format!("no daemon '{name}'; there are {}", names.join(", ")).into());
    };
    Ok(daemons.swap_remove(at))
}

fn spawn(layout: &Layout, daemon: &Daemon) -> Result<Started> {
    let mut command = match &daemon.runs {
        Runs::Kdc => kerberos::server(layout)?,
        Runs::Java { main, args } => java(layout, &daemon.name, main, args),
    };
    let log = log(layout, &daemon.name)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // A group of its own: the terminal's Ctrl-C is not for it.
    let child = command.process_group(0).spawn();
    let program = || command.get_program().to_string_lossy().into_owned();
    let child = child.map_err(|e| format!("{}: {e}", program()))?;
    Ok(Started { name: daemon.name.clone(), child })
}

/// A daemon that is started again goes on where the earlier one stopped.
fn log(layout: &Layout, name: &str) -> Result<File> {
    Ok(OpenOptions::new().create(true).append(true).open(layout.log(name))?)
}

/// A Java program with the cluster's class path and configuration, and nothing of the caller's Hadoop.
fn java(layout: &Layout, name: &str, main: &str, args: &[String]) -> Command {
    let mut java = Command::new(&layout.java);
    java.args(layout.java_options());
    if let Some(native) = layout.native.as_ref().filter(|_| main == NODE_MANAGER) {
        java.arg(format!("-Djava.library.path={}", native.display()));
    }
    java.args([processes::mark(&layout.dir), processes::name(name)]);
    java.args(["-cp", &layout.class_path(), main]).args(args);
    for (name, _) in env::vars_os() {
        if ["HADOOP_", "KRB5"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            java.env_remove(name);
        }
    }
    if let Some(home) = layout.java.parent().and_then(|bin| bin.parent()) {
        java.env("JAVA_HOME", home);
    }
    java.env("HADOOP_COMMON_HOME", &layout.jars);
    java.env("HADOOP_CONF_DIR", layout.conf()).current_dir(&layout.dir);
    java
}

fn format(layout: &Layout) -> Result<()> {
    let args = ["-format", "-force", "-nonInteractive"].map(str::to_owned);
    once(layout, "format", java(layout, "format", NAME_NODE, &args))
}

/// Runs a command of Hadoop to its end.
fn once(layout: &Layout, name: &str, mut command: Command) -> Result<()> {
    let log = log(layout, name)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    match command.process_group(0).status()?.success() {
        true => Ok(()),
        false => Err(format!("{name} failed; its last lines:\n{}", tail(layout, name)).into()),
    }
}

/// Makes the directories in HDFS that users and NodeManagers need.
fn directories(layout: &Layout) -> Result<()> {
    if layout.kind.secure {
        return directories_by_kerberos(layout);
    }
    let (port, user) = (layout.port(Port::NameNodeHttp), &layout.user);
    let home = format!("/user/{user}");
    for (path, mode) in [("/tmp", "1777"), ("/user", "755"), (&home, "755"), ("/app-logs", "1777")]
    {
        // The second sets what the first does not: the bit that keeps others' files from being removed.
        for operation in ["MKDIRS", "SETPERMISSION"] {
            let query = format!("op={operation}&permission={mode}&user.name={user}");
            http::ask("PUT", port, &format!("/webhdfs/v1{path}?{query}"))?;
        }
    }
    Ok(())
}

/// The same by Hadoop's own commands, which know how to prove themselves. Homes are made by their owners.
fn directories_by_kerberos(layout: &Layout) -> Result<()> {
    let paths = ["/tmp", "/user", "/app-logs"];
    let open = setting("fs.permissions.umask-mode", "000");
    for arguments in [[&open[0], &open[1], "-mkdir"].as_slice(), &["-chmod", "1777"]] {
        let arguments: Vec<String> =
            arguments.iter().chain(&paths).map(|&word| word.to_owned()).collect();
        let mut command = java(layout, "directories", SHELL, &arguments);
        kerberos::log_in(layout, &mut command);
        once(layout, "directories", command)?;
    }
    Ok(())
}
