//! Answers in bytes, and the calls that wait for them from one connection: a table of slots, so that a call needs no
//! channel and no task of its own. A slot that was given up is free at once; a late answer finds another generation in it
//! and is dropped.

use crate::{
    call::{Answer, Call},
    codec::{self, Encoded},
    error::{CallError, FabricError, REPLY},
    frame::Kind,
    scratch,
};
use std::{
    fs::File,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::time::Instant;

/// Answers up to this are put down in their slots' own buffers: a buffer that one thread allocates and another frees
/// costs as much as all else of an answer. A single answer gets a buffer of its own, so that idle connections hold none.
const SHORT_BYTES: usize = 1024;
/// Slots that keep their buffers: as many as one burst uses again and again.
const KEEP_BUFFERS: usize = 1024;

/// An answer in bytes.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `Reply`, `Refused` or `Fault`.
    pub(crate) kind: Kind,
    pub(crate) body: Vec<u8>,
    /// The body of an answer that came in a file; `body` is empty then.
    pub(crate) file: Option<File>,
}

impl Outcome {
    /// Makes an outcome whose body is in memory.
    pub(crate) fn new(kind: Kind, body: Vec<u8>) -> Self {
        Self { kind, body, file: None }
    }

    /// Encodes a handler's result.
    pub(crate) fn of<C: Call>(answer: &Answer<C>) -> Self {
        let mut body = scratch::take();
        let (kind, written) = match answer {
            Ok(reply) => (Kind::Reply, codec::encode_into(&mut body, C::NAME, reply)),
            Err(error) => (Kind::Refused, codec::encode_into(&mut body, C::NAME, error)),
        };
        match written {
            Ok(()) => Self::new(kind, body),
            Err(error) => Self::fault(&FabricError::Malformed {
                what: format!("{REPLY}{}", C::NAME),
                why: error.to_string(),
            }),
        }
    }

    pub(crate) fn fault(error: &FabricError) -> Self {
        // A fabric error always has an encoding; an empty body would be read as malformed.
        Self::new(Kind::Fault, codec::encode(error).unwrap_or_default())
    }

    /// Tells what the fabric says from what the callee says.
    pub(crate) fn sort(self) -> Result<Self, FabricError> {
        match self.kind {
            Kind::Reply | Kind::Refused => Ok(self),
            _ => Err(codec::decode("reply of a call: its fault", &self.body)?),
        }
    }

    /// Decodes the outcome for the caller: the reply, the callee's typed refusal, or a failure. Blocks the thread if the body
    /// is in a file.
    pub(crate) fn open<C: Call>(self) -> Result<C::Reply, CallError<C::Error>> {
        let what = format_args!("{REPLY}{}", C::NAME);
        let body = self.file.as_ref().map_or(Encoded::Bytes(&self.body), Encoded::File);
        let opened = match self.kind {
            Kind::Reply => body.decode(what).map_err(CallError::Fabric),
            _ => Err(match body.decode(what) {
                Ok(refusal) => CallError::Refused(refusal),
                Err(error) => CallError::Fabric(error),
            }),
        };
        scratch::give(self.body);
        opened
    }
}

/// The table of calls that wait for their answers.
#[derive(Default)]
pub(crate) struct Pending(Mutex<Table>);

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    closed: Option<FabricError>,
}

struct Slot {
    generation: u32,
    state: State,
    /// Holds the body of a short answer; else it is kept for the next.
    buffer: Vec<u8>,
}

enum State {
    Free,
    Waiting {
        deadline: Instant,
        waker: Option<Waker>,
    },
    Answered(Result<Outcome, FabricError>),
    /// The body is in the slot's buffer.
    AnsweredShort(Kind),
}

/// An answer as it was read.
pub(crate) type Read<'a> = (u64, Kind, &'a [u8]);

/// A reserved slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Correlation id, unique within the connection.
    pub(crate) id: u64,
    /// True if no other call waits.
    pub(crate) alone: bool,
}

fn id_of(index: u32, generation: u32) -> u64 {
    (u64::from(generation) << 32) | u64::from(index)
}

