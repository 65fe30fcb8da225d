//! The roles that a process can take: JobManager, TaskManager, program host, embedded run. The binary
//! `flott` and every program go through here; role dispatch comes before anything of the user's.

use crate::cli::args::{Cli, Command, Common, JobManager, Mode, TaskManager};
use crate::cli::{self, Failure, Outcome};
use crate::components::ClusterMode;
use crate::entrypoint::{
    JobManagerProcess, ReadyAddresses, StartError, TaskManagerProcess, run_jobmanager,
    run_taskmanager,
};
use crate::exit::Exit;
use crate::host_memory::ProcessLimit;
use crate::programs::{self, OwnProgram};
use crate::stop::Behaviour;
use crate::target::{self, Role};
use crate::{embedded, environment, logging, pid_file, settings};
use clap::Parser;
use conf::high_availability::{self as ha, HaType};
use conf::{Options, execution, jobmanager as options_of_jm, rest as options_of_rest, taskmanager};
use gateways::dispatcher::SubmitProgram;
use model::{JobGraph, JobId, ProgramRef};
use platform::Platform;
use serde_json::json;
use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use streaming::ProgramEntry;

/// Says what a program is started as.
pub(crate) const ROLE_VARIABLE: &str = host::child::ROLE_VARIABLE;
/// A program that is started as JobManager or TaskManager.
pub(crate) const CLUSTER_ROLE: &str = "cluster";

/// Runs a program's process in the role that the environment variable `FLOTT_ROLE` names: `program-host` (runs the code
/// of one job for a JobManager or TaskManager), or `cluster` (is a JobManager or TaskManager itself, as the arguments
/// say; other subcommands give code 64). Without the variable or with another value, runs the program's job in an embedded cluster, with
/// the process's arguments. Blocks until the end and returns the exit code for `main` ([`Exit`]).
pub fn program_main(entry: ProgramEntry) -> ExitCode {
    let entry = entry.normalising(Options::normalised);
    match std::env::var(ROLE_VARIABLE).as_deref() {
        Ok(host::child::ROLE) => run_host(entry),
        Ok(CLUSTER_ROLE) => run_cluster_role(entry),
        _ => embedded::run(entry, std::env::args().skip(1).collect()).into(),
    }
}

fn run_host(entry: ProgramEntry) -> ExitCode {
    host::child::enter_trace();
    if let Err(error) = logging::start_host() {
        cli::complain(&error.to_string());
        return Exit::StartUpFailed.into();
    }
    environment::prepare_host();
    host::child::run(entry)
}

fn run_cluster_role(entry: ProgramEntry) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage(&error),
    };
    let outcome = match cli.command {
        Command::JobManager(args) => jobmanager(&cli.common, args, Some(entry)),
        Command::TaskManager(args) => taskmanager(&cli.common, args, Some(entry)),
        _ => Err(Failure::usage(format!(
            "{ROLE_VARIABLE}={CLUSTER_ROLE} is for the roles jobmanager and taskmanager"
        ))),
    };
    cli::finish(cli.common.output, outcome).into()
}

/// Runs a role's future on this thread; components run on threads of their own.
fn block_on(future: impl Future<Output = Result<Exit, StartError>>) -> Outcome {
    let outcome = cli::block_on(async {
        match future.await {
            Ok(exit) => Ok(exit),
            // Told to stop while starting: that is no failure.
            Err(StartError::Stopped(stop)) if stop.behaviour == Behaviour::StopProcess => {
                Ok(stop.exit)
            }
            Err(error) => {
                tracing::error!(%error, "start-up failed");
                Err(Failure::start(error))
            }
        }
    });
    pid_file::leave();
    outcome
}

/// Becomes another binary in the same role: the program that a cluster is for.
fn become_program(program: &Path) -> Failure {
    if let Err(why) = programs::check_file(program) {
        return Failure::start(format!("'{}': {why}", program.display()));
    }
    let arguments = without_program(std::env::args().skip(1));
    let error =
        std::process::Command::new(program).args(arguments).env(ROLE_VARIABLE, CLUSTER_ROLE).exec();
    Failure::start(format!("'{}' cannot be started: {error}", program.display()))
}

/// Returns the arguments without `--program PATH`, up to `--`.
fn without_program(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let (mut skip, mut rest) = (false, false);
    for argument in arguments {
        if std::mem::take(&mut skip) {
            continue;
        }
        rest |= argument == "--";
        if !rest && argument == "--program" {
            skip = true;
        } else if rest || !argument.starts_with("--program=") {
            kept.push(argument);
        }
    }
    kept
}

