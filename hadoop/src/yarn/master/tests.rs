use super::*;
use crate::client::tests::{Answers, Does, Server};
use crate::conf::Configuration;
use crate::login::Login;
use crate::rpc::testing::ServerAuth;
use crate::sasl::Qop;
use crate::tokens::{Credentials, TokenProto, kinds};
use crate::yarn::YarnError;
use crate::yarn::messages::*;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn size(memory: i64) -> Resource {
    Resource { memory: Some(memory), virtual_cores: Some(1), resource_value_map: vec![] }
}
fn container_id(number: i64) -> ContainerId {
    let application = ApplicationId { id: Some(1), cluster_timestamp: Some(1) };
    let attempt = ApplicationAttemptId { application_id: Some(application), attempt_id: Some(1) };
    ContainerId { app_id: None, app_attempt_id: Some(attempt), id: Some(number) }
}
fn container(number: i64, request: RequestId) -> Container {
    Container {
        id: Some(container_id(number)),
        allocation_request_id: Some(request.0),
        ..Container::default()
    }
}
fn grants(containers: &[(i64, RequestId)]) -> AllocateResponse {
    let allocated = containers.iter().map(|(number, request)| container(*number, *request));
    AllocateResponse { allocated_containers: allocated.collect(), ..AllocateResponse::default() }
}
fn ended(number: i64, exit: i32) -> AllocateResponse {
    let status = ContainerStatus {
        container_id: Some(container_id(number)),
        exit_status: Some(exit),
        ..ContainerStatus::default()
    };
    AllocateResponse { completed_container_statuses: vec![status], ..AllocateResponse::default() }
}
fn allocated(events: &[MasterEvent]) -> Vec<i64> {
    let id = |event: &MasterEvent| match event {
        MasterEvent::Allocated { container, .. } => Some(container.id.unwrap().id()),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

#[test]
fn places_are_said_as_yarn_wants_them() {
    let said = |place: Place| {
        let mut master = Master::new();
        master
            .request(Ask { place, label: Some("gpu".to_owned()), ..Ask::new(3, size(64)) })
            .unwrap();
        let request = master.allocate();
        let entry = |ask: &ResourceRequest| {
            assert_eq!((ask.num_containers(), ask.allocation_request_id()), (3, 0));
            assert_eq!(ask.node_label_expression.is_some(), ask.resource_name() == "*");
            (ask.resource_name().to_owned(), ask.relax_locality())
        };
        request.ask.iter().map(entry).collect::<Vec<_>>()
    };
    let names =
        |list: &[(&str, bool)]| list.iter().map(|(n, r)| ((*n).to_owned(), *r)).collect::<Vec<_>>();
    assert_eq!(said(Place::Anywhere), names(&[("*", true)]));
    let on_host = Place::OnHost { host: "h:1".to_owned(), rack: "/r".to_owned() };
    assert_eq!(said(on_host), names(&[("h:1", true), ("/r", false), ("*", false)]));
    assert_eq!(said(Place::OnRack("/r".to_owned())), names(&[("/r", true), ("*", false)]));
    let preferred = Place::Preferred { hosts: vec!["h".to_owned()], racks: vec!["/r".to_owned()] };
    assert_eq!(said(preferred), names(&[("h", true), ("/r", true), ("*", true)]));
}

#[test]
fn totals_are_said_once_and_surplus_is_given_back() {
    let mut master = Master::new();
    let id = master.request(Ask::new(2, size(64))).unwrap();
    assert!(master.is_busy());
    assert_eq!(master.allocate().ask.len(), 1);
    assert!(
        master
            .allocated(AllocateResponse { response_id: Some(1), ..Default::default() })
            .is_empty()
    );
    let second = master.allocate();
    assert_eq!((second.ask.len(), second.response_id), (0, Some(1)));
    let events = master.allocated(grants(&[(1, id), (2, id), (3, id), (2, id)]));
    assert_eq!((allocated(&events), master.wanted(id)), (vec![1, 2], 0));
    assert_eq!(master.containers().count(), 2);
    // The third goes back, and its end is nobody's business.
    assert_eq!(master.allocate().release, [container_id(3)]);
    assert!(master.allocated(ended(3, -100)).is_empty());
    assert!(!master.is_busy());
    let events = master.allocated(ended(1, 7));
    let [MasterEvent::Completed { id, exit: ContainerExit::Code(7), .. }] = &events[..] else {
        panic!()
    };
    assert_eq!((*id, master.containers().count()), (container_id(1), 1));
}

#[test]
fn a_count_that_changes_is_said_again_as_a_total() {
    let mut master = Master::new();
    let id = master.request(Ask::new(5, size(64))).unwrap();
    let _ = master.allocate();
    let _ = master.allocated(grants(&[(1, id)]));
    assert_eq!(master.wanted(id), 4);
    assert!(master.set_count(id, 4));
    assert!(master.allocate().ask.is_empty(), "nothing has changed");
    let _ = master.allocated(AllocateResponse::default());
    master.set_count(id, 0);
    assert_eq!(master.allocate().ask[0].num_containers(), 0);
    let _ = master.allocated(AllocateResponse::default());
    assert!(!master.set_count(id, 1), "it is gone");
    let _ = master.allocated(grants(&[(9, id)]));
    assert_eq!(master.allocate().release, [container_id(9)]);
}

#[test]
fn what_was_lost_is_repeated_as_it_was() {
    let mut master = Master::new();
    master.request(Ask::new(1, size(64))).unwrap();
    master.release(container_id(5));
    master.block(["h".to_owned()]);
    let first = master.allocate();
    // New wishes wait: the ResourceManager would not look into a repetition.
    master.request(Ask::new(1, size(128))).unwrap();
    assert_eq!(master.allocate(), first);
    assert!(master.is_busy());
    let _ = master.allocated(AllocateResponse { response_id: Some(1), ..Default::default() });
    let next = master.allocate();
    assert_eq!((next.ask.len(), next.ask[0].capability.clone()), (1, Some(size(128))));
    assert_eq!((next.release.len(), next.blacklist_request), (0, None));
}

#[test]
fn after_a_restart_everything_is_said_again() {
    let mut master = Master::new();
    let kept = master.request(Ask::new(2, size(64))).unwrap();
    let gone = master.request(Ask::new(1, size(64))).unwrap();
    master.release(container_id(5));
    master.block(["a".to_owned(), "b".to_owned()]);
    let _ = master.allocate();
    let _ = master
        .allocated(AllocateResponse { response_id: Some(7), ..grants(&[(1, kept), (2, gone)]) });
    master.unblock(["b".to_owned()]);
    master.resync();
    let again = master.allocate();
    assert_eq!(again.response_id, Some(0));
    assert_eq!(again.ask.iter().map(ResourceRequest::num_containers).collect::<Vec<_>>(), [1]);
    assert_eq!(again.release, [container_id(5)]);
    let blacklist = again.blacklist_request.unwrap();
    assert_eq!(
        (blacklist.blacklist_additions, blacklist.blacklist_removals.len()),
        (vec!["a".to_owned()], 0)
    );
    // The application's own table is the truth: what runs is still known.
    assert_eq!(master.containers().count(), 2);
}

#[test]
fn requests_that_can_never_be_met_are_named_and_the_rest_is_said_again() {
    let mut master = Master::new();
    let impossible = master.request(Ask::new(1, size(1 << 40))).unwrap();
    master.release(container_id(5));
    master.block(["a".to_owned()]);
    let _ = master.allocate();
    assert_eq!(master.refused(), [impossible]);
    let again = master.allocate();
    assert_eq!((again.ask.len(), again.release.len()), (0, 1));
    assert!(again.blacklist_request.is_some());
}

#[test]
fn of_several_requests_only_the_impossible_one_is_refused() {
    let mut master = Master::new();
    let before = master.request(Ask::new(1, size(64))).unwrap();
    let impossible = master.request(Ask::new(1, size(1 << 40))).unwrap();
    let taken_back = master.request(Ask::new(1, size(64))).unwrap();
    master.set_count(taken_back, 0);
    let after = master.request(Ask::new(1, size(64))).unwrap();
    assert_eq!(master.allocate().ask.len(), 4);
    assert!(master.refused().is_empty());
    // One that nobody has refused yet waits, so that it is not drawn in.
    let new = master.request(Ask::new(1, size(64))).unwrap();
    for id in [before, impossible, taken_back, after, new] {
        let said = master.allocate().ask;
        assert_eq!(said.iter().map(|ask| ask.allocation_request_id()).collect::<Vec<_>>(), [id.0]);
        if id == impossible {
            assert_eq!(master.refused(), [impossible]);
        } else {
            let _ = master.allocated(AllocateResponse::default());
        }
    }
    assert!(master.allocate().ask.is_empty());
    assert_eq!(
        [before, impossible, taken_back, after, new].map(|id| master.wanted(id)),
        [1, 0, 0, 1, 1]
    );
}

#[test]
fn earlier_attempts_leave_containers_and_tokens() {
    let node = NodeId { host: Some("n".to_owned()), port: Some(1) };
    let token = TokenProto { kind: kinds::NODE_MANAGER.to_owned(), ..TokenProto::default() };
    let response = RegisterApplicationMasterResponse {
        maximum_capability: Some(size(4096)),
        containers_from_previous_attempts: vec![container(1, RequestId(-1))],
        nm_tokens_from_previous_attempts: vec![NmToken {
            node_id: Some(node.clone()),
            token: Some(token),
        }],
        ..Default::default()
    };
    let mut master = Master::new();
    let events = master.registered(response.clone());
    assert!(matches!(&events[..], [MasterEvent::Registered(_), MasterEvent::Recovered(_)]));
    assert_eq!(master.nm_token(&node).map(Token::kind), Some(kinds::NODE_MANAGER));
    assert_eq!(master.maximum(), &size(4096));
    // Told twice, recovered once.
    assert_eq!(master.registered(response).len(), 1);
}

#[test]
fn a_preemption_of_nothing_is_not_told() {
    let said = |preempt: PreemptionMessage| {
        let response = AllocateResponse { preempt: Some(preempt), ..AllocateResponse::default() };
        Master::new().allocated(response)
    };
    let strict = |container| PreemptionMessage {
        strict_contract: Some(StrictPreemptionContract { container }),
        contract: None,
    };
    let contract = |container, resource| PreemptionMessage {
        strict_contract: None,
        contract: Some(PreemptionContract { container, resource }),
    };
    let one = PreemptionContainer { id: Some(container_id(1)) };
    let much = PreemptionResourceRequest { resource: None };
    for nothing in [PreemptionMessage::default(), strict(vec![]), contract(vec![], vec![])] {
        assert_eq!(said(nothing), []);
    }
    for something in
        [strict(vec![one.clone()]), contract(vec![one], vec![]), contract(vec![], vec![much])]
    {
        assert_eq!(said(something.clone()), [MasterEvent::Preemption(Box::new(something))]);
    }
}

#[test]
fn exits_have_names() {
    assert_eq!(ContainerExit::from_status(-100), ContainerExit::Aborted);
    assert_eq!(ContainerExit::from_status(137), ContainerExit::Code(137));
    assert_eq!(ContainerExit::from_status(-999), ContainerExit::Other(-999));
    assert!(ContainerExit::from_status(-104).is_own_fault());
    assert!(!ContainerExit::from_status(-105).is_own_fault());
}

#[test]
fn requests_are_bounded() {
    let mut master = Master::new();
    assert_eq!(master.request(Ask::new(u32::MAX, size(1))), Err(Refused::TooLarge));
    for _ in 0..10_000 {
        master.request(Ask::new(1, size(1))).unwrap();
    }
    assert_eq!(master.request(Ask::new(1, size(1))), Err(Refused::TooMany));
}

/// A scheduler that grants what is asked for, and forgets everything where it is told to.
#[derive(Default)]
struct Scheduler {
    registered: bool,
    registrations: usize,
    wanted: BTreeMap<i64, i32>,
    granted: i64,
    /// Allocations after which it is restarted.
    restart_after: Option<usize>,
    /// Whether it says so in an answer, as older ones do.
    says_resync: bool,
    /// The first end is refused as if it had been restarted, and then a registration as if it had not.
    confused: bool,
    allocations: usize,
    finishing: usize,
    finished: Option<FinishApplicationMasterRequest>,
    blocked: BTreeSet<String>,
}

impl Scheduler {
    fn answer(&mut self, method: &str, body: &Bytes) -> Result<Vec<u8>, &'static str> {
        const NOT_REGISTERED: &str =
            "org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException";
        let am_command = Some(AmCommand::Resync.into());
        let resync = AllocateResponse { am_command, ..AllocateResponse::default() };
        match method {
            "registerApplicationMaster" if self.confused && self.registrations > 0 => {
                self.registrations += 1;
                Err("org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException")
            }
            "registerApplicationMaster" => {
                (self.registered, self.registrations) = (true, self.registrations + 1);
                Ok(RegisterApplicationMasterResponse::default().encode_to_vec())
            }
            "allocate" if self.says_resync && !self.registered => Ok(resync.encode_to_vec()),
            _ if !self.registered => Err(NOT_REGISTERED),
            "allocate" => {
                self.allocations += 1;
                if self.restart_after == Some(self.allocations) {
                    (self.registered, self.wanted) = (false, BTreeMap::new());
                    return match self.says_resync {
                        true => Ok(resync.encode_to_vec()),
                        false => Err(NOT_REGISTERED),
                    };
                }
                let request = AllocateRequest::decode(body.clone()).unwrap();
                if request.ask.iter().any(|ask| ask.capability.as_ref().unwrap().memory() > 4096) {
                    return Err(
                        "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException",
                    );
                }
                for ask in &request.ask {
                    self.wanted.insert(ask.allocation_request_id(), ask.num_containers());
                }
                for change in request.blacklist_request.iter() {
                    self.blocked.extend(change.blacklist_additions.iter().cloned());
                    self.blocked.retain(|place| !change.blacklist_removals.contains(place));
                }
                let mut granted = Vec::new();
                if let Some((id, count)) = self.wanted.iter_mut().find(|(_, count)| **count > 0) {
                    *count -= 1;
                    self.granted += 1;
                    granted.push((self.granted, RequestId(*id)));
                }
                let response_id = Some(request.response_id() + 1);
                let token = TokenProto::from(&rolled());
                let am_rm_token = (self.allocations == 2).then_some(token);
                Ok(AllocateResponse { response_id, am_rm_token, ..grants(&granted) }
                    .encode_to_vec())
            }
            "finishApplicationMaster" if self.confused && self.finishing == 0 => {
                self.finishing += 1;
                Err(NOT_REGISTERED)
            }
            "finishApplicationMaster" => {
                self.finishing += 1;
                self.finished = Some(FinishApplicationMasterRequest::decode(body.clone()).unwrap());
                let is_unregistered = Some(self.finishing == 2);
                Ok(FinishApplicationMasterResponse { is_unregistered }.encode_to_vec())
            }
            _ => Err("java.lang.AssertionError"),
        }
    }
}

fn token() -> Token {
    Token::new(b"first".to_vec(), b"password".to_vec(), kinds::AM_RM, "")
}
fn rolled() -> Token {
    token().with_service("rolled")
}

async fn start(
    scheduler: Scheduler,
) -> (AmRmClient, AmRmEvents, Arc<Mutex<Scheduler>>, Login, Server) {
    let millis = Duration::from_millis;
    start_with(scheduler, AmRmOptions { idle: millis(20), busy: millis(5), events: 100 }).await
}

async fn start_with(
    scheduler: Scheduler,
    options: AmRmOptions,
) -> (AmRmClient, AmRmEvents, Arc<Mutex<Scheduler>>, Login, Server) {
    let scheduler = Arc::new(Mutex::new(scheduler));
    let at = Arc::clone(&scheduler);
    let answers: Arc<Answers> =
        Arc::new(move |method, body| at.lock().unwrap().answer(method, body));
    let auth =
        ServerAuth::Token { token: token(), qops: vec![Qop::Authentication], ciphers: vec![] };
    let server = Server::start(auth, Does::Answer(answers)).await;
    let mut conf = Configuration::with_defaults();
    conf.set("yarn.resourcemanager.scheduler.address", format!("127.0.0.1:{}", server.port));
    let mut credentials = Credentials::new();
    credentials.add("", token());
    let login = Login::simple(&conf, "alice", credentials).unwrap();
    let registration =
        Registration { host: "h".to_owned(), rpc_port: 1, tracking_url: String::new() };
    let (client, events) =
        AmRmClient::register(&conf, &login, registration, options).await.unwrap();
    (client, events, scheduler, login, server)
}

async fn grants_of(events: &mut AmRmEvents, count: usize) -> Vec<MasterEvent> {
    let mut seen = Vec::new();
    while allocated(&seen).len() < count {
        seen.push(events.next().await.unwrap().unwrap());
    }
    seen
}

#[tokio::test]
async fn containers_are_asked_for_and_granted_until_the_application_finishes() {
    let (client, mut events, scheduler, login, server) = start(Scheduler::default()).await;
    assert!(matches!(events.next().await.unwrap(), Some(MasterEvent::Registered(_))));
    let id = client.request(Ask::new(3, size(64))).unwrap();
    let seen = grants_of(&mut events, 3).await;
    assert!(seen.iter().any(|event| matches!(event, MasterEvent::TokenReplaced(_))));
    // The new token is in use and in the user's hands; it is the same user, so the connection stays.
    assert_eq!(login.credentials().by_kind(kinds::AM_RM).map(Token::service), Some("rolled"));
    assert_eq!(server.connections(), 1);
    assert!(!client.set_count(id, 1));
    client.finish(done()).await.unwrap();
    assert_eq!(events.next().await.unwrap(), None);
    let scheduler = scheduler.lock().unwrap();
    assert_eq!((scheduler.registrations, scheduler.finishing), (1, 2));
    let finished = scheduler.finished.as_ref().unwrap();
    assert_eq!(
        (finished.final_status(), finished.diagnostics()),
        (FinalApplicationStatus::Succeeded, "done")
    );
}

fn done() -> Finish {
    Finish {
        status: FinalApplicationStatus::Succeeded,
        diagnostics: "done".to_owned(),
        tracking_url: String::new(),
    }
}

#[tokio::test]
async fn an_end_is_told_although_the_registration_before_it_is_refused() {
    let confused = Scheduler { confused: true, ..Scheduler::default() };
    let (client, _events, scheduler, ..) = start(confused).await;
    client.finish(done()).await.unwrap();
    let scheduler = scheduler.lock().unwrap();
    assert_eq!((scheduler.registrations, scheduler.finishing), (2, 2));
}

#[tokio::test]
async fn a_restarted_resource_manager_is_told_everything_again() {
    for says_resync in [false, true] {
        let forgetful = Scheduler { restart_after: Some(3), says_resync, ..Scheduler::default() };
        let (client, mut events, scheduler, ..) = start(forgetful).await;
        client.request(Ask::new(5, size(64))).unwrap();
        let seen = grants_of(&mut events, 5);
        let seen = tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap();
        let registered =
            seen.iter().filter(|event| matches!(event, MasterEvent::Registered(_))).count();
        assert_eq!((registered, scheduler.lock().unwrap().registrations), (2, 2));
        assert_eq!(scheduler.lock().unwrap().granted, 5);
    }
}

#[tokio::test]
async fn impossible_requests_are_refused_and_the_heart_goes_on() {
    let (client, mut events, ..) = start(Scheduler::default()).await;
    let impossible = client.request(Ask::new(1, size(5000))).unwrap();
    loop {
        if let MasterEvent::Refused { requests, reason } = events.next().await.unwrap().unwrap() {
            assert_eq!(requests, [impossible]);
            assert!(reason.contains("InvalidResourceRequestException"), "{reason}");
            break;
        }
    }
    client.request(Ask::new(1, size(64))).unwrap();
    grants_of(&mut events, 1).await;
    // Several that are asked for at once.
    let sizes = [64, 5000, 64].map(size);
    let ids = sizes.map(|size| client.request(Ask::new(1, size)).unwrap());
    let mut granted = BTreeSet::new();
    let mut refused = Vec::new();
    while granted.len() < 2 || refused.is_empty() {
        match events.next().await.unwrap().unwrap() {
            MasterEvent::Allocated { request, .. } => assert!(granted.insert(request)),
            MasterEvent::Refused { requests, .. } => refused.extend(requests),
            _ => {}
        }
    }
    assert_eq!((granted, refused), (BTreeSet::from([ids[0], ids[2]]), vec![ids[1]]));
}

#[tokio::test]
async fn places_that_are_blocked_are_told_without_waiting_for_the_next_beat() {
    let rare = AmRmOptions { idle: Duration::from_secs(3600), ..AmRmOptions::default() };
    let (client, mut events, scheduler, ..) = start_with(Scheduler::default(), rare).await;
    // After this nothing is wanted, and the heart sleeps.
    client.request(Ask::new(1, size(64))).unwrap();
    grants_of(&mut events, 1).await;
    let told = async |places: &[&str]| {
        while !scheduler.lock().unwrap().blocked.iter().eq(places) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let soon = Duration::from_secs(20);
    client.block(["h".to_owned()]);
    tokio::time::timeout(soon, told(&["h"])).await.unwrap();
    // The answer to that must have come, or this would be told with what is wanted next.
    while client.master().is_busy() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.unblock(["h".to_owned()]);
    tokio::time::timeout(soon, told(&[])).await.unwrap();
}

#[tokio::test]
async fn a_heart_beats_whatever_its_times_are() {
    for (idle, busy) in [(Duration::MAX, Duration::MAX), (Duration::ZERO, Duration::ZERO)] {
        let options = AmRmOptions { idle, busy, events: 100_000 };
        let (client, mut events, scheduler, ..) = start_with(Scheduler::default(), options).await;
        client.request(Ask::new(1, size(64))).unwrap();
        grants_of(&mut events, 1).await;
        let (began, before) = (tokio::time::Instant::now(), scheduler.lock().unwrap().allocations);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let beats = scheduler.lock().unwrap().allocations - before;
        assert!(beats as u128 <= began.elapsed().as_millis() + 2, "{beats}");
    }
}

/// The ResourceManager has registered it, and the answer never came.
#[tokio::test]
async fn a_lost_answer_to_the_registration_is_not_its_end() {
    let registered = Scheduler { registered: true, registrations: 1, ..Scheduler::default() };
    let (client, mut events, scheduler, ..) =
        start(Scheduler { confused: true, ..registered }).await;
    client.request(Ask::new(1, size(64))).unwrap();
    let seen = grants_of(&mut events, 1).await;
    assert!(!seen.iter().any(|event| matches!(event, MasterEvent::Registered(_))));
    assert_eq!(scheduler.lock().unwrap().registrations, 2, "the refused one");
}

#[tokio::test]
async fn the_heart_stops_when_nobody_is_left() {
    let (client, mut events, ..) = start(Scheduler::default()).await;
    drop(client);
    while events.next().await.unwrap().is_some() {}
}

#[tokio::test]
async fn without_its_token_an_application_master_is_refused() {
    let auth =
        ServerAuth::Token { token: token(), qops: vec![Qop::Authentication], ciphers: vec![] };
    let server = Server::start(auth, Does::Echo).await;
    let mut conf = Configuration::with_defaults();
    conf.set("yarn.resourcemanager.scheduler.address", format!("127.0.0.1:{}", server.port));
    let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
    let refused =
        AmRmClient::register(&conf, &login, Registration::default(), AmRmOptions::default()).await;
    let error: YarnError = refused.err().unwrap();
    assert!(error.is_remote("AccessControlException"), "{error}");
}

proptest! {
    /// Whatever is lost, repeated or forgotten: nobody gets more than was asked for, and in the end all is
    /// granted.
    #[test]
    fn every_wish_is_granted_once(
        counts in prop::collection::vec(1..4_u32, 1..5),
        mishaps in prop::collection::vec(0..4_u8, 0..30),
    ) {
        let mut scheduler = Scheduler { registered: true, ..Scheduler::default() };
        let mut master = Master::new();
        let mut got: BTreeMap<RequestId, u32> = BTreeMap::new();
        let ids: Vec<_> =
            counts.iter().map(|count| master.request(Ask::new(*count, size(64))).unwrap()).collect();
        let mut last: Option<(AllocateRequest, AllocateResponse)> = None;
        for mishap in mishaps.into_iter().chain(std::iter::repeat_n(0, 40)) {
            if mishap == 1 {
                // Lost on its way there.
                let _ = master.allocate();
                continue;
            }
            if mishap == 3 {
                scheduler.wanted.clear();
                last = None;
                master.resync();
                continue;
            }
            let request = master.allocate();
            // A repetition is answered from memory.
            let response = match &last {
                Some((known, response)) if known.response_id == request.response_id => response.clone(),
                _ => {
                    let body = Bytes::from(request.encode_to_vec());
                    let response = scheduler.answer("allocate", &body).unwrap();
                    AllocateResponse::decode(&response[..]).unwrap()
                }
            };
            last = Some((request, response.clone()));
            // 2: lost on its way back.
            if mishap != 2 {
                for event in master.allocated(response) {
                    if let MasterEvent::Allocated { request, .. } = event {
                        *got.entry(request).or_default() += 1;
                    }
                }
            }
        }
        for (id, count) in ids.iter().zip(&counts) {
            prop_assert_eq!(got.get(id), Some(count));
        }
    }
}
