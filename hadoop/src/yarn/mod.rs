//! YARN: its messages, where its ResourceManagers are, and a client of them.

mod client;
mod error;
mod master;
pub mod messages;
mod resource_manager;
#[cfg(test)]
mod tests;

pub use client::{Watch, YarnClient};
pub use error::YarnError;
pub use master::{
    AmRmClient, AmRmEvents, AmRmOptions, Ask, ContainerExit, Finish, Master, MasterEvent, Place,
    Refused, Registration, RequestId,
};
pub use resource_manager::{ResourceManager, resource_managers, retry_policy};
