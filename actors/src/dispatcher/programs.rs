//! Submitted programs: a child process builds the graph, which is then submitted or only shown.

use super::jobs::refused;
use super::leader::{Building, Dispatcher};
use crate::turns::take_step;
use actix::{AsyncContext, Context, Handler, ResponseFuture};
use conf::Options;
use control::dispatcher::{JobPhase, Mode, Origin, Refusal};
use gateways::dispatcher::{
    BlobServerLocation, PlanProgram, RequestBlobServer, SubmitError, SubmitProgram,
};
use gateways::job_services::{BuildInHost, BuiltInHost};
use gateways::program_host::BuildError;
use gateways::{Answer, Ask, CallError, TraceContext};
use model::{JobGraph, JobId, ProgramRef};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum time that the start of the child and its build may take together.
const BUILD_WITHIN: Duration = Duration::from_secs(150);

impl Dispatcher {
    /// Returns the request to build a job. The job's options are checked first, so that an invalid option is reported
    /// without starting a process.
    fn build_request(
        &self,
        job_id: JobId,
        program: ProgramRef,
        parallelism: Option<u32>,
        options: BTreeMap<String, String>,
        keep: bool,
    ) -> Result<(BuildInHost, Options), SubmitError> {
        let merged = self.merged(&options)?;
        // So that they take precedence over what the program sets under either name.
        let options = Options::normalised(options);
        let parallelism =
            parallelism.unwrap_or_else(|| merged.get(&conf::execution::PARALLELISM).get());
        let defaults = self.deps.services.options.shaping();
        Ok((BuildInHost { program, job_id, parallelism, options, defaults, keep }, merged))
    }

    /// Records the build of a job's graph and requests it from a child process.
    fn begin_build(
        &mut self,
        (request, merged): (BuildInHost, Options),
    ) -> impl Future<Output = Result<JobGraph, SubmitError>> + use<> {
        let job = request.job_id;
        let options = (request.options.clone(), merged);
        self.building.insert(job, Building { program: request.program.hash, options });
        self.say_needed_by(job);
        self.build(request)
    }

    fn build(
        &self,
        request: BuildInHost,
    ) -> impl Future<Output = Result<JobGraph, SubmitError>> + use<> {
        let hosts = self.deps.hosts();
        async move {
            match hosts.ask_within(request, BUILD_WITHIN).await {
                Ok(BuiltInHost { graph }) => Ok(graph),
                Err(CallError::Refused(error)) => Err(not_built(error)),
                Err(CallError::Fabric(error)) => Err(SubmitError::Build(error.to_string())),
            }
        }
    }

    /// Builds the application's own job.
    pub(super) fn build_own_job(
        &mut self,
        job: JobId,
        submission: SubmitProgram,
        ctx: &mut Context<Self>,
    ) {
        let SubmitProgram { program, parallelism, options, .. } = submission;
        let reserved = self.table.reserve(job, Origin::Own).map_err(|why| refused(job, why));
        let request =
            reserved.and_then(|()| self.build_request(job, program, parallelism, options, true));
        match request {
            Ok(request) => {
                let (built, addr) = (self.begin_build(request), ctx.address());
                actix::spawn(async move {
                    let trace = TraceContext::NONE;
                    let built = Built { job, graph: built.await, origin: Origin::Own, trace };
                    let _ = addr.send(built).await;
                });
            }
            Err(error) => {
                self.table.forget(job);
                self.own_job_refused(job, &error);
            }
        }
    }
}

/// Translates a build error. The program's own message comes first, because it names what is wrong.
fn not_built(error: BuildError) -> SubmitError {
    match error {
        BuildError::Program(why) | BuildError::Invalid(why) => SubmitError::Build(why),
        BuildError::Usage { text, help } => SubmitError::Usage { text, help },
        BuildError::NoRoom(why) => SubmitError::NoRoom(why),
        error => SubmitError::Build(error.to_string()),
    }
}

impl Handler<Ask<SubmitProgram>> for Dispatcher {
    type Result = ResponseFuture<Answer<SubmitProgram>>;

