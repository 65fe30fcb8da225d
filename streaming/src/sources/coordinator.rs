//! The coordinator of a source: runs its [`SplitEnumerator`], records which attempt was assigned which splits, and holds the
//! polls of readers until there is a message for them. Nothing here blocks, and the lock is never held while the enumerator is
//! called.

use super::{
    NotRegistered, Source, SplitEnumerator, SplitEnumeratorContext,
    protocol::{FromReader, Numbered, Poll, ToReader},
    reader_state::ReaderState,
};
use crate::{
    lock,
    operators::{BoxError, text_of},
    seam::{Coordinator, CoordinatorContext, CoordinatorWaker, EventReply, OnFailure},
    types::{decode_one, encode_one},
};
use model::{ExecutionAttemptId, OperatorId};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, ThreadId},
};

/// Returns true if `attempt` is a later one of the same subtask than `other`.
fn is_later(attempt: ExecutionAttemptId, other: ExecutionAttemptId) -> bool {
    attempt.graph == other.graph && attempt.attempt > other.attempt
}

/// A snapshot of the enumerator, delivered when the readers have confirmed every message sent before it.
struct OpenSnapshot {
    bytes: Vec<u8>,
    reply: EventReply,
    /// By subtask, the number of the last message before the snapshot, as long as it is unconfirmed.
    unconfirmed: BTreeMap<u32, u64>,
}

#[derive(Default)]
struct State {
    readers: BTreeMap<u32, ReaderState>,
    /// The newest checkpoint for which the enumerator took a snapshot.
    newest: u64,
    /// True while that checkpoint is running.
    open: bool,
    /// The first checkpoint for which the enumerator took a snapshot. An earlier one says nothing of what was assigned: it is the one
    /// that the enumerator was restored from, or was taken while no reader of the source ran.
    first: Option<u64>,
    /// The newest attempt of each subtask that was reset: a late poll of it, or of an earlier one, is refused.
    ended: BTreeMap<u32, ExecutionAttemptId>,
    snapshot: Option<OpenSnapshot>,
    failed: Option<String>,
    /// The thread that runs a method of the enumerator; the only one that may assign splits.
    in_method: Option<ThreadId>,
}

impl State {
    /// Returns the running checkpoint whose snapshot precedes a message that is sent now.
    fn open_checkpoint(&self) -> Option<u64> {
        self.open.then_some(self.newest)
    }

    /// Delivers the open snapshot if the readers have confirmed every message sent before it.
    fn settle_snapshot(&mut self) {
        let Self { readers, snapshot, .. } = self;
        let Some(open) = snapshot else { return };
        open.unconfirmed.retain(|subtask, number| {
            let reader = readers.get(subtask);
            let mut outbox = reader.into_iter().flat_map(|reader| &reader.outbox);
            outbox.any(|message| message.number <= *number)
        });
        if open.unconfirmed.is_empty()
            && let Some(open) = snapshot.take()
        {
            open.reply.send(Ok(open.bytes));
        }
    }

    /// Returns the attempt of a subtask whose reader is known, and the newest one that was reset.
    fn attempts_of(
        &self,
        subtask: u32,
    ) -> (Option<ExecutionAttemptId>, Option<ExecutionAttemptId>) {
        let known = self.readers.get(&subtask).map(|reader| reader.attempt);
        (known, self.ended.get(&subtask).copied())
    }

    /// Returns the test whether a complete checkpoint contains a split that was assigned, with the reader's part.
    fn contained(&self, checkpoint: u64) -> impl Fn(&(u64, Vec<u8>)) -> bool + use<> {
        let is_known = self.first.is_some_and(|first| first <= checkpoint);
        move |(newest, _)| is_known && *newest < checkpoint
    }

    /// Removes a subtask's attempt and returns the splits that no completed checkpoint contains, each with the newest checkpoint at
    /// the time of its assignment. Fails its poll and the open snapshot.
    fn end(&mut self, subtask: u32) -> Vec<(u64, Vec<u8>)> {
        let Some(reader) = self.readers.remove(&subtask) else { return Vec::new() };
        if let Some(poll) = reader.poll {
            poll.send(Err("the execution attempt has ended".to_owned()));
        }
        if let Some(open) = self.snapshot.take() {
            open.reply.send(Err(format!("subtask {subtask} ended before it confirmed its splits")));
        }
        reader.assigned
    }
}

