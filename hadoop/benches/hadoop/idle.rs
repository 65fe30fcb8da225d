//! Measures the memory of an ApplicationMaster that has a hundred containers and nothing to do.

use super::{Outcome, RUNS, cluster, report};
use hadoop::yarn::messages::ApplicationId;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const CONTAINERS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(300);
/// Start-up work is over then.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn run() -> Outcome<()> {
    eprintln!("hadoop: an idle ApplicationMaster of {CONTAINERS} containers");
    let _roomy = cluster::Changed::roomy()?;
    let (mut idle, mut peak) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut shell = cluster::example("distributed-shell")?;
        let count = CONTAINERS.to_string();
        shell.args(["--containers", &count, "--memory", "64", "--command", "sleep 600"]);
        let mut shell = shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let measured = measure(&mut shell).await;
        let _ = shell.kill();
        shell.wait()?;
        let (rss, most) = measured?;
        idle.push(rss);
        peak.push(most);
    }
    report("idle_mib", "MiB", &idle);
    report("idle_peak_mib", "MiB", &peak);
    Ok(())
}

async fn measure(shell: &mut Child) -> Outcome<(f64, f64)> {
    let yarn = cluster::yarn().await?;
    let mut lines = BufReader::new(shell.stdout.take().ok_or("no standard output")?).lines();
    let running = |line: &std::io::Result<String>| {
        line.as_ref().is_ok_and(|line| line.contains("\tRunning\t"))
    };
    let line = lines.find(running).ok_or("the application does not run")??;
    let id: ApplicationId = line.split('\t').next().unwrap_or_default().parse()?;
    let measured = async {
        let began = Instant::now();
        while processes(id, "worker")?.len() < CONTAINERS {
            if began.elapsed() > PATIENCE {
                let count = processes(id, "worker")?.len();
                return Err(format!("{count} of {CONTAINERS} containers run").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(SETTLE).await;
        let masters = processes(id, "master")?;
        let [master] = masters[..] else { return Err("no single ApplicationMaster".into()) };
        let status = std::fs::read_to_string(format!("/proc/{master}/status"))?;
        Ok((mib(&status, "VmRSS:")?, mib(&status, "VmHWM:")?))
    }
    .await;
    yarn.kill(id, None).await?;
    // The next run, and the NodeManagers that are started again, shall find nothing left.
    let began = Instant::now();
    while !(processes(id, "worker")?.is_empty() && processes(id, "master")?.is_empty()) {
        if began.elapsed() > PATIENCE {
            return Err("containers do not end".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    measured
}

/// The processes that an application's containers run: `distributed-shell master` or `worker`.
fn processes(id: ApplicationId, role: &str) -> Outcome<Vec<u32>> {
    let mark = id.to_string();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc")? {
        let process = process?.path();
        let Some(pid) = process.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        let works = std::fs::read_link(process.join("cwd"));
        let here = works.is_ok_and(|cwd: std::path::PathBuf| cwd.to_string_lossy().contains(&mark));
        if here && is_role(&process, role) {
            found.push(pid);
        }
    }
    Ok(found)
}

fn is_role(process: &Path, role: &str) -> bool {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    words.first().is_some_and(|name| name.ends_with(b"distributed-shell"))
        && words.get(1) == Some(&role.as_bytes())
}

fn mib(status: &str, name: &str) -> Outcome<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}
