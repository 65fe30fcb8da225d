//! Resources of slots and workers.

use crate::memory::MemorySize;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, ops::Range};

/// The resources that one slot offers or needs. Amounts are exact: CPU in thousandths of a core,
/// memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ResourceProfile {
    /// CPU share in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory of user code.
    pub task: MemorySize,
    /// State backends' and operators' memory.
    pub managed: MemorySize,
    /// Memory for exchange buffers.
    pub network: MemorySize,
    /// Anything else, by name (`gpu`).
    pub extended: BTreeMap<String, u64>,
}

impl ResourceProfile {
    /// Returns the profile that needs nothing in particular, so that every slot fulfils it: the requirement of a job that sets none.
    pub fn unknown() -> Self {
        Self::default()
    }
    /// Returns true if this is [`ResourceProfile::unknown`].
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
    /// Returns true if a slot of this profile can serve `need`. An unknown need is served by every slot.
    pub fn fulfils(&self, need: &Self) -> bool {
        self.cpu_millis >= need.cpu_millis
            && self.task >= need.task
            && self.managed >= need.managed
            && self.network >= need.network
            && need
                .extended
                .iter()
                .all(|(name, n)| self.extended.get(name).copied().unwrap_or(0) >= *n)
    }
}

impl fmt::Display for ResourceProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unknown() {
            return f.write_str("any size");
        }
        write!(
            f,
            "{}.{:03} cores, task {}, managed {}, network {}",
            self.cpu_millis / 1000,
            self.cpu_millis % 1000,
            self.task,
            self.managed,
            self.network
        )?;
        self.extended.iter().try_for_each(|(name, n)| write!(f, ", {n} {name}"))
    }
}

/// The resources of one TaskManager: a driver is asked for them, and a registration reports them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WorkerResourceSpec {
    /// CPU share in thousandths of a core.
    pub cpu_millis: u64,
    /// User code's memory, all slots together.
    pub task: MemorySize,
    /// Exchange buffers, all slots together.
    pub network: MemorySize,
    /// Managed memory, all slots together.
    pub managed: MemorySize,
    /// Number of slots.
    pub slots: u32,
    /// Amounts of other resources by name (`gpu`).
    pub extended: BTreeMap<String, u64>,
}

impl WorkerResourceSpec {
    /// Returns the profile of each of the worker's equal slots: the worker's amounts divided by
    /// their number.
    pub fn slot_profile(&self) -> ResourceProfile {
        let n = u64::from(self.slots.max(1));
        ResourceProfile {
            cpu_millis: self.cpu_millis / n,
            task: MemorySize(self.task.0 / n),
            managed: MemorySize(self.managed.0 / n),
            network: MemorySize(self.network.0 / n),
            extended: self.extended.iter().map(|(k, v)| (k.clone(), v / n)).collect(),
        }
    }
    /// Returns the devices of one of its slots. No device has two slots; those that cannot be divided equally have none.
    pub fn devices(&self, slot: u32) -> Devices {
        let (slots, slot) = (u64::from(self.slots.max(1)), u64::from(slot));
        let of = |(name, amount): (&String, &u64)| {
            let each = amount / slots;
            let first = slot.saturating_mul(each);
            let end = first.saturating_add(each).min(*amount);
            (each > 0 && first < end).then(|| (name.clone(), first..end))
        };
        self.extended.iter().filter_map(of).collect()
    }
}

/// The devices that a slot has of each external resource, by the resource's name: indices from 0 on its TaskManager.
pub type Devices = BTreeMap<String, Range<u64>>;

/// Facts about a TaskManager that are shown to users beyond its resources. No decision depends on
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskManagerFacts {
    /// Cores that its process may use; 0: not known.
    pub cpu_cores: u32,
    /// Memory of its machine; 0: not known.
    pub physical_memory: MemorySize,
    /// The runtime's own part of the process' memory.
    pub framework: MemorySize,
    /// Stacks, fragmentation, executables: the last part of the process' memory.
    pub overhead: MemorySize,
    /// The data port, where the options name exactly one; else every program host draws its own.
    pub data_port: Option<u16>,
    /// URL of the page where an external system shows the process's log files, if it does.
    pub log_page: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_has_two_slots_and_what_cannot_be_divided_has_none() {
        let spec = |slots, amount| WorkerResourceSpec {
            slots,
            extended: [("gpu".to_owned(), amount)].into(),
            ..WorkerResourceSpec::default()
        };
        let of = |spec: &WorkerResourceSpec, slot| spec.devices(slot).remove("gpu");
        let even = spec(2, 4);
        assert_eq!([of(&even, 0), of(&even, 1)], [Some(0..2), Some(2..4)]);
        assert_eq!(of(&even, 2), None, "there is no such slot");
        let odd = spec(2, 3);
        assert_eq!([of(&odd, 0), of(&odd, 1)], [Some(0..1), Some(1..2)]);
        assert_eq!(of(&spec(2, 1), 0), None);
        assert_eq!(of(&spec(u32::MAX, u64::MAX), u32::MAX), None);
    }
}
