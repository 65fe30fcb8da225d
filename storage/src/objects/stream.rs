//! Objects that are given to a store in pieces while they are being made, so that no process ever has a large one whole in its memory.
//!
//! [`ObjectStream`] is what a store offers that can take pieces as they come; [`PieceWriter`] serves every store: where the
//! store cannot, it collects the pieces and puts the object at the end. An object must never be seen before its end.

use super::{ObjectStore, StoreError, StoreFuture};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// An object that a store takes piece by piece. A stream that is dropped without a call of [`ObjectStream::finish`] leaves no object; after
/// a `finish` that failed or whose future was dropped, the object may be there or not. The calls must follow one after the other: the next
/// one begins when the future of the one before is done. Made by [`ObjectStore::begin`]; of the stores here only those in files have
/// streams.
pub trait ObjectStream: Send + fmt::Debug {
    /// Appends a piece to the object. Its bytes are dropped once they are written, but are durable only after [`ObjectStream::finish`].
    /// After an error the stream can only be dropped.
    fn write(&mut self, piece: Bytes) -> StoreFuture<()>;
    /// Makes the object, of all pieces so far, durable and visible under its name, where it replaces an older one in one step. Must be the
    /// last call.
    fn finish(&mut self) -> StoreFuture<()>;
}

/// Writes one object in pieces into any store.
#[derive(Debug)]
pub(crate) struct PieceWriter {
    store: Arc<dyn ObjectStore>,
    name: String,
    content: Content,
    bytes: u64,
}

#[derive(Debug)]
enum Content {
    Stream(Box<dyn ObjectStream>),
    Collected(Vec<u8>),
}

impl PieceWriter {
    /// Begins an object of about `expected` bytes, for which memory is allocated at once if the store takes only whole objects.
    pub(crate) fn begin(store: &Arc<dyn ObjectStore>, name: String, expected: usize) -> Self {
        let content = match store.begin(&name) {
            Some(stream) => Content::Stream(stream),
            None => Content::Collected(Vec::with_capacity(expected)),
        };
        Self { store: Arc::clone(store), name, content, bytes: 0 }
    }

    /// Returns true if the store takes pieces as they come.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self.content, Content::Stream(_))
    }

    /// Returns the number of bytes of all pieces so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a piece; see [`ObjectStream::write`].
    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<(), StoreError> {
        self.bytes += piece.len() as u64;
        match &mut self.content {
            Content::Stream(stream) => stream.write(piece).await,
            Content::Collected(all) => {
                all.extend_from_slice(&piece);
                Ok(())
            }
        }
    }

    /// Stores the object; see [`ObjectStream::finish`].
    pub(crate) async fn finish(self) -> Result<(), StoreError> {
        match self.content {
            Content::Stream(mut stream) => stream.finish().await,
            Content::Collected(all) => self.store.put(&self.name, all.into()).await,
        }
    }
}
