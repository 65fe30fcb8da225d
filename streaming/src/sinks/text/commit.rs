//! The global committer of the text sink: publishes the parts of all subtasks as one result, at the final checkpoint. A commit
//! may be repeated after a failure at any point, and recognises the result that it has published.

use super::{
    Identity, TextPart,
    publish::{self, Publication, READY},
};
use crate::{
    lock,
    operators::{BoxError, OperatorContext},
    seam::TaskError,
    sinks::{
        CommitError, CommitRequest, GlobalCommitter,
        marks::{self, Mark, SHARE},
    },
};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use storage::output::OutputFolder;

/// Publishes the result.
#[derive(Debug)]
pub(crate) struct TextCommitter {
    work: Arc<Mutex<Work>>,
    staging: Arc<dyn OutputFolder>,
    /// The destination, for messages.
    shown: String,
}

/// The work of the committer, which blocks.
#[derive(Debug)]
struct Work {
    destination: PathBuf,
    publication: Publication,
}

impl TextCommitter {
    /// Checks the destination, and creates the staging folder.
    pub(super) fn start(destination: PathBuf, context: &OperatorContext) -> Result<Self, BoxError> {
        check_destination(&destination).map_err(|why| TaskError::Output {
            operator: context.name().to_owned(),
            what: format!("'{}' {why}", destination.display()),
        })?;
        let mut publication = Publication::new(destination.clone(), context.job_id());
        publication.start().map_err(|error| {
            let what = format!("the output '{}' can't be written", destination.display());
            context.io_error(what, error)
        })?;
        let staging = storage::output::local(publication.staging());
        let shown = destination.display().to_string();
        let work = Arc::new(Mutex::new(Work { destination, publication }));
        Ok(Self { work, staging, shown })
    }
}

impl GlobalCommitter<TextPart> for TextCommitter {
    const ONLY_AT_END: bool = true;

    async fn commit(&self, request: CommitRequest<Vec<TextPart>>) -> Result<(), CommitError> {
        let work = self.work.clone();
        let done = platform::blocking(move || lock(&work).commit(request.committable));
        done.await.unwrap_or_else(|why| Err(CommitError::Retry(why.to_string())))
    }

    async fn keep(&self, parts: Vec<TextPart>) -> Result<(), CommitError> {
        let keep = move || {
            parts.iter().try_for_each(|part| {
                let failed = |error| CommitError::Retry(format!("'{}': {error}", part.path));
                publish::keep(Path::new(&part.path)).map_err(failed)
            })
        };
        let done = platform::blocking(keep);
        done.await.unwrap_or_else(|why| Err(CommitError::Retry(why.to_string())))
    }

    async fn check(&self, announced: TextPart) -> Result<(), CommitError> {
        let TextPart { subtask, host, path: mark, .. } = announced;
        let left = Mark { mark: &mark, subtask, host: &host };
        marks::check(&*self.staging, &self.shown, left).await
    }
}

/// Checks that the destination is empty, a file, or a folder that contains only parts, as an earlier run leaves it. Returns what
/// is wrong; the text continues the name of the destination.
fn check_destination(destination: &Path) -> Result<(), String> {
    if destination.file_name().is_none() {
        return Err("does not end with a file name".to_owned());
    }
    let Ok(entries) = fs::read_dir(destination) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|error| format!("can't be read: {error}"))?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("part-") {
            return Err(format!(
                "is a folder with other files than an earlier result ('{}'); it is not replaced",
                name.to_string_lossy()
            ));
        }
    }
    Ok(())
}

/// Returns the name of a part in the folder of the result.
fn part_name(index: usize) -> String {
    format!("part-{index:05}")
}

impl Work {
    fn commit(&mut self, mut parts: Vec<TextPart>) -> Result<(), CommitError> {
        parts.sort_by(|a, b| (a.subtask, &a.path).cmp(&(b.subtask, &b.path)));
        let shown = self.destination.display().to_string();
        let later =
            |error: io::Error| CommitError::Retry(format!("'{shown}' can't be published: {error}"));
        if self.stands(&parts).map_err(later)? {
            self.publication.remove_stale();
            self.publication.clean_up();
            return Ok(());
        }
        check_destination(&self.destination)
            .map_err(|why| CommitError::Failed(format!("'{shown}' {why}")))?;
        if let Some(missing) = self.gather(&parts).map_err(later)? {
            return Err(CommitError::Failed(self.why_missing(&parts, missing)));
        }
        self.publication.publish().map_err(later)?;
        self.publication.remove_stale();
        self.publication.clean_up();
        Ok(())
    }

