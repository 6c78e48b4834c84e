//! Where a record belongs: the node, the run or the group that it names, and what it is about.

use std::sync::Arc;

use fanin_protocol::{About, Fence, GroupId, JobId, NodeId, SessionId};

use super::{Near, Subject, nothing};
use crate::state::{Facts, Group, GroupKey, Job, JobKey, Node, OpenRun, Session};

impl Facts {
    /// True where the node has this name and may have children.
    pub(super) fn is_live(&self, node: Node, id: &NodeId) -> bool {
        match (node, id) {
            (Node::Session(key), NodeId::Session(id)) => {
                self.sessions.get(key.index()).is_some_and(|session| session.id == *id)
            }
            (Node::Job(key), NodeId::Job(id)) => {
                self.jobs.get(key.index()).is_some_and(|job| job.id == *id && job.run.is_some())
            }
            (Node::Session(_), NodeId::Job(_)) | (Node::Job(_), NodeId::Session(_)) => false,
        }
    }

    /// The node of this name, where it may have children.
    pub(super) fn live_node(&self, id: &NodeId) -> Result<Node, &'static str> {
        match id {
            NodeId::Session(id) => self.session_key(id).map(Node::Session).ok_or("its session is not known"),
            NodeId::Job(id) => {
                let key = self.job_key(id).ok_or("its parent is not known")?;
                let runs = self.jobs.get(key.index()).is_some_and(|job| job.run.is_some());
                if runs { Ok(Node::Job(key)) } else { Err("its parent does not run") }
            }
        }
    }

    pub(super) fn find_session(&mut self, id: &SessionId) -> Result<&mut Session, &'static str> {
        let key = self.session_key(id).ok_or("the session is not known")?;
        self.sessions.get_mut(key.index()).ok_or("the session is not known")
    }

    pub(super) fn find_job(&mut self, id: &JobId, hint: Near) -> Result<(JobKey, &mut Job), &'static str> {
        let hinted = hint.job().filter(|key| self.jobs.get(key.index()).is_some_and(|job| job.id == *id));
        let key = hinted.or_else(|| self.job_key(id)).ok_or("the job is not known")?;
        self.jobs.get_mut(key.index()).map(|job| (key, job)).ok_or("the job is not known")
    }

    pub(super) fn find_group(&mut self, id: &GroupId) -> Result<(GroupKey, &mut Group), &'static str> {
        let key = self.group_key(id).ok_or("the group is not known")?;
        self.groups.get_mut(key.index()).map(|group| (key, group)).ok_or("the group is not known")
    }

    pub(crate) fn find_run(&self, fence: Fence, hint: Near) -> Result<Node, &'static str> {
        let runs = |key: &JobKey| self.jobs.get(key.index())?.run.as_ref().map(|run| run.fence);
        let hinted = hint.job().filter(|key| runs(key) == Some(fence)).map(Node::Job);
        let fence_of = |node| Self::fence_of(&self.jobs, &self.sessions, node);
        hinted.or_else(|| self.runs.get(fence, fence_of)).ok_or("the run is not open")
    }

    pub(crate) fn open_run(&mut self, node: Node) -> Option<&mut OpenRun> {
        match node {
            Node::Session(key) => self.sessions.get_mut(key.index())?.turn.as_mut(),
            Node::Job(key) => self.jobs.get_mut(key.index())?.run.as_mut(),
        }
    }

    pub(crate) fn about(&self, node: Node) -> Subject {
        match node {
            Node::Job(key) => self.about_job(key),
            Node::Session(key) => self.sessions.get(key.index()).map_or_else(nothing, |session| {
                (Arc::clone(&session.about), session.turn.as_ref().map(|turn| turn.fence))
            }),
        }
    }

    pub(super) fn about_job(&self, key: JobKey) -> Subject {
        self.jobs
            .get(key.index())
            .map_or_else(nothing, |job| (Arc::clone(&job.about), job.run.as_ref().map(|run| run.fence)))
    }

    /// What a note on a job is about. A run from before the id's newest life belongs to an older one.
    pub(super) fn about_noted(&self, id: &JobId, run: Option<Fence>) -> Option<Arc<About>> {
        let job = self.jobs.get(self.job_key(id)?.index())?;
        if run.is_none_or(|run| run.0 > job.lifetime.0) {
            return Some(Arc::clone(&job.about));
        }
        let within = About::of(job.about.session().cloned(), None);
        Some(Arc::new(About { job: Some(id.clone()), ..within }))
    }

    pub(super) fn about_group(&self, key: GroupKey) -> Subject {
        self.groups.get(key.index()).map_or_else(nothing, |group| (Arc::clone(&group.about), None))
    }

    pub(super) fn about_session_of(&self, key: GroupKey) -> Subject {
        let session = self.groups.get(key.index()).and_then(|group| self.root(group.parent));
        session.map_or_else(nothing, |session| self.about(Node::Session(session)))
    }

    pub(super) fn about_group_of(&self, key: JobKey) -> Subject {
        self.jobs.get(key.index()).map_or_else(nothing, |job| self.about_group(job.group))
    }
}
