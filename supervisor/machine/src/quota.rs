//! Budgets: money is set aside before a start and given back at the end, what is told is charged once to all above, and
//! what is used up starts nothing more and stops what runs (BU-1 to BU-8).
//!
//! Of money it is asked whether it fits before a start; of tokens, steps and time only whether anything is left. A run
//! that waits for others lends what is set aside for it, as it lends its slot: so somebody can always go on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fanin_protocol::limits::DISPATCH_USD_MICROS;
use fanin_protocol::record::{LimitName, LimitsSet, Note, NoteCode, NoteDetails, StopTarget, Usage};
use fanin_protocol::spec::SpecError;
use fanin_protocol::{Account, Budget, Cause, Dimension, Fence, JobKind, Named, NodeId, Reason, Spent};

use crate::clock::Mono;
use crate::command::{Launch, Refusal, Reply};
use crate::out::Out;
use crate::state::{Facts, GroupKey, Job, JobKey, Node, Payer, SessionKey, State};
use crate::stop::{self, Intent};
use crate::sweep;
use crate::timers::{Owner, Purpose};
use crate::{launch, run};

/// The supervisor's own meter of a run's time.
const TIME_METER: &str = "time";

/// What waits for a budget, and the clocks of runs below a budget of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    /// Jobs that came up and do not fit yet, by who cannot pay, first come.
    held: BTreeMap<Payer, VecDeque<JobKey>>,
    /// Who may be able to pay by now.
    look: BTreeSet<Payer>,
    /// When each run below a budget of time began.
    began: BTreeMap<JobKey, Mono>,
    open: BTreeMap<Payer, Open>,
}

/// The open runs below a budget of time.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    runs: u64,
    /// The times at which they began, added up.
    began: u64,
}

/// Whether a job may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may, and so much is set aside for it; `None` where no budget is above it.
    Free(Option<u64>),
    /// Not yet: what is left there is set aside for others that run.
    Wait { at: Payer, asked: u64, left: u64 },
    /// Nothing is left, or not enough and it will not become more.
    Refuse(Dimension),
}

/// Asks all that pay for a job, from itself up to its session (BU-3).
pub(crate) fn room(state: &State, key: JobKey) -> Room {
    let mut is_bound = false;
    for (payer, budget) in budgets(&state.facts, Node::Job(key)) {
        is_bound = true;
        if let Some(dimension) = budget.used_up(&spent(state, payer)) {
            return Room::Refuse(dimension);
        }
    }
    let Some(job) = state.job(key).filter(|_| is_bound) else { return Room::Free(None) };
    let left = |payer, limit: u64| limit.saturating_sub(state.facts.ledger(payer).spent.of(Dimension::Usd));
    let limited = || {
        budgets(&state.facts, Node::Job(key))
            .filter_map(|(payer, budget)| Some((payer, left(payer, budget.usd_micros?))))
    };
    let Some(least) = limited().map(|(_, left)| left).min() else { return Room::Free(Some(0)) };
    let asked = match job.limits.estimate_usd_micros {
        Some(estimate) => estimate,
        // What nobody declared is lowered to fit, so that what is left can be used.
        None if job.kind == JobKind::Agent && is_cost_known(state, job.session) => {
            DISPATCH_USD_MICROS.min(least)
        }
        None => 0,
    };
    if asked > least {
        return Room::Refuse(Dimension::Usd);
    }
    let short = limited().find(|(payer, left)| asked > left.saturating_sub(set_aside(state, *payer)));
    short.map_or(Room::Free(Some(asked)), |(at, left)| Room::Wait { at, asked, left })
}

/// The budgets that bind a node.
fn budgets(facts: &Facts, node: Node) -> impl Iterator<Item = (Payer, Budget)> {
    facts.payers(node).map(|payer| (payer, facts.budget(payer))).filter(|(_, budget)| !budget.is_none())
}

