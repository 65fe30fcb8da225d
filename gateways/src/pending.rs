//! Calls that wait for an answer from one connection: a table of slots, so that a call needs no channel
//! and no task of its own. A slot that was given up is free at once; a late answer finds another
//! generation in it and is dropped.

use crate::{error::FabricError, serve::Outcome};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::time::Instant;

/// The table.
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
}

enum State {
    Free,
    Waiting { deadline: Instant, waker: Option<Waker> },
    Answered(Result<Outcome, FabricError>),
}

/// A reserved slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Correlation id.
    pub(crate) id: u64,
    /// Whether no other call waits.
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

    /// Puts an answer down, if somebody waits for it; whom to wake.
    fn answer(&mut self, id: u64, answer: Result<Outcome, FabricError>) -> Option<Waker> {
        let slot = self.slot(id)?;
        let State::Waiting { waker, .. } = &mut slot.state else {
            return None;
        };
        let waker = waker.take();
        slot.state = State::Answered(answer);
        waker
    }

    fn release(&mut self, id: u64) -> Option<State> {
        let slot = self.slot(id)?;
        slot.generation = slot.generation.wrapping_add(1);
        let state = std::mem::replace(&mut slot.state, State::Free);
        self.free.push((id & u64::from(u32::MAX)) as u32);
        Some(state)
    }
}

impl Pending {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a call; `Ok(None)`: there are `max` of them already.
    pub(crate) fn reserve(
        &self,
        deadline: Instant,
        max: usize,
    ) -> Result<Option<Reserved>, FabricError> {
        let mut table = self.table();
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        let live = table.slots.len() - table.free.len();
        if live >= max {
            return Ok(None);
        }
        let state = State::Waiting { deadline, waker: None };
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
        table.slots.push(Slot { generation: 0, state });
        let id = id_of(index, 0);
        Ok(Some(Reserved { id, alone }))
    }

    /// Gives a slot up.
    pub(crate) fn release(&self, id: u64) {
        let state = self.table().release(id);
        drop(state);
    }

    /// Whether somebody waits for this answer.
    pub(crate) fn waits(&self, id: u64) -> bool {
        self.table().slot(id).is_some_and(|slot| matches!(slot.state, State::Waiting { .. }))
    }

    /// The answer of a call, if somebody waits for it.
    pub(crate) fn answer(&self, id: u64, answer: Result<Outcome, FabricError>) {
        let waker = self.table().answer(id, answer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The answers of one read, in their order: those who wait are woken when all are there.
    pub(crate) fn answer_all(&self, answers: &mut Vec<(u64, Result<Outcome, FabricError>)>) {
        if answers.len() == 1 {
            return answers.drain(..).for_each(|(id, answer)| self.answer(id, answer));
        }
        let mut wakers = Vec::with_capacity(answers.len());
        let mut table = self.table();
        for (id, answer) in answers.drain(..) {
            wakers.extend(table.answer(id, answer));
        }
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The answer, once it is there; the slot is free then.
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
        match table.release(id) {
            Some(State::Answered(answer)) => Poll::Ready(Some(answer)),
            _ => Poll::Ready(None),
        }
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

    /// Refuses calls yet to come; those that wait go on waiting.
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
    use crate::frame::Kind;

    fn outcome() -> Result<Outcome, FabricError> {
        Ok(Outcome { kind: Kind::Reply, body: vec![1] })
    }

    #[tokio::test]
    async fn a_slot_that_was_given_up_is_used_again_and_late_answers_miss_it() {
        let pending = Pending::default();
        let now = Instant::now();
        let first = pending.reserve(now, 1).unwrap().unwrap();
        assert!(first.alone);
        assert_eq!(pending.reserve(now, 1), Ok(None), "the bound is met");
        pending.release(first.id);
        let second = pending.reserve(now, 1).unwrap().unwrap();
        assert_ne!(first.id, second.id);
        pending.answer(first.id, outcome());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pending.poll(second.id, &mut cx).is_pending());
        pending.answer(second.id, outcome());
        assert!(matches!(pending.poll(second.id, &mut cx), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(pending.poll(second.id, &mut cx), Poll::Ready(None)));
    }

    #[tokio::test]
    async fn a_closed_table_answers_those_who_wait_and_refuses_those_who_come() {
        let pending = Pending::default();
        let slot = pending.reserve(Instant::now(), 9).unwrap().unwrap();
        pending.close(&FabricError::ShuttingDown, FabricError::ShuttingDown);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(
            pending.poll(slot.id, &mut cx),
            Poll::Ready(Some(Err(FabricError::ShuttingDown)))
        ));
        assert!(pending.reserve(Instant::now(), 9).is_err());
    }
}
