//! Marks: empty hidden files by which a global committer sees at the start of a job that the writers write to its own folder, and
//! not to folders of the same path on other machines.
//!
//! A writer leaves a mark in the folder and announces it; the committer takes the mark away. A writer that has failed must not delete
//! its own mark once it has announced it: its announcement may still be on the way, and the committer must not take that for another
//! folder. A writer that the JobMaster cancels deletes its mark, because the committer is cancelled as well: so nothing stays on a machine
//! whose folder is not shared. What nobody takes otherwise is deleted by the writer's next attempt, whose committer is another one too, or
//! with the other leftovers of the attempt: so a job that fails again and again leaves no more than one mark per subtask.

use super::{CommitError, files::names::Names};
pub(super) use crate::task::host_name as host;
use crate::{
    operators::{BoxError, OperatorContext},
    seam::TaskError,
};
use futures::future::BoxFuture;
use std::sync::Arc;
use storage::output::OutputFolder;

/// The end of an error's text: how to make a folder shared.
pub(super) const SHARE: &str = "Write to a folder that all TaskManagers share, such as a mounted network file system; a FileSink also \
    writes to hdfs:// and s3://";

/// A mark that a writer has announced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark<'a> {
    /// The name of the mark in its folder.
    pub(super) mark: &'a str,
    /// The subtask of the writer, from 0, and the name of its machine.
    pub(super) subtask: u32,
    pub(super) host: &'a str,
}

/// Leaves the mark of an attempt in the folder of the output `shown`, and returns the mark's name; `None` if the folder needs none. Deletes
/// the marks of attempts that this one has superseded; a failure of that is ignored, because they are deleted later as leftovers.
pub(super) fn leave(
    folder: &Arc<dyn OutputFolder>,
    shown: &str,
    names: &Names,
    context: &OperatorContext,
) -> BoxFuture<'static, Result<Option<String>, BoxError>> {
    let left = folder.leave_mark(&names.mark(), &names.owner);
    let (operator, what) = (context.name().to_owned(), format!("cannot write to '{shown}'"));
    let (folder, names) = (folder.clone(), names.clone());
    Box::pin(async move {
        let failed = |why: String| BoxError::from(TaskError::Io { operator, what, why });
        let mark = left.await.map_err(|error| failed(error.to_string()))?;
        if mark.is_some() && names.has_predecessor() {
            for file in folder.unpublished(&names.owner).await.unwrap_or_default() {
                if names.is_superseded_mark(&file.name) {
                    let _ = folder.discard(file).await;
                }
            }
        }
        Ok(mark)
    })
}

/// Deletes the mark that an attempt has left in a folder, if it is still there.
pub(super) fn withdraw(folder: &dyn OutputFolder, names: &Names) {
    folder.remove_mark(&names.mark(), &names.owner);
}

/// Takes the mark away from the folder of the output `shown`.
///
/// # Errors
/// [`CommitError::Failed`] if the mark is not in the folder: the writer writes to another one. [`CommitError::Retry`] if the
/// folder cannot be read or changed.
pub(super) async fn check(
    folder: &dyn OutputFolder,
    shown: &str,
    left: Mark<'_>,
) -> Result<(), CommitError> {
    match folder.take_mark(left.mark).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let (Mark { mark, subtask, host }, here) = (left, self::host());
            Err(CommitError::Failed(format!(
                "'{shown}' is not shared by the TaskManagers: '{mark}', which subtask {subtask} has created in its folder \
                 on '{host}', is not there on '{here}', where the output is committed. {SHARE}"
            )))
        }
        Err(error) => Err(CommitError::Retry(error.to_string())),
    }
}
