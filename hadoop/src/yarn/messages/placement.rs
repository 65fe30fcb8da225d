//! Placement constraints and requests that use them. Only declarations belong here.

use super::basics::{Priority, Resource};
use super::master_protocol::ExecutionTypeRequest;
use crate::proto::{enumerations, messages};

messages! {
    /// The constraint for requests with these tags.
    pub struct PlacementConstraintMapEntry (Eq) {
        /// Tags of the requests that it holds for.
        repeated string allocation_tags = 1;
        /// The constraint for the places of the containers.
        optional message<PlacementConstraint> placement_constraint = 2;
    }

    /// A constraint for the places of containers, simple or composite.
    pub struct PlacementConstraint (Eq) {
        /// This or the other is set.
        optional message<SimplePlacementConstraint> simple_constraint = 1;
        /// This or the other is set.
        optional message<CompositePlacementConstraint> composite_constraint = 2;
    }

    /// How many containers with some tags a scope may or must hold.
    pub struct SimplePlacementConstraint (Eq) {
        /// `node` or `rack`.
        required string scope = 1;
        /// The targets that are counted in the scope, or compared.
        repeated message<PlacementConstraintTarget> target_expressions = 2;
        /// The minimum number of matching containers in the scope.
        optional int32 min_cardinality = 3;
        /// The maximum number of matching containers in the scope.
        optional int32 max_cardinality = 4;
        /// For node attributes: a [`NodeAttributeOpCode`].
        optional enumeration(NodeAttributeOpCode) attribute_op_code = 5;
    }

    /// The target that a constraint counts or compares.
    pub struct PlacementConstraintTarget (Eq) {
        /// A [`TargetType`]: whether nodes' attributes or containers' tags are meant.
        required enumeration(TargetType) target_type = 1;
        /// The attribute's name, or whose tags count: `self`, `not-self`, `all`, `app-id/…`, `app-tag/…`.
        optional string target_key = 2;
        /// Values of the attribute, or tags.
        repeated string target_values = 3;
    }

    /// Several constraints, combined into one.
    pub struct CompositePlacementConstraint (Eq) {
        /// A [`CompositeType`]: how the constraints are combined.
        required enumeration(CompositeType) composite_type = 1;
        /// For `And` and `Or`.
        repeated message<PlacementConstraint> child_constraints = 2;
        /// For `DelayedOr`: the constraints in order, each with its time.
        repeated message<TimedPlacementConstraint> timed_child_constraints = 3;
    }

    /// A constraint that holds for some time only.
    pub struct TimedPlacementConstraint (Eq) {
        /// The constraint that holds meanwhile.
        required message<PlacementConstraint> placement_constraint = 1;
        /// For how long, in `delay_unit`.
        required int64 scheduling_delay = 2;
        /// A [`DelayUnit`]: the unit of `scheduling_delay`.
        optional enumeration(DelayUnit) delay_unit = 3 [default = "Milliseconds"];
    }

    /// Containers wanted under a placement constraint.
    pub struct SchedulingRequest (Eq) {
        /// Comes back with the containers.
        optional int64 allocation_request_id = 1 [default = "0"];
        /// The lower, the sooner it is served within the application.
        optional message<Priority> priority = 2;
        /// Guaranteed, where it is not set.
        optional message<ExecutionTypeRequest> execution_type = 3;
        /// The tags by which constraints, also those of other requests, refer to the containers.
        repeated string allocation_tags = 4;
        /// How many of which size.
        optional message<ResourceSizing> resource_sizing = 5;
        /// The constraint for the places of the containers, in addition to those registered for the tags.
        optional message<PlacementConstraint> placement_constraint = 6;
    }

    /// How many of which size.
    pub struct ResourceSizing (Eq) {
        /// How many are wanted.
        optional int32 num_allocations = 1;
        /// The size of one container.
        optional message<Resource> resources = 2;
    }

    /// A request that cannot be met.
    pub struct RejectedSchedulingRequest (Eq) {
        /// A [`RejectionReason`]: why it cannot be met.
        required enumeration(RejectionReason) reason = 1;
        /// The rejected request, as it was sent.
        required message<SchedulingRequest> request = 2;
    }
}

enumerations! {
    /// The kind of a constraint's target.
    pub enum TargetType {
        /// Attributes of nodes.
        NodeAttribute = 1,
        /// Tags of containers that are there.
        AllocationTag = 2,
        /// The containers of the request themselves.
        Itself = 3,
    }

    /// How an attribute is compared.
    pub enum NodeAttributeOpCode {
        /// Not at all.
        NoOp = 1,
        /// It must have the value.
        Eq = 2,
        /// It must not have the value.
        Ne = 3,
    }

    /// How constraints belong together.
    pub enum CompositeType {
        /// All must hold.
        And = 1,
        /// One must hold.
        Or = 2,
        /// One must hold, and each is tried for some time only, in order.
        DelayedOr = 3,
    }

    /// The unit of a delay.
    pub enum DelayUnit {
        /// Time that has passed, in milliseconds.
        Milliseconds = 1,
        /// How often the scheduler passes by.
        Opportunities = 2,
    }

    /// The reason why a request cannot be met.
    pub enum RejectionReason {
        /// No node meets the constraint.
        CouldNotPlaceOnNode = 1,
        /// The scheduler could not use the nodes that meet it.
        CouldNotScheduleOnNode = 2,
    }
}
