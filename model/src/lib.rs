//! Plain values shared by every crate: ids, epochs, job graphs, resources, memory, durations, reports.
//!
//! This crate must never do I/O, read a clock, spawn anything or hold behaviour beyond parsing,
//! printing and arithmetic on its own values. Types of one interface live beside that interface.

pub mod blob;
pub mod checkpoint;
pub mod checkpoint_stats;
pub mod duration;
pub mod epoch;
pub mod execution;
pub mod graph;
pub mod ids;
pub mod job;
pub mod key_groups;
pub mod memory;
pub mod ports;
pub mod resources;
pub mod slots;
#[cfg(feature = "testing")]
pub mod testing;

pub use blob::{BlobKey, BlobKind, ContentHash};
pub use checkpoint::{
    CheckpointBarrier, CheckpointMetadata, CheckpointPointer, ClaimedSnapshot, OperatorState,
    OperatorSubtaskState, StateHandle, StatePart, StateRange, SubtaskSnapshot,
};
pub use checkpoint_stats::{
    CheckpointCounts, CheckpointKind, CheckpointReport, CheckpointSettings, CheckpointStats,
    CheckpointStatus, RestoredCheckpoint, Spread, SubtaskCheckpointStats, VertexCheckpointStats,
};
pub use duration::{parse_duration, show_duration};
pub use epoch::{
    DispatcherId, Epoch, Fence, JobMasterId, LeaderSession, ProcessSession, ResourceManagerId,
    SlotManagerId,
};
pub use execution::{ExecutionState, FailureCause, JobStatus, shortened};
pub use graph::{JobEdge, JobGraph, JobVertex, ProgramRef, ShipStrategy};
pub use ids::{
    AllocationId, ClusterId, EdgeId, ExecutionAttemptId, InstanceId, JobId, JobVertexId, NodeId,
    OperatorId, ResourceId, SlotId, TriggerId,
};
pub use key_groups::owned_key_groups;
pub use memory::MemorySize;
pub use ports::{ParsePortsError, PortSpec};
pub use resources::{Devices, ResourceProfile, TaskManagerFacts, WorkerResourceSpec};
pub use slots::{ResourceRequirement, SlotReport, SlotStatus};
