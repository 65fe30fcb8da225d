//! The command line, declared: subcommands, flags, examples. No behaviour.

use super::refused_args::Refused;
use super::savepoint_args::{Recovery, SAVEPOINT_EXAMPLES, STOP_EXAMPLES, Savepoint, Stop};
use super::session_args::YarnSession;
use clap::{Args, Parser, Subcommand, ValueEnum};
use model::JobId;
use std::path::PathBuf;
use std::time::Duration;

/// Runs, watches and ends streaming jobs.
#[derive(Debug, Parser)]
#[command(
    name = "flott",
    version = crate::version::LONG,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    /// Subcommand that was given, with its arguments.
    #[command(subcommand)]
    pub command: Command,
    /// Options that every subcommand takes, such as `-D` and `--output`.
    #[command(flatten)]
    pub common: Common,
}

const EXAMPLES: &str = "\
Examples:
  flott run ./word_count --input /data/text
  flott run -d -p 4 -m jobmanager:8081 ./word_count --input /data/text --output /data/counts
  flott list --output json
  flott cancel 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b
  flott savepoint 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b /data/savepoints
  flott stop -p /data/savepoints 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b
  flott block-node --for 2h node-3
  flott info ./word_count --input /data/text
  flott run-application -t standalone ./word_count --input /data/text

Exit codes: 0 succeeded or cancelled, 1 command or start-up failed, 2 fatal error, 3 job failed, 4 job's state unknown, 64 wrong usage";

/// The options that every subcommand of `flott` takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Folder with flott.yaml, masters and workers [env: FLOTT_CONF_DIR]; without either no such file is read
    #[arg(long, global = true, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// Sets an option over those of flott.yaml, the environment and --define-file; may be given several times, the last
    /// setting of a key counts
    #[arg(short = 'D', global = true, value_name = "KEY=VALUE", action = clap::ArgAction::Append)]
    pub define: Vec<String>,
    /// Sets the options of a file in the format of flott.yaml, over those of flott.yaml and the environment and below
    /// -D; - reads them from standard input. For secrets: arguments are visible to every user of the host
    #[arg(long, global = true, value_name = "FILE")]
    pub define_file: Option<PathBuf>,
    /// Format in which results are printed: text for people, or json
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub output: Output,
}

/// The format in which a command prints its results on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text meant for people.
    Text,
    /// JSON, each value on a line of its own. A command prints one value; one that waits for a job prints one for each result of the job
    /// and one for the job's end. `options` prints Markdown all the same.
    Json,
}

