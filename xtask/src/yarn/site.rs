//! Writes a cluster's configuration (everything on loopback, quick to react, and modest) and scripts for Hadoop's own
//! commands, of which the jars have none.

use super::{
    kerberos,
    layout::{Layout, Port},
    quoted, secure,
};
use crate::run::Result;
use std::{fmt::Write, fs, os::unix::fs::PermissionsExt, path::Path};

/// The memory that each NodeManager offers, in MiB.
const NODE_MEMORY: u32 = 2048;
const NODE_CORES: u32 = 4;
/// How long a granted container may wait to be started.
const CONTAINER_EXPIRY_MS: &str = "10000";

pub(super) type Properties = Vec<(String, String)>;

/// Writes the configuration and the commands.
pub(super) fn write(layout: &Layout) -> Result<()> {
    let conf = layout.conf();
    fs::write(conf.join("core-site.xml"), xml(&core(layout)))?;
    fs::write(conf.join("hdfs-site.xml"), xml(&hdfs(layout)))?;
    fs::write(conf.join("yarn-site.xml"), xml(&yarn(layout)))?;
    fs::write(conf.join("capacity-scheduler.xml"), xml(&queues()))?;
    fs::write(conf.join("log4j.properties"), LOGGING)?;
    if layout.kind.ha {
        fs::write(conf.join("zookeeper.properties"), zoo_keeper(layout))?;
    }
    command(layout, "yarn", &java_script(layout, YARN))?;
    command(layout, "hdfs", &java_script(layout, HDFS))?;
    let own = std::env::current_exe()?;
    let (own, dir) = (quoted(at(&own.to_string_lossy())), quoted(&layout.dir.to_string_lossy()));
    command(layout, "daemon", &format!("exec {own} yarn \"$@\" --dir {dir}\n"))
}

/// Returns the path of a program. The kernel adds ` (deleted)` if a build that the program has started has replaced it.
fn at(program: &str) -> &str {
    program.strip_suffix(" (deleted)").unwrap_or(program)
}

const LOGGING: &str = "log4j.rootLogger=INFO,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.target=System.err
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
";

/// The script that starts the class of each command of `yarn`.
const YARN: &str = "case $1 in
  application|applicationattempt|container) exec_java org.apache.hadoop.yarn.client.cli.ApplicationCLI \"$@\" ;;
  node) shift; exec_java org.apache.hadoop.yarn.client.cli.NodeCLI \"$@\" ;;
  logs) shift; exec_java org.apache.hadoop.yarn.client.cli.LogsCLI \"$@\" ;;
  rmadmin) shift; exec_java org.apache.hadoop.yarn.client.cli.RMAdminCLI \"$@\" ;;
  *) echo \"yarn application|applicationattempt|container|node|logs|rmadmin ARGS\" >&2; exit 1 ;;
esac
";
const HDFS: &str = "case $1 in
  dfs) shift; exec_java org.apache.hadoop.fs.FsShell \"$@\" ;;
  *) echo \"hdfs dfs ARGS\" >&2; exit 1 ;;
esac
";

fn command(layout: &Layout, name: &str, script: &str) -> Result<()> {
    let file = layout.dir.join("bin").join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}"))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// With Kerberos a user that the environment does not name is the cluster's own.
fn java_script(layout: &Layout, cases: &str) -> String {
    let java = quoted(&layout.java.to_string_lossy());
    let options: Vec<String> = layout.java_options().iter().map(|option| quoted(option)).collect();
    let (options, classes) = (options.join(" "), quoted(&layout.class_path()));
    let mut script = String::new();
    if layout.kind.secure {
        for (name, value) in kerberos::environment(layout, &layout.user) {
            // Writing to a text cannot fail.
            let _ = writeln!(script, "export {name}=\"${{{name}:-{value}}}\"");
        }
    }
    script + &format!("exec_java() {{\n  exec {java} {options} -cp {classes} \"$@\"\n}}\n{cases}")
}

/// One server without others to agree with. It forgets nothing, but a power failure may.
fn zoo_keeper(layout: &Layout) -> String {
    format!(
        "tickTime=500\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
         admin.enableServer=false\nmaxClientCnxns=0\nforceSync=no\n",
        layout.dir.join("zookeeper").display(),
        layout.port(Port::ZooKeeper),
    )
}

