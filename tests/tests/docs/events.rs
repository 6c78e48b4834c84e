//! `docs/events.md` against the records: names, order, what serde writes, what an event hides.

use std::collections::BTreeMap;

use fanin_machine::Facts;
use fanin_protocol::cause::{Cause, Code, Exit, Status};
use fanin_protocol::policy::{Policy, Threshold};
use fanin_protocol::record::*;
use fanin_protocol::result::{CombinedResult, Counts, Outcome, Output};
use fanin_protocol::{
    About, CommandLine, CommandSpec, Entry, Envelope, Fence, GroupId, JobId, JobKind, JobLimits, Lifetime,
    LogId, NodeId, PartKind, PartState, Private, Record, Seq, SessionId, Spec, ToolPart,
};
use serde_json::Value;

use crate::tree;

/// One row of the table of records.
struct Row {
    kind: String,
    /// Names with their `?`.
    fields: Vec<String>,
    hidden: Vec<String>,
    is_ignorable: bool,
    is_written: bool,
}

fn rows() -> Vec<Row> {
    let yes = |cell: &str| match cell {
        "yes" => true,
        "no" => false,
        other => panic!("`{other}` is neither yes nor no"),
    };
    let names = |cell: &str| tree::names(cell).map(str::to_owned).collect::<Vec<_>>();
    tree::table(&tree::read("docs/events.md"), "## The records")
        .iter()
        .map(|row| Row {
            kind: names(&row[0]).remove(0),
            fields: names(&row[2]),
            hidden: names(&row[3]),
            is_ignorable: yes(&row[4]),
            is_written: yes(&row[5]),
        })
        .collect()
}

#[test]
fn the_table_has_all_kinds_in_their_order() {
    let shown: Vec<_> = rows().into_iter().map(|row| (row.kind, row.is_ignorable)).collect();
    let kinds: Vec<_> = KINDS.iter().map(|(kind, ignorable)| ((*kind).to_owned(), *ignorable)).collect();
    assert_eq!(shown, kinds);
    let samples: Vec<_> = full().iter().map(|record| record.kind().to_owned()).collect();
    assert_eq!(samples, kinds.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>(), "a sample of each kind");
}

#[test]
fn the_fields_are_those_that_serde_writes() {
    for (row, record) in rows().into_iter().zip(full()) {
        let (all, always) = (fields(&record), fields(&sparse(&record)));
        let written: Vec<String> = all
            .iter()
            .map(|field| if always.contains(field) { field.clone() } else { format!("{field}?") })
            .collect();
        // Sorted, since JSON objects are; the page has the order of the record.
        let mut shown = row.fields;
        shown.sort();
        assert_eq!(shown, written, "{}", row.kind);
    }
}

#[test]
fn what_an_event_hides_is_named_and_nothing_else_is_hidden() {
    for (row, record) in rows().into_iter().zip(full()) {
        let mut hidden = Vec::new();
        missing("", &record.json_body().unwrap(), &record.redacted().json_body().unwrap(), &mut hidden);
        assert_eq!(row.hidden, hidden, "{}", row.kind);
    }
}

#[test]
fn what_is_not_written_today_is_what_the_machine_would_refuse() {
    for (row, record) in rows().into_iter().zip(full()) {
        let applied = Facts::default().apply(Seq(1), 0, &record);
        let is_refused =
            applied.is_err_and(|error| error.why == "this version does not know what follows from it");
        assert_eq!(row.is_written, !is_refused, "{}", row.kind);
    }
}

