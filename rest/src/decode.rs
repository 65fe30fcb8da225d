//! Request bodies and query texts to checked values: pure, total, bounded. Fuzzed.
//!
//! Nothing here may panic or allocate more than a small multiple of its input.

use crate::error::ApiError;
use crate::messages::{
    BlockNodeBody, CheckpointBody, ClientHeartbeatBody, CoordinationRequestBody, DisposalBody,
    JarRequest, SavepointBody, StopBody,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conf::{execution, state_recovery};
use model::{JobId, JobVertexId, OperatorId, TriggerId};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Most arguments that one submission may carry.
const ARGS_MAX: usize = 10_000;
/// Most subtasks that a client may ask for by `parallelism`.
const PARALLELISM_MAX: i64 = 1 << 15;

/// Duration of a block in milliseconds if the request does not give one.
const BLOCK_MS: u64 = 600_000;
/// Maximum length of the reason for a block in bytes.
const CAUSE_MAX: usize = 1_000;

/// The decoded and checked request to `POST /jars/:jarid/run` or `…/plan`, which runs an uploaded program or builds its graph. Made by
/// [`program_request`]; which program is meant is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramRequest {
    /// Name of the registered job to build, from the request or from `pipeline.entry` among its options; `None`: the only
    /// one that the program registers (if it registers several, its build fails).
    pub entry: Option<String>,
    /// Arguments that the program is started with, without its own name; at most 10,000, none with a NUL byte.
    pub args: Vec<String>,
    /// Default parallelism of the job, 1 to 32,768; `None`: `parallelism.default` of the job's options, or else of the
    /// cluster's.
    pub parallelism: Option<u32>,
    /// Job id that the client chose, in the request or by `pipeline.job-id` among its options; `None`: the Dispatcher draws one. A plan
    /// ignores it.
    pub job_id: Option<JobId>,
    /// Options of this job by key, which override the cluster's; none is an option that only the cluster's processes or
    /// clients read. Unknown keys and wrong values are not refused here, but when the job is submitted. The fields about a
    /// savepoint are among them.
    pub options: BTreeMap<String, String>,
}

/// Decodes body and query of `/jars/:jarid/run` and `…/plan`. An empty body is a body without fields; a value that both give is
/// taken from the body, as in Flink, and the first of a parameter that occurs several times. `programArg` is split at commas.
///
/// # Errors
/// Returns status 400 for an unknown or malformed field or parameter, an option of the cluster alone, arguments in both
/// forms, with an open quotation mark or a NUL byte, more than 10,000 arguments, or a parallelism that is not 1 to 32,768.
pub fn program_request(
    body: &[u8],
    query: &[(String, String)],
) -> Result<ProgramRequest, ApiError> {
    let mut merged: JarRequest = or_default(body)?;
    for (key, value) in query {
        merge_query(&mut merged, key, value)?;
    }
    check_request(merged)
}

/// Decodes the body of `PATCH /jobs/:jobid/clientHeartbeat`. Returns the milliseconds from now within which the next beat
/// must come, or else the job is cancelled: the field `timeout`, or without it the time from `now_ms` (Unix milliseconds)
/// to `expiredTimestamp`, 0 if that is past. No upper limit is applied here. Returns status 400 if both fields are missing
/// or the body is malformed. Sends nothing.
pub fn client_heartbeat(body: &[u8], now_ms: u64) -> Result<u64, ApiError> {
    let beat: ClientHeartbeatBody = or_default(body)?;
    match (beat.timeout, beat.expired_timestamp) {
        (Some(timeout), _) => Ok(timeout),
        (None, Some(at)) => Ok(u64::try_from(at).unwrap_or(0).saturating_sub(now_ms)),
        (None, None) => Err(ApiError::bad_request(
            "expiredTimestamp (Unix milliseconds) or timeout (milliseconds) is missing",
        )),
    }
}

/// Decodes a JSON body; an empty body counts as one without fields.
fn or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    // A list would be taken for the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::bad_request("the request body is not a JSON object"));
    }
    serde_json::from_slice(body)
        .map_err(|e| ApiError::bad_request(format!("the request body is not understood: {e}")))
}

