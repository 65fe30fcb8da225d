//! One multiplexed connection to a peer.

use crate::serve::{Outcome, Serving};
use std::sync::Arc;
use tokio::time::Instant;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {}

impl Connection {
    pub(crate) fn answer(&self, _id: u64, _outcome: Outcome) {}
    pub(crate) fn serving(&self, _id: u64, _deadline: Instant, _call: Arc<dyn Serving>) {}
}
