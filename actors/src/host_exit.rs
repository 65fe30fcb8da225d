//! The way a program host has ended, for the error of a call that it did not answer.
//!
//! A host that dies (killed by SIGABRT after a stack overflow) takes its connection with it, which is seen some milliseconds before its
//! parent knows the signal. The error of the call should name the signal, not the connection. This module never decides what
//! becomes of the call.

use gateways::FabricError;
use std::time::Duration;

/// Maximum time from the loss of a host's connection until the way it ended is known.
pub(crate) const EXIT_WITHIN: Duration = Duration::from_secs(5);

/// Returns true if a call failed because the connection to the host was lost: the host has probably ended.
pub(crate) fn is_lost(error: &FabricError) -> bool {
    matches!(error, FabricError::Unreachable { .. })
}

/// Returns how the host has ended that a call failed at, which `exit` waits for. `None` if the connection was not lost with the host, or
/// the host has not ended after 5 s.
pub(crate) async fn exit_behind<T>(
    error: &FabricError,
    exit: impl Future<Output = Option<T>>,
) -> Option<T> {
    if !is_lost(error) {
        return None;
    }
    tokio::time::timeout(EXIT_WITHIN, exit).await.ok().flatten()
}
