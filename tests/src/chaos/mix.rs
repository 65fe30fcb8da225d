//! The job mix of a run, drawn from its seed: what the job reads, and what it must have committed in the end.
//!
//! A pure function of the seed, used by the program `chaos_job`, which runs the mix on Flott, and by the campaign, which
//! computes the result without Flott. The result must not depend on the order in which records arrive.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Event time from one reading to the next, in milliseconds.
const READING_MS: i64 = 10;
/// Event time from one click to the next, in milliseconds.
const CLICK_MS: i64 = 100;
/// Length in milliseconds of the windows that clicks are counted in.
pub const CLICK_WINDOW_MS: i64 = 1_000;
/// Milliseconds of event time by which a late click is behind the click before it. Its window has
/// ended by then.
const LATE_BY_MS: i64 = 5_000;
/// Limits are below this number, readings below twice of it.
const LIMIT_MAX: u64 = 500;

/// The shape of a chaos run's job, drawn from a seed: how much data its sources have and how it is keyed and windowed. From it follow all
/// records and all lines that the job has to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// The seed of which the shape and all records are drawn.
    pub seed: u64,
    /// Subtasks of every operator, except the sources of limits and clicks, which have one.
    pub parallelism: u32,
    /// Number of splits of the readings.
    pub splits: u64,
    /// Number of readings in each split.
    pub per_split: u64,
    /// Number of keys of all three kinds of records, from 0 on.
    pub keys: u64,
    /// Length in milliseconds (event time) of the windows over readings.
    pub window_ms: i64,
    /// Number of limits, the records of the broadcast stream.
    pub limits: u64,
    /// Number of clicks; some are followed by a late one.
    pub clicks: u64,
    /// Every so many-th click is followed by a late one, except near the beginning: see [`Mix::late_click`].
    pub late_every: u64,
}

/// A record of one of the sources: a reading, a limit or a click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Event time in milliseconds since 1970.
    pub at_ms: i64,
    /// Number of the record among those of its kind, from 0 on; a late click has the number of the click that it follows.
    pub id: u64,
    /// Key of the record, below [`Mix::keys`].
    pub key: u64,
    /// The number that is added up and compared (reading) or compared with (limit); 0 for a click.
    pub value: u64,
}

impl Mix {
    /// Draws the shape of a run's job from its seed: the same for the same seed.
    pub fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let clicks = random.random_range(120..200);
        Self {
            seed,
            parallelism: random.random_range(2..4),
            splits: random.random_range(40..60),
            per_split: random.random_range(60..100),
            keys: random.random_range(5..40),
            window_ms: random.random_range(3..20) * 100,
            limits: random.random_range(40..120),
            clicks,
            late_every: random.random_range(3..9),
        }
    }

    /// Returns the number of readings in all splits.
    pub fn readings(&self) -> u64 {
        self.splits * self.per_split
    }

    /// Returns the reading number `id`, from 0 on. Its event time is `id` times 10 ms.
    pub fn reading(&self, id: u64) -> Fact {
        let drawn = mixed(self.seed, 1, id);
        let at_ms = ms(id) * READING_MS;
        Fact { at_ms, id, key: drawn % self.keys, value: (drawn >> 32) % (2 * LIMIT_MAX) }
    }

    /// Returns the limit number `id`, from 0 on, which holds for its key from its time on. Limits' times are spread over those of the
    /// readings, and do not fall with the numbers.
    pub fn limit(&self, id: u64) -> Fact {
        let drawn = mixed(self.seed, 2, id);
        let at_ms = ms(id * self.readings() / self.limits.max(1)) * READING_MS;
        Fact { at_ms, id, key: drawn % self.keys, value: (drawn >> 32) % LIMIT_MAX }
    }

    /// Returns the click number `id`, from 0 on. Its event time is `id` times 100 ms.
    pub fn click(&self, id: u64) -> Fact {
        let drawn = mixed(self.seed, 3, id);
        Fact { at_ms: ms(id) * CLICK_MS, id, key: drawn % self.keys, value: 0 }
    }

    /// Returns the late click that follows the click `id`, 5 s of event time earlier; `None` unless `id` is a multiple of `late_every` and
    /// the click is later than 10 s. Its window has ended when the watermark has reached the time of the click `id`.
    pub fn late_click(&self, id: u64) -> Option<Fact> {
        let click = self.click(id);
        let is_late = click.at_ms > 2 * LATE_BY_MS && id.is_multiple_of(self.late_every.max(1));
        is_late.then(|| Fact { at_ms: click.at_ms - LATE_BY_MS, ..click })
    }

    /// Computes, without Flott, all lines that the job has to commit by its end, sorted; none of them is there twice.
    pub fn expected(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut limits: BTreeMap<(u64, i64), u64> = BTreeMap::new();
        for limit in (0..self.limits).map(|id| self.limit(id)) {
            limits.insert((limit.key, limit.at_ms), limit.value);
        }
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        let mut windows: BTreeMap<(u64, i64), u64> = BTreeMap::new();
        for reading in (0..self.readings()).map(|id| self.reading(id)) {
            let Fact { at_ms, id, key, value } = reading;
            lines.push(line("reading", [id, key, value]));
            *sums.entry(key).or_default() += value;
            *windows.entry((key, at_ms / self.window_ms)).or_default() += value;
            let until_then = (key, i64::MIN)..=(key, at_ms);
            match limits.range(until_then).next_back() {
                Some((_, limit)) if value > *limit => lines.push(line("above", [id, key, *limit])),
                _ => {}
            }
        }
        lines.extend(sums.into_iter().map(|(key, sum)| line("sum", [key, sum])));
        let of_window =
            |((key, window), sum): ((u64, i64), u64)| line("window", [key, at(window), sum]);
        lines.extend(windows.into_iter().map(of_window));
        let mut counts: BTreeMap<(u64, i64), u64> = BTreeMap::new();
        for id in 0..self.clicks {
            let click = self.click(id);
            *counts.entry((click.key, click.at_ms / CLICK_WINDOW_MS)).or_default() += 1;
            lines.extend(
                self.late_click(id).map(|late| line("late", [late.id, late.key, at(late.at_ms)])),
            );
        }
        let of_count = |((key, window), n): ((u64, i64), u64)| line("clicks", [key, at(window), n]);
        lines.extend(counts.into_iter().map(of_count));
        lines.sort();
        lines
    }
}

/// Makes a line of the job's result: what it is, such as `sum`, and numbers, with blanks between them.
pub fn line<const N: usize>(what: &str, numbers: [u64; N]) -> String {
    let numbers = numbers.map(|number| number.to_string()).join(" ");
    format!("{what} {numbers}")
}

/// Returns an event time, or the number of a window, as a number of a `line`; 0 for a negative one, which there is not.
pub fn at(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn ms(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a number that looks random, the same for the same arguments (splitmix64).
fn mixed(seed: u64, source: u64, id: u64) -> u64 {
    let mut z = (seed ^ (source << 56))
        .wrapping_add(id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_has_every_kind_of_line_and_no_line_twice() {
        for seed in 0..50 {
            let lines = Mix::of(seed).expected();
            for what in ["reading ", "above ", "sum ", "window ", "late ", "clicks "] {
                assert!(
                    lines.iter().any(|line| line.starts_with(what)),
                    "seed {seed}: no '{what}'"
                );
            }
            assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}");
        }
    }
}
