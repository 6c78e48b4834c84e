//! What is over and was handed over leaves the memory: after an hour, or sooner where there is too much of it, what was
//! read first (SC-23). Nothing goes that something still waits for, looks at or owes. It writes no record: facts that
//! nobody needs are let go, and a fold of the whole log has them all.

use std::collections::VecDeque;

use fanin_protocol::limits::{EVICT_STEP, EVICTS_PER_STEP, FINISHED_AGE, FINISHED_JOBS};
use fanin_protocol::spec::millis;
use fanin_protocol::{JobId, Record};

use crate::clock::Mono;
use crate::command::Refusal;
use crate::effect::{Effect, Forgotten};
use crate::fold::Near;
use crate::out::Out;
use crate::state::{Group, GroupKey, JobKey, SessionKey, State, Unreaped};

mod evicted;

use evicted::Evicted;

/// What may go, and what went.
#[derive(Clone, Default)]
pub(crate) struct Finished {
    /// Groups whose results were taken, and closed sessions without jobs.
    read: Line,
    /// Groups whose results nobody has taken, nor will.
    unread: Line,
    /// Jobs in these groups.
    jobs: usize,
    /// There came to be too many of them then: some go at the next tick.
    too_many_at: Option<Mono>,
    evicted: Evicted,
}

/// What goes in the order in which it came, and when each has to.
#[derive(Clone, Default)]
struct Line {
    things: VecDeque<(Mono, Done)>,
    /// So many of them are still to be looked at before this tick and those that follow it at once are done. Each line has
    /// its own: one of which nothing can go does not keep the other.
    left: usize,
}

/// Something that is over.
#[derive(Debug, Clone, Copy)]
enum Done {
    Group(GroupKey),
    Session(SessionKey),
}

// It says nothing of what is still to be decided.
impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Finished {
    /// When the next has to go.
    pub(crate) fn next(&self) -> Option<Mono> {
        let fronts = [self.read.things.front(), self.unread.things.front()];
        fronts.into_iter().flatten().map(|(at, _)| *at).chain(self.too_many_at).min()
    }

    const fn line(&mut self, is_read: bool) -> &mut Line {
        if is_read { &mut self.read } else { &mut self.unread }
    }
}

impl Line {
    /// True where its first thing has to go and was not looked at yet.
    fn goes(&self, now: Mono, is_too_many: bool) -> bool {
        self.left > 0 && self.things.front().is_some_and(|(at, _)| is_too_many || *at <= now)
    }
}

/// When what is over now goes: on a full minute, so that many go at one alarm.
fn leaves_at(now: Mono) -> Mono {
    let step = millis(EVICT_STEP);
    Mono((now.0 + millis(FINISHED_AGE)).div_ceil(step) * step)
}

impl State {
    /// When the next timer is due, but for when what is over leaves the memory: that changes nothing that a test of rules
    /// looks at.
    pub fn next_timer(&self) -> Option<Mono> {
        self.memory.timers.next()
    }

    /// Why an id is not found.
    pub fn no_job(&self, id: &JobId) -> Refusal {
        if self.memory.finished.evicted.contains(id) {
            Refusal::Expired(id.clone())
        } else {
            Refusal::UnknownJob(id.clone())
        }
    }
}

/// True where nothing more will come of the group, and nothing is owed.
pub(crate) fn is_done(group: &Group) -> bool {
    group.taken || group.voided.is_some() && group.counts.ended() == group.counts.launched
}

/// A record was written: something may be over with it.
pub(crate) fn after(state: &mut State, record: &Record, hint: Near) {
    match record {
        Record::MessageTaken(taken) => {
            for id in &taken.keys {
                if let Some(key) = state.facts.group_key(id) {
                    done(state, key);
                }
            }
        }
        Record::GroupVoided(voided) => {
            if let Some(key) = state.facts.group_key(&voided.group) {
                done(state, key);
            }
        }
        Record::JobEnded(ended) => {
            // Each job ends once, and its writer knows where it is: the way over its id would be a look into a large table.
            let key = hint.job().or_else(|| state.facts.job_key(&ended.job));
            let group = key.and_then(|key| state.job(key)).map(|job| job.group);
            if let Some(key) =
                group.filter(|key| state.group(*key).is_some_and(|group| group.voided.is_some()))
            {
                done(state, key);
            }
        }
        Record::SessionClosed(closed) => {
            if let Some(key) = state.facts.session_key(&closed.session) {
                done_session(state, key);
            }
        }
        _ => {}
    }
}

