//! The program host: runs the tasks and coordinators of one program behind its gateway, inside the process that asked
//! for it or in a child process. This crate must never know the actors of the control plane, decide what is deployed,
//! or run user code on an actor's thread.

mod actor;
pub mod child;
mod coordination;
mod in_process;
pub mod launch;
mod program;
mod sync;
mod worker;

#[cfg(test)]
extern crate self as host;
#[cfg(test)]
mod tests;

pub use in_process::{InProcess, InProcessHost, in_process};
pub use program::{Fatal, Place};
pub use worker::uploads::{Target, Upload, Uploads};
