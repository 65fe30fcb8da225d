//! Tests with faults that are caused on purpose: daemons and containers are killed, times run out, files change.

use super::master::{Running, command, uploaded};
use super::shell::{Shell, running};
use super::{Daemon, conf, size, yarn};
use hadoop::client::{Auth, Client, Options, Target};
use hadoop::rpc::Protocol;
use hadoop::rpc::header::UserInformation;
use hadoop::yarn::messages::{
    ApplicationSubmissionContext, LocalResource, NodeState, RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse, SignalContainerCommand, SignalContainerRequest,
    SignalContainerResponse, YarnApplicationState,
};
use hadoop::yarn::{Ask, ContainerExit, MasterEvent, Place, YarnError};
use std::time::Duration;

/// The server sees that the caller will not authenticate as soon as it has the first bytes, says why and closes,
/// while the rest is still being written: the caller's write fails, and the reason has to be read all the same.
#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_server_that_closes_in_the_middle_of_a_request_is_still_heard() {
    let scheduler = conf().get("yarn.resourcemanager.scheduler.address").unwrap().unwrap();
    let (host, port) = scheduler.rsplit_once(':').unwrap();
    let target = Target {
        host: host.to_owned(),
        port: port.parse().unwrap(),
        protocol: Protocol::new("org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB"),
        user: UserInformation { effective: Some("anybody".to_owned()), real: None },
        auth: Auth::Simple,
    };
    let request = RegisterApplicationMasterRequest {
        tracking_url: Some("x".repeat(8 << 20)),
        ..RegisterApplicationMasterRequest::default()
    };
    for _ in 0..50 {
        let called = Client::new(Options::default())
            .call::<_, RegisterApplicationMasterResponse>(
                &target,
                "registerApplicationMaster",
                &request,
                Duration::from_secs(20),
            )
            .await;
        let error = YarnError::from(called.unwrap_err());
        assert!(error.is_remote("AccessControlException"), "{error:?}");
        assert!(error.to_string().contains("SIMPLE authentication is not enabled"), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn the_next_application_master_takes_over_the_containers_of_one_that_was_killed() {
    let shell = Shell::start(2);
    let id = shell.begun(2).await;
    let yarn = yarn().await;
    let attempts = yarn.attempts(id).await.unwrap();
    let request = SignalContainerRequest {
        container_id: attempts[0].am_container_id.unwrap(),
        command: SignalContainerCommand::ForcefulShutdown.into(),
    };
    let _: SignalContainerResponse = yarn.call("signalToContainer", &request).await.unwrap();
    running(id, 2).await;
    shell.go();
    let noted = shell.started();
    let (succeeded, said) = shell.ended();
    assert!(succeeded, "{said}");
    let told = "2 succeeded, 2 of them started by an earlier attempt";
    assert!(said.contains(told), "{said}");
    assert_eq!(noted.len(), 2, "no worker was started twice");
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn everybody_goes_on_after_a_restart_of_the_resource_manager() {
    survives(async || {
        let dead = Daemon::kill("resourcemanager");
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(dead);
    })
    .await;
}

/// A client, a managed and an unmanaged ApplicationMaster live through the loss of a ResourceManager; what is
/// asked for meanwhile comes.
pub(super) async fn survives(loss: impl AsyncFnOnce()) {
    let shell = Shell::start(2);
    let mut master = Running::register().await;
    let kept = master.allocated(Ask::new(1, size(64))).await;
    master.start(&kept, command("sleep 600")).await;
    let (kept, node) = (kept.id.unwrap(), kept.node_id.clone().unwrap());
    let id = shell.begun(2).await;

    let lost = async {
        loss().await;
    };
    let asked = async {
        // Before the ResourceManager is back.
        tokio::time::sleep(Duration::from_millis(500)).await;
        master.yarn.request(Ask::new(1, size(64))).unwrap()
    };
    let ((), wanted) = tokio::join!(lost, asked);
    let mut registered = 0;
    let container = loop {
        match master.event().await {
            MasterEvent::Registered(_) => registered += 1,
            MasterEvent::Allocated { request, container } => {
                assert_eq!(request, wanted);
                break container;
            }
            MasterEvent::Completed { id, exit, diagnostics } => {
                panic!("{id} ended: {exit:?} {diagnostics}")
            }
            _ => {}
        }
    };
    assert_eq!(registered, 1);
    master.start(&container, command("exit 3")).await;
    let (exit, diagnostics) = master.end_of(container.id.unwrap()).await;
    assert_eq!(exit, ContainerExit::Code(3), "{diagnostics}");
    let token = master.yarn.nm_token(&node).unwrap();
    master.nodes.stop(&node, &token, kept).await.unwrap();
    let (exit, diagnostics) = master.end_of(kept).await;
    assert_eq!(exit, ContainerExit::KilledByMaster, "{diagnostics}");
    master.finish().await;

    running(id, 1).await;
    assert_eq!(shell.started().len(), 2, "no worker was started twice");
    shell.go();
    let (succeeded, said) = shell.ended();
    assert!(succeeded && said.contains("Finished\tSucceeded\t"), "{said}");
    assert!(said.contains("2 succeeded"), "{said}");
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn the_containers_of_a_lost_node_are_aborted_and_others_take_their_place() {
    let mut master = Running::register().await;
    let nodes = master.application.yarn.nodes(&[NodeState::Running]).await.unwrap();
    let lost = nodes.iter().max_by_key(|node| node.node_id.clone()).unwrap();
    let lost_id = lost.node_id.clone().unwrap();
    let place = Place::OnHost { host: lost_id.to_string(), rack: lost.rack_name().to_owned() };
    let container = master.allocated(Ask { place, ..Ask::new(1, size(64)) }).await;
    // The process outlives its NodeManager, and ends by itself when this test has.
    let folder = tempfile::tempdir().unwrap();
    let waits = format!("while [ -e {} ]; do sleep 0.2; done", folder.path().display());
    master.start(&container, command(&waits)).await;

    let dead = Daemon::kill(&format!("nodemanager{}", nodes.len()));
    let (mut told, mut ended) = (None, None);
    while told.is_none() || ended.is_none() {
        match master.event().await {
            MasterEvent::Nodes(reports) => {
                told = told.or(reports.into_iter().find(|node| node.node_id == lost.node_id));
            }
            MasterEvent::Completed { id, exit, .. } if Some(id) == container.id => {
                ended = Some(exit);
            }
            _ => {}
        }
    }
    assert_eq!(told.unwrap().node_state(), NodeState::Lost);
    assert_eq!(ended, Some(ContainerExit::Aborted));

    let other = master.allocated(Ask::new(1, size(64))).await;
    assert_ne!(other.node_id, container.node_id);
    master.start(&other, command("true")).await;
    assert_eq!(master.end_of(other.id.unwrap()).await.0, ContainerExit::Success);
    drop(dead);
    // A node that comes back is told of as well, and gives containers again.
    let place = Place::OnHost { host: lost_id.to_string(), rack: lost.rack_name().to_owned() };
    let again = master.allocated(Ask { place, ..Ask::new(1, size(64)) }).await;
    master.start(&again, command("true")).await;
    assert_eq!(master.end_of(again.id.unwrap()).await.0, ContainerExit::Success);
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_container_that_is_never_started_is_taken_back_and_its_token_expires() {
    let mut master = Running::register().await;
    let container = master.allocated(Ask::new(1, size(64))).await;
    let (exit, diagnostics) = master.end_of(container.id.unwrap()).await;
    assert_eq!(exit, ContainerExit::Aborted, "{diagnostics}");
    assert!(diagnostics.contains("expired since it was unused"), "{diagnostics}");

    let node = container.node_id.clone().unwrap();
    let token = master.yarn.nm_token(&node).unwrap();
    let late = master.nodes.start(&container, &token, command("true")).await.unwrap_err();
    assert!(late.is_remote("YarnException"), "{late:?}");
    assert!(late.to_string().contains("This token is expired"), "{late}");
    // Others are not harmed.
    assert_eq!(master.run(command("true")).await.0, ContainerExit::Success);
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_program_that_is_not_there_never_starts() {
    let mut master = Running::register().await;
    let (exit, diagnostics) = master.run(command("./no-such-program")).await;
    assert_eq!(exit, ContainerExit::Code(127), "{diagnostics}");
    assert!(exit.is_own_fault() && diagnostics.contains("no-such-program"), "{diagnostics}");

    let uri = conf().get("fs.defaultFS").unwrap().unwrap() + "/tmp/no-such-file";
    let launch = command("true").with_file("file", LocalResource::file(&uri, 4, 1).unwrap());
    let (exit, diagnostics) = master.run(launch).await;
    assert_eq!(exit, ContainerExit::Unknown, "{diagnostics}");
    assert!(diagnostics.contains("FileNotFoundException"), "{diagnostics}");
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_file_that_changed_after_it_was_described_fails_the_container() {
    let mut master = Running::register().await;
    let path = format!("/tmp/changes-{}", master.application.id);
    let (hdfs, uri, time) = uploaded(&path).await;
    let described = LocalResource::file(&uri, 4, time).unwrap();
    hdfs.delete(&path, false).await.unwrap();
    let (hdfs, _, later) = uploaded(&path).await;
    assert!(later > time);
    let (exit, diagnostics) = master.run(command("true").with_file("file", described)).await;
    assert_eq!(exit, ContainerExit::Unknown, "{diagnostics}");
    assert!(diagnostics.contains("changed on src filesystem"), "{diagnostics}");
    hdfs.delete(&path, false).await.unwrap();
    master.finish().await;
}

/// The submission and the kill race; whichever wins, the submission ends soon, says what became of it, and
/// never submits again.
#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn an_application_that_is_killed_while_it_is_submitted_stays_dead() {
    let yarn = yarn().await;
    let mut seen = 0;
    for _ in 0..10 {
        let (id, _) = yarn.new_application().await.unwrap();
        let context = ApplicationSubmissionContext {
            application_id: Some(id),
            application_name: Some("killed while it is submitted".to_owned()),
            max_app_attempts: Some(1),
            am_container_spec: Some(command("sleep 600")),
            resource: Some(size(64)),
            ..ApplicationSubmissionContext::default()
        };
        let kill = async {
            // As soon as the ResourceManager has heard of it.
            while let Err(error) = yarn.kill(id, Some("in time".to_owned())).await {
                assert!(error.is_remote("ApplicationNotFoundException"), "{error:?}");
            }
        };
        let both = async { tokio::join!(yarn.submit(context), kill) };
        let both = tokio::time::timeout(Duration::from_secs(60), both);
        match both.await.expect("an end soon").0 {
            Ok(submitted) => assert_eq!(submitted, id),
            Err(YarnError::Ended { application, state, diagnostics }) => {
                assert_eq!((application, state), (id, YarnApplicationState::Killed));
                assert!(diagnostics.contains("in time"), "{diagnostics}");
                seen += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(yarn.report(id).await.unwrap().state(), YarnApplicationState::Killed);
    }
    assert!(seen > 0, "the kill always came too late");
}

/// More than the queue may ever have is no error: it waits, until it is taken back.
#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn what_a_queue_can_never_hold_waits_and_can_be_taken_back() {
    let mut master = Running::register_in("small").await;
    let most = master.yarn.maximum();
    let wanted = master.yarn.request(Ask::new(1, most)).unwrap();
    let hears = async {
        loop {
            match master.event().await {
                MasterEvent::Registered(_) => {}
                other => break other,
            }
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(3), hears).await;
    assert!(heard.is_err(), "{heard:?}");
    assert!(master.yarn.set_count(wanted, 0));
    let container = master.allocated(Ask::new(1, size(64))).await;
    master.yarn.release(container.id.unwrap());
    master.finish().await;
}
