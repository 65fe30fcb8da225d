//! `flott info`: has a program build its graph in a child of this process and prints it; nothing is run.

use super::args::Info;
use super::output::table;
use super::{Context, Failure, Outcome, run};
use crate::cluster_files::private_identity;
use crate::components::process_session;
use crate::exit::Exit;
use crate::settings;
use crate::targets;
use conf::Options;
use conf::execution::Target;
use conf::yarn_client::{SHIP_ARCHIVES, SHIP_FILES};
use conf::{execution, taskmanager};
use gateways::program_host::{BuildError, BuildGraph, EndHost, ProgramHostGateway};
use gateways::{CallError, ListenOptions, RpcOptions, RpcService, TraceContext};
use host::launch::{self, LaunchSpec};
use model::{ClusterId, ContentHash, JobGraph, JobId, ProgramRef};
use platform::handshake::{Credentials, Identity, Secret};
use platform::{Platform, PortSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) async fn info(context: &Context, args: Info) -> Outcome {
    let given = args.target.as_deref();
    let target = targets::choose(&context.options, given, &targets::INFO)?;
    let program = run::local_program(&args.program)?;
    let program = std::path::absolute(&program).map_err(Failure::start)?;
    let platform = Platform::production();
    let folder = std::env::temp_dir().join(format!("flott-info-{:016x}", platform.random_u64()));
    std::fs::create_dir_all(&folder).map_err(Failure::start)?;
    let graph = build(context, &platform, (&args, target), &program, &folder).await;
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::debug!(%error, "a temporary folder stays");
    }
    let graph = match graph? {
        Built::Graph(graph) => graph,
        Built::Help(exit) => return Ok(exit),
    };
    if let Some(file) = &args.job_graph {
        write_graph(file, &graph)?;
    }
    context.print.value(&rest::render::plan(&graph), || show(&graph))?;
    Ok(Exit::Success)
}

/// Runs an application's program in a child process to build its graph for a cluster.
///
/// # Errors
/// Returns the program's own error, or a usage error if the program only printed its help.
#[cfg(feature = "yarn")]
pub(crate) async fn graph_for_cluster(
    context: &Context,
    application: &crate::targets::Application,
) -> Result<JobGraph, Failure> {
    let platform = Platform::production();
    let folder = std::env::temp_dir().join(format!("flott-build-{:016x}", platform.random_u64()));
    std::fs::create_dir_all(&folder).map_err(Failure::start)?;
    let args = Info { job_graph: None, target: None, program: application.args.clone() };
    let target = (&args, Target::YarnPerJob);
    let built = build(context, &platform, target, &application.program, &folder).await;
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::debug!(%error, "a temporary folder stays");
    }
    match built? {
        Built::Graph(graph) => {
            Ok(JobGraph { job_id: application.job_id.unwrap_or(graph.job_id), ..*graph })
        }
        Built::Help(_) => {
            Err(Failure::usage("the program only gives its help; nothing is deployed"))
        }
    }
}

/// The outcome of a program's run with its arguments.
enum Built {
    Graph(Box<JobGraph>),
    /// The program was asked for help and has printed it.
    Help(Exit),
}

async fn build(
    context: &Context,
    platform: &Platform,
    (args, target): (&Info, Target),
    program: &Path,
    folder: &Path,
) -> Result<Built, Failure> {
    let rpc = start_rpc(platform).await?;
    let within = context.options.get(&taskmanager::HOST_START_TIMEOUT);
    let (hash, size) = platform::content::hash_file(program).await.map_err(Failure::start)?;
    let job_id = JobId(platform.random_u128());
    let work_dir = std::env::current_dir().map_err(Failure::start)?;
    let spec = LaunchSpec {
        program: program.to_owned(),
        job_id,
        session: process_session(platform),
        parent: rpc.node().clone(),
        trace: TraceContext::current(),
        work_dir,
        tmp_dir: folder.to_owned(),
        env: program_environment(&context.options, folder)?,
        stdout: folder.join("stdout"),
        stderr: folder.join("stderr"),
        output_mode: 0o600,
    };
    let host = launch::host(&rpc, spec, within).await.map_err(Failure::start)?;
    let gateway = rpc.gateway::<ProgramHostGateway>(&host.address.address, host.address.session);
    let ask = question(context, (args, target), program, job_id, (hash, size));
    let built = gateway.ask_within(ask, context.options.get(&execution::CLIENT_TIMEOUT)).await;
    gateway.tell(EndHost {});
    host.kill.kill();
    match built {
        Ok(graph) => Ok(Built::Graph(Box::new(graph))),
        Err(CallError::Refused(BuildError::Usage { text, help })) => {
            run::said_by_program(&text, help).map(Built::Help)
        }
        Err(CallError::Refused(error)) => Err(Failure::start(error)),
        Err(CallError::Fabric(error)) => Err(Failure::start(error)),
    }
}

