//! Budgets against whole numbers that know nothing of the machine (BU-1 to BU-8, G9), and the printed bound of what may be
//! used beyond one (BU-4).

use std::collections::BTreeMap;

use fanin_machine::{
    Command, Effect, Ended, KillStage, Launch, Member, Mono, Named, Now, Open, Out, Parent, Report, RunRef,
    Said, SessionCommand, SessionOpen, State, step,
};
use fanin_protocol::limits::DISPATCH_USD_MICROS;
use fanin_protocol::record::{Level, Usage};
use fanin_protocol::{
    AgentSpec, Bounds, Budget, Fence, GroupId, JobId, JobLimits, LogId, Policy, Profile, SessionId, Spec,
};
use fanin_tests::calm::{Calm, calm};
use fanin_tests::op::script;
use fanin_tests::{Options, World};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// What can happen, each with numbers in place of `A` to `D`, of which the last may be as large as there are. Jobs, groups
/// and sessions are few, so that they meet.
const STEPS: [&str; 22] = [
    "launch agent in=t usd=A estimate=B jA kA",
    "launch closure in=t usd=A steps=B own_usd=C jA kB",
    "launch agent in=t steps=A retries=2 jB",
    "launch closure in=s usd=A jB kC",
    "launch closure below=jA usd=B estimate=C lA",
    "launch agent below=kA lB mA",
    "used jA cost=D",
    "used jA meter=2 cost=D tokens=C steps=A",
    "used kA cost=D steps=C",
    "used kA meter=2",
    "used lA cost=D steps=A",
    "end jA",
    "end jB failed",
    "end kA",
    "end kB failed",
    "end lA",
    "spawn jA",
    "wait w1 all below=jA lA",
    "set-budget session t usd=C",
    "stop jA",
    "alarm",
    "crash; open",
];

fn filled(step: &str, numbers: [u64; 4]) -> String {
    let names = ["A", "B", "C", "D"].iter().zip(numbers);
    names.fold(step.to_owned(), |text, (name, number)| text.replace(name, &number.to_string()))
}

/// Every step of the world compares each account with one that is added up from all records, from the beginning, and looks
/// for what starts without a right to, is refused without a reason, or goes on below what is used up.
#[test]
fn accounts_are_what_all_records_add_up_to() {
    let large = prop_oneof![30 => 1..7u64, 1 => u64::MAX - 3..=u64::MAX];
    let numbers = (1..5u64, 1..7u64, 1..12u64, large).prop_map(|(a, b, c, d)| [a, b, c, d]);
    let steps = vec((0..STEPS.len(), numbers), 1..60);
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let mut refused = 0;
    let run = |slots: Option<u32>, steps: Vec<(usize, [u64; 4])>| {
        let options = Options {
            slots,
            grace_ms: 10,
            fold_each: true,
            keep_rows: true,
            keep_log: true,
            ..Options::default()
        };
        let mut world = World::new(options);
        let mut told = String::new();
        let texts = steps.into_iter().map(|(step, numbers)| filled(STEPS[step], numbers));
        let first =
            ["open; session s; session t agent usd=20 steps=30 depth=3 total=64 min=1 queue=64".to_owned()];
        for text in first.into_iter().chain(texts) {
            for op in script(&text).ops {
                told = format!("{told}; {op}");
                if let Err(broken) = world.perform(&op) {
                    return Err(TestCaseError::fail(format!("{broken}\nafter: {told}")));
                }
            }
        }
        for way in [Calm::Ends, Calm::Stuck] {
            let mut world = world.clone();
            calm(&mut world, way).map_err(|broken| {
                TestCaseError::fail(format!("{broken}\nin the calm ({way:?}) after: {told}"))
            })?;
        }
        let budget = |world: &World| {
            let ends = world.ledger.jobs.values().filter_map(|job| job.ended.as_ref());
            ends.filter(|end| end.cause == Some(fanin_protocol::Cause::Budget)).count()
        };
        Ok(budget(&world))
    };
    let mut runner = TestRunner::new(config);
    let all = (prop::option::of(1..4u32), steps);
    let count = std::cell::Cell::new(0);
    runner
        .run(&all, |(slots, steps)| {
            count.set(count.get() + run(slots, steps)?);
            Ok(())
        })
        .unwrap();
    refused += count.get();
    assert!(refused > 100, "only {refused} jobs ended by their budget: the steps do not meet it");
}

/// The smallest generator of numbers that is good enough here; its seed is printed with what breaks.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}

/// A machine and its runs, without all that checks it: many lives are simulated.
struct Sim {
    state: State,
    out: Out,
    ms: u64,
    runs: BTreeMap<JobId, (RunRef, Agent)>,
}

/// An agent as its bill sees it: calls that are told one by one, each once it is over.
#[derive(Clone, Copy)]
struct Agent {
    told: u64,
    calls: u64,
    is_stopped: bool,
}

impl Sim {
    fn new(slots: Option<u32>) -> Self {
        let open = Open {
            log: LogId::parse("log").unwrap(),
            level: Level::Memory,
            slots,
            grace_ms: 10,
            seed: 7,
            rates: Vec::new(),
            sends_per_member: 0,
        };
        let mut sim = Self { state: State::default(), out: Out::default(), ms: 0, runs: BTreeMap::new() };
        sim.step(Command::Open(open), &mut Chance(0));
        let id = SessionId::parse("s").unwrap();
        let open = SessionOpen { id, profile: Profile::Operator, bounds: Bounds::default() };
        sim.step(Command::Session(SessionCommand::Open(open)), &mut Chance(0));
        sim
    }

