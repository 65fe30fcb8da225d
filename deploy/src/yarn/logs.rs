//! The logs of an application's containers: those that the nodes have collected in HDFS, and those of containers that
//! run, from their nodes. It only reads.

use super::cluster::Cluster;
use super::deployment::has_ended;
use super::error::{YarnFailure, hdfs_words};
use super::hdfs;
use crate::cli::Failure;
use crate::cli::logs::{JOB_MANAGER, LogFile, LogOutput};
use bytes::Bytes;
use hadoop::hdfs::FileSystem;
use hadoop::logs::{
    LogDecoder, LogError, LogEvent, LogFormat, LogPlace, LogReader, NodeFile, NodeLogs, ReadRange,
    Selection, checksum, places,
};
use hadoop::yarn::YarnError;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationReport, ContainerId, ContainerReport, ContainerState,
    LogAggregationStatus,
};
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, HdfsError};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks whether the nodes have collected the logs.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for the next bytes of a node.
const NODE_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of a checksum file, which names a node's file and its length.
const CHECKSUM_MAX: usize = 4096;

/// An application and the way to its logs.
pub(super) struct ApplicationLogs<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) id: ApplicationId,
    /// `None`: the ResourceManager has forgotten it, or never knew it.
    pub(super) report: Option<ApplicationReport>,
    /// Longest wait for nodes that are still collecting the logs of an application that has ended.
    pub(super) patience: Duration,
}

/// Whether containers run whose nodes gave nothing, so that another way to their logs is worth a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All logs were shown, or the failure to read them was reported.
    All,
    /// No node hands out logs to this user, or the process is named as only the application's own endpoint names it.
    OnlyByEndpoint,
}

