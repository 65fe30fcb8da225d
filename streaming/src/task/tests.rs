//! The life of task threads, driven through their controls.
#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

use super::*;
use crate::seam::{Mail, Progress, Subtask, TaskCounters, TaskError, TaskUpcalls};
use futures::{FutureExt, future::BoxFuture};
use model::{ExecutionAttemptId, ExecutionState as S, FailureCause, JobVertexId, OperatorId};
use platform::Platform;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

mod long_call;
mod timeout;

const PATIENCE: Duration = Duration::from_secs(10);

fn attempt(subtask: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(7), subtask, attempt: 0 }
}

struct Observer {
    changes: mpsc::Sender<(S, Option<FailureCause>)>,
    stopping: AtomicBool,
}

impl TaskObserver for Observer {
    fn changed(&self, _: &TaskControl, state: S, cause: Option<FailureCause>) {
        let _ = self.changes.send((state, cause));
    }
    fn stopping(&self, _: &Arc<TaskControl>) {
        self.stopping.store(true, Ordering::SeqCst);
    }
}

struct Rig {
    control: Arc<TaskControl>,
    mailbox: Arc<Mailbox>,
    observer: Arc<Observer>,
    changes: mpsc::Receiver<(S, Option<FailureCause>)>,
}

fn rig() -> Rig {
    let (sender, changes) = mpsc::channel();
    let observer = Arc::new(Observer { changes: sender, stopping: AtomicBool::new(false) });
    let control = TaskControl::new(
        attempt(2),
        "count (3/8)".to_owned(),
        Arc::clone(&observer) as Arc<dyn TaskObserver>,
    );
    let mailbox = Arc::new(Mailbox::new(control.signal().clone()));
    Rig { control, mailbox, observer, changes }
}

impl Rig {
    fn start(&self, subtask: Script) {
        let make: MakeSubtask = Box::new(move || Ok(Box::new(subtask) as Box<dyn Subtask>));
        start(Arc::clone(&self.control), Arc::clone(&self.mailbox), threads::STACK_BYTES, make)
            .unwrap();
    }

    fn next(&self) -> (S, Option<FailureCause>) {
        self.changes.recv_timeout(PATIENCE).unwrap()
    }

    /// States until a terminal one, and its cause.
    fn states(&self) -> (Vec<S>, Option<FailureCause>) {
        let mut states = Vec::new();
        loop {
            let (state, cause) = self.next();
            states.push(state);
            if state.is_terminal() {
                return (states, cause);
            }
        }
    }

    fn until(&self, wanted: S) {
        while self.next().0 != wanted {}
    }
}

type Step = Box<dyn FnMut(&mut Vec<Mail>) -> Result<Progress, TaskError> + Send>;

/// A subtask whose step is a closure over the mail that came.
struct Script {
    step: Step,
    mail: Vec<Mail>,
    calls: Arc<Mutex<Vec<&'static str>>>,
    panic_in: &'static str,
}

fn script(
    step: impl FnMut(&mut Vec<Mail>) -> Result<Progress, TaskError> + Send + 'static,
) -> Script {
    Script { step: Box::new(step), mail: Vec::new(), calls: Arc::default(), panic_in: "" }
}

impl Script {
    fn call(&self, name: &'static str) {
        self.calls.lock().unwrap().push(name);
        assert!(self.panic_in != name, "on purpose in {name}");
    }
}

impl Subtask for Script {
    fn open(&mut self) -> Result<(), TaskError> {
        self.call("open");
        Ok(())
    }
    fn step(&mut self, _: usize) -> Result<Progress, TaskError> {
        (self.step)(&mut self.mail)
    }
    fn deliver(&mut self, mail: Mail) -> Result<(), TaskError> {
        if matches!(mail, Mail::Cancel) {
            self.call("cancel");
        }
        self.mail.push(mail);
        Ok(())
    }
    fn close(&mut self) -> Result<(), TaskError> {
        self.call("close");
        Ok(())
    }
    fn dispose(&mut self) {
        self.call("dispose");
    }
    fn counters(&self) -> Arc<TaskCounters> {
        Arc::default()
    }
}

