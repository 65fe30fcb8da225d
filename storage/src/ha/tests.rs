use super::*;
use crate::objects::{Fault, FaultyObjects, MemoryObjects, ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use platform::{Platform, inproc::InProcessNetwork};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const SETTINGS: FileElectionSettings = FileElectionSettings {
    lease_duration: Duration::from_secs(5),
    renew_interval: Duration::from_secs(1),
};

fn candidate(name: &str) -> Candidate {
    Candidate { node: format!("{name}:6123"), rest: format!("{name}:8081") }
}
fn platform() -> Platform {
    Platform::simulated(1, Arc::new(InProcessNetwork::new()))
}
fn election(store: &Arc<dyn ObjectStore>) -> FileElection {
    FileElection::new(platform(), Arc::clone(store), SETTINGS)
}
async fn nothing(campaign: &mut Campaign, for_: Duration) {
    assert_eq!(timeout(for_, campaign.next()).await.ok(), None);
}

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(MemoryObjects::default())
}
/// Another machine's process holds the lease of `epoch`.
async fn foreign_leader(store: &Arc<dyn ObjectStore>, epoch: u64) {
    let record = LeaderRecord {
        store_epoch: epoch,
        node: "far:6123".into(),
        rest: String::new(),
        identity: "far-machine/1/1".into(),
    };
    let bytes = serde_json::to_vec(&record).expect("encodes");
    let name = format!("leader/epoch-{epoch:020}");
    assert_eq!(store.put_new(&name, bytes.into()).await, Ok(PutNew::Created));
}

