//! Placement constraints and requests that use them. Only declarations belong here.

use super::basics::{Priority, Resource};
use super::master_protocol::ExecutionTypeRequest;
use crate::proto::{enumerations, messages};

messages! {
    /// A placement constraint that an ApplicationMaster registers for all its scheduling requests with some allocation tags. `AmRmClient`
    /// registers none. Part of `RegisterApplicationMasterRequest`.
    pub struct PlacementConstraintMapEntry (Eq) {
        /// Tags of the scheduling requests that the constraint holds for.
        repeated string allocation_tags = 1;
        /// The constraint for the places of the containers.
        optional message<PlacementConstraint> placement_constraint = 2;
    }

    /// A constraint on the nodes where the containers of a request may be placed: either a simple one or several in one. Exactly one of the
    /// two fields is to be set.
    pub struct PlacementConstraint (Eq) {
        /// The constraint, if it is a simple one; otherwise the other field is set.
        optional message<SimplePlacementConstraint> simple_constraint = 1;
        /// The constraint, if it is a composite one; otherwise the other field is set.
        optional message<CompositePlacementConstraint> composite_constraint = 2;
    }

    /// A constraint that the node or rack of a container must hold at least or at most so many containers with some tags, or that the node
    /// must have, or not have, some value of an attribute. Part of `PlacementConstraint`.
    pub struct SimplePlacementConstraint (Eq) {
        /// The scope in which containers are counted: `node` or `rack`.
        required string scope = 1;
        /// The targets that are counted in the scope, or compared.
        repeated message<PlacementConstraintTarget> target_expressions = 2;
        /// The minimum number of matching containers in the scope; 0 if it is not set.
        optional int32 min_cardinality = 3;
        /// The maximum number of matching containers in the scope. If it is not set it counts as 0, so that there may be none: no limit is
        /// `i32::MAX`.
        optional int32 max_cardinality = 4;
        /// A [`NodeAttributeOpCode`] for node attributes: how they are compared.
        optional enumeration(NodeAttributeOpCode) attribute_op_code = 5;
    }

    /// The things that a placement constraint counts or compares: containers with some tags, or an attribute of nodes. Part of
    /// `SimplePlacementConstraint`.
    pub struct PlacementConstraintTarget (Eq) {
        /// A [`TargetType`]: whether nodes' attributes or containers' tags are meant.
        required enumeration(TargetType) target_type = 1;
        /// The attribute's name, or the applications whose tags count: `self`, `not-self`, `all`, `app-id/…`,
        /// `app-tag/…`.
        optional string target_key = 2;
        /// The values that the attribute is compared with, or the allocation tags of the containers that count.
        repeated string target_values = 3;
    }

    /// Several placement constraints, combined into one: all must hold, any one, or one after the other is tried for a time. Part of
    /// `PlacementConstraint`.
    pub struct CompositePlacementConstraint (Eq) {
        /// A [`CompositeType`]: how the constraints are combined.
        required enumeration(CompositeType) composite_type = 1;
        /// The combined constraints, for `And` and `Or`.
        repeated message<PlacementConstraint> child_constraints = 2;
        /// The combined constraints for `DelayedOr`, in order, each with its time.
        repeated message<TimedPlacementConstraint> timed_child_constraints = 3;
    }

    /// A placement constraint that the scheduler tries for some time only (milliseconds or scheduling opportunities, see [`DelayUnit`]),
    /// before it turns to the next one of a `DelayedOr`. Part of `CompositePlacementConstraint`.
    pub struct TimedPlacementConstraint (Eq) {
        /// The constraint that holds while it is tried, for the time `scheduling_delay`.
        required message<PlacementConstraint> placement_constraint = 1;
        /// The time for which the constraint is tried, in `delay_unit`.
        required int64 scheduling_delay = 2;
        /// A [`DelayUnit`]: the unit of `scheduling_delay`.
        optional enumeration(DelayUnit) delay_unit = 3 [default = "Milliseconds"];
    }

    /// An ApplicationMaster's request for containers under a placement constraint, sent with `allocate`. `AmRmClient` sends none: its
    /// requests are `ResourceRequest`s.
    pub struct SchedulingRequest (Eq) {
        /// Number that comes back with the containers of this request.
        optional int64 allocation_request_id = 1 [default = "0"];
        /// The priority within the application: lower numbers are served first.
        optional message<Priority> priority = 2;
        /// The execution type of the containers; guaranteed if it is not set.
        optional message<ExecutionTypeRequest> execution_type = 3;
        /// The tags by which constraints, also those of other requests, refer to the containers.
        repeated string allocation_tags = 4;
        /// The number of containers, and their size.
        optional message<ResourceSizing> resource_sizing = 5;
        /// The constraint for the places of the containers, in addition to those registered for the tags.
        optional message<PlacementConstraint> placement_constraint = 6;
    }

    /// The number of containers that a scheduling request wants, and the size of each. Part of `SchedulingRequest`.
    pub struct ResourceSizing (Eq) {
        /// Number of containers that are wanted.
        optional int32 num_allocations = 1;
        /// The size of one container.
        optional message<Resource> resources = 2;
    }

    /// A scheduling request that the scheduler cannot meet and has dropped, in the response to `allocate`. `AmRmClient` ignores it.
    pub struct RejectedSchedulingRequest (Eq) {
        /// A [`RejectionReason`]: the reason why the request cannot be met.
        required enumeration(RejectionReason) reason = 1;
        /// The rejected request, as it was sent.
        required message<SchedulingRequest> request = 2;
    }
}

enumerations! {
    /// The kind of things that a placement constraint counts or compares: attributes of nodes, containers with some tags, or the request's
    /// own containers. A field of `PlacementConstraintTarget` holds its number.
    pub enum TargetType {
        /// Attributes of nodes, compared with `target_values`.
        NodeAttribute = 1,
        /// Allocation tags of containers that are there already.
        AllocationTag = 2,
        /// The containers of the request themselves.
        Itself = 3,
    }

    /// The comparison that a placement constraint makes between a node's attribute and the constraint's values: none, equal or unequal. A
    /// field of `SimplePlacementConstraint` holds its number.
    pub enum NodeAttributeOpCode {
        /// No comparison is made, as for constraints that count containers.
        NoOp = 1,
        /// The node's attribute must have the value.
        Eq = 2,
        /// The node's attribute must not have the value.
        Ne = 3,
    }

    /// The way in which a composite constraint combines its child constraints: all, any one, or any one with each tried for its time, in
    /// order. A field of `CompositePlacementConstraint` holds its number.
    pub enum CompositeType {
        /// All constraints must hold.
        And = 1,
        /// One of the constraints must hold.
        Or = 2,
        /// One of the constraints must hold; each is tried for its time only, in order.
        DelayedOr = 3,
    }

    /// The unit of the time for which a timed placement constraint is tried: milliseconds, or passes of the scheduler. A field of
    /// `TimedPlacementConstraint` holds its number.
    pub enum DelayUnit {
        /// Time that has passed, in milliseconds.
        Milliseconds = 1,
        /// Passes of the scheduler, which is a number and no time.
        Opportunities = 2,
    }

    /// The reason why the scheduler cannot meet a scheduling request: no node meets its constraint, or the nodes that do cannot be used. A
    /// field of `RejectedSchedulingRequest` holds its number.
    pub enum RejectionReason {
        /// No node meets the constraint.
        CouldNotPlaceOnNode = 1,
        /// The scheduler could not use the nodes that meet the constraint.
        CouldNotScheduleOnNode = 2,
    }
}
