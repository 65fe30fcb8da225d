//! Remote producers of a gate: what they want to send, what was granted, what came. Every byte that comes in
//! was granted, or is within a small overdraft that spares events and tiny batches the round trip.
//!
//! A channel costs nothing here until its first byte or announcement.

use super::{
    connection::LinkIn,
    gate::{Gate, GateState},
    parcel::{PARCEL_OVERHEAD, Parcel, encoded_weight},
};
use crate::memory::MemoryBudget;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Bytes that a channel may send without a grant.
pub(super) const OVERDRAFT: u64 = 1024;

/// The most that is granted at once, beyond the first waiting element.
const GRANT_MAX: u64 = 256 << 10;

/// All remote channels of a gate that have sent or announced something.
#[derive(Default)]
pub(super) struct Inflows {
    channels: BTreeMap<u32, Inflow>,
    /// Channels whose announcement could not be granted yet.
    wanting: VecDeque<u32>,
    /// Unpaused channels with an open grant: something is under way.
    promised: usize,
}

struct Inflow {
    link: Arc<LinkIn>,
    /// The producer's place in the link's request.
    index: u32,
    granted: u64,
    overdraft: u64,
    /// Overdraft that was used up and consumed, not told to the producer yet.
    to_return: u64,
    /// Weight of the first element that waits at the producer, and of all of them.
    wants: Option<(u64, u64)>,
    /// The parts of an element that came so far.
    partial: Vec<u8>,
    paused: bool,
}

/// A grant to be sent, outside of the gate's lock.
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
    /// Weight of the first element that waits behind this one, and of all of them; 0: nothing waits.
    pub(super) next: u64,
    pub(super) backlog: u64,
}

/// A producer that sends what was not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent {bytes} bytes on channel {channel} beyond what it was granted")]
pub(super) struct CreditViolation {
    /// Channel of the gate.
    pub(super) channel: u32,
    /// How much too much.
    pub(super) bytes: u64,
}

impl Inflows {
    /// Channels with something under way that the consumer could take.
    pub(super) fn promised_runnable(&self) -> usize {
        self.promised
    }

    pub(super) fn pause(&mut self, channel: u32, paused: bool) {
        let Some(inflow) = self.channels.get_mut(&channel) else {
            return;
        };
        if inflow.paused != paused && inflow.granted > 0 {
            if paused {
                self.promised = self.promised.saturating_sub(1);
            } else {
                self.promised += 1;
            }
        }
        inflow.paused = paused;
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
            granted: 0,
            overdraft: 0,
            to_return: 0,
            wants: None,
            partial: Vec::new(),
            paused,
        })
    }
}

impl GateState {
    fn inflow(&mut self, channel: u32, link: &Arc<LinkIn>, index: u32) -> &mut Inflow {
        let paused = self.is_paused(channel);
        self.inflows.channel(channel, paused, link, index)
    }