/// The subcommand of `flott` to run, with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit a program to a running session and wait for its job
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Start a cluster for one program: its JobManager and TaskManagers are the program
    #[command(after_help = RUN_APPLICATION_EXAMPLES)]
    RunApplication(RunApplication),
    /// Start, watch and end sessions on YARN
    #[command(name = "yarn-session", after_help = YARN_SESSION_EXAMPLES)]
    YarnSession(YarnSession),
    /// List the jobs of a cluster with their ids and states
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show the operators and job vertices of a program: its graph is built, its job is not run
    #[command(after_help = INFO_EXAMPLES)]
    Info(Info),
    /// Cancel a job: its tasks end, and no savepoint is taken
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(Cancel),
    /// Take a savepoint of a job, which continues, or delete one
    #[command(after_help = SAVEPOINT_EXAMPLES)]
    Savepoint(Savepoint),
    /// Take a savepoint of a job, then end the job
    #[command(after_help = STOP_EXAMPLES)]
    Stop(Stop),
    /// Show or list the log files of a cluster's processes
    #[command(after_help = LOGS_EXAMPLES)]
    Logs(Logs),
    /// Keep new work away from nodes for a while, or list and unblock such nodes
    #[command(name = "block-node", after_help = BLOCK_NODE_EXAMPLES)]
    BlockNode(BlockNode),
    /// Run a JobManager in this process, until it is told to stop or its job has ended
    #[command(name = "jobmanager", after_help = JOBMANAGER_EXAMPLES)]
    JobManager(JobManager),
    /// Run a TaskManager in this process, until it is told to stop or the cluster releases it
    #[command(name = "taskmanager", after_help = TASKMANAGER_EXAMPLES)]
    TaskManager(TaskManager),
    /// Make the files with the cluster's id and secret where they are absent, and print their paths
    #[command(name = "make-secret", after_help = MAKE_SECRET_EXAMPLES)]
    MakeSecret,
    /// Print the reference of all options as Markdown
    #[command(name = "options", after_help = OPTIONS_EXAMPLES)]
    Options,
    /// Print the value of one option, as the scripts need it
    #[command(name = "get-option", hide = true)]
    GetOption {
        /// Key of the option, as written on the command line.
        key: String,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  flott run ./word_count --input /data/text              run and wait
  flott run -d ./word_count --input /data/text           submit, print the job's id, return
  flott run -p 8 -D restart-strategy.type=none ./prog    with parallelism and options of this job
  flott run -sae ./word_count --input /data/text         cancel the job when this client goes away
  flott run --job second ./prog                          a program that registers several jobs
  flott run -s /data/savepoints/savepoint-5f3c1c-0123456789ab ./word_count --input /data/text
  flott run --output json ./word_count --input /data/text | jq -r 'select(.result).result'";

const RUN_APPLICATION_EXAMPLES: &str = "\
Examples:
  flott run-application -t standalone ./word_count --input /data/text
  flott run-application -p 4 -D taskmanager.numberOfTaskSlots=4 ./word_count --input /data/text
  standalone-job.sh stop; taskmanager.sh stop-all        end it before its job does
  flott run-application -t yarn-application ./word_count --input hdfs:///data/text

Paths in the program's arguments must be absolute. Log and results of the job are files of the JobManager; the
command says which.";

const YARN_SESSION_EXAMPLES: &str = "\
Examples:
  flott yarn-session -d -tm 4096 -s 4                    start a session and leave it running
  flott yarn-session -qu root.streaming -nm nightly
  flott run -t yarn-session ./word_count --input hdfs:///data/text
  flott yarn-session --stop                              end the session that was started last
  flott yarn-session --query                             nodes and queues of the cluster

HADOOP_CONF_DIR names the directory with the cluster's core-site.xml, hdfs-site.xml and yarn-site.xml.";

const LIST_EXAMPLES: &str = "\
Examples:
  flott list                                             jobs that have not ended
  flott list -a -m jobmanager:8081                       all jobs of another cluster
  flott list -a --output json | jq -r '.jobs[] | select(.state == \"FAILED\") | .jid'";

const INFO_EXAMPLES: &str = "\
Examples:
  flott info ./word_count --input /data/text
  flott info -p 8 ./word_count --input /data/text        as it would run with that parallelism
  flott info --job-graph word_count.graph ./word_count --input /data/text";

const CANCEL_EXAMPLES: &str = "\
Examples:
  flott cancel 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b
  flott cancel -m jobmanager:8081 5f3c1c1e2f4b4d0e9a7b6c5d4e3f2a1b";

const LOGS_EXAMPLES: &str = "\
Examples:
  flott logs                                             all logs of the cluster at rest.address
  flott logs --list -m jobmanager:8081                   names and sizes
  flott logs --process jobmanager                        those of the JobManager
  flott logs application_1570379089091_0027              an application on YARN, while it runs and after
  flott logs -t yarn-session --list                      the session on YARN that was started last

On YARN the logs come from the nodes while the application runs, and from HDFS once the nodes have collected them there.
With --output json files are listed.";

const BLOCK_NODE_EXAMPLES: &str = "\
Examples:
  flott block-node node-3                                for 10 min
  flott block-node --for 2h --cause maintenance node-3 node-4
  flott block-node --list
  flott block-node --list --output json | jq -r '.nodes[].node'
  flott block-node --unblock node-3 node-4

TaskManagers on a blocked node get no new slots, and on YARN and Kubernetes no TaskManager is started there. Tasks that
run there continue. A block that ends later stands as it is; --unblock ends it, and forgets that TaskManagers failed to
start on the node. Blocks are forgotten when another JobManager takes over.";

const JOBMANAGER_EXAMPLES: &str = "\
Examples:
  flott jobmanager --config-dir conf                     a session
  flott jobmanager --host node-1 --webui-port 8082
  flott jobmanager --mode application --program /opt/word_count -- --input /data/text
  flott jobmanager --mode per-job --job-graph word_count.graph --program /opt/word_count

In the background, with log and pid files: jobmanager.sh start, standalone-job.sh start";

const TASKMANAGER_EXAMPLES: &str = "\
Examples:
  flott taskmanager --config-dir conf -D taskmanager.numberOfTaskSlots=4
  flott taskmanager --host node-2 -D jobmanager.rpc.address=node-1
  flott taskmanager --program /opt/word_count            of the application that runs this program

In the background, with log and pid files: taskmanager.sh start";

const MAKE_SECRET_EXAMPLES: &str = "\
Examples:
  flott make-secret --config-dir conf                    prints the files' paths";

const OPTIONS_EXAMPLES: &str = "\
Examples:
  flott options > REFERENCE.md";

/// Arguments of `flott run`, which submits a program to a running session, or with the targets `yarn-application` and `yarn-per-job` starts
/// a cluster for it.
#[derive(Debug, Args)]
pub struct Run {
    /// Return as soon as the job is submitted, as with execution.attached false; otherwise wait for the job's end,
    /// print its results and exit with its outcome
    #[arg(short = 'd', long)]
    pub detached: bool,
    /// Cancel the job when this client goes away, in whatever way it ends; also -sae
    #[arg(long = "shutdownOnAttachedExit")]
    pub shutdown_on_attached_exit: bool,
    /// The program, its arguments and the parallelism of its job.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Id of the job: 32 hexadecimal digits [default: pipeline.job-id, else a random one]
    #[arg(long, value_name = "ID")]
    pub job_id: Option<JobId>,
    #[command(flatten)]
    pub(crate) recovery: Recovery,
    #[command(flatten)]
    pub(crate) refused: Refused,
}

/// Arguments of `flott run-application`, which starts a cluster for one program.
#[derive(Debug, Args)]
pub struct RunApplication {
    /// Return as soon as the cluster runs. Otherwise targets on YARN wait for the job's end, unless execution.attached is
    /// false; the standalone target never waits
    #[arg(short = 'd', long)]
    pub detached: bool,
    /// Target: standalone (JobManager here, TaskManagers on the hosts of conf/workers) or yarn-application [default:
    /// execution.target, else standalone]
    #[arg(short = 't', long, value_name = "TARGET")]
    pub target: Option<String>,
    /// The program, its arguments and the parallelism of its job.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Id of the job: 32 hexadecimal digits [default: pipeline.job-id, else the JobManager chooses one]
    #[arg(long, value_name = "ID")]
    pub job_id: Option<JobId>,
    #[command(flatten)]
    pub(crate) recovery: Recovery,
    #[command(flatten)]
    pub(crate) refused: Refused,
    /// Refused: the cluster ends with its job
    #[arg(long = "shutdownOnAttachedExit", hide = true)]
    pub(crate) shutdown_on_attached_exit: bool,
}

/// The program on a command line, its arguments, and the choice and parallelism of its job.
#[derive(Debug, Clone, Args)]
pub struct ProgramArgs {
    /// Default parallelism of the job's operators, from 1 to 32768 [default: parallelism.default]
    #[arg(short = 'p', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub parallelism: Option<u32>,
    /// Name of the job to run, of a program that registers several [default: pipeline.entry; not needed if the program
    /// registers only one]
    #[arg(short = 'c', long = "job", value_name = "NAME")]
    pub job: Option<String>,
    /// The program, a binary with `#[flott::main]`, and its arguments: everything after the program is an argument of
    /// its own, except a -- directly after it [default of the arguments: pipeline.program-args]
    #[arg(value_name = "PROGRAM [ARGS]", required = true, num_args = 1.., trailing_var_arg = true)]
    pub words: Vec<String>,
}

impl ProgramArgs {
    /// Returns the path of the program to run, the first of `words`; an empty path if there are no words.
    /// Does not check that the file exists.
    pub fn program(&self) -> PathBuf {
        self.words.first().map(PathBuf::from).unwrap_or_default()
    }
    /// Returns the program's arguments: all words after the program, without a `--` directly after it, which separates
    /// arguments in other tools. Empty if there are none: the commands then take those of
    /// `pipeline.program-args`.
    pub fn args(&self) -> &[String] {
        match self.words.get(1..).unwrap_or_default() {
            [first, rest @ ..] if first == "--" => rest,
            all => all,
        }
    }
}

/// The options that say where a cluster's REST endpoint is; without them the configuration says it.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArgs {
    /// Target: remote (the session at -m), standalone (the cluster of an application), yarn-session, yarn-application or
    /// yarn-per-job [default: execution.target, else remote]
    #[arg(short = 't', long, value_name = "TARGET")]
    pub target: Option<String>,
    /// REST endpoint of the JobManager; refused for targets on YARN [default: rest.address and rest.port]
    #[arg(short = 'm', long = "jobmanager", value_name = "HOST:PORT")]
    pub jobmanager: Option<String>,
}

