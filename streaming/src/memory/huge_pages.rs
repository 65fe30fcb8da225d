//! Transparent huge pages: a program starts without them, and gets them when a task holds much memory. Nothing here may allocate, lock or
//! panic, because the allocator calls it.
//!
//! The kernel fills a huge page of 2 MiB with zeros when its first byte is written, and mimalloc asks for huge pages and gives each thread
//! regions of its own. With them, the host of a job with 256 tasks that held 33 MiB had 282 MiB resident, and a third of the time until its
//! tasks ran went into zeros (`benches/RESULTS.md`, *Deploy*). A table of many megabytes is another matter: with pages of 4 KiB its
//! addresses do not fit into the processor's address cache, and each access waits for two loads in place of one.

use nix::sys::prctl;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes that one task must hold for its process to get huge pages, 4 MiB. The second level of a core's address cache has some 1,500 to
/// 2,000 entries (Intel since Skylake, AMD since Zen 2), which reach 6 to 8 MiB with pages of 4 KiB, and a table that grows has its final
/// size after the next step.
pub(super) const OF_A_TASK: i64 = 4 << 20;
/// The same for what belongs to no task, 64 MiB: it is spread over many threads.
pub(super) const OF_NO_TASK: i64 = 64 << 20;

/// True while the process has no huge pages because of [`start_without`].
static WITHOUT: AtomicBool = AtomicBool::new(false);

/// Makes the process start without huge pages: it gets them when one of its tasks holds 4 MiB, or 64 MiB are held outside of tasks, as
/// counted by [`Counting`](super::allocator::Counting). Does nothing in a process that was started without them for good, and
/// where the kernel has none. To be called once, before the program allocates much.
pub fn start_without() {
    if prctl::get_thp_disable() == Ok(false) && prctl::set_thp_disable(true).is_ok() {
        WITHOUT.store(true, Ordering::Relaxed);
    }
}

/// Ends what [`start_without`] began. What is in small pages stays there.
#[cold]
pub(super) fn allow() {
    // Read first: threads of large tasks come here all the time, and a write would take the line from the others.
    if WITHOUT.load(Ordering::Relaxed) && WITHOUT.swap(false, Ordering::Relaxed) {
        // Where the kernel refuses, the program goes on as it is: slower, not wrong.
        let _ = prctl::set_thp_disable(false);
    }
}