/// Returns this command's environment for the program. Ship files are found in a folder of links, under the names that
/// they have in a container.
fn program_environment(
    options: &Options,
    folder: &Path,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut env: BTreeMap<String, String> = std::env::vars().collect();
    let (files, archives) = (options.get(&SHIP_FILES).0, options.get(&SHIP_ARCHIVES).0);
    if files.is_empty() && archives.is_empty() {
        return Ok(env);
    }
    let links = folder.join("shipped");
    std::fs::create_dir_all(&links).map_err(Failure::start)?;
    for path in files.iter().chain(&archives) {
        let path = std::path::absolute(path).map_err(Failure::start)?;
        // The deployment names a path that cannot be shipped.
        if let Some(name) = path.file_name() {
            let _ = std::os::unix::fs::symlink(&path, links.join(name));
        }
    }
    env.insert(streaming::SHIPPED_VARIABLE.to_owned(), links.display().to_string());
    Ok(env)
}

/// Starts an RPC service for this command alone: a host calls its parent by an address with a port.
async fn start_rpc(platform: &Platform) -> Result<RpcService, Failure> {
    let identity = private_identity(platform);
    let settings = RpcOptions {
        listen: Some(ListenOptions {
            bind_host: "127.0.0.1".to_owned(),
            advertised_host: "127.0.0.1".to_owned(),
            ports: PortSpec::any(),
        }),
        credentials: Credentials {
            cluster: ClusterId::new(identity.id),
            identity: Identity::Cluster,
            secret: Secret::new(identity.secret),
        },
        ..RpcOptions::in_process()
    };
    RpcService::start(platform.clone(), settings).await.map_err(Failure::start)
}

fn question(
    context: &Context,
    (args, target): (&Info, Target),
    program: &Path,
    job_id: JobId,
    (hash, size): (ContentHash, u64),
) -> BuildGraph {
    let options = &context.options;
    let name = program.file_name().unwrap_or(program.as_os_str());
    let parallelism =
        args.program.parallelism.unwrap_or_else(|| options.get(&execution::PARALLELISM).get());
    BuildGraph {
        program: ProgramRef {
            hash,
            name: name.to_string_lossy().into_owned(),
            size,
            args: run::words(context, &args.program),
            env: BTreeMap::new(),
            once: BTreeMap::new(),
            job: args.program.job.clone().or_else(|| options.get(&execution::ENTRY)),
        },
        job_id,
        parallelism,
        options: settings::job_options(&context.overrides),
        defaults: options.shaping(),
        // In a graph for a cluster relative paths are refused.
        embedded: args.job_graph.is_none() && target == Target::Local,
    }
}

fn write_graph(file: &PathBuf, graph: &JobGraph) -> Result<(), Failure> {
    let bytes = serde_json::to_vec(graph).map_err(Failure::start)?;
    std::fs::write(file, bytes).map_err(|e| Failure::start(format!("{}: {e}", file.display())))
}

fn show(graph: &JobGraph) -> String {
    let bounded = if graph.bounded { "bounded" } else { "unbounded" };
    format!(
        "job '{}' ({bounded}, {} subtasks)\n\noperators\n{}\n\njob vertices (chained operators)\n{}\n\nedges\n{}",
        super::output::plain(&graph.name),
        graph.total_subtasks(),
        indented(&operators(graph)),
        indented(&vertices(graph)),
        indented(&edges(graph)),
    )
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn operators(graph: &JobGraph) -> String {
    let rows: Vec<Vec<String>> = graph
        .nodes
        .iter()
        .map(|node| {
            let reads: Vec<String> = node.reads.iter().map(|id| id.0.to_string()).collect();
            vec![
                node.id.0.to_string(),
                node.name.clone(),
                node.kind.clone(),
                node.uid.clone().unwrap_or_else(|| "-".to_owned()),
                node.output.clone().unwrap_or_else(|| "-".to_owned()),
                if reads.is_empty() { "-".to_owned() } else { reads.join(",") },
            ]
        })
        .collect();
    table(&["NODE", "NAME", "KIND", "UID", "OUTPUT", "READS"], &rows)
}

fn vertices(graph: &JobGraph) -> String {
    let rows: Vec<Vec<String>> = graph
        .vertices
        .iter()
        .map(|vertex| {
            vec![
                short(&vertex.id.to_string()),
                vertex.parallelism.to_string(),
                vertex.max_parallelism.to_string(),
                vertex.slot_sharing_group.clone(),
                vertex.name.clone(),
            ]
        })
        .collect();
    table(&["VERTEX", "PARALLELISM", "MAX", "SLOT GROUP", "OPERATORS"], &rows)
}

fn edges(graph: &JobGraph) -> String {
    if graph.edges.is_empty() {
        return "none".to_owned();
    }
    let name = |id| graph.vertex(id).map_or_else(String::new, |v| v.name.clone());
    let rows: Vec<Vec<String>> = graph
        .edges
        .iter()
        .map(|edge| {
            let ship = format!("{:?}", edge.ship).to_uppercase();
            vec![name(edge.from), ship, name(edge.to), edge.record.clone()]
        })
        .collect();
    table(&["FROM", "BY", "TO", "RECORD"], &rows)
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
