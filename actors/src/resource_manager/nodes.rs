//! Handlers for blocking and unblocking nodes, which operators do through REST and the command line.

use super::ResourceManagerActor;
use super::handlers::millis;
use actix::{Context, Handler};
use control::resource_manager::{BLOCKED_MAX, Blocked, TooManyBlocked};
use gateways::resource_manager::{
    BlockNode, BlockNodeError, BlockedNode, RequestBlockedNodes, UnblockNode,
};
use gateways::{Answer, Ask};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum length of a host name in bytes.
const HOST_NAME_MAX: usize = 255;

impl Handler<Ask<BlockNode>> for ResourceManagerActor {
    type Result = Answer<BlockNode>;

    fn handle(&mut self, ask: Ask<BlockNode>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let BlockNode { host, for_ms, cause } = ask.body;
        if host.is_empty() || host.len() > HOST_NAME_MAX {
            return Err(BlockNodeError::InvalidName(host.chars().take(HOST_NAME_MAX).collect()));
        }
        let period = Duration::from_millis(for_ms);
        let full = |TooManyBlocked| BlockNodeError::TooMany(BLOCKED_MAX as u64);
        let now = self.now();
        let (blocked, commands) = self.core.block(now, &host, period, cause).map_err(full)?;
        tracing::warn!(host, for_ms, cause = blocked.cause, "node blocked");
        self.obey(commands);
        Ok(blocked_node(now, &host, &blocked, &self.task_managers_by_host()))
    }
}

impl ResourceManagerActor {
    fn task_managers_by_host(&self) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for (_, task_manager) in self.core.registered() {
            *counts.entry(task_manager.host.as_str()).or_default() += 1;
        }
        counts
    }
}

fn blocked_node(
    now: Duration,
    host: &str,
    blocked: &Blocked,
    task_managers: &BTreeMap<&str, u32>,
) -> BlockedNode {
    BlockedNode {
        host: host.to_owned(),
        remaining_ms: millis(blocked.until.saturating_sub(now)),
        cause: blocked.cause.clone(),
        task_managers: task_managers.get(host).copied().unwrap_or(0),
    }
}

impl Handler<Ask<UnblockNode>> for ResourceManagerActor {
    type Result = Answer<UnblockNode>;

    fn handle(&mut self, ask: Ask<UnblockNode>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let host = ask.body.host;
        let commands = self.core.unblock(self.now(), &host);
        let was_blocked = commands.is_some();
        if was_blocked {
            tracing::info!(host, "node unblocked");
        }
        self.obey(commands.unwrap_or_default());
        Ok(was_blocked)
    }
}

impl Handler<Ask<RequestBlockedNodes>> for ResourceManagerActor {
    type Result = Answer<RequestBlockedNodes>;

    fn handle(&mut self, _: Ask<RequestBlockedNodes>, _: &mut Context<Self>) -> Self::Result {
        let (now, task_managers) = (self.now(), self.task_managers_by_host());
        let all = self.core.blocked().iter();
        Ok(all.map(|(host, blocked)| blocked_node(now, host, blocked, &task_managers)).collect())
    }
}
