//! Decodes a node's answers about the logs of running containers: a list in XML, and a log inside a text for people. It
//! must never fetch anything.

use super::{LogError, LogEvent, LogHeader};
use bytes::{Bytes, BytesMut};

/// Bytes of a list, which names a few files.
pub(super) const LIST_MAX: usize = 4 << 20;
/// Nodes of XML in it.
const NODES_MAX: u32 = 1 << 18;
/// Bytes of what comes before a log.
const HEAD_MAX: usize = 64 << 10;
/// The text right before a log's bytes.
const CONTENTS: &[u8] = b"\nLogContents:\n";

/// A log file of a container that is still on its node's disk, as the node lists it. Returned by [`local_logs`] and `NodeLogs::list`; holds
/// no bytes of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLog {
    /// The file's name, such as `stdout`.
    pub name: String,
    /// Length of the file in bytes when the node looked; it may have grown since.
    pub length: u64,
}

/// Decodes a node's list of a container's logs: its answer, in XML, to `/ws/v1/node/containers/ID/logs`. Returns the
/// logs that are on the node's disk, not those that it knows to be in HDFS.
///
/// # Errors
/// Fails with [`LogError::Answer`] if the answer is no such list, or has more than 4 MiB.
pub fn local_logs(answer: &str) -> Result<Vec<LocalLog>, LogError> {
    let wrong = || LogError::Answer("the list of logs is not one");
    if answer.len() > LIST_MAX {
        return Err(LogError::Answer("the list of logs is too long"));
    }
    let options = roxmltree::ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES_MAX,
        ..Default::default()
    };
    let document = roxmltree::Document::parse_with_options(answer, options).map_err(|_| wrong())?;
    let root = document.root_element();
    if root.tag_name().name() != "containerLogsInfoes" {
        return Err(wrong());
    }
    let mut logs = Vec::new();
    let named = |at: roxmltree::Node<'_, '_>, name: &'static str| {
        let child = at.children().find(|child| child.tag_name().name() == name);
        child.and_then(|child| child.text().map(str::to_owned))
    };
    for list in root.children().filter(roxmltree::Node::is_element) {
        if named(list, "logAggregationType").is_some_and(|kind| kind != "LOCAL") {
            continue;
        }
        for log in list.children().filter(|log| log.tag_name().name() == "containerLogInfo") {
            let name = named(log, "fileName").ok_or_else(wrong)?;
            let length = named(log, "fileSize").and_then(|size| size.trim().parse().ok());
            logs.push(LocalLog { name, length: length.ok_or_else(wrong)? });
        }
    }
    Ok(logs)
}

enum State {
    Head,
    Content { left: u64 },
    Over,
}

/// Decodes one log out of a node's answer to `/ws/v1/node/containers/ID/logs/FILE`, a text with a head, the log and a foot. Parts of the
/// log that are in HDFS already, and that the node adds, are left out. `NodeLogStream` gives it the answer's bytes; it reads nothing itself
/// and keeps about 64 KiB of the head at most.
#[derive(derive_more::Debug)]
#[debug("LocalLogs {{ .. }}")]
pub struct LocalLogs {
    state: State,
    head: BytesMut,
    input: Bytes,
}

impl Default for LocalLogs {
    fn default() -> Self {
        Self { state: State::Head, head: BytesMut::new(), input: Bytes::new() }
    }
}

impl LocalLogs {
    /// Gives the decoder the next bytes of the answer. To be called only after [`LocalLogs::poll`] has returned `None`:
    /// bytes that it has not used yet are replaced.
    pub fn give(&mut self, bytes: Bytes) {
        self.input = bytes;
    }

    /// Returns true once the log's own bytes and [`LogEvent::End`] have been given out; bytes that the node appends
    /// after them are ignored.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Returns the next event of the log; `None` if more bytes are needed or the log is over.
    ///
    /// # Errors
    /// Fails with [`LogError::Answer`] if no log begins in the first 64 KiB, or its head names no container, file or size.
    pub fn poll(&mut self) -> Result<Option<LogEvent>, LogError> {
        match self.state {
            State::Head => self.head(),
            State::Over => Ok(None),
            State::Content { left: 0 } => {
                self.state = State::Over;
                Ok(Some(LogEvent::End { complete: true }))
            }
            State::Content { .. } if self.input.is_empty() => Ok(None),
            State::Content { left } => {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.input.len());
                let piece = self.input.split_to(most);
                self.state = State::Content { left: left - most as u64 };
                Ok(Some(LogEvent::Bytes(piece)))
            }
        }
    }

    /// Tells the decoder that the answer has ended. Returns [`LogEvent::End`] for a log that was still open, complete
    /// if it had all its bytes; `None` if its end was given out before.
    ///
    /// # Errors
    /// Fails with [`LogError::Answer`] if the log had not begun.
    pub fn finish(&mut self) -> Result<Option<LogEvent>, LogError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Head => Err(LogError::Answer("it ends before a log begins")),
            State::Content { left } => Ok(Some(LogEvent::End { complete: left == 0 })),
            State::Over => Ok(None),
        }
    }

    fn head(&mut self) -> Result<Option<LogEvent>, LogError> {
        // Only what is new, and what may be the beginning of the mark, is searched.
        let from = self.head.len().saturating_sub(CONTENTS.len());
        self.head.extend_from_slice(&std::mem::take(&mut self.input));
        let new = self.head.get(from..).unwrap_or_default();
        let Some(at) = new.windows(CONTENTS.len()).position(|part| part == CONTENTS) else {
            return match self.head.len() > HEAD_MAX {
                true => Err(LogError::Answer("no log begins in it")),
                false => Ok(None),
            };
        };
        let rest = self.head.split_off(from + at + CONTENTS.len());
        let head = std::mem::take(&mut self.head);
        self.input = rest.freeze();
        let header = header(&head).ok_or(LogError::Answer("its log has no container or size"))?;
        self.state = State::Content { left: header.length };
        Ok(Some(LogEvent::File(header)))
    }
}

fn header(head: &[u8]) -> Option<LogHeader> {
    let head = std::str::from_utf8(head).ok()?;
    let after = |mark: &str| head.lines().find_map(|line| line.strip_prefix(mark));
    Some(LogHeader {
        container: after("Container: ")?.split(' ').next()?.parse().ok()?,
        name: after("LogType:")?.to_owned(),
        length: after("LogLength:")?.parse().ok()?,
        modified: None,
    })
}
