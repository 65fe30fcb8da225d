//! How soon a container says its first line. Of what passes until then some is the daemons' own: the wait for
//! a NodeManager's heartbeat, and the way of the worker's file to the node. Their logs tell how much.

use super::{Outcome, cluster, report, unmanaged};
use hadoop::login::Login;
use hadoop::yarn::messages::{
    ApplicationId, Container, ContainerId, ContainerLaunchContext, FinalApplicationStatus,
    LocalResource, NodeState,
};
use hadoop::yarn::{
    AmRmClient, AmRmEvents, AmRmOptions, Ask, Finish, MasterEvent, NmClient, Place, Registration,
};
use hdfs_native::{ClientBuilder, WriteOptions};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Each of an application of its own, so that no node has the worker's file already.
const STARTS: u32 = 20;
/// On each node, unmeasured: daemons run for months, and Java is slow at what it does for the first time.
const WARM_UP: usize = 5;

/// Says that it is there.
pub(crate) fn worker(address: &str) -> Outcome<()> {
    let mut stream = TcpStream::connect(address)?;
    writeln!(stream, "here")?;
    Ok(())
}

/// Milliseconds since 1970.
fn now() -> Outcome<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3)
}

pub(crate) async fn run() -> Outcome<()> {
    eprintln!("hadoop: container start, NodeManagers beat every 100 ms");
    measure(Duration::from_millis(100), "_100ms").await?;
    eprintln!("hadoop: container start, NodeManagers beat every second, as YARN has it");
    let _usual = cluster::Changed::usual_beats()?;
    measure(Duration::from_secs(1), "").await
}

/// All figures, with names that end so.
async fn measure(beat: Duration, suffix: &str) -> Outcome<()> {
    for node in cluster::yarn().await?.nodes(&[NodeState::Running]).await? {
        let node = node.node_id.ok_or("a node without an id")?;
        let (host, rack) = (node.to_string(), "/default-rack".to_owned());
        for _ in 0..WARM_UP {
            let place = Place::OnHost { host: host.clone(), rack: rack.clone() };
            start(place, Duration::ZERO).await?;
        }
    }
    let mut parts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for number in 0..STARTS {
        // Nobody's asks keep time with the NodeManagers.
        let start = start(Place::Anywhere, beat * number / STARTS).await?;
        let Start { asked, heard, said, .. } = start;
        let of = Moments::read(start.id, asked)?;
        let (heartbeat, localisation) = (of.allocated - asked, of.localised - of.requested);
        let floor = heartbeat + localisation;
        let daemons = heartbeat + of.launched - of.requested;
        for (name, value) in [
            ("start_ms", said - asked),
            ("floor_ms", floor),
            ("start_over_floor", (said - asked) / floor),
            ("start_over_daemons", (said - asked) / daemons),
            ("heartbeat_ms", heartbeat),
            ("hearing_ms", heard - of.allocated),
            ("request_ms", of.requested - heard),
            ("localisation_ms", localisation),
            ("scheduling_ms", of.launched - of.localised),
            ("launch_ms", said - of.launched),
        ] {
            parts.entry(name).or_default().push(value);
        }
    }
    for (name, runs) in &parts {
        let unit = if name.ends_with("_ms") { "ms" } else { "1" };
        report(&format!("container_{name}{suffix}"), unit, runs);
    }
    Ok(())
}

/// When the daemons did what, by their logs.
struct Moments {
    allocated: f64,
    requested: f64,
    localised: f64,
    launched: f64,
}

impl Moments {
    fn read(id: ContainerId, asked: f64) -> Outcome<Self> {
        let find = |daemon: &str, what: &str| -> Outcome<f64> {
            let id = id.to_string();
            for log in cluster::logs(daemon)? {
                let told = log.lines().find(|line| line.contains(&id) && line.contains(what));
                if let Some(line) = told {
                    return moment(line, asked);
                }
            }
            Err(format!("no '{what}' of {id} in the logs of {daemon}").into())
        };
        Ok(Self {
            allocated: find("resourcemanager", "from NEW to ALLOCATED")?,
            requested: find("nodemanager", "Start request for")?,
            localised: find("nodemanager", "from LOCALIZING to SCHEDULED")?,
            launched: find("nodemanager", "launchContainer: [")?,
        })
    }
}

