//! `flott run`: uploads a program, has it built and submitted, waits for the job unless detached.

use super::args::{ProgramArgs, Run};
use super::refused_args::Refused;
use super::run_application::{self, Start};
use super::{Context, Failure, Outcome, attach, client};
use crate::exit::Exit;
use crate::programs;
use crate::settings;
use crate::targets;
use conf::execution::{self, Target};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::JobId;
use rest::client::{ClientError, RestClient};
use rest::messages::{JarRequest, Usage};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(super) async fn run(context: &Context, args: Run) -> Outcome {
    let bound = bound(context, &args)?;
    let given = args.cluster.target.as_deref();
    let target = targets::choose(&context.options, given, &targets::RUN)?;
    let program = local_program(&args.program)?;
    if matches!(target, Target::YarnApplication | Target::YarnPerJob) {
        let start = Start { detached: args.detached, bound, job_id: args.job_id };
        return run_application::start(context, target, args.program, start).await;
    }
    let client = targets::descriptor(context, target, &args.cluster)?.retrieve().await?;
    let mut request = request(context, &args.program, args.job_id);
    if bound {
        bind(context, &mut request);
    }
    for note in without_effect(&context.overrides) {
        context.print.note(&note);
    }
    let job = match submit(context, &client, &program, &request).await? {
        Submitted::Job(job) => job,
        Submitted::Help(exit) => return Ok(exit),
    };
    let detached = args.detached || !context.options.get(&execution::ATTACHED);
    if detached {
        context.print.value(&json!({ "jobid": job }), || format!("submitted job {job}"))?;
        return Ok(Exit::Success);
    }
    context.print.note(&format!("submitted job {job}"));
    attach::attach(context, &client, &job, bound).await
}

/// Returns true if the job is to be cancelled when this client goes away. Refuses options that have
/// no meaning.
fn bound(context: &Context, args: &Run) -> Result<bool, Failure> {
    refuse(&args.refused)?;
    let attached = !args.detached && context.options.get(&execution::ATTACHED);
    let asked = args.shutdown_on_attached_exit;
    if asked && !attached {
        return Err(Failure::usage(
            "-sae needs a client that waits: drop -d and execution.attached",
        ));
    }
    Ok(asked || attached && context.options.get(&execution::SHUTDOWN_ON_ATTACHED_EXIT))
}

/// Asks the Dispatcher to cancel the job when this client is silent for too long.
fn bind(context: &Context, request: &mut JarRequest) {
    let timeout = context.options.get(&execution::CLIENT_HEARTBEAT_TIMEOUT);
    let options = request.flink_configuration.get_or_insert_default();
    options.insert(execution::SHUTDOWN_ON_ATTACHED_EXIT.key().to_owned(), true.to_string());
    let key = execution::CLIENT_HEARTBEAT_TIMEOUT.key().to_owned();
    options.insert(key, conf::show_duration(timeout));
}

/// Says what to use instead of an option of Flink that has no meaning here.
pub(super) fn refuse(refused: &Refused) -> Result<(), Failure> {
    match refused.complaint() {
        Some(why) => Err(Failure::usage(why)),
        None => Ok(()),
    }
}

/// Returns the path of the program, checked without executing it.
pub(super) fn local_program(args: &ProgramArgs) -> Result<PathBuf, Failure> {
    let program = args.program();
    programs::check_file(&program)
        .map_err(|why| Failure::start(format!("'{}': {why}", program.display())))?;
    Ok(program)
}

/// Returns the program's own arguments: from the command line, else from the options.
pub(super) fn words(context: &Context, args: &ProgramArgs) -> Vec<String> {
    match args.args() {
        [] => context.options.get(&execution::PROGRAM_ARGS).0,
        given => given.to_vec(),
    }
}

/// Returns the request to submit: from the command line, else from the options.
fn request(context: &Context, args: &ProgramArgs, job_id: Option<JobId>) -> JarRequest {
    let mut options = settings::job_options(&context.overrides);
    // A cluster refuses the others; the user is told of them by a note.
    options.retain(|key, _| execution::acts_on_a_job(key));
    // The client's own file and environment name the job, too; the cluster sees only what is sent.
    if let Some(name) = context.options.get(&execution::NAME) {
        options.insert(execution::NAME.key().to_owned(), name);
    }
    let words = words(context, args);
    JarRequest {
        entry_class: args.job.clone().or_else(|| context.options.get(&execution::ENTRY)),
        program_args_list: (!words.is_empty()).then_some(words),
        parallelism: args.parallelism.map(i64::from),
        job_id: job_id.map(|id| id.to_string()).or_else(|| context.options.get(&execution::JOB_ID)),
        flink_configuration: (!options.is_empty()).then_some(options),
        ..JarRequest::default()
    }
}

