//! Calls to a program host, made in order: each after the one before was answered.
//!
//! A cancellation never overtakes the deployment that it is about. A host that ends during a deployment is told by the way it
//! ended, not by the connection that was lost with it.

use crate::host_exit::exit_behind;
use gateways::program_host::{
    CancelOnHost, DeployToHost, NotifyOnHost, ProgramHostGateway, ReleaseSlot, StartHost,
    TriggerOnHost,
};
use gateways::task_executor::DeployError;
use gateways::{CallError, Remote, TraceContext};
use model::{AllocationId, ExecutionAttemptId};
use platform::watch;
use tokio::sync::{mpsc, oneshot};

/// A call to a host; they are made in order, each after the one before was answered.
pub(super) enum HostCall {
    Deploy(DeployToHost, oneshot::Sender<Result<Refusals, DeployError>>),
    Cancel(Vec<ExecutionAttemptId>),
    Release(AllocationId),
    Trigger(TriggerOnHost),
    Notify(NotifyOnHost),
    Resize(Box<StartHost>),
}

/// Tasks that can't be run, and why.
pub(super) type Refusals = Vec<(ExecutionAttemptId, DeployError)>;

/// Makes the calls to a host in order, each in the trace that it is queued with, until the queue is dropped. `exit` says how the host has ended.
pub(super) async fn make_calls(
    host: Remote<ProgramHostGateway>,
    mut queue: mpsc::Receiver<(TraceContext, HostCall)>,
    exit: watch::Receiver<Option<String>>,
) {
    while let Some((trace, call)) = queue.recv().await {
        let host = host.with_trace(trace);
        let done = match call {
            HostCall::Deploy(deployment, reply) => {
                // The caller may have gone; the states of its tasks tell their fate.
                let _ = reply.send(deploy(&host, deployment, exit.clone()).await);
                Ok(())
            }
            HostCall::Cancel(attempts) => {
                match host.ask(CancelOnHost { attempts: attempts.clone() }).await {
                    Err(CallError::Fabric(error)) if error.is_retriable() => {
                        // Nobody else repeats the command. Calls that overtake it name other attempts.
                        tracing::debug!(host = %host.address(), %error, "tasks are cancelled again");
                        host.insist(CancelOnHost { attempts });
                        Ok(())
                    }
                    asked => asked.map_err(shown),
                }
            }
            HostCall::Release(allocation_id) => {
                host.ask(ReleaseSlot { allocation_id }).await.map_err(shown)
            }
            // Independent facts, which must not wait for each other: they are repeated until the host has them.
            HostCall::Trigger(trigger) => {
                host.insist(trigger);
                Ok(())
            }
            HostCall::Notify(notify) => {
                host.insist(notify);
                Ok(())
            }
            HostCall::Resize(start) => host.ask(*start).await.map(drop).map_err(shown),
        };
        if let Err(error) = done {
            tracing::warn!(host = %host.address(), error, "a call to a program host failed");
        }
    }
}

async fn deploy(
    host: &Remote<ProgramHostGateway>,
    deploy: DeployToHost,
    mut exit: watch::Receiver<Option<String>>,
) -> Result<Refusals, DeployError> {
    let attempts: Vec<_> = deploy.deployment.tasks.iter().map(|task| task.attempt).collect();
    match host.ask(deploy).await {
        Ok(refused) => Ok(refused),
        Err(CallError::Refused(error)) => Err(error),
        Err(CallError::Fabric(error)) => {
            if error.may_have_run() {
                // The host must carry this out, because the error says that nothing of the deployment runs and nobody
                // repeats the command.
                host.insist(CancelOnHost { attempts });
            }
            let how = exit_behind(&error, async { exit.some().await.ok() }).await;
            Err(DeployError::Host(how.unwrap_or_else(|| error.to_string())))
        }
    }
}

fn shown<E: std::fmt::Display>(error: CallError<E>) -> String {
    error.to_string()
}
