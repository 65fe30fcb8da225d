//! When a daemon can be used. Nothing is started or stopped here.

use super::{
    daemons::Started,
    http,
    layout::{Layout, Port, ResourceManager},
    processes,
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
        // One that was started again knows no NodeManager until each has come back by itself.
        (_, Some(rm), _) => {
            Ok(is_started(layout, &rm)? && knows_at_least(layout, running(layout)?)?)
        }
        (_, _, Some(node)) => is_registered(layout, node),
        ("datanode", ..) => Ok(is_in_touch(layout)? && hdfs(layout)?),
        _ => hdfs(layout),
    }
}

/// Whether the DataNode that runs now has found the NameNode, which has one that was killed among the living for a
/// while.
fn is_in_touch(layout: &Layout) -> Result<bool> {
    let query = "/jmx?qry=Hadoop:service=DataNode,name=DataNodeInfo";
    let answer = http::ask("GET", layout.port(Port::DataNodeHttp), query)?;
    let services = answer.pointer("/beans/0/BPServiceActorInfo").and_then(Value::as_str);
    Ok(services.is_some_and(|services| services.contains(r#""ActorState":"RUNNING""#)))
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
        if !is_started(layout, &rm)? {
            return Ok(false);
        }
    }
    knows_at_least(layout, layout.kind.nodes)
}

fn is_started(layout: &Layout, rm: &ResourceManager) -> Result<bool> {
    let answer = http::ask("GET", layout.port(rm.http), "/ws/v1/cluster/info")?;
    Ok(answer.pointer("/clusterInfo/state").is_some_and(|state| state == "STARTED"))
}

/// Whether the active ResourceManager knows the NodeManager that runs there now. It has one that was killed among the
/// running ones for a while, but what it heard of that one's health is older than its successor.
fn is_registered(layout: &Layout, node: u16) -> Result<bool> {
    let own = http::ask("GET", layout.node_port(node, 2), "/ws/v1/node/info")?;
    let since = own.pointer("/nodeInfo/nmStartupTime").and_then(Value::as_u64);
    let since = since.ok_or("a NodeManager without the time of its start")?;
    let id = format!("localhost:{}", layout.node_port(node, 0));
    let known = ask_active(layout, &format!("/ws/v1/cluster/nodes/{id}"))?;
    let known = known.pointer("/node").unwrap_or(&Value::Null);
    let heard = known["lastHealthUpdate"].as_u64().unwrap_or_default();
    Ok(known["state"] == "RUNNING" && heard >= since)
}

/// Whether the active ResourceManager has so many NodeManagers; one that was killed is among them for a while.
fn knows_at_least(layout: &Layout, nodes: u16) -> Result<bool> {
    let answer = ask_active(layout, "/ws/v1/cluster/metrics")?;
    let active = answer.pointer("/clusterMetrics/activeNodes").and_then(Value::as_u64);
    match active.ok_or("a ResourceManager without metrics")? {
        active if active >= u64::from(nodes) => Ok(true),
        active => Err(format!("{active} of {nodes} NodeManagers can be used").into()),
    }
}

/// How many NodeManagers run.
fn running(layout: &Layout) -> Result<u16> {
    let mut running = 0;
    for node in 1..=layout.kind.nodes {
        let found = processes::named(&layout.dir, &format!("nodemanager{node}"))?;
        running += u16::from(!found.is_empty());
    }
    Ok(running)
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
