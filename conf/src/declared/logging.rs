//! Options of logs, process files and scripts.

use crate::{
    declare::options,
    value::{LogFilter, choices},
};
use std::path::PathBuf;

choices! {
    /// The format of log lines.
    pub enum LogFormat {
        /// Lines meant for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

options! {
    /// The log level, or filters as in `info,actors=debug,gateways::rpc=trace`.
    LEVEL: LogFilter = "log.level" => LogFilter::default();
    /// The format of log lines: `text` or `json`.
    FORMAT: LogFormat = "log.format" => LogFormat::Text;
    /// Directory of a process's log file. If it is not set, the process logs to standard error.
    DIR: Option<PathBuf> = "log.dir" => None;
    /// Number of jobs whose program hosts' log files are kept beside the log file of their process;
    /// the oldest are deleted first.
    JOBS_MAX: u32 = "log.jobs.max" => 100;
    /// Directory in which the scripts keep the process ids of what they started.
    PID_DIR: PathBuf = "env.pid.dir" => PathBuf::from("/tmp");
    /// Directory in which the scripts write log files; `log` beside `bin` if it is not set.
    SCRIPT_LOG_DIR: Option<PathBuf> = "env.log.dir" => None;
    /// Number of old log files that the scripts keep.
    LOG_MAX: u32 = "env.log.max" => 10;
    /// Options for `ssh`, by which the scripts start processes on other hosts.
    SSH_OPTS: String = "env.ssh.opts" => String::new();
}
