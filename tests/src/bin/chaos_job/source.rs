//! The sources of the mix: splits are assigned on request and pushed unasked, and read at a pace.
//!
//! The results must not depend on which subtask reads what: splits are assigned in the order of their event times, each reader
//! reads its earliest split first, and a split that comes back is assigned before all later ones.

use super::{Event, Mix, Point, Points};
use flott::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

/// Readings that a paced reader emits at a time.
const PIECE: u64 = 4;
/// Every so many-th split is pushed to a reader that has not asked for it: in two of four cases right behind the one that was asked for,
/// in the others once the enumerator is woken.
const PUSH_EVERY: u64 = 3;
/// Time from one look at the gate to the next.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The input of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// Readings, in many splits.
    Readings,
    /// Limits, in one split.
    Limits,
    /// Clicks, in one split, each at most followed by a late one.
    Clicks,
}

impl Feed {
    /// Returns the number of positions of the source. A click has two: that of the click, and that of the late one.
    fn positions(self, mix: &Mix) -> u64 {
        match self {
            Self::Readings => mix.readings(),
            Self::Limits => mix.limits,
            Self::Clicks => mix.clicks * 2,
        }
    }
    fn per_split(self, mix: &Mix) -> u64 {
        match self {
            Self::Readings => mix.per_split,
            Self::Limits | Self::Clicks => self.positions(mix),
        }
        .max(1)
    }
}

/// Positions of a source, from the next one on.
#[derive(Debug, Clone, FlottType)]
pub(super) struct Range {
    next: u64,
    end: u64,
}

impl SourceSplit for Range {
    fn split_id(&self) -> String {
        self.end.to_string()
    }
}

/// A source of the mix.
pub(super) struct MixSource {
    pub(super) mix: Mix,
    pub(super) feed: Feed,
    pub(super) gate: Option<PathBuf>,
    pub(super) pace: Duration,
    pub(super) points: Points,
}

impl Source for MixSource {
    type Record = Event;
    type Split = Range;
    type Enumerator = Ranges;
    type Reader = RangeReader;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Range>,
        restored: Option<Vec<Range>>,
    ) -> Result<Ranges> {
        let (end, length) = (self.feed.positions(&self.mix), self.feed.per_split(&self.mix));
        let all = || (0..end).step_by(usize::try_from(length).unwrap_or(usize::MAX));
        let all = || all().map(|next| Range { next, end: end.min(next + length) }).collect();
        let ranges: Vec<Range> = restored.unwrap_or_else(all);
        let waiting = ranges.into_iter().map(|range| (range.end, range)).collect();
        Ok(Ranges { context, waiting, assigned: 0, owed: None, points: self.points.clone() })
    }
    fn create_reader(&self, _: &OperatorContext) -> Result<RangeReader> {
        let closed_from = self.feed.positions(&self.mix) * 4 / 5;
        Ok(RangeReader {
            mix: self.mix,
            feed: self.feed,
            gate: self.gate.clone().map(|file| (closed_from, file)),
            pace: self.pace,
            ranges: BTreeMap::new(),
            due_ms: 0,
            moved: None,
            points: self.points.clone(),
            state: Start::Fresh,
            asked: false,
            no_more: false,
        })
    }
}

/// Assigns splits in the order of their event times.
pub(super) struct Ranges {
    context: SplitEnumeratorContext<Range>,
    /// The splits that are not assigned, by their ends.
    waiting: BTreeMap<u64, Range>,
    /// Number of splits that this enumerator has assigned.
    assigned: u64,
    /// The subtask that has asked for a split before the one that is pushed when the enumerator is woken; `None` if none is to be.
    owed: Option<u32>,
    points: Points,
}

impl Ranges {
    /// Assigns the earliest split to a subtask. Returns false if there is none.
    fn assign(&mut self, subtask: u32) -> Result<bool> {
        let Some((_, range)) = self.waiting.pop_first() else { return Ok(false) };
        self.assigned += 1;
        self.context.assign_splits(subtask, vec![range])?;
        Ok(true)
    }

    /// Assigns the earliest split to a reader other than `asking`, which has not asked for it. A process is stopped before or after
    /// the split is sent.
    fn push(&mut self, asking: u32, point: Point) -> Result<()> {
        let readers: BTreeSet<u32> = self.context.registered_readers().into_iter().collect();
        let others = readers.range(asking + 1..).chain(readers.range(..asking));
        let Some(&other) = { others }.next() else { return Ok(()) };
        let is_even = self.assigned.is_multiple_of(2);
        if is_even {
            self.points.reach(point);
        }
        self.assign(other)?;
        if !is_even {
            self.points.reach(point);
        }
        Ok(())
    }
}

impl SplitEnumerator for Ranges {
    type Split = Range;
    type Checkpoint = Vec<Range>;

