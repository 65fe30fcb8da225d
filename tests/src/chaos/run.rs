//! One run: a cluster, its job undisturbed, the same job under the plan of a seed, and the comparison.

use super::{
    cluster::{Cluster, WITHIN},
    disk::Disk,
    mix::Mix,
    plan::{DiskFault, Place, Plan, Step, Victim},
    points::{self, Point},
    processes::{kill_pid, parent},
};
use anyhow::{Context as _, Result, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// TaskManagers of a run, with two slots each: the job finds enough slots while one of them is being replaced.
const TASKMANAGERS: usize = 3;
/// The least that a run must have in the end, or it has shown nothing.
const KILLS_AT_LEAST: usize = 5;
const CHECKPOINTS_AT_LEAST: usize = 10;
/// Maximum time a run waits for a process to reach an armed point.
const POINT_WITHIN: Duration = Duration::from_secs(15);
/// Lines that a report shows of those that differ.
const SHOWN: usize = 5;

/// The settings that all runs of a chaos campaign share, from its command line.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of the programs `flott`, `chaos_job` and `passthrough_fs`.
    pub bins: PathBuf,
    /// True if the disks of checkpoints, output and high availability become slow and full.
    pub disks: bool,
    /// True if the job's sink breaks two-phase commit on purpose, so that a run has to fail.
    pub commits_early: bool,
}

/// The events of one run that the campaign counts, to show that the faults have really happened.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Number of processes that were killed, at points or anywhere, by kind.
    pub kills: BTreeMap<Victim, usize>,
    /// Number of kills at points, by point; they are among `kills` too.
    pub hits: BTreeMap<Point, usize>,
    /// Points that no process came to within 15 s, so that nothing was killed there.
    pub missed: Vec<Point>,
    /// Number of times that a disk was slow or full, by [`DiskFault::name`].
    pub disks: BTreeMap<&'static str, usize>,
    /// Number of checkpoints that the disturbed job has completed, as the JobManagers' logs say.
    pub checkpoints: usize,
    /// Number of lines that the job has committed, all of them right.
    pub lines: usize,
    /// True if the run had a standby JobManager, which takes over when the leader is killed; false if a killed one was started again.
    pub has_standby: bool,
}

impl Seen {
    /// Returns the number of all kills, those at points included.
    pub fn all_kills(&self) -> usize {
        self.kills.values().sum()
    }
}

/// Runs a seed in an empty folder: starts a cluster of real processes, runs the job once undisturbed and once under the plan's kills and
/// faults, and compares what both have committed with what they must commit. `progress` is called with each step before it is done. All
/// processes have ended when this returns.
///
/// # Errors
/// The committed output is not that of the undisturbed job, the job did not finish, the run was too calm to show anything, or
/// the machine lacks something that it needs. The folder then has logs and, without disks, outputs.
pub fn run(
    seed: u64,
    settings: &Settings,
    folder: &Path,
    mut progress: impl FnMut(&str),
) -> Result<Seen> {
    let plan = Plan::of(seed);
    let mut run = Run::start(seed, settings, folder, &plan)?;
    progress("undisturbed");
    let expected = run.mix.expected();
    let undisturbed = run.submit("undisturbed", &[])?;
    run.cluster.await_finished(&undisturbed)?;
    compare(&expected, &run.output("undisturbed")).context("the undisturbed job")?;
    run.cluster.until("the undisturbed job's hosts end", WITHIN, |cluster| {
        cluster.hosts().is_empty().then_some(())
    })?;

    let text = |path: PathBuf| path.display().to_string();
    let mut more = vec!["--points".to_owned(), text(run.points.clone())];
    more.extend(["--gate".to_owned(), text(run.gate.clone())]);
    more.extend(["--pace", "100"].map(str::to_owned));
    if settings.commits_early {
        more.push("--commits-early".to_owned());
    }
    run.job = run.submit("disturbed", &more)?;
    for step in plan.steps {
        progress(&format!("{step:?}"));
        run.step(step).with_context(|| format!("step {step:?}"))?;
    }
    progress("the end");
    let job = run.job.clone();
    run.cluster.await_finished(&job)?;
    compare(&expected, &run.output("disturbed"))?;
    run.cluster.check_processes()?;
    run.seen.checkpoints = run.checkpoints();
    run.seen.lines = expected.len();
    let Seen { checkpoints, .. } = run.seen;
    let kills = run.seen.all_kills();
    ensure!(
        kills >= KILLS_AT_LEAST && checkpoints >= CHECKPOINTS_AT_LEAST,
        "the run shows nothing: {kills} kills, {checkpoints} checkpoints"
    );
    Ok(run.seen)
}

