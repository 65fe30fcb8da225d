//! hadoop's tests against real daemons: each cluster is brought up, tested and taken down, whatever comes.

use super::with_cluster;
use crate::run::{Result, cargo, run};

/// A cluster and the tests that are for it.
struct Tests {
    cluster: &'static [&'static str],
    targets: &'static [&'static str],
    filters: &'static [&'static str],
}

/// The second target changes the configuration, and comes last.
const TESTS: &[Tests] = &[
    Tests {
        cluster: &[],
        targets: &["--test", "cluster", "--test", "logs"],
        filters: &["--skip", "secure::", "--skip", "failover::"],
    },
    Tests {
        cluster: &["--secure", "--ha"],
        targets: &["--test", "cluster"],
        filters: &[
            "secure::",
            "failover::",
            "examples::nodes",
            "examples::a_distributed_shell",
            "examples::applications",
        ],
    },
];

/// Builds hadoop alone, and runs its tests.
pub(super) fn alone() -> Result<()> {
    let selection = ["-p", "hadoop"];
    run(cargo(&["build"]).args(selection).arg("--examples"))?;
    of(&selection)
}

/// Runs the tests as `cargo test` finds them with this selection. The examples, which they start, must have been
/// built.
pub(crate) fn of(selection: &[&str]) -> Result<()> {
    let mut failed = Vec::new();
    for Tests { cluster, targets, filters } in TESTS {
        let tested = with_cluster(cluster, |environment| {
            let mut test = cargo(&["test", "--no-fail-fast"]);
            // They kill daemons below each other.
            test.args(selection).args(*targets).args(["--", "--ignored", "--test-threads", "1"]);
            run(test.args(*filters).envs(environment.iter().cloned()))
        });
        // The other cluster's results are worth having too.
        failed.extend(tested.err().map(|error| error.to_string()));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}
