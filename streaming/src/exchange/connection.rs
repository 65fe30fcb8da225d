//! One data connection between two task processes: many links in both directions over one stream. One reader and one writer run
//! on the process's tokio runtime; tasks only touch queues that are locked briefly. A connection must never buffer more data
//! than credit allows, plus one frame.

use super::{
    Shared,
    gate::{Closed, Gate},
    incoming::{IDLE, Incoming, Received},
    inflow::{CreditViolation, Part},
    outflow::LinkOut,
    outgoing::Outgoing,
    wire::{self, FLAG_EVENT, FLAG_MORE, Frame, Request, WireError},
};
use crate::{
    lock,
    task::{Sleeper, TaskControl},
};
use model::FailureCause;
use platform::net::{BoxRead, BoxStream, BoxWrite};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
};
use thiserror::Error;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

/// Number of bytes that are collected for one write.
const WRITE_BYTES: usize = 256 << 10;

/// The connection to one other task process.
pub(super) struct Connection {
    /// Data address, `host:port`, of the other process.
    peer: String,
    outbox: Mutex<Outbox>,
    wake: Notify,
    links_in: Mutex<BTreeMap<u32, Arc<LinkIn>>>,
    links_out: Mutex<BTreeMap<u32, Arc<LinkOut>>>,
    next_link: AtomicU32,
    lost: OnceLock<String>,
}

#[derive(Default)]
struct Outbox {
    /// Encoded frames other than data.
    control: Vec<u8>,
    /// Links with data that may be sent.
    ready: VecDeque<Arc<LinkOut>>,
}

