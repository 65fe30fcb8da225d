//! Calls of functions that emit more than the consumer takes, in tasks with threads of their own.

use super::*;
use crate::{
    Interrupt,
    batch::Batch,
    operators::{
        Collector, Consumer, Control, FlatMap, Flow, Link, Operator, OperatorContext, OperatorMail,
        OutputTag, SideOutputs, side_output, ticket_of,
    },
    seam::StreamEvent,
};
use model::NodeId;

/// Records that one call emits, and the bytes of each.
const RECORDS: u64 = 20_000;
const BYTES: u64 = 1_000;
/// The most records that may be kept at once: 4 MiB, what goes on before the output is tried again, and batches at both ends.
const MOST: u64 = 5_500;

/// The consumer of a task's output, which has room for one batch.
#[derive(Default)]
struct Taken {
    /// The batches that the output has refused, and that of which the consumer has room for.
    kept: Vec<Batch<String>>,
    offered: Option<Batch<String>>,
    most: u64,
    took: u64,
    /// True once batches that are not full were to be sent too: that is done before the call waits.
    flushed: bool,
}

#[derive(Clone, Default)]
struct Edge(Arc<Mutex<Taken>>);

impl Edge {
    /// Takes the batch that is offered, in the consumer's thread. Returns its number of records; 0 for none.
    fn take(&self, signal: &TaskSignal) -> u64 {
        let mut taken = self.0.lock().unwrap();
        let Some(batch) = taken.offered.take() else { return 0 };
        for record in batch.records() {
            assert_eq!(record.trim_start(), taken.took.to_string(), "each once and in order");
            taken.took += 1;
        }
        drop(taken);
        signal.raise();
        batch.len() as u64
    }
    fn took(&self) -> u64 {
        self.0.lock().unwrap().took
    }
    fn most(&self) -> u64 {
        self.0.lock().unwrap().most
    }
}

impl Consumer<String> for Edge {
    fn batch(&mut self, batch: &mut Batch<String>) -> Result<bool, TaskError> {
        let mut taken = self.0.lock().unwrap();
        taken.kept.push(std::mem::take(batch));
        let kept: usize = taken.kept.iter().map(Batch::len).sum();
        taken.most = taken.most.max(kept as u64);
        drop(taken);
        self.flush(false)
    }
}

impl Control for Edge {
    fn event(&mut self, _: StreamEvent) -> Result<Flow, TaskError> {
        Ok(Flow::Done)
    }
    fn full(&self) -> bool {
        !self.0.lock().unwrap().kept.is_empty()
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        let mut taken = self.0.lock().unwrap();
        taken.flushed |= partial;
        if taken.offered.is_none() && !taken.kept.is_empty() {
            taken.offered = Some(taken.kept.remove(0));
        }
        Ok(taken.kept.is_empty())
    }
}

fn context(interrupt: Interrupt) -> OperatorContext {
    let reads = Arc::new(crate::state::slow::Reads::default());
    crate::testing::context((0, 1), Default::default(), interrupt, reads)
}

/// A step that emits all records in one call and then parks; the next ones send the rest and finish. `mail` gets the task's mail.
fn emits_much(
    rig: &Rig,
    next: impl Consumer<String> + 'static,
    mail: Arc<Mutex<Vec<Mail>>>,
) -> Script {
    let interrupt = rig.control.signal().interruption().clone();
    let many = FlatMap::new(|of: u64, out: &mut Collector<String>| {
        (0..of).for_each(|n| out.collect(format!("{n:>width$}", width = BYTES as usize)));
    });
    stepped(Link::new(many, Box::new(next), SideOutputs::default(), context(interrupt)), mail)
}

/// A step with one record and then others that send the rest. `mail` gets the task's mail.
fn stepped(mut link: impl Consumer<u64> + 'static, mail: Arc<Mutex<Vec<Mail>>>) -> Script {
    let mut records = Batch::from(vec![RECORDS]);
    script(move |came| {
        mail.lock().unwrap().append(came);
        if records.is_empty() {
            let sent = link.flush(true)?;
            return Ok(if sent { Progress::Finished } else { Progress::Blocked });
        }
        link.batch(&mut records)?;
        Ok(Progress::Starved)
    })
}

/// Waits until the call is about to wait.
fn until_it_waits(edge: &Edge) {
    let began = Instant::now();
    while !edge.0.lock().unwrap().flushed {
        assert!(began.elapsed() < PATIENCE, "kept {}", edge.most());
        std::thread::yield_now();
    }
}

