//! Log files of this process, streamed from its log folder; nothing outside of that folder.

use super::Answer;
use crate::decode;
use crate::error::ApiError;
use crate::messages::{LogInfo, LogList};
use actix_web::HttpResponse;
use futures::{TryStreamExt, stream};
use nix::fcntl::OFlag;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::UNIX_EPOCH;
use tokio::io::AsyncReadExt;

const CHUNK_BYTES: usize = 1 << 16;
const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// Makes the error of a process that logs to its console only.
pub(super) fn none_here() -> ApiError {
    ApiError::not_found("this process has no log files: it logs to its console")
}

/// Lists the log files of a folder, by name.
pub(super) async fn list(folder: Option<&Path>) -> Result<LogList, ApiError> {
    let Some(folder) = folder else {
        return Ok(LogList::default());
    };
    let fail = |e: std::io::Error| {
        ApiError::internal(format!("the log folder {} failed: {e}", folder.display()))
    };
    let mut logs = Vec::new();
    let mut entries = tokio::fs::read_dir(folder).await.map_err(fail)?;
    while let Some(entry) = entries.next_entry().await.map_err(fail)? {
        let meta = entry.metadata().await.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !meta.is_file() || !is_log(&name) {
            continue;
        }
        let mtime = meta
            .modified()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        logs.push(LogInfo { name, size: meta.len(), mtime });
    }
    logs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(LogList { logs })
}

/// Returns true for log files and standard output, also rotated ones (`x.log.1`, `x.out.1`): a folder of logs also holds process ids
/// and the cluster's secret, which are not shown.
fn is_log(name: &str) -> bool {
    [".log", ".out"].iter().any(|kind| name.ends_with(kind) || name.contains(&format!("{kind}.")))
}

/// Opens a regular file and says how long it is. A link could lead anywhere, and a pipe would be waited for
/// without end: neither is a log.
fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    Ok((file, meta.len()))
}

/// Serves one log file, up to its length at the time it is opened.
pub(super) async fn serve(folder: Option<&Path>, name: &str) -> Answer {
    let folder = folder.ok_or_else(none_here)?;
    let name = decode::plain_file_name(name)?;
    let missing = || ApiError::not_found(format!("there is no log file '{name}' here"));
    if !is_log(name) {
        return Err(missing());
    }
    let path = folder.join(name);
    let opened = tokio::task::spawn_blocking(move || open(&path)).await;
    let (file, length) =
        opened.map_err(|e| ApiError::internal(e.to_string()))?.map_err(|_| missing())?;
    let file = tokio::fs::File::from_std(file);
    let body = stream::try_unfold(file.take(length), |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let n = file.read(&mut chunk).await?;
        chunk.truncate(n);
        std::io::Result::Ok((n > 0).then(|| (bytes::Bytes::from(chunk), file)))
    });
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).streaming(body))
}

/// Makes a response from chunks that another process sends.
pub(super) fn streamed<S>(body: S) -> Answer
where
    S: futures::Stream<Item = Result<bytes::Bytes, ApiError>> + 'static,
{
    let body = body.map_err(|e| std::io::Error::other(e.to_string()));
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).streaming(body))
}
