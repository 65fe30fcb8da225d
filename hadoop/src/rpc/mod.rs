//! Hadoop RPC 9 without sockets and clocks: frames, headers, the state of a connection, errors and what to
//! do about them. Bytes, requests and times go in; bytes and events come out.
//!
//! ```
//! use hadoop::rpc::{ClientId, Connection, Event, Protocol, Request, Setup};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let protocol = Protocol::new("org.apache.hadoop.yarn.api.ApplicationClientProtocolPB");
//! let mut connection = Connection::new(Setup::simple(protocol, ClientId([1; 16]), "alice"), Duration::ZERO);
//! let request = Request::new(0, "getClusterMetrics", bytes::Bytes::new());
//! connection.call(request, Duration::ZERO)?;
//! let to_server = connection.take_outbound();
//! assert!(to_server.starts_with(b"hrpc\x09\x00\x00"));
//! assert!(matches!(connection.poll_event(), Some(Event::Ready { .. })));
//! # Ok(()) }
//! ```

mod connection;
mod error;
pub mod frame;
pub mod header;
mod retry;
mod setup;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use connection::{Answered, Ask, Connection};
pub(crate) use error::is_class;
pub use error::{Advice, CallError, ConnectionError, ErrorCode, RemoteException};
pub(crate) use retry::doubled;
pub use retry::{Attempt, Decision, RetryPolicy};
pub(crate) use setup::LONGEST;
pub use setup::{AuthSetup, ClientId, Event, Limits, Protocol, Request, Setup, Time};
