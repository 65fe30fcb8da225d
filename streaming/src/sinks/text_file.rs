//! The sink that writes lines to files. Each attempt writes a file of its own beside the destination. When the job has finished,
//! the coordinator moves the files of the successful attempts into place: the file of a single subtask becomes the destination
//! itself, those of several become the parts of a folder. Before that, nothing may be visible under the destination's name.
//!
//! Attempts write into a hidden folder beside the destination, `.NAME.flott-JOBID`, which is removed when the job ends. If a
//! job's JobManager is lost for good, the folder stays; the next job that publishes to the same destination removes it if
//! nothing in it has changed for a day and its lock is free. A folder without a lock, or on a file system that has no locks,
//! stays until it is removed by hand.

use super::publish::{Publication, staging};
use crate::{
    batch::Batch,
    operators::{Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{Coordinator, CoordinatorContext, CoordinatorFactory, StreamEvent, TaskError},
    types::{ToLine, decode_one, encode_one},
};
use model::ExecutionAttemptId;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::PathBuf,
};

const VERSION: u8 = 1;
/// Size in bytes of the write buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// Returns the name of an attempt's file in the staging folder.
fn attempt_file(attempt: ExecutionAttemptId) -> String {
    format!("part-{:05}-{:016x}-{}", attempt.subtask, attempt.graph, attempt.attempt)
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    writer: BufWriter<File>,
}

/// How far the report of the file to the coordinator got: not sent, sent, or confirmed.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    No,
    Asked,
    Yes,
}

/// The sink's part in a task: writes the file of one execution attempt.
#[derive(Debug)]
pub struct TextFileSink {
    destination: PathBuf,
    open: Option<Open>,
    line: Vec<u8>,
    told: Told,
}

impl TextFileSink {
    /// Creates a sink for a destination, which must be an absolute path. The file is created when the task opens.
    pub fn new(destination: PathBuf) -> Self {
        Self { destination, open: None, line: Vec::new(), told: Told::No }
    }

    fn create(&self, context: &OperatorContext) -> io::Result<Open> {
        let folder = staging(&self.destination, context.job_id());
        fs::create_dir_all(&folder)?;
        let path = folder.join(attempt_file(context.attempt()));
        let file = File::create(&path)?;
        Ok(Open { path, writer: BufWriter::with_capacity(BUFFER_BYTES, file) })
    }

    fn wrong(&self, context: &OperatorContext, error: &io::Error) -> TaskError {
        context.io_error(format!("can't write for '{}'", self.destination.display()), error)
    }
}

impl<T: ToLine> Operator<T> for TextFileSink {
    type Out = ();

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.open = Some(self.create(context).map_err(|error| self.wrong(context, &error))?);
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        for record in batch.records() {
            self.line.clear();
            record.write_line(&mut self.line);
            self.line.push(b'\n');
            if let Err(error) = open.writer.write_all(&self.line) {
                return Err(self.wrong(context, &error));
            }
        }
        batch.clear();
        Ok(())
    }

    fn event(
        &mut self,
        event: StreamEvent,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event != StreamEvent::EndOfInput || self.told == Told::Yes {
            return Ok(Flow::Done);
        }
        if self.told == Told::No {
            if let Some(open) = &mut self.open {
                // The data must be on disk before the coordinator counts on it.
                let written = open.writer.flush().and_then(|()| open.writer.get_ref().sync_data());
                written.map_err(|error| self.wrong(context, &error))?;
            }
            context.ask_coordinator(encode_one(&(VERSION, context.subtask())), 0);
            self.told = Told::Asked;
        }
        Ok(Flow::Waiting)
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        if let OperatorMail::Reply { result, .. } = mail {
            result.map_err(|why| context.coordinator_error(why))?;
            self.told = Told::Yes;
        }
        Ok(())
    }

    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        self.open = None;
        Ok(())
    }

    fn dispose(&mut self, _context: &OperatorContext) {
        if let Some(open) = self.open.take() {
            // A failure is ignored: the file goes with the staging folder when the job ends.
            let _ = fs::remove_file(&open.path);
        }
    }
}

