//! An application whose ApplicationMaster is this process.

use super::{Outcome, cluster};
use hadoop::login::Login;
use hadoop::tokens::Credentials;
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationSubmissionContext, ContainerLaunchContext, Resource,
    YarnApplicationState,
};
use std::time::Duration;

pub(crate) fn size(memory: i64) -> Resource {
    Resource { memory: Some(memory), virtual_cores: Some(1), ..Resource::default() }
}

/// The application, and this process as its ApplicationMaster.
pub(crate) async fn submit(yarn: &YarnClient) -> Outcome<(ApplicationId, Login)> {
    let (id, _) = yarn.new_application().await?;
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        application_name: Some("benchmark".to_owned()),
        unmanaged_am: Some(true),
        max_app_attempts: Some(1),
        am_container_spec: Some(ContainerLaunchContext::default()),
        resource: Some(size(64)),
        ..ApplicationSubmissionContext::default()
    };
    yarn.submit(context).await?;
    // The token is there once the attempt is launched, which no state of the application tells.
    let token = loop {
        let report = yarn.report(id).await?;
        if let Some(token) = report.am_rm_token {
            break token.into();
        }
        if report.state() != YarnApplicationState::Accepted {
            return Err(format!("{:?}: {}", report.state(), report.diagnostics()).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut credentials = Credentials::new();
    credentials.add("master", token);
    let conf = cluster::conf()?;
    let user = Login::current(&conf).await?;
    Ok((id, Login::simple(&conf, user.user(), credentials)?))
}
