//! The data plane: the API, operators, state, the exchange and the life cycle of tasks. This crate must never depend on actors,
//! gateways or control.
//!
//! Code that is generic over the types of a program is compiled anew in every program that uses it, for each of the types. Therefore only
//! what is called for each record should be generic; what is called once for a batch, a barrier or a subtask should be in functions and
//! types without parameters, which this crate compiles, also where that takes a `dyn` call.

pub mod api;
pub mod batch;
pub mod chain;
pub mod exchange;
pub mod graph;
pub mod harness;
pub mod memory;
pub mod operators;
pub mod program_note;
pub mod seam;
pub mod sinks;
pub mod sources;
pub mod state;
mod sync;
pub mod task;
pub mod testing;
pub mod time;
pub mod types;

pub(crate) use sync::lock;

pub use api::{Args, Environment, ProgramEntry, SHIPPED_VARIABLE, Stream, build};
pub use graph::BuiltJob;
pub use model::{MemorySize, ResourceProfile};
pub use seam::{
    Barrier, BuildInputs, BuildProgramError, Coordinator, CoordinatorContext, CoordinatorWaker,
    EdgeCodec, Element, ErasedBatch, EventReply, InputPort, Interrupt, Mail, OnFailure, OutputPort,
    Polled, Progress, Restore, StateChunk, StreamEvent, Subtask, SubtaskContext, TaskCounters,
    TaskError, TaskSnapshot, TaskUpcalls,
};
