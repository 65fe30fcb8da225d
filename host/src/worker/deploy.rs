//! Turns a deployment into running tasks: rebuilds the program once per graph, compares the graphs, then starts a
//! thread for each task. This happens on a thread of its own, because `build` is user code. A task's ports are opened,
//! and its functions cloned, on the task's thread.

use super::{events::ParentEvents, snapshots::Snapshots, tasks::Task, uploads::Uploads};
use crate::program::rebuild;
use gateways::{
    Remote,
    program_host::BuildError,
    task_executor::{DeployError, EdgeProducers, TaskDeployment, TaskExecutorGateway},
};
use model::{AllocationId, Devices, EdgeId, FailureCause, JobEdge, JobGraph, JobId, JobVertex};
use platform::Platform;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, mpsc},
};
use streaming::{
    BuiltJob, ProgramEntry, Subtask, SubtaskContext, TaskError,
    exchange::{Exchange, InputEdge, OutputEdge, Producers},
    task::{self, MakeSubtask, Upcalls, threads},
};
use tokio::runtime::Handle;

/// The option that a job may set for itself, and the TaskManager for the jobs that do not.
const FORCE_SERIALIZATION: &str = "exchange.force-serialization";

/// The tasks of one deployment call.
pub(crate) struct Deployment {
    pub(crate) graph: Arc<JobGraph>,
    pub(crate) producers: Vec<Arc<EdgeProducers>>,
    pub(crate) tasks: Vec<(Task, TaskDeployment)>,
    pub(crate) devices: BTreeMap<AllocationId, Devices>,
    pub(crate) checkpoint_dir: Option<String>,
    pub(crate) ends_with_checkpoint: bool,
}

/// The parts of the host that all of its tasks use.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) exchange: Exchange,
    pub(crate) parent: Remote<TaskExecutorGateway>,
    pub(crate) platform: Platform,
    pub(crate) runtime: Handle,
    /// The snapshots that tasks are writing.
    pub(crate) uploads: Uploads,
    pub(crate) tmp_dir: PathBuf,
    /// The options of the TaskManager; options of the job override them.
    pub(crate) options: Arc<BTreeMap<String, String>>,
    pub(crate) stack_bytes: usize,
    pub(crate) embedded: bool,
}

/// Queues a deployment for the deploying thread. Ends its tasks if the thread takes no more.
///
/// # Errors
/// Returns the reason, which holds for the whole deployment.
pub(crate) fn queue(
    deployments: &mpsc::Sender<Deployment>,
    deployment: Deployment,
) -> Result<(), DeployError> {
    deployments.send(deployment).map_err(|mpsc::SendError(deployment)| {
        let why = "its deploying thread has ended";
        let cause = FailureCause::recoverable("ProgramHostFailed", why);
        deployment.end_tasks(&cause);
        DeployError::Host(why.to_owned())
    })
}

impl Deployment {
    /// Ends all tasks, which have no thread yet.
    fn end_tasks(&self, cause: &FailureCause) {
        for (task, _) in &self.tasks {
            task.control.end(Err(cause.clone()));
        }
    }
}

/// Prepares a deployment; a panic is a failure like any other, so that the tasks end and the thread goes on.
fn prepared<T>(prepare: impl FnOnce() -> Result<T, FailureCause>) -> Result<T, FailureCause> {
    task::panics::catch(prepare).unwrap_or_else(|panic| {
        Err(FailureCause::recoverable("ProgramHostFailed", format!("deploying panicked: {panic}")))
    })
}

/// Starts the deploying thread, which ends when the returned sender is dropped.
pub(crate) fn start(
    program: ProgramEntry,
    around: Surroundings,
) -> std::io::Result<mpsc::Sender<Deployment>> {
    let (sender, deployments) = mpsc::channel::<Deployment>();
    threads::spawn("flott-deploy", threads::STACK_BYTES.max(2 << 20), move || {
        let mut deployer = Deployer { program, around, built: None };
        while let Ok(deployment) = deployments.recv() {
            deployer.deploy(deployment);
        }
        // Dropped on this thread and guarded, because the program's values may run user code.
        let _ = task::panics::catch(move || drop(deployer));
    })?;
    Ok(sender)
}