struct Run {
    seed: u64,
    mix: Mix,
    random: ChaCha8Rng,
    folder: PathBuf,
    points: PathBuf,
    gate: PathBuf,
    job: String,
    seen: Seen,
    // In this order: the processes end before their disks go.
    cluster: Cluster,
    disks: BTreeMap<Place, Disk>,
}

impl Run {
    fn start(seed: u64, settings: &Settings, folder: &Path, plan: &Plan) -> Result<Self> {
        let mut disks = BTreeMap::new();
        for place in Place::ALL.into_iter().filter(|_| settings.disks) {
            disks.insert(place, Disk::mount(folder, place.name(), &settings.bins)?);
        }
        let text = |place: Place| folder.join(place.name()).display().to_string();
        let points = folder.join("points");
        fs::create_dir_all(&points)?;
        let options = [
            ("high-availability.type", "filesystem".to_owned()),
            ("high-availability.storageDir", text(Place::HighAvailability)),
            ("high-availability.cluster-id", "chaos".to_owned()),
            ("high-availability.filesystem.lease-duration", "3 s".to_owned()),
            ("high-availability.filesystem.renew-interval", "300 ms".to_owned()),
            ("execution.checkpointing.interval", "100 ms".to_owned()),
            ("execution.checkpointing.dir", text(Place::Checkpoints)),
            // Everything but the smallest state goes through files.
            ("execution.checkpointing.data-inline-threshold", "64".to_owned()),
            ("execution.checkpointing.incremental", (seed % 2 == 1).to_string()),
            ("restart-strategy.type", "fixed-delay".to_owned()),
            ("restart-strategy.fixed-delay.attempts", "100000".to_owned()),
            ("restart-strategy.fixed-delay.delay", "50 ms".to_owned()),
            ("taskmanager.numberOfTaskSlots", "2".to_owned()),
            ("log.level", "info".to_owned()),
        ];
        let options = options.map(|(key, value)| format!("{key}={value}")).to_vec();
        let jobmanagers = if plan.has_standby { 2 } else { 1 };
        let cluster = Cluster::start(&settings.bins, folder, options, jobmanagers, TASKMANAGERS)?;
        Ok(Self {
            seed,
            mix: Mix::of(seed),
            random: ChaCha8Rng::seed_from_u64(!seed),
            folder: folder.to_owned(),
            points,
            gate: folder.join("gate"),
            job: String::new(),
            seen: Seen { has_standby: plan.has_standby, ..Seen::default() },
            cluster,
            disks,
        })
    }

    /// Returns the folder for the output of the job `name`.
    fn output(&self, name: &str) -> PathBuf {
        self.folder.join(Place::Output.name()).join(name)
    }

    /// Submits the job with its output in the folder `name`, and more arguments.
    fn submit(&mut self, name: &str, more: &[String]) -> Result<String> {
        let output = self.output(name).display().to_string();
        let mut args = vec!["--seed".to_owned(), self.seed.to_string()];
        args.extend(["--output".to_owned(), output]);
        args.extend_from_slice(more);
        self.cluster.submit("chaos_job", &args, self.mix.parallelism)
    }

    /// Returns the number of complete checkpoints of the disturbed job.
    fn checkpoints(&self) -> usize {
        self.cluster.logged(&["checkpoint complete", &self.job])
    }

