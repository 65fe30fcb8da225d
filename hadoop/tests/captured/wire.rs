//! One connection of the core, over a socket while it is captured and over what was captured afterwards. Whoever
//! uses it cannot tell the difference: the same script runs twice. What the core sends must be what it sent then.

use super::fixture::{Fixture, Line, hex};
use super::gss::{Log, Scripted};
use bytes::Bytes;
use hadoop::rpc::{CallError, Connection, ConnectionError, Event, Request, Setup, Time};
use hadoop::sasl::{AuthMethod, Qop};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

pub(super) const NOW: Time = Duration::ZERO;

/// How what a server said is handed to the core.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cuts {
    /// In pieces of so many bytes.
    Each(usize),
    /// In pieces of any length, drawn from this seed.
    Random(u64),
}

impl Cuts {
    fn pieces(self, bytes: &[u8]) -> Vec<&[u8]> {
        let Self::Random(seed) = self else {
            let Self::Each(length) = self else { unreachable!() };
            return bytes.chunks(length).collect();
        };
        let mut random = StdRng::seed_from_u64(seed ^ bytes.len() as u64);
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            // Mostly short ones, so that lengths and headers are cut as well.
            let most = if random.random() { 8 } else { rest.len() };
            let (piece, behind) = rest.split_at(random.random_range(1..=most.min(rest.len())));
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }
}

/// Methods that were called: protocol, method, and how it went: nothing or the exception.
pub(super) type Called = Rc<RefCell<BTreeSet<(String, String, Option<String>)>>>;

/// The source and destination of bytes: a live connection that is recorded, or a recorded one that is played back.
pub(super) enum Tape {
    Live { stream: TcpStream, name: String, fixture: Fixture, heard: Vec<u8>, log: Log },
    Played { name: String, lines: VecDeque<Line>, said: Vec<u8>, cuts: Cuts, gss: Scripted },
}

/// One connection, to a cluster or to a recording of one.
pub(super) struct Wire {
    core: Connection,
    tape: Tape,
    protocol: String,
    answers: BTreeMap<i32, Result<Bytes, CallError>>,
    methods: BTreeMap<i32, String>,
    /// Once both sides know each other.
    pub(super) ready: Option<(AuthMethod, Qop)>,
    pub(super) closed: Option<ConnectionError>,
    next: i32,
    called: Called,
    tamper: Option<fn(&mut Vec<u8>)>,
}

impl Wire {
    pub(super) fn new(setup: Setup, tape: Tape, called: Called) -> Self {
        let protocol = setup.protocol.name.clone();
        let core = Connection::new(setup, NOW);
        let (answers, methods) = (BTreeMap::new(), BTreeMap::new());
        let (ready, closed, next, tamper) = (None, None, 0, None);
        Self { core, tape, protocol, answers, methods, ready, closed, next, called, tamper }
    }

    /// Changes what is sent, behind the core's back.
    pub(super) fn tampering(mut self, tamper: fn(&mut Vec<u8>)) -> Self {
        self.tamper = Some(tamper);
        self
    }

    /// Makes a call and waits for its end. The answer must hold nothing that the message does not know.
    pub(super) fn call<Q: Message, R: Message + Default + std::fmt::Debug>(
        &mut self,
        method: &str,
        request: &Q,
    ) -> Result<R, CallError> {
        let id = self.send(method, request);
        self.answer(id)
    }

    pub(super) fn answer<R: Message + Default + std::fmt::Debug>(
        &mut self,
        id: i32,
    ) -> Result<R, CallError> {
        let body = self.wait(id)?;
        let method = &self.methods[&id];
        let answer = R::decode(body.clone()).unwrap_or_else(|error| panic!("{method}: {error}"));
        let again = answer.encode_to_vec();
        assert_eq!(hex(&again), hex(&body), "{method} says what its message does not know");
        self.note(format!("{id} is answered: {answer:?}"));
        Ok(answer)
    }

    /// Makes a call; gives its number.
    pub(super) fn send<Q: Message>(&mut self, method: &str, request: &Q) -> i32 {
        let request = Request::new(self.next, method, request.encode_to_vec().into());
        self.send_as(request)
    }

    /// Makes a call whose request is encoded already, or is none.
    pub(super) fn next_request(&mut self, method: &str, body: &'static [u8]) -> i32 {
        self.send_as(Request::new(self.next, method, Bytes::from_static(body)))
    }

    pub(super) fn send_as(&mut self, request: Request) -> i32 {
        let (id, retry) = (request.id, request.retry);
        self.next = id + 1;
        self.note(format!("calls {}, {id}, try {retry}", request.method));
        self.methods.insert(id, request.method.clone());
        if let Err(error) = self.core.call(request, NOW) {
            self.answers.insert(id, Err(error));
        }
        self.flush();
        id
    }

    /// Lets so much time pass that a server which says nothing is asked whether it lives.
    pub(super) fn ping(&mut self) {
        self.note("a ping".to_owned());
        let due = self.core.next_time().unwrap();
        self.core.on_time(due);
        self.flush();
    }

