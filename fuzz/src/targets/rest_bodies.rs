//! Bodies and queries of REST requests, uploads, and the answers that a client reads.

use super::{Target, law, scratch};
use crate::{mutate::mutate, rng::Rng};
use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use rest::{ProgramChecker, ProgramStore, decode, messages, upload};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "rest_request", make: request, check: check_request, memory_max: 0 },
    Target { name: "rest_upload", make: upload, check: check_upload, memory_max: 0 },
    Target { name: "rest_answer", make: answer, check: check_answer, memory_max: 0 },
];

const BODIES: &[&str] = &[
    "",
    "{}",
    r#"{"entryClass":"a","programArgsList":["--input","/x"],"parallelism":4}"#,
    r#"{"programArgs":"--input '/a b' --n 3","jobId":"000000000000000000000000000000ab"}"#,
    r#"{"flinkConfiguration":{"parallelism.default":"2","program.x":"y"},"allowNonRestoredState":null}"#,
    r#"{"serializedCoordinationRequest":"AAECAwQ="}"#,
];
const QUERIES: &[&str] = &[
    "",
    "entry-class=a&parallelism=3",
    "programArg=a,b&program-args=--x%20y",
    "mode=cancel",
    "get=numRecordsIn,numRecordsOut",
];

/// The length of the body, the body, the query.
fn request(rng: &mut Rng) -> Vec<u8> {
    let mut body = rng.text(BODIES).as_bytes().to_vec();
    mutate(&mut body, rng);
    let mut query = rng.text(QUERIES).as_bytes().to_vec();
    mutate(&mut query, rng);
    let mut input = (body.len() as u32).to_le_bytes().to_vec();
    input.extend(body);
    input.extend(query);
    input
}

fn check_request(input: &[u8]) -> Result<bool, String> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(false) };
    let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
    let (body, query) = rest.split_at(length);
    let pairs = decode::query_pairs(&String::from_utf8_lossy(query)).unwrap_or_default();
    let asked = decode::program_request(body, &pairs);
    if let Ok(asked) = &asked {
        law(asked.parallelism != Some(0), || "parallelism 0 was accepted".to_owned())?;
    }
    let block = decode::block_request(body);
    if let Ok(block) = &block {
        law(block.for_ms > 0, || "a block of 0 ms was accepted".to_owned())?;
    }
    Ok(asked.is_ok() | block.is_ok() | decode::coordination_request(body).is_ok())
}

const TYPES: &[&str] = &[
    "multipart/form-data; boundary=x",
    "multipart/form-data; boundary=\"-- x\"; charset=utf-8",
    "application/x-www-form-urlencoded",
];
const UPLOADS: &[&str] = &[
    "--x\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"a\"\r\n\
     Content-Type: application/octet-stream\r\n\r\n\x7fELF\r\n-\r\n--x--\r\n",
    "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
     --x\r\nContent-Disposition: form-data; name=\"f\"; filename*=UTF-8''%2e%2e%2fb\r\n\
     Content-Length: 2\r\n\r\n22\r\n--x--\r\n",
    "-- x\r\n\r\n\r\n-- x--\r\n",
];

/// The length of the header, the header, the size of a piece, the body.
fn upload(rng: &mut Rng) -> Vec<u8> {
    let mut header = rng.text(TYPES).as_bytes().to_vec();
    if rng.one_in(4) {
        mutate(&mut header, rng);
    }
    let mut body = rng.text(UPLOADS).as_bytes().to_vec();
    mutate(&mut body, rng);
    let mut input = (header.len() as u32).to_le_bytes().to_vec();
    input.extend(header);
    input.push(rng.next() as u8);
    input.extend(body);
    input
}

/// Takes everything for a program.
struct Anything;

impl ProgramChecker for Anything {
    fn check(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }
    fn jobs(&self, _: PathBuf) -> BoxFuture<'static, Result<Vec<String>, String>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

fn check_upload(input: &[u8]) -> Result<bool, String> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(false) };
    let (header, rest) = rest.split_at((u32::from_le_bytes(*length) as usize).min(rest.len()));
    let Some((piece, body)) = rest.split_first() else { return Ok(false) };
    let pieces: Vec<_> = body
        .chunks(usize::from(*piece).max(1))
        .map(|piece| Ok::<_, upload::PayloadError>(Bytes::copy_from_slice(piece)))
        .collect();
    scratch::with(|folder| {
        let folder = folder.join("programs");
        let words = |e: std::io::Error| e.to_string();
        let store = ProgramStore::open(folder.clone(), 64, Arc::new(Anything)).map_err(words)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(words)?;
        let content_type = upload::HeaderValue::from_bytes(header).ok();
        let pieces = futures::stream::iter(pieces);
        let stored =
            runtime.block_on(upload::store_upload(content_type.as_ref(), pieces, &store, 7));
        let mut left = Vec::new();
        for entry in fs::read_dir(&folder).map_err(words)? {
            left.push(entry.map_err(words)?.path());
        }
        let size =
            stored.as_ref().ok().map(|s| fs::metadata(&s.path).map_or(u64::MAX, |m| m.len()));
        fs::remove_dir_all(&folder).map_err(words)?;
        law(size.is_none_or(|size| size <= 64), || format!("{size:?} bytes were kept"))?;
        match stored {
            Ok(stored) => {
                // The program, and beside it the names of its jobs.
                law(left.len() == 2 && left.contains(&stored.path), || format!("{left:?}"))?;
                law(stored.path.parent() == Some(&folder), || format!("{:?}", stored.path))?;
                Ok(true)
            }
            Err(_) => {
                law(left.is_empty(), || format!("{left:?} of a refused upload")).map(|()| false)
            }
        }
    })
}

const ANSWERS: &[&str] = &[
    r#"{"errors":["a","b"]}"#,
    r#"{"jobs":[{"id":"000000000000000000000000000000ab","status":"RUNNING"}]}"#,
    r#"{"jobid":"000000000000000000000000000000ab"}"#,
    r#"{"filename":"/x/a_b","status":"success"}"#,
];

fn answer(rng: &mut Rng) -> Vec<u8> {
    let mut body = rng.text(ANSWERS).as_bytes().to_vec();
    mutate(&mut body, rng);
    body
}

fn check_answer(input: &[u8]) -> Result<bool, String> {
    Ok(serde_json::from_slice::<messages::ErrorBody>(input).is_ok()
        | serde_json::from_slice::<messages::EmptyBody>(input).is_ok()
        | serde_json::from_slice::<serde_json::Value>(input).is_ok())
}
