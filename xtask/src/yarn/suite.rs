//! Tests against Hadoop's real daemons: those of hadoop and those of objects in HDFS. Each cluster is started, tested
//! and stopped, even after a failure.

use super::{HADOOP, Options, Users, fetched, place, with_cluster};
use crate::chores::{MUTANTS, PREBUILT};
use crate::run::{Result, cargo, run};

/// A cluster and the tests that are for it, in their order.
struct Tests {
    cluster: &'static [&'static str],
    /// A version of Hadoop that is tested whatever version is asked for.
    hadoop: Option<&'static str>,
    targets: &'static [Target],
}

struct Target {
    name: &'static str,
    filters: &'static [&'static str],
    who: Who,
    reads_logs: bool,
    /// True if the target belongs to hadoop, which is also tested alone.
    of_hadoop: bool,
}

/// The user who runs the tests on a cluster with Kerberos.
#[derive(Clone, Copy)]
enum Who {
    User,
    Owner,
}

/// The last release of the line before that of [`super::HADOOP`], which many clusters still run.
const OLDER_HADOOP: &str = "3.3.6";

/// It changes the configuration, and comes last. NodeManagers give out logs to those alone whose the files are.
const LOGS: Target =
    Target { name: "logs", filters: &[], who: Who::Owner, reads_logs: true, of_hadoop: true };

const TESTS: &[Tests] = &[
    Tests {
        cluster: &[],
        hadoop: None,
        targets: &[
            Target {
                name: "cluster",
                filters: &["--skip", "secure::", "--skip", "failover::"],
                who: Who::User,
                reads_logs: false,
                of_hadoop: true,
            },
            Target {
                name: "hdfs",
                filters: &[],
                who: Who::Owner,
                reads_logs: false,
                of_hadoop: false,
            },
            Target {
                name: "yarn",
                filters: &["--skip", "failover::", "--skip", "elastic::"],
                who: Who::Owner,
                reads_logs: false,
                of_hadoop: false,
            },
            LOGS,
        ],
    },
    Tests {
        cluster: &["--nodes", "4"],
        hadoop: None,
        targets: &[Target {
            name: "yarn",
            filters: &["elastic::"],
            who: Who::Owner,
            reads_logs: false,
            of_hadoop: false,
        }],
    },
    Tests {
        cluster: &[],
        hadoop: Some(OLDER_HADOOP),
        targets: &[Target {
            name: "yarn",
            filters: &["input::"],
            who: Who::Owner,
            reads_logs: false,
            of_hadoop: false,
        }],
    },
    Tests {
        cluster: &["--secure", "--ha"],
        hadoop: None,
        targets: &[
            Target {
                name: "cluster",
                filters: &[
                    "secure::",
                    "failover::",
                    "examples::nodes",
                    "examples::a_distributed_shell",
                    "examples::applications",
                ],
                who: Who::User,
                reads_logs: false,
                of_hadoop: true,
            },
            Target {
                name: "yarn",
                filters: &["runs::", "failover::", "input::words_of"],
                who: Who::User,
                reads_logs: false,
                of_hadoop: false,
            },
            LOGS,
        ],
    },
];

/// Selects everything, with the features that all tests are built with.
pub(crate) const ALL: [&str; 3] = ["--workspace", "--features", MUTANTS];

/// Selects hadoop alone.
const ALONE: [&str; 2] = ["-p", "hadoop"];

/// Builds hadoop alone, and runs its tests against this version of Hadoop.
pub(super) fn alone(version: &str) -> Result<()> {
    run(cargo(&["build"]).args(ALONE).arg("--examples"))?;
    of(&ALONE, version)
}

/// Runs the tests as `cargo test` finds them with this selection. The examples, which they start, must have been
/// built.
pub(crate) fn of(selection: &[&str], version: &str) -> Result<()> {
    let mut failed = Vec::new();
    for Tests { cluster, hadoop, targets } in TESTS {
        if selection == ALONE && !targets.iter().any(|target| target.of_hadoop) {
            continue;
        }
        let cluster = [cluster, &["--hadoop", hadoop.unwrap_or(version)][..]].concat();
        let tested = with_cluster(&cluster, |users| {
            // The other targets' results are worth having too.
            let selected = targets.iter().filter(|target| target.of_hadoop || selection != ALONE);
            let (run, skipped): (Vec<_>, Vec<_>) =
                selected.partition(|target| users.keeps_logs || !target.reads_logs);
            let ended = run.iter().map(|target| target.run(selection, users, &[]));
            let failed = ended.filter_map(|ended| ended.err().map(|error| error.to_string()));
            let not_run = skipped.iter().map(|Target { name, .. }| {
                format!("the tests of `{name}` did not run: this cluster keeps no logs; see the warning above")
            });
            told(failed.chain(not_run).collect())
        });
        // And the other cluster's.
        failed.extend(tested.err().map(|error| error.to_string()));
    }
    told(failed)
}

/// Fetches the jars that [`of`] needs, so that it does not wait for them.
pub(super) fn fetch() -> Result<()> {
    for version in [HADOOP, OLDER_HADOOP] {
        fetched(&Options { hadoop: version.to_owned(), ..Options::default() })?;
    }
    Ok(())
}

/// Builds everything, and runs jobs in a row for so many minutes on a cluster that watches containers' memory.
pub(super) fn memory(version: &str, minutes: u32) -> Result<()> {
    run(cargo(&["build"]).args(ALL).arg("--bins"))?;
    let target = Target {
        name: "yarn",
        filters: &["memory::", "--nocapture"],
        who: Who::Owner,
        reads_logs: false,
        of_hadoop: false,
    };
    let minutes = minutes.to_string();
    with_cluster(&["--hadoop", version], |users| {
        target.run(&ALL, users, &[("MEMORY_TEST_MINUTES", &minutes)])
    })
}

impl Target {
    fn run(&self, selection: &[&str], users: &Users, more: &[(&str, &str)]) -> Result<()> {
        let mut test = cargo(&["test", "--no-fail-fast"]);
        // The programs are there; built by the tests they would lack the features of this selection.
        test.env(PREBUILT, "1");
        // They kill daemons below each other.
        test.args(selection).args(["--test", self.name, "--", "--ignored", "--test-threads", "1"]);
        let environment = match self.who {
            Who::User => &users.user,
            Who::Owner => &users.owner,
        };
        // Where this process is killed they live on, and must not meet the next run's daemons.
        test.stdin(place::held(&users.place)?);
        let test = test.args(self.filters).envs(environment.iter().cloned());
        run(test.envs(more.iter().copied()))
    }
}

fn told(failed: Vec<String>) -> Result<()> {
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}
