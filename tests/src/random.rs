//! Random sequences: a word of 64 bits is an operation, read against what there is. So sequences shrink as plain
//! lists of numbers, and each prints as a script.

use fanin_machine::WaiterId;
use fanin_protocol::{
    Bounds, Budget, Cause, GroupId, JobId, JobKind, JobLimits, MessageId, NodeId, OnFailedDependency,
    PartKind, PartState, Policy, Resume, SessionId,
};

use crate::broken::Broken;
use crate::calm::{Calm, calm};
use crate::op::{self, Aim, How, Launching, Op, Promoted, Wish};
use crate::world::{Options, World};

/// Waiters at once.
const WAITERS: u64 = 5;
/// A name that is used up is one more; names of jobs and groups are kept ready.
const NAMES: usize = 4_096;
/// Bounds that a sequence runs into.
const SMALL: Bounds = Bounds {
    depth: 3,
    group_min: 2,
    group_max: 7,
    spawn_total: Some(20),
    prompt_bytes: 100,
    queue: 8,
    queue_all: 40,
    slots: Some(2),
    wakes: None,
    wakes_per_minute: None,
    budget: Budget::NONE,
};
/// One hour and a bit, forth and back: the clock jumps.
const JUMPS_MS: [i64; 4] = [3_700_000, -3_700_000, 250, -250];

/// Names, made once.
pub struct Names {
    jobs: Vec<JobId>,
    groups: Vec<GroupId>,
    sessions: Vec<SessionId>,
    messages: Vec<MessageId>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            jobs: (0..NAMES).map(|n| op::job(&format!("j{n}"))).collect(),
            groups: (0..NAMES).map(|n| GroupId::parse(&format!("g{n}")).expect("a name")).collect(),
            messages: (0..24).map(|n| MessageId::parse(&format!("m{n}")).expect("a key")).collect(),
            sessions: ["s", "t", "u"].map(op::session).to_vec(),
        }
    }
}

/// The bits of a word that are not used yet.
struct Bits(u64);

impl Bits {
    /// The next choice of `n`.
    fn of(&mut self, n: usize) -> usize {
        let choice = self.0 % n as u64;
        self.0 /= n as u64;
        choice as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.of(n) == n - 1
    }

    fn pick<T: Copy, const N: usize>(&mut self, values: [T; N]) -> T {
        values[self.of(N)]
    }
}

/// Runs a sequence: every step is checked, then all is brought to its end, and nothing may be left. `trace` is told
/// each operation before it happens. Gives the world as it was left.
///
/// # Errors
///
/// The promise that was broken.
pub fn run(words: &[u64], names: &Names, mut trace: impl FnMut(&Op)) -> Result<World, Broken> {
    let mut world = begin(words.first().copied().unwrap_or_default(), &mut trace)?;
    for word in words.iter().skip(1) {
        let op = operation(*word, &world, names);
        trace(&op);
        world.perform(&op)?;
    }
    world.fold_holds()?;
    let way = if words.len().is_multiple_of(2) { Calm::Ends } else { Calm::Stuck };
    calm(&mut world, way)?;
    world.fold_holds()?;
    Ok(world)
}

/// The world that the first word asks for.
///
/// # Errors
///
/// As [`run`].
pub fn begin(word: u64, trace: &mut impl FnMut(&Op)) -> Result<World, Broken> {
    let slots = Bits(word).pick([None, Some(1), Some(2), Some(3), Some(4)]);
    let rate = Bits(word / 5).pick([None, None, None, Some((2, 40))]);
    let options = Options {
        slots,
        rate,
        grace_ms: 100,
        keep_log: true,
        keep_rows: true,
        sparse: 16,
        ..Options::default()
    };
    let mut world = World::new(options);
    for op in [Op::Open, Op::Session(op::session("s")), Op::Session(op::session("t"))] {
        trace(&op);
        world.perform(&op)?;
    }
    Ok(world)
}

