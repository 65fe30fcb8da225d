//! The kinds of windows that a program can name, and how each of them becomes an operator.

use super::{
    CountWindow, EventTimeWindows, FixedGap, GapOf, ProcessingTimeWindows, SessionGap, Slices,
    WindowFolding,
    core::WindowCore,
    counts::RowCounts,
    key_core::KeyCore,
    key_panes::KeyPanes,
    late::Lateness,
    pane_rule::{PaneCore, PaneRule},
    session_rule::{SessionCore, SessionRule},
};
use crate::{
    operators::{KeySelector, KeyedOperator, KeyedProcessFunction, Operator},
    state::{State, StateBackend, StateDeclaration},
    types::Record,
};
use std::time::Duration;

/// A kind of windows for records of type `T`, for [`KeyedStream::window`](crate::api::KeyedStream::window): their size, and the operator
/// that runs them. Its methods are called when the program is built, and to make the operator of each subtask; that operator assigns
/// records to windows.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     api::{KeyedStream, WindowedStream},
///     operators::{EventTimeSessionWindows, KeySelector, WindowAssigner},
/// };
///
/// /// Counts the numbers of each key in windows of any kind.
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
    #[doc(hidden)]
    /// The operator that runs these windows with key selector `S` and the computation `F`.
    type Operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>: Operator<T, Out = F::Out>
        + 'static;
    #[doc(hidden)]
    /// The operator's kind in the job graph, such as `tumbling_window`.
    const KIND: &'static str;
    #[doc(hidden)]
    /// Returns why the windows are invalid (a size, slide or gap below 1 ms, a count below 1), `None` if they are valid.
    /// `KeyedStream::window` calls this, and an invalid window makes the program's graph invalid.
    fn mistake(&self) -> Option<&'static str>;
    #[doc(hidden)]
    /// Returns the declaration of the operator's keyed state, for the job graph. A restore is refused if the declared types have changed.
    fn states<S: KeySelector<T>, F: WindowFolding<S::Key, T>>() -> Vec<StateDeclaration>;
    #[doc(hidden)]
    /// Returns the settings on which the content of the operator's state depends, as
    /// [`StateDeclaration::settings`] has them: size, slide and offset of tumbling and sliding windows. A restore is refused if they have
    /// changed. `None`, as by default: the state can be read with all settings.
    fn settings(&self) -> Option<String> {
        None
    }
    #[doc(hidden)]
    /// Makes the operator of one subtask. `lateness` says how long its windows are kept for late records and what happens to
    /// records that come later still; windows by count ignore it.
    fn operator<S: KeySelector<T>, F: WindowFolding<S::Key, T>>(
        &self,
        selector: S,
        folding: F,
        lateness: Lateness<T>,
    ) -> Self::Operator<S, F>;
}

/// Marks windows over event time (tumbling, sliding, sessions), the only ones that can take late records
/// ([`WindowedStream::allowed_lateness`](crate::api::WindowedStream::allowed_lateness)). Has no methods.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     Stream,
///     operators::{EventTimeAssigner, OutputTag, TumblingEventTimeWindows, WindowAssigner},
/// };
///
/// const LATE: OutputTag<u64> = OutputTag::new("late");
///
/// /// Counts numbers in windows that wait for late records, and returns the numbers that come too late even so.
/// fn counted<W>(numbers: &Stream<u64>, windows: W) -> (Stream<(u64, u64)>, Stream<u64>)
/// where
///     W: WindowAssigner<u64> + EventTimeAssigner,
/// {
///     let windowed = numbers.key_by(|n| n).window(windows);
///     let lateness = Duration::from_secs(5);
///     let counts = windowed.allowed_lateness(lateness).side_output_late_data(&LATE).count();
///     let late = counts.side_output(&LATE);
///     (counts, late)
/// }
///
/// fn per_minute(numbers: &Stream<u64>) {
///     let (counts, late) = counted(numbers, TumblingEventTimeWindows::of(Duration::from_secs(60)));
///     counts.print();
///     late.print();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no late records",
    label = "not windows of event time",
    note = "windows of processing time and of a number of records take every record: leave `allowed_lateness` and `side_output_late_data` out, or use windows of event time, such as `TumblingEventTimeWindows`"
)]
pub trait EventTimeAssigner {}

/// Returns the duration in milliseconds, rounded down, at most `i64::MAX`.
pub(crate) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns an error text if size or slide is below 1 ms.
fn too_short(size: i64, slide: i64) -> Option<&'static str> {
    let short = size < 1 || slide < 1;
    short.then_some("size and slide of a window must be at least 1 ms")
}

