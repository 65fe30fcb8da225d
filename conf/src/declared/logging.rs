//! Options of logs, process files and scripts.

use crate::{
    declare::options,
    value::{LogFilter, choices},
};
use std::path::PathBuf;

choices! {
    /// How log lines look.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

options! {
    /// What is logged: a level, or filters as in `info,actors=debug,gateways::rpc=trace`.
    LEVEL: LogFilter = "log.level" => LogFilter::default();
    /// How log lines look: `text` or `json`.
    FORMAT: LogFormat = "log.format" => LogFormat::Text;
    /// Where a process writes its log file; to standard error where it is not set.
    DIR: Option<PathBuf> = "log.dir" => None;
    /// Of how many jobs the log files of program hosts are kept beside that of their process; the oldest go first.
    JOBS_MAX: u32 = "log.jobs.max" => 100;
    /// Where the scripts keep the process ids of what they started.
    PID_DIR: PathBuf = "env.pid.dir" => PathBuf::from("/tmp");
    /// Where the scripts write log files; `log` beside `bin` where it is not set.
    SCRIPT_LOG_DIR: Option<PathBuf> = "env.log.dir" => None;
    /// How many old log files the scripts keep.
    LOG_MAX: u32 = "env.log.max" => 10;
    /// Options for `ssh`, by which the scripts start processes on other hosts.
    SSH_OPTS: String = "env.ssh.opts" => String::new();
}
