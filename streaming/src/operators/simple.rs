//! Operators without memory: one record in, some out.

use super::{BoxError, Collector, Operator, OperatorContext};
use crate::{batch::Batch, seam::TaskError};
use std::marker::PhantomData;

/// Emits what a function makes of each record (`map`).
#[derive(Debug)]
pub struct Map<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> Map<F, Out> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function, out: PhantomData }
    }
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

/// Emits what a function makes of each record; an error of the function fails the task (`try_map`).
#[derive(Debug)]
pub struct TryMap<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> TryMap<F, Out> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function, out: PhantomData }
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

/// Lets those records through for which a predicate is true (`filter`).
#[derive(Debug)]
pub struct Filter<F> {
    function: F,
}

impl<F> Filter<F> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function }
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

/// Lets those records through for which a predicate is true; an error of the predicate fails the task (`try_filter`).
#[derive(Debug)]
pub struct TryFilter<F> {
    function: F,
}

impl<F> TryFilter<F> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function }
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

/// Shows each record to a function and passes it on (`inspect`).
#[derive(Debug)]
pub struct Inspect<F> {
    function: F,
}

impl<F> Inspect<F> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function }
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

/// Emits whatever a function emits for each record (`flat_map`).
#[derive(Debug)]
pub struct FlatMap<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> FlatMap<F, Out> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function, out: PhantomData }
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

/// Emits whatever a function emits for each record; an error of the function fails the task (`try_flat_map`).
#[derive(Debug)]
pub struct TryFlatMap<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> TryFlatMap<F, Out> {
    /// Creates the operator around its function, of which each subtask has a clone.
    pub fn new(function: F) -> Self {
        Self { function, out: PhantomData }
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
