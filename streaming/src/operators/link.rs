//! One link of a chain: an operator, its output, and what every operator has in common.

use super::{
    Collector, Consumer, Flow, Gauge, Operator, OperatorContext, OperatorMail, SideOutputs,
};
use crate::{
    batch::{Batch, NO_TIME},
    lock,
    memory::allocator,
    seam::{Barrier, StateChunk, StreamEvent, TaskError},
    state::{Slice, SnapshotKind},
    task::panics::catch,
};
use bytes::Bytes;
use model::NodeId;
use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    sync::atomic::Ordering,
};

/// The option with which snapshots contain only what has changed since the checkpoint before.
const INCREMENTAL: &str = "execution.checkpointing.incremental";
/// The option with which a job may continue from an older checkpoint.
const FALLBACK: &str = "execution.checkpointing.fallback";
/// The metric of how many bytes of memory an operator's state takes.
const STATE_BYTES: &str = "stateBytes";

/// Returns whether snapshots may contain only what has changed. A job that does not say so, but may fall back to an older checkpoint,
/// wants checkpoints that share no files.
fn is_incremental(options: &BTreeMap<String, String>) -> bool {
    let is_on = |option: &str| options.get(option).map(|on| on == "true");
    is_on(INCREMENTAL).unwrap_or(is_on(FALLBACK) != Some(true))
}

/// One link of a chain: a [`Consumer`] made of an [`Operator`] and the rest of its chain. It keeps the records that the operator has left
/// unprocessed because the step was interrupted or an output was full, takes the operator's snapshots and hands them to the host, shows the
/// metric `stateBytes` of an operator with state, and passes mail on to the operator that it is for.
pub struct Link<In, Op: Operator<In>> {
    operator: Op,
    out: Collector<Op::Out>,
    context: OperatorContext,
    /// Batches that were handed in and are not worked off, because the step was interrupted.
    rest: VecDeque<Batch<In>>,
    /// The operator is done with the event that is passing; what follows is not.
    passing: bool,
    /// True once the operator has handled the end of its input: its timers are over.
    input_ended: bool,
    /// True once the operator was closed or disposed of, even if closing it failed.
    ended: bool,
    /// The checkpoint whose snapshot the operator writes while records come.
    writes: Option<u64>,
    /// The chunks of that snapshot that the host did not take.
    chunks: Vec<Bytes>,
    /// The kind of the snapshot that was begun last.
    begun: Option<SnapshotKind>,
    /// True if snapshots may contain only what has changed (`execution.checkpointing.incremental`).
    incremental: bool,
    /// False once the host has not taken a chunk: such chunks go with the acknowledgement.
    stored: bool,
    /// The metric `stateBytes` of the operator; `None` if it keeps no state.
    state_bytes: Option<Gauge>,
    /// The part of the task's count of state that is this operator's.
    counted: Cell<u64>,
}

impl<In, Op: Operator<In>> Link<In, Op> {
    /// Puts an operator in front of `next`, the rest of the chain; [`Consumer::open`] opens it. `sides` are the side outputs that something
    /// reads: records for others are dropped.
    pub fn new(
        operator: Op,
        next: Box<dyn Consumer<Op::Out>>,
        sides: SideOutputs,
        context: OperatorContext,
    ) -> Self {
        let out = Collector::new(next, sides, context.shared.interrupt.clone());
        let incremental = is_incremental(&context.shared.options);
        Self {
            operator,
            out,
            context,
            rest: VecDeque::new(),
            passing: false,
            input_ended: false,
            ended: false,
            writes: None,
            chunks: Vec::new(),
            begun: None,
            incremental,
            stored: true,
            state_bytes: None,
            counted: Cell::new(0),
        }
    }

    /// Returns the states that [`Consumer::open`] has dropped from the restored snapshots because the operator does not declare them: the
    /// kind of each, by name.
    pub(crate) fn dropped(&self) -> BTreeMap<String, String> {
        lock(&self.context.dropped).clone()
    }

