//! A program's registered jobs, and building one of them. User code runs here, so its panics are caught here.

use super::{
    Args, Builder, Environment, SHIPPED_VARIABLE,
    environment::{DEFAULT_PARALLELISM, Settings},
};
use crate::{
    chain::{Assembly, ChainInfo, ChainTask, NodeInfo},
    graph::{
        BuiltJob,
        draft::{MakeHead, NodeDraft},
        plan::{Plan, PlanInputs, plan},
    },
    operators::BoxError,
    seam::{
        BuildInputs, BuildProgramError, EdgeCodec, Subtask, SubtaskContext, SubtaskFactory,
        TaskError, asks_for_help, help_of_several,
    },
    task::panics::catch,
};
use model::{EdgeId, JobGraph, JobVertex, ProgramRef, graph::GraphNode};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::Ordering},
};

/// The keys of options that say whether a job has periodic checkpoints, and whether operators with state may lack a uid then.
const CHECKPOINT_INTERVAL: &str = "execution.checkpointing.interval";
const AUTO_GENERATE_UIDS: &str = "pipeline.auto-generate-uids";
/// The keys of the options that `Environment::set_name` and `set_max_parallelism` set.
const NAME: &str = "pipeline.name";
const MAX_PARALLELISM: &str = "pipeline.max-parallelism";

type BuildFn = dyn Fn(&Environment, Args) -> Result<(), BoxError> + Send + Sync;

/// One job of a program: the name that it is registered under, by which a client chooses it, and its build function. Made by
/// [`ProgramEntry::job`]; [`build`] calls the function.
#[derive(Clone)]
pub struct JobEntry {
    name: String,
    build: Arc<BuildFn>,
}

impl JobEntry {
    /// Returns the name that the job is registered under.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The jobs of a program, each registered under a name. A client chooses one by its name; a program with one job needs no choice. [`build`]
/// fails if a program has several jobs and none is named, and for every job if two have one name.
///
/// ```
/// use streaming::{Args, Environment, ProgramEntry, api::JobEntry, operators::BoxError};
///
/// fn numbers(env: &Environment, _args: Args) -> Result<(), BoxError> {
///     env.sequence(0..10).print();
///     Ok(())
/// }
/// fn squares(env: &Environment, _args: Args) -> Result<(), BoxError> {
///     env.sequence(0..10).map(|n| n * n).print();
///     Ok(())
/// }
///
/// let program = ProgramEntry::new().job("numbers", numbers).job("squares", squares);
/// let names: Vec<&str> = program.jobs().iter().map(JobEntry::name).collect();
/// assert_eq!(names, ["numbers", "squares"]);
/// ```
#[derive(Clone, Default)]
pub struct ProgramEntry {
    jobs: Vec<JobEntry>,
    /// The form that options get in a job's graph; `None`: as they were given.
    normalise: Option<NormaliseOptions>,
}

/// A function that returns a job's options in the one form that all readers of a job graph know: each under its own name, truth values and
/// numbers in one spelling. The function keeps options that it does not know, and changes nothing of its own results.
pub type NormaliseOptions = fn(BTreeMap<String, String>) -> BTreeMap<String, String>;

impl fmt::Debug for ProgramEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.jobs.iter().map(|job| &job.name)).finish()
    }
}

impl ProgramEntry {
    /// Creates a program without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a job under a name, without calling `build`. `build` declares the job; every process of the job calls it, and each
    /// time it must declare the same graph: a process whose graph differs fails the job. If `build` returns an error or panics, the job
    /// is not submitted. If the program has one job only, the job need not be named when the program is started. Two jobs of one name
    /// are accepted here, but [`build`] then fails for every job of the program.
    pub fn job<E, F>(mut self, name: impl Into<String>, build: F) -> Self
    where
        E: Into<BoxError>,
        F: Fn(&Environment, Args) -> Result<(), E> + Send + Sync + 'static,
    {
        let build = move |env: &Environment, args: Args| build(env, args).map_err(Into::into);
        self.jobs.push(JobEntry { name: name.into(), build: Arc::new(build) });
        self
    }

