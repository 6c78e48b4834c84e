//! Who waits for what, in memory only. A crash, a limit, a dropped future and a lost connection are one thing: the
//! waiter left (BAR-12).

use std::collections::BTreeSet;
use std::sync::Arc;

use fanin_protocol::limits::RESULT_BYTES_MAX;
use fanin_protocol::{JobId, Lifetime, ResultEntry, Seq};

use crate::command::{Parent, Refusal, Reply, Take, WaiterId, Wanted};
use crate::effect::{Answer, Effect};
use crate::foreground;
use crate::inbox;
use crate::launch;
use crate::lend;
use crate::out::Out;
use crate::result;
use crate::state::{GroupKey, JobKey, Node, State};
use crate::{mail, session, tree, view};

/// A live waiter.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    pub(crate) wants: Wants,
    /// Of a wait for all: so many of its jobs, from the first on, are over. Each is asked once, so that a long list
    /// whose jobs end one by one costs no more than its length.
    pub(crate) over: usize,
    /// What it was given and has not acknowledged.
    pub(crate) offer: Option<Offer>,
    /// What it waits for is there, and is held until its run has its slot again (SC-10).
    pub(crate) due: bool,
}

/// What it waits for.
#[derive(Debug, Clone)]
pub(crate) enum Wants {
    /// All of these jobs, or the first of them.
    Jobs { by: Node, jobs: Vec<JobKey>, any: bool },
    /// A group's result, in the foreground where the wait began with the launch.
    Group { by: Node, group: GroupKey, is_foreground: bool },
    /// That no foreground call waits for the job, which is of this group.
    Background { job: JobKey, group: GroupKey },
    /// The next result of an inbox.
    Wake(Node),
    /// The next message of an inbox, whatever it is.
    Message(Node),
    /// The next firing of a watch.
    Hit(Node),
    /// The next mail for a member, from the one at this place of its group where that is said.
    Mail { by: JobKey, from: Option<u32> },
    /// That no run is open.
    Idle,
}

/// What an acknowledgement will take.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    /// Single results.
    pub(crate) results: Vec<JobKey>,
    /// The message of a fired group.
    pub(crate) message: Option<GroupKey>,
    /// A posted message.
    pub(crate) post: Option<(Node, Seq)>,
    /// A mail, by its number in its team.
    pub(crate) mail: Option<u64>,
}

/// Begins to wait. Where the condition is true already the answer comes in this step.
pub(crate) fn take(state: &mut State, take: Take, out: &mut Out) -> Result<Reply, Refusal> {
    let id = take.waiter;
    check_new(state, id)?;
    let wants = match take.wanted {
        Wanted::All(by, jobs) => jobs_wanted(state, &by, &jobs, false)?,
        Wanted::Any(by, jobs) => jobs_wanted(state, &by, &jobs, true)?,
        Wanted::Exact(by, job, lifetime) => exact_wanted(state, &by, &job, lifetime)?,
        Wanted::Group(by, group) => {
            let (by, group) = (tree::find_reader(state, &by)?, launch::find_group(state, &group)?);
            tree::check_waits(state, by, |job| state.job(job).is_some_and(|job| job.group == group))?;
            Wants::Group { by, group, is_foreground: false }
        }
        Wanted::Wake(by) => {
            let by = tree::find(state, &by)?;
            tree::check_stays(state, by)?;
            Wants::Wake(by)
        }
        Wanted::Mail { by, from, at_once } => {
            return mail::receive(state, id, (&by, from.as_deref(), at_once), out);
        }
        Wanted::Message(id) => Wants::Message(Node::Session(session::find(state, &id)?)),
        Wanted::Hit(id) => Wants::Hit(Node::Session(session::find(state, &id)?)),
        Wanted::Background(id, lifetime) => {
            let job = view::exact(state, &id, lifetime)?;
            let group = state.job(job).ok_or_else(|| state.no_job(&id))?.group;
            Wants::Background { job, group }
        }
        Wanted::Idle => Wants::Idle,
    };
    begin(state, id, wants, out);
    Ok(Reply::Done)
}

/// Refuses a name that is in use.
pub(crate) fn check_new(state: &State, id: WaiterId) -> Result<(), Refusal> {
    if state.memory.waiters.contains_key(&id) { Err(Refusal::DuplicateWaiter(id)) } else { Ok(()) }
}

