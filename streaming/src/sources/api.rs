//! The methods of [`Environment`] that declare sources.

use super::{CollectionSource, FileSource, SequenceSource, Source, socket::SocketSource};
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
    /// Creates a stream of a source's records. `name` is the operator's name. Each split gets its watermarks from a generator of
    /// its own; a subtask's watermark is the minimum over its splits that are neither idle nor read to their ends. See [`Source`]
    /// for an example.
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
        source.resolve_paths(self, name);
        let pending =
            self.builder.borrow_mut().add_source("source", source, false, Some(watermarks));
        self.stream(pending).name(name)
    }

    /// Creates a stream of a source whose records have no event times. `single` limits the source to one subtask.
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

    /// Creates a stream of the lines of a file, or of all files below a folder, as text, without event times. See [`FileSource`],
    /// which gives each split watermarks of its own. A line that is not UTF-8 fails the task: use [`Environment::read_lines`] for
    /// such files.
    pub fn read_text_file(&self, path: impl AsRef<Path>) -> Stream<String> {
        self.text("text_source", path.as_ref(), None, files::open)
    }

    /// Creates a stream of the lines of a file, or of all files below a folder, as bytes, which need not be UTF-8. All else is as
    /// in [`Environment::read_text_file`].
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
        let mut source = FileSource::<T>::new(vec![path.to_owned()], split_bytes, open_remote);
        source.resolve_paths(self, &kind.replace('_', " "));
        self.source_without_times(kind, source, false)
    }

    /// Creates a bounded stream of the values of a collection. With n subtasks, subtask i emits the values at the positions i,
    /// i + n, i + 2n and so on, counted from 0.
    pub fn from_collection<T: Record>(&self, values: impl IntoIterator<Item = T>) -> Stream<T> {
        let source = CollectionSource::new(values.into_iter().collect());
        self.source_without_times("collection", source, false)
    }

    /// Creates a stream of the numbers of a range, as fast as possible: `0..1_000` is bounded, `0..` is unbounded. With n subtasks,
    /// subtask i emits every n-th number, from the i-th on (counted from 0).
    pub fn sequence(&self, range: impl RangeBounds<u64>) -> Stream<u64> {
        self.numbers(range, None)
    }

    /// Creates a stream of the numbers of a range, at `per_second` numbers a second over all subtasks together. A subtask that was
    /// held up for less than a minute emits faster afterwards until it has caught up. After a longer delay, or when the machine's
    /// clock is set back, the subtask goes on at the rate from then on and makes up for nothing. The build fails if `per_second` is not
    /// finite and positive.
    pub fn sequence_with_rate(&self, range: impl RangeBounds<u64>, per_second: f64) -> Stream<u64> {
        if !(per_second.is_finite() && per_second > 0.0) {
            let why = format!(
                "operator 'sequence': the rate must be finite and above 0, not {per_second}"
            );
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

    /// Creates an unbounded stream of the lines that arrive over a TCP connection to `host:port`, as text. The source has one
    /// subtask and is a chain of its own; its lines are distributed round-robin to the subtasks of the next operator. After a
    /// failure the source connects anew: lines that were read before are not read again.
    pub fn socket_text(&self, address: impl Into<String>) -> Stream<String> {
        let source = SocketSource::new(address.into());
        self.source_without_times::<SocketSource<String>>("socket", source, true)
            .rebalanced_source()
    }
}