fn xml(properties: &Properties) -> String {
    let mut text = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
    for (name, value) in properties {
        let value = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  <property><name>{name}</name><value>{value}</value></property>");
    }
    text + "</configuration>\n"
}

/// A path as a URI; it is plain.
fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

pub(super) fn pairs(prefix: &str, pairs: &[(&str, &str)]) -> Properties {
    pairs.iter().map(|(name, value)| (format!("{prefix}{name}"), (*value).to_owned())).collect()
}

fn core(layout: &Layout) -> Properties {
    let (user, tmp) = (&layout.user, layout.dir.join("tmp").display().to_string());
    let file_system = format!("hdfs://localhost:{}", layout.port(Port::NameNode));
    let mut all = pairs(
        "",
        &[
            ("fs.defaultFS", &file_system),
            ("hadoop.tmp.dir", &tmp),
            ("hadoop.http.staticuser.user", user),
            ("ipc.client.connect.max.retries", "5"),
        ],
    );
    // Whoever the cluster is made for may act for others in it.
    for user in [user, &layout.owner] {
        for what in ["hosts", "groups"] {
            all.push((format!("hadoop.proxyuser.{user}.{what}"), "*".to_owned()));
        }
    }
    if layout.kind.secure {
        all.extend(secure::core());
    }
    all
}

fn hdfs(layout: &Layout) -> Properties {
    let at = |port| layout.at(port);
    let mut all = pairs(
        "dfs.",
        &[
            ("replication", "1"),
            ("namenode.name.dir", &uri(&layout.dir.join("hdfs/name"))),
            ("datanode.data.dir", &uri(&layout.dir.join("hdfs/data"))),
            ("namenode.rpc-address", &at(Port::NameNode)),
            ("namenode.rpc-bind-host", "127.0.0.1"),
            ("namenode.http-address", &at(Port::NameNodeHttp)),
            ("namenode.http-bind-host", "127.0.0.1"),
            ("datanode.hostname", "localhost"),
            ("datanode.address", &at(Port::DataNodeData)),
            ("datanode.ipc.address", &at(Port::DataNodeIpc)),
            ("datanode.http.address", &at(Port::DataNodeHttp)),
            ("namenode.safemode.extension", "0"),
            ("heartbeat.interval", "1"),
            // A disk that is nearly full is no reason not to test.
            ("datanode.du.reserved", "0"),
            ("namenode.resource.du.reserved", "1048576"),
            ("namenode.datanode.registration.ip-hostname-check", "false"),
            ("webhdfs.enabled", "true"),
        ],
    );
    if layout.kind.secure {
        all.extend(secure::hdfs(layout));
    }
    all
}

/// Returns the properties of the ResourceManagers: their addresses, and the store that they recover from.
fn resource_managers(layout: &Layout) -> Properties {
    let mut all = pairs(
        "yarn.resourcemanager.",
        &[
            ("bind-host", "127.0.0.1"),
            ("scheduler.class", CAPACITY_SCHEDULER),
            ("am.max-attempts", "2"),
            ("nodemanagers.heartbeat-interval-ms", &layout.kind.heartbeat.to_string()),
            // A container that nobody starts is taken back.
            ("rm.container-allocation.expiry-interval-ms", CONTAINER_EXPIRY_MS),
            ("container.liveness-monitor.interval-ms", "2000"),
            // Clients and NodeManagers notice soon that it is back.
            ("connect.retry-interval.ms", "500"),
            // Applications survive a restart of it.
            ("recovery.enabled", "true"),
            ("work-preserving-recovery.scheduling-wait-ms", "1000"),
        ],
    );
    for rm in layout.resource_managers() {
        let suffix = rm.id.map_or_else(String::new, |id| format!(".{id}"));
        for (name, value) in [
            ("hostname", "localhost".to_owned()),
            ("address", layout.at(rm.client)),
            ("scheduler.address", layout.at(rm.scheduler)),
            ("resource-tracker.address", layout.at(rm.tracker)),
            ("admin.address", layout.at(rm.admin)),
            ("webapp.address", layout.at(rm.http)),
        ] {
            all.push((format!("yarn.resourcemanager.{name}{suffix}"), value));
        }
    }
    if !layout.kind.ha {
        let state = uri(&layout.dir.join("rm-state"));
        let stored = [("store.class", FILE_STORE), ("fs.state-store.uri", &state)];
        all.extend(pairs("yarn.resourcemanager.", &stored));
        return all;
    }
    all.extend(pairs(
        "",
        &[
            ("yarn.resourcemanager.ha.enabled", "true"),
            ("yarn.resourcemanager.ha.rm-ids", "rm1,rm2"),
            ("yarn.resourcemanager.cluster-id", "xtask"),
            ("yarn.resourcemanager.store.class", ZOO_KEEPER_STORE),
            ("hadoop.zk.address", &layout.at(Port::ZooKeeper)),
            // The other one takes over when this one has not been heard of for so long. A busy machine lets
            // ZooKeeper wait for seconds: two that lose their state by turns serve nobody.
            ("hadoop.zk.timeout-ms", "10000"),
            ("yarn.client.failover-sleep-base-ms", "100"),
            ("yarn.client.failover-sleep-max-ms", "1000"),
        ],
    ));
    all
}