    /// Waits for the end of a call.
    pub(super) fn wait(&mut self, id: i32) -> Result<Bytes, CallError> {
        loop {
            self.flush();
            if let Some(answer) = self.answers.remove(&id) {
                let thrown = match &answer {
                    Ok(_) => None,
                    Err(error) => {
                        Some(error.remote().map_or_else(String::new, |e| e.class.clone()))
                    }
                };
                let method = self.methods[&id].clone();
                if let Err(error) = &answer {
                    self.note(format!("{id} fails: {error}"));
                }
                self.called.borrow_mut().insert((self.protocol.clone(), method, thrown));
                return answer;
            }
            self.listen();
        }
    }

    /// For those who review what was captured; as much as they will read.
    fn note(&mut self, note: String) {
        let note = note.chars().take(400).collect();
        if let Tape::Live { fixture, .. } = &mut self.tape {
            fixture.lines.push(Line::Note(note));
        }
    }

    fn flush(&mut self) {
        let mut out = self.core.take_outbound().to_vec();
        if let Some(tamper) = self.tamper {
            tamper(&mut out);
        }
        match &mut self.tape {
            Tape::Live { stream, fixture, .. } => {
                // A server that has closed has said why.
                let _ = stream.write_all(&out);
                let first = !fixture.lines.iter().any(|line| matches!(line, Line::Out(_)));
                if first && !out.is_empty() {
                    fixture.lines.push(Line::Out(out.drain(..7).collect()));
                }
                fixture.lines.extend(frames(&mut out).into_iter().map(Line::Out));
                assert!(out.is_empty(), "frames are sent whole");
            }
            Tape::Played { name, lines, said, .. } => {
                said.extend(out);
                while let Some(Line::Out(then)) = lines.front() {
                    if !said.starts_with(then) {
                        let (now, then) = (hex(said), hex(then));
                        assert!(then.starts_with(&now), "{name}: is sent {now}, was {then}");
                        break;
                    }
                    said.drain(..then.len());
                    lines.pop_front();
                }
            }
        }
    }

    /// Takes what comes next from the server.
    fn listen(&mut self) {
        match &mut self.tape {
            Tape::Live { stream, fixture, heard, .. } => {
                let mut buffer = [0; 64 << 10];
                let read = match stream.read(&mut buffer) {
                    Ok(read) => read,
                    // It has closed with words of ours unread.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
                    Err(error) if error.kind() == ErrorKind::Interrupted => return,
                    Err(error) => panic!("the server says nothing more: {error}"),
                };
                heard.extend_from_slice(&buffer[..read]);
                fixture.lines.extend(frames(heard).into_iter().map(Line::In));
                match read {
                    0 => {
                        fixture.lines.push(Line::Closed);
                        self.core.close(ConnectionError::Closed("by the server".to_owned()));
                    }
                    read => self.core.receive(&buffer[..read], NOW),
                }
            }
            Tape::Played { name, lines, cuts, said, .. } => {
                let mut bytes = Vec::new();
                while let Some(Line::In(frame)) = lines.front() {
                    bytes.extend_from_slice(frame);
                    lines.pop_front();
                }
                match lines.front() {
                    _ if !bytes.is_empty() => {}
                    Some(Line::Closed) => {
                        lines.pop_front();
                        self.core.close(ConnectionError::Closed("by the server".to_owned()));
                    }
                    next => panic!("{name}: waits; unsent {}; then {next:?}", hex(said)),
                }
                for piece in cuts.pieces(&bytes) {
                    self.core.receive(piece, NOW);
                }
            }
        }
        while let Some(event) = self.core.poll_event() {
            if let Event::Ready { method, qop } = event {
                self.ready = Some((method, qop));
            } else if let Event::Reply { id, result } = event {
                assert!(self.answers.insert(id, result).is_none());
            } else if let Event::Closed(error) = event {
                self.closed = Some(error);
            } else {
                panic!("nothing that a script can go on with: {event:?}");
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        assert!(self.answers.is_empty(), "answers that nobody has waited for");
        match &mut self.tape {
            Tape::Live { name, fixture, heard, log, .. } => {
                assert!(heard.is_empty(), "{name}: half a frame");
                fixture.gss = std::mem::take(&mut log.lock().unwrap());
                fixture.save(name);
            }
            Tape::Played { name, lines, said, gss, .. } => {
                assert!(said.is_empty(), "{name}: was not sent: {}", hex(said));
                assert!(lines.is_empty(), "{name}: is not sent any more, or not heard: {lines:?}");
                assert!(gss.is_through(), "{name}: is not asked of GSSAPI any more");
            }
        }
    }
}

/// Takes whole frames, with their lengths, off the front.
pub(super) fn frames(bytes: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let whole = 4 + u32::from_be_bytes(*length) as usize;
        if bytes.len() < whole {
            break;
        }
        frames.push(bytes.drain(..whole).collect());
    }
    frames
}

/// Numbers and names without what Java has put around them.
pub(super) fn thrown(error: &CallError) -> &str {
    error.remote().map_or("", |exception| exception.short_class())
}