/// The coordinator of a file sink: publishes the files of the successful attempts when the job has finished.
#[derive(Debug)]
pub struct FileCommitter {
    destination: PathBuf,
    parallelism: u32,
    publication: Publication,
    /// The attempt that has written its file to the end, by subtask.
    written: BTreeMap<u32, ExecutionAttemptId>,
    /// Whether this process has published. An earlier process of the job may have done so too: then this one publishes again, or
    /// the job fails and the result is withdrawn.
    published: bool,
    over: bool,
}

impl FileCommitter {
    /// Creates a committer for a destination, which must be an absolute path.
    pub fn new(destination: PathBuf, context: &CoordinatorContext) -> Self {
        Self {
            publication: Publication::new(destination.clone(), context.job_id),
            destination,
            parallelism: context.parallelism,
            written: BTreeMap::new(),
            published: false,
            over: false,
        }
    }

    /// Checks that the destination is empty, a file, or a folder that contains only parts, as an earlier run leaves it.
    fn check_destination(&self) -> Result<(), String> {
        let shown = self.destination.display();
        if self.destination.file_name().is_none() {
            return Err(format!("the output '{shown}' does not end with a file name"));
        }
        let Ok(entries) = fs::read_dir(&self.destination) else { return Ok(()) };
        for entry in entries {
            let entry =
                entry.map_err(|error| format!("the output '{shown}' can't be read: {error}"))?;
            if !entry.file_name().to_string_lossy().starts_with("part-") {
                return Err(format!(
                    "the output '{shown}' is a folder with other files than an earlier result ('{}'); it is not replaced",
                    entry.file_name().to_string_lossy()
                ));
            }
        }
        Ok(())
    }

    fn put_in_place(&self) -> io::Result<()> {
        let (staging, ready) = (self.publication.staging(), self.publication.ready());
        if self.parallelism == 1 {
            if let Some(attempt) = self.written.get(&0) {
                fs::rename(staging.join(attempt_file(*attempt)), &ready)?;
            }
        } else {
            fs::create_dir_all(&ready)?;
            for (subtask, attempt) in &self.written {
                let part = ready.join(format!("part-{subtask:05}"));
                fs::rename(staging.join(attempt_file(*attempt)), part)?;
            }
            File::open(&ready)?.sync_all()?;
        }
        self.publication.publish()
    }

    fn wrong(&self, what: &str, error: &io::Error) -> String {
        format!("the output '{}' can't be {what}: {error}", self.destination.display())
    }
}

impl Coordinator for FileCommitter {
    fn start(&mut self, _restore: Option<Vec<u8>>) -> Result<(), String> {
        self.check_destination()?;
        self.written.clear();
        // The attempts of an earlier JobMaster of the same job do not count any more.
        let started = self.publication.start();
        started.map(drop).map_err(|error| self.wrong("written", &error))
    }

    fn handle_event(&mut self, from: ExecutionAttemptId, event: &[u8]) -> Result<Vec<u8>, String> {
        match decode_one(event) {
            Ok((VERSION, subtask)) if subtask == from.subtask => {
                self.written.insert(subtask, from);
                Ok(Vec::new())
            }
            _ => Err("the committer cannot decode an event of its sink".into()),
        }
    }

    fn handle_request(&mut self, _request: &[u8]) -> Result<Vec<u8>, String> {
        Err("a file sink does not answer client requests".into())
    }

    fn attempts_ended(&mut self, attempts: &[ExecutionAttemptId]) {
        self.written.retain(|_, attempt| !attempts.contains(attempt));
    }

