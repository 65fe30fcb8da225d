//! Reservations of resources for later. Only declarations belong here.

use super::applications::ReservationId;
use super::basics::{Priority, Resource};
use crate::proto::{enumerations, messages};

messages! {
    /// The request of `getNewReservation`, which asks for the id of a reservation (of resources for a later time) to submit. This library
    /// has no method for reservations; `YarnClient::call` sends the request.
    pub struct GetNewReservationRequest (Eq) {}

    /// The response to `getNewReservation`: an unused id, under which a reservation can be submitted. Nothing is reserved yet, and the id
    /// may stay unused.
    pub struct GetNewReservationResponse (Eq) {
        /// The new reservation's id, to submit with.
        optional message<ReservationId> reservation_id = 1;
    }

    /// The request of `submitReservation`, which reserves resources of a queue for a later time. The ResourceManager answers with an
    /// exception if they are not free in the wanted window of time. This library has no method for it; `YarnClient::call` sends it.
    pub struct ReservationSubmissionRequest (Eq) {
        /// The queue in which resources are reserved; it must be set up for reservations.
        optional string queue = 1;
        /// The amounts to reserve, and the window of time in which they are needed.
        optional message<ReservationDefinition> reservation_definition = 2;
        /// The id that `getNewReservation` gave.
        optional message<ReservationId> reservation_id = 3;
    }

    /// The definition of a reservation, as a user submits it: the amounts of resources, and the window of time (from
    /// `arrival` to `deadline`, in milliseconds since 1970) within which they are needed.
    pub struct ReservationDefinition (Eq) {
        /// The amounts to reserve, and how they belong together.
        optional message<ReservationRequests> reservation_requests = 1;
        /// The earliest time at which the reservation may begin, in milliseconds since 1970.
        optional int64 arrival = 2;
        /// The time by which the reservation must have ended, in milliseconds since 1970.
        optional int64 deadline = 3;
        /// Name of the reservation, for people; not unique.
        optional string reservation_name = 4;
        /// Milliseconds after which the reservation comes again, as text; `0` for never.
        optional string recurrence_expression = 5 [default = "0"];
        /// The priority: lower numbers count more. Reservations that come again count more than all that do not.
        optional message<Priority> priority = 6;
    }

    /// The requests of which a reservation consists, and whether all, any, or each in order must be met. Part of `ReservationDefinition`.
    pub struct ReservationRequests (Eq) {
        /// The requests; in order, where `interpreter` says so.
        repeated message<ReservationRequest> reservation_resources = 1;
        /// A [`ReservationRequestInterpreter`]: whether all requests must be met, or any, and in order.
        optional enumeration(ReservationRequestInterpreter) interpreter = 2 [default = "All"];
    }

    /// The containers of one size that a reservation needs: how many in all, at least how many at the same time, and for how many
    /// milliseconds (-1 if that is not set). Part of `ReservationRequests`.
    pub struct ReservationRequest (Eq) {
        /// The size of one container.
        optional message<Resource> capability = 1;
        /// Number of containers in all.
        optional int32 num_containers = 2 [default = "1"];
        /// Minimum number of containers that must run at the same time.
        optional int32 concurrency = 3 [default = "1"];
        /// Milliseconds that each container is needed for, within the reservation's window; -1 if it is not set.
        optional int64 duration = 4 [default = "-1"];
    }

    /// The response to `submitReservation`. It is empty: the reservation has been accepted. It comes from `YarnClient::call`; no method
    /// here reads it.
    pub struct ReservationSubmissionResponse (Eq) {}

    /// The request of `updateReservation`, which replaces the definition of a reservation; if the new one does not fit, the old one stays.
    /// This library has no method for it; `YarnClient::call` sends it.
    pub struct ReservationUpdateRequest (Eq) {
        /// The new definition, which replaces the old one.
        optional message<ReservationDefinition> reservation_definition = 1;
        /// The reservation to be replaced.
        optional message<ReservationId> reservation_id = 2;
    }

    /// The response to `updateReservation`. It is empty: the new definition has been accepted. It comes from `YarnClient::call`; no method
    /// here reads it.
    pub struct ReservationUpdateResponse (Eq) {}

    /// The request of `deleteReservation`, which gives a reservation's resources up. This library has no method for it; `YarnClient::call`
    /// sends it.
    pub struct ReservationDeleteRequest (Eq) {
        /// The reservation to be deleted.
        optional message<ReservationId> reservation_id = 1;
    }

    /// The response to `deleteReservation`. It is empty: the reservation is gone. It comes from `YarnClient::call`; no method here reads
    /// it.
    pub struct ReservationDeleteResponse (Eq) {}

    /// The request of `listReservations`, which lists the reservations of a queue that lie in a window of time. This library has no method
    /// for it; `YarnClient::call` sends it.
    pub struct ReservationListRequest (Eq) {
        /// The queue whose reservations are listed.
        optional string queue = 1;
        /// Selects this reservation only, in the spelling `reservation_…`; all if it is empty.
        optional string reservation_id = 3;
        /// Selects reservations that end at this time or after, in milliseconds since 1970.
        optional int64 start_time = 4;
        /// Selects reservations that begin at this time or before, in milliseconds since 1970; without a bound if it is
        /// negative.
        optional int64 end_time = 5;
        /// True if the answer is to say when each reservation has how much.
        optional bool include_resource_allocations = 6;
    }

    /// The response to `listReservations`: the reservations that the request selected; empty if there are none. It comes from
    /// `YarnClient::call`; no method here reads it.
    pub struct ReservationListResponse (Eq) {
        /// The selected reservations, in no order.
        repeated message<ReservationAllocationState> reservations = 1;
    }

    /// A reservation that was made: its definition, its times (milliseconds since 1970) and its user; the amounts at each time only if the
    /// request asked for them. Part of `ReservationListResponse`.
    pub struct ReservationAllocationState (Eq) {
        /// The reservation's definition as the user submitted it.
        optional message<ReservationDefinition> reservation_definition = 1;
        /// The amounts that the reservation has at each time; empty unless the request asked for them.
        repeated message<ResourceAllocationRequest> allocation_requests = 2;
        /// The time at which the reservation begins, in milliseconds since 1970.
        optional int64 start_time = 3;
        /// The time at which the reservation ends, in milliseconds since 1970.
        optional int64 end_time = 4;
        /// User that the reservation belongs to.
        optional string user = 5;
        /// True if some of the reservation's containers must run at the same time.
        optional bool contains_gangs = 6;
        /// The time at which the reservation was accepted, in milliseconds since 1970.
        optional int64 acceptance_time = 7;
        /// The reservation's id.
        optional message<ReservationId> reservation_id = 8;
    }

    /// The amount of resources that a reservation has in one interval of time (milliseconds since 1970). Part of a
    /// `ReservationAllocationState`: an answer of the ResourceManager, in spite of its name.
    pub struct ResourceAllocationRequest (Eq) {
        /// Begin of the interval, in milliseconds since 1970.
        optional int64 start_time = 1;
        /// End of the interval, in milliseconds since 1970.
        optional int64 end_time = 2;
        /// The amount that is reserved in the interval.
        optional message<Resource> resource = 3;
    }
}

enumerations! {
    /// The way in which the requests of a reservation belong together: which of them must be met, and in what order. A field of
    /// `ReservationRequests` holds its number.
    pub enum ReservationRequestInterpreter {
        /// One of the requests must be met; which one does not matter.
        Any = 0,
        /// All requests must be met, at any times.
        All = 1,
        /// All requests must be met, one after the other.
        Order = 2,
        /// All requests must be met, one after the other without time between them.
        OrderNoGap = 3,
    }
}