/// The decoded and checked body of `POST /blocklist/nodes/:node`: for how long the node is blocked, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRequest {
    /// Duration of the block in milliseconds; at least 1.
    pub for_ms: u64,
    /// The reason for the block, which the list of blocked nodes shows; at most 1,000 bytes, `no reason given` if the
    /// request has none.
    pub cause: String,
}

/// Decodes the body of `POST /blocklist/nodes/:node`; a missing duration is 600,000 ms, a missing reason `no reason given`.
/// Returns status 400 for a malformed body, a duration of 0, and a reason of more than 1,000 bytes. Blocks nothing.
pub fn block_request(body: &[u8]) -> Result<BlockRequest, ApiError> {
    let BlockNodeBody { duration, cause } = or_default(body)?;
    let for_ms = duration.unwrap_or(BLOCK_MS);
    let cause = cause.unwrap_or_else(|| "no reason given".to_owned());
    if for_ms == 0 {
        return Err(ApiError::bad_request("duration 0: a node is blocked for 1 ms at least"));
    }
    if cause.len() > CAUSE_MAX {
        return Err(ApiError::bad_request(format!("the cause is longer than {CAUSE_MAX} bytes")));
    }
    Ok(BlockRequest { for_ms, cause })
}

/// The decoded body of `POST /jobs/:jobid/savepoints` and `…/stop`: the directory, the id of the operation (`None`: the configured one, and
/// a drawn one), and whether the job is cancelled afterwards. The job, and whether a stop drains it, are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavepointRequest {
    /// The directory in which the savepoint's folder is made, not checked yet; `None`:
    /// `execution.checkpointing.savepoint-dir`.
    pub directory: Option<String>,
    /// The id that the client chose for the operation, by which it asks for the operation's state later; `None`: one is
    /// drawn.
    pub trigger_id: Option<TriggerId>,
    /// True if the job is cancelled when the savepoint is complete; always false for a stop, which ends the job anyway.
    pub cancel: bool,
}

/// Decodes the body of `POST /jobs/:jobid/savepoints`; an empty body counts as one without fields. Returns status 400 for
/// malformed fields or a format other than `CANONICAL`. Begins nothing.
pub fn savepoint_request(body: &[u8]) -> Result<SavepointRequest, ApiError> {
    let SavepointBody { target_directory, cancel_job, format_type, trigger_id } = or_default(body)?;
    check_format(format_type.as_deref())?;
    Ok(SavepointRequest {
        directory: target_directory,
        trigger_id: trigger_id.as_deref().map(self::trigger_id).transpose()?,
        cancel: cancel_job.unwrap_or(false),
    })
}

/// Decodes the body of `POST /jobs/:jobid/checkpoints`; an empty body counts as one without fields. Returns the id that the client chose
/// for the operation; `None`: one is drawn. `CONFIGURED`, `FULL`, `INCREMENTAL` and an absent type mean the same: the type is not returned,
/// because `execution.checkpointing.incremental` alone decides. Returns status 400 for another type or malformed fields. Begins nothing.
pub fn checkpoint_request(body: &[u8]) -> Result<Option<TriggerId>, ApiError> {
    let CheckpointBody { checkpoint_type, trigger_id } = or_default(body)?;
    match checkpoint_type.as_deref() {
        None | Some("CONFIGURED" | "FULL" | "INCREMENTAL") => {}
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "checkpointType '{other}' is not known; possible: CONFIGURED, FULL, INCREMENTAL"
            )));
        }
    }
    trigger_id.as_deref().map(self::trigger_id).transpose()
}

/// Decodes the body of `POST /jobs/:jobid/stop`; an empty body counts as one without fields. The flag is true if the job is
/// drained: its sources first emit the final watermark and the end of their data. Returns status 400 for malformed fields
/// or a format other than `CANONICAL`.
pub fn stop_request(body: &[u8]) -> Result<(SavepointRequest, bool), ApiError> {
    let StopBody { target_directory, drain, format_type, trigger_id } = or_default(body)?;
    check_format(format_type.as_deref())?;
    let request = SavepointRequest {
        directory: target_directory,
        trigger_id: trigger_id.as_deref().map(self::trigger_id).transpose()?,
        cancel: false,
    };
    Ok((request, drain.unwrap_or(false)))
}

