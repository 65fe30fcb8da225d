//! Bodies about uploaded programs (`/jars*`; the paths keep Flink's word) and coordinators.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `GET /jars`: the programs that were uploaded to this endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JarList {
    /// URL of the endpoint for clients; `.` if a token protects it, because a proxy may then be between client and
    /// endpoint.
    pub address: String,
    /// Uploaded programs, newest first.
    pub files: Vec<JarFile>,
}

/// One program that was uploaded to this endpoint and not deleted since: its id, name and time of upload, and the jobs that it registers.
/// Uploads to other JobManagers' endpoints are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarFile {
    /// Id of the program, `<32 hexadecimal digits>_<name>`, as used in `/jars/:jarid`.
    pub id: String,
    /// Name of the uploaded file, as the client sent it, without a folder and cut to 128 characters; not unique.
    pub name: String,
    /// Time of the upload, in Unix milliseconds: that of the file's last change; 0 if the system does not tell it.
    pub uploaded: u64,
    /// The jobs that the program registers; empty if the program did not name them when it was uploaded.
    pub entry: Vec<JarEntry>,
}

/// One job that a program registers; it need not have been run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarEntry {
    /// Name of the registered job, by which `entryClass` of a request chooses it.
    pub name: String,
    /// Description meant for people; always `None` (JSON `null`).
    pub description: Option<String>,
}

/// The answer to `POST /jars/upload`, sent once the program was checked, run for its job names, and kept. No job was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarUploaded {
    /// Path of the program's file on the JobManager; its last part is the program's id.
    pub filename: String,
    /// Outcome of the upload, always `success`.
    pub status: String,
}

impl JarUploaded {
    /// Returns the program's id, as used in `/jars/:jarid`: the last part of `filename`.
    pub fn jar_id(&self) -> &str {
        self.filename.rsplit('/').next().unwrap_or(&self.filename)
    }
}

/// The body of `POST /jars/:jarid/run` and `…/plan`: the job to choose, arguments, parallelism, id, options, and a savepoint to
/// start from. Every field may be absent; unknown ones are refused with 400.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JarRequest {
    /// Name of the job to run, if the program registers several; absent or empty: `pipeline.entry` of
    /// `flink_configuration`, or else the only one (with several the build fails, 400).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_class: Option<String>,
    /// Arguments of the program in one text, split on white space outside of quotes, which are removed; there are no escapes. Refused with
    /// 400 if a quote is not closed, for the reasons that `program_args_list` names, and together with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_args: Option<String>,
    /// Arguments of the program, one per element. Refused with 400 if there are more than 10,000 or one holds a NUL byte,
    /// and together with `program_args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_args_list: Option<Vec<String>>,
    /// Default parallelism of the job, 1 to 32,768, otherwise 400; absent: `parallelism.default` of the job's options, or
    /// else of the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i64>,
    /// Id for the job, 32 hexadecimal digits (otherwise 400), which `…/run` alone uses; absent: `pipeline.job-id` of `flink_configuration`,
    /// or else one is drawn. The id of a job that runs, or has ended and is still remembered, is refused with 409.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Options of this job by key, which override the cluster's; options that only the cluster's processes or clients read are refused with
    /// 400, and so are unknown keys and wrong values when the job is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flink_configuration: Option<BTreeMap<String, String>>,
    /// Path or URI of the savepoint or retained checkpoint to start from; absent or empty: `execution.state-recovery.path`
    /// of `flink_configuration` or of the cluster, mostly none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint_path: Option<String>,
    /// True if state of the savepoint that the program does not declare is dropped; false: the job does not start then, and
    /// is refused with 400. Absent: `execution.state-recovery.ignore-unclaimed-state`, by default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_non_restored_state: Option<bool>,
    /// The owner of the savepoint after the start: `NO_CLAIM` (the user) or `CLAIM` (the job, which deletes it once its own
    /// first checkpoint is complete; refused with 400 while another job may need it). Another text: 400. Absent:
    /// `restore_mode`, or else `execution.state-recovery.claim-mode`, by default `NO_CLAIM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_mode: Option<String>,
    /// Older name of `claimMode`, used if that is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_mode: Option<String>,
}

/// The answer to `POST /jars/:jarid/run`, sent once the program has built its graph and the Dispatcher has accepted and stored the job; the
/// job need not run yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarRunResponse {
    /// Id of the submitted job, 32 hexadecimal digits.
    pub jobid: String,
}

/// The body of `POST /jobs/:jobid/coordinators/:operatorUid`, a request to the coordinator of an operator: the part of it
/// that runs once for all subtasks, on the JobManager's side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationRequestBody {
    /// The request's bytes in the operator's own encoding, in base64.
    pub serialized_coordination_request: String,
}

/// The answer to `POST /jobs/:jobid/coordinators/:operatorUid`: the answer of an operator's coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationResponseBody {
    /// The answer's bytes in the operator's own encoding, in base64.
    pub serialized_coordination_result: String,
}