    /// Returns the operator.
    pub(crate) fn operator(&self) -> &Op {
        &self.operator
    }

    pub(crate) fn operator_mut(&mut self) -> &mut Op {
        &mut self.operator
    }

    /// Returns true if records and events are over for the operator: it has seen its end of input before the checkpoint that it is
    /// restored from, or the job is stopped without the end of its data.
    fn is_over(&self) -> bool {
        self.context.shared.restored_at_end || self.context.shared.is_stopped()
    }

    /// Takes out the operator's snapshots for a checkpoint.
    #[cfg(test)]
    pub(crate) fn snapshots(&self, checkpoint: u64) -> Vec<Vec<u8>> {
        let taken = self.context.shared.take_snapshots(checkpoint);
        taken.iter().map(|(_, chunks)| super::join_chunks(chunks)).collect()
    }

    /// Returns the kind of the snapshot that was begun last.
    #[cfg(test)]
    pub(super) fn begun(&self) -> Option<SnapshotKind> {
        self.begun
    }

    /// Returns true if the operator has written more in one piece than it should.
    #[cfg(test)]
    pub(super) fn has_warned(&self) -> bool {
        self.context.one_piece.has_warned()
    }

    /// Makes it another operator of its chain.
    #[cfg(test)]
    pub(super) fn set_node(&mut self, node: NodeId) {
        self.context.node = node;
    }

