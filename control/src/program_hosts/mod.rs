//! The places of program hosts in one process: how many hosts may exist at once, which request gets the next
//! place, and which host is ended to make room. It must never end a host that builds a graph or runs
//! coordinators, and never let coordinators take the place that is reserved for builds.
//!
//! Example with `max` 4: three jobs run coordinators, the fourth place is left for builds. A submission builds
//! its graph there and its host stays, idle, in case the job gets its slots at once. The next submission needs
//! the place: the idle host is ended, and the first job gets a new one together with its slots, when one of
//! the three has ended.

#[cfg(test)]
mod tests;

use model::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// How many hosts there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most hosts at once, those that are being ended included. One place is for builds alone, so at least 2.
    pub max: usize,
    /// Most hosts that have built a graph and wait for their job's slots.
    pub idle: usize,
    /// Longest time that a host waits for its job's slots.
    pub idle_for: Duration,
}

/// What a host is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Building a job's graph.
    Build,
    /// Running a job's coordinators or tasks.
    Run,
}

/// Names a request. Unique in the life of a [`Places`]; ascending in the order of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The request has its place: use the job's host, or start it.
    Grant {
        /// Which request.
        ticket: Ticket,
        /// Its job.
        job: JobId,
    },
    /// No place became free in time.
    Refuse {
        /// Which request.
        ticket: Ticket,
        /// Who holds the places.
        why: NoPlace,
    },
    /// End this job's host. Its place is free at [`Places::gone`].
    End {
        /// Whose host.
        job: JobId,
        /// Why, for the log.
        why: &'static str,
    },
}

/// Who holds the places. Says so as an error's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace {
    max: usize,
    purpose: Purpose,
    running: usize,
    building: usize,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max, purpose, running, building } = self;
        let whom = match purpose {
            Purpose::Build => "to build the job graph in",
            Purpose::Run => "for the job's coordinators (one is reserved for builds)",
        };
        write!(
            f,
            "none of the {max} program hosts that the JobManager may have became free {whom}: {running} run \
             coordinators of other jobs, {building} build job graphs; try again later or raise \
             jobmanager.program-hosts.max"
        )
    }
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Starts and builds its job's graph.
    Building,
    /// Has built the graph; its job has not asked for it yet. `since` is monotonic.
    Idle { since: Duration },
    /// Runs coordinators or tasks.
    Running,
    /// Serves what its finished job collected. `since` is the time of the latest request, monotonic.
    Serving { since: Duration },
    /// Is being ended.
    Ending,
}

#[derive(Debug)]
struct Request {
    job: JobId,
    purpose: Purpose,
    /// Monotonic.
    deadline: Duration,
}

/// The places and who waits for one. At most one host per job.
#[derive(Debug)]
pub struct Places {
    /// `None`: as many hosts as are asked for.
    bounds: Option<Bounds>,
    held: BTreeMap<JobId, Use>,
    waiting: BTreeMap<Ticket, Request>,
    tickets: u64,
}

impl Places {
    /// All places free. Without bounds every request is granted as soon as the job's former host is gone.
    pub fn new(bounds: Option<Bounds>) -> Self {
        Self { bounds, held: BTreeMap::new(), waiting: BTreeMap::new(), tickets: 0 }
    }

