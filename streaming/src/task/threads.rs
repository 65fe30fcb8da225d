//! Starts the threads that run user code: of subtasks, builds and coordinators, each with a name and a stack size. No other code
//! in this crate may start a thread.

use std::{io, thread::JoinHandle};

/// Default stack size in bytes, 1 MiB, of the threads of tasks. The host gives more to those that build a program (2 or 4 MiB) and to those
/// of coordinators (4 MiB). Only pages that are touched become resident. Code that needs more aborts the process.
pub const STACK_BYTES: usize = 1 << 20;

/// Starts a thread with that name and a stack of `stack_bytes`, which calls `run` once. Zero bytes in the name become spaces. When the
/// thread ends, the program's allocator adds what it has counted of the thread to the memory accounts.
///
/// # Errors
/// Returns the system's error if it cannot create another thread.
pub fn spawn(
    name: &str,
    stack_bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        // The standard library panics on a name with a zero byte.
        .name(name.replace('\0', " "))
        .stack_size(stack_bytes)
        .spawn(run)
}
