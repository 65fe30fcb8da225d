//! Renders TaskManagers and their resources as Flink's JSON.

use crate::messages::{
    HardwareInfo, MemoryConfiguration, ResourceInfo, SlotInfo, TaskManagerInfo, TaskManagerMetrics,
};
use gateways::resource_manager::TaskManagerSummary;
use model::{MemorySize, ResourceProfile};
use std::collections::BTreeMap;

/// Renders one TaskManager of `GET /taskmanagers`. `now_ms` is the present time in Unix milliseconds, from which the time of the last
/// heartbeat is computed. `allocated_slots` and `metrics` stay `None`: they are for [`task_manager_details`].
pub fn task_manager(summary: &TaskManagerSummary, now_ms: u64) -> TaskManagerInfo {
    let (spec, facts) = (&summary.spec, &summary.facts);
    let total = ResourceProfile {
        cpu_millis: spec.cpu_millis,
        task: spec.task,
        managed: spec.managed,
        network: spec.network,
        extended: spec.extended.clone(),
    };
    let used: Vec<&ResourceProfile> = summary.allocated.iter().map(|(_, p)| p).collect();
    TaskManagerInfo {
        id: summary.resource_id.to_string(),
        path: summary.address.to_string(),
        host: summary.host.clone(),
        pid: summary.pid,
        data_port: facts.data_port.map_or(-1, i32::from),
        jmx_port: -1,
        time_since_last_heartbeat: now_ms.saturating_sub(summary.last_heartbeat_age_ms),
        slots_number: spec.slots,
        free_slots: summary.free_slots,
        free_resource: resource(&left_over(&total, &used)),
        total_resource: resource(&total),
        hardware: HardwareInfo {
            cpu_cores: facts.cpu_cores,
            physical_memory: facts.physical_memory.0,
            free_memory: facts.framework.0.saturating_add(spec.task.0),
            managed_memory: spec.managed.0,
        },
        memory_configuration: MemoryConfiguration {
            framework_heap: facts.framework.0,
            task_heap: spec.task.0,
            network_memory: spec.network.0,
            managed_memory: spec.managed.0,
            jvm_overhead: facts.overhead.0,
            total_flink_memory: summary.process_memory.0.saturating_sub(facts.overhead.0),
            total_process_memory: summary.process_memory.0,
            ..MemoryConfiguration::default()
        },
        blocked: summary.blocked,
        allocated_slots: None,
        metrics: None,
    }
}

/// Renders the answer to `GET /taskmanagers/:id`: [`task_manager`] with the slots in use and the memory. `memory_used` is
/// that of the TaskManager and its program hosts in bytes; `None`, shown as 0, if the TaskManager did not answer. `now_ms`
/// is the present time in Unix milliseconds.
pub fn task_manager_details(
    summary: &TaskManagerSummary,
    memory_used: Option<u64>,
    now_ms: u64,
) -> TaskManagerInfo {
    let slots = summary
        .allocated
        .iter()
        .map(|(job, profile)| SlotInfo { job_id: job.to_string(), resource: resource(profile) })
        .collect();
    let used = memory_used.unwrap_or(0);
    let metrics = TaskManagerMetrics {
        heap_used: used,
        heap_committed: used,
        heap_max: summary.process_memory.0,
        netty_shuffle_memory_total: summary.spec.network.0,
        ..TaskManagerMetrics::default()
    };
    TaskManagerInfo {
        allocated_slots: Some(slots),
        metrics: Some(metrics),
        ..task_manager(summary, now_ms)
    }
}

