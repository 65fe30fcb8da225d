//! TaskManagers and what they are made of.

use crate::messages::{MemoryConfiguration, ResourceInfo, SlotInfo, TaskManagerInfo};
use gateways::resource_manager::TaskManagerSummary;
use model::{MemorySize, ResourceProfile};
use std::collections::BTreeMap;

/// One line of `GET /taskmanagers`, as of `now_ms`.
pub fn task_manager(summary: &TaskManagerSummary, now_ms: u64) -> TaskManagerInfo {
    let spec = &summary.spec;
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
        time_since_last_heartbeat: now_ms.saturating_sub(summary.last_heartbeat_age_ms),
        slots_number: spec.slots,
        free_slots: summary.free_slots,
        free_resource: resource(&left_over(&total, &used)),
        total_resource: resource(&total),
        memory_configuration: MemoryConfiguration {
            task_heap: spec.task.0,
            network_memory: spec.network.0,
            managed_memory: spec.managed.0,
            total_process_memory: summary.process_memory.0,
        },
        blocked: summary.blocked,
        allocated_slots: None,
    }
}

/// `GET /taskmanagers/:id`.
pub fn task_manager_details(summary: &TaskManagerSummary, now_ms: u64) -> TaskManagerInfo {
    let slots = summary
        .allocated
        .iter()
        .map(|(job, profile)| SlotInfo { job_id: job.to_string(), resource: resource(profile) })
        .collect();
    TaskManagerInfo { allocated_slots: Some(slots), ..task_manager(summary, now_ms) }
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
