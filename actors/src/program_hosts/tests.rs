use super::*;
use crate::job_testing::{HostsDouble, graph, job, program, until};
use crate::testing::{TestProcess, seconds, session, settle};
use gateways::job_services::{
    AwaitHostExit, BuildInHost, FindHost, LaunchHost, ReleaseHost, ServeCollected,
};
use gateways::{CallError, FabricError};
use model::{BlobKind, ProcessSession};

fn key(byte: u8) -> BlobKey {
    BlobKey { job: None, hash: ContentHash([byte; 32]), kind: BlobKind::Permanent, size: 10 }
}

fn launch(n: u128) -> LaunchHost {
    LaunchHost { job_id: job(n), program: Some(key(7)) }
}

async fn keeper() -> (TestProcess, HostsDouble) {
    let process = TestProcess::start(&[]).await;
    let hosts = HostsDouble::start(&process, HostSide::TaskManager).await;
    (process, hosts)
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_has_one_host_however_often_it_is_asked_for() {
    let (_process, hosts) = keeper().await;
    let (first, second) =
        futures::join!(hosts.gateway.ask(launch(1)), hosts.gateway.ask(launch(1)));
    assert_eq!(first.as_ref().unwrap(), &second.unwrap());
    assert_eq!(hosts.gateway.ask(launch(1)).await.unwrap(), first.unwrap());
    assert_eq!(hosts.script.launches.all().len(), 1);
    let request = &hosts.script.launches.all()[0];
    assert_eq!(request.program.as_deref(), Some("/programs/words".as_ref()));
    hosts.gateway.ask(launch(2)).await.unwrap();
    assert_eq!(hosts.script.launches.all().len(), 2);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stale_and_a_future_caller_are_fenced() {
    let (process, hosts) = keeper().await;
    let rpc = &process.services.rpc;
    for other in [0, 9] {
        let gateway: Remote<ProgramHostsGateway> =
            rpc.gateway(hosts.running.address(), ProcessSession(session(other)));
        let answer = gateway.ask(launch(1)).await;
        assert!(matches!(answer, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    }
    assert_eq!(hosts.script.launches.all().len(), 0);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_can_not_be_fetched_or_does_not_start_is_told() {
    let (_process, hosts) = keeper().await;
    let absent = LaunchHost { job_id: job(1), program: Some(key(9)) };
    let error = hosts.gateway.ask(absent).await.unwrap_err().refused().unwrap();
    assert!(error.to_string().contains("can't be fetched: there is no blob"), "{error}");
    assert!(matches!(error, BuildError::Invalid(_)), "no restart brings it back: {error:?}");
    let unreachable = LaunchHost { job_id: job(1), program: Some(key(8)) };
    let error = hosts.gateway.ask(unreachable).await.unwrap_err().refused().unwrap();
    assert!(matches!(error, BuildError::Process(_)), "a restart may: {error:?}");
    let refused = BuildError::Process("exit code 1".into());
    hosts.script.set(&hosts.script.fail_launch, Some(refused.clone()));
    let error = hosts.gateway.ask(launch(1)).await.unwrap_err().refused();
    assert_eq!(error, Some(refused));
    hosts.script.set(&hosts.script.fail_launch, None);
    hosts.gateway.ask(launch(1)).await.unwrap();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_host_that_never_comes_up_is_given_up() {
    let (process, hosts) = keeper().await;
    let within = process.services.options.get(&conf::taskmanager::HOST_START_TIMEOUT);
    hosts.script.set(&hosts.script.hang_launch, true);
    let answer = hosts.gateway.ask_within(launch(1), within * 2).await;
    let error = answer.unwrap_err().refused().unwrap();
    assert!(error.to_string().contains("did not answer within"), "{error}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_end_of_a_host_is_known_to_who_waits_for_it() {
    let (_process, hosts) = keeper().await;
    let host = hosts.gateway.ask(launch(1)).await.unwrap();
    let wait = |wait_ms| AwaitHostExit { job_id: job(1), session: host.session, wait_ms };
    assert_eq!(hosts.gateway.ask(wait(100)).await.unwrap(), None);
    let (exit, ()) = futures::join!(hosts.gateway.ask(wait(5000)), async {
        settle().await;
        hosts.script.kill_all("killed by SIGSEGV");
    });
    let expected = HostExit { cause: "killed by SIGSEGV".into(), released: false };
    assert_eq!(exit.unwrap(), Some(expected));
    assert!(hosts.gateway.ask(wait(5000)).await.unwrap().is_some(), "it is gone for ever");
    let next = hosts.gateway.ask(launch(1)).await.unwrap();
    assert_ne!(next.session, host.session);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_released_host_ends_by_itself_or_is_killed() {
    let (_process, hosts) = keeper().await;
    let host = hosts.gateway.ask(launch(1)).await.unwrap();
    let release = |at_once| ReleaseHost { job_id: job(1), at_once };
    hosts.gateway.ask(release(false)).await.unwrap();
    assert_eq!(hosts.script.killed.all().len(), 0);
    assert_eq!(hosts.gateway.ask(FindHost { job_id: job(1) }).await.unwrap(), None);
    let wait = AwaitHostExit { job_id: job(1), session: host.session, wait_ms: 0 };
    assert!(hosts.gateway.ask(wait).await.unwrap().is_some());

    hosts.gateway.ask(launch(1)).await.unwrap();
    hosts.gateway.ask(release(true)).await.unwrap();
    assert_eq!(hosts.script.killed.all().len(), 1);

    hosts.gateway.ask(launch(1)).await.unwrap();
    hosts.script.set(&hosts.script.deaf, true);
    hosts.gateway.ask_within(release(false), Duration::from_secs(60)).await.unwrap();
    assert_eq!(hosts.script.killed.all().len(), 2, "it did not end when asked");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_release_ends_a_launch_under_way() {
    let (_process, hosts) = keeper().await;
    hosts.script.set(&hosts.script.hang_launch, true);
    let (launched, released) = futures::join!(hosts.gateway.ask(launch(1)), async {
        settle().await;
        hosts.gateway.ask(ReleaseHost { job_id: job(1), at_once: true }).await
    });
    assert!(released.is_ok());
    let error = launched.unwrap_err().refused().unwrap();
    assert!(error.to_string().contains("released while it started"), "{error}");
    hosts.script.set(&hosts.script.hang_launch, false);
    hosts.gateway.ask(launch(1)).await.unwrap();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_launch_during_the_end_of_the_last_host_waits_for_it() {
    let (_process, hosts) = keeper().await;
    let first = hosts.gateway.ask(launch(1)).await.unwrap();
    hosts.script.set(&hosts.script.deaf, true);
    let release = hosts
        .gateway
        .ask_within(ReleaseHost { job_id: job(1), at_once: false }, Duration::from_secs(60));
    let (released, next) = futures::join!(release, async {
        settle().await;
        hosts.gateway.ask_within(launch(1), Duration::from_secs(60)).await
    });
    released.unwrap();
    assert_ne!(next.unwrap().session, first.session);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn hosts_hear_that_their_task_manager_lives_until_they_are_gone() {
    let (_process, hosts) = keeper().await;
    hosts.gateway.ask(launch(1)).await.unwrap();
    seconds(5).await;
    assert!(hosts.script.alive.take().len() >= 5);
    hosts.gateway.ask(ReleaseHost { job_id: job(1), at_once: true }).await.unwrap();
    seconds(2).await;
    hosts.script.alive.take();
    seconds(5).await;
    assert_eq!(hosts.script.alive.take().len(), 0);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn hosts_end_with_their_keeper() {
    let (_process, hosts) = keeper().await;
    hosts.gateway.ask(launch(1)).await.unwrap();
    let script = hosts.script.clone();
    hosts.running.stop().await;
    until("killed", || script.killed.all().len() == 1).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_this_process_is_runs_inside() {
    let process = TestProcess::start(&[]).await;
    let own = Some(program().hash);
    let hosts = HostsDouble::start_with(&process, HostSide::TaskManager, own, None).await;
    hosts.gateway.ask(launch(1)).await.unwrap();
    hosts.gateway.ask(LaunchHost { job_id: job(2), program: None }).await.unwrap();
    assert!(hosts.script.launches.all().iter().all(|request| request.program.is_none()));
    seconds(3).await;
    assert_eq!(hosts.script.alive.all().len(), 0, "a part of this process needs no sign of life");
}

fn build(keep: bool) -> BuildInHost {
    BuildInHost {
        program: program(),
        job_id: job(5),
        parallelism: 3,
        options: BTreeMap::new(),
        defaults: BTreeMap::new(),
        keep,
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_graph_is_built_in_a_host_that_is_kept_or_not() {
    let process = TestProcess::start(&[]).await;
    let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
    let built = hosts.gateway.ask(build(true)).await.unwrap().graph;
    assert_eq!(built, graph(5, 3, true).clone_named("job 0"));
    assert!(hosts.gateway.ask(FindHost { job_id: job(5) }).await.unwrap().is_some());
    hosts.gateway.ask(ReleaseHost { job_id: job(5), at_once: true }).await.unwrap();
    hosts.gateway.ask(build(false)).await.unwrap();
    settle().await;
    assert!(hosts.gateway.ask(FindHost { job_id: job(5) }).await.unwrap().is_none());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_build_that_fails_leaves_no_host() {
    let process = TestProcess::start(&[]).await;
    let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
    let wrong = BuildError::Program("no such file: /a".into());
    hosts.script.set(&hosts.script.build, Some(Err(wrong.clone())));
    let error = hosts.gateway.ask(build(true)).await.unwrap_err().refused();
    assert_eq!(error, Some(wrong));
    settle().await;
    assert!(hosts.gateway.ask(FindHost { job_id: job(5) }).await.unwrap().is_none());
    assert_eq!(hosts.script.killed.all().len(), 1);
}

/// Starts a keeper of a JobManager with this many places.
async fn places(max: &str) -> (TestProcess, HostsDouble) {
    let process = TestProcess::start(&[("jobmanager.program-hosts.max", max)]).await;
    let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
    (process, hosts)
}

fn build_for(n: u128) -> BuildInHost {
    BuildInHost { job_id: job(n), ..build(true) }
}

async fn is_up(hosts: &HostsDouble, n: u128) -> bool {
    hosts.gateway.ask(FindHost { job_id: job(n) }).await.unwrap().is_some()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_host_of_a_waiting_job_goes_for_the_next_build_and_comes_back_with_its_slots() {
    let (_process, hosts) = places("2").await;
    for n in 1..=3 {
        hosts.gateway.ask(build_for(n)).await.unwrap();
    }
    assert!(!is_up(&hosts, 1).await, "the idlest");
    assert_eq!(hosts.script.killed.all().len(), 1);
    assert!(is_up(&hosts, 2).await && is_up(&hosts, 3).await);
    hosts.gateway.ask(launch(3)).await.unwrap();
    assert_eq!(hosts.script.launches.all().len(), 3, "it got its slots at once");
    seconds(30).await;
    assert!(!is_up(&hosts, 2).await, "it did not");
    hosts.gateway.ask(ReleaseHost { job_id: job(3), at_once: false }).await.unwrap();
    hosts.gateway.ask(launch(2)).await.unwrap();
    assert_eq!(hosts.script.launches.all().len(), 4);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn coordinators_without_a_place_are_refused_and_builds_go_on_beside_them() {
    let (_process, hosts) = places("2").await;
    hosts.gateway.ask(launch(1)).await.unwrap();
    let refused = hosts.gateway.ask_within(launch(2), Duration::from_secs(60));
    let (refused, built) = futures::join!(refused, async {
        settle().await;
        hosts.gateway.ask(build_for(3)).await
    });
    built.unwrap();
    let refused = refused.unwrap_err().refused().unwrap();
    assert!(matches!(refused, BuildError::NoRoom(_)), "{refused:?}");
    assert!(refused.to_string().contains("1 run coordinators of other jobs"), "{refused}");
    let (next, ()) = futures::join!(hosts.gateway.ask(launch(2)), async {
        settle().await;
        hosts.script.kill_all("killed by SIGKILL");
    });
    next.unwrap();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_build_without_a_place_is_refused_in_time() {
    let max = ("jobmanager.program-hosts.max", "2");
    let slow_start = ("taskmanager.program-host.start-timeout", "140 s");
    let process = TestProcess::start(&[max, slow_start]).await;
    let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
    hosts.script.set(&hosts.script.hang_launch, true);
    let slow = |n| hosts.gateway.ask_within(build_for(n), Duration::from_secs(150));
    let (first, second, third) = futures::join!(slow(1), slow(2), async {
        settle().await;
        slow(3).await
    });
    assert!(matches!(first.unwrap_err().refused(), Some(BuildError::Process(_))));
    assert!(matches!(second.unwrap_err().refused(), Some(BuildError::Process(_))));
    let third = third.unwrap_err().refused().unwrap();
    assert!(matches!(third, BuildError::NoRoom(_)), "{third:?}");
    assert!(third.to_string().contains("2 build job graphs"), "{third}");
}

/// The 8 hosts can't take the 60 jobs within the 30 s that a submission once waited: each serves its job's results for 5 s.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_burst_of_submissions_waits_for_hosts_that_serve_results() {
    let (_process, hosts) = places("8").await;
    let (hosts, slots) = (&hosts, &tokio::sync::Semaphore::new(7));
    let run = |n| async move {
        hosts.gateway.ask_within(build_for(n), Duration::from_secs(150)).await.unwrap();
        // A job asks for a host of its coordinators when it has its slots.
        let _slot = slots.acquire().await.unwrap();
        hosts.gateway.ask(launch(n)).await.unwrap();
        hosts.gateway.ask(ServeCollected { job_id: job(n) }).await.unwrap();
    };
    futures::future::join_all((1..=60).map(run)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_submission_beyond_the_queue_is_refused_at_once() {
    let (_process, hosts) = places("2").await;
    hosts.script.set(&hosts.script.hang_launch, true);
    let wait = |n| hosts.gateway.ask_within(build_for(n), Duration::from_secs(150));
    let mut waiting: Vec<_> = (1..=2 + WAITING_MAX as u128).map(|n| Box::pin(wait(n))).collect();
    let all = futures::future::join_all(waiting.iter_mut());
    assert!(tokio::time::timeout(Duration::from_secs(1), all).await.is_err(), "all wait");
    let refused = tokio::time::timeout(Duration::from_secs(1), wait(1000)).await.unwrap();
    let refused = refused.unwrap_err().refused().unwrap();
    assert!(matches!(refused, BuildError::NoRoom(_)), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("256 other requests wait, which is the most"), "{text}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn collected_results_go_when_a_place_is_needed_those_that_were_read_last_at_last() {
    let (_process, hosts) = places("3").await;
    let serve = |n| ServeCollected { job_id: job(n) };
    for n in [1, 2] {
        hosts.gateway.ask(launch(n)).await.unwrap();
        hosts.gateway.ask(serve(n)).await.unwrap();
        seconds(1).await;
    }
    hosts.gateway.ask(serve(1)).await.unwrap();
    seconds(30).await;
    hosts.gateway.ask(build_for(3)).await.unwrap();
    assert!(is_up(&hosts, 1).await && is_up(&hosts, 2).await, "nobody needs their places");
    hosts.gateway.ask(launch(3)).await.unwrap();
    hosts.gateway.ask(build_for(4)).await.unwrap();
    assert!(is_up(&hosts, 1).await && !is_up(&hosts, 2).await);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_release_takes_back_what_waits_for_a_place() {
    let (_process, hosts) = places("2").await;
    hosts.gateway.ask(launch(1)).await.unwrap();
    let (waits, released) = futures::join!(hosts.gateway.ask(launch(2)), async {
        settle().await;
        hosts.gateway.ask(ReleaseHost { job_id: job(2), at_once: true }).await
    });
    released.unwrap();
    let error = waits.unwrap_err().refused().unwrap();
    assert!(error.to_string().contains("released"), "{error}");
    hosts.gateway.ask(ReleaseHost { job_id: job(1), at_once: true }).await.unwrap();
    settle().await;
    assert!(!is_up(&hosts, 2).await);
    assert_eq!(hosts.script.launches.all().len(), 1);
}

trait Named {
    fn clone_named(&self, name: &str) -> Self;
}
impl Named for model::JobGraph {
    fn clone_named(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }
    }
}
