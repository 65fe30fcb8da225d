//! Deployment targets: which one a command means, and one descriptor for each, which starts, finds and ends clusters.
//!
//! [`choose`] is the only reader of `-t` and `execution.target`. A descriptor prints nothing but notes: the command
//! that asked prints the result. Nothing here may start a cluster that it does not end again if the start fails.

mod remote;
mod standalone;

use crate::cli::args::{ClusterArgs, ProgramArgs};
use crate::cli::logs::{self, LogOutput};
use crate::cli::{Context, Failure};
#[cfg(feature = "yarn")]
use crate::yarn::{ClusterKind, YarnDescriptor};
use conf::execution::{TARGET, Target};
use conf::{OptionValue, Options, memory};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use model::{JobId, MemorySize};
use remote::Remote;
use rest::client::RestClient;
use serde_json::Value;
use standalone::Standalone;
use std::path::PathBuf;

/// The targets that a command takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// The command's name, for errors.
    pub(crate) command: &'static str,
    /// The targets, in the order in which errors list them.
    pub(crate) possible: &'static [Target],
    /// The target where neither `-t` nor `execution.target` names one.
    pub(crate) default: Target,
    /// A hint at what to do instead of giving another target; may be empty.
    pub(crate) hint: &'static str,
}

/// The choice of targets for `flott run`.
pub(crate) const RUN: Choice = Choice {
    command: "run",
    possible: &[Target::Remote, Target::YarnPerJob, Target::YarnApplication, Target::YarnSession],
    default: Target::Remote,
    hint: " (start the program itself for an embedded run, use 'flott run-application -t standalone' for a cluster of \
           its own)",
};
/// The choice of targets for `flott run-application`.
pub(crate) const RUN_APPLICATION: Choice = Choice {
    command: "run-application",
    possible: &[Target::Standalone, Target::YarnApplication],
    default: Target::Standalone,
    hint: "",
};
/// `flott list`, `flott cancel` and other questions to a cluster that runs.
pub(crate) const RUNNING: Choice = Choice {
    command: "this command",
    possible: &[
        Target::Remote,
        Target::Standalone,
        Target::YarnPerJob,
        Target::YarnApplication,
        Target::YarnSession,
    ],
    default: Target::Remote,
    hint: "",
};
/// `flott info`, which starts nothing: the target only says which paths the program may use.
pub(crate) const INFO: Choice = Choice {
    command: "info",
    possible: &[
        Target::Local,
        Target::Remote,
        Target::Standalone,
        Target::YarnPerJob,
        Target::YarnApplication,
        Target::YarnSession,
    ],
    default: Target::Local,
    hint: "",
};

/// Returns the target that `-t` (`given`) names, else `execution.target`, else the command's default.
///
/// # Errors
/// An unknown name, with the nearest one; a target that the command does not take, with those that it takes.
pub(crate) fn choose(
    options: &Options,
    given: Option<&str>,
    choice: &Choice,
) -> Result<Target, Failure> {
    let target = match given {
        Some(name) => Target::parse(name).ok_or_else(|| unknown(name, choice))?,
        None => options.get(&TARGET).unwrap_or(choice.default),
    };
    if choice.possible.contains(&target) {
        return Ok(target);
    }
    Err(Failure::usage(format!(
        "target '{}' is not possible with {}; possible: {}{}",
        target.as_str(),
        choice.command,
        names(choice),
        choice.hint
    )))
}

fn unknown(name: &str, choice: &Choice) -> Failure {
    let nearest = conf::nearest(name, Target::NAMES.iter().copied());
    let nearest = nearest.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    Failure::usage(format!(
        "unknown target '{name}'{nearest} (possible with {}: {})",
        choice.command,
        names(choice)
    ))
}

fn names(choice: &Choice) -> String {
    choice.possible.iter().map(|target| target.as_str()).collect::<Vec<_>>().join(", ")
}

/// The sizes of a cluster's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterSpecification {
    /// All memory of the JobManager.
    pub(crate) master_memory: MemorySize,
    /// All memory of each TaskManager.
    pub(crate) task_manager_memory: MemorySize,
}

