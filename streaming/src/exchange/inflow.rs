//! The remote producers of a gate: what they have announced, what was granted, what has arrived. Every byte that arrives was
//! granted, or is within a small overdraft that saves events and tiny batches the round trip. The gate must never grant more
//! than waits at the producer, because granted bytes count as being under way. The scheme is in [`super`].
//!
//! A channel costs nothing here until its first byte or announcement.

use super::{
    connection::LinkIn,
    debloat::{FIRST_SHARE, OVERDRAFT_SHARE, UNBOUNDED},
    gate::{CHANNEL_ELEMENTS_MAX, Gate, GateState, Wake},
    incoming::Received,
    parcel::{PARCEL_BYTES_MAX, PARCEL_OVERHEAD, Parcel, encoded_weight},
};
use crate::memory::MemoryBudget;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Bytes of a channel that may arrive without a grant and wait in the gate.
pub(super) const OVERDRAFT: u64 = 1024;

/// The remote channels of a gate that have sent or announced something.
#[derive(Default)]
pub(super) struct Inflows {
    channels: BTreeMap<u32, Inflow>,
    /// Channels whose announcement was not granted yet, in the order of arrival.
    wanting: VecDeque<u32>,
    /// Number of channels for which [`Inflow::is_promised`] holds.
    promised: usize,
    /// The links of the gate, each with the share that its producers were told.
    links: Vec<(Arc<LinkIn>, u32)>,
}

struct Inflow {
    link: Arc<LinkIn>,
    /// The producer's index in the link's request.
    index: u32,
    /// Position up to which bytes have arrived.
    arrived: u64,
    /// Position up to which memory is taken: the end of the last granted element, or `arrived` if that is larger.
    taken: u64,
    /// True if an announcement is not granted until the consumer has taken more of the channel.
    held_back: bool,
    /// Bytes that arrived without a grant and wait in the gate.
    overdraft: u64,
    /// Position up to which the producer was told that it may send.
    limit: u64,
    /// Positions of the ends of the first and the last announced element that wait at the producer for a higher limit.
    wants: Option<(u64, u64)>,
    /// The parts of an incomplete element that have arrived.
    partial: Vec<u8>,
    paused: bool,
}

/// A raise of a producer's limit, to be sent after the gate's lock is released.
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

/// A part of an element as it arrived over the wire.
pub(super) struct Part<'a> {
    pub(super) index: u32,
    pub(super) payload: &'a [u8],
    /// The frame that has the payload, if the element may keep its buffer; else the payload is copied.
    pub(super) received: Option<&'a Received>,
    pub(super) event: bool,
    /// True if another part of the same element follows.
    pub(super) more: bool,
    /// Positions of the ends of the first and the last element announced after this one; 0 if nothing waits.
    pub(super) next: u64,
    pub(super) backlog: u64,
}

/// A peer's violation of the credit protocol. No healthy peer violates it, so the connection is ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CreditViolation {
    /// The peer sent bytes beyond its limit.
    #[error("the peer sent {bytes} bytes on channel {channel} beyond what it was granted")]
    Ungranted {
        /// The gate's channel.
        channel: u32,
        /// Number of bytes beyond the limit.
        bytes: u64,
    },
    /// The peer sent or announced an element that exceeds the maximum size, for which memory would be kept or granted.
    #[error(
        "the peer sends or announces {bytes} bytes as one element of channel {channel}; at most {PARCEL_BYTES_MAX} are allowed"
    )]
    TooLarge {
        /// The gate's channel.
        channel: u32,
        /// Size of the element in bytes, as far as it is known.
        bytes: u64,
    },
}

impl Inflows {
    /// Returns the number of channels with granted bytes under way that the consumer could take.
    pub(super) fn promised_runnable(&self) -> usize {
        self.promised
    }

    /// Returns the links whose producers are to be told a new share: those that know one that differs by a fourth or more.
    pub(super) fn changed_share(&mut self, share: u32) -> Vec<(Arc<LinkIn>, u32)> {
        let mut tell = Vec::new();
        for (link, told) in &mut self.links {
            if *told != share && (share == UNBOUNDED || share.abs_diff(*told) >= (*told / 4).max(1))
            {
                *told = share;
                tell.push((Arc::clone(link), share));
            }
        }
        tell
    }

    pub(super) fn pause(&mut self, channel: u32, paused: bool) {
        self.change(channel, |inflow| inflow.paused = paused);
    }

    /// Changes a channel and updates `promised`. Returns `None` if the channel has not sent or announced anything.
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
            held_back: false,
            overdraft: 0,
            limit: OVERDRAFT,
            wants: None,
            partial: Vec::new(),
            paused,
        })
    }
}

impl Inflow {
    /// Returns whether granted bytes are under way that the consumer could take.
    fn is_promised(&self) -> bool {
        self.arrived < self.taken && !self.paused
    }

    /// Returns the position up to which the producer may send, if `overdraft` bytes may wait without a grant.
    fn allowed(&self, overdraft: u64) -> u64 {
        self.taken.saturating_add(overdraft.saturating_sub(self.overdraft))
    }

    /// Appends a part. Returns the whole element and its encoded size in bytes if the part is its last one.
    fn append(&mut self, part: &Part<'_>) -> Option<(Parcel, usize)> {
        let whole = !part.more && self.partial.is_empty();
        if whole && let Some(received) = part.received.filter(|_| !part.event) {
            return Some((Parcel::Received(received.slice(part.payload)), part.payload.len()));
        }
        let bytes = if whole {
            part.payload.to_vec()
        } else {
            self.partial.extend_from_slice(part.payload);
            if part.more {
                return None;
            }
            std::mem::take(&mut self.partial)
        };
        let len = bytes.len();
        Some((if part.event { Parcel::Event(bytes) } else { Parcel::Batch(bytes) }, len))
    }

