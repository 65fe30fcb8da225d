//! The life of an ApplicationMaster in this process, and what a client may ask meanwhile.

use super::shell::running;
use super::{Unmanaged, conf, size, yarn};
use hadoop::yarn::messages::{
    Container, ContainerId, ContainerLaunchContext, ContainerState, ContainerSubState,
    FinalApplicationStatus, GetApplicationsRequest, LocalResource, NodeState,
    SignalContainerCommand, YarnApplicationState,
};
use hadoop::yarn::{
    AmRmClient, AmRmEvents, AmRmOptions, Ask, ContainerExit, Finish, MasterEvent, NmClient, Place,
    Registration,
};
use std::time::Duration;

/// An ApplicationMaster with all that it needs.
pub(super) struct Running {
    pub(super) application: Unmanaged,
    pub(super) yarn: AmRmClient,
    pub(super) events: AmRmEvents,
    pub(super) nodes: NmClient,
}

impl Running {
    pub(super) async fn register() -> Self {
        Self::register_in("default").await
    }

    pub(super) async fn register_in(queue: &str) -> Self {
        let application = Unmanaged::submit_to(queue).await;
        let (conf, login) = (conf(), application.login());
        let registration =
            Registration { host: "here".into(), rpc_port: -1, tracking_url: String::new() };
        let fast = Duration::from_millis(100);
        let options = AmRmOptions { idle: fast, busy: fast, ..AmRmOptions::default() };
        let (yarn, events) =
            AmRmClient::register(&conf, &login, registration, options).await.unwrap();
        let nodes = NmClient::new(&conf, &login).unwrap();
        Self { application, yarn, events, nodes }
    }

    pub(super) async fn event(&mut self) -> MasterEvent {
        let next = tokio::time::timeout(Duration::from_secs(60), self.events.next()).await;
        next.expect("an event within a minute").unwrap().expect("no end yet")
    }

    pub(super) async fn allocated(&mut self, ask: Ask) -> Container {
        let wanted = self.yarn.request(ask).unwrap();
        loop {
            if let MasterEvent::Allocated { request, container } = self.event().await {
                assert_eq!(request, wanted);
                return *container;
            }
        }
    }

    pub(super) async fn start(&self, container: &Container, launch: ContainerLaunchContext) {
        let node = container.node_id.clone().unwrap();
        let token = self.yarn.nm_token(&node).unwrap();
        self.nodes.start(container, &token, launch).await.unwrap();
    }

    pub(super) async fn end_of(&mut self, wanted: ContainerId) -> (ContainerExit, String) {
        loop {
            if let MasterEvent::Completed { id, exit, diagnostics } = self.event().await
                && id == wanted
            {
                return (exit, diagnostics);
            }
        }
    }

    /// Runs what is launched in a container of its own; how it ended.
    pub(super) async fn run(&mut self, launch: ContainerLaunchContext) -> (ContainerExit, String) {
        let container = self.allocated(Ask::new(1, size(64))).await;
        self.start(&container, launch).await;
        self.end_of(container.id.unwrap()).await
    }

    pub(super) async fn finish(self) {
        let (id, client) = (self.application.id, self.application.yarn);
        let finish = Finish {
            status: FinalApplicationStatus::Succeeded,
            diagnostics: "all is said".to_owned(),
            tracking_url: String::new(),
        };
        self.yarn.finish(finish).await.unwrap();
        let mut reports = client.watch(id);
        let mut last = None;
        while let Some(report) = reports.next().await.unwrap() {
            last = Some(report);
        }
        let last = last.unwrap();
        assert_eq!(last.state(), YarnApplicationState::Finished);
        assert_eq!(last.final_status(), FinalApplicationStatus::Succeeded);
        // ResourceManagers that were restarted put a word of theirs before it.
        assert!(last.diagnostics().ends_with("all is said"), "{}", last.diagnostics());
    }
}

