//! The places of program hosts in one process: how many hosts may exist at once, which request gets the next place, and
//! which host is ended to make room. This module must never end a host that builds a graph or runs coordinators, and
//! never let coordinators take the place that is reserved for builds.
//!
//! Example with `max` 4: three jobs run coordinators, and the fourth place is left for builds. A submission builds its
//! graph there, and its host stays, idle, in case the job gets its slots at once. The next submission needs the place,
//! so the idle host is ended. When one of the three jobs has ended, the first submission's job gets its slots and a new
//! host.

#[cfg(test)]
mod tests;

use model::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Time for which a host that serves results keeps its place, after its job has finished and after each request for the
/// results. After that another job may take the place. A client that waits for the job asks for the results at once and again
/// until it has them all.
pub const SERVES_AT_LEAST: Duration = Duration::from_secs(5);

/// Limits on the program hosts of a JobManager: their number, the number and time of idle ones, and the number of waiting builds. A
/// program host is a child process that runs a job's program: it builds the graph and runs coordinators. (Slots limit those of
/// TaskManagers, which run tasks.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of hosts at the same time, including those that are being ended; at least 2, because one place is
    /// reserved for builds. A request beyond it waits until a host ends, and is refused at its deadline.
    pub max: usize,
    /// Maximum number of hosts that have built a graph and wait for their job's slots; beyond it the longest idle are ended; 0: each is
    /// ended as soon as it has built its graph, unless it was granted to its job for running before.
    pub idle: usize,
    /// Maximum time for which a host that has built a graph waits for its job's slots; then it is ended.
    pub idle_for: Duration,
    /// Maximum number of requests for builds that wait for a place; the newest beyond it are refused at once; 0: every one that gets no
    /// place at once.
    pub waiting: usize,
}

/// The purpose for which a program host is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Building a job's graph; such a request may take every place.
    Build,
    /// Running a job's coordinators or tasks; such requests always leave one place for builds.
    Run,
}

/// The name of a request for a program host. Unique within one [`Places`] and ascending in the order of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A command for the caller, from [`Places::decide`]: grant or refuse a request, or end a host. Commands are carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The request has its place: use the job's host, or start one if it has none.
    Grant {
        /// The request, as [`Places::request`] named it.
        ticket: Ticket,
        /// The job of the request.
        job: JobId,
    },
    /// Refuse the request: no place became free before its deadline, or too many requests for builds wait.
    Refuse {
        /// The request, as [`Places::request`] named it.
        ticket: Ticket,
        /// The use of the places, as the reason.
        why: NoPlace,
    },
    /// End this job's host, to make room, or because it was idle for too long or more hosts are idle than [`Bounds::idle`]. Its place
    /// becomes free when the caller reports [`Places::gone`].
    End {
        /// The job of the host.
        job: JobId,
        /// The reason, for the log.
        why: &'static str,
    },
}

/// The reason why a request for a program host got no place (none became free before its deadline, or more builds wait than
/// [`Bounds::waiting`]), and how the places are used. Its `Display` is the error's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace {
    max: usize,
    purpose: Purpose,
    /// True if the request was refused because too many others wait; false if its time is over.
    queue_is_full: bool,
    /// Number of the other requests that wait.
    waiting: usize,
    running: usize,
    building: usize,
    idle: usize,
    serving: usize,
    ending: usize,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max, waiting, running, building, idle, serving, ending, .. } = self;
        let whom = match self.purpose {
            Purpose::Build => "to build the job graph in",
            Purpose::Run => "for the job's coordinators (one is reserved for builds)",
        };
        let (when, most) = match self.queue_is_full {
            true => ("is free", ", which is the most"),
            false => ("became free in time", ""),
        };
        write!(
            f,
            "none of the {max} program hosts that the JobManager may have {when} {whom}: {running} run coordinators \
             of other jobs, {building} build job graphs, {idle} have built one and wait for their job's slots, \
             {serving} serve the collected results of finished jobs, {ending} are being ended; {waiting} other \
             requests wait{most}; try again later or raise jobmanager.program-hosts.max"
        )
    }
}

/// The current use of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The host starts or builds its job's graph.
    Building,
    /// The host has built the graph, and its job has not requested it since. `since` is monotonic.
    Idle { since: Duration },
    /// The host runs coordinators or tasks.
    Running,
    /// The host serves the results that its finished job collected. `since` is the time of the latest request,
    /// monotonic.
    Serving { since: Duration },
    /// The host is being ended.
    Ending,
}

