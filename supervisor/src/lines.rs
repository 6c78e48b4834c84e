//! Log lines about records that are committed: who launched, started, ended, fired and took what, by ids. Where nobody
//! listens it costs one look for each batch. It tells no prompt, argument, output or failure text, unless the builder was
//! told to, and decides nothing.

use std::fmt;

use fanin_protocol::limits::LOG_CONTENT_BYTES_MAX;
use fanin_protocol::{CommandLine, CommandSpec, Entry, Fence, Record, Spec, Status, text};
use tracing::{Level, Span};

use crate::context::RunCell;

/// A line with the ids of an entry.
macro_rules! line {
    ($level:ident, $entry:ident, $words:literal $(, $name:ident = $value:expr)* $(,)?) => {
        tracing::$level!(
            seq = $entry.seq.0,
            session = $entry.about.session().map(display),
            group = $entry.about.group().map(display),
            job = $entry.about.job.as_ref().map(display),
            lifetime = $entry.about.lifetime.map(|lifetime| lifetime.0),
            run = $entry.run.map(|run| run.0),
            $($name = $value,)*
            $words
        )
    };
}

/// Tells of records, in their order. `has_content` is said to tell what they hold as well.
pub(crate) fn tell(entries: &[Entry], has_content: bool) {
    if tracing::enabled!(Level::INFO) {
        entries.iter().for_each(|entry| tell_one(entry, has_content));
    }
}

fn tell_one(entry: &Entry, has_content: bool) {
    match &entry.record {
        Record::StoreOpened(opened) => line!(
            info,
            entry,
            "store opened",
            log = display(&opened.log),
            is_first = opened.previous.is_none(),
            is_clean = opened.clean
        ),
        Record::StoreClosed(closed) => line!(info, entry, "store closed", queued = closed.queued),
        Record::SessionOpened(opened) => {
            line!(info, entry, "session opened", profile = display(opened.profile));
        }
        Record::SessionClosed(_) => line!(info, entry, "session closed"),
        Record::GroupSealed(sealed) => {
            line!(info, entry, "launched", parent = display(&sealed.parent), jobs = sealed.members.len());
        }
        Record::GroupFired(fired) => line!(
            info,
            entry,
            "fired",
            outcome = display(fired.outcome),
            completed = fired.counts.completed,
            failed = fired.counts.error,
            cancelled = fired.counts.cancelled
        ),
        Record::GroupVoided(voided) => line!(info, entry, "voided", cause = display(voided.cause)),
        Record::MessagePosted(posted) => {
            line!(info, entry, "message posted", key = display(&posted.key), to = display(&posted.to));
        }
        Record::MessageSent(sent) => line!(info, entry, "wake sent", key = sent.key.as_str()),
        Record::MessageTaken(taken) => line!(
            info,
            entry,
            "taken",
            by = word(taken.by),
            keys = debug(&taken.keys),
            results = taken.results.len()
        ),
        Record::LimitsSet(_) => line!(info, entry, "limits set"),
        Record::Note(note) => line!(info, entry, "note", code = word(note.code), value = note.value),
        Record::ToolPart(part) => line!(trace, entry, "part", tool = &*part.name, state = word(part.state)),
        Record::Usage(usage) => line!(
            trace,
            entry,
            "usage",
            source = usage.source.as_str(),
            cost_usd_micros = usage.cost_usd_micros,
            tokens = usage.tokens,
            steps = usage.steps
        ),
        Record::JobQueued(_)
        | Record::JobStopping(_)
        | Record::JobEnded(_)
        | Record::RunStarted(_)
        | Record::RunBound(_)
        | Record::RunEnded(_) => tell_of_job(entry, has_content),
    }
}

/// Of records that there are many of.
fn tell_of_job(entry: &Entry, has_content: bool) {
    let shown = |content: Option<&str>| {
        content.filter(|_| has_content).map(|content| text::cut(content, LOG_CONTENT_BYTES_MAX).to_owned())
    };
    match &entry.record {
        Record::JobQueued(queued) => line!(
            debug,
            entry,
            "queued",
            kind = display(queued.kind),
            label = shown(queued.label.as_deref()),
            asked = queued.spec.reveal().filter(|_| has_content).and_then(|spec| shown(Some(&asked(spec))))
        ),
        Record::JobStopping(stopping) => {
            line!(debug, entry, "stopping", cause = display(stopping.cause), grace_ms = stopping.grace_ms);
        }
        Record::JobEnded(ended) if ended.status == Status::Completed => {
            line!(debug, entry, "ended", status = "completed")
        }
        Record::JobEnded(ended) => line!(
            info,
            entry,
            "ended",
            status = display(ended.status),
            cause = ended.cause.map(display),
            code = ended.code.map(display),
            unreaped = ended.unreaped
        ),
        Record::RunStarted(started) => line!(debug, entry, "started", attempt = started.attempt),
        Record::RunBound(bound) => line!(debug, entry, "bound", pid = bound.pid),
        Record::RunEnded(ended) => line!(
            debug,
            entry,
            "run ended",
            outcome = word(ended.outcome),
            cause = ended.cause.map(display),
            code = ended.code.map(display),
            failure = shown(ended.message.as_deref()),
            output = shown(ended.output.as_ref().and_then(|output| output.text.reveal()).map(|text| &**text))
        ),
        Record::StoreOpened(_)
        | Record::StoreClosed(_)
        | Record::SessionOpened(_)
        | Record::SessionClosed(_)
        | Record::ToolPart(_)
        | Record::GroupSealed(_)
        | Record::GroupFired(_)
        | Record::GroupVoided(_)
        | Record::MessagePosted(_)
        | Record::MessageSent(_)
        | Record::MessageTaken(_)
        | Record::Usage(_)
        | Record::LimitsSet(_)
        | Record::Note(_) => {}
    }
}

/// The name on the wire of a variant without content.
fn word(variant: impl fmt::Debug) -> String {
    let mut word = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(c.to_ascii_lowercase());
    }
    word
}

/// What a job shall do, in its launcher's words.
fn asked(spec: &Spec) -> String {
    match spec {
        Spec::Command(command) => line(command),
        Spec::Agent(agent) => agent.prompt.clone(),
        Spec::Watch(watch) => watch.command().map(line).unwrap_or_default(),
    }
}

fn line(command: &CommandSpec) -> String {
    match &command.line {
        CommandLine::Shell(line) => line.clone(),
        CommandLine::Argv(words) => words.join(" "),
    }
}

/// What a run's own lines stand in: those of its runner, and of all that works for it.
pub(crate) fn span(cell: &RunCell) -> Span {
    let Fence(run) = cell.run.fence;
    tracing::error_span!(
        "run",
        session = cell.standing.as_ref().map(|standing| display(standing.session())),
        job = %cell.job,
        lifetime = cell.lifetime.0,
        run,
    )
}
