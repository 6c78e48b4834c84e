//! A record of each kind, once with all that it can say and once with the least.

use std::collections::BTreeMap;
use std::sync::Arc;

use fanin_protocol::cause::{Cause, Code, Exit, Status};
use fanin_protocol::policy::{Policy, Threshold};
use fanin_protocol::record::*;
use fanin_protocol::result::{CombinedResult, Counts, Outcome, Output};
use fanin_protocol::{
    CommandSpec, Containment, Edges, Fence, GroupId, JobId, JobKind, LogId, MessageId, NodeId,
    OnFailedDependency, PartKind, PartState, Private, Profile, Record, Rights, Seq, SessionId, SharedLimits,
    Spec, ToolPart,
};

pub(crate) fn log() -> LogId {
    LogId::parse("log").unwrap()
}

pub(crate) fn session() -> SessionId {
    SessionId::parse("main").unwrap()
}

pub(crate) fn job() -> JobId {
    JobId::parse("scan").unwrap()
}

pub(crate) fn group() -> GroupId {
    GroupId::parse("survey").unwrap()
}

fn result() -> CombinedResult {
    CombinedResult {
        group: group(),
        session: session(),
        outcome: Outcome::Empty,
        counts: Counts::default(),
        stopped_by: None,
        duration_ms: 0,
        cost_usd_micros: None,
        cost_unknown: 0,
        tokens: None,
        entries: Vec::new(),
        entries_omitted: 0,
        unreaped: 0,
        nonce: 1,
    }
}

/// A record of each kind with all that it can say, in the order of the model.
pub(crate) fn full() -> Vec<Record> {
    [stores_and_sessions(), jobs(), runs(), groups(), messages_and_rest()].concat()
}

/// `store.*`, `session.*`.
fn stores_and_sessions() -> Vec<Record> {
    vec![
        StoreOpened { log: log(), level: Level::Memory, previous: Some(Seq(1)), clean: true }.into(),
        StoreClosed { queued: 0 }.into(),
        SessionOpened { session: session(), profile: Profile::Agent, bounds: Profile::Agent.bounds() }.into(),
        SessionClosed { session: session() }.into(),
    ]
}

/// `job.*`.
fn jobs() -> Vec<Record> {
    let spec = Spec::Command(CommandSpec::shell("true"));
    vec![
        JobQueued {
            job: job(),
            parent: NodeId::Session(session()),
            group: group(),
            index: 0,
            kind: JobKind::Command,
            label: Some("label".into()),
            spec: Private::new(spec.into()),
            limits: SharedLimits::default(),
        }
        .into(),
        JobStopping {
            job: job(),
            target: StopTarget::Error,
            cause: Cause::Timeout,
            code: Some(Code::Run),
            grace_ms: 1,
        }
        .into(),
        JobEnded {
            job: job(),
            status: Status::Cancelled,
            cause: Some(Cause::User),
            code: Some(Code::Run),
            after: Some(Cause::Timeout),
            root: Some(1),
            interrupted: false,
            unreaped: false,
            completed_anyway: false,
        }
        .into(),
    ]
}

/// `run.*`, `part`.
fn runs() -> Vec<Record> {
    let output =
        Output { text: Private::new("text".into()), bytes_total: 4, truncated: false, invalid_utf8: false };
    vec![
        RunStarted { node: NodeId::Job(job()), attempt: 1, reserved_usd_micros: Some(1) }.into(),
        RunBound {
            run: Fence(1),
            pid: Some(1),
            pid_start: Some(1),
            boot_id: Some("b".into()),
            pgid: Some(1),
            containment: Some(Containment::Shim),
            external_session: Some("s".into()),
            rights: Some(Rights::Edit),
        }
        .into(),
        RunEnded {
            run: Fence(1),
            outcome: RunOutcome::Failed,
            next: Next::Settle,
            cause: Some(Cause::Failed),
            code: Some(Code::ExitStatus),
            message: Some("left with 1".into()),
            exit: Some(Exit::Status(1)),
            output: Some(output),
            left: Some(Arc::default()),
        }
        .into(),
        ToolPart {
            run: Fence(1),
            call: "c".into(),
            kind: PartKind::Tool,
            name: "bash".into(),
            state: PartState::Completed,
            created_ms: 1,
            start_ms: Some(2),
            end_ms: Some(3),
            last_ms: 3,
            interrupted: false,
        }
        .into(),
    ]
}