/// Runs `flott jobmanager`, or a program in that role.
pub(crate) fn jobmanager(
    common: &Common,
    args: JobManager,
    entry: Option<ProgramEntry>,
) -> Outcome {
    if args.mode == Mode::Application && entry.is_none() {
        return Err(application_program(common, &args)?);
    }
    let mut overrides = settings::overrides(common)?;
    if let Some(host) = &args.host {
        overrides.push((options_of_jm::RPC_ADDRESS.key().to_owned(), host.clone()));
    }
    if let Some(port) = &args.webui_port {
        overrides.push((options_of_rest::PORT.key().to_owned(), port.clone()));
    }
    let job_options = settings::job_options(&overrides);
    let options = settings::load(common.config_dir.clone(), overrides)?;
    let options = target::adapt(options, Role::JobManager).map_err(Failure::start)?;
    let log = logging::start("jobmanager", &options).map_err(Failure::start)?;
    environment::prepare("JobManager", &options);
    let limit = crate::container::jobmanager_limit(&options);
    let memory = conf::memory::job_manager_memory(&options, limit).map_err(Failure::start)?;
    tracing::info!(%memory, "what this JobManager is made of");
    let json = common.output == cli::args::Output::Json;
    block_on(async move {
        let (mode, ship, entry) = cluster(&options, job_options, args, entry).await?;
        run_jobmanager(JobManagerProcess {
            options,
            log,
            memory: ProcessLimit {
                size: memory.total(),
                option: options_of_jm::PROCESS_SIZE.key(),
            },
            mode,
            ship,
            entry,
            ready: Box::new(move |ready| show_ready(json, ready)),
        })
        .await
    })
}

/// Becomes the program of an application: the one of the command line, else of `pipeline.program`. Returns only the
/// reason why it cannot be started.
fn application_program(common: &Common, args: &JobManager) -> Result<Failure, Failure> {
    let from_input = common.define_file.as_deref() == Some(Path::new(settings::STANDARD_INPUT));
    if args.program.is_none() && from_input {
        // The program could not read the options a second time.
        return Err(Failure::usage("application mode needs --program PATH with '--define-file -'"));
    }
    let configured = || -> Result<Option<String>, Failure> {
        let overrides = settings::overrides(common)?;
        let options = settings::load(common.config_dir.clone(), overrides)?;
        Ok(options.get(&execution::PROGRAM))
    };
    let program = match &args.program {
        Some(program) => Some(program.clone()),
        None => configured()?.map(PathBuf::from),
    };
    Ok(match program {
        Some(program) => become_program(&program),
        None => Failure::usage("application mode needs --program PATH, or pipeline.program"),
    })
}

/// The mode of the JobManager, the program file that it ships, and the program that the process
/// itself is.
type ClusterPlan = (ClusterMode, Option<PathBuf>, Option<(ProgramEntry, model::ContentHash)>);

async fn cluster(
    options: &Options,
    job_options: BTreeMap<String, String>,
    args: JobManager,
    entry: Option<ProgramEntry>,
) -> Result<ClusterPlan, StartError> {
    match (args.mode, entry) {
        (Mode::Session, None) => Ok((ClusterMode::Session, None, None)),
        (Mode::Session, Some(_)) => Err(StartError::Invalid(
            "a program is no session: start it with --mode application".to_owned(),
        )),
        (Mode::Application, Some(entry)) => {
            let own = OwnProgram::find(target::program_hash(options))
                .await
                .map_err(|e| StartError::storage("this program's own file", e))?;
            let submit = own_submission(options, job_options, args, &own)?;
            let ship = target::application_ships_program(options).then(|| own.path.clone());
            Ok((ClusterMode::Application(Box::new(submit)), ship, Some((entry, own.hash))))
        }
        (Mode::Application, None) => {
            Err(StartError::Invalid("application mode needs --program PATH".to_owned()))
        }
        (Mode::PerJob, _) => {
            let missing = |what: &str| StartError::Invalid(format!("per-job mode needs {what}"));
            let file = args.job_graph.ok_or_else(|| missing("--job-graph FILE"))?;
            let program = args.program.ok_or_else(|| missing("--program PATH"))?;
            programs::check_file(&program).map_err(|why| {
                StartError::Invalid(format!("the program '{}': {why}", program.display()))
            })?;
            let graph = read_graph(&file)?;
            Ok((ClusterMode::PerJob(Box::new(graph)), Some(program), None))
        }
    }
}

fn read_graph(file: &Path) -> Result<JobGraph, StartError> {
    let failed = |why: String| StartError::storage(format!("job graph {}", file.display()), why);
    let bytes = std::fs::read(file).map_err(|e| failed(e.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))
}

