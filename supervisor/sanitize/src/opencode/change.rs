//! What a fix means for the rows of opencode. A change is a function of the database and the fix alone, so that what was
//! changed can be told again when it is taken back.

use std::path::Path;

use fanin_protocol::ToolPart;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Number, json};

use crate::error::SanitizeError;
use crate::object::Object;
use crate::plan::{Fix, Lost};

/// Where a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Message,
    Part,
}

impl Table {
    const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Part => "part",
        }
    }
}

/// What a change touches of a row; its other columns stay.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    updated_ms: i64,
    data: String,
}

/// One row, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    table: Table,
    id: String,
    /// What it was; of a row that is added, what it is added to.
    before: Before,
    after: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Before {
    Was(Content),
    Added { session: String, message: Option<String> },
}

/// What became of a change that was to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenBack {
    /// The row is as it was before.
    Restored,
    /// Somebody changed it since; it stays.
    Changed,
    /// It is as it was: the change was never made.
    NeverMade,
}

/// The changes that a fix comes to, in the order in which they are made.
pub(super) fn of(connection: &Connection, path: &Path, fix: &Fix) -> Result<Vec<Change>, SanitizeError> {
    let what = |key: &str| format!("the row {key} is not what it was");
    let change = |table, key: &str, updated_ms: u64, change: &dyn Fn(&str) -> serde_json::Result<String>| {
        let was = content(connection, table, key).map_err(|error| SanitizeError::sql(path, &error))?;
        let was = was.ok_or_else(|| SanitizeError::damaged(path, what(key)))?;
        let data = change(&was.data)
            .map_err(|error| SanitizeError::damaged(path, format!("{} {key}: {error}", table.name())))?;
        let after = Content { updated_ms: signed(updated_ms), data };
        Ok(vec![Change { table, id: key.to_owned(), before: Before::Was(was), after }])
    };
    match fix {
        Fix::Close { key, part, text } => {
            change(Table::Part, key, part.last_ms, &|data| closed(data, part, text))
        }
        Fix::Complete { key, end_ms, text } => {
            change(Table::Message, key, *end_ms, &|data| completed(data, *end_ms, text))
        }
        Fix::Tell { session, at_ms, lost } => told(connection, path, session, *at_ms, lost),
    }
}

/// The content of a part that becomes an error, as opencode itself writes one that it aborts.
fn closed(data: &str, part: &ToolPart, text: &str) -> serde_json::Result<String> {
    let mut whole = Object::read(data)?;
    let mut state = whole.object("state")?;
    let mut metadata = state.object("metadata")?;
    metadata.set("interrupted", &part.interrupted)?;
    // Of an interrupted call opencode shows the model what it has put out so far, where there is that, and not the error.
    if let Some(output) =
        metadata.get("output").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
    {
        metadata.set("output", &with_notice(&output, text))?;
    }
    let mut time = state.object("time")?;
    // As it was written, where there is one: it is never rewritten.
    if time.get("start").is_none_or(|start| start.get() == "null") {
        time.set("start", &part.start_ms)?;
    }
    let end = latest(&time, ["start", "end"], part.end_ms.unwrap_or(part.last_ms))?;
    time.set("end", &end)?;
    state.set("status", &part.state)?;
    state.set("error", text)?;
    state.set("metadata", &metadata)?;
    state.set("time", &time)?;
    whole.set("state", &state)?;
    serde_json::to_string(&whole)
}

/// The latest of a moment and those that are written: as it is written, where it has more digits or a larger exponent than a
/// whole number of milliseconds.
fn latest(time: &Object, written: [&str; 2], end_ms: u64) -> serde_json::Result<Box<RawValue>> {
    let mut latest = to_raw_value(&end_ms)?;
    for written in written.into_iter().filter_map(|name| time.get(name)) {
        if is_before(&latest, written) {
            latest = written.to_owned();
        }
    }
    Ok(latest)
}

/// True where a number is before another, or where that cannot be told for want of digits. What is no number is before none.
fn is_before(one: &RawValue, other: &RawValue) -> bool {
    let number = |raw: &RawValue| serde_json::from_str::<Number>(raw.get()).ok();
    let (Some(one), Some(other)) = (number(one), number(other)) else { return false };
    match (one.as_u64(), other.as_u64(), one.as_f64(), other.as_f64()) {
        (Some(one), Some(other), ..) => one < other,
        (_, _, Some(one), Some(other)) => one <= other,
        _ => false,
    }
}

/// An output, with a notice behind it in the form in which opencode adds them.
fn with_notice(output: &str, text: &str) -> String {
    let gap = if output.is_empty() { "" } else { "\n\n" };
    format!("{output}{gap}<metadata>\n{text}\n</metadata>")
}

/// The content of a message that is completed, as opencode itself writes one that it aborts.
fn completed(data: &str, end_ms: u64, text: &str) -> serde_json::Result<String> {
    let mut whole = Object::read(data)?;
    let mut time = whole.object("time")?;
    let end = latest(&time, ["created", "completed"], end_ms)?;
    time.set("completed", &end)?;
    whole.set("time", &time)?;
    if whole.get("error").is_none_or(|error| error.get() == "null") {
        whole.set("error", &json!({"name": "MessageAbortedError", "data": {"message": text}}))?;
    }
    serde_json::to_string(&whole)
}

