//! The allocator that knows what each thread holds, and the most it held since it was asked.
//!
//! The only module with `unsafe` in this crate. It must never allocate, lock or panic.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe by its interface; it hands everything on to the system's"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
};

/// A single request of this size ends the process: no decoder has a reason for it, and the machine is
/// spared. The parent then says which cases were under way.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 30;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting.
pub(crate) struct Counting;

/// Runs `work` and says by how many bytes this thread's memory grew at most meanwhile.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get().saturating_sub(before))
}

fn grew(bytes: usize) {
    // A thread that is ending has no counters any more, and nobody asks for them.
    let _ = HELD.try_with(|held| {
        // Memory can be freed by another thread than the one that took it: both may be off, never wrap.
        held.set(held.get().saturating_add(bytes));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

fn shrank(bytes: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(bytes)));
}

// SAFETY: every request goes to `System` with the layout that the caller vouches for, and what `System`
// answers is answered; a request that is refused is answered with null, which the trait allows. The
// counters are thread-local cells without destructors: touching them neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REQUEST_BYTES_MAX {
            return ptr::null_mut();
        }
        grew(layout.size());
        // SAFETY: the caller vouches for `layout`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: the caller vouches that `block` came from here, hence from `System`, with `layout`.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REQUEST_BYTES_MAX {
            return ptr::null_mut();
        }
        grew(layout.size());
        // SAFETY: the caller vouches for `layout`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > REQUEST_BYTES_MAX {
            return ptr::null_mut();
        }
        grew(size);
        // SAFETY: the caller vouches that `block` came from here with `layout`, and for `size`.
        let moved = unsafe { System.realloc(block, layout, size) };
        shrank(if moved.is_null() { size } else { layout.size() });
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_held_at_once() {
        let (_, peak) = peak_of(|| {
            drop(vec![0_u8; 1 << 20]);
            drop(vec![0_u8; 1 << 20]);
        });
        assert!((1 << 20..2 << 20).contains(&peak), "{peak}");
    }

    #[test]
    fn a_monstrous_request_is_refused() {
        let mut all: Vec<u8> = Vec::new();
        assert!(all.try_reserve_exact(REQUEST_BYTES_MAX + 1).is_err());
    }
}
