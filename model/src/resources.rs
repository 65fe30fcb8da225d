//! Resources of slots and workers.

use crate::memory::MemorySize;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, ops::Range};

/// The resources that one slot offers or needs, in exact amounts. In a need, an amount of 0 is no requirement, and all amounts 0 mean "any
/// size" ([`ResourceProfile::unknown`]); in an offer, 0 means that the slot has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ResourceProfile {
    /// CPU in thousandths of a core, compared when a slot is chosen and not enforced; 0: no requirement, or none offered.
    pub cpu_millis: u64,
    /// Memory for user code in bytes; 0: no requirement, or none offered.
    pub task: MemorySize,
    /// Managed memory in bytes: tables of operators' state up to this amount do not count as memory of user code; 0: no requirement, or
    /// none offered.
    pub managed: MemorySize,
    /// Memory for buffers of the exchange of records, in bytes; 0: no requirement, or none offered.
    pub network: MemorySize,
    /// Whole amounts of other resources by name (`gpu`); a resource that is not named is not required, or not offered.
    pub extended: BTreeMap<String, u64>,
}

impl ResourceProfile {
    /// Returns the profile that needs nothing in particular, so that every slot fulfils it: the requirement of a job that sets none.
    pub fn unknown() -> Self {
        Self::default()
    }
    /// Returns true if all amounts are 0 and no other resource is named, as in [`ResourceProfile::unknown`].
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
    /// Returns true if a slot of this profile has at least the amount of each resource that `need` has. An unknown need is
    /// fulfilled by every slot.
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

/// The resources of one whole TaskManager, without the memory of the runtime itself. The ResourceManager requests workers of such a spec
/// from the external resource system, and a TaskExecutor reports its own at registration. Two specs are the same only if all is equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WorkerResourceSpec {
    /// CPU of all slots together, in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory for user code in bytes, all slots together.
    pub task: MemorySize,
    /// Memory for buffers of the exchange of records in bytes, all slots together.
    pub network: MemorySize,
    /// Managed memory in bytes, all slots together: tables of operators' state up to it do not count as memory of user code.
    pub managed: MemorySize,
    /// Number of equal slots that the amounts are divided into; 0 counts as 1.
    pub slots: u32,
    /// Whole amounts of other resources by name (`gpu`), all slots together.
    pub extended: BTreeMap<String, u64>,
}

impl WorkerResourceSpec {
    /// Returns the profile of each of the worker's equal slots: each amount divided by the number of slots, rounded down. 0
    /// slots count as 1.
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
    /// Returns the devices (such as GPUs, by index) that belong to the slot with this index, from 0. Every slot gets
    /// the same number of each resource, and no device belongs to two slots; devices left over by the division belong
    /// to none. Resources of which the slot gets none are not in the map. `slot` must be below `slots`; this is not
    /// checked: a higher one gets devices that are left over, or none.
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

/// The devices that one slot has of each external resource, by the resource's name: a range (end exclusive) of indices, which
/// count from 0 on each TaskManager.
pub type Devices = BTreeMap<String, Range<u64>>;

/// Facts about a TaskManager that it reports and users see, beyond its resources: cores, the machine's memory, the runtime's parts of the
/// process's memory, data port and log page. Sent with each registration at a ResourceManager, not later. No decision depends on them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskManagerFacts {
    /// Number of cores that the TaskManager's process may use; 0: not known.
    pub cpu_cores: u32,
    /// Memory of the TaskManager's machine in bytes; 0: not known.
    pub physical_memory: MemorySize,
    /// Memory in bytes that the configuration sets aside for the runtime itself; 0: not known.
    pub framework: MemorySize,
    /// Memory in bytes that the configuration sets aside for stacks, fragmentation and executables: what the other parts
    /// leave of the process's total; 0: not known.
    pub overhead: MemorySize,
    /// The port for the exchange of records, if the options name exactly one; `None` if every program host opens one of
    /// several or any free one.
    pub data_port: Option<u16>,
    /// URL of the page where an external system such as YARN shows the process's log files; `None` if there is none.
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
