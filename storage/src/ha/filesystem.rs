//! An election over an object store: leaders are create-if-absent objects named by epoch.
//!
//! `leader/epoch-<n>` names the process that won epoch n; whoever creates it has won. The holder replaces
//! `leader/beat-<n>` regularly; a rival that sees no new beat for the lease's duration *by its own clock*,
//! or that the holder resigned (`leader/end-<n>`) or its process is gone, claims n + 1. The highest epoch
//! wins: a holder that sees a higher one, or could not renew in time, has lost. A process never claims an
//! epoch below one that it has seen, also where the objects were removed: whoever follows knows the higher
//! one and would take the new leader for an old one for good.
//!
//! Blocks its lane for the time of a few small reads and writes.

use super::{
    Campaign, CampaignRun, Candidate, ElectionDriver, LeaderRecord, LeaseEvent, is_gone,
    process_identity,
};
use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use platform::watch;
use platform::{Lane, Platform};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Records of so many earlier epochs are kept, for people.
const EPOCHS_KEPT: u64 = 3;
/// No election gets here by counting. An object that says more was not made by one and is not looked at:
/// above it there would be nothing left to claim.
const EPOCH_MAX: u64 = u64::MAX / 2;

/// `high-availability.filesystem.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileElectionSettings {
    /// How long a lease is valid without being renewed.
    pub lease_duration: Duration,
    /// How often it is renewed, and looked at by the others.
    pub renew_interval: Duration,
}

/// The election of the processes that share an object store.
#[derive(Clone)]
pub struct FileElection {
    inner: Arc<Inner>,
}

struct Inner {
    platform: Platform,
    store: Arc<dyn ObjectStore>,
    settings: FileElectionSettings,
    leader: watch::Sender<Option<LeaderRecord>>,
    /// The highest epoch that was ever seen here; 0: none.
    highest: AtomicU64,
    /// Whether an epoch above the bound was told.
    told_beyond: AtomicBool,
}

impl fmt::Debug for FileElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileElection({})", self.inner.store.location())
    }
}

impl FileElection {
    /// An election in `store`, which is the cluster's own.
    pub fn new(
        platform: Platform,
        store: Arc<dyn ObjectStore>,
        settings: FileElectionSettings,
    ) -> Self {
        let leader = watch::Sender::new(None);
        let (highest, told_beyond) = (AtomicU64::new(0), AtomicBool::new(false));
        let inner = Inner { platform, store, settings, leader, highest, told_beyond };
        Self { inner: Arc::new(inner) }
    }

    /// The newest leader's record, read now.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn read_leader(&self) -> Result<Option<LeaderRecord>, StoreError> {
        Ok(self.inner.look()?.map(|seen| seen.record))
    }
}