#[derive(Debug)]
struct Request {
    job: JobId,
    purpose: Purpose,
    /// Time at which the request is refused if it has no place, monotonic.
    deadline: Duration,
}

/// The places for program hosts (child processes that run jobs' programs) and the requests that wait for one; at most [`Bounds::max`] hosts
/// exist at once. Each job has at most one host. The owner asks for a host by [`Places::request`], learns the outcome from
/// [`Places::decide`], and reports what becomes of the host: [`Places::built`], [`Places::serving`], [`Places::ending`], [`Places::gone`].
/// Starts and ends no host itself.
#[derive(Debug)]
pub struct Places {
    /// The limits; `None` if any number of hosts is allowed.
    bounds: Option<Bounds>,
    held: BTreeMap<JobId, Use>,
    waiting: BTreeMap<Ticket, Request>,
    tickets: u64,
    /// Time of the last [`Places::decide`], monotonic.
    decided: Duration,
}

impl Places {
    /// Returns a state in which all places are free. With `None` for the limits, every request is granted as soon as the job's
    /// host, if it is being ended, is gone, and refused only if its deadline comes first.
    pub fn new(bounds: Option<Bounds>) -> Self {
        Self {
            bounds,
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            tickets: 0,
            decided: Duration::ZERO,
        }
    }

