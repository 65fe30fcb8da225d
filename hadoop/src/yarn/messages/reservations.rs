//! Reservations of resources for later. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::basics::{Priority, Resource};

/// A reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ReservationId {
    #[prost(int64, optional, tag = "1")]
    pub id: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub cluster_timestamp: Option<i64>,
}

/// The request of `getNewReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewReservationRequest {}

/// The response to `getNewReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewReservationResponse {
    #[prost(message, optional, tag = "1")]
    pub reservation_id: Option<ReservationId>,
}

/// The request of `submitReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationSubmissionRequest {
    #[prost(string, optional, tag = "1")]
    pub queue: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub reservation_definition: Option<ReservationDefinition>,
    #[prost(message, optional, tag = "3")]
    pub reservation_id: Option<ReservationId>,
}

/// What is reserved, and when.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationDefinition {
    #[prost(message, optional, tag = "1")]
    pub reservation_requests: Option<ReservationRequests>,
    /// The earliest time, in milliseconds since 1970.
    #[prost(int64, optional, tag = "2")]
    pub arrival: Option<i64>,
    /// The latest time, in milliseconds since 1970.
    #[prost(int64, optional, tag = "3")]
    pub deadline: Option<i64>,
    #[prost(string, optional, tag = "4")]
    pub reservation_name: Option<String>,
    /// Milliseconds after which it comes again; 0 for never.
    #[prost(string, optional, tag = "5", default = "0")]
    pub recurrence_expression: Option<String>,
    #[prost(message, optional, tag = "6")]
    pub priority: Option<Priority>,
}

/// Requests of a reservation, and how they belong together.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationRequests {
    #[prost(message, repeated, tag = "1")]
    pub reservation_resources: Vec<ReservationRequest>,
    #[prost(enumeration = "ReservationRequestInterpreter", optional, tag = "2", default = "All")]
    pub interpreter: Option<i32>,
}

/// An amount to be reserved for some time.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationRequest {
    #[prost(message, optional, tag = "1")]
    pub capability: Option<Resource>,
    #[prost(int32, optional, tag = "2", default = "1")]
    pub num_containers: Option<i32>,
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
    #[prost(message, optional, tag = "1")]
    pub reservation_definition: Option<ReservationDefinition>,
    #[prost(message, optional, tag = "2")]
    pub reservation_id: Option<ReservationId>,
}

/// The response to `updateReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationUpdateResponse {}

/// The request of `deleteReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationDeleteRequest {
    #[prost(message, optional, tag = "1")]
    pub reservation_id: Option<ReservationId>,
}

/// The response to `deleteReservation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationDeleteResponse {}

/// The request of `listReservations`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationListRequest {
    #[prost(string, optional, tag = "1")]
    pub queue: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub reservation_id: Option<String>,
    #[prost(int64, optional, tag = "4")]
    pub start_time: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub end_time: Option<i64>,
    #[prost(bool, optional, tag = "6")]
    pub include_resource_allocations: Option<bool>,
}

/// The response to `listReservations`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationListResponse {
    #[prost(message, repeated, tag = "1")]
    pub reservations: Vec<ReservationAllocationState>,
}

/// A reservation that was made.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReservationAllocationState {
    #[prost(message, optional, tag = "1")]
    pub reservation_definition: Option<ReservationDefinition>,
    #[prost(message, repeated, tag = "2")]
    pub allocation_requests: Vec<ResourceAllocationRequest>,
    #[prost(int64, optional, tag = "3")]
    pub start_time: Option<i64>,
    #[prost(int64, optional, tag = "4")]
    pub end_time: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub user: Option<String>,
    #[prost(bool, optional, tag = "6")]
    pub contains_gangs: Option<bool>,
    #[prost(int64, optional, tag = "7")]
    pub acceptance_time: Option<i64>,
    #[prost(message, optional, tag = "8")]
    pub reservation_id: Option<ReservationId>,
}

/// What is reserved from one time to another.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceAllocationRequest {
    #[prost(int64, optional, tag = "1")]
    pub start_time: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub end_time: Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub resource: Option<Resource>,
}

/// How the requests of a reservation belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ReservationRequestInterpreter {
    Any = 0,
    All = 1,
    Order = 2,
    OrderNoGap = 3,
}
