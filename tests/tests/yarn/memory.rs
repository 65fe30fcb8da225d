//! Jobs in a row on NodeManagers that kill a container which uses more memory than it asked for: none is killed.
//! `MEMORY_TEST_MINUTES` says for how long (3); `cargo xtask yarn memory --minutes N` runs it alone.

use super::client::{User, text_of};
use super::common::{bin, expected_counts, repository_text, sorted_lines, succeeded};
use hadoop::conf::Configuration;
use nix::unistd::{SysconfVar, sysconf};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MINUTES_VARIABLE: &str = "MEMORY_TEST_MINUTES";
const MINUTES: u64 = 3;
/// Memory of the JobManager and of each TaskManager, MiB.
const MEMORY: &str = "512";
/// Bytes of the text whose words are counted.
const TEXT_BYTES: usize = 48 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(500);

fn minutes() -> u64 {
    let set = std::env::var(MINUTES_VARIABLE).ok();
    set.map_or(MINUTES, |text| text.parse().expect("MEMORY_TEST_MINUTES is a whole number"))
}

/// The repository's text over and over, and what its words count to.
fn large_text(folder: &Path) -> (PathBuf, Vec<String>) {
    let (once, path) = (std::fs::read(repository_text()).unwrap(), folder.join("text"));
    let times = TEXT_BYTES / once.len();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for _ in 0..times {
        file.write_all(&once).unwrap();
    }
    drop(file);
    let counts = expected_counts(&repository_text()).into_iter().map(|line| {
        let (word, count) = line.split_once('\t').unwrap();
        format!("{word}\t{}", count.parse::<usize>().unwrap() * times)
    });
    (path, counts.collect())
}

/// Ends the looks at processes, also where the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The most resident memory that the processes of each container had together in each minute until `over`, MiB; by the
/// container in their environment.
fn peaks(application: &str, over: &AtomicBool) -> BTreeMap<String, Vec<u64>> {
    // A ResourceManager that was started again puts a number before it: `container_e02_…`.
    let mark = format!("_{}_", application.trim_start_matches("application_"));
    let page = u64::try_from(sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap()).unwrap();
    let mut peaks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let began = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let mut now: BTreeMap<String, u64> = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let environment = text_of(&read("environ"));
            let of = |pair: &str| pair.strip_prefix("CONTAINER_ID=").map(str::to_owned);
            let Some(container) = environment.split('\0').find_map(of) else { continue };
            let resident = text_of(&read("statm"));
            let pages = resident.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
            if container.contains(&mark) {
                *now.entry(container).or_default() += pages.unwrap_or(0) * page;
            }
        }
        let minute = usize::try_from(began.elapsed().as_secs() / 60).unwrap();
        for (container, bytes) in now {
            let minutes = peaks.entry(container).or_default();
            minutes.resize(minute + 1, 0);
            minutes[minute] = minutes[minute].max(bytes >> 20);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    peaks
}

/// The lines in which the cluster's NodeManagers say that they kill a container of this application for its memory.
fn kills(application: &str) -> Vec<String> {
    let logs = Path::new(&std::env::var_os("HADOOP_CONF_DIR").unwrap()).join("../logs");
    let mark = application.trim_start_matches("application_").to_owned();
    let files = std::fs::read_dir(logs).unwrap().flatten().map(|entry| entry.path());
    let nodes = files.filter(|path| path.display().to_string().contains("nodemanager"));
    let texts: Vec<String> = nodes.map(|path| text_of(&std::fs::read(path).unwrap())).collect();
    assert!(!texts.is_empty(), "no NodeManager has a log");
    let beyond = |line: &&str| line.contains(&mark) && line.contains("memory limits");
    texts.iter().flat_map(|text| text.lines()).filter(beyond).map(str::to_owned).collect()
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn no_container_is_killed_for_its_memory_while_jobs_run_in_a_row() {
    let conf = Configuration::load().unwrap();
    assert_ne!(conf.get_bool("yarn.nodemanager.pmem-check-enabled").unwrap(), Some(false));
    let (user, folder) = (User::new(), tempfile::tempdir().unwrap());
    let (text, counts) = large_text(folder.path());
    let start = ["yarn-session", "-d", "-jm", MEMORY, "-tm", MEMORY, "-s", "2"];
    succeeded(user.flott(&start));
    let application = user.alive()[0].clone();
    let over = AtomicBool::new(false);
    let (words, sums) = (bin("word_count"), bin("sequence_sum"));
    let text = text.to_str().unwrap();
    let jobs: [(&Path, &[&str]); 2] =
        [(&words, &["--input", text]), (&sums, &["--count", "20000000", "--keys", "100000"])];
    let (mut done, until) = (0, Instant::now() + Duration::from_secs(60 * minutes()));
    let peaks = std::thread::scope(|scope| {
        let peaks = scope.spawn(|| peaks(&application, &over));
        let end = End(&over);
        while Instant::now() < until {
            for (program, args) in jobs {
                let run = ["run", "-t", "yarn-session", "-p", "4", program.to_str().unwrap()];
                let run = user.flott(&[&run, args].concat());
                let said = text_of(&run.stderr);
                assert!(run.status.success() && !said.contains("restarts"), "{done}: {said}");
                if program == words {
                    assert!(sorted_lines(&run.stdout) == counts, "job {done} counted wrong");
                } else {
                    assert_eq!(text_of(&run.stdout).lines().count(), 100_000);
                }
                done += 1;
            }
        }
        drop(end);
        peaks.join().unwrap()
    });
    eprintln!(
        "{done} jobs in {} min; most resident memory of each minute, MiB, of {MEMORY}: {peaks:?}",
        minutes()
    );
    assert!(peaks.len() >= 3, "the JobManager and two TaskManagers: {peaks:?}");
    succeeded(user.flott(&["yarn-session", "--stop"]));
    user.nothing_is_left();
    assert_eq!(kills(&application), Vec::<String>::new());
}