    /// Asks for the job's host. The answer is a command of [`Places::decide`], at `deadline` (monotonic) at
    /// the latest.
    pub fn request(&mut self, job: JobId, purpose: Purpose, deadline: Duration) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.waiting.insert(ticket, Request { job, purpose, deadline });
        ticket
    }

    /// Takes back all requests for a job's host that have no answer yet, and returns them.
    pub fn withdraw(&mut self, job: JobId) -> Vec<Ticket> {
        let gone = self.waiting.extract_if(.., |_, request| request.job == job);
        gone.map(|(ticket, _)| ticket).collect()
    }

    /// The host has built its graph and stays in case its job gets its slots at once.
    pub fn built(&mut self, now: Duration, job: JobId) {
        self.change(job, Use::Idle { since: now }, |held| held == Use::Building);
    }

    /// The job has finished and its host serves what it collected; also at each later request for that.
    pub fn serving(&mut self, now: Duration, job: JobId) {
        self.change(job, Use::Serving { since: now }, |held| held != Use::Ending);
    }

    /// The host is being ended.
    pub fn ending(&mut self, job: JobId) {
        self.change(job, Use::Ending, |_| true);
    }

    /// The host is gone, or was never started.
    pub fn gone(&mut self, job: JobId) {
        self.held.remove(&job);
    }

    fn change(&mut self, job: JobId, to: Use, from: impl Fn(Use) -> bool) {
        if let Some(held) = self.held.get_mut(&job).filter(|held| from(**held)) {
            *held = to;
        }
    }

    /// When [`Places::decide`] is to be called again at the latest, monotonic.
    pub fn next_deadline(&self) -> Option<Duration> {
        let waiting = self.waiting.values().map(|request| request.deadline);
        let idle_for = self.bounds.map(|bounds| bounds.idle_for);
        let idle = self.held.values().filter_map(|held| match held {
            Use::Idle { since } => idle_for.map(|time| since.saturating_add(time)),
            _ => None,
        });
        waiting.chain(idle).min()
    }

    /// Answers what can be answered, and names the hosts that have to go. To be called after every change and
    /// at [`Places::next_deadline`].
    pub fn decide(&mut self, now: Duration) -> Vec<Command> {
        let mut commands = Vec::new();
        let overdue = self.waiting.extract_if(.., |_, request| request.deadline <= now);
        let overdue: Vec<_> = overdue.map(|(ticket, request)| (ticket, request.purpose)).collect();
        for (ticket, purpose) in overdue {
            commands.push(Command::Refuse { ticket, why: self.no_place(purpose) });
        }
        self.end_idle(now, &mut commands);
        let short = self.grant(&mut commands);
        self.make_room(short, &mut commands);
        commands
    }

    fn count(&self, what: Use) -> usize {
        self.held.values().filter(|held| **held == what).count()
    }

    fn no_place(&self, purpose: Purpose) -> NoPlace {
        NoPlace {
            max: self.bounds.map_or(usize::MAX, |bounds| bounds.max),
            purpose,
            running: self.count(Use::Running),
            building: self.count(Use::Building),
        }
    }

    /// Jobs that have waited for their slots for a while, or behind which others were built, do not get them
    /// at once.
    fn end_idle(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let Some(bounds) = self.bounds else { return };
        let mut idle: Vec<(Duration, JobId)> = self.since(|held| match held {
            Use::Idle { since } => Some(since),
            _ => None,
        });
        idle.sort_unstable();
        let surplus = idle.len().saturating_sub(bounds.idle);
        for (place, (since, job)) in idle.into_iter().enumerate() {
            if place < surplus || since.saturating_add(bounds.idle_for) <= now {
                self.end(job, "its job waits for slots", commands);
            }
        }
    }

    fn since(&self, of: impl Fn(Use) -> Option<Duration>) -> Vec<(Duration, JobId)> {
        self.held.iter().filter_map(|(job, held)| Some((of(*held)?, *job))).collect()
    }

    fn end(&mut self, job: JobId, why: &'static str, commands: &mut Vec<Command>) {
        self.held.insert(job, Use::Ending);
        commands.push(Command::End { job, why });
    }

    /// Grants in the order of the requests, but coordinators before builds: they leave a place to builds,
    /// builds leave none to them. Returns how many hosts would have to go so that all get a place that may.
    fn grant(&mut self, commands: &mut Vec<Command>) -> usize {
        let mut short = BTreeSet::new();
        for purpose in [Purpose::Run, Purpose::Build] {
            let all = self.waiting.iter().filter(|(_, request)| request.purpose == purpose);
            let wanted: Vec<(Ticket, JobId)> =
                all.map(|(ticket, request)| (*ticket, request.job)).collect();
            for (ticket, job) in wanted {
                let held = self.held.get(&job).copied();
                if held == Some(Use::Ending) {
                    // It gets the place when that host is gone.
                    continue;
                }
                let may_run = self.bounds.is_none_or(|bounds| {
                    // Those that are short of a place count: not more hosts go than may follow.
                    self.count(Use::Running) + short.len() + 1 < bounds.max
                });
                if purpose == Purpose::Run && held != Some(Use::Running) && !may_run {
                    continue;
                }
                if held.is_none() && self.bounds.is_some_and(|b| self.held.len() >= b.max) {
                    short.insert(job);
                    continue;
                }
                let to = match (purpose, held) {
                    (Purpose::Run, _) | (_, Some(Use::Running)) => Use::Running,
                    (Purpose::Build, _) => Use::Building,
                };
                self.held.insert(job, to);
                self.waiting.remove(&ticket);
                commands.push(Command::Grant { ticket, job });
            }
        }
        short.len()
    }

    /// Ends hosts until `short` places will be free: those first whose job only has to start another one, then
    /// those that serve results, each the longest unused first.
    fn make_room(&mut self, short: usize, commands: &mut Vec<Command>) {
        let missing = short.saturating_sub(self.count(Use::Ending));
        let mut idle = self.since(|held| match held {
            Use::Idle { since } => Some(since),
            _ => None,
        });
        let mut serving = self.since(|held| match held {
            Use::Serving { since } => Some(since),
            _ => None,
        });
        idle.sort_unstable();
        serving.sort_unstable();
        for (_, job) in idle.into_iter().chain(serving).take(missing) {
            self.end(job, "another job needs its place", commands);
        }
    }
}
