//! Question: how long does a recovery hold the gate, by what was open and by what is over and not let go of yet?
//!
//! Unit: milliseconds: to make the state of the rows, for the longest of the steps that close what ran, and for the last
//! step, which settles all of it. It is the machine alone, without the store. Jobs are in groups of 100. Medians of five.
//! Run: `cargo bench -p fanin-benches --bench recovery`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fanin_benches::Error;
use fanin_machine::{
    Command, Effect, Ended, Facts, Launch, Member, Mono, Now, Open, Out, Parent, Report, Said,
    SessionCommand, SessionOpen, State, Take, WaiterId, Wanted, step,
};
use fanin_protocol::record::Level;
use fanin_protocol::{Bounds, GroupId, JobId, LogId, Policy, Profile, RowKind, SessionId, SharedLimits};

const ROUNDS: usize = 5;
const GROUP: usize = 100;

/// Rows of a store: kind, place and body.
type Rows = BTreeMap<(RowKind, u64), Vec<u8>>;

fn main() -> Result<(), Error> {
    println!("{:>8} {:>8} {:>12} {:>12} {:>12} {:>7}", "open", "over", "rows", "longest", "last", "steps");
    for (open, over) in [(1_000, 0), (10_000, 0), (100_000, 0), (0, 10_000), (100, 0), (100, 10_000)] {
        measure(open, over)?;
    }
    Ok(())
}

fn measure(open: usize, over: usize) -> Result<(), Error> {
    let (rows, facts) = lived(open, over)?;
    let (mut made, mut longest, mut last, mut steps) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let listed = rows.iter().map(|((kind, key), body)| (*kind, *key, body.as_slice()));
        let restored = Facts::restore(facts.log().cloned(), facts.head(), facts.ts_ms(), listed)?;
        made.push(begin.elapsed());
        let mut state = State::recovered(restored);
        state.track_rows();
        let mut times = Vec::new();
        while times.is_empty() || state.is_opening() {
            let begin = Instant::now();
            go(&mut state, Command::Open(opening()?));
            times.push(begin.elapsed());
        }
        steps = times.len();
        last.push(times.pop().unwrap_or_default());
        longest.push(times.into_iter().max().unwrap_or_default());
    }
    let [made, longest, last] = [made, longest, last].map(shown);
    println!("{open:>8} {over:>8} {made:>12} {longest:>12} {last:>12} {steps:>7}");
    Ok(())
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    format!("{:.1} ms", median.as_secs_f64() * 1_000.0)
}

/// A store whose supervisor died with so many jobs at work, and so many others over and taken.
fn lived(open: usize, over: usize) -> Result<(Rows, Facts), Error> {
    let mut state = State::default();
    state.track_rows();
    go(&mut state, Command::Open(opening()?));
    let session = SessionId::parse("main")?;
    let (id, profile) = (session.clone(), Profile::Operator);
    go(
        &mut state,
        Command::Session(SessionCommand::Open(SessionOpen { id, profile, bounds: Bounds::default() })),
    );
    let parent = Parent::Session(session);
    for first in (0..open + over).step_by(GROUP) {
        let group = GroupId::parse(&format!("group-{first}"))?;
        let runs = launch(&mut state, &parent, &group, first)?;
        if first < open {
            continue;
        }
        for run in runs {
            let what = Said::Ended(Ended::Completed { output: None, exit: None, left: None });
            go(&mut state, Command::Report(Report { run, what }));
        }
        let waiter = WaiterId(first as u64);
        go(&mut state, Command::Take(Take { waiter, wanted: Wanted::Group(parent.clone(), group) }));
        go(&mut state, Command::Ack(waiter));
    }
    let mut rows = Rows::new();
    for row in state.take_rows() {
        rows.insert((row.kind, row.key), row.body.encode()?.to_vec());
    }
    Ok((rows, state.facts().clone()))
}

fn launch(
    state: &mut State,
    parent: &Parent,
    group: &GroupId,
    first: usize,
) -> Result<Vec<fanin_machine::RunRef>, Error> {
    let mut members = Vec::with_capacity(GROUP);
    for n in first..first + GROUP {
        members.push(Member {
            id: JobId::parse(&format!("job-{n}"))?,
            is_fresh: true,
            again: false,
            label: None,
            spec: None,
            limits: SharedLimits::default(),
            tag: 1,
        });
    }
    let launch = Launch {
        parent: parent.clone(),
        group: group.clone(),
        is_fresh: true,
        joins_turn: false,
        policy: Policy::ALL,
        edges: None,
        foreground: None,
        members,
    };
    let out = go(state, Command::Launch(launch));
    let runs = out.effects.iter().filter_map(|effect| match effect {
        Effect::Spawn { run, .. } => Some(*run),
        _ => None,
    });
    Ok(runs.collect())
}

fn opening() -> Result<Open, Error> {
    let log = LogId::parse("log")?;
    Ok(Open {
        log,
        level: Level::Durable,
        slots: None,
        grace_ms: 0,
        seed: 0,
        rates: Vec::new(),
        sends_per_member: 0,
    })
}

fn go(state: &mut State, command: Command) -> Out {
    let mut out = Out::default();
    step(state, command, Now { wall_ms: 1_000, mono: Mono(1_000) }, &mut out);
    out
}
