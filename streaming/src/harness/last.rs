//! The final checkpoint of a job whose sinks commit: triggered at the end of all data, and complete when every task has
//! acknowledged it.

use super::{HarnessError, Running, failed, trigger, upcalls::World};
use crate::{Mail, seam::Barrier};
use model::JobGraph;
use std::sync::atomic::Ordering;

/// Returns whether a job has sinks that commit, so that it ends with a final checkpoint.
pub(super) fn commits(graph: &JobGraph) -> bool {
    graph.nodes.iter().any(|node| node.commits)
}

/// The checkpoint after the end of all data, which a job with committing sinks ends with.
#[derive(Default)]
pub(super) struct FinalCheckpoint {
    /// The checkpoint's number, once it was triggered.
    number: Option<u64>,
    notified: bool,
}

impl FinalCheckpoint {
    /// Triggers the checkpoint before the end of the data, unless it was triggered. Returns true if it did.
    pub(super) fn stop(
        &mut self,
        world: &World,
        tasks: &mut [Running],
        drain: bool,
    ) -> Result<bool, HarnessError> {
        if self.number.is_some() {
            return Ok(false);
        }
        if drain {
            for running in tasks.iter_mut().filter(|running| running.source) {
                let told = running.task.deliver(Mail::Drain);
                told.map_err(|error| failed(running, error))?;
            }
        }
        let checkpoint = world.next_checkpoint();
        self.number = Some(checkpoint);
        trigger(tasks, Barrier { checkpoint, last: true, ..Barrier::default() })?;
        Ok(true)
    }

    /// Triggers the checkpoint once all sources are at their ends, and tells the tasks that it is complete once all of them have
    /// acknowledged it. Returns true if the tasks have something to do.
    pub(super) fn advance(
        &mut self,
        world: &World,
        tasks: &mut [Running],
    ) -> Result<bool, HarnessError> {
        let at_end =
            |running: &Running| running.task.counters().end_of_data.load(Ordering::Relaxed);
        match self.number {
            None if tasks.iter().filter(|running| running.source).all(at_end) => {
                let checkpoint = world.next_checkpoint();
                self.number = Some(checkpoint);
                trigger(tasks, Barrier { checkpoint, last: true, ..Barrier::default() })?;
                Ok(true)
            }
            Some(number) if !self.notified && world.acknowledgements(number) == tasks.len() => {
                self.notified = true;
                for running in tasks {
                    // A host repeats it if the answer is lost.
                    for _ in 0..2 {
                        let told = running.task.deliver(Mail::NotifyComplete(number));
                        told.map_err(|error| failed(running, error))?;
                    }
                    running.woken.set();
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
