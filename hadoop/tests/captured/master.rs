//! Captures the answers of a scheduler and of nodes to an ApplicationMaster: every method of ApplicationMasterProtocol and
//! ContainerManagementProtocol, with each protection. The requests come from [`Master`].

use super::client::{self, size};
use super::fixture::{hex, unhex};
use super::wire::{Wire, thrown};
use super::world::{Server, Who, World};
use hadoop::rpc::CallError;
use hadoop::sasl::{Cipher, Qop, SaslConfig};
use hadoop::tokens::{Credentials, Token};
use hadoop::yarn::messages::*;
use hadoop::yarn::{Ask, ContainerExit, Master, MasterEvent};
use prost::Message;
use std::path::{Path, PathBuf};

/// An ApplicationMaster and its line to the scheduler.
pub(super) struct Life<'a> {
    world: &'a World,
    token: Token,
    master: Master,
    wire: Wire,
}

fn register() -> RegisterApplicationMasterRequest {
    RegisterApplicationMasterRequest {
        host: Some("here".to_owned()),
        rpc_port: Some(-1),
        tracking_url: Some(String::new()),
        ..RegisterApplicationMasterRequest::default()
    }
}

impl<'a> Life<'a> {
    /// Registers, having been refused before and being refused a second time.
    pub(super) fn begin(world: &'a World, token: Token) -> Self {
        let who = || Who::token(&token, &[Qop::Authentication]);
        let mut early = world.open("failures/not-registered", &Server::Scheduler, who());
        let request = AllocateRequest { response_id: Some(0), ..AllocateRequest::default() };
        let early: Result<AllocateResponse, _> = early.call("allocate", &request);
        assert_eq!(thrown(&early.unwrap_err()), "ApplicationMasterNotRegisteredException");

        let mut wire = world.open("master/registerApplicationMaster", &Server::Scheduler, who());
        let response: RegisterApplicationMasterResponse =
            wire.call("registerApplicationMaster", &register()).unwrap();
        assert_eq!(response.queue(), "root.default");
        let again: Result<RegisterApplicationMasterResponse, _> =
            wire.call("registerApplicationMaster", &register());
        assert_eq!(thrown(&again.unwrap_err()), "InvalidApplicationMasterRequestException");
        let mut master = Master::new();
        let events = master.registered(response);
        let [MasterEvent::Registered(response)] = &events[..] else { panic!("{events:?}") };
        assert!(response.client_to_am_token_master_key.is_none(), "only secure clusters have it");
        assert_eq!((master.maximum().memory(), master.maximum().virtual_cores()), (2048, 4));
        master.set_progress(0.5);
        Self { world, token, master, wire }
    }

    /// Registers at once; gives what is heard of earlier attempts.
    pub(super) fn register(world: &'a World, name: &str, token: Token) -> (Self, Vec<MasterEvent>) {
        let who = Who::token(&token, &[Qop::Authentication]);
        let mut wire = world.open(&format!("master/{name}"), &Server::Scheduler, who);
        let response: RegisterApplicationMasterResponse =
            wire.call("registerApplicationMaster", &register()).unwrap();
        let mut master = Master::new();
        let events = master.registered(response);
        (Self { world, token, master, wire }, events)
    }

    /// Goes on over another connection.
    pub(super) fn over(&mut self, name: &str, qop: Qop, cipher: Cipher) {
        let (token, qops, ciphers) = (Some(self.token.clone()), vec![qop], vec![cipher]);
        let config = SaslConfig { token, qops, ciphers, ..SaslConfig::default() };
        self.wire =
            self.world.open(&format!("master/{name}"), &Server::Scheduler, Who::Sasl(config));
    }

    fn beat(&mut self) -> Vec<MasterEvent> {
        let request = self.master.allocate();
        let response: AllocateResponse = self.wire.call("allocate", &request).unwrap();
        self.master.allocated(response)
    }

    /// Says what is wanted, and no more.
    pub(super) fn asks(&mut self, ask: Ask) {
        self.master.request(ask).unwrap();
        assert!(self.beat().is_empty());
    }

