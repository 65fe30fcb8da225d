//! `flott run-application`: starts a cluster for one program and says where it is.

use super::args::{ClusterArgs, RunApplication};
use super::{Context, Failure, Outcome, run};
use crate::exit::Exit;
use crate::targets::{self, Application, ClusterSpecification};

pub(super) async fn run_application(context: &Context, args: RunApplication) -> Outcome {
    run::refuse(&args.refused)?;
    let choice = &targets::RUN_APPLICATION;
    let target = targets::choose(&context.options, args.target.as_deref(), choice)?;
    let spec = ClusterSpecification::of(&context.options)?;
    let program = run::local_program(&args.program)?;
    let program = std::path::absolute(&program).map_err(Failure::start)?;
    let application = Application { program, args: args.program, job_id: args.job_id };
    let descriptor = targets::descriptor(context, target, &ClusterArgs::default())?;
    let deployed = descriptor.deploy(spec, application).await?;
    context.print.value(&deployed.value, || deployed.text.clone())?;
    Ok(Exit::Success)
}
