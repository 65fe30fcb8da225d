//! Flink's application: `flink run -t yarn-application` of a program of the same shape, from Flink's own distribution.
//!
//! The options are those of the distribution, with two slots as Flott has; the scripts around the client's JVM, which
//! only find paths, are left out.

use super::{End, LOOK_EVERY, Running, Yarn, all_running, endpoint, parsed};
use anyhow::{Context, Result, bail};
use rest::client::{ClientTimeouts, RestClient};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;
use tokio::time::Instant;

/// Packages of Java that the distribution's options open.
const OPENED: &[&str] = &[
    "java.lang",
    "java.net",
    "java.io",
    "java.nio",
    "sun.nio.ch",
    "java.lang.reflect",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
];
pub(crate) const LOGGING: &str = "rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = FILE
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n
";

/// Starts applications of Flink on YARN, each by Flink's client with parallelism 2 and two slots per TaskManager.
pub struct Flink {
    distribution: PathBuf,
    /// Configuration, logs, output.
    folder: TempDir,
}

impl Flink {
    /// Prepares to start Flink from the distribution in this folder, which must hold the job `ticker.jar`; writes the configuration to a
    /// temporary folder. Fails if that cannot be written.
    pub fn new(distribution: PathBuf) -> Result<Self> {
        let folder = TempDir::new()?;
        fs::write(
            folder.path().join("config.yaml"),
            format!(
                "jobmanager.memory.process.size: 1600m\ntaskmanager.memory.process.size: 1728m\n\
                 taskmanager.numberOfTaskSlots: 2\nparallelism.default: 2\n\
                 env.java.opts.all: {}\n",
                opened()
            ),
        )?;
        for name in ["log4j.properties", "log4j-cli.properties"] {
            fs::write(folder.path().join(name), LOGGING)?;
        }
        Ok(Self { distribution, folder })
    }

    fn command(&self, yarn: &Yarn) -> Result<Command> {
        let (conf, lib) = (self.folder.path().display(), self.distribution.join("lib"));
        let hadoop =
            yarn.conf.require("yarn.application.classpath", "Flink has no Hadoop in it")?;
        let mut java = Command::new("java");
        java.args(opened().split(' '));
        java.arg(format!("-Dlog.file={}", self.log().display()));
        java.arg(format!("-Dlog4j.configurationFile={conf}/log4j-cli.properties"));
        java.arg("-cp").arg(format!("{conf}:{}/*:{}", lib.display(), hadoop.replace(',', ":")));
        java.args(["org.apache.flink.client.cli.CliFrontend", "run", "-d"]);
        java.args(["-t", "yarn-application"]).arg(self.distribution.join("ticker.jar"));
        java.env("FLINK_CONF_DIR", self.folder.path()).env("FLINK_LIB_DIR", &lib);
        java.env("FLINK_PLUGINS_DIR", self.distribution.join("plugins"));
        let (out, err) = (self.out(), self.folder.path().join("client.err"));
        // The last run's address would be read from it.
        File::create(self.log())?;
        java.stdin(Stdio::null()).stdout(File::create(out)?).stderr(File::create(err)?);
        Ok(java)
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("client.out")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("client.log")
    }

    /// Starts an application and waits until all tasks of its job run. One application at a time: each start empties the client's log.
    ///
    /// # Errors
    /// `yarn.application.classpath` is not set, the client fails (the text has its output), it names no JobManager within 180 s, the job
    /// ends, or its tasks do not run within 180 s after that. The application may be left on the cluster then.
    pub async fn start(&self, yarn: &Yarn) -> Result<Running> {
        let mut command = self.command(yarn)?;
        let began = Instant::now();
        let mut client = command.spawn()?;
        let (id, place) = self.told(&mut client).await?;
        let (host, port) = endpoint(&place)?;
        let rest = RestClient::new(host, port, ClientTimeouts::default());
        let (job, took_ms) = all_running(&rest, began).await?;
        tokio::task::spawn_blocking(move || client.wait()).await??;
        let uploaded_mib = yarn.mib_below(&format!("{}/.flink/{id}", yarn.home())).await?;
        Ok(Running { id: parsed(&id)?, took_ms, uploaded_mib, end: End::Job(rest, job) })
    }

    /// The application and where its REST endpoint is, as soon as the client says so.
    async fn told(&self, client: &mut Child) -> Result<(String, String)> {
        let ask = || std::future::ready(self.looked(client));
        super::until("the address of Flink's JobManager", LOOK_EVERY, ask)
            .await
            .context("Flink's application has not started")
    }

    fn looked(&self, client: &mut Child) -> Result<Option<(String, String)>> {
        let text = fs::read_to_string(self.out())? + &fs::read_to_string(self.log())?;
        if let Some(found) = found(&text) {
            return Ok(Some(found));
        }
        match client.try_wait()? {
            Some(status) if !status.success() => {
                let err = fs::read_to_string(self.folder.path().join("client.err"))?;
                bail!("Flink's client: {status}: {text}{err}");
            }
            _ => Ok(None),
        }
    }
}

pub(crate) fn opened() -> String {
    let opened = OPENED.iter().map(|name| format!("--add-opens=java.base/{name}=ALL-UNNAMED"));
    opened.collect::<Vec<_>>().join(" ")
}

/// Reads `Found Web Interface HOST:PORT of application 'ID'.`
fn found(text: &str) -> Option<(String, String)> {
    let (_, rest) = text.rsplit_once("Found Web Interface ")?;
    let (place, rest) = rest.split_once(" of application '")?;
    let (id, _) = rest.split_once('\'')?;
    Some((id.to_owned(), place.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_tells_where_its_application_is() {
        let line = "INFO Found Web Interface localhost:4711 of application 'application_1_0002'.\n";
        let expected = ("application_1_0002".to_owned(), "localhost:4711".to_owned());
        assert_eq!(found(line), Some(expected));
        assert_eq!(found("Found Web Interface localhost:4711 of appl"), None);
    }
}
