//! The long bodies of one connection while their parts arrive. A body ends with its last part, with the deadline of its call, or
//! with the connection, and gives its room back then.
//!
//! Must never hold more than [`Space`](crate::spool::Space) reserves, nor wait for a disk.

use crate::{
    call::{CallContext, Deadline},
    connection::Connection,
    error::{FabricError, REPLY},
    frame::{AskHeader, Frame, Kind},
    incoming::Origin,
    inner::Inner,
    pending::Outcome,
    served::To,
    spool::{self, Storage, ToFile, Writer},
};
use model::LeaderSession;
use platform::Disks;
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// A call and its whole body.
type WholeCall = (Arc<Asked>, Vec<u8>);

/// Long bodies of one connection that are under way at once.
const BODIES_MAX: usize = 1024;
/// Largest number of bytes that a body's buffer reserves ahead of the bytes that have arrived.
const RESERVE_BYTES: usize = 1 << 20;
/// Time for which a call whose long answer is arriving waits for the next part, beyond its deadline.
const PART_WITHIN: Duration = Duration::from_secs(5);

/// An ask's header without its borrow.
pub(crate) struct Asked {
    call: u32,
    fence: LeaderSession,
    context: CallContext,
    pub(crate) endpoint: String,
    came: Instant,
}

impl Asked {
    fn of(ask: &AskHeader<'_>, came: Instant) -> Self {
        Self {
            call: ask.call,
            fence: ask.fence,
            context: context(ask, came),
            endpoint: ask.endpoint.to_owned(),
            came,
        }
    }

    /// Returns the fields that identify the call, whose id is given.
    pub(crate) fn to(&self, id: u64) -> To {
        To { id, call: self.call, fence: self.fence, context: self.context, came: self.came }
    }
}

/// Returns the context of a call that was read at the moment `came`.
pub(crate) fn context(ask: &AskHeader<'_>, came: Instant) -> CallContext {
    CallContext {
        session: ask.session,
        deadline: Deadline::after_moment(came, ask.remaining),
        trace: ask.trace,
    }
}

/// The long bodies of one connection.
#[derive(Default)]
pub(crate) struct Assemblies {
    /// Whether of an answer, and the call's id.
    bodies: BTreeMap<(bool, u64), Assembly>,
}

struct Assembly {
    kind: Kind,
    /// The header of an ask; `None` for an answer.
    ask: Option<Arc<Asked>>,
    total: u64,
    arrived: u64,
    parts: Parts,
}

/// The parts that have arrived.
enum Parts {
    Memory {
        body: Vec<u8>,
        _room: OwnedSemaphorePermit,
    },
    /// They are on their way into a file; [`Filed`] goes on with it.
    File(ToFile),
}

impl Assembly {
    fn add(&mut self, part: &[u8]) -> Result<(), String> {
        self.arrived = self.arrived.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        if self.arrived > self.total {
            return Err("a body is longer than it was announced".to_owned());
        }
        match &mut self.parts {
            Parts::Memory { body, .. } => body.extend_from_slice(part),
            Parts::File(file) => file.push(part),
        }
        Ok(())
    }
}

impl Assemblies {
    /// Returns true if no body is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Returns true if parts arrive faster than the disk takes them. The connection is notified when the disk has caught up.
    pub(crate) fn is_full(&self) -> bool {
        let mut bodies = self.bodies.values();
        bodies.any(|body| matches!(&body.parts, Parts::File(file) if file.is_full()))
    }

    /// Begins a body with its first frame, which came at the moment `came`. A body for which there is no room now is answered
    /// with an error, and its further parts are skipped. An error means that the peer breaks the protocol.
    pub(crate) fn begin(
        &mut self,
        from: &Origin<'_>,
        frame: &Frame<'_>,
        came: Instant,
    ) -> Result<(), String> {
        let Origin { service, connection } = *from;
        let ask = frame.ask.as_ref().map(|ask| Arc::new(Asked::of(ask, came)));
        if ask.is_none() && !connection.pending.waits(frame.id) {
            return Ok(());
        }
        let total = frame.total.unwrap_or(0);
        let room = self.bodies.len() < BODIES_MAX;
        let parts = match room.then(|| service.space.reserve(total)).flatten() {
            Some(Storage::Memory(room)) => {
                let bytes = usize::try_from(total).unwrap_or(usize::MAX);
                Parts::Memory { body: Vec::with_capacity(bytes.min(RESERVE_BYTES)), _room: room }
            }
            Some(Storage::File(room)) => {
                let body = Filed {
                    connection: Arc::clone(connection),
                    service: Arc::downgrade(service),
                    id: frame.id,
                    kind: frame.kind,
                    ask: ask.clone(),
                    total,
                };
                Parts::File(body.start(service, room))
            }
            None => {
                let what = "long bodies from";
                let error = match &ask {
                    Some(_) => connection.overloaded(what),
                    // The call has run.
                    None => connection.overloaded(&format!("{REPLY}a call among {what}")),
                };
                fail(connection, frame.id, ask.is_some(), error);
                return Ok(());
            }
        };
        let mut body = Assembly { kind: frame.kind, ask, total, arrived: 0, parts };
        body.add(frame.body)?;
        self.bodies.insert((frame.kind != Kind::Ask, frame.id), body);
        Ok(())
    }

