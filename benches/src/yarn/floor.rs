//! The floor: an ApplicationMaster and a worker that do nothing, of a program that is as large as Flott's.

use super::{PATIENCE, Running, Yarn, parsed};
use crate::cluster::millis;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, time::Instant};

/// The folder of HDFS in which the floor keeps its program for all applications, as Flott does with its own.
pub const CACHE: &str = "/tmp/floor-cache";

/// Starts applications on YARN that do nothing (an ApplicationMaster and one worker), as the floor of what any application costs.
pub struct Floor {
    program: PathBuf,
    listener: TcpListener,
    _folder: TempDir,
}

impl Floor {
    /// Copies the floor's `program` and pads the copy to the size of `other`, Flott's; listens for workers on a loopback port.
    ///
    /// # Errors
    /// `program` is larger than `other`, a file cannot be read or written, or no port is free.
    pub async fn new(program: &Path, other: &Path) -> Result<Self> {
        let folder = TempDir::new()?;
        let padded = folder.path().join("floor");
        let (own, wanted) = (fs::copy(program, &padded)?, fs::metadata(other)?.len());
        if own > wanted {
            bail!("the floor's program has {own} bytes, more than the {wanted} of Flott's");
        }
        fs::OpenOptions::new().write(true).open(&padded)?.set_len(wanted)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { program: padded, listener, _folder: folder })
    }

    /// Starts an application and waits until its worker connects to this process, which ends the measured time.
    ///
    /// # Errors
    /// The client fails (the text has its standard error), which is noticed only after 180 s, or no worker connects within 180 s. The
    /// application may be left on the cluster then.
    pub async fn start(&self, yarn: &Yarn) -> Result<Running> {
        let cached = yarn.mib_below(CACHE).await?;
        let measurer = self.listener.local_addr()?.to_string();
        let mut command = Command::new(&self.program);
        command.args(["submit", "--cache", CACHE, "--measurer", &measurer]);
        command.arg("--program").arg(&self.program).stdin(Stdio::null());
        let began = Instant::now();
        let client = tokio::task::spawn_blocking(move || command.output());
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        let took_ms = millis(began);
        let output = client.await??;
        if !output.status.success() {
            bail!("the floor: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let (connection, _) = accepted.context("no worker of the floor has come")??;
        let id = String::from_utf8(output.stdout)?;
        let staged = yarn.mib_below(&format!("{}/.floor/{}", yarn.home(), id.trim())).await?;
        let uploaded_mib = staged + yarn.mib_below(CACHE).await? - cached;
        let end = super::End::Connection(connection);
        Ok(Running { id: parsed(id.trim())?, took_ms, uploaded_mib, end })
    }
}
