//! What is over and was handed over leaves the memory: after an hour, or sooner where there is too much of it, what was
//! read first (SC-23). Nothing goes that something still waits for, looks at or owes. It writes no record: facts that
//! nobody needs are let go, and a fold of the whole log has them all.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use fanin_protocol::limits::{EVICT_STEP, EVICTED_IDS, EVICTS_PER_STEP, FINISHED_AGE, FINISHED_JOBS};
use fanin_protocol::spec::millis;
use fanin_protocol::{JobId, Record};

use crate::clock::Mono;
use crate::command::Refusal;
use crate::effect::{Effect, Forgotten};
use crate::fold::Near;
use crate::out::Out;
use crate::state::{Group, GroupKey, JobKey, SessionKey, State};

/// What may go, and what went.
#[derive(Clone, Default)]
pub(crate) struct Finished {
    /// Groups whose results were taken, and closed sessions, oldest first.
    read: VecDeque<(Mono, Done)>,
    /// Groups whose results nobody will take, oldest first.
    unread: VecDeque<(Mono, Done)>,
    /// Jobs in these groups.
    jobs: usize,
    /// There came to be too many of them then: some go at the next tick.
    too_many_at: Option<Mono>,
    /// So many of the things above are still to be looked at before this tick and those that follow it at once are done.
    left: usize,
    evicted: Evicted,
}

/// Something that is over.
#[derive(Debug, Clone, Copy)]
enum Done {
    Group(GroupKey),
    Session(SessionKey),
}

/// The ids of the jobs that went last, by their hashes: enough to tell `expired` from `unknown`.
#[derive(Clone, Default)]
struct Evicted {
    hasher: RandomState,
    /// By each hash, when it went last: the number of its newest place in `order`.
    known: HashMap<u64, u64>,
    /// Oldest first.
    order: VecDeque<u64>,
    /// The number of the next place.
    next: u64,
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
        let fronts = [self.read.front(), self.unread.front()];
        fronts.into_iter().flatten().map(|(at, _)| *at).chain(self.too_many_at).min()
    }
}

/// When what is over now goes: on a full minute, so that many go at one alarm.
fn leaves_at(now: Mono) -> Mono {
    let step = millis(EVICT_STEP);
    Mono((now.0 + millis(FINISHED_AGE)).div_ceil(step) * step)
}

impl Evicted {
    fn insert(&mut self, id: &JobId) {
        let hash = self.hasher.hash_one(id);
        self.known.insert(hash, self.next);
        self.order.push_back(hash);
        self.next += 1;
        if self.order.len() > EVICTED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            // An id whose newer life went later stays.
            let place = self.next - self.order.len() as u64 - 1;
            if self.known.get(&oldest) == Some(&place) {
                self.known.remove(&oldest);
            }
        }
    }

    fn contains(&self, id: &JobId) -> bool {
        self.known.contains_key(&self.hasher.hash_one(id))
    }
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
                keep(state, Done::Session(key), true);
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
        if state.session(key).is_some_and(|session| session.closed) {
            keep(state, Done::Session(key), true);
        }
    }
}

fn done(state: &mut State, key: GroupKey) {
    let Some(group) = state.group(key).filter(|group| is_done(group)) else { return };
    let (is_read, jobs) = (group.voided.is_none(), group.members.len());
    let now = state.memory.clock.mono();
    let finished = &mut state.memory.finished;
    finished.jobs += jobs;
    if finished.jobs > FINISHED_JOBS {
        finished.too_many_at.get_or_insert(now);
    }
    keep(state, Done::Group(key), is_read);
}

fn keep(state: &mut State, thing: Done, is_read: bool) {
    let at = leaves_at(state.memory.clock.mono());
    let finished = &mut state.memory.finished;
    let queue = if is_read { &mut finished.read } else { &mut finished.unread };
    queue.push_back((at, thing));
}

/// A tick begins to let go, and no other step: whoever takes a large result does not wait until its jobs are gone.
pub(crate) fn tick(state: &mut State) {
    let finished = &mut state.memory.finished;
    finished.too_many_at = None;
    // Each is looked at once: what something still looks at goes to the end, and must not come round again at once.
    if finished.left == 0 {
        finished.left = finished.read.len() + finished.unread.len();
    }
}