/// Declares tumbling windows of one clock: their type, and the operator and kind that run them.
macro_rules! tumbling {
    ($(#[$doc:meta])* $type:ident, $operator:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type {
            size: i64,
            offset: i64,
        }

        impl $type {
            /// Makes windows of `size`, rounded down to whole milliseconds. They begin at multiples of `size` since 1970 (UTC). A size
            /// below 1 ms makes the program invalid.
            pub fn of(size: Duration) -> Self {
                Self { size: whole_ms(size), offset: 0 }
            }
            /// Returns the windows with all beginnings later by `offset`, in whole milliseconds and modulo the size; replaces an earlier
            /// offset. State of windows with another offset cannot be restored.
            pub fn with_offset(self, offset: Duration) -> Self {
                Self { offset: whole_ms(offset), ..self }
            }
        }

        assigner!($type, $operator, $kind, |this| this.size);
    };
}

/// Declares sliding windows of one clock: their type, and the operator and kind that run them.
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
            /// Makes windows of `size`, one every `slide`, both rounded down to whole milliseconds. They begin at multiples of
            /// `slide` since 1970 (UTC). A size or slide below 1 ms makes the program invalid.
            pub fn of(size: Duration, slide: Duration) -> Self {
                Self { size: whole_ms(size), slide: whole_ms(slide), offset: 0 }
            }
            /// Returns the windows with all beginnings later by `offset`, in whole milliseconds and modulo the slide; replaces an earlier
            /// offset. State of windows with another offset cannot be restored.
            pub fn with_offset(self, offset: Duration) -> Self {
                Self { offset: whole_ms(offset), ..self }
            }
        }

        assigner!($type, $operator, $kind, |this| this.slide);
    };
}

/// Implements [`WindowAssigner`] for a type with size, slide and offset.
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
            fn settings(&self) -> Option<String> {
                let $this = self;
                let slices = Slices::new(self.size, $slide, self.offset);
                Some(format!("windows with {}", Slices::text(slices.parts())))
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

        impl $type {
            /// Makes the operator of one subtask that keeps the panes of each key as one state in `backend`, which may fetch it
            /// from outside of memory. The operator that [`WindowAssigner::operator`] makes is faster, but has all state in memory.
            /// Each restores what the other has written.
            #[doc(hidden)]
            pub fn operator_with_backend<T, S, F, B>(
                &self,
                selector: S,
                folding: F,
                lateness: Lateness<T>,
                backend: B,
            ) -> $operator<S, PaneCore<T, S, F, B>>
            where
                T: Record,
                S: KeySelector<T>,
                F: WindowFolding<S::Key, T>,
                B: StateBackend<S::Key, KeyPanes<F::Kept>>,
            {
                let $this = self;
                let rule = PaneRule(Slices::new(self.size, $slide, self.offset));
                $operator::new(selector, KeyCore::with_backend(folding, rule, lateness, backend))
            }
        }
    };
}

tumbling! {
    /// Windows of event time that follow each other without gaps: a record belongs to the one window that covers its event
    /// time. A window fires when the watermark reaches its last millisecond, which is the event time of the emitted records, at the
    /// latest at the end of bounded input. A record that comes later is dropped and counted (`numLateRecordsDropped`), unless
    /// `allowed_lateness` or `side_output_late_data` was called. A record without an event time fails the task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::TumblingEventTimeWindows;
    ///
    /// let days = TumblingEventTimeWindows::of(Duration::from_secs(86_400));
    /// // Lets days begin at midnight in China, which is 16:00 UTC.
    /// let days = days.with_offset(Duration::from_secs(16 * 3_600));
    /// ```
    TumblingEventTimeWindows, EventTimeWindows, "tumbling_window"
}

sliding! {
    /// Windows of event time, one every slide, that may overlap: a record belongs to every window that covers its event time.
    /// With a slide greater than the size, records between two windows are dropped; only those that are late as well count as late
    /// records or go to their side output. Windows fire as [`TumblingEventTimeWindows`] do.
    ///
    /// The cost of adding a record does not depend on size ÷ slide. Firing a window costs more the more panes it has: a pane is
    /// as long as the greatest common divisor of size and slide, so one hour every minute has 60 panes per window.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::SlidingEventTimeWindows;
    ///
    /// // One hour per window, a new window every minute.
    /// let hours = SlidingEventTimeWindows::of(Duration::from_secs(3_600), Duration::from_secs(60));
    /// let at_half_past = hours.with_offset(Duration::from_secs(30));
    /// ```
    SlidingEventTimeWindows, EventTimeWindows, "sliding_window"
}

