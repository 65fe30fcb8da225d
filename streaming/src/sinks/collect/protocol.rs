//! The questions of a client to the coordinator of a collecting sink, and the answers. Values only.

use super::VERSION;
use crate::types::{CodecError, FlottType, decode_one, encode_one};

/// A client's request to a [`CollectCoordinator`](super::CollectCoordinator) for the lines of a result from a number on. The coordinator
/// answers at once, with no lines if there are none yet, so that the client asks again. After a restart of the job the numbers of lines go
/// on from those of the restored checkpoint; without one they begin at 0 again, and the job emits its lines again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectRequest {
    /// Number of the first line to return, from 0. In an unbounded job this also drops stored chunks that end before the line: they
    /// cannot be requested again.
    pub offset: u64,
    /// Number of bytes of lines from which on the answer gets no further line. The first line is returned whatever its size, also with 0.
    pub max_bytes: u64,
}

impl CollectRequest {
    /// Returns the request's bytes, a version byte first, as [`Coordinator::handle_request`](crate::Coordinator::handle_request) takes
    /// them.
    pub fn encode(&self) -> Vec<u8> {
        encode_one(&(VERSION, self.offset, self.max_bytes))
    }
    /// Decodes a request that [`CollectRequest::encode`] wrote.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a request, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match decode_one(bytes)? {
            (VERSION, offset, max_bytes) => Ok(Self { offset, max_bytes }),
            _ => Err(CodecError::Invalid { what: "version of a request" }),
        }
    }
}

/// The answer of a [`CollectCoordinator`](super::CollectCoordinator) to a [`CollectRequest`]: lines of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectChunk {
    /// Number of the first line returned, from 0; if none is returned, of the requested one. Greater than requested if earlier lines were
    /// dropped.
    pub offset: u64,
    /// The lines without their line ends, of one stored chunk at most. Empty if no line is available yet, or, with `end`, if there
    /// are no more.
    pub lines: Vec<Vec<u8>>,
    /// True if the result ends after these lines, because the job has finished. Stays false for a job that fails or is cancelled.
    pub end: bool,
}

impl CollectChunk {
    /// Returns the answer's bytes, a version byte first.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.offset.encode(&mut out);
        self.end.encode(&mut out);
        self.lines.encode(&mut out);
        out
    }
    /// Decodes an answer that [`CollectChunk::encode`] wrote.
    ///
    /// # Errors
    /// Returns an error if the bytes are not an answer, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (version, offset, end, lines) = decode_one(bytes)?;
        match version {
            VERSION => Ok(Self { offset, lines, end }),
            _ => Err(CodecError::Invalid { what: "version of a chunk" }),
        }
    }
}