#[test]
fn a_task_that_ends_well_tells_every_state_in_order() {
    let rig = rig();
    let mut steps = 0;
    let subtask = script(move |_| {
        steps += 1;
        Ok(if steps < 3 { Progress::Busy } else { Progress::Finished })
    });
    let calls = Arc::clone(&subtask.calls);
    rig.start(subtask);
    let (states, cause) = rig.states();
    assert_eq!(states, [S::Deploying, S::Initializing, S::Running, S::Finished]);
    assert_eq!(cause, None);
    assert_eq!(*calls.lock().unwrap(), ["open", "close"]);
    assert!(rig.control.has_succeeded());
}

#[test]
fn a_parked_task_is_cancelled_within_100_ms() {
    let rig = rig();
    let subtask = script(|_| Ok(Progress::Starved));
    let calls = Arc::clone(&subtask.calls);
    rig.start(subtask);
    rig.until(S::Running);
    let asked = Instant::now();
    rig.control.cancel();
    rig.control.cancel();
    let (states, _) = rig.states();
    let took = asked.elapsed();
    assert_eq!(states, [S::Canceling, S::Canceled]);
    assert!(took < Duration::from_millis(100), "took {took:?}");
    assert_eq!(*calls.lock().unwrap(), ["open", "dispose"]);
    assert!(rig.observer.stopping.load(Ordering::SeqCst));
    assert!(!rig.control.has_succeeded());
}

#[test]
fn a_task_that_the_job_master_cancels_learns_of_it_before_it_is_disposed_of() {
    for by_job_master in [false, true] {
        let rig = rig();
        let subtask = script(|_| Ok(Progress::Starved));
        let calls = Arc::clone(&subtask.calls);
        rig.start(subtask);
        rig.until(S::Running);
        if by_job_master {
            rig.control.cancel_by_job_master();
        } else {
            rig.control.cancel();
        }
        assert_eq!(rig.states().0, [S::Canceling, S::Canceled]);
        let told: &[_] = if by_job_master { &["cancel"] } else { &[] };
        assert_eq!(*calls.lock().unwrap(), [&["open"][..], told, &["dispose"]].concat());
    }
}

#[test]
fn a_task_cancelled_before_its_thread_starts_never_runs() {
    let rig = rig();
    rig.control.cancel();
    let subtask = script(|_| Ok(Progress::Finished));
    let calls = Arc::clone(&subtask.calls);
    rig.start(subtask);
    assert_eq!(rig.states().0, [S::Deploying, S::Canceling, S::Canceled]);
    assert!(calls.lock().unwrap().is_empty());
}

#[test]
fn panics_of_user_code_fail_the_task_by_name_wherever_they_happen() {
    for place in ["open", "close", "step"] {
        let rig = rig();
        let mut subtask = script(move |_| {
            assert!(place != "step", "on purpose in step");
            Ok(Progress::Finished)
        });
        subtask.panic_in = place;
        let calls = Arc::clone(&subtask.calls);
        rig.start(subtask);
        let (states, cause) = rig.states();
        assert_eq!(states.last(), Some(&S::Failed), "{place}");
        let cause = cause.unwrap();
        assert_eq!(cause.kind, "UserError");
        assert!(cause.message.contains("count (3/8)"), "{cause}");
        assert!(cause.message.contains(&format!("on purpose in {place}")), "{cause}");
        assert_eq!(calls.lock().unwrap().last(), Some(&"dispose"), "{place}");
    }
}

#[test]
fn a_panic_while_disposing_does_not_hide_the_first_cause() {
    let rig = rig();
    let mut subtask = script(|_| {
        Err(TaskError::User { operator: "map".to_owned(), message: "no such thing".to_owned() })
    });
    subtask.panic_in = "dispose";
    rig.start(subtask);
    let (_, cause) = rig.states();
    let cause = cause.unwrap();
    assert!(cause.message.contains("no such thing"), "{cause}");
    assert!(cause.message.starts_with("task 'count (3/8)'"), "{cause}");
}

#[test]
fn a_failure_from_outside_wakes_a_parked_task_and_the_first_cause_wins() {
    let rig = rig();
    rig.start(script(|_| Ok(Progress::Blocked)));
    rig.until(S::Running);
    rig.control.fail(FailureCause::recoverable("DataConnectionLost", "first"));
    rig.control.fail(FailureCause::recoverable("DataConnectionLost", "second"));
    let (states, cause) = rig.states();
    assert_eq!(states, [S::Failed]);
    assert_eq!(cause.unwrap().message, "first");
}

