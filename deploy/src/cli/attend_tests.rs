//! The wait for a job against events that a test makes.

use super::*;
use crate::cli::args::Output;
use futures::FutureExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The hands on everything that can happen.
struct World {
    ending: Option<oneshot::Sender<End>>,
    reading: Option<oneshot::Sender<Result<(), ResultsError>>>,
    signals: UnboundedSender<Signal>,
    lines: UnboundedSender<Line>,
    questions: Rc<Cell<u32>>,
    cancels: Rc<Cell<u32>>,
}

fn world(terminal: bool) -> (World, Waiting<'static>) {
    let (ending, end) = oneshot::channel();
    let (reading, read) = oneshot::channel();
    let (signals, signalled) = unbounded();
    let (lines, typed) = unbounded::<Line>();
    let (questions, cancels) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (asked, cancelled) = (questions.clone(), cancels.clone());
    let typed = Rc::new(RefCell::new(typed));
    let keyboard: Box<dyn Fn() -> LocalBoxFuture<'static, Line>> = Box::new(move || {
        asked.set(asked.get() + 1);
        read_line(typed.clone()).boxed_local()
    });
    let waiting = Waiting {
        ending: async move { end.await.unwrap() }.boxed_local(),
        reading: async move { read.await.unwrap() }.boxed_local(),
        following: std::future::pending().boxed_local(),
        signals: signalled.boxed_local(),
        keyboard: terminal.then_some(keyboard),
        cancel: Box::new(move || {
            cancelled.set(cancelled.get() + 1);
            async { Ok(()) }.boxed_local()
        }),
        question: "cancel?".to_owned(),
        print: Printer::new(Output::Text),
    };
    let (ending, reading) = (Some(ending), Some(reading));
    (World { ending, reading, signals, lines, questions, cancels }, waiting)
}

#[expect(clippy::await_holding_refcell_ref, reason = "one question is open at a time")]
async fn read_line(lines: Rc<RefCell<UnboundedReceiver<Line>>>) -> Line {
    lines.borrow_mut().next().await.unwrap()
}

impl World {
    fn interrupt(&self) {
        self.signals.unbounded_send(Signal::Interrupt).unwrap();
    }
    fn types(&self, line: &str) {
        self.lines.unbounded_send(Ok(Some(format!("{line}\n")))).unwrap();
    }
    fn ends(&mut self, status: &str) {
        let result = JobExecutionResult {
            id: "0".repeat(32),
            application_status: status.to_owned(),
            accumulator_results: std::collections::BTreeMap::new(),
            net_runtime: 1,
            failure_cause: None,
        };
        let _ = self.ending.take().unwrap().send(End::Ended(Box::new(result)));
    }
    fn reads(&mut self, outcome: Result<(), ResultsError>) {
        let _ = self.reading.take().unwrap().send(outcome);
    }
}

fn unread() -> ResultsError {
    ResultsError::Unread { operator: "a".to_owned(), why: "gone".to_owned() }
}

/// Lets the loop look at what has happened; whether it has ended.
async fn look(waiting: &mut std::pin::Pin<&mut impl Future<Output = End>>) -> Option<End> {
    tokio::time::timeout(Duration::from_secs(1), waiting).await.ok()
}

#[test]
fn the_answers() {
    let of = |line: &str| decision(&Ok(Some(line.to_owned())));
    for line in ["y\n", "Y\n", "yes\n"] {
        assert_eq!(of(line), Decision::Cancel, "{line}");
    }
    for line in ["d\n", " D \n", "detach\n"] {
        assert_eq!(of(line), Decision::Detach, "{line}");
    }
    for line in ["\n", "n\n", "No\n"] {
        assert_eq!(of(line), Decision::Wait, "{line}");
    }
    for line in ["c\n", "yess\n", "detahc\n", "1\n"] {
        assert_eq!(of(line), Decision::Unclear, "{line}");
    }
    assert_eq!(decision(&Ok(None)), Decision::Wait);
    assert_eq!(decision(&Err(io::Error::other("no terminal"))), Decision::Detach);
}

#[tokio::test(start_paused = true)]
async fn a_second_ctrl_c_detaches_while_the_question_is_open() {
    let (world, mut waiting) = world(true);
    let attending = attend(&mut waiting);
    tokio::pin!(attending);
    world.interrupt();
    assert!(look(&mut attending).await.is_none());
    assert_eq!(world.questions.get(), 1);
    world.interrupt();
    assert!(matches!(look(&mut attending).await, Some(End::Detached)));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_is_reported_though_the_question_is_open() {
    let (mut world, mut waiting) = world(true);
    let attending = attend(&mut waiting);
    tokio::pin!(attending);
    world.interrupt();
    assert!(look(&mut attending).await.is_none());
    // Results come in, too.
    world.reads(Ok(()));
    assert!(look(&mut attending).await.is_none());
    world.ends("SUCCEEDED");
    let end = look(&mut attending).await;
    assert!(matches!(end, Some(End::Ended(result)) if result.application_status == "SUCCEEDED"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_what_it_says_and_an_unclear_one_is_asked_for_again() {
    let (mut world, mut waiting) = world(true);
    let attending = attend(&mut waiting);
    tokio::pin!(attending);
    world.interrupt();
    world.types("what?");
    assert!(look(&mut attending).await.is_none());
    assert_eq!(world.questions.get(), 2);
    world.types("n");
    assert!(look(&mut attending).await.is_none());
    assert_eq!((world.questions.get(), world.cancels.get()), (2, 0));
    world.interrupt();
    world.types("y");
    assert!(look(&mut attending).await.is_none());
    assert_eq!((world.questions.get(), world.cancels.get()), (3, 1));
    world.ends("CANCELED");
    let end = look(&mut attending).await;
    assert!(matches!(end, Some(End::Ended(result)) if result.application_status == "CANCELED"));
}

#[tokio::test(start_paused = true)]
async fn d_detaches_and_so_does_ctrl_c_without_a_terminal() {
    let (with, mut waiting) = world(true);
    with.interrupt();
    with.types("d");
    assert!(matches!(attend(&mut waiting).await, End::Detached));
    let (without, mut waiting) = world(false);
    without.interrupt();
    assert!(matches!(attend(&mut waiting).await, End::Detached));
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_waits_for_its_results_and_ctrl_c_ends_that() {
    let (mut world, mut waiting) = world(true);
    let attending = attend(&mut waiting);
    tokio::pin!(attending);
    world.ends("SUCCEEDED");
    assert!(look(&mut attending).await.is_none());
    world.interrupt();
    assert!(matches!(look(&mut attending).await, Some(End::Interrupted)));
}

#[tokio::test(start_paused = true)]
async fn results_that_do_not_come_out_are_no_success() {
    for before in [true, false] {
        let (mut world, mut waiting) = world(false);
        if before {
            world.reads(Err(unread()));
        }
        let attending = attend(&mut waiting);
        tokio::pin!(attending);
        assert!(look(&mut attending).await.is_none());
        world.ends("SUCCEEDED");
        if !before {
            assert!(look(&mut attending).await.is_none());
            world.reads(Err(unread()));
        }
        let end = look(&mut attending).await;
        assert!(matches!(end, Some(End::Results { finished: true, .. })), "{before} {end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_that_cannot_be_written_end_the_wait_of_a_running_job() {
    let (mut world, mut waiting) = world(false);
    world.reads(Err(ResultsError::Unwritten(io::ErrorKind::StorageFull.into())));
    let end = attend(&mut waiting).await;
    assert!(matches!(end, End::Results { finished: false, .. }), "{end:?}");
}
