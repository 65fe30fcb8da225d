//! The composition root: cluster entrypoints, deployment targets and the command line.
//!
//! Everything below is handed what it needs from here. It must never hold a decision of its own about
//! jobs, slots or leaders.

pub mod cli;
pub mod cluster_files;
pub mod components;
mod container;
pub mod embedded;
mod entrypoint;
mod environment;
pub mod exit;
mod facts;
mod host_logs;
mod host_memory;
mod hosts;
mod launchers;
mod log_files;
mod logging;
mod pid_file;
mod programs;
mod results;
mod roles;
mod settings;
mod stacks;
mod stop;
mod target;
mod targets;
mod version;
mod work_folder;
#[cfg(feature = "yarn")]
mod yarn;

pub use cli::main as flott_main;
pub use entrypoint::StartError;
pub use exit::Exit;
pub use roles::program_main;
