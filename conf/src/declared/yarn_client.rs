//! Options of the client that deploys on YARN.

use crate::{Declaration, Family, List, declare::options};
use model::PortSpec;
use std::{marker::PhantomData, num::NonZeroU32, path::PathBuf, time::Duration};

options! {
    /// The queue that the application is submitted to: a leaf's name or full path; YARN's `default` where it is not set.
    QUEUE: Option<String> = "yarn.application.queue" => None;
    /// Name of the application in YARN's lists; made from the target and the program if it is not
    /// set.
    NAME: Option<String> = "yarn.application.name" => None;
    /// Type of the application, by which `yarn application -list -appTypes` filters; YARN cuts it
    /// after 20 characters.
    TYPE: String = "yarn.application.type" => "Flott".to_owned();
    /// Tags of the application, for searches in YARN's lists.
    TAGS: List = "yarn.tags" => List::default();
    /// The application's priority in its queue, the higher the sooner; the queue's default where it is not set.
    PRIORITY: Option<u32> = "yarn.application.priority" => None;
    /// The node label of all containers; that of the queue where it is not set.
    NODE_LABEL: Option<String> = "yarn.application.node-label" => None;
    /// Number of times that YARN may start the JobManager in all, at most
    /// `yarn.resourcemanager.am.max-attempts` of the cluster. If it is not set: 1 without high
    /// availability, 2 with it.
    ATTEMPTS: Option<NonZeroU32> = "yarn.application-attempts" => None;
    /// Age above which an end of the JobManager does not count as one of
    /// `yarn.application-attempts`.
    ATTEMPTS_INTERVAL: Duration = "yarn.application-attempt-failures-validity-interval" => Duration::from_secs(10);
    /// The application that a command is about: a session to submit to. The session file says which where it is not set.
    APPLICATION_ID: Option<String> = "yarn.application.id" => None;
    /// Directory in which `flott yarn-session` notes the session it started, and the client the
    /// token of each application's REST; that of `env.pid.dir` if it is not set.
    PROPERTIES_FILE: Option<PathBuf> = "yarn.properties-file.location" => None;
    /// The directory on the cluster's file system below which `.flott/<application id>` holds the files of an
    /// application; the user's home directory there where it is not set.
    STAGING_DIRECTORY: Option<String> = "yarn.staging-directory" => None;
    /// Files and directories that every container gets; a program opens them by `env.shipped(name)`.
    SHIP_FILES: List = "yarn.ship-files" => List::default(), other ["yarn.ship-directories"];
    /// Archives (`.zip`, `.tar`, `.tar.gz`, `.tgz`, `.jar`) that every container gets unpacked; `env.shipped(name)` is the folder.
    SHIP_ARCHIVES: List = "yarn.ship-archives" => List::default();
    /// Directories on the staging directory's file system in which `flott` and programs are kept by
    /// their hash for all applications: a file that one of them holds is not uploaded again, and
    /// nodes keep it. New files go into the first. A user who may write there decides what others
    /// run. Nothing is ever removed from them.
    PROVIDED_DIRS: List = "yarn.provided.lib.dirs" => List::default();
    /// Replication factor of the uploaded files; the file system's default if it is not set.
    FILE_REPLICATION: Option<NonZeroU32> = "yarn.file-replication" => None;
    /// The virtual cores of the JobManager's container.
    MASTER_VCORES: NonZeroU32 = "yarn.appmaster.vcores" => NonZeroU32::MIN;
    /// The ports that the JobManager's RPC service may bind to on its node.
    MASTER_PORT: PortSpec = "yarn.application-master.port" => PortSpec::any();
    /// The log files, by a regular expression of Java's, that YARN collects while the application runs.
    ROLLED_LOGS_INCLUDE: Option<String> = "yarn.rolled-logs.include-pattern" => None;
    /// The log files, by a regular expression of Java's, that YARN does not collect while the application runs.
    ROLLED_LOGS_EXCLUDE: Option<String> = "yarn.rolled-logs.exclude-pattern" => None;
}

/// The value of an environment variable that is set in the JobManager's container. The name in the key
/// `containerized.master.env.<name>` is the variable's.
pub static MASTER_ENV: Family<String> = Family {
    prefix: "containerized.master.env.",
    suffix: "",
    key: "containerized.master.env.<name>",
    doc: "An environment variable of the JobManager's container.",
    value: PhantomData,
};

pub(crate) static FAMILIES: &[&dyn Declaration] = &[&MASTER_ENV];