struct Echo;
impl OperatorEvents for Echo {
    fn send(
        &self,
        _: ExecutionAttemptId,
        _: OperatorId,
        event: Vec<u8>,
        _: bool,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        async move {
            // Later events answer sooner: order must come from the upcalls, not from luck.
            let ms = 20u64.saturating_sub(u64::from(event[0]) * 10);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(event)
        }
        .boxed()
    }
    fn acknowledge(&self, _: ExecutionAttemptId, _: u64, _: crate::TaskSnapshot) {}
}

fn upcalls(rig: &Rig, runtime: &tokio::runtime::Runtime) -> Arc<Upcalls> {
    let (attempt, mailbox) = (rig.control.attempt(), Arc::clone(&rig.mailbox));
    let handle = runtime.handle().clone();
    Upcalls::new(attempt, mailbox, Arc::new(Echo), Platform::production(), handle)
}

#[test]
fn replies_io_and_timers_come_through_the_mailbox_and_events_keep_their_order() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let rig = rig();
    let upcalls = upcalls(&rig, &runtime);
    let (sender, got) = mpsc::channel();
    let mut started = false;
    rig.start(script(move |mail| {
        if !std::mem::replace(&mut started, true) {
            for n in 0..3u8 {
                upcalls.operator_event(OperatorId(1), vec![n], u64::from(n));
            }
            upcalls.spawn_io(async { panic!("on purpose") }.boxed(), 10);
            upcalls.wake_at(Duration::from_millis(1), 11);
            assert!(upcalls.now_unix_ms() > 1_600_000_000_000);
        }
        for mail in mail.drain(..) {
            let _ = sender.send(match mail {
                Mail::Reply { ticket, result } => (ticket, result.ok()),
                Mail::Timer { ticket } => (ticket, None),
                other => panic!("{other:?}"),
            });
        }
        Ok(Progress::Starved)
    }));
    let mut all: Vec<_> = (0..5).map(|_| got.recv_timeout(PATIENCE).unwrap()).collect();
    let events: Vec<_> = all.iter().filter(|(t, _)| *t < 10).cloned().collect();
    assert_eq!(events, [(0, Some(vec![0])), (1, Some(vec![1])), (2, Some(vec![2]))]);
    all.retain(|(ticket, _)| *ticket >= 10);
    all.sort_unstable();
    assert_eq!(all, [(10, None), (11, None)]);
    rig.control.cancel();
    rig.until(S::Canceled);
}

#[test]
fn a_panic_of_io_is_answered_with_its_text_and_place() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let rig = rig();
    let upcalls = Upcalls::new(
        rig.control.attempt(),
        Arc::clone(&rig.mailbox),
        Arc::new(Echo),
        Platform::production(),
        runtime.handle().clone(),
    );
    let (sender, got) = mpsc::channel();
    let mut started = false;
    rig.start(script(move |mail| {
        if !std::mem::replace(&mut started, true) {
            let work = async {
                tokio::task::yield_now().await;
                panic!("on purpose")
            };
            upcalls.spawn_io(work.boxed(), 10);
        }
        for mail in mail.drain(..) {
            let Mail::Reply { ticket: 10, result } = mail else { panic!("{mail:?}") };
            let _ = sender.send(result);
        }
        Ok(Progress::Starved)
    }));
    let said = got.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(said.starts_with("the I/O panicked: on purpose (at "), "{said}");
    rig.control.cancel();
    rig.until(S::Canceled);
}

#[test]
fn between_two_timers_the_task_makes_a_step_and_looks_at_its_mail() {
    /// Sets a timer for now with each timer that comes, as an operator does whose step was interrupted.
    struct Continuing {
        mailbox: Arc<Mailbox>,
        seen: mpsc::Sender<&'static str>,
        timers: u32,
    }
    impl Subtask for Continuing {
        fn open(&mut self) -> Result<(), TaskError> {
            self.mailbox.wake_at(Duration::ZERO, 1);
            Ok(())
        }
        fn step(&mut self, _: usize) -> Result<Progress, TaskError> {
            self.seen.send("step").unwrap();
            Ok(if self.timers < 3 { Progress::Starved } else { Progress::Finished })
        }
        fn deliver(&mut self, mail: Mail) -> Result<(), TaskError> {
            let is_timer = matches!(mail, Mail::Timer { .. });
            self.seen.send(if is_timer { "timer" } else { "mail" }).unwrap();
            if is_timer {
                self.timers += 1;
                if self.timers < 3 {
                    self.mailbox.wake_at(Duration::ZERO, 1);
                }
                if self.timers == 1 {
                    self.mailbox.post(Mail::NotifyComplete(1)).unwrap();
                }
            }
            Ok(())
        }
        fn close(&mut self) -> Result<(), TaskError> {
            Ok(())
        }
        fn dispose(&mut self) {}
        fn counters(&self) -> Arc<TaskCounters> {
            Arc::default()
        }
    }
    let rig = rig();
    let (seen, came) = mpsc::channel();
    let mailbox = Arc::clone(&rig.mailbox);
    let make: MakeSubtask =
        Box::new(move || Ok(Box::new(Continuing { mailbox, seen, timers: 0 }) as Box<dyn Subtask>));
    start(Arc::clone(&rig.control), Arc::clone(&rig.mailbox), threads::STACK_BYTES, make).unwrap();
    rig.until(S::Finished);
    let seen: Vec<_> = came.iter().collect();
    assert_eq!(seen, ["timer", "step", "mail", "timer", "step", "timer", "step"]);
}

