//! The computations over the records of one key in one window: counts, sums, aggregates, or a function over all records.

use super::TimeWindow;
use crate::{
    operators::{BoxError, Collector, Count, Folding, Reduce, Sum},
    types::{Key, Record},
};
use std::ops::AddAssign;

/// Computes what is emitted for one key in one window from its records: the count, sum and reduction of windows, [`AggregateWindow`] and
/// [`ProcessWindow`]. The window operators call it on the task's thread: `first` for a key's first record in a window or a part of it,
/// `add` for the others, `merge` for the kept values of two parts, and `emit` when the window fires, and again for each late record that it
/// still takes. Each subtask works on its own clone.
pub trait WindowFolding<K, T>: Clone + Send + 'static {
    /// The value that is kept for each key of a window, or of a part of it, and written to checkpoints.
    type Kept: Record;
    /// The type of the emitted records.
    type Out: Record;
    /// Returns the kept value of the first record that a key has in a window or in a part of it; `record` counts in it.
    fn first(&mut self, record: T) -> Self::Kept;
    /// Adds another record to the kept value.
    fn add(&mut self, kept: &mut Self::Kept, record: T);
    /// Adds `later`, the kept value of a later part of the same window, to `kept`. Called when a sliding window fires, whose parts stay for
    /// other windows, and when a record joins two sessions into one.
    fn merge(&mut self, kept: &mut Self::Kept, later: Self::Kept);
    /// Emits the results of a window for `key`: once when the window fires, and once more, with all its records, for every late record that
    /// it still takes; for a session that late records extend beyond the watermark only at its new end. Called only for keys with a record
    /// in the window. For windows of time the emitted records get the window's last millisecond as their event time, for windows by count
    /// that of the window's last record.
    ///
    /// # Errors
    /// The error of the user's function, which fails the task with [`TaskError::User`](crate::TaskError::User).
    fn emit(
        &mut self,
        key: K,
        window: TimeWindow,
        kept: Self::Kept,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
}

/// Implements [`WindowFolding`] for a [`Folding`] whose kept values can be merged.
macro_rules! folding {
    ($type:ty, <$($parameter:ident),*>, $kept:ty, $out:ty, $merge:expr, {$($bounds:tt)*}) => {
        impl<K: Key, T, $($parameter),*> WindowFolding<K, T> for $type
        where
            $($bounds)*
        {
            type Kept = $kept;
            type Out = $out;
            #[inline]
            fn first(&mut self, record: T) -> $kept {
                Folding::<K, T>::first(self, record)
            }
            #[inline]
            fn add(&mut self, kept: &mut $kept, record: T) {
                Folding::<K, T>::add(self, kept, record);
            }
            #[inline]
            fn merge(&mut self, kept: &mut $kept, later: $kept) {
                let merge: fn(&mut Self, &mut $kept, $kept) = $merge;
                merge(self, kept, later);
            }
            #[inline]
            fn emit(
                &mut self,
                key: K,
                _window: TimeWindow,
                kept: $kept,
                out: &mut Collector<$out>,
            ) -> Result<(), BoxError> {
                out.collect(Folding::<K, T>::last(self, key, kept));
                Ok(())
            }
        }
    };
}

folding!(Count, <>, u64, (K, u64), |_, kept, later| *kept += later, {});
folding!(Sum<F, V>, <F, V>, V, (K, V), |_, kept, later| *kept += later, {
    V: Record + AddAssign, F: FnMut(&T) -> V + Clone + Send + 'static
});
folding!(Reduce<F>, <F>, T, T, |this, kept, later| Folding::<K, T>::add(this, kept, later), {
    T: Record, F: FnMut(&mut T, T) + Clone + Send + 'static
});

/// Computes one value from the records of a key in a window, by an accumulator that is kept instead of the records and can be merged with
/// another one. The window operator calls `create_accumulator` and `add` at the first record, `add` for each other record, and `result`
/// when the window fires, and again for each late record that it still takes; `merge` only in sliding windows and sessions. No method can
/// return an error; a panic fails the task. Each subtask works on its own clone.
///
/// ```
/// use streaming::operators::AggregateFunction;
///
/// #[derive(Clone)]
/// struct Mean;
///
/// impl AggregateFunction<u64> for Mean {
///     type Accumulator = (u64, u64);
///     type Out = f64;
///
///     fn create_accumulator(&mut self) -> (u64, u64) {
///         (0, 0)
///     }
///     fn add(&mut self, accumulator: &mut (u64, u64), record: u64) {
///         self.merge(accumulator, (record, 1));
///     }
///     fn merge(&mut self, accumulator: &mut (u64, u64), later: (u64, u64)) {
///         *accumulator = (accumulator.0 + later.0, accumulator.1 + later.1);
///     }
///     fn result(&mut self, (sum, count): (u64, u64)) -> f64 {
///         sum as f64 / count as f64
///     }
/// }
/// ```
pub trait AggregateFunction<T>: Clone + Send + 'static {
    /// The value that is kept between the records, and written to checkpoints.
    type Accumulator: Record;
    /// The type of a window's value.
    type Out: Record;
    /// Returns the accumulator of no records. Called before the first record of a key in a window, or in a part of it.
    fn create_accumulator(&mut self) -> Self::Accumulator;
    /// Adds a record to the accumulator.
    fn add(&mut self, accumulator: &mut Self::Accumulator, record: T);
    /// Adds the accumulator `later` of other records of the same key and window to `accumulator`. Called when a sliding window, of time or
    /// by count, fires, which consists of several parts, and when a record joins two sessions; never for tumbling windows.
    fn merge(&mut self, accumulator: &mut Self::Accumulator, later: Self::Accumulator);
    /// Returns a window's value from the accumulator of all its records. Called for each key when a window fires, and again for every
    /// late record that the window still takes; for a session that late records extend beyond the watermark only at its new end.
    fn result(&mut self, accumulator: Self::Accumulator) -> Self::Out;
}