struct Deployer {
    program: ProgramEntry,
    around: Surroundings,
    built: Option<Arc<BuiltJob>>,
}

impl Deployer {
    fn deploy(&mut self, deployment: Deployment) {
        let mut options = (*self.around.options).clone();
        options.extend(deployment.graph.options.iter().map(|(k, v)| (k.clone(), v.clone())));
        let prepared = prepared(|| {
            let graph = &deployment.graph;
            let built = self.built(graph).map_err(|error| cause_of(&error))?;
            let checkpoint_dir = deployment.checkpoint_dir.as_deref();
            let events = self.events(graph.job_id, checkpoint_dir, &options)?;
            Ok((built, events, force_serialization(&options)?))
        });
        let (built, events, force_serialization) = match prepared {
            Ok(prepared) => prepared,
            Err(cause) => return deployment.end_tasks(&cause),
        };
        let Deployment { graph, producers, tasks, devices, ends_with_checkpoint, .. } = deployment;
        let plan = Arc::new(Plan {
            built,
            producers: producers.iter().map(|edge| (edge.edge, table(edge))).collect(),
            options: Arc::new(options),
            devices: devices.into_iter().map(|(slot, own)| (slot, Arc::new(own))).collect(),
            around: self.around.clone(),
            events,
            ends_with_checkpoint,
            force_serialization,
            graph,
        });
        for (task, deployment) in tasks {
            let plan = Arc::clone(&plan);
            let (control, mailbox) = (Arc::clone(&task.control), Arc::clone(&task.mailbox));
            let stack_bytes = self.around.stack_bytes;
            let make: MakeSubtask = Box::new(move || plan.subtask(&task, deployment));
            if let Err(error) = task::start(control, mailbox, stack_bytes, make) {
                tracing::error!(%error, "cannot start a thread for a task; the task fails");
            }
        }
    }

    /// Returns the connection of tasks to their JobMaster and coordinators.
    fn events(
        &self,
        job_id: JobId,
        checkpoint_dir: Option<&str>,
        options: &BTreeMap<String, String>,
    ) -> Result<Arc<ParentEvents>, FailureCause> {
        let Surroundings { platform, runtime, parent, uploads, .. } = &self.around;
        let snapshots =
            Snapshots::open(job_id, checkpoint_dir, options, platform, (runtime, uploads))
                .map_err(|why| {
                    FailureCause::recoverable(FailureCause::CHECKPOINT_DIRECTORY_UNUSABLE, why)
                })?;
        let (parent, runtime) = (parent.clone(), runtime.clone());
        Ok(Arc::new(ParentEvents { parent, job_id, snapshots, runtime }))
    }

    /// Returns the program built for this graph; builds it unless the last build was for the same job, program and
    /// graph fingerprint.
    fn built(&mut self, graph: &JobGraph) -> Result<Arc<BuiltJob>, BuildError> {
        if let Some(built) = &self.built
            && built.graph().fingerprint == graph.fingerprint
            && built.graph().job_id == graph.job_id
            && built.graph().program == graph.program
        {
            return Ok(Arc::clone(built));
        }
        let built = Arc::new(rebuild(&self.program, graph, self.around.embedded)?);
        self.built = Some(Arc::clone(&built));
        Ok(built)
    }
}

/// Returns whether records are serialised inside a process too, by the options of a job and those of the TaskManager together; false
/// if neither sets it. The error of a wrong value is fatal for the job.
fn force_serialization(options: &BTreeMap<String, String>) -> Result<bool, FailureCause> {
    match options.get(FORCE_SERIALIZATION).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => Err(FailureCause::fatal(
            "ProgramInvalid",
            format!("option '{FORCE_SERIALIZATION}': '{text}' is wrong, it takes true or false"),
        )),
    }
}

