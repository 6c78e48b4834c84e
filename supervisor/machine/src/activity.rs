//! The clocks of jobs that have limits of time: when each limit is due, what stops it, and the last sign of work.
//!
//! A sign of work that the machine sees is a part. The others are known to the host alone, and no command tells of
//! each: where a run may be idle the host is asked for the last one.

use std::sync::Arc;

use fanin_protocol::limits::GAP;
use fanin_protocol::record::{Note, NoteCode, StopTarget};
use fanin_protocol::spec::millis;
use fanin_protocol::{Cause, Code, Fence, Lifetime, PartKind, text};

use crate::clock::{Mono, Now};
use crate::command::{RunNode, RunRef};
use crate::effect::Effect;
use crate::out::Out;
use crate::state::{JobKey, Node, State};
use crate::timers::{Owner, Purpose};
use crate::{mail, quota, run, stop, timer};

/// When the limits of a started job are due, in this epoch. What is `None` does not bind it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    /// All of its runs together. It stays from run to run.
    total_at: Option<Mono>,
    /// The open run.
    run_at: Option<Mono>,
    /// The open run without a sign of work.
    idle: Option<Idle>,
    /// While an open question stops the clocks of the run: what was left of it then.
    paused: Option<Paused>,
    /// What there is to say of the limit that stopped it.
    told: Option<Arc<str>>,
}

/// How much of its limit a run had left, where it has one.
#[derive(Debug, Clone, Copy)]
struct Paused {
    run_left_ms: Option<u64>,
}

/// How long a run may go on without a sign of work.
#[derive(Debug, Clone, Copy)]
struct Idle {
    limit_ms: u64,
    /// The limit after the last sign; at first after the start of the run, so that one from which nothing ever came
    /// escapes nothing (B73).
    until: Mono,
    /// Half of the limit has passed, and a note says so.
    is_noted: bool,
}

impl Idle {
    const fn new(limit_ms: u64, now: Mono) -> Self {
        Self { limit_ms, until: now.after(limit_ms), is_noted: false }
    }

    fn seen(&mut self, at: Mono) {
        let until = at.after(self.limit_ms);
        if until > self.until {
            (self.until, self.is_noted) = (until, false);
        }
    }

    /// Since the last sign of work, in milliseconds.
    const fn quiet_ms(&self, now: Mono) -> u64 {
        self.limit_ms.saturating_sub(self.until.since(now))
    }

    /// When it is time to look again: at half of the limit, then at all of it.
    const fn next(&self) -> Mono {
        let left = if self.is_noted { 0 } else { self.limit_ms / 2 };
        Mono(self.until.0.saturating_sub(left))
    }
}

/// Starts the clocks of a run that has just begun.
pub(crate) fn start(state: &mut State, key: JobKey, fence: Fence) {
    let owner = Owner::Job(key);
    state.memory.timers.clear(owner);
    let Some(job) = state.job(key) else { return };
    let (limits, lifetime, bound) = (job.limits(), job.lifetime, run::is_bound(job));
    let now = state.memory.clock.mono();
    if let Some(ms) = limits.start_ms.filter(|_| !bound) {
        state.memory.timers.arm(now.after(ms), owner, Purpose::Start(fence));
    }
    if limits.run_ms.or(limits.total_ms).or(limits.idle_ms).is_none() {
        return;
    }
    let clocks = state.memory.clocks.entry(key).or_default();
    clocks.total_at = clocks.total_at.or(limits.total_ms.map(|ms| now.after(ms)));
    clocks.run_at = limits.run_ms.map(|ms| now.after(ms));
    clocks.idle = limits.idle_ms.map(|ms| Idle::new(ms, now));
    if let Some(at) = clocks.total_at {
        state.memory.timers.arm(at, owner, Purpose::Total(lifetime));
    }
    arm_run(state, key, fence);
}

/// Arms what binds the open run, at the times its clocks say.
fn arm_run(state: &mut State, key: JobKey, fence: Fence) {
    let Some(clocks) = state.memory.clocks.get(&key) else { return };
    let owner = Owner::Job(key);
    if let Some(at) = clocks.run_at {
        state.memory.timers.rearm(at, owner, Purpose::Run(fence));
    }
    if let Some(at) = clocks.idle.map(|idle| idle.next()) {
        state.memory.timers.rearm(at, owner, Purpose::Idle(fence));
    }
}

