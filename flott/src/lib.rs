//! Flott: stream processing as ordinary Rust binaries.
//!
//! A program declares a job on an [`Environment`] and is started through [`main`](macro@main). A program that is
//! started by hand runs its job in a cluster inside its own process; one that is given to `flott run` runs on a cluster
//! of many processes.
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
//! Documentation of the re-exported items is written in the crate `streaming`, which programs need not name: where an example says
//! `use streaming::sinks::FileSink`, a program says `use flott::sinks::FileSink`, and `#[flott(crate = streaming)]` is left out:
//!
//! ```
//! use flott::{
//!     Environment, ResourceProfile, Result,
//!     api::KeyedStream,
//!     time::{SourceTimestamps, WatermarkGenerator, WatermarkStrategy},
//! };
//! # let _ = |env: &Environment| env.set_slot_resources("large", ResourceProfile::default());
//! ```
//!
//! This crate re-exports the public API and starts programs; it must never hold other behaviour of its own.

pub use derive::{FlottType, main};
pub use streaming::{
    Args, Environment, MemorySize, ProgramEntry, ResourceProfile, Stream, TaskError, api, batch,
    operators, sinks, sources, state, testing, time, types,
};

use streaming::memory::allocator::Counting;

use std::{
    io::Write,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// Exit code for a wrong use of this crate or its command line (`EX_USAGE` of `sysexits.h`).
const USAGE: u8 = 64;

/// The allocator of every program. One task's thread allocates strings and batches and another one frees them; mimalloc
/// takes no lock for that, glibc's malloc does (figures in `streaming/CHAINS.md`). The bytes of each task are counted, so
/// that the one that takes too much is known.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

/// The result of a job's function and of user functions. `?` converts every error type that is `Send`, `Sync` and `'static` into its
/// error type, a boxed error.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Re-exports the types, traits and derives that most programs need: `use flott::prelude::*;`.
pub mod prelude {
    pub use crate::Result;
    pub use derive::FlottType;
    pub use streaming::api::{
        AtEnd, BroadcastConnectedStream, ConnectedStreams, KeyedBroadcastConnectedStream,
        KeyedConnectedStreams, KeyedStream, StreamSink, WindowedStream,
    };
    pub use streaming::operators::{
        AggregateFunction, BroadcastProcessFunction, CoProcessFunction, Collector, Context,
        Counter, EventTimeSessionWindows, Gauge, KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction, KeyedProcessFunction, Metrics, OperatorContext, OutputTag,
        ProcessFunction, ProcessingTimeSessionWindows, SlidingEventTimeWindows,
        SlidingProcessingTimeWindows, StatefulProcessFunction, TimeDomain, TimeWindow, Timer,
        TimerService, TumblingEventTimeWindows, TumblingProcessingTimeWindows, WindowFunction,
    };
    pub use streaming::sinks::{
        Announcement, CommitError, CommitRequest, Committer, CommittingSinkWriter, Encoder,
        FileSink, GlobalCommitter, NoCommitter, NoWriterState, RollingPolicy, Sink, SinkWriter,
        WriterContext,
    };
    pub use streaming::sources::{
        Boundedness, CollectionSource, EnumeratorWaker, FileSource, NoEnumerator, ReadProgress,
        ReaderContext, ReaderOutput, SequenceSource, SocketSource, Source, SourceReader,
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
    pub use streaming::types::{CompactString, FlottType, Key, KeyPart, Record, Serde, ToLine};
    pub use streaming::{Args, Environment, ProgramEntry, Stream};
}

/// Runs a program in the role that its process was started in and returns the exit code for `main`. The environment variable `FLOTT_ROLE`
/// names the role (program host, or the command line's JobManager or TaskManager); without it, or with a name that is no role, the program
/// builds its job with the process's arguments and runs it in an embedded cluster, with the results on standard output and errors on
/// standard error. Options come from `flott.yaml` in the folder that `FLOTT_CONF_DIR` names, and from variables that begin with `FLOTT_`.
/// Blocks until the role has ended. SIGINT or SIGTERM cancels the job of an embedded cluster, and stops a JobManager or TaskManager (as
/// SIGHUP does); a TaskManager's jobs go on elsewhere, a JobManager's only with high availability. A second signal ends the process at once
/// with exit code 2.
///
/// The exit code is 0 for success, also of a cancelled job, of help that was asked for, and of a JobManager or TaskManager that a signal
/// has stopped; 1 for a failed start (such as a build that fails), 2 for a fatal error (also if results cannot be written to standard
/// output), 3 for a failed job, 4 if the job's outcome is unknown or not all of its results could be read, and 64 for wrong arguments or
/// options. A program host kills itself with SIGKILL, and so does not return, when the process that started it has died. A second call in
/// the same process runs nothing, prints an error to standard error and returns 64.
///
/// A program with several jobs registers each of them under a name. `flott run --job NAME` selects one, and for a program that is started
/// by itself the environment variable `FLOTT_PIPELINE_ENTRY=NAME`; none selected is an error:
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
        // Written to standard error directly, because the process's log belongs to the first call.
        let why = b"error: a program calls flott::run once; register several jobs with ProgramEntry::job\n";
        let _ = std::io::stderr().write_all(why);
        return ExitCode::from(USAGE);
    }
    streaming::memory::huge_pages::start_without();
    streaming::program_note::mark();
    deploy::program_main(program)
}
