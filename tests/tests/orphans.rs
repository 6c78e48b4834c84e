//! RE-3 on random histories: up to 500 tool calls of a turn, of a job and of a job below it, whose ids repeat,
//! under a clock that jumps both ways, some of them only announced. All that a crash left open is closed, what was over
//! stays as it was to the byte, and each call has one result, in the order of the calls.
//!
//! `FANIN_CASES` sets the number of cases.

// A helper that panics is a failed test.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeMap;

use fanin_machine::{Command, Report, RunRef, Said};
use fanin_protocol::{Entry, Fence, JobId, PartKind, PartState, Record, SessionId, ToolPart};
use fanin_tests::op::{Op, script};
use fanin_tests::{Broken, Options, World};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Cases of one run of CI.
const CASES: u32 = 2_000;

/// What a runner says of one call, after the wall clock has moved.
#[derive(Debug, Clone)]
struct Told {
    run: usize,
    call: u16,
    kind: PartKind,
    state: PartState,
    wall_ms: i64,
}

fn said() -> impl Strategy<Value = Told> {
    let kind = prop_oneof![4 => Just(PartKind::Tool), 1 => Just(PartKind::Question)];
    let state = prop_oneof![
        2 => Just(PartState::Pending),
        2 => Just(PartState::Running),
        1 => Just(PartState::Completed),
        1 => Just(PartState::Error),
    ];
    // Far into the future and back before the start of the log, most often not at all.
    let wall_ms = prop_oneof![6 => Just(0), 2 => -2_000_000_000..2_000_000_000i64, 2 => -50..50i64];
    (0..3usize, 0..400u16, kind, state, wall_ms).prop_map(|(run, call, kind, state, wall_ms)| Told {
        run,
        call,
        kind,
        state,
        wall_ms,
    })
}

/// The parts of each run as the records have them: by call, in the order in which the calls came.
type Calls = BTreeMap<Fence, Vec<ToolPart>>;

fn calls(log: &[Entry]) -> Calls {
    let mut calls = Calls::new();
    for entry in log {
        let Record::ToolPart(part) = &entry.record else { continue };
        let run = calls.entry(part.run).or_default();
        match run.iter_mut().find(|known| known.call == part.call) {
            Some(known) => *known = part.clone(),
            None => run.push(part.clone()),
        }
    }
    calls
}

fn bytes(part: &ToolPart) -> Vec<u8> {
    Record::from(part.clone()).encode_body().unwrap()
}

fn history(all: &[Told], then_ms: i64) -> Result<(), Broken> {
    let options = Options { keep_log: true, keep_rows: true, sparse: u32::MAX, ..Options::default() };
    let mut world = World::new(options);
    for op in script("open; session s; launch p; launch below=p a; turn").ops {
        world.perform(&op)?;
    }
    let jobs = ["p", "a"].map(|id| world.host.runs[&JobId::parse(id).unwrap()]);
    let runs: [RunRef; 3] = [world.host.turns[&SessionId::parse("s").unwrap()], jobs[0], jobs[1]];
    for Told { run, call, kind, state, wall_ms } in all {
        world.perform(&Op::Wall(*wall_ms))?;
        let call = format!("call-{call}").into();
        let what = Said::Part { call, name: "tool".into(), kind: *kind, state: *state, args_hash: None };
        world.step(Command::Report(Report { run: runs[*run], what }))?;
    }
    let before = calls(&world.log);
    let at = world.log.len();
    world.perform(&Op::Crash)?;
    world.perform(&Op::Wall(then_ms))?;
    world.perform(&Op::Open)?;
    is_closed(&before, &world.log, at);

    let (at, rows) = (world.log.len(), world.rows.clone());
    world.perform(&Op::Crash)?;
    world.perform(&Op::Open)?;
    let kinds: Vec<_> = world.log[at..].iter().map(|entry| entry.record.kind()).collect();
    assert!(matches!(kinds.as_slice(), ["store.opened"] | ["store.opened", "note"]), "{kinds:?}");
    assert_eq!(rows.other_than(&world.rows).collect::<Vec<_>>(), [], "a second recovery changes rows");
    Ok(())
}

/// What a recovery made of the calls that there were: its records begin at a place of the log.
fn is_closed(before: &Calls, log: &[Entry], at: usize) {
    let after = calls(log);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (fence, were) in before {
        let are = &after[fence];
        assert_eq!(were.len(), are.len(), "one result for each call");
        for (was, is) in were.iter().zip(are) {
            assert_eq!(was.call, is.call, "in the order of the calls");
            if was.state.is_terminal() {
                assert_eq!(bytes(was), bytes(is), "what was over stays");
                continue;
            }
            assert!(is.state == PartState::Error && is.interrupted, "{is:?}");
            assert_eq!(is.start_ms, was.start_ms.or(Some(was.created_ms)), "{is:?} of {was:?}");
            assert!(is.end_ms >= is.start_ms && is.end_ms >= Some(was.last_ms), "{is:?} of {was:?}");
        }
        // Written once each, in that order, and before the end of their run.
        let open = were.iter().filter(|part| !part.state.is_terminal()).map(|part| &part.call);
        let written = log[at..].iter().filter_map(|entry| match &entry.record {
            Record::ToolPart(part) if part.run == *fence => Some(&part.call),
            _ => None,
        });
        assert!(written.eq(open), "the calls that were open, and no others");
        let is_end = |entry: &Entry| matches!(&entry.record, Record::RunEnded(end) if end.run == *fence);
        let is_part = |entry: &Entry| matches!(&entry.record, Record::ToolPart(part) if part.run == *fence);
        let end = log.iter().position(is_end).unwrap();
        assert!(log.iter().rposition(is_part).unwrap() < end, "a call is closed behind the end of its run");
    }
}

// B20
#[test]
fn what_a_crash_left_open_is_closed_and_what_was_over_stays() {
    let cases = std::env::var("FANIN_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let all = (proptest::collection::vec(said(), 0..=500), -2_000_000_000..2_000_000_000i64);
    let found = TestRunner::new(config).run(&all, |(all, then_ms)| {
        history(&all, then_ms).map_err(|broken| TestCaseError::fail(broken.to_string()))
    });
    found.unwrap_or_else(|error| panic!("{error}"));
}
