//! Names, sessions and times for tests of the cores, and a way to pick the commands that a test compares.

use crate::execution_graph::TaskManager;
use model::{Epoch, InstanceId, LeaderSession, ResourceId};
use std::time::Duration;

/// Makes a time in seconds.
pub(crate) fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Makes a time in milliseconds.
pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Makes the session of this number; later ones have higher epochs.
pub(crate) fn session(n: u64) -> LeaderSession {
    LeaderSession { epoch: Epoch { store: 1, process: n }, nonce: n }
}

/// Makes the resource id of a TaskExecutor: `tm1`, `tm2`, …
pub(crate) fn tm_name(n: u32) -> ResourceId {
    ResourceId::new(format!("tm{n}"))
}

/// Makes a TaskExecutor as a JobMaster knows it.
pub(crate) fn task_manager(n: u32, instance: u128) -> TaskManager {
    TaskManager { resource_id: tm_name(n), instance_id: InstanceId(instance), host: "h".into() }
}

/// Takes the values out of all commands of one kind, in their order: `picked!(commands, Command::Deploy(d) => d)`.
macro_rules! picked {
    ($commands:expr, $kind:pat => $value:expr) => {
        $commands
            .iter()
            .filter_map(|command| match command {
                $kind => Some($value),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}
pub(crate) use picked;
