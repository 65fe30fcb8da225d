//! The kinds of windows, as a program names them.

use super::{EventTimeWindows, Slices, WindowFolding};
use crate::operators::{KeySelector, Operator};
use std::time::Duration;

/// A kind of window, for [`KeyedStream::window`](crate::api::KeyedStream::window).
pub trait WindowAssigner: Clone + Send + 'static {
    /// The operator of such windows.
    type Operator<T: Send + 'static, S: KeySelector<T>, F: WindowFolding<S::Key, T>>: Operator<T, Out = F::Out>
        + 'static;
    /// What the job graph calls the operator.
    const KIND: &'static str;
    /// Returns what is wrong with the windows, if anything is.
    fn mistake(&self) -> Option<&'static str>;
    /// Makes the operator of one subtask.
    fn operator<T: Send + 'static, S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
        &self,
        selector: S,
        folding: F,
        lateness_ms: i64,
    ) -> Self::Operator<T, S, F>;
}

/// Windows over event time, which can take late records.
pub trait EventTimeAssigner: WindowAssigner {}

/// Returns whole milliseconds, at most `i64::MAX`.
pub(crate) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Windows of event time that follow each other without gaps.
///
/// ```
/// use std::time::Duration;
/// use streaming::operators::TumblingEventTimeWindows;
///
/// let days = TumblingEventTimeWindows::of(Duration::from_secs(86_400));
/// // They begin at midnight in China, which is 16:00 UTC.
/// let days = days.with_offset(Duration::from_secs(16 * 3_600));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TumblingEventTimeWindows {
    size: i64,
    offset: i64,
}

impl TumblingEventTimeWindows {
    /// Makes windows of that size, in whole milliseconds, that begin at multiples of it since 1970 (UTC).
    pub fn of(size: Duration) -> Self {
        Self { size: whole_ms(size), offset: 0 }
    }
    /// Lets the windows begin later by `offset`.
    pub fn with_offset(self, offset: Duration) -> Self {
        Self { offset: whole_ms(offset), ..self }
    }
}

/// Windows of event time that begin in regular steps and may overlap: a record is in each window that covers its time.
///
/// What a record costs does not grow with size ÷ slide. What a window costs when it fires does: it is put together from
/// panes whose length is the greatest common divisor of size and slide.
///
/// ```
/// use std::time::Duration;
/// use streaming::operators::SlidingEventTimeWindows;
///
/// // The last hour, every minute.
/// let hours = SlidingEventTimeWindows::of(Duration::from_secs(3_600), Duration::from_secs(60));
/// let at_half_past = hours.with_offset(Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SlidingEventTimeWindows {
    size: i64,
    slide: i64,
    offset: i64,
}

impl SlidingEventTimeWindows {
    /// Makes windows of that size, one every `slide`, both in whole milliseconds. They begin at multiples of `slide` since
    /// 1970 (UTC).
    pub fn of(size: Duration, slide: Duration) -> Self {
        Self { size: whole_ms(size), slide: whole_ms(slide), offset: 0 }
    }
    /// Lets the windows begin later by `offset`.
    pub fn with_offset(self, offset: Duration) -> Self {
        Self { offset: whole_ms(offset), ..self }
    }
}

/// Returns what is wrong with windows of that size and slide.
fn too_short(size: i64, slide: i64) -> Option<&'static str> {
    let short = size < 1 || slide < 1;
    short.then_some("size and slide of a window must be at least 1 ms")
}

/// A kind of window that one operator runs by size, slide and offset.
macro_rules! assigner {
    ($type:ty, $operator:ident, $kind:literal, |$this:ident| $slide:expr) => {
        impl WindowAssigner for $type {
            type Operator<T: Send + 'static, S: KeySelector<T>, F: WindowFolding<S::Key, T>> =
                $operator<T, S, F>;
            const KIND: &'static str = $kind;
            fn mistake(&self) -> Option<&'static str> {
                let $this = self;
                too_short(self.size, $slide)
            }
            fn operator<T: Send + 'static, S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
                &self,
                selector: S,
                folding: F,
                lateness_ms: i64,
            ) -> $operator<T, S, F> {
                let $this = self;
                let slices = Slices::new(self.size, $slide, self.offset);
                $operator::new(selector, folding, slices, lateness_ms)
            }
        }
    };
}

assigner!(TumblingEventTimeWindows, EventTimeWindows, "tumbling_window", |this| this.size);
assigner!(SlidingEventTimeWindows, EventTimeWindows, "sliding_window", |this| this.slide);
impl EventTimeAssigner for TumblingEventTimeWindows {}
impl EventTimeAssigner for SlidingEventTimeWindows {}