/// The state that a coordinator shares with the contexts of its enumerator.
pub(super) struct Shared {
    pub(super) parallelism: u32,
    pub(super) options: Arc<BTreeMap<String, String>>,
    pub(super) waker: CoordinatorWaker,
    state: Mutex<State>,
    on_failure: OnFailure,
}

impl Shared {
    /// Returns the subtasks, ascending, whose readers are registered and may get splits.
    pub(super) fn registered(&self) -> Vec<u32> {
        let state = self.lock();
        let open = state.readers.iter().filter(|(_, reader)| !reader.over);
        open.map(|(subtask, _)| *subtask).collect()
    }

    /// Runs a method of the enumerator on this thread. After a panic the coordinator is dropped, so that nothing is left to be reset.
    fn in_method<T>(&self, method: impl FnOnce() -> T) -> T {
        self.lock().in_method = Some(thread::current().id());
        let result = method();
        self.lock().in_method = None;
        result
    }

    /// Returns true if this thread runs a method of the enumerator.
    pub(super) fn is_in_method(&self) -> bool {
        self.lock().in_method == Some(thread::current().id())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Fails the source: open and later polls are answered with the error, and the JobMaster gets it. Only the first call counts.
    pub(super) fn fail(&self, why: &str) {
        let mut state = self.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(why.to_owned());
        for poll in state.readers.values_mut().filter_map(|reader| reader.poll.take()) {
            poll.send(Err(why.to_owned()));
        }
        drop(state);
        self.on_failure.report(why.to_owned());
    }

    /// Sends a message to a subtask's reader, and records splits as assigned.
    pub(super) fn say(&self, subtask: u32, message: ToReader) -> Result<(), NotRegistered> {
        let mut state = self.lock();
        let (after_snapshot, newest) = (state.open_checkpoint(), state.newest);
        let reader = state.readers.get_mut(&subtask).ok_or(NotRegistered(subtask))?;
        if reader.over {
            // A second request of a reader that was told so before is answered with the same.
            let again = message == ToReader::NoMoreSplits;
            return if again { Ok(()) } else { Err(NotRegistered(subtask)) };
        }
        if let ToReader::Splits(splits) = &message {
            reader.assigned.extend(splits.iter().map(|split| (newest, split.clone())));
        }
        reader.over = message == ToReader::NoMoreSplits;
        reader.say(after_snapshot, message);
        Ok(())
    }
}

/// Runs a source's enumerator.
pub(crate) struct SourceCoordinator<S: Source> {
    source: Arc<Mutex<S>>,
    operator: OperatorId,
    shared: Arc<Shared>,
    enumerator: Option<S::Enumerator>,
}

type Split<S> = <S as Source>::Split;

impl<S: Source> SourceCoordinator<S> {
    pub(crate) fn new(source: Arc<Mutex<S>>, context: CoordinatorContext) -> Self {
        let operator = context.operator;
        let shared = Shared {
            parallelism: context.parallelism,
            options: context.options,
            waker: context.waker,
            state: Mutex::default(),
            on_failure: context.on_failure,
        };
        Self { source, operator, shared: Arc::new(shared), enumerator: None }
    }

    /// Calls the enumerator; an error that it returns fails the job.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut S::Enumerator) -> Result<T, BoxError>,
    ) -> Result<T, String> {
        let Some(enumerator) = &mut self.enumerator else {
            return Err("the source's enumerator has not been started".to_owned());
        };
        self.shared.in_method(|| call(enumerator)).map_err(|error| {
            let why = text_of(&error);
            self.shared.fail(&why);
            why
        })
    }

    fn splits(bytes: &[Vec<u8>]) -> Result<Vec<Split<S>>, String> {
        bytes.iter().map(|split| decode_one(split).map_err(|error| error.to_string())).collect()
    }

