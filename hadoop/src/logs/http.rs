//! The part of HTTP that is needed to ask a node for logs: one request for each connection, of version 1.0, so that the
//! answer's body comes in one piece and ends with the connection. It must never touch a socket: bytes in, the body out.

use super::LogError;
use bytes::{Bytes, BytesMut};

/// Bytes of an answer's head.
const HEAD_MAX: usize = 64 << 10;
const END: &[u8] = b"\r\n\r\n";

/// Decodes a node's answer to one HTTP/1.0 request, byte by byte as it comes: first the head, then the body, which it hands out and does
/// not keep. Reads nothing itself: `NodeLogs` gives it what it reads, and calls `finish` at the connection's end.
#[derive(Debug, Default)]
pub struct HttpResponse {
    head: BytesMut,
    status: Option<u16>,
    /// The number of bytes of the body still to come; `None` if the head does not tell the length.
    left: Option<u64>,
}

impl HttpResponse {
    /// Takes the next bytes of the answer and returns the part of them that belongs to its body: nothing while the head
    /// (at most 64 KiB) is not whole. Bytes after the announced length are dropped.
    ///
    /// # Errors
    /// Fails with [`LogError::Answer`] if the answer is not HTTP, its head is longer, or it comes in a transfer or
    /// content encoding although none was asked for.
    pub fn give(&mut self, bytes: Bytes) -> Result<Bytes, LogError> {
        let mut body = match self.status {
            Some(_) => bytes,
            None => match self.head(&bytes)? {
                Some(rest) => rest,
                None => return Ok(Bytes::new()),
            },
        };
        if let Some(left) = &mut self.left {
            body.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= body.len() as u64;
        }
        Ok(body)
    }

    /// Returns the answer's HTTP status, such as 200; `None` until its head is whole.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns true once the body has as many bytes as the head announced. Never true if the head
    /// announces no length: then the body ends with the connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    /// Checks that the answer is whole; to be called when the connection has ended.
    ///
    /// # Errors
    /// Fails with [`LogError::Answer`] if the head is not whole, or the body is shorter than the head announced. A body
    /// without an announced length is always whole.
    pub fn finish(&self) -> Result<(), LogError> {
        match (self.status, self.left) {
            (None, _) => Err(LogError::Answer("it ends before it begins")),
            (_, Some(left)) if left > 0 => Err(LogError::Answer("it ends too early")),
            _ => Ok(()),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Option<Bytes>, LogError> {
        let from = self.head.len().saturating_sub(END.len());
        self.head.extend_from_slice(bytes);
        let new = self.head.get(from..).unwrap_or_default();
        let Some(at) = new.windows(END.len()).position(|part| part == END) else {
            return match self.head.len() > HEAD_MAX {
                true => Err(LogError::Answer("its head does not end")),
                false => Ok(None),
            };
        };
        let rest = self.head.split_off(from + at + END.len());
        let head = std::mem::take(&mut self.head);
        let wrong = || LogError::Answer("it is not HTTP");
        let head = std::str::from_utf8(&head).map_err(|_| wrong())?;
        let mut lines = head.split("\r\n");
        let first = lines.next().filter(|line| line.starts_with("HTTP/1."));
        let status = first.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        self.status = Some(status.ok_or_else(wrong)?);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                self.left = Some(value.trim().parse().map_err(|_| wrong())?);
            } else if name.eq_ignore_ascii_case("transfer-encoding")
                || name.eq_ignore_ascii_case("content-encoding")
            {
                return Err(LogError::Answer("it is encoded, which nobody asked for"));
            }
        }
        Ok(Some(rest.freeze()))
    }
}