#[test]
fn a_refused_upcall_does_not_make_room_for_another_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let rig = rig();
    let upcalls = upcalls(&rig, &runtime);
    for _ in 0..mailbox::UPCALLS_MAX {
        rig.mailbox.begin_upcall().unwrap();
    }
    upcalls.operator_event(OperatorId(1), Vec::new(), 1);
    upcalls.operator_poll(OperatorId(1), Vec::new(), 2);
    upcalls.spawn_io(async { Ok(Vec::new()) }.boxed(), 3);
    for refused in 1..=3 {
        match rig.mailbox.take() {
            Some(Mail::Reply { ticket, result: Err(_) }) => assert_eq!(ticket, refused),
            other => panic!("{other:?}"),
        }
    }
    assert!(rig.mailbox.begin_upcall().is_err(), "all counted upcalls are still unanswered");
}

#[test]
fn a_step_that_lasts_is_asked_to_end_and_a_new_one_is_not() {
    let rig = rig();
    let interrupt = rig.control.signal().interruption().clone();
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    rig.start(script(move |_| {
        enter.send(()).unwrap();
        Ok(left.recv().unwrap())
    }));
    entered.recv_timeout(PATIENCE).unwrap();
    interrupt.set_longest_step(30);
    let next = rig.control.end_long_step();
    assert_eq!(next, Duration::from_millis(15), "a step lasts for two looks at most");
    assert!(!interrupt.is_raised(), "it has just begun");
    rig.control.end_long_step();
    assert!(interrupt.is_raised());
    leave.send(Progress::Busy).unwrap();
    entered.recv_timeout(PATIENCE).unwrap();
    assert!(!interrupt.is_raised(), "the next step begins without");
    rig.control.end_long_step();
    assert!(!interrupt.is_raised(), "it is another one than at the last look");
    rig.control.cancel();
    assert!(interrupt.is_raised());
    leave.send(Progress::Busy).unwrap();
    assert_eq!(rig.states().0.last(), Some(&S::Canceled));
}

#[test]
fn a_timer_that_is_due_ends_a_step_that_has_just_begun() {
    let rig = rig();
    let interrupt = rig.control.signal().interruption().clone();
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    rig.start(script(move |mail| {
        enter.send(mail.drain(..).count()).unwrap();
        Ok(left.recv().unwrap())
    }));
    entered.recv_timeout(PATIENCE).unwrap();
    assert_eq!(rig.control.end_long_step(), Duration::from_millis(50));
    rig.mailbox.wake_at(Duration::from_millis(40), 1);
    leave.send(Progress::Busy).unwrap();
    entered.recv_timeout(PATIENCE).unwrap();
    let next = rig.control.end_long_step();
    assert!(next <= Duration::from_millis(40), "the host looks again when the timer is due");
    rig.mailbox.wake_at(Duration::ZERO, 2);
    leave.send(Progress::Busy).unwrap();
    // The timer comes before the next step.
    assert!(entered.recv_timeout(PATIENCE).unwrap() > 0);
    assert!(!interrupt.is_raised(), "no timer is due");
    rig.mailbox.wake_at(Duration::ZERO, 3);
    let next = rig.control.end_long_step();
    assert!(interrupt.is_raised(), "a timer is due");
    assert_eq!(next, Duration::from_millis(5), "many timers do not keep the host busy");
    rig.control.cancel();
    leave.send(Progress::Busy).unwrap();
    assert_eq!(rig.states().0.last(), Some(&S::Canceled));
}
