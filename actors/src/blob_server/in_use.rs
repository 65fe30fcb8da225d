//! The permanent blobs that are needed: the programs and blobs of jobs, as the leading Dispatcher of this process knows
//! them; programs that are uploaded here; programs for which a job is about to come. Also the programs that were needed
//! and no longer are.
//!
//! While no Dispatcher of this process leads, the needs are unknown and everything is kept: the process that leads may
//! need the copies of programs in the cluster's object store.

use model::{BlobKey, BlobKind, ContentHash, JobId};
use platform::watch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum number of expected jobs per program. Of more, the earliest were expected long enough ago.
const EXPECTED_MAX: usize = 64;

/// The permanent blobs (kept until no job needs them) that the jobs of a cluster need, as its leading Dispatcher knows
/// them and writes them into [`BlobsInUse`]. Programs that were only uploaded are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needed {
    /// Hash of the executable of each job that this or the next leading Dispatcher may run: its graph is being built or
    /// stored, it runs, or it may have been stored.
    pub programs: BTreeMap<JobId, ContentHash>,
    /// The jobs whose own permanent blobs (those that belong to the job) are needed: all that the Dispatcher knows and that have not
    /// been forgotten. A job may be here without a program in `programs`.
    pub jobs: BTreeSet<JobId>,
}

/// A handle to the record of the blobs that are needed, by which the leading Dispatcher (jobs) and the REST endpoint (uploaded programs)
/// tell the BlobServer of the same process what it must not remove. The record is in memory. Its methods return at once: the BlobServer
/// removes in the background. Clones share the record. While the jobs' needs are unknown, no permanent blob is removed: at first, and
/// whenever no Dispatcher of this process leads, it still recovers jobs, or another leader has taken a job over from it.
#[derive(Debug, Clone, Default)]
pub struct BlobsInUse(watch::Sender<Known>);

#[derive(Debug, Default)]
struct Known {
    needed: Option<Needed>,
    /// Number of jobs in `needed` by their program. A program without a job has no entry.
    users: BTreeMap<ContentHash, u32>,
    uploaded: BTreeSet<ContentHash>,
    /// For each program, the monotonic times until which it is kept for jobs that are about to come
    /// with it.
    expected: BTreeMap<ContentHash, VecDeque<Duration>>,
    /// Programs that were needed or uploaded before; they are removed once nothing keeps them.
    released: BTreeSet<ContentHash>,
}

impl Known {
    fn keeps(&self, key: &BlobKey, now: Duration) -> bool {
        let Some(needed) = &self.needed else { return true };
        match key.job {
            None => self.keeps_program(key.hash) || self.expects(key.hash, now),
            Some(job) => needed.jobs.contains(&job),
        }
    }

    fn keeps_program(&self, hash: ContentHash) -> bool {
        self.users.contains_key(&hash) || self.uploaded.contains(&hash)
    }

    fn expects(&self, hash: ContentHash, now: Duration) -> bool {
        self.expected.get(&hash).is_some_and(|jobs| jobs.iter().any(|until| *until > now))
    }

    /// Records that a job with this program has come, so one job less is expected.
    fn come(&mut self, hash: ContentHash) {
        if let Some(jobs) = self.expected.get_mut(&hash) {
            jobs.pop_front();
            if jobs.is_empty() {
                self.expected.remove(&hash);
            }
        }
    }

    fn set_needed(&mut self, needed: Option<Needed>) {
        let before = std::mem::replace(&mut self.needed, needed);
        self.users.clear();
        let Some(now) = &self.needed else { return };
        for hash in now.programs.values() {
            *self.users.entry(*hash).or_default() += 1;
        }
        // Without an earlier set (a leadership begins) or without a new one (it ends) no job has ended, so no program
        // is released.
        let Some(before) = before else { return };
        let left = before.programs.values().filter(|hash| !self.users.contains_key(hash));
        self.released.extend(left);
        let new = now.programs.iter().filter(|(job, _)| !before.programs.contains_key(job));
        for hash in new.map(|(_, hash)| *hash).collect::<Vec<_>>() {
            self.come(hash);
        }
    }

    /// Replaces the program of one job; `None` if the job has ended or its program is not known.
    fn set_program(&mut self, job: JobId, program: Option<ContentHash>) {
        let Some(needed) = &mut self.needed else { return };
        let before = match program {
            Some(hash) => needed.programs.insert(job, hash),
            None => needed.programs.remove(&job),
        };
        if before == program {
            return;
        }
        if let Some(hash) = program {
            *self.users.entry(hash).or_default() += 1;
            if before.is_none() {
                self.come(hash);
            }
        }
        let Some(hash) = before else { return };
        let users = self.users.get(&hash).copied().unwrap_or_default();
        debug_assert!(users > 0, "the users of program {hash} are counted");
        if users > 1 {
            self.users.insert(hash, users - 1);
        } else {
            self.users.remove(&hash);
            self.released.insert(hash);
        }
    }
}