/// What is set aside for runs that do not wait for others.
fn set_aside(state: &State, payer: Payer) -> u64 {
    let of_lent = |key: &JobKey| {
        let meters = state.job(*key)?.run.as_ref()?.meters.as_deref()?;
        state.facts.payers(Node::Job(*key)).any(|above| above == payer).then(|| meters.left())
    };
    let lent = state.memory.lending.lent.keys().filter_map(of_lent).fold(0, u64::saturating_add);
    state.facts.ledger(payer).reserved.saturating_sub(lent)
}

/// False once agents of the tree have worked and none has ever told what it cost.
fn is_cost_known(state: &State, session: SessionKey) -> bool {
    let spent = state.facts.ledger(Payer::Session(session)).spent;
    spent.cost_usd_micros.is_some() || spent.cost_unknown == 0
}

/// What was used, with the time of runs that are open.
pub(crate) fn spent(state: &State, payer: Payer) -> Spent {
    let spent = state.facts.ledger(payer).spent;
    let Some(open) = state.memory.quotas.open.get(&payer) else { return spent };
    let ms = open.runs.saturating_mul(state.memory.clock.mono().0).saturating_sub(open.began);
    spent.plus(&Spent { ms: Some(ms), ..Spent::default() })
}

/// What a job, and all below it, has used; `None` where nobody told of anything.
pub(crate) fn usage(state: &State, key: JobKey) -> Option<Spent> {
    Some(spent(state, Payer::Job(key))).filter(|spent| !spent.is_none())
}

/// Refuses a budget that could never bind any of the jobs that it is for (BU-6).
pub(crate) fn check(state: &State, request: &Launch, parent: Node) -> Result<(), Refusal> {
    let Some(session) = state.facts.root(parent) else { return Ok(()) };
    let can = |kind, dimension| match (kind, dimension) {
        (_, Dimension::Time) | (JobKind::Closure, _) | (JobKind::Agent, Dimension::Steps) => true,
        (JobKind::Agent, Dimension::Usd) => is_cost_known(state, session),
        // No agent tells a sum of its tokens; and a command tells nothing.
        (JobKind::Agent, Dimension::Tokens) | (JobKind::Command, _) => false,
    };
    let binds = |budget: Budget, kind| budget.limits().any(|(dimension, _)| can(kind, dimension));
    let whole = request.policy.budget;
    if !whole.is_none() && !request.members.iter().any(|member| binds(whole, member.kind())) {
        return Err(Refusal::UnboundBudget { index: None });
    }
    let own = |member: &crate::command::Member| member.limits.budget;
    let unbound = request.members.iter().position(|member| {
        let budget = own(member);
        !budget.is_none() && !binds(budget, member.kind())
    });
    unbound.map_or(Ok(()), |index| Err(Refusal::UnboundBudget { index: Some(index) }))
}

/// Jobs of a group exist: where nothing is left for them they are over at once, and wait for no slot.
pub(crate) fn launched(state: &mut State, group: GroupKey) {
    let Some(parent) = state.group(group).map(|group| group.parent) else { return };
    let own = (Payer::Group(group), state.facts.budget(Payer::Group(group)));
    let all = std::iter::once(own).chain(budgets(&state.facts, parent));
    let used_up = all.filter_map(|(payer, budget)| budget.used_up(&spent(state, payer))).next();
    if let Some(dimension) = used_up {
        sweep::members(state, group, intent(dimension));
    }
}

/// Puts a job aside until others have used what is set aside for them, or ended.
pub(crate) fn hold(state: &mut State, at: Payer, key: JobKey) {
    state.memory.quotas.held.entry(at).or_default().push_back(key);
}

/// The next job that stood aside and does not have to any more.
pub(crate) fn next(state: &mut State) -> Option<JobKey> {
    while let Some(payer) = state.memory.quotas.look.first().copied() {
        let line = state.memory.quotas.held.get(&payer);
        let Some(key) = line.and_then(|line| line.front()).copied() else {
            state.memory.quotas.held.remove(&payer);
            state.memory.quotas.look.remove(&payer);
            continue;
        };
        let waits = state.job(key).is_some_and(Job::awaits_start) && state.facts.going_above(key).is_none();
        // First come, first served: a small one behind it does not keep a large one waiting for ever.
        if waits && matches!(room(state, key), Room::Wait { at, .. } if at == payer) {
            state.memory.quotas.look.remove(&payer);
            continue;
        }
        if let Some(line) = state.memory.quotas.held.get_mut(&payer) {
            line.pop_front();
        }
        if waits {
            return Some(key);
        }
    }
    None
}