impl ApplicationLogs<'_> {
    /// Shows all logs that `output` wants.
    ///
    /// # Errors
    /// HDFS does not answer; nothing was collected; standard output is gone. A file that is damaged and a node that
    /// does not answer are told to `output`.
    pub(super) async fn show(&mut self, output: &mut LogOutput) -> Result<Shown, Failure> {
        let ended = self.report.as_ref().is_none_or(has_ended);
        if !ended && output.process() == Some(JOB_MANAGER) {
            return Ok(Shown::OnlyByEndpoint);
        }
        let selection = self.selection(output)?;
        if ended {
            self.wait(output).await?;
        }
        self.collected(&selection, output).await?;
        let attempt = self.report.as_ref().and_then(|r| r.current_application_attempt_id);
        let Some(attempt) = attempt.filter(|_| !ended) else {
            return match output.is_empty() {
                true => Err(self.nothing().into()),
                false => Ok(Shown::All),
            };
        };
        let containers = self.cluster.yarn.containers(attempt).await.map_err(YarnFailure::from)?;
        let mut refused = Vec::new();
        for container in &containers {
            if container.container_state() == ContainerState::Running
                && let Err(why) = self.of_node(container, &selection, output).await?
            {
                refused.push(why);
            }
        }
        if output.is_empty() && refused.iter().any(|(_, is_refusal)| *is_refusal) {
            return Ok(Shown::OnlyByEndpoint);
        }
        refused.iter().for_each(|(why, _)| output.failed(why));
        Ok(Shown::All)
    }

    fn selection(&self, output: &LogOutput) -> Result<Selection, YarnFailure> {
        let container = output.process().map(|text| {
            text.parse().map_err(|_| {
                YarnFailure::configuration(format!(
                    "--process '{text}' is no container's id: on YARN processes are containers, which --list names; jobmanager names \
                     one only while the application runs"
                ))
            })
        });
        let file = output.file().map(str::to_owned);
        Ok(Selection { container: container.transpose()?, file })
    }

    /// Waits until the nodes have collected the logs of an application that has just ended.
    async fn wait(&mut self, output: &LogOutput) -> Result<(), YarnFailure> {
        let since = Instant::now();
        let mut told = false;
        while let Some(report) = &self.report {
            use LogAggregationStatus::{NotStart, Running, RunningWithFailure};
            let status = report.log_aggregation_status();
            let is_under_way = matches!(status, NotStart | Running | RunningWithFailure);
            if !is_under_way || since.elapsed() >= self.patience {
                return Ok(());
            }
            if !told {
                output.note(&format!("the nodes are collecting the logs of {}", self.id));
                told = true;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            self.report = Some(self.cluster.yarn.report(self.id).await?);
        }
        Ok(())
    }

    /// Returns why an application that has ended has no logs.
    fn nothing(&self) -> YarnFailure {
        use LogAggregationStatus::{Disabled, NotStart, Running, RunningWithFailure};
        let id = self.id;
        let text = match self.report.as_ref().map(ApplicationReport::log_aggregation_status) {
            None => format!(
                "the cluster knows no {id} and has no logs of it: it has forgotten both, or HADOOP_CONF_DIR is another \
                 cluster's"
            ),
            Some(Disabled) => format!(
                "the cluster does not collect logs (yarn.log-aggregation-enable is false): those of {id} are on the nodes, \
                 below yarn.nodemanager.log-dirs"
            ),
            Some(NotStart | Running | RunningWithFailure) => {
                format!("the nodes have not collected the logs of {id} yet; try again later")
            }
            Some(_) => format!("{id} has no such logs"),
        };
        YarnFailure::cluster(text)
    }

    /// Shows the logs in HDFS.
    async fn collected(
        &self,
        selection: &Selection,
        output: &mut LogOutput,
    ) -> Result<(), Failure> {
        let Cluster { conf, login, .. } = self.cluster;
        let owner = self.report.as_ref().map_or(login.short_name(), |report| report.user());
        let default = FileSystem::from_conf(conf, None).map_err(YarnError::from);
        let root = default.map_err(YarnFailure::from)?.uri;
        let client = hdfs::client(conf, login, &root)?;
        let all = places(conf, owner, self.id).map_err(YarnError::from);
        for place in all.map_err(YarnFailure::from)? {
            let path = place.directory.strip_prefix(&root).unwrap_or(&place.directory);
            let mut files = match client.list_status(path, false).await {
                Ok(files) => files,
                Err(HdfsError::FileNotFound(_)) => continue,
                Err(error) => return Err(unread(path, &error).into()),
            };
            files.sort_by(|one, other| one.path.cmp(&other.path));
            self.directory(&client, &place, &files, selection, output).await?;
        }
        Ok(())
    }

    /// Shows a directory of nodes' files, all of one format.
    async fn directory(
        &self,
        client: &Client,
        place: &LogPlace,
        files: &[FileStatus],
        selection: &Selection,
        output: &mut LogOutput,
    ) -> Result<(), Failure> {
        let whole = whole_lengths(client, files, output).await;
        for file in files {
            let node = name(file);
            match NodeFile::named(node) {
                NodeFile::Logs => {}
                NodeFile::Archive => {
                    output.failed(&format!(
                        "{}: an archive of logs, which only Hadoop's own commands read",
                        file.path
                    ));
                    continue;
                }
                NodeFile::Checksum | NodeFile::Partial => continue,
                other => {
                    output.failed(&format!("{}: {other:?}, which is not read", file.path));
                    continue;
                }
            }
            let length = whole.get(node).copied().filter(|_| place.format == LogFormat::Indexed);
            let length = length.unwrap_or(file.length as u64);
            if length == 0 {
                continue;
            }
            let reader = match client.read(&file.path).await {
                Ok(reader) => HdfsFile(reader),
                Err(error) => {
                    output.failed(&unread(&file.path, &error).to_string());
                    continue;
                }
            };
            let decoder = LogDecoder::new(place.format, self.id, length, selection.clone());
            // One node's file may be damaged; the others are not.
            if let Err(why) = node_file(LogReader::new(reader, decoder), node, output).await? {
                output.failed(&format!("{}: {why}", file.path));
            }
        }
        Ok(())
    }

    /// Shows the logs of a container that runs, which are on its node. The inner error: why not, and whether the node
    /// hands out none to this user.
    async fn of_node(
        &self,
        container: &ContainerReport,
        selection: &Selection,
        output: &mut LogOutput,
    ) -> io::Result<Result<(), (String, bool)>> {
        let Some(id) = container.container_id else { return Ok(Ok(())) };
        let wanted = selection.container.as_ref().map(ContainerId::to_string);
        if wanted.is_some_and(|wanted| wanted != id.to_string()) {
            return Ok(Ok(()));
        }
        let address = container.node_http_address();
        let node = NodeLogs::new(address, self.cluster.login.short_name(), NODE_WITHIN);
        let place = container.node_id.clone().unwrap_or_default().to_string();
        let logs = match node.list(id).await {
            Ok(logs) => logs,
            Err(error) => {
                let is_refusal = matches!(error, LogError::Refused { status: 401 | 403, .. });
                return Ok(Err((format!("{id}: {error}"), is_refusal)));
            }
        };
        for log in logs.iter().filter(|log| selection.file.as_ref().is_none_or(|f| *f == log.name))
        {
            let file = LogFile {
                process: id.to_string(),
                node: place.clone(),
                file: log.name.clone(),
                bytes: log.length,
            };
            // The container may have ended since the list was made.
            if output.begin(file)?
                && let Err(why) = node_log(&node, id, &log.name, output).await?
            {
                output.failed(&format!("{id} {}: {why}", log.name));
            }
        }
        Ok(Ok(()))
    }
}

