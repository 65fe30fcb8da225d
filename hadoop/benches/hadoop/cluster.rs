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

/// NodeManagers that have room for many containers, until it is dropped.
pub(crate) struct Roomy {
    file: PathBuf,
    before: String,
}

impl Roomy {
    pub(crate) fn new() -> Outcome<Self> {
        let file = conf_dir()?.join("yarn-site.xml");
        let before = std::fs::read_to_string(&file)?;
        let mut text = before.replace("</configuration>", "");
        for (name, value) in [("memory-mb", "16384"), ("cpu-vcores", "128")] {
            text.push_str(&format!(
                "<property><name>yarn.nodemanager.resource.{name}</name><value>{value}</value></property>\n"
            ));
        }
        std::fs::write(&file, text + "</configuration>")?;
        let roomy = Self { file, before };
        restart()?;
        Ok(roomy)
    }
}

impl Drop for Roomy {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, &self.before);
        let _ = restart();
    }
}

fn restart() -> Outcome<()> {
    for number in 1.. {
        let name = format!("nodemanager{number}");
        if !conf_dir()?.join(format!("../logs/{name}.log")).is_file() {
            break;
        }
        for what in ["kill", "start"] {
            succeeds(command("daemon")?.args([what, &name]))?;
        }
    }
    Ok(())
}
