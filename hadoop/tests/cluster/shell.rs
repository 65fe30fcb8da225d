//! The distributed shell as a process that is held up: its workers wait until they are let go.

use super::examples::{application, example};
use super::{until, yarn};
use hadoop::yarn::messages::{ApplicationId, ApplicationReport, YarnApplicationState};
use std::io::Read;
use std::process::{Child, Stdio};

pub(super) struct Shell {
    child: Child,
    /// Shared with the workers, which are on this machine.
    folder: tempfile::TempDir,
}

impl Shell {
    /// Starts one. Each of its workers notes its container and waits.
    pub(super) fn start(containers: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        // Whatever becomes of the test, no worker waits for longer than its folder is there.
        let command = format!(
            "echo $CONTAINER_ID >> {at}/started; \
             while [ -e {at}/started ] && [ ! -e {at}/go ]; do sleep 0.1; done"
        );
        let mut shell = example("distributed-shell");
        shell.args(["--containers", &containers.to_string(), "--command", &command]);
        let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, folder }
    }

    /// The containers whose workers have begun.
    pub(super) fn started(&self) -> Vec<String> {
        let noted = std::fs::read_to_string(self.folder.path().join("started"));
        noted.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits until so many workers have begun; gives the application.
    pub(super) async fn begun(&self, containers: usize) -> ApplicationId {
        let noted = until("workers", async || {
            let started = self.started();
            (started.len() == containers).then_some(started)
        });
        let noted = noted.await;
        let container: hadoop::yarn::messages::ContainerId = noted[0].parse().unwrap();
        container.app_attempt_id.unwrap().application_id.unwrap()
    }

    /// Lets the workers go.
    pub(super) fn go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    /// Waits for the end: whether it succeeded, and all that it said.
    pub(super) fn ended(mut self) -> (bool, String) {
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.is_empty() || application(&said).starts_with("application_"));
        (self.child.wait().unwrap().success(), said)
    }
}

/// Waits until an application's report is as it should be.
pub(super) async fn reported(
    id: ApplicationId,
    what: &str,
    is_so: impl Fn(&ApplicationReport) -> bool,
) -> ApplicationReport {
    let yarn = yarn().await;
    until(what, async || Some(yarn.report(id).await.unwrap()).filter(|report| is_so(report))).await
}

/// Waits until an attempt runs.
pub(super) async fn running(id: ApplicationId, attempt: i32) {
    let is_so = |report: &ApplicationReport| {
        let current = report.current_application_attempt_id.unwrap_or_default();
        current.attempt_id() == attempt && report.state() == YarnApplicationState::Running
    };
    reported(id, "a running attempt", is_so).await;
}
