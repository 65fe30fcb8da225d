//! The bare peers that the fabric is measured against: a TCP echo, and a framed server that hands each
//! frame to one worker task through a bounded channel and coalesces its writes.
//!
//! Must never use anything of the fabric.

use anyhow::Result;
use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

/// Bytes of a request or reply of the bare peers (plain TCP servers, with which Flott's RPC is compared), without a length: a body of 128
/// bytes and a header as large as that of Flott's RPC.
pub const FRAME_BYTES: usize = 128 + 64;

/// Sends each frame of [`FRAME_BYTES`] back, on every connection that comes, each served by a local task (so a `LocalSet` is needed).
/// Frames have no length before them. Returns only with an error of the listener or of a new connection; a connection that fails later
/// just ends.
pub async fn serve_echo(listener: TcpListener) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(async move {
            let mut frame = [0u8; FRAME_BYTES];
            while stream.read_exact(&mut frame).await.is_ok() {
                if stream.write_all(&frame).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Makes `n` calls to [`serve_echo`], one at a time, and returns when the last one is answered. Fails if the connection does. The content
/// of replies is not checked.
pub async fn call_echo(stream: &mut TcpStream, n: u32) -> Result<()> {
    let mut frame = [7u8; FRAME_BYTES];
    for _ in 0..n {
        stream.write_all(&frame).await?;
        stream.read_exact(&mut frame).await?;
    }
    Ok(())
}

/// Says whether the worker of the framed peer ([`serve_framed`]) and its caller ([`call_framed`]) have threads of their own, as actors
/// have, or share the one of their socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// Socket and worker (or caller) are tasks on one thread.
    One,
    /// The worker (or caller) has a thread of its own beside that of the socket.
    Two,
}

/// Runs a task on this thread, or on a thread of its own.
fn start(threads: Threads, task: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    match threads {
        Threads::One => drop(tokio::task::spawn_local(task)),
        Threads::Two => {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            std::thread::Builder::new().spawn(move || runtime.block_on(task))?;
        }
    }
    Ok(())
}

/// Serves the framed peer, a plain TCP server with which Flott's RPC is compared, on every connection that comes: read loop → bounded
/// channel → one worker, which sends each frame back → coalescing writer. The channels hold 1,024 frames; while one is full, the
/// connection is not read. Returns only with an error of the listener or of a new connection, or if a thread cannot be started.
pub async fn serve_framed(listener: TcpListener, threads: Threads) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let (to_worker, mut work) = mpsc::channel::<BytesMut>(1024);
        let (to_writer, replies) = mpsc::channel::<BytesMut>(1024);
        let worker = async move {
            while let Some(frame) = work.recv().await {
                if to_writer.send(frame).await.is_err() {
                    break;
                }
            }
        };
        start(threads, worker)?;
        tokio::task::spawn_local(write_coalesced(writer, replies));
        tokio::task::spawn_local(read_frames(reader, to_worker));
    }
}

/// Reads frames, each after its length (four bytes, little-endian), into a channel until the connection ends or the channel is closed.
/// Waits while the channel is full.
pub async fn read_frames(mut reader: tokio::net::tcp::OwnedReadHalf, sink: mpsc::Sender<BytesMut>) {
    let mut buffer = BytesMut::with_capacity(64 << 10);
    loop {
        while let Some(frame) = split_frame(&mut buffer) {
            if sink.send(frame).await.is_err() {
                return;
            }
        }
        buffer.reserve(32 << 10);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn split_frame(buffer: &mut BytesMut) -> Option<BytesMut> {
    let length = buffer.get(..4)?.try_into().map(u32::from_le_bytes).ok()? as usize;
    if buffer.len() < 4 + length {
        return None;
    }
    buffer.advance(4);
    Some(buffer.split_to(length))
}

/// Writes frames, each after its length (four bytes, little-endian), up to 256 that are there in one piece, until the channel is closed or
/// the connection fails.
pub async fn write_coalesced(
    mut writer: tokio::net::tcp::OwnedWriteHalf,
    mut frames: mpsc::Receiver<BytesMut>,
) {
    let mut out = BytesMut::with_capacity(64 << 10);
    let mut batch = Vec::new();
    while frames.recv_many(&mut batch, 256).await > 0 {
        for frame in batch.drain(..) {
            out.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            out.extend_from_slice(&frame);
        }
        if writer.write_all_buf(&mut out).await.is_err() {
            return;
        }
    }
}

/// Sends `n` frames of [`FRAME_BYTES`] to the framed peer, up to `outstanding` (at least 1) of them under way, and waits until all have
/// come back, without a time limit. `threads` says where the caller runs. Fails if the connection ends before, or a thread cannot be
/// started.
pub async fn call_framed(
    stream: TcpStream,
    n: u32,
    outstanding: u32,
    threads: Threads,
) -> Result<()> {
    let (reader, writer) = stream.into_split();
    let (to_writer, requests) = mpsc::channel::<BytesMut>(1024);
    let (to_caller, replies) = mpsc::channel::<BytesMut>(1024);
    tokio::task::spawn_local(write_coalesced(writer, requests));
    tokio::task::spawn_local(read_frames(reader, to_caller));
    let (done, result) = oneshot::channel();
    start(threads, async move {
        // Whoever measures waits for it.
        let _ = done.send(call(to_writer, replies, n, outstanding).await);
    })?;
    result.await?
}

async fn call(
    to_writer: mpsc::Sender<BytesMut>,
    mut replies: mpsc::Receiver<BytesMut>,
    n: u32,
    outstanding: u32,
) -> Result<()> {
    let mut frame = BytesMut::zeroed(FRAME_BYTES);
    let mut sent = 0;
    while sent < outstanding.min(n) {
        to_writer.send(frame.clone()).await?;
        sent += 1;
    }
    for _ in 0..n {
        frame = replies.recv().await.ok_or_else(|| anyhow::anyhow!("the framed peer has gone"))?;
        if sent < n {
            to_writer.send(frame).await?;
            sent += 1;
        }
    }
    Ok(())
}