    /// Ends the current attempt of a subtask and gives the enumerator those of its splits back that are not in this complete checkpoint
    /// (`None`: not in any).
    pub(crate) fn give_back(
        &mut self,
        subtask: u32,
        checkpoint: Option<u64>,
    ) -> Result<(), String> {
        let splits: Vec<_> = {
            let mut state = self.shared.lock();
            let mut splits = state.end(subtask);
            if let Some(checkpoint) = checkpoint {
                let contained = state.contained(checkpoint);
                splits.retain(|split| !contained(split));
            }
            splits.into_iter().map(|(_, split)| split).collect()
        };
        if !splits.is_empty() {
            let (operator, splits) = (self.operator, splits.len());
            tracing::info!(%operator, subtask, splits, checkpoint, "splits go back to the enumerator");
        }
        let splits = Self::splits(&splits)?;
        self.call(|enumerator| enumerator.add_splits_back(splits, subtask))
    }

    /// Records the polling attempt as its subtask's current one. Fails if it was reset, or a later attempt is known. The splits of an
    /// earlier attempt go back first: a poll of an attempt that has ended may have been on its way while the coordinators were started
    /// anew, and then reaches the coordinator that serves its successor.
    fn admit(&mut self, from: ExecutionAttemptId) -> Result<(), String> {
        let (known, ended) = self.shared.lock().attempts_of(from.subtask);
        if known == Some(from) {
            return Ok(());
        }
        if ended == Some(from) || ended.is_some_and(|ended| is_later(ended, from)) {
            return Err(format!("attempt {from} has ended"));
        }
        if let Some(known) = known {
            if is_later(known, from) {
                return Err(format!("attempt {from} has ended: {known} has taken its place"));
            }
            self.give_back(from.subtask, None)?;
        }
        self.shared.lock().readers.insert(from.subtask, ReaderState::new(from));
        Ok(())
    }

    fn handle_message(&mut self, subtask: u32, message: FromReader) -> Result<(), String> {
        match message {
            FromReader::Register(held) => {
                let held = Self::splits(&held)?;
                self.call(|enumerator| enumerator.add_reader(subtask, held))
            }
            FromReader::Request => self.call(|enumerator| enumerator.handle_split_request(subtask)),
            FromReader::Event(event) => {
                self.call(|enumerator| enumerator.handle_source_event(subtask, event))
            }
        }
    }

    /// Handles the messages of a poll that were not handled before.
    fn polled(&mut self, from: ExecutionAttemptId, poll: Poll) -> Result<(), String> {
        for (number, message) in poll.messages {
            {
                let mut state = self.shared.lock();
                let Some(reader) = state.readers.get_mut(&from.subtask) else { return Ok(()) };
                if number != reader.confirmed + 1 {
                    continue;
                }
                reader.confirmed = number;
            }
            self.handle_message(from.subtask, message)?;
        }
        Ok(())
    }

    /// Keeps a poll open and drops the messages that it confirms. An earlier open poll is answered, because the reader no longer
    /// waits for it. Fails if the source has failed.
    fn keep(&self, from: ExecutionAttemptId, seen: u64, reply: EventReply) -> Result<(), String> {
        let mut state = self.shared.lock();
        if let Some(why) = &state.failed {
            let why = why.clone();
            reply.send(Err(why.clone()));
            return Err(why);
        }
        if let Some(reader) = state.readers.get_mut(&from.subtask) {
            reader.outbox.retain(|message| message.number > seen);
            reader.answer();
            reader.busy = true;
            reader.poll = Some(reply);
        }
        state.settle_snapshot();
        Ok(())
    }

    fn close(&mut self) {
        if let Some(mut enumerator) = self.enumerator.take() {
            enumerator.close();
        }
    }
}

impl<S: Source> Drop for SourceCoordinator<S> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<S: Source> Coordinator for SourceCoordinator<S> {
    fn start(&mut self, restore: Option<Vec<u8>>) -> Result<(), String> {
        let restored = restore.map(|bytes| decode_one(&bytes)).transpose();
        let restored = restored.map_err(|error| format!("cannot decode its snapshot: {error}"))?;
        let context = SplitEnumeratorContext::new(self.shared.clone());
        let make = || lock(&self.source).create_enumerator(context, restored);
        let mut enumerator = self.shared.in_method(make).map_err(|error| text_of(&error))?;
        if let Err(error) = self.shared.in_method(|| enumerator.start()) {
            // The enumerator may hold threads or connections since it was created.
            enumerator.close();
            return Err(text_of(&error));
        }
        self.enumerator = Some(enumerator);
        Ok(())
    }