/// The moment of a line of a log, which says minutes, seconds and milliseconds in some zone of time; zones
/// differ by quarters of an hour, and what is measured is over sooner.
fn moment(line: &str, near: f64) -> Outcome<f64> {
    const QUARTER: f64 = 15.0 * 60e3;
    let time = line.split_whitespace().nth(1).ok_or("a line without a time")?;
    let mut numbers = time.split([':', ',']).map(str::parse::<f64>);
    let mut next = || numbers.next().ok_or("a line without a time");
    let (_, minutes, seconds, millis) = (next()??, next()??, next()??, next()??);
    let since = (minutes * 60.0 + seconds) * 1e3 + millis - near;
    Ok(near + (since + QUARTER / 2.0).rem_euclid(QUARTER) - QUARTER / 2.0)
}

/// A container: when it was asked for, when it was heard of, when it spoke.
struct Start {
    id: ContainerId,
    asked: f64,
    heard: f64,
    said: f64,
}

/// Starts one. It is asked for so much later than everything is ready for it.
async fn start(place: Place, later: Duration) -> Outcome<Start> {
    let (conf, yarn) = (cluster::conf()?, cluster::yarn().await?);
    let (application, login) = unmanaged::submit(&yarn).await?;
    let worker = Worker::upload(application, &login).await?;
    let registration = Registration { rpc_port: -1, ..Registration::default() };
    let (master, mut events) =
        AmRmClient::register(&conf, &login, registration, AmRmOptions::default()).await?;
    let nodes = NmClient::new(&conf, &login)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let launch = worker.launch(&listener.local_addr()?.to_string());
    tokio::time::sleep(later).await;

    let asked = now()?;
    master.request(Ask { place, ..Ask::new(1, unmanaged::size(64)) })?;
    let container = allocated(&mut events).await?;
    let heard = now()?;
    let node = container.node_id.clone().ok_or("a container without a node")?;
    let token = master.nm_token(&node).ok_or("no token for a container's node")?;
    nodes.start(&container, &token, launch).await?;
    let said = tokio::task::spawn_blocking(move || listened(&listener).map_err(|e| e.to_string()));
    let said = said.await??;

    let (status, diagnostics) = (FinalApplicationStatus::Succeeded, String::new());
    master.finish(Finish { status, diagnostics, tracking_url: String::new() }).await?;
    worker.remove().await?;
    Ok(Start { id: container.id.ok_or("a container without an id")?, asked, heard, said })
}

async fn allocated(events: &mut AmRmEvents) -> Outcome<Container> {
    loop {
        match events.next().await?.ok_or("the ApplicationMaster's heart stopped")? {
            MasterEvent::Allocated { container, .. } => return Ok(*container),
            MasterEvent::Refused { reason, .. } => return Err(reason.into()),
            _ => {}
        }
    }
}

fn listened(listener: &TcpListener) -> Outcome<f64> {
    let (stream, _) = listener.accept()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    now()
}

/// This program, in HDFS.
struct Worker {
    hdfs: hdfs_native::Client,
    path: String,
    resource: LocalResource,
}

impl Worker {
    async fn upload(id: ApplicationId, login: &Login) -> Outcome<Self> {
        let conf = cluster::conf()?;
        let mut properties = Vec::new();
        for name in conf.names() {
            properties.push((name.to_owned(), conf.get(name)?.unwrap_or_default()));
        }
        let hdfs = ClientBuilder::new().with_config(properties).with_user(login.user()).build()?;
        let path = format!("/tmp/bench-{id}");
        let mut writer = hdfs.create(&path, WriteOptions::default()).await?;
        writer.write_bytes(std::fs::read(std::env::current_exe()?)?.into()).await?;
        writer.close().await?;
        let status = hdfs.get_file_info(&path).await?;
        let (size, time) = (status.length.try_into()?, status.modification_time.try_into()?);
        let root = conf.require("fs.defaultFS", "files go there")?;
        let uri = format!("{}{path}", root.trim_end_matches('/'));
        Ok(Self { hdfs, path, resource: LocalResource::file(&uri, size, time)? })
    }

    fn launch(&self, address: &str) -> ContainerLaunchContext {
        ContainerLaunchContext::of_command(format!("./worker worker {address}"))
            .with_file("worker", self.resource.clone())
    }

    async fn remove(&self) -> Outcome<()> {
        self.hdfs.delete(&self.path, false).await?;
        Ok(())
    }
}
