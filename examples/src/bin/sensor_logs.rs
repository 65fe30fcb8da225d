//! Counts sensor readings per hour of event time: a source of the program's own, with one split for each sensor's log.
//!
//! `sensor_logs --input FOLDER` reads every file of a folder; a file is the log of the sensor that it is named after,
//! with lines `MILLISECONDS VALUE` in the order of their times. The program prints `end of the
//! hour<TAB>sensor<TAB>readings<TAB>greatest value`. The logs may cover different times: a subtask reads its logs in
//! turn, and its watermark is the smallest of the logs' watermarks.

use clap::Parser;
use flott::prelude::*;
use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

/// Counts readings per sensor and hour.
#[derive(Parser)]
struct Cli {
    /// The folder with a log for each sensor; the path must be absolute when the job runs on a cluster.
    #[arg(long)]
    input: PathBuf,
}

/// The source: reads the logs of a folder.
struct SensorLogs {
    folder: PathBuf,
}

/// A split: a log and the position from which it is to be read.
#[derive(Clone, FlottType)]
struct Log {
    /// Index of the log in the order of the paths, from 0.
    number: u32,
    sensor: String,
    path: String,
    /// Offset in bytes at which the next line begins.
    offset: u64,
}

impl SourceSplit for Log {
    fn split_id(&self) -> String {
        self.sensor.clone()
    }
}

/// A reading: its time (milliseconds since 1970), its sensor, its value.
type Reading = (i64, String, i64);

impl Source for SensorLogs {
    type Record = Reading;
    type Split = Log;
    type Enumerator = Logs;
    type Reader = LogReader;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }

    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Log>,
        restored: Option<Vec<Log>>,
    ) -> Result<Logs> {
        let waiting = match restored {
            Some(waiting) => waiting,
            None => list(&self.folder)?,
        };
        Ok(Logs { context, waiting })
    }

    fn create_reader(&self, _context: &OperatorContext) -> Result<LogReader> {
        Ok(LogReader { logs: VecDeque::new(), no_more: false })
    }
}