pub(super) fn command(text: &str) -> ContainerLaunchContext {
    ContainerLaunchContext::of_command(text)
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn containers_start_end_by_themselves_and_are_stopped() {
    let mut master = Running::register().await;
    assert!(master.yarn.maximum().memory() >= 1024);
    let (exit, diagnostics) = master.run(command("exit 7")).await;
    assert_eq!(exit, ContainerExit::Code(7), "{diagnostics}");

    let container = master.allocated(Ask::new(1, size(64))).await;
    let (id, node) = (container.id.unwrap(), container.node_id.clone().unwrap());
    master.start(&container, command("sleep 600")).await;
    let token = master.yarn.nm_token(&node).unwrap();
    let status = loop {
        let status = master.nodes.status(&node, &token, id).await.unwrap();
        if status.container_sub_state() == ContainerSubState::Running {
            break status;
        }
        assert_eq!(status.container_sub_state(), ContainerSubState::Scheduled, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(status.state(), ContainerState::Running);
    master.nodes.stop(&node, &token, id).await.unwrap();
    let (exit, diagnostics) = master.end_of(id).await;
    assert_eq!(exit, ContainerExit::KilledByMaster, "{diagnostics}");

    let container = master.allocated(Ask::new(1, size(64))).await;
    let id = container.id.unwrap();
    master.yarn.release(id);
    let (exit, diagnostics) = master.end_of(id).await;
    assert_eq!(exit, ContainerExit::Aborted, "{diagnostics}");
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn containers_are_where_they_must_be() {
    let mut master = Running::register().await;
    let nodes = master.application.yarn.nodes(&[NodeState::Running]).await.unwrap();
    for node in nodes {
        // Several NodeManagers of one host are told apart by their ports.
        let host = node.node_id.clone().unwrap().to_string();
        let place = Place::OnHost { host, rack: node.rack_name().to_owned() };
        let container = master.allocated(Ask { place, ..Ask::new(1, size(64)) }).await;
        assert_eq!(container.node_id, node.node_id);
        master.yarn.release(container.id.unwrap());
    }
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn what_can_never_be_met_is_refused_and_the_rest_goes_on() {
    let mut master = Running::register().await;
    let wanted = master.yarn.request(Ask::new(1, size(1 << 30))).unwrap();
    let refused = loop {
        if let MasterEvent::Refused { requests, reason } = master.event().await {
            break (requests, reason);
        }
    };
    assert_eq!(refused.0, [wanted], "{}", refused.1);
    assert_eq!(master.run(command("true")).await.0, ContainerExit::Success);
    master.finish().await;
}

/// Puts four bytes into HDFS; gives the URI and the time of the file as well.
pub(super) async fn uploaded(path: &str) -> (hdfs_native::Client, String, i64) {
    let conf = conf();
    let properties = conf.names().map(|name| (name, conf.get(name).unwrap().unwrap_or_default()));
    let hdfs = hdfs_native::ClientBuilder::new().with_config(properties).build().unwrap();
    let mut writer = hdfs.create(path, hdfs_native::WriteOptions::default()).await.unwrap();
    writer.write_bytes("text".into()).await.unwrap();
    writer.close().await.unwrap();
    let time = hdfs.get_file_info(path).await.unwrap().modification_time;
    let root = conf.get("fs.defaultFS").unwrap().unwrap();
    (hdfs, format!("{root}{path}"), i64::try_from(time).unwrap())
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_file_that_is_not_what_was_said_fails_the_container() {
    let mut master = Running::register().await;
    let path = format!("/tmp/{}", master.application.id);
    let (hdfs, uri, time) = uploaded(&path).await;
    for (time, expected) in [(time, ContainerExit::Success), (time - 1, ContainerExit::Unknown)] {
        let launch = command("test \"$(cat file)\" = text");
        let launch = launch.with_file("file", LocalResource::file(&uri, 4, time).unwrap());
        let (exit, diagnostics) = master.run(launch).await;
        assert_eq!(exit, expected, "{diagnostics}");
        assert_eq!(exit == ContainerExit::Success, diagnostics.trim().is_empty(), "{diagnostics}");
    }
    hdfs.delete(&path, false).await.unwrap();
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn a_running_container_gets_another_file_and_a_signal() {
    let mut master = Running::register().await;
    let path = format!("/tmp/{}", master.application.id);
    let (hdfs, uri, time) = uploaded(&path).await;
    let launch = "while [ ! -e more ]; do sleep 0.1; done; exit 5";
    for (launch, expected) in [(launch, 5), ("sleep 600", 137)] {
        let container = master.allocated(Ask::new(1, size(64))).await;
        let (id, node) = (container.id.unwrap(), container.node_id.clone().unwrap());
        master.start(&container, command(launch)).await;
        let token = master.yarn.nm_token(&node).unwrap();
        while master.nodes.status(&node, &token, id).await.unwrap().container_sub_state()
            != ContainerSubState::Running
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if expected == 5 {
            let file = LocalResource::file(&uri, 4, time).unwrap();
            let files = vec![("more".to_owned(), file)];
            master.nodes.localize(&node, &token, id, files).await.unwrap();
        } else {
            let signal = SignalContainerCommand::ForcefulShutdown;
            master.nodes.signal(&node, &token, id, signal).await.unwrap();
        }
        let (exit, diagnostics) = master.end_of(id).await;
        assert_eq!(exit, ContainerExit::Code(expected), "{diagnostics}");
    }
    hdfs.delete(&path, false).await.unwrap();
    master.finish().await;
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
async fn every_question_of_a_client_is_answered() {
    let master = Running::register().await;
    let (yarn, id) = (yarn().await, master.application.id);
    // The ResourceManager answers a registration before it has noted it.
    running(id, 1).await;
    let nodes = yarn.nodes(&[]).await.unwrap();
    let metrics = yarn.metrics().await.unwrap();
    let active = nodes.iter().filter(|node| node.node_state() == NodeState::Running).count();
    assert_eq!(usize::try_from(metrics.num_active_nms()).unwrap(), active);
    let names: Vec<String> =
        yarn.leaf_queues().await.unwrap().into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, ["root.default", "root.small"]);
    assert!(yarn.queue_acls().await.unwrap().iter().any(|acl| acl.queue_name() == "root.default"));
    let types = yarn.resource_types().await.unwrap();
    assert!(types.iter().any(|kind| kind.name == "memory-mb"), "{types:?}");
    assert!(yarn.node_labels().await.unwrap().is_empty());

    let request = GetApplicationsRequest {
        application_states: vec![YarnApplicationState::Running.into()],
        ..GetApplicationsRequest::default()
    };
    let found = yarn.applications(&request).await.unwrap();
    assert!(found.iter().any(|report| report.application_id == Some(id)));
    let attempts = yarn.attempts(id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    let attempt = attempts[0].application_attempt_id.unwrap();
    assert_eq!((attempts[0].host(), attempts[0].rpc_port()), ("here", -1));
    assert!(yarn.containers(attempt).await.unwrap().is_empty());
    yarn.move_to_queue(id, "small").await.unwrap();
    // With 3.3 the name that it was moved by, later the full path.
    assert_eq!(yarn.report(id).await.unwrap().queue().rsplit('.').next(), Some("small"));
    assert_eq!(yarn.set_priority(id, 0).await.unwrap(), 0);
    master.finish().await;
}