/// All that is over already when an epoch begins.
pub(crate) fn begin(state: &mut State) {
    // What the opening itself has closed is among all of it.
    state.memory.finished = Finished::default();
    for key in state.facts.groups.places() {
        done(state, GroupKey(key));
    }
    for key in state.facts.sessions.places().into_iter().map(SessionKey) {
        done_session(state, key);
    }
}

fn done(state: &mut State, key: GroupKey) {
    let Some(group) = state.group(key).filter(|group| is_done(group)) else { return };
    // Of what is void nobody has read anything.
    let (is_read, jobs) = (group.voided.is_none() && !group.void, group.members.len());
    let now = state.memory.clock.mono();
    let finished = &mut state.memory.finished;
    finished.jobs += jobs;
    if finished.jobs > FINISHED_JOBS {
        finished.too_many_at.get_or_insert(now);
    }
    keep(state, Done::Group(key), is_read);
}

/// A closed session goes once none of its jobs is left: until then it is not looked at.
fn done_session(state: &mut State, key: SessionKey) {
    if state.session(key).is_some_and(|session| session.closed && session.jobs == 0) {
        keep(state, Done::Session(key), true);
    }
}

fn keep(state: &mut State, thing: Done, is_read: bool) {
    let at = leaves_at(state.memory.clock.mono());
    state.memory.finished.line(is_read).things.push_back((at, thing));
}

/// A tick begins to let go, and no other step: whoever takes a large result does not wait until its jobs are gone.
pub(crate) fn tick(state: &mut State) {
    let finished = &mut state.memory.finished;
    finished.too_many_at = None;
    // Each is looked at once: what something still looks at goes to the end, and must not come round again at once.
    for line in [&mut finished.read, &mut finished.unread] {
        if line.left == 0 {
            line.left = line.things.len();
        }
    }
}

/// Lets the next thing go that has to; false where there is none, or this step's share is done.
pub(crate) fn next(state: &mut State, gone: &mut usize, out: &mut Out) -> bool {
    if *gone >= EVICTS_PER_STEP {
        return false;
    }
    let now = state.memory.clock.mono();
    let finished = &mut state.memory.finished;
    let is_too_many = finished.jobs > FINISHED_JOBS;
    let is_read = finished.read.goes(now, is_too_many);
    if !is_read && !finished.unread.goes(now, is_too_many) {
        (finished.read.left, finished.unread.left) = (0, 0);
        return false;
    }
    let line = finished.line(is_read);
    let Some((_, thing)) = line.things.pop_front() else { return false };
    line.left -= 1;
    *gone += 1;
    let is_gone = match thing {
        Done::Group(key) => group(state, key, gone, out),
        Done::Session(key) => session(state, key),
    };
    if is_gone == Some(false) {
        // Something looks at it: it goes on from here as if it were over only now.
        keep(state, thing, is_read);
    }
    true
}

/// True where this step's share was not enough.
pub(crate) const fn is_unfinished(state: &State) -> bool {
    state.memory.finished.read.left + state.memory.finished.unread.left > 0
}

/// Lets a group and its jobs go. `Some(false)` where something still looks at one of them, `None` where it was gone.
fn group(state: &mut State, key: GroupKey, gone: &mut usize, out: &mut Out) -> Option<bool> {
    let members = state.group(key)?.members.clone();
    let is_looked_at = state.memory.group_waiters.contains_key(&key)
        || state.memory.offered.contains_key(&key)
        || members.iter().any(|member| is_looked_at(state, *member));
    if is_looked_at {
        return Some(false);
    }
    *gone += members.len();
    state.memory.finished.jobs = state.memory.finished.jobs.saturating_sub(members.len());
    for member in members {
        job(state, member, out);
    }
    state.facts.forget_group(key);
    state.memory.barriers.remove(&key);
    Some(true)
}

fn is_looked_at(state: &State, key: JobKey) -> bool {
    let memory = &state.memory;
    memory.job_waiters.contains_key(&key)
        || matches!(memory.unreaped.get(&key), Some(Unreaped::Runs(_)))
        || memory.waits_of.contains_key(&key)
        || memory.takers.contains_key(&crate::state::Node::Job(key))
}

fn job(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.facts.forget_job(key) else { return };
    state.memory.tags.remove(key.index());
    state.memory.repeats.remove(&key);
    state.memory.unreaped.remove(&key);
    state.memory.finished.evicted.insert(&job.id);
    out.effect(Effect::Forget(Forgotten::Output(job.lifetime)));
    done_session(state, job.session);
}

/// Lets a closed session go once nothing of it is left.
fn session(state: &mut State, key: SessionKey) -> Option<bool> {
    let session = state.session(key)?;
    if session.jobs > 0 || !session.below.open.is_empty() || !session.below.inbox.is_empty() {
        return Some(false);
    }
    state.facts.forget_session(key);
    state.memory.takers.remove(&crate::state::Node::Session(key));
    Some(true)
}

