//! The exhaustive search of MODEL's "What to prove first", as several models that are small enough to be searched
//! whole: G1 to G8 and G14 after every step, G6, G12 and G13 from every state.

use std::sync::OnceLock;
use std::time::Instant;

use expect_test::expect;
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
    let model = MODELS.iter().find(|model| model.name == name).expect("a model of that name");
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
        others: vec!["stop a", "stop-group g grace=0", "stop-all"],
        ..Menu::default()
    };
    /// A-1 to A-6, RE-3: parts of a run and of a turn.
    parts = Menu {
        launches: vec!["launch closure as=g a", "start agent as=h b"],
        binds: true,
        ends: vec![How::Ok, How::Empty],
        parts: vec![PartState::Pending, PartState::Running, PartState::Completed],
        turn_parts: vec![PartState::Pending, PartState::Running, PartState::Error],
        turns: 1,
        late: true,
        crashes: 1,
        others: vec!["stop a", "stop b grace=0", "turn-end s lost"],
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
            "alarm",
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
    expect!["store.opened store.closed session.opened session.closed job.queued job.stopping job.ended run.started run.bound run.ended part group.sealed group.fired group.voided message.taken note"].assert_eq(&kinds.join(" "));
    let (states, transitions): (Vec<usize>, Vec<usize>) =
        all.iter().map(|found| (found.states, found.transitions)).unzip();
    println!(
        "all: {} states, {} transitions",
        states.iter().sum::<usize>(),
        transitions.iter().sum::<usize>()
    );
    expect![[r#"
        Ack
            after a close
            before the opening
            draining
            holds a group
            holds a wake
            holds results
            holds what is known
            nobody
            stopping
            waits
        Close drain
            -
            after a close
            before the opening
            closed
            draining
            stopping
        Close finish
            a turn is open
            closed
            draining
            jobs run
            nothing is open
            stopping
        Close stop
            a turn is open
            closed
            draining
            jobs run
            nothing is open
            stopping
        Launch fan-out
            after a close
            before the opening
            closed
            draining
            known, busy session
            known, closed session
            known, idle session
            known, unknown session
            new, busy session
            new, closed session
            new, idle session
            new, unknown session
            stopping
        Launch start
            known, busy session
            known, closed session
            known, idle session
            known, unknown session
            new, busy session
            new, closed session
            new, idle session
            new, unknown session
        Open
            -
            after a close
            before the opening
        Release
            draining
            holds a group
            holds a wake
            holds results
            holds what is known
            nobody
            stopping
            waits
        Report bound
            bound job
            job forced to cancelled
            job forced to error
            job is over
            job stopping as cancelled
            job stopping as error
            started job
            stopping
        Report ended badly
            bound job
            job forced to cancelled
            job forced to error
            job stopping as cancelled
            job stopping as error
            started job
            stopping
        Report ended by its guard
            bound job
            job forced to cancelled
            job forced to error
            job stopping as cancelled
            job stopping as error
            started job
            stopping
        Report ended well
            after a close
            before the opening
            bound job
            draining
            job forced to cancelled
            job forced to error
            job is over
            job stopping as cancelled
            job stopping as error
            started job
            stopping
        Report part Completed
            new part of bound job
            new part of job forced to cancelled
            new part of job stopping as cancelled
            new part of started job
            part is over of bound job
            part is over of job forced to cancelled
            part is over of job stopping as cancelled
            part is over of started job
            pending part of bound job
            pending part of job forced to cancelled
            pending part of job stopping as cancelled
            pending part of started job
            running part of bound job
            running part of job forced to cancelled
            running part of job stopping as cancelled
            running part of started job
        Report part Pending
            new part of bound job
            new part of job forced to cancelled
            new part of job stopping as cancelled
            new part of started job
            part is over of bound job
            part is over of job forced to cancelled
            part is over of job stopping as cancelled
            part is over of started job
            pending part of bound job
            pending part of job forced to cancelled
            pending part of job stopping as cancelled
            pending part of started job
            running part of bound job
            running part of job forced to cancelled
            running part of job stopping as cancelled
            running part of started job
        Report part Running
            new part of bound job
            new part of job forced to cancelled
            new part of job is over
            new part of job stopping as cancelled
            new part of started job
            part is over of bound job
            part is over of job forced to cancelled
            part is over of job stopping as cancelled
            part is over of started job
            pending part of bound job
            pending part of job forced to cancelled
            pending part of job stopping as cancelled
            pending part of started job
            running part of bound job
            running part of job forced to cancelled
            running part of job stopping as cancelled
            running part of started job
        Report turn ended by its guard
            open turn
            turn is over
        Report turn ended well
            draining
            open turn
            turn is over
        Report turn part Error
            open turn
            turn is over
        Report turn part Pending
            open turn
            turn is over
        Report turn part Running
            open turn
            turn is over
        Session close
            busy session
            closed
            closed session
            draining
            idle session
            stopping
            unknown session
        Session open
            busy session
            closed
            closed session
            draining
            idle session
            stopping
            unknown session
        Session turn
            after a close
            before the opening
            busy session
            closed
            closed session
            draining
            idle session
            stopping
            unknown session
        Stop exact
            another lifetime
            job forced to cancelled
            job is over
            job stopping as cancelled
            queued job
            started job
            unknown job
        Stop group
            fired group, held by a wait
            fired group, owed
            fired group, taken
            fired group, void
            fired group, wake is out
            open group
            running group
            stopping
            unknown group
            voided group
        Stop job
            after a close
            before the opening
            bound job
            closed
            draining
            job forced to cancelled
            job forced to error
            job is over
            job stopping as cancelled
            job stopping as error
            queued job
            started job
            stopping
            unknown job
        Take all
            all over
            all over and taken
            all over, some taken
            closed
            draining
            none over
            some over
            stopping
            unknown job
        Take any
            all over
            all over and taken
            all over, some taken
            none over
            some over
            unknown job
        Take group
            closed
            draining
            fired group, held by a wait
            fired group, owed
            fired group, taken
            fired group, void
            fired group, wake is out
            open group
            running group
            stopping
            unknown group
            voided group
        Take idle
            closed
            draining
            jobs run
            no job runs
            stopping
        Take wake
            after a close
            before the opening
            closed
            draining
            nothing owed, busy session
            nothing owed, closed session
            nothing owed, idle session
            nothing owed, unknown session
            owed, busy session
            owed, idle session
            stopping
        Tick
            after a close
            before the opening
            draining
            due
            nothing due
            stopping
    "#]]
    .assert_eq(&table(all));
}
