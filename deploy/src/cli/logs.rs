//! `flott logs`: shows the log files of a cluster's processes, or lists them.
//!
//! One file that cannot be read never keeps the others from being shown; the command fails at the end then.

use super::args::Logs;
use super::output::{Printer, table};
use super::{Context, Failure, Outcome, client};
use crate::exit::Exit;
use crate::targets;
use conf::execution::{TARGET, Target};
use conf::yarn_client::APPLICATION_ID;
use rest::client::{ClientError, RestClient};
use rest::messages::LogInfo;
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// The name under which a cluster's endpoint lists the logs of the JobManager.
pub(crate) const JOB_MANAGER: &str = "jobmanager";

pub(super) async fn logs(context: &Context, args: Logs) -> Outcome {
    let mut options = context.options.clone();
    if let Some(id) = &args.application {
        options = options.with(APPLICATION_ID.key(), id)?;
    }
    let context = context.with_options(options);
    let print = context.print;
    let target = target(&context, &args)?;
    let mut output = LogOutput {
        print,
        process: args.process,
        file: args.file,
        listing: args.list || print.is_json(),
        files: Vec::new(),
        ends_line: true,
        failures: 0,
        closed: false,
    };
    let shown =
        targets::descriptor(&context, target, &args.cluster)?.logs(&context, &mut output).await;
    // A reader that has seen enough, as `head` does.
    if output.closed {
        return Ok(Exit::Success);
    }
    shown?;
    output.finish()
}

/// Returns the target; an application, and the target `yarn`, mean any of those on YARN.
fn target(context: &Context, args: &Logs) -> Result<Target, Failure> {
    let given = args.cluster.target.as_deref();
    let target = match (given, &args.application) {
        (Some("yarn"), _) => return Ok(Target::YarnApplication),
        (None, Some(_)) if context.options.get(&TARGET).is_none() => Target::YarnApplication,
        _ => targets::choose(&context.options, given, &targets::RUNNING)?,
    };
    match (&args.application, target) {
        (Some(id), Target::Remote | Target::Standalone) => Err(Failure::usage(format!(
            "'{id}' names an application on YARN, and the target is '{}': use -t yarn",
            target.as_str()
        ))),
        _ => Ok(target),
    }
}

/// A log file of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LogFile {
    /// The container on YARN, else `jobmanager` or the TaskManager's resource id.
    pub(crate) process: String,
    /// The node that the process runs on, or ran on.
    pub(crate) node: String,
    /// The file's name.
    pub(crate) file: String,
    /// Length of the file in bytes when it was listed.
    pub(crate) bytes: u64,
}

/// Takes files from wherever they are, and prints or lists those that are wanted.
pub(crate) struct LogOutput {
    print: Printer,
    process: Option<String>,
    file: Option<String>,
    /// True if only the names of the log files are printed.
    listing: bool,
    files: Vec<LogFile>,
    /// True if what was printed last ends with a line end.
    ends_line: bool,
    failures: u32,
    /// True if nobody reads standard output any more.
    closed: bool,
}

impl LogOutput {
    /// Returns the one process whose files are wanted; `None`: all.
    pub(crate) fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// Begins a file; returns whether its bytes are wanted.
    pub(crate) fn begin(&mut self, file: LogFile) -> io::Result<bool> {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|w| w == name);
        if !is(&self.process, &file.process) || !is(&self.file, &file.file) {
            return Ok(false);
        }
        // A single file is printed as it is.
        if !self.listing && (self.process.is_none() || self.file.is_none()) {
            let gap = if self.files.is_empty() { "" } else { "\n" };
            let LogFile { process, node, file, bytes } = &file;
            let head = format!("{gap}==> {process} on {node}: {file} ({bytes} bytes) <==\n");
            self.write(head.as_bytes())?;
        }
        self.files.push(file);
        Ok(!self.listing)
    }

    /// Prints the next bytes of the file.
    pub(crate) fn bytes(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write(piece)
    }

    /// Ends the file.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.ends_line { Ok(()) } else { self.write(b"\n") }
    }

    /// Tells of a file or process that could not be read.
    pub(crate) fn failed(&mut self, why: &str) {
        self.failures += 1;
        self.print.note(why);
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = io::stdout().lock().write_all(bytes);
        self.closed = matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe);
        self.ends_line = bytes.last().map_or(self.ends_line, |byte| *byte == b'\n');
        written
    }

    fn finish(self) -> Outcome {
        if self.listing {
            self.print.value(&self.files, || list(&self.files))?;
        }
        if self.failures > 0 {
            return Err(Failure::start(format!(
                "{} could not be read: see above",
                parts(self.failures)
            )));
        }
        if self.files.is_empty() && !self.listing {
            return Err(Failure::start("there are no such log files"));
        }
        Ok(Exit::Success)
    }
}

#[cfg(feature = "yarn")]
impl LogOutput {
    /// Returns the name of the files that are wanted; `None`: all.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns true if no file was found so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Prints a note that is not a failure.
    pub(crate) fn note(&self, text: &str) {
        self.print.note(text);
    }
}