fn unread(path: &str, error: &HdfsError) -> YarnFailure {
    YarnFailure::cluster(format!("{path} cannot be read: {}", hdfs_words(error)))
}

fn name(file: &FileStatus) -> &str {
    file.path.rsplit('/').next().unwrap_or_default()
}

/// Returns the node whose file has this name, as YARN calls nodes: files are named `host_port`.
fn node_of(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((host, port)) if port.parse::<u16>().is_ok() => format!("{host}:{port}"),
        _ => name.to_owned(),
    }
}

/// Returns how many bytes are whole of files that are being added to, by name.
async fn whole_lengths(
    client: &Client,
    files: &[FileStatus],
    output: &mut LogOutput,
) -> BTreeMap<String, u64> {
    let mut whole = BTreeMap::new();
    for file in files.iter().filter(|file| NodeFile::named(name(file)) == NodeFile::Checksum) {
        let read = async {
            let reader = client.read(&file.path).await?;
            reader.read_range(0, reader.file_length().min(CHECKSUM_MAX)).await
        };
        match read.await {
            Ok(bytes) => whole.extend(checksum(&bytes).ok()),
            Err(error) => output.failed(&unread(&file.path, &error).to_string()),
        }
    }
    whole
}

/// A file of HDFS that is read in ranges.
struct HdfsFile(FileReader);

impl ReadRange for HdfsFile {
    async fn read_range(&mut self, offset: u64, length: usize) -> io::Result<Bytes> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        // The file may be shorter than when it was listed, and the client does not check that.
        match offset.checked_add(length).is_some_and(|end| end <= self.0.file_length()) {
            true => self.0.read_range(offset, length).await.map_err(io::Error::other),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Shows a node's file. The inner error: it cannot be read to its end.
async fn node_file(
    mut reader: LogReader<HdfsFile>,
    node: &str,
    output: &mut LogOutput,
) -> io::Result<Result<(), LogError>> {
    let mut wanted = false;
    loop {
        match reader.next().await {
            Ok(Some(LogEvent::File(header))) => {
                wanted = output.begin(LogFile {
                    process: header.container.to_string(),
                    node: node_of(node),
                    file: header.name,
                    bytes: header.length,
                })?;
            }
            Ok(Some(LogEvent::Bytes(piece))) if wanted => output.bytes(&piece)?,
            Ok(Some(LogEvent::Bytes(_))) => {}
            Ok(Some(LogEvent::End { complete })) => {
                if wanted {
                    output.end()?;
                }
                if !complete {
                    output.failed(&format!("{node}: the log above is shorter than it was"));
                }
            }
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Shows a log that is on a node. The inner error: it cannot be read to its end.
async fn node_log(
    node: &NodeLogs,
    id: ContainerId,
    name: &str,
    output: &mut LogOutput,
) -> io::Result<Result<(), LogError>> {
    let mut stream = match node.open(id, name).await {
        Ok(stream) => stream,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        match stream.next().await {
            Ok(Some(LogEvent::Bytes(piece))) => output.bytes(&piece)?,
            Ok(Some(LogEvent::File(_) | LogEvent::End { .. })) => {}
            Ok(None) => {
                output.end()?;
                return Ok(Ok(()));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_node_that_it_is_named_by() {
        assert_eq!(node_of("node-1.example.org_45454"), "node-1.example.org:45454");
        assert_eq!(node_of("a_b_8041"), "a_b:8041");
        assert_eq!(node_of("node_8041_1570379089091"), "node_8041_1570379089091");
        assert_eq!(node_of("meta"), "meta");
    }
}