#[tokio::test(start_paused = true)]
async fn the_embedded_election_grants_at_once() {
    let election = EmbeddedElection::new(77);
    assert_eq!(*election.leader().borrow(), None);
    let mut campaign = election.campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 77 }));
    let leader = election.leader();
    assert_eq!(leader.borrow().as_ref().map(|r| r.node.clone()), Some("a:6123".into()));
    campaign.resign().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn one_of_two_wins_and_the_other_follows_when_it_resigns() {
    let store = memory();
    let (one, two) = (election(&store), election(&store));
    let mut leader = two.leader();
    let mut first = one.campaign(candidate("a"));
    assert_eq!(first.next().await, Some(LeaseEvent::Granted { store_epoch: 1 }));
    let mut second = two.campaign(candidate("b"));
    nothing(&mut second, Duration::from_secs(60)).await;
    assert_eq!(leader.borrow_and_update().as_ref().map(|r| r.node.clone()), Some("a:6123".into()));
    first.resign().await;
    let granted = timeout(Duration::from_millis(1_500), second.next()).await;
    assert_eq!(granted, Ok(Some(LeaseEvent::Granted { store_epoch: 2 })));
    leader.changed().await.expect("the election lives");
    let record = leader.borrow().clone().expect("a leader");
    assert_eq!(
        (record.store_epoch, record.node.as_str(), record.rest.as_str()),
        (2, "b:6123", "b:8081")
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_leader_that_does_not_renew_is_superseded_after_the_lease() {
    let store = memory();
    foreign_leader(&store, 4).await;
    let mut campaign = election(&store).campaign(candidate("b"));
    nothing(&mut campaign, Duration::from_millis(4_900)).await;
    let granted = timeout(Duration::from_millis(1_200), campaign.next()).await;
    assert_eq!(granted, Ok(Some(LeaseEvent::Granted { store_epoch: 5 })));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_leader_that_renews_is_left_alone() {
    let store = memory();
    foreign_leader(&store, 4).await;
    let mut campaign = election(&store).campaign(candidate("b"));
    for beat in 0..20 {
        store
            .put(&format!("leader/beat-{:020}", 4), Bytes::from(format!("{beat}")))
            .await
            .expect("written");
        nothing(&mut campaign, Duration::from_secs(4)).await;
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_process_that_is_gone_from_this_machine_is_superseded_at_once() {
    let store = memory();
    let (machine, _) = {
        let me = process_identity();
        let (rest, _) =
            me.rsplit_once('/').map(|(r, s)| (r.to_owned(), s.to_owned())).expect("known");
        rest.rsplit_once('/').map(|(m, p)| (m.to_owned(), p.to_owned())).expect("known")
    };
    let record = LeaderRecord {
        store_epoch: 9,
        node: "a:1".into(),
        rest: String::new(),
        identity: format!("{machine}/{}/1", std::process::id()),
    };
    let bytes = serde_json::to_vec(&record).expect("encodes");
    assert_eq!(
        store.put_new(&format!("leader/epoch-{:020}", 9), bytes.into()).await,
        Ok(PutNew::Created)
    );
    let mut campaign = election(&store).campaign(candidate("a"));
    let granted = timeout(Duration::from_millis(10), campaign.next()).await;
    assert_eq!(granted, Ok(Some(LeaseEvent::Granted { store_epoch: 10 })));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_holder_that_sees_a_higher_epoch_has_lost_and_follows() {
    let store = memory();
    let election = election(&store);
    let mut campaign = election.campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 1 }));
    foreign_leader(&store, 2).await;
    assert_eq!(campaign.next().await, Some(LeaseEvent::Lost));
    assert_eq!(
        election.read_leader().await.expect("read").map(|r| r.node),
        Some("far:6123".into())
    );
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 3 }), "it expires");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_holder_whose_store_fails_stops_before_a_rival_may_claim() {
    let objects = FaultyObjects::new(memory());
    let store: Arc<dyn ObjectStore> = Arc::new(objects.clone());
    let mut campaign = election(&store).campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 1 }));
    objects.set(Fault::Fail(StoreError::Io { path: "x".into(), why: "gone".into() }));
    let lost = timeout(Duration::from_millis(4_500), campaign.next()).await;
    assert_eq!(lost, Ok(Some(LeaseEvent::Lost)));
    nothing(&mut campaign, Duration::from_secs(30)).await;
    objects.set(Fault::None);
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 2 }));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_holder_whose_store_hangs_stops_at_its_deadline_and_a_rival_leads_after_it() {
    let store = memory();
    let slow = FaultyObjects::new(store.clone());
    let first = election(&(Arc::new(slow.clone()) as Arc<dyn ObjectStore>));
    let mut campaign = first.campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 1 }));
    let mut rival = election(&store).campaign(candidate("b"));
    nothing(&mut rival, Duration::from_millis(2_500)).await;
    assert!(first.lease().holds(first.now()));
    slow.set(Fault::Hang);
    // The last renewal began at most 1 s before the hang; the lease ends 0.6 of 5 s after that renewal began.
    let lost = timeout(Duration::from_secs(3), campaign.next()).await;
    assert_eq!(lost, Ok(Some(LeaseEvent::Lost)));
    assert!(!first.lease().holds(first.now()));
    let granted = timeout(Duration::from_secs(5), rival.next()).await;
    assert_eq!(granted, Ok(Some(LeaseEvent::Granted { store_epoch: 2 })));
    // The renewal that hung takes effect now; it must not revive the lease.
    slow.set(Fault::None);
    nothing(&mut campaign, Duration::from_secs(60)).await;
    nothing(&mut rival, Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_store_that_hangs_does_not_hold_up_a_resignation_for_ever() {
    let slow = FaultyObjects::new(memory());
    let first = election(&(Arc::new(slow.clone()) as Arc<dyn ObjectStore>));
    let mut campaign = first.campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 1 }));
    slow.set(Fault::Hang);
    let resigned = timeout(Duration::from_secs(6), campaign.resign()).await;
    assert_eq!(resigned, Ok(()));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn dropping_a_campaign_gives_the_lease_up_and_old_records_go() {
    let store = memory();
    for epoch in 1..=6 {
        let mut campaign = election(&store).campaign(candidate("a"));
        assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: epoch }));
        drop(campaign);
        sleep(Duration::from_millis(1_100)).await;
    }
    let names = store.list("leader/epoch-").await.expect("listed");
    assert_eq!(names.len(), 4);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_damaged_record_is_an_epoch_without_an_address() {
    let store = memory();
    let name = format!("leader/epoch-{:020}", 3);
    assert_eq!(store.put_new(&name, Bytes::from_static(b"{")).await, Ok(PutNew::Created));
    let mut campaign = election(&store).campaign(candidate("a"));
    nothing(&mut campaign, Duration::from_secs(4)).await;
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 4 }));
}

