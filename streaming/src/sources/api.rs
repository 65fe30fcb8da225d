//! How a program declares sources.

use super::{CollectionSource, SequenceSource, SocketSource, Source, TextSource};
use crate::{
    api::{Environment, Stream},
    time::{
        NoWatermarks, SourceTimestamps, TimestampAssigner, WatermarkGenerator, WatermarkStrategy,
    },
    types::{FromLine, Record},
};
use std::{
    ops::{Bound, RangeBounds},
    path::Path,
};
use storage::files::{self, OpenRemoteFiles};

impl Environment {
    /// The records of a source. Each split gets its watermarks from a generator of its own; a subtask's watermark is the least of
    /// its splits that are neither idle nor read to their ends. See [`Source`] for an example.
    pub fn from_source<S, F, G>(
        &self,
        source: S,
        watermarks: WatermarkStrategy<S::Record, F, G>,
        name: &str,
    ) -> Stream<S::Record>
    where
        S: Source,
        F: TimestampAssigner<S::Record>,
        G: WatermarkGenerator<S::Record>,
    {
        let pending =
            self.builder.borrow_mut().add_source("source", source, false, Some(watermarks));
        self.stream(pending).name(name)
    }

    /// Declares a source whose records have no event times.
    pub(crate) fn source_without_times<S: Source>(
        &self,
        kind: &'static str,
        source: S,
        single: bool,
    ) -> Stream<S::Record> {
        let none = None::<WatermarkStrategy<S::Record, SourceTimestamps, NoWatermarks>>;
        let pending = self.builder.borrow_mut().add_source(kind, source, single, none);
        self.stream(pending)
    }

    /// The lines of a file, or of all files below a folder, as text. A line ends with `\n` or `\r\n`, which is not
    /// part of it; the last one need not. Files whose name begins with `.` or `_` are left out of folders. Bytes that are not
    /// UTF-8 fail the task: read those with [`Environment::read_lines`].
    ///
    /// `hdfs://nameservice/path` is read where the program has the feature `hdfs` or `yarn`; the configuration is Hadoop's
    /// own, in `HADOOP_CONF_DIR`.
    pub fn read_text_file(&self, path: impl AsRef<Path>) -> Stream<String> {
        self.text("text_source", path.as_ref(), None, files::open)
    }

    /// The lines of a file, or of all files below a folder, as bytes, which need not be UTF-8; otherwise as
    /// [`Environment::read_text_file`].
    pub fn read_lines(&self, path: impl AsRef<Path>) -> Stream<Vec<u8>> {
        self.text("line_source", path.as_ref(), None, files::open)
    }

    pub(crate) fn text<T: FromLine>(
        &self,
        kind: &'static str,
        path: &Path,
        split_bytes: Option<u64>,
        open_remote: OpenRemoteFiles,
    ) -> Stream<T> {
        let path = self.resolve_input(&kind.replace('_', " "), path, open_remote);
        let source = TextSource::<T>::new(vec![path], split_bytes, open_remote);
        self.source_without_times(kind, source, false)
    }

    /// The values of a collection. Subtask i has the i-th, the i+n-th and so on.
    pub fn from_collection<T: Record>(&self, values: impl IntoIterator<Item = T>) -> Stream<T> {
        let source = CollectionSource::new(values.into_iter().collect());
        self.source_without_times("collection", source, false)
    }

    /// The numbers of a range, `0..1_000` or `0..` for ever. Subtask i has the i-th, the i+n-th and so on.
    pub fn sequence(&self, range: impl RangeBounds<u64>) -> Stream<u64> {
        self.numbers(range, None)
    }

    /// The numbers of a range, so many a second (all subtasks together). A source that was held up catches up.
    pub fn sequence_with_rate(&self, range: impl RangeBounds<u64>, per_second: f64) -> Stream<u64> {
        if !(per_second.is_finite() && per_second > 0.0) {
            let why = format!("operator 'sequence': a rate must be more than 0, not {per_second}");
            self.builder.borrow_mut().invalid(why);
        }
        self.numbers(range, Some(per_second))
    }

    fn numbers(&self, range: impl RangeBounds<u64>, per_second: Option<f64>) -> Stream<u64> {
        let start = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(last.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        self.source_without_times("sequence", SequenceSource::new(start, end, per_second), false)
    }

    /// Lines that come over a TCP connection to `host:port`, as text. The source has one subtask and is a chain of its
    /// own; its lines are dealt out to the next operator in turn. What was read is not read again after a failure.
    pub fn socket_text(&self, address: impl Into<String>) -> Stream<String> {
        let source = SocketSource::new(address.into());
        self.source_without_times::<SocketSource<String>>("socket", source, true)
            .rebalanced_source()
    }
}
