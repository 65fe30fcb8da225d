//! The task that beats an ApplicationMaster's heart: it asks the ResourceManager in time, registers again after
//! its restarts, and hands out what it tells. What to say and what answers mean is [`Master`]'s.

use super::pace::Pace;
use super::{Ask, Master, MasterEvent, Refused, RequestId};
use crate::client::{CallOptions, Client, Proxy, start};
use crate::conf::Configuration;
use crate::login::{Login, Service};
use crate::rpc::LONGEST;
use crate::tokens::Token;
use crate::yarn::messages::{
    AllocateRequest, AllocateResponse, AmCommand, ContainerId, FinalApplicationStatus,
    FinishApplicationMasterRequest, FinishApplicationMasterResponse, NodeId,
    RegisterApplicationMasterRequest, RegisterApplicationMasterResponse, Resource,
};
use crate::yarn::resource_manager::connections;
use crate::yarn::{ResourceManager, YarnError, resource_managers, retry_policy};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

/// Between two questions whether the application is unregistered.
const POLL: Duration = Duration::from_millis(100);

/// The addresses under which an ApplicationMaster registers; the ResourceManager does not call them, it gives them to clients and to its
/// web proxy. Sent again whenever a restarted ResourceManager makes the ApplicationMaster register again. Given to
/// [`AmRmClient::register`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registration {
    /// The host at which the application's clients may call the ApplicationMaster; not checked.
    pub host: String,
    /// The port on that host at which the application's clients may call the ApplicationMaster; -1 for none.
    pub rpc_port: i32,
    /// URL of the web page that shows the application's progress; empty for none.
    pub tracking_url: String,
}

/// The intervals of an ApplicationMaster's heartbeats (calls of `allocate`), and the bound on its waiting events: beyond it the
/// heartbeats stop, and the ResourceManager starts another attempt. Intervals below 1 ms count as 1 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmRmOptions {
    /// Interval of heartbeats while no containers are wanted and there is nothing to tell; 5 s by default. Keep it well
    /// below `yarn.am.liveness-monitor.expiry-interval-ms`, after which the ResourceManager takes the ApplicationMaster
    /// for dead.
    pub idle: Duration,
    /// Longest interval of heartbeats while containers are wanted; 200 ms by default. A change is told at once (10 ms after the last
    /// heartbeat at the earliest), then containers are asked for every 10 ms; from 100 ms on each pause is a tenth of the time waited so
    /// far, up to this interval. Slow answers make the pause at least 4 times as long as the quicker of the last two took, again up to this
    /// interval. On average at most 20 beats per second come sooner than this interval.
    pub busy: Duration,
    /// Maximum number of events that wait for [`AmRmEvents::next`]; 65,536 by default, and 0 counts as 1. With more, the ApplicationMaster
    /// counts as stuck: the heartbeats stop for good, so that the ResourceManager starts another attempt; the events that wait are still
    /// given out.
    pub events: usize,
}

/// The shortest time between two beats. A ResourceManager has better things to do.
const BEAT_MIN: Duration = Duration::from_millis(1);

impl AmRmOptions {
    /// The same with times that make no tight loop, and that can be added to any moment.
    fn bounded(self) -> Self {
        let bounded = |time: Duration| time.clamp(BEAT_MIN, LONGEST);
        Self { idle: bounded(self.idle), busy: bounded(self.busy), ..self }
    }
}

impl Default for AmRmOptions {
    fn default() -> Self {
        let (idle, busy) = (Duration::from_secs(5), Duration::from_millis(200));
        Self { idle, busy, events: 65_536 }
    }
}

/// The result with which an ApplicationMaster unregisters, and so ends its application: see [`AmRmClient::finish`]. Not sent before that
/// call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The application's own verdict on its success, shown in its report.
    pub status: FinalApplicationStatus,
    /// The reason, for people; shown in the application's report.
    pub diagnostics: String,
    /// URL of the web page that shows the application's history; empty for none.
    pub tracking_url: String,
}

/// Receives the ResourceManager's events for an [`AmRmClient`], in order; made by [`AmRmClient::register`] and not cloneable. It holds at
/// most [`AmRmOptions::events`] that nobody has taken; then the heartbeats stop. After an error nothing comes: the heartbeats have stopped.
/// If it is dropped, they stop at the next event.
#[derive(Debug)]
pub struct AmRmEvents {
    events: mpsc::Receiver<Result<MasterEvent, YarnError>>,
}

