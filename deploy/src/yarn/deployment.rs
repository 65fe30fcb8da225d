//! One deployment on YARN, step by step: checks, an application, staging, launch context, submission, the wait until its
//! JobManager runs.
//!
//! From the moment that YARN has given an id until the deployment stands, a failure or Ctrl-C kills the application and
//! removes its staging directory; so does a closed terminal if the session is to end with its client. Results are never printed here, only notes on the way.

use super::checks::{Containers, attempts};
use super::cluster::Cluster;
use super::contract::{FLOTT_FILE, HADOOP_SITE_FILE, LaunchFile, PROGRAM_FILE};
use super::error::YarnFailure;
use super::launch::{self, ClusterKind, GRAPH_FILE, OPTIONS_FILE, Submission};
use super::session_files::TokenFile;
use super::signals::Signals;
use super::staging::{Staging, Upload, ship_uploads};
use super::states::sentence;
use super::tls_files::tls_files;
use crate::cli::output::{Printer, duration};
use crate::targets::ClusterSpecification;
use conf::high_availability::{self as ha, HaType};
use conf::{Options, execution, taskmanager, yarn_client, yarn_containers};
use hadoop::yarn::YarnError;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationReport, FinalApplicationStatus, NodeState, YarnApplicationState,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use platform::Platform;
use rest::access::BearerToken;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of a cluster's secret.
const SECRET_BYTES: usize = 32;
/// Longest each part of a clean-up takes.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(30);
/// Time within which a submission that was under way at Ctrl-C must have arrived.
const ARRIVED_WITHIN: Duration = Duration::from_secs(1);
/// Longest time that is spent on what earlier applications have left.
const SWEEP_WITHIN: Duration = Duration::from_secs(5);
/// A staging directory that is older belongs to no submission that is under way.
const UNKNOWN_AFTER_MS: u64 = 3_600_000;
/// Time after which a waiting application is noted.
const SLOW_AFTER: Duration = Duration::from_secs(60);

/// An application that is to be deployed.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: ClusterKind,
    pub(super) spec: ClusterSpecification,
    /// Name of the application in YARN's lists unless an option sets another.
    pub(super) name: String,
    /// The user's program.
    pub(super) program: Option<PathBuf>,
    /// The job graph of a per-job cluster.
    pub(super) graph: Option<Vec<u8>>,
    /// Options over the client's.
    pub(super) more: BTreeMap<String, String>,
}

/// A deployment that stands.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) id: ApplicationId,
    /// The report of its first registration, or of its end where that came before anybody looked.
    pub(super) report: ApplicationReport,
}

/// Deploys on a cluster.
///
/// # Errors
/// The step that failed; nothing is left on the cluster then.
pub(super) async fn deploy(
    options: &Options,
    print: Printer,
    cluster: &Cluster,
    request: Request,
) -> Result<Started, YarnFailure> {
    let queue = options.get(&yarn_client::QUEUE);
    if let Some(queue) = &queue {
        cluster.yarn.check_queue(queue).await?;
    }
    let bound = request.kind == ClusterKind::Session
        && options.get(&execution::ATTACHED)
        && options.get(&execution::SHUTDOWN_ON_ATTACHED_EXIT);
    let mut signals = Signals::listen(bound)?;
    let (id, maximum) = cluster.yarn.new_application().await?;
    let containers = containers(options, cluster, request.spec)?;
    let nodes = cluster.yarn.nodes(&[NodeState::Running]).await?;
    for warning in containers.check(&maximum, &nodes)? {
        print.note(&format!("note: {warning}"));
    }
    let application = id.to_string();
    let staging = Staging::new(&cluster.conf, &cluster.login, options, &application)?;
    let (staged, submitted) = (Cell::new(false), Cell::new(false));
    let noted = Cell::new(false);
    let deployment = Deployment { options, print, cluster, id, staging, staged, noted, submitted };
    let outcome = tokio::select! {
        biased;
        () = signals.next() => Err(YarnFailure::Interrupted),
        outcome = deployment.run(request, containers, queue) => outcome,
    };
    match outcome {
        Ok(report) => Ok(Started { id, report }),
        Err(error) => {
            deployment.clean_up().await;
            Err(error)
        }
    }
}

fn containers(
    options: &Options,
    cluster: &Cluster,
    spec: ClusterSpecification,
) -> Result<Containers, YarnFailure> {
    let smallest = cluster.conf.get_i64("yarn.scheduler.minimum-allocation-mb");
    let smallest = smallest.map_err(YarnError::from)?.unwrap_or(1024);
    let vcores = (options.get(&yarn_client::MASTER_VCORES).get(), task_manager_vcores(options));
    Ok(Containers::of(spec, vcores, smallest))
}