impl ClusterSpecification {
    /// Returns the sizes that the options make.
    ///
    /// # Errors
    /// Memory options that contradict each other or leave too little.
    pub(crate) fn of(options: &Options) -> Result<Self, Failure> {
        let master = memory::job_manager_memory(options, None).map_err(Failure::usage)?;
        let task_manager = memory::task_manager_memory(options, None).map_err(Failure::usage)?;
        Ok(Self { master_memory: master.total(), task_manager_memory: task_manager.total() })
    }
}

/// A program and how its job is run.
#[derive(Debug, Clone)]
pub(crate) struct Application {
    /// The program's absolute path; the file was checked.
    pub(crate) program: PathBuf,
    /// Parallelism, name of the job, and arguments.
    pub(crate) args: ProgramArgs,
    /// The id that the job is to have.
    pub(crate) job_id: Option<JobId>,
    /// True if a client waits for the job and fetches its results, where the target lets it.
    #[cfg_attr(not(feature = "yarn"), expect(dead_code, reason = "only YARN's targets let it"))]
    pub(crate) attached: bool,
}

/// A cluster that [`ClusterDescriptor::deploy`] has started.
#[derive(Debug)]
pub(crate) struct Deployed {
    /// The description of the cluster for `--output json`.
    pub(crate) value: Value,
    /// The description of the cluster, as text for users.
    pub(crate) text: String,
    /// A client of the cluster, where the command that started it waits for its job.
    pub(crate) client: Option<RestClient>,
    /// The cluster's id in the external resource system, for example a YARN application id.
    pub(crate) application: Option<String>,
}

/// The end of a cluster, as the external resource system reports it.
#[derive(Debug)]
pub(crate) struct Ending {
    /// True if the cluster reported success.
    pub(crate) succeeded: bool,
    /// The reported end, as text for users.
    pub(crate) how: String,
}

/// Starts, finds and ends the clusters of one target.
pub(crate) trait ClusterDescriptor {
    /// Starts a cluster that runs `application` and then ends; without one a session. Returns once the cluster runs or
    /// has ended. On `Err` nothing that was started is left running.
    fn deploy(
        &self,
        spec: ClusterSpecification,
        application: Option<Application>,
    ) -> LocalBoxFuture<'_, Result<Deployed, Failure>>;

    /// Returns a client of the running cluster's REST endpoint. Whether the endpoint answers may not be known yet.
    fn retrieve(&self) -> LocalBoxFuture<'_, Result<RestClient, Failure>>;

    /// Cancels the cluster's jobs and ends its processes. Returns once the cluster has taken the order.
    #[cfg_attr(
        not(feature = "yarn"),
        expect(dead_code, reason = "only sessions on YARN are ended by a command")
    )]
    fn kill(&self) -> LocalBoxFuture<'_, Result<(), Failure>> {
        async move {
            let client = self.retrieve().await?;
            client.shut_down_cluster().await.map_err(Failure::start)
        }
        .boxed_local()
    }

    /// Shows the logs of the cluster's processes: of a running one what its REST endpoint hands out.
    fn logs<'s>(
        &'s self,
        context: &'s Context,
        output: &'s mut LogOutput,
    ) -> LocalBoxFuture<'s, Result<(), Failure>> {
        async move {
            let client = self.retrieve().await?;
            logs::of_endpoint(context, &client, output).await
        }
        .boxed_local()
    }

    /// Removes what this client keeps of a cluster that was started here, when it has taken the order to end.
    fn forget(&self, _: &str) {}

    /// Returns how a cluster that was started here has ended, by the name that [`Deployed::application`] has; `None` if it
    /// has not ended, or nobody knows.
    fn ending<'s>(&'s self, _: &'s str) -> LocalBoxFuture<'s, Result<Option<Ending>, Failure>> {
        async { Ok(None) }.boxed_local()
    }
}