impl AmRmEvents {
    /// Waits for the next event. Returns `None` after the last one: the client was finished or dropped,
    /// `MasterEvent::Shutdown` came, or too many events waited.
    ///
    /// # Errors
    /// Fails with the error that stopped the heartbeats, and nothing comes after it: `YarnError::Call` if no ResourceManager
    /// answered an `allocate` or a new registration after all tries, or for its exception.
    pub async fn next(&mut self) -> Result<Option<MasterEvent>, YarnError> {
        self.events.recv().await.transpose()
    }
}

/// An ApplicationMaster's client of the ResourceManager: registers it, asks for containers, and sends heartbeats from a
/// task of its own until the last clone is dropped, [`finish`](AmRmClient::finish) is called, the events end (see
/// [`AmRmEvents::next`]), or an event comes after the [`AmRmEvents`] was dropped. Without heartbeats the ResourceManager
/// takes the attempt for dead, and starts another one if the application may have one.
#[derive(Debug, Clone)]
pub struct AmRmClient {
    shared: Arc<Shared>,
    /// Dropping the last of these ends the task.
    _alive: Arc<watch::Sender<()>>,
}

#[derive(Debug)]
struct Shared {
    master: Mutex<Master>,
    proxy: Proxy,
    login: Login,
    servers: Vec<ResourceManager>,
    registration: Registration,
    changed: Notify,
    stop: watch::Sender<bool>,
    stopped: watch::Sender<bool>,
}

impl AmRmClient {
    /// Registers an ApplicationMaster and starts its heartbeats. Returns the client and the receiver of its events, both of which must be
    /// kept. The user's credentials must hold the AMRMToken (the token for the scheduler), as they do in the container that YARN made for
    /// it. If the answer to a first try was lost, the ApplicationMaster is registered already: this succeeds, but
    /// [`MasterEvent::Registered`] does not come, and [`maximum`](Self::maximum) is empty. The first heartbeat goes out at once if
    /// containers are asked for by then, else as soon as there is something to tell, at the latest after [`AmRmOptions::idle`].
    ///
    /// # Errors
    /// Fails with `YarnError::Conf` for a configuration that cannot be used; `YarnError::Call` if no ResourceManager
    /// answers after all tries, or refuses, for example because the token is missing or wrong. No heartbeat is sent then.
    pub async fn register(
        conf: &Configuration,
        login: &Login,
        registration: Registration,
        options: AmRmOptions,
    ) -> Result<(Self, AmRmEvents), YarnError> {
        let options = options.bounded();
        let servers = resource_managers(conf, Service::Scheduler)?;
        let mut targets = Vec::new();
        for rm in &servers {
            targets.push(login.target(Service::Scheduler, &rm.host, rm.port).await?);
        }
        let proxy = Proxy::new(Client::new(connections(conf)?), targets, retry_policy(conf)?);
        let shared = Arc::new(Shared {
            master: Mutex::default(),
            proxy,
            login: login.clone(),
            servers,
            registration,
            changed: Notify::new(),
            stop: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
        });
        let (sender, events) = mpsc::channel(options.events.max(1));
        let alive = Arc::new(watch::Sender::new(()));
        let first = shared.register_again().await?;
        let beat = Beat {
            shared: Arc::clone(&shared),
            alive: alive.subscribe(),
            stop: shared.stop.subscribe(),
            events: sender,
            began: Instant::now(),
            pace: Pace::new(options),
        };
        start(beat.run(first));
        Ok((Self { shared, _alive: alive }, AmRmEvents { events }))
    }

