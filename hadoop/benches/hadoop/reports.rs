//! Measures the cost of a call for its client: `getApplicationReport`, by several callers at a time and one after the other, beside
//! Hadoop's own client in Java. Both are warm, both ask for the same report over one connection, and they take turns.

use super::{Outcome, RUNS, cluster, ratio, report, unmanaged};
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::ApplicationId;
use nix::sys::resource::{UsageWho, getrusage};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Number of calls in one round.
const CALLS: u32 = 10_000;
/// Number of callers that ask at a time, like a program that watches many applications. A single caller mostly pays for sleeping
/// and waking up.
const CALLERS: u32 = 8;
/// Number of rounds after which Java's compiler has finished its optimizations.
const WARM_UP: usize = 3;

pub(crate) async fn run() -> Outcome<()> {
    eprintln!("hadoop: reports");
    let yarn = cluster::yarn().await?;
    let (id, _) = unmanaged::submit(&yarn).await?;
    let measured = measure(&yarn, id).await;
    yarn.kill(id, None).await?;
    for (callers, ours, theirs) in measured? {
        let suffix = if callers == 1 { "_one_by_one" } else { "" };
        let ours = report(&format!("report_calls_per_cpu_s{suffix}"), "1/s", &ours);
        let theirs = report(&format!("java_report_calls_per_cpu_s{suffix}"), "1/s", &theirs);
        ratio(&format!("report_calls_over_java{suffix}"), ours / theirs);
    }
    Ok(())
}

/// The figures for a number of callers: calls per second of CPU time in each round, of this client and of Java's.
type Rounds = (u32, Vec<f64>, Vec<f64>);

async fn measure(yarn: &YarnClient, id: ApplicationId) -> Outcome<Vec<Rounds>> {
    let mut java = Java::start(id)?;
    let mut all = Vec::new();
    for callers in [CALLERS, 1] {
        for _ in 0..WARM_UP {
            java.round(callers)?;
        }
        ours(yarn, id, callers).await?;
        let (mut all_ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            all_ours.push(ours(yarn, id, callers).await?);
            theirs.push(java.round(callers)?);
        }
        all.push((callers, all_ours, theirs));
    }
    Ok(all)
}

async fn ours(yarn: &YarnClient, id: ApplicationId, callers: u32) -> Outcome<f64> {
    let before = cpu_seconds()?;
    let callers = (0..callers).map(|_| {
        let yarn = yarn.clone();
        tokio::spawn(async move {
            for _ in 0..CALLS / callers {
                yarn.report(id).await?;
            }
            Ok::<_, hadoop::yarn::YarnError>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await??;
    }
    Ok(f64::from(CALLS) / (cpu_seconds()? - before))
}

fn cpu_seconds() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

struct Java {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Java {
    fn start(id: ApplicationId) -> Outcome<Self> {
        let folder = std::env::temp_dir().join(format!("hadoop-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let source = folder.join("Reports.java");
        std::fs::write(&source, include_str!("Reports.java"))?;
        let classes = cluster::conf()?.get_list("yarn.application.classpath")?.join(":");
        let home = std::env::var_os("JAVA_HOME").map(std::path::PathBuf::from);
        let program = |name: &str| home.as_ref().map_or(name.into(), |h| h.join("bin").join(name));
        let mut compile = Command::new(program("javac"));
        compile.args(["-cp", &classes, "-d"]).arg(&folder).arg(&source);
        cluster::succeeds(compile.stdout(Stdio::null()))?;
        let classes = format!("{}:{classes}", folder.display());
        let mut java = Command::new(program("java"));
        java.args(["-cp", &classes, "Reports", &id.to_string(), &CALLS.to_string()]);
        java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = java.spawn()?;
        let to = child.stdin.take().ok_or("no standard input")?;
        let from = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Self { child, to, from })
    }

    /// Calls for each second of CPU.
    fn round(&mut self, callers: u32) -> Outcome<f64> {
        writeln!(self.to, "{callers}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let nanos: f64 = line.trim().parse().map_err(|_| format!("Java said '{line}'"))?;
        Ok(f64::from(CALLS) * 1e9 / nanos)
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let folder = std::env::temp_dir().join(format!("hadoop-bench-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(folder);
    }
}