/// Returns the descriptor of `target`. `cluster` says where a running cluster is.
///
/// # Errors
/// A target that has no clusters (`local`).
pub(crate) fn descriptor<'a>(
    context: &'a Context,
    target: Target,
    cluster: &ClusterArgs,
) -> Result<Box<dyn ClusterDescriptor + 'a>, Failure> {
    match target {
        Target::Remote => Ok(Box::new(Remote::new(context, cluster))),
        Target::Standalone => Ok(Box::new(Standalone::new(context, cluster))),
        Target::Local => Err(Failure::usage("target 'local' has no cluster of its own")),
        #[cfg(feature = "yarn")]
        Target::YarnSession => on_yarn(context, ClusterKind::Session, cluster),
        #[cfg(feature = "yarn")]
        Target::YarnApplication => on_yarn(context, ClusterKind::Application, cluster),
        #[cfg(feature = "yarn")]
        Target::YarnPerJob => on_yarn(context, ClusterKind::PerJob, cluster),
        #[cfg(not(feature = "yarn"))]
        other => Err(Failure::usage(format!(
            "target '{}' is not possible: this command was built without the feature 'yarn'",
            other.as_str()
        ))),
    }
}

#[cfg(feature = "yarn")]
fn on_yarn<'a>(
    context: &'a Context,
    kind: ClusterKind,
    cluster: &ClusterArgs,
) -> Result<Box<dyn ClusterDescriptor + 'a>, Failure> {
    Ok(Box::new(YarnDescriptor::new(context, kind, cluster)?))
}

/// Returns a client of the running cluster that `-t` and `-m` name, for the commands of [`RUNNING`].
///
/// # Errors
/// Does the work of [`choose`] and [`ClusterDescriptor::retrieve`].
pub(crate) async fn retrieve(
    context: &Context,
    cluster: &ClusterArgs,
) -> Result<RestClient, Failure> {
    let target = choose(&context.options, cluster.target.as_deref(), &RUNNING)?;
    descriptor(context, target, cluster)?.retrieve().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn the_command_line_wins_over_the_options_and_these_over_the_default() {
        let none = Options::default();
        let set = none.with("execution.target", "remote").unwrap();
        assert_eq!(choose(&none, None, &RUN_APPLICATION).unwrap(), Target::Standalone);
        assert_eq!(choose(&set, None, &RUNNING).unwrap(), Target::Remote);
        assert_eq!(choose(&set, Some("standalone"), &RUNNING).unwrap(), Target::Standalone);
        let flinks_name = choose(&none, Some("standalone-application"), &RUN_APPLICATION);
        assert_eq!(flinks_name.unwrap(), Target::Standalone);
    }

    #[test]
    fn a_mistyped_target_is_told_the_nearest_one() {
        let failure = choose(&Options::default(), Some("yarn-aplication"), &RUN).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("did you mean 'yarn-application'?"), "{failure}");
        let failure = choose(&Options::default(), Some("?"), &RUN_APPLICATION).unwrap_err();
        assert!(!failure.message.contains("did you mean"), "{failure}");
        assert!(failure.message.contains("standalone"), "{failure}");
    }

    #[test]
    fn a_target_that_a_command_does_not_take_is_told_those_that_it_takes() {
        let failure = choose(&Options::default(), Some("local"), &RUN).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("possible: remote"), "{failure}");
        assert!(failure.message.contains("run-application"), "{failure}");
        // Wherever the target was named.
        let options = Options::from_map([("execution.target", "local")]).unwrap();
        assert!(choose(&options, None, &RUNNING).is_err());
    }

    #[test]
    fn memory_that_cannot_be_split_is_refused_before_anything_is_started() {
        let options = Options::from_map([("taskmanager.memory.process.size", "1m")]).unwrap();
        assert_eq!(ClusterSpecification::of(&options).unwrap_err().exit, Exit::Usage);
        let spec = ClusterSpecification::of(&Options::default()).unwrap();
        assert_eq!(spec.task_manager_memory, MemorySize::from_mib(1728));
    }
}
