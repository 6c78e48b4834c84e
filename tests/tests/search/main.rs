//! The exhaustive search of MODEL's "What to prove first", as several models that are small enough to be searched
//! whole: G1 to G8 and G14 after every step, G6, G12 and G13 from every state. `pairs.txt` lists every command with
//! what it met; `UPDATE_EXPECT=1` rewrites it.

// A helper that panics is a failed test.
#![allow(clippy::panic)]

use std::sync::OnceLock;
use std::time::Instant;

use expect_test::{expect, expect_file};
use fanin_protocol::PartState;
use fanin_tests::op::How;
use fanin_tests::search::menu::Menu;
use fanin_tests::search::{Found, search, table};

/// A model and what its search found, once.
struct Model {
    name: &'static str,
    menu: fn() -> Menu,
    found: OnceLock<Found>,
}

macro_rules! models {
    ($($(#[$doc:meta])* $name:ident = $menu:expr;)*) => {
        static MODELS: [Model; [$(stringify!($name)),*].len()] = [$(Model {
            name: stringify!($name),
            menu: || $menu,
            found: OnceLock::new(),
        },)*];

        $($(#[$doc])*
        #[test]
        fn $name() {
            found(stringify!($name));
        })*
    };
}

fn found(name: &str) -> &'static Found {
    let model = MODELS.iter().find(|model| model.name == name).unwrap_or_else(|| panic!("no model {name}"));
    model.found.get_or_init(|| {
        let begin = Instant::now();
        let found = search(&(model.menu)());
        let Found { states, transitions, depth, .. } = &found;
        println!("{name}: {states} states, {transitions} transitions, depth {depth}, {:?}", begin.elapsed());
        found
    })
}

models! {
    /// BAR-10, BAR-12, BAR-15, P4: a group, two waiters of any kind, a turn, a crash, the end of the parent.
    delivery = Menu {
        launches: vec!["launch closure as=g a b"],
        waiters: 2,
        waits: vec!["all a b", "all a", "any a b", "group g", "wake"],
        ends: vec![How::Ok],
        turns: 1,
        crashes: 1,
        others: vec!["close s"],
        ..Menu::default()
    };
    /// BAR-10 over groups: a wait may cover two of them, and the oldest message comes first.
    two_groups = Menu {
        launches: vec!["launch closure as=g a", "launch closure as=h b"],
        waiters: 2,
        waits: vec!["all a b", "all a", "group h", "wake"],
        ends: vec![How::Ok],
        crashes: 1,
        ..Menu::default()
    };
    /// BAR-10, BAR-15: waits on parts of a group of three, so that some results are taken and some are not.
    three_jobs = Menu {
        launches: vec!["launch closure as=g a b c"],
        waiters: 2,
        waits: vec!["all a b c", "all a b", "all c", "any b c", "group g", "wake"],
        ends: vec![How::Ok],
        crashes: 1,
        ..Menu::default()
    };
    /// BAR-9, SC-9: two parents, one of which goes; waits on what belongs to the other.
    two_sessions = Menu {
        launches: vec!["launch closure as=g a", "launch in=t closure as=h b"],
        waiters: 2,
        waits: vec!["all a b", "all in=t a b", "wake", "wake t", "group h"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["session t", "close t"],
        ..Menu::default()
    };
    /// BAR-5, BAR-6, BAR-9, W-4: launches join the group of a turn.
    turn_groups = Menu {
        launches: vec!["start closure as=g a", "start closure as=h b"],
        waiters: 1,
        waits: vec!["all a b", "all a", "group g", "wake"],
        ends: vec![How::Ok],
        turns: 2,
        crashes: 1,
        others: vec!["close s", "stop-group g"],
        ..Menu::default()
    };
    /// SC-10, P7: a job waits for its child at one slot, in two ways at once: finishes, cancels, limits of waits, another
    /// number of slots.
    lending = Menu {
        slots: Some(1),
        launches: vec!["launch closure as=g p", "launch closure below=p as=h a"],
        waiters: 2,
        waits: vec!["group below=p h", "all below=p a", "wake below=p"],
        ends: vec![How::Ok],
        expires: true,
        others: vec!["stop a grace=0", "stop p grace=0", "set-slots 2"],
        ..Menu::default()
    };
    /// SC-9, SC-10: the answer of a job is held while a job of another tree has the slot.
    held_answers = Menu {
        slots: Some(1),
        launches: vec![
            "launch closure as=g p",
            "launch closure below=p as=h a",
            "launch in=t closure as=i q r",
        ],
        waiters: 1,
        waits: vec!["group below=p h", "wake below=p"],
        ends: vec![How::Ok],
        expires: true,
        others: vec!["session t", "stop p grace=0"],
        ..Menu::default()
    };
    /// J-5, J-6, J-8, J-11, SC-2, BAR-9: a job with two children that end, fail, or are stopped, with a crash.
    nested = Menu {
        slots: Some(2),
        launches: vec!["launch closure as=g p", "launch closure below=p as=h a b"],
        waiters: 1,
        waits: vec!["group below=p h", "wake below=p", "wake"],
        ends: vec![How::Ok, How::Failed],
        crashes: 1,
        others: vec!["close s", "stop p grace=0", "stop-group h", "stop a"],
        ..Menu::default()
    };
    /// SC-1, SC-2: three levels, stops at each of them, and time.
    three_levels = Menu {
        launches: vec![
            "launch closure as=g p",
            "launch closure below=p as=h a",
            "launch closure below=a as=i b",
        ],
        ends: vec![How::Ok, How::Lost],
        time: true,
        late: true,
        crashes: 1,
        others: vec!["stop p", "stop a grace=0", "start below=b as=j p"],
        ..Menu::default()
    };
    /// BAR-4, J-8 to J-11, J-17, J-18: all members run to their end.
    barrier_all = barrier(None, "launch closure as=g a b");
    /// The same with one slot and runners that come up late; J-2, J-3, J-9, SC-9.
    barrier_all_one_slot = barrier(Some(1), "launch as=g a b");
    /// The first success stops the rest.
    barrier_any = barrier(None, "launch closure any as=g a b");
    /// The same with one slot.
    barrier_any_one_slot = barrier(Some(1), "launch any as=g a b");
    /// The first failure stops the rest.
    barrier_fail_fast = barrier(None, "launch closure fail_fast as=g a b");
    /// The same with one slot.
    barrier_fail_fast_one_slot = barrier(Some(1), "launch fail_fast as=g a b");
    /// J-12, J-17, SC-14, SC-16: every limit there is, and stops around them.
    timers = Menu {
        slots: Some(1),
        launches: vec!["launch deadline=50 run=30 queue=40 grace=10 as=g a b"],
        waiters: 1,
        waits: vec!["wake"],
        ends: vec![How::Ok, How::Failed, How::Lost],
        binds: true,
        time: true,
        crashes: 1,
        others: vec!["stop a", "stop-exact b", "stop-group g grace=0", "stop-all"],
        ..Menu::default()
    };
    /// J-7, J-17, A-1, SC-16: another try, stops around it, and old timers.
    retries = Menu {
        slots: Some(1),
        launches: vec!["launch closure run=30 total=4000 retries=1 grace=10 as=g a", "launch closure as=h b"],
        ends: vec![How::Failed, How::Ok],
        late: true,
        time: true,
        crashes: 1,
        others: vec!["stop a", "stop-all"],
        ..Menu::default()
    };
    /// SC-14, SC-19, J-17: signs of work, questions, more time, and stops around the limits.
    activity = Menu {
        launches: vec!["launch closure idle=20 run=40 grace=10 as=g a"],
        beats: true,
        ends: vec![How::Ok, How::Failed],
        time: true,
        others: vec![
            "stop a",
            "extend a 10",
            "question a c1 running",
            "question a c1 completed",
        ],
        extends: 1,
        ..Menu::default()
    };
    /// SC-14, BAR-14: limits that nobody set, and a group of which nothing is heard.
    long_silence = Menu {
        launches: vec!["launch agent run=1000000 as=h b"],
        beats: true,
        binds: true,
        ends: vec![How::Ok],
        long_time: true,
        others: vec!["stop b"],
        ..Menu::default()
    };
    /// SC-11: slots that become fewer and more.
    slots = Menu {
        slots: Some(1),
        launches: vec!["launch closure as=g a b", "launch closure as=h c"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["set-slots 2", "set-slots 1", "set-slots none", "stop b"],
        ..Menu::default()
    };
    /// SC-9 with a rate: what stands aside starts first, once there is room.
    rates = Menu {
        slots: Some(2),
        rate: Some((1, 20)),
        launches: vec!["launch as=g a b", "launch in=t queue=30 as=h c", "launch closure as=i d"],
        ends: vec![How::Ok],
        time: true,
        others: vec!["session t", "stop b", "set-slots 1"],
        ..Menu::default()
    };
    /// A-1 to A-6, RE-3: parts of a run and of a turn.
    parts = Menu {
        launches: vec!["launch closure as=g a"],
        ends: vec![How::Ok, How::Empty],
        parts: vec![PartState::Pending, PartState::Running, PartState::Completed],
        turn_parts: vec![PartState::Pending, PartState::Running, PartState::Error],
        turns: 1,
        late: true,
        crashes: 1,
        others: vec!["stop a", "turn-end s lost"],
        ..Menu::default()
    };
    /// The same of an agent, whose runner comes up, in the group of a turn and beside another run.
    parts_of_agents = Menu {
        launches: vec!["launch closure as=g a", "start agent as=h b"],
        binds: true,
        ends: vec![How::Ok],
        parts: vec![PartState::Pending, PartState::Running, PartState::Completed],
        turns: 1,
        crashes: 1,
        others: vec!["stop b grace=0"],
        ..Menu::default()
    };
    /// SH-1 to SH-4, S-3: the stages of an end.
    shutdown = Menu {
        slots: Some(1),
        launches: vec!["launch as=g a b"],
        waiters: 1,
        waits: vec!["idle", "wake", "group g", "all a b"],
        ends: vec![How::Ok],
        turns: 1,
        time: true,
        crashes: 1,
        others: vec!["drain", "stop-all", "stop-all grace=0", "finish", "stop a", "session t", "close s"],
        early: vec!["launch as=g a b", "end a", "turn", "wait w1 wake", "ack w1", "stop a", "alarm", "drain"],
        ..Menu::default()
    };
    /// J-24, S-2: follow-ups against the end, the stop and the loss of a run, and a crash; words against results.
    messages = Menu {
        launches: vec!["launch closure as=g a"],
        waiters: 1,
        waits: vec!["message", "wake"],
        ends: vec![How::Ok, How::Failed],
        turns: 1,
        crashes: 1,
        others: vec!["post m1", "tell a m2", "listen a", "silent a", "took a m2", "stop a", "close s"],
        ..Menu::default()
    };
    /// T-3, T-4: a chain and one that runs all the same, with every way to end, a crash, stops, and the end of the parent.
    plans = Menu {
        slots: Some(1),
        launches: vec!["launch resume=rerun as=g a b>a c>b?"],
        waiters: 1,
        waits: vec!["all b", "wake"],
        ends: vec![How::Ok, How::Failed],
        crashes: 1,
        others: vec!["stop a grace=0", "stop b", "stop-group g grace=0", "close s"],
        ..Menu::default()
    };
    /// T-4: one that the group cannot do without, beside a policy and an end of the supervisor.
    vital_plans = Menu {
        launches: vec!["launch not_ok=2 as=g a b>a! c"],
        ends: vec![How::Ok, How::Failed],
        time: true,
        crashes: 2,
        others: vec!["stop-all", "drain", "stop b", "finish"],
        ..Menu::default()
    };
    /// T-5 to T-11: sends, receives that end in every way, the end and the stop of who receives, and a crash.
    mail = Menu {
        launches: vec!["launch resume=rerun as=g a b c>a"],
        waiters: 2,
        waits: vec!["mail below=b", "mail below=b from=a", "mail below=c now"],
        expires: true,
        sends: 2,
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["send a b x", "send a c y", "send b a x", "stop b grace=0"],
        ..Menu::default()
    };
    /// SC-10, T-7: a receive lends its slot, and what it is given is held until it has one again.
    mail_slots = Menu {
        slots: Some(2),
        launches: vec!["launch closure as=g a b c d>a"],
        waiters: 2,
        waits: vec!["mail below=b", "mail below=c from=b"],
        expires: true,
        sends: 1,
        ends: vec![How::Ok],
        others: vec!["send a b x", "send b c y", "stop a grace=0"],
        ..Menu::default()
    };
    /// T-7, T-11, J-7: mail waits for the next try of whom it is for, and is gone with its end.
    mail_of_tries = Menu {
        launches: vec!["launch closure retries=1 as=g a b c>a"],
        waiters: 1,
        waits: vec!["mail below=b", "mail below=c from=b"],
        sends: 1,
        ends: vec![How::Failed, How::Ok],
        time: true,
        others: vec!["send a b x", "send b c y", "close s"],
        ..Menu::default()
    };
    /// BU-1 to BU-8: two budgets above two groups, one of them with a budget of its own: money is set aside, told, given
    /// back, used up and raised, and a crash takes nothing of it.
    quotas = Menu {
        launches: vec![
            "launch in=t closure usd=10 estimate=6 as=g a b",
            "launch in=t closure estimate=5 as=h c",
        ],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec![
            "session t agent usd=14 min=1",
            "used a cost=4",
            "used a cost=10",
            "used b cost=6",
            "used c cost=5",
            "stop a grace=0",
            "set-budget session t usd=20",
            "close t",
        ],
        ..Menu::default()
    };
    /// BU-3, BU-5, SC-10: what waits for a slot and for money, and a parent that lends both.
    quotas_of_a_tree = Menu {
        slots: Some(1),
        launches: vec![
            "launch closure usd=10 estimate=6 as=g a b",
            "launch closure below=a own_steps=2 estimate=3 as=h c",
        ],
        waiters: 1,
        waits: vec!["all below=a c"],
        ends: vec![How::Ok, How::Failed],
        expires: true,
        others: vec!["used a cost=6", "used c cost=3 steps=1", "used c cost=9 steps=2", "set-budget group g usd=7"],
        ..Menu::default()
    };
    /// J-14, J-21, J-22: a second life of an id, stops of both, late reports of the first and of runs that are over, a wait,
    /// time, a crash. The places are those of the one order in which `a` is launched first.
    lives = Menu {
        launches: vec!["launch closure as=g a"],
        waiters: 1,
        waits: vec!["all a", "group g", "wake"],
        ends: vec![How::Ok],
        late: true,
        time: true,
        crashes: 1,
        others: vec![
            "launch closure again as=h a",
            "start closure a",
            "stop a",
            "stop-old a",
            "late a",
        ],
        ..Menu::default()
    };
    /// The same with two who wait, for either life.
    waits_of_lives = Menu {
        launches: vec!["launch closure as=g a"],
        waiters: 2,
        waits: vec!["all a", "group g", "wake"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["launch closure again as=h a", "start closure a", "stop a", "stop-old a", "late a"],
        ..Menu::default()
    };
    /// SC-20, BAR-12: foreground calls that are promoted, leave, are repeated, and those who wait for that; a crash, the
    /// end of the parent.
    foreground = Menu {
        launches: vec!["launch closure fg=w1 as=g a b"],
        waiters: 2,
        waits: vec!["background a", "wake"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["promote a", "promote-group g", "launch closure fg=w2 as=g a b", "close s"],
        ..Menu::default()
    };
    /// What is refused changes nothing, wherever it comes: J-1, J-21, J-22.
    refusals = Menu {
        slots: Some(1),
        launches: vec!["start as=g a", "launch as=h b"],
        waiters: 1,
        waits: vec!["all a", "idle"],
        ends: vec![How::Ok],
        turns: 1,
        others: vec![
            "start as=g a",
            "launch as=g a",
            "launch as=h closure b",
            "launch as=i a b",
            "launch in=x as=g a",
            "launch in=t as=g a",
            "start in=t as=i a",
            "launch as=k",
            "session s",
            "turn x",
            "close x",
            "close s",
            "wait w1 all x",
            "wait w1 any in=x a",
            "wait w1 group x",
            "wait w1 wake x",
            "leave w9",
            "ack w9",
            "stop x",
            "stop-exact x",
            "stop-exact b",
            "stop-other b",
            "stop-group x",
            "stop-group h",
            "open",
            "after 0",
        ],
        ..Menu::default()
    };
}

fn barrier(slots: Option<u32>, launch: &'static str) -> Menu {
    Menu {
        slots,
        launches: vec![launch],
        waiters: 1,
        waits: vec!["group g", "wake", "all a"],
        ends: vec![How::Ok, How::Failed, How::Lost],
        binds: slots.is_some(),
        time: true,
        crashes: 1,
        others: vec!["close s", "stop a", "stop b grace=0", "stop-group g"],
        ..Menu::default()
    }
}

#[test]
fn every_record_and_every_pair_of_command_and_state_is_reached() {
    let all: Vec<&Found> = MODELS.iter().map(|model| found(model.name)).collect();
    let kinds: Vec<&str> = fanin_protocol::record::KINDS
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| all.iter().any(|found| found.kinds.contains(kind)))
        .collect();
    expect!["store.opened store.closed session.opened session.closed job.queued job.stopping job.ended run.started run.bound run.ended part group.sealed group.fired group.voided message.posted message.taken usage limits.set note"].assert_eq(&kinds.join(" "));
    let (states, transitions): (Vec<usize>, Vec<usize>) =
        all.iter().map(|found| (found.states, found.transitions)).unzip();
    println!(
        "all: {} states, {} transitions",
        states.iter().sum::<usize>(),
        transitions.iter().sum::<usize>()
    );
    expect_file!["pairs.txt"].assert_eq(&table(all));
}