    /// Says what is not wanted any more with the next word.
    pub(super) fn gives(&mut self, id: ContainerId) {
        self.master.release(id);
    }

    /// Until what is heard is it; all of it is looked at.
    pub(super) fn until<T>(&mut self, mut look: impl FnMut(MasterEvent) -> Option<T>) -> T {
        loop {
            let found: Vec<T> = self.beat().into_iter().filter_map(&mut look).collect();
            if let Some(found) = found.into_iter().next() {
                return found;
            }
            self.world.pause();
        }
    }

    pub(super) fn containers(&mut self, count: u32, ask: Ask) -> Vec<Container> {
        let wanted = self.master.request(Ask { count, ..ask }).unwrap();
        let mut granted = Vec::new();
        while granted.len() < count as usize {
            for event in self.beat() {
                match event {
                    MasterEvent::Allocated { request, container } => {
                        assert_eq!(request, wanted);
                        granted.push(*container);
                    }
                    other => panic!("{other:?}"),
                }
            }
            self.world.pause();
        }
        assert_eq!(self.master.wanted(wanted), 0);
        granted
    }

    /// A request that cannot be met is refused, and the connection lives on.
    pub(super) fn refused(&mut self) {
        let wanted = self.master.request(Ask::new(1, size(1 << 20))).unwrap();
        let request = self.master.allocate();
        let refused: Result<AllocateResponse, _> = self.wire.call("allocate", &request);
        assert_eq!(thrown(&refused.unwrap_err()), "InvalidResourceRequestException");
        assert_eq!(self.master.refused(), [wanted]);
    }

    pub(super) fn released(&mut self, id: ContainerId) {
        self.master.release(id);
        self.master.block(["localhost:1".to_owned()]);
        self.ended(id, ContainerExit::Aborted);
        self.master.unblock(["localhost:1".to_owned()]);
        assert!(self.beat().is_empty());
    }

    pub(super) fn ended(&mut self, wanted: ContainerId, how: ContainerExit) {
        loop {
            for event in self.beat() {
                let MasterEvent::Completed { id, exit, diagnostics } = event else {
                    panic!("{event:?}")
                };
                if id == wanted {
                    assert_eq!(exit, how, "{diagnostics}");
                    return;
                }
            }
            self.world.pause();
        }
    }

    /// A container grows: the scheduler's word for it, which its node wants to see.
    pub(super) fn grown(&mut self, id: ContainerId, version: i32, memory: i64) -> Container {
        let update = UpdateContainerRequest {
            container_version: version,
            container_id: id,
            update_type: ContainerUpdateType::IncreaseResource.into(),
            capability: Some(size(memory)),
            execution_type: None,
        };
        let mut updates = vec![update];
        loop {
            let mut request = self.master.allocate();
            request.update_requests = std::mem::take(&mut updates);
            let response: AllocateResponse = self.wire.call("allocate", &request).unwrap();
            assert!(response.update_errors.is_empty(), "{response:?}");
            let updated = response.updated_containers.clone();
            assert!(self.master.allocated(response).is_empty());
            if let Some(updated) = updated.into_iter().next() {
                assert_eq!(updated.update_type(), ContainerUpdateType::IncreaseResource);
                let resource = updated.container.resource.as_ref();
                assert_eq!(resource.unwrap().memory(), memory);
                return updated.container;
            }
            self.world.pause();
        }
    }

    pub(super) fn nm_token(&self, node: &NodeId) -> Token {
        self.master.nm_token(node).unwrap().clone()
    }

    pub(super) fn finish(mut self) {
        let request = FinishApplicationMasterRequest {
            diagnostics: Some("all is said".to_owned()),
            tracking_url: Some(String::new()),
            final_status: Some(FinalApplicationStatus::Succeeded.into()),
        };
        loop {
            let response: FinishApplicationMasterResponse =
                self.wire.call("finishApplicationMaster", &request).unwrap();
            if response.is_unregistered() {
                break;
            }
            self.world.pause();
        }
    }
}

/// A node and the token for it.
struct Node<'a> {
    world: &'a World,
    server: Server,
    token: Token,
}

