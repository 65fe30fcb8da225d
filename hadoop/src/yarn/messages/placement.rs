//! Placement constraints and requests that use them. Only declarations belong here.

use super::basics::{Priority, Resource};
use super::master_protocol::ExecutionTypeRequest;

/// The constraint for requests with these tags.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlacementConstraintMapEntry {
    /// Tags of the requests that it holds for.
    #[prost(string, repeated, tag = "1")]
    pub allocation_tags: Vec<String>,
    /// Where their containers may be.
    #[prost(message, optional, tag = "2")]
    pub placement_constraint: Option<PlacementConstraint>,
}

/// Where containers may be: a simple or a composite constraint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlacementConstraint {
    /// This or the other is set.
    #[prost(message, optional, tag = "1")]
    pub simple_constraint: Option<SimplePlacementConstraint>,
    /// This or the other is set.
    #[prost(message, optional, tag = "2")]
    pub composite_constraint: Option<CompositePlacementConstraint>,
}

/// How many containers with some tags a scope may or must hold.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SimplePlacementConstraint {
    /// `node` or `rack`.
    #[prost(string, required, tag = "1")]
    pub scope: String,
    /// What is counted in the scope, or compared.
    #[prost(message, repeated, tag = "2")]
    pub target_expressions: Vec<PlacementConstraintTarget>,
    /// As many at least.
    #[prost(int32, optional, tag = "3")]
    pub min_cardinality: Option<i32>,
    /// As many at most.
    #[prost(int32, optional, tag = "4")]
    pub max_cardinality: Option<i32>,
    /// For node attributes: a [`NodeAttributeOpCode`].
    #[prost(enumeration = "NodeAttributeOpCode", optional, tag = "5")]
    pub attribute_op_code: Option<i32>,
}

/// What a constraint looks at.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlacementConstraintTarget {
    /// A [`TargetType`].
    #[prost(enumeration = "TargetType", required, tag = "1")]
    pub target_type: i32,
    /// The attribute's name, or whose tags count: `self`, `not-self`, `all`, `app-id/…`, `app-tag/…`.
    #[prost(string, optional, tag = "2")]
    pub target_key: Option<String>,
    /// Values of the attribute, or tags.
    #[prost(string, repeated, tag = "3")]
    pub target_values: Vec<String>,
}

/// Constraints together.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CompositePlacementConstraint {
    /// A [`CompositeType`].
    #[prost(enumeration = "CompositeType", required, tag = "1")]
    pub composite_type: i32,
    /// For `And` and `Or`.
    #[prost(message, repeated, tag = "2")]
    pub child_constraints: Vec<PlacementConstraint>,
    /// For `DelayedOr`.
    #[prost(message, repeated, tag = "3")]
    pub timed_child_constraints: Vec<TimedPlacementConstraint>,
}

/// A constraint that holds for some time only.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TimedPlacementConstraint {
    /// What holds meanwhile.
    #[prost(message, required, tag = "1")]
    pub placement_constraint: PlacementConstraint,
    /// For how long, in `delay_unit`.
    #[prost(int64, required, tag = "2")]
    pub scheduling_delay: i64,
    /// A [`DelayUnit`].
    #[prost(enumeration = "DelayUnit", optional, tag = "3", default = "Milliseconds")]
    pub delay_unit: Option<i32>,
}

/// Containers wanted under a placement constraint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SchedulingRequest {
    /// Comes back with the containers.
    #[prost(int64, optional, tag = "1", default = "0")]
    pub allocation_request_id: Option<i64>,
    /// The lower, the sooner it is served within the application.
    #[prost(message, optional, tag = "2")]
    pub priority: Option<Priority>,
    /// Guaranteed, where it is not set.
    #[prost(message, optional, tag = "3")]
    pub execution_type: Option<ExecutionTypeRequest>,
    /// What constraints, also those of others, know the containers by.
    #[prost(string, repeated, tag = "4")]
    pub allocation_tags: Vec<String>,
    /// How many of which size.
    #[prost(message, optional, tag = "5")]
    pub resource_sizing: Option<ResourceSizing>,
    /// Where they may be, beside what the constraints registered for the tags say.
    #[prost(message, optional, tag = "6")]
    pub placement_constraint: Option<PlacementConstraint>,
}

/// How many of which size.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceSizing {
    /// How many are wanted.
    #[prost(int32, optional, tag = "1")]
    pub num_allocations: Option<i32>,
    /// The size of one container.
    #[prost(message, optional, tag = "2")]
    pub resources: Option<Resource>,
}

/// A request that cannot be met.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RejectedSchedulingRequest {
    /// A [`RejectionReason`].
    #[prost(enumeration = "RejectionReason", required, tag = "1")]
    pub reason: i32,
    /// What was asked for.
    #[prost(message, required, tag = "2")]
    pub request: SchedulingRequest,
}

/// What a constraint looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum TargetType {
    /// Attributes of nodes.
    NodeAttribute = 1,
    /// Tags of containers that are there.
    AllocationTag = 2,
    /// The containers of the request themselves.
    Itself = 3,
}

/// How an attribute is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeAttributeOpCode {
    /// Not at all.
    NoOp = 1,
    /// It must have the value.
    Eq = 2,
    /// It must not have the value.
    Ne = 3,
}

/// How constraints belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CompositeType {
    /// All must hold.
    And = 1,
    /// One must hold.
    Or = 2,
    /// One must hold, and each is tried for some time only, in order.
    DelayedOr = 3,
}

/// What a delay counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum DelayUnit {
    /// Time.
    Milliseconds = 1,
    /// How often the scheduler passes by.
    Opportunities = 2,
}

/// Why a request cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum RejectionReason {
    /// No node meets the constraint.
    CouldNotPlaceOnNode = 1,
    /// The scheduler could not use the nodes that meet it.
    CouldNotScheduleOnNode = 2,
}
