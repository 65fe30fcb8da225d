//! `cargo xtask`: the workspace's checks and chores, each one command.
//!
//! Nothing here may change files, except `fix`, and no check may need a network once the crates are
//! there.

#![expect(clippy::print_stderr, reason = "it talks to people; standard output is for results")]

mod chores;
mod deny;
mod deps;
mod dist;
mod peers;
mod run;
mod tidy;
mod tools;
mod verify;
mod workspace;
mod yarn;

use run::Result;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  verify [--only CHECK]...   every check, changing nothing: fmt, tidy, deps, options, clippy, docs, deny
  fix                        formats, applies clippy's suggestions, writes conf/REFERENCE.md
  test                       as root: looks for the programs that it needs and installs what is missing (with sudo for another
                             user, who is then told to run it as root), or names it;
                             builds the programs that tests start, then runs every test, those of hadoop against
                             clusters of its own
  flink-client               Flink's own REST client against a cluster; needs Maven and a JDK
  bench NAME [ARGS]          one benchmark; JSON lines on standard output
  bench allocator [ARGS]     [--pairs N] [--lines N]
  bench throughput [ARGS]    [--against flink|renoir]... [--workload NAME]... [--pairs N] [--records N]
  bench recovery|checkpoint_cpu [ARGS]
                             [--against flink]
  bench yarn [ARGS]          [--pairs N] [--flink-pairs N] [--heartbeat MS] [--as-built]
  dist [PROGRAM]...          programs to hand out, in target/dist/programs, DWARF in files beside them
  simulate [ARGS]            the simulated cluster: [--seeds N] [--seed S] [--mutants [--recorded]]
  chaos [ARGS]               real clusters under kill -9, slow and full disks: [--runs N] [--seed S] [--no-disks]
                             [--commits-early] [--keep]
  fuzz [ARGS]                every decoder: [--seconds N] [--seed S] [--target NAME]
  yarn up|kill|start|down|fetch|test|memory|help [ARGS]
                             a real Hadoop on loopback: [--nodes N] [--secure] [--ha] [--heartbeat MS] [--hadoop VERSION]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some((command, rest)) = args.split_first() else {
        return Err(USAGE.into());
    };
    match (command.as_str(), rest) {
        ("verify", only) => verify::verify(&checks(only)?),
        ("fix", []) => chores::fix(),
        ("test", []) => chores::test(),
        ("flink-client", []) => chores::flink_client(),
        ("bench", [name, args @ ..]) => chores::bench(name, args),
        ("dist", only) => dist::dist(only),
        ("simulate", args) => chores::simulate(args),
        ("chaos", args) => chores::chaos(args),
        ("fuzz", args) => chores::fuzz(args),
        ("yarn", args) => yarn::yarn(args),
        ("help" | "--help" | "-h", _) => {
            eprintln!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// The names after each `--only`.
fn checks(args: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--only", Some(list)) => names.extend(list.split(',').map(str::to_owned)),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(names)
}