/// The operation of a word.
pub fn operation(word: u64, world: &World, names: &Names) -> Op {
    let mut bits = Bits(word);
    let kind = bits.of(64);
    if !world.opened {
        return if kind < 60 { Op::Open } else { report(&mut bits, world, names) };
    }
    if !world.ledger.open {
        return if kind < 60 { Op::Crash } else { launch(&mut bits, world, names, false) };
    }
    match kind {
        // Where a case shrinks, most words become this one.
        0 => Op::Alarm,
        1..=8 => launch(&mut bits, world, names, false),
        9..=12 => launch(&mut bits, world, names, true),
        13..=29 => report(&mut bits, world, names),
        30..=33 => turn(&mut bits, names),
        34..=41 => wait(&mut bits, world, names),
        42..=47 => Op::Ack(holder(&mut bits, world)),
        48 | 49 => Op::Leave(WaiterId(bits.of(WAITERS as usize + 1) as u64)),
        50 => match bits.of(4) {
            0 => Op::Promote(Promoted::Job(job(&mut bits, world, names))),
            1 => Op::Promote(Promoted::Group(group(&mut bits, world, names))),
            _ => Op::Expire(WaiterId(bits.of(WAITERS as usize + 1) as u64)),
        },
        51..=53 => stop(&mut bits, world, names),
        54 | 55 => limit(&mut bits, world, names),
        56 => Op::After(bits.pick([0, 1, 10, 50, 100, 500, 3_000, 60_000])),
        57 | 58 => message(&mut bits, world, names),
        59 => Op::Wall(bits.pick(JUMPS_MS)),
        60 => match session(&mut bits, names) {
            // One of the sessions is driven by a model, with little room.
            id if id == names.sessions[2] => Op::Bounded(id, Box::new(SMALL)),
            id => Op::Session(id),
        },
        61 if bits.one_in(4) => Op::CloseSession(session(&mut bits, names)),
        62 => Op::Crash,
        63 if bits.one_in(8) => {
            let closes = [Op::Drain, Op::StopAll(None), Op::StopAll(Some(0)), Op::Suspend(None), Op::Finish];
            closes[bits.of(closes.len())].clone()
        }
        _ => Op::Alarm,
    }
}

/// Words and follow-ups, of a few keys, so that some are known; and mail.
fn message(bits: &mut Bits, world: &World, names: &Names) -> Op {
    let key = names.messages[bits.of(names.messages.len())].clone();
    match bits.of(12) {
        0..=2 => Op::Post(NodeId::Session(session(bits, names)), key),
        3 | 4 => Op::Post(NodeId::Job(job(bits, world, names)), key),
        5 => Op::Listen(job(bits, world, names)),
        6 => Op::Silent(job(bits, world, names)),
        7 => Op::Took(job(bits, world, names), key),
        _ => Op::Send(job(bits, world, names), job(bits, world, names), key.to_string().into()),
    }
}

fn session(bits: &mut Bits, names: &Names) -> SessionId {
    names.sessions[bits.pick([0, 0, 1, 2])].clone()
}

/// A session, or a job that runs, as a rule; a job's last run speaks for it, also where that is over.
fn parent(bits: &mut Bits, world: &World, names: &Names) -> NodeId {
    if bits.of(3) > 0 {
        return NodeId::Session(session(bits, names));
    }
    let running: Vec<&JobId> =
        world.ledger.jobs.iter().filter(|(_, job)| job.run.is_some()).map(|(id, _)| id).collect();
    if running.is_empty() || bits.one_in(16) {
        return NodeId::Job(job(bits, world, names));
    }
    NodeId::Job(running[bits.of(running.len())].clone())
}

/// A job that was launched, as a rule; now and then one that nobody knows.
fn job(bits: &mut Bits, world: &World, names: &Names) -> JobId {
    let known = world.ledger.jobs.len();
    if known == 0 || bits.one_in(32) {
        return names.jobs[NAMES - 1].clone();
    }
    // The newest are the ones that live.
    let back = bits.of(known.min(12));
    names.jobs[known - 1 - back].clone()
}

