//! Reads a split of a remote file block by block: the next block is read beside the task while the lines of the last one are
//! emitted. At most two blocks are in memory. The task's thread must never wait for the remote system here.

use super::ReaderContext;
use futures::FutureExt;
use std::sync::Arc;
use storage::files::{RemoteFile, RemoteFiles};
use tokio::sync::OnceCell;

/// Largest and smallest number of bytes that one read asks for.
const BLOCK: u64 = 4 << 20;
const SMALLEST: u64 = 64 << 10;

/// A remote file that is read from a given offset to its end.
#[derive(Debug)]
pub(super) struct RemoteInput {
    files: Arc<dyn RemoteFiles>,
    uri: String,
    /// The file's handle; opened by the first read.
    file: Arc<OnceCell<Arc<dyn RemoteFile>>>,
    /// Offset in bytes of the next block.
    next: u64,
    /// End offset of the split; bytes after it are read in blocks of [`SMALLEST`].
    end: u64,
    /// A block that was read and not taken.
    ready: Option<Vec<u8>>,
    /// Ticket of this split's reads; reads of earlier splits have other tickets.
    ticket: u32,
    asked: bool,
    ended: bool,
}

/// The outcome of [`RemoteInput::take`].
pub(super) enum Block {
    /// The next bytes of the file.
    Bytes(Vec<u8>),
    /// The next block is still being read; mail announces its arrival.
    Pending,
    /// The file has ended.
    End,
}

impl RemoteInput {
    pub(super) fn new(
        files: Arc<dyn RemoteFiles>,
        uri: String,
        (from, end): (u64, u64),
        ticket: u32,
    ) -> Self {
        let (file, ready) = (Arc::default(), None);
        Self { files, uri, file, next: from, end, ready, ticket, asked: false, ended: false }
    }

    /// Takes the next block if it has arrived, and starts the read of the block after it.
    pub(super) fn take(&mut self, context: &mut ReaderContext<'_>) -> Block {
        let block = self.ready.take();
        if !self.asked && !self.ended {
            self.ask(context);
        }
        match block {
            Some(block) => Block::Bytes(block),
            None if self.ended => Block::End,
            None => Block::Pending,
        }
    }

    /// Takes the result of a read of this split. An empty block marks the end of the file.
    pub(super) fn answered(&mut self, block: Vec<u8>) {
        self.asked = false;
        self.ended = block.is_empty();
        self.next = self.next.saturating_add(block.len() as u64);
        if !self.ended {
            self.ready = Some(block);
        }
    }

    pub(super) fn is_asked_by(&self, ticket: u32) -> bool {
        self.ticket == ticket
    }

    fn ask(&mut self, context: &mut ReaderContext<'_>) {
        self.asked = true;
        let (files, uri, file) = (self.files.clone(), self.uri.clone(), self.file.clone());
        let offset = self.next;
        let most = self.end.saturating_sub(offset).clamp(SMALLEST, BLOCK);
        let read = async move {
            let file = file.get_or_try_init(|| files.open(&uri)).await?;
            let bytes = file.read(offset, usize::try_from(most).unwrap_or(usize::MAX)).await?;
            Ok(Vec::from(bytes))
        };
        let read = read.map(|read: Result<_, storage::objects::StoreError>| {
            read.map_err(|error| error.to_string())
        });
        context.spawn_io(read.boxed(), self.ticket);
    }
}
