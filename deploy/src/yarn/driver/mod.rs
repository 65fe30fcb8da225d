//! The ResourceManager's driver on YARN: registers the application, asks for containers and launches TaskManagers in
//! them.
//!
//! [`core`] decides, [`task`] carries out on the I/O lane, where no long turn of an actor delays a heartbeat, and
//! [`launch`] says what a container is launched with. The registration outlives a ResourceManager's leadership: an
//! application that stops reporting is given to another attempt.

mod core;
pub(crate) mod launch;
mod task;

use actors::resource_manager::{DriverError, ResourceManagerDriver, WorkerRequest};
use actors::services::FatalErrorHandler;
use conf::{Options, yarn_containers};
use control::resource_manager::pool::{DriverEvent, RecoveredWorker};
use futures::FutureExt;
use futures::future::BoxFuture;
use gateways::resource_manager::ApplicationStatus;
use hadoop::conf::{ConfError, Configuration};
use hadoop::login::Login;
use hadoop::yarn::messages::FinalApplicationStatus;
use hadoop::yarn::{AmRmClient, AmRmOptions, Finish, Registration};
use launch::LaunchPlan;
use model::ResourceId;
use platform::{Lane, Platform};
use std::sync::{Arc, OnceLock};
use task::Order;
use tokio::sync::{mpsc, oneshot};

/// Name under which the driver reports fatal errors.
const COMPONENT: &str = "yarn driver";
/// Orders that may wait for the driver's task, which takes microseconds for each: more of them mean that it is stuck.
const ORDERS_MAX: usize = 65_536;

/// The parts from which the driver is started.
#[derive(Debug)]
pub(crate) struct YarnDriverParts {
    pub(crate) platform: Platform,
    pub(crate) fatal: FatalErrorHandler,
    /// The application's Hadoop configuration.
    pub(crate) hadoop: Configuration,
    pub(crate) login: Login,
    /// Registration of the ApplicationMaster at YARN.
    pub(crate) registration: Registration,
    pub(crate) settings: DriverSettings,
    pub(crate) plan: LaunchPlan,
}

/// The options of the driver.
#[derive(Debug, Clone)]
pub(crate) struct DriverSettings {
    beats: AmRmOptions,
    label: Option<String>,
    /// True if YARN's scheduler tells NodeManagers of one host apart by their ports.
    port_in_node_name: bool,
}

impl DriverSettings {
    /// Reads the settings from the process's options and the cluster's configuration.
    pub(crate) fn new(options: &Options, hadoop: &Configuration) -> Result<Self, ConfError> {
        let port_in_node_name = hadoop.get_bool("yarn.scheduler.include-port-in-node-name")?;
        Ok(Self {
            beats: AmRmOptions {
                idle: options.get(&yarn_containers::HEARTBEAT_INTERVAL),
                busy: options.get(&yarn_containers::REQUEST_INTERVAL),
                ..AmRmOptions::default()
            },
            label: options.get(&yarn_containers::NODE_LABEL),
            port_in_node_name: port_in_node_name.unwrap_or(false),
        })
    }
}

/// The driver. Its task ends with it, and with it the reports to YARN.
#[derive(derive_more::Debug)]
#[debug("YarnDriver")]
pub(crate) struct YarnDriver {
    orders: mpsc::Sender<Order>,
    platform: Platform,
    fatal: FatalErrorHandler,
    /// Set when the application is registered.
    yarn: Arc<OnceLock<AmRmClient>>,
}

impl YarnDriver {
    /// Starts the driver's task. It connects to nothing before it is initialised.
    pub(crate) fn start(parts: YarnDriverParts) -> Self {
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let (platform, fatal) = (parts.platform.clone(), parts.fatal.clone());
        let yarn = Arc::new(OnceLock::new());
        let registered = yarn.clone();
        platform.lane(Lane::Io).spawn_with(move || task::run(parts, inbox, registered));
        Self { orders, platform, fatal, yarn }
    }

    fn order(&self, order: Order) {
        match self.orders.try_send(order) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.fatal.report(COMPONENT, format!("{ORDERS_MAX} orders wait: it is stuck"));
            }
            // Its task has ended because the application has, or said why it cannot go on.
            Err(mpsc::error::TrySendError::Closed(_)) | Ok(()) => {}
        }
    }
}

impl ResourceManagerDriver for YarnDriver {
    fn initialize(
        &self,
        events: mpsc::Sender<DriverEvent>,
    ) -> BoxFuture<'static, Result<Vec<RecoveredWorker>, DriverError>> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Attach { events, reply });
        async move {
            let ended = || DriverError("the registration at YARN has ended".to_owned());
            answer.await.unwrap_or_else(|_| Err(ended()))
        }
        .boxed()
    }

    fn avoid(&self, hosts: Vec<String>) {
        self.order(Order::Avoid(hosts));
    }

    fn request(&self, request: WorkerRequest) {
        self.order(Order::Request(request));
    }

    fn cancel(&self, request: u64) {
        self.order(Order::Cancel(request));
    }

    fn release(&self, resource_id: &ResourceId) {
        self.order(Order::Release(resource_id.clone()));
    }

    fn deregister(
        &self,
        status: ApplicationStatus,
        diagnostics: Option<String>,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        let Some(yarn) = self.yarn.get().cloned() else {
            let error = DriverError("the application is not registered at YARN".to_owned());
            return std::future::ready(Err(error)).boxed();
        };
        let finish = Finish {
            status: final_status(status),
            diagnostics: diagnostics.unwrap_or_default(),
            // Nobody answers there any more; YARN shows its own page.
            tracking_url: String::new(),
        };
        // Its connections are tasks of the lane that it was registered on.
        let finished = self.platform.lane(Lane::Io).run(move || yarn.finish(finish));
        async move {
            match finished.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(DriverError(error.to_string())),
                Err(ended) => Err(DriverError(ended.to_string())),
            }
        }
        .boxed()
    }

    fn terminate(&self) -> BoxFuture<'static, ()> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Detach { reply });
        // Without an answer the task has ended, and nothing comes after that either.
        answer.map(drop).boxed()
    }
}

/// Converts the outcome to the status that YARN shows.
fn final_status(status: ApplicationStatus) -> FinalApplicationStatus {
    match status {
        ApplicationStatus::Succeeded => FinalApplicationStatus::Succeeded,
        ApplicationStatus::Failed => FinalApplicationStatus::Failed,
        ApplicationStatus::Canceled => FinalApplicationStatus::Killed,
        ApplicationStatus::Unknown => FinalApplicationStatus::Undefined,
    }
}
