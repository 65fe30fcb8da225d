//! One link of a chain: an operator, its output, and what every operator has in common.

use super::{
    Collector, Consumer, Control, Flow, Gauge, Operator, OperatorContext, OperatorMail, SideOutputs,
};
use crate::{
    batch::{Batch, NO_TIME},
    lock,
    memory::allocator,
    seam::{Barrier, StreamEvent, TaskError},
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
    common: Common,
    /// Batches that were handed in and are not worked off, because the step was interrupted.
    rest: VecDeque<Batch<In>>,
}

/// The part of a [`Link`] that knows neither operator nor record type.
struct Common {
    context: OperatorContext,
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

impl Common {
    fn new(context: OperatorContext) -> Self {
        let incremental = is_incremental(&context.shared.options);
        Self {
            context,
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

    /// Returns true if records and events are over for the operator: it has seen its end of input before the checkpoint that it is
    /// restored from, or the job is stopped without the end of its data.
    fn is_over(&self) -> bool {
        self.context.shared.restored_at_end || self.context.shared.is_stopped()
    }

    /// Records the state that the operator has dropped when it was opened, and shows how many bytes of state it has, if it has state.
    fn opened(&mut self, dropped: Option<&str>, bytes: Option<u64>) -> Result<(), TaskError> {
        let name_and_kind = |name: &str| (name.to_owned(), name.to_owned());
        self.context.note_dropped(dropped.map(name_and_kind).into_iter().collect());
        if let Some(bytes) = bytes {
            let gauge = self.context.metrics().gauge(STATE_BYTES);
            self.state_bytes = Some(gauge.map_err(|error| self.context.user_error(error))?);
            self.show_state_bytes(bytes);
        }
        Ok(())
    }

    /// Brings the metric up to date: a few times a second, because tables are many.
    fn show_state_bytes(&self, bytes: u64) {
        if let Some(gauge) = &self.state_bytes {
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
            // Wraps where the operator has less than before.
            let change = bytes.wrapping_sub(self.counted.replace(bytes));
            self.context.shared.counters.state_bytes.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Returns true if a snapshot may contain only what has changed.
    fn stores_changes(&self) -> bool {
        self.incremental && self.context.shared.upcalls.stores_changes().is_some()
    }

    /// Returns true if the snapshot at this barrier contains only what has changed. A savepoint stands alone.
    fn takes_changes(&self, barrier: Barrier) -> bool {
        self.stores_changes() && !barrier.savepoint && !barrier.full
    }

    /// Returns true if no restore needs the operator's keyed state in the snapshot at this barrier: the operator has seen the end of its
    /// input, and the task ends with the checkpoint. What is restored from it processes nothing, as long as it is the same job. That is so
    /// without a checkpoint directory: its checkpoints are not retained for another job. A later savepoint would lack the state, so the
    /// JobMaster refuses it.
    fn needs_no_keyed_state(&self, barrier: Barrier) -> bool {
        let at_end = self.input_ended || self.context.shared.restored_at_end;
        let is_kept = barrier.savepoint || self.context.shared.upcalls.stores_changes().is_some();
        barrier.last && at_end && !is_kept
    }

    /// Takes a snapshot that the operator has made in one piece. `has_state` is [`Operator::HAS_STATE`].
    fn taken(
        &self,
        checkpoint: u64,
        bytes: Vec<u8>,
        has_state: bool,
        is_aborted: bool,
    ) -> Result<(), TaskError> {
        if !has_state {
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
        Ok(())
    }

    /// Hands the chunks that the operator has written to the host; keeps those that the host does not take. A `complete` snapshot is the
    /// task's then.
    fn written(&mut self, checkpoint: u64, complete: bool, slice: &mut Slice<'_>) {
        for chunk in std::mem::take(&mut slice.chunks) {
            let upcalls = &self.context.shared.upcalls;
            let refused = upcalls.store_chunk(checkpoint, self.context.operator, chunk).err();
            self.stored &= refused.is_none();
            self.chunks.extend(refused.map(|chunk| chunk.bytes));
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

    /// Returns the smaller one of the checkpoint that the operator writes and of that which the chain behind writes.
    fn first_written(&self, behind: Option<u64>) -> Option<u64> {
        self.writes.into_iter().chain(behind).min()
    }

    /// Calls `dispose`. A panic must not keep the other operators of the chain from disposing.
    fn dispose(&self, dispose: &mut dyn FnMut()) {
        if let Err(panic) = catch(dispose) {
            let operator = self.context.name();
            tracing::warn!(operator, panic, "dispose panicked; files that it deletes may be left");
        }
    }
}

impl<In, Op: Operator<In>> Link<In, Op> {
    /// Puts an operator in front of `next`, the rest of the chain; [`Control::open`] opens it. `sides` are the side outputs that something
    /// reads: records for others are dropped.
    pub fn new(
        operator: Op,
        next: Box<dyn Consumer<Op::Out>>,
        sides: SideOutputs,
        context: OperatorContext,
    ) -> Self {
        let out = Collector::new(next, sides, context.shared.interrupt.clone());
        Self { operator, out, common: Common::new(context), rest: VecDeque::new() }
    }

    /// Returns the states that [`Control::open`] has dropped from the restored snapshots because the operator does not declare them: the
    /// kind of each, by name.
    pub(crate) fn dropped(&self) -> BTreeMap<String, String> {
        lock(&self.common.context.dropped).clone()
    }

    /// Returns the operator.
    pub(crate) fn operator(&self) -> &Op {
        &self.operator
    }

    pub(crate) fn operator_mut(&mut self) -> &mut Op {
        &mut self.operator
    }

    /// Takes out the operator's snapshots for a checkpoint.
    #[cfg(test)]
    pub(crate) fn snapshots(&self, checkpoint: u64) -> Vec<Vec<u8>> {
        let taken = self.common.context.shared.take_snapshots(checkpoint);
        taken.iter().map(|(_, chunks)| super::join_chunks(chunks)).collect()
    }

    /// Returns the kind of the snapshot that was begun last.
    #[cfg(test)]
    pub(super) fn begun(&self) -> Option<SnapshotKind> {
        self.common.begun
    }

    /// Returns true if the operator has written more in one piece than it should.
    #[cfg(test)]
    pub(super) fn has_warned(&self) -> bool {
        self.common.context.one_piece.has_warned()
    }

    /// Makes it another operator of its chain.
    #[cfg(test)]
    pub(super) fn set_node(&mut self, node: NodeId) {
        self.common.context.node = node;
    }

    /// Takes or begins the operator's snapshot. That of an aborted checkpoint is dropped at once; the operator sees the barrier even
    /// so, because it may prepare commits there.
    fn take_snapshot(&mut self, barrier: Barrier) -> Result<(), TaskError> {
        let Self { operator, common, .. } = self;
        if Op::ONLY_KEYED_STATE && common.needs_no_keyed_state(barrier) {
            common.begun = None;
            return Ok(());
        }
        let checkpoint = barrier.checkpoint;
        let is_aborted = common.context.shared.is_aborted(checkpoint);
        common.begun = match common.takes_changes(barrier) {
            true => operator.begin_incremental(checkpoint, &common.context)?,
            false => {
                let begun = operator.begin_snapshot(checkpoint, &common.context)?;
                begun.then_some(SnapshotKind::Full)
            }
        };
        if common.begun.is_some() {
            common.writes = Some(checkpoint);
            if is_aborted {
                self.abort_snapshot(checkpoint);
            }
        } else if let Some(bytes) = operator.snapshot(checkpoint, &common.context)? {
            common.taken(checkpoint, bytes, Op::HAS_STATE, is_aborted)?;
        }
        Ok(())
    }

    /// Drops the snapshot that the operator writes for a checkpoint, if the operator can.
    fn abort_snapshot(&mut self, checkpoint: u64) {
        if self.common.writes == Some(checkpoint) && self.operator.abort_snapshot() {
            self.common.writes = None;
            self.common.chunks.clear();
        }
    }

    /// Lets the operator work, and keeps what it leaves.
    fn work(&mut self, batch: &mut Batch<In>) -> Result<bool, TaskError> {
        self.operator.process(batch, &mut self.out, &self.common.context)?;
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
    fn batch(&mut self, batch: &mut Batch<In>) -> Result<bool, TaskError> {
        if !self.rest.is_empty() {
            // In order, behind what was interrupted.
            self.rest.push_back(std::mem::take(batch));
            return Ok(false);
        }
        self.work(batch)
    }
}

impl<In: Send + 'static, Op: Operator<In>> Control for Link<In, Op> {
    fn open(&mut self) -> Result<(), TaskError> {
        self.out.next_mut().open()?;
        self.operator
            .open(&self.common.context)
            .map_err(|error| at_start(error, &self.common.context))?;
        self.common.opened(self.operator.drop_undeclared(), self.operator.state_bytes())
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
        if !self.common.passing {
            if matches!(event, StreamEvent::Barrier(_)) && self.common.writes.is_some() {
                // The snapshot of the barrier before has to be complete.
                return Ok(Flow::More);
            }
            self.out.set_time(NO_TIME);
            // What an operator emitted at an end that it has seen must not be emitted again.
            if !self.common.is_over() || matches!(event, StreamEvent::Barrier(_)) {
                let flow = self.operator.event(event, &mut self.out, &self.common.context)?;
                self.out.flush()?;
                if flow != Flow::Done {
                    return Ok(flow);
                }
            }
            self.common.input_ended |= event == StreamEvent::EndOfInput;
            if let StreamEvent::Barrier(barrier) = event {
                self.take_snapshot(barrier)?;
            }
            if self.operator.passes(event) {
                self.out.side_event(event)?;
            }
        }
        let flow = if self.operator.passes(event) { self.out.event(event)? } else { Flow::Done };
        self.common.passing = flow != Flow::Done;
        Ok(flow)
    }

    fn full(&self) -> bool {
        self.operator.full() || self.out.is_full()
    }

    fn writes(&self) -> Option<u64> {
        self.common.first_written(self.out.next().writes())
    }

    fn write_snapshots(&mut self, slice: &mut Slice<'_>) -> Result<(), TaskError> {
        if let Some(checkpoint) = self.common.writes {
            slice.stored = self.common.stored;
            let complete = self.operator.write_snapshot(slice, &self.common.context)?;
            self.common.written(checkpoint, complete, slice);
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
        if partial
            && self.common.state_bytes.is_some()
            && let Some(bytes) = self.operator.state_bytes()
        {
            self.common.show_state_bytes(bytes);
        }
        self.out.flush_all(partial)
    }

    fn runs(&self, node: NodeId) -> bool {
        node == self.common.context.node || self.out.next().runs(node)
    }

    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError> {
        if to == self.common.context.node {
            // Nothing is emitted behind the end of input, for which the next operators and the final checkpoint count. Only the
            // repetition of a commit is still wanted.
            if matches!(mail, OperatorMail::Timer { .. })
                && (self.common.input_ended || self.common.is_over())
                && !self.operator.is_committing()
            {
                return Ok(());
            }
            self.out.set_time(NO_TIME);
            self.operator.mail(mail, &mut self.out, &self.common.context)?;
            return self.out.flush();
        }
        self.out.next_mut().deliver(to, mail)
    }

    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.operator.notify_complete(checkpoint, &self.common.context)?;
        self.out.next_mut().notify_complete(checkpoint)
    }

    fn is_committing(&self) -> bool {
        self.operator.is_committing() || self.out.next().is_committing()
    }

    fn close(&mut self) -> Result<(), TaskError> {
        self.common.ended = true;
        self.operator.close(&self.common.context)?;
        self.out.next_mut().close()
    }

    fn dispose(&mut self) {
        let Self { operator, common, .. } = self;
        if !std::mem::replace(&mut common.ended, true) {
            common.dispose(&mut || operator.dispose(&common.context));
        }
        self.out.next_mut().dispose();
    }
}
