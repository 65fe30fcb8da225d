//! The kinds of windows, as a program names them.

use super::{
    CountWindow, EventTimeWindows, FixedGap, GapOf, ProcessingTimeWindows, SessionGap, Slices,
    WindowFolding, core::WindowCore, counts::RowCounts, late::Lateness, session_core::SessionCore,
};
use crate::{
    operators::{KeySelector, KeyedOperator, KeyedProcessFunction, Operator},
    state::{State, StateDeclaration},
    types::Record,
};
use std::time::Duration;

/// A kind of window for records of type `T`, for [`KeyedStream::window`](crate::api::KeyedStream::window).
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     api::{KeyedStream, WindowedStream},
///     operators::{EventTimeSessionWindows, KeySelector, WindowAssigner},
/// };
///
/// /// Any windows of keyed numbers.
/// fn counted<S: KeySelector<u64, Key = u64>, W: WindowAssigner<u64>>(
///     numbers: &KeyedStream<u64, S>,
///     assigner: W,
/// ) -> WindowedStream<u64, S, W> {
///     numbers.window(assigner)
/// }
///
/// fn visits<S: KeySelector<u64, Key = u64>>(numbers: &KeyedStream<u64, S>) {
///     counted(numbers, EventTimeSessionWindows::with_gap(Duration::from_secs(60))).count().print();
/// }
/// ```
pub trait WindowAssigner<T: Record>: Clone + Send + 'static {
    /// The operator of such windows.
    type Operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>: Operator<T, Out = F::Out>
        + 'static;
    /// What the job graph calls the operator.
    const KIND: &'static str;
    /// Returns what is wrong with the windows, if anything is.
    fn mistake(&self) -> Option<&'static str>;
    /// Returns the declaration of the operator's state.
    fn states<S: KeySelector<T>, F: WindowFolding<S::Key, T>>() -> Vec<StateDeclaration>;
    /// Makes the operator of one subtask, whose windows take late records as `lateness` says.
    fn operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
        &self,
        selector: S,
        folding: F,
        lateness: Lateness<T>,
    ) -> Self::Operator<S, F>;
}

/// Windows over event time, which can take late records.
pub trait EventTimeAssigner {}

/// Returns whole milliseconds, at most `i64::MAX`.
pub(crate) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns what is wrong with windows of that size and slide.
fn too_short(size: i64, slide: i64) -> Option<&'static str> {
    let short = size < 1 || slide < 1;
    short.then_some("size and slide of a window must be at least 1 ms")
}

/// Windows that begin in regular steps and are run over panes.
macro_rules! tumbling {
    ($(#[$doc:meta])* $type:ident, $operator:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type {
            size: i64,
            offset: i64,
        }

        impl $type {
            /// Makes windows of that size, in whole milliseconds, that begin at multiples of it since 1970 (UTC).
            pub fn of(size: Duration) -> Self {
                Self { size: whole_ms(size), offset: 0 }
            }
            /// Lets the windows begin later by `offset`.
            pub fn with_offset(self, offset: Duration) -> Self {
                Self { offset: whole_ms(offset), ..self }
            }
        }

        assigner!($type, $operator, $kind, |this| this.size);
    };
}

/// Windows that begin in regular steps and may overlap.
macro_rules! sliding {
    ($(#[$doc:meta])* $type:ident, $operator:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type {
            size: i64,
            slide: i64,
            offset: i64,
        }

        impl $type {
            /// Makes windows of that size, one every `slide`, both in whole milliseconds. They begin at multiples of
            /// `slide` since 1970 (UTC).
            pub fn of(size: Duration, slide: Duration) -> Self {
                Self { size: whole_ms(size), slide: whole_ms(slide), offset: 0 }
            }
            /// Lets the windows begin later by `offset`.
            pub fn with_offset(self, offset: Duration) -> Self {
                Self { offset: whole_ms(offset), ..self }
            }
        }

        assigner!($type, $operator, $kind, |this| this.slide);
    };
}

/// A kind of window that is run by size, slide and offset.
macro_rules! assigner {
    ($type:ty, $operator:ident, $kind:literal, |$this:ident| $slide:expr) => {
        impl<T: Record> WindowAssigner<T> for $type {
            type Operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>> =
                $operator<S, WindowCore<T, S, F>>;
            const KIND: &'static str = $kind;
            fn mistake(&self) -> Option<&'static str> {
                let $this = self;
                too_short(self.size, $slide)
            }
            fn states<S: KeySelector<T>, F: WindowFolding<S::Key, T>>() -> Vec<StateDeclaration> {
                WindowCore::<T, S, F>::declare()
            }
            fn operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
                &self,
                selector: S,
                folding: F,
                lateness: Lateness<T>,
            ) -> $operator<S, WindowCore<T, S, F>> {
                let $this = self;
                let slices = Slices::new(self.size, $slide, self.offset);
                $operator::new(selector, WindowCore::new(folding, slices, lateness))
            }
        }
    };
}

tumbling! {
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
    TumblingEventTimeWindows, EventTimeWindows, "tumbling_window"
}

sliding! {
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
    SlidingEventTimeWindows, EventTimeWindows, "sliding_window"
}