/// Returns the failure cause of a failed build. It is fatal, because the build would fail again after a restart.
fn cause_of(error: &BuildError) -> FailureCause {
    let kind = match error {
        BuildError::Differs(_) => "Differs",
        BuildError::Program(_) => "ProgramBuildFailed",
        BuildError::Invalid(_) | BuildError::Usage { .. } => "ProgramInvalid",
        BuildError::Process(_) | BuildError::NoRoom(_) => "ProgramHostFailed",
    };
    FailureCause::fatal(kind, error.to_string())
}

fn table(edge: &EdgeProducers) -> Producers {
    Producers {
        addresses: edge.addresses.iter().map(|a| a.as_str().to_owned()).collect(),
        subtasks: edge.subtasks.iter().copied().collect(),
    }
}

/// The parts that the tasks of one deployment share.
struct Plan {
    graph: Arc<JobGraph>,
    built: Arc<BuiltJob>,
    producers: BTreeMap<EdgeId, Producers>,
    options: Arc<BTreeMap<String, String>>,
    devices: BTreeMap<AllocationId, Arc<Devices>>,
    around: Surroundings,
    events: Arc<ParentEvents>,
    ends_with_checkpoint: bool,
    /// True if batches are encoded and decoded inside the process too.
    force_serialization: bool,
}

impl Plan {
    /// Opens the ports and creates the subtask. Runs on the task's thread.
    fn subtask(
        &self,
        task: &Task,
        deployment: TaskDeployment,
    ) -> Result<Box<dyn Subtask>, TaskError> {
        let attempt = deployment.attempt;
        let vertex = self.vertex(attempt.vertex)?;
        let mut inputs = Vec::new();
        for edges in self.inputs_of(vertex)? {
            inputs.push(self.around.exchange.open_input(&task.control, edges));
        }
        let (mut outputs, mut output_key_groups) = (Vec::new(), Vec::new());
        for (output, key_groups) in self.outputs_of(vertex)? {
            outputs.push(self.around.exchange.open_output(&task.control, output));
            output_key_groups.push(key_groups);
        }
        let upcalls = Upcalls::new(
            attempt,
            Arc::clone(&task.mailbox),
            Arc::clone(&self.events) as Arc<dyn task::OperatorEvents>,
            self.around.platform.clone(),
            self.around.runtime.clone(),
        );
        let (snapshots, runtime) = (&self.events.snapshots, &self.around.runtime);
        let restore = snapshots.restore(deployment.restore, &vertex.name, runtime);
        let context = SubtaskContext {
            vertex: attempt.vertex,
            subtask: attempt.subtask,
            parallelism: vertex.parallelism,
            max_parallelism: vertex.max_parallelism,
            attempt,
            inputs,
            outputs,
            output_key_groups,
            upcalls,
            tmp_dir: self.around.tmp_dir.clone(),
            options: Arc::clone(&self.options),
            devices: self.devices.get(&deployment.allocation_id).cloned().unwrap_or_default(),
            restore,
            restored_at_end: deployment.ended,
            ends_with_checkpoint: self.ends_with_checkpoint,
            counters: Arc::clone(task.control.counters()),
            interrupt: task.control.signal().interruption().clone(),
        };
        self.built.subtask(attempt.vertex, context)
    }

    fn vertex(&self, id: model::JobVertexId) -> Result<&JobVertex, TaskError> {
        self.graph
            .vertex(id)
            .ok_or_else(|| TaskError::Deployment(format!("the graph has no vertex {id}")))
    }

    fn codec(&self, edge: EdgeId) -> Result<Arc<dyn streaming::EdgeCodec>, TaskError> {
        self.built
            .edge_codec(edge)
            .ok_or_else(|| TaskError::Deployment(format!("the program has no edge {}", edge.0)))
    }

