//! One handler per path: decode, ask the component, render. No decision about jobs is made here.

mod checkpoints;
mod cluster;
mod jars;
mod jobs;
mod log_urls;
mod logs;
mod metrics;
mod nodes;
mod savepoints;
mod taskmanagers;

use crate::error::ApiError;
use crate::services::RestServices;
use actix_web::http::Method;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};
use serde::Serialize;

/// The services that every handler uses.
pub(crate) type State = Data<RestServices>;
/// The result of a handler.
pub(crate) type Answer = Result<HttpResponse, ApiError>;

/// Answers with status 200 and a body.
pub(crate) fn ok(body: &impl Serialize) -> Answer {
    Ok(HttpResponse::Ok().json(body))
}

/// Registers all paths, as they stand at `/` and at `/v1/`.
pub(crate) fn routes(config: &mut ServiceConfig) {
    checkpoints::routes(config);
    cluster::routes(config);
    jars::routes(config);
    jobs::routes(config);
    log_urls::routes(config);
    metrics::routes(config);
    nodes::routes(config);
    savepoints::routes(config);
    taskmanagers::routes(config);
}

/// Makes a path with its methods; other methods are answered with 405 and the ones that exist.
pub(crate) fn resource<const N: usize>(
    path: &str,
    methods: [(Method, actix_web::Route); N],
) -> actix_web::Resource {
    let named = |method: &Method| match *method {
        Method::GET => "GET, HEAD".to_owned(),
        _ => method.to_string(),
    };
    let allowed: Vec<String> = methods.iter().map(|(method, _)| named(method)).collect();
    let allowed = allowed.join(", ");
    methods
        .into_iter()
        .fold(web::resource(path), |resource, (_, route)| resource.route(route))
        .default_service(web::to(move |request: HttpRequest| {
            let allowed = allowed.clone();
            async move { method_not_allowed(&request, &allowed) }
        }))
}

/// Returns a route that serves GET, and HEAD without the body.
pub(crate) fn get_or_head() -> actix_web::Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

fn method_not_allowed(request: &HttpRequest, allowed: &str) -> HttpResponse {
    let error = ApiError::new(
        actix_web::http::StatusCode::METHOD_NOT_ALLOWED,
        format!("{} is not possible on {}; possible: {allowed}", request.method(), request.path()),
    );
    let mut response = actix_web::ResponseError::error_response(&error);
    if let Ok(value) = actix_web::http::header::HeaderValue::from_str(allowed) {
        response.headers_mut().insert(actix_web::http::header::ALLOW, value);
    }
    response
}

/// Shortcuts for [`resource`]'s pairs.
macro_rules! on {
    (GET $handler:expr) => {
        (actix_web::http::Method::GET, crate::handlers::get_or_head().to($handler))
    };
    (POST $handler:expr) => {
        (actix_web::http::Method::POST, actix_web::web::post().to($handler))
    };
    (PATCH $handler:expr) => {
        (actix_web::http::Method::PATCH, actix_web::web::patch().to($handler))
    };
    (DELETE $handler:expr) => {
        (actix_web::http::Method::DELETE, actix_web::web::delete().to($handler))
    };
}
pub(crate) use on;
