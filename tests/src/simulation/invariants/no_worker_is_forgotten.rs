//! No worker is forgotten: once everything is healed, each worker that the external system started a minute ago or
//! earlier is registered at the ResourceManager, or was released. A forgotten worker costs its container for as long as
//! the cluster lives.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};

/// The invariant that in the end each worker that the external system started at least a minute before, and that still runs, is
/// registered at the ResourceManager. Judged once, by `Noticed::WorkersInTheEnd`; holds nothing.
#[derive(Default)]
pub struct NoWorkerIsForgotten;

impl Invariant for NoWorkerIsForgotten {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Client(Noticed::WorkersInTheEnd { started, registered }) = &seen.what else {
            return Ok(());
        };
        match started.iter().find(|worker| !registered.contains(worker)) {
            Some(worker) => Err(format!("{worker} runs, but is not registered: {registered:?}")),
            None => Ok(()),
        }
    }
}
