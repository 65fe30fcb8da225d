//! The frames of one write to a connection. A large payload is written from where it was encoded: it is a slice of the write by itself,
//! beside the buffer that has the frames' heads and all small frames.

use bytes::Bytes;
use platform::net::BoxWrite;
use std::io::{self, IoSlice};
use tokio::io::AsyncWriteExt;

/// Maximum size in bytes of a payload that is copied behind its frame's head: a copy of this size costs less than a slice.
const COPIED_MAX: usize = 1 << 10;

/// Frames in the order in which they are written.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// True if large payloads are slices by themselves; false if everything is copied into `frames`.
    vectored: bool,
    /// Frames, without the payloads in `slices`.
    frames: Vec<u8>,
    /// Payloads, each with the number of bytes of `frames` that are written before it.
    slices: Vec<(usize, Bytes)>,
    /// Number of bytes in `slices`.
    sliced: usize,
}

impl Outgoing {
    /// Returns an empty sequence of frames. If it is not `vectored`, it is one slice: all payloads are copied.
    pub(super) fn new(vectored: bool) -> Self {
        Self { vectored, frames: Vec::new(), slices: Vec::new(), sliced: 0 }
    }

    /// Returns the buffer to which whole frames are appended, or a data frame's head if [`Outgoing::put_payload`] is called next. Has
    /// all bytes if the sequence is not vectored.
    pub(super) fn frames(&mut self) -> &mut Vec<u8> {
        &mut self.frames
    }

    /// Returns true if the frame with a payload of so many bytes is to be appended as a whole.
    pub(super) fn copies(&self, payload: usize) -> bool {
        !self.vectored || payload <= COPIED_MAX
    }

    /// Appends the payload of the data frame whose head was appended last, without copying it.
    pub(super) fn put_payload(&mut self, payload: Bytes) {
        self.sliced += payload.len();
        self.slices.push((self.frames.len(), payload));
    }

    /// Returns the number of bytes of all frames.
    pub(super) fn len(&self) -> usize {
        self.frames.len() + self.sliced
    }

    /// Removes all frames; the buffer keeps at most `most` bytes of memory.
    pub(super) fn clear(&mut self, most: usize) {
        self.frames.clear();
        self.frames.shrink_to(most);
        self.slices.clear();
        self.sliced = 0;
    }

    /// Drops all frames and frees their memory.
    pub(super) fn free(&mut self) {
        *self = Self::new(self.vectored);
    }

    /// Returns all bytes in order as slices, none of them empty.
    fn parts<'a>(&'a self) -> Vec<IoSlice<'a>> {
        let mut parts = Vec::with_capacity(2 * self.slices.len() + 1);
        let mut put = |bytes: &'a [u8]| {
            if !bytes.is_empty() {
                parts.push(IoSlice::new(bytes));
            }
        };
        let mut begin = 0;
        for (end, payload) in &self.slices {
            put(self.frames.get(begin..*end).unwrap_or_default());
            put(payload);
            begin = *end;
        }
        put(self.frames.get(begin..).unwrap_or_default());
        parts
    }

    /// Writes all frames. Does not flush.
    pub(super) async fn write_to(&self, write: &mut BoxWrite) -> io::Result<()> {
        let mut parts = self.parts();
        let mut rest = parts.as_mut_slice();
        while !rest.is_empty() {
            match write.write_vectored(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut rest, written),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wire::{Frame, PART_MAX};
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };
    use tokio::io::AsyncWrite;

    fn put(out: &mut Outgoing, payload: &Bytes) {
        let frame = Frame::Data { link: 1, index: 2, flags: 0, next: 3, backlog: 4, payload };
        if out.copies(payload.len()) {
            frame.encode(out.frames());
        } else {
            frame.encode_head(out.frames());
            out.put_payload(payload.clone());
        }
    }

    /// Takes at most so many bytes per call, over the limits of slices, and records what it took.
    struct Slow(usize, std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl AsyncWrite for Slow {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.0);
            self.1.lock().unwrap().extend_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        }
        fn poll_write_vectored(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all = parts.iter().flat_map(|part| part.iter().copied());
            let taken: Vec<u8> = all.take(self.0).collect();
            self.1.lock().unwrap().extend_from_slice(&taken);
            Poll::Ready(Ok(taken.len()))
        }
        fn is_write_vectored(&self) -> bool {
            true
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn payloads_of_all_sizes_are_written_whole_and_in_order_with_and_without_slices() {
        let payloads = [0, 1, COPIED_MAX, COPIED_MAX + 1, 0, PART_MAX, 5_000, 3];
        let payloads: Vec<Bytes> =
            (1..).zip(payloads).map(|(n, len)| vec![n; len].into()).collect();
        let (mut whole, mut vectored) = (Outgoing::new(false), Outgoing::new(true));
        let mut expected = Vec::new();
        for payload in &payloads {
            for frame in [
                Frame::Data { link: 1, index: 2, flags: 0, next: 3, backlog: 4, payload },
                Frame::Credit { link: 1, index: 2, bytes: 3 },
            ] {
                frame.encode(&mut expected);
            }
            for out in [&mut whole, &mut vectored] {
                put(out, payload);
                Frame::Credit { link: 1, index: 2, bytes: 3 }.encode(out.frames());
            }
        }
        assert_eq!((whole.parts().len(), vectored.parts().len()), (1, 7));
        for out in [whole, vectored] {
            assert_eq!(out.len(), expected.len());
            for at_once in [7, 1_000, usize::MAX] {
                let taken = std::sync::Arc::default();
                let mut write: BoxWrite = Box::new(Slow(at_once, std::sync::Arc::clone(&taken)));
                out.write_to(&mut write).await.unwrap();
                assert!(*taken.lock().unwrap() == expected, "{at_once} bytes at once");
            }
            let mut closed: BoxWrite = Box::new(Slow(0, std::sync::Arc::default()));
            assert_eq!(
                out.write_to(&mut closed).await.unwrap_err().kind(),
                io::ErrorKind::WriteZero
            );
        }
    }

    #[test]
    fn a_large_payload_is_not_copied_and_cleared_frames_are_gone() {
        let payload = Bytes::from(vec![7; COPIED_MAX + 1]);
        let mut out = Outgoing::new(true);
        put(&mut out, &payload);
        let parts = out.parts();
        assert_eq!(parts.len(), 2);
        assert_eq!(
            parts[1].as_ptr(),
            payload.as_ptr(),
            "the slice is where the payload was encoded"
        );
        out.clear(0);
        assert_eq!((out.len(), out.parts().len(), out.frames().capacity()), (0, 0, 0));
    }
}
