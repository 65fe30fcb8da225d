//! The file sink: writes records to part files, which appear when the checkpoint is complete that they were finished for.
//!
//! Each subtask has one part in progress at most, with a hidden name. The part is *pending* when it has reached its size or age,
//! or when a barrier comes; the pending part is a committable. The global committer publishes the pending parts of all subtasks
//! when the checkpoint is complete. It runs in one process, and looks at the start for the marks of all subtasks, so that it
//! notices a folder that the other processes do not share.
//! Nothing here may publish a part whose checkpoint is not complete.

mod commit;
pub(super) mod names;
#[cfg(test)]
mod tests;
mod writer;

pub use commit::{PartCommitter, PendingPart};
pub use writer::PartWriter;

use super::{NoCommitter, Sink};
use crate::{
    operators::{BoxError, OperatorContext},
    seam::TaskError,
    types::ToLine,
};
use std::time::Duration;
use storage::objects::S3Settings;

/// Writes one record into the bytes of a file, on the task's thread. Each subtask uses a clone, made anew from the program's encoder each
/// time that its task starts: no checkpoint contains what an encoder remembers. Implemented for closures:
/// `|order: &Order, out: &mut Vec<u8>| { out.extend_from_slice(&order.bytes); Ok(()) }`.
///
/// An encoder that numbers the records of each attempt, and skips empty ones:
///
/// ```
/// use streaming::{
///     Stream,
///     operators::BoxError,
///     sinks::{Encoder, FileSink, RollingPolicy},
/// };
///
/// #[derive(Clone, Default)]
/// struct Numbered(u64);
///
/// impl Encoder<String> for Numbered {
///     fn encode(&mut self, record: &String, out: &mut Vec<u8>) -> Result<(), BoxError> {
///         if record.contains('\n') {
///             return Err(format!("a record of several lines: {record:?}").into());
///         }
///         if !record.is_empty() {
///             self.0 += 1;
///             out.extend_from_slice(format!("{}\t{record}\n", self.0).as_bytes());
///         }
///         Ok(())
///     }
/// }
///
/// fn to_files(lines: &Stream<String>) {
///     let sink = FileSink::for_row_format("/data/lines", Numbered::default());
///     lines.sink_to(sink.rolling(RollingPolicy::on_checkpoint()).suffix(".tsv")).uid("lines");
/// }
///
/// let (mut encoder, mut out) = (Numbered::default(), Vec::new());
/// for record in ["one", "", "two"] {
///     encoder.encode(&record.to_owned(), &mut out)?;
/// }
/// assert_eq!(out, b"1\tone\n2\ttwo\n");
/// assert!(encoder.encode(&"a\nb".to_owned(), &mut out).is_err());
/// # Ok::<(), BoxError>(())
/// ```
pub trait Encoder<T>: Clone + Send + 'static {
    /// Appends the record to `out`, with what separates it from the next one. `out` may contain earlier records, which must stay. A
    /// record for which nothing is appended is skipped.
    ///
    /// # Errors
    /// The task fails with the returned error.
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError>;
}

impl<T, F> Encoder<T> for F
where
    F: FnMut(&T, &mut Vec<u8>) -> Result<(), BoxError> + Clone + Send + 'static,
{
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        self(record, out)
    }
}

/// The encoder that writes each record as a line of text ([`ToLine`]), which ends with `\n`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lines;

impl<T: ToLine> Encoder<T> for Lines {
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        record.write_line(out);
        out.push(b'\n');
        Ok(())
    }
}

/// Decides when a subtask of a [`FileSink`] ends a part file and begins another one: at a size in bytes, and at an age since the part's
/// first record. A checkpoint always ends the part, whatever the policy. The default is 128 MiB or 60 s, whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingPolicy {
    max_part_bytes: u64,
    rollover_interval: Option<Duration>,
}