    /// Raises the limit to the allowed position, unless it is there already, and returns the grant, which must be sent to the producer.
    fn raise_limit(&mut self, overdraft: u64) -> Grant {
        let allowed = self.allowed(overdraft).max(self.limit);
        let bytes = allowed.saturating_sub(std::mem::replace(&mut self.limit, allowed));
        Grant { link: Arc::clone(&self.link), index: self.index, bytes }
    }
}

impl GateState {
    fn inflow(&mut self, channel: u32, link: &Arc<LinkIn>, index: u32) -> &mut Inflow {
        let paused = self.is_paused(channel);
        self.inflows.channel(channel, paused, link, index)
    }

    /// Returns the bytes of a channel that may wait without a grant. They are many elements if these have few records each, so that
    /// a slow consumer's producers announce all of theirs.
    fn overdraft_max(&self) -> u64 {
        if self.bounds().share < OVERDRAFT_SHARE { 0 } else { OVERDRAFT }
    }

    /// Records a producer's announcement. Fails if it announces an element that is too large.
    fn announced(
        &mut self,
        channel: u32,
        link: &Arc<LinkIn>,
        index: u32,
        wants: (u64, u64),
    ) -> Result<(), CreditViolation> {
        let inflow = self.inflow(channel, link, index);
        // An element within the limit was sent already, or is sent as soon as the producer learns the limit.
        let Some(beyond) = wants.0.checked_sub(inflow.limit).filter(|beyond| *beyond > 0) else {
            return Ok(());
        };
        // The element begins within the limit. It may be granted whatever memory is free, so its size must be bounded.
        if beyond > encoded_weight(PARCEL_BYTES_MAX) {
            return Err(CreditViolation::TooLarge { channel, bytes: beyond });
        }
        if inflow.wants.replace(wants).is_none() {
            self.inflows.wanting.push_back(channel);
        }
        Ok(())
    }

    /// Grants announcements in the order of their arrival, as far as the gate's share of memory goes. Paused channels are skipped, and
    /// so are those that have as many elements as the consumer's rate allows.
    pub(super) fn grant_wanting(&mut self, memory: &MemoryBudget) -> Vec<Grant> {
        let mut grants = Vec::new();
        let overdraft = self.overdraft_max();
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
            let queued = self.count(channel) + u32::from(inflow.arrived < taken);
            let elements = self.bounds().elements;
            if queued >= elements {
                // An element of the channel is there or under way: the channel is looked at again when the consumer takes it.
                self.inflows.change(channel, |inflow| inflow.held_back = true);
                continue;
            }
            if !self.may_hold(next.saturating_sub(taken), memory) {
                self.inflows.wanting.push_front(channel);
                break;
            }
            // How many elements the announcement has is not known.
            let all = elements >= CHANNEL_ELEMENTS_MAX
                && memory.has_share(self.held, last.saturating_sub(taken));
            let end = if all { last } else { next };
            self.take_for(end.saturating_sub(taken), memory);
            grants.extend(self.inflows.change(channel, |inflow| {
                inflow.wants = None;
                inflow.taken = inflow.taken.max(end);
                inflow.raise_limit(overdraft)
            }));
        }
        grants
    }

    /// Records that the consumer took an element: returns the `overdraft` bytes that the element had used to its channel, and
    /// grants announcements for which there is room now.
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
            if std::mem::take(&mut inflow.held_back) {
                self.inflows.wanting.push_back(channel);
            }
        }
        let mut grants = self.grant_wanting(memory);
        let overdraft_max = self.overdraft_max();
        if let Some(inflow) = self.inflows.channels.get_mut(&channel)
            && inflow.allowed(overdraft_max).saturating_sub(inflow.limit) >= OVERDRAFT / 2
        {
            grants.push(inflow.raise_limit(overdraft_max));
        }
        grants
    }

    /// Takes a part, and queues the element if the part is its last one. Returns whether the consumer has to be woken.
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
        let Some((parcel, bytes)) = whole else {
            return Ok(Wake::No);
        };
        let weight = encoded_weight(bytes);
        // An element that arrives without a grant is smaller than a part, so `extra` is all of its overdraft.
        Ok(self.enqueue(channel, parcel, weight, extra))
    }
}

impl Gate {
    /// Adds a link, whose producers are told the share now and each new one later, unless the gate is closed.
    pub(super) fn put_link(&self, link: &Arc<LinkIn>) {
        self.with(|state, _| {
            if state.closed.is_some() {
                return;
            }
            let share = state.bounds().share;
            if share != FIRST_SHARE {
                // Under the lock, so that the consumer's next share can't be sent before it.
                link.share(share);
            }
            state.inflows.links.push((Arc::clone(link), share));
        });
    }

    /// Records a remote producer's announcement, and sends the grants that follow from it.
    ///
    /// # Errors
    /// Returns a violation if the peer announces an element that is too large.
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

    /// Takes an element, or a part of one, from a remote producer, and sends the grants that follow from it. Returns whether the
    /// caller has to wake the gate after it has handled everything that arrived together.
    ///
    /// # Errors
    /// Returns a violation if the part was not granted or belongs to an element that is too large.
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
            // The part is queued under the same lock, before anything is granted for the reason that nothing waits.
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
