//! Printing: results to standard output, as text or JSON; the rest to standard error; colours on
//! terminals only.

use super::args::Output;
use crate::results::write_line;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// The printer of a command's results, notes and errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
    colours: bool,
}

impl Printer {
    pub(crate) fn new(output: Output) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { json: output == Output::Json, colours: wanted && io::stderr().is_terminal() }
    }

    /// Returns true if standard output is for a program.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints a result: one JSON value, or text for users, in which control characters other than line ends are escaped.
    pub(crate) fn value(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if self.json { self.raw(&serde_json::to_string(value)?) } else { self.raw(&lines(&text())) }
    }

    /// Prints a line of results as it is.
    pub(crate) fn raw(self, line: &str) -> io::Result<()> {
        write_line(&mut io::stdout().lock(), line.trim_end_matches('\n').as_bytes())
    }

    /// Prints a note for users on standard error.
    pub(crate) fn note(self, text: &str) {
        // Standard error may be closed; there is nobody to tell then.
        let _ = writeln!(io::stderr().lock(), "{}", lines(text));
    }

    /// Prints a failure: as JSON on standard output if that is the format, otherwise on standard
    /// error.
    pub(crate) fn error(self, text: &str) {
        if self.json {
            let body = serde_json::json!({ "error": text });
            if self.raw(&body.to_string()).is_ok() {
                return;
            }
        }
        let (on, off) = if self.colours { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(io::stderr().lock(), "{on}error:{off} {}", lines(text));
    }
}

/// Returns a text with its control characters, line separators and changes of writing direction escaped: one that comes from outside must
/// not move the cursor, begin a line or be shown in another order.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() || moves_others(letter) {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

/// Returns true for characters that are no control characters and change the place of what follows: separators of lines, and the marks
/// that switch between writing from left to right and from right to left.
fn moves_others(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text of several lines with its other control characters escaped: the text of a job or server must not move the cursor.
fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Lines of a table with aligned columns. Control characters in cells are escaped.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        // A formatter's width has 16 bits, a cell may be wider.
        let padding = |cell: &str, width: usize| width.saturating_sub(cell.chars().count());
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(padding(cell, *width))))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head.to_vec())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

/// Formats Unix milliseconds as `2026-11-21 15:04:05` in UTC.
pub(crate) fn utc(unix_ms: i64) -> String {
    if unix_ms < 0 {
        return "-".to_owned();
    }
    let seconds = unix_ms / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, by eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Formats milliseconds as `1 h 2 min`, `3.4 s`, `56 ms`.
pub(crate) fn duration(ms: i64) -> String {
    match ms {
        i64::MIN..0 => "-".to_owned(),
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_keep_their_lines_and_lose_other_control_characters() {
        assert_eq!(lines("a\u{1b}[2J\r\n  b\t"), "a\\u{1b}[2J\\r\n  b\\t");
    }

    #[test]
    fn a_text_from_outside_cannot_be_shown_in_another_order() {
        let name = "job\u{202e}DELIAF\u{202c}\u{2028}\u{2066}x\u{2069}\u{200f}";
        let shown = "job\\u{202e}DELIAF\\u{202c}\\u{2028}\\u{2066}x\\u{2069}\\u{200f}";
        assert_eq!(plain(name), shown);
        let harmless = "Größe e\u{301} \u{1f468}\u{200d}\u{1f4bb} שלום 北京";
        assert_eq!(plain(harmless), harmless);
    }

    #[test]
    fn cells_of_any_width_and_letter_make_a_table() {
        let long = "x".repeat(70_000);
        let rows = [
            vec![long.clone(), "a".to_owned()],
            vec!["\u{1b}[2J\nFAKE".to_owned(), "b".to_owned()],
        ];
        let text = table(&["name", "id"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], format!("{long}  a"));
        assert!(lines[2].starts_with("\\u{1b}[2J\\nFAKE "), "{}", lines[2].len());
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_827_696_000), "2000-02-29 12:34:56");
        assert_eq!(utc(1_700_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(utc(4_102_444_799_000), "2099-12-31 23:59:59");
        assert_eq!(utc(-1), "-");
    }

    #[test]
    fn tables_align() {
        let text = table(
            &["A", "B"],
            &[vec!["long cell".to_owned(), "x".to_owned()], vec!["ü".to_owned(), "y".to_owned()]],
        );
        assert_eq!(text, "A          B\nlong cell  x\nü          y");
        assert_eq!(duration(61_500), "1 min 1 s");
        assert_eq!(duration(1_540), "1.5 s");
    }
}
