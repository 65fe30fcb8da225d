//! The reasons why a task fails.

use crate::types::CodecError;
use model::FailureCause;
use thiserror::Error;

/// The reason why a task failed; [`TaskError::is_recoverable`] says after which ones a restart may help.
///
/// ```
/// use streaming::{TaskError, testing};
///
/// /// Returns where the fault of a failure is.
/// fn place(error: &TaskError) -> &'static str {
///     match error {
///         TaskError::User { .. } | TaskError::Panicked { .. } => "a function of the program",
///         TaskError::Codec { .. } => "a type of the program",
///         TaskError::Deployment(_) => "the program or the state that it is restored from",
///         TaskError::InvalidOption { .. } => "an option of the job",
///         TaskError::Io { .. } | TaskError::Input { .. } => "a system that is read or written",
///         TaskError::Output { .. } => "a system that is written",
///         TaskError::Coordinator { .. } => "a source's enumerator or a sink's collector",
///         TaskError::Restore { .. } | TaskError::Unreadable(_) => "a checkpoint",
///     }
/// }
///
/// let count = testing::key_by_value(|n: &u64| n % 2).count();
/// let damaged = count.restore([vec![0xff]]).open().map(drop).unwrap_err();
/// assert_eq!((place(&damaged), damaged.kind()), ("a checkpoint", "CodecError"));
/// assert!(damaged.is_recoverable());
///
/// let mut map = testing::operator(streaming::operators::TryMap::new(|n: u64| -> Result<u64, _> {
///     u64::checked_sub(n, 1).ok_or("there is no number before 0")
/// }))
/// .open()?;
/// let refused = map.push(0).unwrap_err();
/// assert_eq!(refused.to_string(), "operator 'test' failed: there is no number before 0");
/// # Ok::<(), TaskError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TaskError {
    /// User code returned an error, or the function of a custom partitioner chose a subtask that does not exist.
    #[error("operator '{operator}' failed: {message}")]
    User {
        /// Name of the operator.
        operator: String,
        /// Text of the error.
        message: String,
    },
    /// User code, or other code that runs on the task's thread, panicked; the panic was caught.
    #[error("the code of chain '{chain}' panicked: {message}")]
    Panicked {
        /// Name of the chain or task.
        chain: String,
        /// Message and place of the panic.
        message: String,
    },
    /// A source or sink failed to read or write its system, or keyed state or the state to restore could not be read this time.
    #[error("operator '{operator}': {what}: {why}")]
    Io {
        /// Name of the operator.
        operator: String,
        /// The operation that failed, and on which object.
        what: String,
        /// Text of the system's error.
        why: String,
    },
    /// A source's input has changed since the job started or is of a kind that cannot be read, or windows of event time have got a record
    /// without one. A restart would fail the same way.
    #[error("operator '{operator}': the input {what}")]
    Input {
        /// Name of the operator.
        operator: String,
        /// Name of the input, and what is wrong with it; follows `the input` in the message.
        what: String,
    },
    /// A sink's output can never be written or committed: a wrong URI or suffix, a folder that is not shared or has other files, a lost
    /// file, or [`CommitError::Failed`](crate::sinks::CommitError::Failed). A restart would fail the same way.
    #[error("operator '{operator}': the output {what}")]
    Output {
        /// Name of the operator.
        operator: String,
        /// Name of the output or of its checkpoint, and what is wrong with it; follows `the output` in the message.
        what: String,
    },
    /// The operator's coordinator refused a call or did not answer within 60 to 120 s, or 4,096 calls of the task had no answer yet.
    #[error("a call of operator '{operator}' to its coordinator failed: {why}")]
    Coordinator {
        /// Name of the operator.
        operator: String,
        /// The coordinator's reason, or why it cannot be reached.
        why: String,
    },
    /// Bytes of a coordinator cannot be decoded, state cannot be encoded, or a batch has another record type than its edge. If a batch
    /// cannot be encoded for another process, or decoded, the exchange fails the task with the same kind and without this error.
    #[error("'{place}' cannot encode or decode a value: {source}")]
    Codec {
        /// Name of the operator, or for a batch the name of the chain.
        place: String,
        /// The codec's error.
        source: CodecError,
    },
    /// The operator's state in the checkpoint or savepoint that the task is restored from cannot be decoded. Its kind is that of `Codec`.
    #[error(
        "operator '{operator}' cannot decode its state of the checkpoint or savepoint that the task is restored from: {source}; restore \
         with the program that wrote the state, or from another checkpoint or savepoint"
    )]
    Restore {
        /// Name of the operator whose state it is.
        operator: String,
        /// The codec's error.
        source: CodecError,
    },
    /// A file of the checkpoint that the task is restored from is lost or damaged. Restarts from this checkpoint fail the same way;
    /// the JobMaster decides whether the job continues from an older one.
    #[error("the state to restore can't be read: {0}")]
    Unreadable(String),
    /// `execution.buffer-timeout`(`.interval`) or `pipeline.auto-watermark-interval` is no duration. A restart would read it again.
    #[error(
        "job option '{key}': '{text}' is not a duration: a number with ms, s, min, h or d, e.g. 10 s"
    )]
    InvalidOption {
        /// Key of the option.
        key: String,
        /// Text of the value.
        text: String,
    },
    /// The deployment does not match the program: a vertex, edge, port or operator is missing or unknown. Also restored state of another
    /// type or format than the program's, a side output that is used with two types, or a wrong `sink.committer.retries`.
    #[error("the task does not fit the program: {0}")]
    Deployment(String),
}

impl TaskError {
    /// Returns false for `Deployment`, `InvalidOption`, `Input` and `Output`: the job fails, because a restart would fail the same way.
    /// Else true: the restart strategy decides. Where none is configured, errors of user code and codecs fail the job all the same.
    pub fn is_recoverable(&self) -> bool {
        !matches!(
            self,
            Self::Deployment(_)
                | Self::InvalidOption { .. }
                | Self::Input { .. }
                | Self::Output { .. }
        )
    }
    /// Returns the stable name of the error's kind, such as `IoError`. A task's `FailureCause` has the same kind, except that a panic is
    /// reported as `UserError`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User { .. } => "UserError",
            Self::Panicked { .. } => "UserPanic",
            Self::Io { .. } => "IoError",
            Self::Input { .. } => "InputError",
            Self::Output { .. } => "OutputError",
            Self::Coordinator { .. } => "CoordinatorUnavailable",
            Self::Codec { .. } | Self::Restore { .. } => "CodecError",
            Self::Unreadable(_) => FailureCause::CHECKPOINT_UNREADABLE,
            Self::InvalidOption { .. } => "InvalidOption",
            Self::Deployment(_) => "DeploymentMismatch",
        }
    }
}
