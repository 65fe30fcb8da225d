//! `Debug` of messages that hold secrets. A field belongs here only when it can never be one.

use super::{ContainerLaunchContext, RegisterApplicationMasterResponse, StringBytesMap};
use std::fmt::{Debug, Formatter, Result};

impl Debug for StringBytesMap {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("StringBytesMap").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Debug for ContainerLaunchContext {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let names: Vec<_> =
            self.environment.iter().filter_map(|pair| pair.key.as_deref()).collect();
        f.debug_struct("ContainerLaunchContext")
            .field("local_resources", &self.local_resources)
            .field("environment", &names)
            .field("command", &self.command)
            .field("application_acls", &self.application_acls)
            .finish_non_exhaustive()
    }
}

impl Debug for RegisterApplicationMasterResponse {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("RegisterApplicationMasterResponse")
            .field("maximum_capability", &self.maximum_capability)
            .field("containers", &self.containers_from_previous_attempts)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
