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
pub use streaming::{
    Args, Environment, ProgramEntry, Stream, TaskError, batch, operators, sources, state, testing,
    types,
};

use std::{
    io::Write,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// The exit code of a wrong use.
const USAGE: u8 = 64;

/// Strings and batches are allocated by one task's thread and freed by another's: this allocator has no lock there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a job's function answers.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Everything that a program usually needs.
pub mod prelude {
    pub use crate::Result;
    pub use derive::FlottType;
    pub use streaming::api::{
        AtEnd, BroadcastConnectedStream, ConnectedStreams, KeyedBroadcastConnectedStream,
        KeyedConnectedStreams, KeyedStream, Sink, WindowedStream,
    };
    pub use streaming::operators::{
        AggregateFunction, BroadcastProcessFunction, CoProcessFunction, Collector, Context,
        Counter, EventTimeSessionWindows, Gauge, KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction, KeyedProcessFunction, Metrics, OperatorContext, OutputTag,
        ProcessFunction, ProcessingTimeSessionWindows, SlidingEventTimeWindows,
        SlidingProcessingTimeWindows, StatefulProcessFunction, TimeDomain, TimeWindow, Timer,
        TimerService, TumblingEventTimeWindows, TumblingProcessingTimeWindows, WindowFunction,
    };
    pub use streaming::sources::{
        Boundedness, NoEnumerator, ReadProgress, ReaderContext, ReaderOutput, Source, SourceReader,
        SourceSplit, SplitEnumerator, SplitEnumeratorContext,
    };
    pub use streaming::state::{
        Aggregate, AggregatingState, ListState, MapState, OperatorState, Reduce, ReducingState,
        State, UnionListState,
    };
    pub use streaming::time::{
        BoundedOutOfOrderness, NoWatermarks, SourceTimestamps, TimestampAssigner,
        WatermarkGenerator, WatermarkStrategy,
    };
    pub use streaming::types::{
        CompactString, FlottType, FromLine, Key, KeyPart, Record, Serde, ToLine,
    };
    pub use streaming::{Args, Environment, ProgramEntry, Stream};
}

/// Runs a program in the role that its process was started in. The second call in a process is an error.
///
/// A program with several jobs registers each under a name, and is asked for one of them:
///
/// ```no_run
/// use flott::prelude::*;
///
/// fn squares(env: &Environment, _args: Args) -> Result<()> {
///     env.sequence(1..=10).map(|n| n * n).print();
///     Ok(())
/// }
///
/// fn words(env: &Environment, args: Args) -> Result<()> {
///     let path = args.get(0).ok_or("which file?")?;
///     env.read_text_file(path)
///         .flat_map(|line: String, out| {
///             out.collect_all(line.split_whitespace().map(str::to_owned))
///         })
///         .key_by(|word| word)
///         .at_end()
///         .count()
///         .collect();
///     Ok(())
/// }
///
/// fn main() -> std::process::ExitCode {
///     flott::run(ProgramEntry::new().job("squares", squares).job("words", words))
/// }
/// ```
pub fn run(program: ProgramEntry) -> ExitCode {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::Relaxed) {
        // Nobody else can say it: the process's role is over, or runs beside.
        let why = b"error: a program calls flott::run once; register several jobs with ProgramEntry::job\n";
        let _ = std::io::stderr().write_all(why);
        return ExitCode::from(USAGE);
    }
    streaming::program_note::mark();
    deploy::program_main(program)
}
