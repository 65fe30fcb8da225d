//! A leader election over an object store. Each epoch is an object that the winning process creates with
//! create-if-absent.
//!
//! `leader/epoch-<n>` names the process that won epoch n; the process that creates it has won. The holder replaces
//! `leader/beat-<n>` at every renewal. A rival claims n + 1 when it sees no new beat for the lease duration *by its own
//! clock*, when the holder has resigned (`leader/end-<n>`), or when the holder's process is gone. The highest epoch
//! wins: a holder that sees a higher one has lost. A process never claims an epoch at or below one that it has seen,
//! even if the objects were removed: other processes remember the higher epoch and would reject the new leader as an
//! old one for good. If the whole store was replaced by another one (`store_id`), it claims nothing.
//!
//! The holder's lease ends at a deadline on its own clock, 0.6 of the lease duration after the *start* of the last
//! renewal that succeeded. A store that hangs therefore cannot prolong a lease: with a duration of 5 s the holder stops
//! 3 s after it began its last successful renewal, and a rival claims at the earliest 5 s after it saw that renewal.
//! `contest` decides; this module reads and writes.

use super::contest::{Contest, Done, Seen, Step};
use super::store_id::StoreIdentity;
use super::{
    Campaign, CampaignRun, Candidate, ElectionDriver, LeaderRecord, Lease, LeaseEvent,
    process_identity,
};
use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use platform::watch;
use platform::{Lane, Platform};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of earlier epochs whose records are kept, for users.
const EPOCHS_KEPT: u64 = 3;
/// Upper limit of valid epochs, which no election reaches by counting. A higher one was not made by an election and is
/// ignored, because no epoch above it would be left to claim.
const EPOCH_MAX: u64 = u64::MAX / 2;

/// The settings `high-availability.filesystem.*`, which must be the same in all processes of a cluster: the duration of a lease, and how
/// often it is renewed and looked at. Nothing is checked here; a JobManager does not start with a duration below 200 ms, or below three
/// times the interval, which would let a leader lose its lease between two renewals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileElectionSettings {
    /// Time without a new renewal, by its own monotonic clock, after which a rival claims the lease. The holder's lease ends earlier, at
    /// 0.6 of this time after the start of its last renewal that succeeded.
    pub lease_duration: Duration,
    /// Interval at which the holder renews the lease in the store, and the other processes read it there.
    pub renew_interval: Duration,
}

/// The election of the processes that share an object store (high availability `filesystem`): the process that creates the object of the
/// next epoch (the number of a leadership) leads, and must renew its lease there; a rival claims the next epoch when the holder has not
/// renewed for the lease duration, has resigned, or has ended on the rival's own machine. A process that only watches the leader, such as a
/// TaskManager, uses [`ElectionDriver::leader`] without a campaign. Clones share one election and one lease; one campaign at a time.
#[derive(Clone, derive_more::Debug)]
#[debug("FileElection({})", self.inner.store.location())]
pub struct FileElection {
    inner: Arc<Inner>,
}

struct Inner {
    platform: Platform,
    store: Arc<dyn ObjectStore>,
    settings: FileElectionSettings,
    leader: watch::Sender<Option<LeaderRecord>>,
    lease: Lease,
    identity: StoreIdentity,
    /// The highest epoch that this process has ever seen; 0 if none.
    highest: AtomicU64,
    /// True once an epoch above the limit was logged.
    told_beyond: AtomicBool,
}

impl FileElection {
    /// Returns this process's side of the election in `store`, which must be for one cluster alone. Nothing is read or written before
    /// a campaign or [`ElectionDriver::leader`].
    pub fn new(
        platform: Platform,
        store: Arc<dyn ObjectStore>,
        settings: FileElectionSettings,
    ) -> Self {
        let leader = watch::Sender::new(None);
        let (highest, told_beyond) = (AtomicU64::new(0), AtomicBool::new(false));
        let lease = Lease::default();
        let identity = StoreIdentity::default();
        let inner =
            Inner { platform, store, settings, leader, lease, identity, highest, told_beyond };
        Self { inner: Arc::new(inner) }
    }

    /// Reads the record of the newest leader from the store now, whether its lease still holds or not; `None` if the store has
    /// none.
    ///
    /// # Errors
    /// Returns the store's error if it cannot be read.
    #[cfg(any(test, feature = "testing"))]
    pub async fn read_leader(&self) -> Result<Option<LeaderRecord>, StoreError> {
        Ok(self.inner.look().await?.map(|seen| seen.record))
    }

    #[cfg(test)]
    pub(super) fn now(&self) -> Duration {
        self.inner.platform.now()
    }
}

impl ElectionDriver for FileElection {
    fn campaign(&self, candidate: Candidate) -> Campaign {
        let (campaign, run) = Campaign::new();
        let inner = Arc::clone(&self.inner);
        let lane = self.inner.platform.lane(Lane::Election);
        lane.spawn_local(async move { Contender::new(inner, candidate).run(run).await });
        campaign
    }

    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>> {
        let watched = self.inner.leader.receiver_count() > 0;
        let receiver = self.inner.leader.subscribe();
        if !watched {
            let inner = Arc::clone(&self.inner);
            let lane = self.inner.platform.lane(Lane::Election);
            lane.spawn_local(async move { inner.follow().await });
        }
        receiver
    }

