//! Bodies and queries of REST requests, and the answers that a client reads.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use rest::{decode, messages};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "rest_request", make: request, check: check_request, memory_max: 0 },
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
    Ok(asked.is_ok() | decode::coordination_request(body).is_ok())
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
