//! Bodies about TaskManagers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `GET /taskmanagers`: the TaskManagers that are registered at the leading ResourceManager now, also those that have not
/// reported their slots yet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskManagers {
    /// Registered TaskManagers, ordered by id.
    pub taskmanagers: Vec<TaskManagerInfo>,
}

/// One TaskManager in the answer to `GET /taskmanagers`: its addresses, last heartbeat, slots, resources and configured memory.
/// `GET /taskmanagers/:id` adds `allocatedSlots` and `metrics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerInfo {
    /// Resource id of the TaskManager, its name in the cluster, by which `/taskmanagers/:id` finds it.
    pub id: String,
    /// RPC address of the TaskManager's TaskExecutor, `flott://host:port/task_executor`.
    pub path: String,
    /// Host name of the node that the TaskManager runs on.
    pub host: String,
    /// Process id of the TaskManager on its machine.
    pub pid: u32,
    /// Port on which the TaskManager exchanges records; -1 if each of its program hosts (the processes that run jobs' code)
    /// draws its own.
    pub data_port: i32,
    /// Always -1: there is no JMX.
    pub jmx_port: i32,
    /// Time of the last heartbeat in Unix milliseconds (as in Flink, despite the name); of the registration if none has come yet.
    pub time_since_last_heartbeat: u64,
    /// Number of the TaskManager's slots, free or not.
    pub slots_number: u32,
    /// Number of the TaskManager's slots that are free, those of a blocked node included; 0 until it has reported its slots.
    pub free_slots: u32,
    /// Resources of the whole TaskManager; memory in MiB.
    pub total_resource: ResourceInfo,
    /// Resources of the TaskManager without those of slots that are allocated to jobs or being requested for them; memory in MiB.
    pub free_resource: ResourceInfo,
    /// Hardware of the machine the TaskManager runs on.
    pub hardware: HardwareInfo,
    /// Configured memory of the TaskManager by part, in bytes.
    pub memory_configuration: MemoryConfiguration,
    /// True if the TaskManager's node is blocked, so that it gets no new slots; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// The slots that jobs have, and those that the ResourceManager is requesting for them; free ones are not in it. Absent in the list of
    /// TaskManagers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_slots: Option<Vec<SlotInfo>>,
    /// The memory in use (0 if the TaskManager does not answer within 2 s) and its maximum; absent in the list of TaskManagers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<TaskManagerMetrics>,
}

/// The processor cores and memory of a TaskManager's machine as the TaskManager found them at its start, and two parts of its memory as
/// configured. What is free now is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareInfo {
    /// Number of processor cores that the TaskManager may use; 0: not known.
    pub cpu_cores: u32,
    /// Memory of the TaskManager's machine in bytes; 0: not known.
    pub physical_memory: u64,
    /// Configured memory of the runtime itself and of user code together, in bytes. Flink shows the largest heap here.
    pub free_memory: u64,
    /// Configured managed memory, of state backends and sorting operators, in bytes.
    pub managed_memory: u64,
}

/// Memory in use by a TaskManager, in Flink's fields, and its maximum; fields that only a JVM can fill are 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerMetrics {
    /// Anonymous memory in use by the TaskManager's process and its program hosts (the processes that run jobs' code), in bytes, without
    /// the pages of their executables; 0 if the TaskManager did not answer in time.
    pub heap_used: u64,
    /// Same value as `heap_used`.
    pub heap_committed: u64,
    /// Total memory of the TaskManager and its program hosts, in bytes, as configured (`taskmanager.memory.process.size`)
    /// or derived from its parts.
    pub heap_max: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub non_heap_used: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub non_heap_committed: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub non_heap_max: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub direct_count: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub direct_used: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub direct_max: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub mapped_count: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub mapped_used: u64,
    /// Always 0: a figure of the JVM without counterpart here.
    pub mapped_max: u64,
    /// Always 0: exchange memory is not cut into segments.
    pub memory_segments_available: u64,
    /// Always 0: exchange memory is not cut into segments.
    pub memory_segments_total: u64,
    /// Always 0: exchange buffers are not divided into Netty's segments.
    pub netty_shuffle_memory_segments_available: u64,
    /// Always 0: exchange buffers are not divided into Netty's segments.
    pub netty_shuffle_memory_segments_used: u64,
    /// Always 0: exchange buffers are not divided into Netty's segments.
    pub netty_shuffle_memory_segments_total: u64,
    /// Configured memory for the exchange of records, in bytes; the part in use is not known, so Flink's two fields about
    /// it are left out.
    pub netty_shuffle_memory_total: u64,
    /// Always empty: there is no garbage collection.
    pub garbage_collectors: Vec<GarbageCollectorInfo>,
}

/// A garbage collector in Flink's answers. No instance is ever sent, because there is none here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GarbageCollectorInfo {
    /// Name of the garbage collector; never set here.
    pub name: String,
    /// Number of collections that a garbage collector has done; never set here.
    pub count: u64,
    /// Time spent in garbage collections, in milliseconds; never set here.
    pub time: u64,
}

/// Resources of a slot or of a whole TaskManager; memory in MiB rounded down, as Flink shows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInfo {
    /// Number of processor cores, exact to a thousandth.
    pub cpu_cores: f64,
    /// Memory of user code in MiB, rounded down.
    pub task_heap_memory: u64,
    /// Always 0: there is one amount for user code here.
    pub task_off_heap_memory: u64,
    /// Managed memory, of state backends and sorting operators, in MiB, rounded down.
    pub managed_memory: u64,
    /// Memory for the buffers of the exchange of records, in MiB, rounded down.
    pub network_memory: u64,
    /// Amounts of external resources by name (`gpu`), in whole units.
    pub extended_resources: BTreeMap<String, f64>,
}

/// Configured memory of a TaskManager by part (runtime, user code, exchange, managed, overhead) and their sums, in bytes; what is in
/// use is not shown here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryConfiguration {
    /// Memory of the runtime itself, in bytes.
    pub framework_heap: u64,
    /// Memory of user code, in bytes.
    pub task_heap: u64,
    /// Always 0: there is one amount for the runtime here.
    pub framework_off_heap: u64,
    /// Always 0: there is one amount for user code here.
    pub task_off_heap: u64,
    /// Memory for the buffers of the exchange of records, in bytes.
    pub network_memory: u64,
    /// Managed memory, of state backends and sorting operators, in bytes.
    pub managed_memory: u64,
    /// Always 0: there is no JVM.
    pub jvm_metaspace: u64,
    /// Memory for stacks, the allocator's fragmentation and the executables themselves (`taskmanager.memory.overhead`), in
    /// bytes.
    pub jvm_overhead: u64,
    /// Memory of the TaskManager and its program hosts without the overhead, in bytes.
    pub total_flink_memory: u64,
    /// Total memory of the TaskManager and its program hosts, in bytes, as configured (`taskmanager.memory.process.size`)
    /// or derived from its parts.
    pub total_process_memory: u64,
}

/// A slot of a TaskManager that is allocated to a job, or is being requested for it; free slots are not listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotInfo {
    /// Id of the job that the slot is allocated to, 32 lower-case hexadecimal digits.
    pub job_id: String,
    /// Resources of the slot; memory in MiB.
    pub resource: ResourceInfo,
}
