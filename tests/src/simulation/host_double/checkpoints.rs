//! The double's part in checkpoints. The state of a task is a text that names the checkpoint and the attempt, so that a restore
//! shows which checkpoint it is from.
//!
//! A task whose time is over must never finish before it hears that the checkpoint of its last barrier is complete, if its
//! deployment says so.

use super::{HostDouble, RETRY};
use crate::simulation::observer::{Noticed, Restored};
use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use gateways::job_master::{CheckpointAnswer, CoordinationError};
use gateways::program_host::{
    NotifyOnHost, ResetSubtasks, SnapshotCoordinators, StartCoordinators, TriggerOnHost,
};
use gateways::task_executor::{CheckpointAnswerError, ForwardCheckpointAnswer, TaskDeployment};
use gateways::{Answer, Ask, CallError};
use model::graph::GraphNode;
use model::{
    CheckpointBarrier, ExecutionAttemptId, ExecutionState, Fence, JobGraph, LeaderSession,
    OperatorId, StateHandle, SubtaskSnapshot,
};
use serde_bytes::ByteBuf;
use std::time::Duration;

/// The shortest and the longest time that a task takes for its snapshot, and that a barrier travels, in milliseconds.
const DELAY_MS: (u64, u64) = (20, 200);

/// Marks the state of a task that ends with the checkpoint.
const LAST: &str = "last";

/// The state of a task's part in checkpoints.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// True if the task waits, after the end of its data, for a final checkpoint.
    ends_with_checkpoint: bool,
    /// True if the task had reached the end of its data in the checkpoint that it is restored from.
    ended: bool,
    /// True if the task has reached the end of its data.
    at_end: bool,
    /// The newest checkpoint whose barrier has passed the task, 0 if there was none.
    passed: u64,
    /// The checkpoint with which the task ends, once its last barrier has passed.
    last: Option<u64>,
}

impl Part {
    /// Returns true if all data has left the task.
    pub(super) fn at_end(&self) -> bool {
        self.at_end
    }
}

impl HostDouble {
    /// Takes a task's state. Tells the observer which checkpoint the state is from.
    pub(super) fn restore(
        &self,
        task: &TaskDeployment,
        job_master: LeaderSession,
        ends_with_checkpoint: bool,
    ) -> Part {
        let states = task.restore.iter().flat_map(|(_, states)| states);
        let bytes = states.filter_map(|state| match state {
            StateHandle::Inline(bytes) => Some(&bytes[..]),
            StateHandle::Object { .. }
            | StateHandle::External { .. }
            | StateHandle::Parts(_)
            | StateHandle::Ranges { .. } => None,
        });
        let (job_id, attempt) = (self.job, task.attempt);
        let from = checkpoint_of(bytes, self.is_one_region());
        self.observer.notice(&Noticed::TaskRestored { job_id, attempt, job_master, from });
        Part { ends_with_checkpoint, ended: task.ended, ..Part::default() }
    }

    /// Returns how long a task runs until the end of its data; `None`: until it is cancelled.
    pub(super) fn remaining_time(&self, attempt: ExecutionAttemptId) -> Option<Duration> {
        let ended = self.tasks.get(&attempt).is_some_and(|task| task.part.ended);
        if ended { Some(Duration::ZERO) } else { self.task_time }
    }

    /// A task's time is over: it finishes, or reports the end of its data and waits for its last checkpoint.
    pub(super) fn end_data(&mut self, attempt: ExecutionAttemptId, ctx: &mut Context<Self>) {
        let Some(task) = self.tasks.get_mut(&attempt) else { return };
        task.part.at_end = true;
        let waits = task.part.ends_with_checkpoint;
        let state = if waits { ExecutionState::Running } else { ExecutionState::Finished };
        self.enter(attempt, state, None, ctx);
    }

    /// Looks for barriers until the task has ended, unless the task is a source, which is given its barriers.
    pub(super) fn await_barriers(&self, attempt: ExecutionAttemptId, ctx: &mut Context<Self>) {
        let Some(task) = self.tasks.get(&attempt) else { return };
        if !task.part.ends_with_checkpoint || self.is_source(attempt) {
            return;
        }
        ctx.run_later(self.delay(), move |host, ctx| {
            if let Some(barrier) = host.barriers.passed(attempt, host.sources()) {
                host.take_barrier(attempt, barrier, ctx);
            }
            host.await_barriers(attempt, ctx);
        });
    }

