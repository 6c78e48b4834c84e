//! The accounts once more, from the records alone and each time from the beginning: what every run has told, added up in
//! whole numbers without a bound. It knows nothing of how the machine keeps them.

use std::collections::BTreeMap;

use fanin_machine::Named;
use fanin_protocol::record::Usage;
use fanin_protocol::{
    Account, Budget, Dimension, Fence, GroupId, JobId, JobKind, Lifetime, NodeId, SessionId,
};

use crate::broken::{Kept, ensure};
use crate::ledger::{JobSeen, Ledger};
use crate::world::World;

/// Whose account it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    /// A session's.
    Session(SessionId),
    /// A group's.
    Group(GroupId),
    /// That of a job in one of its lives.
    Job(Lifetime),
}

/// All that was told.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// What may be used.
    pub budgets: BTreeMap<Payer, Budget>,
    runs: BTreeMap<Fence, Run>,
}

#[derive(Debug, Clone, Default)]
struct Run {
    payers: Vec<Payer>,
    reserved: u128,
    meters: BTreeMap<String, [Option<u128>; 4]>,
    is_over: bool,
    /// It may still tell what it costs, or can no more.
    is_silent_agent: bool,
    is_lost: bool,
}

impl Run {
    fn told(&self, place: usize) -> Option<u128> {
        let told: Vec<u128> = self.meters.values().filter_map(|meter| meter[place]).collect();
        (!told.is_empty()).then(|| told.iter().sum())
    }

    fn left(&self) -> u128 {
        self.reserved.saturating_sub(self.told(0).unwrap_or(0))
    }

    fn is_unknown(&self) -> bool {
        let own = self.meters.values().any(|meter| meter[3].is_none());
        own && self.told(0).is_none() || self.is_silent_agent
    }
}

/// What an account adds up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Money, tokens, calls, time.
    pub told: [Option<u128>; 4],
    /// Runs of unknown cost.
    pub unknown: u128,
    /// What crashes may have lost.
    pub lost: u128,
    /// What is set aside.
    pub reserved: u128,
}

impl Sums {
    fn of(&self, dimension: Dimension) -> u128 {
        let place = Dimension::ALL.iter().position(|of| *of == dimension).expect("one of them");
        self.told[place].unwrap_or(0)
    }

    /// The dimension of which nothing is left; time is the host's to measure.
    pub fn used_up(&self, budget: &Budget) -> Option<Dimension> {
        budget
            .limits()
            .filter(|(dimension, _)| *dimension != Dimension::Time)
            .find(|(dimension, limit)| self.of(*dimension) >= u128::from(*limit))
            .map(|(dimension, _)| dimension)
    }
}

impl Accounts {
    /// What an account adds up to.
    pub fn sums(&self, payer: &Payer) -> Sums {
        let mut sums = Sums::default();
        for run in self.runs.values().filter(|run| run.payers.contains(payer)) {
            for (place, sum) in sums.told.iter_mut().enumerate() {
                if let Some(told) = run.told(place) {
                    *sum = Some(sum.unwrap_or(0) + told);
                }
            }
            sums.unknown += u128::from(run.is_unknown());
            sums.lost += if run.is_lost { run.left() } else { 0 };
            sums.reserved += if run.is_over { 0 } else { run.left() };
        }
        sums
    }