/// Ends the clocks of a run that is over, and what was counted of it. Where another try follows, the total goes on.
pub(crate) fn run_over(state: &mut State, key: JobKey) {
    state.memory.repeats.remove(&key);
    let owner = Owner::Job(key);
    state.memory.timers.clear(owner);
    let Some(mut clocks) = state.memory.clocks.remove(&key) else { return };
    let Some(job) = state.job(key).filter(|job| job.awaits_start()) else { return };
    let Some(at) = clocks.total_at else { return };
    state.memory.timers.arm(at, owner, Purpose::Total(job.lifetime));
    clocks = Clocks { total_at: Some(at), ..Clocks::default() };
    state.memory.clocks.insert(key, clocks);
}

/// Arms the total of a job whose next try outlived a crash: it counts from the first start.
pub(crate) fn restore(state: &mut State, key: JobKey) {
    let Some(job) = state.job(key) else { return };
    let Some((ms, since_ms)) = job.limits().total_ms.zip(job.started_at_ms) else { return };
    let lifetime = job.lifetime;
    let at = timer::limit_at(state, since_ms, ms);
    state.memory.clocks.insert(key, Clocks { total_at: Some(at), ..Clocks::default() });
    state.memory.timers.arm(at, Owner::Job(key), Purpose::Total(lifetime));
}

/// A part of the open run moved: a sign of work, and perhaps a question that stops its clocks.
pub(crate) fn part_moved(state: &mut State, key: JobKey) {
    let now = state.memory.clock.mono();
    let Some(clocks) = state.memory.clocks.get_mut(&key) else { return };
    if let Some(idle) = &mut clocks.idle {
        idle.seen(now);
    }
    let Some(open) = state.facts.jobs.get(key.index()).and_then(|job| job.run.as_ref()) else { return };
    let asks = open.parts.iter().any(|part| part.kind == PartKind::Question && !part.state.is_terminal());
    let fence = open.fence;
    match (asks, clocks.paused) {
        (true, None) => {
            clocks.paused = Some(Paused { run_left_ms: clocks.run_at.map(|at| at.since(now)) });
            state.memory.timers.disarm(Owner::Job(key), Purpose::Run(fence));
            state.memory.timers.disarm(Owner::Job(key), Purpose::Idle(fence));
        }
        (false, Some(paused)) => {
            clocks.paused = None;
            clocks.run_at = paused.run_left_ms.map(|ms| now.after(ms));
            arm_run(state, key, fence);
        }
        (true, Some(_)) | (false, None) => {}
    }
}

/// The host says when the run last showed a sign of work.
pub(crate) fn beat(state: &mut State, key: JobKey, fence: Fence, at: Mono, out: &mut Out) {
    let now = state.memory.clock.mono();
    let is_stopping = state.job(key).is_none_or(|job| job.stop.is_some());
    let receives = mail::receives(state, key);
    let Some(clocks) = state.memory.clocks.get_mut(&key) else { return };
    let Some(idle) = &mut clocks.idle else { return };
    // Who waits for mail is not idle (T-10).
    idle.seen(if receives { now } else { at.min(now) });
    if clocks.paused.is_some() || is_stopping {
        return;
    }
    let quiet_ms = idle.quiet_ms(now);
    if quiet_ms >= idle.limit_ms {
        return time_out(state, key, Code::Idle, out);
    }
    let is_new = !idle.is_noted && idle.next() <= now;
    idle.is_noted |= is_new;
    let next = idle.next();
    state.memory.timers.rearm(next, Owner::Job(key), Purpose::Idle(fence));
    if is_new {
        let job = state.job(key).map(|job| job.id.clone());
        let value = Some(i64::try_from(quiet_ms).unwrap_or(i64::MAX));
        out.record_of(state, key, Note { job, run: Some(fence), value, ..Note::new(NoteCode::Stall) });
    }
}

/// A limit of an open run is due. Its clock may have been moved since.
pub(crate) fn run_due(state: &mut State, key: JobKey, purpose: Purpose, out: &mut Out) {
    let (Purpose::Start(fence) | Purpose::Run(fence) | Purpose::Idle(fence)) = purpose else { return };
    let Some(open) = run::open(state, Node::Job(key)).filter(|open| open.fence == fence) else { return };
    match purpose {
        Purpose::Start(_) if !open.bound => time_out(state, key, Code::Start, out),
        Purpose::Run(_) => time_out(state, key, Code::Run, out),
        Purpose::Idle(_) => idle_due(state, key, fence, out),
        _ => {}
    }
}

/// The run shows no sign of work that the machine could see; the host may know of one.
fn idle_due(state: &mut State, key: JobKey, fence: Fence, out: &mut Out) {
    let Some(idle) = state.memory.clocks.get(&key).and_then(|clocks| clocks.idle) else { return };
    if idle.next() > state.memory.clock.mono() {
        state.memory.timers.arm(idle.next(), Owner::Job(key), Purpose::Idle(fence));
    } else {
        let run = RunRef { node: RunNode::Job(key), fence };
        out.effect(Effect::Probe { run, tag: state.tag(key) });
    }
}