    /// Brings the metric up to date: a few times a second, because tables are many.
    fn show_state_bytes(&self) {
        if let Some(gauge) = &self.state_bytes
            && let Some(bytes) = self.operator.state_bytes()
        {
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
            // Wraps where the operator has less than before.
            let change = bytes.wrapping_sub(self.counted.replace(bytes));
            self.context.shared.counters.state_bytes.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Takes or begins the operator's snapshot. That of an aborted checkpoint is dropped at once; the operator sees the barrier even
    /// so, because it may prepare commits there.
    fn take_snapshot(&mut self, barrier: Barrier) -> Result<(), TaskError> {
        if self.needs_no_state(barrier) {
            self.begun = None;
            return Ok(());
        }
        let checkpoint = barrier.checkpoint;
        let is_aborted = self.context.shared.is_aborted(checkpoint);
        // A savepoint stands alone.
        self.begun = match self.stores_changes() && !barrier.savepoint && !barrier.full {
            true => self.operator.begin_incremental(checkpoint, &self.context)?,
            false => {
                let begun = self.operator.begin_snapshot(checkpoint, &self.context)?;
                begun.then_some(SnapshotKind::Full)
            }
        };
        if self.begun.is_some() {
            self.writes = Some(checkpoint);
            if is_aborted {
                self.abort_snapshot(checkpoint);
            }
        } else if let Some(bytes) = self.operator.snapshot(checkpoint, &self.context)? {
            if !Op::HAS_STATE {
                return Err(TaskError::Deployment(format!(
                    "operator '{}': its snapshot returns state, and its Operator::HAS_STATE is false: set the constant to true, so that \
                     jobs with checkpoints demand a uid of the operator",
                    self.context.name()
                )));
            }
            if is_aborted {
                return Ok(());
            }
            self.context.one_piece.written(self.context.name(), bytes.len());
            // A thread of the host frees them.
            allocator::hand_over(bytes.capacity() as u64);
            let shared = &self.context.shared;
            shared.add_snapshot(checkpoint, self.context.operator, vec![bytes.into()]);
        }
        Ok(())
    }

    /// Returns true if a snapshot may contain only what has changed.
    fn stores_changes(&self) -> bool {
        self.incremental && self.context.shared.upcalls.stores_changes().is_some()
    }

    /// Returns true if no restore needs the operator's keyed state in the snapshot at this barrier: the operator has seen the end of its
    /// input, and the task ends with the checkpoint. What is restored from it processes nothing, as long as it is the same job. That is so
    /// without a checkpoint directory: its checkpoints are not retained for another job. A later savepoint would lack the state, so the
    /// JobMaster refuses it.
    fn needs_no_state(&self, barrier: Barrier) -> bool {
        let at_end = self.input_ended || self.context.shared.restored_at_end;
        let is_kept = barrier.savepoint || self.context.shared.upcalls.stores_changes().is_some();
        barrier.last && at_end && !is_kept && Op::ONLY_KEYED_STATE
    }

    /// Drops the snapshot that the operator writes for a checkpoint, if the operator can.
    fn abort_snapshot(&mut self, checkpoint: u64) {
        if self.writes == Some(checkpoint) && self.operator.abort_snapshot() {
            self.writes = None;
            self.chunks.clear();
        }
    }

    /// Hands a chunk to the host; keeps it if the host does not take it.
    fn hand_over(&mut self, checkpoint: u64, chunk: StateChunk) {
        let upcalls = &self.context.shared.upcalls;
        let refused = upcalls.store_chunk(checkpoint, self.context.operator, chunk).err();
        self.stored &= refused.is_none();
        self.chunks.extend(refused.map(|chunk| chunk.bytes));
    }

    /// Lets the operator work, and keeps what it leaves.
    fn work(&mut self, batch: &mut Batch<In>) -> Result<bool, TaskError> {
        self.operator.process(batch, &mut self.out, &self.context)?;
        if !batch.is_empty() {
            self.rest.push_front(std::mem::take(batch));
        }
        self.out.flush()?;
        Ok(self.rest.is_empty() && !self.out.is_stopped() && !self.operator.full())
    }
}

impl OperatorContext {
    /// Records the kinds, by name, of states that the operator has dropped from the restored snapshots because it does not declare them.
    /// The test of one operator refuses the restore then, as the Dispatcher does.
    pub(crate) fn note_dropped(&self, states: BTreeMap<String, String>) {
        lock(&self.dropped).extend(states);
    }
}

/// Returns the error with which an operator's `open` fails the task. What an operator decodes then is its restored state.
fn at_start(error: TaskError, context: &OperatorContext) -> TaskError {
    match error {
        TaskError::Codec { place: operator, source } if context.is_restored() => {
            TaskError::Restore { operator, source }
        }
        other => other,
    }
}

impl<In: Send + 'static, Op: Operator<In>> Consumer<In> for Link<In, Op> {
    fn open(&mut self) -> Result<(), TaskError> {
        self.out.next_mut().open()?;
        self.operator.open(&self.context).map_err(|error| at_start(error, &self.context))?;
        let name_and_kind = |name: &str| (name.to_owned(), name.to_owned());
        let dropped = self.operator.drop_undeclared().map(name_and_kind);
        self.context.note_dropped(dropped.into_iter().collect());
        if self.operator.state_bytes().is_some() {
            let gauge = self.context.metrics().gauge(STATE_BYTES);
            self.state_bytes = Some(gauge.map_err(|error| self.context.user_error(error))?);
        }
        self.show_state_bytes();
        Ok(())
    }

    fn batch(&mut self, batch: &mut Batch<In>) -> Result<bool, TaskError> {
        if !self.rest.is_empty() {
            // In order, behind what was interrupted.
            self.rest.push_back(std::mem::take(batch));
            return Ok(false);
        }
        self.work(batch)
    }

    fn resume(&mut self) -> Result<(), TaskError> {
        self.out.resume()?;
        // Batch by batch, as they came: what is behind may be full after any of them.
        while !self.rest.is_empty()
            && !self.out.is_interrupted()
            && !self.full()
            && let Some(mut batch) = self.rest.pop_front()
        {
            self.work(&mut batch)?;
            if !self.out.should_continue() {
                break;
            }
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        !self.rest.is_empty() || self.out.is_interrupted()
    }

    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        if !self.passing {
            if matches!(event, StreamEvent::Barrier(_)) && self.writes.is_some() {
                // The snapshot of the barrier before has to be complete.
                return Ok(Flow::More);
            }
            self.out.set_time(NO_TIME);
            // What an operator emitted at an end that it has seen must not be emitted again.
            if !self.is_over() || matches!(event, StreamEvent::Barrier(_)) {
                let flow = self.operator.event(event, &mut self.out, &self.context)?;
                self.out.flush()?;
                if flow != Flow::Done {
                    return Ok(flow);
                }
            }
            self.input_ended |= event == StreamEvent::EndOfInput;
            if let StreamEvent::Barrier(barrier) = event {
                self.take_snapshot(barrier)?;
            }
            if self.operator.passes(event) {
                self.out.side_event(event)?;
            }
        }
        let flow = if self.operator.passes(event) { self.out.event(event)? } else { Flow::Done };
        self.passing = flow != Flow::Done;
        Ok(flow)
    }

    fn full(&self) -> bool {
        self.operator.full() || self.out.is_full()
    }

    fn writes(&self) -> Option<u64> {
        let behind = self.out.next().writes();
        self.writes.into_iter().chain(behind).min()
    }

    fn write_snapshots(&mut self, slice: &mut Slice<'_>) -> Result<(), TaskError> {
        if let Some(checkpoint) = self.writes {
            slice.stored = self.stored;
            let complete = self.operator.write_snapshot(slice, &self.context)?;
            for chunk in std::mem::take(&mut slice.chunks) {
                self.hand_over(checkpoint, chunk);
            }
            if complete {
                self.writes = None;
                let (shared, chunks) = (&self.context.shared, std::mem::take(&mut self.chunks));
                if let Some(kind) = self.begun
                    && self.stores_changes()
                {
                    shared.add_base(checkpoint, self.context.operator, kind.base());
                }
                shared.add_snapshot(checkpoint, self.context.operator, chunks);
            }
        }
        if slice.goes_on(0) { self.out.next_mut().write_snapshots(slice) } else { Ok(()) }
    }

    fn abort_snapshots(&mut self, checkpoint: u64) {
        self.abort_snapshot(checkpoint);
        self.out.next_mut().abort_snapshots(checkpoint);
    }

    fn most_at_once(&self) -> usize {
        self.out.next().most_at_once()
    }

    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        if partial {
            self.show_state_bytes();
        }
        self.out.flush_all(partial)
    }

