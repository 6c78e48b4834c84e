//! What is open in a database of opencode. It reads rows, and knows what their JSON means; it changes nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use fanin_protocol::{Fence, PartKind, PartState, ToolPart};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Deserializer};
use serde_json::Number;
use serde_json::value::RawValue;

use crate::error::SanitizeError;
use crate::orphan::{Orphan, Scan, Scanned};
use crate::plan::INTERRUPTED;

/// Rows that can be of interest, whatever white space their writer leaves: most are not, and their content, which can be
/// large, is not read. It is checked all the same: what is broken may have been a call that runs.
const PARTS: &str = "
SELECT id, session_id, time_created, time_updated, data FROM part
WHERE instr(data, '\"running\"') OR instr(data, '\"pending\"') OR instr(data, '\"background\"')
   OR instr(data, '\"synthetic\"') OR json_valid(data) IS NOT 1 OR typeof(data) <> 'text'
ORDER BY time_created, id";

/// Messages of assistants that have no end; a message that cannot be read is one of them.
const MESSAGES: &str = "
SELECT id, session_id, time_created, time_updated, data FROM message
WHERE json_valid(data) IS NOT 1 OR typeof(data) <> 'text'
   OR (data ->> '$.role' = 'assistant' AND data ->> '$.time.completed' IS NULL)
ORDER BY time_created, id";

/// A row of either table.
struct Row {
    id: String,
    session: String,
    created_ms: u64,
    updated_ms: u64,
    data: String,
}

impl Row {
    /// A row that was found as `what`, by which it is named where its content is no text.
    fn named(row: &rusqlite::Row<'_>, path: &Path, what: &str) -> Result<Self, SanitizeError> {
        Self::of(row).map_err(|error| match row.get::<_, String>(0) {
            Ok(id) => SanitizeError::damaged(path, format!("{what} {id}: {error}")),
            Err(_) => SanitizeError::sql(path, &error),
        })
    }

    fn of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let ms = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(Self {
            id: row.get(0)?,
            session: row.get(1)?,
            created_ms: ms(row.get(2)?),
            updated_ms: ms(row.get(3)?),
            data: row.get(4)?,
        })
    }

    fn last_ms(&self) -> u64 {
        self.created_ms.max(self.updated_ms)
    }

    /// Its content.
    fn read<'r, T: Deserialize<'r>>(&'r self, path: &Path, what: &str) -> Result<T, SanitizeError> {
        serde_json::from_str(&self.data)
            .map_err(|error| SanitizeError::damaged(path, format!("{what} {}: {error}", self.id)))
    }
}

/// What is looked at of a part.
#[derive(Deserialize)]
struct Part<'r> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'r, str>,
    #[serde(borrow)]
    tool: Option<Cow<'r, str>>,
    #[serde(rename = "callID", borrow)]
    call: Option<Cow<'r, str>>,
    #[serde(borrow)]
    state: Option<State<'r>>,
    #[serde(borrow)]
    synthetic: Option<&'r RawValue>,
    #[serde(borrow)]
    text: Option<&'r RawValue>,
}

#[derive(Deserialize)]
struct State<'r> {
    #[serde(borrow)]
    status: Cow<'r, str>,
    time: Option<Time>,
    #[serde(borrow)]
    metadata: Option<&'r RawValue>,
    #[serde(borrow)]
    input: Option<&'r RawValue>,
}

#[derive(Deserialize, Default, Clone, Copy)]
struct Time {
    start: Option<Moment>,
    end: Option<Moment>,
}

/// Milliseconds since 1970: the first whole one that is not before what was written.
#[derive(Clone, Copy)]
struct Moment(u64);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Number::deserialize(deserializer)?;
        // JavaScript's numbers may have a fraction; a whole one can have more digits than those keep.
        Ok(Self(written.as_u64().unwrap_or_else(|| whole(written.as_f64().unwrap_or(f64::NAN)))))
    }
}