    fn delay(&self) -> Duration {
        let (least, most) = DELAY_MS;
        Duration::from_millis(least + self.rpc.platform().random_u64() % (most - least))
    }

    fn is_source(&self, attempt: ExecutionAttemptId) -> bool {
        let graph = self.graph.iter().flat_map(|graph| &graph.vertices);
        graph.filter(|vertex| vertex.id == attempt.vertex).any(|vertex| vertex.source)
    }

    /// Returns true if all tasks of the job are one region: its vertices follow one another over hash edges, if there are several.
    fn is_one_region(&self) -> bool {
        self.graph.as_ref().is_none_or(|graph| !graph.edges.is_empty())
    }

    fn sources(&self) -> u32 {
        let graph = self.graph.iter().flat_map(|graph| &graph.vertices);
        graph.filter(|vertex| vertex.source).map(|vertex| vertex.parallelism).sum()
    }

    /// A barrier has arrived: the task passes it on and acknowledges it after a while.
    fn take_barrier(
        &mut self,
        attempt: ExecutionAttemptId,
        barrier: CheckpointBarrier,
        ctx: &mut Context<Self>,
    ) {
        let CheckpointBarrier { checkpoint, last, .. } = barrier;
        let running = self.tasks.get_mut(&attempt);
        let Some(task) = running.filter(|task| task.state == ExecutionState::Running) else {
            return;
        };
        if checkpoint <= task.part.passed {
            return;
        }
        task.part.passed = checkpoint;
        task.part.last = last.then_some(checkpoint);
        let (ended, job_master) = (task.part.at_end, task.job_master);
        if self.is_source(attempt) {
            self.barriers.pass(attempt, barrier);
        }
        let job_id = self.job;
        self.observer.notice(&Noticed::TaskAcknowledges {
            job_id,
            attempt,
            job_master,
            checkpoint,
            last,
        });
        let state = StateHandle::Inline(state_of(attempt, barrier).into_bytes());
        let operators = vec![(operator_of(attempt), state)];
        let answer = Ok(SubtaskSnapshot { ended, operators, pause_us: 0 });
        let answer = CheckpointAnswer { attempt, checkpoint, answer };
        ctx.run_later(self.delay(), move |host, ctx| host.answer(answer, ctx));
    }

    /// Sends the answer until the JobMaster has it or nobody waits for it.
    fn answer(&self, answer: CheckpointAnswer, ctx: &mut Context<Self>) {
        let running = self.tasks.contains_key(&answer.attempt);
        let Some(parent) = self.parent.clone().filter(|_| running) else { return };
        let message = ForwardCheckpointAnswer { job_id: self.job, answer: answer.clone() };
        let call = async move { parent.ask(message).await };
        ctx.spawn(call.into_actor(self).map(move |answered, _, ctx| match answered {
            Ok(()) | Err(CallError::Refused(CheckpointAnswerError::StaleAttempt { .. })) => {}
            Err(_) => {
                ctx.run_later(RETRY, move |host, ctx| host.answer(answer, ctx));
            }
        }));
    }
}

fn operator_of(attempt: ExecutionAttemptId) -> OperatorId {
    // Each vertex of a simulated job has one operator, of the same number.
    OperatorId(attempt.vertex.0)
}

/// Returns the state of a task: the checkpoint, whether the task ends with it, and the attempt.
fn state_of(attempt: ExecutionAttemptId, barrier: CheckpointBarrier) -> String {
    let last = if barrier.last { LAST } else { "-" };
    format!("{} {last} {attempt}", barrier.checkpoint)
}

/// Returns the checkpoint that states are from. State of a task that has ended stays as it is in later checkpoints, and so does that
/// of a region that waits for slots while another one ends; within one region all other state is of one checkpoint.
fn checkpoint_of<'a>(states: impl Iterator<Item = &'a [u8]>, one_region: bool) -> Restored {
    let mut named: Vec<(u64, bool)> = Vec::new();
    for state in states {
        let text = std::str::from_utf8(state).unwrap_or_default();
        let mut words = text.split(' ');
        let Some(checkpoint) = words.next().and_then(|word| word.parse().ok()) else {
            return Restored::Mixed;
        };
        named.push((checkpoint, words.next() == Some(LAST)));
    }
    let Some(newest) = named.iter().map(|(checkpoint, _)| *checkpoint).max() else {
        return Restored::Nothing;
    };
    let same = named.iter().all(|(checkpoint, last)| *checkpoint == newest || *last);
    if same || !one_region { Restored::Checkpoint(newest) } else { Restored::Mixed }
}