/// `group.*`.
fn groups() -> Vec<Record> {
    vec![
        GroupSealed {
            group: group(),
            parent: NodeId::Session(session()),
            members: [job()].into(),
            policy: Policy::ALL,
            edges: Some(Arc::new(Edges::new([(vec![1], OnFailedDependency::Run)]))),
            turn: Some(Fence(1)),
        }
        .into(),
        GroupFired {
            group: group(),
            outcome: Outcome::Empty,
            counts: Counts::default(),
            stopped_by: Some(Threshold::Ok),
            payload: Private::new(result().into()),
        }
        .into(),
        GroupVoided { group: group(), cause: Cause::Parent }.into(),
    ]
}

/// `message.*`, `usage`, `limits.set`, `note`.
fn messages_and_rest() -> Vec<Record> {
    vec![
        MessagePosted {
            key: MessageId::parse("k").unwrap(),
            to: NodeId::Session(session()),
            class: MessageClass::Watch,
            from: Some(job()),
            body: Private::new("words".into()),
        }
        .into(),
        MessageSent { key: "k".into(), references: Vec::new() }.into(),
        MessageTaken {
            keys: vec![group()],
            results: Vec::new(),
            messages: vec![MessageId::parse("k").unwrap()],
            by: TakenBy::Inbox,
        }
        .into(),
        Usage {
            run: Fence(1),
            source: "s".into(),
            cost_usd_micros: Some(1),
            tokens: Some(1),
            steps: Some(1),
            ms: Some(1),
        }
        .into(),
        LimitsSet { node: Some(NodeId::Job(job())), group: Some(group()), limits: BTreeMap::new() }.into(),
        Note {
            job: Some(job()),
            run: Some(Fence(1)),
            value: Some(1),
            details: Some(Box::default()),
            ..Note::new(NoteCode::Unreaped)
        }
        .into(),
    ]
}

/// The same record with nothing that may be absent. A new kind stops the build here.
pub(crate) fn sparse(record: &Record) -> Record {
    let mut record = record.clone();
    match &mut record {
        Record::StoreOpened(body) => body.previous = None,
        Record::JobQueued(body) => (body.label, body.spec) = (None, Private::hidden()),
        Record::JobStopping(body) => body.code = None,
        Record::JobEnded(body) => {
            (body.cause, body.code, body.after, body.root) = (None, None, None, None);
        }
        Record::RunBound(body) => {
            (body.pid, body.pid_start, body.boot_id) = (None, None, None);
            (body.pgid, body.containment, body.external_session, body.rights) = (None, None, None, None);
        }
        Record::RunEnded(body) => {
            (body.cause, body.code, body.message) = (None, None, None);
            (body.exit, body.output, body.left) = (None, None, None);
        }
        Record::ToolPart(body) => (body.start_ms, body.end_ms) = (None, None),
        Record::GroupSealed(body) => (body.edges, body.turn) = (None, None),
        Record::GroupFired(body) => (body.stopped_by, body.payload) = (None, Private::hidden()),
        Record::MessagePosted(body) => (body.from, body.body) = (None, Private::hidden()),
        Record::Usage(body) => {
            (body.cost_usd_micros, body.tokens, body.steps, body.ms) = (None, None, None, None);
        }
        Record::Note(body) => {
            (body.job, body.run, body.value, body.details) = (None, None, None, None);
        }
        Record::LimitsSet(body) => (body.node, body.group) = (None, None),
        Record::RunStarted(body) => body.reserved_usd_micros = None,
        Record::StoreClosed(_)
        | Record::SessionOpened(_)
        | Record::SessionClosed(_)
        | Record::GroupVoided(_)
        | Record::MessageSent(_)
        | Record::MessageTaken(_) => {}
    }
    record
}
