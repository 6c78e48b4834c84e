//! What is told to many is told in slices, and counts for all of them from its one record on.

use std::fmt::Write as _;

use fanin_protocol::limits::STOPS_PER_STEP;
use fanin_tests::op::{Op, script};
use fanin_tests::world::{Options, World};

// SC-2, J-17
#[test]
fn a_finish_between_two_slices_of_a_stop_comes_after_the_stop() {
    let mut text = String::from("open; session s; launch closure p; launch closure below=p");
    for n in 0..2 * STOPS_PER_STEP {
        let _ = write!(text, " c{n}");
    }
    let last = format!("c{}", 2 * STOPS_PER_STEP - 1);
    let _ = write!(text, "; stop p");
    let mut world = World::new(Options { grace_ms: 100, ..Options::default() });
    let perform = |world: &mut World, op: &Op| world.perform(op).unwrap_or_else(|broken| panic!("{broken}"));
    for op in &script(&text).ops {
        perform(&mut world, op);
        // All that was launched is started before anything is stopped.
        while world.unfinished && !matches!(op, Op::Stop(..)) {
            perform(&mut world, &Op::After(0));
        }
    }
    assert!(world.unfinished, "the stop fits in one step");
    let told: Vec<_> = script(&format!("end {last} ok"))
        .ops
        .iter()
        .flat_map(|op| perform(&mut world, op).records)
        .map(|entry| entry.record.kind())
        .take(3)
        .collect();
    assert_eq!(told, ["job.stopping", "run.ended", "job.ended"]);
}