fn group(bits: &mut Bits, world: &World, names: &Names) -> GroupId {
    let jobs = world.ledger.jobs.len();
    match world.ledger.jobs.get(&names.jobs[jobs.saturating_sub(1 + bits.of(8))]) {
        Some(job) if !bits.one_in(32) => job.group.clone(),
        _ => names.groups[NAMES - 1].clone(),
    }
}

fn launch(bits: &mut Bits, world: &World, names: &Names, joins: bool) -> Op {
    let known = world.ledger.jobs.len();
    let again = known > 0 && bits.one_in(16);
    let size = if joins { 1 } else { 1 + bits.of(7) };
    let first = if again { bits.of(known) } else { known };
    let policy = match bits.of(8) {
        0 => Policy::ANY,
        1 => Policy::FAIL_FAST,
        2 => Policy::quorum(1 + bits.of(7) as u32),
        3 => Policy { at_ms: Some(bits.pick([1, 50, 500])), ..Policy::ALL },
        4 => Policy { ok: Some(2), not_ok: Some(2), at_ms: Some(100), ..Policy::ALL },
        _ => Policy::ALL,
    };
    let group = if again && bits.one_in(2) { bits.of(known) } else { world.ledger.groups.len() };
    let needs = if size > 1 && bits.one_in(3) { needs(bits, size) } else { Vec::new() };
    Op::Launch(Box::new(Launching {
        needs,
        parent: parent(bits, world, names),
        group: names.groups[group].clone(),
        is_fresh: bits.one_in(2),
        again: again && bits.one_in(2),
        joins,
        foreground: (!joins && bits.one_in(4)).then(|| WaiterId(bits.of(WAITERS as usize + 1) as u64)),
        policy,
        kind: bits.pick([JobKind::Command, JobKind::Closure, JobKind::Agent]),
        limits: JobLimits {
            queue_ms: bits.pick([None, None, Some(100)]),
            start_ms: bits.pick([None, Some(30)]),
            run_ms: bits.pick([None, None, Some(50), Some(1_000)]),
            total_ms: bits.pick([None, None, Some(3_000)]),
            idle_ms: bits.pick([None, None, Some(20), Some(45)]),
            grace_ms: bits.pick([None, None, Some(0), Some(1_000)]),
            retries: bits.pick([None, None, None, Some(1), Some(4)]),
            repeats: bits.pick([None, None, Some(2)]),
            resume: bits.pick([None, None, Some(Resume::Rerun)]),
            ..JobLimits::NONE
        },
        jobs: names.jobs.iter().skip(first).take(size).cloned().collect(),
    }))
}

/// What jobs need of those before them; now and then one that makes a circle.
fn needs(bits: &mut Bits, size: usize) -> Vec<(u32, Vec<u32>, OnFailedDependency)> {
    let then = OnFailedDependency::ALL;
    let mut needs = Vec::new();
    for member in 1..size as u32 {
        let on: Vec<u32> = (0..member).filter(|_| bits.of(3) == 0).collect();
        if !on.is_empty() {
            needs.push((member, on, then[bits.pick([0, 0, 1, 2])]));
        }
    }
    if bits.one_in(32) {
        needs.insert(0, (0, vec![size as u32 - 1], OnFailedDependency::Skip));
    }
    needs
}

fn limit(bits: &mut Bits, world: &World, names: &Names) -> Op {
    let who = job(bits, world, names);
    match bits.of(8) {
        0 | 1 => Op::Extend(who, bits.pick([1, 40, 5_000, u64::MAX])),
        2 => Op::Slots(bits.pick([None, Some(1), Some(2), Some(5)])),
        3..=5 => Op::Beat(who),
        6 => {
            let sums = [bits.pick([None, Some(0), Some(5), Some(u64::MAX)]), None, Some(bits.of(9) as u64)];
            Op::Used(who, bits.of(3) as u8, sums)
        }
        _ => Op::Call(who, bits.of(5) as u8, bits.of(2) as u64),
    }
}