tumbling! {
    /// Windows of processing time that follow each other without gaps: a record is in the window in which the machine's clock is
    /// when the record comes.
    ///
    /// A window is fired when the clock has passed its last millisecond, which is the event time of what is emitted. The end of
    /// bounded input fires nothing, as in Flink: what is in a window then is lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::{Environment, operators::TumblingProcessingTimeWindows};
    ///
    /// fn lines_per_second(env: &Environment) {
    ///     let seconds = TumblingProcessingTimeWindows::of(Duration::from_secs(1));
    ///     env.sequence(0..).key_by_value(|n| n % 10).window(seconds).count().print();
    /// }
    /// ```
    TumblingProcessingTimeWindows, ProcessingTimeWindows, "tumbling_processing_time_window"
}

sliding! {
    /// Windows of processing time that begin in regular steps and may overlap. They are fired, and not fired, as
    /// [`TumblingProcessingTimeWindows`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::SlidingProcessingTimeWindows;
    ///
    /// // The last minute, every ten seconds.
    /// let ten = Duration::from_secs(10);
    /// let minutes = SlidingProcessingTimeWindows::of(Duration::from_secs(60), ten);
    /// ```
    SlidingProcessingTimeWindows, ProcessingTimeWindows, "sliding_processing_time_window"
}

impl EventTimeAssigner for TumblingEventTimeWindows {}
impl EventTimeAssigner for SlidingEventTimeWindows {}

/// Sessions of one clock.
macro_rules! sessions {
    ($(#[$doc:meta])* $type:ident, $operator:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type<G = FixedGap> {
            gap: G,
        }

        impl $type<FixedGap> {
            /// Makes sessions that are over when a key has had no record for `gap`, in whole milliseconds: at least 1.
            pub fn with_gap(gap: Duration) -> Self {
                Self { gap: FixedGap(whole_ms(gap)) }
            }
        }

        impl<F> $type<GapOf<F>> {
            /// Makes sessions with a gap that is computed from each record. A session is over when the gaps behind all of its
            /// records are; a gap of less than 1 ms fails the task.
            pub fn with_dynamic_gap<T>(gap: F) -> Self
            where
                F: FnMut(&T) -> Duration,
            {
                Self { gap: GapOf(gap) }
            }
        }

        impl<T: Record, G: SessionGap<T>> WindowAssigner<T> for $type<G> {
            type Operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>> =
                $operator<S, SessionCore<T, S, F, G>>;
            const KIND: &'static str = $kind;
            fn mistake(&self) -> Option<&'static str> {
                self.gap.mistake()
            }
            fn states<S: KeySelector<T>, F: WindowFolding<S::Key, T>>() -> Vec<StateDeclaration> {
                SessionCore::<T, S, F, G>::declare()
            }
            fn operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
                &self,
                selector: S,
                folding: F,
                lateness: Lateness<T>,
            ) -> Self::Operator<S, F> {
                $operator::new(selector, SessionCore::new(folding, self.gap.clone(), lateness))
            }
        }
    };
}

sessions! {
    /// Sessions of event time: the records of a key that have less than a gap between them, or just a gap. A record that falls
    /// between two sessions can make one of them.
    ///
    /// A session begins with its first record and ends a gap behind its last one. With an allowed lateness a session is kept for
    /// that long: a late record that belongs to it, or makes one of it and others, emits it again as it is then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::EventTimeSessionWindows;
    ///
    /// let half_hours = EventTimeSessionWindows::with_gap(Duration::from_secs(1_800));
    /// // Bots are gone sooner.
    /// let by_user = EventTimeSessionWindows::with_dynamic_gap(|(user, _): &(String, u64)| {
    ///     Duration::from_secs(if user.starts_with("bot") { 10 } else { 1_800 })
    /// });
    /// ```
    EventTimeSessionWindows, EventTimeWindows, "session_window"
}

sessions! {
    /// Sessions of processing time: a session is over when the machine's clock shows that a key has had no record for a gap. The
    /// end of bounded input fires nothing, as in Flink.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::ProcessingTimeSessionWindows;
    ///
    /// let minutes = ProcessingTimeSessionWindows::with_gap(Duration::from_secs(60));
    /// ```
    ProcessingTimeSessionWindows, ProcessingTimeWindows, "processing_time_session_window"
}

impl<G> EventTimeAssigner for EventTimeSessionWindows<G> {}

/// Windows by the number of a key's records, from
/// [`KeyedStream::count_window`](crate::api::KeyedStream::count_window).
#[derive(Debug, Clone, Copy)]
pub struct CountWindows {
    size: u64,
    slide: u64,
}

impl CountWindows {
    /// Makes windows of `size` records, one every `slide`.
    pub(crate) fn of(size: u64, slide: u64) -> Self {
        Self { size, slide }
    }
}

impl<T: Record> WindowAssigner<T> for CountWindows {
    type Operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>> =
        KeyedOperator<T, S, CountWindow<F>>;
    const KIND: &'static str = "count_window";
    fn mistake(&self) -> Option<&'static str> {
        let none = self.size < 1 || self.slide < 1;
        none.then_some("size and slide of a count window must be at least 1 record")
    }
    fn states<S: KeySelector<T>, F: WindowFolding<S::Key, T>>() -> Vec<StateDeclaration> {
        let mut states = <CountWindow<F> as KeyedProcessFunction<S::Key, T>>::State::declare();
        states.iter_mut().for_each(|state| "count-window".clone_into(&mut state.name));
        states
    }
    fn operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
        &self,
        selector: S,
        folding: F,
        _lateness: Lateness<T>,
    ) -> Self::Operator<S, F> {
        let function = CountWindow::new(RowCounts::new(self.size, self.slide), folding);
        let states = <Self as WindowAssigner<T>>::states::<S, F>();
        KeyedOperator::new(selector, function, states)
    }
}