    fn publish(&mut self) -> Result<(), String> {
        if self.published {
            return Ok(());
        }
        if self.over {
            return Err(format!("the output '{}' has been withdrawn", self.destination.display()));
        }
        let expected = self.parallelism as usize;
        if self.written.len() != expected {
            let have = self.written.len();
            return Err(format!(
                "{have} of {expected} parts of the output '{}' are written",
                self.destination.display()
            ));
        }
        self.check_destination()?;
        self.put_in_place().map_err(|error| self.wrong("published", &error))?;
        self.published = true;
        Ok(())
    }

    fn job_ended(&mut self, finished: bool) -> Result<(), String> {
        if finished {
            self.publish()?;
        }
        if self.over {
            return Ok(());
        }
        if finished {
            self.publication.remove_stale();
        } else {
            // This also withdraws a result that was moved into place by a publication that failed afterwards.
            let withdrawn = self.publication.withdraw();
            withdrawn.map_err(|error| self.wrong("withdrawn", &error))?;
            self.published = false;
        }
        self.over = true;
        self.publication.clean_up();
        Ok(())
    }
}

/// Creates the committer of a file sink.
pub(super) struct CommitterFactory {
    pub(super) destination: PathBuf,
}

impl CoordinatorFactory for CommitterFactory {
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator> {
        Box::new(FileCommitter::new(self.destination.clone(), &context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{JobId, JobVertexId, OperatorId};
    use std::{path::Path, sync::Arc};

    fn committer(out: &Path) -> FileCommitter {
        let context = CoordinatorContext {
            job_id: JobId(1),
            operator: OperatorId(2),
            parallelism: 1,
            tmp_dir: PathBuf::new(),
            options: Arc::default(),
            on_failure: Default::default(),
        };
        FileCommitter::new(out.to_owned(), &context)
    }

    fn write(committer: &mut FileCommitter, text: &str) {
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask: 0, attempt: 0 };
        let path = committer.publication.staging().join(attempt_file(attempt));
        fs::write(path, text).unwrap();
        committer.handle_event(attempt, &encode_one(&(VERSION, 0_u32))).unwrap();
    }

    #[test]
    fn a_job_that_published_was_killed_and_failed_shows_the_earlier_result() {
        for finished in [false, true] {
            let tmp = tempfile::tempdir().unwrap();
            let out = tmp.path().join("out");
            fs::write(&out, "old").unwrap();
            let mut first = committer(&out);
            first.start(None).unwrap();
            write(&mut first, "new");
            first.publish().unwrap();
            drop(first); // killed before it was told that all others could publish, too
            assert_eq!(fs::read_to_string(&out).unwrap(), "new");
            let mut second = committer(&out);
            second.start(None).unwrap();
            write(&mut second, "again");
            second.job_ended(finished).unwrap();
            assert_eq!(second.job_ended(true).is_ok(), finished);
            second.job_ended(false).unwrap();
            let expected = if finished { "again" } else { "old" };
            assert_eq!(fs::read_to_string(&out).unwrap(), expected);
            assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1, "no leftovers");
        }
    }
    #[test]
    fn what_was_published_is_taken_back_where_another_sink_cannot_publish() {
        let tmp = tempfile::tempdir().unwrap();
        let out = tmp.path().join("out");
        let mut sink = committer(&out);
        sink.start(None).unwrap();
        assert!(sink.publish().unwrap_err().contains("0 of 1 parts"), "nothing is written yet");
        write(&mut sink, "new");
        sink.publish().unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "new");
        sink.job_ended(false).unwrap();
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0, "as if it had never run");
        assert!(sink.job_ended(true).unwrap_err().contains("withdrawn"), "asked once more");
    }
    #[test]
    fn a_jobs_own_first_result_is_not_what_stood_before() {
        let tmp = tempfile::tempdir().unwrap();
        let out = tmp.path().join("out");
        let mut first = committer(&out);
        first.start(None).unwrap();
        write(&mut first, "first");
        first.publish().unwrap();
        drop(first); // killed
        let mut second = committer(&out);
        second.start(None).unwrap();
        write(&mut second, "second");
        second.publish().unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "second");
        second.job_ended(false).unwrap();
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0, "nothing stood there");
    }
}