    /// The payers of a list that have nothing left, and of what.
    pub fn used_up<'p>(&self, payers: &'p [Payer]) -> Option<(&'p Payer, Dimension)> {
        payers.iter().find_map(|payer| {
            let budget = self.budgets.get(payer)?;
            self.sums(payer).used_up(budget).map(|dimension| (payer, dimension))
        })
    }

    fn has_time(&self, payers: &[Payer]) -> bool {
        payers.iter().filter_map(|payer| self.budgets.get(payer)).any(|budget| budget.ms.is_some())
    }

    /// Sets the bounds of an account, where there are any.
    pub fn bound(&mut self, payer: Payer, budget: Budget) {
        if !budget.is_none() {
            self.budgets.insert(payer, budget);
        }
    }

    /// Another amount of what is bounded.
    pub fn set(&mut self, payer: &Payer, to: Budget) -> Kept {
        let Some(budget) = self.budgets.get_mut(payer) else {
            return ensure(false, "BU-7", || format!("{payer:?} has no budget"));
        };
        let or = |to: Option<u64>, now: Option<u64>| to.or(now);
        *budget = Budget {
            usd_micros: or(to.usd_micros, budget.usd_micros),
            tokens: or(to.tokens, budget.tokens),
            steps: or(to.steps, budget.steps),
            ms: or(to.ms, budget.ms),
        };
        Ok(())
    }

    /// A run begins, and this much is set aside for it.
    pub fn started(&mut self, fence: Fence, payers: Vec<Payer>, reserved: Option<u64>) -> Kept {
        // A turn asks for nothing: its session is at work already.
        if let [Payer::Session(_)] = payers[..] {
            self.runs.insert(fence, Run { payers, ..Run::default() });
            return ensure(reserved.is_none(), "BU-3", || format!("turn {fence}: {reserved:?}"));
        }
        let is_bound = payers.iter().any(|payer| self.budgets.contains_key(payer));
        ensure(reserved.is_some() == is_bound, "BU-3", || {
            format!("run {fence}: {reserved:?} of {payers:?}")
        })?;
        let asked = u128::from(reserved.unwrap_or(0));
        for payer in &payers {
            let Some(budget) = self.budgets.get(payer) else { continue };
            let sums = self.sums(payer);
            let is_left = sums.used_up(budget).is_none();
            ensure(is_left, "BU-7", || format!("run {fence} starts, and {payer:?} has used {sums:?}"))?;
            let fits =
                budget.usd_micros.is_none_or(|limit| sums.of(Dimension::Usd) + asked <= u128::from(limit));
            ensure(fits, "BU-3", || format!("run {fence} asks for {asked} of {payer:?}: {sums:?}"))?;
        }
        self.runs.insert(fence, Run { payers, reserved: asked, ..Run::default() });
        Ok(())
    }

    /// A run tells what it has used: the highest of each of its meters counts.
    pub fn used(&mut self, body: &Usage) -> Kept {
        let Some(run) = self.runs.get_mut(&body.run).filter(|run| !run.is_over) else {
            return ensure(false, "G9", || format!("{body:?} of a run that is not open"));
        };
        let meter = run.meters.entry(body.source.clone()).or_default();
        for (known, told) in meter
            .iter_mut()
            .zip([body.cost_usd_micros, body.tokens, body.steps, body.ms].map(|n| n.map(u128::from)))
        {
            *known = (*known).max(told);
        }
        Ok(())
    }

    /// A run is over.
    pub fn over(&mut self, fence: Fence, is_silent_agent: bool, is_lost: bool) {
        if let Some(run) = self.runs.get_mut(&fence) {
            run.is_over = true;
            run.is_lost = is_lost;
            run.is_silent_agent = is_silent_agent && run.meters.values().all(|meter| meter[3].is_some());
        }
    }
}

impl Ledger {
    /// Who pays for what a node does, nearest first.
    pub fn payers(&self, node: &NodeId) -> Vec<Payer> {
        let mut payers = Vec::new();
        for node in self.chain(node) {
            match &node {
                NodeId::Session(id) => payers.push(Payer::Session(id.clone())),
                NodeId::Job(id) => {
                    let Some(job) = self.jobs.get(id) else { continue };
                    payers.extend([Payer::Job(job.lifetime), Payer::Group(job.group.clone())]);
                }
            }
        }
        payers
    }

    /// True for an agent that did something.
    pub(crate) fn is_bound_agent(&self, fence: Fence) -> bool {
        let Some(run) = self.runs.get(&fence) else { return false };
        match &run.node {
            NodeId::Session(_) => false,
            NodeId::Job(id) => run.bound && self.jobs.get(id).is_some_and(|job| job.kind == JobKind::Agent),
        }
    }
}

