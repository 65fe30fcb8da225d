//! What the coordinator of a source knows of the reader of one subtask: the messages under way, and the splits that were assigned. It
//! must never decide what is assigned.

use super::protocol::{Numbered, PollAnswer, ToReader};
use crate::seam::EventReply;
use model::ExecutionAttemptId;
use std::collections::VecDeque;

/// The coordinator's record of a subtask's current attempt.
pub(super) struct ReaderState {
    pub(super) attempt: ExecutionAttemptId,
    /// Number of the reader's last message that was handled.
    pub(super) confirmed: u64,
    /// Number of the newest message to the reader.
    made: u64,
    /// Number of the newest message that an answer contained.
    sent: u64,
    /// Messages to the reader that it has not confirmed.
    pub(super) outbox: VecDeque<Numbered>,
    /// The open poll of the reader, which waits for a message.
    pub(super) poll: Option<EventReply>,
    /// The reader's poll is being handled; it is answered afterwards.
    pub(super) busy: bool,
    /// The reader was sent [`ToReader::NoMoreSplits`].
    pub(super) over: bool,
    /// Splits that no completed checkpoint contains, each with the newest checkpoint at the time of its assignment.
    pub(super) assigned: Vec<(u64, Vec<u8>)>,
}

impl ReaderState {
    pub(super) fn new(attempt: ExecutionAttemptId) -> Self {
        let (outbox, assigned) = (VecDeque::new(), Vec::new());
        let (confirmed, made, sent) = (0, 0, 0);
        let (poll, busy, over) = (None, false, false);
        Self { attempt, confirmed, made, sent, outbox, poll, busy, over, assigned }
    }

    pub(super) fn say(&mut self, after_snapshot: Option<u64>, message: ToReader) {
        self.made += 1;
        self.outbox.push_back(Numbered { number: self.made, after_snapshot, message });
        self.settle();
    }

    /// Tells the reader that a checkpoint is over. A release that was never sent says so too: the reader of a task that has
    /// finished polls no more, and would otherwise have one more message kept for it at each checkpoint.
    pub(super) fn release(&mut self, checkpoint: u64) {
        match self.outbox.back_mut() {
            Some(Numbered { number, message: ToReader::Release(last), .. })
                if *number > self.sent =>
            {
                *last = checkpoint.max(*last);
            }
            _ => self.say(None, ToReader::Release(checkpoint)),
        }
    }

    /// Answers the open poll if there is a message for it, or if none will follow.
    pub(super) fn settle(&mut self) {
        if !self.busy && (self.over || !self.outbox.is_empty()) {
            self.answer();
        }
    }

    pub(super) fn answer(&mut self) {
        if let Some(poll) = self.poll.take() {
            self.sent = self.made;
            let messages = self.outbox.iter().cloned().collect();
            poll.send(Ok(PollAnswer { confirmed: self.confirmed, messages }.encode()));
        }
    }
}
