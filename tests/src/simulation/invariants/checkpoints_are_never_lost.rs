//! A complete checkpoint is never lost: once its pointer is in the job's log, or a task was told that it is complete, whatever is
//! restored afterwards is restored from it or from a newer one, and all of it from the same one. Until the job has ended, the
//! metadata of the newest complete checkpoint exists.
//!
//! A subtask that waited for slots while a checkpoint was taken may be restored from an older one: its part is the same in both.
//!
//! A superseded JobMaster whose deployment arrives late is judged by what was complete in its own time: nothing that it deploys
//! can complete a checkpoint any more.

use super::Invariant;
use crate::simulation::observer::{Noticed, Restored, Seen, What};
use model::{JobId, JobVertexId, LeaderSession};
use std::collections::{BTreeMap, BTreeSet};

/// The checkpoints of one job.
#[derive(Default)]
struct OfJob {
    /// The complete checkpoints of each leader, by the leader's number in the store.
    complete: BTreeMap<u64, BTreeSet<u64>>,
    /// The subtasks that took part in each checkpoint of a leader.
    parts: BTreeMap<(u64, u64), BTreeSet<(JobVertexId, u32)>>,
    /// The checkpoints whose metadata exists.
    stored: BTreeSet<u64>,
    ended: bool,
}

/// The invariant that a complete checkpoint is never lost: what is restored after it comes from it or a newer one, and its metadata
/// stays until the job has ended. Holds, per job, the complete checkpoints, the subtasks in each, and the metadata that exists.
#[derive(Default)]
pub struct CheckpointsAreNeverLost {
    jobs: BTreeMap<JobId, OfJob>,
}

impl OfJob {
    fn complete(&mut self, by: LeaderSession, checkpoint: u64) {
        self.complete.entry(by.epoch.store).or_default().insert(checkpoint);
    }

    /// Returns the newest checkpoint that is complete.
    fn newest(&self) -> Option<u64> {
        self.complete.values().filter_map(|complete| complete.last().copied()).max()
    }

    /// Judges what a JobMaster has restored. `part`: the subtask; `None`: the coordinators.
    fn restored(
        &self,
        by: LeaderSession,
        part: Option<(JobVertexId, u32)>,
        from: Restored,
    ) -> Result<(), String> {
        let took_part = |(leader, checkpoint): &(u64, u64)| {
            let parts = self.parts.get(&(*leader, *checkpoint));
            part.is_none_or(|part| parts.is_some_and(|parts| parts.contains(&part)))
        };
        let before = self.complete.range(..=by.epoch.store).flat_map(|(leader, complete)| {
            complete.iter().map(|checkpoint| (*leader, *checkpoint))
        });
        let known = |number| before.clone().any(|(_, checkpoint)| checkpoint == number);
        let newest = before.clone().filter(took_part).map(|(_, checkpoint)| checkpoint).max();
        match (from, newest) {
            (Restored::Mixed, _) => Err("restored from several checkpoints at once".to_owned()),
            (Restored::Nothing, Some(newest)) => {
                Err(format!("started from the beginning, though checkpoint {newest} is complete"))
            }
            (Restored::Checkpoint(from), Some(newest)) if from < newest => {
                Err(format!("restored from checkpoint {from}, though {newest} is complete"))
            }
            (Restored::Checkpoint(from), _) if !known(from) => {
                Err(format!("restored from checkpoint {from}, which is not complete"))
            }
            _ => Ok(()),
        }
    }
}

