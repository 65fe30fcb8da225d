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

/// This thread's buffer, empty. A second one that is taken before it is given back is simply a new one.
pub(crate) fn take() -> Vec<u8> {
    SCRATCH.take()
}

/// Gives a buffer back, whatever is in it.
pub(crate) fn give(mut bytes: Vec<u8>) {
    if bytes.capacity() > 0 && bytes.capacity() <= KEEP_BYTES {
        bytes.clear();
        SCRATCH.set(bytes);
    }
}
