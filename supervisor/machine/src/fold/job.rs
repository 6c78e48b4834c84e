//! Records of jobs: queued, stopping, ended, and the limits they were given.

use std::sync::Arc;

use fanin_protocol::record::{JobEnded, JobQueued, JobStopping, LimitName, LimitsSet, StopTarget};
use fanin_protocol::{About, Lifetime, NodeId, Seq};

use super::{Applied, Near, next_key, nothing};
use crate::state::{End, Facts, GroupKey, Job, JobKey, StopIntent, is_of_budget, set_budget};

impl Facts {
    pub(super) fn job_queued(&mut self, seq: Seq, ts_ms: u64, body: &JobQueued, hint: Near) -> Applied {
        let group = self.find_own_group(body, hint);
        // Whoever is a parent of the group is that of the job: it is looked up once for all of a launch.
        let parent = match group.and_then(|key| self.groups.get(key.index())) {
            Some(group) if self.is_live(group.parent, &body.parent) => group.parent,
            _ => self.live_node(&body.parent)?,
        };
        let session = self.root(parent).ok_or("its session is not known")?;
        let key = JobKey(next_key(self.jobs.next())?);
        let fits = match group.and_then(|key| self.groups.get(key.index())) {
            Some(group) => {
                !group.sealed && group.parent == parent && group.members.len() == body.index as usize
            }
            None => body.index == 0,
        };
        if !fits {
            return Err("it does not fit its group");
        }
        let jobs = &self.jobs;
        let is = |key: JobKey| jobs.get(key.index()).is_some_and(|job| job.id == body.job);
        let is_over = |key: JobKey| jobs.get(key.index()).is_some_and(|job| job.ended.is_some());
        // An id names its newest life.
        if !self.job_index.put(&body.job, key, is, is_over) {
            return Err("the job exists and is not over");
        }
        let group = match group {
            Some(key) => key,
            None => self.open_group(&body.group, parent)?,
        };
        let Some(members) = self.groups.get_mut(group.index()) else { return Err("its group is gone") };
        members.members.push(key);
        members.counts.launched += 1;
        let lifetime = Lifetime(seq.0);
        let within = members.about.within.clone();
        let about = About { within, job: Some(body.job.clone()), lifetime: Some(lifetime) };
        self.jobs.push(Job {
            id: body.job.clone(),
            about: Arc::new(about),
            lifetime,
            session,
            group,
            index: body.index,
            kind: body.kind,
            label: body.label.clone(),
            spec: body.spec.reveal().cloned(),
            limits: body.limits.clone(),
            queued_at_ms: ts_ms,
            started_at_ms: None,
            runs: 0,
            crashed: 0,
            suspended: 0,
            run: None,
            stop: None,
            last: None,
            ended: None,
            taken: false,
            unanswered: 0,
            fired: 0,
            ledger: None,
            below: None,
        });
        self.queued += 1;
        if let Some(session) = self.sessions.get_mut(session.index()) {
            session.spawned = session.spawned.saturating_add(1);
            session.queued += 1;
            session.jobs += 1;
        }
        Ok(self.about_job(key))
    }

    /// The group that a queued job names, where it exists.
    fn find_own_group(&self, body: &JobQueued, hint: Near) -> Option<GroupKey> {
        match hint {
            Near::Group(key) if self.groups.get(key.index()).is_some_and(|group| group.id == body.group) => {
                Some(key)
            }
            Near::Group(_) | Near::Job(_) | Near::Unknown => self.group_key(&body.group),
        }
    }

    pub(super) fn job_stopping(&mut self, body: &JobStopping, hint: Near) -> Applied {
        let (key, job) = self.find_job(&body.job, hint)?;
        if job.ended.is_some() || job.awaits_start() {
            return Err("the job does not run");
        }
        let after = match &job.stop {
            None => None,
            Some(stop) if stop.target == StopTarget::Cancelled => return Err("a cancel is final"),
            // Nothing was to be ended.
            Some(stop) if stop.target == StopTarget::Requeue => None,
            Some(stop) => Some(stop.cause),
        };
        job.stop = Some(StopIntent { target: body.target, cause: body.cause, code: body.code, after });
        Ok(self.about_job(key))
    }

    pub(super) fn job_ended(&mut self, at_ms: u64, body: &JobEnded, hint: Near) -> Applied {
        let (key, job) = self.find_job(&body.job, hint)?;
        if job.ended.is_some() {
            return Err("the job is over");
        }
        if job.run.is_some() {
            return Err("its run is open");
        }
        if job.below.as_ref().is_some_and(|below| !below.open.is_empty() || !below.inbox.is_empty()) {
            return Err("what it launched is not over, or owed to it");
        }
        job.below = None;
        let was_queued = job.awaits_start();
        job.ended = Some(End {
            status: body.status,
            cause: body.cause,
            code: body.code,
            after: body.after,
            root: body.root,
            interrupted: body.interrupted,
            unreaped: body.unreaped,
            completed_anyway: body.completed_anyway,
            at_ms,
        });
        let (group, session) = (job.group, job.session);
        if was_queued {
            self.queued -= 1;
            if let Some(session) = self.sessions.get_mut(session.index()) {
                session.queued -= 1;
            }
        }
        if let Some(counted) = self.groups.get_mut(group.index()) {
            counted.counts.add(body.status);
            self.close_voided(group);
        }
        Ok(self.about_job(key))
    }

    /// The slots of a supervisor are set by each opening, so a change of them ends with it and is no fact.
    pub(super) fn limits_set(&mut self, body: &LimitsSet, hint: Near) -> Applied {
        if let Some(id) = &body.group {
            let (key, group) = self.find_group(id)?;
            set_budget(&mut group.policy.budget, &body.limits);
            return Ok(self.about_group(key));
        }
        let id = match &body.node {
            None => return Ok(nothing()),
            Some(NodeId::Job(id)) => id,
            Some(NodeId::Session(id)) => {
                if !body.limits.keys().all(is_of_budget) {
                    return Err("a session has no such limit");
                }
                let session = self.find_session(id)?;
                set_budget(&mut session.bounds.budget, &body.limits);
                return Ok((Arc::clone(&session.about), None));
            }
        };
        let (key, job) = self.find_job(id, hint)?;
        if job.ended.is_some() {
            return Err("the job is over");
        }
        let is_known =
            |name: &LimitName| matches!(name, LimitName::RunMs | LimitName::TotalMs) || is_of_budget(name);
        if !body.limits.keys().all(is_known) {
            return Err("a job has no such limit");
        }
        let limits = job.limits.edit();
        limits.run_ms = body.limits.get(&LimitName::RunMs).copied().unwrap_or(limits.run_ms);
        limits.total_ms = body.limits.get(&LimitName::TotalMs).copied().unwrap_or(limits.total_ms);
        set_budget(&mut limits.budget, &body.limits);
        Ok(self.about_job(key))
    }
}