/// More is left somewhere, or less: the first of each line of those that stand aside is looked at. What cannot pay may
/// be another than before, so all lines are.
pub(crate) fn look_again(state: &mut State) {
    let Quotas { held, look, .. } = &mut state.memory.quotas;
    look.extend(held.keys());
}

/// Jobs that stand aside.
pub(crate) fn held(state: &State) -> usize {
    let waits = |key: &&JobKey| state.job(**key).is_some_and(Job::awaits_start);
    let quotas = &state.memory.quotas;
    quotas.held.values().flatten().filter(waits).count() + quotas.began.len() + quotas.open.len()
}

/// What a job waits for, where that is its budget.
pub(crate) fn reason(state: &State, key: JobKey) -> Option<Reason> {
    match room(state, key) {
        Room::Wait { asked, left, .. } => {
            Some(Reason::Budget { asked_usd_micros: asked, left_usd_micros: left })
        }
        Room::Free(_) | Room::Refuse(_) => None,
    }
}

/// The payers above a job whose budget bounds time.
fn timed(state: &State, key: JobKey) -> Vec<Payer> {
    let budgets = budgets(&state.facts, Node::Job(key));
    budgets.filter(|(_, budget)| budget.ms.is_some()).map(|(payer, _)| payer).collect()
}

/// A run began: its time counts.
pub(crate) fn started(state: &mut State, key: JobKey) {
    let payers = timed(state, key);
    if payers.is_empty() {
        return;
    }
    let now = state.memory.clock.mono();
    state.memory.quotas.began.insert(key, now);
    for payer in payers {
        let open = state.memory.quotas.open.entry(payer).or_default();
        (open.runs, open.began) = (open.runs + 1, open.began.saturating_add(now.0));
        arm(state, payer);
    }
}

/// Arms the time at which the open runs, if they go on, have used up what is left.
fn arm(state: &mut State, payer: Payer) {
    state.memory.timers.clear(Owner::Payer(payer));
    let (Some(open), Some(limit)) =
        (state.memory.quotas.open.get(&payer).copied(), state.facts.budget(payer).ms)
    else {
        return;
    };
    let left = limit.saturating_sub(state.facts.ledger(payer).spent.of(Dimension::Time));
    let at = Mono(open.began.saturating_add(left).div_ceil(open.runs.max(1)));
    state.memory.timers.arm(at, Owner::Payer(payer), Purpose::Spent);
}

/// A run is about to end: its time is charged.
pub(crate) fn run_over(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(began) = state.memory.quotas.began.remove(&key) else { return };
    let payers = timed(state, key);
    for payer in &payers {
        let Some(open) = state.memory.quotas.open.get_mut(payer) else { continue };
        (open.runs, open.began) = (open.runs.saturating_sub(1), open.began.saturating_sub(began.0));
        if open.runs == 0 {
            state.memory.quotas.open.remove(payer);
        }
    }
    let ms = state.memory.clock.mono().since(began);
    charge_time(state, key, ms, out);
    payers.into_iter().for_each(|payer| arm(state, payer));
}

/// A run that a crash interrupted is about to be closed: it ran until the last record of its epoch at the least.
pub(crate) fn interrupted(state: &mut State, key: JobKey, out: &mut Out) {
    let meters = state.job(key).and_then(|job| job.run.as_ref()?.meters.as_deref());
    let began_ms = meters.map(|meters| meters.started_ms).filter(|_| !timed(state, key).is_empty());
    if let Some(began_ms) = began_ms {
        charge_time(state, key, state.memory.died_ms.saturating_sub(began_ms), out);
    }
}

fn charge_time(state: &mut State, key: JobKey, ms: u64, out: &mut Out) {
    let Some(run) = run::open_fence(state, Node::Job(key)) else { return };
    let source = TIME_METER.to_owned();
    let usage = Usage { run, source, cost_usd_micros: None, tokens: None, steps: None, ms: Some(ms) };
    used(state, Node::Job(key), usage, out);
}

