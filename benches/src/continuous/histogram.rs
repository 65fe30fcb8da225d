//! Durations by how often they occurred, exact to one part in 128, in a table of constant size.

use anyhow::{Context, Result};
use std::fmt::Write;

/// Steps between a power of two and the next one.
const STEPS: u64 = 128;

/// Counts of durations, exact to one part in 128 above 128 ns, in a table of constant size (64 KiB). The durations themselves are not kept.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// Counts of the values, by power of two and step within it.
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 64 * STEPS as usize] }
    }
}

fn place(ns: u64) -> usize {
    let ns = ns.max(STEPS);
    let power = u64::from(ns.ilog2());
    let step = (ns >> (power - 7)) - STEPS;
    ((power - 7) * STEPS + step) as usize
}

/// Returns the upper end of a place's range.
fn end(place: usize) -> u64 {
    let (power, step) = (place as u64 / STEPS, place as u64 % STEPS);
    (STEPS + step + 1) << power
}

impl Histogram {
    /// Counts a duration in nanoseconds; one below 128 ns counts as 128 ns.
    pub fn add(&mut self, ns: u64) {
        if let Some(count) = self.counts.get_mut(place(ns)) {
            *count += 1;
        }
    }

    /// Returns the number of durations that were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the duration in milliseconds that the `part` (0 to 1, such as 0.99) of all durations does not exceed, up to 1 % too long;
    /// 0 if there are none, or for a part above 1.
    pub fn ms(&self, part: f64) -> f64 {
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return end(place) as f64 / 1e6;
            }
        }
        0.0
    }

    /// Returns the counts as text, for [`Histogram::add_text`]: a line for each place in the table that has a count, of both numbers.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{place} {count}");
        }
        text
    }

    /// Adds the counts of another histogram, such as that of another subtask, from its text; an empty text adds nothing.
    ///
    /// # Errors
    /// When the text is not one of [`Histogram::to_text`]; the lines before the wrong one were added.
    pub fn add_text(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let (place, count) = line.split_once(' ').context("a line without a count")?;
            let (place, count): (usize, u64) = (place.parse()?, count.parse()?);
            *self.counts.get_mut(place).context("a place beyond the table")? += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_come_back_to_one_part_in_a_hundred_in_any_size_and_through_text() {
        let mut all = Histogram::default();
        for ms in 1..=1_000 {
            all.add(ms * 1_000_000);
        }
        let mut read = Histogram::default();
        read.add_text(&all.to_text()).unwrap();
        assert_eq!(read.count(), 1_000);
        for (part, ms) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1_000.0)] {
            let measured = read.ms(part);
            assert!((ms..ms * 1.01).contains(&measured), "{part}: {measured}");
        }
        for ns in [0, 1, 127, 128, 129, 255, 256, u64::MAX / 2] {
            let place = place(ns);
            assert!(end(place) > ns && (place == 0 || end(place - 1) <= ns), "{ns}");
        }
        assert!(read.add_text("1 x").is_err());
        assert_eq!(Histogram::default().ms(0.99), 0.0);
    }
}
