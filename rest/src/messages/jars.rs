//! Bodies about uploaded programs (`/jars*`; the paths keep Flink's word) and coordinators.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `GET /jars`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JarList {
    /// URL of the endpoint.
    pub address: String,
    /// Uploaded programs, newest first.
    pub files: Vec<JarFile>,
}

/// One uploaded program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarFile {
    /// Id of the program, as used in `/jars/:jarid`.
    pub id: String,
    /// Name of the uploaded file.
    pub name: String,
    /// Unix milliseconds of the upload.
    pub uploaded: u64,
    /// Jobs that the program declares.
    pub entry: Vec<JarEntry>,
}

/// One registered job of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarEntry {
    /// Name of the registered job.
    pub name: String,
    /// Description meant for people; `None` if the program gives none.
    pub description: Option<String>,
}

/// The answer to `POST /jars/upload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarUploaded {
    /// Path on the JobManager; its last part is the id.
    pub filename: String,
    /// Outcome of the upload, always `success`.
    pub status: String,
}

impl JarUploaded {
    /// Returns the program's id, as used in `/jars/:jarid`.
    pub fn jar_id(&self) -> &str {
        self.filename.rsplit('/').next().unwrap_or(&self.filename)
    }
}

/// Body of `POST /jars/:jarid/run` and `…/plan`; every field may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JarRequest {
    /// Name of the program's registered job, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_class: Option<String>,
    /// Arguments in one text, split on white space outside of quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_args: Option<String>,
    /// Arguments of the program, one per element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_args_list: Option<Vec<String>>,
    /// Default parallelism of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i64>,
    /// 32 hexadecimal digits; drawn where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Options of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flink_configuration: Option<BTreeMap<String, String>>,
    /// Path or URI of the savepoint to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint_path: Option<String>,
    /// Whether state of the savepoint may be left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_non_restored_state: Option<bool>,
    /// The owner of the savepoint after the start: `NO_CLAIM` or `CLAIM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_mode: Option<String>,
    /// Older name of `claimMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_mode: Option<String>,
}

/// The answer to `POST /jars/:jarid/run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JarRunResponse {
    /// Id of the submitted job.
    pub jobid: String,
}

/// The body of `POST /jobs/:jobid/coordinators/:operatorUid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationRequestBody {
    /// Bytes in the operator's own encoding, in base64.
    pub serialized_coordination_request: String,
}

/// The answer to `POST /jobs/:jobid/coordinators/:operatorUid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinationResponseBody {
    /// Bytes in the operator's own encoding, in base64.
    pub serialized_coordination_result: String,
}