    /// Returns the edges into the vertex, grouped by input.
    fn inputs_of(&self, vertex: &JobVertex) -> Result<Vec<Vec<InputEdge>>, TaskError> {
        let mut by_input: BTreeMap<u32, Vec<InputEdge>> = BTreeMap::new();
        for edge in self.graph.inputs_of(vertex.id) {
            let producers = self.producers.get(&edge.id).cloned().ok_or_else(|| {
                TaskError::Deployment(format!(
                    "edge {} was deployed without its producers",
                    edge.id.0
                ))
            })?;
            self.check_producers(edge, &producers)?;
            by_input.entry(edge.input).or_default().push(InputEdge {
                edge: edge.id,
                ship: edge.ship,
                producers,
                codec: self.codec(edge.id)?,
            });
        }
        Ok(by_input.into_values().collect())
    }

    fn check_producers(&self, edge: &JobEdge, producers: &Producers) -> Result<(), TaskError> {
        let expected = self.vertex(edge.from)?.parallelism as usize;
        if producers.subtasks.len() == expected {
            return Ok(());
        }
        Err(TaskError::Deployment(format!(
            "edge {} has {} producers in its table, {expected} in the graph",
            edge.id.0,
            producers.subtasks.len()
        )))
    }

    /// Returns the outputs of the vertex in order, each with the number of key groups of its consumer.
    fn outputs_of(&self, vertex: &JobVertex) -> Result<Vec<(OutputEdge, u32)>, TaskError> {
        let mut by_output = BTreeMap::new();
        for edge in self.graph.outputs_of(vertex.id) {
            let consumer = self.vertex(edge.to)?;
            let output = OutputEdge {
                edge: edge.id,
                ship: edge.ship,
                consumers: consumer.parallelism,
                codec: self.codec(edge.id)?,
                force_serialization: self.force_serialization,
            };
            let taken = by_output.insert(edge.output, (output, consumer.max_parallelism));
            if taken.is_some() {
                return Err(TaskError::Deployment(format!(
                    "output {} of vertex '{}' has two edges",
                    edge.output, vertex.name
                )));
            }
        }
        Ok(by_output.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        program::Place,
        worker::{reports::Reports, tasks::Tasks},
    };
    use model::{ExecutionAttemptId, testing};
    use std::time::Duration;

    #[tokio::test]
    async fn a_deployment_that_no_thread_takes_leaves_no_task_behind() {
        let place = Place::InProcess(Arc::new(|why| panic!("{why}")));
        let (reports, runtime) = (Arc::new(Reports::default()), Handle::current());
        let all = Tasks::new(reports, place, Duration::from_secs(600), runtime);
        let graph = testing::graph(vec![testing::vertex(1, 2)], Vec::new());
        let tasks = (0..2).map(|subtask| {
            let vertex = graph.vertices[0].id;
            let attempt = ExecutionAttemptId { graph: 7, vertex, subtask, attempt: 0 };
            let task = all.add(attempt, format!("v1 ({subtask})"), AllocationId(1));
            let deployment = TaskDeployment {
                attempt,
                allocation_id: AllocationId(1),
                restore: Vec::new(),
                ended: false,
            };
            (task, deployment)
        });
        let deployment = Deployment {
            tasks: tasks.collect(),
            graph: Arc::new(graph),
            producers: Vec::new(),
            devices: BTreeMap::new(),
            checkpoint_dir: None,
            ends_with_checkpoint: false,
        };
        assert_eq!(all.all().len(), 2);
        let (sender, receiver) = mpsc::channel();
        drop(receiver);
        let refused = queue(&sender, deployment).unwrap_err().to_string();
        assert!(refused.contains("its deploying thread has ended"), "{refused}");
        assert!(all.all().is_empty());
        all.all_ended().await;
    }

    #[test]
    fn a_panic_of_a_deployment_is_a_failure_that_ends_its_tasks() {
        let cause = prepared::<()>(|| panic!("no runtime")).unwrap_err();
        assert!(cause.recoverable && cause.message.contains("no runtime"), "{cause}");
    }
}
