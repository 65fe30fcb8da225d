//! Runs `flott cancel`: asks the cluster to cancel one job.

use super::args::Cancel;
use super::{Context, Failure, Outcome, client};
use crate::exit::Exit;
use crate::targets;
use serde_json::json;

pub(super) async fn cancel(context: &Context, args: Cancel) -> Outcome {
    let job: model::JobId = args.job.parse().map_err(Failure::usage)?;
    let client = targets::retrieve(context, &args.cluster).await?;
    let cancelled = client.cancel(&job.to_string()).await;
    cancelled.map_err(|e| client::failure(context, &client, e))?;
    context.print.value(&json!({ "jobid": job.to_string(), "cancelled": true }), || {
        format!("job {job} is being cancelled")
    })?;
    Ok(Exit::Success)
}
