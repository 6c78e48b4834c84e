//! Looking at the state: jobs as they stand, pages of them, and what the checkers ask.

use std::sync::Arc;

use fanin_protocol::limits::PAGE_JOBS;
use fanin_protocol::{
    About, Firings, JobFilter, JobId, JobInfo, JobList, Lifetime, Named, NodeId, Output, Reason, SessionId,
    Spec,
};

use crate::command::{Launch, Member, Refusal};
use crate::state::{Job, JobKey, Node, State};
use crate::{autonomy, lend, quota, result, why};

/// What memory still holds. All is zero once everything is over, taken and left (G12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Waiters and their entries in the indexes.
    pub waiters: usize,
    /// Messages that a taker holds.
    pub offers: usize,
    /// Timers that run.
    pub timers: usize,
    /// Groups that are watched until they fire, and the plans of some.
    pub barriers: usize,
    /// Clocks and counters of jobs that run or will run again.
    pub clocks: usize,
    /// Jobs that wait for room for their kind.
    pub aside: usize,
    /// Jobs that wait for a budget, and times that count for one.
    pub quotas: usize,
    /// Runs that were told to end by force.
    pub forced: usize,
    /// What is still to be told below nodes that go.
    pub sweeps: usize,
    /// Slots that are lent, and what is kept of them.
    pub lent: usize,
    /// Groups whose members have used mail.
    pub teams: usize,
}

impl State {
    /// What memory still holds.
    pub fn held(&self) -> Held {
        let memory = &self.memory;
        let indexed = memory.waits_of.len()
            + memory.job_waiters.len()
            + memory.group_waiters.len()
            + memory.takers.len()
            + memory.idle_waiters.len();
        Held {
            waiters: memory.waiters.len() + indexed,
            offers: memory.offered.len() + memory.offered_posts.len(),
            timers: memory.timers.len(),
            barriers: memory.barriers.len() + memory.plans.len(),
            clocks: memory.clocks.len() + memory.repeats.len(),
            aside: memory.starts.held().filter(|key| self.job(*key).is_some_and(Job::awaits_start)).count(),
            quotas: quota::held(self),
            forced: memory.forced.len() + memory.overdue.len() + memory.force_at.len(),
            sweeps: memory.sweeps.len(),
            lent: lend::len(self),
            teams: memory.teams.len(),
        }
    }

    /// A job in its newest life as it stands; `None` where the id is not known.
    pub fn job_info(&self, id: &JobId) -> Option<JobInfo> {
        self.info(self.facts.job_key(id)?)
    }

    /// The job that has this life; `None` where it is not known.
    pub fn job_info_of(&self, lifetime: Lifetime) -> Option<JobInfo> {
        self.info(self.facts.job_of_lifetime(lifetime)?)
    }

    /// A job in this life, also where its id has another one by now.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`] where the id is not known, or never had this life.
    pub fn job_info_exact(&self, id: &JobId, lifetime: Lifetime) -> Result<JobInfo, Refusal> {
        let key = exact(self, id, lifetime)?;
        self.info(key).ok_or_else(|| self.no_job(id))
    }

    /// The session above a life of a job, how far below it that is, and how far below it a job may be.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`], or that the id is in another life.
    pub fn place_of(&self, id: &JobId, lifetime: Lifetime) -> Result<(SessionId, u32, u32), Refusal> {
        let node = Node::Job(exact(self, id, lifetime)?);
        let session =
            self.facts.root(node).and_then(|key| self.session(key)).ok_or_else(|| self.no_job(id))?;
        Ok((session.id.clone(), self.facts.depth(node), session.bounds.depth))
    }

    /// True where the job may have mail: its group has edges (T-5).
    pub fn has_mail(&self, id: &JobId, lifetime: Lifetime) -> bool {
        let job = exact(self, id, lifetime).ok().and_then(|key| self.job(key));
        job.and_then(|job| self.group(job.group)).is_some_and(|group| group.edges.is_some())
    }

