//! An application's logs: those that its nodes have put into HDFS, and those of containers that run now. The
//! bridge from `hadoop::logs`, which opens no files, to the crate `hdfs-native`.

use super::PATIENCE;
use super::hdfs::hdfs;
use bytes::Bytes;
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::logs::{
    LogDecoder, LogError, LogEvent, LogFormat, LogHeader, LogPlace, LogReader, NodeFile, NodeLogs,
    ReadRange, Selection, checksum, places,
};
use hadoop::yarn::messages::{ApplicationId, ContainerReport, ContainerState};
use hadoop::yarn::{YarnClient, YarnError};
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, HdfsError};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Parses `--container` and `--file` to the selection of logs; `None` for arguments that are not understood.
pub(crate) fn selection(args: &[&str]) -> Option<Selection> {
    let mut selection = Selection::default();
    for pair in args.chunks(2) {
        match pair {
            ["--container", id] => selection.container = Some(id.parse().ok()?),
            ["--file", name] => selection.file = Some((*name).to_owned()),
            _ => return None,
        }
    }
    Some(selection)
}

/// Prints logs as `yarn logs` does, but for the times, which this format's files do not have.
pub(crate) async fn print(
    conf: &Configuration,
    login: &Login,
    yarn: &YarnClient,
    id: ApplicationId,
    selection: &Selection,
) -> Outcome<()> {
    let report = match yarn.report(id).await {
        Ok(report) => Some(report),
        // The ResourceManager has forgotten it; its logs may still be there.
        Err(error @ YarnError::Call(_)) if error.is_remote("ApplicationNotFoundException") => None,
        Err(error) => return Err(error.into()),
    };
    let owner = report.as_ref().map_or(login.short_name(), |report| report.user());
    let mut printed = aggregated(conf, login, owner, id, selection).await?;
    if let Some(attempt) = report.and_then(|report| report.current_application_attempt_id) {
        for container in yarn.containers(attempt).await.unwrap_or_default() {
            if container.container_state() == ContainerState::Running {
                printed += local(login, &container, selection).await?;
            }
        }
    }
    match printed {
        0 => Err("no such logs, neither in HDFS nor on a node".into()),
        _ => Ok(()),
    }
}

