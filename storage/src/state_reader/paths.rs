//! The URIs and paths by which users name snapshots: their parts, and one spelling for each place. This module must never change a file.

use crate::checkpoints::METADATA;
use crate::objects;
use std::path::PathBuf;

/// Returns the URI or path without empty parts and `.` in its path: `/chk//job/./chk-5/` becomes `/chk/job/chk-5`.
pub(super) fn normalised(uri: &str) -> String {
    let uri = uri.trim();
    let scheme = objects::scheme(uri).map_or(0, |scheme| scheme.len() + 1);
    let (scheme, rest) = uri.split_at_checked(scheme).unwrap_or(("", uri));
    let host = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(authority) => 2 + authority.find('/').unwrap_or(authority.len()),
        None => 0,
    };
    let (host, path) = rest.split_at_checked(host).unwrap_or(("", rest));
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{scheme}{host}{root}{}", parts.join("/"))
}

/// Splits the URI of metadata into that of its folder and its name; the name is `None` if the URI names a folder.
pub(super) fn folder_and_file(uri: &str) -> (&str, Option<&str>) {
    match uri.rsplit_once('/') {
        Some((folder, last)) if last.starts_with(METADATA) => (folder, Some(last)),
        _ => (uri, None),
    }
}

/// Returns the path of a local folder without symbolic links, as text; `None` for a remote one, and if the system does not tell.
pub(super) async fn resolved(folder: &str) -> Option<String> {
    resolved_path(folder).await?.to_str().map(str::to_owned)
}

/// Returns the path of a local folder without symbolic links; `None` for a remote one, and if the system does not tell.
pub(super) async fn resolved_path(folder: &str) -> Option<PathBuf> {
    if objects::is_remote(folder) {
        return None;
    }
    let path = objects::local_path(folder).ok()?;
    platform::blocking(move || path.canonicalize()).await.ok()?.ok()
}

/// Returns true if the path is that of a local file, or of a link to one; false for a remote one, and if the system does not tell.
pub(super) async fn is_file(path: &str) -> bool {
    let Some(path) = resolved_path(path).await else { return false };
    platform::blocking(move || path.is_file()).await.unwrap_or(false)
}

/// Returns what is before the last slash of a URI.
pub(super) fn parent(uri: &str) -> &str {
    match uri.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Returns the last segment of a URI.
pub(super) fn last(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or(uri)
}