/// Returns the vcores for which the JobManager will ask.
fn task_manager_vcores(options: &Options) -> u32 {
    let set = options.get(&yarn_containers::VCORES);
    let cores = || options.get(&taskmanager::CPU_CORES).map(|cores| cores.ceil() as u32);
    set.or_else(cores).unwrap_or(1).max(1)
}

/// The local files as the nodes find them.
#[derive(Default)]
struct Uploaded {
    files: Vec<LaunchFile>,
    /// Number of files that were in the shared cache before.
    found: usize,
    found_bytes: i64,
}

/// A deployment under way.
struct Deployment<'a> {
    options: &'a Options,
    print: Printer,
    cluster: &'a Cluster,
    id: ApplicationId,
    staging: Staging,
    /// True if the staging directory may be there.
    staged: Cell<bool>,
    /// True if the application's token is in its file.
    noted: Cell<bool>,
    /// True if YARN may know the application.
    submitted: Cell<bool>,
}

impl Deployment<'_> {
    async fn run(
        &self,
        request: Request,
        containers: Containers,
        queue: Option<String>,
    ) -> Result<ApplicationReport, YarnFailure> {
        let high_availability = self.options.get(&ha::TYPE) != HaType::None;
        let allowed = self.cluster.conf.get_i64("yarn.resourcemanager.am.max-attempts");
        let allowed = allowed.map_err(YarnError::from)?.unwrap_or(2);
        let asked = self.options.get(&yarn_client::ATTEMPTS);
        let allowed = u32::try_from(allowed).unwrap_or(1);
        let (attempts, warning) = attempts(asked, high_availability, allowed);
        if let Some(warning) = warning {
            self.print.note(&format!("note: {warning}"));
        }
        let files = self.stage(&request).await?;
        let tokens = launch::tokens(self.cluster).await?;
        let platform = Platform::production();
        let secret = platform.random_bytes::<SECRET_BYTES>();
        let rest_token = BearerToken::random(&platform);
        // Before the application can be there: without it nobody could use its endpoint.
        TokenFile::of(self.options, self.id).make(&rest_token)?;
        self.noted.set(true);
        let submission = Submission {
            id: self.id,
            kind: request.kind,
            default_name: request.name,
            queue,
            user: self.cluster.login.short_name(),
            staging: self.staging.url(),
            files: &files,
            master: containers.master.resource(),
            attempts,
            secret: secret.iter().map(|byte| format!("{byte:02x}")).collect(),
            rest_token,
            tokens,
        };
        let context = submission.context(self.options)?;
        self.submitted.set(true);
        self.cluster.yarn.submit(context).await?;
        // Beside the application's start, which usually takes longer.
        let sweep = tokio::time::timeout(SWEEP_WITHIN, self.sweep());
        futures::join!(self.until_running(), sweep).0
    }

    /// Uploads everything that containers get. Small files are written while large ones are hashed or sent: each is a
    /// chain of questions to HDFS, which mostly waits.
    async fn stage(&self, request: &Request) -> Result<Vec<LaunchFile>, YarnFailure> {
        let (uploads, more) = to_stage(self.options, request)?;
        let since = Instant::now();
        self.staged.set(true);
        self.staging.make().await.inspect_err(|_| self.staged.set(false))?;
        let application = self.id.to_string();
        let staged = launch::staged_options(self.options, &application, more);
        let pairs = staged.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let options = conf::to_yaml(pairs).into_bytes();
        let site = self.cluster.conf.to_xml(true).map_err(YarnError::from)?.into_bytes();
        let graph = async {
            match &request.graph {
                Some(graph) => self.staging.put(GRAPH_FILE, graph.clone()).await.map(Some),
                None => Ok(None),
            }
        };
        let (uploaded, options, site, graph) = futures::try_join!(
            self.upload(&uploads),
            self.staging.put(OPTIONS_FILE, options),
            self.staging.put(HADOOP_SITE_FILE, site),
            graph,
        )?;
        let Uploaded { mut files, found, found_bytes } = uploaded;
        files.extend([options, site]);
        files.extend(graph);
        let bytes = files.iter().map(|file| file.size).sum::<i64>() - found_bytes;
        let took = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let (count, url, took) = (files.len() - found, self.staging.url(), duration(took));
        let cached = match found {
            0 => String::new(),
            n => format!("; {n} ({}) of yarn.provided.lib.dirs", mib(found_bytes)),
        };
        self.print
            .note(&format!("staged {count} files ({}) in {took} in {url}{cached}", mib(bytes)));
        Ok(files)
    }

    /// Uploads local files, one after the other, or finds them in the shared cache.
    async fn upload(&self, uploads: &[Upload]) -> Result<Uploaded, YarnFailure> {
        let bar = self.progress_bar(uploads.iter().map(|upload| upload.size).sum());
        let dirs = self.options.get(&yarn_client::PROVIDED_DIRS).0;
        let mut uploaded = Uploaded::default();
        for upload in uploads {
            let progress = |bytes| bar.inc(bytes);
            // Only these two may be kept for all applications: ship files may be for this user alone.
            let shared = [FLOTT_FILE, PROGRAM_FILE].contains(&upload.name.as_str());
            if dirs.is_empty() || !shared {
                uploaded.files.push(self.staging.upload(upload, progress).await?);
                continue;
            }
            let provided = self.staging.provide(upload, &dirs, progress).await?;
            if let Some(note) = provided.note {
                self.print.note(&format!("note: {note}"));
            }
            if provided.found {
                uploaded.found += 1;
                uploaded.found_bytes += provided.file.size;
            }
            uploaded.files.push(provided.file);
        }
        bar.finish_and_clear();
        Ok(uploaded)
    }

    /// Removes what applications of this user that have ended have left in staging: their JobManager or client was
    /// killed. An application that YARN does not know may be about to be submitted, unless it is old.
    async fn sweep(&self) {
        for id in TokenFile::noted(self.options) {
            match self.cluster.yarn.report(id).await {
                Ok(report) if has_ended(&report) => TokenFile::of(self.options, id).forget(),
                // It may be another cluster's.
                _ => {}
            }
        }
        let now = Platform::production().unix_millis();
        for (id, changed_ms) in self.staging.others().await {
            let is_over = match self.cluster.yarn.report(id).await {
                Ok(report) => has_ended(&report),
                Err(error) if error.is_remote("ApplicationNotFoundException") => {
                    now.saturating_sub(changed_ms) > UNKNOWN_AFTER_MS
                }
                Err(_) => return,
            };
            if is_over {
                self.staging.delete_other(id).await;
            }
        }
    }

    fn progress_bar(&self, bytes: u64) -> ProgressBar {
        let target = match self.print.is_json() {
            true => ProgressDrawTarget::hidden(),
            // Draws on terminals only.
            false => ProgressDrawTarget::stderr(),
        };
        let style = ProgressStyle::with_template("uploading {bar:30} {bytes}/{total_bytes} {eta}");
        let bar = ProgressBar::with_draw_target(Some(bytes), target);
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// Says a sentence for each step of the application until its JobManager runs.
    async fn until_running(&self) -> Result<ApplicationReport, YarnFailure> {
        let mut reports = self.cluster.yarn.watch(self.id);
        let mut told = String::new();
        let slow = tokio::time::sleep(SLOW_AFTER);
        tokio::pin!(slow);
        let mut is_slow = false;
        loop {
            let report = tokio::select! {
                biased;
                report = reports.next() => report?,
                () = &mut slow, if !is_slow => {
                    is_slow = true;
                    self.print.note(&self.waiting().await);
                    continue;
                }
            };
            let Some(report) = report else {
                return Err(YarnFailure::cluster(format!("{} has ended", self.id)));
            };
            let ended = has_ended(&report);
            if ended && report.final_status() != FinalApplicationStatus::Succeeded {
                return Err(self.ended(&report));
            }
            if let Some(sentence) = sentence(&report).filter(|sentence| *sentence != told) {
                self.print.note(&format!("{} {sentence}", self.id));
                told = sentence;
            }
            if ended || report.state() == YarnApplicationState::Running {
                return Ok(report);
            }
        }
    }

    fn ended(&self, report: &ApplicationReport) -> YarnFailure {
        let id = self.id;
        let how = sentence(report).unwrap_or_default();
        YarnFailure::cluster(format!(
            "{id} {how}\nlogs of its containers, where the cluster keeps them: flott logs {id}"
        ))
    }

    /// Returns all that is known about an application that does not start.
    async fn waiting(&self) -> String {
        let seconds = SLOW_AFTER.as_secs();
        let text = format!("{} has been waiting for {seconds} s; Ctrl-C ends it", self.id);
        let name = self.options.get(&yarn_client::QUEUE).unwrap_or_else(|| "default".to_owned());
        match self.cluster.yarn.queue(&name).await {
            Ok(queue) => {
                let used = queue.current_capacity() * 100.0;
                let statistics = queue.queue_statistics.unwrap_or_default();
                let (running, pending) =
                    (statistics.num_apps_running(), statistics.num_apps_pending());
                format!(
                    "{text}. Queue '{name}' uses {used:.0} % of its capacity; {running} applications run and {pending} \
                     wait in it"
                )
            }
            Err(_) => text,
        }
    }

    /// Kills the application and removes its staging directory; says what could not be done.
    async fn clean_up(&self) {
        let token = TokenFile::of(self.options, self.id);
        if !self.submitted.get() {
            // One that was there before is not this application's.
            if self.noted.get() {
                token.forget();
            }
        } else {
            self.print.note(&format!("killing {}", self.id));
            if let Err(why) = kill(self.cluster, self.id).await.inspect(|()| token.forget()) {
                let id = self.id;
                self.print.note(&format!(
                    "{id} could not be killed: {why}; check it with yarn application -status {id}, end it with yarn \
                     application -kill {id}"
                ));
            }
        }
        if !self.staged.get() {
            return;
        }
        match tokio::time::timeout(CLEAN_UP_WITHIN, self.staging.delete()).await {
            Ok(Ok(())) => self.print.note(&format!("removed {}", self.staging.url())),
            Ok(Err(error)) => self.print.note(&error.to_string()),
            Err(_) => {
                self.print.note(&format!("{} could not be removed in time", self.staging.url()))
            }
        }
    }
}