    fn step(&mut self, command: Command, chance: &mut Chance) {
        let mut command = Some(command);
        while let Some(next) = command.take() {
            self.ms += 1;
            self.out.clear();
            let now = Now { wall_ms: self.ms, mono: Mono(self.ms) };
            step(&mut self.state, next, now, &mut self.out);
            for effect in &self.out.effects {
                match effect {
                    Effect::Spawn { run, job, .. } => {
                        let agent = Agent { told: 0, calls: 1 + chance.below(5), is_stopped: false };
                        self.runs.insert(job.clone(), (*run, agent));
                    }
                    Effect::Kill { run, stage: KillStage::Polite, .. } => {
                        for (known, agent) in self.runs.values_mut().filter(|(known, _)| known == run) {
                            debug_assert_eq!(known, run);
                            agent.is_stopped = true;
                        }
                    }
                    _ => {}
                }
            }
            if self.out.unfinished {
                command = Some(Command::Tick);
            }
        }
    }

    fn say(&mut self, run: RunRef, what: Said, chance: &mut Chance) {
        self.step(Command::Report(Report { run, what }), chance);
    }
}

/// One life of a group below a budget of money: how much it may cost, how much more was said to be possible, and what it
/// cost. Whoever is stopped has at most the one call that is under way charged.
fn life(seed: u64) -> (u64, u64, u64) {
    let chance = &mut Chance(seed);
    let mut sim = Sim::new([None, Some(1), Some(2), Some(3), Some(5)][chance.below(5) as usize]);
    let members = 1 + chance.below(8);
    let estimate = [None, Some(90_000), Some(500_000), Some(1)][chance.below(4) as usize];
    let most = estimate.unwrap_or(DISPATCH_USD_MICROS);
    let limit = 1 + chance.below(3_000_000);
    let spec: std::sync::Arc<Spec> = Spec::Agent(AgentSpec::new("a", "look")).into();
    let limits = JobLimits { estimate_usd_micros: estimate, ..JobLimits::NONE };
    let member = |n: u64| Member {
        id: JobId::parse(&format!("j{n}")).unwrap(),
        is_fresh: true,
        again: false,
        label: None,
        spec: Some(spec.clone()),
        limits: limits.into(),
        tag: n,
    };
    let group = GroupId::parse("g").unwrap();
    let launch = Launch {
        parent: Parent::Session(SessionId::parse("s").unwrap()),
        group: group.clone(),
        is_fresh: true,
        joins_turn: false,
        edges: None,
        policy: Policy::ALL.with_budget(Budget { usd_micros: Some(limit), ..Budget::NONE }),
        foreground: None,
        members: (0..members).map(member).collect(),
    };
    // What is printed is what holds before anything has started.
    let mut before = sim.state.clone();
    let mut out = Out::default();
    step(&mut before, Command::Launch(launch.clone()), Now { wall_ms: sim.ms, mono: Mono(sim.ms) }, &mut out);
    let named = Named::Group(group);
    let printed = before.account(&named).unwrap().overshoot_max_usd_micros;
    sim.step(Command::Launch(launch), chance);
    for _ in 0..10_000 {
        let running: Vec<JobId> = sim.runs.keys().cloned().collect();
        let Some(job) = running.get(chance.below(running.len() as u64) as usize) else { break };
        let (run, agent) = sim.runs[job];
        if agent.calls == 0 {
            sim.runs.remove(job);
            sim.say(run, Said::Ended(Ended::Completed { output: None, exit: None, left: None }), chance);
            continue;
        }
        // A call that was under way is charged, also where its job was stopped meanwhile; it is the last one then.
        let told = agent.told + chance.below(most + 1);
        let left = if agent.is_stopped { 0 } else { agent.calls - 1 };
        sim.runs.insert(job.clone(), (run, Agent { told, calls: left, ..agent }));
        let cost_usd_micros = Some(told);
        let source = "bill".to_owned();
        let used = Usage { run: Fence(0), source, cost_usd_micros, tokens: None, steps: None, ms: None };
        sim.say(run, Said::Used(used), chance);
    }
    assert!(sim.runs.is_empty(), "seed {seed}: {} runs never end", sim.runs.len());
    let spent = sim.state.account(&named).unwrap().spent.cost_usd_micros.unwrap_or(0);
    (limit, printed, spent)
}

#[test]
fn no_more_is_spent_beyond_a_budget_than_was_printed() {
    let (mut beyond, mut closest) = (0, 0.0f64);
    for seed in 0..100_000 {
        let (limit, printed, spent) = life(seed);
        assert!(spent <= limit + printed, "seed {seed}: {spent} of {limit}, and {printed} more was printed");
        beyond += u32::from(spent > limit);
        closest = closest.max(spent.saturating_sub(limit) as f64 / printed.max(1) as f64);
    }
    println!("{beyond} of 100000 lives went beyond their budget; at most {closest:.3} of what was printed");
    assert!(beyond > 1_000 && closest > 0.5, "{beyond} lives, {closest}: the budgets are never met");
}
