//! A store as its readers see it, who own nothing: facts from all of its rows, and groups as they stand. Nothing here
//! changes a fact, and no step is ever taken on such a state.

use std::sync::Arc;

use fanin_protocol::limits::RESULT_BYTES_MAX;
use fanin_protocol::{
    Cause, CombinedResult, GroupId, JobId, Lifetime, LogId, NodeId, Policy, ResultEntry, RowKind, Seq,
    SessionId, Spent,
};

use crate::rows::{RestoreError, decode};
use crate::state::{Facts, Group, Job, JobKey, Node, State};
use crate::{plan, result, retry, waiter};

/// A group as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupInfo {
    /// The group.
    pub group: GroupId,
    /// The session at the root of it, as long as that is known.
    pub session: Option<SessionId>,
    /// Who launched it, as long as that is known.
    pub parent: Option<NodeId>,
    /// The rule that may stop the rest.
    pub policy: Policy,
    /// What its jobs, and all below them, have used.
    pub spent: Spent,
    /// Its jobs in launch order.
    pub members: Vec<JobId>,
    /// The combined result, once it has fired.
    pub result: Option<Arc<CombinedResult>>,
    /// Why there will be no result.
    pub voided: Option<Cause>,
    /// Its result was taken.
    pub is_taken: bool,
}

/// What the row of a job names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRow {
    /// Which life of its id it is.
    pub lifetime: Lifetime,
    /// The place of its session.
    pub session: u64,
    /// The place of its group.
    pub group: u64,
}

impl JobRow {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] where that is none.
    pub fn read(key: u64, body: &[u8]) -> Result<Self, RestoreError> {
        let job: Job = decode(body).map_err(|why| RestoreError { kind: RowKind::Job, key, why })?;
        Ok(Self { lifetime: job.lifetime, session: job.session.0.into(), group: job.group.0.into() })
    }
}

impl State {
    /// The result of a life of a job, as a wait for so many jobs has it; `None` where it is not known or not over.
    pub fn entry(&self, lifetime: Lifetime, jobs: usize) -> Option<ResultEntry> {
        let key = self.facts.job_of_lifetime(lifetime)?;
        self.job(key)?.ended?;
        let entry = result::entry(self, key, RESULT_BYTES_MAX / jobs.max(1))?;
        Some(ResultEntry { reference: waiter::is_taken(self, key), ..entry })
    }

    /// What the rows of a store say, retired ones too. A job whose group was let go of is left out.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] where a row cannot be read.
    pub fn seen<'a>(
        log: Option<LogId>,
        head: Seq,
        ts_ms: u64,
        rows: impl Iterator<Item = (RowKind, u64, &'a [u8])>,
    ) -> Result<Self, RestoreError> {
        let facts = Facts::restore_seen(log, head, ts_ms, rows)?;
        Ok(Self::recovered(facts))
    }

    /// Puts what waits where its owner has it in memory at this time: in line, or in the gap before its next try.
    #[must_use]
    pub fn lined_up(mut self, wall_ms: u64) -> Self {
        let is_held = |key| plan::reason(&self, key).is_some();
        let waiting = self.facts.jobs.iter().filter(|(_, job)| job.awaits_start());
        let waiting = waiting.filter(|(place, _)| !is_held(JobKey(*place)));
        let since = |job: &Job| job.retry_at_ms().unwrap_or(job.queued_at_ms);
        let mut line: Vec<_> = waiting.map(|(place, job)| (since(job), job.session, JobKey(place))).collect();
        // One that is due again stands behind all that waited by then.
        line.sort_by_key(|(since_ms, ..)| *since_ms);
        for (_, session, key) in line {
            if self.job(key).and_then(Job::retry_at_ms).is_some_and(|at_ms| at_ms > wall_ms) {
                retry::arm(&mut self, key);
            } else {
                self.memory.ready.entry(session).or_default().push_back(key);
            }
        }
        self
    }

    /// Groups, oldest first.
    pub fn group_infos(&self) -> impl Iterator<Item = GroupInfo> {
        self.facts.groups.iter().map(|(_, group)| self.group_view(group))
    }

    /// A group as it stands; `None` where the id is not known.
    pub fn group_info(&self, id: &GroupId) -> Option<GroupInfo> {
        self.group(self.facts.group_key(id)?).map(|group| self.group_view(group))
    }

    fn group_view(&self, group: &Group) -> GroupInfo {
        let parent = match group.parent {
            Node::Session(key) => self.session(key).map(|session| NodeId::Session(session.id.clone())),
            Node::Job(key) => self.job(key).map(|job| NodeId::Job(job.id.clone())),
        };
        let members = group.members.iter().filter_map(|member| self.job(*member));
        GroupInfo {
            group: group.id.clone(),
            session: group.about.session().cloned(),
            parent,
            policy: group.policy,
            spent: group.ledger.as_deref().copied().unwrap_or_default().spent,
            members: members.map(|job| job.id.clone()).collect(),
            result: group.fired.clone(),
            voided: group.voided,
            is_taken: group.taken,
        }
    }
}

impl Facts {
    /// True once the store was closed in order.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}