impl Handler<Ask<TriggerOnHost>> for HostDouble {
    type Result = Answer<TriggerOnHost>;
    fn handle(
        &mut self,
        ask: Ask<TriggerOnHost>,
        ctx: &mut Context<Self>,
    ) -> Answer<TriggerOnHost> {
        let TriggerOnHost { attempts, barrier } = ask.body;
        for attempt in attempts {
            self.take_barrier(attempt, barrier, ctx);
        }
        Ok(())
    }
}

impl Handler<Ask<NotifyOnHost>> for HostDouble {
    type Result = Answer<NotifyOnHost>;
    fn handle(&mut self, ask: Ask<NotifyOnHost>, ctx: &mut Context<Self>) -> Answer<NotifyOnHost> {
        let NotifyOnHost { attempts, checkpoint, complete } = ask.body;
        for attempt in attempts {
            let Some(task) = self.tasks.get(&attempt).filter(|_| complete) else { continue };
            let (job_id, job_master) = (self.job, task.job_master);
            let ends = task.part.last == Some(checkpoint);
            let heard = Noticed::CompletionHeard { job_id, attempt, job_master, checkpoint };
            self.observer.notice(&heard);
            if ends {
                self.enter(attempt, ExecutionState::Finished, None, ctx);
            }
        }
        Ok(())
    }
}

impl Handler<Ask<StartCoordinators>> for HostDouble {
    type Result = Answer<StartCoordinators>;
    fn handle(
        &mut self,
        ask: Ask<StartCoordinators>,
        _: &mut Context<Self>,
    ) -> Answer<StartCoordinators> {
        let StartCoordinators { graph, job_master_id, restore, .. } = ask.body;
        let from = checkpoint_of(restore.iter().map(|(_, state)| &state[..]), true);
        let (job_id, job_master) = (self.job, job_master_id.session());
        self.observer.notice(&Noticed::CoordinatorsRestored { job_id, job_master, from });
        self.graph = Some(graph);
        self.coordinators_of = Some(job_master);
        Ok(())
    }
}

impl Handler<Ask<ResetSubtasks>> for HostDouble {
    type Result = Answer<ResetSubtasks>;
    fn handle(&mut self, ask: Ask<ResetSubtasks>, _: &mut Context<Self>) -> Answer<ResetSubtasks> {
        let from = ask.body.checkpoint.map_or(Restored::Nothing, Restored::Checkpoint);
        let job_master = self.coordinators_of.ok_or_else(|| {
            CoordinationError::Unavailable("no coordinator was started here".to_owned())
        })?;
        self.observer.notice(&Noticed::SubtasksReset { job_id: self.job, job_master, from });
        Ok(())
    }
}

impl Handler<Ask<SnapshotCoordinators>> for HostDouble {
    type Result = Answer<SnapshotCoordinators>;
    fn handle(
        &mut self,
        ask: Ask<SnapshotCoordinators>,
        _: &mut Context<Self>,
    ) -> Answer<SnapshotCoordinators> {
        let state = format!("{} -", ask.body.checkpoint);
        let nodes = self.graph.iter().flat_map(|graph: &std::sync::Arc<JobGraph>| &graph.nodes);
        let coordinated =
            nodes.filter(|node: &&GraphNode| ask.body.operators.contains(&node.operator_id));
        Ok(coordinated.map(|node| (node.operator_id, ByteBuf::from(state.clone()))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(states: &[&str]) -> Restored {
        checkpoint_of(states.iter().map(|state| state.as_bytes()), true)
    }

    #[test]
    fn states_of_one_checkpoint_name_it_and_those_of_ended_tasks_may_be_older() {
        assert_eq!(from(&[]), Restored::Nothing);
        assert_eq!(from(&["7 - a", "7 - b"]), Restored::Checkpoint(7));
        assert_eq!(from(&["5 last a", "7 - b"]), Restored::Checkpoint(7));
        assert_eq!(from(&["5 - a", "7 - b"]), Restored::Mixed);
        assert_eq!(from(&["7 - a", "nothing"]), Restored::Mixed);
        let apart = ["5 - a", "7 - b"].into_iter().map(str::as_bytes);
        assert_eq!(checkpoint_of(apart, false), Restored::Checkpoint(7));
    }
}
