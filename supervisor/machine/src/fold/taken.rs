//! What was owed is taken: a message, a result, a follow-up.

use fanin_protocol::record::{MessageTaken, TakenBy};
use fanin_protocol::{GroupId, Lifetime};

use super::{Applied, distinct, nothing};
use crate::state::{Facts, GroupKey, JobKey};

impl Facts {
    pub(super) fn message_taken(&mut self, body: &MessageTaken) -> Applied {
        // All of it is looked at before anything changes.
        let (groups, jobs) = (self.owed_groups(&body.keys)?, self.owed_results(&body.results)?);
        let posts = self.owed_posts(&body.messages)?;
        let to = posts.first().map(|(node, _)| *node);
        self.take_posts(posts, body.by);
        for key in &groups {
            let Some(group) = self.groups.get_mut(key.index()) else { continue };
            group.taken = true;
            group.void = body.by == TakenBy::Void;
            let parent = group.parent;
            if let Some(below) = self.below_mut(parent) {
                // The oldest is taken first, but for waits; a long inbox is not walked for it.
                if below.inbox.front() == Some(key) {
                    below.inbox.pop_front();
                } else {
                    below.inbox.retain(|owed| owed != key);
                }
            }
        }
        for key in &jobs {
            if let Some(job) = self.jobs.get_mut(key.index()) {
                job.taken = true;
                if let Some(group) = self.groups.get_mut(job.group.index()) {
                    group.results_taken += 1;
                }
            }
        }
        Ok(match (groups.as_slice(), jobs.first()) {
            ([key], _) => self.about_group(*key),
            // Of several groups only the session is the same.
            ([key, ..], _) => self.about_session_of(*key),
            ([], Some(key)) => self.about_group_of(*key),
            ([], None) => to.map_or_else(nothing, |node| self.about(node)),
        })
    }

    fn owed_groups(&self, ids: &[GroupId]) -> Result<Vec<GroupKey>, &'static str> {
        let owed = |id| {
            let key = self.group_key(id)?;
            self.groups.get(key.index()).filter(|group| group.fired.is_some() && !group.taken).map(|_| key)
        };
        distinct(ids.iter().map(owed)).ok_or("no message of the group is owed")
    }

    fn owed_results(&self, lifetimes: &[Lifetime]) -> Result<Vec<JobKey>, &'static str> {
        let owed = |lifetime: &Lifetime| {
            let key = self.job_of_lifetime(*lifetime)?;
            self.jobs.get(key.index()).filter(|job| job.ended.is_some() && !job.taken).map(|_| key)
        };
        distinct(lifetimes.iter().map(owed)).ok_or("the result is not there, or was taken")
    }

    /// The job of a lifetime. Jobs are kept in the order of their `job.queued`, so their lifetimes rise.
    pub(crate) fn job_of_lifetime(&self, lifetime: Lifetime) -> Option<JobKey> {
        let first = self.jobs.first_not(|job| job.lifetime < lifetime);
        let (place, job) = self.jobs.from(first).next()?;
        (job.lifetime == lifetime).then_some(JobKey(place))
    }
}