#[test]
fn the_document_has_the_fields_of_the_page_and_no_others() {
    let about = About {
        session: Some(session()),
        job: Some(job()),
        lifetime: Some(Lifetime(1)),
        run: Some(Fence(2)),
        group: Some(group()),
    };
    let entry = Entry { seq: Seq(3), ts_ms: 4, about, record: StoreClosed { queued: 0 }.into() };
    let document = entry.to_json(&log()).unwrap();
    let rows = tree::table(&tree::read("docs/events.md"), "## The document");
    let mut shown = crate::first_names(&rows);
    shown.sort_unstable();
    assert_eq!(shown, keys(&document));

    let envelope = serde_json::to_value(Envelope::wrap(&entry).unwrap()).unwrap();
    let text = tree::read("docs/events.md");
    let sentence = text.split("a record is an `Envelope`:").nth(1).unwrap().split(". ").next().unwrap();
    let mut named: Vec<&str> = tree::names(sentence).collect();
    named.sort_unstable();
    assert_eq!(named, keys(&envelope));
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn fields(record: &Record) -> Vec<String> {
    keys(&record.json_body().unwrap()).into_iter().map(str::to_owned).collect()
}

/// The paths that are in `all` and not in `left`.
fn missing(path: &str, all: &Value, left: &Value, found: &mut Vec<String>) {
    let (Some(all), Some(left)) = (all.as_object(), left.as_object()) else { return };
    for (name, value) in all {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match left.get(name) {
            None => found.push(path),
            Some(left) => missing(&path, value, left, found),
        }
    }
}

fn log() -> LogId {
    LogId::parse("log").unwrap()
}

fn session() -> SessionId {
    SessionId::parse("main").unwrap()
}

fn job() -> JobId {
    JobId::parse("scan").unwrap()
}

fn group() -> GroupId {
    GroupId::parse("survey").unwrap()
}

fn result() -> CombinedResult {
    CombinedResult {
        group: group(),
        session: NodeId::Session(session()),
        outcome: Outcome::Empty,
        counts: Counts::default(),
        stopped_by: None,
        duration_ms: 0,
        entries: Vec::new(),
        entries_omitted: 0,
        nonce: 1,
    }
}

/// A record of each kind with all that it can say, in the order of the model.
fn full() -> Vec<Record> {
    let spec = Spec::Command(CommandSpec {
        line: CommandLine::Shell("true".into()),
        cwd: None,
        env: BTreeMap::new(),
        output_bytes_max: None,
    });
    let output =
        Output { text: Private::new("text".into()), bytes_total: 4, truncated: false, invalid_utf8: false };
    vec![
        StoreOpened { log: log(), level: Level::Memory, previous: Some(Seq(1)), clean: true }.into(),
        StoreClosed { queued: 0 }.into(),
        SessionOpened { session: session() }.into(),
        SessionClosed { session: session() }.into(),
        JobQueued {
            job: job(),
            parent: NodeId::Session(session()),
            group: group(),
            index: 0,
            kind: JobKind::Command,
            label: Some("label".into()),
            spec: Private::new(spec.into()),
            limits: JobLimits::default(),
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
            interrupted: false,
            unreaped: false,
            completed_anyway: false,
        }
        .into(),
        RunStarted { node: NodeId::Job(job()), attempt: 1 }.into(),
        RunBound { run: Fence(1), pid: Some(1), pgid: Some(1), external_session: Some("s".into()) }.into(),
        RunEnded {
            run: Fence(1),
            outcome: RunOutcome::Failed,
            next: Next::Settle,
            cause: Some(Cause::Failed),
            code: Some(Code::ExitStatus),
            message: Some("left with 1".into()),
            exit: Some(Exit::Status(1)),
            output: Some(output),
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
        GroupSealed {
            group: group(),
            parent: NodeId::Session(session()),
            members: [job()].into(),
            policy: Policy::ALL,
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
        MessagePosted {
            key: "k".into(),
            to: NodeId::Session(session()),
            class: MessageClass::User,
            body: Private::new("words".into()),
        }
        .into(),
        MessageSent { key: "k".into(), references: Vec::new() }.into(),
        MessageTaken { keys: vec![group()], results: Vec::new(), by: TakenBy::Inbox }.into(),
        Usage {
            run: Fence(1),
            source: "s".into(),
            cost_usd_micros: Some(1),
            tokens: Some(1),
            steps: Some(1),
        }
        .into(),
        LimitsSet { node: NodeId::Job(job()), limits: BTreeMap::new() }.into(),
        Note { code: NoteCode::Unreaped, job: Some(job()), run: Some(Fence(1)), value: Some(1) }.into(),
    ]
}

/// The same record with nothing that may be absent. A new kind stops the build here.
fn sparse(record: &Record) -> Record {
    let mut record = record.clone();
    match &mut record {
        Record::StoreOpened(body) => body.previous = None,
        Record::JobQueued(body) => (body.label, body.spec) = (None, Private::hidden()),
        Record::JobStopping(body) => body.code = None,
        Record::JobEnded(body) => (body.cause, body.code, body.after) = (None, None, None),
        Record::RunBound(body) => (body.pid, body.pgid, body.external_session) = (None, None, None),
        Record::RunEnded(body) => {
            (body.cause, body.code, body.message) = (None, None, None);
            (body.exit, body.output) = (None, None);
        }
        Record::ToolPart(body) => (body.start_ms, body.end_ms) = (None, None),
        Record::GroupSealed(body) => body.turn = None,
        Record::GroupFired(body) => (body.stopped_by, body.payload) = (None, Private::hidden()),
        Record::MessagePosted(body) => body.body = Private::hidden(),
        Record::Usage(body) => (body.cost_usd_micros, body.tokens, body.steps) = (None, None, None),
        Record::Note(body) => (body.job, body.run, body.value) = (None, None, None),
        Record::StoreClosed(_)
        | Record::SessionOpened(_)
        | Record::SessionClosed(_)
        | Record::RunStarted(_)
        | Record::GroupVoided(_)
        | Record::MessageSent(_)
        | Record::MessageTaken(_)
        | Record::LimitsSet(_) => {}
    }
    record
}