/// Begins to wait for what was found.
pub(crate) fn begin(state: &mut State, id: WaiterId, wants: Wants, out: &mut Out) {
    register(state, id, &wants);
    state.memory.waiters.insert(id, Waiter { wants: wants.clone(), over: 0, offer: None, due: false });
    // At once, also from the inbox: a run that is answered at once lends no slot.
    match wants.by() {
        Some(Node::Job(by)) => lend::look_again(state, by, Some(id), out),
        Some(Node::Session(_)) | None => look_again(state, id, out),
    }
}

/// Answers a waiter where what it waits for is there.
pub(crate) fn look_again(state: &mut State, id: WaiterId, out: &mut Out) {
    let Some(waiter) = state.memory.waiters.get(&id) else { return };
    match waiter.wants {
        Wants::Jobs { .. } => answer_jobs(state, id, out),
        Wants::Group { group, .. } => group_over(state, group, out),
        Wants::Background { .. } => foreground::look(state, id, out),
        Wants::Wake(by) | Wants::Message(by) | Wants::Hit(by) => inbox::settle(state, by, out),
        Wants::Mail { by, .. } => mail::settle(state, Node::Job(by), out),
        Wants::Idle => {}
    }
}

fn jobs_wanted(state: &State, by: &Parent, ids: &[JobId], any: bool) -> Result<Wants, Refusal> {
    let by = tree::find(state, by)?;
    if ids.is_empty() {
        return Err(Refusal::Empty);
    }
    let mut seen = BTreeSet::new();
    let mut jobs = Vec::with_capacity(ids.len());
    for id in ids {
        let key = state.facts.job_key(id).ok_or_else(|| state.no_job(id))?;
        if !seen.insert(key) {
            return Err(Refusal::DuplicateId(id.clone()));
        }
        jobs.push(key);
    }
    tree::check_waits(state, by, |job| seen.contains(&job))?;
    Ok(Wants::Jobs { by, jobs, any })
}

impl Wants {
    /// Who waits.
    pub(crate) const fn by(&self) -> Option<Node> {
        match self {
            Self::Jobs { by, .. }
            | Self::Group { by, .. }
            | Self::Wake(by)
            | Self::Message(by)
            | Self::Hit(by) => Some(*by),
            Self::Mail { by, .. } => Some(Node::Job(*by)),
            Self::Background { .. } | Self::Idle => None,
        }
    }
}

fn exact_wanted(state: &State, by: &Parent, id: &JobId, lifetime: Lifetime) -> Result<Wants, Refusal> {
    let by = tree::find(state, by)?;
    let job = view::exact(state, id, lifetime)?;
    tree::check_waits(state, by, |above| above == job)?;
    Ok(Wants::Jobs { by, jobs: vec![job], any: false })
}

fn register(state: &mut State, id: WaiterId, wants: &Wants) {
    if let Some(Node::Job(by)) = wants.by() {
        state.memory.waits_of.entry(by).or_default().push(id);
        state.memory.dirty.lends.push_back(by);
    }
    match wants {
        Wants::Jobs { jobs, .. } => {
            for job in jobs {
                state.memory.job_waiters.entry(*job).or_default().push(id);
            }
        }
        Wants::Group { group, .. } => state.memory.group_waiters.entry(*group).or_default().push(id),
        Wants::Background { job, group } => {
            state.memory.job_waiters.entry(*job).or_default().push(id);
            state.memory.group_waiters.entry(*group).or_default().push(id);
        }
        Wants::Wake(by) | Wants::Message(by) | Wants::Hit(by) => {
            state.memory.takers.entry(*by).or_default().push_back(id)
        }
        Wants::Mail { .. } => {}
        Wants::Idle => state.memory.idle_waiters.push(id),
    }
}