    fn handle(&mut self, ask: Ask<SubmitProgram>, ctx: &mut Context<Self>) -> Self::Result {
        let trace = ask.caller.trace;
        let _entered = trace.enter();
        let SubmitProgram { program, job_id, parallelism, options } = ask.body;
        let job = job_id.unwrap_or_else(|| JobId(self.deps.services.platform.random_u128()));
        let reserved = self.table.reserve(job, Origin::Client).map_err(|why| refused(job, why));
        if let Err(error) = reserved {
            return Box::pin(async move { Err(error) });
        }
        let request = match self.build_request(job, program, parallelism, options, true) {
            Ok(request) => request,
            Err(error) => {
                self.table.forget(job);
                return Box::pin(async move { Err(error) });
            }
        };
        let (built, addr) = (self.begin_build(request), ctx.address());
        // A task of its own, so that the job runs even if the client has gone.
        let submitted = actix::spawn(trace.carry(async move {
            let built = Built { job, graph: built.await, origin: Origin::Client, trace };
            addr.send(built).await.unwrap_or(Err(SubmitError::ShuttingDown))
        }));
        Box::pin(async move { submitted.await.unwrap_or(Err(SubmitError::ShuttingDown)) })
    }
}

/// The outcome of building a graph in a child.
#[derive(actix::Message)]
#[rtype(result = "Result<JobId, SubmitError>")]
struct Built {
    job: JobId,
    graph: Result<JobGraph, SubmitError>,
    origin: Origin,
    trace: TraceContext,
}

impl Handler<Built> for Dispatcher {
    type Result = ResponseFuture<Result<JobId, SubmitError>>;

    fn handle(&mut self, built: Built, ctx: &mut Context<Self>) -> Self::Result {
        let Built { job, graph, origin, trace } = built;
        let _entered = trace.enter();
        let submitted = match graph {
            Ok(graph) if graph.job_id == job => self.submit(graph, origin, ctx),
            Ok(graph) => {
                let why = format!("it was built for job {} instead of {job}", graph.job_id);
                Box::pin(async move { Err(SubmitError::InvalidGraph(why)) })
            }
            Err(error) => Box::pin(async move { Err(error) }),
        };
        let addr = ctx.address();
        Box::pin(async move {
            let outcome = submitted.await;
            let error = outcome.clone().err();
            let known = take_step(&addr, move |actor, _| {
                let _entered = trace.enter();
                actor.submitted(job, origin, error);
            });
            let _ = known.await;
            outcome
        })
    }
}

impl Dispatcher {
    /// Ends the record of a build: the job whose program was submitted is stored now, or there was an error.
    fn submitted(&mut self, job: JobId, origin: Origin, error: Option<SubmitError>) {
        self.building.remove(&job);
        if let Some(error) = error {
            tracing::warn!(%job, %error, "the program does not run");
            if self.table.phase(job) == Some(JobPhase::Building) {
                self.table.forget(job);
            }
            self.release_host(job, true);
            if origin == Origin::Own && !self.stopping {
                self.own_job_refused(job, &error);
            }
        }
        self.say_needed_by(job);
    }
}

impl Handler<Ask<RequestBlobServer>> for Dispatcher {
    type Result = Answer<RequestBlobServer>;

    fn handle(&mut self, _: Ask<RequestBlobServer>, _: &mut Context<Self>) -> Self::Result {
        let services = &self.deps.services;
        let address = services.rpc.address_of(crate::blob_server::ENDPOINT);
        Ok(BlobServerLocation { address, session: services.session })
    }
}

impl Handler<Ask<PlanProgram>> for Dispatcher {
    type Result = ResponseFuture<Answer<PlanProgram>>;

    fn handle(&mut self, ask: Ask<PlanProgram>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let PlanProgram { program, parallelism, options } = ask.body;
        let mode = self.table.mode();
        // The graph is built in a host of its own, under an id that no job has.
        let job = JobId(self.deps.services.platform.random_u128());
        let request = if mode == Mode::Session {
            self.build_request(job, program, parallelism, options, false)
        } else {
            Err(refused(job, Refusal::SingleJob(mode)))
        };
        match request {
            Ok((request, _)) => Box::pin(self.build(request)),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }
}
