//! The cluster of `HADOOP_CONF_DIR`: its configuration, commands and logs.

use super::Outcome;
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::yarn::YarnClient;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn conf() -> Outcome<Configuration> {
    Ok(Configuration::load()?)
}

pub(crate) async fn yarn() -> Outcome<YarnClient> {
    let conf = conf()?;
    let login = Login::current(&conf).await?;
    Ok(YarnClient::new(&conf, login).await?)
}

fn conf_dir() -> Outcome<PathBuf> {
    let dir = std::env::var_os("HADOOP_CONF_DIR");
    Ok(dir.ok_or("HADOOP_CONF_DIR names no cluster of `cargo xtask yarn up`")?.into())
}

/// One of the cluster's own commands.
pub(crate) fn command(name: &str) -> Outcome<Command> {
    let mut command = Command::new(conf_dir()?.join("../bin").join(name));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// An example of this crate, built as this benchmark is.
pub(crate) fn example(name: &str) -> Outcome<Command> {
    let own = std::env::current_exe()?;
    let built = own.parent().and_then(Path::parent).ok_or("no target directory")?;
    let program = built.join("examples").join(name);
    match program.is_file() {
        true => Ok(Command::new(program)),
        false => Err(format!("build it first: {}", program.display()).into()),
    }
}

pub(crate) fn succeeds(command: &mut Command) -> Outcome<()> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}

/// The logs of all daemons of this kind.
pub(crate) fn logs(kind: &str) -> Outcome<Vec<String>> {
    let mut logs = Vec::new();
    for file in std::fs::read_dir(conf_dir()?.join("../logs"))? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(kind) {
            logs.push(String::from_utf8_lossy(&std::fs::read(file.path())?).into_owned());
        }
    }
    Ok(logs)
}

/// The cluster with other settings, until it is dropped.
pub(crate) struct Changed {
    file: PathBuf,
    before: String,
    restart: fn() -> Outcome<()>,
}

impl Changed {
    /// NodeManagers that have room for many containers.
    pub(crate) fn roomy() -> Outcome<Self> {
        let (memory, cores) =
            ("yarn.nodemanager.resource.memory-mb", "yarn.nodemanager.resource.cpu-vcores");
        Self::new(&[(memory, "16384"), (cores, "128")], restart_nodes)
    }

    /// NodeManagers that beat as often as YARN has them beat unless it is told otherwise.
    pub(crate) fn usual_beats() -> Outcome<Self> {
        let interval = "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms";
        Self::new(&[(interval, "1000")], || restart("resourcemanager"))
    }

    fn new(settings: &[(&str, &str)], restart: fn() -> Outcome<()>) -> Outcome<Self> {
        let file = conf_dir()?.join("yarn-site.xml");
        let before = std::fs::read_to_string(&file)?;
        let mut text = before.replace("</configuration>", "");
        for (name, value) in settings {
            text.push_str(&format!(
                "<property><name>{name}</name><value>{value}</value></property>\n"
            ));
        }
        std::fs::write(&file, text + "</configuration>")?;
        let changed = Self { file, before, restart };
        restart()?;
        Ok(changed)
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, &self.before);
        let _ = (self.restart)();
    }
}

fn restart_nodes() -> Outcome<()> {
    for number in 1.. {
        let name = format!("nodemanager{number}");
        if !conf_dir()?.join(format!("../logs/{name}.log")).is_file() {
            break;
        }
        restart(&name)?;
    }
    Ok(())
}

fn restart(name: &str) -> Outcome<()> {
    for what in ["kill", "start"] {
        succeeds(command("daemon")?.args([what, name]))?;
    }
    Ok(())
}

/// Seconds of CPU that a daemon has taken so far.
pub(crate) fn cpu(daemon: &str) -> Outcome<f64> {
    // Linux counts so many of these in a second, wherever it runs.
    const TICKS: f64 = 100.0;
    let marks = [
        format!("-Dxtask.yarn.dir={}", conf_dir()?.parent().ok_or("no cluster")?.display()),
        format!("-Dxtask.yarn.daemon={daemon}"),
    ];
    for process in std::fs::read_dir("/proc")? {
        let process = process?.path();
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        if marks.iter().all(|mark| words.contains(&mark.as_bytes())) {
            let stat = std::fs::read_to_string(process.join("stat"))?;
            // The name in front may hold anything, but for the last bracket.
            let (_, numbers) = stat.rsplit_once(')').ok_or("no process")?;
            let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
            return Ok(ticks.sum::<Result<f64, _>>()? / TICKS);
        }
    }
    Err(format!("{daemon} does not run").into())
}
