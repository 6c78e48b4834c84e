//! What is told to many is told in slices, and counts for all of them from its one record on.

use std::fmt::Write as _;

use fanin_machine::{Command, Report, Said};
use fanin_protocol::limits::{ORPHANS_PER_STEP, STARTS_PER_STEP, STOPS_PER_STEP};
use fanin_protocol::record::RunOutcome;
use fanin_protocol::{JobId, PartKind, PartState, Record};
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

// A share is carried out before the next is decided: else what is told meanwhile waits behind all starts of a launch.
#[test]
fn the_next_share_of_starts_waits_for_its_tick_however_many_end_before() {
    let jobs = 2 * STARTS_PER_STEP + 1;
    let names: Vec<String> = (0..jobs).map(|n| format!("j{n}")).collect();
    let text = format!("open; session s; launch {}", names.join(" "));
    let mut world = World::new(Options { sparse: u32::MAX, keep_log: true, ..Options::default() });
    let mut started_by = |text: &str| {
        let ops = script(text).ops;
        let done = ops.iter().map(|op| world.perform(op).unwrap_or_else(|broken| panic!("{broken}")));
        let records = done.flat_map(|out| out.records).filter(|entry| entry.record.kind() == "run.started");
        (records.count(), world.unfinished)
    };
    assert_eq!(started_by(&text), (STARTS_PER_STEP, true));
    for name in &names[..3] {
        assert_eq!(started_by(&format!("end {name} ok")), (0, true));
    }
    assert_eq!(started_by("after 0"), (STARTS_PER_STEP, true));
    assert_eq!(started_by("after 0"), (1, false));
}

// RE-3, RE-8: 100,000 open calls and a crash between any two slices.
#[test]
fn a_large_recovery_goes_in_slices_and_serves_nothing_before_the_last() {
    const JOBS: usize = 100;
    const CALLS: usize = 1_000;
    let names: Vec<String> = (0..JOBS).map(|n| format!("j{n}")).collect();
    let options = Options { sparse: u32::MAX, keep_log: true, ..Options::default() };
    let mut world = World::new(options);
    let done = |kept: Result<fanin_machine::Out, fanin_tests::Broken>| {
        kept.unwrap_or_else(|broken| panic!("{broken}"))
    };
    for op in &script(&format!("open; session s; launch {}", names.join(" "))).ops {
        done(world.perform(op));
    }
    for name in &names {
        let run = world.host.runs[&JobId::parse(name).unwrap()];
        for call in 0..CALLS {
            let (call, name) = (format!("c{call}").into(), "tool".into());
            let (kind, state) = (PartKind::Tool, PartState::Running);
            let what = Said::Part { call, name, kind, state, args_hash: None };
            done(world.step(Command::Report(Report { run, what })));
        }
    }
    let refused = script("launch as=another late").ops.remove(0);
    let (mut closed, mut steps) = (0, 0);
    done(world.perform(&Op::Crash));
    loop {
        let out = done(world.perform(&Op::Open));
        let is = |kind: &str| out.records.iter().filter(|entry| entry.record.kind() == kind).count();
        let parts = is("part");
        assert!(parts + is("run.ended") <= ORPHANS_PER_STEP, "{parts} in one step");
        assert!(is("part") + is("run.ended") > 0, "a step that closes nothing");
        closed += parts;
        steps += 1;
        if !world.state.is_opening() {
            assert_eq!((is("job.ended"), is("group.fired")), (JOBS, 1));
            break;
        }
        assert_eq!((is("job.ended"), is("group.fired"), is("run.started")), (0, 0, 0));
        assert!(
            done(world.perform(&refused)).records.is_empty(),
            "something is served before all is recovered"
        );
        if steps % 7 == 0 {
            // The next one goes on with what is left.
            done(world.perform(&Op::Crash));
        }
    }
    assert!(closed == JOBS * CALLS && steps > 100, "{closed} in {steps} steps");
    let ended = world.log.iter().filter_map(|entry| match &entry.record {
        Record::RunEnded(ended) => Some(ended.outcome),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [RunOutcome::Interrupted; JOBS]);
}
