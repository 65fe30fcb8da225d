//! When a daemon can be used. Nothing is started or stopped here.

use super::{
    daemons::Started,
    http,
    layout::{Layout, Port},
};
use crate::run::{Result, Watch};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    thread::sleep,
    time::Duration,
};

/// For each thing that is waited for; a busy machine needs twenty seconds.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);
/// Lines of a dead daemon's log that are shown.
const LAST_LINES: usize = 20;

/// Returns when `is_ready` says so; fails when one of the daemons has ended, or patience has.
pub(super) fn until(
    layout: &Layout,
    daemons: &mut [Started],
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

pub(super) fn tail(layout: &Layout, name: &str) -> String {
    let log = fs::read(layout.log(name)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
}

/// Whether this one can be used.
pub(super) fn is_ready(layout: &Layout, name: &str) -> Result<bool> {
    let manager = layout.resource_managers().into_iter().find(|rm| rm.name == name);
    let node = name.strip_prefix("nodemanager").and_then(|number| number.parse::<u16>().ok());
    match (name, manager, node.and_then(|number| number.checked_sub(1))) {
        ("kdc", ..) => listens(layout, Port::Kdc),
        ("zookeeper", ..) => listens(layout, Port::ZooKeeper),
        (_, Some(rm), _) => {
            let answer = http::ask("GET", layout.port(rm.http), "/ws/v1/cluster/info")?;
            Ok(answer.pointer("/clusterInfo/state").is_some_and(|state| state == "STARTED"))
        }
        (_, _, Some(node)) => {
            let id = format!("localhost:{}", layout.node_port(node, 0));
            let answer = ask_active(layout, &format!("/ws/v1/cluster/nodes/{id}"))?;
            http::ask("GET", layout.node_port(node, 2), "/ws/v1/node/info")?;
            Ok(answer.pointer("/node/state").is_some_and(|state| state == "RUNNING"))
        }
        _ => hdfs(layout),
    }
}

fn listens(layout: &Layout, port: Port) -> Result<bool> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, layout.port(port)))?;
    Ok(true)
}

fn hdfs(layout: &Layout) -> Result<bool> {
    let query = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
    let answer = http::ask("GET", layout.port(Port::NameNodeHttp), query)?;
    let state = answer.pointer("/beans/0").unwrap_or(&Value::Null);
    Ok(state["FSState"] == "Operational" && state["NumLiveDataNodes"] == 1)
}

/// Whether every ResourceManager answers, and the active one knows every NodeManager.
pub(super) fn yarn(layout: &Layout) -> Result<bool> {
    for rm in layout.resource_managers() {
        if !is_ready(layout, rm.name)? {
            return Ok(false);
        }
    }
    let answer = ask_active(layout, "/ws/v1/cluster/metrics")?;
    let active = answer.pointer("/clusterMetrics/activeNodes").unwrap_or(&Value::Null);
    Ok(*active == layout.kind.nodes)
}

/// Asks the ResourceManager that answers; the others send elsewhere.
fn ask_active(layout: &Layout, path: &str) -> Result<Value> {
    let mut last = Err("no ResourceManager".into());
    for rm in layout.resource_managers() {
        last = http::ask("GET", layout.port(rm.http), path);
        if last.is_ok() {
            return last;
        }
    }
    last
}
