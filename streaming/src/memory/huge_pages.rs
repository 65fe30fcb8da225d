//! Transparent huge pages: a program starts without them, and gets them when it holds much memory. The allocator calls `allow`, which must
//! never allocate, panic or take a lock of ours.
//!
//! The kernel fills a huge page of 2 MiB with zeros when its first byte is written, and mimalloc asks for huge pages and gives each thread
//! regions of its own. With them, the host of a job with 256 tasks that held 33 MiB had 282 MiB resident, and a third of the time until its
//! tasks ran went into zeros (`benches/RESULTS.md`, *Deploy*). A table of many megabytes is another matter: with pages of 4 KiB its
//! addresses do not fit into the processor's address cache, and each access waits for two loads in place of one.
//!
//! The switch is one of the whole process, and its children inherit it. A program host is told so ([`INHERITED_VARIABLE`]); another
//! program that user code starts keeps the switch as it was then.

use nix::sys::prctl;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes that one task must hold for its process to get huge pages, 4 MiB. The second level of a core's address cache has some 1,500 to
/// 2,000 entries (Intel since Skylake, AMD since Zen 2), which reach 6 to 8 MiB with pages of 4 KiB; the next doubling of a table of 4 MiB
/// exceeds that.
pub(super) const OF_A_TASK: i64 = 4 << 20;
/// The bytes that the whole program must hold for that, 128 MiB, where no task is large: many tasks together, or threads of user code.
pub(super) const OF_THE_PROGRAM: i64 = 128 << 20;

/// The name of the environment variable of a program host whose parent is a program without huge pages for the time being. Any value has
/// the same effect: the switch that the host has inherited is nobody's decision, and the host gets huge pages as other programs do.
pub const INHERITED_VARIABLE: &str = "FLOTT_HOST_SMALL_PAGES";

/// True while the process has no huge pages because of [`start_without`].
static WITHOUT: AtomicBool = AtomicBool::new(false);

/// Makes the process start without huge pages: it gets them when one of its tasks holds 4 MiB, or the program 128 MiB, as counted by
/// [`Counting`](super::allocator::Counting), which looks whenever a thread has allocated another 64 KiB. Does nothing where the kernel
/// refuses the call, and if the switch was off already, unless [`INHERITED_VARIABLE`] is set: whoever has started the process wants
/// no huge pages then. To be called once, before the program allocates much.
pub fn start_without() {
    let inherited = std::env::var_os(INHERITED_VARIABLE).is_some();
    let is_without = match prctl::get_thp_disable() {
        Ok(true) => inherited,
        Ok(false) => prctl::set_thp_disable(true).is_ok(),
        Err(_) => false,
    };
    WITHOUT.store(is_without, Ordering::Relaxed);
}

/// Returns true while the process has no huge pages because of [`start_without`], so that a child process would begin like that too.
pub fn are_off_for_now() -> bool {
    WITHOUT.load(Ordering::Relaxed)
}

/// Switches huge pages on for the process, if [`start_without`] has switched them off; has an effect once. What is in small pages
/// stays there until the kernel's own thread merges it, some 16 MiB in ten seconds at most by default.
#[cold]
pub(super) fn allow() {
    // Read first: threads of large tasks come here all the time, and a write would take the line from the others.
    if WITHOUT.load(Ordering::Relaxed) && WITHOUT.swap(false, Ordering::Relaxed) {
        // Where the kernel refuses, the program goes on as it is: slower, not wrong.
        let _ = prctl::set_thp_disable(false);
    }
}
