//! What records of plans may say (T-3, T-4), from the semantics and not from the machine.

use fanin_protocol::record::{GroupSealed, JobEnded};
use fanin_protocol::{Cause, JobId, OnFailedDependency, Status};

use super::{JobSeen, Ledger};
use crate::broken::{Kept, ensure};

impl Ledger {
    /// T-2: what is sealed is a plan, or has no edges.
    pub(super) fn plan_sealed(&mut self, body: &GroupSealed) -> Kept {
        let Some(edges) = body.edges.as_deref() else { return Ok(()) };
        let problems = edges.problems(body.members.len());
        ensure(problems.is_empty() && !edges.is_empty(), "T-2", || format!("{edges:?}: {problems:?}"))?;
        self.plans += 1;
        if let Some(group) = self.groups.get_mut(&body.group) {
            group.edges = edges.clone();
        }
        Ok(())
    }

    /// What a job needs.
    pub fn needs<'a>(&'a self, job: &'a JobSeen) -> impl Iterator<Item = &'a JobSeen> {
        let group = self.groups.get(&job.group);
        let place = group.and_then(|group| group.lives.binary_search(&job.lifetime).ok());
        let need = group.zip(place).and_then(|(group, place)| group.edges.of(place as u32));
        let places = need.into_iter().flat_map(|need| &need.on);
        let life = move |place: &u32| group.and_then(|group| group.lives.get(*place as usize)).copied();
        places.filter_map(life).filter_map(|life| self.life(life))
    }

    /// What becomes of a job where one that it needs did not complete.
    pub fn on_failed(&self, job: &JobSeen) -> Option<OnFailedDependency> {
        let group = self.groups.get(&job.group)?;
        let place = group.lives.binary_search(&job.lifetime).ok()?;
        group.edges.of(place as u32).map(|need| need.on_failed)
    }

    /// True where a job waits for others, and stands in no line.
    pub fn is_held(&self, job: &JobSeen) -> bool {
        job.runs == 0 && self.needs(job).any(|needed| needed.ended.is_none())
    }

    /// T-3, T-4: nothing starts before what it needs is over, nor where that did not complete, unless it was to run then.
    pub(super) fn needs_are_over(&self, id: &JobId) -> Kept {
        let job = self.job(id);
        let runs = self.on_failed(job) == Some(OnFailedDependency::Run);
        let is_wrong = |needed: &&JobSeen| match &needed.ended {
            None => true,
            Some(end) => end.status != Status::Completed && !runs,
        };
        let wrong = self.needs(job).find(is_wrong);
        ensure(wrong.is_none(), "T-3", || format!("{id} starts before {wrong:?}"))
    }

    /// T-4: a job is skipped where one that it needs did not complete, and names whose end began it.
    pub(super) fn skipped(&self, body: &JobEnded) -> Kept {
        let is_skipped = body.cause == Some(Cause::Dependency);
        ensure(is_skipped == body.root.is_some(), "T-4", || format!("{body:?} and its root"))?;
        if !is_skipped {
            return Ok(());
        }
        let job = self.job(&body.job);
        let may = job.runs == 0 && self.on_failed(job).is_some_and(|then| then != OnFailedDependency::Run);
        ensure(may, "T-4", || format!("{body:?}, which was not to be skipped"))?;
        let lives = self.groups.get(&job.group).map(|group| group.lives.as_slice()).unwrap_or_default();
        let begins = |needed: &JobSeen| {
            let end = needed.ended.as_ref().filter(|end| has_failed(Some(end)))?;
            let place = || lives.binary_search(&needed.lifetime).ok().map(|place| place as u32);
            end.root.or_else(place)
        };
        let fits = self.needs(job).filter_map(begins).min() == body.root;
        ensure(fits, "T-4", || format!("{body:?} because of no job that it needs"))
    }

    /// T-4: a job that is to be skipped is over in the same step.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::Broken) where one still waits.
    pub fn nobody_waits_in_vain(&self) -> Kept {
        if self.plans == 0 {
            return Ok(());
        }
        let waits_in_vain = |job: &&JobSeen| {
            self.on_failed(job).is_some_and(|then| then != OnFailedDependency::Run)
                && self.needs(job).any(|needed| has_failed(needed.ended.as_ref()))
                && !self.is_going_down(&job.parent)
                && self.groups.get(&job.group).is_some_and(|group| !group.voided)
        };
        let mut unstarted = self.unstarted.iter().filter_map(|life| self.life(*life));
        let left = unstarted.find(waits_in_vain);
        ensure(left.is_none(), "T-4", || format!("{left:?} waits for what will never be"))
    }
}

/// True for an end that did not complete, but for one that was stopped with the rest of the group.
fn has_failed(end: Option<&JobEnded>) -> bool {
    end.is_some_and(|end| end.status != Status::Completed && end.cause != Some(Cause::Group))
}
