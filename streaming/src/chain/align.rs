//! Merges the control elements of many channels: the smallest watermark, the barrier that all channels have delivered,
//! the end that all have reached. The module is pure: events of channels in, steps out.

use crate::seam::{Barrier, StreamEvent};
use std::collections::BTreeSet;

/// An action that a chain's head, the reader of its inputs, has to take because of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Hand the event to the chain's operators, after what was handed to them before.
    Emit(StreamEvent),
    /// No element may be taken from the channel with this number, counted over all inputs of the chain, until [`Step::Resume`].
    Pause(usize),
    /// Elements may be taken from all channels again.
    Resume,
}

/// The state of one channel.
#[derive(Debug, Clone, Copy)]
struct Channel {
    watermark: i64,
    idle: bool,
    ended: bool,
    /// True if the channel's watermark counts for the smallest one: the channel is active and has caught up with the
    /// last watermark that passed.
    aligned: bool,
    /// True if the channel has delivered the barrier that is being aligned.
    at_barrier: bool,
}

impl Channel {
    fn is_active(&self) -> bool {
        !self.idle && !self.ended
    }
}

/// Merges the control events of the input channels of a chain (watermarks, idleness, barriers, ends) into those that pass through the
/// chain. It only decides: its caller, the chain's head, pauses the channels.
///
/// Watermarks follow Flink's `StatusWatermarkValve`: the smallest watermark of the *aligned* channels passes. A channel that was idle and
/// is active again is aligned when its watermark reaches the last one that passed; until then it does not hold back the others. When the
/// last active channel becomes idle or ends, the largest watermark of the channels that have not ended passes; but not if the last one
/// became idle before it had caught up. A channel that has ended no longer counts; it has delivered the final watermark before its end,
/// unless its source was stopped.
///
/// Example with two channels: after watermark 10 of channel 0 and 7 of channel 1, 7 has passed. If channel 1 becomes
/// idle, 10 passes.
#[derive(Debug)]
pub struct Alignment {
    channels: Vec<Channel>,
    /// The watermark and the number of each aligned channel.
    aligned: BTreeSet<(i64, usize)>,
    ended: usize,
    watermark: i64,
    idle: bool,
    barrier: Option<Barrier>,
    /// True if a channel delivers barriers after its end too, until the final checkpoint of the job. Otherwise a channel that has
    /// ended holds back no barrier.
    barriers_after_end: bool,
    /// The newest checkpoint whose barrier has passed or was given up; older barriers are ignored.
    passed: Option<u64>,
}

impl Alignment {
    /// Creates the state of `channels` channels, all active and without a watermark. `barriers_after_end` is true if every channel
    /// delivers barriers until the final checkpoint, also after its end; if false, a channel that has ended holds back no barrier.
    pub fn new(channels: usize, barriers_after_end: bool) -> Self {
        let fresh = Channel {
            watermark: i64::MIN,
            idle: false,
            ended: false,
            aligned: true,
            at_barrier: false,
        };
        Self {
            channels: vec![fresh; channels],
            aligned: (0..channels).map(|channel| (i64::MIN, channel)).collect(),
            ended: 0,
            watermark: i64::MIN,
            idle: false,
            barrier: None,
            passed: None,
            barriers_after_end,
        }
    }

    /// Returns true if every channel has delivered its end of input.
    pub fn all_ended(&self) -> bool {
        self.ended == self.channels.len()
    }