    fn handle_split_request(&mut self, subtask: u32) -> Result<()> {
        // A reader that asked, got a pushed split and asked again may have been told the end already by the first answer.
        if !self.context.registered_readers().contains(&subtask) {
            return Ok(());
        }
        if !self.assign(subtask)? {
            self.context.no_more_splits(subtask)?;
        } else if self.assigned.is_multiple_of(PUSH_EVERY) && !self.waiting.is_empty() {
            match self.assigned / PUSH_EVERY % 4 {
                0 | 1 => self.push(subtask, Point::EnumeratorPush)?,
                _ => {
                    self.owed = Some(subtask);
                    self.context.waker().wake();
                }
            }
        }
        Ok(())
    }
    /// Pushes a split later than the call that has led to it: a snapshot may come between the two.
    fn woken(&mut self) -> Result<()> {
        match self.owed.take() {
            Some(asking) if !self.waiting.is_empty() => self.push(asking, Point::EnumeratorWoken),
            _ => Ok(()),
        }
    }
    fn add_splits_back(&mut self, splits: Vec<Range>, _subtask: u32) -> Result<()> {
        self.waiting.extend(splits.into_iter().map(|range| (range.end, range)));
        Ok(())
    }
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Range>> {
        Ok(self.waiting.values().cloned().collect())
    }
}

/// Reads the earliest of its splits.
pub(super) struct RangeReader {
    mix: Mix,
    feed: Feed,
    /// Position from which on the reader waits until the file exists; `None`: it never waits.
    gate: Option<(u64, PathBuf)>,
    pace: Duration,
    /// The splits that are not read to their ends, by their ends.
    ranges: BTreeMap<u64, Range>,
    /// Time at which the next piece is due, in Unix milliseconds.
    due_ms: u64,
    /// The click whose event time this attempt has emitted: a late click is late only behind the watermark of the click before
    /// it, which a restored operator does not remember.
    moved: Option<u64>,
    points: Points,
    state: Start,
    asked: bool,
    no_more: bool,
}

/// The progress of a reader's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The reader is not started, and nothing was restored.
    Fresh,
    /// The splits of a snapshot were added, which happens before the start.
    Restored,
    Started,
}

impl RangeReader {
    /// Waits for the next look, if that is not due. Returns true if it is.
    fn is_due(&mut self, context: &mut ReaderContext<'_>) -> bool {
        let now_ms = context.now_unix_ms();
        if now_ms < self.due_ms {
            context.wake_after(Duration::from_millis(self.due_ms - now_ms));
            return false;
        }
        true
    }

    /// Returns true if the position is behind the gate, and the gate is closed. Once the gate is open, the rest is read as fast as
    /// possible.
    fn is_closed(&mut self, position: u64) -> bool {
        let Some((from, file)) = &self.gate else { return false };
        if file.exists() {
            (self.gate, self.pace) = (None, Duration::ZERO);
            return false;
        }
        position >= *from
    }
}

impl SourceReader for RangeReader {
    type Record = Event;
    type Split = Range;

    fn start(&mut self, _: &mut ReaderContext<'_>) -> Result<()> {
        if std::mem::replace(&mut self.state, Start::Started) == Start::Restored {
            self.points.reach(Point::Restore);
        }
        Ok(())
    }
    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<Event>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress> {
        let Some((end, position)) = self.ranges.first_key_value().map(|(end, r)| (*end, r.next))
        else {
            if self.no_more {
                return Ok(ReadProgress::Ended);
            }
            if !std::mem::replace(&mut self.asked, true) {
                context.request_splits();
            }
            return Ok(ReadProgress::Waiting);
        };
        if !self.is_due(context) {
            return Ok(ReadProgress::Waiting);
        }
        let is_closed = self.is_closed(position);
        let pause = if is_closed { LOOK_EVERY } else { self.pace };
        self.due_ms = context.now_unix_ms() + u64::try_from(pause.as_millis())?;
        if is_closed {
            context.wake_after(pause);
            return Ok(ReadProgress::Waiting);
        }
        let (click, is_late) = (position / 2, position % 2 == 1);
        let next = match self.feed {
            Feed::Readings => {
                let piece = if self.pace.is_zero() { most as u64 } else { PIECE };
                let to = end.min(position + piece.max(1));
                (position..to).for_each(|id| out.collect(Event::of(self.mix.reading(id))));
                to
            }
            Feed::Limits => {
                out.collect(Event::of(self.mix.limit(position)));
                position + 1
            }
            // Each record is a batch of its own: event time moves on behind a batch.
            Feed::Clicks if is_late => match self.mix.late_click(click) {
                Some(_) if self.moved != Some(click) => {
                    out.collect(Event::tick(self.mix.click(click)));
                    self.moved = Some(click);
                    position
                }
                late => {
                    late.into_iter().for_each(|late| out.collect(Event::of(late)));
                    position + 1
                }
            },
            Feed::Clicks => {
                out.collect(Event::of(self.mix.click(click)));
                self.moved = Some(click);
                position + 1
            }
        };
        if next >= end {
            self.ranges.pop_first();
        } else if let Some(range) = self.ranges.get_mut(&end) {
            range.next = next;
        }
        Ok(ReadProgress::More)
    }
    fn add_splits(&mut self, splits: Vec<Range>, _: &mut ReaderContext<'_>) -> Result<()> {
        self.asked = false;
        if self.state == Start::Fresh {
            self.state = Start::Restored;
        }
        self.ranges.extend(splits.into_iter().map(|range| (range.end, range)));
        Ok(())
    }
    fn no_more_splits(&mut self) {
        self.no_more = true;
    }
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Range>> {
        Ok(self.ranges.values().cloned().collect())
    }
}
