//! The input of the example `visits`, and what it commits.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

const FILES: u64 = 6;
const MINUTE_MS: u64 = 60_000;
/// Each file holds this many minutes, which follow those of the file before it.
const MINUTES: u64 = 3;
const PAGES: u64 = 7;
const LINES: u64 = 4_000;

/// Writes random visits as input files of the example into a folder, which is made. Returns the lines that the job has to commit for
/// them, sorted: page, minute and number of visits.
pub fn write_visits(folder: &Path, random: &mut ChaCha8Rng) -> Vec<String> {
    std::fs::create_dir_all(folder).unwrap();
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for file in 0..FILES {
        let mut text = String::new();
        for line in 0..LINES {
            let at = (file * MINUTES * MINUTE_MS) + line * MINUTES * MINUTE_MS / LINES;
            let page = random.random_range(0..PAGES);
            *counts.entry((page, at / MINUTE_MS)).or_default() += 1;
            writeln!(text, "{at} page{page}").unwrap();
        }
        std::fs::write(folder.join(format!("{file}.txt")), text).unwrap();
    }
    let mut lines: Vec<String> =
        counts.iter().map(|((page, minute), n)| format!("page{page}\t{minute}\t{n}")).collect();
    lines.sort();
    lines
}

/// Returns the lines of all files in a folder that are visible (whose names do not begin with a dot), sorted; none if there is no
/// such folder.
pub fn committed(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with('.') {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    lines.sort();
    lines
}
