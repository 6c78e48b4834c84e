//! Who pays for what runs: each job, its group, and all above up to the session. What each has used and has set aside is
//! a fact like any other; the fold alone changes it, and nothing here decides.

use fanin_protocol::limits::METERS_PER_RUN_MAX;
use fanin_protocol::record::{LimitName, Usage};
use fanin_protocol::{Budget, Fence, JobKind, RowKind, Spent};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::fold::{Applied, Near};
use crate::state::{Facts, GroupKey, JobKey, Node, OpenRun, SessionKey};

/// What has an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Payer {
    Session(SessionKey),
    Group(GroupKey),
    Job(JobKey),
}

impl From<Node> for Payer {
    fn from(node: Node) -> Self {
        match node {
            Node::Session(key) => Self::Session(key),
            Node::Job(key) => Self::Job(key),
        }
    }
}

/// What it, and all below it, has used, and what is set aside for runs that are open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    pub(crate) spent: Spent,
    pub(crate) reserved: u64,
}

/// What an open run was given, and the highest that each of its meters has told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meters {
    /// When it began, by the times of records; 0 where no budget is above it.
    pub(crate) started_ms: u64,
    pub(crate) reserved: u64,
    list: Vec<Meter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Meter {
    source: String,
    cost_usd_micros: Option<u64>,
    tokens: Option<u64>,
    steps: Option<u64>,
    ms: Option<u64>,
}

impl Meter {
    const fn new(source: String) -> Self {
        Self { source, cost_usd_micros: None, tokens: None, steps: None, ms: None }
    }
}

/// What comes to the accounts of a run and all above it.
#[derive(Debug, Clone, Copy, Default)]
struct Charge {
    more: Spent,
    /// Its cost is known by now.
    is_found: bool,
    /// So much of what was set aside is not any more.
    freed: u64,
}

impl Meters {
    pub(crate) const fn new(started_ms: u64, reserved: u64) -> Self {
        Self { started_ms, reserved, list: Vec::new() }
    }

    /// What is still set aside for the run.
    pub(crate) fn left(&self) -> u64 {
        let told = self.list.iter().filter_map(|meter| meter.cost_usd_micros);
        self.reserved.saturating_sub(told.fold(0, u64::saturating_add))
    }

    /// True where the report says something that was not known, and can be kept.
    pub(crate) fn is_news(&self, body: &Usage) -> bool {
        let Some(known) = self.list.iter().find(|meter| meter.source == body.source) else {
            return self.list.len() < METERS_PER_RUN_MAX;
        };
        [
            (body.cost_usd_micros, known.cost_usd_micros),
            (body.tokens, known.tokens),
            (body.steps, known.steps),
            (body.ms, known.ms),
        ]
        .into_iter()
        .any(|(told, known)| told > known)
    }

    /// True where it told of something that costs, and not what.
    fn is_unknown(&self) -> bool {
        self.list.iter().any(|meter| meter.ms.is_none())
            && self.list.iter().all(|meter| meter.cost_usd_micros.is_none())
    }

    /// True where it told nothing at all of what it used.
    fn is_silent(&self) -> bool {
        self.list.iter().all(|meter| meter.ms.is_some())
    }

    /// Takes in a report: of each sum what is new, whoever told it before, and how often (BU-1).
    fn charge(&mut self, body: &Usage) -> Charge {
        let (was_unknown, left) = (self.is_unknown(), self.left());
        let place = self.list.iter().position(|meter| meter.source == body.source).unwrap_or_else(|| {
            self.list.push(Meter::new(body.source.clone()));
            self.list.len() - 1
        });
        let Some(meter) = self.list.get_mut(place) else { return Charge::default() };
        let more = Spent {
            cost_usd_micros: raise(&mut meter.cost_usd_micros, body.cost_usd_micros),
            tokens: raise(&mut meter.tokens, body.tokens),
            steps: raise(&mut meter.steps, body.steps),
            ms: raise(&mut meter.ms, body.ms),
            ..Spent::default()
        };
        let is_unknown = self.is_unknown();
        Charge {
            more: Spent { cost_unknown: u32::from(is_unknown && !was_unknown), ..more },
            is_found: was_unknown && !is_unknown,
            freed: left.saturating_sub(self.left()),
        }
    }
}

/// Raises what is known to what is told, and says by how much; `None` where nothing was told.
fn raise(known: &mut Option<u64>, told: Option<u64>) -> Option<u64> {
    let told = told?;
    let before = known.unwrap_or(0);
    *known = Some(before.max(told));
    Some(told.saturating_sub(before))
}

impl Facts {
    /// A node's account and those of all above it.
    pub(crate) fn payers(&self, node: Node) -> impl Iterator<Item = Payer> {
        std::iter::successors(Some(node.into()), |payer| match *payer {
            Payer::Session(_) => None,
            Payer::Group(key) => self.groups.get(key.index()).map(|group| group.parent.into()),
            Payer::Job(key) => self.jobs.get(key.index()).map(|job| Payer::Group(job.group)),
        })
    }

    /// What may be used there.
    pub(crate) fn budget(&self, payer: Payer) -> Budget {
        match payer {
            Payer::Session(key) => self.sessions.get(key.index()).map(|session| session.bounds.budget),
            Payer::Group(key) => self.groups.get(key.index()).map(|group| group.policy.budget),
            Payer::Job(key) => self.jobs.get(key.index()).map(|job| job.limits.budget),
        }
        .unwrap_or_default()
    }

