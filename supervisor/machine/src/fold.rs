//! The one place where facts change: a record is applied. Recovery is this, over the stored records.

use std::sync::Arc;

use fanin_protocol::record::{
    GroupFired, GroupSealed, GroupVoided, JobEnded, JobQueued, JobStopping, LimitName, LimitsSet,
    MessageTaken, Next, RunEnded, RunOutcome, RunStarted, StopTarget, TakenBy,
};
use fanin_protocol::{
    About, Bounds, Counts, Entry, Fence, GroupId, JobId, JobKind, Lifetime, NodeId, Policy, Record, Seq,
    SessionId, ToolPart,
};

use crate::state::{
    Below, End, Facts, Group, GroupKey, Job, JobKey, LastRun, Meters, Node, OpenRun, Parts, RunDetails,
    Session, SessionKey, StopIntent, is_of_budget, set_budget,
};

/// A record that cannot follow the ones before it. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} `{kind}` cannot follow: {why}")]
pub struct FoldError {
    /// The record's place.
    pub seq: Seq,
    /// Its kind.
    pub kind: &'static str,
    /// Which rule it breaks.
    pub why: &'static str,
}

/// What the writer of a record knows of where things are. It is checked, and only saves the way over the ids.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Near {
    /// Nothing.
    Unknown,
    /// The job that the record is about.
    Job(JobKey),
    /// The open group that a job joins.
    Group(GroupKey),
}

impl Near {
    pub(crate) const fn job(self) -> Option<JobKey> {
        match self {
            Self::Job(key) => Some(key),
            Self::Unknown | Self::Group(_) => None,
        }
    }
}

/// What a record is about, and which run.
pub(crate) type Subject = (Arc<About>, Option<Fence>);

pub(crate) type Applied = Result<Subject, &'static str>;

impl Facts {
    /// Applies a record and says what it is about.
    ///
    /// # Errors
    ///
    /// [`FoldError`] where the record does not fit the facts (J-15); they are as before.
    pub fn apply(&mut self, seq: Seq, ts_ms: u64, record: &Record) -> Result<Subject, FoldError> {
        self.apply_near(seq, ts_ms, record, Near::Unknown)
    }

    /// As [`Facts::apply`], by one who knows something of it.
    pub(crate) fn apply_near(
        &mut self,
        seq: Seq,
        ts_ms: u64,
        record: &Record,
        hint: Near,
    ) -> Result<Subject, FoldError> {
        let about = if seq != self.head.next() {
            Err("its place is not the next one")
        } else if ts_ms < self.ts_ms {
            Err("its time is before that of the record before it")
        } else {
            self.touch_before(record, hint);
            self.apply_body(seq, ts_ms, record, hint)
        };
        let about = about.map_err(|why| FoldError { seq, kind: record.kind(), why })?;
        self.head = seq;
        self.ts_ms = ts_ms;
        Ok(about)
    }

