use super::*;
use crate::job_testing::until;
use crate::testing::{TestProcess, seconds, session, settle};
use actix::Addr;
use gateways::leader_election::NotLeader;
use gateways::metric_query::{MetricQueryGateway, QueryMetrics};
use gateways::{Answer, Ask, Calls};
use model::ProcessSession;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stops the leader of a shell without the shell's knowledge.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(crate) struct KillLeader;

impl<L: Led> Handler<KillLeader> for LeaderShell<L> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: KillLeader, _: &mut Context<Self>) -> Self::Result {
        let leader = self.leading().and_then(|(_, leader)| leader).expect("a leader answers");
        let leader = leader.addr().clone();
        Box::pin(async move {
            // The leader may have ended before it can answer.
            let _ = leader.send(Stop).await;
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Start(u64),
    StartGivenUp(u64),
    Probed(u64),
    Confirm(u64),
    LeaderStopped(u64),
    Release(u64),
    Released(u64),
    Withdraw,
}
use Seen::*;

/// The behaviour that a test sets, and the steps that it observes.
#[derive(Clone)]
struct Script {
    process: TestProcess,
    steps: Calls<Seen>,
    probed_at: Calls<Duration>,
    /// True if starts never finish.
    start_hangs: Arc<AtomicBool>,
    /// True if probes are not answered.
    deaf: Arc<AtomicBool>,
    /// Number of confirmations to come whose answer is lost; `refuse` decides about those after them.
    confirms_lost: Arc<AtomicU64>,
    refuse: Arc<AtomicBool>,
    release_hangs: Arc<AtomicBool>,
    death: Death,
    contentions: Arc<AtomicU64>,
}

impl Script {
    async fn new(death: Death) -> Self {
        Self {
            process: TestProcess::start(&[]).await,
            steps: Calls::default(),
            probed_at: Calls::default(),
            start_hangs: Arc::default(),
            deaf: Arc::default(),
            confirms_lost: Arc::default(),
            refuse: Arc::default(),
            release_hangs: Arc::default(),
            death,
            contentions: Arc::default(),
        }
    }

    fn note(&self, step: Seen) {
        self.steps.push(step);
    }

    fn seen(&self, step: Seen) -> bool {
        self.steps.all().contains(&step)
    }

    async fn shell(&self) -> Running<LeaderShell<Script>> {
        let shell = start(self.clone()).await.expect("the lane runs");
        until("it contends", || self.contentions.load(Ordering::Relaxed) == 1).await;
        shell
    }

    fn fatal(&self) -> Option<String> {
        self.process.services.fatal.first().map(|error| error.to_string())
    }
}

struct NoteDropped(Option<(Script, Seen)>);
impl Drop for NoteDropped {
    fn drop(&mut self) {
        if let Some((script, step)) = self.0.take() {
            script.note(step);
        }
    }
}

async fn while_set(flag: &AtomicBool) {
    while flag.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Leader(Script, u64);

impl Actor for Leader {
    type Context = Context<Self>;
}
impl Handler<Stop> for Leader {
    type Result = ();
    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        self.0.note(LeaderStopped(self.1));
        ctx.stop();
    }
}
impl Handler<Ask<QueryMetrics>> for Leader {
    type Result = ResponseFuture<Answer<QueryMetrics>>;
    fn handle(&mut self, _: Ask<QueryMetrics>, _: &mut Context<Self>) -> Self::Result {
        self.0.note(Probed(self.1));
        self.0.probed_at.push(self.0.process.services.platform.now());
        if self.0.deaf.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

impl Led for Script {
    type Leader = Leader;
    type Probe = QueryMetrics;

    fn component(&self) -> Component {
        Component::RestEndpoint
    }
    fn services(&self) -> &ProcessServices {
        &self.process.services
    }
    /// Grants leadership at once from the second call on.
    fn contend(&self, shell: Recipient<Leadership>) -> Contention {
        let n = self.contentions.fetch_add(1, Ordering::Relaxed);
        if n > 0 {
            let granted = shell.send(Leadership::Granted(session(100 + n)));
            actix::spawn(async move { granted.await.expect("the shell lives") });
        }
        let script = self.clone();
        Contention::new(move || script.note(Withdraw))
    }
    fn confirm(&self, leader: LeaderInformation) -> BoxFuture<'static, Result<(), ConfirmError>> {
        self.note(Confirm(leader.session.epoch.process));
        let lost = self.confirms_lost.load(Ordering::Relaxed);
        let session = leader.session;
        let answer = if lost > 0 {
            self.confirms_lost.store(lost - 1, Ordering::Relaxed);
            Err(ConfirmError::Fabric(FabricError::Overloaded { what: "the election".into() }))
        } else if self.refuse.load(Ordering::Relaxed) {
            Err(NotLeader { session }.into())
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(answer))
    }
    fn start(&self, session: LeaderSession) -> BoxFuture<'static, Running<Leader>> {
        let (script, n) = (self.clone(), session.epoch.process);
        script.note(Start(n));
        Box::pin(async move {
            let mut given_up = NoteDropped(Some((script.clone(), StartGivenUp(n))));
            while_set(&script.start_hangs).await;
            given_up.0 = None;
            let rpc = script.process.services.rpc.clone();
            let addr = Leader(script, n).start();
            let endpoint = MetricQueryGateway::endpoint(addr.clone());
            let registration = rpc.serve("led", ProcessSession(session), endpoint);
            Running::new(rpc.address_of("led"), addr, registration)
        })
    }
    fn probe(&self) -> QueryMetrics {
        QueryMetrics { prefix: String::new() }
    }
    fn release(&self, session: LeaderSession) -> BoxFuture<'static, ()> {
        let (script, n) = (self.clone(), session.epoch.process);
        Box::pin(async move {
            script.note(Release(n));
            while_set(&script.release_hangs).await;
            script.note(Released(n));
        })
    }
    fn died(&mut self, _: LeaderSession) -> Death {
        self.death.clone()
    }
}

fn ends() -> Death {
    Death::EndProcess("it died".into())
}

async fn grant(shell: &Addr<LeaderShell<Script>>, n: u64) {
    shell.clone().send(Leadership::Granted(session(n))).await.expect("the shell lives");
}

async fn revoke(shell: &Addr<LeaderShell<Script>>, n: u64) {
    shell.clone().send(Leadership::Revoked(session(n))).await.expect("the shell lives");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_leader_is_started_probed_confirmed_stopped_and_released_in_this_order() {
    let script = Script::new(ends()).await;
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("confirmed", || script.seen(Confirm(2))).await;
    revoke(shell.addr(), 9).await;
    assert!(!script.seen(LeaderStopped(2)), "another session was revoked");
    revoke(shell.addr(), 2).await;
    let life = |n| [Start(n), Probed(n), Confirm(n), LeaderStopped(n), Release(n), Released(n)];
    assert_eq!(script.steps.take(), life(2), "all of it before the revocation is answered");
    grant(shell.addr(), 3).await;
    until("confirmed", || script.seen(Confirm(3))).await;
    shell.stop().await;
    let [start, probed, confirm, stopped, release, released] = life(3);
    assert_eq!(
        script.steps.all(),
        [start, probed, confirm, Withdraw, stopped, release, released],
        "what is published is taken back first"
    );
    assert_eq!(script.fatal(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_answer_to_the_probe_is_asked_for_again_with_bounded_pauses() {
    let script = Script::new(ends()).await;
    script.deaf.store(true, Ordering::Relaxed);
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    seconds(90).await;
    assert!(!script.seen(Confirm(2)));
    let at = script.probed_at.all();
    assert_eq!(at.len(), 9);
    let timeout = Duration::from_secs(10);
    let pauses: Vec<_> =
        at.windows(2).map(|two| two[1].saturating_sub(two[0]).saturating_sub(timeout)).collect();
    for (n, pause) in pauses.iter().enumerate() {
        let due = Duration::from_millis(50 << n).min(Duration::from_secs(2));
        assert!((due..due + Duration::from_millis(20)).contains(pause), "{n}: {pause:?}");
    }
    script.deaf.store(false, Ordering::Relaxed);
    until("confirmed", || script.seen(Confirm(2))).await;
    let times = script.probed_at.all().len();
    seconds(60).await;
    assert_eq!(script.probed_at.all().len(), times, "an answer is enough");
    shell.stop().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn who_leads_no_more_is_probed_no_more() {
    let script = Script::new(ends()).await;
    script.deaf.store(true, Ordering::Relaxed);
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("probed", || script.probed_at.all().len() == 2).await;
    revoke(shell.addr(), 2).await;
    script.deaf.store(false, Ordering::Relaxed);
    seconds(60).await;
    assert_eq!(script.probed_at.all().len(), 2);
    assert!(!script.seen(Confirm(2)));
    shell.stop().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_confirmation_is_repeated_and_a_refused_one_is_not() {
    let script = Script::new(ends()).await;
    script.confirms_lost.store(3, Ordering::Relaxed);
    script.refuse.store(true, Ordering::Relaxed);
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    seconds(60).await;
    let confirms = script.steps.all().iter().filter(|step| **step == Confirm(2)).count();
    assert_eq!(confirms, 4, "three were lost, the fourth was refused");
    assert_eq!(script.fatal(), None);
    shell.stop().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_start_is_given_up_when_leadership_is_revoked() {
    let script = Script::new(ends()).await;
    script.start_hangs.store(true, Ordering::Relaxed);
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("it starts", || script.seen(Start(2))).await;
    revoke(shell.addr(), 2).await;
    assert_eq!(script.steps.all(), [Start(2), StartGivenUp(2), Release(2), Released(2)]);
    shell.stop().await;
    assert_eq!(script.fatal(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_next_leader_starts_after_everything_of_the_last_one_was_released() {
    let script = Script::new(ends()).await;
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("confirmed", || script.seen(Confirm(2))).await;
    script.release_hangs.store(true, Ordering::Relaxed);
    grant(shell.addr(), 3).await;
    seconds(30).await;
    assert!(script.seen(Release(2)) && !script.seen(Start(3)));
    script.release_hangs.store(false, Ordering::Relaxed);
    until("confirmed", || script.seen(Confirm(3))).await;
    shell.stop().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_leader_that_died_ends_the_process_or_is_replaced_or_is_missed_by_nobody() {
    let script = Script::new(ends()).await;
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("confirmed", || script.seen(Confirm(2))).await;
    shell.addr().send(KillLeader).await.unwrap();
    seconds(2).await;
    assert_eq!(script.fatal().as_deref(), Some("rest failed: it died"));

    let script = Script::new(Death::LeadAgain).await;
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("confirmed", || script.seen(Confirm(2))).await;
    shell.addr().send(KillLeader).await.unwrap();
    until("confirmed", || script.seen(Confirm(101))).await;
    let after: Vec<Seen> = script.steps.all().into_iter().skip(3).collect();
    let replaced = [Release(2), Released(2), Withdraw, Start(101), Probed(101), Confirm(101)];
    assert_eq!(after[1..], replaced);
    shell.stop().await;

    let script = Script::new(Death::Ignore).await;
    let shell = script.shell().await;
    grant(shell.addr(), 2).await;
    until("confirmed", || script.seen(Confirm(2))).await;
    shell.addr().send(KillLeader).await.unwrap();
    seconds(10).await;
    assert_eq!(script.contentions.load(Ordering::Relaxed), 1);
    shell.stop().await;
    assert_eq!(script.fatal(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_death_of_a_shell_ends_the_process_and_its_own_stop_does_not() {
    let script = Script::new(ends()).await;
    let shell = script.shell().await;
    shell.stop().await;
    seconds(5).await;
    assert_eq!(script.fatal(), None);
    let shell = start(script.clone()).await.expect("the lane runs");
    shell.addr().send(Stop).await.expect("it ends behind its owner's back");
    seconds(5).await;
    assert!(script.fatal().expect("reported").starts_with("leader_shell/rest failed"));
    settle().await;
}
