//! Records of groups: sealed, fired, voided.

use std::sync::Arc;

use fanin_protocol::record::{GroupFired, GroupSealed, GroupVoided};
use fanin_protocol::{About, Counts, GroupId, Policy, Seq};

use super::{Applied, next_key};
use crate::state::{Facts, Group, GroupKey, Node};

impl Facts {
    /// Makes a group that is open: it exists as the jobs that name it.
    pub(super) fn open_group(&mut self, id: &GroupId, parent: Node) -> Result<GroupKey, &'static str> {
        let key = GroupKey(next_key(self.groups.next())?);
        let session = match parent {
            Node::Session(parent) => {
                let session = self.sessions.get_mut(parent.index()).ok_or("its session is not known")?;
                session.below.open.insert(key);
                // The turn's own group is the one that is open while the turn is; an explicit one is sealed in its
                // step.
                if session.turn.is_some() {
                    session.turn_group.get_or_insert(key);
                }
                parent
            }
            Node::Job(parent) => {
                let job = self.jobs.get_mut(parent.index()).ok_or("its parent is not known")?;
                job.below.get_or_insert_default().open.insert(key);
                job.session
            }
        };
        self.group_index.put(id, key, |_| false, |_| false);
        let session = self.sessions.get(session.index()).map(|session| session.id.clone());
        let about = About::of(session, Some(id.clone()));
        self.groups.push(Group {
            id: id.clone(),
            about: Arc::new(about),
            parent,
            members: Vec::new(),
            policy: Policy::ALL,
            edges: None,
            sealed: false,
            sealed_at_ms: 0,
            counts: Counts::default(),
            fired: None,
            fired_at: Seq(0),
            voided: None,
            results_taken: 0,
            taken: false,
            void: false,
            ledger: None,
        });
        Ok(key)
    }

    pub(super) fn group_sealed(&mut self, ts_ms: u64, body: &GroupSealed) -> Applied {
        let key = self.group_key(&body.group).ok_or("the group is not known")?;
        let Some(group) = self.groups.get_mut(key.index()) else { return Err("the group is not known") };
        if group.sealed {
            return Err("the group is sealed");
        }
        let ids = group.members.iter().map(|member| self.jobs.get(member.index()).map(|job| &job.id));
        if !ids.eq(body.members.iter().map(Some)) {
            return Err("its members are not those that were queued");
        }
        group.sealed = true;
        group.sealed_at_ms = ts_ms;
        group.policy = body.policy;
        group.edges = body.edges.clone();
        let parent = group.parent;
        self.leave_turn(parent, key);
        Ok(self.about_group(key))
    }

    pub(super) fn group_fired(&mut self, seq: Seq, body: &GroupFired) -> Applied {
        let (key, group) = self.find_group(&body.group)?;
        if group.fired.is_some() || group.voided.is_some() {
            return Err("the group has fired or is voided");
        }
        if !group.sealed || group.counts.ended() != group.counts.launched {
            return Err("not all of its members are over");
        }
        let payload = body.payload.reveal().ok_or("it has no payload")?;
        group.fired = Some(Arc::clone(payload));
        group.fired_at = seq;
        let parent = group.parent;
        if let Some(below) = self.below_mut(parent) {
            below.open.remove(&key);
            below.inbox.push_back(key);
        }
        Ok(self.about_group(key))
    }

    pub(super) fn group_voided(&mut self, body: &GroupVoided) -> Applied {
        let (key, group) = self.find_group(&body.group)?;
        if group.fired.is_some() || group.voided.is_some() {
            return Err("the group has fired or is voided");
        }
        group.voided = Some(body.cause);
        let parent = group.parent;
        self.leave_turn(parent, key);
        self.close_voided(key);
        Ok(self.about_group(key))
    }

    /// The turn's open group is sealed or voided: the next launch makes another.
    fn leave_turn(&mut self, parent: Node, key: GroupKey) {
        if let Node::Session(session) = parent
            && let Some(session) = self.sessions.get_mut(session.index())
        {
            session.turn_group.take_if(|group| *group == key);
        }
    }

    /// A voided group is done with once its last member is over.
    pub(super) fn close_voided(&mut self, key: GroupKey) {
        let Some(group) = self.groups.get(key.index()) else { return };
        if group.voided.is_some() && group.counts.ended() == group.counts.launched {
            let parent = group.parent;
            if let Some(below) = self.below_mut(parent) {
                below.open.remove(&key);
            }
        }
    }

    /// Debug builds compare the cached counts with the list they come from (BAR-1).
    pub(crate) fn counts_hold(&self, key: GroupKey) -> bool {
        let Some(group) = self.groups.get(key.index()) else { return true };
        let mut counts = Counts { launched: group.counts.launched, ..Counts::default() };
        for job in group.members.iter().filter_map(|member| self.jobs.get(member.index())) {
            counts.add(job.status());
        }
        counts == group.counts && group.members.len() == counts.launched as usize
    }
}