impl Node<'_> {
    fn open(&self, name: &str) -> Wire {
        let who = Who::token(&self.token, &[Qop::Authentication]);
        self.world.open(&format!("node/{name}"), &self.server, who)
    }

    fn ask<Q: Message, R: Message + Default + std::fmt::Debug>(
        &self,
        method: &str,
        request: &Q,
    ) -> R {
        self.open(method).call(method, request).unwrap()
    }

    /// Until the container is in this state; gives what the node says then.
    fn until(&self, wire: &mut Wire, id: ContainerId, state: ContainerSubState) -> ContainerStatus {
        let request = GetContainerStatusesRequest { container_id: vec![id] };
        loop {
            let statuses: GetContainerStatusesResponse =
                wire.call("getContainerStatuses", &request).unwrap();
            assert!(statuses.failed_requests.is_empty(), "{statuses:?}");
            let [status] = &statuses.status[..] else { panic!("{statuses:?}") };
            if status.container_sub_state() == state {
                return status.clone();
            }
            self.world.pause();
        }
    }

    fn start(&self, wire: &mut Wire, container: &Container, launch: ContainerLaunchContext) {
        let one = StartContainerRequest {
            container_launch_context: Some(launch),
            container_token: container.container_token.clone(),
        };
        let mut forged = one.clone();
        forged.container_token.as_mut().unwrap().password[0] ^= 1;
        let request = StartContainersRequest { start_container_request: vec![forged] };
        let refused: Result<StartContainersResponse, _> = wire.call("startContainers", &request);
        let refused = refused.unwrap_err();
        let refused = refused.remote().unwrap();
        assert!(refused.is("SecretManager$InvalidToken") && !refused.fatal, "{refused:?}");

        let request = StartContainersRequest { start_container_request: vec![one] };
        let started: StartContainersResponse = wire.call("startContainers", &request).unwrap();
        assert_eq!(started.succeeded_requests, [container.id.unwrap()]);
        assert!(started.failed_requests.is_empty(), "{started:?}");
        // What fails for one of several containers is no failure of the call.
        let again: StartContainersResponse = wire.call("startContainers", &request).unwrap();
        let [failed] = &again.failed_requests[..] else { panic!("{again:?}") };
        assert_eq!(failed.container_id, container.id);
        assert!(!failed.exception.as_ref().unwrap().class_name().is_empty(), "{failed:?}");
    }
}

/// Makes the calls to a node, with a container that lives until it is stopped.
pub(super) fn node(world: &World, life: &mut Life<'_>, container: &Container, file: LocalResource) {
    let (id, at) = (container.id.unwrap(), container.node_id.clone().unwrap());
    let node = Node { world, token: life.nm_token(&at), server: Server::Node(at) };
    // The thread dump that it is asked for would end it.
    let sleeps = || ContainerLaunchContext::of_command("trap '' QUIT; exec sleep 600");
    let mut wire = node.open("startContainers");
    node.start(&mut wire, container, sleeps().with_file("first", file.clone()));
    drop(wire);
    let mut wire = node.open("getContainerStatuses");
    let status = node.until(&mut wire, id, ContainerSubState::Running);
    assert_eq!((status.container_id, status.state()), (Some(id), ContainerState::Running));
    let nobodys = ContainerId { id: Some(9_999), ..id };
    let request = GetContainerStatusesRequest { container_id: vec![id, nobodys] };
    let some: GetContainerStatusesResponse = wire.call("getContainerStatuses", &request).unwrap();
    assert_eq!((some.status.len(), some.failed_requests.len()), (1, 1));
    client::running(world, id.app_attempt_id.unwrap().application_id.unwrap(), id);

    let local = StringLocalResourceMap { key: Some("more".to_owned()), value: Some(file) };
    let request =
        ResourceLocalizationRequest { container_id: Some(id), local_resources: vec![local] };
    let _: ResourceLocalizationResponse = node.ask("localize", &request);
    localized(&node, id);
    reinitialized(&node, &mut wire, id);
    let grown = life.grown(id, container.version(), 128);
    let update_container_token = vec![grown.container_token.clone().unwrap()];
    let request = ContainerUpdateRequest { update_container_token };
    let updated: ContainerUpdateResponse = node.ask("updateContainer", &request);
    assert_eq!(updated.succeeded_requests, [id], "{updated:?}");
    let grown = life.grown(id, grown.version(), 192);
    let increase_containers = vec![grown.container_token.clone().unwrap()];
    let request = IncreaseContainersResourceRequest { increase_containers };
    let updated: IncreaseContainersResourceResponse =
        node.ask("increaseContainersResource", &request);
    assert_eq!(updated.succeeded_requests, [id], "{updated:?}");
    node.until(&mut wire, id, ContainerSubState::Running);

    let command = SignalContainerCommand::OutputThreadDump.into();
    let request = SignalContainerRequest { container_id: id, command };
    let _: SignalContainerResponse = node.ask("signalToContainer", &request);
    let request = StopContainersRequest { container_id: vec![id, nobodys] };
    drop(wire);
    let mut wire = node.open("stopContainers");
    let stopped: StopContainersResponse = wire.call("stopContainers", &request).unwrap();
    assert_eq!(stopped.succeeded_requests, [id]);
    assert_eq!(stopped.failed_requests[0].container_id, Some(nobodys));
    drop(wire);
    life.ended(id, ContainerExit::KilledByMaster);
}