#[derive(Deserialize, Default)]
struct Metadata {
    background: Option<bool>,
    #[serde(rename = "jobId")]
    job: Option<String>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

#[derive(Deserialize, Default)]
struct Input {
    description: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    time: Option<MessageTime>,
    error: Option<MessageError>,
}

#[derive(Deserialize, Default)]
struct MessageTime {
    created: Option<Moment>,
    completed: Option<Moment>,
}

#[derive(Deserialize)]
struct MessageError {
    name: Option<String>,
    data: Option<MessageErrorData>,
}

#[derive(Deserialize)]
struct MessageErrorData {
    message: Option<String>,
}

/// The whole of milliseconds that is not before them.
fn whole(ms: f64) -> u64 {
    // A cast saturates, and makes 0 of what is no number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = ms.ceil() as u64;
    whole
}

/// Reads a member whose shape is not promised: one that has another is as one that is not there.
fn maybe<'r, T: Deserialize<'r> + Default>(raw: Option<&'r RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// A background job, at the place where it was launched or its end was told.
struct Mark {
    session: String,
    job: String,
    created_ms: u64,
    id: String,
}

impl Mark {
    fn new(row: &Row, job: String) -> Self {
        Self { session: row.session.clone(), job, created_ms: row.created_ms, id: row.id.clone() }
    }

    fn is_before(&self, other: &Self) -> bool {
        (self.created_ms, &self.id) < (other.created_ms, &other.id)
    }
}

/// What parts say, gathered row by row.
#[derive(Default)]
struct Found {
    /// With the session of each.
    orphans: Vec<(String, Orphan)>,
    /// The newest launch of each job in each session, with what the job is called.
    launched: Vec<(Mark, String)>,
    /// The newest end of each.
    told: HashMap<(String, String), Mark>,
}

/// All that is open in a database.
pub(super) fn scan(connection: &Connection, path: &Path, version: String) -> Result<Scan, SanitizeError> {
    let sql = |error| SanitizeError::sql(path, &error);
    let mut found = Found::default();
    let mut statement = connection.prepare(PARTS).map_err(sql)?;
    let mut rows = statement.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let row = Row::named(row, path, "part")?;
        found.part(&row, &row.read(path, "part")?);
    }
    let mut statement = connection.prepare(MESSAGES).map_err(sql)?;
    let mut rows = statement.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let row = Row::named(row, path, "message")?;
        let message: Message = row.read(path, "message")?;
        let created_ms = message.time.and_then(|time| time.created).map_or(row.created_ms, |at| at.0);
        let orphan = Orphan::Message { key: row.id.clone(), created_ms, last_ms: row.last_ms() };
        found.orphans.push((row.session, orphan));
    }
    found.lost_jobs(connection, path)?;
    let mut sessions = sessions(connection).map_err(sql)?;
    found.sort_into(&mut sessions);
    Ok(Scan { version, sessions })
}

impl Found {
    fn part(&mut self, row: &Row, part: &Part<'_>) {
        match &*part.kind {
            "tool" => {
                let Some(state) = &part.state else { return };
                let metadata: Metadata = maybe(state.metadata);
                match &*state.status {
                    "running" | "pending" => {
                        let orphan = orphan(row, part, state, metadata);
                        self.orphans.push((row.session.clone(), orphan));
                    }
                    "completed" => self.launch(row, part, state, metadata),
                    // An error is an end, and what this program does not know is not its own.
                    _ => {}
                }
            }
            "text" if maybe::<bool>(part.synthetic) => {
                if let Some(job) = ended_job(&maybe::<String>(part.text)) {
                    let mark = Mark::new(row, job);
                    self.told.insert((row.session.clone(), mark.job.clone()), mark);
                }
            }
            _ => {}
        }
    }

    /// A call that is over although the job that it launched need not be.
    fn launch(&mut self, row: &Row, part: &Part<'_>, state: &State<'_>, metadata: Metadata) {
        let is_launch = part.tool.as_deref() == Some("task") && metadata.background == Some(true);
        let Some(job) = metadata.job.or(metadata.session).filter(|_| is_launch) else { return };
        let label = maybe::<Input>(state.input).description.unwrap_or_default();
        // One end is told of a job, however often it was given more to do.
        self.launched.retain(|(mark, _)| mark.session != row.session || mark.job != job);
        self.launched.push((Mark::new(row, job), label));
    }

    /// The jobs that were launched and whose end was not told after that.
    fn lost_jobs(&mut self, connection: &Connection, path: &Path) -> Result<(), SanitizeError> {
        let sql = |error| SanitizeError::sql(path, &error);
        for (mark, label) in std::mem::take(&mut self.launched) {
            let told = self.told.get(&(mark.session.clone(), mark.job.clone()));
            if told.is_some_and(|told| mark.is_before(told)) || is_cancelled(connection, path, &mark.job)? {
                continue;
            }
            let after_ms = newest(connection, &mark.session).map_err(sql)?;
            let Mark { session, job, id, .. } = mark;
            self.orphans.push((session, Orphan::Job { key: id, job, label, after_ms }));
        }
        Ok(())
    }