/// Takes all records of the call, after which the task finishes.
fn take_all(rig: &Rig, edge: &Edge) {
    let began = Instant::now();
    while edge.took() < RECORDS {
        edge.take(rig.control.signal());
        assert!(began.elapsed() < PATIENCE, "took {}", edge.took());
    }
    rig.until(S::Finished);
}

#[test]
fn a_call_that_emits_more_than_its_consumer_takes_waits_for_room() {
    let (rig, edge) = (rig(), Edge::default());
    rig.start(emits_much(&rig, edge.clone(), Arc::default()));
    rig.until(S::Running);
    take_all(&rig, &edge);
    assert!(edge.most() <= MOST, "{} records of {BYTES} bytes at once", edge.most());
}

#[test]
fn a_call_that_waits_for_room_is_cancelled_at_once() {
    let (rig, edge) = (rig(), Edge::default());
    rig.start(emits_much(&rig, edge.clone(), Arc::default()));
    until_it_waits(&edge);
    rig.control.cancel();
    rig.until(S::Canceled);
    assert_eq!(edge.took(), 0);
}

/// An operator that is full until it has got an answer.
struct Answered(Option<u32>);

impl Operator<String> for Answered {
    type Out = String;
    fn process(
        &mut self,
        batch: &mut Batch<String>,
        out: &mut Collector<String>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.each(|record, time| out.push(record, time));
        Ok(())
    }
    fn mail(
        &mut self,
        mail: OperatorMail,
        _: &mut Collector<String>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        let OperatorMail::Reply { ticket, .. } = mail else { return Ok(()) };
        assert_eq!(self.0.take(), Some(ticket));
        Ok(())
    }
    fn full(&self) -> bool {
        self.0.is_some()
    }
}

#[test]
fn a_call_that_waits_hands_operators_behind_their_mail_and_leaves_other_mail() {
    let (rig, edge) = (rig(), Edge::default());
    let behind = context(rig.control.signal().interruption().clone());
    let node = behind.node;
    let sink = Link::new(Answered(Some(7)), Box::new(edge.clone()), SideOutputs::default(), behind);
    let mail = Arc::<Mutex<Vec<Mail>>>::default();
    rig.start(emits_much(&rig, sink, Arc::clone(&mail)));
    until_it_waits(&edge);
    let other = ticket_of(NodeId(node.0 + 1), 7);
    for ticket in [other, ticket_of(node, 7)] {
        rig.mailbox.begin_upcall().unwrap();
        rig.mailbox.reply(ticket, Ok(Vec::new()));
    }
    take_all(&rig, &edge);
    assert!(edge.most() <= MOST, "{} records of {BYTES} bytes at once", edge.most());
    let left = mail.lock().unwrap();
    assert!(matches!(left[..], [Mail::Reply { ticket, .. }] if ticket == other), "{left:?}");
}

/// A call emits much to one output and then waits, and one record to another one before, which waits for its batch to fill.
#[test]
fn while_a_call_waits_for_one_output_the_other_ones_send_what_they_have() {
    const SIDE: OutputTag<String> = OutputTag::new("side");
    for much_to_side in [false, true] {
        let (rig, edge, side) = (rig(), Edge::default(), Edge::default());
        let interrupt = rig.control.signal().interruption().clone();
        let many = FlatMap::new(move |of: u64, out: &mut Collector<String>| {
            let numbers = (0..of).map(|n| format!("{n:>width$}", width = BYTES as usize));
            if much_to_side {
                out.collect("0".to_owned());
                numbers.for_each(|number| out.collect_to(&SIDE, number));
            } else {
                out.collect_to(&SIDE, "0".to_owned());
                out.collect_all(numbers);
            }
        });
        let sides = SideOutputs::new(vec![("side", side_output(Box::new(side.clone())))]);
        let link = Link::new(many, Box::new(edge.clone()), sides, context(interrupt));
        rig.start(stepped(link, Arc::default()));
        let (much, one) = if much_to_side { (side, edge) } else { (edge, side) };
        until_it_waits(&much);
        let began = Instant::now();
        while one.take(rig.control.signal()) == 0 {
            assert!(began.elapsed() < PATIENCE, "nothing came from the other output");
        }
        take_all(&rig, &much);
    }
}
