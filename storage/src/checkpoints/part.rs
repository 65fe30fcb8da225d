//! A part of an operator's state on its way into the checkpoint directory. No call may wait without a limit: a network file system that
//! hangs would hold up the records of the part's task for ever.

use super::CheckpointError;
use crate::objects::{PieceWriter, StoreError};
use bytes::Bytes;
use model::StateHandle;
use std::time::Duration;
use tokio::time::timeout;

/// The time within which a state must be stored, and a second more for each [`BYTES_PER_S`] of it.
pub(super) const STORED_WITHIN: Duration = Duration::from_secs(30);
/// The bytes that the slowest store takes in a second.
const BYTES_PER_S: u64 = 4 << 20;

/// Writes one part of a state in pieces; made by [`CheckpointDirectory::begin_part`](super::CheckpointDirectory::begin_part). The part
/// exists once [`PartWriter::finish`] has returned `Ok`; a writer that is dropped without a call of it leaves nothing, and after one that
/// failed or was dropped meanwhile the part may be there or not. A store that takes only whole objects gets all pieces in `finish`; until
/// then they are in memory.
#[derive(Debug)]
pub struct PartWriter {
    pub(super) writer: PieceWriter,
    /// The part's name in the checkpoint directory, and its place for messages.
    pub(super) name: String,
    pub(super) shown: String,
}

impl PartWriter {
    /// Returns true if the store takes the pieces as they come; false if they stay in memory until [`PartWriter::finish`].
    pub fn is_streamed(&self) -> bool {
        self.writer.is_streamed()
    }

    /// Appends a piece, and drops its bytes as soon as the store has taken or copied them. After an error the writer can only be dropped,
    /// which leaves no part.
    ///
    /// # Errors
    /// Returns the store's error; [`StoreError::Unreachable`] if it does not take the piece within 30 s and a second for each 4 MiB.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), CheckpointError> {
        let bytes = piece.len() as u64;
        Ok(in_time(bytes, &self.shown, self.writer.write(piece)).await?)
    }

    /// Writes `index`, which may be empty, behind the state, makes the part durable and visible, and returns its handle
    /// ([`StateHandle::Object`]), whose length is without the index. No checkpoint refers to it before metadata with the handle is stored.
    ///
    /// # Errors
    /// Returns the store's error; [`StoreError::Unreachable`] if it takes longer than 30 s and a second for each 4 MiB of the part, in S3
    /// and HDFS longer than 30 s. The part may be there all the same.
    pub async fn finish(mut self, index: Bytes) -> Result<StateHandle, CheckpointError> {
        let bytes = self.writer.bytes();
        if !index.is_empty() {
            self.write(index).await?;
        }
        in_time(bytes, &self.shown, self.writer.finish()).await?;
        Ok(StateHandle::Object { name: self.name, bytes })
    }
}

/// Waits for a write of so many bytes as long as the slowest store may take.
pub(super) async fn in_time(
    bytes: u64,
    shown: &str,
    write: impl Future<Output = Result<(), StoreError>>,
) -> Result<(), StoreError> {
    let within = STORED_WITHIN + Duration::from_secs(bytes / BYTES_PER_S);
    let why = || format!("the state is not written within {} s", within.as_secs());
    let late = |_| Err(StoreError::Unreachable { path: shown.to_owned(), why: why() });
    timeout(within, write).await.unwrap_or_else(late)
}
