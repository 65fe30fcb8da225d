//! The floor of the benchmark `yarn`: the least that a client, an ApplicationMaster and one worker can do on YARN
//! with the crate hadoop, when the same bytes have to reach the nodes.
//!
//! One program is all three. The client puts itself and two small files into HDFS and submits; the ApplicationMaster asks
//! for one container and starts the worker; the worker connects to whoever measures and ends when that hangs up. It
//! must never use anything of Flott.

use anyhow::{Context, Result, bail};
use benches::yarn::hdfs::hdfs;
use clap::Parser;
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::yarn::messages::{
    ApplicationSubmissionContext, Container, ContainerLaunchContext, FinalApplicationStatus,
    LocalResource, LocalResourceVisibility, Resource,
};
use hadoop::yarn::{
    AmRmClient, AmRmOptions, Ask, ContainerExit, Finish, MasterEvent, NmClient, Registration,
    YarnClient,
};
use hdfs_native::{Client, WriteOptions};
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

/// The sizes of both containers, which are those of Flott's.
const MEMORY_MIB: i64 = 1728;
/// Variables of the containers: the files, their places, and the address of the measuring process.
const FILES: &str = "FLOOR_FILES";
const FOLDER: &str = "FLOOR_FOLDER";
const MEASURER: &str = "FLOOR_MEASURER";
const PROGRAM: &str = "program";
/// Bytes of an options file.
const OPTIONS: usize = 1000;

/// Submits an application that does nothing.
#[derive(Parser)]
enum Role {
    /// Submits the application and waits until it runs.
    Submit {
        /// This program, as large as the one that it is compared with.
        #[arg(long)]
        program: PathBuf,
        /// Folder in HDFS that keeps the program for all applications.
        #[arg(long)]
        cache: String,
        /// The address that the worker connects to.
        #[arg(long)]
        measurer: String,
    },
    /// The process is YARN's ApplicationMaster.
    Master,
    /// The process is a worker, started in a container.
    Worker,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Role::parse() {
        Role::Submit { program, cache, measurer } => submit(&program, &cache, &measurer).await,
        Role::Master => master().await,
        Role::Worker => worker(),
    }
}

/// A file that nodes fetch.
struct File {
    name: String,
    uri: String,
    size: i64,
    time: i64,
    public: bool,
}

impl File {
    async fn at(hdfs: &Client, root: &str, path: &str, name: &str, public: bool) -> Result<Self> {
        let status = hdfs.get_file_info(path).await?;
        let (name, uri) = (name.to_owned(), format!("{root}{path}"));
        let time = i64::try_from(status.modification_time)?;
        Ok(Self { name, uri, size: i64::try_from(status.length)?, time, public })
    }

    fn show(&self) -> String {
        let Self { name, uri, size, time, public } = self;
        format!("{name},{uri},{size},{time},{public}")
    }

    fn parse(text: &str) -> Result<Self> {
        let [name, uri, size, time, public] = text.split(',').collect::<Vec<_>>()[..] else {
            bail!("'{text}' is no file of this program");
        };
        let (name, uri, public) = (name.to_owned(), uri.to_owned(), public.parse()?);
        Ok(Self { name, uri, size: size.parse()?, time: time.parse()?, public })
    }
}

async fn submit(program: &PathBuf, cache: &str, measurer: &str) -> Result<()> {
    let conf = Configuration::load()?;
    let login = Login::current(&conf).await?;
    let yarn = YarnClient::new(&conf, login.clone()).await?;
    let (id, _) = yarn.new_application().await?;
    let hdfs = hdfs(&conf, &login)?;
    let root = conf.require("fs.defaultFS", "files go there")?;
    let root = root.trim_end_matches('/');
    let folder = format!("/user/{}/.floor/{id}", login.short_name());

    let kept = format!("{cache}/{PROGRAM}");
    let provide = async {
        if hdfs.get_file_info(&kept).await.is_err() {
            hdfs.mkdirs(cache, 0o755, true).await?;
            write(&hdfs, &kept, 0o444, tokio::fs::read(program).await?).await?;
        }
        File::at(&hdfs, root, &kept, PROGRAM, true).await
    };
    let put = async |name: &str, bytes| {
        let path = format!("{folder}/{name}");
        write(&hdfs, &path, 0o600, bytes).await?;
        File::at(&hdfs, root, &path, name, false).await
    };
    // All at a time, as Flott's client does it.
    let site = conf.to_xml(true)?.into_bytes();
    let (program, site, options) = futures::try_join!(
        provide,
        put("yarn-site.xml", site),
        put("options", vec![b'#'; OPTIONS])
    )?;
    let files = [program, site, options];
    let shown: Vec<String> = files.iter().map(File::show).collect();
    let values = [shown.join(" "), folder, measurer.to_owned()];
    yarn.submit(ApplicationSubmissionContext {
        application_id: Some(id),
        application_name: Some("floor".to_owned()),
        application_type: Some("FLOOR".to_owned()),
        am_container_spec: Some(launch("master", &files, &values)?),
        resource: Some(size()),
        max_app_attempts: Some(1),
        ..ApplicationSubmissionContext::default()
    })
    .await?;
    // Whoever measures reads it.
    Ok(writeln!(std::io::stdout(), "{id}")?)
}

