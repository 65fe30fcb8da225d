//! Tests against Hadoop's real daemons: those of hadoop and those of objects in HDFS. Each cluster is started, tested
//! and stopped, even after a failure. Two clusters run at a time, because their tests mostly wait.

use super::{HADOOP, Options, Users, fetched, home, place, with_cluster};
use crate::chores::{MUTANTS, PREBUILT};
use crate::run::{Result, cargo, run, show};
use std::{fs, thread};

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

/// The tests of [`SECOND_LANE`] run beside these.
const FIRST_LANE: &[Tests] = &[
    Tests {
        cluster: &[],
        hadoop: None,
        targets: &[
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
];

/// Clusters that take about as long together as those of [`FIRST_LANE`].
const SECOND_LANE: &[Tests] = &[
    Tests {
        cluster: &[],
        hadoop: None,
        targets: &[Target {
            name: "cluster",
            filters: &["--skip", "secure::", "--skip", "failover::"],
            who: Who::User,
            reads_logs: false,
            of_hadoop: true,
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
/// built. What the tests of the second lane print is shown when all of them have ended.
pub(crate) fn of(selection: &[&str], version: &str) -> Result<()> {
    let log = home()?.join("second-lane.log");
    fs::create_dir_all(home()?)?;
    let output = fs::File::create(&log)?;
    eprintln!(
        "two clusters are tested at a time; the second one's tests print to {}",
        log.display()
    );
    let [first, second] = thread::scope(|scope| {
        let second = scope.spawn(|| lane(SECOND_LANE, selection, version, Some(&output)));
        let first = lane(FIRST_LANE, selection, version, None);
        [first, second.join().unwrap_or_else(|_| vec!["the second lane panicked".to_owned()])]
    });
    show(&log)?;
    told([first, second].concat())
}

/// Tests the clusters of a lane after each other, and returns what has failed. The tests print to `output`, or to this terminal.
fn lane(
    tests: &[Tests],
    selection: &[&str],
    version: &str,
    output: Option<&fs::File>,
) -> Vec<String> {
    let mut failed = Vec::new();
    for Tests { cluster, hadoop, targets } in tests {
        if selection == ALONE && !targets.iter().any(|target| target.of_hadoop) {
            continue;
        }
        let cluster = [cluster, &["--hadoop", hadoop.unwrap_or(version)][..]].concat();
        let tested = with_cluster(&cluster, |users| {
            // The other targets' results are worth having too.
            let selected = targets.iter().filter(|target| target.of_hadoop || selection != ALONE);
            let (run, skipped): (Vec<_>, Vec<_>) =
                selected.partition(|target| users.keeps_logs || !target.reads_logs);
            let ended = run.iter().map(|target| target.run(selection, users, &[], output));
            let failed = ended.filter_map(|ended| ended.err().map(|error| error.to_string()));
            let not_run = skipped.iter().map(|Target { name, .. }| {
                format!("the tests of `{name}` did not run: this cluster keeps no logs; see the warning above")
            });
            told(failed.chain(not_run).collect())
        });
        // And the other cluster's.
        failed.extend(tested.err().map(|error| error.to_string()));
    }
    failed
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
        target.run(&ALL, users, &[("MEMORY_TEST_MINUTES", &minutes)], None)
    })
}

impl Target {
    /// Runs the tests with the variables `more`; they print to `output`, or to this terminal.
    fn run(
        &self,
        selection: &[&str],
        users: &Users,
        more: &[(&str, &str)],
        output: Option<&fs::File>,
    ) -> Result<()> {
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
        if let Some(output) = output {
            test.stdout(output.try_clone()?).stderr(output.try_clone()?);
        }
        run(test.envs(more.iter().copied()))
    }
}

fn told(failed: Vec<String>) -> Result<()> {
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}
