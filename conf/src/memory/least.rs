//! The smallest total that suffices when one was too small, for the error message that asks the
//! user to raise it. This module must never name a total that the memory model refuses.

use super::{AMOUNT_MAX, MemoryError, share::listed};
use crate::{Opt, Options};
use model::MemorySize;

const MIB: u64 = 1 << 20;

/// A part, by option or by the prefix of its options.
type Part = (&'static str, MemorySize);

/// The memory model of a process.
pub(super) struct Least<M: 'static> {
    /// Option of the total, `….memory.process.size`.
    pub(super) process: &'static Opt<Option<MemorySize>>,
    /// The total without overhead.
    pub(super) flink: &'static Opt<Option<MemorySize>>,
    /// The model itself.
    pub(super) derive: fn(&Options) -> Result<M, MemoryError>,
    pub(super) total: fn(&M) -> MemorySize,
    pub(super) overhead: fn(&M) -> Part,
    /// All other parts.
    pub(super) parts: fn(&M) -> Vec<Part>,
    /// For the total of the given option: an amount up to which more memory always leaves more for
    /// the parts; just above it that need not hold. `None`: there is no such amount.
    pub(super) peak: fn(&Options, &str) -> Option<MemorySize>,
}

/// Adds the smallest total that suffices to `error`, if the error is that a total is too small.
pub(super) fn least<M>(options: &Options, error: MemoryError, model: &Least<M>) -> MemoryError {
    let MemoryError::TooLittle { option, given, parts, .. } = error else {
        return error;
    };
    let found = if option == model.process.key() {
        search(options, given, model.process, model)
            .map(|(size, memory)| (vec![(option, size)], memory))
    } else {
        search(options, given, model.flink, model)
            .map(|(size, memory)| (vec![(option, size)], memory))
            .or_else(|| both(options, given, model))
    };
    let Some((least, memory)) = found else {
        return MemoryError::TooLittle { option, given, parts, least: Vec::new() };
    };
    let mut parts = (model.parts)(&memory);
    if option == model.process.key() {
        parts.push((model.overhead)(&memory));
    }
    let sum: MemorySize = parts.iter().map(|(_, size)| *size).sum();
    let parts = format!("{}, together {sum}", listed(&parts));
    MemoryError::TooLittle { option, given, parts, least }
}

/// Finds the totals with and without overhead if the one that is set is too small for the other
/// one.
fn both<M>(options: &Options, given: MemorySize, model: &Least<M>) -> Option<(Vec<Part>, M)> {
    let alone = options.with_value(model.process, &None);
    let (flink, memory) = search(&alone, given, model.flink, model)?;
    let with = options.with_value(model.flink, &Some(flink));
    let whole = (model.total)(&memory).checked_sub((model.overhead)(&memory).1)?;
    let (process, memory) = search(&with, whole, model.process, model)?;
    Some((vec![(model.flink.key(), flink), (model.process.key(), process)], memory))
}

/// Finds the smallest value of `option` above `from` that the model accepts, in whole MiB if
/// possible.
fn search<M>(
    options: &Options,
    from: MemorySize,
    option: &'static Opt<Option<MemorySize>>,
    model: &Least<M>,
) -> Option<(MemorySize, M)> {
    let derive = |size| (model.derive)(&options.with_value(option, &Some(size)));
    let short = |size| match derive(size) {
        Err(MemoryError::TooLittle { option: short, .. }) => short == option.key(),
        _ => false,
    };
    let peak = (model.peak)(options, option.key()).filter(|peak| *peak > from);
    let mut below = from;
    for end in peak.into_iter().chain([AMOUNT_MAX]) {
        if short(end) {
            below = end;
            continue;
        }
        let exact = first(below, end, |size| !short(size));
        let rounded = MemorySize(exact.0.div_ceil(MIB).saturating_mul(MIB));
        let mut taken = [rounded, exact].into_iter();
        return taken.find_map(|size| derive(size).ok().map(|memory| (size, memory)));
    }
    None
}

/// Finds the first size above `below`, up to `end`, for which `enough` holds; `enough` must hold
/// for `end` and from the first one on.
pub(super) fn first(
    below: MemorySize,
    end: MemorySize,
    enough: impl Fn(MemorySize) -> bool,
) -> MemorySize {
    let (mut short, mut long) = (below.0, end.0);
    while long.saturating_sub(short) > 1 {
        let middle = short + (long - short) / 2;
        if enough(MemorySize(middle)) { long = middle } else { short = middle }
    }
    MemorySize(long)
}
