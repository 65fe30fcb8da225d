//! Durations as text: one notation for the configuration, the options of jobs and the command line.

use std::time::Duration;

const NANOS_PER_DAY: u128 = 86_400_000_000_000;
/// The units in nanoseconds, each with its names; the first name is printed.
const UNITS: [(u128, &[&str]); 7] = [
    (NANOS_PER_DAY, &["d", "day", "days"]),
    (3_600_000_000_000, &["h", "hour", "hours"]),
    (60_000_000_000, &["min", "m", "minute", "minutes"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (1_000_000, &["ms", "milli", "millis", "millisecond", "milliseconds"]),
    (1_000, &["us", "µs", "micro", "micros", "microsecond", "microseconds"]),
    (1, &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
];

/// Parses a duration as Flink writes it: `10 s`, `500ms`, `2 min`; a bare number is milliseconds. Units are `d`, `h`, `min` (or `m`), `s`,
/// `ms`, `us`, `ns` and their long names, in upper or lower case. Returns `None` if the text is not a whole number (no sign, no fraction)
/// with a known unit, or if the duration is ten thousand years (of 365 days) or longer.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim().to_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit.trim() {
        "" => "ms",
        unit => unit,
    };
    let (nanos, _) = UNITS.iter().find(|(_, names)| names.contains(&unit))?;
    let total = number.parse::<u128>().ok()?.checked_mul(*nanos)?;
    // Waits of more than ten thousand years are mistakes, and would overflow sums of deadlines.
    (total < 3_650_000 * NANOS_PER_DAY)
        .then(|| Duration::new((total / 1_000_000_000) as u64, (total % 1_000_000_000) as u32))
}

/// Returns the duration as a whole number of the largest unit that is exact, from `d` to `ns`, such as `90 s` (not `1.5 min`);
/// zero is `0 ms`. [`parse_duration`] reads it back if it is shorter than ten thousand years.
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let unit = UNITS.iter().find(|(size, _)| nanos >= *size && nanos.is_multiple_of(*size));
    match unit {
        Some((size, names)) => format!("{} {}", nanos / size, names.first().unwrap_or(&"ms")),
        None => "0 ms".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_flinks_units() {
        assert_eq!(parse_duration("10 s"), Some(Duration::from_secs(10)));
        assert_eq!(parse_duration("10 Sec"), Some(Duration::from_secs(10)));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("250"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("2 min"), Some(Duration::from_secs(120)));
        assert_eq!(parse_duration("1 d"), Some(Duration::from_secs(86_400)));
        for wrong in ["", "s", "-1 s", "1.5 s", "10 parsecs", "99999999999999 d", "µ"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