    /// What the jobs above a job are to do, nearest first. Closures have nothing to show.
    ///
    /// # Errors
    ///
    /// As [`State::place_of`].
    pub fn specs_above(&self, id: &JobId, lifetime: Lifetime) -> Result<Vec<Arc<Spec>>, Refusal> {
        let above = self.facts.ancestors(Node::Job(exact(self, id, lifetime)?)).skip(1);
        let spec = |node| match node {
            Node::Job(key) => self.job(key)?.spec.clone(),
            Node::Session(_) => None,
        };
        Ok(above.filter_map(spec).collect())
    }

    /// The newest life of an id.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`].
    pub fn lifetime_of(&self, id: &JobId) -> Result<Lifetime, Refusal> {
        let job = self.facts.job_key(id).and_then(|key| self.job(key));
        job.map(|job| job.lifetime).ok_or_else(|| self.no_job(id))
    }

    /// The excerpt of a job's output in this life, from its last run; none while it runs.
    pub fn output_of(&self, lifetime: Lifetime) -> Option<Output> {
        let job = self.job(self.facts.job_of_lifetime(lifetime)?).filter(|job| job.run.is_none())?;
        job.last.as_ref()?.details.as_ref()?.output.clone()
    }

    /// True where a launch asks for nothing new: its group is there, or all of its jobs are (J-21).
    pub fn knows(&self, launch: &Launch) -> bool {
        let is_known = |member: &Member| !member.again && self.facts.job_key(&member.id).is_some();
        self.facts.group_key(&launch.group).is_some() || launch.members.iter().all(is_known)
    }

    /// How many runs this life of a job has had; 0 where it is not known.
    pub fn runs_of(&self, lifetime: Lifetime) -> u32 {
        self.facts.job_of_lifetime(lifetime).and_then(|key| self.job(key)).map_or(0, |job| job.runs)
    }

    /// The host's mark of a job that is not over.
    pub fn tag_of(&self, id: &JobId) -> Option<u64> {
        let key = self.facts.job_key(id)?;
        self.job(key).filter(|job| job.ended.is_none()).map(|_| self.tag(key))
    }

    /// Jobs, oldest first, a page at a time.
    pub fn jobs(&self, filter: &JobFilter) -> JobList {
        let limit = if filter.limit == 0 { PAGE_JOBS } else { filter.limit };
        let first = filter.from.map_or(0, |from| self.facts.jobs.first_not(|job| job.lifetime < from));
        let mut jobs = Vec::new();
        let mut next = None;
        for (place, job) in self.facts.jobs.from(first) {
            if !self.matches(filter, job) {
                continue;
            }
            if jobs.len() == limit {
                next = Some(job.lifetime);
                break;
            }
            jobs.extend(self.info(JobKey(place)));
        }
        JobList { jobs, next }
    }

    /// What has an id that begins so, each once.
    pub fn named(&self, start: &str) -> impl Iterator<Item = Named> {
        let facts = &self.facts;
        let sessions = facts.sessions.iter().map(|(_, session)| &session.id);
        // A job in several lives is named by its newest.
        let jobs = facts.jobs.iter().map(|(key, job)| (JobKey(key), &job.id));
        let groups = facts.groups.iter().map(|(_, group)| &group.id);
        let sessions = sessions.filter(move |id| id.begins(start)).cloned().map(Named::Session);
        let jobs = jobs.filter(move |(key, id)| id.begins(start) && facts.job_key(id) == Some(*key));
        let groups = groups.filter(move |id| id.begins(start)).cloned().map(Named::Group);
        sessions.chain(jobs.map(|(_, id)| Named::Job(id.clone()))).chain(groups)
    }

    /// Jobs that are not over, oldest first.
    pub fn live_jobs(&self) -> impl Iterator<Item = JobInfo> {
        self.facts
            .jobs
            .iter()
            .filter(|(_, job)| job.ended.is_none())
            .filter_map(|(key, _)| self.info(JobKey(key)))
    }

