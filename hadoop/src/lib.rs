//! Hadoop RPC, SASL, tokens, configuration and YARN's protocols without a JVM.

pub mod client;
pub mod conf;
pub mod gssapi;
pub mod login;
pub mod rpc;
pub mod sasl;
pub mod tokens;
pub mod yarn;