fn own_submission(
    options: &Options,
    job_options: BTreeMap<String, String>,
    args: JobManager,
    own: &OwnProgram,
) -> Result<SubmitProgram, StartError> {
    let configured = options.get(&execution::JOB_ID).map(|text| text.parse()).transpose();
    let configured =
        configured.map_err(|e: model::ids::ParseIdError| StartError::Invalid(e.to_string()))?;
    let job_id = args.job_id.or(configured).unwrap_or_else(|| fixed_job_id(options));
    let parallelism =
        args.parallelism.unwrap_or_else(|| options.get(&execution::PARALLELISM).get());
    Ok(SubmitProgram {
        program: ProgramRef {
            hash: own.hash,
            name: own.name.clone(),
            size: own.size,
            args: match args.args.is_empty() {
                true => options.get(&execution::PROGRAM_ARGS).0,
                false => args.args,
            },
            env: BTreeMap::new(),
            once: BTreeMap::new(),
            job: args.job.or_else(|| options.get(&execution::ENTRY)),
        },
        job_id: Some(job_id),
        parallelism: Some(parallelism),
        options: job_options,
    })
}

/// Returns the id of an application's job: with high availability the same after every restart, so
/// that the job is found again; otherwise a new one.
fn fixed_job_id(options: &Options) -> JobId {
    if options.get(&ha::TYPE) == HaType::None {
        return JobId(Platform::production().random_u128());
    }
    let hash = storage::blobs::hash_bytes(options.get(&ha::CLUSTER_ID).as_bytes());
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(hash.0) {
        *to = from;
    }
    JobId(u128::from_be_bytes(bytes))
}

/// Prints the addresses for the process that started this one and waits for them: with `json` as a
/// line on standard output, otherwise as a note on standard error, since standard output may be
/// that of a job.
fn show_ready(json: bool, ready: &ReadyAddresses) {
    if json {
        // A starter that does not listen is not waited for.
        let _ = cli::show(&json!({ "rest": ready.rest, "rpc": ready.rpc }).to_string());
    } else {
        cli::note(&format!("JobManager is up: REST {}, RPC {}", ready.rest, ready.rpc));
    }
}

/// Prints the same line for a TaskManager.
fn show_taskmanager_ready(json: bool, rpc: &str) {
    if json {
        let _ = cli::show(&json!({ "rpc": rpc }).to_string());
    } else {
        cli::note(&format!("TaskManager is up: RPC {rpc}"));
    }
}

/// Runs `flott taskmanager`, or a program in that role.
pub(crate) fn taskmanager(
    common: &Common,
    args: TaskManager,
    entry: Option<ProgramEntry>,
) -> Outcome {
    if let (Some(program), None) = (&args.program, &entry) {
        return Err(become_program(program));
    }
    let mut overrides = settings::overrides(common)?;
    if let Some(host) = &args.host {
        overrides.push((taskmanager::HOST.key().to_owned(), host.clone()));
    }
    let options = settings::load(common.config_dir.clone(), overrides)?;
    let options = target::adapt(options, Role::TaskManager).map_err(Failure::start)?;
    let log = logging::start("taskmanager", &options).map_err(Failure::start)?;
    environment::prepare("TaskManager", &options);
    let json = common.output == cli::args::Output::Json;
    block_on(async move {
        let entry = match entry {
            Some(entry) => {
                let own = OwnProgram::find(target::program_hash(&options))
                    .await
                    .map_err(|e| StartError::storage("this program's own file", e))?;
                Some((entry, own.hash))
            }
            None => None,
        };
        let ready = Box::new(move |rpc: &str| show_taskmanager_ready(json, rpc));
        run_taskmanager(TaskManagerProcess { options, log, entry, ready }).await
    })
}

/// Returns the value of an option as text: the set value, else its default; `None` if there is no
/// such option.
pub(crate) fn option_text(options: &Options, key: &str) -> Option<String> {
    options.text_of(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_not_told_which_program_it_is() {
        let given =
            ["jobmanager", "--program", "/p", "--mode", "application", "--", "--program", "x"];
        assert_eq!(
            without_program(given.iter().map(|s| (*s).to_owned())),
            ["jobmanager", "--mode", "application", "--", "--program", "x"]
        );
        let joined = ["taskmanager", "--program=/p", "-D", "a=b"];
        assert_eq!(
            without_program(joined.iter().map(|s| (*s).to_owned())),
            ["taskmanager", "-D", "a=b"]
        );
    }

    #[test]
    fn with_ha_an_application_keeps_its_job_id() {
        let options = Options::from_map([
            ("high-availability.type", "filesystem"),
            ("high-availability.cluster-id", "c1"),
        ])
        .unwrap();
        assert_eq!(fixed_job_id(&options), fixed_job_id(&options));
        let none = Options::default();
        assert_ne!(fixed_job_id(&none), fixed_job_id(&none));
    }
}
