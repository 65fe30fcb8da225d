//! Operators without memory: one record in, some out.
//!
//! Their functions are tested without a job:
//!
//! ```
//! use streaming::{
//!     operators::{
//!         BoxError, Collector, Filter, FlatMap, Inspect, TryFilter, TryFlatMap, TryMap,
//!     },
//!     testing,
//! };
//!
//! let number = |word: String| word.parse::<u64>();
//! let mut test = testing::operator(TryMap::new(number)).open()?;
//! test.push("7".to_owned())?;
//! assert_eq!(test.output(), [7]);
//! assert!(test.push("seven".to_owned()).is_err());
//!
//! let mut even = testing::operator(Filter::new(|n: &u64| n % 2 == 0)).open()?;
//! let small = |n: &u64| Ok::<_, BoxError>(*n < 100);
//! let mut small = testing::operator(TryFilter::new(small)).open()?;
//! let mut shown = testing::operator(Inspect::new(|n: &u64| println!("{n}"))).open()?;
//! let copies = |n: u64, out: &mut Collector<u64>| out.collect_all([n, n]);
//! let mut copies = testing::operator(FlatMap::new(copies)).open()?;
//! let halves = |n: u64, out: &mut Collector<u64>| -> Result<(), BoxError> {
//!     out.collect(n.checked_div(2).ok_or("no half")?);
//!     Ok(())
//! };
//! let mut halves = testing::operator(TryFlatMap::new(halves)).open()?;
//! for n in [6, 7, 800] {
//!     even.push(n)?;
//!     small.push(n)?;
//!     shown.push(n)?;
//!     copies.push(n)?;
//!     halves.push(n)?;
//! }
//! assert_eq!((even.output(), small.output()), (vec![6, 800], vec![6, 7]));
//! assert_eq!((shown.output().len(), copies.output().len()), (3, 6));
//! assert_eq!(halves.output(), [3, 3, 400]);
//! # Ok::<(), streaming::TaskError>(())
//! ```

use super::{BoxError, Collector, Operator, OperatorContext};
use crate::{batch::Batch, seam::TaskError, types::Record};
use std::marker::PhantomData;

/// Declares operators that call one function of the program.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident $(<$out:ident>)?;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<F $(, $out)?> {
            function: F,
            $(out: PhantomData<fn() -> $out>,)?
        }

        impl<F $(, $out)?> $name<F $(, $out)?> {
            /// Creates the operator of one subtask (a `Map`, `Filter`, `FlatMap` or the like, as its type says) around its function, which
            /// is not called yet. The stream clones the function for each subtask.
            pub fn new(function: F) -> Self {
                Self { function, $(out: PhantomData::<fn() -> $out>,)? }
            }
        }
    )*};
}

operators! {
    /// The operator of `map`: emits, for each record, the record that a function returns, with the same event time.
    Map<Out>;
    /// The operator of `try_map`: emits, for each record, the record that a function returns, with the same event time. An error of the
    /// function fails the task with [`TaskError::User`].
    TryMap<Out>;
    /// The operator of `filter`: emits the records for which a predicate returns true, with their event times, and drops the others.
    Filter;
    /// The operator of `try_filter`: emits the records for which a predicate returns true, with their event times, and drops the others. An
    /// error of the predicate fails the task with [`TaskError::User`].
    TryFilter;
    /// The operator of `inspect`: calls a function with a reference to each record and emits the record, with its event time.
    Inspect;
    /// The operator of `flat_map`: calls a function for each record, which emits any number of records, with the event time of that record
    /// unless it gives them another.
    FlatMap<Out>;
    /// The operator of `try_flat_map`: calls a function for each record, which emits any number of records, with the event time of that
    /// record unless it gives them another. An error of the function fails the task with [`TaskError::User`].
    TryFlatMap<Out>;
}

impl<In, Out: Record, F: FnMut(In) -> Out + Send> Operator<In> for Map<F, Out> {
    type Out = Out;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.extend_mapped(batch, &mut self.function);
        Ok(())
    }
}

impl<In, Out, E, F> Operator<In> for TryMap<F, Out>
where
    Out: Record,
    E: Into<BoxError>,
    F: FnMut(In) -> Result<Out, E> + Send,
{
    type Out = Out;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.emit_each(batch, |record, out| {
            let made = (self.function)(record).map_err(|error| context.user_error(error.into()))?;
            out.collect(made);
            Ok(())
        })
    }
}

impl<In: Record, F: FnMut(&In) -> bool + Send> Operator<In> for Filter<F> {
    type Out = In;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<In>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.extend_filtered(batch, &mut self.function);
        Ok(())
    }
}

impl<In, E, F> Operator<In> for TryFilter<F>
where
    In: Record,
    E: Into<BoxError>,
    F: FnMut(&In) -> Result<bool, E> + Send,
{
    type Out = In;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<In>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.emit_each(batch, |record, out| {
            if (self.function)(&record).map_err(|error| context.user_error(error.into()))? {
                out.collect(record);
            }
            Ok(())
        })
    }
}

impl<In: Record, F: FnMut(&In) + Send> Operator<In> for Inspect<F> {
    type Out = In;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<In>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.extend_mapped(batch, |record| {
            (self.function)(&record);
            record
        });
        Ok(())
    }
}

impl<In, Out, F> Operator<In> for FlatMap<F, Out>
where
    Out: Record,
    F: FnMut(In, &mut Collector<Out>) + Send,
{
    type Out = Out;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.emit_each(batch, |record, out| {
            (self.function)(record, out);
            Ok(())
        })
    }
}

impl<In, Out, E, F> Operator<In> for TryFlatMap<F, Out>
where
    Out: Record,
    E: Into<BoxError>,
    F: FnMut(In, &mut Collector<Out>) -> Result<(), E> + Send,
{
    type Out = Out;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.emit_each(batch, |record, out| {
            (self.function)(record, out).map_err(|error| context.user_error(error.into()))
        })
    }
}