impl Table {
    fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        let index = usize::try_from(id & u64::from(u32::MAX)).ok()?;
        let slot = self.slots.get_mut(index)?;
        (u64::from(slot.generation) == id >> 32).then_some(slot)
    }

    /// Enters an answer if a call waits for it, and returns the waker of its caller.
    fn answer(&mut self, id: u64, answer: Result<Outcome, FabricError>) -> Option<Waker> {
        let slot = self.slot(id)?;
        let State::Waiting { waker, .. } = &mut slot.state else {
            return None;
        };
        let waker = waker.take();
        slot.state = State::Answered(answer);
        waker
    }

    fn answer_short(&mut self, (id, kind, body): Read<'_>) -> Option<Waker> {
        let slot = self.slot(id)?;
        let State::Waiting { waker, .. } = &mut slot.state else {
            return None;
        };
        let waker = waker.take();
        slot.buffer.clear();
        slot.buffer.extend_from_slice(body);
        slot.state = State::AnsweredShort(kind);
        waker
    }

    /// Frees a slot; the answer that was in it.
    fn release(&mut self, id: u64) -> Option<Result<Outcome, FabricError>> {
        let index = (id & u64::from(u32::MAX)) as u32;
        let slot = self.slot(id)?;
        slot.generation = slot.generation.wrapping_add(1);
        let answer = match std::mem::replace(&mut slot.state, State::Free) {
            State::Answered(answer) => Some(answer),
            State::AnsweredShort(kind) => {
                // The reader gives its buffer back to its thread, from where the slot gets another.
                let next = match index as usize {
                    0..KEEP_BUFFERS => scratch::take_up_to(2 * SHORT_BYTES),
                    _ => Vec::new(),
                };
                let body = std::mem::replace(&mut slot.buffer, next);
                Some(Ok(Outcome::new(kind, body)))
            }
            State::Free | State::Waiting { .. } => None,
        };
        self.free.push(index);
        answer
    }
}

impl Pending {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a slot for a call, whose answer wakes this waker. Returns `Ok(None)` if `max` calls
    /// wait already.
    pub(crate) fn reserve(
        &self,
        deadline: Instant,
        max: usize,
        waker: &Waker,
    ) -> Result<Option<Reserved>, FabricError> {
        let mut table = self.table();
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        let live = table.slots.len() - table.free.len();
        if live >= max {
            return Ok(None);
        }
        let state = State::Waiting { deadline, waker: Some(waker.clone()) };
        let alone = live == 0;
        if let Some(index) = table.free.pop()
            && let Some(slot) = table.slots.get_mut(index as usize)
        {
            slot.state = state;
            let id = id_of(index, slot.generation);
            return Ok(Some(Reserved { id, alone }));
        }
        let Ok(index) = u32::try_from(table.slots.len()) else {
            return Ok(None);
        };
        table.slots.push(Slot { generation: 0, state, buffer: Vec::new() });
        let id = id_of(index, 0);
        Ok(Some(Reserved { id, alone }))
    }

    /// Frees a slot.
    pub(crate) fn release(&self, id: u64) {
        let answer = self.table().release(id);
        drop(answer);
    }

    /// Returns true if somebody waits for this answer.
    pub(crate) fn waits(&self, id: u64) -> bool {
        self.table().slot(id).is_some_and(|slot| matches!(slot.state, State::Waiting { .. }))
    }

    /// Moves the deadline of a call whose long answer is arriving to `until`, if that is later.
    pub(crate) fn prolong(&self, id: u64, until: Instant) {
        if let Some(Slot { state: State::Waiting { deadline, .. }, .. }) = self.table().slot(id) {
            *deadline = until.max(*deadline);
        }
    }

