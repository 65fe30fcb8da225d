//! Where a cluster's files are and which ports its daemons have. Nothing is started here.

use crate::run::Result;
use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// More would not fit between two clusters' ports.
pub(super) const MOST_NODES: u16 = 20;
/// Below the ports that systems give out by themselves.
const FIRST_BASE: u16 = 18_000;
/// Ports from one cluster's base to the next one's.
const STRIDE: u16 = 400;
const LAST_BASE: u16 = 30_000;
/// Tells a cluster's directory from anything else.
const MARK: &str = ".xtask-yarn";

/// A port, by its distance from the cluster's base.
#[derive(Debug, Clone, Copy)]
#[repr(u16)]
pub(super) enum Port {
    NameNode = 20,
    Scheduler = 30,
    Tracker = 31,
    ResourceManager = 32,
    Admin = 33,
    DataNodeHttp = 64,
    DataNodeData = 66,
    DataNodeIpc = 67,
    NameNodeHttp = 70,
    ResourceManagerHttp = 88,
}

const PORTS: &[Port] = &[
    Port::NameNode,
    Port::Scheduler,
    Port::Tracker,
    Port::ResourceManager,
    Port::Admin,
    Port::DataNodeHttp,
    Port::DataNodeData,
    Port::DataNodeIpc,
    Port::NameNodeHttp,
    Port::ResourceManagerHttp,
];
/// Of each NodeManager: containers, localiser, web pages, collector.
const NODE_PORTS: u16 = 4;

/// One cluster's places.
pub(super) struct Layout {
    pub(super) dir: PathBuf,
    pub(super) jars: PathBuf,
    pub(super) nodes: u16,
    pub(super) java: PathBuf,
    pub(super) user: String,
    base: u16,
}

impl Layout {
    /// Places in `dir`, and ports that nobody has now.
    pub(super) fn new(dir: PathBuf, jars: PathBuf, nodes: u16) -> Result<Self> {
        let base = (FIRST_BASE..=LAST_BASE)
            .step_by(usize::from(STRIDE))
            .find(|&base| ports(base, nodes).all(is_free))
            .ok_or("no ports are free")?;
        let user = env::var("USER").ok().filter(|user| !user.is_empty());
        let user = user.map_or_else(user_by_id, Ok)?;
        Ok(Self { dir, jars, nodes, java: java()?, user, base })
    }

    /// Makes the directories, with nothing of an earlier cluster in them.
    pub(super) fn make(&self) -> Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(&self.dir).map_err(|e| format!("{}: {e}", self.dir.display()))?;
        fs::write(self.dir.join(MARK), "")?;
        // Maven's jars lack these two, and daemons of HDFS look for them on the class path.
        for dir in ["web/webapps/hdfs", "web/webapps/datanode"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        for dir in ["conf", "bin", "logs", "tmp", "hdfs/name", "hdfs/data", "rm-state"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        fs::set_permissions(self.dir.join("hdfs/data"), fs::Permissions::from_mode(0o700))?;
        Ok(())
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.dir.join("conf")
    }

    pub(super) fn log(&self, daemon: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{daemon}.log"))
    }

    pub(super) fn port(&self, port: Port) -> u16 {
        self.base + port as u16
    }

    /// The `which`th port of the NodeManager `node`, both from 0.
    pub(super) fn node_port(&self, node: u16, which: u16) -> u16 {
        node_port(self.base, node, which)
    }

    /// Java's class path.
    pub(super) fn class_path(&self) -> String {
        let (conf, web) = (self.conf(), self.dir.join("web"));
        format!("{}:{}:{}/*", conf.display(), web.display(), self.jars.display())
    }
}

/// Whether a directory was made by this command.
pub(super) fn is_ours(dir: &Path) -> bool {
    dir.join(MARK).is_file()
}

fn node_port(base: u16, node: u16, which: u16) -> u16 {
    base + 110 + 10 * node + which
}

fn ports(base: u16, nodes: u16) -> impl Iterator<Item = u16> {
    let of_node = move |node| (0..NODE_PORTS).map(move |which| node_port(base, node, which));
    PORTS.iter().map(move |&port| base + port as u16).chain((0..nodes).flat_map(of_node))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Of `JAVA_HOME`, else the one on the path; the real file, because its place tells Java's home.
fn java() -> Result<PathBuf> {
    let of_home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let found = of_home
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|dir| dir.join("java"))
        .find(|java| java.is_file())
        .ok_or("no java: set JAVA_HOME")?;
    Ok(fs::canonicalize(found)?)
}

fn user_by_id() -> Result<String> {
    let name = crate::run::output(std::process::Command::new("id").arg("-un"))?;
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_daemons_and_no_two_clusters_share_a_port() {
        let mut all: Vec<u16> = ports(FIRST_BASE, MOST_NODES).collect();
        all.extend(ports(FIRST_BASE + STRIDE, MOST_NODES));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(ports(LAST_BASE, MOST_NODES).all(|port| port < 32_768));
    }

    #[test]
    fn a_port_that_somebody_has_is_not_free() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(taken.local_addr().unwrap().port()));
    }
}
