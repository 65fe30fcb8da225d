//! Where a process's log goes: a file, or standard error; text or JSON; filtered by `log.level`.

use crate::log_files::{LogFile, LogLimits};
use conf::logging::LogFormat;
use conf::{Options, logging};
use std::path::PathBuf;
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Names the log file, as the scripts do.
const FILE_VARIABLE: &str = "FLOTT_LOG_FILE";
/// Filters, over `log.level`.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// Where this process logs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LogPlace {
    /// The file; `None`: standard error.
    pub file: Option<PathBuf>,
}

impl LogPlace {
    /// Folder of the log files.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let parent = self.file.as_ref()?.parent()?;
        if parent.as_os_str().is_empty() {
            return Some(PathBuf::from("."));
        }
        Some(parent.to_owned())
    }
    /// How the names of this process's files begin.
    pub(crate) fn stem(&self) -> Option<String> {
        let name = self.file_name()?;
        Some(name.strip_suffix(".log").unwrap_or(&name).to_owned())
    }
    /// Name of this process's file.
    pub(crate) fn file_name(&self) -> Option<String> {
        Some(self.file.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }
}

/// The log cannot be set up.
#[derive(Debug, Error)]
pub(crate) enum LogError {
    /// The file can't be opened.
    #[error("the log file {path} cannot be written: {why}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// `log.level` is not understood.
    #[error("log.level '{text}' is not understood: {why}")]
    Filter {
        /// The setting as the user wrote it.
        text: String,
        /// A description of what is wrong with it.
        why: String,
    },
}

/// Starts logging for a cluster process; once per process.
pub(crate) fn start(role: &str, options: &Options) -> Result<LogPlace, LogError> {
    let level = level(options);
    let place = LogPlace { file: file_of(role, options) };
    let json = options.get(&logging::FORMAT) == LogFormat::Json;
    match &place.file {
        Some(path) => {
            let mode = crate::target::log_mode(options);
            let file = LogFile::open(path, mode, LogLimits::of(options));
            let failed =
                |e: std::io::Error| LogError::File { path: path.clone(), why: e.to_string() };
            install(filter(&level)?, json, Appender(file.map_err(failed)?));
        }
        None => install(filter(&level)?, json, std::io::stderr),
    }
    Ok(place)
}

/// Returns the log filter: `RUST_LOG`, else `log.level`.
pub(crate) fn level(options: &Options) -> String {
    std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| options.get(&logging::LEVEL).to_string())
}

/// Starts logging for a program host: to standard error, which its parent sends to a file.
pub(crate) fn start_host() -> Result<(), LogError> {
    let level = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| "info".to_owned());
    install(filter(&level)?, false, std::io::stderr);
    Ok(())
}

/// Starts logging for a client or an embedded run: quiet, unless `RUST_LOG` or `log.level` says otherwise.
pub(crate) fn start_quiet(options: &Options) -> Result<(), LogError> {
    let set = options.is_set(&logging::LEVEL).then(|| options.get(&logging::LEVEL).to_string());
    let level = std::env::var(FILTER_VARIABLE).ok().or(set).unwrap_or_else(|| "off".to_owned());
    let json = options.get(&logging::FORMAT) == LogFormat::Json;
    install(filter(&level)?, json, std::io::stderr);
    Ok(())
}

fn filter(text: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(text)
        .map_err(|e| LogError::Filter { text: text.to_owned(), why: e.to_string() })
}

fn file_of(role: &str, options: &Options) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(FILE_VARIABLE) {
        return (!path.is_empty()).then(|| PathBuf::from(path));
    }
    let folder = options.get(&logging::DIR)?;
    Some(folder.join(crate::target::log_file(role, options)))
}

/// The log file of this process, which tracing shares among its threads.
struct Appender(LogFile);

impl<'a> MakeWriter<'a> for Appender {
    type Writer = &'a LogFile;
    fn make_writer(&'a self) -> Self::Writer {
        &self.0
    }
}

fn install<W>(filter: EnvFilter, json: bool, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        // It would be printed, and a full disk would then panic whatever thread logs.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(true)
        .with_thread_names(true);
    // A second installation (a test's) is refused by tracing; the first one stays.
    let _ = if json { builder.json().try_init() } else { builder.try_init() };
}
