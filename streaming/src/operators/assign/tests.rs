use super::*;
use crate::{
    operators::{Consumer, Control, Link, SideOutputs},
    state::fixtures,
    testing::{self, OperatorHarness},
    time::BoundedOutOfOrderness,
};
use model::NodeId;
use std::sync::{Arc, Mutex};

type InOrder = AssignWatermarks<i64, fn(&i64) -> i64, BoundedOutOfOrderness>;

fn in_order() -> InOrder {
    AssignWatermarks::new(WatermarkStrategy::for_monotonous_timestamps(|ms: &i64| *ms))
}

/// Returns the operator restored from the watermarks of former subtasks.
fn restored(former: &[i64], subtask: u32, of: u32) -> OperatorHarness<i64, InOrder> {
    let states = former.iter().map(|ms| write_watermark(*ms));
    testing::operator(in_order()).subtask(subtask, of).restore(states).open().unwrap()
}

#[test]
fn a_restored_subtask_emits_its_watermark_again_and_none_below_it() {
    let mut before = testing::operator(in_order()).open().unwrap();
    before.push(100).unwrap();
    assert_eq!(before.last_watermark(), Some(99));
    let state = before.snapshot().unwrap();
    assert_eq!(state, [write_watermark(99)]);

    let mut after = testing::operator(in_order()).restore(state.clone()).open().unwrap();
    assert_eq!(after.snapshot().unwrap(), state, "also before its first record");
    after.advance_clock_to(0).unwrap();
    assert_eq!(after.last_watermark(), Some(99), "without any record");
    after.push(50).unwrap();
    assert_eq!((after.output(), after.last_watermark()), (vec![50], Some(99)));
    after.push(200).unwrap();
    assert_eq!(after.last_watermark(), Some(199));
}

/// Shows the watermarks and records that come, in their order.
struct Shown(Arc<Mutex<Vec<(&'static str, i64)>>>);

impl Consumer<i64> for Shown {
    fn batch(&mut self, batch: &mut Batch<i64>) -> Result<bool, TaskError> {
        batch.each(|record, _| self.0.lock().unwrap().push(("record", record)));
        Ok(true)
    }
}

impl Control for Shown {
    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        if let StreamEvent::Watermark(ms) = event {
            self.0.lock().unwrap().push(("watermark", ms));
        }
        Ok(Flow::Done)
    }
}

#[test]
fn the_restored_watermark_goes_before_the_first_record_and_never_behind_the_final_one() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let open = || {
        let context = OperatorContext::for_tests(0, 1).restoring(vec![write_watermark(99)]);
        let next = Box::new(Shown(shown.clone()));
        let mut link = Link::new(in_order(), next, SideOutputs::default(), context);
        link.open().unwrap();
        link
    };
    let timer = OperatorMail::Timer { ticket: RESTORED };
    let mut link = open();
    link.batch(&mut vec![50, 120].into()).unwrap();
    while link.is_interrupted() {
        link.resume().unwrap();
    }
    let expected = [("watermark", 99), ("record", 50), ("record", 120), ("watermark", 119)];
    assert_eq!(std::mem::take(&mut *shown.lock().unwrap()), expected);

    let mut link = open();
    assert_eq!(link.event(StreamEvent::Watermark(FINAL)).unwrap(), Flow::Done);
    link.deliver(NodeId(0), timer).unwrap();
    assert_eq!(*shown.lock().unwrap(), [("watermark", FINAL)]);
}

#[test]
fn a_subtask_of_another_parallelism_begins_with_the_minimum_of_all() {
    let of = |former: &[i64], subtask, of| {
        let mut test = restored(former, subtask, of);
        test.advance_clock_to(0).unwrap();
        test.last_watermark()
    };
    assert_eq!([of(&[99, 49], 0, 2), of(&[99, 49], 1, 2)], [Some(99), Some(49)]);
    assert_eq!([of(&[99, 49], 0, 1), of(&[99, 49], 2, 3)], [Some(49), Some(49)]);
    assert_eq!(of(&[99, FINAL], 0, 1), Some(99), "nothing more comes from one that has ended");
    assert_eq!(of(&[99, i64::MIN], 0, 1), None, "one had no watermark");
    assert_eq!(of(&[FINAL, FINAL], 0, 1), None);
}

#[test]
fn the_fixture_of_a_watermark_is_read_and_written_alike_and_damage_is_no_panic() {
    fixtures::check("watermark.bin", &write_watermark(1_764_000_000_123), |bytes| {
        let opened = testing::operator(in_order()).restore([bytes.to_vec()]).open();
        opened.ok()?.snapshot().ok()?.pop()
    });
    let version = [&[9], &write_watermark(0)[1..]].concat();
    let refused = testing::operator(in_order()).restore([version]).open().map(drop).unwrap_err();
    assert!(refused.to_string().contains("version of a watermark"), "{refused}");
}
