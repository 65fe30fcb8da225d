//! The compressions of log files. Output comes in pieces of a fixed size, whatever the input promises.

use super::LogError;
use bytes::{Buf as _, Bytes};

/// Bytes of one piece of output.
const PIECE: usize = 64 << 10;

/// How a part of a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    /// `gz`: deflate with zlib's frame, in spite of the name.
    Zlib,
}

impl Compression {
    /// By the name in `yarn.nodemanager.log-aggregation.compression-type`.
    pub(super) fn named(name: &str) -> Result<Self, LogError> {
        match name {
            "none" => Ok(Self::None),
            "gz" => Ok(Self::Zlib),
            other => Err(LogError::Compression(other.chars().take(40).collect())),
        }
    }
}

/// Takes the compression off one part of a file.
pub(super) enum Inflater {
    Plain,
    Zlib { state: Box<flate2::Decompress>, over: bool },
}

impl Inflater {
    pub(super) fn new(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain,
            Compression::Zlib => {
                Self::Zlib { state: Box::new(flate2::Decompress::new(true)), over: false }
            }
        }
    }

    /// The next piece that comes out of `input`, whose read part is taken off; nothing when more is needed.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Bytes, LogError> {
        let (state, over) = match self {
            Self::Plain => return Ok(std::mem::take(input)),
            Self::Zlib { over: true, .. } => {
                input.clear();
                return Ok(Bytes::new());
            }
            Self::Zlib { state, over } => (state, over),
        };
        let mut piece = Vec::with_capacity(PIECE);
        let before = state.total_in();
        let status = state
            .decompress_vec(input, &mut piece, flate2::FlushDecompress::None)
            .map_err(|_| LogError::Malformed("compressed bytes are damaged"))?;
        let read = usize::try_from(state.total_in() - before).unwrap_or(usize::MAX);
        input.advance(read.min(input.len()));
        *over = status == flate2::Status::StreamEnd;
        if piece.is_empty() && read == 0 && !input.is_empty() && !*over {
            return Err(LogError::Malformed("compressed bytes lead nowhere"));
        }
        // What is handed on must not keep a whole piece's memory for a few bytes.
        piece.shrink_to_fit();
        Ok(piece.into())
    }
}
