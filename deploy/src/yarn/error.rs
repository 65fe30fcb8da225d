//! The errors of the client on YARN, each with the exit code with which the client ends.

use crate::cli::Failure;
use crate::exit::Exit;
use hadoop::yarn::YarnError;
use hdfs_native::HdfsError;

/// A failure of one step; its text says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YarnFailure {
    /// The configuration or the command line asks for what cannot be.
    #[error("{0}")]
    Configuration(String),
    /// The cluster refuses the request, or is in a state that does not allow it.
    #[error("{0}")]
    Cluster(String),
    /// An exchange with YARN failed.
    #[error(transparent)]
    Yarn(#[from] YarnError),
    /// The user ended the command.
    #[error("interrupted")]
    Interrupted,
}

impl YarnFailure {
    pub(super) fn configuration(text: impl Into<String>) -> Self {
        Self::Configuration(text.into())
    }

    pub(super) fn cluster(text: impl Into<String>) -> Self {
        Self::Cluster(text.into())
    }
}

impl From<YarnFailure> for Failure {
    fn from(failure: YarnFailure) -> Self {
        let wrong_usage = match &failure {
            YarnFailure::Configuration(_) => true,
            YarnFailure::Yarn(error) => matches!(
                error,
                YarnError::Queue { .. }
                    | YarnError::QueueAmbiguous { .. }
                    | YarnError::Capability { .. }
                    | YarnError::Conf(_)
            ),
            YarnFailure::Cluster(_) | YarnFailure::Interrupted => false,
        };
        Self::new(if wrong_usage { Exit::Usage } else { Exit::StartUpFailed }, failure)
    }
}

/// Returns the first line of what HDFS says; Java's messages go on with a stack.
pub(super) fn hdfs_words(error: &HdfsError) -> String {
    match error {
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
            let text = text.lines().next().unwrap_or_default();
            format!("{}: {text}", class.rsplit('.').next().unwrap_or_default())
        }
        error => error.to_string(),
    }
}
