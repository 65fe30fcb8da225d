//! The error answer to a request that can't be served: a status code and `{"errors": […]}`.
//!
//! This module must never show internals that users can't act on, and never answer a failure with
//! 200.

use crate::access::Refused;
use crate::messages::{ErrorBody, Usage};
use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use gateways::blob_server::BlobError;
use gateways::dispatcher::{JobError, OperationUnknown, SubmitError};
use gateways::job_master::CoordinationError;
use gateways::resource_manager::BlockNodeError;
use gateways::task_executor::LogError;
use gateways::{CallError, FabricError};

/// The error answer to a request, which handlers and the guard before them return and the endpoint sends: a status and `{"errors": […]}`. A
/// failed call of a component becomes one: its refusal by [`AnswerStatus`], a missed deadline with 504, another failure of the call
/// that a repetition may mend (the component is not reached, overloaded, not there or shutting down, or another leader has just taken over
/// there) with 503, any other with 500. Answers with 503 also ask the client to try again after 1 s (`Retry-After`); those with 401 name
/// the scheme `Bearer` (`WWW-Authenticate`).
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{}: {}", self.status, self.errors.join("; "))]
pub struct ApiError {
    /// Status of the HTTP answer.
    pub status: StatusCode,
    /// The messages of the error for the client, the most general first; not empty.
    pub errors: Vec<String>,
    /// Set if the messages are a program's own help or complaint about its arguments, which clients print as they are;
    /// otherwise `None`.
    pub usage: Option<Usage>,
}

impl ApiError {
    /// Makes an error of this status with one message, which the client sees.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, errors: vec![message.into()], usage: None }
    }
    /// Makes the error of status 400 (bad request) with one message: the client must change the request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
    /// Makes the error of status 404 (not found) with one message, which names what is missing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
    /// Makes the error of status 403 (forbidden) with one message, which says why the endpoint does not do this.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }
    /// Makes the error of status 500 (internal error) with one message: the fault is on the endpoint's side.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
    /// Makes the error of status 503 (unavailable): `component` has no leader now, and the client may ask again.
    pub fn no_leader(component: &str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("no leading {component} is known yet; ask again"),
        )
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.status
    }
    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.insert_header((header::RETRY_AFTER, "1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        response.json(ErrorBody { errors: self.errors.clone(), usage: self.usage })
    }
}

/// The error with which a component refuses a call, and the HTTP status that it stands for: by it a refused call of a handler becomes an
/// [`ApiError`] whose message is the refusal's text. Implemented here for the refusals of all gateways that handlers call.
pub trait AnswerStatus: std::error::Error {
    /// Returns the HTTP status of this refusal, 400 or more.
    fn http_status(&self) -> StatusCode;
    /// Returns `Some` if the refusal is a program's own words: `Usage::Help` if help was asked for, `Usage::Wrong` for a
    /// complaint about its arguments. `None` by default.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

impl AnswerStatus for gateways::Never {
    fn http_status(&self) -> StatusCode {
        StatusCode::INTERNAL_SERVER_ERROR
    }
}

impl AnswerStatus for SubmitError {
    fn http_status(&self) -> StatusCode {
        match self {
            Self::DuplicateRunning { .. } | Self::DuplicateTerminated { .. } => {
                StatusCode::CONFLICT
            }
            Self::PartialResources { .. }
            | Self::Build(_)
            | Self::Usage { .. }
            | Self::InvalidGraph(_)
            | Self::Restore(_)
            | Self::CheckpointDirectory(_) => StatusCode::BAD_REQUEST,
            Self::SingleJob { .. } => StatusCode::FORBIDDEN,
            Self::Storage(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoRoom(_) | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
    fn usage(&self) -> Option<Usage> {
        match self {
            Self::Usage { help, .. } => Some(if *help { Usage::Help } else { Usage::Wrong }),
            _ => None,
        }
    }
}

impl AnswerStatus for JobError {
    fn http_status(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Terminated { .. } => StatusCode::CONFLICT,
            Self::DetailsGone { .. } => StatusCode::GONE,
            Self::SavepointDirectory(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl AnswerStatus for OperationUnknown {
    fn http_status(&self) -> StatusCode {
        StatusCode::NOT_FOUND
    }
}

impl AnswerStatus for CoordinationError {
    fn http_status(&self) -> StatusCode {
        match self {
            Self::NoSuchJob { .. } | Self::NoSuchOperator { .. } => StatusCode::NOT_FOUND,
            Self::Unavailable(_) | Self::Unanswered(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::StaleAttempt { .. } => StatusCode::CONFLICT,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl AnswerStatus for BlobError {
    fn http_status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl AnswerStatus for BlockNodeError {
    fn http_status(&self) -> StatusCode {
        match self {
            Self::InvalidName(_) => StatusCode::BAD_REQUEST,
            Self::TooMany(_) => StatusCode::CONFLICT,
        }
    }
}

impl AnswerStatus for LogError {
    fn http_status(&self) -> StatusCode {
        match self {
            Self::NoSuchFile(_) => StatusCode::NOT_FOUND,
            Self::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl<E: AnswerStatus> From<CallError<E>> for ApiError {
    fn from(error: CallError<E>) -> Self {
        match error {
            CallError::Refused(answer) => Self {
                usage: answer.usage(),
                ..Self::new(answer.http_status(), answer.to_string())
            },
            CallError::Fabric(fabric) => fabric.into(),
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let status = match refused.asks_for_token() {
            true => StatusCode::UNAUTHORIZED,
            false => StatusCode::FORBIDDEN,
        };
        Self::new(status, refused.to_string())
    }
}

impl From<FabricError> for ApiError {
    fn from(error: FabricError) -> Self {
        let status = match &error {
            FabricError::DeadlineExceeded { .. } => StatusCode::GATEWAY_TIMEOUT,
            // The leader has just changed: the next request finds the new one.
            FabricError::Fenced { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ if error.is_retriable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
