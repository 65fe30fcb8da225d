//! Opens a span for each request, in the trace that the client names or in a new one; every gateway call of the request
//! carries it. Must never refuse a request.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use gateways::TraceContext;
use platform::Platform;

/// The header in which a client names its trace (W3C Trace Context).
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Serves a request in its trace.
pub(crate) async fn traced<B: MessageBody + 'static>(
    platform: Platform,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let named = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
    let named = named.and_then(TraceContext::from_traceparent);
    let mut context = TraceContext::draw(&platform);
    if let Some(named) = named {
        context.trace = named.trace;
    }
    context
        .carry(async move {
            tracing::debug!(method = %request.method(), path = request.path(), "REST request");
            next.call(request).await
        })
        .await
}