    fn await_checkpoints(&mut self, count: usize) -> Result<()> {
        let job = self.job.clone();
        let complete = |cluster: &mut Cluster| cluster.logged(&["checkpoint complete", &job]);
        self.cluster.until(&format!("{count} checkpoints"), WITHIN, |cluster| {
            (complete(cluster) >= count).then_some(())
        })
    }

    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Checkpoints(0) => Ok(()),
            Step::Checkpoints(more) => {
                let before = self.checkpoints();
                self.await_checkpoints(before + more)
            }
            Step::Kill(victim) => self.kill(victim),
            Step::KillAt(point, victim) => self.kill_at(point, victim),
            Step::Disk(place, fault) => self.disturb_disk(place, fault),
            Step::OpenGate(checkpoints) => {
                self.await_checkpoints(checkpoints)?;
                // Before the gate opens, so that the first writer at its end finds the point.
                points::arm(&self.points, Point::FinalCheckpoint)?;
                fs::write(&self.gate, "").context("cannot open the gate")
            }
        }
    }

    fn kill(&mut self, victim: Victim) -> Result<()> {
        let any = self.random.random_range(0..100_usize);
        match victim {
            Victim::Host => self.cluster.until("a program host is killed", WITHIN, |cluster| {
                let hosts = cluster.hosts();
                let host = hosts.get(any % hosts.len().max(1))?;
                kill_pid(*host).then_some(())
            })?,
            Victim::TaskManager => {
                self.cluster.kill_taskmanager(None, any)?;
            }
            Victim::JobManager => self.cluster.kill_jobmanager()?,
        }
        *self.seen.kills.entry(victim).or_default() += 1;
        Ok(())
    }

    /// Kills when a process waits at the point. A point that nobody comes to in time is not hit, which the campaign notices.
    fn kill_at(&mut self, point: Point, victim: Victim) -> Result<()> {
        let folder = self.points.clone();
        if point != Point::FinalCheckpoint {
            points::arm(&folder, point)?;
        }
        let waits = |_: &mut Cluster| points::waiting(&folder, point);
        let waited = self.cluster.until(point.name(), POINT_WITHIN, waits);
        let pid = match waited {
            Ok(pid) => pid,
            Err(_) if points::disarm(&folder, point) => {
                self.seen.missed.push(point);
                return Ok(());
            }
            Err(error) => match points::waiting(&folder, point) {
                Some(pid) => pid,
                None => return Err(error),
            },
        };
        let its_parent = parent(pid);
        let is_killed = match victim {
            Victim::Host => kill_pid(pid),
            Victim::TaskManager if !point.is_of_enumerator() => match its_parent {
                Some(_) => self.cluster.kill_taskmanager(its_parent, 0)?,
                None => false,
            },
            // The enumerator is in a host of the JobManager that leads.
            Victim::TaskManager | Victim::JobManager => {
                self.cluster.kill_jobmanager()?;
                true
            }
        };
        points::release(&folder, point, pid);
        if is_killed {
            *self.seen.hits.entry(point).or_default() += 1;
            let killed = match victim {
                Victim::TaskManager if point.is_of_enumerator() => Victim::JobManager,
                _ => victim,
            };
            *self.seen.kills.entry(killed).or_default() += 1;
        }
        Ok(())
    }

    fn disturb_disk(&mut self, place: Place, fault: DiskFault) -> Result<()> {
        let Some(disk) = self.disks.get(&place) else { return Ok(()) };
        match fault {
            DiskFault::Slow(ms) => {
                disk.hang()?;
                // The length of the fault, which nothing ends earlier.
                thread::sleep(Duration::from_millis(ms));
                disk.go_on()?;
            }
            DiskFault::Full => {
                let folder = disk.path().display().to_string();
                let no_room = |cluster: &Cluster| cluster.logged(&[&folder, "is full"]);
                let before = no_room(&self.cluster);
                disk.fill()?;
                let noticed = self.cluster.until("a full disk is noticed", WITHIN, |cluster| {
                    match no_room(cluster) > before {
                        true => Some(Ok(())),
                        // A file that is replaced by one of the same size always finds the room of its predecessor, if one was being
                        // replaced when the disk was filled.
                        false => disk.fill().err().map(Err),
                    }
                });
                disk.make_room()?;
                noticed??;
            }
        }
        *self.seen.disks.entry(fault.name(place)).or_default() += 1;
        Ok(())
    }
}

/// Returns the lines of the files in a folder that are visible, sorted.
fn committed(folder: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            lines.extend(fs::read_to_string(entry.path())?.lines().map(str::to_owned));
        }
    }
    lines.sort();
    Ok(lines)
}

/// Compares what was committed to a folder with what had to be.
fn compare(expected: &[String], folder: &Path) -> Result<()> {
    let committed = committed(folder)?;
    if committed == expected {
        return Ok(());
    }
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    committed.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    expected.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    let of = |sign: i64| {
        let lines = counts.iter().filter(move |(_, n)| n.signum() == sign);
        let shown: Vec<&str> = lines.clone().map(|(line, _)| *line).take(SHOWN).collect();
        let all: i64 = lines.map(|(_, n)| n.abs()).sum();
        (all, shown.join(", "))
    };
    let ((missing, some_missing), (surplus, some_surplus)) = (of(-1), of(1));
    anyhow::bail!(
        "the output differs from the undisturbed one: {missing} lines are missing ({some_missing}), {surplus} are surplus \
         ({some_surplus})"
    )
}
