//! Programs as files: whether one is ours, what jobs it has, and this process's own.

use crate::components::process_session;
use crate::launchers;
use conf::Options;
use futures::FutureExt;
use futures::future::BoxFuture;
use gateways::program_host::{DescribeProgram, EndHost, ProgramHostGateway};
use gateways::{RpcService, TraceContext};
use host::launch::{self, LaunchSpec};
use model::{ContentHash, JobId};
use rest::ProgramChecker;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use streaming::program_note;
use tokio::sync::Semaphore;

/// Maximum time for a program to name its jobs. The upload waits for it.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of uploaded programs that run at the same time to name their jobs. Each is a process in addition to
/// those of `jobmanager.program-hosts.max`.
const DESCRIBED_AT_ONCE: usize = 2;

/// Looks at uploaded programs: reads their ELF note without executing anything, then has those that carry it name
/// their jobs.
pub(crate) struct UploadChecker {
    rpc: RpcService,
    /// The environment variables that programs inherit.
    env: BTreeMap<String, String>,
    /// Parent of the working folders of the programs that are run.
    folder: PathBuf,
    at_once: Arc<Semaphore>,
}

impl UploadChecker {
    pub(crate) fn new(rpc: RpcService, options: &Options, folder: PathBuf) -> Self {
        let at_once = Arc::new(Semaphore::new(DESCRIBED_AT_ONCE));
        Self { rpc, env: launchers::environment(options), folder, at_once }
    }
}

impl ProgramChecker for UploadChecker {
    fn check(&self, path: &Path) -> Result<(), String> {
        check_file(path)
    }

    fn jobs(&self, path: PathBuf) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let (rpc, env, folder) = (self.rpc.clone(), self.env.clone(), self.folder.clone());
        let at_once = self.at_once.clone();
        async move {
            let _place = at_once.acquire().await.map_err(|e| e.to_string())?;
            let asked = describe(&rpc, path, env, &folder);
            match tokio::time::timeout(DESCRIBED_WITHIN, asked).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {} s", DESCRIBED_WITHIN.as_secs())),
            }
        }
        .boxed()
    }
}

/// Starts a program as a host of no job and asks for its description. The process ends with this
/// future, also if the client whose request it serves has gone and the future is dropped.
async fn describe(
    rpc: &RpcService,
    program: PathBuf,
    env: BTreeMap<String, String>,
    folder: &Path,
) -> Result<Vec<String>, String> {
    let job_id = JobId(rpc.platform().random_u128());
    let place = Place::make(folder.join(format!(".asked-{job_id}"))).map_err(|e| e.to_string())?;
    let spec = LaunchSpec {
        program,
        job_id,
        session: process_session(rpc.platform()),
        parent: rpc.node().clone(),
        trace: TraceContext::current(),
        work_dir: place.0.clone(),
        tmp_dir: place.0.clone(),
        env,
        stdout: place.0.join("stdout"),
        stderr: place.0.join("stderr"),
        output_mode: 0o600,
    };
    let host = launch::host(rpc, spec, DESCRIBED_WITHIN).await.map_err(|e| e.to_string())?;
    let _guard = host.kill.on_drop();
    let gateway = rpc.gateway::<ProgramHostGateway>(&host.address.address, host.address.session);
    let answer = gateway.ask_within(DescribeProgram {}, DESCRIBED_WITHIN).await;
    gateway.tell(EndHost {});
    host.kill.kill();
    // Its folder goes when nothing writes there any more.
    host.exited.await;
    answer.map(|program| program.jobs).map_err(|e| e.to_string())
}

/// A folder that goes with this value.
struct Place(PathBuf);

impl Place {
    fn make(path: PathBuf) -> std::io::Result<Self> {
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, folder = %self.0.display(), "a temporary folder stays");
        }
    }
}

/// Checks that a file is a program that this version runs; nothing is executed. The error does not name the path.
pub(crate) fn check_file(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => e.to_string(),
    })?;
    if !meta.is_file() {
        return Err("it is not a file".to_owned());
    }
    program_note::read(path).map(|_| ()).map_err(|e| e.reason())
}

/// The file of this process's own executable, if the process is a user's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnProgram {
    /// Path of the executable, as the system tells it; another file may be there by now.
    pub path: PathBuf,
    /// Last part of `path`, shown to users.
    pub name: String,
    /// SHA-256 of the executable that runs, whatever is at `path` by now.
    pub hash: ContentHash,
    /// Size in bytes of the executable that runs.
    pub size: u64,
}

impl OwnProgram {
    /// Finds and hashes it, unless its hash is `known`.
    pub(crate) async fn find(known: Option<ContentHash>) -> std::io::Result<Self> {
        let path = std::env::current_exe()?;
        // By its inode: the path may have been replaced by a newer build since the process started.
        let own = Path::new("/proc/self/exe");
        let (hash, size) = match known {
            Some(hash) => (hash, std::fs::metadata(own)?.len()),
            None => platform::content::hash_file(own).await?,
        };
        let name = path
            .file_name()
            .map_or_else(|| "program".to_owned(), |n| n.to_string_lossy().into_owned());
        Ok(Self { path, name, hash, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_is_not_located() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".partial-1");
        std::fs::write(&file, "#!/bin/sh").unwrap();
        let why = check_file(&file).unwrap_err();
        assert!(why.starts_with("it is not a Flott program"), "{why}");
        for path in [file, folder.path().to_owned(), folder.path().join("absent")] {
            let why = check_file(&path).unwrap_err();
            assert!(!why.contains(&*folder.path().to_string_lossy()), "{why}");
        }
    }
}
