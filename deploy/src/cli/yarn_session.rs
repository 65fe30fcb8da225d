//! `flott yarn-session`: starts, watches, shows and ends sessions on YARN.

use super::args::ClusterArgs;
use super::attach::standard_input;
use super::output::table;
use super::session_args::YarnSession;
use super::{Context, Failure, Outcome};
use crate::exit::Exit;
use crate::targets::{ClusterDescriptor, ClusterSpecification};
use crate::yarn::{ClusterKind, SessionState, YarnDescriptor, node_value};
use conf::{execution, taskmanager, taskmanager_memory, yarn_client};
use futures::FutureExt;
use futures::stream::{self, Stream, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Pause between two looks at a session that a command waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn yarn_session(context: &Context, args: YarnSession) -> Outcome {
    if args.shutdown_on_attached_exit && args.detached {
        return Err(Failure::usage("-sae needs a client that waits: drop -d"));
    }
    let context = &with_options(context, &args)?;
    let descriptor = YarnDescriptor::new(context, ClusterKind::Session, &ClusterArgs::default())?;
    if args.query {
        return query(context, &descriptor).await;
    }
    if args.stop {
        descriptor.kill().await?;
        context.print.value(&json!({ "stopped": true }), || "the session is stopped".to_owned())?;
        return Ok(Exit::Success);
    }
    let attached = context.options.get(&execution::ATTACHED);
    let bound = attached && context.options.get(&execution::SHUTDOWN_ON_ATTACHED_EXIT);
    // Before the deployment, which listens too: a signal between the two, for which the runtime keeps its handler, would be lost.
    let signals = signals(bound)?;
    let known = args.application_id.is_some();
    if !known {
        let spec = ClusterSpecification::of(&context.options)?;
        let deployed = descriptor.deploy(spec, None).await?;
        let shown = context.print.value(&deployed.value, || deployed.text.clone());
        if bound && shown.is_err() {
            // The terminal is gone, and with it the client for which the session is.
            descriptor.kill().await?;
        }
        shown?;
    }
    if !attached {
        context.print.note("the session continues; end it with flott yarn-session --stop");
        return Ok(Exit::Success);
    }
    attend(context, &descriptor, bound, signals).await
}

/// Returns the context with the options that the arguments stand for, over the others.
fn with_options(context: &Context, args: &YarnSession) -> Result<Context, Failure> {
    let memory = |text: &String| match text.chars().all(|c| c.is_ascii_digit()) {
        // Flink's unit.
        true => format!("{text}m"),
        false => text.clone(),
    };
    let given = [
        (yarn_client::QUEUE.key(), args.queue.clone()),
        (taskmanager_memory::PROCESS_SIZE.key(), args.task_manager_memory.as_ref().map(memory)),
        (conf::jobmanager::PROCESS_SIZE.key(), args.job_manager_memory.as_ref().map(memory)),
        (taskmanager::SLOTS.key(), args.slots.map(|slots| slots.to_string())),
        (yarn_client::NAME.key(), args.name.clone()),
        (yarn_client::NODE_LABEL.key(), args.node_label.clone()),
        (yarn_client::TYPE.key(), args.application_type.clone()),
        (yarn_client::APPLICATION_ID.key(), args.application_id.clone()),
        (execution::ATTACHED.key(), args.detached.then(|| false.to_string())),
        (
            execution::SHUTDOWN_ON_ATTACHED_EXIT.key(),
            args.shutdown_on_attached_exit.then(|| true.to_string()),
        ),
        (
            yarn_client::SHIP_FILES.key(),
            (!args.ship.is_empty())
                .then(|| conf::OptionValue::show(&conf::List(args.ship.clone())))
                .flatten(),
        ),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
    Ok(context.with_options(context.options.overlaid(given, "command line")?))
}

async fn query(context: &Context, descriptor: &YarnDescriptor<'_>) -> Outcome {
    let nodes: Vec<_> = descriptor.nodes().await?.iter().map(node_value).collect();
    let queues = descriptor.queues().await?;
    let listed: Vec<_> =
        queues.iter().map(|(queue, used)| json!({ "queue": queue, "used": used })).collect();
    context.print.value(&json!({ "nodes": nodes, "queues": listed }), || {
        let rows: Vec<Vec<String>> = nodes
            .iter()
            .map(|node| {
                let text = |key: &str| node.get(key).map(ToString::to_string).unwrap_or_default();
                let both = |used: &str, all: &str| format!("{} of {}", text(used), text(all));
                vec![
                    text("node").trim_matches('"').to_owned(),
                    both("memory_used_mib", "memory_mib"),
                    both("vcores_used", "vcores"),
                    text("containers"),
                ]
            })
            .collect();
        let queues: Vec<Vec<String>> = queues
            .iter()
            .map(|(queue, used)| vec![queue.clone(), format!("{:.0} %", used * 100.0)])
            .collect();
        let nodes = table(&["NODE", "MEMORY USED (MiB)", "VCORES USED", "CONTAINERS"], &rows);
        format!("{nodes}\n\n{}", table(&["QUEUE", "USED"], &queues))
    })?;
    Ok(Exit::Success)
}

/// An event while a client waits for a session.
enum Event {
    Line(Option<String>),
    Signal,
    Look,
}

/// Returns the signals on which this client ends. A terminal that is closed (SIGHUP) is one of them if the session ends with the client:
/// without it the signal would end the client alone. Otherwise SIGHUP keeps its effect, and the session continues.
fn signals(bound: bool) -> Result<impl Stream<Item = ()> + Unpin, Failure> {
    let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
    if bound {
        kinds.push(SignalKind::hangup());
    }
    let each = kinds.into_iter().map(|kind| {
        let signal = signal(kind).map_err(Failure::start)?;
        Ok(stream::unfold(signal, async |mut signal| Some((signal.recv().await?, signal)))
            .boxed_local())
    });
    Ok(stream::select_all(each.collect::<Result<Vec<_>, Failure>>()?))
}

/// Waits until the session ends, `stop` is typed, or a signal comes. A `bound` session ends with this client.
async fn attend(
    context: &Context,
    descriptor: &YarnDescriptor<'_>,
    bound: bool,
    mut signals: impl Stream<Item = ()> + Unpin,
) -> Outcome {
    context.print.note(
        "the session runs; type 'stop' to end it, Ctrl-C to leave it running (flott yarn-session --stop ends it later)",
    );
    let read = standard_input();
    let mut line = read();
    loop {
        let event = tokio::select! {
            biased;
            _ = signals.next() => Event::Signal,
            typed = &mut line => Event::Line(typed.ok().flatten()),
            () = tokio::time::sleep(LOOK_EVERY) => Event::Look,
        };
        match event {
            Event::Line(None) => line = std::future::pending().boxed_local(),
            Event::Line(Some(typed)) if matches!(typed.trim(), "stop" | "quit") => {
                context.print.note("stopping the session");
                descriptor.kill().await?;
                return Ok(Exit::Success);
            }
            Event::Line(Some(_)) => {
                context.print.note("possible: stop");
                line = read();
            }
            Event::Signal if bound => {
                context.print.note("stopping the session");
                descriptor.kill().await?;
                return Ok(Exit::Success);
            }
            Event::Signal => {
                context.print.note("the session continues; end it with flott yarn-session --stop");
                return Ok(Exit::Success);
            }
            Event::Look => {
                if let SessionState::Ended(how) = descriptor.session_state().await? {
                    context.print.note(&format!("the session {how}"));
                    return Ok(Exit::Unknown);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a handler the signal would end this process, and the test with it.
    #[tokio::test]
    async fn a_closed_terminal_is_noticed_by_the_client_of_a_session_that_ends_with_it() {
        let mut signals = signals(true).unwrap();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGHUP).unwrap();
        assert_eq!(signals.next().await, Some(()));
    }
}
