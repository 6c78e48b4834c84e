//! Records and answers in a few words.

use std::fmt::Write as _;

use fanin_machine::{Answer, Background};
use fanin_protocol::record::{
    GroupSealed, JobEnded, LimitName, Next, Note, NoteCode, RunOutcome, TakenBy, Usage,
};
use fanin_protocol::{
    Entry, Fence, GroupId, JobId, NodeId, OnFailedDependency, Record, ResultEntry, ToolPart,
};

use crate::ledger::Ledger;

/// A record without its kind.
pub(super) fn record(entry: &Entry, ledger: &Ledger) -> String {
    match &entry.record {
        Record::StoreOpened(body) => if body.clean { "clean" } else { "after a crash" }.into(),
        Record::StoreClosed(body) => format!("{} queued", body.queued),
        Record::SessionOpened(body) => body.session.to_string(),
        Record::SessionClosed(body) => body.session.to_string(),
        Record::JobQueued(body) => body.job.to_string(),
        Record::JobStopping(body) => {
            let target = format!("{:?}", body.target).to_lowercase();
            format!("{} {target}/{}", body.job, body.cause)
        }
        Record::JobEnded(body) => {
            let group = ledger.jobs.get(&body.job).and_then(|job| ledger.groups.get(&job.group));
            let root = body.root.and_then(|place| group?.members.get(place as usize));
            let root = root.map_or(String::new(), |root| format!(" because of {root}"));
            format!("{}{root}", job_ended(body))
        }
        Record::RunStarted(body) => {
            let aside = body.reserved_usd_micros.filter(|micros| *micros > 0);
            let aside = aside.map_or(String::new(), |micros| format!(", {micros} set aside"));
            format!("{}{aside}", node(&body.node))
        }
        Record::RunBound(body) => whose(ledger, body.run),
        Record::RunEnded(body) => {
            let outcome = match body.outcome {
                RunOutcome::Completed => "completed",
                RunOutcome::Failed => "failed",
                RunOutcome::Cancelled => "cancelled",
                RunOutcome::Interrupted => "interrupted",
            };
            let next = match body.next {
                Next::Settle => "",
                Next::Retry { .. } => ", to be tried again",
                Next::Requeue => ", to be queued again",
            };
            let told = body.message.as_ref().filter(|told| told.starts_with('`'));
            let told = told.map_or(String::new(), |told| format!(": {told}"));
            format!("{} {outcome}{next}{told}", whose(ledger, body.run))
        }
        Record::ToolPart(part) => moved(part, ledger),
        Record::GroupSealed(body) => sealed(body),
        Record::GroupFired(body) => {
            let by = body.stopped_by.map_or(String::new(), |by| format!(" by {by:?}").to_lowercase());
            let entries = body.payload.reveal().map_or(&[][..], |payload| &payload.entries);
            format!("{}{by} {}", body.outcome.as_str(), results(entries))
        }
        Record::GroupVoided(body) => members(ledger, &body.group),
        Record::MessageTaken(body) => {
            let by = match body.by {
                TakenBy::Waiter => "waiter",
                TakenBy::Inbox => "inbox",
                TakenBy::Results => "results",
                TakenBy::Run => "its run",
                TakenBy::Void => "void",
            };
            let posts: String = body.messages.iter().map(|key| format!("{key} ")).collect();
            let groups: String = body.keys.iter().map(|id| members(ledger, id) + " ").collect();
            let jobs = body.results.iter().filter_map(|lifetime| ledger.lifetimes.get(lifetime));
            let jobs: String = jobs.map(|id| format!("{id} ")).collect();
            format!("{groups}{jobs}{posts}by {by}")
        }
        Record::Note(body) => note(body),
        Record::MessagePosted(body) => format!("{} to {}", body.key, body.to),
        Record::LimitsSet(body) => {
            let group = body.group.as_ref().map(|id| format!("group {id}"));
            let whose = group.unwrap_or_else(|| body.node.as_ref().map_or("supervisor".into(), node));
            let set = |(name, value): (&LimitName, &Option<u64>)| {
                let value = value.map_or("none".into(), |value| value.to_string());
                format!(" {name:?}={value}")
            };
            format!("{whose}{}", body.limits.iter().map(set).collect::<String>())
        }
        Record::Usage(body) => used(body, ledger),
        Record::MessageSent(_) => String::new(),
    }
}

/// Members, each with what it needs, as a script has it.
fn sealed(body: &GroupSealed) -> String {
    let name = |place: &u32| body.members.get(*place as usize).map_or("?".into(), JobId::to_string);
    let member = |(place, id): (u32, &JobId)| {
        let Some(need) = body.edges.as_ref().and_then(|edges| edges.of(place)) else { return id.to_string() };
        let on: Vec<String> = need.on.iter().map(name).collect();
        let then = match need.on_failed {
            OnFailedDependency::Skip => "",
            OnFailedDependency::Run => "?",
            OnFailedDependency::FailTeam => "!",
        };
        format!("{id}>{}{then}", on.join("+"))
    };
    let members: Vec<String> = (0..).zip(&*body.members).map(member).collect();
    format!("[{}]", members.join(" "))
}

