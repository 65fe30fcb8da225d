//! `yarn`: a real Hadoop (HDFS and YARN) on loopback, each daemon a process of its own, from Maven's jars.
//!
//! It writes below its own directory alone, and signals only processes that carry that directory's mark. What
//! it starts outlives it, until `down`; a start that is broken off leaves nothing running.

mod daemons;
pub(crate) mod flink;
mod guard;
mod http;
mod jars;
mod kerberos;
mod layout;
mod place;
mod processes;
mod ready;
mod secure;
mod site;
pub(crate) mod suite;

use crate::{run::Result, workspace};
use guard::{After, Guard};
use layout::{Fetched, Kind, Layout};
use place::Place;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

const USAGE: &str = "usage: cargo xtask yarn up [--nodes N] [--secure] [--ha] [--heartbeat MS] [--hadoop VERSION] [--dir DIR]
       cargo xtask yarn kill|start NAME [--dir DIR]
       cargo xtask yarn down [--dir DIR]
       cargo xtask yarn fetch
       cargo xtask yarn test [--hadoop VERSION]
       cargo xtask yarn memory [--minutes N] [--hadoop VERSION]

up     starts a NameNode, a DataNode, a ResourceManager and N NodeManagers (2) of Hadoop VERSION (3.4.2) as
       processes of their own, all bound to 127.0.0.1, on ports that are free. NodeManagers have Hadoop's native
       library, as those of real clusters do; where it cannot be had - it is fetched by `mvn`, for amd64 and aarch64 -
       there is a warning, and they start a process for each change of a file's mode, which makes containers slow.
       It returns when files can be written and every NodeManager takes containers; its last line is
       `export HADOOP_CONF_DIR=...`. Hadoop's own commands for this cluster are DIR/bin/yarn and DIR/bin/hdfs, logs are
       in DIR/logs. Where something fails or it is interrupted, all that was started is stopped, and the logs stay.
kill   kills one daemon (-9): namenode, datanode, resourcemanager (with --ha resourcemanager1, resourcemanager2),
       nodemanager1 to nodemanagerN, kdc, zookeeper. Containers of a killed NodeManager live on, as they do when
       one crashes.
start  starts a daemon that is not running, with the data it had, and returns when it is ready.
down   stops the daemons and the containers they left, and removes DIR.
fetch  fetches the jars of all versions of Hadoop that are tested, and starts nothing. The other commands fetch what
       they lack themselves.
test   builds hadoop, and runs its tests against clusters of its own, two at a time: as `up` makes them, and one with
       --secure --ha. They are taken down whatever happens. `cargo xtask test` does it too.
memory builds everything, and runs jobs in a row for N minutes (30) in a session on a cluster of its own, whose
       NodeManagers kill a container that uses more memory than it asked for: none may be killed. Prints the most that
       each container used. `cargo xtask test` does it for 3 minutes.

--secure  with Kerberos: a KDC of its own, every service with a keytab, hadoop.rpc.protection and the transfer of
          data with `privacy`. Users' tokens must be renewed every 20 s. The last line exports KRB5_CONFIG,
          KRB5KEYTAB and KRB5PRINCIPAL too, for the user alice; Hadoop's own commands use them by themselves.
          NodeManagers read logs with the native library, and give out logs of containers whose user is the one who
          runs the daemons: containers are all that user's processes. That one's keytab is DIR/krb/USER.keytab. Without
          the library no logs are kept, and `test` skips what is about them; where CI=true it is an error.
          Needs MIT's KDC (krb5-kdc, krb5-admin-server), and installs it only where CI=true.
--ha      with two ResourceManagers, one of them active, and a ZooKeeper where they keep what they know.
--heartbeat MS  how often each NodeManager beats (100): quick, so that tests wait little. YARN's own default is 1000.

DIR is target/yarn/run unless given; DIR/bin/daemon kill|start NAME is the same as here. The jars are fetched once
for each version, by `mvn`, into target/yarn/jars; they stay there. Needs a JDK (JAVA_HOME, or `java` on the PATH),
Maven, and about 1 GB of memory (1.4 GB with --ha; `test` 2.4 GB).";

/// The version unless another is named.
pub(crate) const HADOOP: &str = "3.4.2";

/// The options of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    kind: Kind,
    hadoop: String,
    dir: Option<PathBuf>,
    /// A daemon's name.
    name: Option<String>,
    /// Time that jobs run for.
    minutes: u32,
}

impl Default for Options {
    fn default() -> Self {
        let kind = Kind { nodes: 2, secure: false, ha: false, heartbeat: 100 };
        Self { kind, hadoop: HADOOP.to_owned(), dir: None, name: None, minutes: 30 }
    }
}