    fn sort_into(self, sessions: &mut Vec<Scanned>) {
        let mut places: HashMap<String, usize> =
            sessions.iter().enumerate().map(|(place, scanned)| (scanned.session.clone(), place)).collect();
        for (session, orphan) in self.orphans {
            let place = *places.entry(session).or_insert_with_key(|session| {
                // A row of a session that is gone, in a database without its foreign keys.
                let session = session.clone();
                sessions.push(Scanned { session, parent: None, title: String::new(), orphans: Vec::new() });
                sessions.len() - 1
            });
            if let Some(scanned) = sessions.get_mut(place) {
                scanned.orphans.push(orphan);
            }
        }
    }
}

/// The call as the machine knows calls, whose rule then closes it.
fn orphan(row: &Row, part: &Part<'_>, state: &State<'_>, metadata: Metadata) -> Orphan {
    let time = state.time.unwrap_or_default();
    let (start_ms, end_ms) = (time.start.map(|at| at.0), time.end.map(|at| at.0));
    let (call, name) = (part.call.as_deref().unwrap_or_default(), part.tool.as_deref().unwrap_or_default());
    // Its run is none of this program's.
    let mut tool = ToolPart::pending(Fence(0), call.into(), name.into(), PartKind::Tool, row.created_ms);
    if state.status == "running" {
        tool.state = PartState::Running;
    }
    tool.start_ms = start_ms;
    tool.last_ms = row.last_ms().max(start_ms.unwrap_or(0)).max(end_ms.unwrap_or(0));
    Orphan::Part { key: row.id.clone(), part: tool, child: metadata.session, is_timeless: start_ms.is_none() }
}

/// The job whose end a text tells, as opencode writes it.
fn ended_job(text: &str) -> Option<String> {
    let (job, rest) = text.strip_prefix("<task id=\"")?.split_once('"')?;
    let (state, _) = rest.strip_prefix(" state=\"")?.split_once('"')?;
    (state != "running").then(|| job.to_owned())
}

/// True where a person or the parent stopped a job: opencode tells nobody of that end, and it is no loss.
fn is_cancelled(connection: &Connection, path: &Path, job: &str) -> Result<bool, SanitizeError> {
    let query = "SELECT id, session_id, time_created, time_updated, data FROM message \
                 WHERE session_id = ?1 ORDER BY time_created DESC, id DESC LIMIT 1";
    let newest = connection
        .prepare_cached(query)
        .and_then(|mut newest| newest.query_row([job], Row::of).optional())
        .map_err(|error| SanitizeError::sql(path, &error))?;
    let Some(row) = newest else { return Ok(false) };
    let message: Message = row.read(path, "message")?;
    let is_over = message.time.is_some_and(|time| time.completed.is_some());
    let Some(error) = message.error.filter(|_| is_over && message.role == "assistant") else {
        return Ok(false);
    };
    let text = error.data.and_then(|data| data.message).unwrap_or_default();
    Ok(error.name.as_deref() == Some("MessageAbortedError") && !text.starts_with(INTERRUPTED))
}

/// The latest time recorded in a session.
fn newest(connection: &Connection, session: &str) -> rusqlite::Result<u64> {
    let mut newest = 0;
    for table in ["message", "part"] {
        let query = format!("SELECT max(max(time_created, time_updated)) FROM {table} WHERE session_id = ?1");
        let found: Option<i64> = connection.prepare_cached(&query)?.query_row([session], |row| row.get(0))?;
        newest = newest.max(u64::try_from(found.unwrap_or(0)).unwrap_or(0));
    }
    Ok(newest)
}

fn sessions(connection: &Connection) -> rusqlite::Result<Vec<Scanned>> {
    let mut statement =
        connection.prepare("SELECT id, parent_id, title FROM session ORDER BY time_created, id")?;
    let scanned = |row: &rusqlite::Row<'_>| {
        Ok(Scanned { session: row.get(0)?, parent: row.get(1)?, title: row.get(2)?, orphans: Vec::new() })
    };
    statement.query_map([], scanned)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_by_the_notice_and_by_nothing_like_it() {
        assert_eq!(ended_job("<task id=\"ses_1\" state=\"completed\">\n").as_deref(), Some("ses_1"));
        assert_eq!(ended_job("<task id=\"ses_1\" state=\"error\">").as_deref(), Some("ses_1"));
        for other in
            ["<task id=\"ses_1\" state=\"running\">", "see <task id=\"ses_1\" state=\"error\">", "<task>", ""]
        {
            assert_eq!(ended_job(other), None, "{other}");
        }
    }

    #[test]
    fn times_are_whole_and_never_before_what_was_written() {
        assert_eq!([whole(5.2), whole(-3.0), whole(f64::NAN)], [6, 0, 0]);
    }
}
