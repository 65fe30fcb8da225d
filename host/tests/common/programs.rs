//! The programs that the tests run; they stand for what users write.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test binary uses its part")]

use std::{
    convert::Infallible,
    io::Write,
    sync::atomic::{AtomicU64, Ordering},
};
use streaming::operators::{BoxError, Collector, OperatorContext, ProcessFunction};
use streaming::sources::{
    Boundedness, FileSource, Source, SplitEnumerator, SplitEnumeratorContext,
};
use streaming::time::WatermarkStrategy;
use streaming::{Args, Environment, ProgramEntry};

/// Number of times that `build` ran in this process.
pub static BUILDS: AtomicU64 = AtomicU64::new(0);

/// Says which GPUs its slot has, once for each subtask that gets a number.
#[derive(Clone)]
struct Devices(String);

impl ProcessFunction<u64> for Devices {
    type Out = String;

    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        self.0 = format!("{:?}", context.external_resource("gpu"));
        Ok(())
    }

    fn process(&mut self, _: u64, out: &mut Collector<String>) -> Result<(), BoxError> {
        if !self.0.is_empty() {
            out.collect(std::mem::take(&mut self.0));
        }
        Ok(())
    }
}

/// Held while the enumerators of [`Held`] must not get ready.
pub static GATE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A source of text whose enumerator is created once [`GATE`] is open.
struct Held(FileSource<String>);

type Files = FileSource<String>;

impl Source for Held {
    type Record = String;
    type Split = <Files as Source>::Split;
    type Enumerator = <Files as Source>::Enumerator;
    type Reader = <Files as Source>::Reader;

    fn boundedness(&self) -> Boundedness {
        self.0.boundedness()
    }

    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Self::Split>,
        restored: Option<<Self::Enumerator as SplitEnumerator>::Checkpoint>,
    ) -> Result<Self::Enumerator, BoxError> {
        drop(GATE.blocking_lock());
        self.0.create_enumerator(context, restored)
    }

    fn create_reader(&self, context: &OperatorContext) -> Result<Self::Reader, BoxError> {
        self.0.create_reader(context)
    }
}

/// Held while the enumerators of [`Called`] sources that are slow must not return from calls.
pub static CALLS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Number of snapshots that enumerators of [`Called`] sources that are not slow have taken.
pub static SNAPSHOTS: AtomicU64 = AtomicU64::new(0);

/// A source of text. If it is slow, requests for splits and snapshots of its enumerator wait until [`CALLS`] is open.
struct Called {
    files: FileSource<String>,
    is_slow: bool,
}

struct CalledEnumerator {
    files: <Files as Source>::Enumerator,
    is_slow: bool,
}

impl CalledEnumerator {
    fn wait(&self) {
        if self.is_slow {
            drop(CALLS.blocking_lock());
        }
    }
}

impl SplitEnumerator for CalledEnumerator {
    type Split = <Files as Source>::Split;
    type Checkpoint = <<Files as Source>::Enumerator as SplitEnumerator>::Checkpoint;

    fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError> {
        self.wait();
        self.files.handle_split_request(subtask)
    }

    fn add_splits_back(&mut self, splits: Vec<Self::Split>, subtask: u32) -> Result<(), BoxError> {
        self.files.add_splits_back(splits, subtask)
    }

    fn snapshot_state(&mut self, checkpoint: u64) -> Result<Self::Checkpoint, BoxError> {
        self.wait();
        let state = self.files.snapshot_state(checkpoint);
        if !self.is_slow {
            SNAPSHOTS.fetch_add(1, Ordering::SeqCst);
        }
        state
    }
}

impl Source for Called {
    type Record = String;
    type Split = <Files as Source>::Split;
    type Enumerator = CalledEnumerator;
    type Reader = <Files as Source>::Reader;

    fn boundedness(&self) -> Boundedness {
        self.files.boundedness()
    }

    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Self::Split>,
        restored: Option<<CalledEnumerator as SplitEnumerator>::Checkpoint>,
    ) -> Result<CalledEnumerator, BoxError> {
        let files = self.files.create_enumerator(context, restored)?;
        Ok(CalledEnumerator { files, is_slow: self.is_slow })
    }

    fn create_reader(&self, context: &OperatorContext) -> Result<Self::Reader, BoxError> {
        self.files.create_reader(context)
    }
}

