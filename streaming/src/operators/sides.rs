//! Side outputs: streams that leave an operator beside its main output, each with a record type of its own.
//!
//! A side output leads to edges only, never to the next operator of the chain. It therefore never delays a control element: an edge
//! that was interrupted keeps the element behind its records.

use super::{
    Consumer, Load,
    backlog::{Backlog, HandedOn},
};
use crate::{
    batch::Batch,
    seam::{Interrupt, StreamEvent, TaskError},
    types::Record,
};
use std::{any::Any, marker::PhantomData};

/// The name of a side output, a second stream that an operator emits, with its record type.
/// [`Collector::collect_to`](super::Collector::collect_to) emits to it, and [`Stream::side_output`](crate::Stream::side_output) reads it;
/// records that nothing reads are dropped. The name need only be unique within the operator. Make it a constant that the emitting function
/// and the reading stream share:
///
/// ```
/// use streaming::{Environment, operators::OutputTag};
///
/// const REFUSED: OutputTag<String> = OutputTag::new("refused");
///
/// fn numbers(env: &Environment) {
///     let lines = env.from_collection(["7".to_owned(), "seven".to_owned()]);
///     let numbers = lines.flat_map(|line: String, out| match line.parse::<u64>() {
///         Ok(number) => out.collect(number),
///         Err(_) => out.collect_to(&REFUSED, line),
///     });
///     numbers.print();
///     numbers.side_output(&REFUSED).print();
/// }
/// assert_eq!(REFUSED.name(), "refused");
/// ```
#[derive(derive_more::Debug)]
#[debug("OutputTag({name:?})")]
pub struct OutputTag<T> {
    name: &'static str,
    record: PhantomData<fn() -> T>,
}

