//! A lease store that all candidates of a run share: reachable or not by host, on virtual time.
//!
//! It grants one lease at a time with a counter that only grows. A holder that can't renew gives its lease
//! up on its own clock before the store gives it to another.

use futures::FutureExt;
use platform::watch;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::ha::{
    Campaign, CampaignRun, Candidate, ElectionDriver, LeaderRecord, Lease, LeaseEvent,
};

/// A lease that was not renewed for so long is given to another.
const LEASE: Duration = Duration::from_secs(8);
/// A holder that could not renew for so long gives up.
const GIVE_UP: Duration = Duration::from_secs(6);
/// How often a holder renews and a rival asks.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct State {
    unreachable_from: BTreeSet<String>,
    counter: u64,
    /// Who holds it and until when.
    holder: Option<(u64, Duration)>,
    record: Option<LeaderRecord>,
}

/// The store itself: outlives every host of the run.
#[derive(Debug, Clone, Default)]
pub struct LeaseStore(Arc<Mutex<State>>);

/// Why the store did not answer.
struct Unreachable;

impl LeaseStore {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a host reaches the store from now on.
    pub fn set_reachable(&self, host: &str, reachable: bool) {
        self.with(|s| {
            if reachable {
                s.unreachable_from.remove(host);
            } else {
                s.unreachable_from.insert(host.to_owned());
            }
        });
    }

    fn reach<T>(&self, host: &str, f: impl FnOnce(&mut State) -> T) -> Result<T, Unreachable> {
        self.with(|s| if s.unreachable_from.contains(host) { Err(Unreachable) } else { Ok(f(s)) })
    }

    fn acquire(&self, host: &str, candidate: &Candidate, now: Duration) -> Option<u64> {
        self.reach(host, |s| {
            if s.holder.is_some_and(|(_, until)| until > now) {
                return None;
            }
            s.counter += 1;
            s.holder = Some((s.counter, now + LEASE));
            s.record = Some(LeaderRecord {
                store_epoch: s.counter,
                node: candidate.node.clone(),
                rest: candidate.rest.clone(),
                identity: String::new(),
            });
            Some(s.counter)
        })
        .unwrap_or(None)
    }

    /// `Ok(false)`: another holds it.
    fn renew(&self, host: &str, epoch: u64, now: Duration) -> Result<bool, Unreachable> {
        self.reach(host, |s| match &mut s.holder {
            Some((held, until)) if *held == epoch => {
                *until = now + LEASE;
                true
            }
            _ => false,
        })
    }

    fn give_up(&self, host: &str, epoch: u64) {
        // Unreachable: it runs out by itself.
        let _ = self.reach(host, |s| {
            if s.holder.is_some_and(|(held, _)| held == epoch) {
                s.holder = None;
            }
        });
    }

    fn record(&self, host: &str) -> Result<Option<LeaderRecord>, Unreachable> {
        self.reach(host, |s| s.record.clone())
    }
}

fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}

/// One host's driver.
#[derive(Debug, Clone)]
pub struct SimulatedElection {
    store: LeaseStore,
    host: String,
    leader: Arc<watch::Sender<Option<LeaderRecord>>>,
}

impl SimulatedElection {
    /// For the host of that name; must be called inside it.
    pub fn new(store: LeaseStore, host: &str) -> Self {
        let election =
            Self { store, host: host.to_owned(), leader: Arc::new(watch::Sender::new(None)) };
        tokio::task::spawn_local(election.clone().follow());
        election
    }

    /// Keeps the newest leader record that the store has shown.
    async fn follow(self) {
        loop {
            if let Ok(record) = self.store.record(&self.host) {
                self.leader.set(record);
            }
            tokio::time::sleep(EVERY / 4).await;
        }
    }

    async fn run(self, candidate: Candidate, run: CampaignRun) {
        let CampaignRun { events, mut stop, stopped } = run;
        'campaign: loop {
            let epoch = loop {
                if let Some(epoch) = self.store.acquire(&self.host, &candidate, now()) {
                    break epoch;
                }
                if self.pause(&mut stop).await {
                    break 'campaign;
                }
            };
            if events.send(LeaseEvent::Granted { store_epoch: epoch }).await.is_err() {
                self.store.give_up(&self.host, epoch);
                break;
            }
            let mut renewed = now();
            while now() - renewed < GIVE_UP {
                if self.pause(&mut stop).await {
                    self.store.give_up(&self.host, epoch);
                    break 'campaign;
                }
                match self.store.renew(&self.host, epoch, now()) {
                    Ok(true) => renewed = now(),
                    Ok(false) => break,
                    Err(Unreachable) => {}
                }
            }
            if events.send(LeaseEvent::Lost).await.is_err() {
                break;
            }
        }
        drop(stopped);
    }

    /// Waits; whether the campaign is over.
    async fn pause(&self, stop: &mut tokio::sync::oneshot::Receiver<()>) -> bool {
        tokio::time::timeout(EVERY, stop.map(|_| ())).await.is_ok()
    }
}

impl ElectionDriver for SimulatedElection {
    fn campaign(&self, candidate: Candidate) -> Campaign {
        let (campaign, run) = Campaign::new();
        tokio::task::spawn_local(self.clone().run(candidate, run));
        campaign
    }

    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>> {
        self.leader.subscribe()
    }

    fn lease(&self) -> Lease {
        Lease::endless()
    }
}
