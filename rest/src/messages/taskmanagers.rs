//! Bodies about TaskManagers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /taskmanagers`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskManagers {
    /// By id.
    pub taskmanagers: Vec<TaskManagerInfo>,
}

/// One TaskManager; `GET /taskmanagers/:id` adds `allocatedSlots`.
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
    /// Memory by part, bytes.
    pub memory_configuration: MemoryConfiguration,
    /// Whether its node takes no new slots for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// Slots in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_slots: Option<Vec<SlotInfo>>,
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
    /// User code.
    pub task_heap: u64,
    /// Exchange.
    pub network_memory: u64,
    /// State and operators.
    pub managed_memory: u64,
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