fn list(folder: &Path) -> Result<Vec<Log>> {
    let wrong = |error| format!("can't list the folder '{}': {error}", folder.display());
    let mut paths = Vec::new();
    for entry in folder.read_dir().map_err(wrong)? {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.sort();
    let log = |(number, path): (u32, PathBuf)| {
        let text = |name: &std::ffi::OsStr| name.to_str().map(str::to_owned);
        let name = path.file_stem().and_then(text).zip(text(path.as_os_str()));
        let (sensor, path) = name.ok_or_else(|| format!("'{}' is not UTF-8", path.display()))?;
        Ok(Log { number, sensor, path, offset: 0 })
    };
    (0..).zip(paths).map(log).collect()
}

/// The enumerator: assigns each subtask its share of the logs when the subtask's reader registers.
struct Logs {
    context: SplitEnumeratorContext<Log>,
    waiting: Vec<Log>,
}

impl SplitEnumerator for Logs {
    type Split = Log;
    type Checkpoint = Vec<Log>;

    fn add_reader(&mut self, subtask: u32, _held: Vec<Log>) -> Result<()> {
        let all = std::mem::take(&mut self.waiting);
        let of = self.context.current_parallelism();
        let (own, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|log| log.number % of == subtask);
        self.waiting = others;
        self.context.assign_splits(subtask, own)?;
        self.context.no_more_splits(subtask)?;
        Ok(())
    }
    fn handle_split_request(&mut self, _subtask: u32) -> Result<()> {
        // No reader of this source requests splits: each has been assigned all of its logs.
        Ok(())
    }
    fn add_splits_back(&mut self, splits: Vec<Log>, _subtask: u32) -> Result<()> {
        // They are assigned again when the subtask's next attempt registers.
        self.waiting.extend(splits);
        Ok(())
    }
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Log>> {
        Ok(self.waiting.clone())
    }
}

/// The reader: reads its logs in turn, a batch of lines from each.
struct LogReader {
    logs: VecDeque<(Log, BufReader<File>)>,
    no_more: bool,
}

impl SourceReader for LogReader {
    type Record = Reading;
    type Split = Log;

    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<Reading>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress> {
        let Some((mut log, mut lines)) = self.logs.pop_front() else {
            return Ok(if self.no_more { ReadProgress::Ended } else { ReadProgress::Waiting });
        };
        let mut line = String::new();
        for _ in 0..most {
            line.clear();
            let bytes = lines.read_line(&mut line)?;
            if bytes == 0 {
                out.release_split(&log.sensor);
                return Ok(ReadProgress::More);
            }
            let (at_ms, value) = reading(&line).ok_or_else(|| {
                format!("'{}' at byte {} is not MILLISECONDS VALUE", log.path, log.offset)
            })?;
            log.offset += u64::try_from(bytes)?;
            out.split(&log.sensor).collect_at((at_ms, log.sensor.clone(), value), at_ms);
        }
        self.logs.push_back((log, lines));
        Ok(ReadProgress::More)
    }

    fn add_splits(&mut self, splits: Vec<Log>, _context: &mut ReaderContext<'_>) -> Result<()> {
        for log in splits {
            let wrong = |error| format!("can't read '{}': {error}", log.path);
            let mut file = File::open(&log.path).map_err(wrong)?;
            file.seek(SeekFrom::Start(log.offset)).map_err(wrong)?;
            self.logs.push_back((log, BufReader::new(file)));
        }
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more = true;
    }

    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Log>> {
        Ok(self.logs.iter().map(|(log, _)| log.clone()).collect())
    }
}

fn reading(line: &str) -> Option<(i64, i64)> {
    let (at_ms, value) = line.trim_end().split_once(' ')?;
    Some((at_ms.parse().ok()?, value.parse().ok()?))
}

/// Emits the number of a window's readings and the greatest value.
#[derive(Clone)]
struct Summary;

impl WindowFunction<String, Reading> for Summary {
    type Out = (i64, String, u64, i64);

    fn process(
        &mut self,
        sensor: &String,
        window: TimeWindow,
        readings: Vec<Reading>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let greatest = readings.iter().map(|(_, _, value)| *value).max().unwrap_or_default();
        out.collect((window.end(), sensor.clone(), readings.len() as u64, greatest));
        Ok(())
    }
}

#[flott::main]
fn sensor_logs(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let in_order = WatermarkStrategy::for_monotonous_timestamps(|(at_ms, ..): &Reading| *at_ms);
    env.from_source(SensorLogs { folder: cli.input }, in_order, "sensor logs")
        .uid("logs")
        .key_by(|(_, sensor, _)| sensor)
        .window(TumblingEventTimeWindows::of(Duration::from_secs(3_600)))
        .process(Summary)
        .uid("summaries")
        .collect()
        .uid("results");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flott::{TaskError, testing};

    #[test]
    fn a_log_goes_on_at_its_place_in_a_checkpoint() -> std::result::Result<(), TaskError> {
        let folder = tempfile::tempdir().unwrap();
        let lines = |from: i64| (from..from + 3_000).map(|at| format!("{at} 7\n")).collect();
        let (ahead, behind): (String, String) = (lines(1_000_000), lines(0));
        std::fs::write(folder.path().join("ahead.log"), ahead).unwrap();
        std::fs::write(folder.path().join("behind.log"), behind).unwrap();
        let source = || SensorLogs { folder: folder.path().to_owned() };
        let in_order = || WatermarkStrategy::for_monotonous_timestamps(|(at, ..): &Reading| *at);
        let mut test = testing::source(source()).watermarks(in_order()).open()?;
        let mut read = Vec::new();
        test.poll()?;
        assert_eq!(test.last_watermark(), None, "one of two logs was read");
        test.poll()?;
        assert_eq!(test.last_watermark(), Some(1_022), "that of the log which is least far");
        read.extend(test.output());
        let snapshot = test.snapshot()?;
        let mut test = testing::source(source()).watermarks(in_order()).restore(snapshot).open()?;
        test.run()?;
        assert!(test.has_ended());
        read.extend(test.output());
        read.sort();
        let expected = (0..3_000).map(|at| (at, "behind".to_owned(), 7));
        let expected = expected.chain((1_000_000..1_003_000).map(|at| (at, "ahead".to_owned(), 7)));
        assert_eq!(read, expected.collect::<Vec<_>>());
        Ok(())
    }
}