    /// Enters the answer of a call, if a caller waits for it, and wakes the caller.
    pub(crate) fn answer(&self, id: u64, answer: Result<Outcome, FabricError>) {
        let waker = self.table().answer(id, answer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Enters the answers of one read, in their order. The waiting callers are woken when all of
    /// them are there.
    pub(crate) fn answer_all(&self, answers: &[Read<'_>]) {
        let short = answers.len() > 1;
        let mut wakers = Vec::with_capacity(answers.len());
        let mut table = self.table();
        for (id, kind, body) in answers.iter().copied() {
            wakers.extend(if short && body.len() <= SHORT_BYTES {
                table.answer_short((id, kind, body))
            } else {
                table.answer(id, Ok(Outcome::new(kind, body.to_vec())))
            });
        }
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the answer out if it is there; the slot is free then.
    pub(crate) fn poll(
        &self,
        id: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Outcome, FabricError>>> {
        let mut table = self.table();
        let Some(slot) = table.slot(id) else {
            return Poll::Ready(None);
        };
        if let State::Waiting { waker, .. } = &mut slot.state {
            if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(table.release(id))
    }

    /// Answers calls whose time is over with `error`; the earliest deadline among the others.
    pub(crate) fn expire(&self, now: Instant, error: impl Fn() -> FabricError) -> Option<Instant> {
        let mut wakers = Vec::new();
        let mut next: Option<Instant> = None;
        for slot in &mut self.table().slots {
            if let State::Waiting { deadline, waker } = &mut slot.state {
                if *deadline <= now {
                    wakers.extend(waker.take());
                    slot.state = State::Answered(Err(error()));
                } else {
                    next = Some(next.map_or(*deadline, |n| n.min(*deadline)));
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    /// Refuses calls yet to come; calls that wait already are not affected.
    pub(crate) fn close_new(&self, later: FabricError) {
        self.table().closed.get_or_insert(later);
    }

    /// Answers all calls, those yet to come too, with `error`.
    pub(crate) fn close(&self, error: &FabricError, later: FabricError) {
        let mut wakers = Vec::new();
        let mut table = self.table();
        table.closed.get_or_insert(later);
        for slot in &mut table.slots {
            if let State::Waiting { waker, .. } = &mut slot.state {
                wakers.extend(waker.take());
                slot.state = State::Answered(Err(error.clone()));
            }
        }
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Result<Outcome, FabricError> {
        Ok(Outcome::new(Kind::Reply, vec![1]))
    }

    #[tokio::test]
    async fn a_slot_that_was_given_up_is_used_again_and_late_answers_miss_it() {
        let pending = Pending::default();
        let now = Instant::now();
        let first = pending.reserve(now, 1, Waker::noop()).unwrap().unwrap();
        assert!(first.alone);
        assert_eq!(pending.reserve(now, 1, Waker::noop()), Ok(None), "the bound is met");
        pending.release(first.id);
        let second = pending.reserve(now, 1, Waker::noop()).unwrap().unwrap();
        assert_ne!(first.id, second.id);
        pending.answer(first.id, outcome());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pending.poll(second.id, &mut cx).is_pending());
        pending.answer(second.id, outcome());
        assert!(matches!(pending.poll(second.id, &mut cx), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(pending.poll(second.id, &mut cx), Poll::Ready(None)));
    }

    #[tokio::test]
    async fn answers_of_one_read_reach_their_slots_and_those_of_slots_given_up_nobody() {
        let (pending, mut cx) = (Pending::default(), Context::from_waker(Waker::noop()));
        let reserve = || pending.reserve(Instant::now(), 9, Waker::noop()).unwrap().unwrap().id;
        let (first, gone, long) = (reserve(), reserve(), reserve());
        pending.release(gone);
        let body = vec![3; SHORT_BYTES + 1];
        let answers =
            [(long, Kind::Reply, &*body), (gone, Kind::Reply, &[2]), (first, Kind::Refused, &[1])];
        pending.answer_all(&answers);
        let mut taken = |id| match pending.poll(id, &mut cx) {
            Poll::Ready(Some(Ok(outcome))) => (outcome.kind, outcome.body),
            other => panic!("{other:?}"),
        };
        assert_eq!(taken(first), (Kind::Refused, vec![1]));
        assert_eq!(taken(long), (Kind::Reply, body));
        // The slots' buffers are used again, and say nothing of what was in them.
        let (first, second) = (reserve(), reserve());
        pending.answer_all(&[(second, Kind::Reply, &[]), (first, Kind::Reply, &[5, 6])]);
        assert_eq!(taken(second), (Kind::Reply, vec![]));
        assert_eq!(taken(first), (Kind::Reply, vec![5, 6]));
    }

    #[tokio::test]
    async fn a_closed_table_answers_those_who_wait_and_refuses_those_who_come() {
        let pending = Pending::default();
        let slot = pending.reserve(Instant::now(), 9, Waker::noop()).unwrap().unwrap();
        pending.close(&FabricError::ShuttingDown, FabricError::ShuttingDown);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(
            pending.poll(slot.id, &mut cx),
            Poll::Ready(Some(Err(FabricError::ShuttingDown)))
        ));
        assert!(pending.reserve(Instant::now(), 9, Waker::noop()).is_err());
    }
}
