//! Flott's application: `flott run-application -d -t yarn-application` of an unbounded program with parallelism 2.

use super::{End, Running, Yarn, all_running, endpoint, parsed};
use anyhow::{Context, Result, bail};
use rest::access::BearerToken;
use rest::client::{ClientTimeouts, RestClient};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};
use tempfile::TempDir;
use tokio::time::Instant;

/// The folder of HDFS in which Flott keeps programs for all applications (`yarn.provided.lib.dirs`): later ones need not upload them.
pub const CACHE: &str = "/tmp/flott-cache";

/// Starts applications of Flott on YARN, each by its command line with parallelism 2 and two slots per TaskManager.
pub struct Flott {
    flott: PathBuf,
    program: PathBuf,
    /// Configuration and token files.
    folder: TempDir,
}

impl Flott {
    /// Prepares to start applications by the binary `flott` with the user program `program`; writes their configuration to a temporary
    /// folder. Fails if that cannot be written.
    pub fn new(flott: PathBuf, program: PathBuf) -> Result<Self> {
        let folder = TempDir::new()?;
        fs::write(
            folder.path().join("flott.yaml"),
            format!(
                "taskmanager.numberOfTaskSlots: 2\nyarn.provided.lib.dirs: {CACHE}\n\
                 yarn.properties-file.location: {}\n",
                folder.path().display()
            ),
        )?;
        Ok(Self { flott, program, folder })
    }

    /// Starts an application and waits until all tasks of its job run.
    ///
    /// # Errors
    /// The client fails (the text has its standard error), the job ends, or its tasks do not run within 180 s after that. The application
    /// may be left on the cluster then.
    pub async fn start(&self, yarn: &Yarn) -> Result<Running> {
        let cached = yarn.mib_below(CACHE).await?;
        let mut command = Command::new(&self.flott);
        command.args(["run-application", "-d", "-t", "yarn-application", "--output", "json"]);
        command.arg("--config-dir").arg(self.folder.path()).args(["-p", "2"]).arg(&self.program);
        command.stdin(Stdio::null());
        let began = Instant::now();
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        if !output.status.success() {
            bail!("flott: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let text = |name: &str| {
            let value = told.get(name).and_then(|value| value.as_str());
            value.with_context(|| format!("flott has told no {name}"))
        };
        let (host, port) = endpoint(text("rest")?.trim_start_matches("http://"))?;
        let token = fs::read_to_string(text("token_file")?)?;
        let rest = RestClient::new(host, port, ClientTimeouts::default())
            .with_token(Some(BearerToken::new(token.trim())?));
        let (job, took_ms) = all_running(&rest, began).await?;
        let id = text("application")?;
        let staged = yarn.mib_below(&format!("{}/.flott/{id}", yarn.home())).await?;
        let uploaded_mib = staged + yarn.mib_below(CACHE).await? - cached;
        Ok(Running { id: parsed(id)?, took_ms, uploaded_mib, end: End::Job(rest, job) })
    }
}
