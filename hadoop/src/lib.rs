//! Hadoop RPC and YARN for native programs, without a JVM.
//!
//! ```no_run
//! use hadoop::{conf::Configuration, login::Login, yarn::YarnClient};
//!
//! # async fn example() -> Result<(), hadoop::yarn::YarnError> {
//! let conf = Configuration::load()?; // what HADOOP_CONF_DIR and YARN_CONF_DIR name
//! let login = Login::current(&conf).await?; // tickets, tokens, or a user name
//! let yarn = YarnClient::new(&conf, login).await?;
//! println!("{} nodes", yarn.metrics().await?.num_node_managers());
//! # Ok(()) }
//! ```
//!
//! [`yarn`] tells how an application lives and what a program for YARN has to do.
//!
//! | module | what is in it |
//! |---|---|
//! | [`conf`] | Hadoop's XML configuration: site files, `${…}`, final properties, inclusions, defaults |
//! | [`tokens`] | tokens and token storage files, both formats |
//! | [`rpc`] | Hadoop RPC 9 as a state machine: bytes in, events and bytes out; errors; retry rules |
//! | [`sasl`] | authentication: the negotiation, DIGEST-MD5 and GSSAPI with all three protections |
//! | [`gssapi`] | Kerberos, by the system's library, loaded when it is first needed |
//! | [`client`] | connections on tokio: multiplexed, with deadlines, back-pressure and failover |
//! | [`login`] | users: names, ticket caches, keytabs, proxy users, and the way to each service |
//! | [`yarn`] | YARN's messages, clients of its daemons, the ApplicationMaster's side |
//! | [`hdfs`] | delegation tokens of HDFS |
//! | `logs` | logs of containers: aggregated ones in both formats, and those on running nodes; with the feature `logs` |
//!
//! # What a call goes through
//!
//! A [`yarn::YarnClient`] encodes a request and gives it to a [`client::Proxy`], which knows the servers of
//! one service and asks the one that answered last. A [`client::Client`] keeps one connection per server,
//! protocol and user; its task feeds a [`rpc::Connection`], which knows nothing of sockets and clocks. On a
//! new connection both sides settle who they are: [`login::Login`] has chosen a token, Kerberos or neither,
//! [`sasl::Negotiation`] carries it out, and on success the stream may be signed or encrypted from then on.
//!
//! # Errors and retries
//!
//! A [`rpc::CallError`] says what failed and, by [`may_have_run`](rpc::CallError::may_have_run), whether the
//! server may have acted on the request. A [`rpc::RetryPolicy`] decides what comes next, as Hadoop's own
//! clients do:
//!
//! | what happened | with one server | with failover |
//! |---|---|---|
//! | nobody listens, no such host, no time left to connect | again after a fixed time | the next server, at once the first time |
//! | `StandbyException` | again | the next server |
//! | `RetriableException` | again | again, a bounded number of times |
//! | the connection broke with the request on it | again | the next server, if the method is idempotent |
//! | no answer to one try in time | again | the next server, if the method is idempotent |
//! | any other exception of the server | fails | fails |
//! | Kerberos failed | again with newer tickets, five times, then fails | the same |
//! | authentication by a token failed | fails | fails |
//! | the caller's deadline is over | fails | fails |
//!
//! How often and how fast is in Hadoop's properties: [`yarn::retry_policy`] has those of ResourceManagers,
//! [`yarn::NmClient`] those of nodes, [`client::Options`] those of connections. Where they say nothing, a
//! ResourceManager that is away is waited for a quarter of an hour. A request that is repeated keeps its number and
//! counts its tries, so that a server can tell.
//!
//! # Security
//!
//! - Kerberos tickets, from a ticket cache or a keytab, are renewed without the program's doing: see [`login`].
//! - A server that asks for no authentication is refused whenever this client has a token for it or the
//!   cluster is said to be secure, unless `ipc.client.fallback-to-simple-auth-allowed` is set.
//! - A server must prove that it knows a token's password; a Kerberos server must have the principal that the
//!   configuration names. `_HOST` in it is the server's name as the configuration has it; where that has an address,
//!   the name that the system's resolver knows.
//! - `hadoop.rpc.protection` is a list, the best first; with `privacy` first and a server that offers it, all
//!   is encrypted. For tokens that means 3DES or RC4, because Hadoop has nothing else; the breakable ones
//!   (DES, RC4 with 56 and 40 bits) are taken only by those who ask for them in a [`sasl::SaslConfig`].
//! - Passwords and keys are never in `Debug` output, errors or logs.
//!
//! # Bounds
//!
//! Frames, messages, configuration files and their inclusions, token files, calls that wait and bytes that
//! wait to be sent all have bounds, and a length that comes from outside is never trusted with memory.

pub mod client;
pub mod conf;
pub mod gssapi;
pub mod hdfs;
pub mod login;
#[cfg(feature = "logs")]
pub mod logs;
mod proto;
pub mod rpc;
pub mod sasl;
pub mod tokens;
pub mod yarn;

/// Exists in documentation tests only: its doc comment is README.md, so that the test run compiles and runs the
/// README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
