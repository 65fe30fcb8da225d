//! `yarn`: a real Hadoop (HDFS and YARN) on loopback, each daemon a process of its own, from Maven's jars.
//!
//! It writes below its own directory alone, and signals only processes that carry that directory's mark. What
//! it starts outlives it, until `down`.

mod daemons;
mod http;
mod jars;
mod layout;
mod processes;
mod site;

use crate::{run::Result, workspace};
use layout::Layout;
use std::{fs, path::PathBuf};

const USAGE: &str = "usage: cargo xtask yarn up [--nodes N] [--hadoop VERSION] [--dir DIR]
       cargo xtask yarn down [--dir DIR]

up    starts a NameNode, a DataNode, a ResourceManager and N NodeManagers (2) of Hadoop VERSION (3.4.2) as
      processes of their own, all bound to 127.0.0.1, on ports that are free. It returns when files can be written
      and every NodeManager takes containers; its last line is `export HADOOP_CONF_DIR=...`. Hadoop's own commands
      for this cluster are DIR/bin/yarn and DIR/bin/hdfs, logs are in DIR/logs. Where something fails, all that was
      started is stopped, and the logs stay.
down  stops the daemons and the containers they left, and removes DIR.

DIR is target/yarn/run unless given. The jars are fetched once for each version, by `mvn`, into target/yarn/jars;
they stay there. Needs a JDK (JAVA_HOME, or `java` on the PATH), Maven, and about 1.2 GB of memory.

There is no --secure (Kerberos) and no --ha (two ResourceManagers) yet.";

/// What `up` and `down` are told.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    nodes: u16,
    hadoop: String,
    dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 2, hadoop: "3.4.2".to_owned(), dir: None }
    }
}

/// The command and its options.
pub(crate) fn yarn(args: &[String]) -> Result<()> {
    let args = match args {
        [first, rest @ ..] if first == "--" => rest,
        args => args,
    };
    let Some((command, rest)) = args.split_first() else { return Err(USAGE.into()) };
    match command.as_str() {
        "up" => up(&options(rest, true)?),
        "down" => down(&options(rest, false)?),
        "help" | "--help" | "-h" => {
            eprintln!("{USAGE}");
            Ok(())
        }
        other => Err(format!("no command 'yarn {other}'\n\n{USAGE}").into()),
    }
}

fn options(args: &[String], up: bool) -> Result<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or(format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--nodes" if up => {
                let nodes = value()?.parse().ok().filter(|n| (1..=layout::MOST_NODES).contains(n));
                let most = layout::MOST_NODES;
                options.nodes = nodes.ok_or(format!("--nodes is a number from 1 to {most}"))?;
            }
            "--hadoop" if up => options.hadoop = jars::version(value()?)?,
            "--dir" => options.dir = Some(value()?.into()),
            "--secure" => return Err("there is no secure cluster (Kerberos) yet".into()),
            "--ha" => return Err("there are no two ResourceManagers yet".into()),
            other => return Err(format!("no option '{other}'\n\n{USAGE}").into()),
        }
    }
    Ok(options)
}

/// Where everything of this command is.
fn home() -> Result<PathBuf> {
    Ok(workspace::target_directory(&workspace::metadata(false)?).join("yarn"))
}

/// The cluster's directory: absolute, because daemons and configuration need it so.
fn directory(options: &Options) -> Result<PathBuf> {
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => home()?.join("run"),
    };
    Ok(std::path::absolute(dir)?)
}

fn up(options: &Options) -> Result<()> {
    let dir = directory(options)?;
    if !dir.to_string_lossy().chars().all(is_plain) {
        let shown = dir.display();
        return Err(
            format!("{shown}: DataNodes take no such path; letters, digits and /._-").into()
        );
    }
    if !processes::daemons(&dir)?.is_empty() {
        let shown = dir.display();
        return Err(format!("{shown}: already up; `cargo xtask yarn down` first").into());
    }
    if dir.exists() && !layout::is_ours(&dir) {
        return Err(format!("{}: exists and is no cluster of this command", dir.display()).into());
    }
    let jars = jars::jars(&home()?.join("jars"), &options.hadoop)?;
    let layout = Layout::new(dir, jars, options.nodes)?;
    layout.make()?;
    site::write(&layout)?;
    if let Err(error) = daemons::start(&layout) {
        processes::stop(&layout.dir)?;
        return Err(error);
    }
    let dir = layout.dir.display();
    eprintln!("Hadoop's own commands: {dir}/bin/yarn, {dir}/bin/hdfs; logs: {dir}/logs");
    show(&format!("export HADOOP_CONF_DIR={}", quoted(&layout.conf().to_string_lossy())));
    Ok(())
}

fn down(options: &Options) -> Result<()> {
    let dir = directory(options)?;
    processes::stop(&dir)?;
    if layout::is_ours(&dir) {
        fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    } else if dir.exists() {
        return Err(format!("{}: no cluster of this command; left alone", dir.display()).into());
    }
    Ok(())
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Neither shells nor URIs nor Java's formats see more in it than itself.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._-".contains(c)
}

#[expect(clippy::print_stdout, reason = "the line that a shell evaluates")]
fn show(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> std::result::Result<Options, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        options(&args, true).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_taken_or_refused_by_name() {
        assert_eq!(parsed(&[]), Ok(Options::default()));
        let given = parsed(&["--nodes", "3", "--hadoop", "3.3.6", "--dir", "/x"]).unwrap();
        assert_eq!(given, Options { nodes: 3, hadoop: "3.3.6".into(), dir: Some("/x".into()) });
        for wrong in [
            &["--nodes", "0"][..],
            &["--nodes"],
            &["--hadoop", "../3"],
            &["--secure"],
            &["--ha"],
            &["--node", "1"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        assert!(parsed(&["--secure"]).unwrap_err().contains("Kerberos"));
    }

    #[test]
    fn shells_read_paths_as_they_are() {
        assert_eq!(quoted("/a/b-1.c"), "/a/b-1.c");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