fn localized(node: &Node<'_>, id: ContainerId) {
    let method = "getLocalizationStatuses";
    let mut wire = node.open(method);
    let request = GetLocalizationStatusesRequest { container_id: vec![id] };
    loop {
        let response: GetLocalizationStatusesResponse = wire.call(method, &request).unwrap();
        let [one] = &response.cntn_localization_statuses[..] else { panic!("{response:?}") };
        assert_eq!(one.container_id, Some(id));
        let more = one.localization_statuses.iter().find(|one| one.resource_key() == "more");
        match more.map(LocalizationStatus::localization_state) {
            Some(LocalizationState::Completed) => return,
            Some(LocalizationState::Failed) => panic!("{response:?}"),
            _ => node.world.pause(),
        }
    }
}

/// A container gets another program, the old one back, and another one for good.
fn reinitialized(node: &Node<'_>, wire: &mut Wire, id: ContainerId) {
    let again = |seconds: i32| ReInitializeContainerRequest {
        container_id: Some(id),
        container_launch_context: Some(ContainerLaunchContext::of_command(format!(
            "trap '' QUIT; exec sleep {seconds}"
        ))),
        auto_commit: Some(false),
    };
    settled(node, wire, id);
    let _: ReInitializeContainerResponse = node.ask("reInitializeContainer", &again(601));
    settled(node, wire, id);
    let _: RollbackResponse = node.ask("rollbackLastReInitialization", &id);
    settled(node, wire, id);
    let _: ReInitializeContainerResponse = wire.call("reInitializeContainer", &again(602)).unwrap();
    settled(node, wire, id);
    let _: CommitResponse = node.ask("commitLastReInitialization", &id);
    let nothing: Result<CommitResponse, CallError> = wire.call("commitLastReInitialization", &id);
    assert_eq!(thrown(&nothing.unwrap_err()), "YarnException");
    let _: RestartContainerResponse = node.ask("restartContainer", &id);
    settled(node, wire, id);
}

/// Until a container that was given a program really runs it. Its node says so a little earlier, and loses one that
/// is changed before its process is there.
fn settled(node: &Node<'_>, wire: &mut Wire, id: ContainerId) {
    for _ in 0..8 {
        node.world.pause();
    }
    node.until(wire, id, ContainerSubState::Running);
}

