//! The memory of a TaskManager.

use super::{
    AMOUNT_MAX, Machine, MemoryError, REST_MIN, TaskManagerMemory,
    least::{Least, first, least},
    share::{OverheadOptions, Share, Whole, explicit_process, size, times, whole_or_parts},
};
use crate::{Options, taskmanager, taskmanager_memory as tm};
use model::{MemorySize, WorkerResourceSpec};

static TM_OVERHEAD: OverheadOptions = OverheadOptions {
    part: "taskmanager.memory.overhead",
    min: &tm::OVERHEAD_MIN,
    max: &tm::OVERHEAD_MAX,
    fraction: &tm::OVERHEAD_FRACTION,
};
/// Divides the memory of a TaskManager with these options into its parts; called by a TaskManager when it starts, and by a client before it
/// deploys one. `limit` is the memory limit of its container in bytes (`None` on plain hosts): it stands for the process's memory where
/// that is neither set nor follows from its parts, and `taskmanager.memory.process.size` must not be set above it. Looks at nothing on the
/// machine itself.
///
/// # Errors
/// Returns `MemoryError` if an amount is above 1 PiB, the parts do not fit into their total or bounds or contradict each other, or
/// `taskmanager.memory.process.size` is above `limit`.
pub fn task_manager_memory(
    options: &Options,
    limit: Option<MemorySize>,
) -> Result<TaskManagerMemory, MemoryError> {
    derive(options, limit).map_err(|error| least(options, error, &TASK_MANAGER))
}

static TASK_MANAGER: Least<TaskManagerMemory> = Least {
    process: &tm::PROCESS_SIZE,
    flink: &tm::FLINK_SIZE,
    derive: |options| derive(options, None),
    total: TaskManagerMemory::total,
    overhead: |memory| (TM_OVERHEAD.part, memory.overhead),
    parts: |memory| {
        vec![
            (tm::FRAMEWORK_SIZE.key(), memory.framework),
            (tm::TASK_SIZE.key(), memory.task),
            ("taskmanager.memory.network", memory.network),
            ("taskmanager.memory.managed", memory.managed),
        ]
    },
    peak,
};

/// The total up to which more memory leaves more to the tasks: network memory is at its minimum. Beyond it,
/// fractions may take more than all that comes.
fn peak(options: &Options, option: &str) -> Option<MemorySize> {
    let network = Share::network(options).ok().filter(|share| share.fraction > 0.0)?;
    let total = MemorySize((network.min.0 as f64 / network.fraction).ceil() as u64);
    if option == tm::FLINK_SIZE.key() {
        return Some(total);
    }
    let overhead = Share::overhead(&TM_OVERHEAD, options).ok()?;
    let without = |whole: MemorySize| whole.checked_sub(overhead.of(whole)).unwrap_or_default();
    Some(first(MemorySize(0), AMOUNT_MAX, |whole| without(whole) >= total))
}

fn derive(options: &Options, limit: Option<MemorySize>) -> Result<TaskManagerMemory, MemoryError> {
    let overhead = Share::overhead(&TM_OVERHEAD, options)?;
    let framework = task_manager_framework(options)?;
    let total = size(options, &tm::FLINK_SIZE)?;
    let process = explicit_process(options, &tm::PROCESS_SIZE, limit)?;
    let (task, managed) = (explicit_task(options)?, size(options, &tm::MANAGED_SIZE)?);

    let parts = match (task, managed, total) {
        (Some(task), Some(managed), _) => from_parts(options, framework, task, managed, total)?,
        (_, _, Some(total)) => {
            split(options, framework, Whole(tm::FLINK_SIZE.key(), total), total)?
        }
        (_, _, None) => {
            let default = || options.get(&tm::PROCESS_SIZE).unwrap_or(AMOUNT_MAX);
            let whole = process.or(limit).unwrap_or_else(default);
            let overhead = overhead.of(whole);
            let name = Whole(tm::PROCESS_SIZE.key(), whole);
            let total = whole.checked_sub(overhead).unwrap_or_default();
            let parts = split(options, framework, name, total)?;
            return Ok(TaskManagerMemory { overhead, ..parts });
        }
    };
    let overhead = overhead.beside(parts.without_overhead(), process, tm::PROCESS_SIZE.key())?;
    Ok(TaskManagerMemory { overhead, ..parts })
}

/// Returns the resources that a TaskManager with these options offers to the ResourceManager: its memory parts without framework and
/// overhead, its slots, its cores in thousandths (as many cores as slots unless `taskmanager.cpu.cores` is set), and its external
/// resources.
///
/// # Errors
/// Returns `MemoryError` if an amount of memory is above 1 PiB, the parts of the memory do not fit into their total or bounds or contradict
/// each other, or `taskmanager.memory.process.size` is above the machine's memory limit.
pub fn worker_resource_spec(
    options: &Options,
    machine: &Machine,
) -> Result<WorkerResourceSpec, MemoryError> {
    let memory = task_manager_memory(options, machine.memory_limit)?;
    let slots = options.get(&taskmanager::SLOTS).on(machine.cores).get();
    let cores = options.get(&taskmanager::CPU_CORES);
    let cores = cores.unwrap_or_else(|| f64::from(slots));
    Ok(WorkerResourceSpec {
        cpu_millis: (cores * 1000.0).round() as u64,
        task: memory.task,
        network: memory.network,
        managed: memory.managed,
        slots,
        extended: options.get_family(&taskmanager::EXTERNAL_RESOURCE_AMOUNT),
    })
}

