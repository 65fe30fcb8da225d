//! How a program declares these sinks.

use super::{
    Checksum, CollectSink, Discard, FileSink, Print, checksum::Total, collect::CollectFactory,
    file::CommitterFactory,
};
use crate::{
    api::{Sink, Stream},
    types::{Record, ToLine},
};
use std::path::Path;

impl<T: Record> Stream<T> {
    /// Prints every record as a line where its task runs.
    pub fn print(&self) -> Sink
    where
        T: ToLine,
    {
        self.add_sink("print", None, Print::to_stdout)
    }

    /// Writes every record as a line. With one subtask `path` becomes a file, with several a folder of parts; it appears
    /// when the job has finished, whole, and replaces an earlier result in one step. Bounded jobs only.
    ///
    /// Until then it is written to a hidden folder beside it, `.NAME.flott-JOBID`. One that a lost job left behind is
    /// removed by the next job that publishes to `path`, if nothing in it has changed for a day and its job is gone for
    /// sure (its lock is free); otherwise it stays and can be removed by hand.
    pub fn write_text(&self, path: impl AsRef<Path>) -> Sink
    where
        T: ToLine,
    {
        let destination = self.env.resolve("file sink", path.as_ref());
        let committer = CommitterFactory { destination: destination.clone() };
        self.add_sink("file_sink", Some(Box::new(committer)), move || {
            FileSink::new(destination.clone())
        })
    }

    /// Gives the records as lines to the client that is attached.
    pub fn collect(&self) -> Sink
    where
        T: ToLine,
    {
        let bounded = self.env.builder.borrow().bounded.clone();
        let coordinator = CollectFactory { bounded };
        self.add_sink("collect", Some(Box::new(coordinator)), CollectSink::default)
    }

    /// Drops every record.
    pub fn discard(&self) -> Sink {
        self.add_sink("discard", None, || Discard)
    }

    /// Count and wrapping sum of the records' hashes, when bounded input ends: equal for equal multisets.
    pub fn checksum(&self) -> Stream<(u64, u64)> {
        self.transform("checksum", Checksum::default)
            .rebalance()
            .transform("checksum_total", Total::default)
            .set_parallelism(1)
    }
}