    /// Sets the form that options get when a graph is built. The process that runs the program sets it, because the table of options is
    /// no part of this crate; without it options stay as they were given.
    #[doc(hidden)]
    pub fn normalising(self, normalise: NormaliseOptions) -> Self {
        Self { normalise: Some(normalise), ..self }
    }

    /// Returns the program's jobs, in the order of their registration.
    pub fn jobs(&self) -> &[JobEntry] {
        &self.jobs
    }

    fn find(&self, asked: Option<&str>) -> Result<&JobEntry, BuildProgramError> {
        self.check_names()?;
        let found = match (asked, self.jobs.as_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(name), jobs) => jobs.iter().find(|job| job.name == name),
        };
        found.ok_or_else(|| BuildProgramError::NoSuchJob {
            asked: asked.map(str::to_owned),
            known: self.jobs.iter().map(|job| job.name.clone()).collect(),
        })
    }

    /// Fails if two jobs have the same name, because only one of them could ever be started.
    fn check_names(&self) -> Result<(), BuildProgramError> {
        let mut names = BTreeSet::new();
        match self.jobs.iter().find(|job| !names.insert(&job.name)) {
            None => Ok(()),
            Some(JobEntry { name, .. }) => Err(BuildProgramError::Invalid(format!(
                "the program registers two jobs under the name '{name}': give each job a name of its own"
            ))),
        }
    }
}

