//! Mail between members against naive references: who may send to whom, found by looking at all members again and again;
//! and boxes that are plain lists, for every order of sends, receives, acknowledgements, stops and ends.

// A helper that panics is a failed test.
#![allow(clippy::panic, clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use fanin_machine::{
    Answer, Command, Effect, Ended, Held, Launch, Leave, Member, Mono, Now, Open, Out, Parent, Post, Release,
    Reply, Report, RunRef, Said, SessionCommand, SessionOpen, State, Stop, StopTarget, Take, WaiterId,
    Wanted, step,
};
use fanin_protocol::record::Level;
use fanin_protocol::{
    Bounds, Cause, Directions, Edges, GroupId, JobId, LogId, OnFailedDependency, PlanProblem, Policy,
    Profile, SessionId, SharedLimits, Tie,
};
use proptest::prelude::*;

type Ways = Vec<Vec<u32>>;
/// What a command is answered, or the code of the refusal.
type Answered = Result<Reply, &'static str>;
/// What waiters are told: the number of a mail, or that nothing will come.
type Told = Vec<(u64, Option<u64>)>;

/// True where one can come back to where one was along these ties.
fn goes_round(ties: &[(usize, usize)], members: usize) -> bool {
    let mut reach = vec![vec![false; members]; members];
    ties.iter().for_each(|(from, to)| reach[*from][*to] = true);
    for via in 0..members {
        for from in 0..members {
            for to in 0..members {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
        }
    }
    (0..members).any(|place| reach[place][place])
}

fn ties(ways: &Ways) -> impl Iterator<Item = (usize, usize)> {
    ways.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |to| (from, *to as usize)))
}

/// The order in which members could start, by looking for the first one that could until none is left.
fn order(on: &Ways) -> Vec<usize> {
    let mut started: Vec<usize> = Vec::new();
    while started.len() < on.len() {
        let is_ready = |place: &usize| {
            !started.contains(place) && on[*place].iter().all(|on| started.contains(&(*on as usize)))
        };
        let next = (0..on.len()).find(is_ready).expect("it is no circle");
        started.push(next);
    }
    started
}

fn may_send(on: &Ways, sends: &Ways, from: usize, to: usize) -> bool {
    if sends.iter().any(|to| !to.is_empty()) {
        return sends[from].contains(&(to as u32));
    }
    let order = order(on);
    let rank = |place: usize| order.iter().position(|known| *known == place);
    rank(from) < rank(to)
}

fn edges(on: &Ways, sends: &Ways) -> Edges {
    let edges = Edges::new(on.iter().map(|on| (on.clone(), OnFailedDependency::Skip)));
    edges.sending((0..).zip(sends.iter().cloned()))
}

/// Places of others for each member; `rank` keeps them from a circle.
fn ways(members: usize, most: usize) -> impl Strategy<Value = Ways> {
    prop::collection::vec(prop::collection::vec(0..members as u32, 0..most), members)
}