fn left_over(total: &ResourceProfile, used: &[&ResourceProfile]) -> ResourceProfile {
    let minus = |whole: MemorySize, part: fn(&ResourceProfile) -> MemorySize| {
        let sum: MemorySize = used.iter().map(|p| part(p)).sum();
        whole.checked_sub(sum).unwrap_or_default()
    };
    let extended = total
        .extended
        .iter()
        .map(|(name, n)| {
            let taken: u64 = used.iter().filter_map(|p| p.extended.get(name)).sum();
            (name.clone(), n.saturating_sub(taken))
        })
        .collect();
    ResourceProfile {
        cpu_millis: total.cpu_millis.saturating_sub(used.iter().map(|p| p.cpu_millis).sum()),
        task: minus(total.task, |p| p.task),
        managed: minus(total.managed, |p| p.managed),
        network: minus(total.network, |p| p.network),
        extended,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "thousandths of a core and counts of devices are far below 2^52"
)]
fn resource(profile: &ResourceProfile) -> ResourceInfo {
    let extended_resources: BTreeMap<String, f64> =
        profile.extended.iter().map(|(name, n)| (name.clone(), *n as f64)).collect();
    ResourceInfo {
        cpu_cores: profile.cpu_millis as f64 / 1000.0,
        task_heap_memory: profile.task.mib(),
        task_off_heap_memory: 0,
        managed_memory: profile.managed.mib(),
        network_memory: profile.network.mib(),
        extended_resources,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateways::{EndpointAddress, NodeAddress};
    use model::{
        Epoch, JobId, LeaderSession, ProcessSession, ResourceId, TaskManagerFacts,
        WorkerResourceSpec,
    };
    use serde_json::{Value, json};

    fn summary() -> TaskManagerSummary {
        TaskManagerSummary {
            resource_id: ResourceId::new("tm-1"),
            address: EndpointAddress::new(NodeAddress::new("h:6122"), "task_executor"),
            session: ProcessSession(LeaderSession {
                epoch: Epoch { store: 1, process: 1 },
                nonce: 1,
            }),
            host: "h".to_owned(),
            pid: 7,
            spec: WorkerResourceSpec {
                cpu_millis: 2_000,
                task: MemorySize(500),
                network: MemorySize(100),
                managed: MemorySize(300),
                slots: 2,
                extended: BTreeMap::new(),
            },
            process_memory: MemorySize(1_100),
            facts: TaskManagerFacts {
                cpu_cores: 4,
                physical_memory: MemorySize(9_000),
                framework: MemorySize(120),
                overhead: MemorySize(80),
                data_port: Some(7001),
                log_page: None,
            },
            free_slots: 1,
            allocated: vec![(JobId(5), ResourceProfile::default())],
            last_heartbeat_age_ms: 10,
            blocked: false,
        }
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().map(|map| map.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    #[test]
    fn a_task_manager_has_every_field_of_flinks() {
        let shown = serde_json::to_value(task_manager(&summary(), 1_000)).unwrap();
        let fields = [
            "id",
            "path",
            "dataPort",
            "jmxPort",
            "timeSinceLastHeartbeat",
            "slotsNumber",
            "freeSlots",
            "totalResource",
            "freeResource",
            "hardware",
            "memoryConfiguration",
        ];
        for field in fields {
            assert!(shown.get(field).is_some(), "{field}");
        }
        assert!(shown.get("metrics").is_none() && shown.get("allocatedSlots").is_none());
        assert_eq!((&shown["dataPort"], &shown["jmxPort"]), (&json!(7001), &json!(-1)));
        assert_eq!(
            shown["hardware"],
            json!({
                "cpuCores": 4, "physicalMemory": 9_000, "freeMemory": 620, "managedMemory": 300
            })
        );
        assert_eq!(
            shown["memoryConfiguration"],
            json!({
                "frameworkHeap": 120, "taskHeap": 500, "frameworkOffHeap": 0, "taskOffHeap": 0,
                "networkMemory": 100, "managedMemory": 300, "jvmMetaspace": 0, "jvmOverhead": 80,
                "totalFlinkMemory": 1_020, "totalProcessMemory": 1_100
            })
        );
    }

    #[test]
    fn details_add_slots_and_metrics() {
        let shown = serde_json::to_value(task_manager_details(&summary(), Some(42), 0)).unwrap();
        assert_eq!(shown["allocatedSlots"].as_array().map(Vec::len), Some(1));
        let metrics = &shown["metrics"];
        assert_eq!(keys(metrics).len(), 19);
        assert_eq!((&metrics["heapUsed"], &metrics["heapMax"]), (&json!(42), &json!(1_100)));
        assert_eq!(metrics["nettyShuffleMemoryTotal"], json!(100));
        assert_eq!(metrics["garbageCollectors"], json!([]));
        let unknown = task_manager_details(&summary(), None, 0);
        assert_eq!(unknown.metrics.unwrap().heap_used, 0);
    }

    #[test]
    fn without_a_fixed_data_port_there_is_none_to_show() {
        let mut drawn = summary();
        drawn.facts.data_port = None;
        assert_eq!(task_manager(&drawn, 0).data_port, -1);
    }
}
