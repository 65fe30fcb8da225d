//! Flott: stream processing as ordinary Rust binaries.
//!
//! A program declares a job on an [`Environment`] and is started through [`main`](macro@main). Started by hand it runs
//! the job in a cluster inside its own process; given to `flott run` it runs on a cluster of many.
//!
//! ```no_run
//! use flott::prelude::*;
//!
//! #[flott::main]
//! fn squares(env: &Environment, _args: Args) -> Result<()> {
//!     env.from_collection(1..=10u64).map(|n| n * n).print();
//!     Ok(())
//! }
//! ```
//!
//! This crate must never hold behaviour of its own beyond starting a program.

pub use derive::{FlottType, main};
pub use streaming::{Args, Environment, ProgramEntry, Stream, types};


use std::process::ExitCode;

/// Strings and batches are allocated by one task's thread and freed by another's: this allocator has no lock there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a job's function answers.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Everything that a program usually needs.
pub mod prelude {
    pub use crate::Result;
    pub use derive::FlottType;
    pub use streaming::api::{Aggregated, KeyedStream, Sink};
    pub use streaming::operators::{
        Collector, KeyContext, KeyedProcessFunction, OperatorContext, ProcessFunction,
    };
    pub use streaming::state::{ListState, MapState, States, ValueState};
    pub use streaming::types::{FlottType, FromLine, Serde, ToLine};
    pub use streaming::{Args, Environment, ProgramEntry, Stream};
}

/// Runs a program in the role that its process was started in. The second call in a process is an error.
pub fn run(program: ProgramEntry) -> ExitCode {
    streaming::program_note::mark();
    deploy::program_main(program)
}
