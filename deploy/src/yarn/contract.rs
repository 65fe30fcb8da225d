//! The agreement between the client, the ApplicationMaster and the TaskManagers of an application
//! on YARN: names of files, variables and secrets, and the list of files that every container gets.
//!
//! Nothing here may read the environment or a file, and no secret ever goes into arguments or the environment.

use hadoop::yarn::messages::{IdError, LocalResource, LocalResourceVisibility};
use model::ContentHash;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The command `flott` in a container; absent where the program is the JobManager (application mode).
pub(crate) const FLOTT_FILE: &str = "flott";
/// The user's program in a container; absent in a session.
pub(crate) const PROGRAM_FILE: &str = "program";
/// The resolved Hadoop configuration in a container. The node's own `HADOOP_CONF_DIR` is not read.
pub(crate) const HADOOP_SITE_FILE: &str = "hadoop-site.xml";

/// The folder in a container with the resolved Hadoop configuration under the names that Hadoop's clients look for. It is
/// `HADOOP_CONF_DIR` of every process of the container, whatever the node's own is.
pub(crate) const HADOOP_CONF_FOLDER: &str = "hadoop-conf";

/// The folder of the ship files in a container.
pub(crate) const SHIP_FOLDER: &str = "ship";

/// Variable of the ApplicationMaster: the files of every container, see [`LaunchFile`].
pub(crate) const FILES_VARIABLE: &str = "FLOTT_YARN_FILES";
/// Variable of the ApplicationMaster: URL of the staging directory, which it deletes when the application has ended
/// for good.
pub(crate) const STAGING_VARIABLE: &str = "FLOTT_YARN_STAGING";
/// Variable of containers whose process is the program: the hash of its file, where the client knows it. They do not
/// compute it once more then: all of them are given the same file.
pub(crate) const PROGRAM_HASH_VARIABLE: &str = "FLOTT_YARN_PROGRAM_HASH";
/// Variable of every container: name of the user who submitted the application.
pub(crate) const USER_VARIABLE: &str = "HADOOP_USER_NAME";

/// Alias of the secret key in a container's credentials that all processes of the cluster prove to each other.
pub(crate) const CLUSTER_SECRET: &str = "flott.cluster.secret";

/// Alias of the secret key in the ApplicationMaster's credentials that opens its REST endpoint, see
/// [`rest::access::BearerToken`]. TaskManagers do not get it.
pub(crate) const REST_TOKEN: &str = "flott.rest.token";

/// A file that a node fetches for a container before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchFile {
    /// Path of the file below the container's working directory.
    pub(crate) name: String,
    /// URL of the file, on a file system that the nodes read.
    pub(crate) url: String,
    /// Size of the file in bytes, by which a node chooses a disk with enough room.
    pub(crate) size: i64,
    /// Modification time of the file in Unix milliseconds; a node refuses a file of another time.
    pub(crate) timestamp: i64,
    /// True if the node unpacks it.
    #[serde(default)]
    pub(crate) archive: bool,
    /// True if the node keeps it for all users' applications.
    #[serde(default)]
    pub(crate) public: bool,
    /// The hash of its bytes, where the client knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<ContentHash>,
}

impl LaunchFile {
    /// Converts the file to the message by which a node fetches it.
    ///
    /// # Errors
    /// A URL that YARN could not read.
    pub(crate) fn resource(&self) -> Result<LocalResource, IdError> {
        let mut resource = LocalResource::file(&self.url, self.size, self.timestamp)?;
        if self.archive {
            resource = resource.unpacked();
        }
        if self.public {
            resource = resource.shared(LocalResourceVisibility::Public);
        }
        Ok(resource)
    }
}

/// Returns the value of [`PROGRAM_HASH_VARIABLE`] for a launch context; `None` if it is not known.
pub(crate) fn program_hash_env(files: &[LaunchFile]) -> Option<String> {
    let program = files.iter().find(|file| file.name == PROGRAM_FILE)?;
    program.hash.map(|hash| hash.to_string())
}

/// Returns the value of `HADOOP_CONF_DIR` for a launch context.
pub(crate) fn hadoop_conf_env() -> String {
    format!("{{{{PWD}}}}/{HADOOP_CONF_FOLDER}")
}

/// Returns the value of [`streaming::SHIPPED_VARIABLE`] for a launch context, in whose shell script the container's working
/// directory stands in `PWD`; `None` if nothing is shipped.
pub(crate) fn shipped_env(files: &[LaunchFile]) -> Option<String> {
    let below = |file: &LaunchFile| Path::new(&file.name).starts_with(SHIP_FOLDER);
    files.iter().any(below).then(|| format!("{{{{PWD}}}}/{SHIP_FOLDER}"))
}

/// Returns the value of [`FILES_VARIABLE`] for a launch context.
pub(crate) fn files_to_env(files: &[LaunchFile]) -> Result<String, serde_json::Error> {
    serde_json::to_string(files)
}

/// Reads [`FILES_VARIABLE`] as a container's process sees it.
pub(crate) fn files_from_env(text: &str) -> Result<Vec<LaunchFile>, serde_json::Error> {
    serde_json::from_str(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_as_they_were_given() {
        let file = |name: &str| LaunchFile {
            name: name.to_owned(),
            url: "hdfs://h:8020/u/.flott/application_1_0001/x$y".to_owned(),
            size: 7,
            timestamp: 1_700_000_000_000,
            archive: false,
            public: true,
            hash: None,
        };
        let files = [file("flott"), file("ship/a \"b\".txt")];
        let text = files_to_env(&files).unwrap();
        assert_eq!(files_from_env(&text).unwrap(), files);
        assert!(!text.contains("{{") && !text.contains("}}"), "a NodeManager would replace them");
        let short = r#"[{"name":"flott","url":"hdfs:///f","size":1,"timestamp":2}]"#;
        assert!(!files_from_env(short).unwrap()[0].archive);
        assert!(files_from_env("[{}]").is_err());
    }
}