/// Decodes the body of `POST /savepoint-disposal`. Returns the path or URI of the savepoint's folder, which is not checked;
/// status 400 if it is missing or empty, or the body is malformed. Deletes nothing.
pub fn disposal_request(body: &[u8]) -> Result<String, ApiError> {
    let DisposalBody { savepoint_path } = or_default(body)?;
    match savepoint_path.is_empty() {
        true => Err(ApiError::bad_request("savepoint-path is missing: the savepoint's folder")),
        false => Ok(savepoint_path),
    }
}

/// Checks a savepoint's format. There is only one, which any state backend reads; that is what Flink calls `CANONICAL`. Returns
/// status 400 for any other text.
fn check_format(format: Option<&str>) -> Result<(), ApiError> {
    match format {
        None | Some("CANONICAL") => Ok(()),
        Some("NATIVE") => Err(ApiError::bad_request(
            "formatType 'NATIVE' is not supported: there is one format of savepoints, which any state backend reads; send CANONICAL, \
             or leave formatType out",
        )),
        Some(other) => Err(ApiError::bad_request(format!(
            "formatType '{other}' is not known; possible: CANONICAL"
        ))),
    }
}

/// Parses the id of an operation (a savepoint, stop, checkpoint or disposal); returns status 400 if the text is not 32
/// hexadecimal digits.
pub fn trigger_id(text: &str) -> Result<TriggerId, ApiError> {
    text.parse().map_err(|e: model::ids::ParseIdError| ApiError::bad_request(e.to_string()))
}

/// Parses the id of a job's vertex from a path; returns status 400 if the text is not 32 hexadecimal digits.
pub fn vertex_id(text: &str) -> Result<JobVertexId, ApiError> {
    text.parse().map_err(|e: model::ids::ParseIdError| ApiError::bad_request(e.to_string()))
}

fn merge_query(body: &mut JarRequest, key: &str, value: &str) -> Result<(), ApiError> {
    match key {
        "entry-class" => {
            body.entry_class.get_or_insert_with(|| value.to_owned());
        }
        "program-args" => {
            body.program_args.get_or_insert_with(|| value.to_owned());
        }
        "programArg" => {
            body.program_args_list
                .get_or_insert_with(|| value.split(',').map(str::to_owned).collect());
        }
        "parallelism" => {
            let number = value.parse().map_err(|_| {
                ApiError::bad_request(format!("parallelism '{value}' is not a number"))
            })?;
            body.parallelism.get_or_insert(number);
        }
        "savepointPath" => {
            body.savepoint_path.get_or_insert_with(|| value.to_owned());
        }
        "allowNonRestoredState" => {
            let allowed = value.parse().map_err(|_| {
                ApiError::bad_request(format!(
                    "allowNonRestoredState '{value}' is not true or false"
                ))
            })?;
            body.allow_non_restored_state.get_or_insert(allowed);
        }
        "claimMode" => {
            body.claim_mode.get_or_insert_with(|| value.to_owned());
        }
        other => {
            return Err(ApiError::bad_request(format!("unknown query parameter '{other}'")));
        }
    }
    Ok(())
}