impl<T> OutputTag<T> {
    /// Makes the tag of a side output; declares nothing. Two side outputs of one operator need different names: tags of one name are one
    /// side output. Side outputs of different operators are apart even if they have one name. The build of the job fails if a side
    /// output is read with two record types, and a task that emits another type than the one that is read fails with
    /// [`TaskError::Deployment`].
    pub const fn new(name: &'static str) -> Self {
        Self { name, record: PhantomData }
    }
    /// Returns the name of the side output.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for OutputTag<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for OutputTag<T> {}

/// A side output of an operator, independent of its record type: a buffer of emitted records, and the edges (connections to the tasks that
/// read them) that they go to. The chain's assembly makes one for each side output that something reads. The operator's
/// [`Collector`](super::Collector) fills the buffer and calls these methods on the task's thread: `send` after each call of the operator,
/// `flush` when the task sends on what waits, `event` for each control element, `resume` in the step after an interruption. An error fails
/// the task.
pub trait SideOutput: Any + Send {
    /// Hands the buffered records to the edges, which keep what finds no room. Called after each call of the operator. Returns true if
    /// the edges take more, false if one is full or the step was interrupted.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn send(&mut self) -> Result<bool, TaskError>;
    /// Hands the buffered records to the edges and sends what a full edge has refused; with `partial` also batches that are not full.
    /// Returns true if nothing that was refused waits any more.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError>;
    /// Hands a control element to the edges, after the records before it. Unlike [`Control::event`](super::Control::event) this method
    /// never has to be called again with the same element.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn event(&mut self, event: StreamEvent) -> Result<(), TaskError>;
    /// Continues with the records that an interruption has left in the edges, as [`Control::resume`](super::Control::resume)
    /// does. Does nothing if there are none.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn resume(&mut self) -> Result<(), TaskError>;
    /// Returns true if an interruption has left records to [`SideOutput::resume`] with.
    fn is_interrupted(&self) -> bool;
    /// Returns true if an edge takes nothing more for now, because its consumer is slower. Records that are sent nevertheless are kept.
    fn full(&self) -> bool;
}

/// Records for one side output, and the edges that they go to.
struct Edges<T> {
    buffer: Batch<T>,
    /// The bytes in the buffer.
    load: Load,
    backlog: Backlog,
    next: Box<dyn Consumer<T>>,
}

/// Makes a side output that leads to the edges in `next`.
pub(crate) fn side_output<T: Record>(next: Box<dyn Consumer<T>>) -> Box<dyn SideOutput> {
    let (buffer, load, backlog) = (Batch::default(), Load::default(), Backlog::default());
    Box::new(Edges { buffer, load, backlog, next })
}

impl<T: Record> SideOutput for Edges<T> {
    fn send(&mut self) -> Result<bool, TaskError> {
        if self.buffer.is_empty() {
            return Ok(!self.next.full() && !self.next.is_interrupted());
        }
        let sent = self.next.batch(&mut self.buffer);
        self.buffer.clear();
        self.load.clear();
        if matches!(sent, Ok(true)) {
            self.backlog.clear();
        }
        sent
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.send()?;
        self.next.flush(partial)
    }
    fn event(&mut self, event: StreamEvent) -> Result<(), TaskError> {
        self.send()?;
        self.next.event(event).map(drop)
    }
    fn resume(&mut self) -> Result<(), TaskError> {
        self.next.resume()
    }
    fn is_interrupted(&self) -> bool {
        self.next.is_interrupted()
    }
    fn full(&self) -> bool {
        self.next.full()
    }
}

/// The side outputs of one operator that something reads, by name; empty by default. The chain's assembly makes it and passes it to
/// [`Link::new`](super::Link::new). Records for any other side output are dropped.
#[derive(Default)]
pub struct SideOutputs {
    outputs: Vec<(&'static str, Box<dyn SideOutput>)>,
}

impl SideOutputs {
    pub(crate) fn new(outputs: Vec<(&'static str, Box<dyn SideOutput>)>) -> Self {
        Self { outputs }
    }

    /// Emits a record with its event time; drops it if nothing reads the side output. Returns whether the side output takes more.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does, or if the side output is read as records of another type.
    pub(super) fn push<T: Record>(
        &mut self,
        tag: &OutputTag<T>,
        record: T,
        time: i64,
        interrupt: &Interrupt,
    ) -> Result<HandedOn, TaskError> {
        let found = self.outputs.iter_mut().find(|(name, _)| *name == tag.name);
        let Some((name, output)) = found else { return Ok(HandedOn::TakesMore) };
        let output: &mut dyn Any = &mut **output;
        let Some(edges) = output.downcast_mut::<Edges<T>>() else {
            return Err(TaskError::Deployment(format!(
                "side output '{name}' is emitted to as {}, and read as another type: use one OutputTag for both",
                T::type_name()
            )));
        };
        edges.load.add(&record);
        edges.buffer.push(record, time);
        if !edges.load.makes_batch::<T>(edges.buffer.len()) {
            return Ok(HandedOn::TakesMore);
        }
        let Edges { buffer, load, backlog, next } = edges;
        let sent = backlog.hand_on(buffer, load, &mut **next, interrupt);
        buffer.clear();
        load.clear();
        sent
    }

    /// Calls [`SideOutput::send`] on all side outputs. Returns true if all of them take more.
    pub(super) fn send(&mut self) -> Result<bool, TaskError> {
        let mut takes_more = true;
        for (_, output) in &mut self.outputs {
            takes_more &= output.send()?;
        }
        Ok(takes_more)
    }

    /// Calls [`SideOutput::flush`] on all side outputs. Returns true if nothing waits in any of them.
    pub(super) fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        let mut sent = true;
        for (_, output) in &mut self.outputs {
            sent &= output.flush(partial)?;
        }
        Ok(sent)
    }

    /// Calls [`SideOutput::event`] on all side outputs.
    pub(super) fn event(&mut self, event: StreamEvent) -> Result<(), TaskError> {
        self.outputs.iter_mut().try_for_each(|(_, output)| output.event(event))
    }

    /// Calls [`SideOutput::resume`] on all side outputs.
    #[inline]
    pub(super) fn resume(&mut self) -> Result<(), TaskError> {
        self.outputs.iter_mut().try_for_each(|(_, output)| output.resume())
    }

    /// Returns true if an interruption has left something in one of them.
    // Called several times per step and operator, mostly without side outputs.
    #[inline]
    pub(super) fn is_interrupted(&self) -> bool {
        self.outputs.iter().any(|(_, output)| output.is_interrupted())
    }

    /// Returns true if one of them takes nothing more for now.
    pub(super) fn full(&self) -> bool {
        self.outputs.iter().any(|(_, output)| output.full())
    }
}
