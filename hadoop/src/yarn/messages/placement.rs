//! Placement constraints and requests that use them. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::basics::{Priority, Resource};
use super::master_protocol::ExecutionTypeRequest;

/// The constraint for requests with these tags.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlacementConstraintMapEntry {
    #[prost(string, repeated, tag = "1")]
    pub allocation_tags: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub placement_constraint: Option<PlacementConstraint>,
}

/// Where containers may be: a simple or a composite constraint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlacementConstraint {
    #[prost(message, optional, tag = "1")]
    pub simple_constraint: Option<SimplePlacementConstraint>,
    #[prost(message, optional, tag = "2")]
    pub composite_constraint: Option<CompositePlacementConstraint>,
}

/// How many containers with some tags a scope may or must hold.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SimplePlacementConstraint {
    /// `node` or `rack`.
    #[prost(string, required, tag = "1")]
    pub scope: String,
    #[prost(message, repeated, tag = "2")]
    pub target_expressions: Vec<PlacementConstraintTarget>,
    #[prost(int32, optional, tag = "3")]
    pub min_cardinality: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub max_cardinality: Option<i32>,
    #[prost(enumeration = "NodeAttributeOpCode", optional, tag = "5")]
    pub attribute_op_code: Option<i32>,
}

/// What a constraint looks at.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlacementConstraintTarget {
    #[prost(enumeration = "TargetType", required, tag = "1")]
    pub target_type: i32,
    #[prost(string, optional, tag = "2")]
    pub target_key: Option<String>,
    #[prost(string, repeated, tag = "3")]
    pub target_values: Vec<String>,
}

/// Constraints together.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CompositePlacementConstraint {
    #[prost(enumeration = "CompositeType", required, tag = "1")]
    pub composite_type: i32,
    #[prost(message, repeated, tag = "2")]
    pub child_constraints: Vec<PlacementConstraint>,
    #[prost(message, repeated, tag = "3")]
    pub timed_child_constraints: Vec<TimedPlacementConstraint>,
}

/// A constraint that holds for some time only.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TimedPlacementConstraint {
    #[prost(message, required, tag = "1")]
    pub placement_constraint: PlacementConstraint,
    #[prost(int64, required, tag = "2")]
    pub scheduling_delay: i64,
    #[prost(enumeration = "DelayUnit", optional, tag = "3", default = "Milliseconds")]
    pub delay_unit: Option<i32>,
}

/// Containers wanted under a placement constraint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SchedulingRequest {
    #[prost(int64, optional, tag = "1", default = "0")]
    pub allocation_request_id: Option<i64>,
    #[prost(message, optional, tag = "2")]
    pub priority: Option<Priority>,
    #[prost(message, optional, tag = "3")]
    pub execution_type: Option<ExecutionTypeRequest>,
    #[prost(string, repeated, tag = "4")]
    pub allocation_tags: Vec<String>,
    #[prost(message, optional, tag = "5")]
    pub resource_sizing: Option<ResourceSizing>,
    #[prost(message, optional, tag = "6")]
    pub placement_constraint: Option<PlacementConstraint>,
}

/// How many of which size.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceSizing {
    #[prost(int32, optional, tag = "1")]
    pub num_allocations: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub resources: Option<Resource>,
}

/// A request that cannot be met.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RejectedSchedulingRequest {
    #[prost(enumeration = "RejectionReason", required, tag = "1")]
    pub reason: i32,
    #[prost(message, required, tag = "2")]
    pub request: SchedulingRequest,
}

/// What a constraint looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum TargetType {
    NodeAttribute = 1,
    AllocationTag = 2,
    Itself = 3,
}

/// How an attribute is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeAttributeOpCode {
    NoOp = 1,
    Eq = 2,
    Ne = 3,
}

/// How constraints belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CompositeType {
    And = 1,
    Or = 2,
    DelayedOr = 3,
}

/// What a delay counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum DelayUnit {
    Milliseconds = 1,
    Opportunities = 2,
}

/// Why a request cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum RejectionReason {
    CouldNotPlaceOnNode = 1,
    CouldNotScheduleOnNode = 2,
}
