//! The one place where threads that run user code start: subtasks, builds, coordinators. Each has a name and a
//! stack of its own; nothing else in this crate may start a thread.

use std::{io, thread::JoinHandle};

/// Stack of a task thread. Only what is touched is ever resident.
pub const STACK_BYTES: usize = 1 << 20;

/// Starts a named thread.
///
/// # Errors
/// When the system has no room for another thread.
pub fn spawn(
    name: &str,
    stack_bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        // A zero byte in a name is refused by the system by panicking.
        .name(name.replace('\0', " "))
        .stack_size(stack_bytes)
        .spawn(run)
}