fn report(bits: &mut Bits, world: &World, names: &Names) -> Op {
    let who = job(bits, world, names);
    let call = bits.of(3) as u8;
    let state = bits.pick([PartState::Pending, PartState::Running, PartState::Completed, PartState::Error]);
    match bits.of(16) {
        0..=6 => Op::End(who, how(bits)),
        7 => Op::Late(who, how(bits)),
        8 | 9 => Op::Bind(who),
        10..=12 => Op::Part(who, call, PartKind::Tool, state),
        13 => Op::Part(who, call, PartKind::Question, state),
        14 => Op::TurnPart(session(bits, names), call, state),
        _ => Op::Forged(who, job(bits, world, names)),
    }
}

fn how(bits: &mut Bits) -> How {
    bits.pick([
        How::Ok,
        How::Ok,
        How::Ok,
        How::Failed,
        How::Panic,
        How::Spawn,
        How::Os,
        How::Safe,
        How::Lost,
        How::Empty,
        How::Left,
        How::Stopped,
    ])
}

fn turn(bits: &mut Bits, names: &Names) -> Op {
    let (who, how) = (session(bits, names), how(bits));
    if bits.one_in(2) { Op::TurnEnd(who, how) } else { Op::Turn(who) }
}

fn wait(bits: &mut Bits, world: &World, names: &Names) -> Op {
    let waiter = WaiterId(bits.of(WAITERS as usize + 1) as u64);
    let by = parent(bits, world, names);
    let kind = bits.of(11);
    let jobs = |bits: &mut Bits| -> Vec<JobId> {
        let count = 1 + bits.of(4);
        let mut jobs: Vec<JobId> = (0..count).map(|_| job(bits, world, names)).collect();
        if !bits.one_in(16) {
            jobs.sort();
            jobs.dedup();
        }
        jobs
    };
    let wanted = match kind {
        0 | 1 => Wish::All(by, jobs(bits)),
        2 => Wish::Any(by, jobs(bits)),
        3 | 4 => Wish::Group(by, group(bits, world, names)),
        5 => Wish::Wake(by),
        6 if matches!(by, NodeId::Session(_)) => Wish::Message(by),
        6 => Wish::Wake(by),
        7 => Wish::Background(job(bits, world, names)),
        8 | 9 => {
            let from = bits.one_in(2).then(|| job(bits, world, names));
            Wish::Mail(NodeId::Job(job(bits, world, names)), from, bits.one_in(4))
        }
        _ => Wish::Idle,
    };
    Op::Wait(waiter, wanted)
}

/// Somebody who holds an answer, where there is one.
fn holder(bits: &mut Bits, world: &World) -> WaiterId {
    let holders: Vec<WaiterId> =
        world.parent.waits.iter().filter(|(_, wait)| wait.offer.is_some()).map(|(id, _)| *id).collect();
    if holders.is_empty() || bits.one_in(8) {
        return WaiterId(bits.of(WAITERS as usize + 1) as u64);
    }
    holders[bits.of(holders.len())]
}

fn stop(bits: &mut Bits, world: &World, names: &Names) -> Op {
    let who = job(bits, world, names);
    let aim = match bits.of(6) {
        0..=2 => Aim::Job(who),
        3 => Aim::Exact(who),
        4 => bits.pick([Aim::Other, Aim::Old])(who),
        _ => Aim::Group(group(bits, world, names)),
    };
    let grace = bits.pick([None, None, Some(0), Some(10), Some(5_000)]);
    Op::Stop(aim, grace, bits.pick([Cause::User, Cause::Parent, Cause::ClientGone]))
}
