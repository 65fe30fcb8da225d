//! The targets `yarn-session`, `yarn-application` and `yarn-per-job`.

use super::cluster::{self, Cluster};
use super::deployment::{self, Request, has_ended, kill, program_options};
use super::error::YarnFailure;
use super::launch::{ClusterKind, TAG};
use super::logs::{ApplicationLogs, Shown};
use super::session_files::{SessionFile, TokenFile};
use super::staging::Staging;
use crate::cli::args::ClusterArgs;
use crate::cli::logs::{self, LogOutput};
use crate::cli::{Context, Failure, client, info};
use crate::targets::{Application, ClusterDescriptor, ClusterSpecification, Deployed, Ending};
use conf::{execution, yarn_client};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationReport, FinalApplicationStatus, NodeReport, NodeState,
    YarnApplicationState,
};
use rest::client::RestClient;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use streaming::program_note::{self, ProgramNote};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// Maximum time for an orderly end of a session before YARN kills it.
const ORDERLY_WITHIN: Duration = Duration::from_secs(20);
/// Between two looks whether a session has ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// The session takes jobs.
    Running,
    /// The session is not up yet, or not again.
    Starting,
    /// The session has ended; the text describes the end for users.
    Ended(String),
}

/// Deploys on YARN, finds and ends sessions there.
pub(crate) struct YarnDescriptor<'a> {
    context: &'a Context,
    kind: ClusterKind,
    /// Connected to when it is first needed.
    cluster: OnceCell<Cluster>,
}

impl<'a> YarnDescriptor<'a> {
    /// # Errors
    /// `-m` beside a target on YARN: the cluster is found by its application.
    pub(crate) fn new(
        context: &'a Context,
        kind: ClusterKind,
        cluster: &ClusterArgs,
    ) -> Result<Self, Failure> {
        match &cluster.jobmanager {
            None => Ok(Self { context, kind, cluster: OnceCell::new() }),
            Some(_) => Err(Failure::usage(
                "-m names a session by its address, with -t remote; one on YARN is found by its application: \
                 -Dyarn.application.id=application_…",
            )),
        }
    }

    /// Connects to the cluster that `HADOOP_CONF_DIR` describes.
    async fn connect(&self) -> Result<&Cluster, YarnFailure> {
        let connect = async || {
            let conf = cluster::configuration()?;
            let patience = self.context.options.get(&execution::CLIENT_TIMEOUT);
            Cluster::connect(conf, patience, |text| self.context.print.note(text)).await
        };
        self.cluster.get_or_try_init(connect).await
    }

    async fn start(
        &self,
        spec: ClusterSpecification,
        application: Option<Application>,
    ) -> Result<Deployed, Failure> {
        let request = self.request(spec, application).await?;
        let (kind, cluster) = (request.kind, self.connect().await?);
        let options = &self.context.options;
        let started = deployment::deploy(options, self.context.print, cluster, request).await?;
        if kind == ClusterKind::Session {
            let file = SessionFile::of(options);
            if let Ok(Some(earlier)) = file.read() {
                self.context.print.note(&format!(
                    "note: {} named {earlier} until now; that session is found by -Dyarn.application.id={earlier}",
                    file.display()
                ));
            }
            file.write(started.id)?;
        }
        self.deployed(started.id, &started.report)
    }

    async fn request(
        &self,
        spec: ClusterSpecification,
        application: Option<Application>,
    ) -> Result<Request, Failure> {
        let Some(application) = application else {
            let name = "Flott session cluster".to_owned();
            let (program, graph) = (None, None);
            let kind = ClusterKind::Session;
            return Ok(Request { kind, spec, name, program, graph, more: Default::default() });
        };
        if self.kind == ClusterKind::Application {
            let note = program_note::read(&application.program).map_err(Failure::start)?;
            check_features(note, &application.program)?;
        }
        let file = application.program.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("Flott: {file}");
        let mut more = program_options(&application.args, application.job_id);
        let graph = match self.kind {
            ClusterKind::PerJob => {
                // It is in the graph.
                more.clear();
                let built = info::graph_for_cluster(self.context, &application).await?;
                Some(serde_json::to_vec(&built).map_err(Failure::start)?)
            }
            ClusterKind::Session | ClusterKind::Application => None,
        };
        // The JobManager keeps results for a client that says so.
        more.insert(execution::ATTACHED.key().to_owned(), application.attached.to_string());
        let (kind, program) = (self.kind, Some(application.program));
        Ok(Request { kind, spec, name, program, graph, more })
    }

