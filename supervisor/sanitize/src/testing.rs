//! Stores for tests, as opencode 1.18.33 makes them, and all rows of one to be compared. Never in a build that ships.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use serde_json::value::RawValue;

use crate::object::Object;

/// What goes wrong in making one.
pub type Failed = Box<dyn Error + Send + Sync>;

const SCHEMA: &str = include_str!("testing/schema.sql");

/// What is in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// No row but those of its migrations.
    Empty,
    /// Three background jobs that ended, and whose parent was told.
    Completed,
    /// Killed in the middle of a fan-out, and resumed: 5 calls `running`, 4 messages without an end, one job lost.
    Killed,
}

/// Makes a store.
///
/// # Errors
///
/// [`Failed`].
pub fn opencode(path: &Path, sample: Sample) -> Result<(), Failed> {
    let connection = Connection::open(path)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT"))?;
    match sample {
        Sample::Empty => Ok(()),
        Sample::Completed => fill(&connection, include_str!("testing/completed.json")),
        Sample::Killed => fill(&connection, include_str!("testing/killed.json")),
    }
}

/// Rows by table, each an object by column; a value that is an object or a list is text in the store.
fn fill(connection: &Connection, sample: &str) -> Result<(), Failed> {
    for (table, rows) in Object::read(sample)?.members() {
        for row in serde_json::from_str::<Vec<Object>>(rows.get())? {
            let names: Vec<String> = row.members().map(|(name, _)| format!("\"{name}\"")).collect();
            let values: Vec<Value> =
                row.members().map(|(_, value)| column(value)).collect::<Result<_, _>>()?;
            let places = vec!["?"; values.len()].join(", ");
            let insert = format!("INSERT INTO \"{table}\"({}) VALUES({places})", names.join(", "));
            connection.execute(&insert, params_from_iter(values))?;
        }
    }
    Ok(())
}

fn column(raw: &RawValue) -> Result<Value, Failed> {
    Ok(match serde_json::from_str(raw.get())? {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(it) => Value::Integer(it.into()),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::Real(number.as_f64().unwrap_or_default()),
        },
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => Value::Text(raw.get().to_owned()),
    })
}

/// Makes a rollout of Codex 0.171.0 that was killed with two calls at work, as it made it, with long texts cut.
///
/// # Errors
///
/// [`Failed`].
pub fn codex(path: &Path) -> Result<(), Failed> {
    Ok(std::fs::write(path, include_str!("testing/codex.jsonl"))?)
}

/// Makes a store with this many calls of which so many are `running`, twenty to a message, and that message without an
/// end where one of them has none.
///
/// # Errors
///
/// [`Failed`].
pub fn opencode_of(path: &Path, calls: usize, running: usize) -> Result<(), Failed> {
    opencode(path, Sample::Empty)?;
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "INSERT INTO project(id, worktree, sandboxes, time_created, time_updated) VALUES('p', '/project', '[]', 1, 1);
         INSERT INTO session(id, project_id, slug, directory, title, version, time_created, time_updated)
         VALUES('ses_1', 'p', 'one', '/project', 'one', '1.18.33', 1, 1);",
    )?;
    // Where a store is large, it is so by what tools put out.
    let output = "a line of what the tool has put out\\n".repeat(12);
    {
        let mut message = transaction.prepare("INSERT INTO message VALUES(?1, 'ses_1', ?2, ?2, ?3)")?;
        let mut part = transaction.prepare("INSERT INTO part VALUES(?1, ?2, 'ses_1', ?3, ?3, ?4)")?;
        for nth in 0..calls {
            let (at, of) = (1_795_981_000_000_i64 + i64::try_from(nth)?, nth / 20 * 20);
            if nth == of {
                let end = if nth < running { String::new() } else { format!(",\"completed\":{at}") };
                let data = format!(
                    r#"{{"role":"assistant","agent":"build","modelID":"m","providerID":"p","time":{{"created":{at}{end}}}}}"#
                );
                message.execute((format!("msg_{of:012}"), at, data))?;
            }
            let state = if nth < running {
                format!(r#""status":"running","metadata":{{"output":"{output}"}},"time":{{"start":{at}}}"#)
            } else {
                format!(r#""status":"completed","output":"{output}","time":{{"start":{at},"end":{at}}}"#)
            };
            let data = format!(
                r#"{{"type":"tool","tool":"bash","callID":"c{nth}","state":{{"input":{{"command":"ls"}},{state}}}}}"#
            );
            part.execute((format!("prt_{nth:012}"), format!("msg_{of:012}"), at, data))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Runs words of SQL in a store.
///
/// # Errors
///
/// [`Failed`].
pub fn change(path: &Path, words: &str) -> Result<(), Failed> {
    Ok(Connection::open(path)?.execute_batch(words)?)
}

/// Every row of every table, as text.
///
/// # Errors
///
/// [`Failed`].
pub fn rows(path: &Path) -> Result<BTreeSet<String>, Failed> {
    let connection = Connection::open(path)?;
    let mut tables =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut all = BTreeSet::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\""))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let values: Vec<String> =
                (0..columns).map(|n| row.get_ref(n).map(shown)).collect::<Result<_, _>>()?;
            all.insert(format!("{table}|{}", values.join("|")));
        }
    }
    Ok(all)
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
