//! The REST endpoint with Flink's paths and its typed client. It must never reach a component but
//! through its gateway, and never keep state of its own about jobs.
//!
//! ```text
//! request → guard (token, site, body) → handlers (decode, ask, render) → gateways of the leaders
//! ```

pub mod access;
mod bodies;
pub mod client;
pub mod decode;
mod error;
mod guard;
mod handlers;
mod kinds;
pub mod messages;
pub mod programs;
pub mod render;
mod server;
mod services;
mod traces;
pub mod upload;

pub use bodies::BodyLimits;
pub use error::{AnswerStatus, ApiError};
pub use programs::{ProgramChecker, ProgramStore};
pub use server::{RestHandle, RestListener, RestServer, RestStartError};
pub use services::{Leader, RestAddress, RestBind, RestServices, RestSettings};