    /// Firings of watches that a session has not taken.
    pub fn owed_hits(&self, session: &SessionId) -> usize {
        let key = self.facts.session_key(session).map(Node::Session);
        key.map_or(0, |key| self.facts.posts(key).filter(|(_, posted)| posted.hit.is_some()).count())
    }

    /// Why firings that a session has not taken are not handed out to it (W-7); `None` where they are.
    pub fn held_hits(&self, session: &SessionId) -> Option<Reason> {
        let key = self.facts.session_key(session).filter(|_| self.owed_hits(session) > 0)?;
        autonomy::held(self, Node::Session(key))
    }

    /// Groups that have neither fired nor been voided, oldest first, and what each is about.
    pub fn open_groups(&self) -> impl Iterator<Item = &About> {
        self.facts
            .groups
            .iter()
            .filter(|(_, group)| group.fired.is_none() && group.voided.is_none())
            .map(|(_, group)| &*group.about)
    }

    /// Open runs of jobs: the slots in use.
    pub const fn running(&self) -> u32 {
        self.facts.running
    }

    /// Jobs that wait for their first start.
    pub const fn queued(&self) -> u32 {
        self.facts.queued
    }

    fn matches(&self, filter: &JobFilter, job: &Job) -> bool {
        filter.kind.is_none_or(|kind| kind == job.kind)
            && filter.status.is_none_or(|status| status == job.status())
            && filter
                .label_prefix
                .as_deref()
                .is_none_or(|prefix| job.label.as_deref().is_some_and(|label| label.starts_with(prefix)))
            && filter.session.as_ref().is_none_or(|id| self.is_of_session(job, id))
            && filter.below.as_ref().is_none_or(|node| match node {
                NodeId::Session(id) => self.is_of_session(job, id),
                NodeId::Job(id) => self.is_below_job(job, id),
            })
            && filter
                .group
                .as_ref()
                .is_none_or(|id| self.group(job.group).is_some_and(|group| group.id == *id))
    }

    fn is_of_session(&self, job: &Job, id: &SessionId) -> bool {
        self.session(job.session).is_some_and(|session| session.id == *id)
    }

    fn is_below_job(&self, job: &Job, id: &JobId) -> bool {
        let is_it = |node: Node| match node {
            Node::Session(_) => false,
            Node::Job(key) => self.job(key).is_some_and(|above| above.id == *id),
        };
        self.group(job.group).is_some_and(|group| self.facts.ancestors(group.parent).any(is_it))
    }

    fn info(&self, key: JobKey) -> Option<JobInfo> {
        let job = self.job(key)?;
        let end = job.ended.as_ref();
        let why = why::job_reasons(self, key);
        Some(JobInfo {
            job: job.id.clone(),
            lifetime: job.lifetime,
            session: self.session(job.session)?.id.clone(),
            group: self.group(job.group)?.id.clone(),
            index: job.index,
            kind: job.kind,
            label: job.label.clone(),
            status: job.status(),
            phase: why.first().map(|reason| reason.phase().to_owned()),
            cause: end.and_then(|end| end.cause),
            code: end.and_then(|end| end.code),
            message: result::message(self, job),
            why,
            runs: job.runs,
            queued_at_ms: job.queued_at_ms,
            started_at_ms: job.started_at_ms,
            ended_at_ms: end.map(|end| end.at_ms),
            usage: quota::usage(self, key),
            firings: job.limits.firings.map(|max| Firings { fired: job.fired, max }),
        })
    }
}

/// Where this life of an id is kept.
pub(crate) fn exact(state: &State, id: &JobId, lifetime: Lifetime) -> Result<JobKey, Refusal> {
    let key = state.facts.job_of_lifetime(lifetime);
    key.filter(|key| state.job(*key).is_some_and(|job| job.id == *id)).ok_or_else(|| state.no_job(id))
}