    fn runs(&self, node: NodeId) -> bool {
        node == self.context.node || self.out.next().runs(node)
    }

    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError> {
        if to == self.context.node {
            // Nothing is emitted behind the end of input, for which the next operators and the final checkpoint count. Only the
            // repetition of a commit is still wanted.
            if matches!(mail, OperatorMail::Timer { .. })
                && (self.input_ended || self.is_over())
                && !self.operator.is_committing()
            {
                return Ok(());
            }
            self.out.set_time(NO_TIME);
            self.operator.mail(mail, &mut self.out, &self.context)?;
            return self.out.flush();
        }
        self.out.next_mut().deliver(to, mail)
    }

    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.operator.notify_complete(checkpoint, &self.context)?;
        self.out.next_mut().notify_complete(checkpoint)
    }

    fn is_committing(&self) -> bool {
        self.operator.is_committing() || self.out.next().is_committing()
    }

    fn close(&mut self) -> Result<(), TaskError> {
        self.ended = true;
        self.operator.close(&self.context)?;
        self.out.next_mut().close()
    }

    fn dispose(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            // A panic must not keep the other operators of the chain from disposing.
            if let Err(panic) = catch(|| self.operator.dispose(&self.context)) {
                let operator = self.context.name();
                tracing::warn!(
                    operator,
                    panic,
                    "dispose panicked; files that it deletes may be left"
                );
            }
        }
        self.out.next_mut().dispose();
    }
}