/// The message that tells a session of jobs that it lost, with a part for each: what opencode writes where one fails.
fn told(
    connection: &Connection,
    path: &Path,
    session: &str,
    at_ms: u64,
    lost: &[Lost],
) -> Result<Vec<Change>, SanitizeError> {
    let Some(first) = lost.first() else { return Ok(Vec::new()) };
    let failed =
        |error: serde_json::Error| SanitizeError::damaged(path, format!("part {}: {error}", first.key));
    let user = asked_by(connection, &first.key)
        .map_err(|error| SanitizeError::sql(path, &error))?
        .ok_or_else(|| SanitizeError::damaged(path, format!("part {} is of no message", first.key)))?;
    let message = message(&user, at_ms).map_err(failed)?;
    let id = |kind: &str, nth: usize, job: &str| id(kind, at_ms, nth, job);
    let added = |table, id: String, message: Option<&str>, data: String| Change {
        table,
        id,
        before: Before::Added { session: session.to_owned(), message: message.map(ToOwned::to_owned) },
        after: Content { updated_ms: signed(at_ms), data },
    };
    let message_id = id("msg", 0, &first.job);
    let mut changes = vec![added(Table::Message, message_id.clone(), None, message)];
    for (nth, lost) in lost.iter().enumerate() {
        let data = serde_json::to_string(&Notice { kind: "text", synthetic: true, text: notice(lost) });
        let part = id("prt", nth + 1, &lost.job);
        changes.push(added(Table::Part, part, Some(&message_id), data.map_err(failed)?));
    }
    Ok(changes)
}

#[derive(Serialize)]
struct Notice {
    #[serde(rename = "type")]
    kind: &'static str,
    synthetic: bool,
    text: String,
}

fn notice(lost: &Lost) -> String {
    let Lost { job, label, text, .. } = lost;
    format!(
        "<task id=\"{job}\" state=\"error\">\n<summary>Background task failed: {label}</summary>\n\
         <task_error>\n{text}\n</task_error>\n</task>"
    )
}

/// The message of the user that a call was made for, else that of the assistant which made it.
fn asked_by(connection: &Connection, part: &str) -> rusqlite::Result<Option<String>> {
    let query = "SELECT coalesce(asked.data, made.data) FROM part \
                 JOIN message AS made ON made.id = part.message_id \
                 LEFT JOIN message AS asked ON asked.id = made.data ->> '$.parentID' WHERE part.id = ?1";
    connection.prepare_cached(query)?.query_row([part], |row| row.get(0)).optional()
}

/// A message of the user's, with the agent and the model that the call was made for.
fn message(by: &str, at_ms: u64) -> serde_json::Result<String> {
    let by = Object::read(by)?;
    let mut message = Object::default();
    message.set("role", "user")?;
    message.set("time", &json!({"created": at_ms}))?;
    if let Some(agent) = by.get("agent") {
        message.set("agent", agent)?;
    }
    match (by.get("model"), by.get("providerID"), by.get("modelID")) {
        (Some(model), _, _) => message.set("model", model)?,
        (None, Some(provider), Some(id)) => {
            let mut model = Object::default();
            model.set("providerID", provider)?;
            model.set("modelID", id)?;
            message.set("model", &model)?;
        }
        (None, _, _) => {}
    }
    serde_json::to_string(&message)
}

