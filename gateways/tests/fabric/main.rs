//! The fabric from outside: what callers, handlers and peers can rely on, failure by failure.

#![allow(missing_docs, unreachable_pub, reason = "a test binary has no users")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod delivery;
mod fixture;
mod lanes;
mod large;
mod liveness;
mod local;
mod remote;
mod security;
mod transports;
