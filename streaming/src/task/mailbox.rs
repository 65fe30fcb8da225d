//! A task's mailbox: bounded replies, timers, triggers and notifications, delivered between two steps on the task's own thread.
//! Posting must never block.

use super::signal::TaskSignal;
use crate::{lock, seam::Mail};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Number of waiting mails, replies included, from which on [`Mailbox::post`] refuses more. Replies and timers are taken beyond it, without
/// a bound: [`UPCALLS_MAX`] bounds only the calls that have no reply yet.
pub const MAIL_MAX: usize = 1024;
/// Maximum number of upcalls (calls of a task to its host) of one task that have no reply yet. A further one is not made: its reply is an
/// error.
pub const UPCALLS_MAX: usize = 4096;

/// The queue of one task's mail: triggers, notifications, replies of its host and timers, which the task takes between two steps (a reply
/// or timer also while a function's call waits for room in an output). Every thread may post; only the task's own thread takes.
/// [`Mailbox::post`] refuses mail while 1,024 mails wait; replies and timers are always taken. What is left when the task ends is dropped
/// with the mailbox.
#[derive(Debug, Default)]
pub struct Mailbox {
    signal: TaskSignal,
    state: Mutex<Waiting>,
    /// Number of mails and timers. It is read before every step, so that an empty mailbox costs no lock.
    waiting: AtomicUsize,
    outstanding: AtomicUsize,
}

/// A timer: its time, its number in the order of setting, and its ticket. The maximum of several is the earliest one.
type Timer = Reverse<(Instant, u64, u64)>;

#[derive(Debug, Default)]
struct Waiting {
    mail: VecDeque<Mail>,
    timers: BinaryHeap<Timer>,
    timers_made: u64,
}

/// The error of [`Mailbox::post`] at [`MAIL_MAX`] waiting mails, and of [`Mailbox::begin_upcall`] at [`UPCALLS_MAX`] upcalls without a
/// reply: the mail or upcall was not taken. A host fails a task whose mail is refused, because the task must not miss it; the reply of a
/// refused upcall is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the task's mailbox is full")]
pub struct MailboxFull;

impl Mailbox {
    /// Creates an empty mailbox, which wakes its task by `signal`.
    pub fn new(signal: TaskSignal) -> Self {
        Self { signal, ..Self::default() }
    }

    /// Posts mail that is not the reply of an upcall, and wakes or interrupts the task. Never blocks. Returns before the mail is taken;
    /// after the task's end nobody takes it.
    ///
    /// # Errors
    /// Fails with [`MailboxFull`] if [`MAIL_MAX`] (1,024) mails wait already; the mail is dropped.
    pub fn post(&self, mail: Mail) -> Result<(), MailboxFull> {
        {
            let mut state = lock(&self.state);
            if state.mail.len() >= MAIL_MAX {
                return Err(MailboxFull);
            }
            state.mail.push_back(mail);
            self.waiting.fetch_add(1, Ordering::Release);
        }
        self.signal.interrupt();
        Ok(())
    }