fn yarn(layout: &Layout) -> Properties {
    let (memory, cores) = (NODE_MEMORY.to_string(), NODE_CORES.to_string());
    let classes = format!("{},{}/*", layout.conf().display(), layout.jars.display());
    let (labels, attributes) =
        (uri(&layout.dir.join("labels")), uri(&layout.dir.join("attributes")));
    let logs = layout.keeps_logs().to_string();
    let mut all = resource_managers(layout);
    all.extend(pairs(
        "yarn.",
        &[
            ("scheduler.minimum-allocation-mb", "64"),
            ("scheduler.maximum-allocation-mb", &memory),
            ("scheduler.minimum-allocation-vcores", "1"),
            // Several NodeManagers of one host: `host:port` names one of them.
            ("scheduler.include-port-in-node-name", "true"),
            ("nm.liveness-monitor.expiry-interval-ms", "10000"),
            ("am.liveness-monitor.expiry-interval-ms", "30000"),
            ("log-aggregation-enable", &logs),
            ("log-aggregation.retain-seconds", "86400"),
            ("application.classpath", &classes),
            ("node-labels.enabled", "true"),
            ("node-labels.fs-store.root-dir", &labels),
            ("node-attribute.fs-store.root-dir", &attributes),
        ],
    ));
    all.extend(pairs(
        "yarn.nodemanager.",
        &[
            ("hostname", "localhost"),
            ("bind-host", "127.0.0.1"),
            ("resource.memory-mb", &memory),
            ("resource.cpu-vcores", &cores),
            ("vmem-check-enabled", "false"),
            ("disk-health-checker.max-disk-utilization-per-disk-percentage", "99.5"),
            ("container-executor.class", CONTAINER_EXECUTOR),
            ("delete.debug-delay-sec", "0"),
            ("sleep-delay-before-sigkill.ms", "2000"),
            ("env-whitelist", "JAVA_HOME,HADOOP_COMMON_HOME,HADOOP_CONF_DIR,PATH,LANG,TZ"),
            ("remote-app-log-dir", "/app-logs"),
        ],
    ));
    if layout.kind.secure {
        all.extend(secure::yarn(layout));
    }
    all
}

const CAPACITY_SCHEDULER: &str =
    "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler";
const FILE_STORE: &str =
    "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore";
const ZOO_KEEPER_STORE: &str =
    "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore";
const CONTAINER_EXECUTOR: &str =
    "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor";

/// Two queues, the second with a quarter of the cluster and no more, and with nothing of the nodes with a label
/// where there are such.
fn queues() -> Properties {
    pairs(
        "yarn.scheduler.capacity.",
        &[
            ("maximum-applications", "1000"),
            ("maximum-am-resource-percent", "1.0"),
            (
                "resource-calculator",
                "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
            ),
            ("node-locality-delay", "0"),
            ("root.queues", "default,small"),
            ("root.accessible-node-labels.gpu.capacity", "100"),
            ("root.default.capacity", "75"),
            ("root.default.maximum-capacity", "100"),
            ("root.default.user-limit-factor", "4"),
            ("root.default.accessible-node-labels.gpu.capacity", "100"),
            ("root.small.capacity", "25"),
            ("root.small.maximum-capacity", "25"),
            // None; else it has all that its parent has.
            ("root.small.accessible-node-labels", " "),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_xml_whatever_they_hold() {
        let text = xml(&vec![("a".to_owned(), "x<&>".to_owned())]);
        assert!(text.contains("<name>a</name><value>x&lt;&amp;&gt;</value>"));
    }
}
