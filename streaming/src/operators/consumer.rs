//! What a chain is to the link before it: something that takes batches and control elements, and says how far it got.
//! Nothing here processes records.

use super::{BATCH_RECORDS, OperatorMail};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    state::Slice,
};

/// The progress of a control element (watermark, idleness, barrier, end of input) through an operator or the rest of a chain: it
/// tells the caller whether to hand the same element in again.
///
/// An operator that files a number with a service at each barrier, lets the barrier on when the service has answered, and confirms the
/// number once the checkpoint is complete:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use streaming::{TaskError, batch::Batch, operators::*, testing};
///
/// #[derive(Default)]
/// struct Filed {
///     records: u64,
///     asked: Option<u64>,
///     is_filed: bool,
///     confirms: bool,
///     /// Stands in for the service.
///     service: Arc<Mutex<Vec<String>>>,
/// }
///
/// impl Filed {
///     fn say(&self, text: String, ticket: u32, context: &OperatorContext) {
///         let service = self.service.clone();
///         let work = async move {
///             service.lock().map_err(|error| error.to_string())?.push(text);
///             Ok(Vec::new())
///         };
///         context.spawn_io(Box::pin(work), ticket);
///     }
/// }
///
/// impl Operator<u64> for Filed {
///     type Out = u64;
///     fn process(
///         &mut self,
///         batch: &mut Batch<u64>,
///         _out: &mut Collector<u64>,
///         _context: &OperatorContext,
///     ) -> Result<(), TaskError> {
///         self.records += batch.len() as u64;
///         batch.clear();
///         Ok(())
///     }
///     fn event(
///         &mut self,
///         event: StreamEvent,
///         _out: &mut Collector<u64>,
///         context: &OperatorContext,
///     ) -> Result<Flow, TaskError> {
///         let StreamEvent::Barrier(Barrier { checkpoint, triggered_ms, .. }) = event else {
///             return Ok(Flow::Done);
///         };
///         if self.asked.replace(checkpoint) != Some(checkpoint) {
///             self.is_filed = false;
///             self.say(format!("{} records, asked at {triggered_ms}", self.records), 1, context);
///         }
///         Ok(if self.is_filed { Flow::Done } else { Flow::Waiting })
///     }
///     fn mail(
///         &mut self,
///         mail: OperatorMail,
///         _out: &mut Collector<u64>,
///         _context: &OperatorContext,
///     ) -> Result<(), TaskError> {
///         match mail {
///             OperatorMail::Reply { ticket: 1, .. } => self.is_filed = true,
///             _ => self.confirms = false,
///         }
///         Ok(())
///     }
///     fn notify_complete(&mut self, checkpoint: u64, context: &OperatorContext) -> Result<(), TaskError> {
///         self.confirms = true;
///         self.say(format!("checkpoint {checkpoint} is complete"), 2, context);
///         Ok(())
///     }
///     /// Lets the task not finish before the service has the confirmation.
///     fn is_committing(&self) -> bool {
///         self.confirms
///     }
///     /// Lets what follows see neither watermarks nor idleness.
///     fn passes(&self, event: StreamEvent) -> bool {
///         !matches!(event, StreamEvent::Watermark(_) | StreamEvent::Idle(_))
///     }
///     fn state_bytes(&self) -> Option<u64> {
///         Some(8)
///     }
///     fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
///         eprintln!("all {} records are filed", self.records);
///         Ok(())
///     }
///     fn dispose(&mut self, _context: &OperatorContext) {
///         eprintln!("not all of {} records are filed", self.records);
///     }
/// }
///
/// let filed = Filed::default();
/// let service = filed.service.clone();
/// let mut test = testing::operator(filed).open()?;
/// test.push(7)?;
/// test.watermark(1_000)?;
/// assert_eq!((test.last_watermark(), test.metric("stateBytes")), (None, Some(8)));
/// test.barrier(1, false)?;
/// test.notify_complete(1)?;
/// assert!(!test.is_committing());
/// test.fail();
/// let said = ["1 records, asked at 0", "checkpoint 1 is complete"];
/// assert_eq!(*service.lock().unwrap(), said);
/// # Ok::<(), TaskError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The operator, or the whole rest of the chain, is done with the event.
    Done,
    /// An output is full, the step was interrupted, or the event has to wait until a snapshot is written: hand the same event in again in a
    /// later step.
    More,
    /// An operator waits for mail, such as keyed state that is being fetched: hand the same event in again after the mail has come.
    Waiting,
}