/// G9, and BU-7: the machine's accounts are these, and below one that has nothing left all is stopped, and nothing waits
/// for a start.
///
/// # Errors
///
/// [`Broken`](crate::Broken) names the rule.
pub fn holds(world: &World, unfinished: bool) -> Kept {
    let ledger = &world.ledger;
    let accounts = &ledger.accounts;
    if accounts.budgets.is_empty() && accounts.runs.values().all(|run| run.meters.is_empty()) {
        return Ok(());
    }
    let sessions = ledger.sessions.keys().map(|id| (Payer::Session(id.clone()), Named::Session(id.clone())));
    let groups = ledger.groups.keys().map(|id| (Payer::Group(id.clone()), Named::Group(id.clone())));
    let jobs = ledger.jobs.iter().map(|(id, job)| (Payer::Job(job.lifetime), Named::Job(id.clone())));
    for (payer, named) in sessions.chain(groups).chain(jobs) {
        // What has left the memory is nobody's any more.
        let Ok(account) = world.state.account(&named) else { continue };
        same(accounts, &payer, &account)?;
    }
    if !ledger.open || unfinished || world.closing > 0 {
        return Ok(());
    }
    for (id, job) in ledger.jobs.iter().filter(|(_, job)| job.ended.is_none()) {
        let payers = ledger.payers(&NodeId::Job(id.clone()));
        let Some(used_up) = accounts.used_up(&payers) else { continue };
        let goes = job.stop.is_some() || ledger.is_going_down(&NodeId::Job(id.clone())) || is_joining(job);
        ensure(goes, "BU-7", || format!("{id} ({job:?}) goes on, and {used_up:?} is used up"))?;
    }
    Ok(())
}

/// Its body is over: it uses nothing more, and waits for those below it.
const fn is_joining(job: &JobSeen) -> bool {
    job.run.is_none() && job.runs > 0 && job.retry_at_ms.is_none()
}

fn same(accounts: &Accounts, payer: &Payer, account: &Account) -> Kept {
    let mut sums = accounts.sums(payer);
    // Sums of the machine end where its numbers do (BU-2).
    for sum in sums.told.iter_mut().flatten() {
        *sum = (*sum).min(u64::MAX.into());
    }
    let spent = account.spent;
    let wide = |n: Option<u64>| n.map(u128::from);
    let told = [spent.cost_usd_micros, spent.tokens, spent.steps].map(wide);
    let others: [u128; 3] = [
        spent.cost_unknown.into(),
        spent.unaccounted_max_usd_micros.into(),
        account.reserved_usd_micros.into(),
    ];
    let is_same = told[..] == sums.told[..3]
        && others == [sums.unknown, sums.lost, sums.reserved]
        && (wide(spent.ms) >= sums.told[3]);
    ensure(is_same, "G9", || format!("{payer:?} has {account:?}, and not {sums:?}"))
}

/// A job is refused before it ran: nothing is left for it, or less than it asks for.
///
/// # Errors
///
/// [`Broken`](crate::Broken) where there is enough.
pub fn refused(ledger: &Ledger, id: &JobId, estimate: Option<u64>) -> Kept {
    let payers = ledger.payers(&NodeId::Job(id.clone()));
    let accounts = &ledger.accounts;
    let is_short = |payer: &Payer| {
        let limit = accounts.budgets.get(payer).and_then(|budget| budget.usd_micros);
        limit.is_some_and(|limit| {
            accounts.sums(payer).of(Dimension::Usd) + u128::from(estimate.unwrap_or(0)) > u128::from(limit)
        })
    };
    let is_right =
        accounts.used_up(&payers).is_some() || payers.iter().any(is_short) || accounts.has_time(&payers);
    ensure(is_right, "BU-3", || format!("{id} is refused, and enough is left for it"))
}