    /// Requests a program host for the job and returns the request's name. [`Places::decide`] grants the request, or refuses it at
    /// `deadline` (monotonic) or because too many wait. A job may have several requests, for the same host; each is answered.
    pub fn request(&mut self, job: JobId, purpose: Purpose, deadline: Duration) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.waiting.insert(ticket, Request { job, purpose, deadline });
        ticket
    }

    /// Removes all requests for a job's host that were not answered, and returns their tickets. A host that was granted stays.
    pub fn withdraw(&mut self, job: JobId) -> Vec<Ticket> {
        let gone = self.waiting.extract_if(.., |_, request| request.job == job);
        gone.map(|(ticket, _)| ticket).collect()
    }

    /// Records that the job's host has built its graph at `now` (monotonic). The host stays, idle, in case its job gets its
    /// slots at once. Ignored unless the host was building.
    pub fn built(&mut self, now: Duration, job: JobId) {
        self.change(job, Use::Idle { since: now }, |held| held == Use::Building);
    }

    /// Records that the job has finished and its host serves the collected results at `now` (monotonic). Also called at each
    /// later request for these results. Ignored if the job has no host, or the host is being ended.
    pub fn serving(&mut self, now: Duration, job: JobId) {
        self.change(job, Use::Serving { since: now }, |held| held != Use::Ending);
    }

    /// Records that the job's host is being ended for another reason than [`Command::End`]; its place stays taken until
    /// [`Places::gone`]. Does nothing if the job has no host.
    pub fn ending(&mut self, job: JobId) {
        self.change(job, Use::Ending, |_| true);
    }

    /// Records that the job's host has ended, or was never started, which frees its place. Requests that waited for that are
    /// granted by the next [`Places::decide`].
    pub fn gone(&mut self, job: JobId) {
        self.held.remove(&job);
    }

    fn change(&mut self, job: JobId, to: Use, from: impl Fn(Use) -> bool) {
        if let Some(held) = self.held.get_mut(&job).filter(|held| from(**held)) {
            *held = to;
        }
    }

    /// Returns the monotonic time at which [`Places::decide`] has to be called again at the latest; `None` if no time matters.
    pub fn next_deadline(&self) -> Option<Duration> {
        let waiting = self.waiting.values().map(|request| request.deadline);
        let idle_for = self.bounds.map(|bounds| bounds.idle_for);
        let idle = self.held.values().filter_map(|held| match held {
            Use::Idle { since } => idle_for.map(|time| since.saturating_add(time)),
            // From then on the place may be taken for a request that waits.
            Use::Serving { since } if !self.waiting.is_empty() => {
                Some(since.saturating_add(SERVES_AT_LEAST)).filter(|due| *due > self.decided)
            }
            _ => None,
        });
        waiting.chain(idle).min()
    }

    /// Grants and refuses requests at `now` (monotonic), and names the hosts that have to end ([`Command::End`]). A request that is
    /// neither granted nor refused waits. To be called after every change and at [`Places::next_deadline`].
    pub fn decide(&mut self, now: Duration) -> Vec<Command> {
        self.decided = now;
        let mut commands = Vec::new();
        let overdue = self.waiting.extract_if(.., |_, request| request.deadline <= now);
        let overdue: Vec<_> = overdue.map(|(ticket, request)| (ticket, request.purpose)).collect();
        for (ticket, purpose) in overdue {
            let why = self.no_place(purpose, false);
            commands.push(Command::Refuse { ticket, why });
        }
        self.end_idle(now, &mut commands);
        let short = self.grant(&mut commands);
        let short = short.saturating_sub(self.refuse_surplus(&mut commands));
        self.make_room(short, now, &mut commands);
        commands
    }

    /// Refuses the newest requests for builds beyond the limit `waiting`, and returns their number.
    fn refuse_surplus(&mut self, commands: &mut Vec<Command>) -> usize {
        let Some(bounds) = self.bounds else { return 0 };
        let builds = self.waiting.iter().filter(|(_, request)| request.purpose == Purpose::Build);
        let surplus: Vec<Ticket> = builds.map(|(ticket, _)| *ticket).skip(bounds.waiting).collect();
        for ticket in &surplus {
            self.waiting.remove(ticket);
        }
        let why = self.no_place(Purpose::Build, true);
        commands.extend(surplus.iter().map(|ticket| Command::Refuse { ticket: *ticket, why }));
        surplus.len()
    }

    fn count(&self, what: Use) -> usize {
        self.count_if(|held| held == what)
    }

    fn count_if(&self, of: impl Fn(Use) -> bool) -> usize {
        self.held.values().filter(|held| of(**held)).count()
    }

    /// Returns the reason to refuse a request that waits no longer.
    fn no_place(&self, purpose: Purpose, queue_is_full: bool) -> NoPlace {
        NoPlace {
            max: self.bounds.map_or(usize::MAX, |bounds| bounds.max),
            purpose,
            queue_is_full,
            waiting: self.waiting.len(),
            running: self.count(Use::Running),
            building: self.count(Use::Building),
            idle: self.count_if(|held| matches!(held, Use::Idle { .. })),
            serving: self.count_if(|held| matches!(held, Use::Serving { .. })),
            ending: self.count(Use::Ending),
        }
    }

    /// Ends the hosts that have been idle for `idle_for`, and the longest idle ones beyond the limit `idle`: their jobs
    /// have evidently not got their slots at once.
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

    /// Grants requests in their order, but runs before builds: runs always leave a place for builds, whereas builds may
    /// take every place. Returns the number of places that are missing for the requests that may have one.
    fn grant(&mut self, commands: &mut Vec<Command>) -> usize {
        let mut short = BTreeSet::new();
        for purpose in [Purpose::Run, Purpose::Build] {
            let all = self.waiting.iter().filter(|(_, request)| request.purpose == purpose);
            let wanted: Vec<(Ticket, JobId)> =
                all.map(|(ticket, request)| (*ticket, request.job)).collect();
            for (ticket, job) in wanted {
                let held = self.held.get(&job).copied();
                if held == Some(Use::Ending) {
                    // The request is granted when that host is gone.
                    continue;
                }
                let may_run = self.bounds.is_none_or(|bounds| {
                    // Jobs that still need a place count as running, so that no more hosts are ended than requests may
                    // take their places.
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

    /// Ends hosts until `short` places will be free: first idle hosts, whose jobs only have to start another host, then
    /// hosts that have served results for [`SERVES_AT_LEAST`]; in each group the longest unused first.
    fn make_room(&mut self, short: usize, now: Duration, commands: &mut Vec<Command>) {
        let missing = short.saturating_sub(self.count(Use::Ending));
        let mut idle = self.since(|held| match held {
            Use::Idle { since } => Some(since),
            _ => None,
        });
        let mut serving = self.since(|held| match held {
            Use::Serving { since } => {
                Some(since).filter(|since| since.saturating_add(SERVES_AT_LEAST) <= now)
            }
            _ => None,
        });
        idle.sort_unstable();
        serving.sort_unstable();
        for (_, job) in idle.into_iter().chain(serving).take(missing) {
            self.end(job, "another job needs its place", commands);
        }
    }
}
