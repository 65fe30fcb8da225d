//! How soon a command says something.

use super::{Outcome, RUNS, cluster, ratio, report};
use std::process::{Command, Stdio};
use std::time::Instant;

pub(crate) fn run() -> Outcome<()> {
    eprintln!("hadoop: first call");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // In turn, so that both see the same machine.
    for _ in 0..RUNS {
        for _ in 0..3 {
            let mut command = cluster::example("yarn-nodes")?;
            ours.push(timed(command.stdout(Stdio::null()))?);
        }
        theirs.push(timed(cluster::command("yarn")?.args(["node", "-list"]))?);
    }
    let ours = report("first_call_ms", "ms", &ours);
    let theirs = report("yarn_cli_ms", "ms", &theirs);
    ratio("yarn_cli_over_ours", theirs / ours);
    Ok(())
}

fn timed(command: &mut Command) -> Outcome<f64> {
    let began = Instant::now();
    cluster::succeeds(command)?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