/// Takes in what a run has used. What says nothing new is no record, so a report may be repeated (BU-1).
pub(crate) fn used(state: &mut State, node: Node, usage: Usage, out: &mut Out) {
    let Some(open) = run::open(state, node) else { return };
    if open.meters.as_deref().is_some_and(|meters| !meters.is_news(&usage)) {
        return;
    }
    let fence = open.fence;
    let before: Vec<(Payer, Budget, Spent)> = budgets(&state.facts, node)
        .map(|(payer, budget)| (payer, budget, state.facts.ledger(payer).spent))
        .collect();
    out.record(state, usage);
    for (payer, budget, before) in before {
        let now = state.facts.ledger(payer).spent;
        for (dimension, limit) in budget.limits() {
            let (was, is) = (before.of(dimension), now.of(dimension));
            if was < limit && is >= limit {
                state.memory.dirty.quotas.push_back(payer);
            } else if was < limit - limit / 5 && is >= limit - limit / 5 {
                note(state, (node, fence), payer, (dimension, is, limit), out);
            }
        }
    }
    look_again(state);
}

/// Four fifths of a budget are used up.
fn note(
    state: &mut State,
    (node, run): (Node, Fence),
    payer: Payer,
    (dimension, used, limit): (Dimension, u64, u64),
    out: &mut Out,
) {
    let job = match node {
        Node::Job(key) => state.job(key).map(|job| job.id.clone()),
        Node::Session(_) => None,
    };
    let group = match payer {
        Payer::Group(key) => state.group(key).map(|group| group.id.clone()),
        Payer::Session(_) | Payer::Job(_) => None,
    };
    let percent = u128::from(used).saturating_mul(100) / u128::from(limit.max(1));
    let details = NoteDetails { group, dimension: Some(dimension), ..NoteDetails::default() };
    let value = i64::try_from(percent).ok();
    let details = Some(Box::new(details));
    out.record(state, Note { job, run: Some(run), value, details, ..Note::new(NoteCode::Budget) });
}

fn intent(dimension: Dimension) -> Intent {
    Intent { target: StopTarget::Error, cause: Cause::Budget, code: Some(dimension.into()), ..Intent::PARENT }
}

/// An epoch begins: what was used up stays so.
pub(crate) fn opened(state: &mut State, payer: Payer) {
    if !state.facts.budget(payer).is_none() {
        state.memory.dirty.quotas.push_back(payer);
    }
}

/// Stops what is below a budget that is used up; what it has put out is kept (BU-7). Does nothing where something is
/// left.
pub(crate) fn settle(state: &mut State, payer: Payer, out: &mut Out) {
    let used_up = state.facts.budget(payer).used_up(&spent(state, payer));
    let Some(intent) = used_up.map(intent) else { return };
    match payer {
        Payer::Job(key) => drop(stop::stop_job(state, key, intent, out)),
        Payer::Group(key) => sweep::members(state, key, intent),
        Payer::Session(key) => {
            let below = state.facts.below(Node::Session(key));
            let open: Vec<GroupKey> = below.into_iter().flat_map(|below| &below.open).copied().collect();
            open.into_iter().for_each(|group| sweep::members(state, group, intent));
        }
    }
}

/// What there is to say of a job that its budget has stopped.
pub(crate) fn told(state: &State, key: JobKey) -> Option<String> {
    state.job(key)?.stop.filter(|stop| stop.cause == Cause::Budget)?;
    budgets(&state.facts, Node::Job(key)).find_map(|(payer, budget)| {
        let spent = spent(state, payer);
        let dimension = budget.used_up(&spent)?;
        let whose = match payer {
            Payer::Session(key) => format!("session {}", state.session(key)?.id),
            Payer::Group(key) => format!("group {}", state.group(key)?.id),
            Payer::Job(_) => "the job".to_owned(),
        };
        let (used, limit) = (dimension.show(spent.of(dimension)), dimension.show(budget.limit(dimension)?));
        Some(format!("`{dimension}` of the budget of {whose} is used up: {used} of {limit}"))
    })
}

