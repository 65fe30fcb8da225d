//! Options of the JobManager process.

use crate::declare::options;
use model::MemorySize;
use model::PortSpec;
use std::time::Duration;

options! {
    /// The host name or address under which others reach the JobManager.
    RPC_ADDRESS: String = "jobmanager.rpc.address" => "localhost".to_owned();
    /// The port of the JobManager's RPC service. TaskManagers without high availability dial the first of them.
    RPC_PORT: PortSpec = "jobmanager.rpc.port" => PortSpec::one(6123);
    /// The interface that the JobManager binds to; `0.0.0.0` for all.
    BIND_HOST: String = "jobmanager.bind-host" => "localhost".to_owned();
    /// The port that the RPC service binds to, where it differs from the advertised `jobmanager.rpc.port`.
    RPC_BIND_PORT: Option<PortSpec> = "jobmanager.rpc.bind-port" => None;
    /// A name for this JobManager in logs and metrics; made from its host and process where it is not set.
    RESOURCE_ID: Option<String> = "jobmanager.resource-id" => None;
    /// All memory of the JobManager and its program hosts together: the one number to set. It is split into
    /// framework, jobs and overhead. Where it is not set, it is the memory limit of the container (control group) that
    /// the JobManager runs in, if that is below 1600m or if the JobManager is alone in the container; otherwise 1600m.
    /// More than the container's limit is refused. If all together use more, the largest program host is ended with
    /// `used X of Y (jobmanager.memory.process.size)`: its job fails over, or its submission is refused. Other jobs go on.
    PROCESS_SIZE: Option<MemorySize> = "jobmanager.memory.process.size" => Some(MemorySize::from_mib(1600));
    /// The process' memory without the overhead; for setting instead of `jobmanager.memory.process.size`.
    FLINK_SIZE: Option<MemorySize> = "jobmanager.memory.flink.size" => None;
    /// Memory of the runtime itself: RPC, REST, blob transfers.
    FRAMEWORK_SIZE: MemorySize = "jobmanager.memory.framework.size" => MemorySize::from_mib(64);
    /// Memory of job graphs, execution graphs, checkpoints' metadata and coordinators; the rest of the process where
    /// it is not set.
    JOBS_SIZE: Option<MemorySize> = "jobmanager.memory.jobs.size" => None;
    /// A part of `jobmanager.memory.jobs.size`, under Flink's name; the two parts are added.
    HEAP_SIZE: Option<MemorySize> = "jobmanager.memory.heap.size" => None;
    /// A part of `jobmanager.memory.jobs.size`, under Flink's name; the two parts are added.
    OFF_HEAP_SIZE: Option<MemorySize> = "jobmanager.memory.off-heap.size" => None;
    /// The least overhead: stacks, allocator fragmentation, the executable itself.
    OVERHEAD_MIN: MemorySize = "jobmanager.memory.overhead.min" => MemorySize::from_mib(64),
        other ["jobmanager.memory.jvm-overhead.min"];
    /// Upper bound of the overhead.
    OVERHEAD_MAX: MemorySize = "jobmanager.memory.overhead.max" => MemorySize::from_mib(1024),
        other ["jobmanager.memory.jvm-overhead.max"];
    /// The overhead as a fraction of the process' memory.
    OVERHEAD_FRACTION: f64 = "jobmanager.memory.overhead.fraction" => 0.1,
        other ["jobmanager.memory.jvm-overhead.fraction"], must be_a_fraction;
    /// Maximum number of program hosts of the JobManager at the same time, at least 2: child processes that build job graphs, run
    /// the coordinators of jobs (file sources, collected results) and serve the collected results of finished jobs.
    /// Each takes about 13 MiB of `jobmanager.memory.process.size` in addition to the memory that the program
    /// allocates. One host is reserved for builds, so at most one job less than this number runs coordinators; other
    /// jobs wait without slots. A submission waits up to 120 s for a host; the 257th that waits
    /// is refused at once. The option has no effect in embedded and
    /// application mode, where the process itself is the program. Collected results are served for 60 s after the last
    /// request for them, of 16 jobs at most; another job may take the host's place after 5 s.
    PROGRAM_HOSTS_MAX: u32 = "jobmanager.program-hosts.max" => 64, must be_at_least_two;
    /// Number of finished jobs that the JobManager keeps for REST. Their details have 64 MiB
    /// together; of the oldest beyond that only the results are kept.
    STORE_CAPACITY: u32 = "jobstore.max-capacity" => 1000;
    /// Time for which a finished job is kept for REST.
    STORE_EXPIRATION: Duration = "jobstore.expiration-time" => Duration::from_secs(3600), must be_longer_than_zero;
}
