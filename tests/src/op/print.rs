//! How an operation is written in a script.

use std::fmt::{self, Display, Formatter};

use fanin_machine::WaiterId;
use fanin_protocol::{
    Bounds, Budget, JobKind, NodeId, OnFailedDependency, PartKind, PartState, Policy, Profile, SessionId,
};

use super::{Aim, How, Launching, Op, Promoted, Sums, Wish};

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Crash => f.write_str("crash"),
            Self::Drain => f.write_str("drain"),
            Self::StopAll(grace) => {
                f.write_str("stop-all")?;
                option(f, "grace", *grace)
            }
            Self::Suspend(grace) => {
                f.write_str("suspend")?;
                option(f, "grace", *grace)
            }
            Self::Finish => f.write_str("finish"),
            Self::Session(id) => write!(f, "session {id}"),
            Self::Bounded(id, bounds) => bounded(f, id, bounds),
            Self::CloseSession(id) => write!(f, "close {id}"),
            Self::Turn(id) => write!(f, "turn {id}"),
            Self::TurnEnd(id, how) => write!(f, "turn-end {id} {how}"),
            Self::Launch(launching) => launching.fmt(f),
            Self::Wait(waiter, wanted) => write!(f, "wait {} {}", Named(*waiter), Asked(wanted)),
            Self::Leave(waiter) => write!(f, "leave {}", Named(*waiter)),
            Self::Promote(Promoted::Job(id)) => write!(f, "promote {id}"),
            Self::Promote(Promoted::Group(id)) => write!(f, "promote-group {id}"),
            Self::Expire(waiter) => write!(f, "expire {}", Named(*waiter)),
            Self::Ack(waiter) => write!(f, "ack {}", Named(*waiter)),
            Self::Stop(aim, grace, cause) => {
                match aim {
                    Aim::Job(id) => write!(f, "stop {id}")?,
                    Aim::Exact(id) => write!(f, "stop-exact {id}")?,
                    Aim::Old(id) => write!(f, "stop-old {id}")?,
                    Aim::Other(id) => write!(f, "stop-other {id}")?,
                    Aim::Group(id) => write!(f, "stop-group {id}")?,
                }
                write!(f, " {cause}")?;
                option(f, "grace", *grace)
            }
            Self::Bind(id) => write!(f, "spawn {id}"),
            Self::Part(id, call, PartKind::Tool, state) => write!(f, "part {id} c{call} {}", moved(*state)),
            Self::Part(id, call, PartKind::Question, state) => {
                write!(f, "question {id} c{call} {}", moved(*state))
            }
            Self::TurnPart(id, call, state) => write!(f, "turn-part {id} c{call} {}", moved(*state)),
            Self::Call(id, call, args) => write!(f, "call {id} c{call} args={args}"),
            Self::Used(id, meter, sums) => {
                write!(f, "used {id} meter={meter}")?;
                used(f, sums)
            }
            Self::TurnUsed(id, meter, sums) => {
                write!(f, "turn-used {id} meter={meter}")?;
                used(f, sums)
            }
            Self::Budget(of, to) => {
                write!(f, "set-budget {of}")?;
                budget(f, "", to)
            }
            Self::Beat(id) => write!(f, "beat {id}"),
            Self::Slots(None) => f.write_str("set-slots none"),
            Self::Slots(Some(slots)) => write!(f, "set-slots {slots}"),
            Self::Extend(id, ms) => write!(f, "extend {id} {ms}"),
            Self::End(id, how) => write!(f, "end {id} {how}"),
            Self::Post(NodeId::Session(id), key) => write!(f, "post in={id} {key}"),
            Self::Post(NodeId::Job(id), key) => write!(f, "tell {id} {key}"),
            Self::Fire(id) => write!(f, "fire {id}"),
            Self::Listen(id) => write!(f, "listen {id}"),
            Self::Silent(id) => write!(f, "silent {id}"),
            Self::Took(id, key) => write!(f, "took {id} {key}"),
            Self::Send(from, to, text) => write!(f, "send {from} {to} {text}"),
            Self::Late(id, how) => write!(f, "late {id} {how}"),
            Self::Gone(id) => write!(f, "gone {id}"),
            Self::Forged(run, at) => write!(f, "forged {run} {at}"),
            Self::After(ms) => write!(f, "after {ms}"),
            Self::Alarm => f.write_str("alarm"),
            Self::Wall(ms) => write!(f, "wall {ms}"),
            Self::Why(id) => write!(f, "why {id}"),
            Self::WhyGroup(id) => write!(f, "why-group {id}"),
        }
    }
}