async fn write(hdfs: &Client, path: &str, mode: u32, bytes: Vec<u8>) -> Result<()> {
    let options = WriteOptions::default().permission(mode).create_parent(true);
    let mut file = hdfs.create(path, options).await?;
    file.write_bytes(bytes.into()).await?;
    Ok(file.close().await?)
}

fn size() -> Resource {
    Resource { memory: Some(MEMORY_MIB), virtual_cores: Some(1), ..Resource::default() }
}

fn launch(role: &str, files: &[File], values: &[String; 3]) -> Result<ContainerLaunchContext> {
    let command = format!("./{PROGRAM} {role} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr");
    let mut launch =
        ContainerLaunchContext::of_command(command).with_expanded_env("HADOOP_CONF_DIR", "{{PWD}}");
    for (name, value) in [FILES, FOLDER, MEASURER].into_iter().zip(values) {
        launch = launch.with_env(name, value);
    }
    for file in files {
        let mut resource = LocalResource::file(&file.uri, file.size, file.time)?;
        if file.public {
            resource = resource.shared(LocalResourceVisibility::Public);
        }
        launch = launch.with_file(&file.name, resource);
    }
    Ok(launch)
}

async fn master() -> Result<()> {
    let value = |name: &str| env::var(name).with_context(|| name.to_owned());
    let values = [value(FILES)?, value(FOLDER)?, value(MEASURER)?];
    let [shown, folder, _] = &values;
    let files = shown.split(' ').map(File::parse).collect::<Result<Vec<_>>>()?;
    let conf = Configuration::load()?;
    let login = Login::current(&conf).await?;
    let registration = Registration {
        host: env::var("NM_HOST").unwrap_or_default(),
        rpc_port: -1,
        tracking_url: String::new(),
    };
    let options = AmRmOptions::default();
    let (yarn, mut events) = AmRmClient::register(&conf, &login, registration, options).await?;
    let nodes = NmClient::new(&conf, &login)?;
    yarn.request(Ask::new(1, size()))?;
    let status = loop {
        match events.next().await? {
            Some(MasterEvent::Allocated { container, .. }) => {
                start(&yarn, &nodes, &container, launch("worker", &files, &values)?).await?;
            }
            Some(MasterEvent::Completed { exit: ContainerExit::Success, .. }) => {
                break FinalApplicationStatus::Succeeded;
            }
            Some(MasterEvent::Completed { .. } | MasterEvent::Refused { .. }) => {
                break FinalApplicationStatus::Failed;
            }
            Some(MasterEvent::Shutdown) | None => bail!("told to end"),
            Some(_) => {}
        }
    };
    hdfs(&conf, &login)?.delete(folder, true).await?;
    let (diagnostics, tracking_url) = (String::new(), String::new());
    Ok(yarn.finish(Finish { status, diagnostics, tracking_url }).await?)
}

async fn start(
    yarn: &AmRmClient,
    nodes: &NmClient,
    container: &Container,
    launch: ContainerLaunchContext,
) -> Result<()> {
    let node = container.node_id.clone().unwrap_or_default();
    let token = yarn.nm_token(&node).context("no token for a container's node")?;
    Ok(nodes.start(container, &token, launch).await?)
}

fn worker() -> Result<()> {
    let mut measurer = TcpStream::connect(env::var(MEASURER)?)?;
    // It ends when it is no longer needed.
    measurer.read_to_end(&mut Vec::new())?;
    Ok(())
}
