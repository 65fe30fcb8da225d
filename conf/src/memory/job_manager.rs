//! The memory of a JobManager.

use super::{
    AMOUNT_MAX, JobManagerMemory, MemoryError, REST_MIN,
    least::{Least, least},
    share::{OverheadOptions, Share, Whole, checked, explicit_process, size, whole_or_parts},
};
use crate::{Options, jobmanager};
use model::MemorySize;

static JM_OVERHEAD: OverheadOptions = OverheadOptions {
    part: "jobmanager.memory.overhead",
    min: &jobmanager::OVERHEAD_MIN,
    max: &jobmanager::OVERHEAD_MAX,
    fraction: &jobmanager::OVERHEAD_FRACTION,
};

/// Divides the memory of a JobManager with these options into its parts. `limit` is the memory limit of its container in bytes (`None` on
/// plain hosts): it stands for the process's memory where that is neither set nor follows from its parts, and
/// `jobmanager.memory.process.size` must not be set above it. Looks at nothing on the machine itself.
///
/// # Errors
/// Returns `MemoryError` if an amount is above 1 PiB, the parts do not fit into their total or the overhead's bounds or contradict each
/// other, or `jobmanager.memory.process.size` is above `limit`.
pub fn job_manager_memory(
    options: &Options,
    limit: Option<MemorySize>,
) -> Result<JobManagerMemory, MemoryError> {
    derive(options, limit).map_err(|error| least(options, error, &JOB_MANAGER))
}

static JOB_MANAGER: Least<JobManagerMemory> = Least {
    process: &jobmanager::PROCESS_SIZE,
    flink: &jobmanager::FLINK_SIZE,
    derive: |options| derive(options, None),
    total: JobManagerMemory::total,
    overhead: |memory| (JM_OVERHEAD.part, memory.overhead),
    parts: |memory| {
        vec![
            (jobmanager::FRAMEWORK_SIZE.key(), memory.framework),
            (jobmanager::JOBS_SIZE.key(), memory.jobs),
        ]
    },
    peak: |_, _| None,
};

fn derive(options: &Options, limit: Option<MemorySize>) -> Result<JobManagerMemory, MemoryError> {
    let overhead = Share::overhead(&JM_OVERHEAD, options)?;
    let framework = options.get(&jobmanager::FRAMEWORK_SIZE);
    let framework = checked(jobmanager::FRAMEWORK_SIZE.key(), framework)?;
    let process = explicit_process(options, &jobmanager::PROCESS_SIZE, limit)?;
    let total = size(options, &jobmanager::FLINK_SIZE)?;
    let jobs = whole_or_parts(
        options,
        &jobmanager::JOBS_SIZE,
        &[&jobmanager::HEAP_SIZE, &jobmanager::OFF_HEAP_SIZE],
    )?;

    let rest_of = |whole: Whole, total: MemorySize, jobs: Option<MemorySize>| {
        let parts = [
            (jobmanager::FRAMEWORK_SIZE.key(), framework),
            (jobmanager::JOBS_SIZE.key(), jobs.unwrap_or(REST_MIN)),
        ];
        whole.rest(total, &parts)?;
        Ok(total.checked_sub(framework).unwrap_or_default())
    };
    let jobs = match (total, jobs) {
        (Some(total), jobs) => {
            let rest = rest_of(Whole(jobmanager::FLINK_SIZE.key(), total), total, jobs)?;
            match jobs {
                Some(jobs) if jobs != rest => {
                    return Err(MemoryError::Contradiction {
                        option: jobmanager::FLINK_SIZE.key(),
                        whole: total,
                        parts: format!("{} and the jobs' memory", jobmanager::FRAMEWORK_SIZE.key()),
                        sum: framework + jobs,
                    });
                }
                _ => rest,
            }
        }
        (None, Some(jobs)) => jobs,
        (None, None) => {
            let default = || options.get(&jobmanager::PROCESS_SIZE).unwrap_or(AMOUNT_MAX);
            let whole = process.or(limit).unwrap_or_else(default);
            let overhead = overhead.of(whole);
            let total = whole.checked_sub(overhead).unwrap_or_default();
            let jobs = rest_of(Whole(jobmanager::PROCESS_SIZE.key(), whole), total, None)?;
            return Ok(JobManagerMemory { framework, jobs, overhead });
        }
    };
    let key = jobmanager::PROCESS_SIZE.key();
    let overhead = overhead.beside(framework + jobs, process, key)?;
    Ok(JobManagerMemory { framework, jobs, overhead })
}
