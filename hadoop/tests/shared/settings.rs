//! The configuration of the cluster under test, changed for a while. Whoever changes it has the cluster for
//! itself; clients read it too, from the same file.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the one test that has its way with the cluster.
static CLUSTER: Mutex<()> = Mutex::new(());

/// Some of the cluster's daemons with other settings, until it is dropped.
pub(crate) struct Settings {
    daemons: Vec<String>,
    file: PathBuf,
    before: String,
    _alone: MutexGuard<'static, ()>,
}

impl Settings {
    /// For these daemons, which are not touched yet.
    pub(crate) fn of(daemons: impl IntoIterator<Item = String>) -> Self {
        let alone = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        let file = conf_dir().join("yarn-site.xml");
        let before = std::fs::read_to_string(&file).unwrap();
        Self { daemons: daemons.into_iter().collect(), file, before, _alone: alone }
    }

    /// Writes them down and starts the daemons again, one after the other.
    pub(crate) fn set(&self, settings: &[(&str, &str)]) {
        let more: String = settings
            .iter()
            .map(|(n, v)| format!("<property><name>{n}</name><value>{v}</value></property>\n"))
            .collect();
        let text = self.before.replace("</configuration>", &format!("{more}</configuration>"));
        std::fs::write(&self.file, text).unwrap();
        for mut told in self.again() {
            let told = told.output().unwrap();
            assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        }
    }

    /// Kills each and starts it.
    fn again(&self) -> Vec<Command> {
        let tell = |(daemon, what): (&String, &str)| {
            let mut tell = Command::new(conf_dir().join("../bin/daemon"));
            tell.args([what, daemon.as_str()]);
            tell
        };
        let each = self.daemons.iter().flat_map(|daemon| [(daemon, "kill"), (daemon, "start")]);
        each.map(tell).collect()
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // A test that failed may have left some of them dead: that is not worth another failure.
        let _ = std::fs::write(&self.file, &self.before);
        for mut told in self.again() {
            let _ = told.output();
        }
    }
}

/// Returns the directory of the cluster's configuration.
pub(crate) fn conf_dir() -> PathBuf {
    PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").expect("HADOOP_CONF_DIR"))
}