    pub(super) fn master(&self) -> MutexGuard<'_, Master> {
        self.shared.master()
    }

    /// Asks for containers with the next heartbeat, which it brings forward. They come as [`MasterEvent::Allocated`]
    /// with the returned id. A request that the ResourceManager refuses, because it can never be met, comes back as
    /// [`MasterEvent::Refused`]; one for which there is no room just waits.
    ///
    /// # Errors
    /// Fails with [`Refused`] if 10,000 requests are open, or for more than `i32::MAX` containers; nothing is asked for
    /// then. Once the heartbeats have stopped (see [`AmRmEvents::next`]) a request is taken all the same, and never sent.
    pub fn request(&self, ask: Ask) -> Result<RequestId, Refused> {
        let id = self.master().request(ask)?;
        self.shared.changed.notify_one();
        Ok(id)
    }

    /// Changes the number of containers of a request that are still wanted (cut to `i32::MAX`), with the next heartbeat, which it brings
    /// forward; 0 takes the request back. Containers that were granted are not counted. Returns false, without a change, if the request is
    /// not open any more: all were granted, it was refused, or a heartbeat that took it back was answered.
    pub fn set_count(&self, id: RequestId, count: u32) -> bool {
        let open = self.master().set_count(id, count);
        self.shared.changed.notify_one();
        open
    }

    /// Gives a container back with the next heartbeat, which it brings forward; returns before that. The container is stopped if it runs,
    /// and its end comes as [`MasterEvent::Completed`]. The release is repeated until a ResourceManager has answered, also a restarted one;
    /// a second call changes nothing. A container that its node has accepted and not begun to start may miss its end and live until its
    /// application ends: where that matters, wait until the node's `getContainerStatuses` calls the container running.
    pub fn release(&self, id: ContainerId) {
        self.master().release(id);
        self.shared.changed.notify_one();
    }

    /// Has the scheduler grant no more containers on these hosts or racks, from the next heartbeat on, which it brings
    /// forward. Containers that run there go on.
    pub fn block(&self, places: impl IntoIterator<Item = String>) {
        self.master().block(places);
        self.shared.changed.notify_one();
    }

    /// Lets the scheduler grant containers again on these hosts or racks, spelled as they were in
    /// [`block`](Self::block), from the next heartbeat on, which it brings forward. Places that are not blocked are
    /// ignored.
    pub fn unblock(&self, places: impl IntoIterator<Item = String>) {
        self.master().unblock(places);
        self.shared.changed.notify_one();
    }

    /// Sets the application's progress, 0 to 1, which its report shows; it goes out with the next heartbeat, which it
    /// does not bring forward. Other numbers are cut to that range; NaN and infinity count as 0.
    pub fn set_progress(&self, progress: f32) {
        self.master().set_progress(progress);
    }

    /// Returns the newest NMToken with which to call this node about containers; `None` before the first container there was granted or
    /// recovered.
    #[must_use]
    pub fn nm_token(&self, node: &NodeId) -> Option<Token> {
        self.master().nm_token(node).cloned()
    }

    /// Returns the resources that the scheduler says the application could still get, by the last response; empty before the first, and if
    /// that response does not say it.
    #[must_use]
    pub fn headroom(&self) -> Resource {
        self.master().headroom().clone()
    }

    /// Returns the size of the largest container that may be asked for, from the answer to the registration; empty if
    /// that was lost.
    #[must_use]
    pub fn maximum(&self) -> Resource {
        self.master().maximum().clone()
    }

    /// Stops the heartbeats (one that is under way is waited for), unregisters the application and waits until the ResourceManager says
    /// that this is done. YARN then ends the application with this result and stops its containers. The whole wait has no bound, and each
    /// call is tried as often as [`retry_policy`] says; put [`tokio::time::timeout`] around it where needed: the heartbeats have stopped
    /// then all the same. Unregisters also if they had stopped before; at a restarted ResourceManager, registers again first. Other clones
    /// of this client send nothing any more.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception. The
    /// application may be unregistered or not, and the heartbeats have stopped.
    pub async fn finish(self, finish: Finish) -> Result<(), YarnError> {
        let mut stopped = self.shared.stopped.subscribe();
        self.shared.stop.send_replace(true);
        // An allocation under way is let through first: answers must not cross.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        let request = FinishApplicationMasterRequest {
            diagnostics: Some(finish.diagnostics),
            tracking_url: Some(finish.tracking_url),
            final_status: Some(finish.status.into()),
        };
        loop {
            let asked: Result<FinishApplicationMasterResponse, YarnError> =
                self.shared.call("finishApplicationMaster", &request).await;
            match asked {
                Ok(response) if response.is_unregistered() => return Ok(()),
                Ok(_) => tokio::time::sleep(POLL).await,
                Err(error) if error.is_remote(NOT_REGISTERED) => {
                    self.shared.register_again().await?;
                    tokio::time::sleep(POLL).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The exception of a ResourceManager that has been restarted and does not know the ApplicationMaster yet.
const NOT_REGISTERED: &str = "ApplicationMasterNotRegisteredException";
/// The exception for an ApplicationMaster that is registered already.
const REGISTERED: &str = "InvalidApplicationMasterRequestException";
/// The exception for an attempt that is over.
const OVER: &str = "ApplicationAttemptNotFoundException";
/// The exceptions for requests that can never be met.
const UNMEETABLE: &[&str] =
    &["InvalidResourceRequestException", "InvalidLabelResourceRequestException"];

impl Shared {
    fn master(&self) -> MutexGuard<'_, Master> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<Q: prost::Message, R: prost::Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<R, YarnError> {
        Ok(self.proxy.call(method, request, CallOptions::default()).await?)
    }

    async fn register(&self) -> Result<Vec<MasterEvent>, YarnError> {
        let Registration { host, rpc_port, tracking_url } = self.registration.clone();
        let request = RegisterApplicationMasterRequest {
            host: Some(host),
            rpc_port: Some(rpc_port),
            tracking_url: Some(tracking_url),
            ..RegisterApplicationMasterRequest::default()
        };
        let response: RegisterApplicationMasterResponse =
            self.call("registerApplicationMaster", &request).await?;
        Ok(self.master().registered(response))
    }

    /// The same where it may be registered already, such as by a try whose answer was lost.
    async fn register_again(&self) -> Result<Vec<MasterEvent>, YarnError> {
        match self.register().await {
            Err(error) if error.is_remote(REGISTERED) => Ok(Vec::new()),
            registered => registered,
        }
    }

    /// After a restart of the ResourceManager.
    async fn resync(&self) -> Result<Vec<MasterEvent>, YarnError> {
        self.master().resync();
        self.register_again().await
    }

    /// Uses a new token from now on.
    async fn replace_token(&self, token: &Token) -> Result<(), YarnError> {
        let mut targets = Vec::new();
        for rm in self.servers.iter() {
            let token = Some(token.clone());
            let target = self.login.target_with(Service::Scheduler, &rm.host, rm.port, token);
            targets.push(target.await?);
        }
        self.proxy.set_targets(targets);
        let mut credentials = self.login.credentials();
        credentials.retain(|_, held| held.kind() == token.kind());
        let alias = credentials.tokens().next().map_or("", |(alias, _)| alias).to_owned();
        self.login.add_token(alias, token.clone());
        Ok(())
    }
}

/// The task that sends the heartbeats and passes on the events.
struct Beat {
    shared: Arc<Shared>,
    alive: watch::Receiver<()>,
    stop: watch::Receiver<bool>,
    events: mpsc::Sender<Result<MasterEvent, YarnError>>,
    /// The pace's times are counted from here.
    began: Instant,
    pace: Pace,
}

impl Beat {
    async fn run(mut self, first: Vec<MasterEvent>) {
        if let Err(error) = self.beats(first).await {
            // Whoever does not listen has no use for the reason.
            let _ = self.events.try_send(Err(error));
        }
        self.shared.stopped.send_replace(true);
    }

    async fn beats(&mut self, first: Vec<MasterEvent>) -> Result<(), YarnError> {
        if self.tell(first).is_break() {
            return Ok(());
        }
        loop {
            if self.wait().await.is_break() {
                return Ok(());
            }
            self.pace.beats(self.began.elapsed());
            let request = self.shared.master().allocate();
            let events = self.allocate(&request).await?;
            self.pace.answered(self.began.elapsed());
            for event in &events {
                if let MasterEvent::TokenReplaced(token) = event {
                    self.shared.replace_token(token).await?;
                }
            }
            if self.tell(events).is_break() {
                return Ok(());
            }
        }
    }

    /// Until the next beat is due. Changes bring it forward.
    async fn wait(&mut self) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        if *self.stop.borrow() {
            return Break(());
        }
        loop {
            let busy = self.shared.master().is_busy();
            let due = self.began + self.pace.due(busy);
            tokio::select! {
                biased;
                _ = self.stop.changed() => return Break(()),
                _ = self.alive.changed() => return Break(()),
                () = self.shared.changed.notified() => self.pace.changed(self.began.elapsed()),
                () = tokio::time::sleep_until(due) => return Continue(()),
            }
        }
    }

    async fn allocate(&self, request: &AllocateRequest) -> Result<Vec<MasterEvent>, YarnError> {
        let shared = &self.shared;
        let asked: Result<AllocateResponse, YarnError> = shared.call("allocate", request).await;
        match asked {
            // Older ResourceManagers say so in an answer, which holds nothing else.
            Ok(response) if response.am_command == Some(AmCommand::Resync.into()) => {
                shared.resync().await
            }
            Ok(response) => Ok(shared.master().allocated(response)),
            Err(error) if error.is_remote(NOT_REGISTERED) => shared.resync().await,
            Err(error) if error.is_remote(OVER) => Ok(vec![MasterEvent::Shutdown]),
            Err(error) if UNMEETABLE.iter().any(|class| error.is_remote(class)) => {
                let requests = shared.master().refused();
                if requests.is_empty() {
                    tracing::debug!(%error, "refused; the requests are said again one by one");
                    shared.changed.notify_one();
                    return Ok(Vec::new());
                }
                Ok(vec![MasterEvent::Refused { requests, reason: error.to_string() }])
            }
            Err(error) => Err(error),
        }
    }

    /// Hands events out. It is over when the ApplicationMaster must end, or does not take them.
    fn tell(&self, events: Vec<MasterEvent>) -> std::ops::ControlFlow<()> {
        for event in events {
            let last = event == MasterEvent::Shutdown;
            if self.events.try_send(Ok(event)).is_err() || last {
                return std::ops::ControlFlow::Break(());
            }
        }
        std::ops::ControlFlow::Continue(())
    }
}
