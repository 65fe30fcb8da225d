//! What precedes the state in the snapshot of a function with timers; `STATE-FORMAT.md` has the bytes.

use crate::{
    operators::{OperatorContext, timers::Timers},
    seam::TaskError,
    types::{CodecError, Key, Reader, check_written, write_len},
};

/// Returns the beginning of a snapshot with these timers: what [`parts_of`] expects before the state.
pub(super) fn before_state<K: Key>(
    timers: &Timers<K>,
    context: &OperatorContext,
) -> Result<Vec<u8>, TaskError> {
    let (mut written, mut bytes) = (Vec::new(), vec![0]);
    timers.write(&mut written);
    check_written().map_err(|error| context.codec_error(error))?;
    write_len(written.len(), &mut bytes);
    bytes.append(&mut written);
    Ok(bytes)
}

/// Reads what precedes the state in a snapshot, and returns a reader of the timers. A snapshot is a byte 0, the timers, which a
/// varint length precedes, and the state, at which the input stands then. Before, it was the state, which its length (never 0)
/// precedes, and the timers up to the end; the state is returned then.
pub(in crate::operators) fn parts_of<'a>(
    input: &mut Reader<'a>,
) -> Result<(Option<&'a [u8]>, Reader<'a>), CodecError> {
    let length = input.count()?;
    let state = if length > 0 { Some(input.take(length)?) } else { None };
    let length = if length > 0 { input.remaining() } else { input.count()? };
    Ok((state, Reader::new(input.take(length)?)))
}