    /// Folds a log from its beginning.
    ///
    /// # Errors
    ///
    /// [`FoldError`] of the first record that does not fit.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self, FoldError> {
        let mut facts = Self::default();
        for entry in entries {
            facts.apply(entry.seq, entry.ts_ms, &entry.record)?;
        }
        Ok(facts)
    }

    fn apply_body(&mut self, seq: Seq, ts_ms: u64, record: &Record, hint: Near) -> Applied {
        match record {
            Record::StoreOpened(body) => {
                self.log.get_or_insert_with(|| body.log.clone());
                self.epoch = seq;
                self.closed = false;
                Ok(nothing())
            }
            Record::StoreClosed(_) => {
                self.closed = true;
                Ok(nothing())
            }
            Record::SessionOpened(body) => self.session_opened(&body.session, body.bounds),
            Record::SessionClosed(body) => self.session_closed(&body.session),
            Record::JobQueued(body) => self.job_queued(seq, ts_ms, body, hint),
            Record::JobStopping(body) => self.job_stopping(body, hint),
            Record::JobEnded(body) => self.job_ended(ts_ms, body, hint),
            Record::RunStarted(body) => self.run_started(Fence(seq.0), ts_ms, body, hint),
            Record::RunBound(body) => self.run_bound(body.run, hint),
            Record::RunEnded(body) => self.run_ended(body, hint),
            Record::ToolPart(part) => self.part(part, hint),
            Record::GroupSealed(body) => self.group_sealed(ts_ms, body),
            Record::GroupFired(body) => self.group_fired(seq, body),
            Record::GroupVoided(body) => self.group_voided(body),
            Record::MessagePosted(body) => self.message_posted(seq, body),
            Record::MessageTaken(body) => self.message_taken(body),
            Record::LimitsSet(body) => self.limits_set(body, hint),
            Record::Note(body) => {
                let job = body.job.as_ref().and_then(|id| self.about_noted(id, body.run));
                let group = || self.group_key(body.details.as_ref()?.group.as_ref()?);
                let about = job.or_else(|| group().map(|key| self.about_group(key).0));
                Ok((about.unwrap_or_default(), body.run))
            }
            Record::Usage(body) => self.used(body, hint),
            // No command of this version produces it; an older reader of it would be this one.
            Record::MessageSent(_) => Err("this version does not know what follows from it"),
        }
    }

    fn session_opened(&mut self, id: &SessionId, bounds: Bounds) -> Applied {
        let key = SessionKey(next_key(self.sessions.next())?);
        let sessions = &self.sessions;
        let is = |key: SessionKey| sessions.get(key.index()).is_some_and(|session| session.id == *id);
        if !self.session_index.put(id, key, is, |_| false) {
            return Err("the session exists");
        }
        let about = Arc::new(About::of(Some(id.clone()), None));
        self.sessions.push(Session {
            id: id.clone(),
            about: Arc::clone(&about),
            closed: false,
            turn: None,
            turns: 0,
            turn_group: None,
            below: Below::default(),
            bounds,
            spawned: 0,
            queued: 0,
            running: 0,
            jobs: 0,
            ledger: None,
        });
        Ok((about, None))
    }

    fn session_closed(&mut self, id: &SessionId) -> Applied {
        let session = self.find_session(id)?;
        if session.closed {
            return Err("the session is closed");
        }
        session.closed = true;
        Ok((Arc::clone(&session.about), None))
    }

    fn job_queued(&mut self, seq: Seq, ts_ms: u64, body: &JobQueued, hint: Near) -> Applied {
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

    /// Makes a group that is open: it exists as the jobs that name it.
    fn open_group(&mut self, id: &GroupId, parent: Node) -> Result<GroupKey, &'static str> {
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

    fn job_stopping(&mut self, body: &JobStopping, hint: Near) -> Applied {
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

    fn job_ended(&mut self, at_ms: u64, body: &JobEnded, hint: Near) -> Applied {
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

    fn run_started(&mut self, fence: Fence, ts_ms: u64, body: &RunStarted, hint: Near) -> Applied {
        let meters = |reserved| Box::new(Meters::new(ts_ms, reserved));
        let meters = body.reserved_usd_micros.map(meters);
        let open = |bound| OpenRun { fence, bound, parts: Parts::default(), used: false, meters };
        match &body.node {
            NodeId::Session(id) => {
                let key = self.session_key(id).ok_or("its session is not known")?;
                let session = self.find_session(id)?;
                if session.closed || session.turn.is_some() {
                    return Err("the session is closed or in a turn");
                }
                session.turn = Some(open(true));
                session.turns += 1;
                self.opened(fence, Node::Session(key));
                Ok(self.about(Node::Session(key)))
            }
            NodeId::Job(id) => {
                let (key, job) = self.find_job(id, hint)?;
                if !job.awaits_start() {
                    return Err("the job does not wait for a start");
                }
                job.run = Some(open(job.kind == JobKind::Closure));
                job.runs += 1;
                job.started_at_ms.get_or_insert(ts_ms);
                let session = job.session;
                self.opened(fence, Node::Job(key));
                self.reserve(key, body.reserved_usd_micros.unwrap_or(0));
                self.running += 1;
                self.queued -= 1;
                if let Some(session) = self.sessions.get_mut(session.index()) {
                    session.running += 1;
                    session.queued -= 1;
                }
                Ok(self.about_job(key))
            }
        }
    }

    /// A run of the node began.
    pub(crate) fn opened(&mut self, fence: Fence, node: Node) {
        let (jobs, sessions) = (&self.jobs, &self.sessions);
        self.runs.insert(fence, node, |node| Self::fence_of(jobs, sessions, node));
    }

    fn run_bound(&mut self, fence: Fence, hint: Near) -> Applied {
        let node = self.find_run(fence, hint)?;
        let run = self.open_run(node).ok_or("the run is not open")?;
        run.bound = true;
        Ok(self.about(node))
    }

    fn run_ended(&mut self, body: &RunEnded, hint: Near) -> Applied {
        let node = self.find_run(body.run, hint)?;
        let run = self.open_run(node).ok_or("the run is not open")?;
        if run.parts.iter().any(|part| !part.state.is_terminal()) {
            return Err("a part of it is open");
        }
        let about = self.about(node);
        let (jobs, sessions) = (&self.jobs, &self.sessions);
        self.runs.remove(body.run, |node| Self::fence_of(jobs, sessions, node));
        match node {
            Node::Session(key) => {
                if let Some(session) = self.sessions.get_mut(key.index()) {
                    session.turn = None;
                }
            }
            Node::Job(key) => {
                self.running -= 1;
                let again = u32::from(matches!(body.next, Next::Retry { .. } | Next::Requeue));
                self.queued += again;
                let over = self.jobs.get_mut(key.index()).and_then(|job| job.run.take());
                if let Some(run) = over {
                    self.refund(key, &run, body.outcome == RunOutcome::Interrupted);
                }
                if let Some(job) = self.jobs.get_mut(key.index()) {
                    if body.next == Next::Requeue {
                        // An orderly stop is none of the host's crashes, and is over with the run.
                        let is_ordered = job.stop.take().is_some();
                        job.suspended += u32::from(is_ordered);
                        job.crashed += u32::from(!is_ordered);
                    }
                    job.last = Some(LastRun {
                        outcome: body.outcome,
                        cause: body.cause,
                        code: body.code,
                        details: details(body),
                    });
                    let session = job.session;
                    if let Some(session) = self.sessions.get_mut(session.index()) {
                        session.running -= 1;
                        session.queued += again;
                    }
                }
            }
        }
        Ok(about)
    }

    fn part(&mut self, part: &ToolPart, hint: Near) -> Applied {
        let node = self.find_run(part.run, hint)?;
        let about = self.about(node);
        let run = self.open_run(node).ok_or("the run is not open")?;
        match run.parts.iter_mut().find(|known| known.call == part.call) {
            Some(known) if known.state.is_terminal() => return Err("the part is over"),
            Some(known) if part.state <= known.state => return Err("a part does not go back"),
            Some(known) => *known = part.clone(),
            None => run.parts.push(part.clone()),
        }
        Ok(about)
    }

    /// The slots of a supervisor are set by each opening, so a change of them ends with it and is no fact.
    fn limits_set(&mut self, body: &LimitsSet, hint: Near) -> Applied {
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

    fn group_sealed(&mut self, ts_ms: u64, body: &GroupSealed) -> Applied {
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

    fn group_fired(&mut self, seq: Seq, body: &GroupFired) -> Applied {
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

    fn group_voided(&mut self, body: &GroupVoided) -> Applied {
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
    fn close_voided(&mut self, key: GroupKey) {
        let Some(group) = self.groups.get(key.index()) else { return };
        if group.voided.is_some() && group.counts.ended() == group.counts.launched {
            let parent = group.parent;
            if let Some(below) = self.below_mut(parent) {
                below.open.remove(&key);
            }
        }
    }

    fn message_taken(&mut self, body: &MessageTaken) -> Applied {
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

    /// True where the node has this name and may have children.
    fn is_live(&self, node: Node, id: &NodeId) -> bool {
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
    fn live_node(&self, id: &NodeId) -> Result<Node, &'static str> {
        match id {
            NodeId::Session(id) => self.session_key(id).map(Node::Session).ok_or("its session is not known"),
            NodeId::Job(id) => {
                let key = self.job_key(id).ok_or("its parent is not known")?;
                let runs = self.jobs.get(key.index()).is_some_and(|job| job.run.is_some());
                if runs { Ok(Node::Job(key)) } else { Err("its parent does not run") }
            }
        }
    }

    fn find_session(&mut self, id: &SessionId) -> Result<&mut Session, &'static str> {
        let key = self.session_key(id).ok_or("the session is not known")?;
        self.sessions.get_mut(key.index()).ok_or("the session is not known")
    }

    fn find_job(&mut self, id: &JobId, hint: Near) -> Result<(JobKey, &mut Job), &'static str> {
        let hinted = hint.job().filter(|key| self.jobs.get(key.index()).is_some_and(|job| job.id == *id));
        let key = hinted.or_else(|| self.job_key(id)).ok_or("the job is not known")?;
        self.jobs.get_mut(key.index()).map(|job| (key, job)).ok_or("the job is not known")
    }

    fn find_group(&mut self, id: &GroupId) -> Result<(GroupKey, &mut Group), &'static str> {
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

    fn about_job(&self, key: JobKey) -> Subject {
        self.jobs
            .get(key.index())
            .map_or_else(nothing, |job| (Arc::clone(&job.about), job.run.as_ref().map(|run| run.fence)))
    }

    /// What a note on a job is about. A run from before the id's newest life belongs to an older one.
    fn about_noted(&self, id: &JobId, run: Option<Fence>) -> Option<Arc<About>> {
        let job = self.jobs.get(self.job_key(id)?.index())?;
        if run.is_none_or(|run| run.0 > job.lifetime.0) {
            return Some(Arc::clone(&job.about));
        }
        let within = About::of(job.about.session().cloned(), None);
        Some(Arc::new(About { job: Some(id.clone()), ..within }))
    }

    fn about_group(&self, key: GroupKey) -> Subject {
        self.groups.get(key.index()).map_or_else(nothing, |group| (Arc::clone(&group.about), None))
    }

    fn about_session_of(&self, key: GroupKey) -> Subject {
        let session = self.groups.get(key.index()).and_then(|group| self.root(group.parent));
        session.map_or_else(nothing, |session| self.about(Node::Session(session)))
    }

    fn about_group_of(&self, key: JobKey) -> Subject {
        self.jobs.get(key.index()).map_or_else(nothing, |job| self.about_group(job.group))
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

/// A record about the log itself.
fn nothing() -> Subject {
    (Arc::default(), None)
}

/// All of these, where each is there and none twice.
pub(crate) fn distinct<K: Copy + Ord>(keys: impl Iterator<Item = Option<K>>) -> Option<Vec<K>> {
    let keys = keys.collect::<Option<Vec<K>>>()?;
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == keys.len()).then_some(keys)
}

/// What a run left to say, where it is anything.
fn details(body: &RunEnded) -> Option<Box<RunDetails>> {
    let RunEnded { message, exit, output, left, .. } = body;
    let retry_at_ms = match body.next {
        Next::Retry { not_before_ms } => Some(not_before_ms),
        // At once: the next opening starts it as soon as it has a slot.
        Next::Requeue => Some(0),
        Next::Settle => None,
    };
    let is_said =
        message.is_some() || exit.is_some() || output.is_some() || left.is_some() || retry_at_ms.is_some();
    is_said.then(|| {
        let (message, output, left) = (message.clone(), output.clone(), left.clone());
        Box::new(RunDetails { message, exit: *exit, output, left, retry_at_ms })
    })
}

fn next_key(len: usize) -> Result<u32, &'static str> {
    u32::try_from(len).map_err(|_| "more than four thousand million of a kind")
}