    /// Takes an event of a channel and returns the steps that follow from it, in order: a barrier that was waited for precedes the end of
    /// input, and a watermark precedes the idleness that let it pass. Events of a channel that does not exist are ignored. Of a channel
    /// that has ended only barriers count, and these only if `barriers_after_end` is true. The barrier of a newer checkpoint ends the wait
    /// for an older one; barriers older than the one that is waited for, or of checkpoints up to the last one that passed or was given up,
    /// are ignored, and so are watermarks of idle channels and those not above the channel's last one.
    pub fn event(&mut self, channel: usize, event: StreamEvent) -> Vec<Step> {
        let Some(state) = self.channels.get_mut(channel) else { return Vec::new() };
        match event {
            StreamEvent::Barrier(barrier) if self.barriers_after_end || !state.ended => {
                self.barrier_came(channel, barrier)
            }
            _ if state.ended => Vec::new(),
            StreamEvent::Watermark(ms) => self.watermark_came(channel, ms).into_iter().collect(),
            StreamEvent::Idle(idle) if idle == state.idle => Vec::new(),
            StreamEvent::Idle(true) => {
                state.idle = true;
                self.left(channel)
            }
            StreamEvent::Idle(false) => {
                state.idle = false;
                if state.watermark >= self.watermark {
                    self.align(channel);
                }
                let woken = std::mem::replace(&mut self.idle, false);
                woken.then_some(Step::Emit(StreamEvent::Idle(false))).into_iter().collect()
            }
            StreamEvent::Barrier(_) => Vec::new(),
            StreamEvent::EndOfInput => {
                state.ended = true;
                self.ended += 1;
                let mut steps = self.aligned();
                let left = self.left(channel);
                if self.all_ended() {
                    steps.push(Step::Emit(StreamEvent::EndOfInput));
                } else {
                    steps.extend(left);
                }
                steps
            }
        }
    }

    fn watermark_came(&mut self, channel: usize, ms: i64) -> Option<Step> {
        let state = self.channels.get_mut(channel)?;
        if state.idle || ms <= state.watermark {
            return None;
        }
        let before = std::mem::replace(&mut state.watermark, ms);
        if state.aligned {
            self.aligned.remove(&(before, channel));
            self.aligned.insert((ms, channel));
        } else if ms >= self.watermark {
            self.align(channel);
        }
        self.advance()
    }

    /// Makes a channel aligned, so that its watermark counts.
    fn align(&mut self, channel: usize) {
        if let Some(state) = self.channels.get_mut(channel) {
            state.aligned = true;
            self.aligned.insert((state.watermark, channel));
        }
    }

    /// Handles a channel that has become idle or has ended: its watermark no longer counts.
    fn left(&mut self, channel: usize) -> Vec<Step> {
        let Some(state) = self.channels.get_mut(channel) else { return Vec::new() };
        state.aligned = false;
        let (watermark, ended) = (state.watermark, state.ended);
        self.aligned.remove(&(watermark, channel));
        if self.channels.iter().any(Channel::is_active) {
            return self.advance().into_iter().collect();
        }
        let mut steps = Vec::new();
        // No channel is active, so no further watermark comes: the largest one passes, unless the last active channel
        // had not caught up.
        if ended || watermark == self.watermark {
            let waiting = self.channels.iter().filter(|c| !c.ended);
            let largest = waiting.map(|c| c.watermark).max();
            steps.extend(largest.and_then(|ms| self.emit(ms)));
        }
        if !std::mem::replace(&mut self.idle, true) {
            steps.push(Step::Emit(StreamEvent::Idle(true)));
        }
        steps
    }

    /// Returns the step for the smallest watermark of the aligned channels, if it has grown.
    fn advance(&mut self) -> Option<Step> {
        let (smallest, _) = *self.aligned.first()?;
        self.emit(smallest)
    }

    /// Returns the step for a watermark, if it is greater than the last one that passed.
    fn emit(&mut self, ms: i64) -> Option<Step> {
        (ms > self.watermark).then(|| {
            self.watermark = ms;
            Step::Emit(StreamEvent::Watermark(ms))
        })
    }

