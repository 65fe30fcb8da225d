//! Frames: a length of four bytes, then messages each with a length of its own. A length from the wire is
//! checked before anything is kept for it, and buffers grow with what has really come.

use super::ConnectionError;
use bytes::{Buf as _, Bytes, BytesMut};
use prost::Message;

/// Cuts a stream of bytes from a Hadoop RPC peer into frames: four bytes of length (big-endian), then as many bytes. `Debug` shows how many
/// bytes there are, never the bytes. `Connection` has one for the stream and, if that is protected, one for the frames inside.
pub struct FrameDecoder {
    buffer: BytesMut,
    max: usize,
}

impl std::fmt::Debug for FrameDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameDecoder")
            .field("pending", &self.buffer.len())
            .field("max", &self.max)
            .finish()
    }
}

impl FrameDecoder {
    /// Makes a decoder that accepts frames of at most `max` bytes, their length fields not counted.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { buffer: BytesMut::new(), max }
    }

    /// Changes the bound, in bytes, for the frames that come out next, also for those whose bytes are here already.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Adds bytes of the stream to those that wait. Their number is not bounded here: the caller takes frames in
    /// between.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole frame, without its length; `None` if more bytes are needed.
    ///
    /// # Errors
    /// Fails with [`ConnectionError::Protocol`] for a frame that is longer than the bound. Nothing is removed: the
    /// stream is of no use any more.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let text = length.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        let length = u32::from_be_bytes(*length);
        let whole = usize::try_from(length).ok().filter(|length| *length <= self.max);
        let Some(whole) = whole else {
            let hint =
                if text { "; it answers in text: is this another service's port?" } else { "" };
            let reason = format!("a frame of {length} bytes, at most {} are taken{hint}", self.max);
            return Err(ConnectionError::Protocol(reason));
        };
        if self.buffer.len() - 4 < whole {
            return Ok(None);
        }
        self.buffer.advance(4);
        Ok(Some(self.buffer.split_to(whole).freeze()))
    }

    /// Returns the number of bytes that were pushed and not yet taken as frames.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }
}

/// Takes a protobuf message with its length (a varint) off the front of a frame, and decodes it. `what` names the
/// message in errors.
///
/// # Errors
/// Fails with [`ConnectionError::Protocol`] for bytes that are no such message.
pub fn take<M: Message + Default>(frame: &mut Bytes, what: &str) -> Result<M, ConnectionError> {
    let body = take_body(frame, what)?;
    M::decode(body).map_err(|error| ConnectionError::Protocol(format!("{what}: {error}")))
}

/// Takes a length (a varint) and as many bytes off the front of a frame, and returns these bytes. `what` names them in
/// errors.
///
/// # Errors
/// Fails with [`ConnectionError::Protocol`] for a length that is malformed, or longer than the rest of the frame.
pub fn take_body(frame: &mut Bytes, what: &str) -> Result<Bytes, ConnectionError> {
    let wrong = |reason: &str| ConnectionError::Protocol(format!("{what}: {reason}"));
    let length = prost::decode_length_delimiter(&mut *frame).map_err(|e| wrong(&e.to_string()))?;
    if length > frame.len() {
        return Err(wrong("its length is beyond its frame"));
    }
    Ok(frame.split_to(length))
}

/// Appends a frame of messages, each with its length: the encoded ones first, then a body that is encoded
/// already. It fails, and appends nothing, when the frame would be longer than `max`.
pub(crate) fn put(
    out: &mut BytesMut,
    messages: &[&dyn Part],
    body: Option<&[u8]>,
    max: usize,
) -> Result<(), usize> {
    let with_length = |length: usize| length + prost::length_delimiter_len(length);
    let parts: usize = messages.iter().map(|part| with_length(part.length())).sum();
    let whole = parts + body.map_or(0, |body| with_length(body.len()));
    let length = u32::try_from(whole).ok().filter(|_| whole <= max).ok_or(whole)?;
    out.reserve(whole + 4);
    out.extend_from_slice(&length.to_be_bytes());
    messages.iter().for_each(|part| part.append(out));
    if let Some(body) = body {
        // A growing buffer takes any length.
        let _ = prost::encode_length_delimiter(body.len(), out);
        out.extend_from_slice(body);
    }
    Ok(())
}

/// A message as part of a frame.
pub(crate) trait Part {
    fn length(&self) -> usize;
    fn append(&self, out: &mut BytesMut);
}

impl<M: Message> Part for M {
    fn length(&self) -> usize {
        self.encoded_len()
    }

    fn append(&self, out: &mut BytesMut) {
        // A growing buffer takes any length.
        let _ = self.encode_length_delimited(out);
    }
}
