//! A whole store looked at: every checksum, every row, the high-water mark. It changes nothing.

use std::path::Path;

use fanin_protocol::{Envelope, Seq};
use fanin_supervisor::journal::{JournalError, JournalReader, Row};

use crate::database::{self, Meta};
use crate::layout::Layout;
use crate::mark::Mark;
use crate::reader::StoreReader;
use crate::{failure, owner::Owner};

/// What a check found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The oldest record that is kept, and the newest.
    pub records: (Seq, Seq),
    /// Records whose checksum was compared.
    pub checked: u64,
    /// Rows of what is open or was not let go yet.
    pub rows: Vec<Row>,
    /// Who owns it now.
    pub owner: Owner,
}

/// Checks the store in a folder. Each record is shown to `see`, oldest first.
///
/// # Errors
///
/// [`JournalError::Damaged`] with the first damage; as [`StoreReader::open`].
pub fn check(dir: impl AsRef<Path>, mut see: impl FnMut(&Envelope)) -> Result<Report, JournalError> {
    let layout = Layout::of(dir.as_ref());
    let owner = Owner::of(dir.as_ref())?;
    let mut connection = database::open_to_read(&layout)?;
    let transaction = connection.transaction().map_err(|error| failure::of(&layout, &error))?;
    let meta = Meta::read(&transaction, &layout)?;
    if let Some(reached) = Mark::look(&layout)
        && (meta.log.as_ref() != Some(&reached.log) || (reached.seq > meta.head && owner == Owner::None))
    {
        let damage = format!(
            "it was written up to record {} of {}, and has {} up to record {}",
            reached.seq.0,
            reached.log,
            meta.log.as_ref().map_or_else(|| "no log".into(), ToString::to_string),
            meta.head.0
        );
        return Err(failure::damaged(&layout, damage));
    }
    let checked = database::check_log(&transaction, &layout, &meta, meta.oldest, |record| {
        see(record);
        Ok(())
    })?;
    let (rows, _) = database::live(&transaction, &layout, &meta)?;
    let sound: String = transaction
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .map_err(|error| failure::of(&layout, &error))?;
    if sound != "ok" {
        return Err(failure::damaged(&layout, format!("its database is not sound: {sound}")));
    }
    drop(transaction);
    check_retired(&layout)?;
    Ok(Report { records: (meta.oldest, meta.head), checked, rows, owner })
}

fn check_retired(layout: &Layout) -> Result<(), JournalError> {
    const PAGE: usize = 1_000;
    let reader = StoreReader::open(&layout.dir)?;
    for kind in fanin_protocol::RowKind::ALL {
        let mut from = 0;
        loop {
            let rows = reader.rows(kind, from, PAGE)?;
            let Some(last) = rows.last().map(|row| row.key) else { break };
            from = last + 1;
        }
    }
    Ok(())
}
