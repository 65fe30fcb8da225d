//! Sets up a process's log: into a file or to standard error; as text or JSON; filtered by
//! `log.level`.

use crate::cli::output::plain;
use crate::log_files::{LogFile, LogLimits};
use conf::logging::LogFormat;
use conf::{Options, logging};
use gateways::TraceContext;
use std::fmt;
use std::path::PathBuf;
use thiserror::Error;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Names the log file, as the scripts do.
const FILE_VARIABLE: &str = "FLOTT_LOG_FILE";
/// Filters, over `log.level`.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// The place of this process's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LogPlace {
    /// Path of the log file; `None` if the process logs to standard error.
    pub file: Option<PathBuf>,
}

impl LogPlace {
    /// Returns the folder of the log files; `None` for standard error.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let parent = self.file.as_ref()?.parent()?;
        if parent.as_os_str().is_empty() {
            return Some(PathBuf::from("."));
        }
        Some(parent.to_owned())
    }
    /// Returns the beginning of the names of this process's log files; `None` if it logs to
    /// standard error.
    pub(crate) fn stem(&self) -> Option<String> {
        let name = self.file_name()?;
        Some(name.strip_suffix(".log").unwrap_or(&name).to_owned())
    }
    /// Returns the name of this process's log file.
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
        /// Path of the file concerned.
        path: PathBuf,
        /// Message of the system.
        why: String,
    },
    /// The value of `log.level` is not understood.
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

/// Returns the filter that a text describes. Malformed requests, which any client can send at any rate, are not logged unless the text
/// names the module that notices them.
fn filter(text: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(format!("actix_http::h1::dispatcher=off,{text}"))
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
    let _ = if json {
        builder.json().map_event_format(|lines| InTrace { lines, json }).try_init()
    } else {
        builder.map_event_format(|lines| InTrace { lines, json }).try_init()
    };
}

/// Adds to each line the trace in which its thread works, `trace=…`, if there is one. Lines of text show control characters escaped, and
/// the lines of an event behind the first one are marked, because a name or error could move the cursor or look like a line of the
/// log's own.
struct InTrace<F> {
    lines: F,
    json: bool,
}

impl<S, N, F> FormatEvent<S, N> for InTrace<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let trace = TraceContext::current();
        if self.json && trace.is_none() {
            return self.lines.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        if let Some(open) = line.strip_suffix('}').filter(|_| self.json) {
            return writeln!(writer, "{open},\"trace\":\"{trace}\"}}");
        }
        write_escaped(&mut writer, line)?;
        match trace.is_none() {
            true => writeln!(writer),
            false => writeln!(writer, " trace={trace}"),
        }
    }
}

/// Precedes each line of an event but the first.
const NEXT_LINE: &str = "\n    | ";

fn write_escaped(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            writer.write_str(NEXT_LINE)?;
        }
        writer.write_str(&plain(line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::format;

    /// Writes to memory.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    /// A subscriber that writes lines of text, and the lines.
    fn as_text() -> (Lines, impl Subscriber + Send + Sync) {
        let lines = Lines::default();
        let writer = lines.clone();
        let builder =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        (lines, builder.event_format(InTrace { lines: format(), json: false }).finish())
    }

    #[test]
    fn a_line_shows_the_trace_in_which_its_thread_works_and_no_other_does() {
        let trace = TraceContext { trace: 0xabc, span: 1 };
        let id = "00000000000000000000000000000abc";
        let (lines, text) = as_text();
        tracing::subscriber::with_default(text, || {
            tracing::info!(job = 7, "before");
            assert!(lines.take().ends_with("before job=7\n"));
            let _entered = trace.enter();
            tracing::info!(job = 7, "submitted");
            assert!(lines.take().ends_with(&format!("submitted job=7 trace={id}\n")));
        });
        let writer = lines.clone();
        let builder = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
        let json = builder.map_event_format(|lines| InTrace { lines, json: true }).finish();
        tracing::subscriber::with_default(json, || {
            let _entered = trace.enter();
            tracing::info!(job = 7, "submitted");
            let line: serde_json::Value = serde_json::from_str(&lines.take()).unwrap();
            assert_eq!((&line["trace"], &line["fields"]["job"]), (&id.into(), &7.into()));
        });
    }

    #[test]
    fn a_client_fills_no_log_with_malformed_requests() {
        let shown = |level: &str| {
            let lines = Lines::default();
            let writer = lines.clone();
            let text = tracing_subscriber::fmt().with_env_filter(filter(level).unwrap());
            tracing::subscriber::with_default(
                text.with_writer(move || writer.clone()).finish(),
                || {
                    tracing::error!(target: "actix_http::h1::dispatcher", "stream error");
                    tracing::error!(target: "actix_http::h1", "other error");
                },
            );
            lines.take()
        };
        let by_default = shown("info");
        assert!(!by_default.contains("stream error"), "{by_default}");
        assert!(by_default.contains("other error"), "{by_default}");
        assert!(shown("info,actix_http::h1::dispatcher=error").contains("stream error"));
        assert!(filter("a=b=c").is_err());
    }

    #[test]
    fn text_of_a_job_can_neither_forge_a_line_nor_move_the_cursor() {
        let (lines, text) = as_text();
        tracing::subscriber::with_default(text, || {
            let cause = "no such file\n2026-01-01T00:00:00Z  INFO forged\r\u{1b}[2Jü\tend";
            tracing::warn!(%cause, "the job has failed");
            let shown = lines.take();
            let (first, second) = shown.split_once('\n').unwrap();
            assert!(first.ends_with("the job has failed cause=no such file"), "{shown}");
            let forged = "    | 2026-01-01T00:00:00Z  INFO forged\\r\\u{1b}[2Jü\\tend\n";
            assert_eq!(second, forged);
        });
    }
}
