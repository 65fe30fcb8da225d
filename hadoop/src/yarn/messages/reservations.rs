//! Reservations of resources for later. Only declarations belong here.

use super::basics::{Priority, Resource};

/// A reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ReservationId {
    /// Counts the reservations since `cluster_timestamp`.
    #[prost(int64, optional, tag = "1")]
    pub id: Option<i64>,
    /// When the ResourceManager that made it had started, in milliseconds since 1970.
    #[prost(int64, optional, tag = "2")]
    pub cluster_timestamp: Option<i64>,
}

/// The request of `getNewReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewReservationRequest {}

/// The response to `getNewReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewReservationResponse {
    /// To submit with.
    #[prost(message, optional, tag = "1")]
    pub reservation_id: Option<ReservationId>,
}

/// The request of `submitReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationSubmissionRequest {
    /// A queue that takes reservations.
    #[prost(string, optional, tag = "1")]
    pub queue: Option<String>,
    /// What is reserved, and when.
    #[prost(message, optional, tag = "2")]
    pub reservation_definition: Option<ReservationDefinition>,
    /// From `getNewReservation`.
    #[prost(message, optional, tag = "3")]
    pub reservation_id: Option<ReservationId>,
}

/// What is reserved, and when.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationDefinition {
    /// How much of what.
    #[prost(message, optional, tag = "1")]
    pub reservation_requests: Option<ReservationRequests>,
    /// The earliest time, in milliseconds since 1970.
    #[prost(int64, optional, tag = "2")]
    pub arrival: Option<i64>,
    /// The latest time, in milliseconds since 1970.
    #[prost(int64, optional, tag = "3")]
    pub deadline: Option<i64>,
    /// For people; not unique.
    #[prost(string, optional, tag = "4")]
    pub reservation_name: Option<String>,
    /// Milliseconds after which it comes again; 0 for never.
    #[prost(string, optional, tag = "5", default = "0")]
    pub recurrence_expression: Option<String>,
    /// The lower, the more it counts. Those that come again count more than all that do not.
    #[prost(message, optional, tag = "6")]
    pub priority: Option<Priority>,
}

/// Requests of a reservation, and how they belong together.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationRequests {
    /// In order, where `interpreter` says so.
    #[prost(message, repeated, tag = "1")]
    pub reservation_resources: Vec<ReservationRequest>,
    /// A [`ReservationRequestInterpreter`].
    #[prost(enumeration = "ReservationRequestInterpreter", optional, tag = "2", default = "All")]
    pub interpreter: Option<i32>,
}

/// An amount to be reserved for some time.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationRequest {
    /// The size of one container.
    #[prost(message, optional, tag = "1")]
    pub capability: Option<Resource>,
    /// How many in all.
    #[prost(int32, optional, tag = "2", default = "1")]
    pub num_containers: Option<i32>,
    /// How many at a time at least.
    #[prost(int32, optional, tag = "3", default = "1")]
    pub concurrency: Option<i32>,
    /// Milliseconds.
    #[prost(int64, optional, tag = "4", default = "-1")]
    pub duration: Option<i64>,
}

/// The response to `submitReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationSubmissionResponse {}

/// The request of `updateReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationUpdateRequest {
    /// What takes the place of the old one.
    #[prost(message, optional, tag = "1")]
    pub reservation_definition: Option<ReservationDefinition>,
    /// Which reservation.
    #[prost(message, optional, tag = "2")]
    pub reservation_id: Option<ReservationId>,
}

/// The response to `updateReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationUpdateResponse {}

/// The request of `deleteReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationDeleteRequest {
    /// Which reservation.
    #[prost(message, optional, tag = "1")]
    pub reservation_id: Option<ReservationId>,
}

/// The response to `deleteReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationDeleteResponse {}

/// The request of `listReservations`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationListRequest {
    /// Whose reservations.
    #[prost(string, optional, tag = "1")]
    pub queue: Option<String>,
    /// Only this one, in the spelling `reservation_…`; all where it is empty.
    #[prost(string, optional, tag = "3")]
    pub reservation_id: Option<String>,
    /// Those that end at this time or after, in milliseconds since 1970.
    #[prost(int64, optional, tag = "4")]
    pub start_time: Option<i64>,
    /// Those that begin at this time or before, in milliseconds since 1970; without a bound where it is negative.
    #[prost(int64, optional, tag = "5")]
    pub end_time: Option<i64>,
    /// Whether it is said when they have how much.
    #[prost(bool, optional, tag = "6")]
    pub include_resource_allocations: Option<bool>,
}

/// The response to `listReservations`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationListResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub reservations: Vec<ReservationAllocationState>,
}

/// A reservation that was made.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationAllocationState {
    /// As it was submitted.
    #[prost(message, optional, tag = "1")]
    pub reservation_definition: Option<ReservationDefinition>,
    /// When it has how much, where that was asked for.
    #[prost(message, repeated, tag = "2")]
    pub allocation_requests: Vec<ResourceAllocationRequest>,
    /// When it begins, in milliseconds since 1970.
    #[prost(int64, optional, tag = "3")]
    pub start_time: Option<i64>,
    /// When it ends, in milliseconds since 1970.
    #[prost(int64, optional, tag = "4")]
    pub end_time: Option<i64>,
    /// Whose it is.
    #[prost(string, optional, tag = "5")]
    pub user: Option<String>,
    /// Whether some containers must run at the same time.
    #[prost(bool, optional, tag = "6")]
    pub contains_gangs: Option<bool>,
    /// When it was accepted, in milliseconds since 1970.
    #[prost(int64, optional, tag = "7")]
    pub acceptance_time: Option<i64>,
    /// Which reservation this is.
    #[prost(message, optional, tag = "8")]
    pub reservation_id: Option<ReservationId>,
}

/// What is reserved from one time to another.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceAllocationRequest {
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "1")]
    pub start_time: Option<i64>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "2")]
    pub end_time: Option<i64>,
    /// How much in all.
    #[prost(message, optional, tag = "3")]
    pub resource: Option<Resource>,
}

/// How the requests of a reservation belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ReservationRequestInterpreter {
    /// One of them will do.
    Any = 0,
    /// All are needed, at any times.
    All = 1,
    /// All are needed, one after the other.
    Order = 2,
    /// All are needed, one after the other without time between them.
    OrderNoGap = 3,
}