/// Removes everything below `leader/`, as a person might.
async fn remove_leaders(store: &Arc<dyn ObjectStore>) {
    for name in store.list("leader/").await.expect("listed") {
        assert_eq!(store.delete(&name).await, Ok(true));
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_holder_whose_objects_were_removed_leads_again_above_all_that_it_has_seen() {
    let store = memory();
    foreign_leader(&store, 3).await;
    store.put(&format!("leader/end-{:020}", 3), Bytes::new()).await.expect("written");
    let election = election(&store);
    let leader = election.leader();
    let mut campaign = election.campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 4 }));
    remove_leaders(&store).await;
    assert_eq!(campaign.next().await, Some(LeaseEvent::Lost));
    let again = timeout(Duration::from_millis(1_100), campaign.next()).await;
    assert_eq!(again, Ok(Some(LeaseEvent::Granted { store_epoch: 5 })));
    assert_eq!(leader.borrow().as_ref().map(|r| r.store_epoch), Some(5), "who follows knows");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_empty_store_in_the_place_of_the_clusters_is_not_led_and_the_clusters_is_again() {
    let store = memory();
    let mut leader = election(&store).campaign(candidate("a"));
    assert_eq!(leader.next().await, Some(LeaseEvent::Granted { store_epoch: 1 }));
    let mut standby = election(&store).campaign(candidate("b"));
    nothing(&mut standby, Duration::from_secs(2)).await;
    let mut everything = Vec::new();
    for name in store.list("").await.expect("listed") {
        everything.push((name.clone(), store.get(&name).await.expect("read").expect("there")));
        store.delete(&name).await.expect("deleted");
    }
    assert_eq!(leader.next().await, Some(LeaseEvent::Lost));
    nothing(&mut leader, Duration::from_secs(60)).await;
    nothing(&mut standby, Duration::from_secs(60)).await;
    for (name, bytes) in everything {
        store.put(&name, bytes).await.expect("written");
    }
    tokio::select! {
        event = leader.next() => assert_eq!(event, Some(LeaseEvent::Granted { store_epoch: 2 })),
        event = standby.next() => assert_eq!(event, Some(LeaseEvent::Granted { store_epoch: 2 })),
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_rival_claims_above_what_it_has_seen_where_the_objects_went_back() {
    let store = memory();
    foreign_leader(&store, 7).await;
    let mut campaign = election(&store).campaign(candidate("b"));
    nothing(&mut campaign, Duration::from_secs(2)).await;
    remove_leaders(&store).await;
    foreign_leader(&store, 1).await;
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 8 }));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_epoch_that_no_election_reaches_does_not_stop_it() {
    let store = memory();
    foreign_leader(&store, u64::MAX).await;
    foreign_leader(&store, 2).await;
    let election = election(&store);
    assert_eq!(election.read_leader().await.expect("read").map(|r| r.store_epoch), Some(2));
    let mut campaign = election.campaign(candidate("a"));
    assert_eq!(campaign.next().await, Some(LeaseEvent::Granted { store_epoch: 3 }));
    foreign_leader(&store, u64::MAX - 1).await;
    nothing(&mut campaign, Duration::from_secs(30)).await;
    // Above the last one that counts there is nothing to claim: an error, and no lease.
    foreign_leader(&store, u64::MAX / 2).await;
    assert_eq!(campaign.next().await, Some(LeaseEvent::Lost));
    nothing(&mut campaign, Duration::from_secs(30)).await;
}