    /// Counts an upcall (a call of the task to its host) whose reply will be posted by [`Mailbox::reply`]. Called before the upcall is
    /// made.
    ///
    /// # Errors
    /// Returns [`MailboxFull`] if [`UPCALLS_MAX`] (4,096) upcalls have no reply yet; nothing is counted, and the upcall must not be made.
    pub fn begin_upcall(&self) -> Result<(), MailboxFull> {
        self.outstanding
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < UPCALLS_MAX).then_some(n + 1)
            })
            .map(|_| ())
            .map_err(|_| MailboxFull)
    }

    /// Posts [`Mail::Reply`] with `ticket` and `result` for an upcall that [`Mailbox::begin_upcall`] counted, and wakes or interrupts the
    /// task. Lowers the number of unanswered upcalls by one. Never fails, however full the mailbox is.
    pub fn reply(&self, ticket: u64, result: Result<Vec<u8>, String>) {
        let _ = self
            .outstanding
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| Some(n.saturating_sub(1)));
        self.post_reply(ticket, result);
    }

    /// Posts an error as the reply of an upcall that [`Mailbox::begin_upcall`] refused, and wakes or interrupts the task. The
    /// number of unanswered upcalls stays as it is, because a refused upcall was not counted.
    pub fn refuse(&self, ticket: u64, why: &str) {
        self.post_reply(ticket, Err(why.to_owned()));
    }

    fn post_reply(&self, ticket: u64, result: Result<Vec<u8>, String>) {
        lock(&self.state).mail.push_back(Mail::Reply { ticket, result });
        self.waiting.fetch_add(1, Ordering::Release);
        self.signal.interrupt();
    }

    /// Sets a timer: [`Mail::Timer`] with `ticket` is due once `after` has passed on the monotonic clock. A time beyond the clock's range
    /// is never due. A timer cannot be removed, and several may have one ticket. Wakes the task, unless the task's own thread calls.
    pub fn wake_at(&self, after: Duration, ticket: u64) {
        let Some(at) = now().checked_add(after) else {
            return; // The time is beyond the clock's range: the timer is never due.
        };
        {
            let mut state = lock(&self.state);
            state.timers_made += 1;
            let order = state.timers_made;
            state.timers.push(Reverse((at, order, ticket)));
            self.waiting.fetch_add(1, Ordering::Release);
        }
        // The task's own next wait looks at the timers. A raised signal would end that wait at once, and a source that waits
        // for its next record would never park.
        if !self.signal.is_own_thread() {
            self.signal.raise();
        }
    }

    /// Returns the signal that wakes the task.
    pub(super) fn signal(&self) -> &TaskSignal {
        &self.signal
    }

    /// Removes and returns the next mail: posted mail and replies in the order of posting, then timers that are due, the earliest first.
    /// `None` if there is none. Never blocks.
    pub fn take(&self) -> Option<Mail> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut state = lock(&self.state);
        let mail = match state.mail.pop_front() {
            Some(mail) => mail,
            None => {
                let Reverse((at, _, ticket)) = *state.timers.peek()?;
                if at > now() {
                    return None;
                }
                state.timers.pop();
                Mail::Timer { ticket }
            }
        };
        self.waiting.fetch_sub(1, Ordering::Release);
        Some(mail)
    }

    /// Removes and returns the first reply whose ticket `is_for` accepts, or else the earliest such timer that is due. Other mail and
    /// timers stay as they are. `None` if there is none. Never blocks.
    pub(super) fn take_for(&self, is_for: &dyn Fn(u64) -> bool) -> Option<Mail> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (mut state, now) = (lock(&self.state), now());
        let reply = state
            .mail
            .iter()
            .position(|mail| matches!(mail, Mail::Reply { ticket, .. } if is_for(*ticket)));
        let mail = match reply {
            Some(reply) => state.mail.remove(reply)?,
            None => {
                let due = |timer: &&Timer| timer.0.0 <= now && is_for(timer.0.2);
                let earliest = *state.timers.iter().filter(due).max()?;
                state.timers.retain(|timer| *timer != earliest);
                Mail::Timer { ticket: earliest.0.2 }
            }
        };
        self.waiting.fetch_sub(1, Ordering::Release);
        Some(mail)
    }

    /// Returns the time until the earliest timer is due, zero if one is; `None` if there is no timer. Every thread may call.
    pub(super) fn until_timer(&self) -> Option<Duration> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let next = lock(&self.state).timers.peek().map(|Reverse((at, ..))| *at);
        next.map(|at| at.saturating_duration_since(now()))
    }

    /// Parks the task's thread, which must be the caller, until its signal is raised or its next timer is due. May return earlier, and
    /// returns at once if either is so already. Lowers the signal; takes no mail.
    pub fn wait(&self) {
        match self.until_timer() {
            Some(until) => {
                self.signal.wait_at_most(until);
            }
            None => self.signal.wait(),
        }
    }

    /// Parks the task's thread, which must be the caller, until the task is woken or a timer gets due, for about `limit` at most.
    /// Timers that are due already do not count. May return earlier.
    pub(super) fn wait_at_most(&self, limit: Duration) {
        let now = now();
        let to_come = |Reverse((at, ..)): &Timer| at.checked_duration_since(now);
        let state = lock(&self.state);
        let next = state.timers.iter().filter_map(to_come).filter(|until| !until.is_zero()).min();
        drop(state);
        self.signal.wait_at_most(next.map_or(limit, |until| until.min(limit)));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "task threads park on the real clock; simulations drive `step` themselves"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_the_task_sets_does_not_end_its_next_wait() {
        let signal = TaskSignal::new();
        signal.bind_current_thread();
        Mailbox::new(signal.clone()).wake_at(Duration::from_secs(60), 1);
        assert!(!signal.take());
        let others = TaskSignal::new();
        Mailbox::new(others.clone()).wake_at(Duration::from_secs(60), 1);
        assert!(
            others.take(),
            "set by another thread it may be due before what the task waits for"
        );
    }

    #[test]
    fn mail_comes_in_order_and_timers_when_due() {
        let mailbox = Mailbox::new(TaskSignal::new());
        mailbox.wake_at(Duration::from_millis(5), 2);
        mailbox.wake_at(Duration::ZERO, 1);
        mailbox.begin_upcall().unwrap();
        mailbox.reply(9, Ok(vec![1]));
        assert!(matches!(mailbox.take(), Some(Mail::Reply { ticket: 9, .. })));
        assert!(matches!(mailbox.take(), Some(Mail::Timer { ticket: 1 })));
        let mut due = None;
        while due.is_none() {
            mailbox.wait();
            due = mailbox.take();
        }
        assert!(matches!(due, Some(Mail::Timer { ticket: 2 })));
        assert!(mailbox.take().is_none());
    }

    #[test]
    fn a_full_mailbox_refuses_but_replies_still_come() {
        let mailbox = Mailbox::new(TaskSignal::new());
        for n in 0..MAIL_MAX as u64 {
            mailbox.post(Mail::NotifyComplete(n)).unwrap();
        }
        assert_eq!(mailbox.post(Mail::Cancel), Err(MailboxFull));
        mailbox.begin_upcall().unwrap();
        mailbox.reply(1, Ok(Vec::new()));
        let mut n = 0;
        while mailbox.take().is_some() {
            n += 1;
        }
        assert_eq!(n, MAIL_MAX + 1);
    }

    #[test]
    fn mail_interrupts_a_step_and_a_timer_of_the_tasks_own_does_not() {
        let signal = TaskSignal::new();
        signal.bind_current_thread();
        let mailbox = Mailbox::new(signal.clone());
        mailbox.wake_at(Duration::ZERO, 1);
        signal.raise();
        assert!(!signal.interruption().is_raised(), "input and timers can wait for the step's end");
        mailbox.post(Mail::NotifyComplete(1)).unwrap();
        assert!(signal.interruption().is_raised());
        signal.interruption().clear();
        mailbox.begin_upcall().unwrap();
        mailbox.reply(1, Ok(Vec::new()));
        assert!(signal.interruption().is_raised());
    }

    #[test]
    fn the_mail_of_some_tickets_is_taken_before_other_mail() {
        let mailbox = Mailbox::new(TaskSignal::new());
        mailbox.post(Mail::NotifyComplete(1)).unwrap();
        mailbox.post_reply(8, Ok(vec![1]));
        mailbox.post_reply(9, Ok(vec![2]));
        mailbox.wake_at(Duration::ZERO, 3);
        mailbox.wake_at(Duration::ZERO, 9);
        mailbox.wake_at(Duration::from_secs(60), 9);
        let nine = |ticket| ticket == 9;
        assert!(matches!(mailbox.take_for(&nine), Some(Mail::Reply { ticket: 9, .. })));
        assert!(matches!(mailbox.take_for(&nine), Some(Mail::Timer { ticket: 9 })));
        assert!(mailbox.take_for(&nine).is_none(), "the other timer is not due");
        mailbox.signal.take();
        let began = now();
        mailbox.wait_at_most(Duration::from_millis(20));
        assert!(now() - began >= Duration::from_millis(10), "what is due and stays wakes nobody");
        mailbox.wait();
        assert!(matches!(mailbox.take(), Some(Mail::NotifyComplete(1))));
        assert!(matches!(mailbox.take(), Some(Mail::Reply { ticket: 8, .. })));
        assert!(matches!(mailbox.take(), Some(Mail::Timer { ticket: 3 })));
        assert!(mailbox.take().is_none());
    }

    #[test]
    fn outstanding_upcalls_are_bounded() {
        let mailbox = Mailbox::new(TaskSignal::new());
        for _ in 0..UPCALLS_MAX {
            mailbox.begin_upcall().unwrap();
        }
        assert_eq!(mailbox.begin_upcall(), Err(MailboxFull));
        mailbox.reply(0, Err(String::new()));
        assert!(mailbox.begin_upcall().is_ok());
    }
}
