//! How a script is read: statements between semicolons, words between blanks, options as `name=value`.
//!
//! What is left out is what most scripts mean: the session `s`, groups `g1`, `g2` and so on, commands, no limits.

use fanin_machine::{Named, WaiterId};
use fanin_protocol::{
    Bounds, Budget, Cause, GroupId, JobId, JobKind, JobLimits, Lifetime, MessageId, NodeId,
    OnFailedDependency, PartKind, PartState, Policy, Profile, Resume, SessionId,
};

use super::{Aim, How, Launching, Op, Promoted, Sums, Wish};

/// A script, and what holds for the whole of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// `slots N` at its start.
    pub slots: Option<u32>,
    /// `rate N MS` at its start: so many commands may start in that time.
    pub rate: Option<(usize, u64)>,
    /// What happens.
    pub ops: Vec<Op>,
}

/// Reads a script.
///
/// # Panics
///
/// Where it is not one; the text is part of a test.
pub fn script(text: &str) -> Script {
    let mut read = Script::default();
    let mut groups = 0;
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let words = Words::of(statement);
        match words.verb() {
            "slots" => read.slots = Some(words.word(1)).filter(|n| *n != "none").map(|n| number(n) as u32),
            "rate" => read.rate = Some((number(words.word(1)) as usize, number(words.word(2)))),
            _ => read.ops.push(op(&words, &mut groups)),
        }
    }
    read
}

fn op(words: &Words<'_>, groups: &mut u32) -> Op {
    match words.verb() {
        "open" => Op::Open,
        "crash" => Op::Crash,
        "drain" => Op::Drain,
        "stop-all" => Op::StopAll(words.number("grace")),
        "suspend" => Op::Suspend(words.number("grace")),
        "finish" => Op::Finish,
        "session" if words.words.get(2) == Some(&"agent") => {
            Op::Bounded(words.session(1), Box::new(bounds(words)))
        }
        "session" => Op::Session(words.session(1)),
        "close" => Op::CloseSession(words.session(1)),
        "turn" => Op::Turn(words.session(1)),
        "turn-end" => Op::TurnEnd(words.session(1), words.how(2)),
        "launch" | "start" => Op::Launch(Box::new(launching(words, groups))),
        "wait" => Op::Wait(words.waiter(), wanted(words)),
        "leave" => Op::Leave(words.waiter()),
        "promote" => Op::Promote(Promoted::Job(words.job(1))),
        "promote-group" => Op::Promote(Promoted::Group(group(words.word(1)))),
        "expire" => Op::Expire(words.waiter()),
        "ack" => Op::Ack(words.waiter()),
        "stop" => words.stop(Aim::Job(words.job(1))),
        "stop-exact" => words.stop(Aim::Exact(words.job(1))),
        "stop-old" => words.stop(Aim::Old(words.job(1))),
        "stop-other" => words.stop(Aim::Other(words.job(1))),
        "stop-group" => words.stop(Aim::Group(group(words.word(1)))),
        "spawn" => Op::Bind(words.job(1)),
        "part" => Op::Part(words.job(1), words.call(), PartKind::Tool, words.moved()),
        "question" => Op::Part(words.job(1), words.call(), PartKind::Question, words.moved()),
        "turn-part" => Op::TurnPart(words.session(1), words.call(), words.moved()),
        "post" => Op::Post(words.parent(), message(words.word(1))),
        "tell" => Op::Post(NodeId::Job(words.job(1)), message(words.word(2))),
        "fire" => Op::Fire(words.job(1)),
        "listen" => Op::Listen(words.job(1)),
        "silent" => Op::Silent(words.job(1)),
        "took" => Op::Took(words.job(1), message(words.word(2))),
        "send" => Op::Send(words.job(1), words.job(2), words.word(3).into()),
        "call" => Op::Call(words.job(1), words.call(), words.number("args").unwrap_or(0)),
        "used" => Op::Used(words.job(1), words.number("meter").unwrap_or(1) as u8, words.sums()),
        "turn-used" => Op::TurnUsed(words.session(1), words.number("meter").unwrap_or(1) as u8, words.sums()),
        "set-budget" => Op::Budget(words.named(), words.budget("")),
        "beat" => Op::Beat(words.job(1)),
        "set-slots" => Op::Slots(Some(words.word(1)).filter(|n| *n != "none").map(|n| number(n) as u32)),
        "extend" => Op::Extend(words.job(1), number(words.word(2))),
        "late" => Op::Late(words.job(1), words.how(2)),
        "gone" => Op::Gone(words.job(1)),
        "end" => Op::End(words.job(1), words.how(2)),
        "forged" => Op::Forged(words.job(1), words.job(2)),
        "after" => Op::After(number(words.word(1))),
        "alarm" => Op::Alarm,
        "wall" => Op::Wall(words.word(1).parse().expect("milliseconds")),
        "why" => Op::Why(words.job(1)),
        "why-group" => Op::WhyGroup(group(words.word(1))),
        verb => panic!("no operation `{verb}`"),
    }
}

