//! The arithmetic that memory models share: totals that are split, parts with bounds, amounts in
//! parts.

use super::{AMOUNT_MAX, MemoryError};
use crate::{Opt, Options, taskmanager_memory as tm};
use model::MemorySize;

/// A total that was set, by option and amount.
#[derive(Clone, Copy)]
pub(super) struct Whole(pub(super) &'static str, pub(super) MemorySize);

pub(super) type Parts<'a> = &'a [(&'static str, MemorySize)];

impl Whole {
    /// Returns the part of `total` that `parts` leave. An error means that they exceed it.
    pub(super) fn rest(
        self,
        total: MemorySize,
        parts: Parts<'_>,
    ) -> Result<MemorySize, MemoryError> {
        let needed: MemorySize = parts.iter().map(|(_, size)| *size).sum();
        total.checked_sub(needed).ok_or_else(|| self.too_little(parts))
    }
    pub(super) fn too_little(self, parts: Parts<'_>) -> MemoryError {
        let (option, given) = (self.0, self.1);
        MemoryError::TooLittle { option, given, parts: listed(parts), least: Vec::new() }
    }
    pub(super) fn with(self, parts: Parts<'_>) -> String {
        format!("{} {}, {}", self.0, self.1, listed(parts))
    }
}

pub(super) fn listed(parts: Parts<'_>) -> String {
    let part = |(name, size): &(&str, MemorySize)| format!("{name} {size}");
    let parts = parts.iter().filter(|(_, size)| size.0 > 0);
    parts.map(part).collect::<Vec<_>>().join(", ")
}

/// A part that is a fraction of its whole, within bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// The prefix of its options.
    pub(super) part: &'static str,
    pub(super) min: MemorySize,
    max: MemorySize,
    pub(super) fraction: f64,
}

/// The options of an overhead.
pub(super) struct OverheadOptions {
    pub(super) part: &'static str,
    pub(super) min: &'static Opt<MemorySize>,
    pub(super) max: &'static Opt<MemorySize>,
    pub(super) fraction: &'static Opt<f64>,
}
impl Share {
    pub(super) fn overhead(of: &OverheadOptions, options: &Options) -> Result<Self, MemoryError> {
        Self {
            part: of.part,
            min: checked(of.min.key(), options.get(of.min))?,
            max: checked(of.max.key(), options.get(of.max))?,
            fraction: options.get(of.fraction),
        }
        .not_empty()
    }
    pub(super) fn network(options: &Options) -> Result<Self, MemoryError> {
        let (min, max) = (options.get(&tm::NETWORK_MIN), options.get(&tm::NETWORK_MAX));
        Self {
            part: "taskmanager.memory.network",
            min: checked(tm::NETWORK_MIN.key(), min)?,
            max: max.unwrap_or(AMOUNT_MAX).min(AMOUNT_MAX),
            fraction: options.get(&tm::NETWORK_FRACTION),
        }
        .not_empty()
    }
    pub(super) fn not_empty(self) -> Result<Self, MemoryError> {
        let Self { part, min, max, .. } = self;
        match min <= max {
            true => Ok(self),
            false => Err(MemoryError::EmptyRange { part, min, max }),
        }
    }
    pub(super) fn contains(&self, size: MemorySize) -> bool {
        self.min <= size && size <= self.max
    }
    pub(super) fn bounded(&self, size: MemorySize) -> MemorySize {
        size.max(self.min).min(self.max)
    }
    /// Returns the share of a whole that includes it, within the share's bounds.
    pub(super) fn of(&self, whole: MemorySize) -> MemorySize {
        self.bounded(times(whole, self.fraction))
    }
    /// Returns the share that, added to `rest`, is its fraction of both together, within the
    /// share's bounds.
    pub(super) fn on_top_of(&self, rest: MemorySize) -> MemorySize {
        self.bounded(times(rest, self.fraction / (1.0 - self.fraction)))
    }
    /// Returns the part of `total` that `parts` leave, if it is within the share's bounds.
    pub(super) fn rest(
        &self,
        whole: Whole,
        total: MemorySize,
        parts: Parts<'_>,
    ) -> Result<MemorySize, MemoryError> {
        let rest = whole.rest(total, parts)?;
        let Self { part, min, max, .. } = *self;
        if rest < min {
            return Err(whole.too_little(&[parts, &[(part, min)]].concat()));
        }
        match self.contains(rest) {
            true => Ok(rest),
            false => {
                Err(MemoryError::OutOfRange { settings: whole.with(parts), rest, part, min, max })
            }
        }
    }
    /// Beside `without`: the rest of the process where that is set.
    pub(super) fn beside(
        &self,
        without: MemorySize,
        process: Option<MemorySize>,
        key: &'static str,
    ) -> Result<MemorySize, MemoryError> {
        let Some(process) = process else {
            return Ok(self.on_top_of(without));
        };
        self.rest(Whole(key, process), process, &[("the parts that are set", without)])
    }
}

pub(super) fn times(size: MemorySize, factor: f64) -> MemorySize {
    MemorySize((size.0 as f64 * factor) as u64)
}

pub(super) fn checked(option: &'static str, given: MemorySize) -> Result<MemorySize, MemoryError> {
    match given <= AMOUNT_MAX {
        true => Ok(given),
        false => Err(MemoryError::TooMuch { option, given }),
    }
}

pub(super) fn size(
    options: &Options,
    option: &'static Opt<Option<MemorySize>>,
) -> Result<Option<MemorySize>, MemoryError> {
    let given = options.get(option);
    given.map(|size| checked(option.key(), size)).transpose()
}

pub(super) fn explicit_process(
    options: &Options,
    option: &'static Opt<Option<MemorySize>>,
    limit: Option<MemorySize>,
) -> Result<Option<MemorySize>, MemoryError> {
    if !options.is_set(option) {
        return Ok(None);
    }
    let given = size(options, option)?;
    match (given, limit) {
        (Some(given), Some(limit)) if given > limit => {
            Err(MemoryError::AboveLimit { option: option.key(), given, limit })
        }
        _ => Ok(given),
    }
}

/// An amount that can be set in whole, or in Flink's two parts.
pub(super) fn whole_or_parts(
    options: &Options,
    whole: &'static Opt<Option<MemorySize>>,
    parts: &[&'static Opt<Option<MemorySize>>],
) -> Result<Option<MemorySize>, MemoryError> {
    let mut sum = None;
    for part in parts {
        if let Some(part) = size(options, part)? {
            sum = Some(sum.unwrap_or_default() + part);
        }
    }
    let explicit = if options.is_set(whole) { size(options, whole)? } else { None };
    match (explicit, sum) {
        (Some(amount), Some(sum)) if amount != sum => Err(MemoryError::Contradiction {
            option: whole.key(),
            whole: amount,
            parts: parts.iter().map(|p| p.key()).collect::<Vec<_>>().join(" and "),
            sum,
        }),
        (explicit, sum) => Ok(explicit.or(sum)),
    }
}