/// Sets bounds of a budget that is there already: it is for a person to raise what is used up, and what waits for it is
/// looked at again.
pub(crate) fn set(state: &mut State, of: &Named, to: Budget, out: &mut Out) -> Result<Reply, Refusal> {
    let payer = find(state, of)?;
    let problem = |field, problem: &str| Refusal::BadLimit(SpecError { field, problem: problem.to_owned() });
    to.check().map_err(Refusal::BadLimit)?;
    let now = state.facts.budget(payer);
    if to.is_none() || to.limits().any(|(dimension, _)| now.limit(dimension).is_none()) {
        return Err(problem("budget", "only what it bounds can be set, to another amount"));
    }
    let names = [
        (LimitName::BudgetUsdMicros, to.usd_micros),
        (LimitName::BudgetTokens, to.tokens),
        (LimitName::BudgetSteps, to.steps),
        (LimitName::BudgetMs, to.ms),
    ];
    let limits = names.into_iter().filter(|(_, limit)| limit.is_some()).collect();
    let (node, group) = match of {
        Named::Session(id) => (Some(NodeId::Session(id.clone())), None),
        Named::Job(id) => (Some(NodeId::Job(id.clone())), None),
        Named::Group(id) => (None, Some(id.clone())),
    };
    if let Payer::Job(key) = payer
        && state.job(key).is_none_or(|job| job.ended.is_some())
    {
        return Err(problem("budget", "the job is over"));
    }
    out.record(state, LimitsSet { node, group, limits });
    state.memory.dirty.quotas.push_back(payer);
    look_again(state);
    arm(state, payer);
    Ok(Reply::Done)
}

fn find(state: &State, of: &Named) -> Result<Payer, Refusal> {
    match of {
        Named::Session(id) => {
            let key = state.facts.session_key(id).ok_or_else(|| Refusal::UnknownSession(id.clone()))?;
            Ok(Payer::Session(key))
        }
        Named::Group(id) => launch::find_group(state, id).map(Payer::Group),
        Named::Job(id) => state.facts.job_key(id).map(Payer::Job).ok_or_else(|| state.no_job(id)),
    }
}

impl State {
    /// How the account of a session, a group or a job stands.
    ///
    /// # Errors
    ///
    /// [`Refusal`] for an id that is not known.
    pub fn account(&self, of: &Named) -> Result<Account, Refusal> {
        let payer = find(self, of)?;
        Ok(Account {
            budget: self.facts.budget(payer),
            spent: spent(self, payer),
            reserved_usd_micros: self.facts.ledger(payer).reserved,
            overshoot_max_usd_micros: overshoot(self, payer),
        })
    }

    /// True where a budget is above a job, in its newest life.
    pub fn is_budgeted(&self, lifetime: fanin_protocol::Lifetime) -> bool {
        let key = self.facts.job_of_lifetime(lifetime);
        key.is_some_and(|key| budgets(&self.facts, Node::Job(key)).next().is_some())
    }
}

/// What may run at once of the jobs that are not over, each charged once more, and the charge that uses it up: whoever told
/// that one may have begun another before it is stopped (BU-4).
fn overshoot(state: &State, payer: Payer) -> u64 {
    let is_below = |key| state.facts.payers(Node::Job(key)).any(|above| above == payer);
    let (mut jobs, mut most, mut slots) = (0u64, 0, state.memory.settings.slots);
    for (place, job) in state.facts.jobs.iter() {
        if job.ended.is_some() || !is_below(JobKey(place)) {
            continue;
        }
        let own = state.session(job.session).and_then(|session| session.bounds.slots);
        slots = [slots, own].into_iter().flatten().min();
        let charge = match (job.limits.estimate_usd_micros, job.kind) {
            (Some(estimate), _) => estimate,
            // It tells nothing.
            (None, JobKind::Command) => continue,
            (None, JobKind::Agent | JobKind::Closure) => DISPATCH_USD_MICROS,
        };
        (jobs, most) = (jobs + 1, most.max(charge));
    }
    let at_once = jobs.min(slots.map_or(u64::MAX, u64::from));
    at_once.saturating_add(1).saturating_mul(most)
}
