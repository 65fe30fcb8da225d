//! Scheduling: which subtasks stand and fall together (pipelined regions), which share a slot, and what
//! each TaskExecutor is sent. Everything is linear in subtasks plus edges; nothing is done per edge *and*
//! subtask, so that 10,000 × 10,000 all-to-all costs what 20,000 subtasks cost. It must never talk to
//! anybody: it returns plans.

mod deployment;
mod regions;
mod sharing;
#[cfg(test)]
mod tests;

pub use deployment::{Deployment, NOT_DEPLOYED, ProducerTable, TaskPlacement, deployments};
pub use regions::{Group, GroupIndex, Region, RegionIndex, Regions};
pub use sharing::{SharedSlot, SlotGroup, SlotPlan};
