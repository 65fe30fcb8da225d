//! Bodies about TaskManagers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /taskmanagers`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskManagers {
    /// By id.
    pub taskmanagers: Vec<TaskManagerInfo>,
}

/// One TaskManager; `GET /taskmanagers/:id` adds `allocatedSlots` and `metrics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerInfo {
    /// Resource id.
    pub id: String,
    /// Address of its TaskExecutor.
    pub path: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Its data port; -1 where each of its program hosts draws its own.
    pub data_port: i32,
    /// -1: there is no JMX here.
    pub jmx_port: i32,
    /// Unix milliseconds of its last heartbeat.
    pub time_since_last_heartbeat: u64,
    /// All slots.
    pub slots_number: u32,
    /// Free slots.
    pub free_slots: u32,
    /// What it is made of.
    pub total_resource: ResourceInfo,
    /// What is not allocated.
    pub free_resource: ResourceInfo,
    /// Its machine.
    pub hardware: HardwareInfo,
    /// Memory by part, bytes.
    pub memory_configuration: MemoryConfiguration,
    /// Whether its node takes no new slots for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// Slots in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_slots: Option<Vec<SlotInfo>>,
    /// Memory in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<TaskManagerMetrics>,
}

/// The machine of a TaskManager; memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareInfo {
    /// Cores that the process may use.
    pub cpu_cores: u32,
    /// Of the machine.
    pub physical_memory: u64,
    /// What Flink shows here, the most that its heap may take: the memory of runtime and user code.
    pub free_memory: u64,
    /// Managed memory.
    pub managed_memory: u64,
}

/// Memory in use, bytes. What only a JVM has is 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerMetrics {
    /// In use by the process and its program hosts.
    pub heap_used: u64,
    /// The same.
    pub heap_committed: u64,
    /// `taskmanager.memory.process.size`.
    pub heap_max: u64,
    /// 0.
    pub non_heap_used: u64,
    /// 0.
    pub non_heap_committed: u64,
    /// 0.
    pub non_heap_max: u64,
    /// 0.
    pub direct_count: u64,
    /// 0.
    pub direct_used: u64,
    /// 0.
    pub direct_max: u64,
    /// 0.
    pub mapped_count: u64,
    /// 0.
    pub mapped_used: u64,
    /// 0.
    pub mapped_max: u64,
    /// 0: exchange memory is not cut into segments.
    pub memory_segments_available: u64,
    /// 0.
    pub memory_segments_total: u64,
    /// 0.
    pub netty_shuffle_memory_segments_available: u64,
    /// 0.
    pub netty_shuffle_memory_segments_used: u64,
    /// 0.
    pub netty_shuffle_memory_segments_total: u64,
    /// Exchange memory; the part in use is not known, so Flink's two fields about it are left out.
    pub netty_shuffle_memory_total: u64,
    /// Empty: nothing is collected here.
    pub garbage_collectors: Vec<GarbageCollectorInfo>,
}

/// A garbage collector of Flink's; there is none here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GarbageCollectorInfo {
    /// Name.
    pub name: String,
    /// Collections.
    pub count: u64,
    /// Their milliseconds.
    pub time: u64,
}

/// Amounts of a slot or of a whole TaskManager; memory in MiB, as Flink shows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInfo {
    /// Cores.
    pub cpu_cores: f64,
    /// User code's memory.
    pub task_heap_memory: u64,
    /// 0: there is one amount for user code here.
    pub task_off_heap_memory: u64,
    /// Managed memory.
    pub managed_memory: u64,
    /// Exchange memory.
    pub network_memory: u64,
    /// Anything else by name.
    pub extended_resources: BTreeMap<String, f64>,
}

/// Memory of a TaskManager's processes, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryConfiguration {
    /// The runtime itself.
    pub framework_heap: u64,
    /// User code.
    pub task_heap: u64,
    /// 0: there is one amount for the runtime here.
    pub framework_off_heap: u64,
    /// 0: there is one amount for user code here.
    pub task_off_heap: u64,
    /// Exchange.
    pub network_memory: u64,
    /// State and operators.
    pub managed_memory: u64,
    /// 0: there is no JVM.
    pub jvm_metaspace: u64,
    /// Stacks, fragmentation, executables.
    pub jvm_overhead: u64,
    /// Everything but the overhead.
    pub total_flink_memory: u64,
    /// `taskmanager.memory.process.size`.
    pub total_process_memory: u64,
}

/// One slot in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotInfo {
    /// Whose.
    pub job_id: String,
    /// What it has.
    pub resource: ResourceInfo,
}
