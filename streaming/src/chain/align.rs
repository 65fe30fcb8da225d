//! What control elements of many channels mean together: the smallest watermark, the barrier that all have
//! brought, the end that all have reached. Pure: channels and events in, steps out.

use crate::seam::{Barrier, StreamEvent};

/// What follows from an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This goes through the chain.
    Emit(StreamEvent),
    /// Nothing more is taken of this channel until all are let go.
    Pause(usize),
    /// All channels are let go.
    Resume,
}

#[derive(Debug, Clone, Copy)]
struct Channel {
    watermark: i64,
    idle: bool,
    ended: bool,
    /// It has brought the barrier that is being aligned.
    at_barrier: bool,
}

/// The state of all channels of a chain's head.
#[derive(Debug)]
pub struct Alignment {
    channels: Vec<Channel>,
    ended: usize,
    watermark: i64,
    idle: bool,
    barrier: Option<Barrier>,
    /// Barriers up to this checkpoint went through, or were given up.
    passed: Option<u64>,
}

impl Alignment {
    /// Of so many channels, all active.
    pub fn new(channels: usize) -> Self {
        let fresh = Channel { watermark: i64::MIN, idle: false, ended: false, at_barrier: false };
        Self {
            channels: vec![fresh; channels],
            ended: 0,
            watermark: i64::MIN,
            idle: false,
            barrier: None,
            passed: None,
        }
    }

    /// Whether every channel has ended.
    pub fn all_ended(&self) -> bool {
        self.ended == self.channels.len()
    }

    /// An event came on a channel. The steps are in order; at most one of them emits, but for the end of input,
    /// which may first let a barrier or watermark through.
    pub fn event(&mut self, channel: usize, event: StreamEvent) -> Vec<Step> {
        let Some(state) = self.channels.get_mut(channel) else { return Vec::new() };
        match event {
            _ if state.ended => Vec::new(),
            StreamEvent::Watermark(ms) => {
                if ms <= state.watermark {
                    return Vec::new();
                }
                // Only a channel that held the others back can let the smallest one grow.
                let held = state.watermark <= self.watermark;
                state.watermark = ms;
                if held { self.advance().into_iter().collect() } else { Vec::new() }
            }
            StreamEvent::Idle(idle) => {
                state.idle = idle;
                let mut steps: Vec<Step> = self.idleness().into_iter().collect();
                steps.extend(self.advance());
                steps
            }
            StreamEvent::Barrier(barrier) => self.barrier_came(channel, barrier),
            StreamEvent::EndOfInput => {
                state.ended = true;
                self.ended += 1;
                let mut steps = self.aligned();
                if self.all_ended() {
                    steps.push(Step::Emit(StreamEvent::EndOfInput));
                } else {
                    steps.extend(self.idleness());
                    steps.extend(self.advance());
                }
                steps
            }
        }
    }

    /// The smallest watermark of the channels that are active, where it has grown.
    fn advance(&mut self) -> Option<Step> {
        let active = self.channels.iter().filter(|c| !c.idle && !c.ended);
        let smallest = active.map(|c| c.watermark).min()?;
        if smallest <= self.watermark {
            return None;
        }
        self.watermark = smallest;
        Some(Step::Emit(StreamEvent::Watermark(smallest)))
    }

    fn idleness(&mut self) -> Option<Step> {
        let idle = self.channels.iter().all(|c| c.idle || c.ended);
        if idle == self.idle {
            return None;
        }
        self.idle = idle;
        Some(Step::Emit(StreamEvent::Idle(idle)))
    }

    fn barrier_came(&mut self, channel: usize, barrier: Barrier) -> Vec<Step> {
        if self.passed.is_some_and(|passed| barrier.checkpoint <= passed) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        match self.barrier {
            Some(current) if current.checkpoint > barrier.checkpoint => return Vec::new(),
            Some(current) if current.checkpoint < barrier.checkpoint => {
                // The older checkpoint was given up: its channels are let go and the newer one is aligned.
                self.passed = Some(current.checkpoint);
                self.channels.iter_mut().for_each(|c| c.at_barrier = false);
                steps.push(Step::Resume);
                self.barrier = Some(barrier);
            }
            Some(_) => {}
            None => self.barrier = Some(barrier),
        }
        if let Some(state) = self.channels.get_mut(channel) {
            state.at_barrier = true;
        }
        steps.push(Step::Pause(channel));
        steps.extend(self.aligned());
        steps
    }