    /// What was used there.
    pub(crate) fn ledger(&self, payer: Payer) -> Ledger {
        let ledger = match payer {
            Payer::Session(key) => {
                self.sessions.get(key.index()).and_then(|session| session.ledger.as_deref())
            }
            Payer::Group(key) => self.groups.get(key.index()).and_then(|group| group.ledger.as_deref()),
            Payer::Job(key) => self.jobs.get(key.index()).and_then(|job| job.ledger.as_deref()),
        };
        ledger.copied().unwrap_or_default()
    }

    fn ledger_mut(&mut self, payer: Payer) -> Option<&mut Ledger> {
        let ledger = match payer {
            Payer::Session(key) => self.sessions.get_mut(key.index()).map(|session| &mut session.ledger),
            Payer::Group(key) => self.groups.get_mut(key.index()).map(|group| &mut group.ledger),
            Payer::Job(key) => self.jobs.get_mut(key.index()).map(|job| &mut job.ledger),
        };
        ledger.map(|ledger| &mut **ledger.get_or_insert_default())
    }

    fn each_ledger(&mut self, node: Node, change: impl Fn(&mut Ledger)) {
        let payers: Vec<Payer> = self.payers(node).collect();
        for payer in payers {
            if let Some(ledger) = self.ledger_mut(payer) {
                change(ledger);
            }
        }
    }

    /// Sets money aside for a run.
    pub(crate) fn reserve(&mut self, key: JobKey, amount: u64) {
        if amount > 0 {
            self.each_ledger(Node::Job(key), |ledger| {
                ledger.reserved = ledger.reserved.saturating_add(amount);
            });
        }
    }

    /// Charges what a run has told to all that pay for it.
    pub(crate) fn used(&mut self, body: &Usage, hint: Near) -> Applied {
        let node = self.find_run(body.run, hint)?;
        let run = self.open_run(node).ok_or("the run is not open")?;
        // The time of a run, and calls that were counted from outside, are no word of the run itself (J-23).
        run.used |= body.cost_usd_micros.or(body.tokens).is_some() || body.steps.or(body.ms).is_none();
        let Charge { more, is_found, freed } = run.meters.get_or_insert_default().charge(body);
        self.each_ledger(node, |ledger| {
            ledger.spent = ledger.spent.plus(&more);
            ledger.spent.cost_unknown -= u32::from(is_found && ledger.spent.cost_unknown > 0);
            ledger.reserved = ledger.reserved.saturating_sub(freed);
        });
        Ok(self.about(node))
    }

    /// A run of a job is over: what is still set aside for it is not any more. An agent that did something and told
    /// nothing has cost nobody knows what.
    pub(crate) fn refund(&mut self, key: JobKey, run: &OpenRun, is_interrupted: bool) {
        let kind = self.jobs.get(key.index()).map(|job| job.kind);
        let meters = run.meters.as_deref();
        let is_silent = meters.is_none_or(Meters::is_silent);
        let is_unknown = kind == Some(JobKind::Agent) && run.bound && is_silent;
        let left = meters.map_or(0, Meters::left);
        if left == 0 && !is_unknown {
            return;
        }
        self.each_ledger(Node::Job(key), |ledger| {
            ledger.reserved = ledger.reserved.saturating_sub(left);
            let lost = if is_interrupted { left } else { 0 };
            ledger.spent = ledger.spent.plus(&Spent {
                cost_unknown: is_unknown.into(),
                unaccounted_max_usd_micros: lost,
                ..Spent::default()
            });
        });
    }

    /// Accounts that a record about a run is about to change.
    pub(crate) fn touch_payers(&mut self, node: Node) {
        let payers: Vec<Payer> = self.payers(node).collect();
        payers.into_iter().for_each(|payer| self.touch_payer(payer));
    }

    /// As [`Facts::touch_payers_of`], where the end of the run changes their accounts.
    pub(crate) fn touch_payers_of_end(&mut self, run: Fence, hint: Near) {
        let Ok(Node::Job(key)) = self.find_run(run, hint) else { return };
        let job = self.jobs.get(key.index());
        if job.is_some_and(|job| {
            job.kind == JobKind::Agent || job.run.as_ref().is_some_and(|run| run.meters.is_some())
        }) {
            self.touch_payers(Node::Job(key));
        }
    }

    fn touch_payer(&mut self, payer: Payer) {
        match payer {
            Payer::Session(key) => self.touch(RowKind::Session, key.0.into()),
            Payer::Group(key) => self.touch(RowKind::Group, key.0.into()),
            Payer::Job(key) => self.touch(RowKind::Job, key.0.into()),
        }
    }

    pub(crate) fn touch_payers_of(&mut self, run: Fence, hint: Near) {
        if let Ok(node) = self.find_run(run, hint) {
            self.touch_payers(node);
        }
    }
}

/// Sets what a record says of a budget.
pub(crate) fn set_budget(budget: &mut Budget, limits: &BTreeMap<LimitName, Option<u64>>) {
    for (name, limit) in limits {
        match name {
            LimitName::BudgetUsdMicros => budget.usd_micros = *limit,
            LimitName::BudgetTokens => budget.tokens = *limit,
            LimitName::BudgetSteps => budget.steps = *limit,
            LimitName::BudgetMs => budget.ms = *limit,
            LimitName::Slots | LimitName::RunMs | LimitName::TotalMs | LimitName::Unknown => {}
        }
    }
}

/// True for a bound of a budget.
pub(crate) const fn is_of_budget(name: &LimitName) -> bool {
    matches!(
        name,
        LimitName::BudgetUsdMicros | LimitName::BudgetTokens | LimitName::BudgetSteps | LimitName::BudgetMs
    )
}