    fn answer_event(&mut self, from: ExecutionAttemptId, event: &[u8], reply: EventReply) {
        let poll = Poll::decode(event).map_err(|error| error.to_string());
        let admitted = poll.and_then(|poll| self.admit(from).map(|()| poll));
        let poll = match admitted {
            Ok(poll) => poll,
            Err(why) => return reply.send(Err(why)),
        };
        if self.keep(from, poll.seen, reply).is_err() {
            return;
        }
        let heeded = self.polled(from, poll);
        let mut state = self.shared.lock();
        let Some(reader) = state.readers.get_mut(&from.subtask) else { return };
        reader.busy = false;
        match heeded {
            Ok(()) => reader.settle(),
            Err(why) => {
                if let Some(poll) = reader.poll.take() {
                    poll.send(Err(why));
                }
            }
        }
    }

    fn woken(&mut self) -> Result<(), String> {
        // A thread of an enumerator that is closed, or that could not start, may still be there.
        if self.enumerator.is_none() {
            return Ok(());
        }
        self.call(S::Enumerator::woken)
    }

    fn handle_request(&mut self, _request: &[u8]) -> Result<Vec<u8>, String> {
        Err("a source does not answer client requests".to_owned())
    }

    fn snapshot(&mut self, checkpoint: u64, reply: EventReply) {
        let taken = self.call(|enumerator| enumerator.snapshot_state(checkpoint));
        let mut state = self.shared.lock();
        if let Some(open) = state.snapshot.take() {
            open.reply.send(Err(format!("checkpoint {checkpoint} began before it was complete")));
        }
        match taken {
            Err(why) => reply.send(Err(why)),
            Ok(snapshot) => {
                // Messages sent from here on do not belong to the checkpoint.
                (state.newest, state.open) = (checkpoint, true);
                state.first.get_or_insert(checkpoint);
                // A release says nothing of splits. The reader of a task that has finished never confirms one.
                let is_waited_for =
                    |message: &&Numbered| !matches!(message.message, ToReader::Release(_));
                let of = |(subtask, reader): (&u32, &ReaderState)| {
                    let last = reader.outbox.iter().rev().find(is_waited_for)?;
                    Some((*subtask, last.number))
                };
                let unconfirmed = state.readers.iter().filter_map(of).collect();
                let bytes = encode_one(&snapshot);
                state.snapshot = Some(OpenSnapshot { bytes, reply, unconfirmed });
                state.settle_snapshot();
            }
        }
    }

    fn checkpoint_ended(&mut self, checkpoint: u64, complete: bool) -> Result<(), String> {
        {
            let mut state = self.shared.lock();
            if state.newest == checkpoint {
                state.open = false;
            }
            let contained = state.contained(checkpoint);
            for reader in state.readers.values_mut() {
                if complete {
                    reader.assigned.retain(|split| !contained(split));
                }
                if !reader.over {
                    reader.release(checkpoint);
                }
            }
        }
        if complete {
            self.call(|enumerator| enumerator.notify_checkpoint_complete(checkpoint))?;
        }
        Ok(())
    }

    fn subtask_reset(
        &mut self,
        ended: ExecutionAttemptId,
        checkpoint: Option<u64>,
    ) -> Result<(), String> {
        {
            let mut state = self.shared.lock();
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            let known = state.attempts_of(ended.subtask).0;
            if known.is_some_and(|known| known.graph != ended.graph || is_later(known, ended)) {
                return Ok(());
            }
            state.ended.insert(ended.subtask, ended);
        }
        self.give_back(ended.subtask, checkpoint)
    }

    fn job_ended(&mut self, _finished: bool) -> Result<(), String> {
        self.close();
        Ok(())
    }
}
