//! `/jars*`: programs are uploaded, listed, planned, run and removed. The paths keep Flink's word.

use super::{Answer, State, ok, on, resource};
use crate::decode::{self, ProgramRequest};
use crate::error::ApiError;
use crate::messages::{EmptyBody, JarList, JarRunResponse, JarUploaded, PlanResponse};
use crate::programs::StoredProgram;
use crate::render;
use crate::server::RestUrl;
use crate::upload::store_upload;
use actix_web::HttpRequest;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::{Bytes, Data, Path, Payload, ServiceConfig};
use gateways::blob_server::{
    BlobError, BlobServerGateway, CHUNK_BYTES_MAX, CloseUpload, HasBlob, OpenUpload, ReadBlob,
    UploadChunk,
};
use gateways::dispatcher::{PlanProgram, SubmitError, SubmitProgram};
use gateways::{CallError, Remote};
use model::{BlobKey, BlobKind, ContentHash, ProgramRef};
use std::collections::BTreeMap;
use tokio::io::AsyncReadExt;

/// Gateway of the BlobServer of the JobManager whose Dispatcher leads.
type Blobs = Remote<BlobServerGateway>;

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/jars", [on!(GET list)]))
        .service(resource("/jars/upload", [on!(POST upload)]))
        .service(resource("/jars/{jar}", [on!(DELETE remove)]))
        .service(resource("/jars/{jar}/run", [on!(POST run)]))
        .service(resource("/jars/{jar}/plan", [on!(GET plan), on!(POST plan)]));
}

fn allowed(state: &State) -> Result<(), ApiError> {
    match &state.settings.submit_refused {
        None => Ok(()),
        Some(why) => Err(ApiError::forbidden(why.clone())),
    }
}

async fn list(state: State, url: Data<RestUrl>) -> Answer {
    allowed(&state)?;
    let programs = state.programs.clone();
    let files = tokio::task::spawn_blocking(move || programs.list())
        .await
        .map_err(|e| ApiError::internal(e.to_string()))??;
    ok(&JarList { address: url.0.clone(), files })
}

async fn upload(state: State, request: HttpRequest, body: Payload) -> Answer {
    allowed(&state)?;
    let content_type = request.headers().get(CONTENT_TYPE);
    let unique = state.platform.random_u128();
    let stored = store_upload(content_type, body, &state.programs, unique).await?;
    ok(&JarUploaded { filename: stored.path.display().to_string(), status: "success".to_owned() })
}

async fn remove(state: State, jar: Path<String>) -> Answer {
    allowed(&state)?;
    state.programs.remove(&jar)?;
    ok(&EmptyBody {})
}

async fn run(state: State, jar: Path<String>, request: HttpRequest, body: Bytes) -> Answer {
    allowed(&state)?;
    let asked = decode::program_request(&body, &decode::query_pairs(request.query_string())?)?;
    let stored = state.programs.find(&jar)?;
    let (dispatcher, within) = (state.dispatcher()?, state.settings.build_within);
    let blobs = state.blobs_of(&dispatcher).await?;
    let program = shipped(&state, &blobs, &stored, &asked).await?;
    let submission = SubmitProgram {
        program: program.clone(),
        job_id: asked.job_id,
        parallelism: asked.parallelism,
        options: asked.options,
    };
    let submit = || dispatcher.ask_within(submission.clone(), within);
    let job = with_program(&state, &blobs, &stored, &program, submit).await?;
    ok(&JarRunResponse { jobid: job.to_string() })
}

async fn plan(state: State, jar: Path<String>, request: HttpRequest, body: Bytes) -> Answer {
    allowed(&state)?;
    let asked = decode::program_request(&body, &decode::query_pairs(request.query_string())?)?;
    let stored = state.programs.find(&jar)?;
    let (dispatcher, within) = (state.dispatcher()?, state.settings.build_within);
    let blobs = state.blobs_of(&dispatcher).await?;
    let program = shipped(&state, &blobs, &stored, &asked).await?;
    let question = PlanProgram {
        program: program.clone(),
        parallelism: asked.parallelism,
        options: asked.options,
    };
    let plan = || dispatcher.ask_within(question.clone(), within);
    let graph = with_program(&state, &blobs, &stored, &program, plan).await?;
    ok(&PlanResponse { plan: render::plan(&graph) })
}

/// Puts the program into `blobs`, the BlobServer of the leading JobManager, where every process of the cluster can fetch it, and names it.
async fn shipped(
    state: &State,
    blobs: &Blobs,
    stored: &StoredProgram,
    asked: &ProgramRequest,
) -> Result<ProgramRef, ApiError> {
    let unreadable =
        |e: std::io::Error| ApiError::internal(format!("'{}' cannot be read: {e}", stored.name));
    let (hash, size) = state.programs.content(stored).await.map_err(unreadable)?;
    // The limit is that of a build, so that a slow store delays the submission instead of failing it.
    let within = state.settings.build_within;
    let present = blobs.ask_within(HasBlob { job: None, hash }, within).await?;
    if present.is_none() {
        put_blob(state, blobs, stored, hash).await?;
    }
    Ok(ProgramRef {
        hash,
        name: stored.name.clone(),
        size,
        args: asked.args.clone(),
        env: BTreeMap::new(),
        once: BTreeMap::new(),
        job: asked.entry.clone(),
    })
}

/// Sends a request that needs the program's blob. If the blob has been removed meanwhile, uploads
/// it again and repeats the request, once: the Dispatcher of another JobManager removes it with its
/// last job and does not know that this endpoint relies on it.
async fn with_program<T, F>(
    state: &State,
    blobs: &Blobs,
    stored: &StoredProgram,
    program: &ProgramRef,
    ask: impl Fn() -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, CallError<SubmitError>>>,
{
    match ask().await {
        Err(CallError::Refused(SubmitError::Build(_))) if is_gone(state, blobs, program).await => {
            put_blob(state, blobs, stored, program.hash).await?;
            Ok(ask().await?)
        }
        answer => Ok(answer?),
    }
}

async fn is_gone(state: &State, blobs: &Blobs, program: &ProgramRef) -> bool {
    let ProgramRef { hash, size, .. } = *program;
    let key = BlobKey { job: None, hash, kind: BlobKind::Permanent, size };
    let look = ReadBlob { key, offset: 0, max: 1 };
    let looked = blobs.ask_within(look, state.settings.answer_within).await;
    matches!(looked, Err(CallError::Refused(BlobError::NotFound(_))))
}

async fn put_blob(
    state: &State,
    blobs: &Blobs,
    stored: &StoredProgram,
    hash: ContentHash,
) -> Result<(), ApiError> {
    let unreadable =
        |e: std::io::Error| ApiError::internal(format!("'{}' cannot be read: {e}", stored.name));
    let within = state.settings.build_within;
    let upload =
        blobs.ask_within(OpenUpload { job: None, kind: BlobKind::Permanent }, within).await?;
    let mut file = tokio::fs::File::open(&stored.path).await.map_err(unreadable)?;
    let mut offset = 0_u64;
    loop {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES_MAX);
        (&mut file)
            .take(CHUNK_BYTES_MAX as u64)
            .read_to_end(&mut bytes)
            .await
            .map_err(unreadable)?;
        if bytes.is_empty() {
            break;
        }
        let next = offset + bytes.len() as u64;
        let chunk = UploadChunk { upload, offset, bytes };
        blobs.ask_within(chunk, within).await?;
        offset = next;
    }
    blobs.ask_within(CloseUpload { upload, hash }, within).await?;
    Ok(())
}