/// Returns the parts of the memory of a TaskManager that is to offer exactly `spec`; the ResourceManager calls this for each TaskManager
/// that it requests. Task, network and managed memory are those of `spec`, framework memory and overhead follow from the options. The
/// overhead is what `spec` and framework leave of `taskmanager.memory.process.size`, if that is the overhead of a process of that size;
/// otherwise the overhead that goes with the other parts, so that the total may differ from the configured one.
///
/// # Errors
/// Returns `MemoryError` if the minimum of the overhead is above its maximum, or the options about framework memory contradict each other,
/// or one of these amounts is above 1 PiB.
pub fn task_manager_memory_for(
    options: &Options,
    spec: &WorkerResourceSpec,
) -> Result<TaskManagerMemory, MemoryError> {
    let overhead = Share::overhead(&TM_OVERHEAD, options)?;
    let parts = TaskManagerMemory {
        framework: task_manager_framework(options)?,
        task: spec.task,
        network: spec.network,
        managed: spec.managed,
        overhead: MemorySize(0),
    };
    let without = parts.without_overhead();
    // A worker of the configured kind gets exactly the configured process; any other the overhead
    // that goes with its size.
    let configured = options.get(&tm::PROCESS_SIZE);
    let rest = configured.and_then(|process| process.checked_sub(without));
    let overhead = match rest {
        Some(rest) if overhead.contains(rest) && overhead.of(without + rest) == rest => rest,
        _ => overhead.on_top_of(without),
    };
    Ok(TaskManagerMemory { overhead, ..parts })
}

/// Task and managed memory are given; the network's follows.
fn from_parts(
    options: &Options,
    framework: MemorySize,
    task: MemorySize,
    managed: MemorySize,
    total: Option<MemorySize>,
) -> Result<TaskManagerMemory, MemoryError> {
    let share = Share::network(options)?;
    let fixed = framework + task + managed;
    let network = match total {
        None => share.on_top_of(fixed),
        Some(total) => {
            let whole = Whole(tm::FLINK_SIZE.key(), total);
            let parts = [
                (tm::FRAMEWORK_SIZE.key(), framework),
                (tm::TASK_SIZE.key(), task),
                (tm::MANAGED_SIZE.key(), managed),
            ];
            share.rest(whole, total, &parts)?
        }
    };
    let overhead = MemorySize(0);
    Ok(TaskManagerMemory { framework, task, network, managed, overhead })
}

/// Splits `total` (what `whole` leaves without overhead): at most one of task and managed is given.
fn split(
    options: &Options,
    framework: MemorySize,
    whole: Whole,
    total: MemorySize,
) -> Result<TaskManagerMemory, MemoryError> {
    let share = Share::network(options)?;
    let by_fraction = || times(total, options.get(&tm::MANAGED_FRACTION));
    let managed = size(options, &tm::MANAGED_SIZE)?.unwrap_or_else(by_fraction);
    let mut parts = vec![
        ("overhead", MemorySize(whole.1.0.saturating_sub(total.0))),
        (tm::FRAMEWORK_SIZE.key(), framework),
        ("managed memory", managed),
    ];
    let (task, network) = match explicit_task(options)? {
        Some(task) => {
            parts.push((tm::TASK_SIZE.key(), task));
            (task, share.rest(whole, whole.1, &parts)?)
        }
        None => {
            let network = share.of(total);
            parts.push(("network memory", network));
            let rest = whole.rest(whole.1, &parts)?;
            if rest < REST_MIN {
                parts.push(("task memory at least", REST_MIN));
                return Err(whole.too_little(&parts));
            }
            (rest, network)
        }
    };
    let overhead = MemorySize(0);
    Ok(TaskManagerMemory { framework, task, network, managed, overhead })
}

fn task_manager_framework(options: &Options) -> Result<MemorySize, MemoryError> {
    let parts = [&tm::FRAMEWORK_HEAP_SIZE, &tm::FRAMEWORK_OFF_HEAP_SIZE];
    let set = whole_or_parts(options, &tm::FRAMEWORK_SIZE, &parts)?;
    Ok(set.or(options.get(&tm::FRAMEWORK_SIZE)).unwrap_or_default())
}

fn explicit_task(options: &Options) -> Result<Option<MemorySize>, MemoryError> {
    let parts = [&tm::TASK_HEAP_SIZE, &tm::TASK_OFF_HEAP_SIZE];
    whole_or_parts(options, &tm::TASK_SIZE, &parts)
}