/// The command and its options.
pub(crate) fn yarn(args: &[String]) -> Result<()> {
    let args = match args {
        [first, rest @ ..] if first == "--" => rest,
        args => args,
    };
    let Some((command, rest)) = args.split_first() else { return Err(USAGE.into()) };
    let asks = |word: &String| word == "--help" || word == "-h";
    let command = if rest.iter().any(asks) { "help" } else { command.as_str() };
    match command {
        "up" => {
            show(&exports(&up(&options(rest, Command::Up)?)?));
            Ok(())
        }
        "down" => down(&directory(&options(rest, Command::Down)?)?),
        "kill" => on_daemon(&options(rest, Command::OfDaemon)?, daemons::kill),
        "start" => on_daemon(&options(rest, Command::OfDaemon)?, daemons::start_one),
        "fetch" if rest.is_empty() => suite::fetch(),
        "test" => suite::alone(&options(rest, Command::Test)?.hadoop),
        "memory" => {
            let options = options(rest, Command::Memory)?;
            suite::memory(&options.hadoop, options.minutes)
        }
        guard::COMMAND => guard::watch(rest),
        "help" | "--help" | "-h" => {
            eprintln!("{USAGE}");
            Ok(())
        }
        other => Err(format!("no command 'yarn {other}'\n\n{USAGE}").into()),
    }
}

/// The kind of a command, which decides about the options that it takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Up,
    Down,
    OfDaemon,
    Test,
    Memory,
}

fn options(args: &[String], command: Command) -> Result<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    let up = command == Command::Up;
    let own = matches!(command, Command::Test | Command::Memory);
    let (made, lasting) = (up || own, !own);
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or(format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--nodes" if up => {
                let nodes = value()?.parse().ok().filter(|n| (1..=layout::MOST_NODES).contains(n));
                let most = layout::MOST_NODES;
                options.kind.nodes =
                    nodes.ok_or(format!("--nodes is a number from 1 to {most}"))?;
            }
            "--heartbeat" if up => {
                let heartbeat = value()?.parse().ok().filter(|ms| *ms > 0);
                options.kind.heartbeat =
                    heartbeat.ok_or("--heartbeat is a number of milliseconds from 1 to 65535")?;
            }
            "--hadoop" if made => options.hadoop = jars::version(value()?)?,
            "--minutes" if command == Command::Memory => {
                let minutes = value()?.parse().ok().filter(|minutes| (1..=1440).contains(minutes));
                options.minutes = minutes.ok_or("--minutes is a number from 1 to 1440")?;
            }
            "--secure" if up => options.kind.secure = true,
            "--ha" if up => options.kind.ha = true,
            "--dir" if lasting => options.dir = Some(value()?.into()),
            daemon if command == Command::OfDaemon && !daemon.starts_with('-') => {
                options.name = Some(daemon.to_owned());
            }
            other => return Err(format!("no option '{other}'\n\n{USAGE}").into()),
        }
    }
    match command == Command::OfDaemon && options.name.is_none() {
        true => Err(format!("which daemon?\n\n{USAGE}").into()),
        false => Ok(options),
    }
}

fn on_daemon(options: &Options, act: impl Fn(&Layout, &str) -> Result<()>) -> Result<()> {
    let layout = Layout::load(&directory(options)?)?;
    act(&layout, options.name.as_deref().unwrap_or_default())
}

/// Returns the directory that holds the clusters and the fetched libraries.
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

/// Starts a cluster.
fn up(options: &Options) -> Result<Layout> {
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
    let fetched = fetched(options)?;
    let layout = Layout::new(dir, fetched, options.kind)?;
    layout.make()?;
    site::write(&layout)?;
    let guard = Guard::new(&layout.dir, After::Stop, Stdio::null())?;
    daemons::start(&layout)?;
    guard.disarm()?;
    let dir = layout.dir.display();
    eprintln!("Hadoop's own commands: {dir}/bin/yarn, {dir}/bin/hdfs; logs: {dir}/logs");
    Ok(layout)
}

fn fetched(options: &Options) -> Result<Fetched> {
    let home = home()?.join("jars");
    fs::create_dir_all(&home)?;
    let alone = place::alone(&home.join("lock"))?;
    // With Kerberos NodeManagers read logs of others with it, to be sure whose they are, and a check must not
    // vanish with it. Without, they only start containers the slower.
    let native = or_warned(jars::native(&home, &alone), options.kind.secure, is_ci())?;
    Ok(Fetched { jars: jars::jars(&home, &options.hadoop, &alone)?, native })
}

/// A cluster without it is of use to people. Where nobody reads warnings, checks must not vanish with it.
fn or_warned(native: Result<PathBuf>, secure: bool, is_ci: bool) -> Result<Option<PathBuf>> {
    match native {
        Ok(native) => Ok(Some(native)),
        Err(error) if is_ci && secure => Err(error),
        Err(error) => {
            let then = if secure { "no logs are kept" } else { "containers start slowly" };
            eprintln!("warning: no native library of Hadoop's, so {then}: {error}");
            Ok(None)
        }
    }
}

/// Whether this is a machine that nobody watches.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// The line that a shell evaluates.
fn exports(layout: &Layout) -> String {
    let one = |(name, value): (&str, String)| format!(" {name}={}", quoted(&value));
    let all: String = environment(layout, &layout.user).into_iter().map(one).collect();
    format!("export{all}")
}

