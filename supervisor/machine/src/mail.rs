//! Mail between the members of a group with edges (T-5 to T-11). It lives in memory: no record tells of it, nothing of it
//! outlives its group, and no result depends on it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use fanin_protocol::limits::{MAIL_BYTES_MAX, MAIL_INBOX_MAX, MAIL_TEAM_BYTES_MAX, REASON_IDS_MAX};
use fanin_protocol::{Directions, JobId};

use crate::command::{Parent, Refusal, Reply, WaiterId};
use crate::effect::{Answer, Effect};
use crate::out::Out;
use crate::state::{GroupKey, JobKey, Node, State};
use crate::waiter::{self, Offer, Wants};
use crate::{lend, tree};

/// A mail as it is received. Its text is data of another job, and no instruction (SEC-9).
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    /// Who sent it.
    pub from: JobId,
    /// What its launcher calls that job: by its name in the group, else by its label.
    pub label: Option<Arc<str>>,
    /// What was sent.
    pub text: Arc<str>,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not its text: that is content (SEC-6).
        f.debug_struct("Mail")
            .field("from", &self.from)
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}

/// The mail of a group, from the first time that a member asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Team {
    directions: Directions,
    /// Places by names in the group and by labels; `None` where a label is that of several.
    labels: BTreeMap<Arc<str>, Option<u32>>,
    /// Members that have used mail, or were sent some.
    desks: BTreeMap<u32, Desk>,
    /// Text that waits.
    bytes: usize,
    /// The number of the last mail.
    last: u64,
}

/// What is kept for a member.
#[derive(Debug, Clone, Default)]
struct Desk {
    /// Mail for it, as it came.
    inbox: VecDeque<Letter>,
    /// How many it has sent.
    sent: u32,
    /// It knows that mail of an older epoch is gone.
    is_told: bool,
}

#[derive(Debug, Clone)]
struct Letter {
    number: u64,
    from: u32,
    text: Arc<str>,
    /// A waiter holds it and has not acknowledged it.
    is_offered: bool,
}

/// A member that asks.
#[derive(Debug, Clone, Copy)]
struct Asking {
    key: JobKey,
    group: GroupKey,
    place: u32,
}

/// Finds the member that asks, and lays out the mail of its group where nobody has asked before.
fn asking(state: &mut State, by: &Parent) -> Result<Asking, Refusal> {
    let node = tree::find(state, by)?;
    let Node::Job(key) = node else { return Err(Refusal::NoTeam) };
    let Some(job) = state.job(key) else { return Err(Refusal::NoTeam) };
    let (group, place) = (job.group, job.index);
    let Some((edges, members)) = state.group(group).and_then(|of| Some((of.edges.as_ref()?, &of.members)))
    else {
        return Err(Refusal::NoTeam);
    };
    tree::check_stays(state, node).map_err(|_| Refusal::MailboxClosed)?;
    if !state.memory.teams.contains_key(&group) {
        let mut labels = BTreeMap::new();
        for job in members.iter().filter_map(|key| state.job(*key)) {
            if let Some(label) = &job.label {
                let several = |known: &mut Option<u32>| *known = None;
                labels.entry(Arc::clone(label)).and_modify(several).or_insert(Some(job.index));
            }
        }
        labels.extend(edges.names().map(|(place, name)| (Arc::clone(name), Some(place))));
        let directions = Directions::of(edges, members.len());
        let team = Team { directions, labels, desks: BTreeMap::new(), bytes: 0, last: 0 };
        state.memory.teams.insert(group, team);
    }
    Ok(Asking { key, group, place })
}

/// The other member that a name means: an id, or else the label of one. An address is a name inside the group (T-9).
/// Those that mail could go to, or come from, are listed where there is none.
fn find(state: &State, me: Asking, name: &str, is_sender: bool) -> Result<(u32, JobKey), Refusal> {
    let team = state.memory.teams.get(&me.group);
    let by_id = JobId::parse(name).ok().and_then(|id| state.facts.job_key(&id));
    let by_id = by_id.filter(|key| state.job(*key).is_some_and(|job| job.group == me.group));
    let by_label = || member(state, me.group, (*team?.labels.get(name)?)?);
    let Some(key) = by_id.or_else(by_label) else {
        let known = reachable(state, me, is_sender).take(REASON_IDS_MAX).map(|key| called(state, key));
        return Err(Refusal::UnknownTarget { name: name.into(), known: known.collect() });
    };
    let place = state.job(key).map_or(me.place, |job| job.index);
    if key == me.key { Err(Refusal::SelfTarget(name.into())) } else { Ok((place, key)) }
}

/// Where the member at a place is.
fn member(state: &State, group: GroupKey, place: u32) -> Option<JobKey> {
    let members = &state.group(group)?.members;
    let index = |key: &JobKey| state.job(*key).map_or(0, |job| job.index);
    members.get(members.binary_search_by_key(&place, index).ok()?).copied()
}