    /// Lets the barrier through when every channel has brought it or ended.
    fn aligned(&mut self) -> Vec<Step> {
        let Some(barrier) = self.barrier else { return Vec::new() };
        if !self.channels.iter().all(|c| c.at_barrier || c.ended) {
            return Vec::new();
        }
        self.barrier = None;
        self.passed = Some(barrier.checkpoint);
        self.channels.iter_mut().for_each(|c| c.at_barrier = false);
        vec![Step::Emit(StreamEvent::Barrier(barrier)), Step::Resume]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn barrier(checkpoint: u64) -> Barrier {
        Barrier { checkpoint, triggered_ms: 0, last: false }
    }
    const END: StreamEvent = StreamEvent::EndOfInput;
    use StreamEvent::{Barrier as B, Idle, Watermark as W};

    #[test]
    fn the_smallest_watermark_counts() {
        let mut a = Alignment::new(2);
        assert_eq!(a.event(0, W(10)), []);
        assert_eq!(a.event(1, W(5)), [Step::Emit(W(5))]);
        assert_eq!(a.event(1, W(4)), []);
        assert_eq!(a.event(1, W(20)), [Step::Emit(W(10))]);
    }

    #[test]
    fn an_idle_channel_holds_nobody_back() {
        let mut a = Alignment::new(2);
        a.event(0, W(10));
        assert_eq!(a.event(1, Idle(true)), [Step::Emit(W(10))]);
        assert_eq!(a.event(0, Idle(true)), [Step::Emit(Idle(true))]);
        assert_eq!(a.event(0, Idle(false)), [Step::Emit(Idle(false))]);
        assert_eq!(a.event(0, W(11)), [Step::Emit(W(11))]);
    }

    #[test]
    fn an_ended_channel_holds_nobody_back() {
        let mut a = Alignment::new(2);
        a.event(0, W(10));
        assert_eq!(a.event(1, END), [Step::Emit(W(10))]);
        assert_eq!(a.event(1, W(99)), []);
        assert_eq!(a.event(0, END), [Step::Emit(END)]);
        assert!(a.all_ended());
    }

    #[test]
    fn a_barrier_waits_for_all_channels() {
        let mut a = Alignment::new(3);
        assert_eq!(a.event(0, B(barrier(1))), [Step::Pause(0)]);
        assert_eq!(a.event(2, B(barrier(1))), [Step::Pause(2)]);
        let through = [Step::Pause(1), Step::Emit(B(barrier(1))), Step::Resume];
        assert_eq!(a.event(1, B(barrier(1))), through);
        assert_eq!(a.event(1, B(barrier(1))), [], "late");
    }

    #[test]
    fn a_newer_barrier_overtakes_and_an_end_counts() {
        let mut a = Alignment::new(2);
        a.event(0, B(barrier(1)));
        assert_eq!(a.event(1, B(barrier(2))), [Step::Resume, Step::Pause(1)]);
        assert_eq!(a.event(0, B(barrier(1))), [], "given up");
        assert_eq!(a.event(0, END), [Step::Emit(B(barrier(2))), Step::Resume]);
    }

    proptest! {
        /// Whatever comes: watermarks only grow, barriers only grow, the end comes once and last, and a channel is
        /// paused no longer than a barrier is open.
        #[test]
        fn order_is_kept(events in prop::collection::vec((0_usize..4, 0_u8..4, 0_i64..20), 0..200)) {
            let mut a = Alignment::new(4);
            let (mut watermark, mut checkpoint, mut ended) = (i64::MIN, 0, false);
            for (channel, kind, n) in events {
                let event = match kind {
                    0 => W(n),
                    1 => Idle(n % 2 == 0),
                    2 => B(barrier(n as u64 + 1)),
                    _ if n < 3 => END,
                    _ => W(n + 5),
                };
                for step in a.event(channel, event) {
                    prop_assert!(!ended);
                    match step {
                        Step::Emit(W(ms)) => { prop_assert!(ms > watermark); watermark = ms; }
                        Step::Emit(B(b)) => { prop_assert!(b.checkpoint > checkpoint); checkpoint = b.checkpoint; }
                        Step::Emit(StreamEvent::EndOfInput) => ended = true,
                        _ => {}
                    }
                }
            }
            prop_assert_eq!(ended, a.all_ended());
        }
    }
}