#[cfg(test)]
mod tests {
    use fanin_protocol::limits::{EVICTED_IDS, FINISHED_JOBS};
    use fanin_protocol::record::Level;
    use fanin_protocol::{Bounds, GroupId, LogId, Policy, Profile, SessionId, SharedLimits, Status};

    use super::*;
    use crate::command::{
        Command, Ended, Launch, Member, Open, Parent, Report, Said, SessionCommand, SessionOpen, Take,
        WaiterId, Wanted,
    };
    use crate::effect::Answer;
    use crate::view::Held;
    use crate::{Now, step};

    fn go(state: &mut State, command: Command) -> Out {
        let mut out = Out::default();
        step(state, command, Now { wall_ms: 1_000, mono: Mono(1_000) }, &mut out);
        out
    }

    /// A state with a session that is open.
    fn opened() -> (State, SessionId) {
        let (mut state, session) = (State::default(), SessionId::parse("main").unwrap());
        let open = Open {
            log: LogId::parse("log").unwrap(),
            level: Level::Memory,
            slots: None,
            grace_ms: 0,
            seed: 0,
            rates: Vec::new(),
            sends_per_member: 0,
        };
        go(&mut state, Command::Open(open));
        open_session(&mut state, &session);
        (state, session)
    }

    fn open_session(state: &mut State, id: &SessionId) {
        let (id, profile, bounds) = (id.clone(), Profile::Operator, Bounds::default());
        go(state, Command::Session(SessionCommand::Open(SessionOpen { id, profile, bounds })));
    }

    fn id(n: usize) -> JobId {
        JobId::parse(&format!("job-{n}")).unwrap()
    }

    /// Launches these jobs as one group, and all of them end well.
    fn over(state: &mut State, parent: &Parent, group: &GroupId, jobs: std::ops::Range<usize>) {
        let member = |n| Member {
            id: id(n),
            is_fresh: true,
            again: false,
            label: None,
            spec: None,
            limits: SharedLimits::default(),
            tag: 1,
        };
        let (parent, group, members) = (parent.clone(), group.clone(), jobs.clone().map(member).collect());
        let (is_fresh, joins_turn, policy, foreground) = (true, false, Policy::ALL, None);
        let edges = None;
        let launch = Launch { parent, group, is_fresh, joins_turn, policy, edges, foreground, members };
        let mut out = go(state, Command::Launch(launch));
        let mut runs = Vec::new();
        loop {
            runs.extend(out.effects.iter().filter_map(|effect| match effect {
                Effect::Spawn { run, .. } => Some(*run),
                _ => None,
            }));
            if !out.unfinished {
                break;
            }
            out = go(state, Command::Tick);
        }
        assert_eq!(runs.len(), jobs.len());
        for run in runs {
            let what = Said::Ended(Ended::Completed { output: None, exit: None, left: None });
            go(state, Command::Report(Report { run, what }));
        }
    }

    /// Ticks until all of what is due is done.
    fn tick_out(state: &mut State) {
        while go(state, Command::Tick).unfinished {}
    }

    /// A state in which more jobs than are kept are over, and a waiter has their result.
    fn too_many(id: WaiterId) -> State {
        let (mut state, session) = opened();
        let (parent, group) = (Parent::Session(session), GroupId::parse("g").unwrap());
        over(&mut state, &parent, &group, 0..FINISHED_JOBS + 1);
        go(&mut state, Command::Take(Take { waiter: id, wanted: Wanted::Group(parent, group) }));
        state
    }

    /// Entries of all that is kept by job or by group.
    fn entries(state: &State) -> Vec<usize> {
        let (facts, memory) = (&state.facts, &state.memory);
        vec![
            facts.jobs.places().len(),
            facts.groups.places().len(),
            facts.runs.len(),
            facts.posted.len(),
            facts.message_keys.order.len(),
            memory.ready.values().map(VecDeque::len).sum(),
            memory.round.len() + memory.in_round.len(),
            memory.tags.places().len(),
            memory.listening.len() + memory.noted.len(),
            memory.unreaped.len(),
            memory.finished.read.things.len() + memory.finished.unread.things.len(),
        ]
    }