    /// A producer says what waits there.
    fn announced(&mut self, channel: u32, link: &Arc<LinkIn>, index: u32, wants: (u64, u64)) {
        if wants.0 == 0 {
            return;
        }
        let inflow = self.inflow(channel, link, index);
        if inflow.wants.replace(wants).is_none() {
            self.inflows.wanting.push_back(channel);
        }
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
            let Some((head, total)) = inflow.wants else {
                continue;
            };
            if inflow.paused {
                self.inflows.wanting.push_back(channel);
                continue;
            }
            if !self.may_hold(head, memory) {
                self.inflows.wanting.push_front(channel);
                break;
            }
            let more = total.min(GRANT_MAX).max(head);
            let bytes = if memory.has_share(self.held, more) { more } else { head };
            self.take_for(bytes, memory);
            if let Some(inflow) = self.inflows.channels.get_mut(&channel) {
                inflow.wants = None;
                if inflow.granted == 0 {
                    self.inflows.promised += 1;
                }
                inflow.granted = inflow.granted.saturating_add(bytes);
                grants.push(Grant { link: Arc::clone(&inflow.link), index: inflow.index, bytes });
            }
        }
        grants
    }

    /// An element of `weight` bytes was consumed: overdraft that it used goes back, others may be granted.
    pub(super) fn inflow_consumed(
        &mut self,
        channel: u32,
        weight: u64,
        memory: &MemoryBudget,
    ) -> Vec<Grant> {
        if self.inflows.channels.is_empty() {
            return Vec::new();
        }
        let mut grants = self.grant_wanting(memory);
        if let Some(inflow) = self.inflows.channels.get_mut(&channel) {
            let back = inflow.overdraft.min(weight);
            inflow.overdraft -= back;
            inflow.to_return += back;
            if inflow.to_return >= OVERDRAFT / 2 {
                grants.push(Grant {
                    link: Arc::clone(&inflow.link),
                    index: inflow.index,
                    bytes: std::mem::take(&mut inflow.to_return),
                });
            }
        }
        grants
    }

    /// Takes in a part; the whole element where this was the last one.
    fn arrived(
        &mut self,
        channel: u32,
        link: &Arc<LinkIn>,
        part: &Part<'_>,
        memory: &MemoryBudget,
    ) -> Result<Option<(Parcel, u64)>, CreditViolation> {
        let inflow = self.inflow(channel, link, part.index);
        let bytes = part.payload.len() as u64 + if part.more { 0 } else { PARCEL_OVERHEAD };
        let granted = inflow.granted.min(bytes);
        let extra = bytes - granted;
        if inflow.overdraft.saturating_add(extra) > OVERDRAFT {
            return Err(CreditViolation {
                channel,
                bytes: inflow.overdraft.saturating_add(extra) - OVERDRAFT,
            });
        }
        let closes_grant = granted > 0 && granted == inflow.granted && !inflow.paused;
        inflow.granted -= granted;
        inflow.overdraft += extra;
        let whole = if part.more {
            inflow.partial.extend_from_slice(part.payload);
            None
        } else if inflow.partial.is_empty() {
            Some(part.payload.to_vec())
        } else {
            inflow.partial.extend_from_slice(part.payload);
            Some(std::mem::take(&mut inflow.partial))
        };
        self.take_for(extra, memory);
        if closes_grant {
            self.inflows.promised = self.inflows.promised.saturating_sub(1);
        }
        self.announced(channel, link, part.index, (part.next, part.backlog));
        Ok(whole.map(|bytes| {
            let weight = encoded_weight(bytes.len());
            let parcel = if part.event { Parcel::Event(bytes) } else { Parcel::Batch(bytes) };
            (parcel, weight)
        }))
    }
}

impl Gate {
    /// A remote producer announces what waits there.
    pub(super) fn remote_backlog(
        &self,
        channel: u32,
        link: &Arc<LinkIn>,
        index: u32,
        wants: (u64, u64),
    ) {
        let grants = self.with(|state, memory| {
            if state.closed.is_some() {
                return Vec::new();
            }
            state.announced(channel, link, index, wants);
            state.grant_wanting(memory)
        });
        for grant in grants {
            grant.send();
        }
    }

    /// A remote producer's element, or a part of one, came in.
    ///
    /// # Errors
    /// When it was not granted.
    pub(super) fn remote_part(
        &self,
        channel: u32,
        link: &Arc<LinkIn>,
        part: &Part<'_>,
    ) -> Result<(), CreditViolation> {
        let (whole, grants) = self.with(|state, memory| {
            if state.closed.is_some() {
                return Ok((None, Vec::new()));
            }
            let whole = state.arrived(channel, link, part, memory)?;
            // Queued under the same lock, before anything is granted on the ground that nothing waits.
            let wake = match whole {
                Some((parcel, weight)) => state.enqueue(channel, parcel, weight),
                None => false,
            };
            Ok((Some(wake), state.grant_wanting(memory)))
        })?;
        if whole == Some(true) {
            self.wake_consumer();
        }
        for grant in grants {
            grant.send();
        }
        Ok(())
    }
}
