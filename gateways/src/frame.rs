//! Frames: the bytes between two processes. Encoding and decoding only; PROTOCOL.md is its text.

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A call.
    Ask = 1,
    /// Its reply.
    Reply = 2,
    /// The callee's typed refusal.
    Refused = 3,
    /// The fabric's failure.
    Fault = 4,
}
