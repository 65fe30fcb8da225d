//! Chores: what builds, runs or rewrites something.

use crate::{
    peers,
    run::{Beside, Result, cargo, output, run},
    tools, workspace, yarn,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Tells tests of whole processes that the programs are built.
pub(crate) const PREBUILT: &str = "FLOTT_TESTS_PREBUILT";
/// The feature with the broken rules that the simulation must find.
pub(crate) const MUTANTS: &str = "tests/mutants";
/// The page that describes all options, as a path from the root.
const REFERENCE: &str = "conf/REFERENCE.md";
/// How often NodeManagers beat in the benchmark on YARN: as YARN has it, and quickly.
const HEARTBEATS: [&str; 2] = ["1000", "100"];
/// The crate of the benchmarks.
const BENCHES: &str = "benches";
/// The crate that stands alone.
const HADOOP: &str = "hadoop";
/// How many simulated clusters every test run tries.
const TEST_SEEDS: &str = "50";
/// Targets with tests that do little but run the compiler, and the beginnings of these tests' names.
const COMPILING: [(&str, &str); 2] = [
    ("mistakes", "the_compiler_says_what_to_do"),
    ("first_program", "the_first_program_of_the_readme"),
];
/// How many real clusters every test run disturbs: the fewest that aim at all points, and one more.
const TEST_CHAOS_RUNS: &str = "3";

/// Everything that a machine can mend.
pub(crate) fn fix() -> Result<()> {
    format(&[])?;
    fs::write(workspace::root().join(REFERENCE), reference()?)?;
    run(&mut cargo(&[
        "clippy",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
        "--workspace",
        "--all-targets",
    ]))?;
    format(&[])
}

/// Formats the workspace and the peers that are Rust packages by themselves, or with `--check` only looks.
pub(crate) fn format(args: &[&str]) -> Result<()> {
    run(cargo(&["fmt", "--all"]).args(args))?;
    run(cargo(&["fmt", "--manifest-path", peers::RENOIR]).args(args))
}

/// Fails where the page of options is not what the declarations say.
pub(crate) fn check_reference() -> Result<()> {
    match fs::read_to_string(workspace::root().join(REFERENCE))? == reference()? {
        true => Ok(()),
        false => Err(format!("{REFERENCE} is not current; run `cargo xtask fix`").into()),
    }
}

/// Without `-p`: the features of dependencies are then those of every other build of the workspace,
/// and nothing is built twice.
fn reference() -> Result<String> {
    output(&mut cargo(&["run", "--quiet", "--example", "reference"]))
}

/// Every test: of units, whole processes, documentation, hadoop against real daemons, a few simulated clusters, and a
/// few real ones whose processes are killed.
///
/// All in one build: the features are named once, so that nothing is built twice. What the tests need is there before it.
pub(crate) fn test() -> Result<()> {
    tools::ensure()?;
    let metadata = workspace::metadata(false)?;
    let simulate = workspace::target_directory(&metadata).join("debug/simulate");
    let log = |name: &str| simulate.with_file_name(name);
    // They come while everything is built.
    let mut fetch = Command::new(std::env::current_exe()?);
    let jars = Beside::start(fetch.args(["yarn", "fetch"]), log("yarn-fetch.log"))?;
    build_programs(&metadata, &["--tests"])?;
    // Their clocks are simulated, so they take the time in which the tests wait.
    let mut seeds = Command::new(&simulate);
    let seeds = Beside::start(seeds.args(["--seeds", TEST_SEEDS]), log("simulate-seeds.log"))?;
    let mut mutants = Command::new(&simulate);
    let mutants = mutants.args(["--mutants", "--recorded"]);
    let mutants = Beside::start(mutants, log("simulate-mutants.log"))?;
    let selected = ["test", "--workspace", "--no-fail-fast", "--features", MUTANTS];
    let skipped = COMPILING.iter().flat_map(|(_, test)| ["--skip", test]);
    run(cargo(&selected).args(["--tests", "--"]).args(skipped).env(PREBUILT, "1"))?;
    jars.end()?;
    // These do little but compile: they take the time in which the tests below wait for daemons.
    let documented = Beside::start(cargo(&selected).arg("--doc"), log("doc-tests.log"))?;
    let compiling = COMPILING.iter().flat_map(|(target, _)| ["--test", target]);
    let compiling = Beside::start(cargo(&selected).args(compiling), log("compiling-tests.log"))?;
    against_a_kdc()?;
    flink_client()?;
    // The same selection: nothing is built again.
    yarn::suite::of(&yarn::suite::ALL, yarn::HADOOP)?;
    run(Command::new(simulate.with_file_name("chaos")).args(["--runs", TEST_CHAOS_RUNS]))?;
    documented.end()?;
    compiling.end()?;
    seeds.end()?;
    mutants.end()
}

/// Builds the programs and examples that tests start, and `more` targets, with the features of the tests, so that nothing is built twice.
/// Benchmarks, which clippy has checked, are left out: linking twenty programs takes a minute.
fn build_programs(metadata: &serde_json::Value, more: &[&str]) -> Result<()> {
    let members = workspace::members(metadata);
    let bins = members.iter().filter(|member| member.name != BENCHES).flat_map(|m| &m.bins);
    let mut build = cargo(&["build", "--workspace", "--examples", "--features", MUTANTS]);
    run(build.args(bins.flat_map(|bin| ["--bin", bin.as_str()])).args(more))
}

/// The test of Kerberos that starts a KDC for itself.
fn against_a_kdc() -> Result<()> {
    let mut test = cargo(&["test", "--workspace", "--features", MUTANTS, "--lib", "--"]);
    run(test.args(["--ignored", "--exact", "gssapi::tests::against_a_real_kdc"]))
}

/// Flink's own client, which Maven builds, against a cluster of ours.
pub(crate) fn flink_client() -> Result<()> {
    let metadata = workspace::metadata(false)?;
    let folder = workspace::target_directory(&metadata).join("flink-client");
    let mut mvn = Command::new("mvn");
    mvn.args(["--batch-mode", "--quiet", "--file", "tests/flink-client/pom.xml"]);
    mvn.arg(format!("-Dcheck.build={}", folder.display())).arg("package");
    run(mvn.current_dir(workspace::root()))?;
    build_programs(&metadata, &[])?;
    let mut test = cargo(&["test", "--workspace", "--features", MUTANTS]);
    test.args(["--test", "flink_client", "--", "--ignored"]).env(PREBUILT, "1");
    run(test.env("FLINK_CLIENT", &folder))
}

/// One benchmark; its standard output is this one's.
pub(crate) fn bench(name: &str, args: &[String]) -> Result<()> {
    let args = match args {
        [first, rest @ ..] if first == "--" => rest,
        args => args,
    };
    if name == HADOOP {
        return bench_hadoop(args);
    }
    let metadata = workspace::metadata(false)?;
    let members = workspace::members(&metadata);
    let benches: Vec<&String> =
        members.iter().filter(|m| m.name == BENCHES).flat_map(|m| &m.bins).collect();
    // A benchmark of an example cannot bear its name: two programs of one name share a file.
    let prefixed = format!("bench_{name}");
    let Some(bin) = benches.iter().find(|bin| bin.as_str() == name || bin.as_str() == prefixed)
    else {
        let known = benches.iter().map(|bin| bin.as_str()).chain([HADOOP]);
        let known: Vec<&str> = known.collect();
        return Err(format!("no benchmark '{name}'; there are {}", known.join(", ")).into());
    };
    // Without tests: what is measured has the features that users' builds have.
    let measured = ["-p", "benches", "-p", "deploy", "-p", "examples"];
    run(cargo(&["build", "--release", "--bins"]).args(measured))?;
    let wants_help = args.iter().any(|arg| ["--help", "-h"].contains(&arg.as_str()));
    if name == "startup" && !wants_help {
        // The benchmark reports the sizes of programs in the form in which they are distributed.
        crate::dist::dist(&["flott", "word_count"].map(str::to_owned))?;
    }
    if name == "yarn" && !wants_help {
        return bench_yarn(&release(&metadata, bin), args);
    }
    let mut measure = Command::new(release(&metadata, bin));
    measure.args(args);
    let against = |peer: &str| !wants_help && peers::wanted(args, peer);
    if ["throughput", "recovery", "checkpoint_cpu"].contains(&name) && against("flink") {
        let (distribution, peer) = yarn::flink::with_peer()?;
        measure.arg("--distribution").arg(distribution).arg("--peer").arg(peer);
    }
    if name == "throughput" && against("renoir") {
        let target = workspace::target_directory(&metadata);
        measure.arg("--renoir").arg(peers::renoir(&target)?);
    }
    run(&mut measure)?;
    if name == "deploy" {
        // Measures the control plane without programs, with more TaskExecutors than fit on one machine as processes.
        let large = ["--only", "8k,20k"];
        run(Command::new(release(&metadata, "control_plane")).args(large))?;
    }
    Ok(())
}

/// The benchmark that is the crate's own, on a cluster of its own. Nothing but the crate is built for it.
fn bench_hadoop(args: &[String]) -> Result<()> {
    let own = ["-p", HADOOP];
    run(cargo(&["build", "--release", "--examples"]).args(own))?;
    let bench = ["--bench", HADOOP];
    run(cargo(&["bench", "--no-run"]).args(own).args(bench))?;
    yarn::with_cluster(&[], |users| {
        let mut measure = cargo(&["bench", "--quiet"]);
        measure.args(own).args(bench).arg("--").args(args);
        for (name, value) in &users.user {
            measure.env(name, value);
        }
        run(&mut measure)
    })
}

/// The benchmark on YARN, on a cluster of its own for each interval of heartbeats: `--heartbeat MS` is for one alone. It
/// measures programs as they are handed out, which takes minutes to build, or with `--as-built` as `--release` has them.
fn bench_yarn(bench: &Path, args: &[String]) -> Result<()> {
    let mut given = args.to_vec();
    let heartbeats = match given.iter().position(|arg| arg == "--heartbeat") {
        Some(at) => {
            let end = given.len().min(at + 2);
            vec![given.drain(at..end).nth(1).ok_or("--heartbeat needs a value")?]
        }
        None => HEARTBEATS.map(str::to_owned).into(),
    };
    let (flott, program) = match given.iter().position(|arg| arg == "--as-built") {
        Some(at) => {
            given.remove(at);
            (bench.with_file_name("flott"), bench.with_file_name("ticker"))
        }
        None => crate::dist::on_yarn("ticker")?,
    };
    let no_flink = args.windows(2).any(|pair| pair == ["--flink-pairs", "0"]);
    let flink = if no_flink { None } else { Some(yarn::flink::distribution()?) };
    for heartbeat in heartbeats {
        yarn::with_cluster(&["--heartbeat", &heartbeat], |users| {
            let mut measure = Command::new(bench);
            measure.args(["--heartbeat", &heartbeat]).args(&given);
            measure.arg("--flott").arg(&flott).arg("--program").arg(&program);
            if let Some(flink) = &flink {
                measure.arg("--flink").arg(flink);
            }
            run(measure.envs(users.user.iter().cloned()))
        })?;
    }
    Ok(())
}

/// The simulated cluster, with broken rules in the build only where they are asked for.
pub(crate) fn simulate(args: &[String]) -> Result<()> {
    let mut build = cargo(&["build", "--release", "--workspace", "--bin", "simulate"]);
    if args.iter().any(|arg| arg == "--mutants") {
        build.args(["--features", MUTANTS]);
    }
    run(&mut build)?;
    run(Command::new(release(&workspace::metadata(false)?, "simulate")).args(args))
}

/// Real clusters under a generated job mix, killed, and with disks that are slow and full.
pub(crate) fn chaos(args: &[String]) -> Result<()> {
    run(&mut cargo(&["build", "--release", "-p", "tests", "-p", "deploy", "--bins"]))?;
    run(Command::new(release(&workspace::metadata(false)?, "chaos")).args(args))
}

/// Fuzzes every decoder with the release build of `fuzz`.
pub(crate) fn fuzz(args: &[String]) -> Result<()> {
    run(&mut cargo(&["build", "--release", "--workspace", "--bin", "fuzz"]))?;
    run(Command::new(release(&workspace::metadata(false)?, "fuzz")).args(args))
}

/// A release program of the workspace.
fn release(metadata: &serde_json::Value, name: &str) -> PathBuf {
    workspace::target_directory(metadata).join("release").join(name)
}