    /// Returns the paths that the parts have in a result.
    fn places<'a>(
        parts: &'a [TextPart],
        result: &Path,
    ) -> impl Iterator<Item = (&'a TextPart, PathBuf)> {
        let (single, result) = (parts.len() == 1, result.to_owned());
        parts.iter().enumerate().map(move |(index, part)| {
            (part, if single { result.clone() } else { result.join(part_name(index)) })
        })
    }

    /// Returns whether the destination is the result that is to be published: an earlier commit has done it.
    fn stands(&self, parts: &[TextPart]) -> io::Result<bool> {
        for (part, place) in Self::places(parts, &self.destination) {
            match Identity::of(&place) {
                Ok(found) if found == Some(part.identity) => {}
                Err(error) if error.kind() != io::ErrorKind::NotADirectory => return Err(error),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Says why a part is neither where its subtask wrote it nor where a commit moved it.
    fn why_missing(&self, parts: &[TextPart], missing: &TextPart) -> String {
        let (shown, here) = (self.destination.display(), marks::host());
        let TextPart { subtask, host, path, identity } = missing;
        if let Some(kept) = publish::kept(Path::new(path)).filter(|kept| kept.exists()) {
            return format!(
                "'{}', where the part of '{shown}' that subtask {subtask} has written is kept for a savepoint, was changed or replaced: start \
                 the job from another savepoint",
                kept.display()
            );
        }
        let written_for = Path::new(path).parent().and_then(publish::owner);
        let Some((former, job)) = written_for.filter(|(of, _)| *of != self.destination) else {
            return format!(
                "'{path}' of '{shown}', which subtask {subtask} has written on '{host}', is not there on '{here}': the \
                 TaskManagers do not share the folder, or the file was deleted. {SHARE}"
            );
        };
        let mut places = Self::places(parts, &former);
        let published = places.any(|(part, place)| {
            part == missing && Identity::of(&place).is_ok_and(|found| found == Some(*identity))
        });
        let former = former.display();
        let why = match published {
            true => format!("job {job} has ended and published it as its result '{former}'"),
            false => {
                format!("job {job} has published it in its result '{former}', or it was deleted")
            }
        };
        format!(
            "'{path}', which subtask {subtask} of job {job} has written for '{former}', is not there on '{here}': {why}. A savepoint of a \
             job's end (flott stop --drain) holds no output that could go to '{shown}': restore it with the output '{former}', or \
             copy '{former}'"
        )
    }

    /// Moves the parts to where the result is prepared, those that an earlier commit has not moved; a part that is only kept for a
    /// savepoint stays kept. Returns a part that is neither there, nor where its subtask wrote it, nor kept.
    fn gather<'a>(&self, parts: &'a [TextPart]) -> io::Result<Option<&'a TextPart>> {
        let ready = self.publication.staging().join(READY);
        fs::create_dir_all(self.publication.staging())?;
        if parts.len() > 1 {
            fs::create_dir_all(&ready)?;
        }
        for (part, place) in Self::places(parts, &ready) {
            if Identity::of(&place)? == Some(part.identity) {
                continue;
            }
            let absent = |moved: &io::Result<()>| {
                moved.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            };
            let mut moved = fs::rename(&part.path, &place);
            if absent(&moved)
                && let Some(kept) = publish::kept(Path::new(&part.path))
                && Identity::of(&kept)? == Some(part.identity)
            {
                // The savepoint may be restored again. Who changes a published result in place changes the kept file too.
                moved = fs::hard_link(kept, &place);
            }
            if absent(&moved) {
                return Ok(Some(part));
            }
            moved?;
        }
        if parts.len() > 1 {
            File::open(&ready)?.sync_all()?;
        }
        Ok(None)
    }
}