    fn deployed(&self, id: ApplicationId, report: &ApplicationReport) -> Result<Deployed, Failure> {
        let ended = self.has_ended(id, report);
        let token = TokenFile::of(&self.context.options, id).display().to_string();
        let rest = rest_of(report).map(|(host, port)| format!("http://{host}:{port}"));
        let tracking = report.tracking_url().to_owned();
        let value = json!({
            "application": id.to_string(),
            "ended": ended,
            "rest": rest,
            "tracking": tracking,
            "token_file": (!ended).then_some(&token),
        });
        let text = match (&rest, ended) {
            (_, true) => format!("{id} has ended already"),
            (Some(rest), false) => {
                format!("{id} runs\nrest: {rest} (token: {token})\ntracking: {tracking}")
            }
            (None, false) => format!("{id} runs\ntracking: {tracking}"),
        };
        let client = rest_of(report).filter(|_| !ended);
        let client = client.map(|place| self.client(id, &place)).transpose()?;
        Ok(Deployed { value, text, client, application: Some(id.to_string()) })
    }

    /// Makes a client of the application's JobManager, with its token.
    fn client(
        &self,
        id: ApplicationId,
        (host, port): &(String, u16),
    ) -> Result<RestClient, YarnFailure> {
        let options = &self.context.options;
        let token = TokenFile::of(options, id).read()?;
        Ok(client::at(options, host, *port).with_token(Some(token)))
    }

    /// Returns true if the application has ended; its token is of no use then.
    fn has_ended(&self, id: ApplicationId, report: &ApplicationReport) -> bool {
        let ended = has_ended(report);
        if ended {
            TokenFile::of(&self.context.options, id).forget();
        }
        ended
    }

    /// Returns the application that this command is about.
    fn named(&self) -> Result<ApplicationId, YarnFailure> {
        let options = &self.context.options;
        if let Some(text) = options.get(&yarn_client::APPLICATION_ID) {
            return text.parse().map_err(|_| {
                YarnFailure::configuration(format!(
                    "yarn.application.id '{text}' is not an application's id, which has the form application_<number>_<number>"
                ))
            });
        }
        let file = SessionFile::of(options);
        file.read()?.ok_or_else(|| {
            YarnFailure::configuration(format!(
                "no session is known: there is no {} (flott yarn-session writes it); start a session, or name one with \
                 -Dyarn.application.id=application_…",
                file.display()
            ))
        })
    }

    async fn find(&self) -> Result<RestClient, YarnFailure> {
        let id = self.named()?;
        let cluster = self.connect().await?;
        let report = self.report(cluster, id).await?;
        if let SessionState::Ended(how) = state(&report) {
            SessionFile::of(&self.context.options).forget(id);
            TokenFile::of(&self.context.options, id).forget();
            return Err(YarnFailure::cluster(format!(
                "{id} has ended: {how}; start a session with flott yarn-session"
            )));
        }
        let place = rest_of(&report).ok_or_else(|| {
            YarnFailure::cluster(format!("{id} is not up yet ({:?}); try again", report.state()))
        })?;
        self.client(id, &place)
    }

    /// Returns the report of an application of Flott.
    ///
    /// # Errors
    /// The cluster does not know it; it is another framework's.
    async fn report(
        &self,
        cluster: &Cluster,
        id: ApplicationId,
    ) -> Result<ApplicationReport, YarnFailure> {
        let report = report_if_known(cluster, id).await?.ok_or_else(|| {
            YarnFailure::cluster(format!(
                "the cluster knows no {id}: it has forgotten it, or HADOOP_CONF_DIR is another cluster's"
            ))
        })?;
        if !report.application_tags.iter().any(|tag| tag == TAG) {
            let (kind, name) = (report.application_type(), report.name());
            return Err(YarnFailure::configuration(format!(
                "{id} is not a cluster of Flott: it is '{name}' of type {kind}"
            )));
        }
        Ok(report)
    }

    async fn show_logs(&self, context: &Context, output: &mut LogOutput) -> Result<(), Failure> {
        let (id, cluster) = (self.named()?, self.connect().await?);
        let report = report_if_known(cluster, id).await?;
        let patience = self.context.options.get(&execution::CLIENT_TIMEOUT);
        let mut logs = ApplicationLogs { cluster, id, report, patience };
        match logs.show(output).await? {
            Shown::All => Ok(()),
            // Nodes that want Kerberos for their pages; the application's own endpoint has the token.
            Shown::OnlyByEndpoint => {
                let client = self.find().await?;
                logs::of_endpoint(context, &client, output).await
            }
        }
    }

