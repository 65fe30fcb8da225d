//! The coordinators of a job in the harness: started, called and ended on the calling thread.

use super::{
    HarnessError,
    upcalls::{Asked, World},
};
use crate::{
    BuiltJob, Coordinator, CoordinatorContext, CoordinatorWaker, EventReply, Mail,
    sinks::{CollectChunk, CollectRequest},
};
use model::OperatorId;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// The coordinators of a job, by operator.
pub(super) type Coordinators = BTreeMap<OperatorId, Running>;

/// A coordinator that was started, with its operator's name.
pub(super) struct Running {
    name: String,
    coordinator: Box<dyn Coordinator>,
    waker: CoordinatorWaker,
}

/// Creates and starts the coordinators of a job.
pub(super) fn start(
    job: &BuiltJob,
    world: &Arc<World>,
    tmp_dir: &Path,
) -> Result<Coordinators, HarnessError> {
    let graph = job.graph();
    let mut coordinators = BTreeMap::new();
    for node in graph.nodes.iter().filter(|node| node.coordinated) {
        let vertex = graph.vertices.iter().find(|vertex| vertex.nodes.contains(&node.id));
        let waker = CoordinatorWaker::default();
        let context = CoordinatorContext {
            job_id: graph.job_id,
            operator: node.operator_id,
            parallelism: vertex.map_or(1, |vertex| vertex.parallelism),
            tmp_dir: tmp_dir.to_owned(),
            options: Arc::new(graph.options.clone()),
            on_failure: world.on_failure(&node.name),
            waker: waker.clone(),
        };
        let wrong = |why: String| HarnessError::Coordinator(node.name.clone(), why);
        let mut coordinator =
            job.coordinator(node.operator_id, context).map_err(|e| wrong(e.to_string()))?;
        coordinator.start(None).map_err(wrong)?;
        let name = node.name.clone();
        coordinators.insert(node.operator_id, Running { name, coordinator, waker });
    }
    Ok(coordinators)
}

/// Delivers the tasks' events to the coordinators, and the answers to the tasks as mail.
pub(super) fn answer(world: &Arc<World>, coordinators: &mut Coordinators) {
    for Asked { from, operator, event, ticket } in world.take_events() {
        let back = world.clone();
        let reply = EventReply::new(move |result| back.post(from, Mail::Reply { ticket, result }));
        match coordinators.get_mut(&operator) {
            Some(running) => running.coordinator.answer_event(from, &event, reply),
            None => reply.send(Err("the operator has no coordinator".to_owned())),
        }
    }
}

/// Calls the coordinators that their own threads have woken; an error is the coordinator's failure. Returns true if there was one.
pub(super) fn wake(world: &Arc<World>, coordinators: &mut Coordinators) -> bool {
    let mut any = false;
    for Running { name, coordinator, waker } in coordinators.values_mut() {
        if waker.take() {
            any = true;
            if let Err(why) = coordinator.woken() {
                world.on_failure(name).report(why);
            }
        }
    }
    any
}

/// Tells the coordinators that the job has ended, and returns the lines of each collect sink, in the order of the graph's nodes.
pub(super) fn end(
    job: &BuiltJob,
    coordinators: &mut Coordinators,
    finished: bool,
) -> Result<Vec<Vec<Vec<u8>>>, HarnessError> {
    let wrong = |name: &str, why| HarnessError::Coordinator(name.to_owned(), why);
    for Running { name, coordinator, .. } in coordinators.values_mut() {
        coordinator.job_ended(finished).map_err(|why| wrong(name, why))?;
    }
    let mut collected = Vec::new();
    for node in job.graph().nodes.iter().filter(|node| node.kind == "collect") {
        let Some(Running { name, coordinator, .. }) = coordinators.get_mut(&node.operator_id)
        else {
            continue;
        };
        collected.push(read_all(&mut **coordinator).map_err(|why| wrong(name, why))?);
    }
    Ok(collected)
}

/// Reads all lines of a collect sink, as a client does.
fn read_all(coordinator: &mut dyn Coordinator) -> Result<Vec<Vec<u8>>, String> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    loop {
        let request = CollectRequest { offset: lines.len() as u64, max_bytes: 64 << 10 };
        let answer = coordinator.handle_request(&request.encode())?;
        let chunk = CollectChunk::decode(&answer).map_err(|error| error.to_string())?;
        let nothing = chunk.lines.is_empty();
        lines.extend(chunk.lines);
        if chunk.end || nothing {
            return Ok(lines);
        }
    }
}
