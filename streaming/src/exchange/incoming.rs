//! The buffers into which a connection reads. A large batch is decoded from where it was received: it keeps that buffer, and the
//! connection reads on behind it or into another one. Batches are copied while [`KEPT_MAX`] earlier buffers are kept, so that a slow
//! consumer keeps no more memory than its gate has granted, and that many buffers. The buffers are in no budget; a connection on which
//! nothing comes frees those that no element keeps.
//!
//! The connection's task must be the last owner of a buffer: a consumer that freed it would count memory as freed that it never had.

use super::wire::Frame;
use bytes::{Buf, Bytes, BytesMut};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

/// Size of a buffer in bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// Number of bytes of free room from which on the buffer is read into.
const ROOM_MIN: usize = 32 << 10;
/// Maximum number of earlier buffers that elements keep.
const KEPT_MAX: usize = 4;
/// Maximum size in bytes of a payload that is copied at once: copying costs less than counting those who keep a buffer.
const COPIED_MAX: usize = 1 << 10;

/// Time without traffic in one direction of a connection after which the connection frees that direction's buffers.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// The bytes of a connection that were received and not handled.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: BytesMut,
    /// A part of the buffer, if elements may keep it.
    kept: Option<Bytes>,
    /// A part of each earlier buffer that elements keep.
    earlier: Vec<Bytes>,
}

/// One received frame, with its length field.
#[derive(Debug)]
pub(super) struct Received(Bytes);

impl Received {
    /// Returns the whole frame.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns a part of the frame, which must be borrowed from [`Received::bytes`], as a slice that keeps the buffer.
    pub(super) fn slice(&self, part: &[u8]) -> Slice {
        Slice(self.0.slice_ref(part))
    }
}

/// The encoded bytes of a batch in the buffer into which they were received; the buffer is kept until they are dropped.
#[derive(derive_more::Debug)]
#[debug("Slice({} bytes)", self.0.len())]
pub(super) struct Slice(pub(super) Bytes);

impl Incoming {
    /// Reads what has come, at least one byte. Returns the number of bytes; 0 if the peer has closed the stream. Frees the buffers while
    /// nothing comes for [`IDLE`]. Nothing that was read is lost if the future is dropped.
    pub(super) async fn read(
        &mut self,
        read: &mut (impl AsyncRead + Unpin + ?Sized),
    ) -> io::Result<usize> {
        if self.bytes.capacity() - self.bytes.len() < ROOM_MIN {
            self.earlier.extend(self.kept.take());
            self.bytes.reserve(BUFFER_BYTES);
        }
        self.earlier.retain(|buffer| !buffer.is_unique());
        while self.holds_memory() {
            match timeout(IDLE, read.read_buf(&mut self.bytes)).await {
                Ok(read) => return read,
                Err(_) => self.free(),
            }
        }
        // Makes room for a few bytes only: the rest of what comes is read next.
        read.read_buf(&mut self.bytes).await
    }

    /// Returns true while there is a buffer to free.
    fn holds_memory(&self) -> bool {
        self.bytes.capacity() >= ROOM_MIN || !self.earlier.is_empty()
    }

    /// Frees the buffers that no element keeps. The newest one stays while it has a part of a frame.
    fn free(&mut self) {
        if self.bytes.is_empty() {
            // If elements keep the buffer, the part in `earlier` is its last owner as for the others.
            self.bytes = BytesMut::new();
            self.earlier.extend(self.kept.take());
        }
        self.earlier.retain(|buffer| !buffer.is_unique());
    }

    /// Returns the bytes that were not taken.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes so many bytes.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }

    /// Returns true if the payload of the frame, the first one of the bytes, is to be a slice of the buffer: a whole, large batch.
    pub(super) fn keeps(&self, frame: &Frame<'_>) -> bool {
        match frame {
            Frame::Data { flags: 0, payload, .. } => {
                payload.len() > COPIED_MAX && self.earlier.len() < KEPT_MAX
            }
            _ => false,
        }
    }