    /// Returns how far the session of this command has come.
    pub(crate) async fn session_state(&self) -> Result<SessionState, Failure> {
        let cluster = self.connect().await?;
        let id = self.named()?;
        let report = self.report(cluster, id).await?;
        self.has_ended(id, &report);
        Ok(state(&report))
    }

    async fn ending_of(&self, application: &str) -> Result<Option<Ending>, YarnFailure> {
        let cluster = self.connect().await?;
        let id: ApplicationId =
            application.parse().map_err(|_| YarnFailure::configuration(application))?;
        let report = self.report(cluster, id).await?;
        Ok(self.has_ended(id, &report).then(|| Ending {
            succeeded: report.final_status() == FinalApplicationStatus::Succeeded,
            how: super::states::sentence(&report).unwrap_or_default(),
        }))
    }

    async fn end(&self) -> Result<(), YarnFailure> {
        let id = self.named()?;
        let cluster = self.connect().await?;
        let report = self.report(cluster, id).await?;
        if !has_ended(&report) {
            self.end_running(cluster, id, &report).await?;
        }
        // A JobManager that was killed could not do it.
        let staging =
            Staging::new(&cluster.conf, &cluster.login, &self.context.options, &id.to_string())?;
        if let Err(error) = staging.delete().await {
            self.context.print.note(&error.to_string());
        }
        SessionFile::of(&self.context.options).forget(id);
        TokenFile::of(&self.context.options, id).forget();
        Ok(())
    }

    /// Stops a session through its JobManager if that answers, otherwise through YARN.
    async fn end_running(
        &self,
        cluster: &Cluster,
        id: ApplicationId,
        report: &ApplicationReport,
    ) -> Result<(), YarnFailure> {
        if let Some(place) = rest_of(report) {
            let told = match self.client(id, &place) {
                Ok(client) => client.shut_down_cluster().await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match told {
                Ok(()) => {
                    let since = Instant::now();
                    while since.elapsed() < ORDERLY_WITHIN {
                        if has_ended(&cluster.yarn.report(id).await?) {
                            return Ok(());
                        }
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                    let within = ORDERLY_WITHIN.as_secs();
                    self.context
                        .print
                        .note(&format!("{id} has not ended within {within} s: killing it"));
                }
                Err(error) => {
                    self.context.print.note(&format!(
                        "the JobManager of {id} does not accept the request to stop ({error}): killing the application"
                    ));
                }
            }
        }
        kill(cluster, id).await.map_err(|why| {
            YarnFailure::cluster(format!(
                "{id} could not be killed: {why}; yarn application -kill {id}"
            ))
        })
    }

    /// Returns the cluster's nodes: host, what containers may have there, and what they have.
    pub(crate) async fn nodes(&self) -> Result<Vec<NodeReport>, Failure> {
        let cluster = self.connect().await?;
        Ok(cluster.yarn.nodes(&[NodeState::Running]).await.map_err(YarnFailure::from)?)
    }

    /// Returns the queues that applications can be submitted to, with the used part of each one's capacity.
    pub(crate) async fn queues(&self) -> Result<Vec<(String, f32)>, Failure> {
        let cluster = self.connect().await?;
        let leaves = cluster.yarn.leaf_queues().await.map_err(YarnFailure::from)?;
        Ok(leaves.into_iter().map(|(path, queue)| (path, queue.current_capacity())).collect())
    }
}

/// Returns the report of an application; `None` if the cluster does not know it.
async fn report_if_known(
    cluster: &Cluster,
    id: ApplicationId,
) -> Result<Option<ApplicationReport>, YarnFailure> {
    match cluster.yarn.report(id).await {
        Err(error) if error.is_remote("ApplicationNotFoundException") => Ok(None),
        report => Ok(Some(report?)),
    }
}

/// Checks that a program can be the JobManager of an application on YARN.
fn check_features(note: ProgramNote, program: &Path) -> Result<(), YarnFailure> {
    if note.features & program_note::ON_YARN != 0 {
        return Ok(());
    }
    Err(YarnFailure::configuration(format!(
        "'{}' was built without the feature 'yarn', and in application mode it is the JobManager: build it with the \
         feature 'yarn' of the crate flott, or run it with -t yarn-per-job or -t yarn-session",
        program.display()
    )))
}

fn state(report: &ApplicationReport) -> SessionState {
    if has_ended(report) {
        return SessionState::Ended(super::states::sentence(report).unwrap_or_default());
    }
    match report.state() {
        YarnApplicationState::Running if rest_of(report).is_some() => SessionState::Running,
        _ => SessionState::Starting,
    }
}

/// Returns host and port of the JobManager's REST endpoint: its own tracking URL,
/// `http://host:port`. `None` before it has registered, and after it has ended: YARN then names a
/// page of its own.
fn rest_of(report: &ApplicationReport) -> Option<(String, u16)> {
    let place = |url: &str| {
        let (host, port) = url.strip_prefix("http://")?.split('/').next()?.rsplit_once(':')?;
        Some((host.to_owned(), port.parse().ok().filter(|port| *port != 0)?))
    };
    let own = place(report.original_tracking_url())?;
    (place(report.tracking_url()).as_ref() != Some(&own)).then_some(own)
}

impl ClusterDescriptor for YarnDescriptor<'_> {
    fn deploy(
        &self,
        spec: ClusterSpecification,
        application: Option<Application>,
    ) -> LocalBoxFuture<'_, Result<Deployed, Failure>> {
        self.start(spec, application).boxed_local()
    }

