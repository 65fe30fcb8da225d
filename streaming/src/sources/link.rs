//! The reader's end of the protocol with its enumerator: messages to send, confirmations, and received messages. It does no
//! I/O: the head of the source's chain sends the polls.

use super::protocol::{FromReader, Numbered, Poll, PollAnswer, ToReader};
use crate::types::CodecError;
use std::collections::VecDeque;

/// The reader's end of the protocol in [`super::protocol`].
#[derive(Debug, Default)]
pub(crate) struct EnumeratorLink {
    /// Number of the reader's newest message.
    made: u64,
    /// The reader's messages that the coordinator has not confirmed.
    unconfirmed: VecDeque<(u64, FromReader)>,
    /// Number of the newest message that a poll has carried.
    sent: u64,
    /// Number of polls that have no answer.
    polls: usize,
    /// Number of the last message received from the enumerator.
    seen: u64,
    /// Number of the last received message that a poll has confirmed.
    confirmed: u64,
    /// Received messages that the reader has not handled.
    inbox: VecDeque<Numbered>,
    /// The newest checkpoint for which the subtask has taken its snapshot, or which has ended.
    checkpoint: u64,
    /// The reader has handled the enumerator's [`ToReader::NoMoreSplits`].
    over: bool,
}

impl EnumeratorLink {
    /// Queues a message for the next poll.
    pub(crate) fn say(&mut self, message: FromReader) {
        self.made += 1;
        self.unconfirmed.push_back((self.made, message));
    }

    /// Returns the next encoded poll, or `None` if none is due. A poll is due if there is an unsent message, or if no poll is
    /// under way that the enumerator could answer. With `again` a poll is due even then, because the last answer may be lost.
    /// After [`ToReader::NoMoreSplits`] a poll is due only for unsent messages and confirmations.
    pub(crate) fn poll(&mut self, again: bool) -> Option<Vec<u8>> {
        // The enumerator's last message is confirmed too: the snapshot of a checkpoint may wait for that confirmation.
        let news = self.sent < self.made || self.over && self.confirmed < self.seen;
        if self.over && !news || !news && !again && self.polls > 0 {
            return None;
        }
        self.polls += 1;
        (self.sent, self.confirmed) = (self.made, self.seen);
        let messages = self.unconfirmed.iter().cloned().collect();
        Some(Poll { seen: self.seen, messages }.encode())
    }

    /// Takes the coordinator's answer to a poll: drops confirmed messages and queues new ones; those already seen are ignored.
    pub(crate) fn answered(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let answer = PollAnswer::decode(bytes)?;
        self.polls = self.polls.saturating_sub(1);
        while self.unconfirmed.front().is_some_and(|(number, _)| *number <= answer.confirmed) {
            self.unconfirmed.pop_front();
        }
        for message in answer.messages {
            if message.number != self.seen + 1 {
                continue;
            }
            self.seen = message.number;
            if let ToReader::Release(checkpoint) = message.message {
                self.checkpoint_passed(checkpoint);
            } else {
                self.inbox.push_back(message);
            }
        }
        Ok(())
    }

    /// Records that the subtask has taken its snapshot for a checkpoint: messages held for it can be handled.
    pub(crate) fn checkpoint_passed(&mut self, checkpoint: u64) {
        self.checkpoint = self.checkpoint.max(checkpoint);
    }

    /// Returns the next message to handle; `None` if there is none, or if the next one is held until a checkpoint.
    pub(crate) fn next(&mut self) -> Option<ToReader> {
        let held = self
            .inbox
            .front()?
            .after_snapshot
            .is_some_and(|after_snapshot| after_snapshot > self.checkpoint);
        let next = if held { None } else { self.inbox.pop_front() };
        let message = next?.message;
        self.over |= message == ToReader::NoMoreSplits;
        Some(message)
    }

    /// Returns whether the enumerator's [`ToReader::NoMoreSplits`] was handled.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}
