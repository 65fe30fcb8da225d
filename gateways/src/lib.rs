//! The gateways, one module each, and the fabric that carries their messages between actors. It
//! must never decide anything about jobs or slots.

pub mod address;
mod assembly;
pub mod call;
pub mod codec;
mod connection;
mod courier;
pub mod delivery;
pub mod disorder;
#[cfg(feature = "testing")]
mod double;
mod driver;
mod endpoint;
pub mod error;
pub mod frame;
mod incoming;
mod inner;
pub mod messages;
mod options;
mod outbound;
mod peers;
mod pending;
mod remote;
mod rpc;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod sample;
mod scratch;
mod serve;
mod served;
mod spool;
mod trace;
mod transport;
pub mod witness;

pub mod blob_server;
pub mod dispatcher;
pub mod heartbeat;
pub mod job_master;
pub mod job_services;
pub mod leader_election;
pub mod metric_query;
pub mod program_host;
pub mod resource_manager;
pub mod slot_manager;
pub mod task_executor;

pub use address::{EndpointAddress, NodeAddress, ParseAddressError};
pub use call::{Answer, Ask, Call, Caller, Deadline, Gateway, Never, Principal, call_id};
pub use courier::{Courier, Deliverable, until_answered};
pub use delivery::{Facts, Inbox};
#[cfg(feature = "testing")]
pub use double::{Calls, Double};
pub use endpoint::{Endpoint, EndpointBuilder, MAILBOX_CAPACITY};
pub use error::{CallError, Executed, FabricError};
pub use options::{ListenOptions, RpcOptions};
pub use peers::PeerEvent;
pub use platform::handshake;
pub use remote::Remote;
pub use rpc::{Registration, RpcService, RpcStartError};
pub use trace::{Entered, TraceContext};
pub use transport::PeerHandle;

/// The names that the [`gateway!`] macro uses.
#[doc(hidden)]
pub mod reexport {
    pub use actix::{Actor, Addr, Context, Handler};
}
