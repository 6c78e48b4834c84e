//! Scripts and the timeline they must give: records, what is told to waiters and runners, and replies that say no.

mod words;

use std::fmt::Write as _;

use expect_test::Expect;
use fanin_machine::{Effect, Out, Reply, Stopped, why};

use crate::calm::{Calm, calm};
use crate::ledger::Ledger;
use crate::op::{Op, script};
use crate::world::{Options, World};

/// Runs a script and compares its timeline; then all is ended, and nothing may be left.
///
/// The store is open and session `s` exists when it begins. `UPDATE_EXPECT=1` rewrites the timeline.
///
/// # Panics
///
/// Where the timeline is another one, or a promise is broken.
pub fn check(text: &str, expected: Expect) {
    let script = script(text);
    let options = Options {
        slots: script.slots,
        rate: script.rate,
        grace_ms: 100,
        fold_each: true,
        keep_log: true,
        keep_rows: true,
        ..Options::default()
    };
    let mut world = World::new(options);
    let mut lines = String::new();
    for op in [Op::Open, Op::Session(crate::op::session("s"))] {
        world.perform(&op).unwrap_or_else(|broken| panic!("{broken}"));
    }
    for op in &script.ops {
        let out = world.perform(op).unwrap_or_else(|broken| panic!("at `{op}`: {broken}\n{lines}"));
        write(&mut lines, &out, &world.ledger);
        reasons(&mut lines, op, &world);
    }
    expected.assert_eq(&lines);
    world.fold_holds().unwrap_or_else(|broken| panic!("{broken}"));
    for way in [Calm::Ends, Calm::Stuck] {
        let mut world = world.clone();
        calm(&mut world, way)
            .unwrap_or_else(|broken| panic!("in the calm after ({way:?}): {broken}\n{lines}"));
    }
}

/// Writes what a thing waits for, where that was asked.
fn reasons(lines: &mut String, op: &Op, world: &World) {
    let reasons = match op {
        Op::Why(id) => why::job(&world.state, id),
        Op::WhyGroup(id) => why::group(&world.state, id),
        _ => return,
    };
    let words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let words = if words.is_empty() { "over".into() } else { words.join("; ") };
    let _ = writeln!(lines, "{op}: {words}");
}

/// Writes what a step gave.
pub fn write(lines: &mut String, out: &Out, ledger: &Ledger) {
    for entry in &out.records {
        let _ = writeln!(lines, "{} {}", entry.record.kind(), words::record(entry, ledger));
    }
    for effect in &out.effects {
        match effect {
            Effect::Kill { run, stage, .. } => {
                let node = ledger.runs.get(&run.fence).map(|run| run.node.to_string()).unwrap_or_default();
                let _ = writeln!(lines, "-> {stage:?} stop of {node}");
            }
            Effect::Answer { waiter, answer } => {
                let _ = writeln!(lines, "-> w{}: {}", waiter.0, words::answered(answer));
            }
            Effect::Deliver { run, key, .. } => {
                let node = ledger.runs.get(&run.fence).map(|run| run.node.to_string()).unwrap_or_default();
                let _ = writeln!(lines, "-> {key} to {node}");
            }
            Effect::Probe { .. } | Effect::Spawn { .. } | Effect::Forget(_) | Effect::Alarm(_) => {}
        }
    }
    match &out.reply {
        Some(Reply::Refused(refusal)) => drop(writeln!(lines, "= refused: {refusal}")),
        Some(Reply::Launched(launched)) if !launched.created => {
            let differs = if launched.spec_differs { ", another spec" } else { "" };
            let _ =
                writeln!(lines, "= known: {}{differs}", words::list(launched.jobs.iter().map(|(id, _)| id)));
        }
        Some(Reply::Posted { created: false }) => drop(writeln!(lines, "= known")),
        Some(Reply::Stopped(jobs)) => {
            for (id, stopped) in jobs {
                if let Stopped::AlreadyEnded(status) = stopped {
                    let _ = writeln!(lines, "= {id} is {status} already");
                }
            }
        }
        Some(Reply::Promoted(promotion)) => drop(writeln!(lines, "= {}", promotion.as_str())),
        Some(Reply::Extended(false)) => drop(writeln!(lines, "= not extended")),
        _ => {}
    }
}
