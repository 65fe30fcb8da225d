//! Divides the memory of a process into its parts.
//!
//! ```text
//! taskmanager.memory.process.size
//! ├── taskmanager.memory.flink.size
//! │   ├── framework   the runtime itself
//! │   ├── task        user code, all slots (derived parts leave the rest to it)
//! │   ├── network     exchange buffers
//! │   └── managed     state backends, sorting operators
//! └── overhead        stacks, fragmentation, executables
//! ```
//!
//! It is derived from whichever is set: task and managed, or flink.size, or process.size. Pure
//! arithmetic: parts add up to the total exactly, or there is an error that names the options.
//! Nothing here may look at the machine; what is known of it is given.

mod job_manager;
mod least;
mod share;
mod task_manager;

pub use job_manager::job_manager_memory;
pub use task_manager::{task_manager_memory, task_manager_memory_for, worker_resource_spec};

use crate::OptionValue;
use model::MemorySize;
use std::{fmt, num::NonZeroU32};
use thiserror::Error;

/// The facts about a machine, or about a container that is to be requested, that a TaskManager's memory and slots depend on. The process's
/// entry point finds them out; this crate only reads them, in [`worker_resource_spec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Number of processor cores that the process may use: the number of slots where `taskmanager.numberOfTaskSlots` is `auto`. For a YARN
    /// container that is yet to be requested, the JobManager gives `yarn.containers.vcores`, or 1 if that is not set.
    pub cores: NonZeroU32,
    /// Memory limit of the container in bytes: the process's memory if `taskmanager.memory.process.size` is not set and does not follow
    /// from other options, and the most that it may be set to. `None` on plain hosts, and for a container that is yet to be requested.
    pub memory_limit: Option<MemorySize>,
}

/// The parts of the memory of a TaskManager and its program hosts (the processes that run jobs' code) together, in bytes: for the runtime,
/// user code, network buffers, managed state, and overhead; `total` is their sum. Made by [`task_manager_memory`] and
/// [`task_manager_memory_for`]: a plan by the options, not a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskManagerMemory {
    /// Memory of the runtime itself, in bytes.
    pub framework: MemorySize,
    /// Memory of user code in bytes, all slots together.
    pub task: MemorySize,
    /// Memory for the buffers of the exchange of records, in bytes, all slots together.
    pub network: MemorySize,
    /// Managed memory in bytes, all slots together: tables of operators' state up to it do not count as memory of user code.
    pub managed: MemorySize,
    /// Memory for stacks, the allocator's fragmentation and the executables themselves, in bytes; belongs to no slot.
    pub overhead: MemorySize,
}

impl TaskManagerMemory {
    /// Returns the sum of all parts in bytes: the memory of the TaskManager's process and its program hosts together.
    /// On YARN a container of at least this size is requested.
    pub fn total(&self) -> MemorySize {
        self.without_overhead() + self.overhead
    }
    fn without_overhead(&self) -> MemorySize {
        self.framework + self.task + self.network + self.managed
    }
}

impl fmt::Display for TaskManagerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (framework {}, task {}, network {}, managed {}, overhead {})",
            self.total(),
            self.framework,
            self.task,
            self.network,
            self.managed,
            self.overhead
        )
    }
}

/// The parts of the memory of a JobManager and its program hosts (the processes that run jobs' code) together, in bytes: for the runtime,
/// the jobs' graphs and checkpoints, and overhead; `total` is their sum. Made by [`job_manager_memory`]: a plan by the options, not a
/// measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobManagerMemory {
    /// Memory of the runtime itself, in bytes.
    pub framework: MemorySize,
    /// Memory for job graphs, execution graphs, checkpoints' metadata and coordinators, in bytes.
    pub jobs: MemorySize,
    /// Memory for stacks, the allocator's fragmentation and the executables themselves, in bytes.
    pub overhead: MemorySize,
}

impl JobManagerMemory {
    /// Returns the sum of all parts in bytes: the memory of the JobManager's process and its program hosts together.
    /// On YARN a container of at least this size is requested.
    pub fn total(&self) -> MemorySize {
        self.framework + self.jobs + self.overhead
    }
}

impl fmt::Display for JobManagerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (framework, jobs, overhead) = (self.framework, self.jobs, self.overhead);
        let total = self.total();
        write!(f, "{total} (framework {framework}, jobs {jobs}, overhead {overhead})")
    }
}

