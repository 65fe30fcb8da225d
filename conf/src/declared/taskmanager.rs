//! Options of the TaskManager process, memory aside.

use crate::{Declaration, Family, OptionValue, declare::options};
use model::PortSpec;
use std::{marker::PhantomData, num::NonZeroU32, time::Duration};

/// The number of slots that a TaskManager offers (`taskmanager.numberOfTaskSlots`): a fixed number, or one per core. Parses 1 to 10,000, or
/// `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// This number of slots, on every machine; 1 to 10,000 if parsed.
    Count(NonZeroU32),
    /// One slot for each processor core that the TaskManager may use; written `auto`.
    Auto,
}

impl Slots {
    /// Returns the number of slots of a TaskManager that may use `cores` processor cores: the fixed number, or
    /// `cores` for `Auto`.
    pub fn on(self, cores: NonZeroU32) -> NonZeroU32 {
        match self {
            Self::Count(count) => count,
            Self::Auto => cores,
        }
    }
}

/// More slots than this on one TaskManager are a mistake.
const SLOTS_MAX: u32 = 10_000;

impl OptionValue for Slots {
    fn kind() -> String {
        format!("a whole number from 1 to {SLOTS_MAX}, or auto (the number of cores)")
    }
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "auto" => Some(Self::Auto),
            number => NonZeroU32::parse(number).filter(|n| n.get() <= SLOTS_MAX).map(Self::Count),
        }
    }
    fn show(&self) -> Option<String> {
        match self {
            Self::Count(count) => count.show(),
            Self::Auto => Some("auto".to_owned()),
        }
    }
}

options! {
    /// The host name or address under which others reach this TaskManager; found from the route to the JobManager
    /// where it is not set.
    HOST: Option<String> = "taskmanager.host" => None;
    /// The interface that the TaskManager binds to; `0.0.0.0` for all.
    BIND_HOST: String = "taskmanager.bind-host" => "localhost".to_owned();
    /// The port of the TaskManager's RPC service.
    RPC_PORT: PortSpec = "taskmanager.rpc.port" => PortSpec::any();
    /// The port on which task processes exchange records; each takes one.
    DATA_PORT: PortSpec = "taskmanager.data.port" => PortSpec::any();
    /// Number of slots of a TaskManager: the number of pipelines, of one subtask each, that run in
    /// it at once.
    SLOTS: Slots = "taskmanager.numberOfTaskSlots" => Slots::Count(NonZeroU32::MIN);
    /// The cores that the TaskManager offers to the ResourceManager, in all its slots together; not enforced. The number of slots
    /// where it is not set.
    CPU_CORES: Option<f64> = "taskmanager.cpu.cores" => None, must be_cores;
    /// A name for this TaskManager that outlives its process; made from its host and process where it is not set.
    RESOURCE_ID: Option<String> = "taskmanager.resource-id" => None;
    /// Time after which a TaskManager that is not registered at a ResourceManager ends.
    REGISTRATION_TIMEOUT: Duration = "taskmanager.registration.timeout" => Duration::from_secs(300),
        other ["taskmanager.maxRegistrationDuration"], must be_longer_than_zero;
    /// The pause before a failed registration is tried again; it doubles up to `cluster.registration.max-timeout`.
    REGISTRATION_RETRY: Duration = "cluster.registration.error-delay" => Duration::from_millis(100),
        must be_longer_than_zero;
    /// The longest pause between two registration attempts.
    REGISTRATION_RETRY_MAX: Duration = "cluster.registration.max-timeout" => Duration::from_secs(10),
        must be_longer_than_zero;
    /// The pause after a registration was refused, before it is tried once more.
    REFUSED_REGISTRATION_DELAY: Duration = "cluster.registration.refused-registration-delay" =>
        Duration::from_secs(30), must be_longer_than_zero;
    /// Time after the cancellation of a task within which user code must return; otherwise its
    /// process is killed.
    CANCELLATION_TIMEOUT: Duration = "task.cancellation.timeout" => Duration::from_secs(10),
        must be_longer_than_zero;
    /// Time after which a slot that was allocated to a job is freed if no JobMaster of the job has accepted it.
    SLOT_TIMEOUT: Duration = "taskmanager.slot.timeout" => Duration::from_secs(10), must be_longer_than_zero;
    /// Maximum time from the start of a program host to its first answer.
    HOST_START_TIMEOUT: Duration = "taskmanager.program-host.start-timeout" => Duration::from_secs(30),
        must be_longer_than_zero;
}

/// The amount of an external resource on each TaskManager, in whole units (2 for two devices). The name in the key
/// `external-resource.<name>.amount` is the resource's, such as `gpu`.
pub static EXTERNAL_RESOURCE_AMOUNT: Family<u64> = Family {
    prefix: "external-resource.",
    suffix: ".amount",
    key: "external-resource.<name>.amount",
    doc: "How much of an external resource (`gpu`) each TaskManager has.",
    value: PhantomData,
};

pub(crate) static FAMILIES: &[&dyn Declaration] = &[&EXTERNAL_RESOURCE_AMOUNT];
