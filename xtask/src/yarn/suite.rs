//! hadoop's tests against real daemons: each cluster is brought up, tested and taken down, whatever comes.

use super::with_cluster;
use crate::run::{Result, cargo, run};

/// What each cluster is, and which tests are for it.
const CLUSTERS: &[(&[&str], &[&str])] = &[
    (&[], &["--skip", "secure::", "--skip", "failover::"]),
    (&["--secure", "--ha"], &["secure::", "failover::", "examples::"]),
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
    for (cluster, tests) in CLUSTERS {
        let tested = with_cluster(cluster, |environment| {
            let mut test = cargo(&["test"]);
            test.args(selection).args(["--test", "cluster", "--", "--ignored"]);
            // They kill daemons below each other.
            test.args(["--test-threads", "1"]).args(*tests).envs(environment.iter().cloned());
            run(&mut test)
        });
        // The other cluster's results are worth having too.
        failed.extend(tested.err().map(|error| error.to_string()));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}
