//! Remote producers of a gate: what they want to send, what was granted, what came. Every byte that comes in
//! was granted, or is within a small overdraft that spares events and tiny batches the round trip. It must never
//! grant what does not wait at the producer: what is granted counts as being under way. The scheme is in [`super`].
//!
//! A channel costs nothing here until its first byte or announcement.

use super::{
    connection::LinkIn,
    gate::{Gate, GateState, Wake},
    parcel::{PARCEL_BYTES_MAX, PARCEL_OVERHEAD, Parcel, encoded_weight},
};
use crate::memory::MemoryBudget;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Bytes of a channel that may come without a grant before the consumer takes them.
pub(super) const OVERDRAFT: u64 = 1024;

/// All remote channels of a gate that have sent or announced something.
#[derive(Default)]
pub(super) struct Inflows {
    channels: BTreeMap<u32, Inflow>,
    /// Channels whose announcement could not be granted yet.
    wanting: VecDeque<u32>,
    /// Channels for which [`Inflow::is_promised`] holds.
    promised: usize,
}

struct Inflow {
    link: Arc<LinkIn>,
    /// The producer's place in the link's request.
    index: u32,
    /// Weight of all that has come.
    arrived: u64,
    /// Position up to which memory is taken: where the last granted element ends, or `arrived`.
    taken: u64,
    /// Bytes that came without a grant and wait in the gate.
    overdraft: u64,
    /// Position up to which the producer knows that it may send.
    limit: u64,
    /// Where the first element ends that waits at the producer for a higher limit, and the last that was announced.
    wants: Option<(u64, u64)>,
    /// The parts of an element that came so far.
    partial: Vec<u8>,
    paused: bool,
}

/// A higher limit to be sent, outside of the gate's lock.
pub(super) struct Grant {
    link: Arc<LinkIn>,
    index: u32,
    bytes: u64,
}

impl Grant {
    pub(super) fn send(self) {
        self.link.credit(self.index, self.bytes);
    }
}

/// A part of an element as it came over the wire.
pub(super) struct Part<'a> {
    pub(super) index: u32,
    pub(super) payload: &'a [u8],
    pub(super) event: bool,
    /// Whether another part of the same element follows.
    pub(super) more: bool,
    /// Where the first element ends that waits behind this one, and the last announced one; 0: nothing waits.
    pub(super) next: u64,
    pub(super) backlog: u64,
}

/// A producer that does not keep to the rules of credit. No healthy peer does that, so its connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CreditViolation {
    /// It sends what was not granted.
    #[error("the peer sent {bytes} bytes on channel {channel} beyond what it was granted")]
    Ungranted {
        /// Channel of the gate.
        channel: u32,
        /// How much too much.
        bytes: u64,
    },
    /// It sends or announces an element that is larger than any may be: memory would be kept for it, or granted.
    #[error(
        "the peer sends or announces {bytes} bytes as one element of channel {channel}; at most {PARCEL_BYTES_MAX} are allowed"
    )]
    TooLarge {
        /// Channel of the gate.
        channel: u32,
        /// Of the element, as far as it is known.
        bytes: u64,
    },
}

impl Inflows {
    /// Channels with something under way that the consumer could take.
    pub(super) fn promised_runnable(&self) -> usize {
        self.promised
    }

    pub(super) fn pause(&mut self, channel: u32, paused: bool) {
        self.change(channel, |inflow| inflow.paused = paused);
    }

    /// Changes a channel and keeps `promised` right. `None`: the channel has not sent or announced anything.
    fn change<R>(&mut self, channel: u32, change: impl FnOnce(&mut Inflow) -> R) -> Option<R> {
        let inflow = self.channels.get_mut(&channel)?;
        let before = usize::from(inflow.is_promised());
        let result = change(inflow);
        self.promised = self.promised.saturating_sub(before) + usize::from(inflow.is_promised());
        Some(result)
    }