/// Arguments of `flott list`. Without one of the filters it lists the jobs that have not ended, by their start. A job that waits for slots
/// counts as running.
#[derive(Debug, Args)]
pub struct List {
    /// List only jobs that have been started and have not ended; with -s also those that wait, with -a also ended ones
    #[arg(short = 'r', long)]
    pub running: bool,
    /// List only jobs that wait to be started; with -r also started ones, with -a also ended ones
    #[arg(short = 's', long)]
    pub scheduled: bool,
    /// List jobs that have ended, too
    #[arg(short = 'a', long)]
    pub all: bool,
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `flott info`, which runs a program in a child process that builds its graph, and shows its operators and vertices; no job
/// is run and no cluster is asked.
#[derive(Debug, Args)]
pub struct Info {
    /// Also write the job graph to a file: for jobmanager --mode per-job; relative paths are refused then
    #[arg(long, value_name = "FILE")]
    pub job_graph: Option<PathBuf>,
    /// Target for which the program is checked: all but local refuse relative paths [default: execution.target, else
    /// local]
    #[arg(short = 't', long, value_name = "TARGET")]
    pub target: Option<String>,
    /// The program, its arguments and the parallelism with which it would be run.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Arguments of `flott cancel`, which asks the cluster to cancel a job and returns before its tasks have ended.
#[derive(Debug, Args)]
pub struct Cancel {
    /// Id of the job, as flott list shows it
    #[arg(value_name = "JOBID")]
    pub job: String,
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `flott logs`, which shows or lists the log files of a cluster's processes.
#[derive(Debug, Args)]
pub struct Logs {
    /// Id of an application on YARN, `application_…`, whose logs are shown [with -t yarn: yarn.application.id, else the
    /// session that was started last]
    #[arg(value_name = "APPLICATION")]
    pub application: Option<String>,
    /// Show only the logs of this process: jobmanager or a TaskManager's id; on YARN a container's id, or jobmanager
    /// while the application runs
    #[arg(long, value_name = "PROCESS")]
    pub process: Option<String>,
    /// Show only log files of this name
    #[arg(long, value_name = "NAME")]
    pub file: Option<String>,
    /// List the names and sizes of the log files instead of showing them, as --output json always does
    #[arg(long)]
    pub list: bool,
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `flott block-node`, which keeps new work away from nodes for a while, lists such nodes or unblocks
/// them.
#[derive(Debug, Args)]
pub struct BlockNode {
    /// Host names of the nodes, as their TaskManagers register with them (taskmanager.host)
    #[arg(value_name = "NODE", required_unless_present = "list")]
    pub nodes: Vec<String>,
    /// Time for which the nodes are blocked from now on, unless a block of them ends later: a number with ms, s, min, h
    /// or d, at least 1 ms
    #[arg(long = "for", value_name = "DURATION", default_value = "10min", value_parser = period)]
    pub period: Duration,
    /// Reason of the block as text, which the list of blocked nodes shows
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// End the block of the nodes now, instead of blocking them; refused with --for and --cause
    #[arg(long, conflicts_with_all = ["period", "cause"])]
    pub unblock: bool,
    /// List the blocked nodes, instead of blocking any
    #[arg(long, conflicts_with_all = ["nodes", "period", "cause", "unblock"])]
    pub list: bool,
    /// The options `-t` and `-m`, which say where the cluster's REST endpoint is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Parses a duration of at least 1 ms.
fn period(text: &str) -> Result<Duration, String> {
    let period = conf::parse_duration(text).filter(|period| period.as_millis() > 0);
    period.ok_or_else(|| "a duration of at least 1 ms is needed, e.g. 30s, 10min or 2h".to_owned())
}

/// The mode of a JobManager: which jobs its cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Programs are submitted over REST; the cluster runs until it is told to stop.
    Session,
    /// The cluster runs the job of the JobManager's own program, then ends.
    Application,
    /// The cluster runs one job, whose graph was built elsewhere (`flott info --job-graph`), then ends.
    PerJob,
}

/// Arguments of `flott jobmanager`, which runs a JobManager in this process. Arguments that are for other modes than the given one are
/// ignored.
#[derive(Debug, Args)]
pub struct JobManager {
    /// Mode of the cluster: which jobs it runs
    #[arg(long, value_enum, default_value_t = Mode::Session)]
    pub mode: Mode,
    /// Host name under which other processes reach this one; sets jobmanager.rpc.address
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Port of the REST endpoint; sets rest.port
    #[arg(long, value_name = "PORT")]
    pub webui_port: Option<String>,
    /// application: the job's id [default: pipeline.job-id; else with high availability one that follows from the
    /// cluster's id, otherwise a new one]
    #[arg(long, value_name = "ID")]
    pub job_id: Option<JobId>,
    /// application: name of the job to run, of a program that registers several [default: pipeline.entry]
    #[arg(long = "job", value_name = "NAME")]
    pub job: Option<String>,
    /// application and per-job: path of the program's executable; per-job needs it [default of application:
    /// pipeline.program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// per-job, which needs it: file with the job graph to run (made by flott info --job-graph)
    #[arg(long, value_name = "FILE")]
    pub job_graph: Option<PathBuf>,
    /// application: default parallelism of the job, from 1 to 32768 [default: parallelism.default]
    #[arg(short = 'p', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub parallelism: Option<u32>,
    /// application: arguments of the program, all words after -- [default: pipeline.program-args]
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<String>,
}

/// Arguments of `flott taskmanager`, which runs a TaskManager in this process.
#[derive(Debug, Args)]
pub struct TaskManager {
    /// Path of the program that this process becomes, so that its tasks run in this process; absent: each job's program
    /// is fetched and runs in a child process
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Host name under which other processes reach this one; sets taskmanager.host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::letters::long_names;
    use super::*;
    use clap::CommandFactory;
    use std::ffi::OsString;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_every_command_has_examples_that_parse() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help")
        {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:\n"), "{}: {help}", command.get_name());
            for line in help.lines().filter_map(|line| line.strip_prefix("  flott ")) {
                // Up to the explanation, the pipe, the redirection.
                let line = line.split("   ").next().unwrap_or_default();
                let words = line.split(' ').take_while(|word| *word != "|" && *word != ">");
                let words = std::iter::once("flott").chain(words).map(OsString::from);
                let parsed = long_names(words).and_then(Cli::try_parse_from);
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let cli = Cli::parse_from([
            "flott", "run", "-d", "-p", "3", "./prog", "-p", "9", "--output", "x", "-D", "a=b",
        ]);
        let Command::Run(run) = cli.command else {
            panic!("not run");
        };
        assert!(run.detached);
        assert_eq!(run.program.parallelism, Some(3));
        assert_eq!(run.program.args(), ["-p", "9", "--output", "x", "-D", "a=b"]);
        assert_eq!(cli.common.output, Output::Text);
    }

    #[test]
    fn two_dashes_directly_behind_the_program_are_not_the_programs() {
        let args = |words: &[&str]| {
            let cli = Cli::parse_from(["flott", "run", "-d"].iter().chain(words));
            let Command::Run(run) = cli.command else {
                panic!("not run");
            };
            assert_eq!(run.program.program(), PathBuf::from("./prog"));
            run.program.args().to_vec()
        };
        assert_eq!(args(&["./prog", "--", "--input", "x"]), ["--input", "x"]);
        assert_eq!(args(&["./prog", "--", "--", "x"]), ["--", "x"]);
        assert_eq!(args(&["./prog", "-i", "--", "x"]), ["-i", "--", "x"]);
        assert_eq!(args(&["--", "./prog", "--", "x"]), ["x"]);
        assert!(args(&["./prog", "--"]).is_empty());
    }

    #[test]
    fn what_is_no_job_id_is_wrong_usage() {
        let wrong: [&[&str]; 3] = [
            &["run", "--job-id", "zz", "./prog"],
            &["run-application", "--job-id", "zz", "./prog"],
            &["jobmanager", "--mode", "application", "--job-id", "zz", "--program", "./prog"],
        ];
        for words in wrong {
            let error = Cli::try_parse_from(["flott"].iter().chain(words)).unwrap_err().to_string();
            assert!(error.contains("--job-id") && error.contains("32 hexadecimal"), "{error}");
        }
    }

    #[test]
    fn nodes_are_blocked_for_a_time_or_unblocked_or_listed() {
        let parse = |words: &[&str]| {
            let cli = Cli::try_parse_from(["flott", "block-node"].iter().chain(words))?;
            let Command::BlockNode(block) = cli.command else {
                panic!("not block-node");
            };
            Ok::<_, clap::Error>(block)
        };
        let block = parse(&["a", "b"]).unwrap();
        assert_eq!((block.nodes.len(), block.period), (2, Duration::from_secs(600)));
        assert_eq!(parse(&["--for", "2 h", "a"]).unwrap().period, Duration::from_secs(7_200));
        let wrong: [&[&str]; 7] = [
            &[],
            &["--unblock"],
            &["--list", "a"],
            &["--list", "--unblock", "a"],
            &["--unblock", "--for", "1h", "a"],
            &["--for", "0s", "a"],
            &["--for", "soon", "a"],
        ];
        for words in wrong {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_session_takes_flinks_names_and_a_program_keeps_its_own() {
        let words = |text: &str| long_names(text.split(' ').map(OsString::from)).unwrap();
        let line = "flott yarn-session -qu q -n 2 -tm 1024 -jm 512m -s 4 -d -nm x -id application_1_0001 -q -t a -t b -nl l \
                    -at T -z ns -D k=v -sae";
        let Command::YarnSession(session) = Cli::parse_from(words(line)).command else {
            panic!("not yarn-session");
        };
        let texts = [&session.queue, &session.task_manager_memory, &session.job_manager_memory];
        assert_eq!(texts.map(|t| t.as_deref().unwrap_or("-")), ["q", "1024", "512m"]);
        let texts = [&session.name, &session.node_label, &session.application_type];
        assert_eq!(texts.map(|t| t.as_deref().unwrap_or("-")), ["x", "l", "T"]);
        assert_eq!((session.slots, session.ship.len()), (Some(4), 2));
        assert!(session.detached && session.query && session.shutdown_on_attached_exit);
        assert!(session.refused.complaint().unwrap().contains("slotmanager.number-of-slots.max"));
        for (option, instead) in [
            ("-z ns", "high-availability.cluster-id"),
            ("-j x.jar", "ships itself"),
            ("-st", "drop it"),
        ] {
            let cli = Cli::parse_from(words(&format!("flott yarn-session {option}")));
            let Command::YarnSession(session) = cli.command else { panic!("not yarn-session") };
            assert!(session.refused.complaint().unwrap().contains(instead), "{option}");
        }
        let run = words("flott run ./prog -qu yarn-session");
        assert_eq!(run, ["flott", "run", "./prog", "-qu", "yarn-session"]);
    }

    #[test]
    fn a_mistyped_subcommand_is_told_the_nearest_one() {
        let error = Cli::try_parse_from(["flott", "lits"]).unwrap_err().to_string();
        assert!(error.contains("list"), "{error}");
    }
}