impl Display for Launching {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.joins { "start" } else { "launch" })?;
        write!(f, " {} as={}", By(&self.parent), self.group)?;
        if let Some(waiter) = self.foreground {
            write!(f, " fg={}", Named(waiter))?;
        }
        if self.is_fresh {
            f.write_str(" fresh")?;
        }
        if self.again {
            f.write_str(" again")?;
        }
        match self.kind {
            JobKind::Command => {}
            JobKind::Closure => f.write_str(" closure")?,
            JobKind::Agent => f.write_str(" agent")?,
        }
        let Policy { ok, not_ok, at_ms, budget: bounds } = self.policy;
        option(f, "ok", ok.map(u64::from))?;
        option(f, "not_ok", not_ok.map(u64::from))?;
        option(f, "deadline", at_ms)?;
        budget(f, "", &bounds)?;
        budget(f, "own_", &self.limits.budget)?;
        option(f, "estimate", self.limits.estimate_usd_micros)?;
        option(f, "queue", self.limits.queue_ms)?;
        option(f, "start", self.limits.start_ms)?;
        option(f, "run", self.limits.run_ms)?;
        option(f, "total", self.limits.total_ms)?;
        option(f, "idle", self.limits.idle_ms)?;
        option(f, "retries", self.limits.retries.map(u64::from))?;
        option(f, "repeats", self.limits.repeats.map(u64::from))?;
        self.limits.resume.map_or(Ok(()), |resume| write!(f, " resume={}", resume.as_str()))?;
        option(f, "grace", self.limits.grace_ms)?;
        option(f, "fires", self.limits.firings.map(u64::from))?;
        for (place, id) in (0..).zip(&self.jobs) {
            write!(f, " {id}")?;
            let Some((_, on, then)) = self.needs.iter().find(|(member, ..)| *member == place) else {
                continue;
            };
            for (n, needed) in on.iter().enumerate() {
                let mark = if n == 0 { '>' } else { '+' };
                match self.jobs.get(*needed as usize) {
                    Some(needed) => write!(f, "{mark}{needed}")?,
                    None => write!(f, "{mark}nobody")?,
                }
            }
            f.write_str(match then {
                OnFailedDependency::Skip => "",
                OnFailedDependency::Run => "?",
                OnFailedDependency::FailTeam => "!",
            })?;
        }
        Ok(())
    }
}

impl Display for How {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Empty => "empty",
            Self::Failed => "failed",
            Self::Panic => "panic",
            Self::Spawn => "spawn",
            Self::Os => "os",
            Self::Safe => "safe",
            Self::Lost => "lost",
            Self::Left => "left",
            Self::Stopped => "stopped",
        })
    }
}

/// Bounds that are not those of the agent profile.
fn bounded(f: &mut Formatter<'_>, id: &SessionId, bounds: &Bounds) -> fmt::Result {
    let plain = Profile::Agent.bounds();
    write!(f, "session {id} agent")?;
    let differ = |now: u64, then: u64| (now != then).then_some(now);
    option(f, "depth", differ(bounds.depth.into(), plain.depth.into()))?;
    option(f, "min", differ(bounds.group_min as u64, plain.group_min as u64))?;
    option(f, "max", differ(bounds.group_max as u64, plain.group_max as u64))?;
    let none = u64::from(u32::MAX);
    let or_none = |value: Option<u32>| value.map_or(none, u64::from);
    option(f, "total", differ(or_none(bounds.spawn_total), or_none(plain.spawn_total)))?;
    option(f, "prompt", differ(bounds.prompt_bytes as u64, plain.prompt_bytes as u64))?;
    option(f, "queue", differ(bounds.queue as u64, plain.queue as u64))?;
    option(f, "queue_all", differ(bounds.queue_all as u64, plain.queue_all as u64))?;
    option(f, "slots", differ(or_none(bounds.slots), or_none(plain.slots)))?;
    budget(f, "", &bounds.budget)
}

fn budget(f: &mut Formatter<'_>, prefix: &str, budget: &Budget) -> fmt::Result {
    budget.limits().try_for_each(|(dimension, limit)| write!(f, " {prefix}{dimension}={limit}"))
}

fn used(f: &mut Formatter<'_>, sums: &Sums) -> fmt::Result {
    ["cost", "tokens", "steps"].iter().zip(sums).try_for_each(|(name, sum)| option(f, name, *sum))
}

/// A waiter as scripts write it.
pub(crate) struct Named(pub(crate) WaiterId);

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "w{}", self.0.0)
    }
}

/// A parent as scripts write it.
struct By<'a>(&'a NodeId);

impl Display for By<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            NodeId::Session(id) => write!(f, "in={id}"),
            NodeId::Job(id) => write!(f, "below={id}"),
        }
    }
}

struct Asked<'a>(&'a Wish);

impl Display for Asked<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wish::All(by, jobs) => {
                write!(f, "all {}", By(by))?;
                jobs.iter().try_for_each(|id| write!(f, " {id}"))
            }
            Wish::Any(by, jobs) => {
                write!(f, "any {}", By(by))?;
                jobs.iter().try_for_each(|id| write!(f, " {id}"))
            }
            Wish::Exact(by, id, lifetime) => write!(f, "exact {} {id} {lifetime}", By(by)),
            Wish::Group(by, id) => write!(f, "group {} {id}", By(by)),
            Wish::Wake(by) => write!(f, "wake {}", By(by)),
            Wish::Message(by) => write!(f, "message {}", By(by)),
            Wish::Hit(by) => write!(f, "hit {}", By(by)),
            Wish::Mail(by, from, at_once) => {
                write!(f, "mail {}", By(by))?;
                from.as_ref().map_or(Ok(()), |from| write!(f, " from={from}"))?;
                f.write_str(if *at_once { " now" } else { "" })
            }
            Wish::Background(id) => write!(f, "background {id}"),
            Wish::Idle => f.write_str("idle"),
        }
    }
}

fn option(f: &mut Formatter<'_>, name: &str, value: Option<u64>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {name}={value}"))
}

/// A part's state as scripts write it.
pub(crate) const fn moved(state: PartState) -> &'static str {
    match state {
        PartState::Pending => "pending",
        PartState::Running => "running",
        PartState::Completed => "completed",
        PartState::Error => "error",
    }
}
