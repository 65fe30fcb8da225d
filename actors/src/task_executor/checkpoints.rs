//! Checkpoints as they pass a TaskExecutor: barriers and notifications go from the JobMaster to the program host, answers of tasks
//! the other way. A JobMaster that is not the connected one is not obeyed: nothing is committed on its word.

use super::{TaskExecutor, handlers::is_of_job, host_calls::HostCall};
use actix::{Handler, ResponseFuture};
use control::mutation::Rule;
use gateways::leader_election::Component;
use gateways::program_host::{NotifyOnHost, TriggerOnHost};
use gateways::task_executor::{
    CheckpointAnswerError, ForwardCheckpointAnswer, NotifyCheckpoint, TriggerCheckpoint,
};
use gateways::{Answer, Ask, Call, CallError, Caller};
use model::{Fence as _, JobId, JobMasterId};
use std::future::ready;

impl TaskExecutor {
    /// Hands a call of a JobMaster on to the job's host, if the caller is the connected JobMaster.
    fn pass_on<C: Call>(&mut self, caller: &Caller, job: JobId, call: HostCall) {
        let Some(by) = self.of::<C>(caller, None) else { return };
        let strict = self.services.mutation.keeps(Rule::OnlyFollowedAnnounce);
        match self.core.check_job_master(job, JobMasterId::from_session(by)) {
            Err(refusal) if strict => {
                tracing::debug!(%job, call = C::NAME, %refusal, "a call about a checkpoint is ignored");
                self.note_stale::<C>(by);
            }
            _ => {
                self.note_obeyed::<C>(Component::JobMaster(job), by);
                self.call_host(job, call);
            }
        }
    }
}

impl Handler<Ask<TriggerCheckpoint>> for TaskExecutor {
    type Result = Answer<TriggerCheckpoint>;

    fn handle(&mut self, ask: Ask<TriggerCheckpoint>, _: &mut Self::Context) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let TriggerCheckpoint { job_id, attempts, barrier } = ask.body;
        let call = HostCall::Trigger(TriggerOnHost { attempts, barrier });
        self.pass_on::<TriggerCheckpoint>(&ask.caller, job_id, call);
        Ok(())
    }
}

impl Handler<Ask<NotifyCheckpoint>> for TaskExecutor {
    type Result = Answer<NotifyCheckpoint>;

    fn handle(&mut self, ask: Ask<NotifyCheckpoint>, _: &mut Self::Context) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let NotifyCheckpoint { job_id, attempts, checkpoint, complete } = ask.body;
        let call = HostCall::Notify(NotifyOnHost { attempts, checkpoint, complete });
        self.pass_on::<NotifyCheckpoint>(&ask.caller, job_id, call);
        Ok(())
    }
}

impl Handler<Ask<ForwardCheckpointAnswer>> for TaskExecutor {
    type Result = ResponseFuture<Answer<ForwardCheckpointAnswer>>;

    fn handle(&mut self, ask: Ask<ForwardCheckpointAnswer>, _: &mut Self::Context) -> Self::Result {
        let ForwardCheckpointAnswer { job_id, answer } = ask.body;
        let attempt = answer.attempt;
        if !is_of_job(ask.caller.principal, job_id) || !self.core.is_running(job_id, attempt) {
            return Box::pin(ready(Err(CheckpointAnswerError::StaleAttempt { attempt })));
        }
        let connection = self.jobs.get(&job_id).and_then(|shell| shell.connection.as_ref());
        let Some(remote) = connection.map(|connection| connection.remote.clone()) else {
            let why = "none is connected".to_owned();
            return Box::pin(ready(Err(CheckpointAnswerError::Unavailable(why))));
        };
        let within = ask.caller.deadline.remaining();
        Box::pin(async move {
            let asked = remote.ask_within(answer, within).await;
            asked.map_err(|error| match error {
                CallError::Refused(never) => match never {},
                CallError::Fabric(error) => CheckpointAnswerError::Unavailable(error.to_string()),
            })
        })
    }
}