    /// Removes and returns so many bytes, as a frame whose payload may keep the buffer.
    pub(super) fn take(&mut self, bytes: usize) -> Received {
        let frame = self.bytes.split_to(bytes).freeze();
        self.kept.get_or_insert_with(|| frame.clone());
        Received(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wire;
    use tokio::io::AsyncWriteExt;

    /// Size of the payloads in bytes: some frames are cut by the end of a buffer.
    const PAYLOAD: usize = 10_000;

    fn encoded(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Frame::Data { link: 1, index: 2, flags: 0, next: 3, backlog: 4, payload }.encode(&mut out);
        out
    }

    /// Reads and takes frames until the stream ends. Returns the slices of those that keep their buffer, and the number of others.
    async fn received(
        incoming: &mut Incoming,
        mut stream: impl AsyncRead + Unpin,
    ) -> (Vec<(u8, Slice)>, usize) {
        let (mut slices, mut copied, mut number) = (Vec::new(), 0, 0_u8);
        while incoming.read(&mut stream).await.unwrap() > 0 {
            while let Some((frame, taken)) = wire::decode(incoming.bytes()).unwrap() {
                let Frame::Data { payload, .. } = &frame else { panic!("{frame:?}") };
                assert!(payload.iter().all(|byte| *byte == number), "frame {number}");
                if incoming.keeps(&frame) {
                    let received = incoming.take(taken);
                    let (frame, _) = wire::decode(received.bytes()).unwrap().unwrap();
                    let Frame::Data { payload, .. } = frame else { panic!("{frame:?}") };
                    slices.push((number, received.slice(payload)));
                } else {
                    incoming.advance(taken);
                    copied += 1;
                }
                number += 1;
            }
        }
        (slices, copied)
    }

    #[tokio::test]
    async fn batches_keep_few_buffers_and_the_others_are_copied() {
        let frames: Vec<u8> = (0..200).flat_map(|n| encoded(&[n; PAYLOAD])).collect();
        let mut incoming = Incoming::default();
        let (slices, copied) = received(&mut incoming, frames.as_slice()).await;
        assert_eq!(slices.len() + copied, 200);
        let kept = (KEPT_MAX + 1) * BUFFER_BYTES / PAYLOAD;
        assert!(slices.len() > kept / 2 && slices.len() <= 2 * kept, "{} are kept", slices.len());
        for (number, slice) in &slices {
            assert_eq!(slice.0.as_ref(), [*number; PAYLOAD], "what follows does not overwrite it");
        }
        drop(slices);
        let (again, _) = received(&mut incoming, frames.as_slice()).await;
        assert!(again.len() > kept / 2, "buffers that nothing keeps are given up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_comes_frees_what_no_batch_keeps() {
        let (mut send, mut receive) = tokio::io::duplex(1 << 20);
        let mut incoming = Incoming::default();
        let is_idle = |read: Result<io::Result<usize>, _>| read.is_err();
        // Before anything came.
        assert!(is_idle(timeout(2 * IDLE, incoming.read(&mut receive)).await));
        assert!(!incoming.holds_memory());

        let frames: Vec<u8> = (0..35).flat_map(|n| encoded(&[n; PAYLOAD])).collect();
        send.write_all(&frames).await.unwrap();
        let (mut slices, mut number) = (Vec::new(), 0);
        while number < 35 {
            assert!(incoming.read(&mut receive).await.unwrap() > 0);
            while let Some((frame, taken)) = wire::decode(incoming.bytes()).unwrap() {
                assert!(incoming.keeps(&frame), "frame {number}");
                let received = incoming.take(taken);
                let (frame, _) = wire::decode(received.bytes()).unwrap().unwrap();
                let Frame::Data { payload, .. } = frame else { panic!("{frame:?}") };
                assert_eq!(payload, [number; PAYLOAD]);
                slices.push(received.slice(payload));
                number += 1;
            }
        }
        let buffers = frames.len().div_ceil(BUFFER_BYTES);
        assert!(is_idle(timeout(2 * IDLE, incoming.read(&mut receive)).await));
        assert!(incoming.bytes.capacity() < ROOM_MIN, "nothing is left of the newest one");
        assert!((buffers..=buffers + 1).contains(&incoming.earlier.len()), "batches keep them");
        slices.drain(20..);
        assert!(is_idle(timeout(2 * IDLE, incoming.read(&mut receive)).await));
        assert!((2..=3).contains(&incoming.earlier.len()), "{}", incoming.earlier.len());
        for (number, slice) in (0..).zip(&slices) {
            assert_eq!(slice.0.as_ref(), [number; PAYLOAD]);
        }
        drop(slices);
        assert!(is_idle(timeout(2 * IDLE, incoming.read(&mut receive)).await));
        assert!(!incoming.holds_memory());

        // A part of a frame stays, and what comes then is whole.
        let frame = encoded(&[9; PAYLOAD]);
        let (front, back) = frame.split_at(1_000);
        send.write_all(front).await.unwrap();
        while incoming.bytes().len() < front.len() {
            incoming.read(&mut receive).await.unwrap();
        }
        assert!(is_idle(timeout(3 * IDLE, incoming.read(&mut receive)).await));
        assert_eq!(incoming.bytes(), front);
        send.write_all(back).await.unwrap();
        while incoming.bytes().len() < frame.len() {
            incoming.read(&mut receive).await.unwrap();
        }
        assert_eq!(incoming.bytes(), frame);
    }

    #[tokio::test]
    async fn small_payloads_events_and_parts_of_elements_are_copied() {
        let mut incoming = Incoming::default();
        let frames: Vec<u8> = (0..100).flat_map(|n| encoded(&[n; COPIED_MAX])).collect();
        let (slices, copied) = received(&mut incoming, frames.as_slice()).await;
        assert_eq!((slices.len(), copied), (0, 100));
        let payload = vec![0; PAYLOAD];
        let keeps = |flags| {
            let frame =
                Frame::Data { link: 1, index: 2, flags, next: 3, backlog: 4, payload: &payload };
            incoming.keeps(&frame)
        };
        assert!(keeps(0) && !keeps(wire::FLAG_EVENT) && !keeps(wire::FLAG_MORE));
    }
}