impl BlobsInUse {
    /// Replaces the record of everything that the jobs need; `None` if that is unknown here, so that every permanent
    /// blob is kept. The BlobServer then removes programs that the former record had and the new one lacks, unless an upload
    /// or an expected job needs them; other permanent blobs that nothing needs go after `blob.cleanup-interval`, but not before a minute. A
    /// change to `None` removes nothing, and one from `None` at once only programs that were released before, such as uploads that were
    /// forgotten meanwhile. The Dispatcher calls this when it has recovered all jobs, and with `None` when it stops or finds
    /// that another leader owns one of its jobs.
    pub fn set(&self, needed: Option<Needed>) {
        self.0.send_if_modified(|known| {
            let changed = known.needed != needed;
            if changed {
                known.set_needed(needed);
            }
            changed
        });
    }

    /// Records that a job exists: the BlobServer keeps the job's own blobs and its program (`None` if that is not known, or no longer
    /// needed) from now on. `program` replaces the one that was recorded for the job before, also with `None`: that one is then removed
    /// as in [`BlobsInUse::remove_job`]. If none was recorded for the job before, the job counts as one of those that the BlobServer
    /// expected with `program`: it then keeps `program` for one expected job less. Does nothing while the needs of jobs are unknown.
    pub fn set_job(&self, job: JobId, program: Option<ContentHash>) {
        self.change_job(job, |needed| needed.jobs.insert(job), program);
    }

    /// Records that this job needs no blob any more; the BlobServer removes its program if no other job and no upload needs it, one
    /// for which a job is about to come only later. The job's own blobs expire after `blob.cleanup-interval`, but not before a minute. Does
    /// nothing while the needs of jobs are unknown, or if the job is not recorded.
    pub fn remove_job(&self, job: JobId) {
        self.change_job(job, |needed| needed.jobs.remove(&job), None);
    }

    fn change_job(
        &self,
        job: JobId,
        change: impl FnOnce(&mut Needed) -> bool,
        program: Option<ContentHash>,
    ) {
        self.0.send_if_modified(|known| {
            let Some(needed) = &mut known.needed else { return false };
            let changed = change(needed) || needed.programs.get(&job).copied() != program;
            known.set_program(job, program);
            changed
        });
    }

    /// Returns a copy of the record of everything that the jobs need; `None` if that is unknown here, because no Dispatcher of this
    /// process leads, it is still recovering jobs, or another leader has taken a job over from it. Uploaded programs are not included.
    pub fn get(&self) -> Option<Needed> {
        self.0.borrow().needed.clone()
    }

    /// Replaces the set of programs, by the hash of their content, that were uploaded to this process's REST endpoint
    /// and must be kept. The BlobServer removes those that are no longer in the set, unless a job needs them; those for which
    /// a job is about to come, or all while the needs of jobs are unknown, only later.
    pub fn set_uploaded(&self, programs: BTreeSet<ContentHash>) {
        self.0.send_if_modified(|known| {
            let before = std::mem::replace(&mut known.uploaded, programs);
            let removed: Vec<_> = before.difference(&known.uploaded).copied().collect();
            known.released.extend(&removed);
            !removed.is_empty()
        });
    }

    /// Records that a program was uploaded or asked for: a job will come with it before `until`.
    pub(super) fn expect(&self, program: ContentHash, now: Duration, until: Duration) {
        self.0.send_if_modified(|known| {
            known.expected.retain(|_, jobs| {
                jobs.retain(|until| *until > now);
                !jobs.is_empty()
            });
            let jobs = known.expected.entry(program).or_default();
            if jobs.len() >= EXPECTED_MAX {
                jobs.pop_front();
            }
            jobs.push_back(until);
            false
        });
    }

    /// Returns true if a blob has to stay whatever its age.
    pub(super) fn keeps(&self, key: &BlobKey, now: Duration) -> bool {
        key.kind == BlobKind::Permanent && self.0.borrow().keeps(key, now)
    }

    /// Removes and returns the programs that nothing keeps any more, each once. Programs that wait for a job, and those
    /// for which `relied_on` is true, are returned by a later call.
    pub(super) fn take_released(
        &self,
        now: Duration,
        relied_on: impl Fn(&ContentHash) -> bool,
    ) -> Vec<ContentHash> {
        let mut free = Vec::new();
        self.0.send_if_modified(|known| {
            if known.needed.is_none() {
                return false;
            }
            for hash in std::mem::take(&mut known.released) {
                if known.keeps_program(hash) {
                    // The program will be released again later.
                } else if known.expects(hash, now) || relied_on(&hash) {
                    known.released.insert(hash);
                } else {
                    free.push(hash);
                }
            }
            false
        });
        free
    }

