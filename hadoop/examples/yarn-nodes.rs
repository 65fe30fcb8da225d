//! Lists the nodes and queues of a cluster: `HADOOP_CONF_DIR=… cargo run -p hadoop --example yarn-nodes`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "that is what it is for")]

use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::yarn::{YarnClient, YarnError};
use std::process::ExitCode;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match list().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn list() -> Result<(), YarnError> {
    let conf = Configuration::load()?;
    let login = Login::current(&conf).await?;
    let yarn = YarnClient::new(&conf, login).await?.with_deadline(Duration::from_secs(30));
    let metrics = yarn.metrics().await?;
    println!("{} active nodes of {}", metrics.num_active_nms(), metrics.num_node_managers());
    for node in yarn.nodes(&[]).await? {
        let (used, all) =
            (node.used.clone().unwrap_or_default(), node.capability.clone().unwrap_or_default());
        println!(
            "{}\t{:?}\t{} of {} MiB\t{} of {} cores\t{} containers",
            node.node_id.clone().unwrap_or_default(),
            node.node_state(),
            used.memory(),
            all.memory(),
            used.virtual_cores(),
            all.virtual_cores(),
            node.num_containers(),
        );
    }
    for (path, queue) in yarn.leaf_queues().await? {
        println!(
            "{path}\t{:?}\t{:.0} % of its capacity in use",
            queue.state(),
            queue.current_capacity() * 100.0
        );
    }
    Ok(())
}
