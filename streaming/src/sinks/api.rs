//! The methods of [`Stream`] that declare the built-in sinks.

use super::{
    Checksum, CollectSink, Discard, Print,
    checksum::Total,
    collect,
    collect::CollectFactory,
    text::{self, TextSink},
};
use crate::{
    api::{Stream, StreamSink},
    operators::Process,
    types::{Record, ToLine},
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};

impl<T: Record> Stream<T> {
    /// Prints every record as a line on the standard output of the process that runs its task, batch by batch; a failed write fails the
    /// task. With several subtasks each line begins with the subtask's number from 1, like `3> `. Output is repeated after a failure.
    pub fn print(&self) -> StreamSink
    where
        T: ToLine,
    {
        self.add_sink("print", None, Print::to_stdout)
    }

    /// Writes every record as a line to files. With one subtask `path` becomes a file, with several a folder of files `part-00000` and
    /// so on. The whole output appears when the job has finished and replaces an earlier result in one step; on a file system that cannot
    /// exchange two names, `path` is absent for a moment if the old or the new result is a folder. The build fails if the job
    /// has an unbounded source, if `path` is relative outside embedded mode, or if it is a URI of another scheme than `file`. The job
    /// fails if `path` is a folder with other files than `part-…`, and at its start if the TaskManagers do not share the folder of
    /// `path`. A [`FileSink`](super::FileSink) writes the output of an unbounded job.
    ///
    /// Until then the output is in a hidden folder beside `path`, `.NAME.flott-JOBID`. If a job fails or is cancelled after a
    /// checkpoint, or is lost, it leaves its folder behind. The next job that publishes to `path` removes the folder, provided that
    /// nothing in it has changed for a day and its lock is free, so that its job is certainly gone. Otherwise the folder stays and
    /// can be removed by hand. That holds for a job that was stopped with a savepoint too: start it again from the savepoint within a day
    /// if other jobs publish to `path`, because the savepoint needs the folder.
    pub fn write_text(&self, path: impl AsRef<Path>) -> StreamSink
    where
        T: ToLine,
    {
        let destination = self.env.resolve("file sink", path.as_ref());
        let sink = Arc::new(Mutex::new(TextSink::new(destination)));
        self.add_writer("file_sink", sink.clone(), &*text::committers(sink))
    }

    /// Sends every record as a line to the attached client, by way of a coordinator beside the JobMaster, which keeps 8 MiB of lines in
    /// memory. The client of a bounded job gets the lines when the job has finished, and lines beyond the 8 MiB wait in a temporary file.
    /// The client of an unbounded job gets them as they come, with periodic checkpoints only when a checkpoint contains them, and the job
    /// is held up while 8 MiB wait for the client: with periodic checkpoints a task fails then, if no client asks for most of the time that
    /// a checkpoint may take and the job does not tolerate failed checkpoints. A task also fails while more than 64 MiB wait for a
    /// checkpoint. A checkpoint fails while more than 16 MiB of lines are kept, and so does a task of a bounded job with periodic
    /// checkpoints: write large results to files.
    pub fn collect(&self) -> StreamSink
    where
        T: ToLine,
    {
        let bounded = self.env.builder.borrow().bounded.clone();
        let coordinator = CollectFactory { bounded };
        let coordinator = Some((Box::new(coordinator) as _, collect::declare()));
        self.add_sink("collect", coordinator, CollectSink::default)
    }

    /// Drops every record, so that nothing leaves the job; for measurements.
    pub fn discard(&self) -> StreamSink {
        self.add_sink("discard", None, || Discard)
    }

    /// Emits one record when the input ends, for all subtasks together: the number of records and the sum of their hashes, which wraps at
    /// 2^64. Both are equal for equal multisets of records, whatever their order. Checkpoints do not contain the sums: after a restore from
    /// a checkpoint only the records since then count. Nothing is emitted if the job is cancelled, fails, or is stopped without draining.
    pub fn checksum(&self) -> Stream<(u64, u64)> {
        self.transform("checksum", Checksum::default)
            .rebalance()
            .transform("checksum_total", || Process::new(Total::default()))
            .set_parallelism(1)
    }
}