/// The bounds of the agent profile, and what a script says of each.
fn bounds(words: &Words<'_>) -> Bounds {
    let plain = Profile::Agent.bounds();
    let size = |name, plain: usize| words.number(name).map_or(plain, |n| n as usize);
    let count = |name, plain: Option<u32>| match words.number(name) {
        Some(n) if n == u64::from(u32::MAX) => None,
        Some(n) => Some(n as u32),
        None => plain,
    };
    Bounds {
        depth: size("depth", plain.depth as usize) as u32,
        group_min: size("min", plain.group_min),
        group_max: size("max", plain.group_max),
        spawn_total: count("total", plain.spawn_total),
        prompt_bytes: size("prompt", plain.prompt_bytes),
        queue: size("queue", plain.queue),
        queue_all: size("queue_all", plain.queue_all),
        slots: count("slots", plain.slots),
        wakes: count("wakes", plain.wakes),
        wakes_per_minute: count("wakes_per_minute", plain.wakes_per_minute),
        budget: words.budget(""),
    }
}

fn launching(words: &Words<'_>, groups: &mut u32) -> Launching {
    let ok = |n| Policy { ok: n, ..Policy::ALL };
    let mut kind = JobKind::Command;
    let mut policy = ok(words.number("ok").map(|n| n as u32));
    policy.not_ok = words.number("not_ok").map(|n| n as u32);
    policy.at_ms = words.number("deadline");
    policy.budget = words.budget("");
    let (mut jobs, mut again) = (Vec::<&str>::new(), false);
    let mut needs = Vec::new();
    let mut is_fresh = words.option("as").is_none();
    for word in words.rest(1) {
        match word {
            "closure" => kind = JobKind::Closure,
            "again" => again = true,
            "fresh" => is_fresh = true,
            "agent" => kind = JobKind::Agent,
            "all" => policy = Policy::ALL.with_budget(policy.budget),
            "any" => policy = Policy::ANY.with_budget(policy.budget),
            "fail_fast" => policy = Policy::FAIL_FAST.with_budget(policy.budget),
            id => {
                let (id, on) = id.split_once('>').unwrap_or((id, ""));
                jobs.push(id);
                needs.push(on);
            }
        }
    }
    Launching {
        parent: words.parent(),
        group: words.option("as").map_or_else(
            || {
                *groups += 1;
                group(&format!("g{groups}"))
            },
            group,
        ),
        is_fresh,
        again,
        joins: words.verb() == "start",
        foreground: words.option("fg").map(waiter),
        policy,
        needs: (0..).zip(needs).filter(|(_, on)| !on.is_empty()).map(|(n, on)| need(n, on, &jobs)).collect(),
        kind,
        limits: JobLimits {
            queue_ms: words.number("queue"),
            start_ms: words.number("start"),
            run_ms: words.number("run"),
            total_ms: words.number("total"),
            idle_ms: words.number("idle"),
            retries: words.number("retries").map(|n| n as u32),
            repeats: words.number("repeats").map(|n| n as u32),
            grace_ms: words.number("grace"),
            resume: words.option("resume").map(resume),
            budget: words.budget("own_"),
            estimate_usd_micros: words.number("estimate"),
            firings: words.number("fires").map(|n| n as u32),
        },
        jobs: jobs.into_iter().map(job).collect(),
    }
}

/// `b>a+c` needs `a` and `c`. Where one of these did not complete it is skipped, or with `?` started all the same, or with
/// `!` the rest is stopped. A name that the launch has not got is a place far behind.
fn need(member: u32, on: &str, jobs: &[&str]) -> (u32, Vec<u32>, OnFailedDependency) {
    let (on, then) = match (on.strip_suffix('?'), on.strip_suffix('!')) {
        (Some(on), _) => (on, OnFailedDependency::Run),
        (None, Some(on)) => (on, OnFailedDependency::FailTeam),
        (None, None) => (on, OnFailedDependency::Skip),
    };
    let place = |name: &str| jobs.iter().position(|known| *known == name).map_or(99, |place| place as u32);
    (member, on.split('+').map(place).collect(), then)
}

fn resume(word: &str) -> Resume {
    let known = [Resume::Fail, Resume::Rerun].into_iter().find(|resume| resume.as_str() == word);
    known.unwrap_or_else(|| panic!("`{word}` is no policy"))
}

