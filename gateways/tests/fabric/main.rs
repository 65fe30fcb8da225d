//! The fabric from outside: what callers, handlers and peers can rely on, failure by failure.

#![allow(missing_docs, unreachable_pub, reason = "a test binary has no users")]

mod fixture;
mod liveness;
mod local;
mod remote;
mod security;
mod transports;