    fn lease(&self) -> Lease {
        self.inner.lease.clone()
    }
}

fn epoch_name(epoch: u64) -> String {
    format!("leader/epoch-{epoch:020}")
}
fn beat_name(epoch: u64) -> String {
    format!("leader/beat-{epoch:020}")
}
fn end_name(epoch: u64) -> String {
    format!("leader/end-{epoch:020}")
}

impl Inner {
    async fn newest_epoch(&self) -> Result<Option<u64>, StoreError> {
        let names = self.store.list("leader/epoch-").await?;
        let epoch = |name: &String| name.strip_prefix("leader/epoch-")?.parse::<u64>().ok();
        let (all, newest) =
            names.iter().filter_map(epoch).fold((0, None), |(all, newest), epoch| {
                let counted = (epoch <= EPOCH_MAX).then_some(epoch);
                (epoch.max(all), newest.max(counted))
            });
        if all > EPOCH_MAX && !self.told_beyond.swap(true, Ordering::Relaxed) {
            let store = self.store.location();
            tracing::error!(
                epoch = all,
                store,
                "ignored an epoch that no election can have reached: remove its object"
            );
        }
        if let Some(newest) = newest {
            self.highest.fetch_max(newest, Ordering::Relaxed);
        }
        Ok(newest)
    }

    /// Reads the newest leader's record. A store that has none although this process has seen one may not be the
    /// cluster's any more; that is an error.
    async fn look_again(&self) -> Result<Option<Seen>, StoreError> {
        let seen = self.look().await?;
        if seen.is_some() {
            self.identity.learn(&*self.store).await?;
        } else if self.highest.load(Ordering::Relaxed) > 0 {
            self.identity.check(&*self.store).await?;
        }
        Ok(seen)
    }