fn wanted(words: &Words<'_>) -> Wish {
    let parent = words.parent();
    let jobs = || words.rest(3).map(job).collect();
    match words.word(2) {
        "all" => Wish::All(parent, jobs()),
        "any" => Wish::Any(parent, jobs()),
        "exact" => Wish::Exact(parent, job(words.word(3)), Lifetime(number(words.word(4)))),
        "group" => Wish::Group(parent, group(words.word(3))),
        "wake" if words.words.len() > 3 => Wish::Wake(NodeId::Session(words.session(3))),
        "wake" => Wish::Wake(parent),
        "message" => Wish::Message(parent),
        "hit" => Wish::Hit(parent),
        "mail" => Wish::Mail(parent, words.option("from").map(job), words.words.get(3) == Some(&"now")),
        "background" => Wish::Background(job(words.word(3))),
        "idle" => Wish::Idle,
        word => panic!("nothing to wait for: `{word}`"),
    }
}

/// A statement: its words and its options.
struct Words<'a> {
    words: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn of(statement: &'a str) -> Self {
        let (options, words): (Vec<&str>, Vec<&str>) =
            statement.split_whitespace().partition(|word| word.contains('='));
        Self { words, options: options.into_iter().filter_map(|word| word.split_once('=')).collect() }
    }

    fn verb(&self) -> &'a str {
        self.word(0)
    }

    fn word(&self, place: usize) -> &'a str {
        self.words.get(place).unwrap_or_else(|| panic!("a word is missing after {:?}", self.words))
    }

    fn rest(&self, from: usize) -> impl Iterator<Item = &'a str> {
        self.words.iter().skip(from).copied()
    }

    fn option(&self, name: &str) -> Option<&'a str> {
        self.options.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.option(name).map(number)
    }

    /// What `usd=`, `tokens=`, `steps=` and `time=` say, with a prefix.
    fn budget(&self, prefix: &str) -> Budget {
        let of = |name: &str| self.number(&format!("{prefix}{name}"));
        Budget { usd_micros: of("usd"), tokens: of("tokens"), steps: of("steps"), ms: of("time") }
    }

    fn sums(&self) -> Sums {
        ["cost", "tokens", "steps"].map(|name| self.number(name))
    }

    fn named(&self) -> Named {
        match self.word(1) {
            "session" => Named::Session(self.session(2)),
            "group" => Named::Group(group(self.word(2))),
            _ => Named::Job(self.job(2)),
        }
    }

    /// `in=` a session, or `below=` a job; else session `s`.
    fn parent(&self) -> NodeId {
        match (self.option("below"), self.option("in")) {
            (Some(name), _) => NodeId::Job(job(name)),
            (None, Some(name)) => NodeId::Session(session(name)),
            (None, None) => NodeId::Session(session("s")),
        }
    }

    fn session(&self, place: usize) -> SessionId {
        session(self.words.get(place).copied().unwrap_or("s"))
    }

    fn job(&self, place: usize) -> JobId {
        job(self.word(place))
    }

    fn waiter(&self) -> WaiterId {
        waiter(self.word(1))
    }

    fn call(&self) -> u8 {
        number(self.word(2).trim_start_matches('c')) as u8
    }

    fn how(&self, place: usize) -> How {
        match self.words.get(place).copied().unwrap_or("ok") {
            "ok" => How::Ok,
            "empty" => How::Empty,
            "failed" => How::Failed,
            "panic" => How::Panic,
            "spawn" => How::Spawn,
            "os" => How::Os,
            "safe" => How::Safe,
            "lost" => How::Lost,
            "left" => How::Left,
            "stopped" => How::Stopped,
            word => panic!("no end is called `{word}`"),
        }
    }

    fn moved(&self) -> PartState {
        match self.word(3) {
            "pending" => PartState::Pending,
            "running" => PartState::Running,
            "completed" => PartState::Completed,
            "error" => PartState::Error,
            word => panic!("no state of a part is called `{word}`"),
        }
    }

    fn stop(&self, aim: Aim) -> Op {
        let cause = match self.words.get(2).copied().unwrap_or("user") {
            "user" => Cause::User,
            "parent" => Cause::Parent,
            "client_gone" => Cause::ClientGone,
            word => panic!("nobody stops a job for `{word}`"),
        };
        Op::Stop(aim, self.number("grace"), cause)
    }
}

fn waiter(name: &str) -> WaiterId {
    WaiterId(number(name.trim_start_matches('w')))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn message(name: &str) -> MessageId {
    MessageId::parse(name).expect("a message's key")
}

/// The id of that name.
pub(crate) fn job(name: &str) -> JobId {
    JobId::parse(name).expect("a job's id")
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::parse(name).expect("a session's id")
}

pub(crate) fn group(name: &str) -> GroupId {
    GroupId::parse(name).expect("a group's id")
}
