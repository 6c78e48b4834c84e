//! A whole store looked at: every checksum, every row, the high-water mark. It changes nothing.

use std::path::Path;

use fanin_protocol::{Envelope, RowKind, Seq};
use fanin_supervisor::journal::{JournalError, Row};
use rusqlite::Connection;

use crate::database;
use crate::hash::Sum;
use crate::layout::{Layout, places_from};
use crate::mark::Mark;
use crate::meta::Meta;
use crate::owner::Owner;
use crate::{failure, hash, journal, outputs};

/// What a check found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The oldest record that is kept, and the newest.
    pub records: (Seq, Seq),
    /// Records whose checksum was compared.
    pub checked: u64,
    /// Rows of what is open or was not let go yet.
    pub rows: Vec<Row>,
    /// Something of it was given up in a repair: its rows need not be what its records say.
    pub is_repaired: bool,
    /// Who owns it now.
    pub owner: Owner,
}

/// Checks the store in a folder. Each record is shown to `see`, oldest first.
///
/// # Errors
///
/// [`JournalError::Damaged`] with the first damage; as [`StoreReader::open`](crate::StoreReader::open).
pub fn check(dir: impl AsRef<Path>, mut see: impl FnMut(&Envelope)) -> Result<Report, JournalError> {
    let layout = Layout::of(dir.as_ref());
    let owner = Owner::of(dir.as_ref())?;
    let mut connection = database::open_to_read(&layout)?;
    let transaction = connection.transaction().map_err(|error| failure::of(&layout, &error))?;
    let meta = Meta::read(&transaction, &layout)?;
    // The mark of a store in use may be ahead of what was seen of it a moment ago.
    if owner == Owner::None
        && let Some(reached) = Mark::look(&layout)
        && let Some(lost) = journal::lost(&transaction, &layout, &meta, &reached)?
    {
        return Err(failure::damaged(&layout, lost));
    }
    let (checked, rows) = whole(&transaction, &layout, &meta, &mut see)?;
    Ok(Report {
        records: (meta.oldest, meta.head),
        checked,
        rows,
        is_repaired: layout.repaired().exists(),
        owner,
    })
}

/// Compares all that is there with what `meta` says of it, and gives the number of records and the rows of what is open.
pub(crate) fn whole(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
    see: &mut impl FnMut(&Envelope),
) -> Result<(u64, Vec<Row>), JournalError> {
    let checked = database::check_log(connection, layout, meta, meta.oldest, |record| {
        see(record);
        Ok(())
    })?;
    let (rows, _) = database::live(connection, layout, meta)?;
    let sound: String = connection
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .map_err(|error| database::unreadable(layout, &error))?;
    if sound != "ok" {
        return Err(failure::damaged(layout, format!("its database is not sound: {sound}")));
    }
    check_retired(connection, layout, meta)?;
    outputs::check(connection, layout, meta)?;
    Ok((checked, rows))
}

fn check_retired(connection: &Connection, layout: &Layout, meta: &Meta) -> Result<(), JournalError> {
    let sql = |error| database::unreadable(layout, &error);
    let mut found = Sum::default();
    let query = "SELECT place, id, body, crc FROM retired WHERE place BETWEEN ?1 AND ?2 ORDER BY place";
    let mut statement = connection.prepare(query).map_err(sql)?;
    for kind in RowKind::ALL {
        let mut rows = statement.query(places_from(kind, 0)).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let (row, crc) = database::thing(kind, row).map_err(sql)?;
            if hash::row(&row) != crc {
                let damage = format!("the row of {} {} does not fit its checksum", kind.as_str(), row.key);
                return Err(failure::damaged(layout, damage));
            }
            found.add(crc);
        }
    }
    database::compare(layout, "rows of what is over", meta.retired, found)
}