/// A [`WindowFolding`] that runs an [`AggregateFunction`] and emits `(key, value)` for each key and window. `aggregate` of a windowed
/// stream makes it.
#[derive(Debug, Clone)]
pub struct AggregateWindow<F>(pub(crate) F);

impl<K: Key, T, F: AggregateFunction<T>> WindowFolding<K, T> for AggregateWindow<F> {
    type Kept = F::Accumulator;
    type Out = (K, F::Out);
    #[inline]
    fn first(&mut self, record: T) -> F::Accumulator {
        let mut accumulator = self.0.create_accumulator();
        self.0.add(&mut accumulator, record);
        accumulator
    }
    #[inline]
    fn add(&mut self, kept: &mut F::Accumulator, record: T) {
        self.0.add(kept, record);
    }
    fn merge(&mut self, kept: &mut F::Accumulator, later: F::Accumulator) {
        self.0.merge(kept, later);
    }
    #[inline]
    fn emit(
        &mut self,
        key: K,
        _window: TimeWindow,
        kept: F::Accumulator,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        out.collect((key, self.0.result(kept)));
        Ok(())
    }
}

/// A function that is called with all records of a key in a window. Each subtask works on its own clone.
///
/// ```
/// use streaming::operators::{BoxError, Collector, TimeWindow, WindowFunction};
///
/// /// Emits the greatest record of each key, with the beginning of its window.
/// #[derive(Clone)]
/// struct Greatest;
///
/// impl WindowFunction<String, u64> for Greatest {
///     type Out = (String, i64, u64);
///
///     fn process(
///         &mut self,
///         key: &String,
///         window: TimeWindow,
///         records: Vec<u64>,
///         out: &mut Collector<Self::Out>,
///     ) -> Result<(), BoxError> {
///         let greatest = records.into_iter().max().unwrap_or(0);
///         out.collect((key.clone(), window.start(), greatest));
///         Ok(())
///     }
/// }
/// ```
pub trait WindowFunction<K, T>: Clone + Send + 'static {
    /// The type of the emitted records.
    type Out: Record;
    /// Called when a window fires, once for each key that has at least one record in it, and again with all records of the key for each
    /// late record that the window still takes (for a session that such records extend beyond the watermark only at its new end). In a
    /// tumbling window or a window by count records come in the order of their arrival. In a sliding window of time only those of one pane
    /// (a part of time that no window begins or ends in) do, and panes come in the order of time. Where a record has joined sessions, those
    /// of the earlier session come first and that record last. For windows by count, `window` is all of time. Emitted records get the
    /// window's last millisecond as their event time; those of windows by count that of the last record.
    ///
    /// # Errors
    /// An error fails the task with [`TaskError::User`](crate::TaskError::User).
    fn process(
        &mut self,
        key: &K,
        window: TimeWindow,
        records: Vec<T>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
}

/// A [`WindowFolding`] that runs a [`WindowFunction`], for which it keeps all records of the window, in memory and in checkpoints.
/// `process` of a windowed stream makes it.
#[derive(Debug, Clone)]
pub struct ProcessWindow<F>(pub(crate) F);

impl<K: Key, T: Record, F: WindowFunction<K, T>> WindowFolding<K, T> for ProcessWindow<F> {
    type Kept = Vec<T>;
    type Out = F::Out;
    fn first(&mut self, record: T) -> Vec<T> {
        vec![record]
    }
    fn add(&mut self, kept: &mut Vec<T>, record: T) {
        kept.push(record);
    }
    fn merge(&mut self, kept: &mut Vec<T>, mut later: Vec<T>) {
        kept.append(&mut later);
    }
    fn emit(
        &mut self,
        key: K,
        window: TimeWindow,
        kept: Vec<T>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        self.0.process(&key, window, kept, out)
    }
}