fn without_circles(ways: &Ways, seed: u64) -> Ways {
    let rank = |place: u32| (u64::from(place) + 1).wrapping_mul(seed | 1);
    let lower = |place: u32, on: &Vec<u32>| on.iter().copied().filter(|on| rank(*on) < rank(place)).collect();
    (0..).zip(ways).map(|(place, on)| lower(place, on)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    // T-5: along a plan, mail goes from earlier to later; where ways are declared it goes those.
    #[test]
    fn the_directions_are_those_of_a_naive_reference(
        on in ways(9, 3), sends in ways(9, 2), seed: u64, is_declared: bool
    ) {
        let on = without_circles(&on, seed);
        let none = vec![Vec::new(); 9];
        let sends = if is_declared { &sends } else { &none };
        let directions = Directions::of(&edges(&on, sends), 9);
        for from in 0..9 {
            for to in 0..9 {
                let allowed = directions.allow(from as u32, to as u32);
                prop_assert_eq!(allowed, may_send(&on, sends, from, to), "{} to {}", from, to);
                if !is_declared {
                    prop_assert!(!(allowed && directions.allow(to as u32, from as u32)));
                }
            }
        }
    }

    // T-5, T-2: ways and needs that together go round are refused, and no others; the way that is shown is one.
    #[test]
    fn circles_with_mail_are_found_and_their_way_is_one(on in ways(9, 2), sends in ways(9, 2)) {
        let problems = edges(&on, &sends).problems(9);
        // Whoever gets mail may wait for who sends it, as for what it needs.
        let waits: Vec<_> = ties(&on).chain(ties(&sends).map(|(from, to)| (to, from))).collect();
        prop_assert_eq!(!problems.is_empty(), goes_round(&waits, 9), "{:?}", problems);
        for problem in problems {
            match problem {
                PlanProblem::Itself { member, tie } => {
                    let of = if tie == Tie::Needs { &on } else { &sends };
                    prop_assert!(of[member as usize].contains(&member));
                }
                PlanProblem::Cycle { path, tie } => {
                    prop_assert!(path.len() > 1);
                    for (place, at) in path.iter().enumerate() {
                        let next = path[(place + 1) % path.len()];
                        let mail = tie == Tie::Mail && sends[next as usize].contains(at);
                        prop_assert!(mail || on[*at as usize].contains(&next), "{:?}", path);
                    }
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

const MEMBERS: usize = 4;
const SENDS: u32 = 6;

#[derive(Debug, Clone)]
enum Op {
    Send(usize, usize),
    Receive(usize, Option<usize>, bool),
    /// Of those that have been offered something, which.
    Acknowledge(prop::sample::Index),
    /// Of all that are there.
    Leave(prop::sample::Index),
    Stop(usize),
    End(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let one = || 0..MEMBERS;
    let op = prop_oneof![
        8 => (one(), one()).prop_map(|(from, to)| Op::Send(from, to)),
        6 => (one(), prop::option::of(one()), any::<bool>())
            .prop_map(|(by, from, at_once)| Op::Receive(by, from, at_once)),
        6 => any::<prop::sample::Index>().prop_map(Op::Acknowledge),
        3 => any::<prop::sample::Index>().prop_map(Op::Leave),
        1 => one().prop_map(Op::Stop),
        1 => one().prop_map(Op::End),
    ];
    prop::collection::vec(op, 1..60)
}

/// A waiter of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Waits {
    by: usize,
    from: Option<usize>,
    holds: Option<u64>,
}

/// Boxes as plain lists.
struct Reference {
    allowed: Vec<Vec<bool>>,
    /// Of each member what waits for it: its number, and who sent it.
    boxes: Vec<Vec<(u64, usize)>>,
    sent: Vec<u32>,
    is_stopping: Vec<bool>,
    is_over: Vec<bool>,
    /// In the order in which they came.
    waiters: BTreeMap<u64, Waits>,
    /// What they are told.
    told: Told,
    number: u64,
}

impl Reference {
    fn hand_out(&mut self, to: usize) {
        for (id, waiter) in self.waiters.iter_mut().filter(|(_, waiter)| waiter.by == to) {
            let free = |number: &u64, held: &[u64]| !held.contains(number);
            if waiter.holds.is_some() {
                continue;
            }
            let held: Vec<u64> = self.told.iter().filter_map(|(_, number)| *number).collect();
            let found = self.boxes[to].iter().find(|(number, from)| {
                free(number, &held) && waiter.from.is_none_or(|wanted| wanted == *from)
            });
            if let Some((number, _)) = found {
                waiter.holds = Some(*number);
                self.told.push((*id, Some(*number)));
            }
        }
    }

    /// What a send is answered.
    fn send(&mut self, from: usize, to: usize) -> Answered {
        if self.is_over[from] {
            Err("run_over")
        } else if self.is_stopping[from] {
            Err("closed")
        } else if from == to {
            Err("self_target")
        } else if !self.allowed[from][to] {
            Err("not_allowed")
        } else if self.is_over[to] || self.is_stopping[to] {
            Err("target_finished")
        } else if self.sent[from] >= SENDS {
            Err("sends_spent")
        } else {
            self.sent[from] += 1;
            self.number += 1;
            self.boxes[to].push((self.number, from));
            self.hand_out(to);
            Ok(Reply::Done)
        }
    }

    /// What a receive is answered.
    fn receive(&mut self, id: u64, by: usize, (from, at_once): (Option<usize>, bool)) -> Answered {
        let has_left = |from: usize| self.boxes[by].iter().any(|(_, sender)| *sender == from);
        if self.is_over[by] {
            Err("run_over")
        } else if self.is_stopping[by] {
            Err("closed")
        } else if from == Some(by) {
            Err("self_target")
        } else if from.is_some_and(|from| !self.allowed[from][by]) {
            Err("not_allowed")
        } else if from.is_some_and(|from| (self.is_over[from] || self.is_stopping[from]) && !has_left(from)) {
            Err("target_finished")
        } else {
            self.waiters.insert(id, Waits { by, from, holds: None });
            self.hand_out(by);
            if self.waiters[&id].holds.is_some() {
                Ok(Reply::Answered)
            } else {
                if at_once {
                    self.waiters.remove(&id);
                }
                Ok(Reply::Done)
            }
        }
    }

    /// Those that wait for nothing any more.
    fn close(&mut self, by: usize, with_held: bool) {
        let told = &mut self.told;
        self.waiters.retain(|id, waiter| {
            let stays = waiter.by != by || (waiter.holds.is_some() && !with_held);
            if !stays && waiter.holds.is_none() {
                told.push((*id, None));
            }
            stays
        });
    }
}

/// The machine with one group whose members run.
struct Machine {
    state: State,
    runs: Vec<RunRef>,
}

impl Machine {
    fn new(edges: Edges) -> Self {
        let mut state = State::default();
        let log = LogId::parse("log").unwrap();
        let (level, rates) = (Level::Memory, Vec::new());
        let open = Open { log, level, slots: None, grace_ms: 1_000, seed: 1, rates, sends_per_member: SENDS };
        go(&mut state, Command::Open(open));
        let id = SessionId::parse("s").unwrap();
        let session = SessionOpen { id: id.clone(), profile: Profile::Operator, bounds: Bounds::default() };
        go(&mut state, Command::Session(SessionCommand::Open(session)));
        let member = |place| Member {
            id: JobId::parse(&format!("j{place}")).unwrap(),
            is_fresh: false,
            again: false,
            label: Some(format!("label{place}").into()),
            spec: None,
            limits: SharedLimits::default(),
            tag: 1,
        };
        let launch = Launch {
            parent: Parent::Session(id),
            group: GroupId::parse("g").unwrap(),
            is_fresh: false,
            joins_turn: false,
            policy: Policy::ALL,
            edges: Some(Arc::new(edges)),
            foreground: None,
            members: (0..MEMBERS).map(member).collect(),
        };
        let out = go(&mut state, Command::Launch(launch));
        let spawned = out.effects.iter().filter_map(|effect| match effect {
            Effect::Spawn { run, .. } => Some(*run),
            _ => None,
        });
        let runs: Vec<RunRef> = spawned.collect();
        assert_eq!(runs.len(), MEMBERS);
        Self { state, runs }
    }

    fn by(&self, place: usize) -> Parent {
        Parent::Run(self.runs[place])
    }

    /// What a command is answered, and what waiters are told.
    fn step(&mut self, command: Command) -> (Answered, Told) {
        let out = go(&mut self.state, command);
        let told = out.effects.into_iter().filter_map(|effect| match effect {
            Effect::Answer { waiter, answer: Answer::Mail(mail) } => {
                let (from, number) = mail.text.split_once(' ').unwrap();
                assert_eq!(format!("j{from}"), mail.from.to_string(), "the true sender");
                Some((waiter.0, Some(number.parse().unwrap())))
            }
            Effect::Answer { waiter, answer: Answer::Closed } => Some((waiter.0, None)),
            Effect::Answer { answer, .. } => panic!("{answer:?}"),
            _ => None,
        });
        let told = told.collect();
        let reply = match out.reply.unwrap() {
            Reply::Refused(refusal) => Err(refusal.code()),
            reply => Ok(reply),
        };
        (reply, told)
    }
}

fn go(state: &mut State, command: Command) -> Out {
    let mut out = Out::default();
    step(state, command, Now { wall_ms: 1_000, mono: Mono(1_000) }, &mut out);
    out
}

fn name(place: usize) -> Arc<str> {
    // By id and by label, one as well as the other.
    if place.is_multiple_of(2) { format!("j{place}") } else { format!("label{place}") }.into()
}

/// What is done, what the reference says of it, and whether the two agree.
fn perform(machine: &mut Machine, naive: &mut Reference, op: &Op) -> Result<(), TestCaseError> {
    naive.told.clear();
    // What is held stays held.
    naive.told.extend(naive.waiters.iter().filter_map(|(id, waiter)| Some((*id, Some(waiter.holds?)))));
    let before = naive.told.len();
    let (command, expected) = match *op {
        Op::Send(from, to) => {
            let text = format!("{from} {}", naive.number + 1).into();
            let mail = Command::Post(Post::Mail { from: machine.by(from), to: name(to), text });
            let expected = naive.send(from, to);
            (mail, expected)
        }
        Op::Receive(by, from, at_once) => {
            naive.number += 1;
            let id = naive.number;
            let wanted = Wanted::Mail { by: machine.by(by), from: from.map(name), at_once };
            let take = Command::Take(Take { waiter: WaiterId(id), wanted });
            let expected = naive.receive(id, by, (from, at_once));
            (take, expected)
        }
        Op::Acknowledge(pick) => {
            let held: Vec<u64> = naive
                .waiters
                .iter()
                .filter(|(_, waiter)| waiter.holds.is_some())
                .map(|(id, _)| *id)
                .collect();
            if held.is_empty() {
                return Ok(());
            }
            let id = held[pick.index(held.len())];
            let waiter = naive.waiters.remove(&id).unwrap();
            naive.boxes[waiter.by].retain(|(number, _)| Some(*number) != waiter.holds);
            (Command::Ack(WaiterId(id)), Ok(Reply::Done))
        }
        Op::Leave(pick) => {
            if naive.waiters.is_empty() {
                return Ok(());
            }
            let id = *naive.waiters.keys().nth(pick.index(naive.waiters.len())).unwrap();
            let waiter = naive.waiters.remove(&id).unwrap();
            naive.told.retain(|(told, _)| *told != id);
            let before = naive.told.len();
            naive.hand_out(waiter.by);
            let leave = Command::Release(Release::Waiter(WaiterId(id), Leave::Left));
            return compare(machine, naive, leave, Ok(Reply::Done), before);
        }
        Op::Stop(place) => {
            if naive.is_over[place] {
                return Ok(());
            }
            naive.is_stopping[place] = true;
            naive.close(place, false);
            let target = StopTarget::Job(JobId::parse(&format!("j{place}")).unwrap());
            let (reply, told) =
                machine.step(Command::Stop(Stop { target, cause: Cause::User, grace_ms: None }));
            prop_assert!(reply.is_ok());
            prop_assert_eq!(&told[..], &naive.told[before..]);
            return Ok(());
        }
        Op::End(place) => {
            if naive.is_over[place] {
                return Ok(());
            }
            naive.is_over[place] = true;
            naive.close(place, true);
            naive.boxes[place].clear();
            let said = Said::Ended(Ended::Completed { output: None, exit: None, left: None });
            (Command::Report(Report { run: machine.runs[place], what: said }), Ok(Reply::Done))
        }
    };
    compare(machine, naive, command, expected, before)
}

fn compare(
    machine: &mut Machine,
    naive: &Reference,
    command: Command,
    expected: Answered,
    before: usize,
) -> Result<(), TestCaseError> {
    let (reply, told) = machine.step(command);
    prop_assert_eq!(reply, expected);
    prop_assert_eq!(&told[..], &naive.told[before..]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    // T-5 to T-11: every answer of the machine is that of plain lists, and nothing is left behind.
    #[test]
    fn mail_is_that_of_plain_lists(sends in ways(MEMBERS, 4), seed: u64, ops in ops()) {
        let sends = without_circles(&sends, seed);
        let edges = edges(&vec![Vec::new(); MEMBERS], &sends);
        // Without a way there is no team.
        prop_assume!(!edges.is_empty());
        let none = vec![Vec::new(); MEMBERS];
        let allowed = |from| (0..MEMBERS).map(|to| may_send(&none, &sends, from, to)).collect();
        let mut naive = Reference {
            allowed: (0..MEMBERS).map(allowed).collect(),
            boxes: vec![Vec::new(); MEMBERS],
            sent: vec![0; MEMBERS],
            is_stopping: vec![false; MEMBERS],
            is_over: vec![false; MEMBERS],
            waiters: BTreeMap::new(),
            told: Vec::new(),
            number: 0,
        };
        let mut machine = Machine::new(edges);
        for op in &ops {
            perform(&mut machine, &mut naive, op)?;
        }
        for place in 0..MEMBERS {
            perform(&mut machine, &mut naive, &Op::End(place))?;
        }
        let held = machine.state.held();
        // One timer looks for quiet groups, now and then.
        prop_assert_eq!(held, Held { timers: held.timers, ..Held::default() });
    }
}