impl Invariant for CheckpointsAreNeverLost {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Client(noticed) = &seen.what else { return Ok(()) };
        match noticed {
            Noticed::MetadataStored { job_id, checkpoint, .. } => {
                self.jobs.entry(*job_id).or_default().stored.insert(*checkpoint);
            }
            Noticed::MetadataDropped { job_id, checkpoint } => {
                let job = self.jobs.entry(*job_id).or_default();
                job.stored.remove(checkpoint);
                if !job.ended && job.newest() == Some(*checkpoint) {
                    return Err(format!(
                        "job {job_id}: the metadata of checkpoint {checkpoint} is deleted, and no newer one is complete"
                    ));
                }
            }
            Noticed::Recorded { job_id, session, result, checkpoint, .. } => {
                let job = self.jobs.entry(*job_id).or_default();
                job.ended |= result;
                if let Some(checkpoint) = checkpoint {
                    job.complete(*session, *checkpoint);
                    if !job.stored.contains(checkpoint) {
                        return Err(format!(
                            "job {job_id}: checkpoint {checkpoint} is recorded without its metadata"
                        ));
                    }
                }
            }
            Noticed::TaskAcknowledges { job_id, attempt, job_master, checkpoint, .. } => {
                let parts = &mut self.jobs.entry(*job_id).or_default().parts;
                let of = parts.entry((job_master.epoch.store, *checkpoint)).or_default();
                of.insert((attempt.vertex, attempt.subtask));
            }
            Noticed::CompletionHeard { job_id, job_master, checkpoint, .. } => {
                self.jobs.entry(*job_id).or_default().complete(*job_master, *checkpoint);
            }
            Noticed::TaskRestored { job_id, attempt, job_master, from } => {
                let job = self.jobs.entry(*job_id).or_default();
                let part = Some((attempt.vertex, attempt.subtask));
                let judged = job.restored(*job_master, part, *from);
                return judged.map_err(|what| format!("job {job_id}: {attempt} is {what}"));
            }
            Noticed::CoordinatorsRestored { job_id, job_master, from }
            | Noticed::SubtasksReset { job_id, job_master, from } => {
                let job = self.jobs.entry(*job_id).or_default();
                let judged = job.restored(*job_master, None, *from);
                return judged.map_err(|what| format!("job {job_id}: its coordinators are {what}"));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::observer::{Observer, Trace};
    use model::{ContentHash, Epoch, ExecutionAttemptId};
    use storage::jobs::LogId;

    const JOB: JobId = JobId(7);

    fn session(store: u64) -> LeaderSession {
        LeaderSession { epoch: Epoch { store, process: 1 }, nonce: store }
    }

    fn stored(checkpoint: u64) -> Noticed {
        Noticed::MetadataStored { job_id: JOB, checkpoint, content: ContentHash([1; 32]) }
    }

    fn recorded(store: u64, number: u64, checkpoint: Option<u64>) -> Noticed {
        Noticed::Recorded {
            job_id: JOB,
            log: LogId { creator: session(1), count: 0 },
            number,
            session: session(store),
            result: checkpoint.is_none(),
            checkpoint,
            program: None,
        }
    }

    fn restored(store: u64, from: Restored) -> Noticed {
        let vertex = JobVertexId(1);
        let attempt = ExecutionAttemptId { graph: store, vertex, subtask: 0, attempt: 0 };
        Noticed::TaskRestored { job_id: JOB, attempt, job_master: session(store), from }
    }

    fn acknowledged(store: u64, checkpoint: u64) -> Noticed {
        let vertex = JobVertexId(1);
        let attempt = ExecutionAttemptId { graph: store, vertex, subtask: 0, attempt: 0 };
        let job_master = session(store);
        Noticed::TaskAcknowledges { job_id: JOB, attempt, job_master, checkpoint, last: false }
    }

    fn found(all: &[Noticed]) -> usize {
        let observer = Observer::new(Trace::Hashed);
        all.iter().for_each(|noticed| observer.notice(noticed));
        observer.violations().len()
    }

    #[test]
    fn a_restore_from_the_newest_checkpoint_is_right_and_a_late_one_is_judged_by_its_time() {
        let complete = [stored(1), recorded(1, 1, Some(1)), stored(2), recorded(2, 2, Some(2))];
        let restores = [restored(2, Restored::Checkpoint(2)), restored(1, Restored::Checkpoint(1))];
        assert_eq!(found(&[&complete[..], &restores[..]].concat()), 0);
    }

    #[test]
    fn a_restore_from_an_older_checkpoint_from_several_or_from_nothing_is_found() {
        for from in [Restored::Checkpoint(1), Restored::Mixed, Restored::Nothing] {
            let complete = [stored(1), recorded(1, 1, Some(1)), stored(2), recorded(1, 2, Some(2))];
            let took_part = [acknowledged(1, 1), acknowledged(1, 2)];
            let restores = [restored(2, from)];
            let all = [&took_part[..], &complete[..], &restores[..]].concat();
            assert_eq!(found(&all), 1, "{from:?}");
        }
    }

    #[test]
    fn a_subtask_without_part_in_the_newest_checkpoint_may_have_its_part_of_the_one_before() {
        let complete = [stored(1), recorded(1, 1, Some(1)), stored(2), recorded(1, 2, Some(2))];
        let restores = [acknowledged(1, 1), restored(1, Restored::Checkpoint(1))];
        assert_eq!(found(&[&complete[..], &restores[..]].concat()), 0);
    }

    #[test]
    fn metadata_that_is_deleted_while_it_is_needed_is_found() {
        let dropped = |checkpoint| Noticed::MetadataDropped { job_id: JOB, checkpoint };
        let complete = [stored(1), recorded(1, 1, Some(1)), stored(2), recorded(1, 2, Some(2))];
        assert_eq!(found(&[&complete[..], &[dropped(1)]].concat()), 0);
        assert_eq!(found(&[&complete[..], &[dropped(2)]].concat()), 1);
        let ended = [recorded(1, 3, None), dropped(2)];
        assert_eq!(found(&[&complete[..], &ended[..]].concat()), 0);
    }
}
