//! Options of a TaskManager's memory; `crate::memory` says how they work together.

use crate::declare::options;
use model::MemorySize;

options! {
    /// All memory of the TaskManager and its program hosts together: the one number to set. It is split into framework,
    /// task, network, managed and overhead. Where it is not set, it is the memory limit of the container (control group)
    /// that the TaskManager runs in, if that is below 1728m or if the TaskManager is alone in the container; otherwise
    /// 1728m. More than the container's limit is refused. If all together use more, the largest program host is ended with
    /// `used X of Y (taskmanager.memory.process.size)`, and its job fails over.
    PROCESS_SIZE: Option<MemorySize> = "taskmanager.memory.process.size" => Some(MemorySize::from_mib(1728));
    /// The process' memory without the overhead; for setting instead of `taskmanager.memory.process.size`.
    FLINK_SIZE: Option<MemorySize> = "taskmanager.memory.flink.size" => None;
    /// Memory of the runtime itself: RPC, blob cache, task threads.
    FRAMEWORK_SIZE: Option<MemorySize> = "taskmanager.memory.framework.size" => Some(MemorySize::from_mib(128));
    /// A part of `taskmanager.memory.framework.size`, under Flink's name; the two parts are added.
    FRAMEWORK_HEAP_SIZE: Option<MemorySize> = "taskmanager.memory.framework.heap.size" => None;
    /// A part of `taskmanager.memory.framework.size`, under Flink's name; the two parts are added.
    FRAMEWORK_OFF_HEAP_SIZE: Option<MemorySize> = "taskmanager.memory.framework.off-heap.size" => None;
    /// Memory of user code, all slots together; the rest of the process where it is not set. A job may use the part
    /// of its slots on the TaskManager. What its tasks allocate counts, except records on their way between tasks
    /// (network memory), tables of state as far as they fit into managed memory, and 16m of the job's process that no
    /// task holds. Beyond the limit the task that holds most fails with `used X of Y (taskmanager.memory.task.size)`,
    /// and the job's restart strategy decides. If the task does not return from its code within a second, or the
    /// limit is exceeded by an eighth (at least 32m) meanwhile, the job's process ends on this TaskManager with the
    /// same message. Other jobs go on. A program that is started by hand, without a cluster, is not limited.
    TASK_SIZE: Option<MemorySize> = "taskmanager.memory.task.size" => None;
    /// A part of `taskmanager.memory.task.size`, under Flink's name; the two parts are added.
    TASK_HEAP_SIZE: Option<MemorySize> = "taskmanager.memory.task.heap.size" => None;
    /// A part of `taskmanager.memory.task.size`, under Flink's name; the two parts are added.
    TASK_OFF_HEAP_SIZE: Option<MemorySize> = "taskmanager.memory.task.off-heap.size" => None;
    /// The least memory of exchange buffers.
    NETWORK_MIN: MemorySize = "taskmanager.memory.network.min" => MemorySize::from_mib(64),
        other ["taskmanager.network.memory.min"];
    /// The most memory of exchange buffers; no bound where it is not set.
    NETWORK_MAX: Option<MemorySize> = "taskmanager.memory.network.max" => None,
        other ["taskmanager.network.memory.max"];
    /// Memory of exchange buffers as a fraction of the memory without overhead.
    NETWORK_FRACTION: f64 = "taskmanager.memory.network.fraction" => 0.1,
        other ["taskmanager.network.memory.fraction"], must be_a_fraction;
    /// Memory of state backends and sorting operators, all slots together; by the fraction where it is not set. Tables of
    /// state that are larger count as memory of user code.
    MANAGED_SIZE: Option<MemorySize> = "taskmanager.memory.managed.size" => None,
        other ["taskmanager.memory.size"];
    /// Managed memory as a fraction of the memory without overhead.
    MANAGED_FRACTION: f64 = "taskmanager.memory.managed.fraction" => 0.4, must be_a_fraction;
    /// The least overhead: stacks, allocator fragmentation, the executables themselves.
    OVERHEAD_MIN: MemorySize = "taskmanager.memory.overhead.min" => MemorySize::from_mib(64),
        other ["taskmanager.memory.jvm-overhead.min"];
    /// Upper bound of the overhead.
    OVERHEAD_MAX: MemorySize = "taskmanager.memory.overhead.max" => MemorySize::from_mib(1024),
        other ["taskmanager.memory.jvm-overhead.max"];
    /// The overhead as a fraction of the process' memory.
    OVERHEAD_FRACTION: f64 = "taskmanager.memory.overhead.fraction" => 0.1,
        other ["taskmanager.memory.jvm-overhead.fraction"], must be_a_fraction;
}
