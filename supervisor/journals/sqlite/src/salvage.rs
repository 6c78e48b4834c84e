//! What can still be read of a database that SQLite does not change any more, taken over into a new one. What is missing
//! there is for the repair to find and to name.

use fanin_supervisor::journal::JournalError;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::layout::Layout;
use crate::meta::Meta;
use crate::{database, failure};

/// The tables with the number of their columns, those that follow from others apart, and the order in which their pages
/// hold them. `meta` is taken over by what it says.
const TABLES: [(&str, usize, &str); 5] = [
    ("log", 8, "seq"),
    ("live", 4, "place"),
    ("retired", 5, "place"),
    ("output", 4, "rowid"),
    ("put_out", 6, "job"),
];

/// Makes a database in the folder of `to` of what can be read of the one of `from`, which is a copy that nobody needs.
///
/// # Errors
///
/// [`JournalError::Damaged`] where not even that can be read which says how far the store was.
pub(crate) fn into_new(from: &Layout, to: &Layout) -> Result<(), JournalError> {
    let sql = |error| failure::of(to, &error);
    let source = Connection::open(from.database()).map_err(|error| database::unreadable(from, &error))?;
    // Else a file that is shorter than its header says is not read at all.
    source
        .set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)
        .map_err(|error| database::unreadable(from, &error))?;
    let meta = Meta::read(&source, from)?;
    to.make().map_err(|error| failure::of_file(to, "the folder cannot be made", &error))?;
    let target = database::open(to, None)?;
    let transaction = target.unchecked_transaction().map_err(sql)?;
    for (table, columns, key) in TABLES {
        take_over(&source, &transaction, (table, columns), key).map_err(sql)?;
    }
    meta.write(&transaction).map_err(sql)?;
    transaction.commit().map_err(sql)
}

/// Takes over the rows of a table from both of its ends, up to where it cannot be read.
fn take_over(
    source: &Connection,
    target: &Connection,
    (table, columns): (&str, usize),
    key: &str,
) -> rusqlite::Result<()> {
    let places = vec!["?"; columns].join(", ");
    // What is not of the type of its column is no row of ours.
    let mut insert = target.prepare(&format!("INSERT OR IGNORE INTO {table} VALUES({places})"))?;
    for order in ["ASC", "DESC"] {
        let Ok(mut select) = source.prepare(&format!("SELECT * FROM {table} ORDER BY {key} {order}")) else {
            return Ok(());
        };
        let Ok(mut rows) = select.query([]) else { return Ok(()) };
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                // All of it was read, or nothing more of it can be from this end.
                Ok(None) => return Ok(()),
                Err(_) => break,
            };
            let values =
                (0..columns).map(|column| row.get::<_, Value>(column)).collect::<Result<Vec<_>, _>>();
            let Ok(values) = values else { break };
            match insert.execute(params_from_iter(values)) {
                Ok(_) => {}
                Err(rusqlite::Error::SqliteFailure(error, _))
                    if error.code == rusqlite::ErrorCode::ConstraintViolation => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