/// The reason why the memory of a JobManager or TaskManager cannot be divided into its parts, as the functions of this module return it: a
/// total is too small for its parts or leaves a part more than its maximum, amounts contradict each other, are above 1 PiB or above the
/// container's limit. Only options lead to it; no such process is started then. The text names the options to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// A total (the configured one, or where none is set the container's limit or the default) is smaller than the sum of the parts that
    /// must fit into it, of which some have a minimum: the overhead, network memory, and 1 MiB of memory for user code or jobs.
    #[error("{option} of {given} is too little for {parts}{}", advice(least))]
    TooLittle {
        /// Key of the option of the total, `….memory.process.size` or `….memory.flink.size`.
        option: &'static str,
        /// Amount of the total: as set, or where it is not set the container's limit or the default.
        given: MemorySize,
        /// The parts that must fit, for users: each with its option or name and its amount. If `least` is not empty, the amounts are those
        /// that the parts would have with it, followed by their sum.
        parts: String,
        /// The smallest amounts that suffice: of `option`, and of the process's total too if it has to grow as well.
        /// Empty if no amount of `option` suffices.
        least: Vec<(&'static str, MemorySize)>,
    },
    /// The total (as set, the container's limit or the default) and the other parts leave more for network memory or overhead than that
    /// part's configured maximum. (If they leave less than its minimum, the error is `TooLittle`.)
    #[error(
        "{settings} leave {rest} for {part}, which is not within {part}.min ({min}) and {part}.max ({max})"
    )]
    OutOfRange {
        /// The settings that leave `rest`, for users.
        settings: String,
        /// Amount that the settings leave for the part.
        rest: MemorySize,
        /// Prefix of the part's options, such as `taskmanager.memory.network`.
        part: &'static str,
        /// Smallest amount allowed, the option `….min`.
        min: MemorySize,
        /// Largest amount allowed, the option `….max`.
        max: MemorySize,
    },
    /// The configured minimum of a part (options `….min` and `….max`) is above its maximum; parts with such options are the overhead and a
    /// TaskManager's network memory.
    #[error("{part}.min ({min}) is above {part}.max ({max})")]
    EmptyRange {
        /// Prefix of both options, such as `taskmanager.memory.network`.
        part: &'static str,
        /// Configured minimum of the part, which is the larger amount.
        min: MemorySize,
        /// Configured maximum of the part, which is the smaller amount.
        max: MemorySize,
    },
    /// An option sets an amount of more than 1 PiB, which no machine has. The maximum of network memory is not checked, but counts as
    /// 1 PiB at most.
    #[error("{option} of {given} is more than {AMOUNT_MAX}")]
    TooMuch {
        /// Key of the option whose amount is too large.
        option: &'static str,
        /// Amount that is configured.
        given: MemorySize,
    },
    /// The option `….memory.process.size` is set to more than the memory limit (cgroup) of the container that the process runs in. A total
    /// that follows from other options is not compared with the limit, and without a limit this does not occur.
    #[error("{option} of {given} is more than the container's limit of {limit}")]
    AboveLimit {
        /// Key of the option that sets the total, `….memory.process.size`.
        option: &'static str,
        /// Amount that is set for `option`.
        given: MemorySize,
        /// Memory limit of the container.
        limit: MemorySize,
    },
    /// An amount is set by one option for the whole and by others for its parts, and the parts add up to another amount: an amount and
    /// its two parts under Flink's names, or a JobManager's `flink.size` and its framework and jobs memory.
    #[error("{option} is {whole}, but {parts} are {sum} together; set one or the other")]
    Contradiction {
        /// Key of the option that sets the amount in whole.
        option: &'static str,
        /// Amount that is set in whole.
        whole: MemorySize,
        /// Names of the parts, for users; mostly their options' keys.
        parts: String,
        /// Sum of the parts.
        sum: MemorySize,
    },
}

/// The end of a message: the amounts to set instead.
fn advice(least: &[(&'static str, MemorySize)]) -> String {
    // The amount in the form in which it can be set, also if it is not a round one.
    let exact = |size: &MemorySize| OptionValue::show(size).unwrap_or_default();
    match least {
        [] => "; a larger one will not do either: lower these".to_owned(),
        [(_, least)] => format!("; set it to at least {}, or lower these", exact(least)),
        [(_, least), others @ ..] => {
            let also = |(key, size): &(&str, MemorySize)| format!(" and {key} to {}", exact(size));
            let also: String = others.iter().map(also).collect();
            format!("; set it to {}{also}, or lower these", exact(least))
        }
    }
}

/// 1 PiB: sums of a few of these are far from overflow.
const AMOUNT_MAX: MemorySize = MemorySize(1 << 50);
/// User code gets at least this where its memory is the rest.
const REST_MIN: MemorySize = MemorySize::from_mib(1);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