impl Default for RollingPolicy {
    /// Returns the policy that ends a part once it has 128 MiB, or 60 s after its first record, as Flink's.
    fn default() -> Self {
        Self { max_part_bytes: 128 << 20, rollover_interval: Some(Duration::from_secs(60)) }
    }
}

impl RollingPolicy {
    /// Returns the policy that ends a part at checkpoints, and at the end of input, only.
    pub fn on_checkpoint() -> Self {
        Self { max_part_bytes: u64::MAX, rollover_interval: None }
    }
    /// Returns the policy that ends a part once it has this many encoded bytes (128 MiB by default). The record that reaches the
    /// size is not divided, so that a part is larger by at most one record; with 0 or 1 each record gets a part of its own.
    pub fn max_part_bytes(self, max_part_bytes: u64) -> Self {
        Self { max_part_bytes, ..self }
    }
    /// Returns the policy that ends a part at this age, counted from its first record (60 s by default), whether further records
    /// come or not. With zero a part ends as soon as the task looks at its timers.
    pub fn rollover_interval(self, interval: Duration) -> Self {
        Self { rollover_interval: Some(interval), ..self }
    }
}

/// A sink that writes records to files in a folder, exactly once: a record is in one finished file, whatever failed meanwhile.
///
/// The folder is an absolute local path (or `file:` URI), `hdfs://` or `s3://`; with several TaskManagers a local folder must be one
/// that all of them share, else the job fails at its start. Files that appear have names like
/// `part-00002-00017-9d1e07c2b6a3f458-5b1f0c6ad2e94f37` (subtask, number, job and operator, attempt) and the suffix of
/// [`FileSink::suffix`]; they never change again. A checkpoint ends every file, so that a
/// short checkpoint interval makes many small files. Files appear when a checkpoint is complete, or the final one at the end of a
/// bounded job: an unbounded job needs `execution.checkpointing.interval`.
///
/// While a file is written, its name begins with a dot (and ends with `.inprogress`, `.pending` or, while a savepoint holds the file,
/// `.kept`); on S3 it is an upload that nobody sees, with an empty object `.upload-….kept` while a savepoint holds it. What a failed
/// attempt leaves over is deleted when the job has completed its next checkpoint, and what a job leaves over that is cancelled can be
/// deleted by hand. On S3 the former needs `s3:ListBucketMultipartUploads`, `s3:AbortMultipartUpload`, `s3:GetObject` and
/// `s3:ListBucket`, without which the job warns and goes on; MinIO does not list the uploads of a folder, so that its own expiry has to
/// delete them. The object `.kept` stays if another attempt or job publishes the file. A lifecycle rule of the bucket for incomplete
/// uploads should delete what a cancelled job leaves over; it must not delete uploads that belong to a savepoint which is to be restored.
///
/// On S3 the options `s3.endpoint`, `s3.region`, `s3.access-key`, `s3.secret-key` and `s3.path.style.access` of the job or the cluster
/// count, else the environment variables `AWS_…`.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     Stream,
///     sinks::{FileSink, RollingPolicy},
///     testing,
/// };
///
/// fn to_files(lines: &Stream<String>) {
///     let policy = RollingPolicy::default()
///         .max_part_bytes(1 << 30)
///         .rollover_interval(Duration::from_secs(900));
///     let sink = FileSink::lines("hdfs://cluster/data/lines").rolling(policy).suffix(".txt");
///     lines.sink_to(sink).uid("lines").name("lines to HDFS");
/// }
///
/// /// Two numbers of four bytes each.
/// fn to_binary_files(pairs: &Stream<(u32, u32)>) {
///     pairs.sink_to(FileSink::for_row_format("s3://bucket/pairs", |pair: &(u32, u32), out: &mut Vec<u8>| {
///         out.extend_from_slice(&pair.0.to_le_bytes());
///         out.extend_from_slice(&pair.1.to_le_bytes());
///         Ok(())
///     }));
/// }
///
/// # fn test(folder: &std::path::Path) -> Result<(), streaming::TaskError> {
/// let visible = || {
///     let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
///     entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
/// };
/// let mut test = testing::sink(FileSink::lines(folder.display().to_string())).open()?;
/// test.push(0, "one".to_owned())?;
/// test.barrier(1, false)?;
/// assert_eq!(visible(), 0);
/// test.notify_complete(1)?;
/// assert_eq!(visible(), 1);
/// # Ok(())
/// # }
/// # let tmp = std::env::temp_dir().join(format!("flott-doc-files-{}", std::process::id()));
/// # test(&tmp).unwrap();
/// # std::fs::remove_dir_all(tmp).unwrap();
/// ```
#[derive(Debug)]
pub struct FileSink<E> {
    uri: String,
    encoder: E,
    policy: RollingPolicy,
    suffix: String,
}

