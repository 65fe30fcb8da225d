//! `paced_ranges OUTPUT SPLITS`: a source of numbers, ten in each split, that its enumerator assigns one by one; each subtask reads a
//! number every ten milliseconds and commits the squares to files of its own. No record leaves its subtask, and the sink has no global
//! committer, so that each subtask is a region.

use flott::prelude::*;
use std::{collections::VecDeque, fs, io::ErrorKind, path::PathBuf, time::Duration};

/// Numbers in a split.
const LENGTH: u64 = 10;
/// Time between two numbers of a subtask.
const PACE: Duration = Duration::from_millis(10);

#[derive(Clone, FlottType)]
struct Range {
    next: u64,
    end: u64,
}

impl SourceSplit for Range {
    fn split_id(&self) -> String {
        self.end.to_string()
    }
}

struct Numbers {
    splits: u64,
}

impl Source for Numbers {
    type Record = u64;
    type Split = Range;
    type Enumerator = Ranges;
    type Reader = RangeReader;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Range>,
        restored: Option<Vec<Range>>,
    ) -> Result<Ranges> {
        let all = (0..self.splits).map(|n| Range { next: n * LENGTH, end: (n + 1) * LENGTH });
        let waiting = restored.map_or_else(|| all.collect(), VecDeque::from);
        Ok(Ranges { context, waiting })
    }
    fn create_reader(&self, _: &OperatorContext) -> Result<RangeReader> {
        Ok(RangeReader::default())
    }
}

struct Ranges {
    context: SplitEnumeratorContext<Range>,
    waiting: VecDeque<Range>,
}

impl SplitEnumerator for Ranges {
    type Split = Range;
    type Checkpoint = Vec<Range>;

    fn handle_split_request(&mut self, subtask: u32) -> Result<()> {
        match self.waiting.pop_front() {
            Some(range) => self.context.assign_splits(subtask, [range])?,
            None => self.context.no_more_splits(subtask)?,
        }
        Ok(())
    }
    fn add_splits_back(&mut self, splits: Vec<Range>, _: u32) -> Result<()> {
        self.waiting.extend(splits);
        Ok(())
    }
    fn snapshot_state(&mut self, _: u64) -> Result<Vec<Range>> {
        Ok(self.waiting.iter().cloned().collect())
    }
}

#[derive(Default)]
struct RangeReader {
    ranges: VecDeque<Range>,
    asked: bool,
    no_more: bool,
    /// Time at which the next number is due, in Unix milliseconds.
    due_ms: u64,
}

impl SourceReader for RangeReader {
    type Record = u64;
    type Split = Range;

    fn poll_next(
        &mut self,
        _: usize,
        out: &mut ReaderOutput<u64>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress> {
        let Some(range) = self.ranges.front_mut() else {
            if self.no_more {
                return Ok(ReadProgress::Ended);
            }
            if !std::mem::replace(&mut self.asked, true) {
                context.request_splits();
            }
            return Ok(ReadProgress::Waiting);
        };
        let now_ms = context.now_unix_ms();
        if now_ms < self.due_ms {
            context.wake_after(Duration::from_millis(self.due_ms - now_ms));
            return Ok(ReadProgress::Waiting);
        }
        self.due_ms = now_ms + u64::try_from(PACE.as_millis())?;
        out.collect(range.next);
        range.next += 1;
        if range.next == range.end {
            self.ranges.pop_front();
        }
        Ok(ReadProgress::More)
    }
    fn add_splits(&mut self, splits: Vec<Range>, _: &mut ReaderContext<'_>) -> Result<()> {
        self.asked = false;
        self.ranges.extend(splits);
        Ok(())
    }
    fn no_more_splits(&mut self) {
        self.no_more = true;
    }
    fn snapshot_state(&mut self, _: u64) -> Result<Vec<Range>> {
        Ok(self.ranges.iter().cloned().collect())
    }
}

/// Writes the numbers between two checkpoints to a file each, which is hidden until it is committed.
struct Files {
    folder: PathBuf,
}

impl Sink<u64> for Files {
    type Committable = String;
    type Writer = FilesWriter;
    type Committer = Rename;
    type GlobalCommitter = NoCommitter;

    fn create_writer(&self, context: &OperatorContext) -> Result<FilesWriter> {
        fs::create_dir_all(&self.folder)?;
        let attempt = context.attempt();
        let name = format!("{}-{:x}-{}", attempt.subtask, attempt.graph, attempt.attempt);
        Ok(FilesWriter { folder: self.folder.clone(), name, files: 0, lines: String::new() })
    }
    fn create_committer(&self, _: &OperatorContext) -> Result<Rename> {
        Ok(Rename { folder: self.folder.clone() })
    }
    fn create_global_committer(&self, _: &OperatorContext) -> Result<NoCommitter> {
        Ok(NoCommitter)
    }
}

struct FilesWriter {
    folder: PathBuf,
    name: String,
    files: u64,
    lines: String,
}

impl SinkWriter<u64> for FilesWriter {
    fn write(&mut self, number: u64, _: &WriterContext<'_>) -> Result<()> {
        self.lines += &format!("{number}\n");
        Ok(())
    }
}

impl CommittingSinkWriter<u64> for FilesWriter {
    type Committable = String;
    type State = NoWriterState;

    fn prepare_commit(&mut self) -> Result<Vec<String>> {
        if self.lines.is_empty() {
            return Ok(Vec::new());
        }
        self.files += 1;
        let name = format!("{}-{}", self.name, self.files);
        fs::write(self.folder.join(format!(".{name}")), std::mem::take(&mut self.lines))?;
        Ok(vec![name])
    }
}

struct Rename {
    folder: PathBuf,
}

impl Committer<String> for Rename {
    async fn commit(&self, request: CommitRequest<String>) -> Result<(), CommitError> {
        let name = request.committable;
        let becomes = self.folder.join(&name);
        match fs::rename(self.folder.join(format!(".{name}")), &becomes) {
            Ok(()) => Ok(()),
            // The commit is repeated: it was done before, and the failure came afterwards.
            Err(error) if error.kind() == ErrorKind::NotFound && becomes.is_file() => Ok(()),
            Err(error) => Err(CommitError::Failed(error.to_string())),
        }
    }
}

#[flott::main]
fn paced_ranges(env: &Environment, args: Args) -> Result<()> {
    let output = args.get(0).ok_or("the output is missing")?;
    let splits = args.get(1).ok_or("the number of splits is missing")?.parse()?;
    env.from_source(Numbers { splits }, WatermarkStrategy::no_watermarks(), "numbers")
        .uid("numbers")
        .map(|number| number * number)
        .sink_to(Files { folder: output.into() })
        .uid("squares");
    Ok(())
}
