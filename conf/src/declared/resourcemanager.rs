//! Options of the ResourceManager, the SlotManager and slot requests.

use crate::declare::options;
use std::time::Duration;

options! {
    /// On a standalone cluster: time after the ResourceManager's start during which requirements
    /// wait for TaskManagers to register. After it a job that needs more slots than there are fails
    /// at once; a job whose slots other jobs hold waits in any case.
    START_UP_TIME: Duration = "resourcemanager.standalone.start-up-time" => Duration::from_secs(300),
        falls_back "slot.request.timeout";
    /// Maximum time a job waits for the slots it declared. Then what waits fails, and the restart strategy decides, unless the job
    /// reads bounded input and another part of it runs, whose slots it gets later.
    SLOT_REQUEST_TIMEOUT: Duration = "slot.request.timeout" => Duration::from_secs(300), must be_longer_than_zero;
    /// On YARN and Kubernetes: time after which a TaskManager without any used slot is released.
    TASKMANAGER_TIMEOUT: Duration = "resourcemanager.taskmanager-timeout" => Duration::from_secs(30),
        must be_longer_than_zero;
    /// Time without a leading JobMaster after which a job is removed and its slots are freed.
    JOB_TIMEOUT: Duration = "resourcemanager.job.timeout" => Duration::from_secs(300), must be_longer_than_zero;
    /// On YARN and Kubernetes: the pause before a worker that failed to start is asked for again; it doubles, capped
    /// at 32 times.
    START_WORKER_RETRY_INTERVAL: Duration = "resourcemanager.start-worker.retry-interval" => Duration::from_secs(3),
        must be_longer_than_zero;
    /// On YARN and Kubernetes: the number of workers that may fail to start per minute before new
    /// ones have to wait.
    START_WORKER_MAX_FAILURE_RATE: f64 = "resourcemanager.start-worker.max-failure-rate" => 10.0, must be_above_zero;
    /// On YARN and Kubernetes: time after which a worker that started but has not registered is
    /// given up.
    WORKER_REGISTRATION_TIMEOUT: Duration = "resourcemanager.taskmanager-registration.timeout" =>
        Duration::from_secs(300), must be_longer_than_zero;
    /// On YARN and Kubernetes: the time in which a worker that is reported late is still used, counted from the
    /// cancellation or failure of its request or, for workers of an earlier JobManager, from the start of this one. A
    /// worker that is reported later is released.
    LATE_WORKER_GRACE: Duration = "resourcemanager.late-worker.grace-period" => Duration::from_secs(60);
    /// On YARN and Kubernetes: time for which the JobManager tries to unregister an application
    /// that has ended. If that fails, its exit code is 2: the external system may start the
    /// application again.
    DEREGISTER_TIMEOUT: Duration = "resourcemanager.deregister.timeout" => Duration::from_secs(30),
        other ["yarn.unregister-timeout"], must be_longer_than_zero;
    /// On YARN and Kubernetes: the largest number of slots that is ever requested.
    SLOTS_MAX: Option<u32> = "slotmanager.number-of-slots.max" => None;
    /// On YARN and Kubernetes: number of spare TaskManagers, kept ready beyond what is needed.
    REDUNDANT_TASKMANAGERS: u32 = "slotmanager.redundant-taskmanager-num" => 0;
    /// Time for which requirements are collected before they are matched with slots.
    REQUIREMENTS_CHECK_DELAY: Duration = "slotmanager.requirement-check.delay" => Duration::from_millis(5);
    /// Spreads slots over all TaskManagers, instead of filling one after the other.
    SPREAD_OUT: bool = "cluster.evenly-spread-out-slots" => false;
}