/// The rest of a chain as its predecessor sees it: takes records and control elements (watermarks, idleness, barriers, the end of input).
/// The predecessor, a link of the chain or the task itself, calls `open` once, then `batch` and `event` in the order of the input, `resume`
/// if records were left unprocessed, and `flush` for what an output has refused; at the end `close`, or `dispose` if the task was
/// cancelled or has failed. After an error only `dispose` is called. All of these but `batch` are methods of [`Control`].
pub trait Consumer<T>: Control {
    /// Takes all records of `batch`, which comes back empty. Returns true if the chain takes more, false if it is full (see
    /// [`Control::full`]) or the step was interrupted.
    ///
    /// # Errors
    /// Returns the error of an operator that fails; the task is over then.
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError>;
}

/// The part of a [`Consumer`] that knows no record type: all but the records themselves. Code that a program would otherwise compile anew
/// for each of its record types uses the rest of a chain by this trait. [`Consumer`] describes the order of the calls. The default methods
/// are those of a consumer that is the end of its chain, holds nothing back and is never full.
pub trait Control: Send {
    /// Opens the operators of the chain, from the last one to this one. Called once, before any record or event.
    ///
    /// # Errors
    /// Returns the error of the first operator that cannot be opened; those before it in the chain are not opened then.
    fn open(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
    /// Continues with records that were taken but not processed, because the step was interrupted or the chain was full, until that is so
    /// again. Does nothing by default.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn resume(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
    /// Returns true if records were taken but not processed, because the step was interrupted or the chain was full.
    /// [`Control::resume`] continues with them. No event may be handed in then, and records that are handed in wait behind those. False
    /// by default.
    fn is_interrupted(&self) -> bool {
        false
    }
    /// Takes a control element, after all records that came before it. Unless this returns [`Flow::Done`], the caller must hand in the
    /// same event again before any other event or batch.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError>;
    /// Returns true if an output, or an operator such as a sink, takes nothing more for now. Records that are handed in nevertheless are
    /// kept. False by default.
    fn full(&self) -> bool {
        false
    }
    /// Returns the number of records that the caller should hand in at once: fewer where records are large or consumers are slow, so that
    /// little has to be kept when the chain gets full. A call may count as a step without records, after which the number grows, so it is
    /// to be called once for each batch. By default [`BATCH_RECORDS`].
    fn most_at_once(&self) -> usize {
        BATCH_RECORDS
    }
    /// Sends the batches and control elements that a full output has refused to the next tasks; if none of them is left and `partial` is
    /// true, also batches that are not full. Returns true if nothing that was refused waits any more, as by default.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn flush(&mut self, _partial: bool) -> Result<bool, TaskError> {
        Ok(true)
    }
    /// Returns the number of the earliest checkpoint for which an operator of the chain still writes its snapshot; `None`, as by default,
    /// if no operator writes.
    fn writes(&self) -> Option<u64> {
        None
    }
    /// Continues to write the snapshots that operators of the chain have begun, as much as the slice (a number of bytes) allows,
    /// and hands full chunks to the host.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn write_snapshots(&mut self, _slice: &mut Slice<'_>) -> Result<(), TaskError> {
        Ok(())
    }
    /// Makes the operators of the chain drop the snapshots that they still write for an aborted checkpoint. An operator that cannot goes
    /// on writing, see [`Control::writes`].
    fn abort_snapshots(&mut self, _checkpoint: u64) {}
    /// Returns true if the operator `node` is one of this chain. False by default.
    fn runs(&self, _node: model::NodeId) -> bool {
        false
    }
    /// Hands mail to the operator `to` of this chain; drops mail for others, and a timer that comes too late, see
    /// [`Operator::mail`](super::Operator::mail).
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn deliver(&mut self, _to: model::NodeId, _mail: OperatorMail) -> Result<(), TaskError> {
        Ok(())
    }
    /// Tells all operators, from this one to the last one, that a checkpoint is complete in the whole job, so that they commit what was
    /// prepared for it; see [`Operator::notify_complete`](super::Operator::notify_complete). The commits may go on after the
    /// return, see [`Control::is_committing`].
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    fn notify_complete(&mut self, _checkpoint: u64) -> Result<(), TaskError> {
        Ok(())
    }
    /// Returns true while an operator of the chain commits what a completed checkpoint has released. The task must not finish then.
    /// The operator itself asks its host for the mail with which it continues.
    fn is_committing(&self) -> bool {
        false
    }
    /// Closes all operators, from this one to the last one, after the end of input has gone through the chain.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does; the operators behind the one that fails are not closed then.
    fn close(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
    /// Releases what the operators hold. Called if the task was cancelled or has failed, also after a `close` that failed:
    /// operators whose `close` was called, with or without success, are not disposed of.
    fn dispose(&mut self) {}
}
