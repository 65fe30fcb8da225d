//! The workloads of Flott's throughput benchmark as programs for Renoir: `renoir-peer WORKLOAD RECORDS PARALLELISM`.
//! Prints the checksum of every record that reaches the sink, as `count<TAB>sum`.
//!
//! Each program is what Renoir's documentation suggests, with the default batch mode. Their sinks must get the same
//! records as those of the programs in `benches/src/throughput/programs.rs`.

mod key_hash;
#[expect(
    unreachable_pub,
    reason = "the file is that of the crate `words`: both sides make the same input"
)]
#[path = "../../../words/src/text.rs"]
mod words;

use key_hash::KeyHash;
use renoir::{Stream, operator::Operator, prelude::*};
use std::{env, error::Error, process::ExitCode};
use words::{WORDS_PER_LINE, line, splitmix64};

/// The allocator of Flott's programs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: renoir-peer WORKLOAD RECORDS PARALLELISM; `cargo xtask bench throughput -- --against \
                     renoir` calls it so";
// Divisions by a constant are cheaper than those by a variable, here and in the other sides' programs.
const FEW_KEYS: u64 = 1_000;
const MANY_KEYS: u64 = 1_000_000;
/// Records of a millisecond of event time.
const PER_MS: u64 = 1_000;
/// Milliseconds of a window.
const WINDOW_MS: i64 = 5_000;

/// The number of records and the wrapping sum of their hashes.
type Checksum = (u64, u64);

fn main() -> ExitCode {
    match run() {
        Ok((count, sum)) => {
            println!("{count}\t{sum}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the workload that the arguments name. Returns its checksum.
fn run() -> Result<Checksum, Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [workload, records, parallelism] = args.as_slice() else { return Err(USAGE.into()) };
    let number =
        |text: &str| text.parse::<u64>().map_err(|error| format!("'{text}': {error}; {USAGE}"));
    let (records, parallelism) = (number(records)?, number(parallelism)?);
    let context = StreamContext::new(RuntimeConfig::local(parallelism)?);
    let output = match workload.as_str() {
        "word_count_p1" | "word_count_p2" => word_count(&context, records),
        "chain" => checksum(filtered(mapped(&context, records))),
        "shuffle_local" => checksum(filtered(mapped(&context, records).shuffle())),
        "count_1k" => count::<FEW_KEYS>(&context, records),
        "count_1m" => count::<MANY_KEYS>(&context, records),
        "window_1k" => window::<FEW_KEYS>(&context, records),
        "window_1m" => window::<MANY_KEYS>(&context, records),
        unknown => {
            return Err(format!(
                "Renoir has no program for the workload '{unknown}': add one to benches/peers/renoir/src/main.rs, or \
                 name the workload among those that are left out in benches/src/throughput/renoir.rs"
            )
            .into());
        }
    };
    context.execute_blocking();
    let parts = output.get().ok_or("Renoir gave no result")?;
    Ok(parts.into_iter().fold((0, 0), added))
}

fn added(one: Checksum, other: Checksum) -> Checksum {
    (one.0 + other.0, one.1.wrapping_add(other.1))
}

/// Ends a program: each subtask takes its records into a checksum, and one adds these up.
fn checksum<T: KeyHash + Send>(
    records: Stream<impl Operator<Out = T> + 'static>,
) -> StreamOutput<Vec<Checksum>> {
    let take = |sum: &mut Checksum, record: T| *sum = added(*sum, (1, record.key_hash()));
    let add = |sum: &mut Checksum, part: Checksum| *sum = added(*sum, part);
    records.fold_assoc((0, 0), take, add).collect_vec()
}

/// Numbers, mapped once.
fn mapped(context: &StreamContext, records: u64) -> Stream<impl Operator<Out = u64> + use<>> {
    context.stream_par_iter(0..records).map(|number| number.wrapping_mul(31).wrapping_add(7))
}

/// Filter and second map.
fn filtered(
    numbers: Stream<impl Operator<Out = u64> + 'static>,
) -> Stream<impl Operator<Out = u64>> {
    numbers.filter(|number| number & 7 != 0).map(|number| number ^ (number >> 17))
}

/// Lines → owned words → group of each word → running count → every update. `records` are words.
fn word_count(context: &StreamContext, records: u64) -> StreamOutput<Vec<Checksum>> {
    let words = context
        .stream_par_iter(0..records / WORDS_PER_LINE)
        .map(line)
        .flat_map(|line| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<String>>());
    checksum(words.group_by(String::clone).rich_map(running_count()).unkey())
}

/// Numbers → group of `KEYS` → running count → every update.
fn count<const KEYS: u64>(context: &StreamContext, records: u64) -> StreamOutput<Vec<Checksum>> {
    let keyed = context.stream_par_iter(0..records).group_by(|number| splitmix64(*number) % KEYS);
    checksum(keyed.rich_map(running_count()).unkey())
}

/// Returns a function that counts its calls. Renoir gives every group a clone of it, hence a count of its own.
fn running_count<K: 'static, V: 'static>() -> impl FnMut((&K, V)) -> u64 + Clone + Send {
    let mut count = 0;
    move |_| {
        count += 1;
        count
    }
}

/// Numbers with event times → group of `KEYS` → count of each group in each window of [`WINDOW_MS`].
///
/// Renoir's windows of a group begin with the time of its first record; Flott's and Flink's begin at multiples of their
/// size. A record is therefore given the time at which its window begins, and the first record of a window is followed by a
/// watermark of that time.
fn window<const KEYS: u64>(context: &StreamContext, records: u64) -> StreamOutput<Vec<Checksum>> {
    let begin = |number: &u64| (number / PER_MS) as i64 / WINDOW_MS * WINDOW_MS;
    let mut last = 0;
    let watermark =
        move |_: &u64, time: &i64| (std::mem::replace(&mut last, *time) < *time).then_some(*time);
    let counted = context
        .stream_par_iter(0..records)
        .add_timestamps(begin, watermark)
        .group_by(|number| splitmix64(*number) % KEYS)
        .window(EventTimeWindow::tumbling(WINDOW_MS))
        .count();
    checksum(counted.unkey().map(|(key, count)| (key, count as u64)))
}
