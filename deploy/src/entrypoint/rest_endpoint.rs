//! The REST endpoint of a JobManager process: its settings from the options.

use crate::components::{ComponentError, ReadyServices};
use crate::entrypoint::StartError;
use crate::hosts;
use crate::logging::LogPlace;
use crate::programs::UploadChecker;
use crate::version;
use conf::{Options, rest as options_of_rest};
use gateways::leader_election::Component;
use rest::access::Access;
use rest::messages::ConfigurationEntry;
use rest::{
    BodyLimits, ProgramStore, RestBind, RestHandle, RestListener, RestServer, RestServices,
    RestSettings, RestStartError,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The Dispatcher gives a program two and a half minutes to build its graph.
const BUILD_WITHIN: Duration = Duration::from_secs(160);

/// Binds the endpoint's port.
pub(super) fn bind(options: &Options) -> Result<(RestBind, RestListener), StartError> {
    let host = options.get(&options_of_rest::BIND_ADDRESS);
    let address = hosts::bind_address(&host)
        .map_err(|e| StartError::storage(format!("rest.bind-address {host}"), e))?;
    let bind = RestBind {
        address,
        ports: options.get(&options_of_rest::BIND_PORT).iter().collect(),
        advertised_host: options.get(&options_of_rest::ADDRESS),
    };
    let listener = RestListener::bind(&bind).map_err(|e| not_bound(options, &e))?;
    Ok((bind, listener))
}

fn not_bound(options: &Options, why: &RestStartError) -> StartError {
    let own = options.is_set(&options_of_rest::BIND_PORT);
    let ports = if own { options_of_rest::BIND_PORT.key() } else { options_of_rest::PORT.key() };
    let host = options_of_rest::BIND_ADDRESS.key();
    StartError::Port { why: why.to_string(), ports, host }
}

/// The settings of one process's REST endpoint.
pub(super) struct EndpointPlan {
    /// Address that the endpoint binds, and the one that it publishes.
    pub(super) bind: RestBind,
    /// Rules by which requests are allowed; `None`: every request is.
    pub(super) access: Option<Access>,
    /// The options that are shown.
    pub(super) options: Arc<Options>,
    /// Place of the process's log.
    pub(super) log: LogPlace,
    /// Folder of uploads unless `web.upload.dir` is set.
    pub(super) uploads: PathBuf,
    /// Name of the mode if it takes no programs; `None` if it does.
    pub(super) single_job: Option<&'static str>,
}

/// Starts the endpoint on this thread's `LocalSet`.
pub(super) fn start(
    plan: EndpointPlan,
    listener: RestListener,
    ready: &ReadyServices,
) -> Result<RestHandle, ComponentError> {
    let options = &plan.options;
    let failed = |why: String| ComponentError::Storage { component: "REST", why };
    let folder = options.get(&options_of_rest::UPLOAD_DIR).unwrap_or_else(|| plan.uploads.clone());
    let bytes_max = options.get(&options_of_rest::MAX_UPLOAD_SIZE).0;
    let checker = UploadChecker::new(ready.services.rpc.clone(), options, folder.clone());
    let programs = ProgramStore::open(folder.clone(), bytes_max, Arc::new(checker))
        .map_err(|e| failed(format!("{}: {e}", folder.display())))?;
    let in_use = ready.blobs_in_use.clone();
    let programs = programs.telling(move |uploaded| in_use.set_uploaded(uploaded));
    let services = RestServices {
        platform: ready.platform.clone(),
        rpc: ready.services.rpc.clone(),
        dispatcher: ready.leader(Component::Dispatcher),
        resource_manager: ready.leader(Component::ResourceManager),
        blobs: ready.blobs.clone(),
        programs,
        settings: settings(&plan),
    };
    let server = RestServer::start(listener, services).map_err(|e| failed(e.to_string()))?;
    let handle = server.handle();
    let fatal = ready.services.fatal.clone();
    tokio::task::spawn_local(async move {
        if let Err(error) = server.run().await {
            fatal.report("REST", error.to_string());
        }
    });
    Ok(handle)
}

fn settings(plan: &EndpointPlan) -> RestSettings {
    let options = &plan.options;
    let configuration = options
        .to_masked_map()
        .into_iter()
        .map(|(key, value)| ConfigurationEntry { key, value })
        .collect();
    let bytes = options.get(&options_of_rest::MAX_CONTENT_LENGTH).0;
    let refresh = options.get(&options_of_rest::REFRESH_INTERVAL).as_millis();
    let answer_within = options.get(&conf::rpc::ASK_TIMEOUT);
    RestSettings {
        version: version::VERSION.to_owned(),
        commit: version::COMMIT.to_owned(),
        configuration,
        log_dir: plan.log.folder(),
        log_file: plan.log.file_name(),
        log_page: crate::target::log_page(&plan.options),
        refresh_interval_ms: u64::try_from(refresh).unwrap_or(u64::MAX),
        access: plan.access.clone(),
        submit_refused: submit_refused(plan),
        cancel_allowed: options.get(&options_of_rest::CANCEL_ENABLE),
        connections_max: usize::try_from(options.get(&options_of_rest::MAX_CONNECTIONS))
            .unwrap_or(usize::MAX),
        bodies: BodyLimits {
            each: usize::try_from(bytes).unwrap_or(usize::MAX),
            ..BodyLimits::default()
        },
        answer_within,
        build_within: BUILD_WITHIN,
    }
}

/// Returns the reason why uploads and submissions are refused, `None` if they are allowed. Unless
/// `web.submit.enable` is set, they are refused on an endpoint that is reachable from other
/// machines without a token: otherwise everybody who reaches it could run any program.
fn submit_refused(plan: &EndpointPlan) -> Option<String> {
    if let Some(mode) = plan.single_job {
        return Some(format!(
            "this cluster runs one application and takes no programs ({mode} mode)"
        ));
    }
    match plan.options.get(&options_of_rest::SUBMIT_ENABLE) {
        Some(true) => None,
        Some(false) => Some("programs are not taken by REST (web.submit.enable)".to_owned()),
        None if plan.bind.is_loopback() || plan.access.is_some() => None,
        None => Some(
            "programs are taken by REST on loopback only, because no token protects it; to take them on another \
             interface, where anybody who reaches it can run anything, set web.submit.enable"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rest::access::BearerToken;
    use std::net::IpAddr;

    fn plan(address: [u8; 4], options: &[(&str, &str)]) -> EndpointPlan {
        EndpointPlan {
            bind: RestBind {
                address: IpAddr::from(address),
                ports: vec![0],
                advertised_host: "h".to_owned(),
            },
            access: None,
            options: Arc::new(Options::from_map(options.iter().copied()).unwrap()),
            log: LogPlace::default(),
            uploads: PathBuf::from("/nowhere"),
            single_job: None,
        }
    }

    #[test]
    fn programs_are_taken_on_loopback_with_a_token_or_when_allowed() {
        assert_eq!(submit_refused(&plan([127, 0, 0, 1], &[])), None);
        assert!(submit_refused(&plan([0, 0, 0, 0], &[])).is_some());
        let token = BearerToken::new(&"x".repeat(32)).unwrap();
        let access = Some(Access { token, proxy: None });
        let protected =
            |options| EndpointPlan { access: access.clone(), ..plan([0, 0, 0, 0], options) };
        assert_eq!(submit_refused(&protected(&[])), None);
        assert!(submit_refused(&protected(&[("web.submit.enable", "false")])).is_some());
        let allowed = [("web.submit.enable", "true")];
        assert_eq!(submit_refused(&plan([0, 0, 0, 0], &allowed)), None);
        let forbidden = [("web.submit.enable", "false")];
        assert!(submit_refused(&plan([127, 0, 0, 1], &forbidden)).is_some());
        let mut single = plan([127, 0, 0, 1], &allowed);
        single.single_job = Some("application");
        assert!(submit_refused(&single).unwrap().contains("application"));
    }
}