/// Returns the environment variables with which a program uses the cluster as `user`.
fn environment(layout: &Layout, user: &str) -> Variables {
    let mut all = vec![("HADOOP_CONF_DIR", layout.conf().display().to_string())];
    if layout.kind.secure {
        all.extend(kerberos::environment(layout, user));
    }
    all
}

/// Names and values of an environment.
pub(crate) type Variables = Vec<(&'static str, String)>;

/// The environments that a cluster can be used in.
pub(crate) struct Users {
    /// The environment of the user for whom the cluster is made; with Kerberos a user that this machine does not have.
    pub(crate) user: Variables,
    /// The environment of the user who runs the cluster.
    pub(crate) owner: Variables,
    /// Whether containers' logs can be had from it.
    pub(crate) keeps_logs: bool,
    /// Nobody else gets the cluster's place as long as this or a copy is open.
    pub(crate) place: fs::File,
}

fn down(dir: &Path) -> Result<()> {
    processes::stop(dir)?;
    if layout::is_ours(dir) {
        fs::remove_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    } else if dir.exists() {
        return Err(format!("{}: no cluster of this command; left alone", dir.display()).into());
    }
    Ok(())
}

/// Starts a cluster of this process's own, does something with its environment, and takes it down.
pub(crate) fn with_cluster(args: &[&str], act: impl FnOnce(&Users) -> Result<()>) -> Result<()> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let mut options = options(&args, Command::Up)?;
    let (Place { dir, lock }, left) = place::take(&home()?)?;
    options.dir = Some(dir.clone());
    // One that an earlier run could not take down is in the way.
    if layout::is_ours(&dir) {
        down(&dir)?;
    }
    // Others' only have this machine's memory.
    for left in left.iter().filter(|left| layout::is_ours(&left.dir)) {
        if let Err(error) = down(&left.dir) {
            eprintln!("warning: what an earlier run left stays: {error}");
        }
    }
    drop(left);
    let place = lock.try_clone()?;
    // The place is free again when the guard has ended too.
    let guard = Guard::new(&dir, After::Remove, lock.into())?;
    let done = up(&options).and_then(|layout| {
        let of = |user| environment(&layout, user);
        let (user, owner) = (of(&layout.user), of(&layout.owner));
        act(&Users { user, owner, keeps_logs: layout.keeps_logs(), place })
    });
    done.and(guard.end())
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

    fn parsed(args: &[&str], command: Command) -> std::result::Result<Options, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        options(&args, command).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_taken_or_refused_by_name() {
        assert_eq!(parsed(&[], Command::Up), Ok(Options::default()));
        let given = ["--nodes", "3", "--hadoop", "3.3.6", "--dir", "/x", "--secure", "--ha"];
        let given = [&given[..], &["--heartbeat", "1000"]].concat();
        let kind = Kind { nodes: 3, secure: true, ha: true, heartbeat: 1000 };
        let (hadoop, dir) = ("3.3.6".into(), Some("/x".into()));
        let expected = Options { kind, hadoop, dir, ..Options::default() };
        assert_eq!(parsed(&given, Command::Up), Ok(expected));
        for wrong in [
            &["--nodes", "0"][..],
            &["--nodes"],
            &["--hadoop", "../3"],
            &["--node", "1"],
            &["rm"],
            &["--heartbeat", "0"],
        ] {
            assert!(parsed(wrong, Command::Up).is_err(), "{wrong:?}");
        }
        assert!(parsed(&["--secure"], Command::Down).is_err());
        assert_eq!(parsed(&["--hadoop", "3.3.6"], Command::Test).unwrap().hadoop, "3.3.6");
        assert!(parsed(&["--dir", "/x"], Command::Test).is_err());
        assert_eq!(parsed(&["--minutes", "3"], Command::Memory).unwrap().minutes, 3);
        assert!(parsed(&["--minutes", "0"], Command::Memory).is_err());
        assert!(parsed(&["--minutes", "3"], Command::Test).is_err());
        assert!(parsed(&[], Command::OfDaemon).is_err());
        let kill = parsed(&["nodemanager1", "--dir", "/x"], Command::OfDaemon).unwrap();
        assert_eq!(kill.name.as_deref(), Some("nodemanager1"));
    }

    #[test]
    fn a_cluster_without_the_native_library_is_one_for_people_alone() {
        let found = or_warned(Ok("/native".into()), true, true).unwrap();
        assert_eq!(found, Some("/native".into()));
        assert_eq!(or_warned(Err("none".into()), true, false).unwrap(), None);
        assert!(or_warned(Err("none".into()), true, true).is_err());
        // Nothing is checked with it there.
        assert_eq!(or_warned(Err("none".into()), false, true).unwrap(), None);
    }

    #[test]
    fn shells_read_paths_as_they_are() {
        assert_eq!(quoted("/a/b-1.c"), "/a/b-1.c");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
