//! Errors that occur while values are encoded: `encode` cannot return an error, because nearly every type cannot fail. The writer of a
//! batch or a snapshot calls [`check_written`] at its end.

use super::{CodecError, FlottType, Reader};
use std::cell::Cell;

/// How deep boxes, lists and maps nest that are written of a type that contains itself. A reader takes [`Reader::MAX_DEPTH`]: the rest
/// is for the boxes, lists and maps of other types in the innermost value, whose number no value changes.
const DEEPEST: u32 = Reader::MAX_DEPTH - 20;

thread_local! {
    /// The first error on this thread since the last [`check_written`].
    static REFUSED: Cell<Option<CodecError>> = const { Cell::new(None) };
    /// How deep the value is that this thread is writing.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Notes that a value could not be encoded.
pub(super) fn refuse(error: CodecError) {
    REFUSED.set(REFUSED.get().or(Some(error)));
}

/// Checks that all values were encoded that this thread has written since the last check.
///
/// # Errors
/// The first error.
pub(crate) fn check_written() -> Result<(), CodecError> {
    REFUSED.take().map_or(Ok(()), Err)
}

/// Writes the contents of a box, list or map with elements of type `T`. Of a type that contains itself, values that a reader would
/// refuse are refused: a checkpoint that has one could not be restored.
#[inline]
pub(crate) fn nested<T: FlottType>(write: impl FnOnce()) {
    if !T::RECURSIVE {
        return write();
    }
    let depth = DEPTH.get();
    if depth >= DEEPEST {
        return refuse(CodecError::TooDeep);
    }
    DEPTH.set(depth + 1);
    write();
    DEPTH.set(depth);
}