/// Builds the graph and the code of one job of a program. Calls the job's build function on this thread and catches its panics. The
/// same inputs give the same graph in every process. Reads [`SHIPPED_VARIABLE`] from the environment, in embedded mode the working
/// directory, and what the program asks for with [`Environment::var`] in a first build.
///
/// # Errors
/// - [`BuildProgramError::NoSuchJob`]: the program has no job of that name, no job at all, or several jobs and none was named.
/// - [`BuildProgramError::Usage`]: the program refused its arguments, or help was requested.
/// - [`BuildProgramError::Program`], [`BuildProgramError::Panicked`]: the build function returned an error or panicked.
/// - [`BuildProgramError::RelativePath`]: outside embedded mode a source of files, or `write_text`, has a relative path.
/// - [`BuildProgramError::Invalid`]: two jobs have one name, or the declared job cannot run: no source, a uid twice, a parallelism out of
///   range, periodic checkpoints and a source, a committing sink or an operator with state without uid (unless
///   `pipeline.auto-generate-uids` is true), and the like. The first mistake found is reported, or instead of it the error of the build
///   function. Also if the working directory cannot be found in embedded mode.
pub fn build(entry: &ProgramEntry, inputs: BuildInputs) -> Result<BuiltJob, BuildProgramError> {
    let job = match entry.find(inputs.job.as_deref()) {
        Err(BuildProgramError::NoSuchJob { asked: None, known }) if asks_for_help(&inputs.args) => {
            let text = help_of_several(&inputs.program_name, &known);
            return Err(BuildProgramError::Usage { text, help: true });
        }
        found => found?,
    };
    let start_dir = match inputs.embedded {
        true => Some(std::env::current_dir().map_err(|error| {
            BuildProgramError::Invalid(format!("cannot find the working directory: {error}"))
        })?),
        false => None,
    };
    let mut options = inputs.defaults.clone();
    options.extend(inputs.options.clone());
    let env = Environment::new(Settings {
        parallelism: inputs.parallelism,
        options,
        start_dir,
        once: inputs.once.clone(),
        env: inputs.env.clone(),
        shipped: std::env::var_os(SHIPPED_VARIABLE).map(PathBuf::from),
    });
    let args = Args::new(inputs.program_name.clone(), inputs.args.clone());
    match catch(|| (job.build)(&env, args.clone())) {
        Err(panic) => return Err(BuildProgramError::Panicked(panic)),
        Ok(Err(error)) => {
            return Err(match args.take_usage() {
                Some(usage) => BuildProgramError::Usage { text: usage.text, help: usage.help },
                None => BuildProgramError::Program(with_causes(&*error)),
            });
        }
        Ok(Ok(())) => {}
    }
    // Streams that the program kept hold the environment too, so its contents are taken out.
    let builder = std::mem::take(&mut *env.builder.borrow_mut());
    finish(builder, inputs, &job.name, entry.normalise.unwrap_or(|options| options))
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    model::shortened(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

fn finish(
    mut builder: Builder,
    inputs: BuildInputs,
    job_name: &str,
    normalise: NormaliseOptions,
) -> Result<BuiltJob, BuildProgramError> {
    if !builder.errors.is_empty() {
        return Err(builder.errors.swap_remove(0));
    }
    // The client's options take precedence over the program's, and these over the cluster's. What the program has set by a method is
    // among them, so that a build in another process has the same. Each is normalised by itself: otherwise one of the program's under
    // another name would not take the place of the cluster's.
    let mut options = normalise(inputs.defaults);
    options.extend(builder.name.map(|name| (NAME.to_owned(), name)));
    let max_parallelism =
        builder.max_parallelism.map(|max| (MAX_PARALLELISM.to_owned(), max.to_string()));
    options.extend(max_parallelism);
    options.extend(normalise(builder.options));
    options.extend(normalise(inputs.options));
    // A rebuild must use the same value: a program may read it by `Environment::parallelism`.
    options.insert(DEFAULT_PARALLELISM.into(), inputs.parallelism.to_string());
    let max_parallelism = options.get(MAX_PARALLELISM).map(|text| {
        let why = || format!("{MAX_PARALLELISM} '{text}': must be a number between 1 and 32768");
        text.trim().parse().map_err(|_| BuildProgramError::Invalid(why()))
    });
    let max_parallelism = max_parallelism.transpose()?;
    let read = builder.default_is_read.then_some(inputs.parallelism);
    let plan = plan(&PlanInputs {
        nodes: &builder.nodes,
        parallelism: builder.parallelism.unwrap_or(inputs.parallelism),
        known_parallelism: builder.parallelism.or(read),
        max_parallelism,
        groups: &builder.groups,
    })?;
    require_uids(&plan, &builder.nodes, &options)?;
    builder.bounded.store(plan.bounded, Ordering::Relaxed);
    let file_sink = plan.nodes.iter().find(|node| node.kind == "file_sink");
    if let Some(node) = file_sink.filter(|_| !plan.bounded) {
        return Err(BuildProgramError::Invalid(format!(
            "operator '{}': a file sink publishes its files when the job finishes, and this job has an unbounded source",
            node.name
        )));
    }
    let graph = JobGraph {
        job_id: inputs.job_id,
        name: given_name(&options).unwrap_or_else(|| job_name.to_owned()),
        program: ProgramRef {
            hash: inputs.program_hash,
            name: inputs.program_name,
            size: inputs.program_size,
            args: inputs.args,
            env: builder.env,
            once: builder.once,
            job: inputs.job,
        },
        nodes: plan.nodes.clone(),
        vertices: plan.vertices.clone(),
        edges: plan.edges.clone(),
        bounded: plan.bounded,
        options,
        fingerprint: plan.fingerprint,
    };
    Ok(with_code(graph, &plan, builder.nodes))
}

/// Requires of a job with periodic checkpoints that every operator with state has a uid: a savepoint finds the operator by it after
/// the program has changed.
fn require_uids(
    plan: &Plan,
    drafts: &[NodeDraft],
    options: &BTreeMap<String, String>,
) -> Result<(), BuildProgramError> {
    let is_periodic = options.get(CHECKPOINT_INTERVAL).is_some_and(|text| !text.trim().is_empty());
    let generates = options.get(AUTO_GENERATE_UIDS).is_some_and(|on| on == "true");
    if !is_periodic || generates {
        return Ok(());
    }
    let has_state = |node: &GraphNode, draft: &NodeDraft| {
        let keeps_state = draft.has_own_state || !node.states.is_empty();
        draft.source || node.coordinated || node.commits || keeps_state
    };
    let without: Vec<String> = plan
        .nodes
        .iter()
        .zip(drafts)
        .filter(|(node, draft)| node.uid.is_none() && has_state(node, draft))
        .map(|(node, _)| format!("'{}'", node.name))
        .collect();
    if without.is_empty() {
        return Ok(());
    }
    Err(BuildProgramError::Invalid(format!(
        "with {CHECKPOINT_INTERVAL} every operator with state needs a uid, so that savepoints can be restored after the program \
         has changed; without one: {}; add .uid(\"…\") to each, or set {AUTO_GENERATE_UIDS}=true",
        without.join(", ")
    )))
}

/// Returns the name in `pipeline.name`, which takes precedence over the program's as every option does; `None` if it is not set
/// or blank.
fn given_name(options: &BTreeMap<String, String>) -> Option<String> {
    let name = options.get(NAME)?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Combines a graph with the code of its vertices, coordinators and codecs.
fn with_code(graph: JobGraph, plan: &Plan, drafts: Vec<NodeDraft>) -> BuiltJob {
    let mut built = BuiltJob {
        graph,
        vertices: BTreeMap::new(),
        coordinators: BTreeMap::new(),
        codecs: BTreeMap::new(),
    };
    let mut heads: BTreeMap<u32, MakeHead> = BTreeMap::new();
    for ((node, draft), index) in plan.nodes.iter().zip(drafts).zip(0_u32..) {
        if let Some(coordinator) = draft.coordinator {
            built.coordinators.insert(node.operator_id, Mutex::new(coordinator));
        }
        for (read, codec) in draft.reads.into_iter().map(|read| read.codec).enumerate() {
            if let Some(edge) = edge_of(plan, node.id, read) {
                let codec: Arc<dyn EdgeCodec> = codec;
                built.codecs.insert(edge, codec);
            }
        }
        heads.insert(index, draft.head);
    }
    for vertex in &plan.vertices {
        let Some(make) = vertex.nodes.first().and_then(|node| heads.remove(&node.0)) else {
            continue;
        };
        let info = Arc::new(chain_info(&built.graph, plan, vertex));
        built.vertices.insert(vertex.id, Mutex::new(Box::new(ChainFactory { make, info })));
    }
    built
}

fn edge_of(plan: &Plan, to: model::NodeId, read: usize) -> Option<EdgeId> {
    let mut edges = plan.edges.iter().zip(&plan.reads);
    let found = edges.find(|(edge, of)| edge.to_node == to && **of == read);
    found.map(|(edge, _)| edge.id)
}

fn chain_info(graph: &JobGraph, plan: &Plan, vertex: &JobVertex) -> ChainInfo {
    let nodes = graph.nodes.iter().filter(|node| vertex.nodes.contains(&node.id));
    let outputs = plan.edges.iter().zip(&plan.reads).filter(|(edge, _)| edge.from == vertex.id);
    ChainInfo {
        job_id: graph.job_id,
        name: vertex.name.clone(),
        nodes: nodes
            .map(|node| (node.id, NodeInfo { operator: node.operator_id, name: node.name.clone() }))
            .collect(),
        inputs: graph.inputs_of(vertex.id).count(),
        outputs: outputs
            .map(|(edge, read)| ((edge.from_node, edge.to_node, *read), edge.output as usize))
            .collect(),
    }
}

/// Makes the subtasks of one chain.
struct ChainFactory {
    make: MakeHead,
    info: Arc<ChainInfo>,
}

impl SubtaskFactory for ChainFactory {
    fn subtask(&mut self, context: SubtaskContext) -> Result<Box<dyn Subtask>, TaskError> {
        let mut assembly = Assembly::new(self.info.clone(), context)?;
        let head = (self.make)(&mut assembly)?;
        let shared = assembly.shared().clone();
        Ok(Box::new(ChainTask::new(head, shared, self.info.name.clone())))
    }
}