    fn barrier_came(&mut self, channel: usize, barrier: Barrier) -> Vec<Step> {
        if self.passed.is_some_and(|passed| barrier.checkpoint <= passed) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        match self.barrier {
            Some(current) if current.checkpoint > barrier.checkpoint => return Vec::new(),
            Some(current) if current.checkpoint < barrier.checkpoint => {
                // The newer barrier shows that the older checkpoint was given up: its channels resume and the newer
                // barrier is aligned.
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

    /// Returns the steps that pass the barrier and resume the channels, if every channel has delivered the barrier or
    /// has ended.
    fn aligned(&mut self) -> Vec<Step> {
        let Some(barrier) = self.barrier else { return Vec::new() };
        let after_end = self.barriers_after_end;
        if !self.channels.iter().all(|c| c.at_barrier || (c.ended && !after_end)) {
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
        Barrier { checkpoint, ..Barrier::default() }
    }
    const END: StreamEvent = StreamEvent::EndOfInput;
    use StreamEvent::{Barrier as B, Idle, Watermark as W};

    const fn w(ms: i64) -> Step {
        Step::Emit(W(ms))
    }
    const fn idle(idle: bool) -> Step {
        Step::Emit(Idle(idle))
    }

    // Cases of Flink's StatusWatermarkValveTest, in its order.

    #[test]
    fn watermarks_of_one_channel_pass_as_they_grow() {
        let mut a = Alignment::new(1, false);
        assert_eq!(a.event(0, W(0)), [w(0)]);
        assert_eq!(a.event(0, W(25)), [w(25)]);
        assert_eq!((a.event(0, W(18)), a.event(0, W(25))), (vec![], vec![]));
    }

    #[test]
    fn the_status_of_one_channel_passes_when_it_changes() {
        let mut a = Alignment::new(1, false);
        assert_eq!(a.event(0, Idle(false)), []);
        assert_eq!(a.event(0, Idle(true)), [idle(true)]);
        assert_eq!(a.event(0, Idle(true)), []);
        assert_eq!(a.event(0, Idle(false)), [idle(false)]);
    }

    #[test]
    fn an_idle_channel_brings_no_watermark() {
        let mut a = Alignment::new(1, false);
        assert_eq!(a.event(0, W(25)), [w(25)]);
        assert_eq!(a.event(0, Idle(true)), [idle(true)]);
        assert_eq!(a.event(0, W(50)), []);
        assert_eq!(a.event(0, Idle(false)), [idle(false)]);
        assert_eq!(a.event(0, W(50)), [w(50)]);
    }

    #[test]
    fn a_watermark_passes_once_every_channel_has_one() {
        let mut a = Alignment::new(3, false);
        assert_eq!((a.event(0, W(0)), a.event(1, W(0))), (vec![], vec![]));
        assert_eq!(a.event(2, W(0)), [w(0)]);
    }

    #[test]
    fn the_smallest_watermark_counts() {
        let mut a = Alignment::new(3, false);
        for channel in 0..3 {
            a.event(channel, W(0));
        }
        assert_eq!(
            (a.event(0, W(12)), a.event(2, W(8)), a.event(2, W(10))),
            (vec![], vec![], vec![])
        );
        assert_eq!(a.event(1, W(15)), [w(10)]);
        assert_eq!(a.event(2, W(17)), [w(12)]);
        assert_eq!((a.event(0, W(12)), a.event(1, W(4))), (vec![], vec![]), "not greater");
    }

    #[test]
    fn all_channels_together_are_idle_when_each_one_is() {
        let mut a = Alignment::new(2, false);
        assert_eq!(a.event(0, Idle(true)), []);
        assert_eq!(a.event(1, Idle(true)), [idle(true)]);
        assert_eq!(a.event(0, Idle(false)), [idle(false)]);
        assert_eq!(a.event(1, Idle(false)), []);
    }

    #[test]
    fn an_idle_channel_holds_nobody_back() {
        let mut a = Alignment::new(3, false);
        a.event(0, W(15));
        a.event(1, W(10));
        assert_eq!(a.event(2, Idle(true)), [w(10)]);
        assert_eq!(a.event(1, W(18)), [w(15)]);
        assert_eq!(a.event(1, Idle(true)), []);
        assert_eq!(a.event(0, W(20)), [w(20)]);
    }

    #[test]
    fn watermarks_advance_as_channels_become_idle_one_by_one() {
        let mut a = Alignment::new(3, false);
        a.event(0, W(25));
        a.event(1, W(10));
        assert_eq!(a.event(2, W(17)), [w(10)]);
        assert_eq!(a.event(1, Idle(true)), [w(17)]);
        assert_eq!(a.event(2, Idle(true)), [w(25)]);
    }

    #[test]
    fn the_largest_watermark_passes_when_the_last_channel_becomes_idle() {
        let mut a = Alignment::new(3, false);
        a.event(0, W(10));
        a.event(1, W(5));
        assert_eq!(a.event(2, W(3)), [w(3)]);
        assert_eq!(a.event(0, Idle(true)), []);
        assert_eq!(a.event(1, Idle(true)), []);
        assert_eq!(a.event(2, Idle(true)), [w(10), idle(true)]);
    }

    #[test]
    fn a_channel_that_is_active_again_counts_once_it_has_caught_up() {
        let mut a = Alignment::new(2, false);
        a.event(0, W(10));
        assert_eq!(a.event(1, Idle(true)), [w(10)]);
        assert_eq!(a.event(1, W(20)), [], "of an idle channel");
        assert_eq!(a.event(1, Idle(false)), []);
        assert_eq!(a.event(0, W(13)), [w(13)], "the other one is behind and holds nobody back");
        assert_eq!(a.event(1, W(11)), [], "still behind");
        assert_eq!(a.event(0, W(15)), [w(15)]);
        assert_eq!(a.event(1, W(17)), [], "caught up");
        assert_eq!(a.event(0, W(20)), [w(17)], "and so it counts");
    }

    #[test]
    fn nothing_passes_while_every_active_channel_is_behind() {
        let mut a = Alignment::new(3, false);
        a.event(0, W(10));
        a.event(1, W(5));
        assert_eq!(a.event(2, W(8)), [w(5)]);
        a.event(0, Idle(true));
        assert_eq!(a.event(1, Idle(true)), [w(8)]);
        assert_eq!(a.event(2, W(20)), [w(20)]);
        // Both others are active again, at 10 and 5, and the only channel that counted leaves.
        assert_eq!((a.event(0, Idle(false)), a.event(1, Idle(false))), (vec![], vec![]));
        assert_eq!(a.event(2, Idle(true)), []);
        assert_eq!((a.event(0, W(15)), a.event(1, W(19))), (vec![], vec![]));
        assert_eq!(a.event(1, W(21)), [w(21)]);
    }

    #[test]
    fn a_channel_that_is_behind_and_becomes_idle_lets_nothing_pass() {
        let mut a = Alignment::new(2, false);
        a.event(0, W(10));
        assert_eq!(a.event(1, W(7)), [w(7)]);
        assert_eq!(a.event(1, Idle(true)), [w(10)]);
        assert_eq!(a.event(1, Idle(false)), []);
        assert_eq!(a.event(0, Idle(true)), []);
        assert_eq!(a.event(1, W(9)), []);
        assert_eq!(a.event(1, Idle(true)), [idle(true)]);
    }

    #[test]
    fn an_ended_channel_holds_nobody_back() {
        let mut a = Alignment::new(2, false);
        a.event(0, W(10));
        assert_eq!(a.event(1, END), [w(10)]);
        assert_eq!(a.event(1, W(99)), []);
        assert_eq!(a.event(0, END), [Step::Emit(END)]);
        assert!(a.all_ended());
    }

    #[test]
    fn a_channel_that_ends_without_a_final_watermark_leaves_like_an_idle_one() {
        let mut a = Alignment::new(2, false);
        a.event(0, W(10));
        a.event(1, W(7));
        assert_eq!(a.event(0, Idle(true)), []);
        assert_eq!(a.event(1, END), [w(10), idle(true)]);
        assert_eq!((a.event(0, Idle(false)), a.event(0, W(12))), (vec![idle(false)], vec![w(12)]));
    }

    #[test]
    fn a_barrier_waits_for_all_channels() {
        let mut a = Alignment::new(3, false);
        assert_eq!(a.event(0, B(barrier(1))), [Step::Pause(0)]);
        assert_eq!(a.event(2, B(barrier(1))), [Step::Pause(2)]);
        let through = [Step::Pause(1), Step::Emit(B(barrier(1))), Step::Resume];
        assert_eq!(a.event(1, B(barrier(1))), through);
        assert_eq!(a.event(1, B(barrier(1))), [], "late");
    }

    #[test]
    fn a_newer_barrier_overtakes_and_an_end_counts() {
        let mut a = Alignment::new(2, false);
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
            let mut a = Alignment::new(4, false);
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