    /// Tells when something may have been released.
    pub(super) fn changes(&self) -> impl futures::Stream<Item = ()> + use<> {
        let watched = self.0.subscribe();
        futures::stream::unfold(watched, async |mut watched| {
            let changed = watched.changed().await;
            changed.is_ok().then_some(((), watched))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: ContentHash = ContentHash([1; 32]);
    const NOW: Duration = Duration::from_secs(100);
    const LATER: Duration = Duration::from_secs(200);

    fn jobs(ids: &[u128]) -> Option<Needed> {
        let ids = || ids.iter().map(|id| JobId(*id));
        Some(Needed { programs: ids().map(|job| (job, PROGRAM)).collect(), jobs: ids().collect() })
    }

    fn released(in_use: &BlobsInUse, now: Duration) -> Vec<ContentHash> {
        in_use.take_released(now, |_| false)
    }

    fn with_jobs(ids: &[u128]) -> BlobsInUse {
        let in_use = BlobsInUse::default();
        in_use.set(jobs(&[]));
        in_use.set(jobs(ids));
        in_use
    }

    #[test]
    fn a_program_is_released_by_its_last_job_and_once() {
        let in_use = with_jobs(&[1, 2]);
        in_use.set(jobs(&[2]));
        assert!(released(&in_use, NOW).is_empty());
        in_use.set(jobs(&[]));
        assert!(in_use.take_released(NOW, |hash| *hash == PROGRAM).is_empty(), "it is being named");
        assert_eq!(released(&in_use, NOW), [PROGRAM]);
        assert!(released(&in_use, NOW).is_empty());
    }

    #[test]
    fn each_job_that_is_on_its_way_keeps_its_program_until_it_has_come_and_ended() {
        let in_use = with_jobs(&[]);
        // Two callers were told that the program is here; the first job ends before the second one comes.
        in_use.expect(PROGRAM, NOW, LATER);
        in_use.expect(PROGRAM, NOW, LATER);
        in_use.set(jobs(&[1]));
        in_use.set(jobs(&[]));
        assert!(released(&in_use, NOW).is_empty(), "the second one is on its way");
        in_use.set(jobs(&[2]));
        in_use.set(jobs(&[]));
        assert_eq!(released(&in_use, NOW), [PROGRAM]);
        in_use.expect(PROGRAM, NOW, LATER);
        in_use.set(jobs(&[3, 4]));
        in_use.set(jobs(&[]));
        in_use.expect(PROGRAM, NOW, LATER);
        assert!(released(&in_use, NOW).is_empty());
        assert_eq!(released(&in_use, LATER), [PROGRAM], "one that never comes");
    }

    #[test]
    fn one_job_after_another_is_as_all_at_once() {
        let in_use = BlobsInUse::default();
        in_use.set_job(JobId(1), Some(PROGRAM));
        assert_eq!(in_use.get(), None, "no Dispatcher leads here");
        in_use.set(jobs(&[]));
        in_use.expect(PROGRAM, NOW, LATER);
        in_use.set_job(JobId(1), None);
        in_use.set_job(JobId(1), Some(PROGRAM));
        in_use.set_job(JobId(2), Some(PROGRAM));
        assert_eq!(in_use.get(), jobs(&[1, 2]));
        in_use.remove_job(JobId(1));
        assert!(released(&in_use, NOW).is_empty());
        in_use.remove_job(JobId(2));
        in_use.remove_job(JobId(2));
        assert_eq!(in_use.get(), jobs(&[]));
        assert_eq!(released(&in_use, NOW), [PROGRAM], "its job has come");
        assert!(released(&in_use, NOW).is_empty());
    }

    #[test]
    fn an_uploaded_program_is_kept_until_it_is_removed() {
        let in_use = with_jobs(&[1]);
        in_use.set_uploaded([PROGRAM].into());
        in_use.set(jobs(&[]));
        assert!(released(&in_use, NOW).is_empty());
        in_use.set_uploaded(BTreeSet::new());
        assert_eq!(released(&in_use, NOW), [PROGRAM]);
    }

    #[test]
    fn nothing_is_released_by_the_end_of_a_leadership() {
        let in_use = with_jobs(&[1]);
        in_use.set(None);
        assert!(released(&in_use, NOW).is_empty());
        let key = BlobKey { job: None, hash: PROGRAM, kind: BlobKind::Permanent, size: 1 };
        assert!(in_use.keeps(&key, NOW));
        in_use.set(jobs(&[]));
        assert!(released(&in_use, NOW).is_empty());
        assert!(!in_use.keeps(&key, NOW));
    }
}