fn check_request(body: JarRequest) -> Result<ProgramRequest, ApiError> {
    let options = with_recovery(&body);
    if let Some(key) = options.keys().find(|key| conf::execution::is_of_the_cluster(key)) {
        return Err(ApiError::bad_request(format!(
            "'{key}' is not an option of a job but of the cluster's processes or its clients; set it in their flott.yaml"
        )));
    }
    let args = match (body.program_args_list, body.program_args) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request("give programArgsList or programArgs, not both"));
        }
        (Some(list), None) => list,
        (None, Some(text)) => split_args(&text)?,
        (None, None) => Vec::new(),
    };
    if args.len() > ARGS_MAX {
        return Err(ApiError::bad_request(format!(
            "{} arguments are more than {ARGS_MAX}",
            args.len()
        )));
    }
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err(ApiError::bad_request("an argument holds a NUL byte"));
    }
    let parallelism = match body.parallelism {
        None => None,
        Some(n) if (1..=PARALLELISM_MAX).contains(&n) => u32::try_from(n).ok(),
        Some(n) => {
            return Err(ApiError::bad_request(format!(
                "parallelism {n} is not between 1 and {PARALLELISM_MAX}"
            )));
        }
    };
    let job_id = body.job_id.or_else(|| option(&options, &execution::JOB_ID));
    let entry = body.entry_class.filter(|name| !name.is_empty());
    Ok(ProgramRequest {
        entry: entry.or_else(|| option(&options, &execution::ENTRY)),
        args,
        parallelism,
        job_id: job_id.as_deref().map(self::job_id).transpose()?,
        options,
    })
}

/// Returns the job's options; the fields of the body about a savepoint stand above options of the same meaning.
fn with_recovery(body: &JarRequest) -> BTreeMap<String, String> {
    let mut options = body.flink_configuration.clone().unwrap_or_default();
    let claim_mode = body.claim_mode.as_ref().or(body.restore_mode.as_ref());
    let given: [(&dyn conf::Declaration, Option<String>); 3] = [
        (&state_recovery::PATH, body.savepoint_path.clone().filter(|path| !path.is_empty())),
        (
            &state_recovery::IGNORE_UNCLAIMED_STATE,
            body.allow_non_restored_state.map(|allowed| allowed.to_string()),
        ),
        (&state_recovery::CLAIM_MODE, claim_mode.cloned()),
    ];
    for (declaration, value) in given {
        if let Some(value) = value {
            for name in declaration.other_names() {
                options.remove(*name);
            }
            options.insert(declaration.key().to_owned(), value);
        }
    }
    options
}

/// Returns the value of an option among the job's own options, for a request that has a field for
/// it, too; `None` if it is not set or empty. Whether an option exists is checked later, when the
/// job is built.
fn option(options: &BTreeMap<String, String>, wanted: &dyn conf::Declaration) -> Option<String> {
    let names = std::iter::once(wanted.key()).chain(wanted.other_names().iter().copied());
    let text = names.filter_map(|name| options.get(name)).next()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Splits the text of a program's arguments on white space outside of single or double quotes, which are removed; there are no escapes.
/// `""` is an empty argument, and quoted text belongs to the argument in which it stands (`a"b c"` is `ab c`). Returns status 400 if a
/// quotation mark is not closed.
pub fn split_args(text: &str) -> Result<Vec<String>, ApiError> {
    let mut args = Vec::new();
    let mut current: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => current.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                current.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => args.extend(current.take()),
            (None, c) => current.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(ApiError::bad_request("programArgs: a quotation mark is not closed"));
    }
    args.extend(current);
    Ok(args)
}

/// Parses a job id of a path or body; returns status 400 if the text is not 32 hexadecimal digits.
pub fn job_id(text: &str) -> Result<JobId, ApiError> {
    text.parse::<JobId>().map_err(|e| ApiError::bad_request(e.to_string()))
}

/// Decodes the JSON body of a coordination request, by which a client asks an operator's coordinator. Returns the bytes for
/// the coordinator, which the body holds in base64. Returns status 400 if the body is not such JSON or its text is not
/// base64. Sends nothing.
pub fn coordination_request(body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let body: CoordinationRequestBody = serde_json::from_slice(body)
        .map_err(|e| ApiError::bad_request(format!("the request body is not understood: {e}")))?;
    from_base64(&body.serialized_coordination_request)
}

/// Decodes bytes from base64 with the standard alphabet (`+` and `/`) and padding; returns status 400 if the text is not
/// that, for instance without its padding or with white space. Empty text gives no bytes.
pub fn from_base64(text: &str) -> Result<Vec<u8>, ApiError> {
    STANDARD.decode(text).map_err(|e| ApiError::bad_request(format!("not base64: {e}")))
}