/// Those to whom a member may send, or from whom it may receive.
fn reachable(state: &State, me: Asking, is_sender: bool) -> impl Iterator<Item = JobKey> {
    let team = state.memory.teams.get(&me.group);
    let all = state.group(me.group).into_iter().flat_map(|group| group.members.iter().copied());
    all.filter(move |key| {
        let place = state.job(*key).map(|job| job.index);
        let (from, to) = if is_sender { (Some(me.place), place) } else { (place, Some(me.place)) };
        from.zip(to).zip(team).is_some_and(|((from, to), team)| team.directions.allow(from, to))
    })
}

/// What a member is called: its name in the group, else its label, else its id.
fn called(state: &State, key: JobKey) -> Arc<str> {
    let id = || state.job(key).map_or_else(|| "".into(), |job| job.id.to_string().into());
    name(state, key).unwrap_or_else(id)
}

/// What its launcher calls a member.
fn name(state: &State, key: JobKey) -> Option<Arc<str>> {
    let job = state.job(key)?;
    let named = state.group(job.group).and_then(|group| group.edges.as_ref()?.name(job.index));
    named.or(job.label.as_ref()).cloned()
}

/// Refuses a way that mail does not go.
fn check_way(state: &State, group: GroupKey, (from, to): (u32, u32)) -> Result<(), Refusal> {
    let team = state.memory.teams.get(&group);
    if team.is_some_and(|team| team.directions.allow(from, to)) {
        return Ok(());
    }
    let called = |place| member(state, group, place).map_or_else(|| "".into(), |key| called(state, key));
    Err(Refusal::NotAllowed { from: called(from), to: called(to) })
}

/// True where no run of the job will send or receive any more. Between two tries it is not.
fn is_over(state: &State, key: JobKey) -> bool {
    state.job(key).is_none_or(|job| job.ended.is_some() || job.stop.is_some() || job.is_joining())
}

/// Puts a mail into the inbox of another member. It never waits: what has no room is refused (T-6).
pub(crate) fn send(state: &mut State, from: &Parent, to: &str, text: Arc<str>) -> Result<Reply, Refusal> {
    let me = asking(state, from)?;
    if text.len() > MAIL_BYTES_MAX {
        return Err(Refusal::TooLarge { index: None, bytes: text.len(), max: MAIL_BYTES_MAX });
    }
    let (to, target) = find(state, me, to, true)?;
    check_way(state, me.group, (me.place, to))?;
    let name = called(state, target);
    if is_over(state, target) {
        return Err(Refusal::TargetFinished(name));
    }
    let sends = state.memory.settings.sends_per_member;
    let Some(team) = state.memory.teams.get_mut(&me.group) else { return Err(Refusal::MailboxClosed) };
    if team.desks.get(&me.place).map_or(0, |desk| desk.sent) >= sends {
        return Err(Refusal::SendsSpent(sends));
    }
    if team.desks.get(&to).is_some_and(|desk| desk.inbox.len() >= MAIL_INBOX_MAX) {
        return Err(Refusal::MailboxFull(format!("{MAIL_INBOX_MAX} mails wait for `{name}`")));
    }
    if team.bytes + text.len() > MAIL_TEAM_BYTES_MAX {
        let most = MAIL_TEAM_BYTES_MAX >> 20;
        return Err(Refusal::MailboxFull(format!("the mail that waits in this group has {most} MiB")));
    }
    team.bytes += text.len();
    team.last += 1;
    team.desks.entry(me.place).or_default().sent += 1;
    let letter = Letter { number: team.last, from: me.place, text, is_offered: false };
    team.desks.entry(to).or_default().inbox.push_back(letter);
    state.memory.dirty.inboxes.push_back(Node::Job(target));
    Ok(Reply::Done)
}

/// Begins to wait for mail, or takes what is there.
pub(crate) fn receive(
    state: &mut State,
    id: WaiterId,
    (by, from, at_once): (&Parent, Option<&str>, bool),
    out: &mut Out,
) -> Result<Reply, Refusal> {
    let me = asking(state, by)?;
    let is_older = state.job(me.key).is_some_and(|job| job.lifetime.0 < state.facts.epoch.0);
    let desks = state.memory.teams.get_mut(&me.group).map(|team| &mut team.desks);
    if is_older
        && desks
            .is_some_and(|desks| !std::mem::replace(&mut desks.entry(me.place).or_default().is_told, true))
    {
        return Err(Refusal::MailboxReset);
    }
    let from = from.map(|name| find(state, me, name, false)).transpose()?;
    if let Some((place, key)) = from {
        check_way(state, me.group, (place, me.place))?;
        let mut mail = inbox(state, me.group, me.place);
        if is_over(state, key) && !mail.any(|letter| letter.from == place) {
            return Err(Refusal::TargetFinished(called(state, key)));
        }
    }
    waiter::begin(state, id, Wants::Mail { by: me.key, from: from.map(|(place, _)| place) }, out);
    if state.memory.waiters.get(&id).is_some_and(|waiter| waiter.offer.is_some()) {
        return Ok(Reply::Answered);
    }
    if at_once {
        waiter::forget(state, id);
    }
    Ok(Reply::Done)
}