    /// Adds a part, which came at the moment `came`. Returns a call that is whole with its body, if that is in memory; answers,
    /// and bodies in files, reach their receivers by themselves. An error means that the peer breaks the protocol.
    pub(crate) fn part(
        &mut self,
        connection: &Connection,
        frame: &Frame<'_>,
        came: Instant,
    ) -> Result<Option<WholeCall>, String> {
        let key = (frame.of_answer, frame.id);
        let Some(body) = self.bodies.get_mut(&key) else {
            return Ok(None); // refused or given up before
        };
        body.add(frame.body)?;
        if frame.of_answer {
            connection.pending.prolong(frame.id, came + PART_WITHIN);
        }
        if frame.more {
            return Ok(None);
        }
        let Some(whole) = self.bodies.remove(&key) else {
            return Ok(None);
        };
        if whole.arrived != whole.total {
            return Err("a body is shorter than it was announced".to_owned());
        }
        match (whole.parts, whole.ask) {
            (Parts::Memory { body, .. }, Some(ask)) => return Ok(Some((ask, body))),
            (Parts::Memory { body, .. }, None) => {
                connection.pending.answer(frame.id, Ok(Outcome::new(whole.kind, body)));
            }
            (Parts::File(_), _) => {}
        }
        Ok(None)
    }

    /// Gives up the bodies of calls whose deadlines have passed, and of answers that nobody waits for. Returns the earliest
    /// deadline among the others.
    pub(crate) fn expire(&mut self, connection: &Arc<Connection>, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.bodies.retain(|(_, id), body| {
            let Some(ask) = &body.ask else {
                return connection.pending.waits(*id);
            };
            let deadline = ask.context.deadline.at();
            if deadline > now {
                next = Some(next.map_or(deadline, |next| next.min(deadline)));
                return true;
            }
            let exceeded = FabricError::DeadlineExceeded {
                queued: now.saturating_duration_since(ask.came),
                running: Duration::ZERO,
                handler: format!("{}, before all of the request had arrived", ask.endpoint),
            };
            connection.refuse(*id, &exceeded);
            false
        });
        next
    }
}

/// Answers a call of the peer, or one to the peer, with a failure.
fn fail(connection: &Arc<Connection>, id: u64, is_ask: bool, error: FabricError) {
    match is_ask {
        true => connection.refuse(id, &error),
        false => connection.pending.answer(id, Err(error)),
    }
}

/// A body that is too long for memory: it is written to a file, and reaches its receiver when it is whole.
struct Filed {
    connection: Arc<Connection>,
    service: Weak<Inner>,
    id: u64,
    kind: Kind,
    ask: Option<Arc<Asked>>,
    total: u64,
}

impl Filed {
    /// Starts writing on the lane of the connections. `room` is kept until the body has reached its receiver.
    fn start(self, service: &Arc<Inner>, room: OwnedSemaphorePermit) -> ToFile {
        let (parts, writer) = spool::to_file();
        let folders = Arc::clone(service.space.folders());
        let name = format!("flott-body-{:032x}", service.platform.random_u128());
        service.platform.lane(service.options.io_lane).spawn_local(async move {
            self.run(writer, folders, name).await;
            drop(room);
        });
        parts
    }

    /// Writes the parts into a file called `name` in one of `folders`, then hands the body on. Disks that fail are an answer.
    async fn run(self, writer: Writer, folders: Arc<Disks>, name: String) {
        let done = match spool::file_in(Arc::clone(&folders), name, self.total).await {
            Ok((folder, file)) => self
                .filled(writer, file)
                .await
                .map_err(|error| (folder.display().to_string(), error)),
            Err(error) => {
                drop(writer);
                Err((folders.to_string(), error))
            }
        };
        // A connection that waits for the disk reads on now.
        self.connection.notify();
        if let Err((folder, error)) = done {
            let what = match &self.ask {
                Some(ask) => format!("request to {}", ask.endpoint),
                None => format!("{REPLY}a call"),
            };
            let error =
                FabricError::NoRoom { what, bytes: self.total, folder, why: error.to_string() };
            fail(&self.connection, self.id, self.ask.is_some(), error);
        }
    }

    /// Writes the parts into `file`, and hands the body on if all of it has come.
    async fn filled(&self, writer: Writer, file: File) -> io::Result<()> {
        match writer.write(file, self.total, || self.connection.notify()).await? {
            Some(file) => self.hand_on(file).await,
            None => Ok(()),
        }
    }

    async fn hand_on(&self, file: File) -> io::Result<()> {
        let Some(ask) = self.ask.clone() else {
            let answer = Outcome { file: Some(file), ..Outcome::new(self.kind, Vec::new()) };
            self.connection.pending.answer(self.id, Ok(answer));
            return Ok(());
        };
        let Some(service) = self.service.upgrade() else {
            return Ok(());
        };
        let to = ask.to(self.id);
        let (here, connection) = (Arc::clone(&service), Arc::clone(&self.connection));
        let decoded = platform::blocking(move || {
            let from = Origin { service: &here, connection: &connection };
            from.prepare_from(&to, &ask.endpoint, &file)
        });
        if let Some(call) = decoded.await? {
            Origin { service: &service, connection: &self.connection }.start(call);
        }
        Ok(())
    }
}
