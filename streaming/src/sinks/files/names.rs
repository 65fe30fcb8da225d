//! The names of part files, of which each attempt of a subtask has its own.

use crate::operators::OperatorContext;
use sha2::{Digest, Sha256};
use storage::output;

/// Makes the names of one attempt, and recognises those of others.
#[derive(Debug, Clone)]
pub(in crate::sinks) struct Names {
    subtask: u32,
    parallelism: u32,
    /// The run of the job under one JobMaster, and the number of the attempt in it, from 0.
    graph: u64,
    attempt: u32,
    /// The owner's tag and 16 more hexadecimal digits, which differ in each attempt of each job.
    run: String,
    /// The same in all attempts of the sink: the job and the operator.
    pub(in crate::sinks) owner: String,
    suffix: String,
}

impl Names {
    pub(in crate::sinks) fn of(context: &OperatorContext, suffix: &str) -> Self {
        let owner = format!("{}-{}", context.job_id(), context.operator);
        let attempt = context.attempt();
        let run = run(&owner, attempt.graph, attempt.subtask, attempt.attempt);
        let (subtask, parallelism) = (context.subtask(), context.parallelism());
        let (graph, attempt, suffix) = (attempt.graph, attempt.attempt, suffix.to_owned());
        Self { subtask, parallelism, graph, attempt, run, owner, suffix }
    }

    pub(in crate::sinks) fn subtask(&self) -> u32 {
        self.subtask
    }

    /// Returns the final name of a part.
    pub(in crate::sinks) fn part(&self, count: u32) -> String {
        format!("part-{:05}-{count:05}-{}{}", self.subtask, self.run, self.suffix)
    }

    /// Returns the name of the mark that the attempt leaves in the folder at its start.
    pub(in crate::sinks) fn mark(&self) -> String {
        format!("part-{:05}-mark-{}", self.subtask, self.run)
    }

    /// Returns whether a part, or a mark, is one of an earlier attempt of a subtask that this one has taken over from.
    pub(in crate::sinks) fn is_leftover(&self, part: &str) -> bool {
        let mut fields = part.strip_prefix("part-").unwrap_or_default().splitn(3, '-');
        let (subtask, _, run) = (fields.next(), fields.next(), fields.next());
        let subtask = subtask.and_then(|subtask| subtask.parse::<u32>().ok());
        let ours = |subtask| self.takes_over(subtask);
        subtask.is_some_and(ours) && run.is_some_and(|run| !run.starts_with(&self.run))
    }

    fn takes_over(&self, subtask: u32) -> bool {
        subtask % self.parallelism.max(1) == self.subtask
    }

    /// Returns whether this is the name of the mark of an attempt that this one has superseded: an earlier one under the same JobMaster, of
    /// a subtask that this one has taken over from. Of another JobMaster's attempts nobody can tell by the name which is the later one.
    pub(in crate::sinks) fn is_superseded_mark(&self, name: &str) -> bool {
        let mark = name.strip_prefix("part-").and_then(|name| name.split_once("-mark-"));
        let Some((subtask, of)) = mark.and_then(|(s, of)| Some((s.parse().ok()?, of))) else {
            return false;
        };
        let is_of = |attempt| of == run(&self.owner, self.graph, subtask, attempt);
        self.takes_over(subtask) && (0..self.attempt).rev().any(is_of)
    }

    /// Returns whether an earlier attempt under the same JobMaster may have left marks.
    pub(in crate::sinks) fn has_predecessor(&self) -> bool {
        self.attempt > 0
    }
}

/// Returns the part of a name that differs in each attempt of each job. It begins with the owner's tag, by which a folder on S3 finds the
/// uploads of the owner.
fn run(owner: &str, graph: u64, subtask: u32, attempt: u32) -> String {
    let mut hasher = Sha256::new();
    hasher.update(owner.as_bytes());
    hasher.update(graph.to_le_bytes());
    hasher.update(subtask.to_le_bytes());
    hasher.update(attempt.to_le_bytes());
    let digits = hasher
        .finalize()
        .iter()
        .take(8)
        .fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    format!("{}-{digits}", output::tag(owner))
}