impl FileSink<Lines> {
    /// Creates a sink that writes each record as a line to files in the folder of this path or URI, with [`RollingPolicy::default`] and
    /// without a suffix. Nothing is opened or checked before the job starts: a URI that this program cannot write to then fails the
    /// job, which is not restarted.
    pub fn lines(uri: impl Into<String>) -> Self {
        Self::for_row_format(uri, Lines)
    }
}

impl<E> FileSink<E> {
    /// Creates a sink that writes records one after another, as `encoder` encodes them, to files in the folder of this path or URI;
    /// otherwise as [`FileSink::lines`].
    pub fn for_row_format(uri: impl Into<String>, encoder: E) -> Self {
        let policy = RollingPolicy::default();
        Self { uri: uri.into(), encoder, policy, suffix: String::new() }
    }
    /// Sets the policy by which a file is ended before a checkpoint ends it; [`RollingPolicy::default`] (128 MiB or 60 s) if this
    /// is not called.
    pub fn rolling(self, policy: RollingPolicy) -> Self {
        Self { policy, ..self }
    }
    /// Sets the end of the files' names, such as `.csv`: at most 100 of the characters `A-Z a-z 0-9 . _ -`, none by default. Another
    /// suffix fails the job at its start, and the job is not restarted.
    pub fn suffix(self, suffix: impl Into<String>) -> Self {
        Self { suffix: suffix.into(), ..self }
    }

    /// Refuses what can never be written, with a failure that no restart repeats.
    fn check(&self, context: &OperatorContext) -> Result<(), BoxError> {
        let failed = |why: String| {
            let what = format!("'{}' cannot be written: {why}", self.uri);
            BoxError::from(TaskError::Output { operator: context.name().to_owned(), what })
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if self.suffix.len() > 100 || !self.suffix.chars().all(allowed) {
            let suffix = &self.suffix;
            return Err(failed(format!(
                "a file name cannot end with '{suffix}', use A-Z a-z 0-9 . _ -"
            )));
        }
        let opened = storage::output::open(&self.uri, &S3Settings::default());
        opened.map(drop).map_err(|error| failed(error.to_string()))
    }
}

impl<T: Send + 'static, E: Encoder<T>> Sink<T> for FileSink<E> {
    type Committable = PendingPart;
    type Writer = PartWriter<E>;
    type Committer = NoCommitter;
    type GlobalCommitter = PartCommitter;

    fn create_writer(&self, context: &OperatorContext) -> Result<PartWriter<E>, BoxError> {
        self.check(context)?;
        let folder = storage::output::open(&self.uri, &s3_settings(context))?;
        let names = names::Names::of(context, &self.suffix);
        Ok(PartWriter::new(self.uri.clone(), folder, names, self.policy, self.encoder.clone()))
    }
    fn create_committer(&self, _context: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
    fn create_global_committer(
        &self,
        context: &OperatorContext,
    ) -> Result<PartCommitter, BoxError> {
        Ok(PartCommitter::new(s3_settings(context)))
    }
}

/// Returns the settings for S3 among the options of the job.
fn s3_settings(context: &OperatorContext) -> S3Settings {
    S3Settings::from_texts(|key| context.option(key).map(str::to_owned))
}