/// The limit of all runs together is due, in a run or between two of them.
pub(crate) fn total_due(state: &mut State, key: JobKey, lifetime: Lifetime, out: &mut Out) {
    if state.job(key).is_some_and(|job| job.lifetime == lifetime && job.ended.is_none()) {
        time_out(state, key, Code::Total, out);
    }
}

/// Stops the job at a limit, and keeps what there is to say of it.
fn time_out(state: &mut State, key: JobKey, code: Code, out: &mut Out) {
    let told = words(state, key, code);
    stop_told(state, key, (Cause::Timeout, code), told, out);
}

/// Stops the job as an error that the machine found, with words for it. Of two such stops the first one tells.
pub(crate) fn stop_told(
    state: &mut State,
    key: JobKey,
    (cause, code): (Cause, Code),
    told: String,
    out: &mut Out,
) {
    let is_first = state.job(key).is_some_and(|job| job.stop.is_none() && job.run.is_some());
    if is_first {
        state.memory.clocks.entry(key).or_default().told = Some(told.into());
    }
    let intent = stop::Intent { target: StopTarget::Error, cause, code: Some(code), force_at: None };
    stop::stop_job(state, key, intent, out);
}

/// The setting that fired, and the idle limit too where signs of work kept the run from it (B75).
fn words(state: &State, key: JobKey, code: Code) -> String {
    let Some(job) = state.job(key) else { return String::new() };
    let limits = job.limits();
    let (setting, ms, more) = match code {
        Code::Start => ("start_timeout", limits.start_ms, " before its runner had it in hand"),
        Code::Idle => ("idle", limits.idle_ms, " without a sign of work"),
        Code::Total => ("total_timeout", limits.total_ms, ""),
        _ => ("timeout", limits.run_ms, ""),
    };
    let told = format!("`{setting}` of {} passed{more}", text::duration(ms.unwrap_or(0)));
    match limits.idle_ms.filter(|idle| matches!(code, Code::Run | Code::Total) && Some(*idle) < ms) {
        Some(idle) => {
            format!("{told}, while signs of work kept it within its `idle` of {}", text::duration(idle))
        }
        None => told,
    }
}

/// What there is to say of the limit that stopped the open run, with what else there is to say.
pub(crate) fn message(state: &State, key: JobKey, other: Option<Arc<str>>) -> Option<Arc<str>> {
    let told = state.memory.clocks.get(&key).and_then(|clocks| clocks.told.clone());
    let told = told.or_else(|| quota::told(state, key).map(Into::into));
    match (told, other) {
        (Some(told), Some(other)) => Some(format!("{told}; {other}").into()),
        (told, other) => told.or(other),
    }
}

/// Moves what binds a live job, after its limits were set to `ms` more.
pub(crate) fn extend(state: &mut State, key: JobKey, ms: u64) {
    let Some(job) = state.job(key) else { return };
    let (lifetime, fence) = (job.lifetime, job.run.as_ref().map(|run| run.fence));
    let Some(clocks) = state.memory.clocks.get_mut(&key) else { return };
    clocks.total_at = clocks.total_at.map(|at| at.after(ms));
    clocks.run_at = clocks.run_at.map(|at| at.after(ms));
    if let Some(left) = clocks.paused.as_mut().and_then(|paused| paused.run_left_ms.as_mut()) {
        *left = left.saturating_add(ms);
    }
    let is_paused = clocks.paused.is_some();
    if let Some(at) = clocks.total_at {
        state.memory.timers.rearm(at, Owner::Job(key), Purpose::Total(lifetime));
    }
    if let (Some(at), Some(fence), false) = (clocks.run_at, fence, is_paused) {
        state.memory.timers.rearm(at, Owner::Job(key), Purpose::Run(fence));
    }
}

/// True where neither machine nor host ran for a while: the machine slept, or the step comes long after its alarm.
/// What a run did meanwhile, or could not do, nobody knows (SC-13, SC-16).
pub(crate) fn is_gap(state: &State, now: Now) -> bool {
    let late = state.memory.alarm.map_or(0, |alarm| now.mono.since(alarm));
    late.max(state.memory.clock.slept(now)) > millis(GAP)
}

/// Starts all idle clocks again. Their timers find that out when they are due.
pub(crate) fn restart(state: &mut State) {
    let now = state.memory.clock.mono();
    for idle in state.memory.clocks.values_mut().filter_map(|clocks| clocks.idle.as_mut()) {
        idle.seen(now);
    }
}
