//! Prints the highest price of each share whenever it changes: an unbounded job with state per key and a derived record
//! type.
//!
//! `ticker [--rate PER_SECOND] [--shares N]` runs until it is cancelled and prints in the processes of its tasks; with `--count N` it ends
//! after N trades, and its client prints.

use clap::Parser;
use flott::prelude::*;

/// Prints the highest price of each share so far.
#[derive(Parser)]
struct Cli {
    /// Trades per second.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// The number of shares that are traded.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    shares: u64,
    /// The number of trades after which the job ends.
    #[arg(long)]
    count: Option<u64>,
}

/// One trade of a share at a price in cents.
#[derive(Clone, Debug, FlottType)]
struct Trade {
    share: String,
    cents: u64,
}

/// Returns a number that looks random but depends on `number` alone (SplitMix64), so that every process gets the same.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[flott::main]
fn ticker(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let shares = cli.shares;

    let numbers = match cli.count {
        Some(count) => env.sequence_with_rate(0..count, cli.rate),
        None => env.sequence_with_rate(0.., cli.rate),
    };
    let highest = numbers
        .uid("numbers")
        .map(move |number| Trade {
            share: format!("S{}", mixed(number) % shares),
            cents: 10_000 + mixed(number ^ 0x5eed) % 1_000,
        })
        .name("trades")
        .key_by(|trade| &trade.share)
        .flat_map_with_state("highest", |share, trade, highest: &mut Option<u64>, out| {
            if highest.is_none_or(|highest| trade.cents > highest) {
                *highest = Some(trade.cents);
                out.collect((share.clone(), trade.cents));
            }
        })
        .uid("highest");
    match cli.count {
        Some(_) => highest.collect().uid("prices"),
        None => highest.print(),
    };
    Ok(())
}
