//! The part that precedes the state in the snapshot of a function with timers; `STATE-FORMAT.md`
//! has the bytes.

use super::{KeyedOperator, KeyedProcessFunction};
use crate::{
    operators::{KeySelector, OperatorContext, broadcast::OTHER_VERSION, timers::Timers},
    seam::TaskError,
    state::StateBackend,
    types::{CodecError, Key, Reader, check_written, write_len, write_zigzag},
};

impl<T, S, F, B> KeyedOperator<T, S, F, B>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    /// Restores the snapshots in these bytes: timers, watermark and state. The watermark is the least of all that are restored.
    pub(super) fn restore(
        &mut self,
        snapshots: &[u8],
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let wrong = |error| context.codec_error(error);
        let mut input = Reader::new(snapshots);
        loop {
            let (state, mut timers) = parts_of(&mut input).map_err(wrong)?;
            match state {
                Some(state) => {
                    let mut state = Reader::new(state);
                    self.resident.restore(&mut state, context)?;
                    state.finish().map_err(wrong)?;
                }
                None => self.resident.restore(&mut input, context)?,
            }
            self.timers.read(&mut timers, self.resident.groups()).map_err(wrong)?;
            if timers.remaining() > 0 {
                let watermark = timers.zigzag().map_err(wrong)?;
                self.watermark = match self.watermark {
                    i64::MIN => watermark,
                    _ if watermark == i64::MIN => self.watermark,
                    least => least.min(watermark),
                };
                let beside = timers.take(timers.remaining()).map_err(wrong)?;
                if !beside.is_empty() {
                    self.beside = beside.to_vec();
                }
            }
            if input.remaining() == 0 {
                return Ok(());
            }
        }
    }
}

/// The most timers that are written at the barrier, which is less work than the smallest slice. More of them are written while
/// records come.
pub(super) const WRITTEN_AT_ONCE: usize = 1_024;

/// Appends what [`parts_of`] expects before the state: encoded timers, with the watermark behind them if there is one.
pub(super) fn write_timers(timers: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    write_len(timers.len(), out);
    out.extend_from_slice(timers);
}

/// Returns the beginning of a snapshot with these timers, or with none, and what is `beside` the state. `watermark` is `i64::MIN`
/// before the first one.
pub(super) fn before_state<K: Key>(
    timers: Option<&Timers<K>>,
    watermark: i64,
    beside: &[u8],
    context: &OperatorContext,
) -> Result<Vec<u8>, TaskError> {
    let (mut written, mut bytes) = (Vec::new(), Vec::new());
    match timers {
        Some(timers) => timers.write(&mut written),
        None => Timers::<K>::default().write(&mut written),
    }
    if watermark > i64::MIN || !beside.is_empty() {
        write_zigzag(watermark, &mut written);
        written.extend_from_slice(beside);
    }
    check_written().map_err(|error| context.codec_error(error))?;
    write_timers(&written, &mut bytes);
    Ok(bytes)
}

/// Returns what precedes the state in the first chunk of a snapshot, and in the others. Takes what is to be written beside the state.
pub(super) fn heads<K: Key>(
    timers: Option<&Timers<K>>,
    watermark: i64,
    beside: &mut Vec<u8>,
    context: &OperatorContext,
) -> Result<(Vec<u8>, Vec<u8>), TaskError> {
    let first = before_state(timers, watermark, &std::mem::take(beside), context)?;
    Ok((first, before_state::<K>(None, i64::MIN, &[], context)?))
}

/// Reads what precedes the state in a snapshot, and returns a reader of the timers and the watermark. A snapshot is a byte 0, the timers,
/// which a varint length precedes, and the state, at which the input stands then. Before, it was the state, which its length (never 0)
/// precedes, and the timers up to the end; the state is returned then.
pub(in crate::operators) fn parts_of<'a>(
    input: &mut Reader<'a>,
) -> Result<(Option<&'a [u8]>, Reader<'a>), CodecError> {
    let length = input.count()?;
    if length == 1 {
        // No state is so short.
        return Err(CodecError::Invalid { what: OTHER_VERSION });
    }
    let state = if length > 0 { Some(input.take(length)?) } else { None };
    let length = if length > 0 { input.remaining() } else { input.count()? };
    Ok((state, Reader::new(input.take(length)?)))
}
