//! Two ResourceManagers, of which the active one is lost. It needs the cluster of `cargo xtask yarn up --ha`.

use super::faults::survives;
use super::{Daemon, conf, until};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The id of the active ResourceManager, by its own word.
fn active() -> Option<String> {
    let conf = conf();
    let ids = conf.get_list("yarn.resourcemanager.ha.rm-ids").unwrap();
    assert_eq!(ids.len(), 2, "this needs a cluster of --ha");
    ids.into_iter().find(|id| {
        let address = format!("yarn.resourcemanager.webapp.address.{id}");
        let address = conf.get(&address).unwrap().unwrap();
        let mut answer = String::new();
        // One that is dead, or not up yet, does not answer.
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            let request = "GET /ws/v1/cluster/info HTTP/1.0\r\nAccept: application/json\r\n\r\n";
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.contains("\"haState\":\"ACTIVE\"")
    })
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up --ha`, named by HADOOP_CONF_DIR"]
async fn the_other_resource_manager_takes_over_for_everybody() {
    let first = until("an active ResourceManager", async || active()).await;
    let name = |id: &str| id.replace("rm", "resourcemanager");
    let mut dead = None;
    survives(async || dead = Some(Daemon::kill(&name(&first)))).await;
    let second = until("another active ResourceManager", async || active()).await;
    assert_ne!(first, second);
    drop(dead);
    assert_eq!(active(), Some(second), "the first one stands by when it is back");
}
