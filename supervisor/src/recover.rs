//! What a store holds, as a state to go on from. What follows from it is decided by the machine when it opens.

use fanin_machine::{Facts, State};

use crate::journal::{JournalError, Opened};

/// The state that the rows say.
pub(crate) fn state(opened: &Opened) -> Result<State, JournalError> {
    let rows = opened.rows.iter().map(|row| (row.kind, row.key, &*row.body));
    let facts = Facts::restore(opened.log.clone(), opened.head, opened.ts_ms, rows);
    let facts = facts.map_err(|error| JournalError::Damaged {
        store: opened.log.as_ref().map(ToString::to_string).unwrap_or_default(),
        damage: error.to_string(),
    })?;
    Ok(State::recovered(facts))
}