fn parts(failures: u32) -> String {
    match failures {
        1 => "1 log or process".to_owned(),
        n => format!("{n} logs or processes"),
    }
}

fn list(files: &[LogFile]) -> String {
    if files.is_empty() {
        return "no such log files".to_owned();
    }
    let row = |file: &LogFile| {
        vec![file.process.clone(), file.node.clone(), file.file.clone(), file.bytes.to_string()]
    };
    table(&["PROCESS", "NODE", "FILE", "BYTES"], &files.iter().map(row).collect::<Vec<_>>())
}

/// The end of one file's download.
enum Cut {
    /// The endpoint did not send it.
    Unread(ClientError),
    /// Standard output did not take it.
    Unwritten(io::Error),
}

impl From<ClientError> for Cut {
    fn from(error: ClientError) -> Self {
        Self::Unread(error)
    }
}

/// Shows the logs of the processes of a running cluster, which its REST endpoint hands out.
pub(crate) async fn of_endpoint(
    context: &Context,
    client: &RestClient,
    output: &mut LogOutput,
) -> Result<(), Failure> {
    let failed = |error| client::failure(context, client, error);
    let logs = client.logs().await.map_err(failed)?.logs;
    let host = client.authority().rsplit_once(':').map_or("", |(host, _)| host);
    for log in logs {
        if output.begin(file_of(JOB_MANAGER, host, &log))? {
            let read = client.log(&log.name, |piece| taken(output, piece)).await;
            settle(output, read, &format!("{JOB_MANAGER}: {}", log.name))?;
        }
    }
    for task_manager in client.task_managers().await.map_err(failed)?.taskmanagers {
        if output.process().is_some_and(|wanted| wanted != task_manager.id) {
            continue;
        }
        let logs = match client.task_manager_logs(&task_manager.id).await {
            Ok(list) => list.logs,
            // It may have been lost since it was listed.
            Err(error) => {
                output.failed(&format!("{}: {error}", task_manager.id));
                continue;
            }
        };
        for log in logs {
            if output.begin(file_of(&task_manager.id, &task_manager.host, &log))? {
                let take = |piece: &[u8]| taken(output, piece);
                let read = client.task_manager_log(&task_manager.id, &log.name, take).await;
                settle(output, read, &format!("{}: {}", task_manager.id, log.name))?;
            }
        }
    }
    Ok(())
}

fn file_of(process: &str, node: &str, log: &LogInfo) -> LogFile {
    let (process, node) = (process.to_owned(), node.to_owned());
    LogFile { process, node, file: log.name.clone(), bytes: log.size }
}

fn taken(output: &mut LogOutput, piece: &[u8]) -> Result<(), Cut> {
    output.bytes(piece).map_err(Cut::Unwritten)
}

fn settle(output: &mut LogOutput, read: Result<(), Cut>, name: &str) -> io::Result<()> {
    output.end()?;
    match read {
        Ok(()) => Ok(()),
        Err(Cut::Unread(error)) => {
            output.failed(&format!("{name}: {error}"));
            Ok(())
        }
        Err(Cut::Unwritten(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;
    use conf::Options;

    fn target_of(words: &[&str], set: &[(&str, &str)]) -> Result<Target, Failure> {
        let cli = Cli::parse_from(["flott", "logs"].iter().chain(words));
        let Command::Logs(args) = cli.command else { panic!("not logs") };
        let options = Options::from_map(set.iter().copied()).unwrap();
        let print = Printer::new(cli.common.output);
        target(&Context { options, overrides: Vec::new(), common: cli.common, print }, &args)
    }

    #[test]
    fn an_application_is_one_on_yarn() {
        let id = "application_1_0001";
        assert_eq!(target_of(&[id], &[]).unwrap(), Target::YarnApplication);
        assert_eq!(target_of(&["-t", "yarn", id], &[]).unwrap(), Target::YarnApplication);
        assert_eq!(target_of(&["-t", "yarn"], &[]).unwrap(), Target::YarnApplication);
        assert_eq!(target_of(&["-t", "yarn-session", id], &[]).unwrap(), Target::YarnSession);
        assert_eq!(target_of(&[], &[]).unwrap(), Target::Remote);
        let wrong = target_of(&["-t", "remote", id], &[]).unwrap_err().to_string();
        assert!(wrong.contains("use -t yarn"), "{wrong}");
        assert!(target_of(&[id], &[("execution.target", "remote")]).is_err());
        assert!(target_of(&["-t", "yran"], &[]).is_err());
    }

    #[test]
    fn files_are_listed_with_their_processes() {
        let file = |process: &str, bytes| LogFile {
            process: process.to_owned(),
            node: "node-1".to_owned(),
            file: "jobmanager.log".to_owned(),
            bytes,
        };
        let text = list(&[file("jobmanager", 12), file("tm", 3)]);
        assert!(text.starts_with("PROCESS     NODE    FILE            BYTES\njobmanager  node-1"));
        assert_eq!(list(&[]), "no such log files");
    }
}
