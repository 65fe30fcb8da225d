//! `multipart/form-data` with one file, streamed from disk.

use super::transport::{Body, ClientError, Transport};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use std::path::Path;
use std::time::Duration;
use tokio_util::io::ReaderStream;

const CHUNK_BYTES: usize = 1 << 16;

/// Sends the file as the part `jarfile`. The whole exchange gets `within`, and a minute more per GiB.
pub(super) async fn send(
    transport: &Transport,
    path: &Path,
    mut progress: impl FnMut(u64) + Send + Sync + 'static,
    within: Duration,
) -> Result<Bytes, ClientError> {
    let unreadable = |e: std::io::Error| ClientError::File {
        path: path.display().to_string(),
        why: e.to_string(),
    };
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let size = file.metadata().await.map_err(unreadable)?.len();
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_else(|| "program".to_owned());
    let boundary = "flott-upload-0f6b1e0c3d5a49d2";
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"{}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n",
        name.replace(['"', '\r', '\n', '\\'], "_")
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    let mut sent = 0_u64;
    let content = ReaderStream::with_capacity(file, CHUNK_BYTES).inspect(move |chunk| {
        if let Ok(chunk) = chunk {
            sent += chunk.len() as u64;
            progress(sent);
        }
    });
    let whole = stream::once(async { Ok(Bytes::from(head)) })
        .chain(content)
        .chain(stream::once(async { Ok(Bytes::from(tail)) }))
        .map(|chunk| chunk.map(Frame::data));
    let body: Body = BodyExt::boxed(StreamBody::new(whole));
    let within = within + Duration::from_secs(60 * (size >> 30));
    transport
        .exchange(
            Method::POST,
            "/jars/upload",
            &format!("multipart/form-data; boundary={boundary}"),
            body,
            within,
        )
        .await
}
