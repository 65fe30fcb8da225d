//! An upload as it comes: a `multipart/form-data` body whose first file is the program. It must never hold a body in
//! memory, nor look at more parts than a client that means well sends.

use crate::error::ApiError;
use crate::programs::{ProgramStore, StoredProgram};
use actix_multipart::{Multipart, MultipartError};
pub use actix_web::error::PayloadError;
pub use actix_web::http::header::HeaderValue;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap};
use bytes::Bytes;
use futures::{Stream, TryStreamExt};

/// Most parts that are looked at for the one with a file.
const PARTS_MAX: usize = 16;

/// Puts the first file of a `multipart/form-data` body into the store, under the id `<unique>_<file name>`; see
/// [`ProgramStore::store`], which also runs the program. What follows the file in the body is not read. `content_type` is
/// the request's header of that name.
///
/// # Errors
/// Returns status 400 if the body is no such form, breaks off or has no file among its first 16 parts, and the errors of
/// [`ProgramStore::store`].
pub async fn store_upload(
    content_type: Option<&HeaderValue>,
    body: impl Stream<Item = Result<Bytes, PayloadError>> + 'static,
    programs: &ProgramStore,
    unique: u128,
) -> Result<StoredProgram, ApiError> {
    let mut headers = HeaderMap::new();
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type.clone());
    }
    let mut parts = Multipart::new(&headers, body);
    let broken = |error: MultipartError| {
        let what = "the upload is not multipart/form-data with one file";
        ApiError::bad_request(format!("{what}: {error}"))
    };
    for _ in 0..PARTS_MAX {
        let Some(part) = parts.try_next().await.map_err(broken)? else {
            break;
        };
        let name = part.content_disposition().and_then(|d| d.get_filename()).map(str::to_owned);
        let Some(name) = name else { continue };
        return programs.store(&name, unique, part).await;
    }
    Err(ApiError::bad_request(
        "exactly one file must be sent, e.g. curl -F 'jarfile=@PATH' …/jars/upload",
    ))
}
