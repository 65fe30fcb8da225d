//! Beats of a client that a job is bound to (`-sae`): the Dispatcher cancels the job when they stop. It never decides how
//! the wait for the job ends: a beat that fails is followed by the next.

use conf::{Options, execution};
use rest::client::RestClient;
use std::convert::Infallible;

/// Sends beats until it is dropped, the first one at once: it binds a job that was not submitted so, as that of an application.
pub(super) async fn beat(options: &Options, client: &RestClient, job: &str) -> Infallible {
    let timeout = options.get(&execution::CLIENT_HEARTBEAT_TIMEOUT);
    let interval = options.get(&execution::CLIENT_HEARTBEAT_INTERVAL);
    loop {
        if let Err(error) = client.client_heartbeat(job, timeout).await {
            tracing::debug!(%error, "a beat did not arrive");
        }
        tokio::time::sleep(interval).await;
    }
}