pub(super) fn answered(answer: &Answer) -> String {
    let again = |already: bool| if already { " (already delivered)" } else { "" };
    match answer {
        Answer::Jobs { entries, already_delivered } => {
            format!("{}{}", results(entries), again(*already_delivered))
        }
        Answer::Group { result, already_delivered } => {
            format!("group {}{}", results(&result.entries), again(*already_delivered))
        }
        Answer::Wake(result) => format!("wake {}", results(&result.entries)),
        Answer::Words { key, .. } => format!("words {key}"),
        Answer::Hit(hit) => format!("hit {} of {}", hit.number, hit.job),
        Answer::Mail(mail) => format!("mail of {}", mail.from),
        Answer::Promoted => "promoted".into(),
        Answer::Background(Background::Left) => "in the background".into(),
        Answer::Background(Background::Over) => "the job is over".into(),
        Answer::Voided => "voided".into(),
        Answer::Idle => "idle".into(),
        Answer::Closed => "closed".into(),
    }
}

fn results(entries: &[ResultEntry]) -> String {
    let each: Vec<String> = entries
        .iter()
        .map(|entry| {
            let cause = entry.cause.map_or(String::new(), |cause| format!("/{cause}"));
            let mark = if entry.reference { " (reference)" } else { "" };
            format!("{} {}{cause}{mark}", entry.job, entry.status)
        })
        .collect();
    format!("[{}]", each.join(", "))
}

pub(super) fn list<'a>(ids: impl Iterator<Item = &'a JobId>) -> String {
    let ids: Vec<String> = ids.map(ToString::to_string).collect();
    format!("[{}]", ids.join(" "))
}

fn members(ledger: &Ledger, id: &GroupId) -> String {
    ledger.groups.get(id).map_or_else(|| id.to_string(), |group| list(group.members.iter()))
}

/// What a run told, each sum by its first letter.
fn used(body: &Usage, ledger: &Ledger) -> String {
    let sums =
        [("cost", body.cost_usd_micros), ("tokens", body.tokens), ("steps", body.steps), ("ms", body.ms)];
    let told: String =
        sums.iter().filter_map(|(name, sum)| sum.map(|sum| format!(" {name}={sum}"))).collect();
    let told = if told.is_empty() { " and does not say what" } else { &told };
    format!("{} by {}{told}", whose(ledger, body.run), body.source)
}

fn whose(ledger: &Ledger, run: Fence) -> String {
    ledger.runs.get(&run).map_or_else(|| format!("run {run}"), |run| node(&run.node))
}

fn node(node: &NodeId) -> String {
    match node {
        NodeId::Session(id) => format!("turn of {id}"),
        NodeId::Job(id) => id.to_string(),
    }
}

fn job_ended(body: &JobEnded) -> String {
    let mut text = format!("{} {}", body.job, body.status);
    if let Some(cause) = body.cause {
        let _ = write!(text, "/{cause}");
    }
    if let Some(code) = body.code {
        let _ = write!(text, ".{code}");
    }
    if let Some(after) = body.after {
        let _ = write!(text, " after {after}");
    }
    for (set, mark) in [
        (body.interrupted, " interrupted"),
        (body.unreaped, " unreaped"),
        (body.completed_anyway, " completed_anyway"),
    ] {
        text.push_str(if set { mark } else { "" });
    }
    text
}

fn moved(part: &ToolPart, ledger: &Ledger) -> String {
    let mark = if part.interrupted { " interrupted" } else { "" };
    let at =
        |ms: Option<u64>| ms.map_or("-".into(), |ms| (ms as i64 - crate::world::WALL_MS as i64).to_string());
    let state = crate::op::moved(part.state);
    let whose = whose(ledger, part.run);
    format!("{whose} {} {state}{mark} {}..{}", part.call, at(part.start_ms), at(part.end_ms))
}

fn note(body: &Note) -> String {
    let code = match body.code {
        NoteCode::ClockJump => "clock_jump",
        NoteCode::StaleReport => "stale_report",
        NoteCode::Unreaped => "unreaped",
        NoteCode::SpawnTotal => "spawn_total",
        NoteCode::Stall => "stall",
        NoteCode::Circuit => "circuit",
        NoteCode::LowSpace => "low_space",
        NoteCode::Budget => "budget",
        NoteCode::Unknown => "unknown",
    };
    let details = body.details.as_deref().cloned().unwrap_or_default();
    let group = details.group.map_or(String::new(), |id| format!(" {id}"));
    let kind = details.kind.map_or(String::new(), |kind| format!(" {kind}"));
    let of = details.dimension.map_or(String::new(), |of| format!(" {of}"));
    let repeats = details.repeats.map_or(String::new(), |times| format!(" {times} times"));
    let waits: String = details.waits.iter().map(|(id, phase)| format!(" {id}:{phase}")).collect();
    let job = body.job.as_ref().map_or(String::new(), |id| format!(" {id}"));
    let value = body.value.map_or(String::new(), |value| format!(" {value}"));
    format!("{code}{job}{group}{kind}{of}{value}{repeats}{waits}")
}