    fn channel(
        &mut self,
        channel: u32,
        paused: bool,
        link: &Arc<LinkIn>,
        index: u32,
    ) -> &mut Inflow {
        self.channels.entry(channel).or_insert_with(|| Inflow {
            link: Arc::clone(link),
            index,
            arrived: 0,
            taken: 0,
            overdraft: 0,
            limit: OVERDRAFT,
            wants: None,
            partial: Vec::new(),
            paused,
        })
    }
}

impl Inflow {
    /// Whether something is under way that the consumer could take.
    fn is_promised(&self) -> bool {
        self.arrived < self.taken && !self.paused
    }

    /// Position up to which the producer may send.
    fn allowed(&self) -> u64 {
        self.taken.saturating_add(OVERDRAFT - self.overdraft)
    }

    /// Appends a part; the whole element where this is its last one.
    fn append(&mut self, part: &Part<'_>) -> Option<Vec<u8>> {
        if !part.more && self.partial.is_empty() {
            return Some(part.payload.to_vec());
        }
        self.partial.extend_from_slice(part.payload);
        (!part.more).then(|| std::mem::take(&mut self.partial))
    }

    /// Raises the limit to all that is allowed; the producer must be told.
    fn raise_limit(&mut self) -> Grant {
        let allowed = self.allowed();
        let bytes = allowed.saturating_sub(std::mem::replace(&mut self.limit, allowed));
        Grant { link: Arc::clone(&self.link), index: self.index, bytes }
    }
}

impl GateState {
    fn inflow(&mut self, channel: u32, link: &Arc<LinkIn>, index: u32) -> &mut Inflow {
        let paused = self.is_paused(channel);
        self.inflows.channel(channel, paused, link, index)
    }

    /// A producer says what waits there.
    fn announced(
        &mut self,
        channel: u32,
        link: &Arc<LinkIn>,
        index: u32,
        wants: (u64, u64),
    ) -> Result<(), CreditViolation> {
        let inflow = self.inflow(channel, link, index);
        // An element within the limit was sent already, or is sent as soon as the producer hears of the limit.
        let Some(beyond) = wants.0.checked_sub(inflow.limit).filter(|beyond| *beyond > 0) else {
            return Ok(());
        };
        // It begins within the limit. One element is granted whatever memory there is, so it must not be without bounds.
        if beyond > encoded_weight(PARCEL_BYTES_MAX) {
            return Err(CreditViolation::TooLarge { channel, bytes: beyond });
        }
        if inflow.wants.replace(wants).is_none() {
            self.inflows.wanting.push_back(channel);
        }
        Ok(())
    }

    /// Grants in order of asking, as far as the gate's share of memory goes. Paused channels are passed over.
    pub(super) fn grant_wanting(&mut self, memory: &MemoryBudget) -> Vec<Grant> {
        let mut grants = Vec::new();
        for _ in 0..self.inflows.wanting.len() {
            let Some(channel) = self.inflows.wanting.pop_front() else {
                break;
            };
            let Some(inflow) = self.inflows.channels.get(&channel) else {
                continue;
            };
            let Some((next, last)) = inflow.wants else {
                continue;
            };
            if inflow.paused {
                self.inflows.wanting.push_back(channel);
                continue;
            }
            let taken = inflow.taken;
            if !self.may_hold(next.saturating_sub(taken), memory) {
                self.inflows.wanting.push_front(channel);
                break;
            }
            let all = memory.has_share(self.held, last.saturating_sub(taken));
            let end = if all { last } else { next };
            self.take_for(end.saturating_sub(taken), memory);
            grants.extend(self.inflows.change(channel, |inflow| {
                inflow.wants = None;
                inflow.taken = inflow.taken.max(end);
                inflow.raise_limit()
            }));
        }
        grants
    }