impl ElectionDriver for FileElection {
    fn campaign(&self, candidate: Candidate) -> Campaign {
        let (campaign, run) = Campaign::new();
        let inner = Arc::clone(&self.inner);
        let lane = self.inner.platform.lane(Lane::Election);
        lane.spawn_local(async move { Contest::new(inner, candidate).run(run).await });
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
}

/// The newest epoch as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    record: LeaderRecord,
    beat: Option<Bytes>,
    ended: bool,
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
    fn newest_epoch(&self) -> Result<Option<u64>, StoreError> {
        let names = self.store.list("leader/epoch-")?;
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
                "an epoch that no election has reached is not looked at: remove its object"
            );
        }
        if let Some(newest) = newest {
            self.highest.fetch_max(newest, Ordering::Relaxed);
        }
        Ok(newest)
    }

    /// The epoch after this one.
    fn after(&self, epoch: u64) -> Result<u64, StoreError> {
        if epoch >= EPOCH_MAX {
            return Err(StoreError::Corrupt {
                path: format!("{}/{}", self.store.location(), epoch_name(epoch)),
                why:
                    "no epoch is left above it: stop all JobManagers and remove the folder 'leader'"
                        .to_owned(),
            });
        }
        Ok(epoch.saturating_add(1))
    }

    fn look(&self) -> Result<Option<Seen>, StoreError> {
        let Some(epoch) = self.newest_epoch()? else {
            return Ok(None);
        };
        // A record that can't be read still counts as an epoch: its holder may be alive.
        let unreadable = || LeaderRecord {
            store_epoch: epoch,
            node: String::new(),
            rest: String::new(),
            identity: String::new(),
        };
        let record = match self.store.get(&epoch_name(epoch)) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or_else(|_| unreadable()),
            Ok(None) | Err(StoreError::Corrupt { .. }) => unreadable(),
            Err(error) => return Err(error),
        };
        let beat = match self.store.get(&beat_name(epoch)) {
            Ok(beat) => beat,
            Err(StoreError::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        let ended = !self.store.list(&end_name(epoch))?.is_empty();
        Ok(Some(Seen { record: LeaderRecord { store_epoch: epoch, ..record }, beat, ended }))
    }

    /// Tells watchers of the newest record, as long as there are any.
    async fn follow(&self) {
        loop {
            match self.look() {
                Ok(seen) => self.tell(seen.map(|seen| seen.record)),
                Err(error) => tracing::warn!(%error, "the leader's record can't be read"),
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

    fn forget_before(&self, epoch: u64) {
        let Ok(names) = self.store.list("leader/") else {
            return;
        };
        for name in names {
            let of = name.rsplit_once('-').and_then(|(_, n)| n.parse::<u64>().ok());
            if of.is_some_and(|of| of < epoch.saturating_sub(EPOCHS_KEPT)) {
                // Left behind: it is looked at by nobody and tried again with the next epoch.
                let _ = self.store.delete(&name);
            }
        }
    }
}

/// One process's part in the election.
struct Contest {
    inner: Arc<Inner>,
    candidate: Candidate,
    held: Option<Held>,
    /// What was seen, and since when it has not changed.
    rival: Option<(Seen, Duration)>,
}

struct Held {
    epoch: u64,
    renewed_at: Duration,
    beats: u64,
}

impl Contest {
    fn new(inner: Arc<Inner>, candidate: Candidate) -> Self {
        Self { inner, candidate, held: None, rival: None }
    }

    async fn run(mut self, mut run: CampaignRun) {
        loop {
            if let Some(event) = self.turn() {
                match event {
                    LeaseEvent::Granted { store_epoch } => {
                        tracing::info!(store_epoch, "this process holds the leader's lease");
                    }
                    LeaseEvent::Lost => tracing::warn!("this process has lost the leader's lease"),
                }
                if run.events.send(event).await.is_err() {
                    break;
                }
            }
            tokio::select! {
                biased;
                _ = &mut run.stop => break,
                () = tokio::time::sleep(self.inner.settings.renew_interval) => {}
            }
        }
        if let Some(held) = self.held {
            let end = self.inner.store.put(&end_name(held.epoch), Bytes::from_static(b"resigned"));
            if let Err(error) = end {
                tracing::warn!(%error, "the lease could not be given up; it ends by itself");
            }
        }
    }

    fn turn(&mut self) -> Option<LeaseEvent> {
        let now = self.inner.platform.now();
        let outcome = match self.held {
            Some(_) => self.renew(now),
            None => self.contest(now),
        };
        match outcome {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "the election's store failed");
                self.give_up_if_late(now)
            }
        }
    }

    /// A holder that could not renew for 0.6 of the lease's duration stops before a rival may claim.
    fn give_up_if_late(&mut self, now: Duration) -> Option<LeaseEvent> {
        let limit = self.inner.settings.lease_duration.saturating_mul(3) / 5;
        let late = |held: &Held| now.saturating_sub(held.renewed_at) >= limit;
        if !self.held.as_ref().is_some_and(late) {
            return None;
        }
        self.held = None;
        self.rival = None;
        Some(LeaseEvent::Lost)
    }

    fn renew(&mut self, now: Duration) -> Result<Option<LeaseEvent>, StoreError> {
        let newest = self.inner.newest_epoch()?;
        let Some(held) = &mut self.held else {
            return Ok(None);
        };
        if newest != Some(held.epoch) {
            self.held = None;
            return Ok(Some(LeaseEvent::Lost));
        }
        held.beats += 1;
        let beat = Bytes::from(held.beats.to_string());
        self.inner.store.put(&beat_name(held.epoch), beat)?;
        held.renewed_at = now;
        Ok(None)
    }

    fn contest(&mut self, now: Duration) -> Result<Option<LeaseEvent>, StoreError> {
        // Of before the look: what is claimed must follow from what is seen now, and nothing newer.
        let highest = self.inner.highest.load(Ordering::Relaxed);
        let Some(seen) = self.inner.look()? else {
            return self.claim(now, self.inner.after(highest)?);
        };
        let unchanged_since = match &self.rival {
            Some((before, since)) if *before == seen => *since,
            _ => now,
        };
        let expired = now.saturating_sub(unchanged_since) >= self.inner.settings.lease_duration;
        if expired || seen.ended || is_gone(&seen.record.identity) {
            let epoch = seen.record.store_epoch.max(highest);
            return self.claim(now, self.inner.after(epoch)?);
        }
        self.rival = Some((seen, unchanged_since));
        Ok(None)
    }

    fn claim(&mut self, now: Duration, epoch: u64) -> Result<Option<LeaseEvent>, StoreError> {
        let record = LeaderRecord {
            store_epoch: epoch,
            node: self.candidate.node.clone(),
            rest: self.candidate.rest.clone(),
            identity: process_identity(),
        };
        let bytes = serde_json::to_vec(&record)
            .map_err(|error| StoreError::Io { path: epoch_name(epoch), why: error.to_string() })?;
        self.rival = None;
        if self.inner.store.put_new(&epoch_name(epoch), bytes.into())? == PutNew::Exists {
            return Ok(None);
        }
        // Whoever slept between looking and claiming may have made an epoch that is long over.
        if self.inner.newest_epoch()? != Some(epoch) {
            return Ok(None);
        }
        self.inner.forget_before(epoch);
        self.inner.tell(Some(record));
        self.held = Some(Held { epoch, renewed_at: now, beats: 0 });
        Ok(Some(LeaseEvent::Granted { store_epoch: epoch }))
    }
}