/// An id as opencode makes them: twelve digits of time and number, which sort, and fourteen letters that make it the only
/// one. They are the job's own, so no chance is needed and the id can be told again.
fn id(kind: &str, at_ms: u64, nth: usize, job: &str) -> String {
    let place = (at_ms.wrapping_mul(0x1000).wrapping_add(nth as u64)) & 0xffff_ffff_ffff;
    let letters: String = job.chars().filter(char::is_ascii_alphanumeric).collect();
    let own = letters.get(letters.len().saturating_sub(14)..).unwrap_or_default();
    format!("{kind}_{place:012x}{own:0>14}")
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn content(connection: &Connection, table: Table, id: &str) -> rusqlite::Result<Option<Content>> {
    let query = format!("SELECT time_updated, data FROM {} WHERE id = ?1", table.name());
    let content = |row: &rusqlite::Row<'_>| Ok(Content { updated_ms: row.get(0)?, data: row.get(1)? });
    connection.prepare_cached(&query)?.query_row([id], content).optional()
}

fn set(connection: &Connection, table: Table, id: &str, content: &Content) -> rusqlite::Result<()> {
    let query = format!("UPDATE {} SET time_updated = ?2, data = ?3 WHERE id = ?1", table.name());
    connection.prepare_cached(&query)?.execute(params![id, content.updated_ms, content.data]).map(|_| ())
}

impl Change {
    /// Makes it.
    pub(super) fn make(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Content { updated_ms, data } = &self.after;
        match &self.before {
            Before::Was(_) => set(connection, self.table, &self.id, &self.after),
            Before::Added { session, message: None } => connection
                .prepare_cached(
                    "INSERT INTO message(id, session_id, time_created, time_updated, data) VALUES(?1, ?2, ?3, ?3, ?4)",
                )?
                .execute(params![self.id, session, updated_ms, data])
                .map(|_| ()),
            Before::Added { session, message: Some(message) } => connection
                .prepare_cached(
                    "INSERT INTO part(id, message_id, session_id, time_created, time_updated, data) \
                     VALUES(?1, ?2, ?3, ?4, ?4, ?5)",
                )?
                .execute(params![self.id, message, session, updated_ms, data])
                .map(|_| ()),
        }
    }

    /// Takes it back, where the row is still as it was made.
    pub(super) fn take_back(&self, connection: &Connection) -> rusqlite::Result<TakenBack> {
        let now = content(connection, self.table, &self.id)?;
        match (&self.before, now) {
            (Before::Was(was), Some(now)) if now == *was => Ok(TakenBack::NeverMade),
            (Before::Was(was), Some(now)) if now == self.after => {
                set(connection, self.table, &self.id, was)?;
                Ok(TakenBack::Restored)
            }
            (Before::Added { .. }, None) => Ok(TakenBack::NeverMade),
            (Before::Added { .. }, Some(now)) if now == self.after => {
                let query = format!("DELETE FROM {} WHERE id = ?1", self.table.name());
                connection.prepare_cached(&query)?.execute([&self.id])?;
                Ok(TakenBack::Restored)
            }
            (Before::Was(_) | Before::Added { .. }, _) => Ok(TakenBack::Changed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fanin_protocol::{Fence, PartKind};
    use proptest::prelude::*;
    use serde_json::Value;

    fn part() -> ToolPart {
        ToolPart::pending(Fence(0), "c".into(), "bash".into(), PartKind::Tool, 7).interrupt(9).unwrap()
    }

    #[test]
    fn only_what_is_known_changes_and_the_rest_keeps_its_text() {
        let data = r#"{"type":"tool","x":1.50,"state":{"title":"t","status":"running","metadata":{"output":"","y":[1e2]},"input":{"a":0.10},"time":{"start":3.5,"z":1}}}"#;
        let after = r#"{"type":"tool","x":1.50,"state":{"title":"t","status":"error","metadata":{"output":"<metadata>\nwhy\n</metadata>","y":[1e2],"interrupted":true},"input":{"a":0.10},"time":{"start":3.5,"z":1,"end":9},"error":"why"}}"#;
        assert_eq!(closed(data, &part(), "why").unwrap(), after);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\"\\\\é]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map("[a-z]{1,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_else_a_part_holds_is_the_same_afterwards(more in any_json(), deep in any_json(), start: Option<u32>) {
            let time = start.map_or_else(|| json!({"more": deep}), |start| json!({"start": start, "more": deep}));
            let state = json!({"status": "running", "more": more, "metadata": {"more": deep}, "time": time});
            let was = json!({"type": "tool", "more": more, "state": state});
            let is: Value = serde_json::from_str(&closed(&was.to_string(), &part(), "why").unwrap()).unwrap();
            let mut expected = was.clone();
            expected["state"]["status"] = "error".into();
            expected["state"]["error"] = "why".into();
            expected["state"]["metadata"]["interrupted"] = true.into();
            expected["state"]["time"]["start"] = start.map_or_else(|| 7.into(), Value::from);
            expected["state"]["time"]["end"] = start.map_or(9, |start| start.max(9)).into();
            prop_assert_eq!(is, expected);
        }
    }

    #[test]
    fn a_part_without_any_time_gets_both() {
        let data = r#"{"type":"tool","state":{"status":"pending","input":{},"raw":""}}"#;
        let after = r#"{"type":"tool","state":{"status":"error","input":{},"raw":"","error":"why","metadata":{"interrupted":true},"time":{"start":7,"end":9}}}"#;
        assert_eq!(closed(data, &part(), "why").unwrap(), after);
    }

    #[test]
    fn an_error_that_a_message_has_stays() {
        let after = completed(r#"{"error":{"name":"APIError"},"time":{"created":1}}"#, 5, "why").unwrap();
        assert_eq!(after, r#"{"error":{"name":"APIError"},"time":{"created":1,"completed":5}}"#);
        let after = completed(r#"{"time":{"created":1}}"#, 5, "why").unwrap();
        assert!(after.contains(r#""MessageAbortedError""#) && after.contains("why"), "{after}");
    }

    #[test]
    fn ids_sort_by_time_and_number_and_are_as_long_as_those_of_opencode() {
        let known = "msg_228db51b7001Bdm8CTCKjjEnJ0";
        let job = "ses_dd724a9ddffexnHQGZmjPj14uN";
        let ids = [
            id("msg", 1_795_981_791_671, 1, job),
            id("msg", 1_795_981_791_671, 2, job),
            id("msg", 1_795_981_791_672, 0, job),
        ];
        assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == known.len()), "{ids:?}");
        assert!(ids[0].starts_with(&known[..16]), "{ids:?}");
        assert_eq!(id("msg", 0, 0, "é1").len(), known.len());
    }
}
