//! What `fanin sanitize` writes, for people and for programs. It decides nothing.

use std::io::Write;
use std::path::Path;

use console::{Alignment, pad_str, truncate_str};
use fanin_protocol::text;
use fanin_sanitize::{Counts, Scan, Scanned};
use serde::Serialize;

use super::{Done, Outcome};
use crate::stores::{self, LookError};

/// Columns of a session's id, and of a title.
const ID_COLUMNS: usize = 30;
const TITLE_COLUMNS: usize = 16;

#[derive(Serialize)]
struct Document<'o> {
    schema: &'static str,
    stores: Vec<StoreOf<'o>>,
}

#[derive(Serialize)]
struct StoreOf<'o> {
    format: &'static str,
    path: &'o Path,
    version: Option<&'o str>,
    in_use_by: Option<&'o str>,
    before: Option<Counts>,
    after: Option<Counts>,
    backup: Option<&'o Path>,
    restored: Option<usize>,
    kept: Option<usize>,
    sessions: Vec<SessionOf<'o>>,
    error: Option<ErrorOf>,
}

#[derive(Serialize)]
struct SessionOf<'o> {
    session: &'o str,
    parent: Option<&'o str>,
    title: &'o str,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct ErrorOf {
    code: &'static str,
    message: String,
}

/// Writes `fanin.sanitize/1`.
///
/// # Errors
///
/// The writer's.
pub(super) fn document(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), LookError> {
    let document = Document { schema: "fanin.sanitize/1", stores: outcomes.iter().map(of_store).collect() };
    serde_json::to_writer(&mut *out, &document).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

fn of_store(outcome: &Outcome) -> StoreOf<'_> {
    let mut store = StoreOf {
        format: outcome.format,
        path: &outcome.path,
        version: None,
        in_use_by: outcome.user.as_deref(),
        before: None,
        after: None,
        backup: None,
        restored: None,
        kept: None,
        sessions: Vec::new(),
        error: None,
    };
    let scan = match &outcome.done {
        Ok(Done::Reported(scan)) => scan,
        Ok(Done::Repaired { before, after, backup }) => {
            (store.after, store.backup) = (Some(*after), backup.as_deref());
            before
        }
        Ok(Done::Undone(undone)) => {
            (store.restored, store.kept) = (Some(undone.restored), Some(undone.kept));
            store.backup = Some(&undone.backup);
            return store;
        }
        Err(error) => {
            store.error = Some(ErrorOf { code: error.code(), message: error.to_string() });
            return store;
        }
    };
    (store.version, store.before) = (Some(scan.version.as_str()), Some(scan.counts()));
    store.sessions = open(scan)
        .map(|(scanned, counts)| SessionOf {
            session: &scanned.session,
            parent: scanned.parent.as_deref(),
            title: &scanned.title,
            counts,
        })
        .collect();
    store
}

/// The sessions that have something open.
fn open(scan: &Scan) -> impl Iterator<Item = (&Scanned, Counts)> {
    let counted = scan.sessions.iter().map(|scanned| (scanned, scanned.counts()));
    counted.filter(|(_, counts)| counts.total() > 0)
}

/// Writes it for people.
///
/// # Errors
///
/// The writer's.
pub(super) fn text(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), LookError> {
    if outcomes.is_empty() {
        writeln!(
            out,
            "no store of a known kind is where such stores are made; name one: fanin sanitize PATH"
        )?;
    }
    for outcome in outcomes {
        let (format, path) = (outcome.format, text::path(&outcome.path));
        match &outcome.done {
            Ok(Done::Reported(scan)) => {
                let is_open = table(out, outcome, &path, scan)?;
                if is_open && format == "fanin" {
                    let name = outcome.path.file_name().unwrap_or_default();
                    let way_out = stores::way_out(&outcome.path, &text::path(Path::new(name)));
                    writeln!(out, "nothing was changed; {way_out}")?;
                } else if is_open {
                    writeln!(
                        out,
                        "nothing was changed; this repairs it, with a backup: fanin sanitize --write {path}"
                    )?;
                }
            }
            Ok(Done::Repaired { before, after, backup }) => {
                table(out, outcome, &path, before)?;
                if let Some(backup) = backup {
                    writeln!(out, "repaired; left open are {}", words(after))?;
                    writeln!(out, "as it was it is in {}", text::path(backup))?;
                    writeln!(out, "this takes it back: fanin sanitize --undo {path}")?;
                }
            }
            Ok(Done::Undone(undone)) => {
                let (restored, kept) = (undone.restored, undone.kept);
                writeln!(out, "{format} store {path}")?;
                writeln!(
                    out,
                    "{restored} rows are as they were before the repair, {kept} were changed since and stay"
                )?;
                writeln!(out, "the backup is now {}", text::path(&undone.backup))?;
            }
            Err(error) => {
                writeln!(out, "{format} store {path}\nerror: {}", text::printable(&error.to_string()))?
            }
        }
    }
    Ok(())
}

/// What is open in a store; true where that is anything.
fn table(out: &mut dyn Write, outcome: &Outcome, path: &str, scan: &Scan) -> Result<bool, LookError> {
    writeln!(out, "{} store {path}", outcome.format)?;
    if let Some(user) = &outcome.user {
        writeln!(out, "in use by {}: what is open may still go on", text::one_line(user))?;
    }
    let (sessions, counts) = (scan.sessions.len(), scan.counts());
    if counts.total() == 0 {
        writeln!(out, "nothing is left open in {sessions} sessions")?;
        return Ok(false);
    }
    let heading = ["SESSION", "RUNNING", "PENDING", "MESSAGES", "JOBS", "TITLE"];
    writeln!(out, "{}", row(heading.map(ToOwned::to_owned)))?;
    for (scanned, counts) in open(scan) {
        let Counts { running, pending, messages, jobs, .. } = counts;
        let [running, pending, messages, jobs] = [running, pending, messages, jobs].map(|n| n.to_string());
        let title = text::one_line(&scanned.title);
        writeln!(
            out,
            "{}",
            row([text::one_line(&scanned.session), running, pending, messages, jobs, title])
        )?;
    }
    writeln!(out, "open in {} of {sessions} sessions: {}", open(scan).count(), words(&counts))?;
    Ok(true)
}

fn row([id, running, pending, messages, jobs, title]: [String; 6]) -> String {
    let id = pad_str(&id, ID_COLUMNS, Alignment::Left, Some("…"));
    let title = truncate_str(&title, TITLE_COLUMNS, "…");
    format!("{id} {running:>7} {pending:>7} {messages:>8} {jobs:>5}  {title}").trim_end().to_owned()
}

fn words(counts: &Counts) -> String {
    let Counts { running, pending, pending_without_time, messages, jobs } = counts;
    let timeless = if *pending_without_time > 0 {
        format!(" ({pending_without_time} without a time)")
    } else {
        String::new()
    };
    format!(
        "{running} calls running, {pending} pending{timeless}, {messages} messages without an end, {jobs} lost jobs"
    )
}