/// Encodes bytes as base64 with the standard alphabet (`+` and `/`) and padding.
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// An operator as a path names it: by id, or by `uid`; from [`operator_name`]. A text of 32 hexadecimal digits is always an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorName {
    /// An operator named by its id, 32 hexadecimal digits.
    Id(OperatorId),
    /// An operator named by the `uid` that its program gave it: any other text.
    Uid(String),
}

/// Reads an operator's name from a path: 32 hexadecimal digits (in upper or lower case) are an id, any other text is a `uid`. Whether there
/// is such an operator is not checked.
pub fn operator_name(text: &str) -> OperatorName {
    match text.parse::<OperatorId>() {
        Ok(id) => OperatorName::Id(id),
        Err(_) => OperatorName::Uid(text.to_owned()),
    }
}

/// Returns the pairs `key=value` of a URL's query in its order, keys and values percent-decoded and `+` as a space. A key may occur several
/// times; one without `=` has an empty value; an empty query has no pairs. Returns status 400 if the query cannot be decoded.
pub fn query_pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    actix_web::web::Query::<Vec<(String, String)>>::from_query(query)
        .map(actix_web::web::Query::into_inner)
        .map_err(|e| ApiError::bad_request(format!("the query is not understood: {e}")))
}

/// Returns the last part, after `/` and `\`, of a file name that a client sent, without control characters and cut to 128
/// characters. Returns status 400 if nothing, `.` or `..` is left.
pub fn upload_name(name: &str) -> Result<String, ApiError> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe: String = last.chars().filter(|c| !c.is_control()).take(128).collect();
    if safe.is_empty() || safe == "." || safe == ".." {
        return Err(ApiError::bad_request(format!(
            "'{}' is not a file name",
            name.chars().take(64).collect::<String>()
        )));
    }
    Ok(safe)
}

