//! `hoarder WHERE [--rate MIB] [--piece BYTES]`: a program that keeps memory until something stops it, or emits much in one call, for
//! the tests of memory limits.

use clap::{Parser, ValueEnum};
use flott::prelude::*;
use std::time::{Duration, Instant};

/// A program that keeps memory.
#[derive(Parser)]
struct Cli {
    /// The code that keeps it
    place: Place,
    /// The rate at which memory is kept, or emitted pieces are taken, in MiB per second
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// The size of the pieces, in bytes
    #[arg(long, default_value_t = 64 << 10)]
    piece: usize,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Place {
    /// A function in the source's own chain
    Task,
    /// A function that gets strings from another task of the same process
    Consumer,
    /// A function that does not return from its first record
    Record,
    /// The function that declares the job
    Build,
    /// Nothing keeps it: one call emits 600 MiB to another task, which takes it at the rate
    Call,
}

/// The bytes that one call emits.
const EMITTED: usize = 600 << 20;

/// Keeps pieces of memory, at a limited rate.
#[derive(Clone, Default)]
struct Hoard {
    kept: Vec<String>,
    bytes: u64,
    began: Option<Began>,
}

#[derive(Clone, Copy)]
struct Began(Instant);

impl Hoard {
    /// Keeps a piece, after the time that the rate asks for.
    fn keep(&mut self, piece: String, rate_mib: u64) {
        self.count(&piece, rate_mib);
        self.kept.push(piece);
    }

    /// Counts a piece, after the time that the rate asks for.
    fn count(&mut self, piece: &str, rate_mib: u64) {
        self.bytes += piece.len() as u64;
        #[expect(clippy::disallowed_methods, reason = "a program of a user knows no platform")]
        let Began(began) = *self.began.get_or_insert_with(|| Began(Instant::now()));
        let due = Duration::from_micros(self.bytes.saturating_mul(1_000_000) / (rate_mib << 20));
        if let Some(early) = due.checked_sub(began.elapsed()) {
            std::thread::sleep(early);
        }
    }
}

#[flott::main]
fn hoarder(env: &Environment, args: Args) -> Result<()> {
    let Cli { place, rate, piece } = args.parse()?;
    let rate = rate.max(1);
    let make = move |_| "x".repeat(piece);
    let mut hoard = Hoard::default();
    if place == Place::Build {
        loop {
            hoard.keep(make(0), rate);
        }
    }
    let most = if place == Place::Call { 1 } else { u64::MAX };
    let numbers = env.sequence(0..most).uid("numbers").name("numbers");
    let kept = match place {
        Place::Task | Place::Build => numbers.map(make).map(move |piece| {
            hoard.keep(piece, rate);
            hoard.bytes
        }),
        Place::Consumer => numbers.map(make).rebalance().map(move |piece| {
            hoard.keep(piece, rate);
            hoard.bytes
        }),
        Place::Call => numbers
            .flat_map(move |n, out| out.collect_all((0..EMITTED / piece).map(|_| make(n))))
            .rebalance()
            .map(move |piece| {
                hoard.count(&piece, rate);
                hoard.bytes
            }),
        Place::Record => numbers.map(move |_| -> u64 {
            loop {
                hoard.keep(make(0), rate);
            }
        }),
    };
    kept.name("keep").uid("keep").filter(|_| false).print();
    Ok(())
}