/// Forgets a waiter, whatever it waited for or was offered.
pub(crate) fn forget(state: &mut State, id: WaiterId) -> Option<Waiter> {
    let waiter = state.memory.waiters.remove(&id)?;
    if let Some(Node::Job(by)) = waiter.wants.by() {
        remove_from(&mut state.memory.waits_of, by, id);
        state.memory.dirty.lends.push_back(by);
    }
    match &waiter.wants {
        Wants::Jobs { jobs, .. } => {
            for job in jobs {
                remove_from(&mut state.memory.job_waiters, *job, id);
            }
        }
        Wants::Group { group, is_foreground, .. } => {
            remove_from(&mut state.memory.group_waiters, *group, id);
            if *is_foreground {
                state.memory.dirty.calls.push(*group);
            }
        }
        Wants::Background { job, group } => {
            remove_from(&mut state.memory.job_waiters, *job, id);
            remove_from(&mut state.memory.group_waiters, *group, id);
        }
        Wants::Wake(by) | Wants::Message(by) | Wants::Hit(by) => {
            if let Some(takers) = state.memory.takers.get_mut(by) {
                takers.retain(|taker| *taker != id);
                if takers.is_empty() {
                    state.memory.takers.remove(by);
                }
            }
        }
        Wants::Mail { by, .. } => {
            if let Some(number) = waiter.offer.as_ref().and_then(|offer| offer.mail) {
                mail::give_back(state, *by, number);
            }
        }
        Wants::Idle => state.memory.idle_waiters.retain(|waiter| *waiter != id),
    }
    if let Some(message) = waiter.offer.as_ref().and_then(|offer| offer.message)
        && state.memory.offered.get(&message) == Some(&id)
    {
        state.memory.offered.remove(&message);
    }
    if let Some(post) = waiter.offer.as_ref().and_then(|offer| offer.post) {
        state.memory.offered_posts.remove(&post);
    }
    Some(waiter)
}

fn remove_from<K: Ord>(map: &mut std::collections::BTreeMap<K, Vec<WaiterId>>, key: K, id: WaiterId) {
    if let Some(waiters) = map.get_mut(&key) {
        waiters.retain(|waiter| *waiter != id);
        if waiters.is_empty() {
            map.remove(&key);
        }
    }
}

/// The waiter left: what it held goes to the next in line, else stays owed.
pub(crate) fn release(state: &mut State, id: WaiterId) -> Result<Reply, Refusal> {
    if let Some(waiter) = forget(state, id) {
        wake_inbox(state, &waiter);
    }
    Ok(Reply::Done)
}

/// Lets the inbox of the one who waited look again.
pub(crate) fn wake_inbox(state: &mut State, waiter: &Waiter) {
    state.memory.dirty.inboxes.extend(waiter.wants.by());
}

/// A job's run is over: it waits for nothing any more, and what it holds stays owed.
pub(crate) fn run_over(state: &mut State, key: JobKey, out: &mut Out) {
    lend::run_over(state, key);
    for id in state.memory.waits_of.get(&key).cloned().unwrap_or_default() {
        if forget(state, id).is_some_and(|waiter| waiter.offer.is_none()) {
            out.effect(Effect::Answer { waiter: id, answer: Answer::Closed });
        }
    }
}

/// A job is over: answers the waits that this makes true.
pub(crate) fn job_ended(state: &mut State, key: JobKey, out: &mut Out) {
    for id in state.memory.job_waiters.get(&key).cloned().unwrap_or_default() {
        answer_jobs(state, id, out);
        foreground::look(state, id, out);
    }
}

/// Answers a wait for jobs once its condition is true, and only once.
fn answer_jobs(state: &mut State, id: WaiterId, out: &mut Out) {
    let Some(waiter) = state.memory.waiters.get_mut(&id) else { return };
    let Wants::Jobs { by, jobs, any } = &waiter.wants else { return };
    if waiter.offer.is_some() {
        return;
    }
    let all = &state.facts.jobs;
    let is_over = |key: &JobKey| all.get(key.index()).is_some_and(|job| job.ended.is_some());
    // A wait for any is over with the first; for all, one that is open is enough to go on waiting.
    let over: Vec<JobKey> = if *any {
        jobs.iter().copied().filter(is_over).collect()
    } else {
        waiter.over += jobs.iter().skip(waiter.over).take_while(|key| is_over(key)).count();
        if waiter.over < jobs.len() {
            return;
        }
        jobs.clone()
    };
    let by = *by;
    if over.is_empty() || lend::defers(state, id) {
        return;
    }
    let owed = over.iter().copied().filter(|key| is_owed(state, *key));
    // A wait of another parent only looks on: what it is told is not taken from the one it is owed to.
    let (results, others): (Vec<JobKey>, Vec<JobKey>) =
        owed.partition(|key| state.facts.parent(Node::Job(*key)) == Some(by));
    let already_delivered = results.is_empty() && others.is_empty();
    let share = RESULT_BYTES_MAX / over.len().max(1);
    let entries = over
        .iter()
        .filter_map(|key| {
            let reference = !is_owed(state, *key);
            result::entry(state, *key, share).map(|entry| ResultEntry { reference, ..entry })
        })
        .collect();
    offer(state, id, Offer { results, ..Offer::default() });
    out.effect(Effect::Answer { waiter: id, answer: Answer::Jobs { entries, already_delivered } });
}