/// Returns true if nothing more will come of the application.
pub(super) fn has_ended(report: &ApplicationReport) -> bool {
    matches!(
        report.state(),
        YarnApplicationState::Finished
            | YarnApplicationState::Failed
            | YarnApplicationState::Killed
    )
}

/// Kills an application, which may just be on its way to the ResourceManager. One that has ended is fine.
///
/// # Errors
/// The reason why it may still run.
pub(super) async fn kill(cluster: &Cluster, id: ApplicationId) -> Result<(), String> {
    let killed = async {
        let reason = || Some("ended by the client that submitted it".to_owned());
        match cluster.yarn.kill(id, reason()).await {
            Err(error) if error.is_remote("ApplicationNotFoundException") => {
                tokio::time::sleep(ARRIVED_WITHIN).await;
                match cluster.yarn.kill(id, reason()).await {
                    Err(error) if error.is_remote("ApplicationNotFoundException") => Ok(()),
                    outcome => outcome,
                }
            }
            outcome => outcome,
        }
    };
    match tokio::time::timeout(CLEAN_UP_WITHIN, killed).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CLEAN_UP_WITHIN.as_secs())),
    }
}

fn mib(bytes: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mib = bytes as f64 / f64::from(1 << 20);
    format!("{mib:.1} MiB")
}

