//! Measures the cost of an ApplicationMaster's question for the ResourceManager: `allocate` with a wish that is not met, one
//! after the other, and the CPU time that the ResourceManager's process takes for it.

use super::{Outcome, RUNS, cluster, report, unmanaged};
use hadoop::client::{CallOptions, Client, Options, Proxy};
use hadoop::login::Service;
use hadoop::yarn::messages::{
    AllocateResponse, FinalApplicationStatus, FinishApplicationMasterRequest,
    FinishApplicationMasterResponse, RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
};
use hadoop::yarn::{Ask, Master, Place, resource_managers, retry_policy};
use std::time::{Duration, Instant};

/// Number of calls in one round.
const CALLS: u32 = 5_000;
/// Time for which the ResourceManager is watched while no client asks it.
const REST: Duration = Duration::from_secs(3);

pub(crate) async fn run() -> Outcome<()> {
    eprintln!("hadoop: what a question costs");
    let (conf, yarn) = (cluster::conf()?, cluster::yarn().await?);
    let (_, login) = unmanaged::submit(&yarn).await?;
    let mut targets = Vec::new();
    for rm in resource_managers(&conf, Service::Scheduler)? {
        targets.push(login.target(Service::Scheduler, &rm.host, rm.port).await?);
    }
    let proxy = Proxy::new(Client::new(Options::from_conf(&conf)?), targets, retry_policy(&conf)?);
    let mut master = Master::new();
    let request = RegisterApplicationMasterRequest {
        host: Some(String::new()),
        rpc_port: Some(-1),
        ..RegisterApplicationMasterRequest::default()
    };
    let registered: RegisterApplicationMasterResponse =
        proxy.call("registerApplicationMaster", &request, CallOptions::default()).await?;
    master.registered(registered);
    let (host, rack) = ("nowhere".to_owned(), "/default-rack".to_owned());
    let place = Place::OnHost { host, rack };
    master.request(Ask { place, ..Ask::new(1, unmanaged::size(64)) })?;
    let (mut costs, mut times) = (Vec::new(), Vec::new());
    // The first round is for Java's compiler.
    for round in 0..=RUNS {
        let (before, began) = (cluster::cpu("resourcemanager")?, Instant::now());
        tokio::time::sleep(REST).await;
        let idle = (cluster::cpu("resourcemanager")? - before) / began.elapsed().as_secs_f64();
        let (before, began) = (cluster::cpu("resourcemanager")?, Instant::now());
        for _ in 0..CALLS {
            let response: AllocateResponse =
                proxy.call("allocate", &master.allocate(), CallOptions::default()).await?;
            master.allocated(response);
        }
        let took = began.elapsed().as_secs_f64();
        let spent = cluster::cpu("resourcemanager")? - before - idle * took;
        if round > 0 {
            costs.push(spent * 1e6 / f64::from(CALLS));
            times.push(took * 1e6 / f64::from(CALLS));
        }
    }
    report("allocate_daemon_cpu_us", "us", &costs);
    report("allocate_us", "us", &times);
    let request = FinishApplicationMasterRequest {
        final_status: Some(FinalApplicationStatus::Succeeded.into()),
        ..FinishApplicationMasterRequest::default()
    };
    let _: FinishApplicationMasterResponse =
        proxy.call("finishApplicationMaster", &request, CallOptions::default()).await?;
    Ok(())
}
