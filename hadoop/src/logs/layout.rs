//! Names the places where nodes put logs: directories by user and application, files by node. It must never open
//! anything.

use super::LogFormat;
use crate::conf::{ConfError, Configuration};
use crate::yarn::messages::ApplicationId;

/// Applications are spread over so many directories.
const BUCKETS: i32 = 10_000;

/// A directory of the remote file system in which nodes may have put an application's logs, one file for each node, as [`places`] finds it:
/// its path and the format of its files. Nobody has looked whether it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlace {
    /// The format of the log files in the directory.
    pub format: LogFormat,
    /// Path of the directory, with a scheme if the configuration has one. It may not exist.
    pub directory: String,
}

/// The kind of a file in a directory of collected logs (a [`LogPlace`]), by its name: logs to read, a checksum beside an indexed file that
/// still grows, a partial file to leave alone, or an archive that is not read here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeFile {
    /// A file with a node's logs, which `LogDecoder` reads.
    Logs,
    /// The checksum file beside an indexed log file, to be decoded by [`checksum`](super::checksum).
    Checksum,
    /// A file that a node is still writing; not to be read.
    Partial,
    /// An archive of log files (made by `mapred archive-logs`), which this library does not read.
    Archive,
}

impl NodeFile {
    /// Returns the kind of a file by the end of its name: `.tmp` is partial, `-checksum` a checksum, `.har` an archive,
    /// all others are logs. Does not look at the file.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            _ if name.ends_with(".tmp") => Self::Partial,
            _ if name.ends_with("-checksum") => Self::Checksum,
            _ if name.ends_with(".har") => Self::Archive,
            _ => Self::Logs,
        }
    }
}

/// Returns the directories in which logs of `owner`'s application may be, in the order in which Hadoop looks for them:
/// those of the configured formats first, then those where the formats would be by default, because a client's
/// configuration often lacks what the nodes' says. For each format the directory of Hadoop 3.3 and later comes first,
/// then, unless `yarn.nodemanager.remote-app-log-dir-include-older` is false, that of earlier versions. `owner` is the
/// short name of the application's user. Formats that this library does not know are left out. Looks into none of them.
///
/// # Errors
/// Fails with a [`ConfError`] for a property that is wrong.
pub fn places(
    conf: &Configuration,
    owner: &str,
    application: ApplicationId,
) -> Result<Vec<LogPlace>, ConfError> {
    let older = conf.get_bool("yarn.nodemanager.remote-app-log-dir-include-older")?.unwrap_or(true);
    let mut names = conf.get_list("yarn.log-aggregation.file-formats")?;
    names.extend(["TFile", "IFile"].map(str::to_owned));
    let mut places = Vec::new();
    for name in names {
        let Some(format) = format_of(conf, &name)? else { continue };
        let (root, suffix) = (root(conf, &name)?, suffix(conf, &name)?);
        let user = format!("{}/{owner}", root.trim_end_matches('/'));
        let bucket = application.id() % BUCKETS;
        let mut directories = vec![format!("{user}/bucket-{suffix}/{bucket:04}/{application}")];
        if older {
            directories.push(format!("{user}/{suffix}/{application}"));
        }
        for directory in directories {
            let place = LogPlace { format, directory };
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    Ok(places)
}

/// A format goes by any name; the class that writes it tells which it is.
fn format_of(conf: &Configuration, name: &str) -> Result<Option<LogFormat>, ConfError> {
    let class = conf.get_trimmed(&format!("yarn.log-aggregation.file-controller.{name}.class"))?;
    let class = class.unwrap_or_default();
    let name = name.to_ascii_lowercase();
    Ok(match class.rsplit('.').next().unwrap_or_default() {
        "LogAggregationTFileController" => Some(LogFormat::TFile),
        "LogAggregationIndexedFileController" => Some(LogFormat::Indexed),
        "" if name == "tfile" => Some(LogFormat::TFile),
        "" if name == "ifile" => Some(LogFormat::Indexed),
        _ => None,
    })
}

fn root(conf: &Configuration, name: &str) -> Result<String, ConfError> {
    let own = conf.get_trimmed(&format!("yarn.log-aggregation.{name}.remote-app-log-dir"))?;
    match own.filter(|own| !own.is_empty()) {
        Some(own) => Ok(own),
        None => Ok(conf
            .get_trimmed("yarn.nodemanager.remote-app-log-dir")?
            .unwrap_or_else(|| "/tmp/logs".to_owned())),
    }
}

fn suffix(conf: &Configuration, name: &str) -> Result<String, ConfError> {
    let own =
        conf.get_trimmed(&format!("yarn.log-aggregation.{name}.remote-app-log-dir-suffix"))?;
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        return Ok(own);
    }
    let common = conf.get_trimmed("yarn.nodemanager.remote-app-log-dir-suffix")?;
    let common = common.unwrap_or_else(|| "logs".to_owned());
    Ok(format!("{common}-{}", name.to_ascii_lowercase()))
}
