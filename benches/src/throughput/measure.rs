//! One run of one side: CPU, duration, memory and checksum, of a process from start to end or of processes that go on.

use super::Checksum;
use crate::process::{child_ids_of, cpu_of_children, cpu_of_tree, peak_mib};
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::time::Instant;

/// Time between two looks at the memory of processes, or at the state of a job.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum duration of one job.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// The measurements of one run of one side: CPU time, duration, memory and checksum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// CPU-seconds (user and system) of all processes that are counted.
    pub cpu_s: f64,
    /// Seconds of elapsed time: of a process from start to end, of a job from submission to FINISHED.
    pub wall_s: f64,
    /// Sum in MiB of the peaks of resident memory of all processes that were seen, whether they had them at the same time or not.
    pub peak_mib: f64,
    /// Checksum over the results, the same for every system.
    pub checksum: Checksum,
}

/// Runs a process to its end, without a time limit, and measures it from start to end, start-up included, with the children that it waits
/// for. The last line of its standard output is the checksum. CPU of other children of this process that end meanwhile counts too. Blocks
/// the thread.
///
/// # Errors
/// When it cannot be started, ends with another status than 0 (the text has its standard error), or prints no checksum.
pub fn of_process(command: &mut Command) -> Result<Run> {
    let (before, began) = (cpu_of_children(), Instant::now());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("{command:?} can't be started"))?;
    let memory = PeakMemory::watch(vec![child.id()])?;
    let output = child.wait_with_output()?;
    let wall_s = began.elapsed().as_secs_f64();
    let cpu_s = (cpu_of_children() - before).0;
    let peak_mib = memory.end();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {error}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let checksum = text.lines().next_back().unwrap_or_default().parse()?;
    Ok(Run { cpu_s, wall_s, peak_mib, checksum })
}

/// Measures running processes between two points in time, with the children that they start and wait for in between. A thread looks at
/// the memory of both every 20 ms until [`Span::end`]; a child that lives shorter may be missed there, but not in the CPU.
pub struct Span {
    processes: Vec<u32>,
    cpu_before: f64,
    began: Instant,
    memory: PeakMemory,
}

impl Span {
    /// Begins a measurement of these processes.
    ///
    /// # Errors
    /// When one of the processes is not there; one that has ended and was not waited for still is.
    pub fn begin(processes: Vec<u32>) -> Result<Self> {
        let memory = PeakMemory::watch(processes.clone())?;
        Ok(Self { cpu_before: cpu_of_all(&processes)?, began: Instant::now(), memory, processes })
    }

    /// Returns the seconds since [`Span::begin`].
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Ends the measurement and returns it: `wall_s` is the duration that counts, in seconds, and `checksum` the result of what was run.
    /// CPU is that of the processes since [`Span::begin`] and of their children that have ended and been waited for; the peak of memory is
    /// that of the processes' whole life, so also from before the span.
    ///
    /// # Errors
    /// When one of the processes is no longer there; one that has ended and was not waited for still is.
    pub fn end(self, wall_s: f64, checksum: Checksum) -> Result<Run> {
        let cpu_s = cpu_of_all(&self.processes)? - self.cpu_before;
        Ok(Run { cpu_s, wall_s, peak_mib: self.memory.end(), checksum })
    }
}

fn cpu_of_all(processes: &[u32]) -> Result<f64> {
    let each = processes.iter().map(|pid| cpu_of_tree(*pid).map(|cpu| cpu.0));
    Ok(each.sum::<std::io::Result<f64>>()?)
}

/// A thread that looks every 20 ms at the peak memory of processes and of all that they have started, until it is asked to end.
/// A process that lives shorter may be missed. If this is dropped instead of ended, the thread ends as well.
pub struct PeakMemory {
    end: Sender<()>,
    thread: JoinHandle<f64>,
}

impl PeakMemory {
    /// Starts the thread for the processes with these ids.
    ///
    /// # Errors
    /// When the thread cannot be started. A process that is not there is no error, and counts nothing.
    pub fn watch(processes: Vec<u32>) -> Result<Self> {
        let (end, ended) = mpsc::channel::<()>();
        let watch = move || {
            let mut peaks = BTreeMap::new();
            loop {
                look(&processes, &mut peaks);
                if ended.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                    return peaks.values().sum();
                }
            }
        };
        Ok(Self { end, thread: thread::Builder::new().spawn(watch)? })
    }

    /// Ends the thread. Returns the sum in MiB of the peaks of resident memory of all processes that were seen, each from its whole life
    /// and with the pages that it shares, whether they had them at the same time or not; NaN if the thread panicked.
    pub fn end(self) -> f64 {
        drop(self.end);
        self.thread.join().unwrap_or(f64::NAN)
    }
}

/// Notes the peak of each process and of its children. A process that has ended keeps the last peak that was seen.
fn look(processes: &[u32], peaks: &mut BTreeMap<u32, f64>) {
    for pid in processes {
        if let Ok(peak) = peak_mib(*pid) {
            peaks.insert(*pid, peak);
        }
        look(&child_ids_of(*pid).unwrap_or_default(), peaks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_process_is_measured_from_start_to_end() {
        let run = of_process(&mut shell("sleep 0.1; printf 'a remark\\n3\\t5\\n'")).unwrap();
        assert_eq!(run.checksum, Checksum { count: 3, sum: 5 });
        // No upper bound of CPU: children of tests that run beside this one count too.
        assert!(run.wall_s >= 0.1 && run.cpu_s >= 0.0 && run.peak_mib > 0.1, "{run:?}");
    }

    #[test]
    fn a_process_that_fails_or_prints_no_checksum_is_an_error() {
        let failed = of_process(&mut shell("echo too bad >&2; exit 3")).unwrap_err().to_string();
        assert!(failed.contains("too bad"), "{failed}");
        assert!(of_process(&mut shell("echo nothing")).is_err());
    }

    #[test]
    fn a_span_counts_children_that_were_waited_for() {
        let mut parent =
            shell("read go; sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; read end");
        let mut parent = parent.stdin(Stdio::piped()).spawn().unwrap();
        let span = Span::begin(vec![parent.id()]).unwrap();
        let mut input = parent.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        while cpu_of_all(&[parent.id()]).unwrap() - span.cpu_before < 0.03 {
            thread::yield_now();
        }
        let run = span.end(1.0, Checksum::default()).unwrap();
        assert!(run.cpu_s >= 0.03 && run.peak_mib > 0.1, "{run:?}");
        std::io::Write::write_all(&mut input, b"end\n").unwrap();
        assert!(parent.wait().unwrap().success());
    }
}