/// Returns a note about each option on the command line that a running cluster can't follow any
/// more.
fn without_effect(overrides: &[(String, String)]) -> Vec<String> {
    let carried = settings::job_options(overrides).into_keys();
    carried
        .filter(|key| !execution::acts_on_a_job(key))
        .map(|key| {
            format!(
                "note: {key} is an option of the cluster's processes and has no effect on a job"
            )
        })
        .collect()
}

/// The outcome of a submission.
enum Submitted {
    /// A job of this id.
    Job(String),
    /// The program was asked for help and has given it.
    Help(Exit),
}

async fn submit(
    context: &Context,
    client: &RestClient,
    program: &Path,
    request: &JarRequest,
) -> Result<Submitted, Failure> {
    let bar = progress_bar(context, program);
    let moved = bar.clone();
    let uploaded = client.upload(program, move |sent| moved.set_position(sent)).await;
    bar.finish_and_clear();
    let uploaded = uploaded.map_err(|e| client::failure(context, client, e))?;
    let answer = client.run(uploaded.jar_id(), request).await;
    // The cluster keeps the program by its content; the upload itself has served its purpose.
    if let Err(e) = client.delete_jar(uploaded.jar_id()).await {
        tracing::debug!(error = %e, "the upload could not be removed");
    }
    match answer {
        Ok(answer) => Ok(Submitted::Job(answer.jobid)),
        Err(ClientError::Refused { errors, usage: Some(usage), .. }) => {
            said_by_program(&errors.join("; "), usage == Usage::Help).map(Submitted::Help)
        }
        Err(error) => Err(client::failure(context, client, error)),
    }
}

/// Makes the outcome of a program's own text about its arguments: help is printed and is a success;
/// a complaint becomes a usage error in the program's words.
pub(super) fn said_by_program(words: &str, help: bool) -> Outcome {
    if help {
        super::show(words.trim_end())?;
        return Ok(Exit::Success);
    }
    // The failure is said to be an error once more.
    Err(Failure::usage(words.strip_prefix("error: ").unwrap_or(words).trim_end()))
}

fn progress_bar(context: &Context, program: &Path) -> ProgressBar {
    let bytes = std::fs::metadata(program).map_or(0, |m| m.len());
    let target = if context.print.is_json() {
        ProgressDrawTarget::hidden()
    } else {
        // Draws on terminals only.
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    let style = ProgressStyle::with_template("uploading {bar:30} {bytes}/{total_bytes} {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::super::args::{Common, Output};
    use super::super::output::Printer;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        program: ProgramArgs,
    }

    fn requested(words: &[&str]) -> JarRequest {
        let line = CommandLine::parse_from(["run"].iter().chain(words));
        let overrides = settings::pairs(&line.common.define).unwrap();
        let context = Context {
            options: conf::Options::from_map(overrides.clone()).unwrap(),
            overrides,
            common: line.common,
            print: Printer::new(Output::Text),
        };
        request(&context, &line.program, None)
    }

    #[test]
    fn options_that_name_the_job_are_sent() {
        let id = "000000000000000000000000000000ab";
        let given = format!("pipeline.job-id={id}");
        let sent = requested(&[
            "-D",
            "pipeline.name=hello",
            "-D",
            &given,
            "-D",
            "pipeline.entry=second",
            "prog",
        ]);
        assert_eq!(sent.flink_configuration.unwrap()["pipeline.name"], "hello");
        let named = (sent.job_id.as_deref(), sent.entry_class.as_deref());
        assert_eq!(named, (Some(id), Some("second")));
        let explicit = requested(&["-D", "pipeline.entry=second", "--job", "first", "prog", "a"]);
        assert_eq!(explicit.entry_class.as_deref(), Some("first"));
        assert_eq!(explicit.program_args_list.unwrap(), ["a"]);
        assert_eq!(requested(&["prog"]), JarRequest::default());
        let of_cluster = requested(&["-D", "taskmanager.numberOfTaskSlots=4", "prog"]);
        assert_eq!(of_cluster.flink_configuration, None);
    }

    #[test]
    fn options_of_the_cluster_are_noted() {
        let given = ["taskmanager.numberOfTaskSlots", "pipeline.name", "rest.port", "program.x"];
        let notes = without_effect(&given.map(|key| (key.to_owned(), "1".to_owned())));
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("taskmanager.numberOfTaskSlots"), "{notes:?}");
    }

    #[test]
    fn a_program_that_refuses_its_arguments_is_wrong_usage_in_its_own_words() {
        let words =
            "error: unexpected argument '--inptu' found\n\nUsage: word_count --input <PATH>\n";
        let failure = said_by_program(words, false).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.starts_with("unexpected argument"), "{failure}");
        assert!(failure.message.ends_with("--input <PATH>"), "{failure}");
        assert_eq!(said_by_program("Counts words\n", true).unwrap(), Exit::Success);
    }
}
