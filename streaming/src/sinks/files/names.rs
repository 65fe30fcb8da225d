//! The names of part files, of which each attempt of a subtask has its own.

use crate::operators::OperatorContext;
use sha2::{Digest, Sha256};

/// Makes the names of one attempt, and recognises those of others.
#[derive(Debug, Clone)]
pub(in crate::sinks) struct Names {
    subtask: u32,
    parallelism: u32,
    /// Differs in each attempt of each job: 16 hexadecimal digits.
    run: String,
    /// The same in all attempts of the sink: the job and the operator.
    pub(in crate::sinks) owner: String,
    suffix: String,
}

impl Names {
    pub(in crate::sinks) fn of(context: &OperatorContext, suffix: &str) -> Self {
        let owner = format!("{}-{}", context.job_id(), context.operator);
        let attempt = context.attempt();
        let mut hasher = Sha256::new();
        hasher.update(owner.as_bytes());
        hasher.update(attempt.graph.to_le_bytes());
        hasher.update(attempt.subtask.to_le_bytes());
        hasher.update(attempt.attempt.to_le_bytes());
        let run = hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let (subtask, parallelism) = (context.subtask(), context.parallelism());
        Self { subtask, parallelism, run, owner, suffix: suffix.to_owned() }
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
        let ours = |subtask| subtask % self.parallelism.max(1) == self.subtask;
        subtask.is_some_and(ours) && run.is_some_and(|run| !run.starts_with(&self.run))
    }
}
