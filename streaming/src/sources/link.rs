//! A reader's side of the way to its enumerator: what is to be said, what was confirmed, and what came. No I/O: the head of the
//! source's chain sends the polls.

use super::protocol::{FromReader, Numbered, Poll, PollAnswer, ToReader};
use crate::types::CodecError;
use std::collections::VecDeque;

/// The reader's side.
#[derive(Debug, Default)]
pub(crate) struct EnumeratorLink {
    /// Number of the last message that was made.
    made: u64,
    /// Messages that are not confirmed.
    unconfirmed: VecDeque<(u64, FromReader)>,
    /// Number of the last message that a poll has carried.
    sent: u64,
    /// Polls without an answer.
    polls: usize,
    /// Number of the last message that came.
    seen: u64,
    /// Number of the last message that a poll has confirmed.
    confirmed: u64,
    /// Messages that came and are not heeded.
    inbox: VecDeque<Numbered>,
    /// The newest checkpoint that the subtask has a part of, or that is held up no longer.
    checkpoint: u64,
    /// The enumerator said that nothing follows.
    over: bool,
}

impl EnumeratorLink {
    /// Says something.
    pub(crate) fn say(&mut self, message: FromReader) {
        self.made += 1;
        self.unconfirmed.push_back((self.made, message));
    }

    /// Returns the next poll, if one is due: something was said, or the enumerator has no way to say anything. With `again` it is
    /// due in any case, as the answer to the last one may be late.
    pub(crate) fn poll(&mut self, again: bool) -> Option<Vec<u8>> {
        // The last message is confirmed too: a checkpoint may wait for that.
        let news = self.sent < self.made || self.over && self.confirmed < self.seen;
        if self.over && !news || !news && !again && self.polls > 0 {
            return None;
        }
        self.polls += 1;
        (self.sent, self.confirmed) = (self.made, self.seen);
        let messages = self.unconfirmed.iter().cloned().collect();
        Some(Poll { seen: self.seen, messages }.encode())
    }

    /// Takes an answer.
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

    /// The subtask has its part of a checkpoint.
    pub(crate) fn checkpoint_passed(&mut self, checkpoint: u64) {
        self.checkpoint = self.checkpoint.max(checkpoint);
    }

    /// Returns the next message that is to be heeded now.
    pub(crate) fn next(&mut self) -> Option<ToReader> {
        let held = self.inbox.front()?.behind.is_some_and(|behind| behind > self.checkpoint);
        let next = if held { None } else { self.inbox.pop_front() };
        let message = next?.message;
        self.over |= message == ToReader::NoMoreSplits;
        Some(message)
    }

    /// Returns whether the enumerator said that nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}
