//! The hand-over of a leadership from one leader process to the next, for one component of one process.
//!
//! A leader process is CREATED, RUNNING, STOPPED, in this order and never back. When leadership is granted, the previous one is stopped
//! and has ended before the new one starts; a leadership is confirmed only after its process answers and only while it
//! still leads; if a leadership is revoked before its process started, the process never starts. Pure: the steps to
//! take are returned as [`Order`]s.

use model::LeaderSession;

#[cfg(test)]
mod tests;

/// The phase of a leader process (what runs a component, such as the Dispatcher, under one leader session). Phases follow in
/// this order, none is skipped, and they never go back; a process that is never started (its leadership was revoked or replaced
/// before) is dropped in phase `Created`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Leadership was granted; the process is not started because an earlier one has not ended yet.
    Created,
    /// The process was started ([`Order::Start`]) and was not asked to stop; it may not answer yet.
    Running,
    /// The process has been asked to stop and has not ended yet.
    Stopped,
}

/// An order for the caller, which starts and stops the leader processes, from [`HandOver::take_orders`]; orders are carried out
/// in sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Start a process under this session; call [`HandOver::answers`] when it answers and [`HandOver::ended`] when it has
    /// ended.
    Start(LeaderSession),
    /// Stop the process of this session; call [`HandOver::ended`] when it has ended.
    Stop(LeaderSession),
    /// Confirm this session's leadership to whoever granted it: its process answers and still leads, so its address may be
    /// published.
    Confirm(LeaderSession),
    /// Answer whoever revoked this session: no process of it is left, so that another process of the system may be granted the
    /// leadership.
    Revoked(LeaderSession),
    /// Report that the process of this session ended without having been asked to; the caller decides what follows.
    Died(LeaderSession),
    /// Everything has ended after [`HandOver::close`]; only answers to later revocations ([`Order::Revoked`]) may follow.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    session: LeaderSession,
    phase: Phase,
    answers: bool,
}

/// The state of one component's leadership in one process of the system: at most one leader process of it runs, and at most one waits for
/// that to end. Granted leadership leads to [`Order::Start`], the process's first answer to [`Order::Confirm`], a revocation to [`Order::Stop`] and,
/// once nothing runs any more, [`Order::Revoked`]. Carries out nothing itself: [`HandOver::take_orders`] returns what the caller has to do.
#[derive(Debug, Clone, Default)]
pub struct HandOver {
    /// The process that runs or is being stopped.
    live: Option<Process>,
    /// The process to start when the live one has ended.
    next: Option<Process>,
    /// Revocations to be answered when the live process has ended.
    revoking: Vec<LeaderSession>,
    /// The highest session that was granted; an older grant comes too late.
    newest: Option<LeaderSession>,
    closing: bool,
    out: Vec<Order>,
}

impl HandOver {
    /// Removes and returns the pending orders, in sequence; to be called after every event.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.out)
    }

    /// Returns the session whose leader process runs and is not being stopped, and true if that process answers already; `None`
    /// if there is none.
    pub fn leading(&self) -> Option<(LeaderSession, bool)> {
        let running = self.live.filter(|process| process.phase == Phase::Running);
        running.map(|process| (process.session, process.answers))
    }

    /// Returns the phase of the leader process that belongs to `session`; `None` if the session has none (any more).
    pub fn phase(&self, session: LeaderSession) -> Option<Phase> {
        let mut known = self.live.iter().chain(&self.next);
        known.find(|process| process.session == session).map(|process| process.phase)
    }

    /// Records that leadership was granted under `session`: a running process is stopped, and the new one is started when that
    /// has ended, at once if none runs. A process of an earlier session that still waits to be started never is. Ignored if the
    /// session is not newer than all earlier ones, or after [`HandOver::close`].
    pub fn granted(&mut self, session: LeaderSession) {
        if self.closing || self.newest.is_some_and(|newest| newest >= session) {
            return;
        }
        self.newest = Some(session);
        self.next = Some(Process { session, phase: Phase::Created, answers: false });
        self.stop_live();
        self.start_next();
    }

    /// Records that leadership under `session` was revoked, and stops the session's process, or never starts it.
    /// [`Order::Revoked`] follows in any case: when that process, or one of another session that is already being stopped, has
    /// ended, otherwise at once.
    pub fn revoked(&mut self, session: LeaderSession) {
        if self.next.is_some_and(|next| next.session == session) {
            self.next = None;
        }
        match self.live {
            None => self.out.push(Order::Revoked(session)),
            // A process of another session runs, which starts only after this session's process has ended.
            Some(live) if live.session != session && live.phase == Phase::Running => {
                self.out.push(Order::Revoked(session));
            }
            Some(live) => {
                // This includes a process of another session that is still ending: it must be gone before anybody else
                // acts.
                self.revoking.push(session);
                if live.session == session {
                    self.stop_live();
                }
            }
        }
    }

    /// Records that the process of a session answers; [`Order::Confirm`] follows the first time, if the process runs and is not
    /// being stopped.
    pub fn answers(&mut self, session: LeaderSession) {
        if let Some(live) = &mut self.live
            && live.session == session
            && live.phase == Phase::Running
            && !live.answers
        {
            live.answers = true;
            self.out.push(Order::Confirm(session));
        }
    }

    /// Records that the process of a session has ended; [`Order::Died`] follows if it was not asked to. Waiting revocations are
    /// answered and the process that waits is started, or after [`HandOver::close`] [`Order::Closed`] follows. Ignored if it is
    /// not the process that runs or is being stopped.
    pub fn ended(&mut self, session: LeaderSession) {
        let Some(live) = self.live.filter(|live| live.session == session) else {
            return;
        };
        self.live = None;
        if live.phase == Phase::Running {
            self.out.push(Order::Died(session));
        }
        self.out.extend(self.revoking.drain(..).map(Order::Revoked));
        if self.closing {
            self.out.push(Order::Closed);
            return;
        }
        self.start_next();
    }

    /// Shuts the component down: stops its process, never starts one that waits, and ignores further grants. [`Order::Closed`]
    /// follows when the process has ended, at once if none runs.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        self.next = None;
        self.stop_live();
        if self.live.is_none() {
            self.out.push(Order::Closed);
        }
    }

    fn stop_live(&mut self) {
        if let Some(live) = &mut self.live
            && live.phase == Phase::Running
        {
            live.phase = Phase::Stopped;
            self.out.push(Order::Stop(live.session));
        }
    }

    fn start_next(&mut self) {
        if self.live.is_some() {
            return;
        }
        if let Some(mut next) = self.next.take() {
            next.phase = Phase::Running;
            self.live = Some(next);
            self.out.push(Order::Start(next.session));
        }
    }
}
