//! The command line: parses, loads options, talks to a cluster through REST or becomes a role.
//!
//! Results go to standard output, everything else to standard error. It never panics on what a user types.

pub mod args;
mod attach;
mod attend;
mod beat;
mod block_node;
mod cancel;
pub(crate) mod client;
mod follow;
pub(crate) mod info;
mod letters;
mod list;
pub(crate) mod logs;
pub(crate) mod output;
mod refused_args;
mod run;
mod run_application;
mod savepoint;
mod savepoint_args;
mod session_args;
#[cfg(feature = "yarn")]
mod yarn_session;

use crate::exit::Exit;
use crate::results::ResultsError;
use crate::{cluster_files::ClusterFiles, environment, logging, roles, settings};
use args::{Cli, Command, Common, Run, RunApplication};
use clap::Parser;
use conf::Options;
use output::Printer;
use platform::Platform;
use std::future::Future;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

/// A command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// Exit of the process.
    pub(crate) exit: Exit,
    /// Message for people, printed on stderr.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl std::fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }
    pub(crate) fn usage(message: impl std::fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }
    pub(crate) fn start(message: impl std::fmt::Display) -> Self {
        Self::new(Exit::StartUpFailed, message)
    }
}

impl From<conf::ConfError> for Failure {
    fn from(error: conf::ConfError) -> Self {
        Self::usage(error)
    }
}

/// Results that have nowhere to go.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let unwritten = ResultsError::Unwritten(error);
        Self::new(unwritten.exit(), unwritten)
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<Exit, Failure>;

/// The context of a command: its options and how it prints.
pub(crate) struct Context {
    /// Options of this process.
    pub(crate) options: Options,
    /// `-D`, as given.
    pub(crate) overrides: Vec<(String, String)>,
    /// The arguments that every command has.
    pub(crate) common: Common,
    /// Printer of the results.
    pub(crate) print: Printer,
}

impl Context {
    /// Returns the context with other options.
    pub(crate) fn with_options(&self, options: Options) -> Self {
        let (overrides, common) = (self.overrides.clone(), self.common.clone());
        Self { options, overrides, common, print: self.print }
    }
}

/// Runs the binary `flott` with this process's arguments: parses the command line and executes the command, which prints its results (with
/// `--output json` also its failure) on standard output and everything else on standard error. Returns when the command is done, for
/// a role when its process is to end; a JobManager in application mode, and a TaskManager with `--program`, replace the process by the
/// program. The exit code tells the outcome ([`Exit`]); wrong arguments give 64, help and version 0.
pub fn main() -> ExitCode {
    let cli = match letters::long_names(std::env::args_os()).and_then(Cli::try_parse_from) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    run(cli).into()
}

/// Shows what clap says: help and version succeed, the rest is wrong usage.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    match error.print() {
        // Standard error may be closed; there is nobody to tell then.
        _ if error.use_stderr() => Exit::Usage.into(),
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            finish(args::Output::Text, Err(why.into())).into()
        }
        _ => Exit::Success.into(),
    }
}

/// Prints text on standard output, outside of the command line's own commands.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    Ok(Printer::new(args::Output::Text).raw(text)?)
}

/// Prints a note on standard error, outside of the command line's own commands.
pub(crate) fn note(text: &str) {
    Printer::new(args::Output::Text).note(text);
}

/// Runs a parsed command line.
pub(crate) fn run(cli: Cli) -> Exit {
    finish(cli.common.output, dispatch(cli))
}

/// Shows a failure; the exit code.
pub(crate) fn finish(output: args::Output, outcome: Outcome) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            Printer::new(output).error(&failure.message);
            failure.exit
        }
    }
}

/// Prints a failure on standard error, outside of the command line's own commands.
pub(crate) fn complain(text: &str) {
    Printer::new(args::Output::Text).error(text);
}

fn dispatch(cli: Cli) -> Outcome {
    let Cli { command, common } = cli;
    let command = match command {
        Command::JobManager(args) => return roles::jobmanager(&common, args, None),
        Command::TaskManager(args) => return roles::taskmanager(&common, args, None),
        other => other,
    };
    let mut overrides = settings::overrides(&common)?;
    match &command {
        Command::Run(Run { recovery, .. })
        | Command::RunApplication(RunApplication { recovery, .. }) => {
            overrides.extend(recovery.overrides()?);
        }
        _ => {}
    }
    let options = settings::load(common.config_dir.clone(), overrides.clone())?;
    logging::start_quiet(&options).map_err(Failure::usage)?;
    environment::log_client(&options);
    let context = Context { print: Printer::new(common.output), options, overrides, common };
    match command {
        Command::Run(args) => block_on(run::run(&context, args)),
        Command::RunApplication(args) => block_on(run_application::run_application(&context, args)),
        Command::YarnSession(args) => yarn_session(&context, args),
        Command::List(args) => block_on(list::list(&context, args)),
        Command::Info(args) => block_on(info::info(&context, args)),
        Command::Cancel(args) => block_on(cancel::cancel(&context, args)),
        Command::Savepoint(args) => block_on(savepoint::savepoint(&context, args)),
        Command::Stop(args) => block_on(savepoint::stop(&context, args)),
        Command::Logs(args) => block_on(logs::logs(&context, args)),
        Command::BlockNode(args) => block_on(block_node::block_node(&context, args)),
        Command::MakeSecret => make_secret(&context),
        Command::Options => {
            context.print.raw(&conf::reference())?;
            Ok(Exit::Success)
        }
        Command::GetOption { key } => get_option(&context, &key),
        Command::JobManager(_) | Command::TaskManager(_) => Ok(Exit::Usage),
    }
}

fn yarn_session(context: &Context, args: session_args::YarnSession) -> Outcome {
    if let Some(why) = args.refused.complaint() {
        return Err(Failure::usage(why));
    }
    #[cfg(feature = "yarn")]
    return block_on(yarn_session::yarn_session(context, args));
    #[cfg(not(feature = "yarn"))]
    {
        let _ = (context, args);
        let why = "yarn-session is not possible: this command was built without the feature 'yarn'";
        Err(Failure::usage(why))
    }
}

/// Maximum time that disk work which is under way at the end of a command is waited for.
const DISK_WORK_WITHIN: Duration = Duration::from_secs(1);

/// Runs a client's future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::start)?;
    let outcome = tokio::task::LocalSet::new().block_on(&runtime, future);
    // Dropping the runtime would wait for disk work without limit, also for that of a directory that hangs.
    runtime.shutdown_timeout(DISK_WORK_WITHIN);
    outcome
}

fn make_secret(context: &Context) -> Outcome {
    let files = ClusterFiles::of(&context.options);
    files.make(&Platform::production()).map_err(Failure::start)?;
    let mut paths = vec![files.secret.display().to_string()];
    if let Err(id) = &files.id {
        paths.push(id.display().to_string());
    }
    context.print.value(&paths, || paths.join("\n"))?;
    Ok(Exit::Success)
}

/// Prints the value of an option as the scripts need it: the set value, else its default, else
/// nothing.
fn get_option(context: &Context, key: &str) -> Outcome {
    let text = roles::option_text(&context.options, key)
        .ok_or_else(|| Failure::usage(format!("unknown option '{key}'")))?;
    context.print.raw(&text)?;
    Ok(Exit::Success)
}