/// Returns `name`, the part of a URL that names a file, unchanged if it does not lead out of its folder; returns status 404
/// if it is empty, `.` or `..`, or holds `/`, `\` or NUL. Does not check whether the file exists.
pub fn plain_file_name(name: &str) -> Result<&str, ApiError> {
    if name.is_empty() || name.contains(['/', '\\', '\0']) || name == "." || name == ".." {
        return Err(ApiError::not_found(format!(
            "there is no file '{}' here",
            name.chars().take(128).collect::<String>()
        )));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_body_asks_for_nothing_in_particular() {
        assert_eq!(program_request(b"", &[]).unwrap(), ProgramRequest::default());
        assert_eq!(program_request(b" {} ", &[]).unwrap(), ProgramRequest::default());
    }

    #[test]
    fn the_body_wins_over_the_query() {
        let body = br#"{"parallelism":3,"programArgsList":["--input","a b"],"jobId":"000000000000000000000000000000ab","flinkConfiguration":{"k":"v"}}"#;
        let query = vec![
            ("parallelism".to_owned(), "9".to_owned()),
            ("entry-class".to_owned(), "second".to_owned()),
        ];
        let request = program_request(body, &query).unwrap();
        assert_eq!(request.parallelism, Some(3));
        assert_eq!(request.args, ["--input", "a b"]);
        assert_eq!(request.entry.as_deref(), Some("second"));
        assert_eq!(request.job_id, Some(JobId(0xab)));
        assert_eq!(request.options.get("k").map(String::as_str), Some("v"));
    }

    #[test]
    fn options_of_the_job_say_its_id_and_entry_unless_the_request_does() {
        let ask = |body: &str| program_request(body.as_bytes(), &[]);
        let options = r#""flinkConfiguration":{"pipeline.job-id":"000000000000000000000000000000ab","pipeline.entry":" second "}"#;
        let request = ask(&format!("{{{options}}}")).unwrap();
        assert_eq!((request.job_id, request.entry.as_deref()), (Some(JobId(0xab)), Some("second")));
        let both = r#""entryClass":"first","jobId":"000000000000000000000000000000cd""#;
        let request = ask(&format!("{{{both},{options}}}")).unwrap();
        assert_eq!((request.job_id, request.entry.as_deref()), (Some(JobId(0xcd)), Some("first")));
        let older = r#"{"flinkConfiguration":{"$internal.pipeline.job-id":"x"}}"#;
        assert!(ask(older).is_err(), "it is no id");
    }

    #[test]
    fn a_beat_holds_for_the_time_it_names_or_until_the_moment_it_names() {
        let beat = |body: &str| client_heartbeat(body.as_bytes(), 1_000).ok();
        assert_eq!(beat(r#"{"expiredTimestamp":1500}"#), Some(500));
        assert_eq!(beat(r#"{"expiredTimestamp":900}"#), Some(0));
        assert_eq!(beat(r#"{"expiredTimestamp":-1}"#), Some(0));
        assert_eq!(beat(r#"{"expiredTimestamp":1500,"timeout":7}"#), Some(7));
        for wrong in ["", "{}", "[]", r#"{"expiredTimestamp":"soon"}"#, r#"{"timeout":-1}"#] {
            assert_eq!(beat(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quoted_arguments_stay_whole() {
        assert_eq!(
            split_args(r#" --a 'x y' "" --b="1 2" "#).unwrap(),
            ["--a", "x y", "", "--b=1 2"]
        );
        assert!(split_args("'open").is_err());
    }

    #[test]
    fn wrong_values_are_refused_with_the_reason() {
        for body in [
            &br#"{"parallelism":0}"#[..],
            br#"{"parallelism":-1}"#,
            br#"{"parallelism":99999999}"#,
            br#"{"flinkConfiguration":{"taskmanager.numberOfTaskSlots":"4"}}"#,
            br#"{"flinkConfiguration":{"pipeline.name":"n","rest.port":"1"}}"#,
            b"[]",
            b" [] ",
            b"null",
            br#"{"jobId":"xyz"}"#,
            br#"{"savepointPath":7}"#,
            br#"{"unknownField":1}"#,
            br#"{"programArgs":"a","programArgsList":["b"]}"#,
            b"[1]",
        ] {
            let error = program_request(body, &[]).unwrap_err();
            assert_eq!(error.status, actix_web::http::StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn a_savepoint_to_start_from_is_an_option_of_the_job() {
        let body = br#"{"savepointPath":"/s","allowNonRestoredState":true,"restoreMode":"CLAIM",
            "flinkConfiguration":{"execution.savepoint.path":"/old","pipeline.name":"n"}}"#;
        let query = [("savepointPath".to_owned(), "/query".to_owned())];
        let options = program_request(body, &query).unwrap().options;
        let expected = [
            ("execution.state-recovery.claim-mode", "CLAIM"),
            ("execution.state-recovery.ignore-unclaimed-state", "true"),
            ("execution.state-recovery.path", "/s"),
            ("pipeline.name", "n"),
        ];
        let options: Vec<_> = options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(options, expected);
        let of_query = program_request(b"", &query).unwrap().options;
        assert_eq!(of_query["execution.state-recovery.path"], "/query");
        let wrong = [("allowNonRestoredState".to_owned(), "perhaps".to_owned())];
        assert!(program_request(b"", &wrong).is_err());
    }

    #[test]
    fn file_names_never_lead_out_of_their_folder() {
        assert_eq!(upload_name("C:\\x\\../evil").unwrap(), "evil");
        assert!(upload_name("a/..").is_err());
        assert!(plain_file_name("../x").is_err());
        assert!(plain_file_name("..").is_err());
        assert_eq!(plain_file_name("flott.log").unwrap(), "flott.log");
    }

    proptest! {
        #[test]
        fn base64_round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(from_base64(&to_base64(&bytes)).unwrap(), bytes);
        }
        #[test]
        fn no_body_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), query in ".{0,80}") {
            let pairs = query_pairs(&query).unwrap_or_default();
            let _ = program_request(&bytes, &pairs);
            let _ = coordination_request(&bytes);
            let _ = client_heartbeat(&bytes, 0);
            let _ = upload_name(&query);
            let _ = split_args(&query);
        }
    }
}
