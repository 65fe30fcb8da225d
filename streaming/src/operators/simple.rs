//! Operators without memory: one record in, some out.

use super::{BoxError, Collector, Operator, OperatorContext};
use crate::{batch::Batch, seam::TaskError};
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
            /// Creates the operator around its function, of which each subtask has a clone.
            pub fn new(function: F) -> Self {
                Self { function, $(out: PhantomData::<fn() -> $out>,)? }
            }
        }
    )*};
}

operators! {
    /// Emits what a function makes of each record (`map`).
    Map<Out>;
    /// Emits what a function makes of each record; an error of the function fails the task (`try_map`).
    TryMap<Out>;
    /// Lets those records through for which a predicate is true (`filter`).
    Filter;
    /// Lets those records through for which a predicate is true; an error of the predicate fails the task (`try_filter`).
    TryFilter;
    /// Shows each record to a function and passes it on (`inspect`).
    Inspect;
    /// Emits whatever a function emits for each record (`flat_map`).
    FlatMap<Out>;
    /// Emits whatever a function emits for each record; an error of the function fails the task (`try_flat_map`).
    TryFlatMap<Out>;
}

impl<In, Out: Send + 'static, F: FnMut(In) -> Out + Send> Operator<In> for Map<F, Out> {
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
    Out: Send + 'static,
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
        batch.try_each_while(|record, time| {
            let made = (self.function)(record).map_err(|error| context.user_error(error.into()))?;
            out.push(made, time);
            Ok(out.goes_on())
        })
    }
}

impl<In: Send + 'static, F: FnMut(&In) -> bool + Send> Operator<In> for Filter<F> {
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
    In: Send + 'static,
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
        batch.try_each_while(|record, time| {
            if (self.function)(&record).map_err(|error| context.user_error(error.into()))? {
                out.push(record, time);
            }
            Ok(out.goes_on())
        })
    }
}

impl<In: Send + 'static, F: FnMut(&In) + Send> Operator<In> for Inspect<F> {
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
    Out: Send + 'static,
    F: FnMut(In, &mut Collector<Out>) + Send,
{
    type Out = Out;
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.try_each_while(|record, time| {
            out.set_time(time);
            (self.function)(record, out);
            Ok(out.goes_on())
        })
    }
}

impl<In, Out, E, F> Operator<In> for TryFlatMap<F, Out>
where
    Out: Send + 'static,
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
        batch.try_each_while(|record, time| {
            out.set_time(time);
            (self.function)(record, out).map_err(|error| context.user_error(error.into()))?;
            Ok(out.goes_on())
        })
    }
}