fn build(env: &Environment, args: &Args) -> Result<(), String> {
    BUILDS.fetch_add(1, Ordering::SeqCst);
    let what = args.get(0).unwrap_or("");
    match what {
        "words" => {
            env.read_text_file(args.get(1).unwrap_or(""))
                .flat_map(|line: String, out: &mut Collector<String>| {
                    for word in line.split_ascii_whitespace() {
                        out.collect(word.to_owned());
                    }
                })
                .key_by(|word: &String| word)
                .at_end()
                .count()
                .map(|(word, count)| format!("{word}\t{count}"))
                .collect();
        }
        "held" => {
            let text = args.get(1).unwrap_or("");
            let held = Held(FileSource::text(text));
            env.from_source(held, WatermarkStrategy::no_watermarks(), "held").discard();
            env.read_text_file(text).collect();
        }
        "slow-enumerator" => {
            for (name, is_slow) in [("slow", true), ("quick", false)] {
                let called = Called { files: FileSource::text(args.get(1).unwrap_or("")), is_slow };
                env.from_source(called, WatermarkStrategy::no_watermarks(), name).discard();
            }
        }
        "forever" => {
            env.sequence(0..).key_by_value(|n: &u64| *n).count().discard();
        }
        "loop" => {
            // Code that never comes back. A file says that it has been entered.
            let entered = args.get(1).unwrap_or("").to_owned();
            env.sequence(0..)
                .map(move |n| {
                    std::fs::write(&entered, "").ok();
                    while std::hint::black_box(n) == n {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    n
                })
                .discard();
        }
        "slow" => {
            // Fifty milliseconds for a record. A file grows by a byte with each one that is begun.
            let begun = args.get(1).unwrap_or("").to_owned();
            env.sequence(0..)
                .map(move |n| {
                    let file = std::fs::OpenOptions::new().create(true).append(true).open(&begun);
                    file.and_then(|mut file| file.write_all(b".")).ok();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    n
                })
                .filter(|n| n % 2 == 0)
                .discard();
        }
        "stalled" => {
            // Records of a kilobyte for a consumer that takes one until a file is gone.
            let stalled = std::path::PathBuf::from(args.get(1).unwrap_or(""));
            env.sequence(0..)
                .flat_map(|n, out| {
                    out.collect_all((0..3).map(|part| vec![part; 1_024 + n as usize % 2]))
                })
                .rebalance()
                .map(move |record| {
                    while stalled.exists() {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    record
                })
                .discard();
        }
        "starts-a-process" => {
            let path = args.get(1).unwrap_or("").to_owned();
            env.sequence(0..)
                .map(move |n| {
                    if n == 0 {
                        let script = format!("echo $$ > {path}; exec /bin/sleep 600");
                        std::process::Command::new("/bin/sh").args(["-c", &script]).spawn().ok();
                    }
                    n
                })
                .discard();
        }
        "panic" => {
            env.sequence(0..1_000)
                .map(|n| {
                    assert!(n != 500, "five hundred is too much");
                    n
                })
                .name("picky")
                .rebalance()
                .map(|n| n)
                .discard();
        }
        "capacities" => {
            // Text with room to spare, which it has no more when it was serialised.
            if let Some(own) = args.get(1).filter(|own| !own.is_empty()) {
                env.set_option("exchange.force-serialization", own);
            }
            env.sequence(0..1)
                .map(|_| {
                    let mut text = String::with_capacity(4_096);
                    text.push_str("abc");
                    text
                })
                .rebalance()
                .map(|text| text.capacity() as u64)
                .collect();
        }
        "overflow" => {
            env.sequence(0..1_000).map(|n| recurse(&[n; 512])).name("deep").discard();
        }
        "differs" => {
            // A counter of the process, which differs between the first build and a rebuild.
            let first = BUILDS.load(Ordering::SeqCst) % 2 == 1;
            let numbers = env.sequence(0..10);
            if first {
                numbers.map(|n| n).name("first").discard();
            } else {
                numbers.filter(|n| *n > 1).name("second").discard();
            }
        }
        "devices" => drop(env.sequence(0..1_000).process(Devices(String::new())).collect()),
        "build-panics" => panic!("no graph today"),
        "build-fails" => return Err("no such table".to_owned()),
        "shuffle" => {
            let n = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
            env.sequence(0..n)
                .rebalance()
                .map(|n| n.wrapping_mul(31))
                .key_by_value(|n: &u64| n % 97)
                .at_end()
                .count()
                .map(|(key, count)| format!("{key}\t{count}"))
                .collect();
        }
        other => return Err(format!("there is no program '{other}'")),
    }
    Ok(())
}

pub fn entry() -> ProgramEntry {
    ProgramEntry::new().job("test", |env: &Environment, args: Args| build(env, &args))
}

/// Never fails: to show that any error type will do.
pub fn trivial() -> ProgramEntry {
    ProgramEntry::new().job("trivial", |env: &Environment, _: Args| {
        env.sequence(0..10).discard();
        Ok::<(), Infallible>(())
    })
}

/// Calls itself until the stack is full.
#[expect(unconditional_recursion, reason = "it is to overflow")]
fn recurse(frame: &[u64; 512]) -> u64 {
    let next = std::hint::black_box(*frame);
    recurse(&next).wrapping_add(next[0])
}