/// Returns the local files that go into staging, and the options over the client's.
fn to_stage(
    options: &Options,
    request: &Request,
) -> Result<(Vec<Upload>, BTreeMap<String, String>), YarnFailure> {
    let mut uploads = Vec::new();
    if request.kind.ships_flott() {
        let own = std::env::current_exe()
            .map_err(|e| YarnFailure::configuration(format!("this program's own file: {e}")))?;
        uploads.push(Upload::new(FLOTT_FILE, &own)?);
    }
    if let Some(program) = &request.program {
        uploads.push(Upload::new(PROGRAM_FILE, program)?);
    }
    uploads.extend(ship_uploads(options)?);
    let tls = tls_files(options, &uploads)?;
    uploads.extend(tls.uploads);
    Ok((uploads, request.more.clone().into_iter().chain(tls.options).collect()))
}

/// Returns the options that name an application's program arguments and job, for the staged file.
pub(super) fn program_options(
    args: &crate::cli::args::ProgramArgs,
    job_id: Option<model::JobId>,
) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            options.insert(key.to_owned(), value);
        }
    };
    let words = conf::List(args.args().to_vec());
    let words = (!words.0.is_empty()).then(|| conf::OptionValue::show(&words)).flatten();
    set(execution::PROGRAM_ARGS.key(), words);
    set(execution::ENTRY.key(), args.job.clone());
    set(execution::PARALLELISM.key(), args.parallelism.map(|n| n.to_string()));
    set(execution::JOB_ID.key(), job_id.map(|id| id.to_string()));
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::ProgramArgs;

    #[test]
    fn arguments_of_a_program_travel_as_options() {
        let words = ["./p", "--input", "a,b", "", " x"].map(str::to_owned).to_vec();
        let args = ProgramArgs { parallelism: Some(4), job: None, words };
        let options = Options::from_map(program_options(&args, None)).unwrap();
        assert_eq!(options.get(&execution::PROGRAM_ARGS).0, ["--input", "a,b", "", " x"]);
        assert_eq!(options.get(&execution::PARALLELISM).get(), 4);
        assert!(!options.is_set(&execution::ENTRY));
        let none = ProgramArgs { parallelism: None, job: None, words: vec!["./p".to_owned()] };
        assert!(program_options(&none, None).is_empty());
    }

    #[test]
    fn a_task_manager_has_at_least_one_vcore() {
        let of = |pairs: &[(&str, &str)]| {
            task_manager_vcores(&Options::from_map(pairs.iter().copied()).unwrap())
        };
        assert_eq!(of(&[]), 1);
        assert_eq!(of(&[("taskmanager.cpu.cores", "2.5")]), 3);
    }
}