/// How many logs in HDFS were printed.
async fn aggregated(
    conf: &Configuration,
    login: &Login,
    owner: &str,
    id: ApplicationId,
    selection: &Selection,
) -> Outcome<usize> {
    let hdfs = hdfs(conf, login)?;
    let mut printed = 0;
    for LogPlace { format, directory } in places(conf, owner, id)? {
        let root = conf.require("fs.defaultFS", "logs are there")?;
        let path = directory.strip_prefix(root.trim_end_matches('/')).unwrap_or(&directory);
        let mut files = match hdfs.list_status(path, false).await {
            Ok(files) => files,
            Err(HdfsError::FileNotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let whole = whole(&hdfs, &files).await?;
        for file in files {
            let name = name(&file);
            match NodeFile::named(name) {
                NodeFile::Logs => {}
                NodeFile::Archive => {
                    eprintln!("{}: an archive, not read", file.path);
                    continue;
                }
                NodeFile::Checksum | NodeFile::Partial => continue,
                other => {
                    eprintln!("{}: {other:?}, not read", file.path);
                    continue;
                }
            }
            let length = whole.get(name).copied().filter(|_| format == LogFormat::Indexed);
            let length = length.unwrap_or(file.length as u64);
            if length == 0 {
                continue;
            }
            let decoder = LogDecoder::new(format, id, length, selection.clone());
            let reader = LogReader::new(HdfsFile(hdfs.read(&file.path).await?), decoder);
            // One node's file may be damaged; the others are not.
            match print_file(reader, name).await {
                Ok(count) => printed += count,
                Err(error) => eprintln!("{}: {error}", file.path),
            }
        }
    }
    Ok(printed)
}

fn name(file: &FileStatus) -> &str {
    file.path.rsplit('/').next().unwrap_or_default()
}

/// How much is whole of files that are being added to.
async fn whole(hdfs: &Client, files: &[FileStatus]) -> Outcome<BTreeMap<String, u64>> {
    let mut whole = BTreeMap::new();
    for file in files.iter().filter(|file| NodeFile::named(name(file)) == NodeFile::Checksum) {
        let reader = hdfs.read(&file.path).await?;
        let bytes = reader.read_range(0, reader.file_length().min(4096)).await?;
        whole.extend(checksum(&bytes).ok());
    }
    Ok(whole)
}

/// A file of HDFS as something whose ranges can be read.
struct HdfsFile(FileReader);

impl ReadRange for HdfsFile {
    async fn read_range(&mut self, offset: u64, length: usize) -> io::Result<Bytes> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        // The file may have become shorter since it was listed, and hdfs-native does not take that well.
        match offset.checked_add(length).is_some_and(|end| end <= self.0.file_length()) {
            true => self.0.read_range(offset, length).await.map_err(io::Error::other),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

async fn print_file(mut reader: LogReader<HdfsFile>, node: &str) -> Outcome<usize> {
    let mut printed = 0;
    let mut name = String::new();
    while let Some(event) = reader.next().await? {
        match event {
            LogEvent::File(header) => {
                begin(&header, node, "AGGREGATED")?;
                name = header.name;
                printed += 1;
            }
            LogEvent::Bytes(piece) => io::stdout().write_all(&piece)?,
            LogEvent::End { complete } => {
                let end = format!("End of LogType:{name}");
                let rest = if complete { "" } else { "It is shorter than it should be.\n" };
                println!("\n{end}\n{rest}{}\n", "*".repeat(end.len() + 50));
            }
        }
    }
    Ok(printed)
}

fn begin(header: &LogHeader, node: &str, kind: &str) -> Outcome<()> {
    let first = format!("Container: {} on {node}", header.container);
    println!("{first}\nLogAggregationType: {kind}\n{}", "=".repeat(first.len()));
    println!("LogType:{}\nLogLength:{}\nLogContents:", header.name, header.length);
    Ok(io::stdout().flush()?)
}

/// How many logs on the container's node were printed.
async fn local(
    login: &Login,
    container: &ContainerReport,
    selection: &Selection,
) -> Outcome<usize> {
    let Some(id) = container.container_id else { return Ok(0) };
    if selection.container.is_some_and(|wanted| wanted.to_string() != id.to_string()) {
        return Ok(0);
    }
    let node = NodeLogs::new(container.node_http_address(), login.short_name(), PATIENCE);
    let place = container.node_id.clone().unwrap_or_default().to_string();
    let logs = match node.list(id).await {
        Ok(logs) => logs,
        // It has not started yet, or its node is gone; others have logs.
        Err(error) => {
            eprintln!("{id}: {error}");
            return Ok(0);
        }
    };
    let mut printed = 0;
    for log in logs {
        if selection.file.as_ref().is_some_and(|wanted| *wanted != log.name) {
            continue;
        }
        match print_local(&node, id, &log.name, &place).await {
            Ok(()) => printed += 1,
            // It may have ended, or the file may be gone, since the list was made.
            Err(error) => eprintln!("{id} {}: {error}", log.name),
        }
    }
    Ok(printed)
}

async fn print_local(
    node: &NodeLogs,
    id: hadoop::yarn::messages::ContainerId,
    name: &str,
    place: &str,
) -> Result<(), Box<dyn Error>> {
    let mut stream = node.open(id, name).await?;
    while let Some(event) = stream.next().await.map_err(|error: LogError| error.to_string())? {
        match event {
            LogEvent::File(header) => begin(&header, place, "LOCAL")?,
            LogEvent::Bytes(piece) => io::stdout().write_all(&piece)?,
            LogEvent::End { .. } => {
                let end = format!("End of LogType:{name}");
                println!(
                    "{end}.This log file belongs to a running container ({id}) and so may not be complete."
                );
                println!("{}\n", "*".repeat(end.len() + 50));
            }
        }
    }
    Ok(())
}
