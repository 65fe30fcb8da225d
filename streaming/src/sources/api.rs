//! The methods of [`Environment`] that declare sources.

use super::{CollectionSource, FileSource, SequenceSource, SocketSource, Source};
use crate::{
    api::{Environment, Stream},
    time::{
        NoWatermarks, SourceTimestamps, TimestampAssigner, WatermarkGenerator, WatermarkStrategy,
    },
    types::{FromLine, Record},
};
use std::{ops::RangeBounds, path::Path};
use storage::files::{self, OpenRemoteFiles};

impl Environment {
    /// Creates a stream of a source's records. `name` is the operator's name. `watermarks` gives the records their event times; with
    /// [`WatermarkStrategy::no_watermarks`] they keep those that the source gave them. Each split gets its watermarks from a generator
    /// of its own; a subtask's watermark is the minimum over its splits that are neither idle nor read to their ends. Nothing is read
    /// before the job starts; a mistake in a built-in source, such as a rate of 0, fails the build, and not this call. See [`Source`] for
    /// an example.
    pub fn from_source<S, F, G>(
        &self,
        mut source: S,
        watermarks: WatermarkStrategy<S::Record, F, G>,
        name: &str,
    ) -> Stream<S::Record>
    where
        S: Source,
        F: TimestampAssigner<S::Record>,
        G: WatermarkGenerator<S::Record>,
    {
        source.resolve(self, name);
        self.add(source, "source", Some(watermarks)).name(name)
    }

    /// Creates a stream of a source whose records have no event times. `kind` is the operator's kind in the job graph.
    pub(crate) fn source_without_times<S: Source>(
        &self,
        kind: &'static str,
        mut source: S,
    ) -> Stream<S::Record> {
        source.resolve(self, &kind.replace('_', " "));
        self.add(source, kind, None::<WatermarkStrategy<S::Record, SourceTimestamps, NoWatermarks>>)
    }

    fn add<S, F, G>(
        &self,
        source: S,
        kind: &'static str,
        watermarks: Option<WatermarkStrategy<S::Record, F, G>>,
    ) -> Stream<S::Record>
    where
        S: Source,
        F: TimestampAssigner<S::Record>,
        G: WatermarkGenerator<S::Record>,
    {
        let single = source.is_single();
        let pending = self.builder.borrow_mut().add_source(kind, source, single, watermarks);
        let stream = self.stream(pending);
        if single { stream.rebalanced_source() } else { stream }
    }

    /// Creates a bounded stream of the lines of a file, or of all files below a folder, as text, without event times. Nothing is read
    /// before the job starts; the build fails for a relative path outside embedded mode and for a URI that the program cannot read. The
    /// job fails at its start if the path does not exist. See [`FileSource`], which gives each split watermarks of its own. A line that
    /// is not UTF-8 fails the task: use [`Environment::read_lines`] for such files.
    pub fn read_text_file(&self, path: impl AsRef<Path>) -> Stream<String> {
        self.text_lines(path.as_ref())
    }

    // These know no type of the program: their code, that of whole sources, is compiled here and not in every program.
    fn text_lines(&self, path: &Path) -> Stream<String> {
        self.text("text_source", path, None, files::open)
    }
    fn byte_lines(&self, path: &Path) -> Stream<Vec<u8>> {
        self.text("line_source", path, None, files::open)
    }
    fn numbers(&self, source: SequenceSource) -> Stream<u64> {
        self.source_without_times("sequence", source)
    }
    fn socket(&self, source: SocketSource<String>) -> Stream<String> {
        self.source_without_times("socket", source)
    }

    /// Creates a bounded stream of the lines of a file, or of all files below a folder, as bytes, which need not be UTF-8. All else is
    /// as in [`Environment::read_text_file`].
    pub fn read_lines(&self, path: impl AsRef<Path>) -> Stream<Vec<u8>> {
        self.byte_lines(path.as_ref())
    }

    pub(crate) fn text<T: FromLine>(
        &self,
        kind: &'static str,
        path: &Path,
        split_bytes: Option<u64>,
        open_remote: OpenRemoteFiles,
    ) -> Stream<T> {
        let source = FileSource::<T>::new(vec![path.to_owned()], split_bytes, open_remote);
        self.source_without_times(kind, source)
    }

    /// Creates a bounded stream of the values of a collection. With n subtasks, subtask i emits the values at the positions i,
    /// i + n, i + 2n and so on, counted from 0. `values` is read to its end by this call, in every process that builds the program, and
    /// stays in memory; it must give the same values each time. See [`CollectionSource`].
    pub fn from_collection<T: Record>(&self, values: impl IntoIterator<Item = T>) -> Stream<T> {
        let source = CollectionSource::new(values.into_iter().collect());
        self.source_without_times("collection", source)
    }

    /// Creates a stream of the numbers of a range, as fast as possible: `0..1_000` is bounded, `0..` is unbounded. A bounded range never
    /// emits `u64::MAX` itself, even if it is written as `..=u64::MAX`; an unbounded one ends after it. With n subtasks, subtask i emits
    /// every n-th number, from the i-th on (counted from 0). See [`SequenceSource`].
    pub fn sequence(&self, range: impl RangeBounds<u64>) -> Stream<u64> {
        self.numbers(SequenceSource::new(range))
    }

    /// Creates a stream of the numbers of a range, at `per_second` numbers a second over all subtasks together, by the machines'
    /// clocks. The build fails if `per_second` is not finite and positive. See [`SequenceSource::with_rate`].
    pub fn sequence_with_rate(&self, range: impl RangeBounds<u64>, per_second: f64) -> Stream<u64> {
        self.numbers(SequenceSource::new(range).with_rate(per_second))
    }

    /// Creates an unbounded stream of the lines that arrive over a TCP connection to `host:port`, as text. The source has one subtask
    /// and is a chain of its own; its lines are distributed round-robin to the subtasks of the next operator. The task fails if it
    /// cannot connect or a line is not UTF-8, and ends when the peer closes the connection. After a failure the source connects anew:
    /// lines that were read before are not read again. See [`SocketSource`].
    pub fn socket_text(&self, address: impl Into<String>) -> Stream<String> {
        self.socket(SocketSource::text(address))
    }
}