/// A group fired, was voided, or somebody asks for it again: answers those who wait for it.
pub(crate) fn group_over(state: &mut State, key: GroupKey, out: &mut Out) {
    let Some(answer) = group_answer(state, key) else { return };
    for id in state.memory.group_waiters.get(&key).cloned().unwrap_or_default() {
        let Some(waiter) = state.memory.waiters.get(&id).filter(|waiter| waiter.offer.is_none()) else {
            continue;
        };
        let Wants::Group { by, .. } = waiter.wants else { continue };
        // As with jobs: another parent only looks on.
        let is_own = state.group(key).is_some_and(|group| group.parent == by);
        if lend::defers(state, id) {
            continue;
        }
        match &answer {
            Answer::Group { already_delivered, .. } => {
                let message = (is_own && !already_delivered).then_some(key);
                offer(state, id, Offer { message, ..Offer::default() });
            }
            _ => drop(forget(state, id)),
        }
        out.effect(Effect::Answer { waiter: id, answer: answer.clone() });
    }
}

/// What a waiter for the group is told now; `None` while it has to wait.
pub(crate) fn group_answer(state: &State, key: GroupKey) -> Option<Answer> {
    let group = state.group(key)?;
    if group.voided.is_some() {
        return Some(Answer::Voided);
    }
    let result = Arc::clone(group.fired.as_ref()?);
    let already_delivered = group.taken || state.memory.offered.contains_key(&key);
    Some(Answer::Group { result, already_delivered })
}

fn offer(state: &mut State, id: WaiterId, offer: Offer) {
    if let Some(waiter) = state.memory.waiters.get_mut(&id) {
        waiter.offer = Some(offer);
    }
}

/// True where nobody has the job's result yet: neither a wait nor a wake took it, and no wake offers it now.
fn is_owed(state: &State, key: JobKey) -> bool {
    state.job(key).is_some_and(|job| !is_taken(state, key) && !state.memory.offered.contains_key(&job.group))
}

/// True where the result was taken, alone or with its group.
pub(crate) fn is_taken(state: &State, key: JobKey) -> bool {
    state.job(key).is_some_and(|job| job.taken || state.group(job.group).is_some_and(|group| group.taken))
}

/// True where every single result of the group was taken.
pub(crate) fn all_taken(state: &State, key: GroupKey) -> bool {
    state.group(key).is_some_and(|group| group.taken || group.results_taken == group.counts.launched)
}

/// True where a live waiter covers the group's message or holds one of its results: the message waits for it
/// (BAR-10).
pub(crate) fn holds(state: &State, key: GroupKey) -> bool {
    let Some(group) = state.group(key) else { return false };
    let by_group = state.memory.group_waiters.get(&key).is_some_and(|ids| {
        ids.iter().filter_map(|id| state.memory.waiters.get(id)).any(|waiter| match &waiter.offer {
            Some(offer) => offer.message == Some(key),
            // Its answer is held for the slot of its run.
            None => waiter.wants.by() == Some(group.parent),
        })
    });
    // Nobody looks at a job, most of the time: then no member is looked at either.
    let by_jobs = !state.memory.job_waiters.is_empty() && {
        let ids: BTreeSet<WaiterId> = group
            .members
            .iter()
            .filter_map(|member| state.memory.job_waiters.get(member))
            .flatten()
            .copied()
            .collect();
        ids.into_iter().any(|id| holds_results(state, id, key))
    };
    by_group || by_jobs
}

fn holds_results(state: &State, id: WaiterId, key: GroupKey) -> bool {
    let (Some(waiter), Some(group)) = (state.memory.waiters.get(&id), state.group(key)) else { return false };
    match (&waiter.wants, &waiter.offer) {
        (_, Some(offer)) => {
            offer.results.iter().any(|result| state.job(*result).is_some_and(|job| job.group == key))
        }
        (Wants::Jobs { by, any: false, .. }, None) => {
            *by == group.parent
                && group.members.iter().filter(|member| !is_taken(state, **member)).all(|member| {
                    state.memory.job_waiters.get(member).is_some_and(|waiters| waiters.contains(&id))
                })
        }
        (
            Wants::Jobs { .. }
            | Wants::Group { .. }
            | Wants::Background { .. }
            | Wants::Wake(_)
            | Wants::Message(_)
            | Wants::Hit(_)
            | Wants::Mail { .. }
            | Wants::Idle,
            None,
        ) => false,
    }
}