/// The reason why a connection ended.
#[derive(Debug, Error)]
pub(super) enum Ended {
    /// The stream failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer closed the stream.
    #[error("the peer closed it")]
    Closed,
    /// The peer sent bytes that are not a frame.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The peer violated the credit protocol.
    #[error(transparent)]
    Credit(#[from] CreditViolation),
    /// The peer sent a frame for a producer that its link's request does not contain.
    #[error("the peer sent a frame for a producer that was not requested")]
    Unexpected,
}

impl Sleeper for Connection {
    /// Wakes the connection's writer.
    fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Connection {
    pub(super) fn new(peer: String) -> Arc<Self> {
        Arc::new(Self {
            peer,
            outbox: Mutex::default(),
            wake: Notify::new(),
            links_in: Mutex::default(),
            links_out: Mutex::default(),
            next_link: AtomicU32::new(0),
            lost: OnceLock::new(),
        })
    }

    /// Returns the data address of the other process.
    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    /// Returns the reason why the connection ended, `None` while it lives.
    pub(super) fn lost_because(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    /// Queues a control frame and wakes the writer.
    pub(super) fn send(&self, frame: &Frame<'_>) {
        frame.encode(&mut lock(&self.outbox).control);
        self.wake.notify_one();
    }

    /// Queues a link that has data to send. The caller must wake the writer, now or at the end of its step.
    pub(super) fn list(&self, link: Arc<LinkOut>) {
        lock(&self.outbox).ready.push_back(link);
    }

    /// Opens a link: requests from the other process what `producers` (subtask, attempt, channel of the gate) send to `task`. If
    /// the connection is lost, `task` fails.
    pub(super) fn request(
        self: &Arc<Self>,
        task: &Arc<TaskControl>,
        gate: &Arc<Gate>,
        edge: u32,
        wait_ms: u32,
        producers: &[(u32, u32, u32)],
    ) -> Arc<LinkIn> {
        let id = self.next_link.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(LinkIn {
            id,
            connection: Arc::downgrade(self),
            gate: Arc::clone(gate),
            channels: producers.iter().map(|(.., channel)| *channel).collect(),
            task: Arc::clone(task),
            edge,
        });
        lock(&self.links_in).insert(id, Arc::clone(&link));
        let me = task.attempt();
        self.send(&Frame::Request(Request {
            link: id,
            graph: me.graph,
            edge,
            consumer: me.subtask,
            attempt: me.attempt,
            wait_ms,
            producers: producers.iter().map(|(p, attempt, _)| (*p, *attempt)).collect(),
        }));
        gate.put_link(&link);
        // If the connection was lost in between, `lose` may have missed the link.
        if let Some(why) = self.lost_because() {
            link.lost(&self.peer, &why);
        }
        link
    }

    /// Registers the link of a consumer in the other process, under its number.
    pub(super) fn put_link_out(&self, id: u32, link: Arc<LinkOut>) {
        lock(&self.links_out).insert(id, link);
    }

    /// Closes and removes the link of a consumer in the other process. Returns whether it was registered.
    pub(super) fn drop_link_out(&self, id: u32) -> bool {
        let link = lock(&self.links_out).remove(&id);
        if let Some(link) = &link {
            link.close(Closed::Aborted);
        }
        link.is_some()
    }

    fn link_out(&self, id: u32) -> Option<Arc<LinkOut>> {
        lock(&self.links_out).get(&id).cloned()
    }

    fn link_in(&self, id: u32) -> Option<Arc<LinkIn>> {
        lock(&self.links_in).get(&id).cloned()
    }

    /// Reads and writes until the stream ends; then fails the tasks that use the connection.
    pub(super) async fn run(self: Arc<Self>, stream: BoxStream, shared: Weak<Shared>) {
        let (read, write) = stream.split();
        let ended = tokio::select! {
            biased;
            ended = self.read(read, &shared) => ended,
            ended = self.write(write) => ended,
        };
        let why = match ended {
            Ok(()) => Ended::Closed.to_string(),
            // A process that dies does not end TLS in order.
            Err(Ended::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ended::Closed.to_string()
            }
            Err(ended) => ended.to_string(),
        };
        self.lose(&why);
    }

    /// Ends the connection and fails the tasks that use it. Only the first call has an effect.
    pub(super) fn lose(&self, why: &str) {
        if self.lost.set(why.to_owned()).is_err() {
            return;
        }
        let links_in = std::mem::take(&mut *lock(&self.links_in));
        let links_out = std::mem::take(&mut *lock(&self.links_out));
        if !links_in.is_empty() || !links_out.is_empty() {
            tracing::warn!(peer = %self.peer, why, "data connection lost");
        }
        for link in links_in.values() {
            link.lost(&self.peer, why);
        }
        for link in links_out.values() {
            link.lost(&self.peer, why);
        }
        let outbox = std::mem::take(&mut *lock(&self.outbox));
        drop(outbox);
        self.wake.notify_one();
    }

    /// Appends the control frames that were queued.
    pub(super) fn write_control(&self, bytes: &mut Vec<u8>) {
        bytes.append(&mut lock(&self.outbox).control);
    }

    /// Appends the next part of a link that may send. Returns false if no link may. Control frames that are queued meanwhile are
    /// written after the part, even if they were queued before it was appended.
    pub(super) fn write_part(&self, out: &mut Outgoing) -> bool {
        let Some(link) = lock(&self.outbox).ready.pop_front() else {
            return false;
        };
        if link.write_part(out) {
            lock(&self.outbox).ready.push_back(link);
        }
        true
    }

    /// Waits until the writer is woken. If that lasts longer than [`IDLE`], frees the memory of frames that were written.
    async fn wait_to_write(&self, out: &mut Outgoing) {
        if tokio::time::timeout(IDLE, self.wake.notified()).await.is_err() {
            out.free();
            lock(&self.outbox).control.shrink_to_fit();
            self.wake.notified().await;
        }
    }

    async fn write(&self, mut write: BoxWrite) -> Result<(), Ended> {
        // A stream that takes one slice per write, such as a simulated one, gets all frames in one buffer.
        let mut out = Outgoing::new(write.is_write_vectored());
        loop {
            self.write_control(out.frames());
            while out.len() < WRITE_BYTES && self.write_part(&mut out) {}
            if out.len() == 0 {
                self.wait_to_write(&mut out).await;
                if self.lost.get().is_some() {
                    return Err(Ended::Closed);
                }
                continue;
            }
            out.write_to(&mut write).await?;
            // TLS may keep the last part until it is flushed; nothing is written again before there is more to send.
            write.flush().await?;
            out.clear(2 * WRITE_BYTES);
        }
    }

    async fn read(self: &Arc<Self>, mut read: BoxRead, shared: &Weak<Shared>) -> Result<(), Ended> {
        let mut incoming = Incoming::default();
        // Gates whose consumers are woken after all frames of one read were handled.
        let mut owed: Vec<Arc<Gate>> = Vec::new();
        loop {
            while let Some((frame, taken)) = wire::decode(incoming.bytes())? {
                if incoming.keeps(&frame) {
                    let received = incoming.take(taken);
                    if let Some((frame, _)) = wire::decode(received.bytes())? {
                        owed.extend(self.handle_received(frame, Some(&received), shared)?);
                    }
                } else {
                    owed.extend(self.handle(frame, shared)?);
                    incoming.advance(taken);
                }
            }
            owed.drain(..).for_each(|gate| gate.wake());
            if incoming.read(&mut read).await? == 0 {
                return Err(Ended::Closed);
            }
        }
    }

    /// Handles a frame. Returns the gate whose consumer is to be woken after all frames of one read were handled.
    pub(super) fn handle(
        self: &Arc<Self>,
        frame: Frame<'_>,
        shared: &Weak<Shared>,
    ) -> Result<Option<Arc<Gate>>, Ended> {
        self.handle_received(frame, None, shared)
    }

    /// Handles a frame as [`Connection::handle`] does; its payload may keep the buffer of `received`, in which the frame is.
    fn handle_received(
        self: &Arc<Self>,
        frame: Frame<'_>,
        received: Option<&Received>,
        shared: &Weak<Shared>,
    ) -> Result<Option<Arc<Gate>>, Ended> {
        match frame {
            Frame::Request(request) => {
                let shared = shared.upgrade().ok_or(Ended::Closed)?;
                shared.accept_request(self, request);
            }
            Frame::Refused { link, why } => {
                if let Some(link) = lock(&self.links_in).remove(&link) {
                    link.refused(&self.peer, why);
                }
            }
            Frame::Data { link, index, flags, next, backlog, payload } => {
                let part = Part {
                    index,
                    payload,
                    received,
                    event: flags & FLAG_EVENT != 0,
                    more: flags & FLAG_MORE != 0,
                    next,
                    backlog,
                };
                // A link is unknown if its consumer ended while the frame was on its way.
                if let Some(link) = self.link_in(link) {
                    let channel = link.channel(index)?;
                    if link.gate.remote_part(channel, &link, &part)? {
                        return Ok(Some(link.gate.clone()));
                    }
                }
            }
            Frame::Backlog { link, index, next, backlog } => {
                if let Some(link) = self.link_in(link) {
                    let channel = link.channel(index)?;
                    link.gate.remote_backlog(channel, &link, index, (next, backlog))?;
                }
            }
            Frame::Credit { link, index, bytes } => {
                if let Some(link) = self.link_out(link) {
                    link.credit(index, bytes);
                }
            }
            Frame::Share { link, records } => {
                if let Some(link) = self.link_out(link) {
                    link.set_share(records);
                }
            }
            Frame::Release { link, finished } => {
                if let Some(link) = lock(&self.links_out).remove(&link) {
                    link.close(if finished { Closed::Finished } else { Closed::Aborted });
                }
            }
        }
        Ok(None)
    }
}

/// The consuming end of a link.
pub(super) struct LinkIn {
    id: u32,
    connection: Weak<Connection>,
    gate: Arc<Gate>,
    /// The gate's channel of each producer, by its index in the request.
    channels: Vec<u32>,
    task: Arc<TaskControl>,
    edge: u32,
}

impl LinkIn {
    fn channel(&self, index: u32) -> Result<u32, Ended> {
        self.channels.get(index as usize).copied().ok_or(Ended::Unexpected)
    }

    /// Raises a producer's limit by `bytes`.
    pub(super) fn credit(&self, index: u32, bytes: u64) {
        if let Some(connection) = self.connection.upgrade() {
            connection.send(&Frame::Credit { link: self.id, index, bytes });
        }
    }

    /// Tells the producers how many records of each of them may wait.
    pub(super) fn share(&self, records: u32) {
        if let Some(connection) = self.connection.upgrade() {
            connection.send(&Frame::Share { link: self.id, records });
        }
    }

    /// Closes the link and tells the producers whether the consumer finished. Does nothing if the link is closed.
    pub(super) fn release(&self, finished: bool) {
        if let Some(connection) = self.connection.upgrade()
            && lock(&connection.links_in).remove(&self.id).is_some()
        {
            connection.send(&Frame::Release { link: self.id, finished });
        }
    }

    fn lost(&self, peer: &str, why: &str) {
        self.task.fail(FailureCause::recoverable(
            "DataConnectionLost",
            format!(
                "task '{}' lost the data connection to {peer}, where producers of edge {} run: {why}",
                self.task.name(),
                self.edge
            ),
        ));
    }

    fn refused(&self, peer: &str, why: &str) {
        self.task.fail(FailureCause::recoverable(
            "DataRequestRefused",
            format!(
                "task '{}': {peer} refused to serve edge {}: {why}",
                self.task.name(),
                self.edge
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_nothing_to_write_frees_its_buffers() {
        let connection = Connection::new("127.0.0.1:1".to_owned());
        let credit = Frame::Credit { link: 1, index: 2, bytes: 3 };
        let mut out = Outgoing::new(true);
        for _ in 0..1_000 {
            connection.send(&credit);
        }
        connection.wait_to_write(&mut out).await;
        connection.write_control(out.frames());
        out.clear(WRITE_BYTES);
        let kept = |out: &mut Outgoing| {
            (out.frames().capacity(), lock(&connection.outbox).control.capacity())
        };
        let (frames, control) = kept(&mut out);
        assert!(frames > 1_000 && control > 1_000, "{frames} {control}");
        let still = tokio::time::timeout(IDLE / 2, connection.wait_to_write(&mut out)).await;
        assert!(still.is_err(), "nothing wakes the writer");
        assert_eq!(kept(&mut out), (frames, control), "a short pause costs no memory anew");
        let still = tokio::time::timeout(2 * IDLE, connection.wait_to_write(&mut out)).await;
        assert!(still.is_err());
        assert_eq!(kept(&mut out), (0, 0));
        connection.send(&credit);
        connection.wait_to_write(&mut out).await;
        connection.write_control(out.frames());
        assert!(out.len() > 0, "what comes later is written");
    }
}
