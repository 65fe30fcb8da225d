//! One buffer per thread in which messages are encoded before they are queued, so that a call costs no
//! allocation for it.
//!
//! Must never keep a large one.

use std::cell::RefCell;

/// A buffer that has grown beyond this is not kept.
const KEEP_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Takes this thread's buffer, empty. If it is taken already, returns a new one.
pub(crate) fn take() -> Vec<u8> {
    SCRATCH.with_borrow_mut(std::mem::take)
}

/// Takes this thread's buffer, empty, if it has not grown beyond that number of bytes; otherwise
/// returns a new one.
pub(crate) fn take_up_to(bytes: usize) -> Vec<u8> {
    let buffer = take();
    if buffer.capacity() <= bytes {
        return buffer;
    }
    give(buffer);
    Vec::new()
}

/// Gives a buffer back, whatever is in it.
pub(crate) fn give(mut bytes: Vec<u8>) {
    if bytes.capacity() > 0 && bytes.capacity() <= KEEP_BYTES {
        bytes.clear();
        SCRATCH.with_borrow_mut(|kept| *kept = bytes);
    }
}