/// Lets the next thing go that has to; false where there is none, or this step's share is done.
pub(crate) fn next(state: &mut State, gone: &mut usize, out: &mut Out) -> bool {
    let now = state.memory.clock.mono();
    let finished = &mut state.memory.finished;
    if *gone >= EVICTS_PER_STEP || finished.left == 0 {
        return false;
    }
    let is_too_many = finished.jobs > FINISHED_JOBS;
    let goes = |queue: &VecDeque<(Mono, Done)>| queue.front().is_some_and(|(at, _)| *at <= now);
    let queue = if goes(&finished.read) || is_too_many && !finished.read.is_empty() {
        &mut finished.read
    } else if goes(&finished.unread) || is_too_many {
        &mut finished.unread
    } else {
        finished.left = 0;
        return false;
    };
    let Some((_, thing)) = queue.pop_front() else {
        finished.left = 0;
        return false;
    };
    *gone += 1;
    finished.left -= 1;
    let is_gone = match thing {
        Done::Group(key) => group(state, key, gone, out),
        Done::Session(key) => session(state, key),
    };
    if is_gone == Some(false) {
        // Something looks at it: it goes on from here as if it were over only now.
        let at = leaves_at(now);
        let finished = &mut state.memory.finished;
        match thing {
            Done::Group(key)
                if state.facts.groups.get(key.index()).is_some_and(|group| group.voided.is_some()) =>
            {
                finished.unread.push_back((at, thing));
            }
            Done::Group(_) | Done::Session(_) => finished.read.push_back((at, thing)),
        }
    }
    true
}

/// True where this step's share was not enough.
pub(crate) const fn is_unfinished(state: &State) -> bool {
    state.memory.finished.left > 0
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
        || memory.unreaped.get(&key).is_some_and(Option::is_some)
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
    use fanin_protocol::limits::FINISHED_JOBS;
    use fanin_protocol::record::Level;
    use fanin_protocol::{Bounds, GroupId, LogId, Policy, Profile, SessionId, SharedLimits};

    use super::*;
    use crate::command::{
        Command, Ended, Launch, Member, Open, Parent, Report, Said, SessionCommand, SessionOpen, Take,
        WaiterId, Wanted,
    };
    use crate::{Now, step};

    fn go(state: &mut State, command: Command) -> Out {
        let mut out = Out::default();
        step(state, command, Now { wall_ms: 1_000, mono: Mono(1_000) }, &mut out);
        out
    }

    /// A state in which more jobs than are kept are over, and a waiter has their result.
    fn too_many(id: WaiterId) -> State {
        let (mut state, session) = (State::default(), SessionId::parse("main").unwrap());
        let open = Open {
            log: LogId::parse("log").unwrap(),
            level: Level::Memory,
            slots: None,
            grace_ms: 0,
            seed: 0,
            rates: Vec::new(),
        };
        go(&mut state, Command::Open(open));
        let (profile, bounds) = (Profile::Operator, Bounds::default());
        let open = SessionOpen { id: session.clone(), profile, bounds };
        go(&mut state, Command::Session(SessionCommand::Open(open)));
        let member = |n| Member {
            id: JobId::parse(&format!("job-{n}")).unwrap(),
            is_fresh: true,
            again: false,
            label: None,
            spec: None,
            limits: SharedLimits::default(),
            tag: 0,
        };
        let (parent, group) = (Parent::Session(session), GroupId::parse("g").unwrap());
        let launch = Launch {
            parent: parent.clone(),
            group: group.clone(),
            is_fresh: true,
            joins_turn: false,
            policy: Policy::ALL,
            foreground: None,
            members: (0..=FINISHED_JOBS).map(member).collect(),
        };
        let mut out = go(&mut state, Command::Launch(launch));
        let mut runs = Vec::new();
        loop {
            runs.extend(out.effects.iter().filter_map(|effect| match effect {
                Effect::Spawn { run, .. } => Some(*run),
                _ => None,
            }));
            if !out.unfinished {
                break;
            }
            out = go(&mut state, Command::Tick);
        }
        assert_eq!(runs.len(), FINISHED_JOBS + 1);
        for run in runs {
            let what = Said::Ended(Ended::Completed { output: None, exit: None, left: None });
            go(&mut state, Command::Report(Report { run, what }));
        }
        go(&mut state, Command::Take(Take { waiter: id, wanted: Wanted::Group(parent, group) }));
        state
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
        let ticked = go(&mut state, Command::Tick);
        assert_eq!(state.facts.jobs.places().len(), FINISHED_JOBS + 1);
        assert!(!ticked.unfinished, "another tick at once would find the same");
    }

    #[test]
    fn the_newest_evicted_ids_are_known_and_older_ones_are_not() {
        let id = |n: usize| JobId::parse(&format!("job-{n}")).unwrap();
        let mut evicted = Evicted::default();
        (0..=EVICTED_IDS).for_each(|n| evicted.insert(&id(n)));
        assert!(!evicted.contains(&id(0)) && evicted.contains(&id(1)), "one too many, and the oldest went");
        // A newer life of the oldest goes: it is the newest now.
        evicted.insert(&id(1));
        (0..EVICTED_IDS - 1).for_each(|n| evicted.insert(&id(EVICTED_IDS + 1 + n)));
        assert!(evicted.contains(&id(1)), "it went among the last");
        evicted.insert(&id(3 * EVICTED_IDS));
        assert!(!evicted.contains(&id(1)), "it went too long ago");
        assert_eq!((evicted.known.len(), evicted.order.len()), (EVICTED_IDS, EVICTED_IDS));
    }
}
