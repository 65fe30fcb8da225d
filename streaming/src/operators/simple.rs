//! Operators without memory: one record in, some out.

use super::{BoxError, Collector, Operator, OperatorContext};
use crate::seam::TaskError;
use std::marker::PhantomData;

/// One record becomes one.
#[derive(Debug)]
pub struct Map<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> Map<F, Out> {
    /// With that function.
    pub fn new(function: F) -> Self {
        Self { function, out: PhantomData }
    }
}

impl<In, Out: Send + 'static, F: FnMut(In) -> Out + Send> Operator<In> for Map<F, Out> {
    type Out = Out;
    fn process(
        &mut self,
        records: &mut Vec<In>,
        out: &mut Collector<Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.extend(records.drain(..).map(&mut self.function));
        Ok(())
    }
}

/// One record becomes one, or the task fails.
#[derive(Debug)]
pub struct TryMap<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> TryMap<F, Out> {
    /// With that function.
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
        records: &mut Vec<In>,
        out: &mut Collector<Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        for record in records.drain(..) {
            match (self.function)(record) {
                Ok(made) => out.collect(made),
                Err(error) => return Err(context.user_error(error.into())),
            }
        }
        Ok(())
    }
}

/// Some records go on, others do not.
#[derive(Debug)]
pub struct Filter<F> {
    function: F,
}

impl<F> Filter<F> {
    /// With that function.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<In: Send + 'static, F: FnMut(&In) -> bool + Send> Operator<In> for Filter<F> {
    type Out = In;
    fn process(
        &mut self,
        records: &mut Vec<In>,
        out: &mut Collector<In>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        records.retain(&mut self.function);
        out.pass(records);
        Ok(())
    }
}

/// Every record is looked at and goes on.
#[derive(Debug)]
pub struct Inspect<F> {
    function: F,
}

impl<F> Inspect<F> {
    /// With that function.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<In: Send + 'static, F: FnMut(&In) + Send> Operator<In> for Inspect<F> {
    type Out = In;
    fn process(
        &mut self,
        records: &mut Vec<In>,
        out: &mut Collector<In>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        records.iter().for_each(&mut self.function);
        out.pass(records);
        Ok(())
    }
}

/// One record becomes any number.
#[derive(Debug)]
pub struct FlatMap<F, Out> {
    function: F,
    out: PhantomData<fn() -> Out>,
}

impl<F, Out> FlatMap<F, Out> {
    /// With that function.
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
        records: &mut Vec<In>,
        out: &mut Collector<Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        for record in records.drain(..) {
            (self.function)(record, out);
        }
        Ok(())
    }
    fn expands(&self) -> bool {
        true
    }
}