tumbling! {
    /// Windows of processing time that follow each other without gaps: a record belongs to the window that covers the time on
    /// the machine's clock when the operator gets the record.
    ///
    /// A window is fired when the clock has passed its last millisecond, which becomes the event time of the emitted records.
    /// The end of bounded input fires no other windows, as in Flink: records of windows that are not over then are lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::{Environment, operators::TumblingProcessingTimeWindows};
    ///
    /// fn lines_per_second(env: &Environment) {
    ///     let seconds = TumblingProcessingTimeWindows::of(Duration::from_secs(1));
    ///     // Lets the windows begin in the middle of a second.
    ///     let seconds = seconds.with_offset(Duration::from_millis(500));
    ///     env.sequence(0..).key_by_value(|n| n % 10).window(seconds).count().print();
    /// }
    /// ```
    TumblingProcessingTimeWindows, ProcessingTimeWindows, "tumbling_processing_time_window"
}

sliding! {
    /// Windows of processing time, one every slide, that may overlap. They are fired as [`TumblingProcessingTimeWindows`] are:
    /// by the clock, and not by the end of bounded input.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::SlidingProcessingTimeWindows;
    ///
    /// // One minute per window, a new window every ten seconds.
    /// let ten = Duration::from_secs(10);
    /// let minutes = SlidingProcessingTimeWindows::of(Duration::from_secs(60), ten);
    /// let five_seconds_later = minutes.with_offset(Duration::from_secs(5));
    /// ```
    SlidingProcessingTimeWindows, ProcessingTimeWindows, "sliding_processing_time_window"
}

impl EventTimeAssigner for TumblingEventTimeWindows {}
impl EventTimeAssigner for SlidingEventTimeWindows {}

/// Declares sessions of one clock: their type, and the operator and kind that run them.
macro_rules! sessions {
    ($(#[$doc:meta])* $type:ident, $operator:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type<G = FixedGap> {
            gap: G,
        }

        impl $type<FixedGap> {
            /// Makes sessions that end when a key has had no record for `gap`, rounded down to whole milliseconds. A gap below 1 ms makes
            /// the program invalid.
            pub fn with_gap(gap: Duration) -> Self {
                Self { gap: FixedGap(whole_ms(gap)) }
            }
        }

        impl<F> $type<GapOf<F>> {
            /// Makes sessions whose gap `gap` computes from each record, rounded down to whole milliseconds: a session ends when
            /// the gaps after all of its records have passed. A computed gap below 1 ms fails the task.
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
                let rule = SessionRule(self.gap.clone());
                $operator::new(selector, SessionCore::new(folding, rule, lateness))
            }
        }
    };
}

sessions! {
    /// Sessions of event time: records of a key belong to one session while the distance from one to the next is at most the
    /// gap. A record that falls between two sessions can join them into one.
    ///
    /// A session begins with its first record and ends one gap after its last one. With an allowed lateness a session is kept that much
    /// longer: a late record that belongs to it, or that joins it with others, emits the changed session again: at once, or at its new end
    /// if the watermark has not reached that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::EventTimeSessionWindows;
    ///
    /// let half_hours = EventTimeSessionWindows::with_gap(Duration::from_secs(1_800));
    /// // Sessions of bots end after a shorter gap.
    /// let by_user = EventTimeSessionWindows::with_dynamic_gap(|(user, _): &(String, u64)| {
    ///     Duration::from_secs(if user.starts_with("bot") { 10 } else { 1_800 })
    /// });
    /// ```
    EventTimeSessionWindows, EventTimeWindows, "session_window"
}

sessions! {
    /// Sessions of processing time: a session ends when the machine's clock shows that its key has had no record for a gap. The
    /// end of bounded input fires no others, as in Flink: the records of sessions that are not over then are lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::operators::ProcessingTimeSessionWindows;
    ///
    /// let minutes = ProcessingTimeSessionWindows::with_gap(Duration::from_secs(60));
    /// // Waits for each user as long as the user's records say.
    /// let by_user = ProcessingTimeSessionWindows::with_dynamic_gap(|(_, patience_s): &(u64, u64)| {
    ///     Duration::from_secs(*patience_s)
    /// });
    /// ```
    ProcessingTimeSessionWindows, ProcessingTimeWindows, "processing_time_session_window"
}

impl<G> EventTimeAssigner for EventTimeSessionWindows<G> {}

/// Windows with a number of records of a key, from [`KeyedStream::count_window`](crate::api::KeyedStream::count_window) and
/// [`KeyedStream::count_window_sliding`](crate::api::KeyedStream::count_window_sliding). A window is emitted with its last record; one that
/// is incomplete at the end of input is not emitted. With a slide below the size a window is emitted after every `slide` records of the
/// key, so that its first windows have fewer records than the size. With a slide above the size a window has the last `size` of every
/// `slide` records of the key; those before them are dropped, also the key's first ones.
#[derive(Debug, Clone, Copy)]
pub struct CountWindows {
    size: u64,
    slide: u64,
}

impl CountWindows {
    /// Makes windows of `size` records, one every `slide` records of the key. A number below 1 makes the program invalid.
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
