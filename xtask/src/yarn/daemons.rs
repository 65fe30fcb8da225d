//! Starts a cluster's daemons and waits until they can be used. It fails as soon as one of them has ended.

use super::{
    http,
    layout::{Layout, Port},
    processes,
};
use crate::run::{Result, Watch};
use serde_json::Value;
use std::{
    env,
    fs::{self, File},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// Of each daemon.
const HEAP: &str = "-Xmx192m";
/// For each thing that is waited for; a busy machine needs twenty seconds.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);
/// Lines of a dead daemon's log that are shown.
const LAST_LINES: usize = 20;

const NAME_NODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATA_NODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";
const RESOURCE_MANAGER: &str = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager";
const NODE_MANAGER: &str = "org.apache.hadoop.yarn.server.nodemanager.NodeManager";

struct Daemon {
    name: String,
    child: Child,
}

/// Starts all and returns when all are ready.
pub(super) fn start(layout: &Layout) -> Result<()> {
    let watch = Watch::start();
    format(layout)?;
    let mut daemons = vec![
        daemon(layout, "namenode", NAME_NODE, &[])?,
        daemon(layout, "datanode", DATA_NODE, &[])?,
        daemon(layout, "resourcemanager", RESOURCE_MANAGER, &[])?,
    ];
    for node in 0..layout.nodes {
        let name = format!("nodemanager{}", node + 1);
        daemons.push(daemon(layout, &name, NODE_MANAGER, &node_settings(layout, node))?);
    }
    until(layout, &mut daemons, "HDFS", || hdfs_is_ready(layout))?;
    directories(layout)?;
    let port = layout.port(Port::NameNode);
    ready(&watch, &format!("HDFS: hdfs://localhost:{port}, 1 DataNode"));
    until(layout, &mut daemons, "YARN", || yarn_is_ready(layout))?;
    let (rpc, web) = (layout.port(Port::ResourceManager), layout.port(Port::ResourceManagerHttp));
    let nodes = layout.nodes;
    ready(&watch, &format!("YARN: localhost:{rpc}, http://localhost:{web}, {nodes} NodeManagers"));
    Ok(())
}

fn ready(watch: &Watch, what: &str) {
    eprintln!("ready after {:.1} s: {what}", watch.elapsed().as_secs_f64());
}

/// What tells one NodeManager from the others.
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
    .flat_map(|(name, value)| ["-D".to_owned(), format!("yarn.nodemanager.{name}={value}")])
    .collect()
}

/// A Java program with the cluster's class path and configuration, and nothing of the caller's Hadoop.
fn java(layout: &Layout, log: &str, main: &str, args: &[String]) -> Result<Command> {
    let log = File::create(layout.log(log))?;
    let mut java = Command::new(&layout.java);
    java.args([HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    // Web pages of YARN generate classes in the old way.
    java.arg("--add-opens=java.base/java.lang=ALL-UNNAMED");
    java.args(["-Djava.net.preferIPv4Stack=true", &processes::mark(&layout.dir)]);
    java.args(["-cp", &layout.class_path(), main]).args(args);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("HADOOP_") {
            java.env_remove(name);
        }
    }
    if let Some(home) = layout.java.parent().and_then(|bin| bin.parent()) {
        java.env("JAVA_HOME", home);
    }
    java.env("HADOOP_CONF_DIR", layout.conf()).current_dir(&layout.dir);
    java.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(java)
}

fn format(layout: &Layout) -> Result<()> {
    let args = ["-format", "-force", "-nonInteractive"].map(str::to_owned);
    let status = java(layout, "format", NAME_NODE, &args)?.status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("HDFS cannot be formatted:\n{}", tail(layout, "format")).into()),
    }
}

fn daemon(layout: &Layout, name: &str, main: &str, args: &[String]) -> Result<Daemon> {
    let mut command = java(layout, name, main, args)?;
    // A group of its own: the terminal's Ctrl-C is not for it.
    let child = command.process_group(0).spawn();
    let child = child.map_err(|e| format!("{}: {e}", layout.java.display()))?;
    Ok(Daemon { name: name.to_owned(), child })
}

fn until(
    layout: &Layout,
    daemons: &mut [Daemon],
    what: &str,
    is_ready: impl Fn() -> Result<bool>,
) -> Result<()> {
    let watch = Watch::start();
    loop {
        // Nobody listens at first; the last reason is told when patience ends.
        let state = is_ready();
        if matches!(state, Ok(true)) {
            return Ok(());
        }
        for daemon in &mut *daemons {
            if let Some(status) = daemon.child.try_wait()? {
                let (name, last) = (&daemon.name, tail(layout, &daemon.name));
                return Err(format!("{name} ended with {status}; its last lines:\n{last}").into());
            }
        }
        if watch.elapsed() > PATIENCE {
            let why = state.err().map_or_else(|| "not yet".to_owned(), |e| e.to_string());
            let logs = layout.dir.join("logs");
            return Err(format!("{what} is not ready: {why}; logs: {}", logs.display()).into());
        }
        sleep(POLL);
    }
}

fn tail(layout: &Layout, name: &str) -> String {
    let log = fs::read(layout.log(name)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
}

fn hdfs_is_ready(layout: &Layout) -> Result<bool> {
    let query = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
    let answer = http::ask("GET", layout.port(Port::NameNodeHttp), query)?;
    let state = answer.pointer("/beans/0").unwrap_or(&Value::Null);
    Ok(state["FSState"] == "Operational" && state["NumLiveDataNodes"] == 1)
}

fn yarn_is_ready(layout: &Layout) -> Result<bool> {
    let port = layout.port(Port::ResourceManagerHttp);
    let answer = http::ask("GET", port, "/ws/v1/cluster/metrics")?;
    let active = answer.pointer("/clusterMetrics/activeNodes").unwrap_or(&Value::Null);
    Ok(*active == layout.nodes)
}

/// What users and NodeManagers expect to be there.
fn directories(layout: &Layout) -> Result<()> {
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
