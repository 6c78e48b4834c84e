//! J-15: a record that cannot follow is refused and changes nothing.
// A helper that panics is a failed test.
#![allow(clippy::unwrap_used)]

use fanin_protocol::record::{GroupSealed, JobQueued, MessageTaken, RunEnded, RunStarted, TakenBy};
use fanin_protocol::{
    CommandSpec, Entry, Fence, GroupId, JobId, JobKind, Lifetime, NodeId, PartKind, Policy, Private, Record,
    Seq, SessionId, SharedLimits, Spec, ToolPart,
};
use fanin_tests::op::script;
use fanin_tests::{Options, World};

fn job(id: &str) -> JobId {
    JobId::parse(id).unwrap()
}

fn group(id: &str) -> GroupId {
    GroupId::parse(id).unwrap()
}

fn queued(id: &str, to: &str, index: u32) -> Record {
    JobQueued {
        job: job(id),
        parent: NodeId::Session(SessionId::parse("s").unwrap()),
        group: group(to),
        index,
        kind: JobKind::Command,
        label: None,
        spec: Private::new(std::sync::Arc::new(Spec::Command(CommandSpec::shell("true")))),
        limits: SharedLimits::default(),
    }
    .into()
}

fn taken(keys: &[&str], results: &[u64]) -> Record {
    MessageTaken {
        keys: keys.iter().map(|id| group(id)).collect(),
        results: results.iter().map(|lifetime| Lifetime(*lifetime)).collect(),
        messages: Vec::new(),
        by: TakenBy::Waiter,
    }
    .into()
}

fn sealed(id: &str, members: &[&str]) -> Record {
    GroupSealed {
        group: group(id),
        parent: NodeId::Session(SessionId::parse("s").unwrap()),
        members: members.iter().map(|id| job(id)).collect(),
        policy: Policy::ALL,
        edges: None,
        turn: None,
    }
    .into()
}

/// `a` (lifetime 3) has fired alone, `b` runs, `c` waits in an open group.
fn world() -> World {
    let mut world =
        World::new(Options { slots: Some(1), keep_log: true, fold_each: true, ..Options::default() });
    let ops = script("open; session s; launch a; end a; launch b; turn; part b c1 running; start c");
    for op in &ops.ops {
        world.perform(op).unwrap();
    }
    world
}

#[test]
fn a_record_that_does_not_fit_changes_nothing() {
    let world = world();
    let b = world.ledger.job(&job("b")).clone();
    let (run, lifetime) = (b.run.unwrap(), b.lifetime);
    let started = |node| Record::from(RunStarted { node, attempt: 1, reserved_usd_micros: None });
    let ended = |run| {
        Record::from(RunEnded {
            run,
            outcome: fanin_protocol::record::RunOutcome::Completed,
            next: fanin_protocol::record::Next::Settle,
            cause: None,
            code: None,
            message: None,
            exit: None,
            output: None,
            left: None,
        })
    };
    let part = ToolPart::pending(run, "c1".into(), "tool".into(), PartKind::Tool, 5);
    let records = [
        queued("b", "g9", 0),
        queued("x", "g9", 1),
        queued("x", "g1", 1),
        queued("x", "g3", 0),
        taken(&["g1", "g9"], &[]),
        taken(&["g1", "g1"], &[]),
        taken(&["g1", "g2"], &[]),
        taken(&[], &[3, lifetime.0]),
        taken(&[], &[3, 3]),
        taken(&["g1"], &[999]),
        sealed("g1", &["a"]),
        sealed("g3", &[]),
        sealed("g3", &["a"]),
        started(NodeId::Job(job("a"))),
        started(NodeId::Job(job("b"))),
        started(NodeId::Job(job("x"))),
        started(NodeId::Session(SessionId::parse("s").unwrap())),
        ended(run),
        ended(Fence(1)),
        part.into(),
    ];
    for record in records {
        let mut facts = world.state.facts().clone();
        let refused = facts.apply(facts.head().next(), u64::MAX, &record);
        assert!(refused.is_err(), "{record:?} was taken");
        assert_eq!(&facts, world.state.facts(), "{record:?} was refused and left something behind");
    }
}

#[test]
fn a_record_out_of_place_or_back_in_time_changes_nothing() {
    let world = world();
    let Entry { ts_ms, .. } = world.log.last().unwrap().clone();
    for (seq, ts_ms) in
        [(Seq(1), ts_ms), (world.state.facts().head(), ts_ms), (world.state.facts().head().next(), 0)]
    {
        let mut facts = world.state.facts().clone();
        let refused = facts.apply(seq, ts_ms, &queued("x", "g9", 0));
        assert!(refused.is_err());
        assert_eq!(&facts, world.state.facts());
    }
}

#[test]
fn a_log_with_a_hole_does_not_fold() {
    let world = world();
    for missing in 0..world.log.len() - 1 {
        let log = world.log.iter().enumerate().filter(|(place, _)| *place != missing).map(|(_, entry)| entry);
        assert!(fanin_machine::Facts::fold(log).is_err(), "without record {}", missing + 1);
    }
}