    // B47: what is kept of jobs that are over does not grow with their number.
    #[test]
    fn of_a_hundred_thousand_jobs_no_more_is_kept_than_of_ten_thousand() {
        const GROUP: usize = 100;
        let (mut state, session) = opened();
        let parent = Parent::Session(session);
        let group = |n: usize| GroupId::parse(&format!("g-{n}")).unwrap();
        // Owed all the time.
        let owed = group(0);
        over(&mut state, &parent, &owed, 0..GROUP);
        let mut at_ten_thousand = Vec::new();
        for (n, first) in (GROUP..100_000).step_by(GROUP).enumerate() {
            let (group, waiter) = (group(n + 1), WaiterId(n as u64));
            over(&mut state, &parent, &group, first..first + GROUP);
            let wanted = Wanted::Group(parent.clone(), group);
            go(&mut state, Command::Take(Take { waiter, wanted }));
            go(&mut state, Command::Ack(waiter));
            tick_out(&mut state);
            assert!(state.facts.jobs.places().len() <= FINISHED_JOBS + GROUP, "{n}");
            if first + GROUP == FINISHED_JOBS + GROUP {
                at_ten_thousand = entries(&state);
            }
        }
        assert_eq!(entries(&state), at_ten_thousand);
        assert_eq!(at_ten_thousand[0], FINISHED_JOBS + GROUP, "the measure is of what is full");
        let held = state.held();
        assert_eq!(
            (held.timers, Held { timers: 0, ..held }),
            (1, Held::default()),
            "one looks for quiet groups"
        );

        // What is owed is there, and what went is told from what never was, as long as it is known.
        assert_eq!(state.job_info(&id(0)).map(|job| job.status), Some(Status::Completed));
        let kept = 100_000 - FINISHED_JOBS;
        assert!(state.job_info(&id(kept)).is_some() && state.job_info(&id(kept - 1)).is_none());
        for (gone, is_known) in
            [(kept - 1, true), (kept - EVICTED_IDS, true), (kept - EVICTED_IDS - 1, false)]
        {
            let expected = if is_known { Refusal::Expired(id(gone)) } else { Refusal::UnknownJob(id(gone)) };
            assert_eq!(state.no_job(&id(gone)), expected);
        }
        let finished = &state.memory.finished;
        assert_eq!(finished.evicted.len(), EVICTED_IDS);
        // A get looks at the one job, and at another one only where their hashes meet.
        let mut looks = 0;
        for n in kept..100_000 {
            let is = |key: JobKey| state.job(key).is_some_and(|job| job.id == id(n));
            let found = state.facts.job_index.get(&id(n), |key| {
                looks += 1;
                is(key)
            });
            assert!(found.is_some());
        }
        assert!(looks <= FINISHED_JOBS + 10, "{looks}");
        // What was owed can be taken.
        let (waiter, wanted) = (WaiterId(u64::MAX), Wanted::Group(parent, owed));
        let taken = go(&mut state, Command::Take(Take { waiter, wanted }));
        assert!(taken.effects.iter().any(|effect| matches!(
            effect,
            Effect::Answer { answer: Answer::Group { result, .. }, .. } if result.counts.completed as usize == GROUP
        )));
    }

    #[test]
    fn who_takes_a_large_result_does_not_wait_until_its_jobs_are_gone() {
        let id = WaiterId(1);
        let mut state = too_many(id);
        let taken = go(&mut state, Command::Ack(id));
        assert_eq!(
            state.facts.jobs.places().len(),
            FINISHED_JOBS + 1,
            "the step that took it lets nothing go"
        );
        assert!(taken.effects.iter().any(|effect| matches!(effect, Effect::Alarm(Some(Mono(1_000))))));
        go(&mut state, Command::Tick);
        assert_eq!(state.facts.jobs.places().len(), 0, "the alarm of now does");
    }

    #[test]
    fn what_is_looked_at_is_looked_over_once_a_tick() {
        let id = WaiterId(1);
        let mut state = too_many(id);
        go(&mut state, Command::Ack(id));
        let group = GroupId::parse("g").unwrap();
        let parent = Parent::Session(SessionId::parse("main").unwrap());
        go(&mut state, Command::Take(Take { waiter: WaiterId(2), wanted: Wanted::Group(parent, group) }));
        // What was owed to a session that is closed now is void.
        let other = SessionId::parse("other").unwrap();
        open_session(&mut state, &other);
        let (parent, group) = (Parent::Session(other.clone()), GroupId::parse("void").unwrap());
        over(&mut state, &parent, &group, FINISHED_JOBS + 1..FINISHED_JOBS + 2);
        go(&mut state, Command::Session(SessionCommand::Close(other)));
        let ticked = go(&mut state, Command::Tick);
        assert_eq!(state.facts.jobs.places().len(), FINISHED_JOBS + 1, "it goes beside what stays");
        assert!(!ticked.unfinished, "another tick at once would find the same");
    }
}