    /// Records that the consumer took an element: the `overdraft` bytes that the element had used go back, and waiting
    /// channels are granted what there is room for now.
    pub(super) fn inflow_consumed(
        &mut self,
        channel: u32,
        overdraft: u64,
        memory: &MemoryBudget,
    ) -> Vec<Grant> {
        if self.inflows.channels.is_empty() {
            return Vec::new();
        }
        if let Some(inflow) = self.inflows.channels.get_mut(&channel) {
            inflow.overdraft = inflow.overdraft.saturating_sub(overdraft);
        }
        let mut grants = self.grant_wanting(memory);
        if let Some(inflow) = self.inflows.channels.get_mut(&channel)
            && inflow.allowed().saturating_sub(inflow.limit) >= OVERDRAFT / 2
        {
            grants.push(inflow.raise_limit());
        }
        grants
    }

    /// Takes in a part, and queues the element if the part is its last one. Returns what that means for the consumer.
    fn arrived(
        &mut self,
        channel: u32,
        link: &Arc<LinkIn>,
        part: &Part<'_>,
        memory: &MemoryBudget,
    ) -> Result<Wake, CreditViolation> {
        let inflow = self.inflow(channel, link, part.index);
        let bytes = part.payload.len() as u64 + if part.more { 0 } else { PARCEL_OVERHEAD };
        let arrived = inflow.arrived.saturating_add(bytes);
        if arrived > inflow.limit {
            return Err(CreditViolation::Ungranted { channel, bytes: arrived - inflow.limit });
        }
        let bytes = inflow.partial.len() + part.payload.len();
        if bytes > PARCEL_BYTES_MAX {
            return Err(CreditViolation::TooLarge { channel, bytes: bytes as u64 });
        }
        let taken_in = self.inflows.change(channel, |inflow| {
            inflow.arrived = arrived;
            let extra = arrived.saturating_sub(inflow.taken);
            inflow.taken += extra;
            inflow.overdraft += extra;
            (inflow.append(part), extra)
        });
        let (whole, extra) = taken_in.unwrap_or_default();
        self.take_for(extra, memory);
        self.announced(channel, link, part.index, (part.next, part.backlog))?;
        let Some(bytes) = whole else {
            return Ok(Wake::No);
        };
        let weight = encoded_weight(bytes.len());
        let parcel = if part.event { Parcel::Event(bytes) } else { Parcel::Batch(bytes) };
        // What comes without a grant is smaller than a part, so that this was all of it.
        Ok(self.enqueue(channel, parcel, weight, extra))
    }
}

impl Gate {
    /// A remote producer announces what waits there.
    ///
    /// # Errors
    /// When it announces an element that is too large.
    pub(super) fn remote_backlog(
        &self,
        channel: u32,
        link: &Arc<LinkIn>,
        index: u32,
        wants: (u64, u64),
    ) -> Result<(), CreditViolation> {
        let grants = self.with(|state, memory| {
            if state.closed.is_some() {
                return Ok(Vec::new());
            }
            state.announced(channel, link, index, wants)?;
            Ok(state.grant_wanting(memory))
        })?;
        for grant in grants {
            grant.send();
        }
        Ok(())
    }

    /// A remote producer's element, or a part of one, came in. Returns whether the caller has to wake the gate when it has taken in
    /// what came with it.
    ///
    /// # Errors
    /// When it was not granted, or is part of an element that is too large.
    pub(super) fn remote_part(
        &self,
        channel: u32,
        link: &Arc<LinkIn>,
        part: &Part<'_>,
    ) -> Result<bool, CreditViolation> {
        let (wake, grants) = self.with(|state, memory| {
            if state.closed.is_some() {
                return Ok((Wake::No, Vec::new()));
            }
            // Queued under the same lock, before anything is granted on the ground that nothing waits.
            let wake = state.arrived(channel, link, part, memory)?;
            Ok((wake, state.grant_wanting(memory)))
        })?;
        if wake == Wake::Now {
            self.raise_consumer();
        }
        for grant in grants {
            grant.send();
        }
        Ok(wake == Wake::Owed)
    }
}