fn inbox(state: &State, group: GroupKey, place: u32) -> impl Iterator<Item = &Letter> {
    let team = state.memory.teams.get(&group);
    team.and_then(|team| team.desks.get(&place)).into_iter().flat_map(|desk| &desk.inbox)
}

/// Hands mail to those of a member who wait for it, first come first served, in the order in which it came (T-7).
pub(crate) fn settle(state: &mut State, node: Node, out: &mut Out) {
    let Node::Job(key) = node else { return };
    if state.memory.teams.is_empty() {
        return;
    }
    for id in state.memory.waits_of.get(&key).cloned().unwrap_or_default() {
        let Some((group, place, letter)) = next(state, key, id) else { continue };
        if lend::defers(state, id) {
            continue;
        }
        let Some((number, mail)) = mail(state, group, letter) else { continue };
        if let Some(letter) = letter_mut(state, (group, place), number) {
            letter.is_offered = true;
        }
        if let Some(waiter) = state.memory.waiters.get_mut(&id) {
            waiter.offer = Some(Offer { mail: Some(number), ..Offer::default() });
        }
        out.effect(Effect::Answer { waiter: id, answer: Answer::Mail(mail) });
    }
}

/// What a waiter for mail is to get, where it waits and something is there.
fn next(state: &State, key: JobKey, id: WaiterId) -> Option<(GroupKey, u32, Letter)> {
    let waiter = state.memory.waiters.get(&id).filter(|waiter| waiter.offer.is_none())?;
    let Wants::Mail { from, .. } = waiter.wants else { return None };
    let job = state.job(key)?;
    let mut mail = inbox(state, job.group, job.index);
    let fits = |letter: &&Letter| !letter.is_offered && from.is_none_or(|from| letter.from == from);
    mail.find(fits).map(|letter| (job.group, job.index, letter.clone()))
}

/// A mail as it is received, with its true sender (T-9).
fn mail(state: &State, group: GroupKey, letter: Letter) -> Option<(u64, Mail)> {
    let from = member(state, group, letter.from)?;
    let (id, label) = (state.job(from)?.id.clone(), name(state, from));
    Some((letter.number, Mail { from: id, label, text: letter.text }))
}

fn letter_mut(state: &mut State, (group, place): (GroupKey, u32), number: u64) -> Option<&mut Letter> {
    let desk = state.memory.teams.get_mut(&group)?.desks.get_mut(&place)?;
    desk.inbox.iter_mut().find(|letter| letter.number == number)
}

/// Who held a mail has left: it stays where it was.
pub(crate) fn give_back(state: &mut State, key: JobKey, number: u64) {
    let Some(at) = state.job(key).map(|job| (job.group, job.index)) else { return };
    if let Some(letter) = letter_mut(state, at, number) {
        letter.is_offered = false;
    }
}

/// Who held a mail has it: it is received, once.
pub(crate) fn taken(state: &mut State, key: JobKey, number: u64) {
    let Some((group, place)) = state.job(key).map(|job| (job.group, job.index)) else { return };
    let Some(team) = state.memory.teams.get_mut(&group) else { return };
    let Some(desk) = team.desks.get_mut(&place) else { return };
    if let Some(at) = desk.inbox.iter().position(|letter| letter.number == number) {
        team.bytes -= desk.inbox.remove(at).map_or(0, |letter| letter.text.len());
    }
}

/// A member is over: nobody will receive what waits for it.
pub(crate) fn ended(state: &mut State, key: JobKey, group: GroupKey) {
    let Some(place) = state.job(key).map(|job| job.index) else { return };
    let Some(team) = state.memory.teams.get_mut(&group) else { return };
    if let Some(desk) = team.desks.remove(&place) {
        team.bytes -= desk.inbox.iter().map(|letter| letter.text.len()).sum::<usize>();
    }
}

/// A member is told to stop: those of it who wait for mail are told that nothing will come.
pub(crate) fn close(state: &mut State, node: Node, out: &mut Out) {
    let Node::Job(key) = node else { return };
    for id in receivers(state, key) {
        waiter::forget(state, id);
        out.effect(Effect::Answer { waiter: id, answer: Answer::Closed });
    }
}

/// Waits of a run for mail that have no answer.
fn receivers(state: &State, key: JobKey) -> Vec<WaiterId> {
    let ids = state.memory.waits_of.get(&key).into_iter().flatten().copied();
    let waits = |id: &WaiterId| {
        let waiter = state.memory.waiters.get(id);
        waiter.is_some_and(|waiter| waiter.offer.is_none() && matches!(waiter.wants, Wants::Mail { .. }))
    };
    ids.filter(waits).collect()
}

/// True where a run waits for mail: it is not idle then (T-10).
pub(crate) fn receives(state: &State, key: JobKey) -> bool {
    !receivers(state, key).is_empty()
}

/// Those from whom the mail may come that a member waits for.
pub(crate) fn senders(state: &State, key: JobKey, from: Option<u32>) -> Vec<JobKey> {
    let Some(job) = state.job(key) else { return Vec::new() };
    let me = Asking { key, group: job.group, place: job.index };
    match from {
        Some(place) => member(state, me.group, place).into_iter().collect(),
        None => reachable(state, me, false).collect(),
    }
}