    async fn look(&self) -> Result<Option<Seen>, StoreError> {
        let Some(epoch) = self.newest_epoch().await? else {
            return Ok(None);
        };
        // A record that cannot be read still counts as an epoch, because its holder may be alive.
        let unreadable = || LeaderRecord {
            store_epoch: epoch,
            node: String::new(),
            rest: String::new(),
            identity: String::new(),
        };
        let record = match self.store.get(&epoch_name(epoch)).await {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or_else(|_| unreadable()),
            Ok(None) | Err(StoreError::Corrupt { .. }) => unreadable(),
            Err(error) => return Err(error),
        };
        let beat = match self.store.get(&beat_name(epoch)).await {
            Ok(beat) => beat,
            Err(StoreError::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        let resigned = !self.store.list(&end_name(epoch)).await?.is_empty();
        Ok(Some(Seen { record: LeaderRecord { store_epoch: epoch, ..record }, beat, resigned }))
    }

    /// Sends the newest record to the watchers at every renewal interval until no watcher is left.
    async fn follow(&self) {
        loop {
            match self.look().await {
                Ok(seen) => self.tell(seen.map(|seen| seen.record)),
                Err(error) => tracing::warn!(%error, "cannot read the leader's record"),
            }
            tokio::select! {
                biased;
                () = self.leader.closed() => return,
                () = tokio::time::sleep(self.settings.renew_interval) => {}
            }
        }
    }

    fn tell(&self, record: Option<LeaderRecord>) {
        self.leader.send_if_modified(|known| {
            let newer = record > *known;
            if newer {
                known.clone_from(&record);
            }
            newer
        });
    }

    async fn forget_before(&self, epoch: u64) {
        let Ok(names) = self.store.list("leader/").await else {
            return;
        };
        for name in names {
            let of = name.rsplit_once('-').and_then(|(_, n)| n.parse::<u64>().ok());
            if of.is_some_and(|of| of < epoch.saturating_sub(EPOCHS_KEPT)) {
                // If the delete fails, the object does no harm: nobody reads it, and the next epoch's winner tries
                // again.
                let _ = self.store.delete(&name).await;
            }
        }
    }

    /// Renews the lease of `epoch` unless a higher epoch exists. Returns the newest epoch in the store.
    async fn renew(&self, epoch: u64, beat: u64) -> Result<Option<u64>, StoreError> {
        let newest = self.newest_epoch().await?;
        if newest == Some(epoch) {
            self.store.put(&beat_name(epoch), Bytes::from(beat.to_string())).await?;
        }
        Ok(newest)
    }

    /// Tries to win `epoch`. Returns true if this process holds it.
    async fn claim(&self, candidate: &Candidate, epoch: u64) -> Result<bool, StoreError> {
        let record = LeaderRecord {
            store_epoch: epoch,
            node: candidate.node.clone(),
            rest: candidate.rest.clone(),
            identity: process_identity(),
        };
        let bytes = serde_json::to_vec(&record)
            .map_err(|error| StoreError::Io { path: epoch_name(epoch), why: error.to_string() })?;
        self.identity.establish(&*self.store, &self.platform).await?;
        if self.store.put_new(&epoch_name(epoch), bytes.into()).await? == PutNew::Exists {
            return Ok(false);
        }
        // If this process slept between looking and claiming, the epoch that it created may be lower than the newest.
        if self.newest_epoch().await? != Some(epoch) {
            return Ok(false);
        }
        self.tell(Some(record));
        Ok(true)
    }

    async fn perform(&self, candidate: &Candidate, step: Step) -> Result<Done, StoreError> {
        match step {
            Step::Renew { epoch, beat } => self.renew(epoch, beat).await.map(Done::Renewed),
            Step::Look => self.look_again().await.map(Done::Looked),
            Step::Claim { epoch } => self.claim(candidate, epoch).await.map(Done::Claimed),
        }
    }

    /// Logs that no epoch is left to claim.
    fn exhausted(&self) {
        tracing::error!(
            store = self.store.location(),
            "no epoch is left to claim: stop all JobManagers and remove the folder 'leader'"
        );
    }
}

/// One process's candidacy in the election.
struct Contender {
    inner: Arc<Inner>,
    candidate: Candidate,
    contest: Contest,
}

impl Contender {
    fn new(inner: Arc<Inner>, candidate: Candidate) -> Self {
        let contest = Contest::new(inner.settings.lease_duration, EPOCH_MAX);
        Self { inner, candidate, contest }
    }

    async fn run(mut self, mut run: CampaignRun) {
        loop {
            let step = self.contest.next_step(self.inner.highest.load(Ordering::Relaxed));
            let events = match step {
                Some(step) => {
                    let (inner, candidate) = (Arc::clone(&self.inner), self.candidate.clone());
                    let io = async move { inner.perform(&candidate, step).await };
                    self.perform(step, io, &mut run).await
                }
                None => {
                    self.inner.exhausted();
                    Some(Pause::Interval)
                }
            };
            match events {
                None => break,
                Some(Pause::None) => {}
                Some(Pause::Interval) => {
                    let pause = tokio::time::sleep(self.inner.settings.renew_interval);
                    if self.until(pause, &mut run).await.is_none() {
                        break;
                    }
                }
            }
        }
        self.resign().await;
        // `run` is dropped last because `Campaign::resign` waits for that.
        drop(run);
    }

    /// Does one step; the lease ends at its deadline however long the step takes. Returns `None` once the campaign is
    /// over.
    async fn perform(
        &mut self,
        step: Step,
        io: impl Future<Output = Result<Done, StoreError>>,
        run: &mut CampaignRun,
    ) -> Option<Pause> {
        let started = self.inner.platform.now();
        let done = self.until(io, run).await?;
        let now = self.inner.platform.now();
        let event = match done {
            Ok(done) => self.contest.done(step, done, started, now),
            Err(error) => {
                tracing::warn!(%error, "the election's store failed");
                self.contest.failed(step);
                None
            }
        };
        self.publish(event, run).await?;
        if let Some(LeaseEvent::Granted { store_epoch }) = event {
            let inner = Arc::clone(&self.inner);
            let tidy = async move { inner.forget_before(store_epoch).await };
            self.until(tidy, run).await?;
        }
        Some(if self.contest.is_urgent() { Pause::None } else { Pause::Interval })
    }

    /// Waits for `work` and ends the lease meanwhile when its deadline passes. Returns `None` once the campaign is
    /// over.
    async fn until<T>(
        &mut self,
        work: impl Future<Output = T>,
        run: &mut CampaignRun,
    ) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let deadline = self.contest.deadline();
            let over = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(self.inner.platform.origin() + at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = &mut run.stop => return None,
                () = over => {
                    let event = self.contest.expire(self.inner.platform.now());
                    self.publish(event, run).await?;
                }
                done = &mut work => return Some(done),
            }
        }
    }

    /// Publishes the lease's deadline and the event, if any. Returns `None` if the campaign was dropped.
    async fn publish(&self, event: Option<LeaseEvent>, run: &CampaignRun) -> Option<()> {
        self.inner.lease.set(self.contest.deadline());
        match event {
            None => return Some(()),
            Some(LeaseEvent::Granted { store_epoch }) => {
                tracing::info!(store_epoch, "this process holds the leader's lease");
            }
            Some(LeaseEvent::Lost) => tracing::warn!("this process has lost the leader's lease"),
        }
        match event {
            Some(event) => run.events.send(event).await.ok(),
            None => Some(()),
        }
    }

    /// Gives the lease up, so that a rival need not wait until it ends. Waits for the store no longer than the lease
    /// duration: after that the lease has ended anyway.
    async fn resign(&mut self) {
        self.inner.lease.set(None);
        let Some(epoch) = self.contest.held() else { return };
        let end = self.inner.store.put(&end_name(epoch), Bytes::from_static(b"resigned"));
        match tokio::time::timeout(self.inner.settings.lease_duration, end).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot resign; the lease ends by itself"),
            Err(_) => {
                tracing::warn!("the store did not take the resignation; the lease ends by itself")
            }
        }
    }
}

/// The pause after a step.
enum Pause {
    /// The next step follows at once.
    None,
    /// The next step follows after the renewal interval.
    Interval,
}
