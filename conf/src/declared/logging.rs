//! Options of logs, process files and scripts.

use crate::{
    declare::options,
    value::{LogFilter, choices},
};
use model::MemorySize;
use std::path::PathBuf;

choices! {
    /// The format of the lines that a process logs (`log.format`): for people (the default), or one JSON object for each. It holds for
    /// cluster processes and clients, in a file as on standard error; program hosts (the processes that run jobs' code) always log as text.
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
    /// Number of jobs whose program hosts' log files are kept beside the log file of their process; the oldest are deleted
    /// first. A job whose host runs keeps its files, so more are there while more jobs run.
    JOBS_MAX: u32 = "log.jobs.max" => 100;
    /// Directory in which the scripts keep the process ids of what they started.
    PID_DIR: PathBuf = "env.pid.dir" => PathBuf::from("/tmp");
    /// Directory in which the scripts write log files; `log` beside `bin` if it is not set.
    SCRIPT_LOG_DIR: Option<PathBuf> = "env.log.dir" => None;
    /// Number of old log files of a process that are kept, as `FILE.1` (the newest), `FILE.2` and so on. The scripts rename
    /// files at each start, a process renames its own when it is as large as `env.log.max-size`.
    LOG_MAX: u32 = "env.log.max" => 10;
    /// Size at which a process renames its log file and begins a new one. Files into which a program host prints and logs
    /// are looked at each second, and one old file of each is kept. The scripts' `.out` files of processes have no limit:
    /// an application's results are printed there.
    LOG_MAX_SIZE: MemorySize = "env.log.max-size" => MemorySize::from_mib(100), must be_a_log_size;
    /// Options for `ssh`, by which the scripts start processes on other hosts.
    SSH_OPTS: String = "env.ssh.opts" => String::new();
}
