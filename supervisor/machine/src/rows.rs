//! Facts as rows of a store: which have changed since they were last taken, and facts made from rows again. A row holds
//! what cannot be told from others; counts and lists are made from them. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fanin_protocol::envelope::Encoder;
use fanin_protocol::{
    About, Bounds, Cause, CombinedResult, Counts, Edges, GroupId, Hit, LogId, MessageId, NodeId, Policy,
    Record, RowKind, Seq, SessionId,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fold::Near;
use crate::state::{
    Below, Facts, Group, GroupKey, Job, JobKey, Ledger, Node, OpenRun, Posted, Session, SessionKey, State,
};

mod compare;

/// Rows do not fit each other or their log, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {kind} {key}: {why}", kind = kind.as_str())]
pub struct RestoreError {
    /// What it is.
    pub kind: RowKind,
    /// Its place.
    pub key: u64,
    /// What is wrong.
    pub why: String,
}

/// A row cannot be written down.
pub type EncodeRowError = rmp_serde::encode::Error;

/// A thing as it is now.
#[derive(Debug, Clone)]
pub struct RowChange {
    /// What it is.
    pub kind: RowKind,
    /// Its place, which no other thing of its kind ever has.
    pub key: u64,
    /// The id under which people ask for it; empty where it has none.
    pub id: String,
    /// What there is to keep.
    pub body: RowBody,
    /// It has left the memory: nothing that goes on needs it.
    pub retired: bool,
}

/// What a row holds. It is cheap to take behind the gate, and is encoded elsewhere.
#[derive(Debug, Clone)]
pub struct RowBody(Body);

#[derive(Debug, Clone)]
enum Body {
    Store(StoreRow),
    Session(SessionRow),
    Group(GroupRow),
    Job(Box<Job>),
    Message(MessageRow),
}

impl RowBody {
    /// MessagePack with field names.
    ///
    /// # Errors
    ///
    /// [`EncodeRowError`] where a value cannot be encoded.
    pub fn encode(&self) -> Result<Bytes, EncodeRowError> {
        self.encode_with(&mut Encoder::default())
    }

    /// As [`RowBody::encode`], for one of many.
    ///
    /// # Errors
    ///
    /// As [`RowBody::encode`].
    pub fn encode_with(&self, encoder: &mut Encoder) -> Result<Bytes, EncodeRowError> {
        match &self.0 {
            Body::Store(row) => encoder.encode(row),
            Body::Session(row) => encoder.encode(row),
            Body::Group(row) => encoder.encode(row),
            Body::Job(row) => encoder.encode(row),
            Body::Message(row) => encoder.encode(row),
        }
    }
}

/// The store as a whole, beside what its log says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoreRow {
    epoch: Seq,
    closed: bool,
    /// The places that the next session, group and job get.
    next: [u64; 3],
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionRow {
    id: SessionId,
    closed: bool,
    turn: Option<OpenRun>,
    turns: u32,
    bounds: Bounds,
    spawned: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger: Option<Box<Ledger>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct GroupRow {
    id: GroupId,
    parent: Node,
    session: SessionKey,
    policy: Policy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edges: Option<Arc<Edges>>,
    sealed: bool,
    sealed_at_ms: u64,
    fired: Option<Arc<CombinedResult>>,
    fired_at: Seq,
    voided: Option<Cause>,
    taken: bool,
    #[serde(default)]
    void: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger: Option<Box<Ledger>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct MessageRow {
    key: MessageId,
    to: Node,
    /// `None` once it was taken: its key is still known.
    text: Option<Arc<str>>,
    /// The watch that fired, where it is one's hit and was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hit: Option<Box<Hit>>,
}

/// What has changed since it was last taken. It says nothing that the facts do not say.
#[derive(Clone, Default)]
pub(crate) struct Changes {
    is_on: bool,
    places: Vec<(RowKind, u64)>,
    retired: Vec<RowChange>,
}

impl PartialEq for Changes {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Changes {}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl State {
    /// Keeps account of rows from now on, for a host that stores them.
    pub const fn track_rows(&mut self) {
        self.facts.changes.is_on = true;
    }

    /// The rows that have changed since this was last asked.
    pub fn take_rows(&mut self) -> Vec<RowChange> {
        let facts = &mut self.facts;
        let mut places = std::mem::take(&mut facts.changes.places);
        places.sort_unstable();
        places.dedup();
        let retired = std::mem::take(&mut facts.changes.retired);
        let gone: BTreeSet<(RowKind, u64)> = retired.iter().map(|row| (row.kind, row.key)).collect();
        let kept = places.iter().filter(|place| !gone.contains(place));
        let mut rows = Vec::with_capacity(places.len() + retired.len());
        rows.extend(kept.filter_map(|(kind, key)| facts.row(*kind, *key)));
        rows.extend(retired);
        rows
    }
}

fn place(key: u64) -> Option<usize> {
    usize::try_from(key).ok()
}

impl Facts {
    fn row(&self, kind: RowKind, key: u64) -> Option<RowChange> {
        let (id, body) = match kind {
            RowKind::Store => {
                let next = [self.sessions.next(), self.groups.next(), self.jobs.next()];
                let next = next.map(|next| next as u64);
                (String::new(), Body::Store(StoreRow { epoch: self.epoch, closed: self.closed, next }))
            }
            RowKind::Session => {
                let session = self.sessions.get(place(key)?)?;
                let Session { closed, turns, bounds, spawned, .. } = *session;
                let (id, turn, ledger) = (session.id.clone(), session.turn.clone(), session.ledger.clone());
                let row = SessionRow { id, closed, turn, turns, bounds, spawned, ledger };
                (row.id.to_string(), Body::Session(row))
            }
            RowKind::Group => group_row(self, self.groups.get(place(key)?)?),
            RowKind::Job => job_row(self.jobs.get(place(key)?)?),
            RowKind::Message => return self.message_row(Seq(key)),
        };
        Some(RowChange { kind, key, id, body: RowBody(body), retired: false })
    }

    fn message_row(&self, seq: Seq) -> Option<RowChange> {
        let (key, to) = self.message_keys.at(seq)?;
        let posted = self.posted.get(&(to, seq));
        let (text, hit) = posted.map(|posted| (Arc::clone(&posted.text), posted.hit.clone())).unzip();
        let row = MessageRow { key: key.clone(), to, text, hit: hit.flatten() };
        let body = RowBody(Body::Message(row));
        Some(RowChange { kind: RowKind::Message, key: seq.0, id: key.to_string(), body, retired: false })
    }

    pub(crate) fn touch(&mut self, kind: RowKind, key: u64) {
        if self.changes.is_on {
            self.changes.places.push((kind, key));
        }
    }

    fn touch_node(&mut self, node: Node) {
        match node {
            Node::Session(key) => self.touch(RowKind::Session, key.0.into()),
            Node::Job(key) => self.touch(RowKind::Job, key.0.into()),
        }
    }

    /// A job leaves the memory.
    pub(crate) fn retire_job(&mut self, key: JobKey, job: &Job) {
        if self.changes.is_on {
            self.retire(RowKind::Job, key.0.into(), job_row(job));
        }
    }

    /// A group leaves the memory.
    pub(crate) fn retire_group(&mut self, key: GroupKey, group: &Group) {
        if self.changes.is_on {
            self.retire(RowKind::Group, key.0.into(), group_row(self, group));
        }
    }

    fn retire(&mut self, kind: RowKind, key: u64, (id, body): (String, Body)) {
        self.changes.retired.push(RowChange { kind, key, id, body: RowBody(body), retired: true });
    }

    /// A session or a message key leaves the memory.
    pub(crate) fn retire_row(&mut self, kind: RowKind, key: u64) {
        if self.changes.is_on
            && let Some(row) = self.row(kind, key)
        {
            self.changes.retired.push(RowChange { retired: true, ..row });
        }
    }

    /// Keeps account of what a record is about to change.
    pub(crate) fn touch_before(&mut self, record: &Record, hint: Near) {
        if !self.changes.is_on {
            return;
        }
        match record {
            Record::StoreOpened(_) | Record::StoreClosed(_) => self.touch(RowKind::Store, 0),
            Record::SessionOpened(_) => {
                self.touch(RowKind::Store, 0);
                self.touch(RowKind::Session, self.sessions.next() as u64);
            }
            Record::SessionClosed(body) => {
                if let Some(key) = self.session_key(&body.session) {
                    self.touch_node(Node::Session(key));
                }
            }
            Record::JobQueued(body) => {
                self.touch(RowKind::Store, 0);
                self.touch(RowKind::Job, self.jobs.next() as u64);
                // The others of a launch follow the first, which has told of their group and session.
                if !matches!(hint, Near::Group(_)) {
                    self.touch_home(&body.group, &body.parent);
                }
            }
            Record::JobStopping(body) => self.touch_job(&body.job, hint),
            Record::JobEnded(body) => self.touch_job(&body.job, hint),
            Record::RunStarted(body) => {
                self.touch_named(&body.node, hint);
                if let NodeId::Job(id) = &body.node
                    && body.reserved_usd_micros.is_some_and(|reserved| reserved > 0)
                    && let Some(key) = hint.job().or_else(|| self.job_key(id))
                {
                    self.touch_payers(Node::Job(key));
                }
            }
            Record::RunBound(body) => self.touch_run(body.run, hint),
            Record::RunEnded(body) => {
                self.touch_run(body.run, hint);
                self.touch_payers_of_end(body.run, hint);
            }
            Record::ToolPart(part) => self.touch_run(part.run, hint),
            Record::GroupSealed(body) => self.touch_group(&body.group),
            Record::GroupFired(body) => self.touch_group(&body.group),
            Record::GroupVoided(body) => self.touch_group(&body.group),
            Record::MessagePosted(body) => {
                self.touch(RowKind::Message, self.head.next().0);
                body.from.iter().for_each(|watch| self.touch_job(watch, hint));
            }
            Record::MessageTaken(body) => {
                body.keys.iter().for_each(|id| self.touch_group(id));
                for lifetime in &body.results {
                    if let Some(key) = self.job_of_lifetime(*lifetime) {
                        self.touch_node(Node::Job(key));
                    }
                }
                for key in &body.messages {
                    if let Some((node, seq)) = self.message_keys.places.get(key).copied() {
                        self.touch(RowKind::Message, seq.0);
                        // What is void counts for the job that it was for.
                        self.touch_node(node);
                    }
                }
            }
            Record::LimitsSet(body) => {
                body.node.iter().for_each(|id| self.touch_named(id, hint));
                body.group.iter().for_each(|id| self.touch_group(id));
            }
            Record::Usage(body) => self.touch_payers_of(body.run, hint),
            Record::MessageSent(_) | Record::Note(_) => {}
        }
    }

    /// A job comes into a group, below a parent.
    fn touch_home(&mut self, group: &GroupId, parent: &NodeId) {
        // A group that is known does not change by a member more.
        if self.group_key(group).is_none() {
            self.touch(RowKind::Group, self.groups.next() as u64);
        }
        let session = match parent {
            NodeId::Session(id) => self.session_key(id),
            NodeId::Job(id) => {
                let key = self.job_key(id);
                // It has launched, if it had not before.
                if let Some(key) = key {
                    self.touch_node(Node::Job(key));
                }
                key.and_then(|key| self.jobs.get(key.index())).map(|job| job.session)
            }
        };
        if let Some(session) = session {
            self.touch_node(Node::Session(session));
        }
    }

    fn touch_named(&mut self, id: &NodeId, hint: Near) {
        match id {
            NodeId::Job(id) => self.touch_job(id, hint),
            NodeId::Session(id) => {
                if let Some(key) = self.session_key(id) {
                    self.touch_node(Node::Session(key));
                }
            }
        }
    }

    fn touch_job(&mut self, id: &fanin_protocol::JobId, hint: Near) {
        let key = match hint {
            Near::Job(key) => Some(key),
            Near::Unknown | Near::Group(_) => self.job_key(id),
        };
        if let Some(key) = key {
            self.touch_node(Node::Job(key));
        }
    }

    fn touch_run(&mut self, run: fanin_protocol::Fence, hint: Near) {
        if let Ok(node) = self.find_run(run, hint) {
            self.touch_node(node);
        }
    }

    fn touch_group(&mut self, id: &GroupId) {
        if let Some(key) = self.group_key(id) {
            self.touch(RowKind::Group, key.0.into());
        }
    }
}

fn job_row(job: &Job) -> (String, Body) {
    (job.id.to_string(), Body::Job(Box::new(stored(job))))
}

/// The job without the lists of what hangs below it.
fn stored(job: &Job) -> Job {
    let below = job.below.is_some().then(Box::default);
    Job { below, ..job.clone() }
}

fn group_row(facts: &Facts, group: &Group) -> (String, Body) {
    let Group { parent, policy, sealed, sealed_at_ms, fired_at, voided, taken, void, .. } = *group;
    let session = match parent {
        Node::Session(key) => key,
        // A job that has left the memory left its session with its members.
        Node::Job(key) => facts.jobs.get(key.index()).map_or(SessionKey(u32::MAX), |job| job.session),
    };
    let (id, fired) = (group.id.clone(), group.fired.clone());
    let (edges, ledger) = (group.edges.clone(), group.ledger.clone());
    let row = GroupRow {
        id,
        parent,
        session,
        policy,
        edges,
        sealed,
        sealed_at_ms,
        fired,
        fired_at,
        voided,
        taken,
        void,
        ledger,
    };
    (row.id.to_string(), Body::Group(row))
}

/// A job's group has no row.
const NO_GROUP: &str = "its group is not there";

impl Facts {
    /// Facts from the rows of a store, in the order of their kinds and keys. What was retired is not among them.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] where a row cannot be read or names another that is not there.
    pub fn restore<'a>(
        log: Option<LogId>,
        head: Seq,
        ts_ms: u64,
        rows: impl Iterator<Item = (RowKind, u64, &'a [u8])>,
    ) -> Result<Self, RestoreError> {
        Self::restore_or(log, head, ts_ms, rows, Err)
    }

    /// As [`Facts::restore`], of a store whose rows were let go of one by one, or lost: jobs without their group are left
    /// out.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] where a row cannot be read.
    pub fn restore_seen<'a>(
        log: Option<LogId>,
        head: Seq,
        ts_ms: u64,
        rows: impl Iterator<Item = (RowKind, u64, &'a [u8])>,
    ) -> Result<Self, RestoreError> {
        let is_alone = |error: &RestoreError| error.kind == RowKind::Job && error.why == NO_GROUP;
        Self::restore_or(log, head, ts_ms, rows, |error| if is_alone(&error) { Ok(()) } else { Err(error) })
    }

    fn restore_or<'a>(
        log: Option<LogId>,
        head: Seq,
        ts_ms: u64,
        rows: impl Iterator<Item = (RowKind, u64, &'a [u8])>,
        wrong: impl Fn(RestoreError) -> Result<(), RestoreError>,
    ) -> Result<Self, RestoreError> {
        let mut facts = Self { log, head, ts_ms, ..Self::default() };
        for (kind, key, body) in rows {
            let restored = match kind {
                RowKind::Store => decode(body).map(|row| facts.restore_store(&row)),
                RowKind::Session => decode(body).and_then(|row| facts.restore_session(key, row)),
                RowKind::Group => decode(body).and_then(|row| facts.restore_group(key, row)),
                RowKind::Job => decode(body).and_then(|row| facts.restore_job(key, row)),
                RowKind::Message => decode(body).map(|row| facts.restore_message(Seq(key), row)),
            };
            restored.or_else(|why| wrong(RestoreError { kind, key, why }))?;
        }
        facts.restore_members();
        Ok(facts)
    }

    fn restore_store(&mut self, row: &StoreRow) {
        self.epoch = row.epoch;
        self.closed = row.closed;
        let [sessions, groups, jobs] = row.next.map(|next| place(next).unwrap_or(usize::MAX));
        self.sessions.skip_to(sessions);
        self.groups.skip_to(groups);
        self.jobs.skip_to(jobs);
    }

    fn restore_session(&mut self, key: u64, row: SessionRow) -> Result<(), String> {
        let key = SessionKey(short(key)?);
        let SessionRow { id, closed, turn, turns, bounds, spawned, ledger } = row;
        self.session_index.put(&id, key, |_| false, |_| true);
        let fence = turn.as_ref().map(|turn| turn.fence);
        let about = Arc::new(About::of(Some(id.clone()), None));
        let below = Below::default();
        let (turn_group, queued, running, jobs) = (None, 0, 0, 0);
        self.sessions.insert(
            key.index(),
            Session {
                id,
                about,
                closed,
                turn,
                turns,
                turn_group,
                below,
                bounds,
                spawned,
                queued,
                running,
                jobs,
                ledger,
            },
        );
        if let Some(fence) = fence {
            self.opened(fence, Node::Session(key));
        }
        Ok(())
    }

    fn restore_group(&mut self, key: u64, row: GroupRow) -> Result<(), String> {
        let key = GroupKey(short(key)?);
        let GroupRow {
            id,
            parent,
            session,
            policy,
            edges,
            sealed,
            sealed_at_ms,
            fired,
            fired_at,
            voided,
            taken,
            void,
            ledger,
        } = row;
        self.group_index.put(&id, key, |_| false, |_| true);
        let session = self.sessions.get(session.index()).map(|session| session.id.clone());
        let about = Arc::new(About::of(session, Some(id.clone())));
        self.groups.insert(
            key.index(),
            Group {
                id,
                about,
                parent,
                members: Vec::new(),
                policy,
                edges,
                sealed,
                sealed_at_ms,
                counts: Counts::default(),
                fired,
                fired_at,
                voided,
                results_taken: 0,
                taken,
                void,
                ledger,
            },
        );
        Ok(())
    }

    fn restore_job(&mut self, key: u64, mut job: Job) -> Result<(), String> {
        let key = JobKey(short(key)?);
        let group = self.groups.get(job.group.index()).ok_or(NO_GROUP)?;
        let within = group.about.within.clone();
        job.about = Arc::new(About { within, job: Some(job.id.clone()), lifetime: Some(job.lifetime) });
        // By keys, so that the newest life of an id is what it names.
        let jobs = &self.jobs;
        let is = |known: JobKey| jobs.get(known.index()).is_some_and(|known| known.id == job.id);
        self.job_index.put(&job.id, key, is, |_| true);
        let fence = job.run.as_ref().map(|run| run.fence);
        self.jobs.insert(key.index(), job);
        if let Some(fence) = fence {
            self.opened(fence, Node::Job(key));
        }
        Ok(())
    }

    fn restore_message(&mut self, seq: Seq, row: MessageRow) {
        let MessageRow { key, to, text, hit } = row;
        self.message_keys.places.insert(key.clone(), (to, seq));
        self.message_keys.order.push_back(key.clone());
        if let Some(text) = text {
            self.posted.insert((to, seq), Posted { key, text, hit });
        }
    }

    /// All that is counted and listed, from what is there.
    fn restore_members(&mut self) {
        let mut members: BTreeMap<GroupKey, Vec<(u32, JobKey)>> = BTreeMap::new();
        for (place, job) in self.jobs.iter() {
            members.entry(job.group).or_default().push((job.index, JobKey(place)));
            let (is_running, is_queued) = (u32::from(job.run.is_some()), u32::from(job.awaits_start()));
            self.running += is_running;
            self.queued += is_queued;
            if let Some(session) = self.sessions.get_mut(job.session.index()) {
                session.running += is_running;
                session.queued += is_queued;
                session.jobs += 1;
            }
        }
        for (key, mut listed) in members {
            listed.sort_unstable();
            let jobs = listed.iter().filter_map(|(_, member)| self.jobs.get(member.index()));
            let (mut counts, mut taken) = (Counts::default(), 0);
            for job in jobs {
                counts.launched += 1;
                taken += u32::from(job.taken);
                if job.ended.is_some() {
                    counts.add(job.status());
                }
            }
            if let Some(group) = self.groups.get_mut(key.index()) {
                group.members = listed.into_iter().map(|(_, member)| member).collect();
                group.results_taken = taken;
                group.counts = counts;
            }
        }
        self.restore_below();
    }

    /// What hangs below whom.
    fn restore_below(&mut self) {
        let mut fired: Vec<(Seq, GroupKey, Node)> = Vec::new();
        let mut open: Vec<(GroupKey, Node, bool)> = Vec::new();
        for (place, group) in self.groups.iter() {
            let key = GroupKey(place);
            if group.fired.is_some() {
                if !group.taken {
                    fired.push((group.fired_at, key, group.parent));
                }
            } else if group.voided.is_none() || group.counts.ended() != group.counts.launched {
                open.push((key, group.parent, group.sealed || group.voided.is_some()));
            }
        }
        for (key, parent, is_sealed) in open {
            if let Node::Session(session) = parent
                && let Some(session) = self.sessions.get_mut(session.index())
                && !is_sealed
            {
                session.turn_group = Some(key);
            }
            if let Some(below) = self.below_or_new(parent) {
                below.open.insert(key);
            }
        }
        fired.sort_unstable();
        for (_, key, parent) in fired {
            if let Some(below) = self.below_or_new(parent) {
                below.inbox.push_back(key);
            }
        }
    }

    fn below_or_new(&mut self, node: Node) -> Option<&mut Below> {
        match node {
            Node::Session(key) => self.sessions.get_mut(key.index()).map(|session| &mut session.below),
            Node::Job(key) => {
                let job = self.jobs.get_mut(key.index()).filter(|job| job.ended.is_none())?;
                Some(job.below.get_or_insert_default())
            }
        }
    }
}

pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(body).map_err(|error| error.to_string())
}

fn short(key: u64) -> Result<u32, String> {
    u32::try_from(key).map_err(|_| "its place is none".into())
}
