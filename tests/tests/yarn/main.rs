//! Applications on YARN, submitted by hand as the client does it, against the daemons of `cargo xtask yarn`.
//! `cargo xtask test` runs it. By hand:
//!
//! ```text
//! eval "$(cargo xtask yarn up | tail -1)"
//! cargo test -p tests --test yarn -- --ignored --test-threads 1
//! cargo xtask yarn down
//! ```

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod application;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod elastic;
mod input;
mod kills;
mod logs;
mod memory;
mod output;
mod runs;
mod token;