    fn retrieve(&self) -> LocalBoxFuture<'_, Result<RestClient, Failure>> {
        async { Ok(self.find().await?) }.boxed_local()
    }

    fn kill(&self) -> LocalBoxFuture<'_, Result<(), Failure>> {
        async { Ok(self.end().await?) }.boxed_local()
    }

    fn logs<'s>(
        &'s self,
        context: &'s Context,
        output: &'s mut LogOutput,
    ) -> LocalBoxFuture<'s, Result<(), Failure>> {
        self.show_logs(context, output).boxed_local()
    }

    fn forget(&self, application: &str) {
        if let Ok(id) = application.parse() {
            TokenFile::of(&self.context.options, id).forget();
        }
    }

    fn ending<'s>(
        &'s self,
        application: &'s str,
    ) -> LocalBoxFuture<'s, Result<Option<Ending>, Failure>> {
        async move { Ok(self.ending_of(application).await?) }.boxed_local()
    }
}

/// Renders a node for `flott yarn-session --query`.
pub(crate) fn node_value(node: &NodeReport) -> Value {
    let amounts = |resource: &Option<hadoop::yarn::messages::Resource>| {
        let resource = resource.clone().unwrap_or_default();
        (resource.memory(), resource.virtual_cores())
    };
    let ((memory, vcores), (used_memory, used_vcores)) =
        (amounts(&node.capability), amounts(&node.used));
    json!({
        "node": node.node_id.clone().unwrap_or_default().to_string(),
        "memory_mib": memory,
        "memory_used_mib": used_memory,
        "vcores": vcores,
        "vcores_used": used_vcores,
        "containers": node.num_containers(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: YarnApplicationState, url: &str) -> ApplicationReport {
        ApplicationReport {
            state: Some(state.into()),
            original_tracking_url: Some(url.to_owned()),
            ..ApplicationReport::default()
        }
    }

    #[test]
    fn rest_is_where_the_job_manager_says_its_pages_are() {
        let of = |url: &str| rest_of(&report(YarnApplicationState::Running, url));
        assert_eq!(of("http://node-1:4711"), Some(("node-1".to_owned(), 4711)));
        assert_eq!(of("http://[::1]:4711/"), Some(("[::1]".to_owned(), 4711)));
        for none in ["", "N/A", "http://node-1", "http://node-1:0", "node-1:4711"] {
            assert_eq!(of(none), None, "{none}");
        }
        let gone = ApplicationReport {
            tracking_url: Some("http://rm:8088/proxy/application_1_0001/".to_owned()),
            ..report(YarnApplicationState::Running, "http://rm:8088/cluster/app/application_1_0001")
        };
        assert_eq!(rest_of(&gone), None);
    }

    #[test]
    fn a_program_without_the_feature_is_told_how_to_get_it() {
        let (path, ours) = (Path::new("/opt/words"), program_note::OURS);
        check_features(ours, path).unwrap();
        let without = ProgramNote { features: 0, ..ours };
        let text = check_features(without, path).unwrap_err().to_string();
        assert!(text.contains("'/opt/words' was built without the feature 'yarn'"), "{text}");
        assert!(text.contains("-t yarn-per-job"), "{text}");
    }

    #[test]
    fn a_session_runs_once_its_pages_are_known() {
        let url = "http://h:1";
        assert_eq!(state(&report(YarnApplicationState::Running, url)), SessionState::Running);
        assert_eq!(state(&report(YarnApplicationState::Accepted, url)), SessionState::Starting);
        assert_eq!(state(&report(YarnApplicationState::Running, "N/A")), SessionState::Starting);
        let ended = state(&report(YarnApplicationState::Killed, url));
        assert_eq!(ended, SessionState::Ended("was killed".to_owned()));
    }
}
