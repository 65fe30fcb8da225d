//! Draws cases and runs them: threads of a worker process, watched by a parent.

use crate::{
    Args, allocator,
    rng::Rng,
    targets::{self, Target},
    watch::{Slot, under_way},
};
use std::{
    cell::RefCell,
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A decoder that runs longer for one input (at most 64 KiB) has lost its bounds.
const CASE_TIME_MAX: Duration = Duration::from_secs(2);
/// Memory that a decoder may hold whatever its input is.
const MEMORY_BASE: usize = 1 << 20;
/// Memory per byte of input on top: a byte can announce a whole (empty) message part.
const MEMORY_PER_BYTE: usize = 1 << 10;
/// Number of cases after which a target that accepted no input proves that its inputs are useless.
const ENOUGH_CASES: u64 = 2_000;

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Starts the worker; says what it was doing if it does not end by itself.
pub(crate) fn supervise(args: &Args) -> Result<()> {
    let file = std::env::temp_dir().join(format!("flott-fuzz-{}", std::process::id()));
    std::fs::write(&file, [])?;
    let mut worker = Command::new(std::env::current_exe()?);
    worker.args(std::env::args_os().skip(1)).arg("--worker").arg(&file);
    let status = worker.status()?;
    let doing = under_way(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    match (status.success(), args.seed) {
        (true, _) => return Ok(()),
        // A worker that found something says so itself.
        (false, _) if status.code() == Some(1) => return Err("a decoder is broken".into()),
        _ => eprintln!("the worker died ({status}); under way were:"),
    }
    let names: Vec<&str> = targets::all().iter().map(|target| target.name).collect();
    for (target, seed) in doing {
        let name = names.get(target).copied().unwrap_or("?");
        eprintln!("  cargo xtask fuzz --target {name} --seed {seed}");
    }
    Err("a decoder ended the process: stack overflow, a monstrous allocation or an abort".into())
}

/// The number of a target's runs, and of the inputs that it accepted.
#[derive(Debug, Default)]
struct Tally {
    cases: AtomicU64,
    taken: AtomicU64,
}

/// Runs cases on all cores until the time is up or one fails.
pub(crate) fn work(args: &Args, file: &Path) -> Result<()> {
    let all = targets::all();
    let chosen: Vec<(usize, &Target)> = all
        .iter()
        .enumerate()
        .filter(|(_, target)| args.target.as_ref().is_none_or(|name| name == target.name))
        .collect();
    if chosen.is_empty() {
        return Err("no such target; --list shows them".into());
    }
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        PANIC.with(|last| *last.borrow_mut() = text);
    }));
    let tallies: Vec<Tally> = all.iter().map(|_| Tally::default()).collect();
    if let Some(seed) = args.seed {
        let slot = Slot::open(file, 0)?;
        for (index, target) in chosen {
            slot.says(index, seed)?;
            run_case(target, seed, tallies.get(index))?;
            eprintln!("{}: seed {seed} passes", target.name);
        }
        return Ok(());
    }
    run_all(args.seconds, &chosen, &tallies, file)?;
    report(&chosen, &tallies)
}

fn run_all(
    seconds: u64,
    chosen: &[(usize, &Target)],
    tallies: &[Tally],
    file: &Path,
) -> Result<()> {
    let end = now() + Duration::from_secs(seconds);
    let first = entropy();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    eprintln!("{} targets, {threads} threads, {seconds} s, from seed {first}", chosen.len());

    let thread = |number: usize| -> std::result::Result<(), String> {
        let slot = Slot::open(file, number).map_err(|e| e.to_string())?;
        while now() < end && !stop.load(Ordering::Relaxed) {
            let case = next.fetch_add(1, Ordering::Relaxed);
            let Some((index, target)) = chosen.get(case as usize % chosen.len()) else { break };
            let seed = first.wrapping_add(case);
            slot.says(*index, seed).map_err(|e| e.to_string())?;
            if let Err(why) = run_case(target, seed, tallies.get(*index)) {
                stop.store(true, Ordering::Relaxed);
                return Err(why);
            }
        }
        slot.is_idle().map_err(|e| e.to_string())
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || thread(number))).collect();
        started.into_iter().map(|thread| thread.join()).collect()
    });
    for result in results {
        result.map_err(|_| "a thread of the fuzzer itself panicked")??;
    }
    Ok(())
}

/// One case: the input that `seed` makes, decoded under watch.
fn run_case(target: &Target, seed: u64, tally: Option<&Tally>) -> std::result::Result<(), String> {
    let mut rng = Rng::new(seed);
    // Targets that share a seed must not get the same random numbers.
    target.name.bytes().for_each(|_| _ = rng.next());
    let input = (target.make)(&mut rng);
    let started = now();
    let (outcome, peak) =
        allocator::peak_of(|| catch_unwind(AssertUnwindSafe(|| (target.check)(&input))));
    let took = now() - started;
    let allowed = target.memory_max.max(MEMORY_BASE + MEMORY_PER_BYTE * input.len());
    let wrong = match outcome {
        Err(_) => Some(PANIC.with(|text| text.borrow().clone())),
        Ok(Err(law)) => Some(law),
        Ok(Ok(_)) if took > CASE_TIME_MAX => Some(format!("took {took:?}")),
        Ok(Ok(_)) if peak > allowed => {
            Some(format!("held {peak} bytes for an input of {}, at most {allowed}", input.len()))
        }
        Ok(Ok(taken)) => {
            if let Some(tally) = tally {
                tally.cases.fetch_add(1, Ordering::Relaxed);
                tally.taken.fetch_add(u64::from(taken), Ordering::Relaxed);
            }
            None
        }
    };
    match wrong {
        None => Ok(()),
        Some(why) => {
            let shown: String = input.iter().take(400).map(|b| format!("{b:02x}")).collect();
            let name = target.name;
            Err(format!(
                "{name}: {why}\n  input ({} bytes): {shown}\n  text: {:?}\n  replay: cargo xtask fuzz --target {name} --seed {seed}",
                input.len(),
                String::from_utf8_lossy(&input).chars().take(400).collect::<String>(),
            ))
        }
    }
}

fn report(chosen: &[(usize, &Target)], tallies: &[Tally]) -> Result<()> {
    let mut useless = Vec::new();
    for (index, target) in chosen {
        let Some(tally) = tallies.get(*index) else { continue };
        let (cases, taken) =
            (tally.cases.load(Ordering::Relaxed), tally.taken.load(Ordering::Relaxed));
        eprintln!("{:<24} {cases:>10} cases {taken:>10} valid", target.name);
        if taken == 0 && cases >= ENOUGH_CASES {
            useless.push(target.name);
        }
    }
    match useless.as_slice() {
        [] => Ok(()),
        names => Err(format!("never a valid input: {}", names.join(", ")).into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "fuzzing runs in real time and simulates nothing")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "another place to start each time; it is printed")]
fn entropy() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_nanos() as u64)
}