/// An attempt that is failed while its container runs, and the next one, which gets the container and the token for
/// its node.
pub(super) fn recovered(world: &World) {
    let mut wire = world.open("client/attempts", &Server::ResourceManager, Who::Simple);
    let new: GetNewApplicationResponse =
        wire.call("getNewApplication", &GetNewApplicationRequest {}).unwrap();
    let id = new.application_id.unwrap();
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        am_container_spec: Some(ContainerLaunchContext::of_command("exec sleep 600")),
        max_app_attempts: Some(2),
        resource: Some(size(64)),
        keep_containers_across_application_attempts: Some(true),
        ..ApplicationSubmissionContext::default()
    };
    let request = SubmitApplicationRequest { application_submission_context: Some(context) };
    let _: SubmitApplicationResponse = wire.call("submitApplication", &request).unwrap();
    let (attempt, token) = attempt(world, &mut wire, id, 1);
    let (mut life, events) = Life::register(world, "attempt-1", token);
    assert!(matches!(events[..], [MasterEvent::Registered(_)]), "{events:?}");
    let container = life.containers(1, Ask::new(1, size(64))).remove(0);
    let (kept, at) = (container.id.unwrap(), container.node_id.clone().unwrap());
    let node = Node { world, token: life.nm_token(&at), server: Server::Node(at.clone()) };
    let mut started = node.open("attempt-1");
    node.start(&mut started, &container, ContainerLaunchContext::of_command("exec sleep 600"));
    node.until(&mut started, kept, ContainerSubState::Running);
    drop((life, started));
    let request = FailApplicationAttemptRequest { application_attempt_id: Some(attempt) };
    let _: FailApplicationAttemptResponse = wire.call("failApplicationAttempt", &request).unwrap();

    let (_, token) = self::attempt(world, &mut wire, id, 2);
    let (mut life, events) = Life::register(world, "attempt-2", token);
    // The earlier ApplicationMaster's own container may be among them, while nobody has heard of its end.
    let is_kept =
        |event: &MasterEvent| matches!(event, MasterEvent::Recovered(one) if one.id == Some(kept));
    assert!(events.iter().any(is_kept), "{events:?}");
    let node = Node { world, token: life.nm_token(&at), server: Server::Node(at) };
    let request = StopContainersRequest { container_id: vec![kept] };
    let stopped: StopContainersResponse =
        node.open("attempt-2").call("stopContainers", &request).unwrap();
    assert_eq!(stopped.succeeded_requests, [kept]);
    life.ended(kept, ContainerExit::KilledByMaster);
    life.finish();
}

/// Until this attempt is launched; gives the token that its ApplicationMaster was given, as one on its node reads it.
fn attempt(
    world: &World,
    wire: &mut Wire,
    id: ApplicationId,
    number: i32,
) -> (ApplicationAttemptId, Token) {
    let request = GetApplicationAttemptsRequest { application_id: Some(id) };
    let launched = loop {
        let attempts: GetApplicationAttemptsResponse =
            wire.call("getApplicationAttempts", &request).unwrap();
        let launched = attempts.application_attempts.into_iter().find(|one| {
            one.yarn_application_attempt_state() == YarnApplicationAttemptState::Launched
                && one.application_attempt_id.unwrap().attempt_id() == number
        });
        if let Some(launched) = launched {
            break launched;
        }
        world.pause();
    };
    let container = launched.am_container_id.unwrap().to_string();
    let tokens = world.fact(&format!("tokens-{number}"), || {
        loop {
            let conf = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap());
            if let Some(file) = tokens_of(&conf.join(".."), &container) {
                break hex(&std::fs::read(file).unwrap());
            }
            world.pause();
        }
    });
    let tokens = Credentials::from_bytes(&unhex(&tokens)).unwrap();
    let token = tokens.by_kind("YARN_AM_RM_TOKEN").unwrap().clone();
    (launched.application_attempt_id.unwrap(), token)
}

/// The file that `HADOOP_TOKEN_FILE_LOCATION` names in a container.
fn tokens_of(under: &Path, container: &str) -> Option<PathBuf> {
    // Directories come and go meanwhile.
    let entries = std::fs::read_dir(under).ok()?.filter_map(Result::ok);
    entries.map(|entry| entry.path()).find_map(|path| match path.is_dir() {
        true => tokens_of(&path, container),
        false => (path.ends_with("container_tokens")
            && path.parent().is_some_and(|folder| folder.ends_with(container)))
        .then_some(path),
    })
}
